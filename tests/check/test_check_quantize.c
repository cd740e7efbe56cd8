/* test_check_quantize.c: epiq_quantize against the oracle, over every quantizer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_harness.h"

#include <string.h>

/* Every quantizer on a few shapes: dense and with gaps, with and without padded columns, on each kind of data. */
static void every_quantizer(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, cols;
    } shapes[] = {{5, 160}, {1, 33}, {130, 20}};
    rng r = {101};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t shape = 0; shape < COUNT(shapes); shape++)
        for (size_t i = 0; i < count; i++)
            for (int variant = 0; variant < (shape == 0 ? 12 : 4); variant++) {
                combination c = {.op = OP_QUANTIZE,
                                 .dtype = check_dtypes[(variant + (int)i) % 3],
                                 .rows = shapes[shape].rows,
                                 .cols = shapes[shape].cols,
                                 .data = shape == 0 ? DATA_NORMAL + variant % (DATA_KINDS - 1) : DATA_ANY,
                                 .gaps = variant & 1 ? (int64_t)(rng_bits(&r) >> 16) : 0,
                                 .offsets = variant & 1 ? (int64_t)(rng_bits(&r) >> 16) : 0,
                                 .padded_cols = variant & 2 ? shapes[shape].cols + 1 + rng_below(&r, 150) : 0,
                                 .defaults = variant >> 1 & 1,
                                 .seed = 1 + rng_below(&r, 1 << 30)};
                c = with_quantizer(c, &list[i]);
                c.level_value = variant % 3 == 0 ? check_scales[rng_below(&r, (int64_t)check_scales_count)]
                                                 : rng_float(&r, 0.01f, 4.0f);
                c.upper_bound = rng_float(&r, 0.5f, 8.0f);
                fit_cols(&c);
                check(&c);
            }
    check_report("every quantizer", 5200);
}

/* Every dtype and every special value of scale, inv_scale and scale_ub, on data that hold everything. */
static void every_scale(void **state)
{
    (void)state;
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++) {
        if ((list[i].level == LEVEL_NONE && !list[i].bounded) || list[i].level == LEVEL_COMPUTED)
            continue;
        if (list[i].layout != EPIQ_LAYOUT_ROW)
            continue;
        for (size_t v = 0; v < check_scales_count; v++)
            for (int dtype = 0; dtype < 3; dtype++)
                for (int data = 0; data < 3; data++) {
                    static const int64_t kinds[] = {DATA_SPECIAL, DATA_TINY, DATA_PATTERN};
                    combination c = {.op = OP_QUANTIZE,
                                     .dtype = check_dtypes[dtype],
                                     .rows = 4,
                                     .cols = 64,
                                     .data = kinds[data],
                                     .padded_cols = 96,
                                     .seed = 1 + (int64_t)(i * 100 + v)};
                    c = with_quantizer(c, &list[i]);
                    c.level_value = c.upper_bound = check_scales[v];
                    check(&c);
                }
    }
    check_report("every scale", 5800);
}

/* Every 16-bit pattern, and as many patterns of f32, in every format. */
static void every_pattern(void **state)
{
    (void)state;
    size_t count;
    const combination *list = check_quantizers(&count);
    rng r = {102};
    for (size_t i = 0; i < count; i++)
        for (int dtype = 0; dtype < 3; dtype++) {
            if (list[i].layout != EPIQ_LAYOUT_ROW || list[i].nan != EPIQ_NAN_PROPAGATE)
                continue;
            combination c = {.op = OP_QUANTIZE,
                             .dtype = check_dtypes[dtype],
                             .rows = 64,
                             .cols = 1024,
                             .data = DATA_EVERY,
                             .level_value = rng_float(&r, 0.5f, 2.0f),
                             .upper_bound = 1e30f,
                             .seed = 1 + (int64_t)i};
            c = with_quantizer(c, &list[i]);
            check(&c);
        }
    check_report("every pattern", 100);
}

