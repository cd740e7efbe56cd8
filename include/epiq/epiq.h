/* epiq.h: the public interface of epiq, the seam between a 16-bit activation and a low-precision matrix product.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     epiq_act_mul      y = act(gate) * up            -> codes and scales of y; y itself on request
 *     epiq_rms_norm     h = x [+ residual], y = norm  -> the same, and the new residual stream
 *     epiq_quantize     y = x                         -> codes and scales
 *     epiq_dequantize   codes and scales              -> y
 *
 * Formats e4m3 e5m2 int8 mxfp8 mxfp4 nvfp4; backends c avx2 avx512 neon cuda, identical bytes from all of them.
 * doc/spec.md holds every formula, doc/layouts.md draws the scale layouts; this file says how to call. A call has
 * three parts: `args` (inputs and arithmetic), `out` (what to write), `exec` (where it runs; changes no output byte).
 *
 * Example A: SwiGLU of bf16 [n, 2h] to e4m3 [n, h] with a static multiplier in device memory.
 *
 *     epiq_act_mul_args a = {.struct_size = sizeof a,
 *                            .x = {.data = x, .rows = n, .cols = 2 * h, .dtype = EPIQ_DTYPE_BF16},
 *                            .chain = EPIQ_CHAIN_DIRECT};
 *     epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = q, .inv_scale = s};
 *     epiq_exec e = {.struct_size = sizeof e, .backend = EPIQ_BACKEND_CUDA, .stream = stream};
 *     epiq_status status = epiq_act_mul(&a, &o, &e);
 *     if (status != EPIQ_OK) {
 *         char why[512];
 *         epiq_explain_act_mul(&a, &o, &e, why, sizeof why);
 *     }
 *
 * Example B: residual add + Gemma RMSNorm to NVFP4 with 128x4 scales, residual in place, y kept.
 *
 *     epiq_rms_norm_args a = {.struct_size = sizeof a, .eps = 1e-6f,
 *                             .x = {.data = x, .rows = m, .cols = h, .dtype = EPIQ_DTYPE_BF16},
 *                             .residual = r, .residual_out = r, .weight = w, .weight_bias = 1, .y_out = y};
 *     epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_NVFP4, .layout = EPIQ_LAYOUT_TILE128X4,
 *                      .codes_out = q, .scale_out = sf, .inv_scale = gs};
 *     epiq_exec e = {.struct_size = sizeof e, .backend = EPIQ_BACKEND_CUDA, .stream = stream};
 *     epiq_sizes z = {.struct_size = sizeof z};                   // z.codes_bytes, z.scale_bytes, z.workspace_bytes
 *     epiq_status status = epiq_check_rms_norm(&a, &o, &e, &z);   // needs no buffers: call it before allocating
 *     if (status == EPIQ_OK) status = epiq_rms_norm(&a, &o, &e);
 *
 * Rules that hold everywhere
 *
 * Names     T is the dtype of x, RN_T rounds to it; y is [M, H], with G scales a row. `scale` turns codes into values
 *           (value = code * scale), `inv_scale` multiplies values before rounding; there is no third word.
 * Zero      0 (NULL) in a field means the default written beside it, so `= {0}` and struct_size start any struct.
 *           Where 0 is itself a sensible value it is the default (weight_bias, up_offset). Where no default is safe
 *           the field is required and 0 is refused (format, x.dtype, eps). No enum uses 0 for a choice.
 * Growth    Set struct_size to sizeof the struct. Later versions only append fields whose 0 means "as before": the
 *           library reads a shorter, older struct as if zeros followed, and accepts a longer one while the part that
 *           it does not know is zero (else EPIQ_ERROR_STRUCT). No struct has more than 4096 bytes. `reserved` is 0.
 *           No struct has padding; epiq_matrix never grows. Values of enums are never changed or reused.
 * Memory    The caller owns and allocates everything. The structs are host memory, read only during the call. Every
 *           other pointer in args and out, single fp32 scales included, is memory of the backend: host memory for the
 *           CPU backends; for cuda, memory that the device can reach, read and written when the stream gets there. A
 *           captured CUDA graph keeps the addresses and reads the values anew at each replay. `const` pointers are
 *           read; the others, named *_out, are written. Nothing else is touched: no byte around or between rows.
 * Shape     Row-major. rows 0 to 2^31 - 1; columns of y 1 to 2^28, a multiple of 16 for nvfp4, of 32 for mxfp8 and
 *           mxfp4 (or padded_cols is). rows and cols count elements, strides and sizes count BYTES. Every
 *           *_stride is the distance between the starts of two rows (lines); 0 = dense; negative or shorter than a
 *           row is refused. Elements inside a row are adjacent, vectors (weight) dense.
 * Alignment None is asked of any buffer or stride; a float pointer is 4-byte aligned, as C wants it. Fast paths need
 *           addresses and strides that are multiples of 16 bytes (32 on sm_100 and later); others give the same bytes.
 * Aliasing  Allowed, exactly and with equal strides: residual_out == residual, y_out == x.data in epiq_rms_norm.
 *           Nothing else may overlap a buffer that is written; what the addresses show is refused. Rows of one buffer
 *           may lie in the gaps between the rows of another (column slices of one matrix).
 * Order     A call allocates nothing, takes no lock, waits for nothing (but for the caller's executor), prints nothing,
 *           reads no environment. All functions may run in several threads at once, with outputs and
 *           workspaces of their own. CPU calls set the floating-point state they need and restore the caller's; cuda
 *           calls do so with the current device, work on the given stream alone, and can be captured.
 * Errors    A status other than EPIQ_OK and below 60 means: nothing was launched or written. A parameter takes effect
 *           or the call is refused. rows == 0 is EPIQ_OK: arguments are checked, nothing is launched or written (not
 *           even a scale or padding), no buffer is required and no backend is asked. doc/spec.md lists the rules in
 *           the order in which they are checked; the first that fails gives the status.
 */
