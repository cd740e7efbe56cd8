/* fuzz_args.c: any argument structs: the validator alone on structs of exactly their size, and, where it accepts the
 * call, the portable backend on memory of exactly the sizes that it named.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Accepted means: EPIQ_OK, guards, inputs and gaps unchanged, and every byte of every row written: two runs over
 * different garbage, in different tasks, leave the same. */
#include "fuzz_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    fuzz_call c;
    epiq_sizes sizes;
    fuzz_memory first, second;
    fuzz_call_decode(&c, &bytes);
    if (fuzz_call_check(&c, &sizes) != EPIQ_OK)
        return 0;
    fuzz_call other = c;
    if (!fuzz_memory_make(&first, &c, &sizes, 0xA5))
        return 0;
    if (!fuzz_memory_make(&second, &other, &sizes, 0x5A))
        fuzz_fail("the second memory of a call is larger than the first");

    /* A check asks no machine; the call does. */
    epiq_status wanted = EPIQ_OK;
    if (c.has_exec && c.exec.backend != 0)
        wanted = epiq_backend_usable(c.exec.backend, 0, NULL, 0);
    else if (!c.has_exec)
        c.exec.struct_size = sizeof c.exec;
    if (wanted == EPIQ_OK) {
        c.has_exec = other.has_exec = 1;
        c.exec.backend = EPIQ_BACKEND_C;
        other.exec = c.exec;
        other.exec.executor = c.exec.executor == NULL ? fuzz_backwards : NULL;
        other.exec.tasks = c.exec.tasks % 4 + 2;
    }
    epiq_status status = fuzz_call_run(&c);
    if (wanted != EPIQ_OK) {
        if (status < EPIQ_ERROR_WORKSPACE || status == EPIQ_ERROR_UNSUPPORTED)
            fuzz_fail("a backend that is not there answers %d", (int)status);
        fuzz_memory_untouched(&first);
    } else {
        if (status != EPIQ_OK)
            fuzz_fail("the check accepts what the call refuses with %d", (int)status);
        if (fuzz_call_run(&other) != EPIQ_OK)
            fuzz_fail("a call fails the second time");
        fuzz_memory_verify(&first);
        fuzz_memory_verify(&second);
        if (sizes.rows == 0)
            fuzz_memory_untouched(&first);
        else
            fuzz_memory_same(&first, &second, 0);
    }
    fuzz_memory_free(&first);
    fuzz_memory_free(&second);
    return 0;
}
