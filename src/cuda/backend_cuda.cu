/* backend_cuda.cu: from a plan to launches: arguments, the kernel and its
 * shape, the device, errors. SPDX-License-Identifier: Apache-2.0
 *
 * No byte depends on what is chosen here. */
extern "C" {
#include "core/backend.h"
}

#include "args.h"
#include "launch.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>

/* ---- Devices ---- */

typedef CUresult (*stream_get_ctx)(CUstream, CUcontext *);
typedef CUresult (*ctx_push)(CUcontext);
typedef CUresult (*ctx_pop)(CUcontext *);

/* A function of the driver, looked up once; `cache` is written with one value
 * only, by whoever comes first. */
static void *driver_function(const char *name, void **cache)
{
    void *function = __atomic_load_n(cache, __ATOMIC_ACQUIRE);
    cudaDriverEntryPointQueryResult found;
    if (function != NULL)
        return function;
    if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
        return NULL;
    __atomic_store_n(cache, function, __ATOMIC_RELEASE);
    return function;
}

static void *stream_get_ctx_found, *ctx_push_found, *ctx_pop_found;

/* What a launch has to know of a device. */
typedef struct device_facts {
    int capability; /* major * 10 + minor */
    int fast;       /* it has an image of the kernels in X_fast.cu, which our PTX has not */
    int multiprocessors;
    int shared; /* bytes of shared memory that a block may ask for */
} device_facts;

/* Of the current device; zeros if they cannot be had. Read once; whoever comes first writes, and only one value. */
static device_facts facts(void)
{
    static device_facts known[64];
    device_facts f = {};
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        return f;
    device_facts *k = device < 64 ? &known[device] : NULL;
    if (k != NULL && __atomic_load_n(&k->capability, __ATOMIC_ACQUIRE) != 0)
        return *k;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&f.multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&f.shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
        return f;
    f.capability = major * 10 + minor;
    cudaFuncAttributes attributes;
    const cuda_kernel one = {CUDA_LEAN_KERNEL, AR_BF16, CUDA_E4M3, AR_TENSOR, CUDA_ANY_ACT, AR_ROUND_NONE, 1};
    f.fast = cudaFuncGetAttributes(&attributes, epiqi_cuda_quantize_fast_kernel(&one)) == cudaSuccess;
    if (!f.fast)
        (void)cudaGetLastError();
    if (k != NULL) {
        __atomic_store_n(&k->multiprocessors, f.multiprocessors, __ATOMIC_RELAXED);
        __atomic_store_n(&k->shared, f.shared, __ATOMIC_RELAXED);
        __atomic_store_n(&k->fast, f.fast, __ATOMIC_RELAXED);
        __atomic_store_n(&k->capability, f.capability, __ATOMIC_RELEASE);
    }
    return f;
}

/* What a call changed of the caller's current device. The device of a stream is
 * that of its context: the runtime's own question for it is refused during
 * capture by some drivers. */
typedef struct device_state {
    int changed; /* 1: cudaSetDevice, 2: a context pushed */
    int previous;
} device_state;

static cudaError_t enter_device(const epiq_exec *exec, device_state *state)
{
    state->changed = 0;
    if (exec->device != 0) {
        cudaError_t error = cudaGetDevice(&state->previous);
        if (error == cudaSuccess && state->previous != exec->device - EPIQ_DEVICE(0)) {
            error = cudaSetDevice(exec->device - EPIQ_DEVICE(0));
            state->changed = error == cudaSuccess;
        }
        return error;
    }
    uintptr_t handle = (uintptr_t)exec->stream; /* 0, 1, 2: the default streams, of the current device */
    if (handle <= 2)
        return cudaSuccess;
    stream_get_ctx get = (stream_get_ctx)driver_function("cuStreamGetCtx", &stream_get_ctx_found);
    ctx_push push = (ctx_push)driver_function("cuCtxPushCurrent", &ctx_push_found);
    CUcontext context = NULL;
    if (get == NULL || push == NULL || get((CUstream)exec->stream, &context) != CUDA_SUCCESS)
        return cudaErrorInvalidResourceHandle;
    if (push(context) != CUDA_SUCCESS)
        return cudaErrorInvalidResourceHandle;
    state->changed = 2;
    return cudaSuccess;
}

static void leave_device(const device_state *state)
{
    if (state->changed == 1)
        (void)cudaSetDevice(state->previous);
    if (state->changed == 2) {
        ctx_pop pop = (ctx_pop)driver_function("cuCtxPopCurrent", &ctx_pop_found);
        CUcontext context;
        if (pop != NULL)
            (void)pop(&context);
    }
}

/* Whether the current device has an image of ours: asked of the driver, which
 * knows what the binary holds. */
