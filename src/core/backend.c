/* backend.c: which backends this build has and which run here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include "lists.h"

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
    return "backends:" EPIQI_CPU_BACKENDS(X) "; gpu images: none";
#undef X
}

epiq_backend epiqi_default_backend(void)
{
    return EPIQ_BACKEND_C;
}

epiq_status epiqi_usable(epiq_backend backend, epiqi_text *text)
{
    if (backend == 0)
        backend = epiqi_default_backend();
    if (backend == EPIQ_BACKEND_C) {
        epiqi_print(text, "portable C, any CPU");
        return EPIQ_OK;
    }
    epiqi_print(text, "this build does not have %s", epiq_word(backend));
    return EPIQ_ERROR_BACKEND;
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
    return epiqi_usable(backend, &t);
}