#ifndef EPIQ_H
#define EPIQ_H

#include <stddef.h>
#include <stdint.h>

#define EPIQ_VERSION 100     /* major * 10000 + minor * 100 + patch */
#define EPIQ_SPEC_REVISION 1 /* of doc/spec.md: libraries of equal revision write equal bytes */

#if defined(__GNUC__)
#define EPIQ_API __attribute__((visibility("default")))
#define EPIQ_CHECKED __attribute__((warn_unused_result))
#else
#define EPIQ_API
#define EPIQ_CHECKED
#endif
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define EPIQ_INT32 : int32_t
#else
#define EPIQ_INT32
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Enumerations. Each owns a block of 100 numbers, so a value put into another's field is refused, never misread.
 * Its word (epiq_word) is the tail of its name in lower case: the words of the command line, Python and the plugin. */

typedef enum epiq_status EPIQ_INT32 {
    EPIQ_OK = 0,
    /* the arguments; the same call fails on every machine */
    EPIQ_ERROR_STRUCT = 1,       // a struct is NULL, has no struct_size, or sets a field that this library lacks
    EPIQ_ERROR_VALUE = 2,        // a field is missing, or holds a value outside its list or range
    EPIQ_ERROR_CONFLICT = 3,     // two fields contradict each other, or a field would have no effect
    EPIQ_ERROR_SHAPE = 4,        // rows, cols or group do not suit the operation or the format
    EPIQ_ERROR_STRIDE = 5,       // a stride is negative or shorter than its row
    EPIQ_ERROR_BUFFER = 6,       // a required buffer is NULL
    EPIQ_ERROR_OVERLAP = 7,      // two buffers overlap in a way not allowed above
    EPIQ_ERROR_WORKSPACE = 8,    // workspace NULL or smaller than epiq_sizes.workspace_bytes
    EPIQ_ERROR_UNSUPPORTED = 20, // a meaningful combination that this version does not offer
    /* the machine */
    EPIQ_ERROR_BACKEND = 40,     // backend not in this build, or not usable on this CPU, GPU or driver
    EPIQ_ERROR_DEVICE = 41,      // no such device, or not the device of the stream
    /* what happened at run time; outputs are undefined */
    EPIQ_ERROR_CUDA = 60,        // the CUDA runtime returned an error, perhaps one left by earlier work
    EPIQ_ERROR_SELF_TEST = 61    // epiq_self_test found a differing byte
} epiq_status;

typedef enum epiq_backend EPIQ_INT32 { // 0: the fastest CPU backend usable here; cuda is never chosen by itself
    EPIQ_BACKEND_C = 101,
    EPIQ_BACKEND_AVX2 = 102,
    EPIQ_BACKEND_AVX512 = 103,
    EPIQ_BACKEND_NEON = 104,
    EPIQ_BACKEND_CUDA = 105
} epiq_backend;

