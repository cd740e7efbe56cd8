/* dispatch.c: the public operations and their checks: plan, look at the buffers, choose a backend, run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"
#include "fp_state.h"

/* From a plan and the status of its validation to the bytes. */
static epiq_status run(epiq_status status, epiqi_plan *plan, uint64_t caller)
{
    if (status != EPIQ_OK)
        return status;
    status = epiqi_plan_buffers(plan, NULL);
    if (status != EPIQ_OK || plan->rows == 0) /* nothing runs, so no backend or driver is asked */
        return status;
#ifdef EPIQ_HAVE_CUDA
    if (plan->exec->backend == EPIQ_BACKEND_CUDA)
        return epiqi_cuda_run(plan);
#endif
    plan->backend = plan->exec->backend != 0 ? plan->exec->backend : epiqi_default_backend();
    status = epiqi_usable(plan->backend, NULL);
    if (status != EPIQ_OK)
        return status;
    plan->caller_fp_state = caller;
    return epiqi_cpu_run(plan);
}

/* The answer of a check. Its own struct is looked at first, as every struct is. */
static epiq_status answer(epiq_status status, const epiqi_plan *plan, epiq_sizes *sizes)
{
    if (status == EPIQ_ERROR_STRUCT || sizes == NULL)
        return status;
    if (sizes->struct_size < sizeof *sizes || sizes->struct_size > EPIQI_MAX_STRUCT)
        return EPIQ_ERROR_STRUCT;
    if (status == EPIQ_OK)
        epiqi_plan_sizes(plan, sizes);
    return status;
}

epiq_status epiq_act_mul(const epiq_act_mul_args *args, const epiq_output *out, const epiq_exec *exec)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = run(epiqi_plan_act_mul(args, out, exec, &plan, NULL), &plan, caller);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_check_act_mul(const epiq_act_mul_args *args, const epiq_output *out, const epiq_exec *exec,
                               epiq_sizes *sizes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = answer(epiqi_plan_act_mul(args, out, exec, &plan, NULL), &plan, sizes);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out, const epiq_exec *exec)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = run(epiqi_plan_rms_norm(args, out, exec, &plan, NULL), &plan, caller);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_check_rms_norm(const epiq_rms_norm_args *args, const epiq_output *out, const epiq_exec *exec,
                                epiq_sizes *sizes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = answer(epiqi_plan_rms_norm(args, out, exec, &plan, NULL), &plan, sizes);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_quantize(const epiq_quantize_args *args, const epiq_output *out, const epiq_exec *exec)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = run(epiqi_plan_quantize(args, out, exec, &plan, NULL), &plan, caller);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_check_quantize(const epiq_quantize_args *args, const epiq_output *out, const epiq_exec *exec,
                                epiq_sizes *sizes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = answer(epiqi_plan_quantize(args, out, exec, &plan, NULL), &plan, sizes);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = run(epiqi_plan_dequantize(args, exec, &plan, NULL), &plan, caller);
    fp_state_leave(caller);
    return status;
}

epiq_status epiq_check_dequantize(const epiq_dequantize_args *args, const epiq_exec *exec, epiq_sizes *sizes)
{
    uint64_t caller = fp_state_enter();
    epiqi_plan plan;
    epiq_status status = answer(epiqi_plan_dequantize(args, exec, &plan, NULL), &plan, sizes);
    fp_state_leave(caller);
    return status;
}
