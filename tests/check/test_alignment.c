/* test_alignment.c: buffers at any address and any byte stride, and rows that lie in each other's gaps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

static combination some_call(rng *r, int i)
{
    combination c = random_combination(r, OP_ACT_MUL + i % 4);
    c.offsets = c.gaps = c.interleaved = 0;
    if (c.rows > 5)
        c.rows = 5;
    if (c.rows < 2)
        c.rows = 2;
    return c;
}

/* Each buffer alone at each of 16 addresses. */
static void every_offset(void **state)
{
    (void)state;
    rng r = {601};
    for (int i = 0; i < 40; i++) {
        combination c = some_call(&r, i);
        for (int which = 0; which < REGIONS; which++)
            for (int64_t offset = 0; offset < 16; offset++) {
                c.offsets = offset << (4 * which);
                check(&c);
            }
    }
    check_report("every offset", 6200);
}

/* Each buffer alone with each gap, odd ones included, from an odd address. */
static void every_gap(void **state)
{
    (void)state;
    rng r = {602};
    for (int i = 0; i < 40; i++) {
        combination c = some_call(&r, i);
        for (int which = 0; which < REGIONS; which++)
            for (int64_t gap = 0; gap < 16; gap++) {
                c.gaps = gap << (4 * which);
                c.offsets = gap & 1 ? 0x111111111111 : 0;
                check(&c);
            }
    }
    check_report("every gap", 6200);
}

static void at_random(void **state)
{
    (void)state;
    rng r = {603};
    for (int i = 0; i < 4000; i++) {
        combination c = some_call(&r, i);
        c.offsets = (int64_t)(rng_bits(&r) >> 16);
        c.gaps = (int64_t)(rng_bits(&r) >> 16);
        check(&c);
    }
    check_report("at random, seed 603", 3400);
}

/* Column slices of one matrix: rows of inputs and outputs side by side. */
static void column_slices(void **state)
{
    (void)state;
    rng r = {604};
    for (int i = 0; i < 2500; i++) {
        combination c = some_call(&r, i);
        c.interleaved = 1;
        c.gaps = rng_below(&r, 2) ? 0 : (int64_t)(rng_bits(&r) >> 16);
        check(&c);
    }
    check_report("column slices, seed 604", 2100);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_offset),
    cmocka_unit_test(every_gap),
    cmocka_unit_test(at_random),
    cmocka_unit_test(column_slices),
};

CHECK_MAIN(tests)