/* What y is multiplied by (or divided by: *divide) where the largest magnitude of its group is amax. */
static float factor_of(const combination *c, float amax, int *divide)
{
    *divide = 0;
    if (c->format == EPIQ_FORMAT_NVFP4) {
        float gs = oracle_gs_given(c->level_value);
        return oracle_nvfp4_multiplier((epiq_nvfp4)c->nvfp4, gs, oracle_nvfp4_scale((epiq_nvfp4)c->nvfp4, gs, amax));
    }
    if (c->format == EPIQ_FORMAT_INT8 && c->grain == EPIQ_GRAIN_TOKEN)
        return oracle_int8_token_multiplier(amax);
    if (c->grain == EPIQ_GRAIN_TENSOR && c->level == LEVEL_SCALE && c->format == EPIQ_FORMAT_INT8) {
        *divide = 1;
        return c->level_value;
    }
    if (c->grain == EPIQ_GRAIN_TENSOR)
        return oracle_multiplier(c->level == LEVEL_SCALE ? &c->level_value : NULL,
                                 c->level == LEVEL_SCALE ? NULL : &c->level_value);
    *divide = 1;
    return c->grain == EPIQ_GRAIN_TOKEN ? oracle_token_scale((epiq_format)c->format, amax, NULL)
                                        : oracle_group_scale((epiq_format)c->format, amax);
}

/* Halfway between two neighbouring codes. */
static float halfway(const combination *c, rng *r)
{
    int64_t codes = c->format == EPIQ_FORMAT_INT8   ? 127
                    : c->format == EPIQ_FORMAT_E4M3 ? 0x7e
                    : c->format == EPIQ_FORMAT_E5M2 ? 0x7b
                                                    : 7;
    uint8_t code = (uint8_t)rng_below(r, codes);
    return (oracle_decode((epiq_format)c->format, code) + oracle_decode((epiq_format)c->format, (uint8_t)(code + 1))) /
           2;
}

/* Elements whose quotient or product is within an ulp or two of a tie: a scale, a multiplier or a division that is
 * wrong in its last bit shows. */
static void fill_around_ties(scenario *s, rng *r)
{
    const combination *c = &s->c;
    const region *g = &s->regions[R_X];
    int64_t width = c->grain == EPIQ_GRAIN_GROUP ? c->group : c->cols;
    float factor = 1;
    int divide = 0;
    for (int64_t row = 0; row < c->rows; row++)
        for (int64_t col = 0; col < c->cols; col++) {
            float x;
            if (col % width == 0) {
                x = rng_float(r, 1.0f, 2.0f) * (float)(1 << rng_below(r, 12));
                factor = factor_of(c, x, &divide);
            } else {
                float tie = halfway(c, r);
                x = divide ? oracle_mul(tie, factor) : oracle_div(tie, factor);
                x = oracle_float(oracle_bits(x) + (uint32_t)rng_below(r, 5) - 2);
            }
            if (rng_bits(r) & 1)
                x = -x;
            memcpy(s->memory + g->place + row * g->stride + col * 4, &x, 4);
        }
}

static void around_ties(void **state)
{
    (void)state;
    rng r = {104};
    size_t count;
    const combination *list = check_quantizers(&count);
    for (size_t i = 0; i < count; i++) {
        const combination *q = &list[i];
        if (q->layout != EPIQ_LAYOUT_ROW || q->nan != EPIQ_NAN_PROPAGATE || q->ue8m0 || q->mx_round != 0 ||
            q->bounded || q->level == LEVEL_COMPUTED || (q->grain == EPIQ_GRAIN_TENSOR && q->level == LEVEL_NONE))
            continue;
        for (int k = 0; k < (q->level != LEVEL_NONE ? 150 : 8); k++) {
            combination c = {.op = OP_QUANTIZE,
                             .dtype = EPIQ_DTYPE_F32,
                             .rows = q->level != LEVEL_NONE ? 12 : 200,
                             .cols = 128,
                             .level_value = rng_float(&r, 1.0f, 2.0f),
                             .seed = 1 + k};
            c = with_quantizer(c, q);
            scenario s;
            if (!scenario_open(&s, &c))
                continue;
            fill_around_ties(&s, &r);
            check_scenario(&s);
            scenario_close(&s);
        }
    }
    check_report("around ties, seed 104", 1200);
}

static void at_random(void **state)
{
    (void)state;
    rng r = {103};
    for (int i = 0; i < 12000; i++) {
        combination c = random_combination(&r, OP_QUANTIZE);
        check(&c);
    }
    check_report("at random, seed 103", 10200);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_quantizer), cmocka_unit_test(every_scale), cmocka_unit_test(every_pattern),
    cmocka_unit_test(around_ties),     cmocka_unit_test(at_random),
};

CHECK_MAIN(tests)
