/* gpu_bench.cu: times of the operations on a GPU beside kernels that only move
 * the same bytes, and an empty one. SPDX-License-Identifier: Apache-2.0
 *
 *     gpu_bench [--large] [--small] [--sweep] [--only TEXT] [--no-traffic]
 *
 * --only: the lines whose description contains TEXT. --no-traffic: the operations alone.
 *
 * Every number is the median of graph replays, a graph being `calls` launches
 * in a row with programmatic dependent launch. Large shapes take turns over
 * buffers that together exceed the L2 cache several times; small ones stay in
 * it. */
#include "../tests/cuda/must.h"

#include <epiq/epiq.h>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

static cudaStream_t stream;

/* ---- Kernels that only move bytes ---- */

/* R streams of 16-byte vectors are read; for each vector CODE bytes are
 * written, 16 more if WIDE, and a word a `SCALE` vectors if that is not 0. U
 * vectors a thread; FIRST_OUT: what was read is the first to leave the L2 cache. */
template <int R, int WIDE, int CODE, int SCALE, int U, int FIRST_OUT>
__global__ void __launch_bounds__(256) traffic(const uint4 *a, uint4 *b, char *codes, uint32_t *scales, int64_t n)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const int64_t first = (int64_t)blockIdx.x * 256 * U + threadIdx.x;
    uint4 x[U], y[U];
#pragma unroll
    for (int u = 0; u < U; u++)
        if (first + u * 256 < n) {
            x[u] = FIRST_OUT ? __ldcs(a + first + u * 256) : a[first + u * 256];
            if (R > 1)
                y[u] = FIRST_OUT ? __ldcs(b + first + u * 256) : b[first + u * 256];
        }
#pragma unroll
    for (int u = 0; u < U; u++) {
        const int64_t i = first + u * 256;
        if (i >= n)
            continue;
        uint4 s = x[u];
        if (R > 1) {
            s.x ^= y[u].x;
            s.y += y[u].y;
            s.z ^= y[u].z;
            s.w += y[u].w;
        }
        if (WIDE)
            b[i] = s;
        if (CODE == 8)
            __stcs((uint2 *)(codes + 8 * i), make_uint2(s.x ^ s.y, s.z ^ s.w));
        else
            __stcs((uint32_t *)(codes + 4 * i), s.x ^ s.y ^ s.z ^ s.w);
        if constexpr (SCALE != 0)
            if (i % SCALE == 0)
                scales[i / SCALE] = s.x;
    }
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__global__ void empty()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

static void launch(const void *kernel, unsigned blocks, void **arguments)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    MUST(cudaLaunchKernelExC(&config, kernel, arguments));
}

/* ---- Timing ---- */

static double microseconds(int calls, const std::function<void(int)> &call)
{
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    for (int i = 0; i < 2; i++)
        call(i);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; i++)
        call(i);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&replay, graph, 0));
    cudaEvent_t from, to;
    MUST(cudaEventCreate(&from));
    MUST(cudaEventCreate(&to));
    std::vector<double> times;
    for (int i = 0; i < 13; i++) {
        MUST(cudaEventRecord(from, stream));
        MUST(cudaGraphLaunch(replay, stream));
        MUST(cudaEventRecord(to, stream));
        MUST(cudaEventSynchronize(to));
        float ms;
        MUST(cudaEventElapsedTime(&ms, from, to));
        if (i >= 3)
            times.push_back(ms * 1e3 / calls);
    }
    MUST(cudaGraphExecDestroy(replay));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaEventDestroy(from));
    MUST(cudaEventDestroy(to));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/* ---- The operations ---- */

enum { ACT_MUL, RMS_NORM, QUANTIZE };

struct quantizer {
    const char *name;
    epiq_format format;
    epiq_grain grain;
    int32_t group;
    epiq_layout layout;
    int fixed; /* a scale is given */
    int code;  /* bytes for 8 columns */
    int scale; /* vectors a 4-byte word of scales stands for, 0: none */
};