static epiq_status device_usable(int device, epiqi_text *text)
{
    cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error == cudaSuccess && p.major < 8) {
        epiqi_print(text, "device %d, %s, has compute capability %d.%d; 8.0 is needed", device, p.name, p.major,
                    p.minor);
        return EPIQ_ERROR_BACKEND;
    }
    cudaFuncAttributes attributes;
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&attributes, epiqi_cuda_dequantize_kernel(AR_BF16));
    if (error != cudaSuccess) {
        epiqi_print(text, "device %d: %s (%d)", device, cudaGetErrorString(error), (int)error);
        (void)cudaGetLastError();
        return EPIQ_ERROR_BACKEND;
    }
    epiqi_print(text,
                "device %d, %s, compute capability %d.%d; code for sm_%d%s; e4m3 and "
                "e5m2 %s, e2m1 %s, rcp~ %s",
                device, p.name, p.major, p.minor, attributes.binaryVersion,
                attributes.binaryVersion == attributes.ptxVersion ? "" : " (translated)",
                p.major * 10 + p.minor >= 89 ? "in hardware" : "in software",
                attributes.binaryVersion >= 100 ? "in hardware" : "in software",
                attributes.binaryVersion == 90 ? "in hardware" : "in software");
    return EPIQ_OK;
}

extern "C" epiq_status epiqi_cuda_usable(int32_t device, epiqi_text *text)
{
    int count = 0, current = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        epiqi_print(text, "no usable CUDA device: %s (%d)", cudaGetErrorString(error), (int)error);
        (void)cudaGetLastError();
        return device > EPIQ_DEVICE(0) ? EPIQ_ERROR_DEVICE : EPIQ_ERROR_BACKEND;
    }
    if (cudaGetDevice(&current) != cudaSuccess)
        current = 0;
    int wanted = device == 0 ? current : device - EPIQ_DEVICE(0);
    if (wanted < 0 || wanted >= count) {
        epiqi_print(text, "no device %d; there are %d", wanted, count);
        return EPIQ_ERROR_DEVICE;
    }
    if (wanted != current && cudaSetDevice(wanted) != cudaSuccess) {
        epiqi_print(text, "device %d cannot be used", wanted);
        return EPIQ_ERROR_DEVICE;
    }
    epiq_status status = device_usable(wanted, text);
    if (wanted != current)
        (void)cudaSetDevice(current);
    return status;
}

extern "C" int32_t epiqi_cuda_set_device(int32_t device)
{
    int current = 0;
    if (cudaGetDevice(&current) != cudaSuccess)
        current = 0;
    if (device != 0)
        (void)cudaSetDevice(device - EPIQ_DEVICE(0));
    return EPIQ_DEVICE(current);
}

/* The words of an error that the runtime holds, for epiq_explain_*. */
extern "C" void epiqi_cuda_last_error(epiqi_text *text)
{
    cudaError_t error = cudaPeekAtLastError();
    if (error != cudaSuccess)
        epiqi_print(text, "  the CUDA runtime holds an error: %s (%d)\n", cudaGetErrorString(error), (int)error);
}

/* On these GPUs rcp.approx.ftz.f32 was compared with rcp~ for all 2^32 inputs, and
 * cuda_quick_silu with silu for all bf16; others take the models. */
extern "C" int epiqi_cuda_rcp_unit(void)
{
    return facts().capability == 90;
}

/* ---- Arguments ---- */

static cuda_rows rows_of(const epiqi_rows_at *m)
{
    cuda_rows r = {(char *)m->data, m->stride};
    return r;
}

static int dtype_index(epiq_dtype dtype)
{
    return dtype == EPIQ_DTYPE_F32 ? AR_F32 : dtype == EPIQ_DTYPE_F16 ? AR_F16 : AR_BF16;
}

/* Whether what CUDA_SILU does is enough. */
static int plain_silu(const epiqi_plan *p)
{
    return p->op == EPIQI_ACT_MUL && p->dtype != EPIQ_DTYPE_F32 && p->act == EPIQ_ACT_SILU &&
           p->order != EPIQ_ORDER_UNGATED && p->order != EPIQ_ORDER_INTERLEAVED && p->alpha == 1.0f &&
           p->limit == 0.0f && p->limit_after == 0.0f && p->up_offset == 0.0f;
}

static int aligned(const epiqi_rows_at *m, int64_t bytes)
{
    return m->data == NULL || ((uintptr_t)m->data % bytes == 0 && m->stride % bytes == 0);
}

static_assert(offsetof(cuda_args, scales) + offsetof(cuda_scales, shift) <= 256, "what lean_kernel needs comes first");

static int64_t scale_offset(const epiqi_plan *p, int64_t row, int64_t group)
{
    return epiqi_scale_offset(p->layout, p->scales.stride, p->array.bytes, row, group);
}

static void fill_scales(const epiqi_plan *p, cuda_scales *s)
{
    s->data = (char *)p->scales.data;
    for (int i = 0; i < 4; i++) {
        static const int64_t rows[4] = {128, 32, 8, 1};
        s->row[i] = scale_offset(p, rows[i], 0);
    }
    s->bytes = p->array.bytes == 4 && p->layout != EPIQ_LAYOUT_PACKED_UE8M0 ? 4 : 1;
    s->shift = s->bytes == 1 && scale_offset(p, 0, 1) == 1 ? 2 : 0; /* bytes of neighbouring groups are neighbours */
    s->group = scale_offset(p, 0, (int64_t)1 << s->shift);
    s->groups = p->groups;
    s->stored = epiqi_round_up(p->groups, p->array.group_multiple);
    s->pad_end = p->pad_rows == EPIQ_PAD_ROWS_ZERO && p->grain == EPIQ_GRAIN_GROUP
                     ? epiqi_round_up(p->rows, p->array.row_multiple)
                     : p->rows;
    s->words = (uintptr_t)p->scales.data % 4 == 0 && p->scales.stride % 4 == 0 &&
               (s->bytes == 4 || (s->shift == 2 && s->stored % 4 == 0));
}

