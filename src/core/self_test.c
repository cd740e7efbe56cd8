/* self_test.c: known answers (doc/spec.md 2.6): a backend's results over whole input ranges, as hashes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Through the public functions, so that what is tested is what a caller gets. */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

enum { INPUTS = 65536 };

typedef struct test_memory {
    float x[INPUTS], y[INPUTS];
} test_memory;

static uint64_t fnv1a(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

static const uint64_t basis = 14695981039346656037u;

/* Inputs as fp32: every bf16, every fp16, and every 65536th fp32. */
enum { ALL_BF16, ALL_F16, SPARSE_F32 };

static void fill(int which, float *x)
{
    for (uint32_t i = 0; i < INPUTS; i++) {
        uint32_t u = which == ALL_BF16 ? i << 16 : i * 65537u;
        if (which == ALL_F16) {
            uint32_t magnitude = i & 0x7fff, exponent = magnitude >> 10;
            if (exponent == 31) {
                u = 0x7f800000u | (magnitude & 0x3ff) << 13;
            } else if (exponent != 0) {
                u = (magnitude << 13) + (112u << 23);
            } else {
                float f = (float)magnitude * 0x1p-24f; /* exact */
                memcpy(&u, &f, sizeof u);
            }
            u |= (i & 0x8000) << 16;
        }
        memcpy(&x[i], &u, sizeof u);
    }
}

typedef struct test_case {
    const char *name;
    int inputs;
    epiq_act act;
    uint64_t hash;
} test_case;

static const test_case cases[] = {
    {"silu bf16", ALL_BF16, EPIQ_ACT_SILU, 0x48fb04b299835f58u},
    {"silu f16", ALL_F16, EPIQ_ACT_SILU, 0x13db1866f3a95405u},
    {"gelu_tanh bf16", ALL_BF16, EPIQ_ACT_GELU_TANH, 0xcf5a4ba19586f583u},
    {"gelu_tanh f16", ALL_F16, EPIQ_ACT_GELU_TANH, 0xa1f6d3009365444fu},
    {"gelu_erf bf16", ALL_BF16, EPIQ_ACT_GELU_ERF, 0x8e1bd6df95f2279cu},
    {"gelu_erf f16", ALL_F16, EPIQ_ACT_GELU_ERF, 0xd799a9bd41f74b38u},
};

/* Memory that the backend reaches. */
static test_memory *new_memory(epiq_backend backend)
{
#ifdef EPIQ_HAVE_CUDA
    if (backend == EPIQ_BACKEND_CUDA)
        return epiqi_cuda_test_memory(sizeof(test_memory));
#endif
    (void)backend;
    return malloc(sizeof(test_memory));
}

static void free_memory(epiq_backend backend, test_memory *m)
{
#ifdef EPIQ_HAVE_CUDA
    if (backend == EPIQ_BACKEND_CUDA) {
        epiqi_cuda_test_free(m);
        return;
    }
#endif
    (void)backend;
    free(m);
}

static epiq_status run_case(const test_case *c, epiq_backend backend, test_memory *m, uint64_t *hash)
{
    const epiq_exec exec = {.struct_size = sizeof exec, .backend = backend};
    fill(c->inputs, m->x);
    epiq_act_mul_args args = {.struct_size = sizeof args,
                              .act = c->act,
                              .x = {.data = m->x, .rows = 1, .cols = INPUTS, .dtype = EPIQ_DTYPE_F32},
                              .order = EPIQ_ORDER_UNGATED,
                              .chain = EPIQ_CHAIN_DIRECT,
                              .y_out = m->y};
    epiq_status status = epiq_act_mul(&args, NULL, &exec);
#ifdef EPIQ_HAVE_CUDA
    if (status == EPIQ_OK && backend == EPIQ_BACKEND_CUDA)
        status = epiqi_cuda_test_wait();
#endif
    *hash = fnv1a(basis, m->y, sizeof m->y);
    return status;
}

static epiq_status run_cases(epiq_backend backend, epiqi_text *t)
{
    test_memory *m = new_memory(backend);
    if (m == NULL) {
        epiqi_print(t, "not enough memory for the self-test");
        return EPIQ_ERROR_BACKEND;
    }
    epiq_status status = EPIQ_OK;
    const size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count && status == EPIQ_OK; i++) {
        uint64_t hash;
        status = run_case(&cases[i], backend, m, &hash);
        if (status == EPIQ_OK && hash != cases[i].hash) {
            epiqi_print(t, "%s: results hash to %016llx, not %016llx", cases[i].name, (unsigned long long)hash,
                        (unsigned long long)cases[i].hash);
            status = EPIQ_ERROR_SELF_TEST;
        }
    }
    free_memory(backend, m);
    if (status == EPIQ_OK)
        epiqi_print(t, "%zu known answers of %d results each", count, INPUTS);
    return status;
}

epiq_status epiq_self_test(epiq_backend backend, int32_t device, char *text, size_t bytes)
{
    epiq_status status = epiq_backend_usable(backend, device, text, bytes);
    if (status != EPIQ_OK)
        return status;
    epiqi_text t = {text, bytes, 0};
#ifdef EPIQ_HAVE_CUDA
    if (backend == EPIQ_BACKEND_CUDA) {
        int32_t previous = epiqi_cuda_set_device(device);
        status = epiqi_cuda_self_test(epiqi_cuda_rcp_unit(), &t);
        if (status == EPIQ_OK)
            status = run_cases(backend, &t);
        (void)epiqi_cuda_set_device(previous);
        return status;
    }
#endif
    return run_cases(backend, &t);
}