typedef enum epiq_dtype EPIQ_INT32 {
    EPIQ_DTYPE_F32 = 201,
    EPIQ_DTYPE_F16 = 202,
    EPIQ_DTYPE_BF16 = 203,
    EPIQ_DTYPE_E4M3 = 211, // the rest describe stored scales only: one byte
    EPIQ_DTYPE_E8M0 = 212, // one byte, 2^(b - 127), 255 = NaN
    EPIQ_DTYPE_I32 = 213   // four e8m0 bytes, lowest group in the lowest byte
} epiq_dtype;

typedef enum epiq_format EPIQ_INT32 {
    EPIQ_FORMAT_E4M3 = 301,
    EPIQ_FORMAT_E5M2 = 302,
    EPIQ_FORMAT_INT8 = 303,
    EPIQ_FORMAT_MXFP8 = 304, // e4m3 elements
    EPIQ_FORMAT_MXFP4 = 305, // e2m1 elements, two a byte, even column in the low nibble
    EPIQ_FORMAT_NVFP4 = 306  // the same
} epiq_format;

typedef enum epiq_grain EPIQ_INT32 { // how many elements share a scale
    EPIQ_GRAIN_TENSOR = 401,
    EPIQ_GRAIN_TOKEN = 402, // one row
    EPIQ_GRAIN_GROUP = 403  // `group` adjacent columns of one row
} epiq_grain;

typedef enum epiq_layout EPIQ_INT32 { // the stored array of scales
    EPIQ_LAYOUT_ROW = 501,          // [M, G]
    EPIQ_LAYOUT_LINEAR = 501,       // the word that block formats use for it
    EPIQ_LAYOUT_COL = 502,          // [G, M]
    EPIQ_LAYOUT_COL_ALIGNED = 503,  // [G, round_up(M, 4)]
    EPIQ_LAYOUT_PACKED_UE8M0 = 504, // [ceil(G / 4), round_up(M, 4)] of EPIQ_DTYPE_I32
    EPIQ_LAYOUT_TILE128X4 = 505,    // [round_up(M, 128), round_up(G, 4)] in tiles of 512 bytes
    EPIQ_LAYOUT_TILE8X4 = 506       // [round_up(M, 8), round_up(G, 4)] in tiles of 32 bytes
} epiq_layout;

typedef enum epiq_act EPIQ_INT32 {
    EPIQ_ACT_SILU = 601,
    EPIQ_ACT_GELU_TANH = 602,
    EPIQ_ACT_GELU_ERF = 603,
    EPIQ_ACT_RELU = 604,
    EPIQ_ACT_RELU2 = 605,
    EPIQ_ACT_IDENTITY = 606
} epiq_act;

typedef enum epiq_order EPIQ_INT32 { // where gate and up lie in a row of 2H elements
    EPIQ_ORDER_GATE_UP = 701,        // gate in the first half
    EPIQ_ORDER_UP_GATE = 702,
    EPIQ_ORDER_INTERLEAVED = 703,    // gate in even, up in odd columns
    EPIQ_ORDER_SEPARATE = 704,       // x holds the gate [M, H], `up` the other half
    EPIQ_ORDER_UNGATED = 705         // x is [M, H], y = act(x): relu2 and gelu MLPs; no up_offset
} epiq_order;

typedef enum epiq_chain EPIQ_INT32 { // whose rounding points; sets act_round, sum_round, norm_round, nothing else
    EPIQ_CHAIN_VLLM = 801,           // act twice | norm: weight_bias 0 and weight of dtype T: sum T, twice;
                                     //                 otherwise sum fp32, once (Gemma: the second seed)
    EPIQ_CHAIN_FLASHINFER = 802,     // act once  | norm: sum fp32, once
    EPIQ_CHAIN_ALLREDUCE = 803,      // (refused) | norm: sum T, once
    EPIQ_CHAIN_DIRECT = 804          // act none  | norm: sum fp32, none
} epiq_chain;

typedef enum epiq_round EPIQ_INT32 { // how often a value is rounded to T before the quantizer
    EPIQ_ROUND_NONE = 901,
    EPIQ_ROUND_ONCE = 902,
    EPIQ_ROUND_TWICE = 903
} epiq_round;

typedef enum epiq_sum_round EPIQ_INT32 { // what variance and norm see of x + residual
    EPIQ_SUM_ROUND_FP32 = 1001,
    EPIQ_SUM_ROUND_T = 1002
} epiq_sum_round;

