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

/* Compute capability of the current device, major * 10 + minor; 0 if it cannot
 * be had. */
static int capability(void)
{
    static int known[64];
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        return 0;
    int value = device < 64 ? __atomic_load_n(&known[device], __ATOMIC_RELAXED) : 0;
    if (value == 0 && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess) {
        value = major * 10 + minor;
        if (device < 64)
            __atomic_store_n(&known[device], value, __ATOMIC_RELAXED);
    }
    return value;
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

/* rcp.approx.ftz.f32 was compared with rcp~ for all 2^32 inputs on these GPUs;
 * others take the model. */
extern "C" int epiqi_cuda_rcp_unit(void)
{
    return capability() == 90;
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

static void fill_args(const epiqi_plan *p, cuda_args *a)
{
    memset(a, 0, sizeof *a);
    a->rows = p->rows;
    a->cols = p->cols;
    a->padded = p->padded;
    a->x = rows_of(&p->x);
    a->up = rows_of(&p->up);
    a->residual = rows_of(&p->residual);
    a->residual_out = rows_of(&p->residual_out);
    a->y_out = rows_of(&p->y_out);
    a->codes = rows_of(&p->codes);
    a->scales = rows_of(&p->scales);
    a->weight = (const char *)p->weight;
    a->scale = p->scale;
    a->inv_scale = p->inv_scale;
    a->scale_ub = p->scale_ub;
    a->inv_scale_out = p->inv_scale_out;
    const int64_t half = p->cols * epiqi_dtype_bytes(p->dtype);
    a->interleaved = p->order == EPIQ_ORDER_INTERLEAVED;
    if (p->op == EPIQI_ACT_MUL && p->order != EPIQ_ORDER_SEPARATE) {
        a->up = a->x;
        if (p->order == EPIQ_ORDER_GATE_UP)
            a->up.data += half;
        else if (p->order == EPIQ_ORDER_UP_GATE)
            a->x.data += half;
        else if (a->interleaved)
            a->up.data += 8 * epiqi_dtype_bytes(p->dtype);
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
    a->norm.round = round;
    a->norm.sum_round = p->sum_round == EPIQ_SUM_ROUND_T;
    a->norm.eps = p->eps;
    a->norm.weight_bias = p->weight_bias;
    a->chunks = 1;
    a->format = CUDA_NONE;
    a->row_multiple = a->group_multiple = 1;
    if (p->format == NULL)
        return;
    a->format = p->format->index;
    a->bits = p->format->bits;
    a->group = p->group;
    a->groups = p->groups;
    a->layout = p->layout;
    a->scale_bytes = p->array.bytes;
    a->row_multiple = p->array.row_multiple;
    a->group_multiple = p->array.group_multiple;
    a->pad_rows = p->pad_rows == EPIQ_PAD_ROWS_ZERO && p->grain == EPIQ_GRAIN_GROUP;
    a->scale_words = p->array.bytes == 1 && (uintptr_t)p->scales.data % 4 == 0 && p->scales.stride % 4 == 0 &&
                     (p->groups % 4 == 0 || p->array.group_multiple == 4);
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
    int few;         /* so little work that the next kernel's blocks take no room from it */
} launch;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int aligned(const epiqi_rows_at *m, int64_t bytes)
{
    return m->data == NULL || ((uintptr_t)m->data % bytes == 0 && m->stride % bytes == 0);
}

/* Whether a row consists of whole vectors at vector addresses. */
static int whole_vectors(const epiqi_plan *p)
{
    return p->cols % 8 == 0 && p->padded % 8 == 0 && aligned(&p->x, 16) && aligned(&p->up, 16) &&
           aligned(&p->residual, 16) && aligned(&p->residual_out, 16) && aligned(&p->y_out, 16) &&
           (p->format == NULL || (aligned(&p->codes, 8) && (p->array.bytes == 1 || aligned(&p->scales, 4)))) &&
           (uintptr_t)p->weight % 16 == 0;
}

/* Whether what CUDA_SILU does is enough. */
static int plain_silu(const epiqi_plan *p)
{
    return p->act == EPIQ_ACT_SILU && p->order != EPIQ_ORDER_UNGATED && p->order != EPIQ_ORDER_INTERLEAVED &&
           p->alpha == 1.0f && p->limit == 0.0f && p->limit_after == 0.0f && p->up_offset == 0.0f;
}

static const void *kernel_of(const epiqi_plan *p, int kind, int format, int per_thread)
{
    const cuda_kernel k = {kind, dtype_index(p->dtype), format, p->group != 0, plain_silu(p), per_thread};
    return p->op == EPIQI_ACT_MUL    ? epiqi_cuda_act_mul_kernel(&k)
           : p->op == EPIQI_RMS_NORM ? epiqi_cuda_rms_norm_kernel(&k)
                                     : epiqi_cuda_quantize_kernel(&k);
}

enum { MAX_SHARED = 227 * 1024, MANY_VECTORS = 1 << 18, FEW_PAIRS = 132 * 1024 };

/* The measured choices; doc/performance.md has the numbers. vectors: of a row.
 */

static void shape_flat(const epiqi_plan *p, int format, int64_t vectors, cuda_args *a, launch *l)
{
    const int amax = format == CUDA_AMAX;
    if (!amax && p->format != NULL && p->grain == EPIQ_GRAIN_TENSOR && !p->dynamic && p->format->block == 0 &&
        p->dtype != EPIQ_DTYPE_F32 && p->padded == p->cols && p->rows * (p->cols / 2) <= FEW_PAIRS &&
        (p->op == EPIQI_QUANTIZE || plain_silu(p))) {
        l->kernel = kernel_of(p, CUDA_PAIR_KERNEL, format, 1);
        l->block = dim3(128);
        l->few = 1;
        l->blocks = (uint32_t)p->rows;
        l->pieces = (uint32_t)ceil_div(p->cols / 2, 128);
        return;
    }
    const int per_thread = !amax && p->dtype != EPIQ_DTYPE_F32 && p->rows * vectors >= MANY_VECTORS ? 2 : 1;
    const int64_t need = ceil_div(vectors, per_thread); /* threads */
    int64_t tx, ty = 1;
    int64_t pieces = 1;
    if (need <= 256 && !amax) {
        tx = epiqi_round_up(need, need > 64 ? 32 : 16);
        ty = 256 / tx;
        while (ty > 1 && p->rows < ty * 132)
            ty /= 2;
        if (tx * ty % 32 != 0)
            ty++;
    } else {
        pieces = ceil_div(need, 256);
        tx = epiqi_round_up(ceil_div(need, pieces), 32);
    }
    l->kernel = kernel_of(p, CUDA_FLAT_KERNEL, format, per_thread);
    l->block = dim3((unsigned)tx, (unsigned)ty);
    const int64_t repeat = !amax && p->rows * pieces >= (int64_t)ty * 132 * 64 ? 4 : 1;
    const int64_t blocks = ceil_div(p->rows, ty * repeat);
    a->repeat = (int32_t)repeat;
    if (amax) { /* the blocks share all pieces of all rows */
        a->chunks = (int32_t)pieces;
        if (blocks * pieces > 0x7fffffff)
            l->kernel = NULL;
        l->blocks = (uint32_t)(blocks * pieces);
        return;
    }
    if (blocks > 0x7fffffff - 1024 || pieces > 0xffff)
        l->kernel = NULL;
    l->blocks = (uint32_t)blocks;
    l->pieces = (uint32_t)pieces;
}

static void shape_norm(const epiqi_plan *p, int format, int64_t vectors, launch *l)
{
    const int f32 = p->dtype == EPIQ_DTYPE_F32;
    const int per_thread = f32               ? (vectors <= 512 ? 1 : 4)
                           : vectors <= 256  ? 1
                           : vectors <= 1024 ? 2
                           : vectors <= 2048 ? 4
                                             : 8;
    const int64_t tx = epiqi_round_up(ceil_div(vectors, per_thread), 32);
    if (tx > 512)
        return;
    int64_t ty = tx >= 256 ? 1 : 256 / tx;
    while (ty > 1 && p->rows < ty * 132)
        ty /= 2;
    l->kernel = kernel_of(p, CUDA_ROW_KERNEL, format, per_thread);
    l->block = dim3((unsigned)tx, (unsigned)ty);
    l->blocks = (uint32_t)ceil_div(p->rows, ty);
}

static void shape_token(const epiqi_plan *p, int format, int64_t vectors, launch *l)
{
    const int wide = p->dtype == EPIQ_DTYPE_F32 || (p->op == EPIQI_ACT_MUL && p->round == EPIQ_ROUND_NONE);
    const int64_t shared = p->cols / 8 * (wide ? 32 : 16);
    if (shared > MAX_SHARED)
        return;
    int64_t tx = epiqi_round_up(vectors, 32);
    if (tx > 256)
        tx = epiqi_round_up(ceil_div(vectors, p->rows >= 264 ? ceil_div(vectors, 256) : ceil_div(vectors, 512)), 32);
    l->kernel = kernel_of(p, CUDA_ROW_KERNEL, format, 1);
    l->block = dim3((unsigned)tx);
    l->blocks = (uint32_t)p->rows;
    l->shared = (uint32_t)shared;
}

static launch shape(const epiqi_plan *p, int format, cuda_args *a)
{
    launch l = {};
    l.pieces = 1;
    const int64_t vectors = (format < CUDA_NONE ? p->padded : p->cols) / 8;
    if (whole_vectors(p)) {
        if (p->op == EPIQI_RMS_NORM)
            shape_norm(p, format, vectors, &l);
        else if (format < CUDA_NONE && p->grain == EPIQ_GRAIN_TOKEN)
            shape_token(p, format, vectors, &l);
        else
            shape_flat(p, format, vectors, a, &l);
    }
    if (l.kernel == NULL) {
        l.kernel = kernel_of(p, CUDA_ANY_KERNEL, format, 1);
        l.block = dim3(256);
        l.blocks = (uint32_t)(p->rows < 1056 ? p->rows : 1056);
        l.shared = 0;
        l.pieces = 1;
        a->chunks = 1;
    }
    return l;
}

/* Blocks for the padding rows of the scales. */
static uint32_t padding_blocks(const epiqi_plan *p, const cuda_args *a, const launch *l)
{
    const int64_t pad = epiqi_round_up(p->rows, a->row_multiple) - p->rows;
    if (!a->pad_rows || pad == 0)
        return 0;
    const int64_t groups = epiqi_round_up(p->groups, a->group_multiple);
    const int64_t stores = a->layout == EPIQ_LAYOUT_TILE128X4 && a->scale_words ? groups / 4 * 128 : pad * groups;
    const int64_t blocks = ceil_div(stores, (int64_t)l->block.x * l->block.y * 4);
    return (uint32_t)(blocks < 64 ? blocks : 64);
}

/* ---- Launches ---- */

/* `grid`: all blocks. */
static cudaError_t start(const epiqi_plan *p, const launch *l, uint32_t grid, cuda_args *a)
{
    epiq_pdl pdl = p->exec->pdl != 0 ? p->exec->pdl : l->few ? EPIQ_PDL_EARLY : EPIQ_PDL_LATE;
    if (capability() < 90) /* such kernels have no wait in them */
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
    launch l = {epiqi_cuda_dequantize_kernel(dtype_index(p->dtype)), dim3(256), 0, 1, 0, 0};
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