static const quantizer quantizers[] = {
    {"e4m3 tensor", EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TENSOR, 0, EPIQ_LAYOUT_ROW, 1, 8, 0},
    {"e4m3 token", EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TOKEN, 0, EPIQ_LAYOUT_ROW, 0, 8, 0},
    {"e4m3 group128", EPIQ_FORMAT_E4M3, EPIQ_GRAIN_GROUP, 128, EPIQ_LAYOUT_ROW, 0, 8, 16},
    {"mxfp8", EPIQ_FORMAT_MXFP8, EPIQ_GRAIN_GROUP, 0, EPIQ_LAYOUT_TILE128X4, 0, 8, 16},
    {"nvfp4", EPIQ_FORMAT_NVFP4, EPIQ_GRAIN_GROUP, 0, EPIQ_LAYOUT_TILE128X4, 1, 4, 8},
    {"mxfp4", EPIQ_FORMAT_MXFP4, EPIQ_GRAIN_GROUP, 0, EPIQ_LAYOUT_TILE128X4, 0, 4, 16},
};

static char *pool; /* of device memory */
static const int64_t pool_bytes = (int64_t)24 << 30;
static float *one;

__global__ void fill(__nv_bfloat16 *p, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t x = (uint32_t)i * 2654435761u ^ (uint32_t)(i >> 32);
        x ^= x >> 16, x *= 0x85ebca6bu, x ^= x >> 13, x *= 0xc2b2ae35u, x ^= x >> 16;
        uint32_t y = x * 2246822519u + 374761393u;
        y ^= y >> 15;
        float u = ((x >> 8) + 0.5f) * 0x1p-24f, v = (y >> 8) * 0x1p-24f;
        float r = sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v) * 1.5f;
        if (y % 1024 == 0)
            r *= 20.0f;
        p[i] = __float2bfloat16(r);
    }
}

struct buffers { /* of one call */
    char *x, *residual, *codes, *scales;
};

/* As many sets as fit, at most `most`, spread over the pool. */
static std::vector<buffers> make_buffers(int op, int64_t m, int64_t h, int most)
{
    const int64_t x = m * h * (op == ACT_MUL ? 4 : 2), r = op == RMS_NORM ? m * h * 2 : 0, q = m * h,
                  s = (m + 127) * h / 4 + 4096;
    auto up = [](int64_t n) { return (n + 511) / 512 * 512; };
    const int64_t set = up(x) + up(r) + up(q) + up(s);
    int count = (int)std::min<int64_t>(most, pool_bytes / set);
    std::vector<buffers> b;
    for (int i = 0; i < count; i++) {
        char *p = pool + i * set;
        b.push_back({p, p + up(x), p + up(x) + up(r), p + up(x) + up(r) + up(q)});
    }
    return b;
}

struct variant {
    epiq_act act;
    epiq_chain chain;
    epiq_pdl pdl;
};

static void run(int op, int64_t m, int64_t h, const quantizer &z, const buffers &b, const variant &v)
{
    epiq_output o = {
        .struct_size = sizeof o, .format = z.format, .grain = z.grain, .group = z.group, .layout = z.layout};
    o.codes_out = b.codes;
    if (z.fixed && z.format == EPIQ_FORMAT_NVFP4)
        o.inv_scale = one, o.scale_out = b.scales;
    else if (z.fixed)
        o.inv_scale = one;
    else
        o.scale_out = b.scales;
    epiq_exec e = {.struct_size = sizeof e, .backend = EPIQ_BACKEND_CUDA, .stream = stream, .pdl = v.pdl};
    epiq_status status;
    if (op == ACT_MUL) {
        epiq_act_mul_args a = {.struct_size = sizeof a, .act = v.act};
        a.x = {.data = b.x, .rows = m, .cols = 2 * h, .dtype = EPIQ_DTYPE_BF16};
        a.chain = v.chain;
        status = epiq_act_mul(&a, &o, &e);
    } else if (op == RMS_NORM) {
        epiq_rms_norm_args a = {.struct_size = sizeof a, .eps = 1e-6f};
        a.x = {.data = b.x, .rows = m, .cols = h, .dtype = EPIQ_DTYPE_BF16};
        a.residual = b.residual;
        a.residual_out = b.residual;
        a.weight = pool + pool_bytes;
        a.weight_bias = 1;
        a.chain = v.chain;
        status = epiq_rms_norm(&a, &o, &e);
    } else {
        epiq_quantize_args a = {.struct_size = sizeof a};
        a.x = {.data = b.x, .rows = m, .cols = h, .dtype = EPIQ_DTYPE_BF16};
        status = epiq_quantize(&a, &o, &e);
    }
    if (status != EPIQ_OK) {
        fprintf(stderr, "refused: %s\n", epiq_status_string(status));
        exit(1);
    }
}