static void fill_args(const epiqi_plan *p, cuda_args *a)
{
    memset(a, 0, sizeof *a);
    a->rows = p->rows;
    a->cols = p->cols;
    a->padded = p->padded;
    a->float_cols = (float)p->cols;
    a->rcp_cols = 1.0f / a->float_cols;
    a->vectors = (int32_t)(p->cols / 8); /* of whole_vectors, if they are so few */
    a->padded_vectors = (int32_t)(p->padded / 8);
    a->x = rows_of(&p->x);
    a->second = rows_of(p->op == EPIQI_ACT_MUL ? &p->up : &p->residual);
    a->residual_out = rows_of(&p->residual_out);
    a->y_out = rows_of(&p->y_out);
    a->codes = rows_of(&p->codes);
    a->weight = (const char *)p->weight;
    a->scale = p->scale;
    a->inv_scale = p->inv_scale;
    a->scale_ub = p->scale_ub;
    a->inv_scale_out = p->inv_scale_out;
    a->multiplier = p->scale != NULL ? p->scale : p->inv_scale;
    a->reciprocal = p->scale != NULL;
    const int64_t half = p->cols * epiqi_dtype_bytes(p->dtype);
    a->interleaved = p->order == EPIQ_ORDER_INTERLEAVED;
    if (p->op == EPIQI_ACT_MUL && p->order != EPIQ_ORDER_SEPARATE) {
        a->second = a->x;
        if (p->order == EPIQ_ORDER_GATE_UP)
            a->second.data += half;
        else if (p->order == EPIQ_ORDER_UP_GATE)
            a->x.data += half;
        else if (a->interleaved)
            a->second.data += 8 * epiqi_dtype_bytes(p->dtype);
    }
    a->weight_f32 = p->weight_dtype == EPIQ_DTYPE_F32;
    const int round = p->round == EPIQ_ROUND_NONE   ? AR_ROUND_NONE
                      : p->round == EPIQ_ROUND_ONCE ? AR_ROUND_ONCE
                                                    : AR_ROUND_TWICE;
    a->act_mul.act = p->act - EPIQ_ACT_SILU + AR_SILU;
    a->act_mul.round = round;
    a->act_mul.gated = p->order != EPIQ_ORDER_UNGATED;
    a->act_mul.alpha = p->alpha;
    a->act_mul.limit = p->limit;
    a->act_mul.limit_after = p->limit_after;
    a->act_mul.up_offset = p->up_offset;
    a->quick_silu = plain_silu(p) && p->dtype == EPIQ_DTYPE_BF16 && round == AR_ROUND_TWICE && epiqi_cuda_rcp_unit();
    a->norm.round = round;
    a->norm.sum_round = p->sum_round == EPIQ_SUM_ROUND_T;
    a->norm.eps = p->eps;
    a->norm.weight_bias = p->weight_bias;
    a->bias = p->weight_bias != 0 ? p->weight_bias : -0.0f;
    a->chunks = 1;
    a->format = CUDA_NONE;
    if (p->format == NULL)
        return;
    a->format = p->format->index;
    a->bits = p->format->bits;
    a->group = p->group;
    fill_scales(p, &a->scales);
    a->codes_aligned = aligned(&p->codes, 2 * p->format->bits);
    a->quant.grain = p->grain == EPIQ_GRAIN_TENSOR ? AR_TENSOR : p->grain == EPIQ_GRAIN_TOKEN ? AR_TOKEN : AR_GROUP;
    a->quant.ue8m0 = p->ue8m0;
    a->quant.packed = p->layout == EPIQ_LAYOUT_PACKED_UE8M0;
    a->quant.mx_round = p->mx_round == EPIQ_MX_ROUND_FLOOR  ? AR_MX_FLOOR
                        : p->mx_round == EPIQ_MX_ROUND_VLLM ? AR_MX_VLLM
                                                            : AR_MX_CEIL;
    a->quant.ieee = p->nvfp4 == EPIQ_NVFP4_IEEE;
    a->quant.rcp_unit = epiqi_cuda_rcp_unit();
    a->quant.saturate = p->nan == EPIQ_NAN_SATURATE;
    a->quant.bound = INFINITY;
    a->divide = p->grain != EPIQ_GRAIN_TENSOR ? epiqi_cuda_divides(a->format)
                                              : epiqi_cuda_divides_static(a->format) && p->scale != NULL;
}

/* ---- Shapes ---- */