typedef enum epiq_mx_round EPIQ_INT32 { // amax -> E8M0 exponent
    EPIQ_MX_ROUND_CEIL = 1101,
    EPIQ_MX_ROUND_FLOOR = 1102, // OCP
    EPIQ_MX_ROUND_VLLM = 1103   // up from mantissa 1.75; mxfp4 only
} epiq_mx_round;

typedef enum epiq_nvfp4 EPIQ_INT32 { // block multiplier
    EPIQ_NVFP4_VLLM = 1201,          // byte-equal to the default quantizers of vLLM and FlashInfer
    EPIQ_NVFP4_IEEE = 1202           // TransformerEngine's
} epiq_nvfp4;

typedef enum epiq_nan EPIQ_INT32 {
    EPIQ_NAN_PROPAGATE = 1301, // NaN element: fp8 code 0x7F; int8 0; formats without a NaN code: NaN block scale
    EPIQ_NAN_SATURATE = 1302   // NaN element: largest positive code
} epiq_nan;

typedef enum epiq_pad_rows EPIQ_INT32 { // rows that a scale layout has beyond M; padding columns are always zeroed
    EPIQ_PAD_ROWS_ZERO = 1401,
    EPIQ_PAD_ROWS_KEEP = 1402           // not written
} epiq_pad_rows;

typedef enum epiq_pdl EPIQ_INT32 { // programmatic dependent launch (cuda). Kernels wait before reading in every mode
    EPIQ_PDL_OFF = 1501,           // ordinary launch, no trigger
    EPIQ_PDL_LATE = 1502,          // let the next kernel start after our last store
    EPIQ_PDL_EARLY = 1503          // let it start at once; it must itself wait before it reads our output
} epiq_pdl;

enum { EPIQ_CONST_WEIGHT = 1, EPIQ_CONST_SCALES = 2 }; // bits of epiq_exec.constants

#define EPIQ_DEVICE(ordinal) (100000 + (ordinal)) /* device 0 has a name of its own: a bare number is refused */
#define EPIQ_UNKNOWN (-1) /* rows or cols in an epiq_check_* call before the shape is known */

/* ---- Structs ---------------------------------------------------------------------------------------------------- */

typedef struct epiq_matrix { // an input matrix
    const void *data;        // element (r, c) at data + r * row_stride + c * sizeof(dtype)
    int64_t rows, cols;      // elements
    int64_t row_stride;      // bytes; 0: cols * sizeof(dtype)
    epiq_dtype dtype;        // required: f32, f16, bf16
    int32_t reserved;
} epiq_matrix;

/* What to write for a y of [M, H], and the quantizer that makes it. By format, grain and where scales come from:
 *
 *     e4m3 e5m2 int8   tensor, static    scale or inv_scale: one fp32 that is read          scale_out NULL
 *     e4m3 e5m2        tensor, dynamic   needs workspace                                    scale_out f32 [1]
 *     e4m3 e5m2 int8   token                                                                scale_out f32 [M]
 *     e4m3 e5m2        group             group 16, 32, 64, 128 columns, the last may be short   scale_out layout of f32
 *                                        (packed_ue8m0: of i32)
 *     mxfp8 mxfp4      group             32 columns                                         scale_out layout of e8m0
 *     nvfp4            group             16 columns, inv_scale read                         scale_out layout of e4m3
 *     nvfp4            group             16 columns, inv_scale_out written; workspace       scale_out layout of e4m3
 *
 * codes_out: [M, H], one byte an element; [M, H / 2] bytes for mxfp4 and nvfp4. Codes and scales are those of the named
 * quantizer run alone on the y that goes to y_out (with rounding `none`: on that y before its rounding to T). */
