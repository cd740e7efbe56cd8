/* gpu_races.cu: what a launch could get wrong that a single call does not show: inputs that the kernel before writes
 * late, outputs that were something else before, several streams at once. SPDX-License-Identifier: Apache-2.0
 *
 *     gpu_races [REPETITIONS]     10000 for each operation and each kind of programmatic dependent launch
 *
 * Run by hand on a GPU (bench/gpu_verify.sh). A repetition is, in one stream: outputs and the memory around them are
 * filled with 0xa5; a kernel lets the next one start at once, waits some microseconds and only then writes x, the
 * residual, the weights and the scales; the operation; a hash of all that it wrote, of the residual, and of the memory
 * around the outputs. Every hash must be that of the same inputs run alone, with ordinary launches.
 *
 * Before that it plants a kernel that reads without waiting: if no hash shows that, the test itself is wrong. */
#include "must.h"

#include <epiq/epiq.h>

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

enum { ROWS = 37, COLS = 2048, INPUTS = 7, GUARD = 4096, STREAMS = 6 };
enum { X_BYTES = ROWS * COLS * 4, ROW_BYTES = ROWS * COLS * 2, WEIGHT_BYTES = COLS * 2 };

/* ---- Kernels ---- */

static __device__ uint32_t mix(uint32_t x)
{
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

struct memory {                            /* of a stream */
    unsigned short *x, *residual, *weight; /* bf16 */
    float *scale;
    unsigned char *outputs; /* codes, guard, scales, guard */
    int64_t output_bytes;
    unsigned long long *hashes;
    float *workspace;
};

/* Numbers around 1 of both signs, others for another seed. */
static __device__ unsigned short number(uint32_t i, uint32_t seed)
{
    const uint32_t h = mix(i * 31 + seed * 0x9e3779b9u);
    return (unsigned short)((h & 0x80ff) | 0x3f00);
}

static __global__ void write_late(memory m, uint32_t seed, uint32_t cycles)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    for (const long long begin = clock64(); clock64() - begin < cycles;)
        ;
    const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (uint32_t i = first; i < ROWS * COLS * 2; i += step)
        m.x[i] = number(i, seed);
    for (uint32_t i = first; i < ROWS * COLS; i += step)
        m.residual[i] = number(i, seed + 101);
    for (uint32_t i = first; i < COLS; i += step)
        m.weight[i] = number(i, seed + 202);
    if (first == 0)
        *m.scale = 1.0f + 0.25f * seed;
}

static __global__ void poison(memory m)
{
    for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < m.output_bytes; i += gridDim.x * blockDim.x)
        m.outputs[i] = 0xa5;
}

static __global__ void add_hash(memory m, int at)
{
    unsigned long long sum = 0;
    const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    const uint32_t *words = (const uint32_t *)m.outputs, *residual = (const uint32_t *)m.residual;
    for (uint32_t i = first; i < m.output_bytes / 4; i += step)
        sum += (unsigned long long)mix(words[i] + i) << 16 ^ mix(i * 3 + 1);
    for (uint32_t i = first; i < ROW_BYTES / 4; i += step)
        sum += (unsigned long long)mix(residual[i] ^ (i * 5 + 7)) << 20;
    atomicAdd(&m.hashes[at], sum);
}

/* Planted: what the operations must not be. */
static __global__ void copies_without_waiting(memory m)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < ROWS * COLS / 4; i += gridDim.x * blockDim.x)
        ((uint32_t *)(m.outputs + GUARD))[i] = ((const volatile uint32_t *)m.x)[i];
}

/* ---- The operations ---- */

enum { ACT_MUL, RMS_NORM, QUANTIZE, PLANTED };

struct operation {
    const char *name;
    int op;
    epiq_act act;
    epiq_format format;
    epiq_grain grain;
    epiq_layout layout;
    int fixed; /* a scale is given */
};