/* What is launched. */
typedef struct launch {
    const void *kernel;
    dim3 block;
    uint32_t blocks; /* without those that zero padding rows */
    uint32_t pieces; /* of a row: blocks in y */
    uint32_t shared; /* bytes, dynamic */
    int early;       /* the next kernel's blocks may come as soon as these no longer wait */
} launch;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Whether a row consists of whole vectors at vector addresses. */
static int whole_vectors(const epiqi_plan *p)
{
    return p->cols % 8 == 0 && p->padded % 8 == 0 && p->padded / 8 <= INT32_MAX && aligned(&p->x, 16) &&
           aligned(&p->up, 16) && aligned(&p->residual, 16) && aligned(&p->residual_out, 16) &&
           aligned(&p->y_out, 16) &&
           (p->format == NULL || (aligned(&p->codes, 8) && (p->array.bytes == 1 || aligned(&p->scales, 4)))) &&
           (uintptr_t)p->weight % 16 == 0;
}

/* Whether CUDA_TABLE can be used, which has tables of bf16 gates. */
static int gated_halves(const epiqi_plan *p)
{
    return p->op == EPIQI_ACT_MUL && p->dtype == EPIQ_DTYPE_BF16 && p->order != EPIQ_ORDER_UNGATED &&
           p->order != EPIQ_ORDER_INTERLEAVED;
}

static const void *find_kernel(const epiqi_plan *p, const cuda_kernel *k)
{
    if (k->kind == CUDA_LEAN_KERNEL || k->kind == CUDA_STREAM_KERNEL)
        return p->op == EPIQI_ACT_MUL    ? epiqi_cuda_act_mul_fast_kernel(k)
               : p->op == EPIQI_RMS_NORM ? epiqi_cuda_rms_norm_fast_kernel(k)
                                         : epiqi_cuda_quantize_fast_kernel(k);
    return p->op == EPIQI_ACT_MUL    ? epiqi_cuda_act_mul_kernel(k)
           : p->op == EPIQI_RMS_NORM ? epiqi_cuda_rms_norm_kernel(k)
                                     : epiqi_cuda_quantize_kernel(k);
}

static const void *kernel_of(const epiqi_plan *p, int kind, int format, int act, int per_thread)
{
    const int grain = p->group != 0 ? AR_GROUP : p->grain == EPIQ_GRAIN_TOKEN ? AR_TOKEN : AR_TENSOR;
    const cuda_kernel k = {kind, dtype_index(p->dtype), format, grain, act, 0, per_thread};
    return find_kernel(p, &k);
}

/* Which of the kernels a call takes that can do it: by measurement, or one kind wherever it can. For tests, which have
 * to reach all kernels with small calls: EPIQ_CUDA_KERNELS in the environment is general, stream, or lean1, lean2 or
 * lean4 with so many vectors a thread, or the next fewer there are. */
enum { BY_MEASUREMENT = 1, GENERAL_ALWAYS, STREAM_ALWAYS, LEAN_ALWAYS };

static int preference(void)
{
    static const char *const words[] = {"general", "stream", "lean1", "lean2", "lean4"};
    static const int choices[] = {GENERAL_ALWAYS, STREAM_ALWAYS, LEAN_ALWAYS + 1, LEAN_ALWAYS + 2, LEAN_ALWAYS + 4};
    static int known;
    int p = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (p == 0) {
        const char *word = getenv("EPIQ_CUDA_KERNELS");
        p = BY_MEASUREMENT;
        for (int i = 0; word != NULL && i < 5; i++)
            if (strcmp(word, words[i]) == 0)
                p = choices[i];
        __atomic_store_n(&known, p, __ATOMIC_RELAXED);
    }
    return p;
}

/* ---- The measured choices (H200; doc/performance.md has the numbers) ----
 *
 * vectors: of a row. all: of all rows. */

static const int64_t TWO_A_THREAD = 1 << 18, STREAM_NORM = 3 << 15, STREAM_FLAT = 7 << 15;

/* Where lean_kernel does not do: with token scales of act_mul and quantize, row_stream_kernel is the fastest from so
 * much on. */
static int64_t stream_of_tokens(int64_t vectors)
{
    return vectors > 1024 ? STREAM_FLAT : vectors > 384 ? 13 << 15 : 9 << 15;
}

/* Vectors a thread of lean_kernel where a block has a row. */
static int64_t lean_of_row(const epiqi_plan *p, int64_t vectors, int64_t all)
{
    const int tensor = p->format->block == 0 && p->grain == EPIQ_GRAIN_TENSOR, token = p->grain == EPIQ_GRAIN_TOKEN;
    const int four_bits = p->format->bits == 4;
    if (vectors > 1024)
        return all >= 300000 ? 4 : 2;
    if (p->op != EPIQI_RMS_NORM) {
        if ((vectors >= 896 && all >= 800000) || (vectors == 1024 && all >= 390000) ||
            (vectors == 512 && all >= 150000 && all < 250000))
            return 4;
        return (vectors >= 896 || all >= 50000) && !(all >= 150000 && all < 195000) ? 2 : 1;
    }
    if (vectors == 1024 && all >= 300000)
        return all < 800000 || !(tensor || (token && all < 2000000)) ? 4 : 2;
    if (!tensor && vectors >= 640 && all >= 2000000)
        return 4;
    if (four_bits && all >= 5000000)
        return 4;
    if (token && vectors == 512 && all >= 150000 && all < 210000)
        return 4;
    if (all >= (token && vectors < 1024 ? 50000 : 200000) ||
        (vectors > 256 && vectors < 512 && all >= 100000 && all < 150000))
        return 2;
    return token && vectors == 1024 && all <= 40000 ? 2 : 1;
}