static double bytes_of(int op, int64_t m, int64_t h, const quantizer &z)
{
    double per_vector = (op == ACT_MUL ? 32 : op == RMS_NORM ? 48 : 16) + z.code + (z.scale ? 4.0 / z.scale : 0);
    return (double)m * h / 8 * per_vector;
}

template <int R, int WIDE, int CODE, int SCALE>
static double traffic_of(int calls, int64_t n, const std::vector<buffers> &b, bool act)
{
    double best = 1e30;
    auto time = [&](const void *kernel, int u) {
        double t = microseconds(calls, [&](int i) {
            const buffers &s = b[i % b.size()];
            const uint4 *x = (const uint4 *)s.x;
            uint4 *y = act ? (uint4 *)s.x + n : (uint4 *)s.residual;
            char *c = s.codes;
            uint32_t *sc = (uint32_t *)s.scales;
            int64_t count = n;
            void *arguments[] = {&x, &y, &c, &sc, &count};
            launch(kernel, (unsigned)((n + 256 * u - 1) / (256 * u)), arguments);
        });
        best = std::min(best, t);
    };
    time((const void *)traffic<R, WIDE, CODE, SCALE, 1, 0>, 1);
    time((const void *)traffic<R, WIDE, CODE, SCALE, 2, 0>, 2);
    time((const void *)traffic<R, WIDE, CODE, SCALE, 4, 0>, 4);
    time((const void *)traffic<R, WIDE, CODE, SCALE, 1, 1>, 1);
    time((const void *)traffic<R, WIDE, CODE, SCALE, 2, 1>, 2);
    time((const void *)traffic<R, WIDE, CODE, SCALE, 4, 1>, 4);
    return best;
}

static double traffic_time(int op, int calls, int64_t m, int64_t h, const quantizer &z, const std::vector<buffers> &b)
{
    const int64_t n = m * h / 8;
#define CASE(R, WIDE, act)                                                                                             \
    (z.code == 8                                                                                                       \
         ? (z.scale == 0 ? traffic_of<R, WIDE, 8, 0>(calls, n, b, act) : traffic_of<R, WIDE, 8, 16>(calls, n, b, act)) \
         : (z.scale == 8 ? traffic_of<R, WIDE, 4, 8>(calls, n, b, act)                                                 \
                         : traffic_of<R, WIDE, 4, 16>(calls, n, b, act)))
    return op == ACT_MUL ? CASE(2, 0, true) : op == RMS_NORM ? CASE(2, 1, false) : CASE(1, 0, false);
}

static const char *only = "";
static bool with_traffic = true;

static const char *const op_names[] = {"act_mul", "rms_norm", "quantize"};

