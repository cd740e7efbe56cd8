/* backend.c: which backends this build has and which run here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include "cpu_detect.h"
#include "lists.h"

/* What each CPU backend needs. */
enum {
    NEEDED_C = 0,
    NEEDED_AVX2 = EPIQI_CPU_AVX2 | EPIQI_CPU_FMA | EPIQI_CPU_F16C,
    NEEDED_AVX512 = NEEDED_AVX2 | EPIQI_CPU_AVX512F | EPIQI_CPU_AVX512DQ | EPIQI_CPU_AVX512BW | EPIQI_CPU_AVX512VL,
    NEEDED_NEON = EPIQI_CPU_ASIMD
};

/* Features a CPU backend needs, or -1 if this build does not have it. */
static int needed(epiq_backend backend)
{
    switch (backend) {
#define X(upper, lower)                                                                                                \
    case EPIQ_BACKEND_##upper:                                                                                         \
        return NEEDED_##upper;
        EPIQI_CPU_BACKENDS(X)
#undef X
    default:
        return -1;
    }
}

static void print_features(epiqi_text *text, int features)
{
#define X(upper, lower)                                                                                                \
    if (features & EPIQI_CPU_##upper)                                                                                  \
        epiqi_print(text, " %s", #lower);
    EPIQI_CPU_FEATURES(X)
#undef X
}

int32_t epiq_version(void)
{
    return EPIQ_VERSION;
}

int32_t epiq_spec_revision(void)
{
    return EPIQ_SPEC_REVISION;
}

const char *epiq_build_info(void)
{
#define X(upper, lower) " " #lower
#ifdef EPIQ_HAVE_CUDA
    return "backends:" EPIQI_CPU_BACKENDS(X) " cuda; gpu images: " EPIQ_HAVE_CUDA;
#else
    return "backends:" EPIQI_CPU_BACKENDS(X) "; gpu images: none";
#endif
#undef X
}

epiq_backend epiqi_default_backend(void)
{
    epiq_backend fastest = EPIQ_BACKEND_C;
#define X(upper, lower)                                                                                                \
    if ((NEEDED_##upper & ~epiqi_cpu_features()) == 0)                                                                 \
        fastest = EPIQ_BACKEND_##upper;
    EPIQI_CPU_BACKENDS(X)
#undef X
    return fastest;
}

epiq_status epiqi_usable(epiq_backend backend, epiqi_text *text)
{
    if (backend == 0)
        backend = epiqi_default_backend();
#ifdef EPIQ_HAVE_CUDA
    if (backend == EPIQ_BACKEND_CUDA)
        return epiqi_cuda_usable(0, text);
#endif
    const int features = needed(backend);
    if (features < 0) {
        epiqi_print(text, "this build does not have %s", epiq_word(backend));
        return EPIQ_ERROR_BACKEND;
    }
    const int missing = features & ~epiqi_cpu_features();
    if (missing != 0) {
        epiqi_print(text, "%s: this CPU, or its operating system, lacks", epiq_word(backend));
        print_features(text, missing);
        return EPIQ_ERROR_BACKEND;
    }
    if (backend == EPIQ_BACKEND_C) {
        epiqi_print(text, "portable C, any CPU");
    } else {
        epiqi_print(text, "%s: this CPU has", epiq_word(backend));
        print_features(text, features);
    }
    return EPIQ_OK;
}

epiq_status epiq_backend_usable(epiq_backend backend, int32_t device, char *text, size_t bytes)
{
    epiqi_text t = {text, bytes, 0};
    if (backend != 0 && (backend < EPIQ_BACKEND_C || backend > EPIQ_BACKEND_CUDA)) {
        epiqi_print(&t, "backend: %d is not one of c (101) to cuda (105)", (int)backend);
        return EPIQ_ERROR_BACKEND;
    }
    if (device != 0 && backend != EPIQ_BACKEND_CUDA) {
        epiqi_print(&t, "device: only cuda has devices");
        return EPIQ_ERROR_DEVICE;
    }
#ifdef EPIQ_HAVE_CUDA
    if (backend == EPIQ_BACKEND_CUDA)
        return epiqi_cuda_usable(device, &t);
#endif
    return epiqi_usable(backend, &t);
}
