/* test_growth.c: struct_size: a caller built with a longer struct is served while the part unknown here is zero.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call_fixture.h"

enum { TAIL = 256, LARGEST = 4096 };

/* The structs that a caller passes in, each of its first release: its last field ends it. */
typedef enum passed { ARGS, OUT, EXEC, PASSED } passed;

#define SIZE_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

static size_t first_size(operation op, passed which)
{
    if (which == OUT)
        return SIZE_TO(epiq_output, padded_cols);
    if (which == EXEC)
        return SIZE_TO(epiq_exec, constants);
    return op == ACT_MUL    ? SIZE_TO(epiq_act_mul_args, y_row_stride)
           : op == RMS_NORM ? SIZE_TO(epiq_rms_norm_args, y_row_stride)
           : op == QUANTIZE ? SIZE_TO(epiq_quantize_args, x)
                            : SIZE_TO(epiq_dequantize_args, padded_cols);
}

/* A call whose structs have room behind them. */
typedef struct room {
    _Alignas(8) unsigned char args[LARGEST], out[LARGEST], exec[LARGEST];
    operation op;
} room;

static void begin_room(room *r, operation op)
{
    call c;
    begin(&c, op, op == DEQUANTIZE ? E4M3_TOKEN : NVFP4);
    memset(r, 0, sizeof *r);
    r->op = op;
    const void *args = op == ACT_MUL    ? (const void *)&c.act_mul
                       : op == RMS_NORM ? (const void *)&c.rms_norm
                       : op == QUANTIZE ? (const void *)&c.quantize
                                        : (const void *)&c.dequantize;
    memcpy(r->args, args, first_size(op, ARGS));
    memcpy(r->out, &c.out, first_size(op, OUT));
    memcpy(r->exec, &c.exec, first_size(op, EXEC));
}

static unsigned char *struct_of(room *r, passed which)
{
    return which == ARGS ? r->args : which == OUT ? r->out : r->exec;
}

static void set_size(room *r, passed which, uint32_t size)
{
    memcpy(struct_of(r, which), &size, sizeof size);
}

/* The three answers; they agree. */
static epiq_status ask(room *r, char *text, size_t bytes)
{
    const void *a = r->args, *o = r->out, *e = r->exec;
    epiq_sizes z = {.struct_size = sizeof z};
    epiq_status checked, ran;
    switch (r->op) {
    case ACT_MUL:
        checked = epiq_check_act_mul(a, o, e, &z);
        ran = epiq_act_mul(a, o, e);
        epiq_explain_act_mul(a, o, e, text, bytes);
        break;
    case RMS_NORM:
        checked = epiq_check_rms_norm(a, o, e, &z);
        ran = epiq_rms_norm(a, o, e);
        epiq_explain_rms_norm(a, o, e, text, bytes);
        break;
    case QUANTIZE:
        checked = epiq_check_quantize(a, o, e, &z);
        ran = epiq_quantize(a, o, e);
        epiq_explain_quantize(a, o, e, text, bytes);
        break;
    default:
        checked = epiq_check_dequantize(a, e, &z);
        ran = epiq_dequantize(a, e);
        epiq_explain_dequantize(a, e, text, bytes);
        break;
    }
    assert_int_equal(checked, ran);
    if (ran == EPIQ_OK)
        fill_memory();
    else
        assert_true(memory_is_untouched());
    return ran;
}

static const char *const names[PASSED] = {"args", "out", "exec"};

/* Calls f for each operation and each struct that it takes. */
static void for_each_struct(void (*f)(room *r, passed which, size_t size))
{
    fill_memory();
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (passed which = ARGS; which < PASSED; which++) {
            if (op == DEQUANTIZE && which == OUT)
                continue;
            room r;
            begin_room(&r, op);
            f(&r, which, first_size(op, which));
        }
}

static void longer_with_zero_tail(room *r, passed which, size_t size)
{
    char text[2048];
    for (size_t extra = 0; extra <= TAIL; extra++) {
        set_size(r, which, (uint32_t)(size + extra));
        assert_int_equal(ask(r, text, sizeof text), EPIQ_OK);
    }
    /* what lies behind struct_size is nobody's business */
    memset(struct_of(r, which) + size + 40, 0xff, TAIL - 40);
    set_size(r, which, (uint32_t)size + 40);
    assert_int_equal(ask(r, text, sizeof text), EPIQ_OK);
    memset(struct_of(r, which) + size, 0xff, TAIL);
    set_size(r, which, (uint32_t)size);
    assert_int_equal(ask(r, text, sizeof text), EPIQ_OK);
}

static void test_a_longer_struct_with_zeros_is_served(void **state)
{
    (void)state;
    for_each_struct(longer_with_zero_tail);
}