typedef struct epiq_output {
    uint32_t struct_size;
    epiq_format format;         // required
    epiq_grain grain;           // 0: group for mx and nvfp4; else tensor if scale or inv_scale is given, else token
    int32_t group;              // columns per scale in grain group; 0: 128, or the block size of the format
    epiq_layout layout;         // of scale_out; 0: row. col*, packed: grain group of e4m3, e5m2; tile*: mx and nvfp4
    epiq_dtype scale_dtype;     // of scale_out; 0: as in the table, i32 for packed_ue8m0; others are refused so far
    int32_t ue8m0;              // 1: e4m3, e5m2 groups get power-of-two scales, rounded up; implied by packed_ue8m0
    epiq_mx_round mx_round;     // 0: ceil
    epiq_nvfp4 nvfp4;           // 0: vllm
    epiq_nan nan;               // 0: propagate
    epiq_pad_rows pad_rows;     // 0: zero
    int32_t reserved;
    void *codes_out;            // required
    int64_t codes_row_stride;   // bytes
    void *scale_out;            // required unless static tensor
    int64_t scale_stride;       // bytes between lines of the stored array (rows of `row`, groups of `col`, words of
                                // `packed_ue8m0`); 0: dense. Tiles: 0
    const float *scale;         // static tensor scale: codes = RN(y * RN(1 / scale)). Give this or inv_scale
    const float *inv_scale;     // static multiplier: codes = RN(y * inv_scale); nvfp4: the second level, 448 * 6 / amax
    float *inv_scale_out;       // nvfp4: compute inv_scale from the amax of all of y, use it and store it here
    const float *scale_ub;      // e4m3, e5m2 token: upper bound on the row's amax; NULL: none
    int64_t padded_cols;        // 0: H. Else codes (and scales) cover so many columns, those from H on as if y were +0:
                                // the multiple that the consuming matrix product wants; lifts the block-size rule on H
} epiq_output;

typedef struct epiq_act_mul_args {
    uint32_t struct_size;
    epiq_act act;         // 0: silu
    epiq_matrix x;        // [M, 2H], H = x.cols / 2; odd is refused. separate, ungated: [M, H]. y is [M, H]
    epiq_order order;     // 0: gate_up
    epiq_chain chain;     // 0: vllm
    epiq_round act_round; // 0: the chain's, else wins over it. twice: RN_T(RN_T(act) * up); once: RN_T(act * up)
    float alpha;          // silu: gate * sigmoid(alpha * gate), 2^-100 to 2^100; 0: 1. Other activations: 0
    float limit;          // gate = min(gate, limit), up = clamp(up, -limit, limit), before the activation; 0: no limit
    float limit_after;    // the same limit on up, but on act(gate) instead of gate; 0: no limit. Not with limit
    float up_offset;      // added to up after its limit: 0, or 1 for swiglu-oai; finite
    int32_t reserved;
    const void *up;       // order separate: T [M, H]; else NULL
    int64_t up_row_stride; // bytes
    void *y_out;          // y as T [M, H]; NULL: not wanted
    int64_t y_row_stride; // bytes
} epiq_act_mul_args;

typedef struct epiq_rms_norm_args {
    uint32_t struct_size;
    float eps;                       // required, > 0, added to the mean of squares
    epiq_matrix x;                   // [M, H]
    const void *residual;            // T [M, H]; NULL: none, h = x
    int64_t residual_row_stride;     // bytes
    void *residual_out;              // RN_T(x + residual), may be `residual`; NULL: not stored. NULL without residual
    int64_t residual_out_row_stride; // bytes
    const void *weight;              // [H], required
    epiq_dtype weight_dtype;         // 0: T; or f32
    float weight_bias;               // y = norm(h) * (weight_bias + weight), the sum in fp32: 0 plain, 1 Gemma; finite
    epiq_chain chain;                // 0: vllm
    epiq_sum_round sum_round;        // 0: the chain's, else wins over it. Without residual both are the same
    epiq_round norm_round;           // 0: the chain's, else wins over it
    int32_t reserved;
    void *y_out;                     // y as T [M, H], may be x.data; NULL: not wanted
    int64_t y_row_stride;            // bytes
} epiq_rms_norm_args;

typedef struct epiq_quantize_args {
    uint32_t struct_size;
    int32_t reserved;
    epiq_matrix x; // [M, H]
} epiq_quantize_args;

typedef struct epiq_dequantize_args { // as in epiq_output and epiq_sizes where not said otherwise
    uint32_t struct_size;
    epiq_format format;
    epiq_grain grain;         // required but for mx and nvfp4
    int32_t group;
    epiq_layout layout;
    epiq_dtype scale_dtype;
    int64_t rows, cols;       // of y, elements
    const void *codes;        // as written to codes_out
    int64_t codes_row_stride; // bytes
    const void *scale;        // as written to scale_out, or one fp32 for grain tensor
    int64_t scale_stride;     // bytes; not with grain tensor by inv_scale, as scale_dtype
    const float *inv_scale;   // nvfp4: required; grain tensor: instead of scale
    void *y_out;              // required, [rows, cols]
    int64_t y_row_stride;     // bytes
    epiq_dtype y_dtype;       // required: f32, f16, bf16
    int32_t reserved;
    int64_t padded_cols;      // as given to the call that wrote codes and scales; 0: cols
} epiq_dequantize_args;