/* Blocks of lean_kernel that share a row, and their threads, `most` at most. */
static int64_t lean_pieces(int64_t vectors, int64_t per_thread, int64_t most, int by_row, int64_t *threads)
{
    const int64_t need = ceil_div(vectors, per_thread), fewest = ceil_div(need, most);
    int64_t pieces = fewest;
    *threads = epiqi_round_up(ceil_div(need, fewest), 32);
    for (int64_t n = fewest + 1; !by_row && n < 2 * fewest && n < fewest + 16; n++) { /* with fewer idle threads */
        const int64_t t = epiqi_round_up(ceil_div(need, n), 32);
        if (t >= 96 && n * t < pieces * *threads) { /* smaller blocks come too slowly */
            pieces = n;
            *threads = t;
        }
    }
    return pieces;
}

enum { LEAN_TWO_THREADS = 128 }; /* of a block with pieces of rows, two vectors a thread */

/* Whether two vectors a thread leave at most a tenth of such threads idle. */
static int two_fit(int64_t vectors)
{
    int64_t threads;
    const int64_t pieces = lean_pieces(vectors, 2, LEAN_TWO_THREADS, 0, &threads);
    return 20 * pieces * threads <= 11 * vectors;
}

/* Vectors a thread where blocks have pieces of rows. */
static int64_t lean_of_pieces(const epiqi_plan *p, int64_t vectors, int64_t all)
{
    const int tensor = p->format->block == 0 && p->grain == EPIQ_GRAIN_TENSOR,
              groups = p->format->block == 0 && !tensor;
    if (p->op == EPIQI_QUANTIZE)
        return (vectors % 256 == 0 && all >= 400000) || (tensor && all >= 75000 && all < 135000) ||
                       (groups && all >= 110000 && all < 135000)
                   ? 2
                   : 1;
    if (tensor)
        return (two_fit(vectors) && all >= 75000 && all < 135000) || (all >= 480000 && all < 800000) ? 2 : 1;
    return !groups && two_fit(vectors) && all >= (p->format->bits == 4 ? 250000 : 600000) ? 2 : 1;
}

/* Vectors a thread of lean_kernel: four only where a block has a row and the rounding of y is compiled in. */
static int64_t lean_vectors(const epiqi_plan *p, const cuda_args *a, int64_t vectors, int64_t all, int by_row)
{
    const int fixed = p->op == EPIQI_RMS_NORM  ? p->dtype == EPIQ_DTYPE_BF16 && p->round != EPIQ_ROUND_NONE
                      : p->op == EPIQI_ACT_MUL ? a->quick_silu
                                               : 1;
    int64_t n = preference() > LEAN_ALWAYS ? preference() - LEAN_ALWAYS
                : by_row                   ? lean_of_row(p, vectors, all)
                                           : lean_of_pieces(p, vectors, all);
    if (by_row && vectors > 1024 && n == 1)
        n = 2;
    return n == 4 && !(by_row && fixed) ? 2 : n;
}

/* Whether the kernels of stream.cuh are faster than lean_kernel. */
static int stream_is_faster(const epiqi_plan *p, const cuda_args *a, int64_t vectors, int64_t all)
{
    const int tensor = p->format->block == 0 && p->grain == EPIQ_GRAIN_TENSOR, token = p->grain == EPIQ_GRAIN_TOKEN;
    switch (p->op) {
    case EPIQI_ACT_MUL:
        if (!a->quick_silu)
            return all >= 2000000; /* by a table of activations */
        if (tensor || token)
            return 0;
        return p->format->block == 0 ? all >= 8000000 : p->format->bits == 4 && all >= 7000000 && !two_fit(vectors);
    case EPIQI_QUANTIZE:
        return all >= (tensor ? 10000000 : token ? 7000000 : 1500000);
    default:
        return 0;
    }
}

/* The common cases, which lean_kernel has; of e5m2, a format of gradients, none. */
static int is_lean(const epiqi_plan *p, int format, int64_t vectors, const cuda_args *a)
{
    const int norm = p->op == EPIQI_RMS_NORM, by_row = norm || p->grain == EPIQ_GRAIN_TOKEN;
    const int half = p->op == EPIQI_QUANTIZE || p->round != EPIQ_ROUND_NONE; /* y are 16-bit floats */
    if (format >= CUDA_NONE || format == CUDA_E5M2 || p->dtype == EPIQ_DTYPE_F32 || p->y_out.data != NULL ||
        p->dynamic || p->rows > 0x7fffffff - 1024 || a->scales.group > UINT32_MAX)
        return 0;
    if ((p->op == EPIQI_ACT_MUL && !plain_silu(p)) || (norm && p->weight_dtype != p->dtype) ||
        (by_row && vectors > 4 * LEAN_FOUR_THREADS))
        return 0;
    if (p->group != 0 && (p->format->block != 0 ? a->scales.shift != 2 : p->group != LEAN_GROUP || p->ue8m0))
        return 0;
    if (format == CUDA_NVFP4)
        return !a->quant.ieee && a->quant.rcp_unit;
    return p->grain == EPIQ_GRAIN_TENSOR ? !a->divide : half || !epiqi_cuda_divides(format);
}

