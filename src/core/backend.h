/* backend.h: what core knows of a backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_BACKEND_H
#define EPIQ_BACKEND_H

#include "plan.h"

/* Runs a valid plan with rows > 0, in the floating-point state of fp_state.h. */
epiq_status epiqi_cpu_run(const epiqi_plan *plan);

/* The cuda backend, if the build has it (EPIQ_HAVE_CUDA). Runs a valid plan with rows > 0 on its exec's stream. */
epiq_status epiqi_cuda_run(const epiqi_plan *plan);
epiq_status epiqi_cuda_usable(int32_t device, epiqi_text *text);

/* For epiq_self_test: memory of the current device that the CPU reaches too, waiting, and the hardware shortcuts
 * against the definition; rcp_unit: rcp~ is the instruction here. */
void *epiqi_cuda_test_memory(size_t bytes);
void epiqi_cuda_test_free(void *memory);
epiq_status epiqi_cuda_test_wait(void);
epiq_status epiqi_cuda_self_test(int rcp_unit, epiqi_text *text);
int epiqi_cuda_rcp_unit(void);

/* Makes EPIQ_DEVICE(n) the current device (0: leaves it) and answers the one that was. */
int32_t epiqi_cuda_set_device(int32_t device);

/* A line about an error that the CUDA runtime holds, if there is one. */
void epiqi_cuda_last_error(epiqi_text *text);

/* The fastest CPU backend usable here. */
epiq_backend epiqi_default_backend(void);

/* Whether a backend (0: the default) is in this build and runs on this machine: EPIQ_OK with what it is, or
 * EPIQ_ERROR_BACKEND with the reason. */
epiq_status epiqi_usable(epiq_backend backend, epiqi_text *text);

#endif