static void line(int op, int64_t m, int64_t h, const quantizer &z, const variant &v, const char *what, bool small)
{
    char text[100];
    snprintf(text, sizeof text, "%-8s %-18s %-13s %6lld %6lld", op_names[op], what, z.name, (long long)m, (long long)h);
    if (strstr(text, only) == NULL)
        return;
    fill<<<2048, 256>>>((__nv_bfloat16 *)pool, pool_bytes / 2 + (1 << 19)); /* sums in place grow */
    const double bytes = bytes_of(op, m, h, z);
    const int sets = small ? 1 : (int)std::max(2.0, 400e6 / bytes + 2);
    const std::vector<buffers> b = make_buffers(op, m, h, sets);
    const int calls = small || bytes < 30e6 ? 100 : bytes < 200e6 ? 20 : 5;
    const double t = microseconds(calls, [&](int i) { run(op, m, h, z, b[i % b.size()], v); });
    if (!with_traffic) {
        printf("%s %9.2f us\n", text, t);
        return;
    }
    const double floor = traffic_time(op, calls, m, h, z, b);
    printf("%s %9.2f us  traffic %9.2f us  %6.3f  %7.0f GB/s\n", text, t, floor, floor / t, bytes / t * 1e-3);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bool large = argc == 1, small = argc == 1, sweep = false;
    for (int i = 1; i < argc; i++) {
        large |= strcmp(argv[i], "--large") == 0;
        small |= strcmp(argv[i], "--small") == 0;
        sweep |= strcmp(argv[i], "--sweep") == 0;
        with_traffic &= strcmp(argv[i], "--no-traffic") != 0;
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
    }
    cudaDeviceProp p;
    MUST(cudaGetDeviceProperties(&p, 0));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMalloc((void **)&pool, pool_bytes + (1 << 20)));
    MUST(cudaMalloc((void **)&one, 4));
    const float value = 4.0f;
    MUST(cudaMemcpy(one, &value, 4, cudaMemcpyHostToDevice));
    MUST(cudaDeviceSynchronize());
    printf("%s, %d SMs, %s\n", p.name, p.multiProcessorCount, epiq_build_info());
    printf("empty kernel: %.2f us\n", microseconds(200, [&](int) {
               void *none[1] = {NULL};
               launch((const void *)empty, 1, none);
           }));
    const variant plain = {(epiq_act)0, (epiq_chain)0, (epiq_pdl)0};
    if (large) {
        const variant direct = {EPIQ_ACT_SILU, EPIQ_CHAIN_DIRECT, (epiq_pdl)0},
                      fi = {EPIQ_ACT_SILU, EPIQ_CHAIN_FLASHINFER, (epiq_pdl)0};
        const variant tanh = {EPIQ_ACT_GELU_TANH, EPIQ_CHAIN_DIRECT, (epiq_pdl)0},
                      erf = {EPIQ_ACT_GELU_ERF, EPIQ_CHAIN_DIRECT, (epiq_pdl)0};
        line(ACT_MUL, 8192, 14336, quantizers[0], direct, "silu direct", false);
        line(ACT_MUL, 8192, 14336, quantizers[0], plain, "silu vllm", false);
        line(ACT_MUL, 8192, 14336, quantizers[0], fi, "silu flashinfer", false);
        line(ACT_MUL, 8192, 14336, quantizers[0], tanh, "gelu_tanh direct", false);
        line(ACT_MUL, 8192, 14336, quantizers[0], erf, "gelu_erf direct", false);
        for (int i = 1; i < 6; i++)
            line(ACT_MUL, 8192, 14336, quantizers[i], plain, "silu vllm", false);
        for (int64_t h : {4096, 8192})
            for (int i = 0; i < 6; i++)
                line(RMS_NORM, 134217728 / h, h, quantizers[i], plain, "gemma residual", false);
        for (int i = 0; i < 6; i++)
            line(QUANTIZE, 16384, 14336, quantizers[i], plain, "", false);
    }
    if (small) {
        const variant direct = {EPIQ_ACT_SILU, EPIQ_CHAIN_DIRECT, (epiq_pdl)0},
                      early = {EPIQ_ACT_SILU, EPIQ_CHAIN_DIRECT, EPIQ_PDL_EARLY};
        for (int64_t m : {1, 16, 64})
            for (int64_t h : {2048, 4096, 14336}) {
                line(ACT_MUL, m, h, quantizers[0], direct, "silu direct", true);
                line(ACT_MUL, m, h, quantizers[0], early, "silu direct early", true);
            }
        for (int64_t m : {1, 16, 128})
            for (int64_t h : {2048, 4096, 5120, 8192}) {
                line(RMS_NORM, m, h, quantizers[0], plain, "gemma residual", true);
                variant e = plain;
                e.pdl = EPIQ_PDL_EARLY;
                line(RMS_NORM, m, h, quantizers[0], e, "gemma res. early", true);
            }
        for (int i = 1; i < 6; i++) {
            line(RMS_NORM, 16, 4096, quantizers[i], plain, "gemma residual", true);
            line(ACT_MUL, 16, 4096, quantizers[i], plain, "silu vllm", true);
        }
    }
    if (sweep)
        for (int op = 0; op < 2; op++)
            for (int64_t m : {1, 8, 32, 128, 384, 1024, 4096, 16384})
                for (int64_t h : {2048, 2880, 4096, 5120, 8192, 14336})
                    for (int i = 0; i < 5; i++)
                        line(op, m, h, quantizers[i], plain, "", false);
    return 0;
}
