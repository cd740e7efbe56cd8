/* backend.h: what core knows of a backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_BACKEND_H
#define EPIQ_BACKEND_H

#include "plan.h"

/* Runs a valid plan with rows > 0, in the floating-point state of fp_state.h. */
epiq_status epiqi_cpu_run(const epiqi_plan *plan);

/* The fastest CPU backend usable here. */
epiq_backend epiqi_default_backend(void);

/* Whether a backend (0: the default) is in this build and runs on this machine: EPIQ_OK with what it is, or
 * EPIQ_ERROR_BACKEND with the reason. */
epiq_status epiqi_usable(epiq_backend backend, epiqi_text *text);

#endif