static void shape_lean(const epiqi_plan *p, int format, int64_t vectors, const cuda_args *a, launch *l)
{
    const int by_row = p->op == EPIQI_RMS_NORM || p->grain == EPIQ_GRAIN_TOKEN;
    if (preference() == STREAM_ALWAYS || preference() == GENERAL_ALWAYS || !is_lean(p, format, vectors, a) ||
        !facts().fast)
        return;
    const int64_t all = p->rows * vectors, per_thread = lean_vectors(p, a, vectors, all, by_row);
    const int64_t most = per_thread == 4   ? LEAN_FOUR_THREADS
                         : by_row          ? (per_thread == 2 ? 2 * LEAN_FOUR_THREADS : 1024)
                         : per_thread == 2 ? LEAN_TWO_THREADS
                         : all < 48000     ? 128
                                           : 256;
    int64_t threads;
    const int64_t pieces = lean_pieces(vectors, per_thread, most, by_row, &threads);
    if (pieces > (by_row ? 1 : 0xffff) || (preference() == BY_MEASUREMENT && stream_is_faster(p, a, vectors, all)))
        return;
    cuda_kernel k = {CUDA_LEAN_KERNEL, dtype_index(p->dtype), format, 0, 0, 0, (int)per_thread};
    k.grain = p->group != 0 ? AR_GROUP : p->grain == EPIQ_GRAIN_TOKEN ? AR_TOKEN : AR_TENSOR;
    k.act = a->quick_silu ? CUDA_QUICK : CUDA_SILU;
    k.round = a->norm.round;
    l->kernel = find_kernel(p, &k);
    l->block = dim3((unsigned)threads);
    l->blocks = (uint32_t)p->rows;
    l->pieces = (uint32_t)pieces;
    l->early = 1;
}

/* The amax launch of a whole tensor: the blocks share all pieces of all rows. */
static void shape_amax(const epiqi_plan *p, int format, int64_t vectors, cuda_args *a, launch *l)
{
    const int64_t pieces = ceil_div(vectors, 256);
    if (p->rows * pieces > 0x7fffffff)
        return;
    l->kernel = kernel_of(p, CUDA_FLAT_KERNEL, format, CUDA_ANY_ACT, 1);
    l->block = dim3((unsigned)epiqi_round_up(ceil_div(vectors, pieces), 32));
    l->blocks = (uint32_t)(p->rows * pieces);
    a->chunks = (int32_t)pieces;
}

/* Blocks of 1024 threads or as many smaller ones, which stay and take work in turn. */
static void shape_stream(const epiqi_plan *p, int format, int64_t vectors, cuda_args *a, launch *l)
{
    const int norm = p->op == EPIQI_RMS_NORM, token = format != CUDA_NONE && p->grain == EPIQ_GRAIN_TOKEN;
    const int table = gated_halves(p), by_row = norm || token;
    const int inputs = p->op == EPIQI_ACT_MUL || p->residual.data != NULL ? 2 : 1;
    const int64_t all = p->rows * vectors;
    const int tensor_norm = norm && (p->format == NULL || p->grain == EPIQ_GRAIN_TENSOR);
    const int slower =
        norm ? tensor_norm && all < STREAM_NORM : all < (token ? stream_of_tokens(vectors) : STREAM_FLAT);
    if (preference() != STREAM_ALWAYS && (preference() != BY_MEASUREMENT || slower))
        return;
    const device_facts f = facts();
    if (f.capability < STREAM_FROM || f.capability >= STREAM_BELOW || !f.fast || p->dtype == EPIQ_DTYPE_F32 ||
        format == CUDA_AMAX || (p->op == EPIQI_ACT_MUL && !table && !plain_silu(p)) ||
        (norm && p->weight_dtype != p->dtype) || (by_row && vectors > 2048))
        return;
    const int64_t head = STREAM_HEAD + (table ? TABLE_BYTES : 0);
    int64_t threads, rows = 1, each = 1, shared; /* rows of a block, blocks of a multiprocessor */
    if (by_row) {
        threads = epiqi_round_up(ceil_div(vectors, 2), 64);
        while (table && rows < STREAM_ROWS && 2 * rows * threads <= 1024 && p->rows >= 2 * rows * f.multiprocessors)
            rows *= 2; /* with one table */
        each = 1024 / (threads * rows);
        each = each > 16 ? 16 : each;
        const int64_t stage = 2 * threads * 16 * inputs;
        int64_t stages = ((f.shared + 1024) / each - 4096 - head) / (stage * rows);
        stages = stages > 2 ? 2 : stages;
        if (stages < 1 + (p->residual_out.data != NULL))
            return;
        shared = head + stages * stage * rows;
        a->stages = (int32_t)stages;
        l->blocks = (uint32_t)ceil_div(p->rows, rows);
        if (l->blocks > f.multiprocessors * each)
            l->blocks = (uint32_t)(f.multiprocessors * each);
    } else {
        threads = 1024;
        const int64_t pieces = ceil_div(vectors, 64), warps = f.multiprocessors * threads / 32;
        shared = head + threads / 32 * 1024 * inputs;
        a->chunks = (int32_t)pieces;
        a->piece_step = (int32_t)(warps % pieces);
        a->row_step = (int32_t)(warps / pieces);
        l->blocks = (uint32_t)f.multiprocessors;
    }
    if (shared > f.shared)
        return;
    l->kernel = kernel_of(p, CUDA_STREAM_KERNEL, format, CUDA_ANY_ACT, 2);
    l->block = dim3((unsigned)threads, (unsigned)rows);
    l->shared = (uint32_t)shared;
}