/* Runs task(work, i) once for each i in [0, tasks), in any order and on any threads, and returns when all are done. */
typedef void (*epiq_task)(void *work, int32_t index);
typedef void (*epiq_executor)(void *executor_data, int32_t tasks, epiq_task task, void *work);

/* Where and how a call runs; no field changes an output byte. NULL: all defaults. A CPU backend refuses stream and
 * device (the usual cause is a forgotten `backend`); other fields that do not concern the backend are ignored. */
typedef struct epiq_exec {
    uint32_t struct_size;
    epiq_backend backend;    // 0: the fastest CPU backend usable here
    void *stream;            // cuda: cudaStream_t or CUstream; NULL: the default stream
    int32_t device;          // cuda: EPIQ_DEVICE(n); 0: the stream's, for the default stream the current one
    int32_t tasks;           // CPU: into how many tasks to split at most; 0: 1 without an executor, else by size
    epiq_executor executor;  // CPU: the caller's thread pool, or epiq_pool_executor; NULL: the calling thread
    void *executor_data;     // its first argument, or the epiq_pool
    void *workspace;         // memory of the backend, contents irrelevant before and after; NULL if none is needed.
    int64_t workspace_bytes; // Calls in order on one stream may share it, concurrent calls may not
    epiq_pdl pdl;            // cuda; 0: the measured choice for the shape
    uint32_t constants;      // cuda: EPIQ_CONST_* bits: inputs that no unfinished work writes, free to read early
} epiq_exec;

/* Answer of epiq_check_*: the resolved choices and the bytes of every buffer, from its first byte to its last at the
 * strides given. What hangs on an unknown dimension is EPIQ_UNKNOWN. Set struct_size; EPIQ_OK writes the rest. */
typedef struct epiq_sizes {
    uint32_t struct_size;
    epiq_grain grain;
    int32_t group;            // columns per scale for grain group, else 0
    epiq_layout layout;
    epiq_dtype scale_dtype;
    int32_t reserved;
    int64_t rows, cols;       // of y, elements
    int64_t groups;           // scales that a row has (of padded_cols, without the layout's padding); 0 if none
    int64_t codes_row_bytes;  // of one row, without a stride's gap
    int64_t codes_bytes;
    int64_t scale_shape[2];   // of the stored array, in elements of scale_dtype, padding included; 0 if none is written
    int64_t scale_stride;     // bytes between its lines
    int64_t scale_bytes;
    int64_t y_bytes;          // 0 where not wanted, as the next
    int64_t residual_bytes;
    int64_t workspace_bytes;  // never falls as rows grow, so the largest shape serves all
} epiq_sizes;

/* ---- Operations. Each has two pure twins with the same arguments ------------------------------------------------
 *
 * epiq_OP            does the work. `out` may be NULL when y_out is given: then only y (and the residual) is written.
 * epiq_check_OP      whether these values are a valid call. Buffers need not exist: a required pointer may be NULL, an
 *                    optional one counts as present if it is not NULL, none is read or compared; rows and cols may be
 *                    EPIQ_UNKNOWN, and rules that need them are skipped. Asks no driver: the same answer on every
 *                    machine, so it serves shape functions, plugins and tests. sizes: NULL if not wanted.
 * epiq_explain_OP    the same in words: for a refusal the field, the rule and what is allowed; otherwise the
 *                    arithmetic, the sizes, and the buffers still missing. Also reports overlaps and the workspace.
 *
 * Functions that write text end it with '\0' within `bytes` and return the length of the whole text without it, as
 * snprintf does; text may be NULL if bytes is 0. */

EPIQ_API EPIQ_CHECKED epiq_status epiq_act_mul(const epiq_act_mul_args *args, const epiq_output *out,
                                               const epiq_exec *exec);
EPIQ_API EPIQ_CHECKED epiq_status epiq_check_act_mul(const epiq_act_mul_args *args, const epiq_output *out,
                                                     const epiq_exec *exec, epiq_sizes *sizes);
EPIQ_API size_t epiq_explain_act_mul(const epiq_act_mul_args *args, const epiq_output *out, const epiq_exec *exec,
                                     char *text, size_t bytes);

EPIQ_API EPIQ_CHECKED epiq_status epiq_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out,
                                                const epiq_exec *exec);