static const operation operations[] = {
    {"silu e4m3 tensor", ACT_MUL, EPIQ_ACT_SILU, EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TENSOR, EPIQ_LAYOUT_ROW, 1},
    {"silu e4m3 token", ACT_MUL, EPIQ_ACT_SILU, EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TOKEN, EPIQ_LAYOUT_ROW, 0},
    {"silu e4m3 group", ACT_MUL, EPIQ_ACT_SILU, EPIQ_FORMAT_E4M3, EPIQ_GRAIN_GROUP, EPIQ_LAYOUT_COL_ALIGNED, 0},
    {"gelu mxfp8", ACT_MUL, EPIQ_ACT_GELU_TANH, EPIQ_FORMAT_MXFP8, EPIQ_GRAIN_GROUP, EPIQ_LAYOUT_TILE128X4, 0},
    {"norm e4m3 tensor", RMS_NORM, EPIQ_ACT_SILU, EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TENSOR, EPIQ_LAYOUT_ROW, 1},
    {"norm e4m3 token", RMS_NORM, EPIQ_ACT_SILU, EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TOKEN, EPIQ_LAYOUT_ROW, 0},
    {"norm nvfp4", RMS_NORM, EPIQ_ACT_SILU, EPIQ_FORMAT_NVFP4, EPIQ_GRAIN_GROUP, EPIQ_LAYOUT_TILE128X4, 1},
    {"quantize mxfp4", QUANTIZE, EPIQ_ACT_SILU, EPIQ_FORMAT_MXFP4, EPIQ_GRAIN_GROUP, EPIQ_LAYOUT_TILE128X4, 0},
    {"quantize e4m3 in two launches", QUANTIZE, EPIQ_ACT_SILU, EPIQ_FORMAT_E4M3, EPIQ_GRAIN_TENSOR, EPIQ_LAYOUT_ROW, 0},
};

static void start(const operation &z, const memory &m, cudaStream_t stream, epiq_pdl pdl)
{
    epiq_output o = {.struct_size = sizeof o, .format = z.format, .grain = z.grain, .layout = z.layout};
    o.codes_out = m.outputs + GUARD;
    if (!z.fixed || z.format == EPIQ_FORMAT_NVFP4)
        o.scale_out = m.outputs + GUARD + ROWS * COLS + GUARD;
    if (z.fixed)
        o.inv_scale = m.scale;
    epiq_exec e = {.struct_size = sizeof e, .backend = EPIQ_BACKEND_CUDA, .stream = stream, .workspace = m.workspace};
    e.workspace_bytes = 1 << 20;
    e.pdl = pdl;
    epiq_status status = EPIQ_OK;
    if (z.op == ACT_MUL) {
        epiq_act_mul_args a = {.struct_size = sizeof a, .act = z.act};
        a.x = {.data = m.x, .rows = ROWS, .cols = 2 * COLS, .dtype = EPIQ_DTYPE_BF16};
        status = epiq_act_mul(&a, &o, &e);
    } else if (z.op == RMS_NORM) {
        epiq_rms_norm_args a = {.struct_size = sizeof a, .eps = 1e-6f};
        a.x = {.data = m.x, .rows = ROWS, .cols = COLS, .dtype = EPIQ_DTYPE_BF16};
        a.residual = m.residual;
        a.residual_out = m.residual;
        a.weight = m.weight;
        a.weight_bias = 1;
        status = epiq_rms_norm(&a, &o, &e);
    } else if (z.op == QUANTIZE) {
        epiq_quantize_args a = {.struct_size = sizeof a};
        a.x = {.data = m.x, .rows = ROWS, .cols = COLS, .dtype = EPIQ_DTYPE_BF16};
        status = epiq_quantize(&a, &o, &e);
    } else {
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(8);
        config.blockDim = dim3(256);
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        MUST(cudaLaunchKernelEx(&config, copies_without_waiting, m));
    }
    if (status != EPIQ_OK) {
        fprintf(stderr, "%s: %s\n", z.name, epiq_status_string(status));
        exit(1);
    }
}

static void repeat(const operation &z, const memory &m, cudaStream_t stream, epiq_pdl pdl, uint32_t seed,
                   uint32_t cycles, int at)
{
    poison<<<32, 256, 0, stream>>>(m);
    write_late<<<16, 256, 0, stream>>>(m, seed, cycles);
    start(z, m, stream, pdl);
    add_hash<<<32, 256, 0, stream>>>(m, at);
}

static memory make_memory(int hashes)
{
    memory m = {};
    m.output_bytes = GUARD + ROWS * COLS + GUARD + 128 * COLS / 16 + GUARD;
    MUST(cudaMalloc((void **)&m.x, X_BYTES));
    MUST(cudaMalloc((void **)&m.residual, ROW_BYTES));
    MUST(cudaMalloc((void **)&m.weight, WEIGHT_BYTES));
    MUST(cudaMalloc((void **)&m.scale, 4));
    MUST(cudaMalloc((void **)&m.outputs, m.output_bytes));
    MUST(cudaMalloc((void **)&m.workspace, 1 << 20));
    MUST(cudaMalloc((void **)&m.hashes, hashes * sizeof *m.hashes));
    return m;
}