static void shape_flat(const epiqi_plan *p, int format, int64_t vectors, cuda_args *a, launch *l)
{
    const int multiprocessors = facts().multiprocessors;
    const int pairs = format == CUDA_NVFP4 && p->dtype != EPIQ_DTYPE_F32 && (p->op != EPIQI_ACT_MUL || plain_silu(p));
    const int per_thread = pairs && p->rows * vectors >= TWO_A_THREAD ? 2 : 1;
    const int64_t need = ceil_div(vectors, per_thread); /* threads */
    int64_t tx, ty = 1, pieces = 1;
    if (need <= 256) {
        tx = epiqi_round_up(need, need > 64 ? 32 : 16);
        ty = 256 / tx;
        while (ty > 1 && p->rows < ty * multiprocessors)
            ty /= 2;
        if (tx * ty % 32 != 0)
            ty++;
    } else {
        pieces = ceil_div(need, 256);
        tx = epiqi_round_up(ceil_div(need, pieces), 32);
    }
    const int64_t repeat = p->rows * pieces >= (int64_t)ty * multiprocessors * 64 ? 4 : 1;
    const int64_t blocks = ceil_div(p->rows, ty * repeat);
    if (blocks > 0x7fffffff - 1024 || pieces > 0xffff)
        return;
    l->kernel = kernel_of(p, CUDA_FLAT_KERNEL, format, plain_silu(p) ? CUDA_SILU : CUDA_ANY_ACT, per_thread);
    l->block = dim3((unsigned)tx, (unsigned)ty);
    l->blocks = (uint32_t)blocks;
    l->pieces = (uint32_t)pieces;
    a->repeat = (int32_t)repeat;
}

static void shape_norm(const epiqi_plan *p, int format, int64_t vectors, launch *l)
{
    if (p->dtype == EPIQ_DTYPE_F32 || vectors > 1024) {
        const int64_t shared = vectors * 32;
        if (shared > facts().shared - 4096)
            return;
        l->kernel = kernel_of(p, CUDA_WIDE_ROW_KERNEL, format, CUDA_ANY_ACT, 1);
        l->block = dim3((unsigned)(vectors > 480 ? 512 : epiqi_round_up(vectors, 32)));
        l->blocks = (uint32_t)p->rows;
        l->shared = (uint32_t)shared;
        return;
    }
    const int64_t tx = epiqi_round_up(ceil_div(vectors, 2), 32);
    int64_t ty = tx >= 256 ? 1 : 256 / tx;
    while (ty > 1 && p->rows < ty * facts().multiprocessors)
        ty /= 2;
    l->kernel = kernel_of(p, CUDA_ROW_KERNEL, format, CUDA_ANY_ACT, 2);
    l->block = dim3((unsigned)tx, (unsigned)ty);
    l->blocks = (uint32_t)ceil_div(p->rows, ty);
}

static void shape_token(const epiqi_plan *p, int format, int64_t vectors, launch *l)
{
    const int64_t tx = epiqi_round_up(vectors, 32);
    if (tx > 1024) {
        const int half = p->dtype != EPIQ_DTYPE_F32 && !(p->op == EPIQI_ACT_MUL && p->round == EPIQ_ROUND_NONE);
        const int64_t shared = p->cols / 8 * (half ? 16 : 32);
        if (shared > facts().shared - 1024)
            return;
        l->kernel = kernel_of(p, CUDA_WIDE_ROW_KERNEL, format, CUDA_ANY_ACT, 1);
        l->block = dim3(1024);
        l->blocks = (uint32_t)p->rows;
        l->shared = (uint32_t)shared;
        return;
    }
    int64_t ty = tx >= 256 ? 1 : 256 / tx;
    while (ty > 1 && p->rows < ty * facts().multiprocessors)
        ty /= 2;
    l->kernel = kernel_of(p, CUDA_ROW_KERNEL, format, plain_silu(p) ? CUDA_SILU : CUDA_ANY_ACT, 1);
    l->block = dim3((unsigned)tx, (unsigned)ty);
    l->blocks = (uint32_t)ceil_div(p->rows, ty);
}

