/* fuzz_backends.c: the portable backend and another one that runs here: the same status, the same bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes bytes = {data, size};
    fuzz_call c;
    epiq_sizes sizes;
    fuzz_memory first, second;
    uint32_t number = fuzz_byte(&bytes);
    fuzz_call_decode(&c, &bytes);
    if (!c.has_exec) {
        c.has_exec = 1;
        c.exec.struct_size = sizeof c.exec;
    }
    c.exec.backend = EPIQ_BACKEND_C;
    if (fuzz_call_check(&c, &sizes) != EPIQ_OK)
        return 0;
    fuzz_call other = c;
    other.exec.backend = fuzz_backend(1 + number);
    other.exec.tasks = (int32_t)(number >> 4) % 5;
    other.exec.executor = number & 128 ? fuzz_backwards : NULL;
    if (!fuzz_memory_make(&first, &c, &sizes, 0xC3))
        return 0;
    if (!fuzz_memory_make(&second, &other, &sizes, 0xC3))
        fuzz_fail("the second memory of a call is larger than the first");
    epiq_status one = fuzz_call_run(&c), two = fuzz_call_run(&other);
    if (one != two)
        fuzz_fail("c answers %d, %s %d", (int)one, epiq_word(other.exec.backend), (int)two);
    fuzz_memory_verify(&first);
    fuzz_memory_verify(&second);
    fuzz_memory_same(&first, &second, 1);
    fuzz_memory_free(&first);
    fuzz_memory_free(&second);
    return 0;
}