static std::vector<unsigned long long> hashes_of(const memory &m, int n)
{
    std::vector<unsigned long long> h(n);
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(h.data(), m.hashes, n * sizeof h[0], cudaMemcpyDeviceToHost));
    return h;
}

/* Each alone: an ordinary launch, and nothing else under way. */
static std::vector<unsigned long long> expected(const operation &z, const memory &m)
{
    MUST(cudaMemset(m.hashes, 0, INPUTS * sizeof *m.hashes));
    for (int seed = 0; seed < INPUTS; seed++) {
        poison<<<32, 256>>>(m);
        write_late<<<16, 256>>>(m, seed, 0);
        MUST(cudaDeviceSynchronize());
        start(z, m, NULL, EPIQ_PDL_OFF);
        MUST(cudaDeviceSynchronize());
        add_hash<<<32, 256>>>(m, seed);
        MUST(cudaDeviceSynchronize());
    }
    return hashes_of(m, INPUTS);
}

static int wrong(const memory &m, const std::vector<unsigned long long> &want, int repetitions)
{
    const std::vector<unsigned long long> found = hashes_of(m, repetitions);
    int count = 0;
    for (int i = 0; i < repetitions; i++)
        count += found[i] != want[i % INPUTS];
    return count;
}

static int late_producer(const operation &z, const memory &m, cudaStream_t stream, epiq_pdl pdl, int repetitions)
{
    const std::vector<unsigned long long> want = expected(z, m);
    MUST(cudaMemset(m.hashes, 0, repetitions * sizeof *m.hashes));
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < repetitions; i++)
        repeat(z, m, stream, pdl, i % INPUTS, 4000 + i % 5 * 3000, i);
    return wrong(m, want, repetitions);
}

int main(int argc, char **argv)
{
    static const epiq_pdl kinds[] = {(epiq_pdl)0, EPIQ_PDL_OFF, EPIQ_PDL_LATE, EPIQ_PDL_EARLY};
    static const char *const kind_names[] = {"as measured", "off", "late", "early"};
    const int repetitions = argc > 1 ? atoi(argv[1]) : 10000;
    memory m[STREAMS];
    cudaStream_t streams[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        m[s] = make_memory(repetitions < INPUTS ? INPUTS : repetitions);
        MUST(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    }
    const operation planted = {"planted", PLANTED};
    int failed = 0;
    const int seen = late_producer(planted, m[0], streams[0], EPIQ_PDL_EARLY, 200);
    printf("planted kernel that does not wait: %d of 200 repetitions wrong%s\n", seen, seen ? "" : ": TEST IS BLIND");
    failed |= seen == 0;
    for (const operation &z : operations) {
        printf("%-30s", z.name);
        for (int k = 0; k < 4; k++) {
            const int count = late_producer(z, m[0], streams[0], kinds[k], repetitions);
            printf("  %s: %d of %d wrong", kind_names[k], count, repetitions);
            failed |= count != 0;
        }
        /* all streams at once, each with its own memory and another operation beside it */
        const int at_once = repetitions / 5;
        const int mine = (int)(&z - operations), count_of = (int)(sizeof operations / sizeof operations[0]);
        std::vector<unsigned long long> want[STREAMS];
        for (int s = 0; s < STREAMS; s++) {
            want[s] = expected(operations[(mine + s) % count_of], m[s]);
            MUST(cudaMemset(m[s].hashes, 0, at_once * sizeof *m[s].hashes));
        }
        MUST(cudaDeviceSynchronize());
        for (int i = 0; i < at_once; i++)
            for (int s = 0; s < STREAMS; s++)
                repeat(operations[(mine + s) % count_of], m[s], streams[s], (epiq_pdl)0, i % INPUTS, i % 3 * 1000, i);
        int count = 0;
        for (int s = 0; s < STREAMS; s++)
            count += wrong(m[s], want[s], at_once);
        printf("  %d streams: %d of %d wrong\n", (int)STREAMS, count, STREAMS * at_once);
        failed |= count != 0;
        fflush(stdout);
    }
    printf(failed ? "FAILED\n" : "passed\n");
    return failed;
}