static launch shape(const epiqi_plan *p, int format, cuda_args *a)
{
    launch l = {};
    l.pieces = 1;
    const int64_t vectors = (format < CUDA_NONE ? p->padded : p->cols) / 8;
    if (whole_vectors(p)) {
        shape_lean(p, format, vectors, a, &l);
        if (l.kernel == NULL)
            shape_stream(p, format, vectors, a, &l);
        if (l.kernel != NULL)
            return l;
        if (p->op == EPIQI_RMS_NORM)
            shape_norm(p, format, vectors, &l);
        else if (format == CUDA_AMAX)
            shape_amax(p, format, vectors, a, &l);
        else if (format < CUDA_NONE && p->grain == EPIQ_GRAIN_TOKEN)
            shape_token(p, format, vectors, &l);
        else
            shape_flat(p, format, vectors, a, &l);
    }
    if (l.kernel == NULL) {
        l = launch{};
        l.kernel = kernel_of(p, CUDA_ANY_KERNEL, format, CUDA_ANY_ACT, 1);
        l.block = dim3(256);
        l.blocks = (uint32_t)(p->rows < 1056 ? p->rows : 1056);
        l.pieces = 1;
        a->chunks = 1;
    }
    return l;
}

/* Blocks for the padding rows of the scales. */
static uint32_t padding_blocks(const epiqi_plan *p, const cuda_args *a, const launch *l)
{
    if (a->scales.pad_end <= p->rows)
        return 0;
    const int64_t stores = (a->scales.stored >> (a->scales.words ? a->scales.shift : 0)) * 128;
    const int64_t blocks = epiqi_round_up(ceil_div(stores, (int64_t)l->block.x * l->block.y * 4), 4);
    return (uint32_t)(blocks < 64 ? blocks : 64);
}

/* ---- Launches ---- */

/* `grid`: all blocks. */
static cudaError_t start(const epiqi_plan *p, const launch *l, uint32_t grid, cuda_args *a)
{
    epiq_pdl pdl = p->exec->pdl != 0 ? p->exec->pdl : l->early ? EPIQ_PDL_EARLY : EPIQ_PDL_LATE;
    if (facts().capability < 90) /* such kernels have no wait in them */
        pdl = EPIQ_PDL_OFF;
    a->trigger = pdl == EPIQ_PDL_EARLY  ? CUDA_TRIGGER_EARLY
                 : pdl == EPIQ_PDL_LATE ? CUDA_TRIGGER_LATE
                                        : CUDA_TRIGGER_NONE;
    if (l->shared > 48 * 1024) {
        cudaError_t error =
            cudaFuncSetAttribute(l->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)l->shared);
        if (error != cudaSuccess)
            return error;
    }
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid, l->pieces);
    config.blockDim = l->block;
    config.dynamicSmemBytes = l->shared;
    config.stream = (cudaStream_t)p->exec->stream;
    config.attrs = &attribute;
    config.numAttrs = pdl != EPIQ_PDL_OFF;
    void *arguments[] = {a};
    return cudaLaunchKernelExC(&config, l->kernel, arguments);
}

static cudaError_t launch_dequantize(const epiqi_plan *p, cuda_args *a)
{
    launch l = {};
    l.kernel = epiqi_cuda_dequantize_kernel(dtype_index(p->dtype));
    l.block = dim3(256);
    l.pieces = 1;
    int64_t chunks = ceil_div(p->cols, 1024), most = 0x7fffffff / p->rows;
    a->chunks = (int32_t)(chunks < most ? chunks : most);
    return start(p, &l, (uint32_t)(p->rows * a->chunks), a);
}

static cudaError_t launch_all(const epiqi_plan *p)
{
    cuda_args a;
    fill_args(p, &a);
    if (p->op == EPIQI_DEQUANTIZE)
        return launch_dequantize(p, &a);
    a.workspace = (float *)p->exec->workspace;
    if (p->dynamic) {
        cuda_args first = a;
        first.format = CUDA_AMAX;
        launch l = shape(p, CUDA_AMAX, &first);
        const uint32_t grid = l.blocks < 1056 ? l.blocks : 1056;
        first.main_blocks = l.blocks;
        cudaError_t error = start(p, &l, grid, &first);
        if (error != cudaSuccess)
            return error;
        a.slots = (int32_t)grid;
    }
    launch l = shape(p, a.format, &a);
    a.main_blocks = l.blocks;
    return start(p, &l, l.blocks + padding_blocks(p, &a, &l), &a);
}

extern "C" epiq_status epiqi_cuda_run(const epiqi_plan *plan)
{
    device_state state;
    cudaError_t error = enter_device(plan->exec, &state);
    if (error == cudaSuccess)
        error = launch_all(plan);
    leave_device(&state);
    switch (error) {
    case cudaSuccess:
        return EPIQ_OK;
    case cudaErrorInvalidDevice:
        (void)cudaGetLastError();
        return EPIQ_ERROR_DEVICE;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorUnsupportedPtxVersion:
        (void)cudaGetLastError();
        return EPIQ_ERROR_BACKEND;
    default:
        return EPIQ_ERROR_CUDA;
    }
}