EPIQ_API EPIQ_CHECKED epiq_status epiq_check_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out,
                                                      const epiq_exec *exec, epiq_sizes *sizes);
EPIQ_API size_t epiq_explain_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out, const epiq_exec *exec,
                                      char *text, size_t bytes);

EPIQ_API EPIQ_CHECKED epiq_status epiq_quantize(const epiq_quantize_args *args, const epiq_output *out,
                                                const epiq_exec *exec);
EPIQ_API EPIQ_CHECKED epiq_status epiq_check_quantize(const epiq_quantize_args *args, const epiq_output *out,
                                                      const epiq_exec *exec, epiq_sizes *sizes);
EPIQ_API size_t epiq_explain_quantize(const epiq_quantize_args *args, const epiq_output *out, const epiq_exec *exec,
                                      char *text, size_t bytes);

EPIQ_API EPIQ_CHECKED epiq_status epiq_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec);
EPIQ_API EPIQ_CHECKED epiq_status epiq_check_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec,
                                                        epiq_sizes *sizes);
EPIQ_API size_t epiq_explain_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec, char *text,
                                        size_t bytes);

/* ---- Questions. Strings returned live as long as the library ---------------------------------------------------- */

/* Byte offset from scale_out of the scale of (row, group), by the answer of a successful check; grain token has group
 * 0 alone, dynamic tensor (0, 0) alone. -1 if there is no such scale. */
EPIQ_API int64_t epiq_scale_offset(const epiq_sizes *sizes, int64_t row, int64_t group);

/* One sentence about a status; never NULL. For the field at fault use epiq_explain_*. */
EPIQ_API const char *epiq_status_string(epiq_status status);

/* The word of any value of any enum above ("e4m3", "gate_up"; of a status "shape"), NULL if there is none. The reverse:
 * kind is the name of a field ("format", "act_round", ...); '-' is '_' in a word, case is ignored; 0 if there is none.
 * epiq_value(kind, NULL) is the start of the kind's block: its words are among epiq_word(start + 1 ... start + 99). */
EPIQ_API const char *epiq_word(int32_t value);
EPIQ_API int32_t epiq_value(const char *kind, const char *word);

/* A thread pool for callers who have none: created and destroyed explicitly, usable from several threads, idle
 * threads sleep. threads 0: every core we may run on. NULL if it cannot be had. After fork the child makes its own. */
typedef struct epiq_pool epiq_pool;
EPIQ_API epiq_pool *epiq_pool_create(int32_t threads);
EPIQ_API void epiq_pool_destroy(epiq_pool *pool);
EPIQ_API void epiq_pool_executor(void *pool, int32_t tasks, epiq_task task, void *work);

/* The library in use (compare with EPIQ_VERSION, EPIQ_SPEC_REVISION); and what was built: backends, GPU images. */
EPIQ_API int32_t epiq_version(void);
EPIQ_API int32_t epiq_spec_revision(void);
EPIQ_API const char *epiq_build_info(void);

/* Can this backend run here? EPIQ_OK, EPIQ_ERROR_BACKEND or EPIQ_ERROR_DEVICE. text: the reason if not; otherwise what
 * it is: the CPU features, or the GPU with the conversions it does in hardware and in software (same bytes).
 * backend 0: the CPU backend that a call would get. device: cuda EPIQ_DEVICE(n), 0 the current one; counting n up to
 * the first EPIQ_ERROR_DEVICE lists all GPUs. The first cuda call per device loads its kernels and may take
 * milliseconds: make it this one, before latency counts and before capturing a graph. */
EPIQ_API EPIQ_CHECKED epiq_status epiq_backend_usable(epiq_backend backend, int32_t device, char *text, size_t bytes);

/* Proves on this machine that the hardware shortcuts of a backend give the bytes of the spec (exhaustive, under a
 * second). The only function that allocates memory and waits for a device; not for use during graph capture. */
EPIQ_API EPIQ_CHECKED epiq_status epiq_self_test(epiq_backend backend, int32_t device, char *text, size_t bytes);

/* 64-bit little-endian targets with 32-bit enums only: elsewhere the structs would differ. */
typedef char epiq_abi_is_lp64[(sizeof(void *) == 8 && sizeof(epiq_status) == 4 && sizeof(epiq_pdl) == 4) ? 1 : -1];

#ifdef __cplusplus
}
#endif

#endif