static void longer_with_a_bit(room *r, passed which, size_t size)
{
    char text[2048], expected[64];
    set_size(r, which, (uint32_t)(size + TAIL));
    for (size_t i = 0; i < TAIL; i++) {
        struct_of(r, which)[size + i] = (unsigned char)(1 << i % 8);
        assert_int_equal(ask(r, text, sizeof text), EPIQ_ERROR_STRUCT);
        snprintf(expected, sizeof expected, "%s: byte %zu is set", names[which], size + i);
        assert_memory_equal(text, expected, strlen(expected));
        struct_of(r, which)[size + i] = 0;
    }
    assert_int_equal(ask(r, text, sizeof text), EPIQ_OK);
}

static void test_a_field_unknown_here_is_refused(void **state)
{
    (void)state;
    for_each_struct(longer_with_a_bit);
}

static void shorter(room *r, passed which, size_t size)
{
    char text[2048], expected[64];
    for (size_t s = 0; s < size; s++) {
        set_size(r, which, (uint32_t)s);
        assert_int_equal(ask(r, text, sizeof text), EPIQ_ERROR_STRUCT);
        snprintf(expected, sizeof expected, "%s.struct_size: %zu", names[which], s);
        assert_memory_equal(text, expected, strlen(expected));
    }
    set_size(r, which, (uint32_t)size);
    assert_int_equal(ask(r, text, sizeof text), EPIQ_OK);
}

static void test_a_shorter_struct_is_refused(void **state)
{
    (void)state;
    for_each_struct(shorter);
}

/* A struct_size that was never set: refused by itself, nothing behind 4096 bytes is read or written. */
static void garbage(room *r, passed which, size_t size)
{
    char text[2048], expected[64];
    static const uint32_t sizes[] = {LARGEST + 1, 0x10000, 0x7fffffff, 0x80000000, 0xcccccccc, 0xffffffff};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        set_size(r, which, sizes[i]);
        assert_int_equal(ask(r, text, sizeof text), EPIQ_ERROR_STRUCT);
        snprintf(expected, sizeof expected, "%s.struct_size: %u;", names[which], (unsigned)sizes[i]);
        assert_memory_equal(text, expected, strlen(expected));
    }
    set_size(r, which, LARGEST);
    assert_int_equal(ask(r, text, sizeof text), EPIQ_OK);
    struct_of(r, which)[LARGEST - 1] = 1;
    assert_int_equal(ask(r, text, sizeof text), EPIQ_ERROR_STRUCT);
    struct_of(r, which)[size] = 1;
    assert_int_equal(ask(r, text, sizeof text), EPIQ_ERROR_STRUCT);
}

static void test_a_garbage_size_is_refused(void **state)
{
    (void)state;
    for_each_struct(garbage);
}

static void test_missing_structs(void **state)
{
    (void)state;
    fill_memory();
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
        call c;
        begin(&c, op, ANY);
        c.no_args = 1;
        assert_int_equal(call_check(&c, NULL), EPIQ_ERROR_STRUCT);
        assert_int_equal(call_run(&c), EPIQ_ERROR_STRUCT);
        c.no_args = 0;
        c.no_out = 1; /* y alone, if there is a y */
        assert_int_equal(call_run(&c), op == QUANTIZE ? EPIQ_ERROR_STRUCT : EPIQ_OK);
        c.no_out = 0;
        c.no_exec = 1; /* the defaults */
        assert_int_equal(call_run(&c), EPIQ_OK);
    }
}

/* epiq_matrix stands inside others: it cannot grow, so its size is part of theirs. */
static void test_sizes_of_the_first_release(void **state)
{
    (void)state;
    assert_int_equal(sizeof(epiq_matrix), 40);
    assert_int_equal(first_size(ACT_MUL, ARGS), 112);
    assert_int_equal(first_size(RMS_NORM, ARGS), 128);
    assert_int_equal(first_size(QUANTIZE, ARGS), 48);
    assert_int_equal(first_size(DEQUANTIZE, ARGS), 112);
    assert_int_equal(first_size(ACT_MUL, OUT), 120);
    assert_int_equal(first_size(ACT_MUL, EXEC), 64);
    assert_int_equal(SIZE_TO(epiq_sizes, workspace_bytes), 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_longer_struct_with_zeros_is_served),
        cmocka_unit_test(test_a_field_unknown_here_is_refused),
        cmocka_unit_test(test_a_shorter_struct_is_refused),
        cmocka_unit_test(test_a_garbage_size_is_refused),
        cmocka_unit_test(test_missing_structs),
        cmocka_unit_test(test_sizes_of_the_first_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
