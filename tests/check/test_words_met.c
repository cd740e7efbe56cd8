/* test_words_met.c: no word of the library stays out of the comparisons: each value of each enum that can change a byte
 * is among the random combinations of check_harness.c, for every operation that has the field, on backends that are all
 * those usable here. A word that is added fails this test until the harness makes calls with it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Seen failing: with a seventh format and a word of another kind in the library, and with a random choice of four
 * orders out of five. */
#include "check_harness.h"

#include <stdio.h>

enum { BLOCKS = 10000, OPS = OP_DEQUANTIZE + 1 };

static unsigned char met[OPS][BLOCKS];

static void meet(const combination *c, int64_t value)
{
    if (value > 0 && value < BLOCKS)
        met[c->op][value] = 1;
}

static void meet_all(const combination *c)
{
    meet(c, c->dtype);
    if (c->op == OP_ACT_MUL) {
        meet(c, c->act);
        meet(c, c->order);
    }
    if (c->op == OP_RMS_NORM) {
        meet(c, c->sum_round);
        meet(c, c->weight_dtype);
    }
    meet(c, c->chain);
    meet(c, c->round);
    if (c->format == 0 || !header_offers(c))
        return;
    const int64_t quantizer[] = {c->format, c->grain, c->layout, c->mx_round, c->nvfp4, c->nan, c->pad_rows};
    for (size_t i = 0; i < COUNT(quantizer); i++)
        meet(c, quantizer[i]);
}

enum {
    ACT = 1 << OP_ACT_MUL,
    NORM = 1 << OP_RMS_NORM,
    QUANTIZERS = ACT | NORM | 1 << OP_QUANTIZE,
    ALL = QUANTIZERS | 1 << OP_DEQUANTIZE
};

/* Which operations have a field of a kind. */
static const struct {
    const char *kind;
    int operations;
} kinds[] = {{"dtype", ALL},
             {"format", ALL},
             {"grain", ALL},
             {"layout", ALL},
             {"act", ACT},
             {"order", ACT},
             {"chain", ACT | NORM},
             {"act_round", ACT | NORM},
             {"sum_round", NORM},
             {"nan", QUANTIZERS},
             {"mx_round", QUANTIZERS},
             {"nvfp4", QUANTIZERS},
             {"pad_rows", QUANTIZERS}};

/* Values that no call of these operations on a CPU can have. */
static const struct {
    int32_t value;
    int operations;
} elsewhere[] = {{EPIQ_DTYPE_E4M3, ALL}, /* of stored scales */
                 {EPIQ_DTYPE_E8M0, ALL},
                 {EPIQ_DTYPE_I32, ALL},
                 {EPIQ_CHAIN_ALLREDUCE, ACT}}; /* refused */

static int is_elsewhere(int32_t value, int op)
{
    for (size_t i = 0; i < COUNT(elsewhere); i++)
        if (elsewhere[i].value == value && (elsewhere[i].operations >> op & 1))
            return 1;
    return 0;
}

static void every_word_is_met(void **state)
{
    (void)state;
    rng r = {1301};
    for (int i = 0; i < 20000; i++) {
        combination c = random_combination(&r, OP_ACT_MUL + i % 4);
        meet_all(&c);
    }
    int missing = 0;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        int32_t start = epiq_value(kinds[k].kind, NULL);
        for (int op = OP_ACT_MUL; op <= OP_DEQUANTIZE; op++)
            for (int32_t v = start + 1; v < start + 100; v++) {
                int expected = epiq_word(v) != NULL && (kinds[k].operations >> op & 1) && !is_elsewhere(v, op);
                if (expected == met[op][v])
                    continue;
                print_error("%s %d (%s) of operation %d is %s the random calls\n", kinds[k].kind, v,
                            epiq_word(v) != NULL ? epiq_word(v) : "no word", op, expected ? "not among" : "among");
                missing++;
            }
    }
    assert_int_equal(missing, 0);
}

/* Words belong to a kind above, or to one that changes no byte. */
static void every_word_has_a_kind(void **state)
{
    (void)state;
    static const char *const others[] = {"status", "backend", "pdl"};
    for (int32_t v = 0; v < BLOCKS; v++) {
        int known = epiq_word(v) == NULL;
        for (size_t k = 0; k < COUNT(kinds); k++)
            known |= v / 100 * 100 == epiq_value(kinds[k].kind, NULL);
        for (size_t k = 0; k < COUNT(others); k++)
            known |= v / 100 * 100 == epiq_value(others[k], NULL);
        if (!known)
            fail_msg("%d (%s) is of a kind that this test does not know", v, epiq_word(v));
    }
}

static void every_usable_backend_is_compared(void **state)
{
    (void)state;
    size_t count, usable = 0;
    const epiq_backend *list = check_backends(&count);
    for (int32_t v = EPIQ_BACKEND_C; v < EPIQ_BACKEND_C + 99; v++) {
        if (v == EPIQ_BACKEND_CUDA || epiq_word(v) == NULL)
            continue; /* cuda: tests/python/gpu_check.py and `epiq check` */
        if (epiq_backend_usable((epiq_backend)v, 0, NULL, 0) != EPIQ_OK)
            continue;
        int found = 0;
        for (size_t i = 0; i < count; i++)
            found |= list[i] == (epiq_backend)v;
        if (!found)
            fail_msg("backend %s is usable and not compared", epiq_word(v));
        usable++;
    }
    assert_int_equal(usable, count);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_word_is_met),
    cmocka_unit_test(every_word_has_a_kind),
    cmocka_unit_test(every_usable_backend_is_compared),
};

CHECK_MAIN(tests)
