/* test_explain.c: the functions that write text: snprintf's rules at every size, and what the text holds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call_fixture.h"

enum { LONGEST = 4096 };

/* ---- snprintf's rules -------------------------------------------------------------------------------------------- */

/* Writes a text; what `from` is depends on the function. */
typedef size_t writer(const void *from, char *text, size_t bytes);

static size_t write_call(const void *from, char *text, size_t bytes)
{
    return call_explain(from, text, bytes);
}

/* The length does not depend on the room; what fits is the start of the whole text and ends with '\0'; nothing behind
 * the room is touched. */
static void check_manners(const void *from, writer *write)
{
    static char whole[LONGEST], part[LONGEST + 16];
    size_t length = write(from, whole, sizeof whole);
    assert_true(length > 0 && length < sizeof whole);
    assert_int_equal(strlen(whole), length);
    assert_int_equal(write(from, NULL, 0), length);
    for (size_t bytes = 0; bytes <= length + 2; bytes++) {
        memset(part, 'x', sizeof part);
        assert_int_equal(write(from, part, bytes), length);
        size_t kept = bytes == 0 ? 0 : bytes - 1 < length ? bytes - 1 : length;
        assert_memory_equal(part, whole, kept);
        if (bytes > 0)
            assert_int_equal(part[kept], '\0');
        for (size_t i = bytes; i < bytes + 16; i++)
            assert_int_equal(part[i], 'x');
    }
}

static void test_manners_of_accepted_calls(void **state)
{
    (void)state;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (quantizer q = NO_OUT; q < QUANTIZER_COUNT; q++) {
            call c;
            if (q == NO_OUT && op >= QUANTIZE)
                continue;
            begin(&c, op, q);
            check_manners(&c, write_call);
        }
}

static void test_manners_of_refused_calls(void **state)
{
    (void)state;
    static const setting faults[] = {
        INT(no_args, 1),
        INT(exec.struct_size, 0),
        INT(exec.backend, 1),
        INT(exec.pdl, 1),
        INT(exec.tasks, -1),
        INT(exec.device, EPIQ_DEVICE(1)),
        INT(exec.backend, EPIQ_BACKEND_NEON), /* described, with what is missing */
        INT(act_mul.act, 1),
        NUM(rms_norm.eps, 0),
        INT(quantize.x.cols, 0),
        INT(dequantize.y_row_stride, 1),
        PTR(dequantize.codes, NULL),
        PTR(out.codes_out, MEM(X, 0)),
    };
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (size_t i = 0; i < COUNT(faults); i++) {
            call c;
            begin(&c, op, ANY);
            apply(&c, &faults[i], 1);
            check_manners(&c, write_call);
        }
}

/* epiq_backend_usable and epiq_self_test answer a status, not the length. */
static void test_manners_of_the_others(void **state)
{
    (void)state;
    static char whole[LONGEST], part[LONGEST];
    for (int self_test = 0; self_test < 2; self_test++)
        for (int32_t backend = EPIQ_BACKEND_C - 1; backend <= EPIQ_BACKEND_CUDA + 1; backend++) {
            epiq_status status = self_test ? epiq_self_test((epiq_backend)backend, 0, whole, sizeof whole)
                                           : epiq_backend_usable((epiq_backend)backend, 0, whole, sizeof whole);
            size_t length = strlen(whole);
            assert_true(length > 0 && length < 512);
            static const size_t all_bytes[] = {0, 1, 2, 7, 20, 100, 600};
            for (size_t i = 0; i < COUNT(all_bytes); i++) {
                size_t bytes = all_bytes[i], kept = bytes == 0 ? 0 : bytes - 1 < length ? bytes - 1 : length;
                memset(part, 'x', sizeof part);
                epiq_status again = self_test
                                        ? epiq_self_test((epiq_backend)backend, 0, bytes ? part : NULL, bytes)
                                        : epiq_backend_usable((epiq_backend)backend, 0, bytes ? part : NULL, bytes);
                assert_int_equal(again, status);
                assert_memory_equal(part, whole, kept);
                if (bytes > 0)
                    assert_int_equal(part[kept], '\0');
                for (size_t k = bytes; k < sizeof part; k++)
                    assert_int_equal(part[k], 'x');
            }
        }
}

/* ---- What the text holds ----------------------------------------------------------------------------------------- */

static void assert_holds(const char *text, const char *const *pieces, size_t count)
{
    for (size_t i = 0; i < count && pieces[i] != NULL; i++)
        if (strstr(text, pieces[i]) == NULL)
            fail_msg("\"%s\" is not in:\n%s", pieces[i], text);
}

/* The operation, its formula, its values, the quantizer, the stored scales, the sizes. */
static void test_descriptions(void **state)
{
    (void)state;
    static const struct {
        operation op;
        quantizer start;
        setting settings[8];
        const char *pieces[12];
    } cases[] = {
        {ACT_MUL,
         E4M3_STATIC,
         {INT(act_mul.chain, EPIQ_CHAIN_DIRECT)},
         {"act_mul", "silu", "* up", "[3, 64]", "bf16", "gate_up", "direct", "not rounded", "e4m3", "tensor",
          "inv_scale", "192 bytes"}},
        {ACT_MUL,
         NVFP4_COMPUTED,
         {NUM(act_mul.alpha, 1.702f), NUM(act_mul.limit, 7.0f), NUM(act_mul.up_offset, 1.0f),
          INT(act_mul.order, EPIQ_ORDER_INTERLEAVED), INT(out.layout, EPIQ_LAYOUT_TILE128X4)},
         {"1.702", "min(gate, 7)", "clamp(up, -7, 7)", "up + 1", "interleaved", "twice", "nvfp4", "tile128x4",
          "[128, 4]", "16 columns", "computed", "512 bytes"}},
        {ACT_MUL,
         E4M3_TOKEN,
         {INT(act_mul.order, EPIQ_ORDER_UNGATED), INT(act_mul.act, EPIQ_ACT_RELU2), NUM(act_mul.limit_after, 3.5f),
          INT(act_mul.act_round, EPIQ_ROUND_ONCE)},
         {"relu2", "ungated", "[3, 128]", "3.5", "once", "token", "propagates", "12 bytes"}},
        {ACT_MUL, NO_OUT, {INT(act_mul.x.dtype, EPIQ_DTYPE_F16)}, {"f16", "vllm", "384 bytes"}},
        {RMS_NORM,
         NVFP4,
         {NUM(rms_norm.weight_bias, 1.0f), INT(out.nvfp4, EPIQ_NVFP4_IEEE), INT(out.nan, EPIQ_NAN_SATURATE)},
         {"rms_norm", "x + residual", "1e-06", "1 + weight", "fp32", "once", "ieee", "given", "saturates",
          "residual_out", "96 bytes", "384 bytes"}},
        {RMS_NORM,
         E4M3_DYNAMIC,
         {PTR(rms_norm.residual, NULL), PTR(rms_norm.residual_out, NULL), INT(rms_norm.weight_dtype, EPIQ_DTYPE_F32),
          INT(exec.backend, EPIQ_BACKEND_CUDA)},
         {"weight f32", "amax of the tensor", "[1, 1]", "4 bytes", "workspace", "8192 bytes"}},
        {QUANTIZE,
         NVFP4,
         {INT(quantize.x.cols, 40), INT(out.padded_cols, 64)},
         {"quantize", "[3, 40]", "padded to 64", "[3, 4]"}},
        {QUANTIZE, E4M3_TOKEN, {INT(quantize.x.rows, EPIQ_UNKNOWN)}, {"[?, 64]", "? bytes"}},
        {QUANTIZE, E4M3_TOKEN, {INT(quantize.x.cols, EPIQ_UNKNOWN)}, {"[3, ?]", "? bytes"}},
        {DEQUANTIZE,
         NVFP4,
         {INT(dequantize.y_dtype, EPIQ_DTYPE_F16)},
         {"dequantize", "[3, 64]", "f16", "nvfp4", "e4m3", "384 bytes"}},
        {DEQUANTIZE, E4M3_STATIC, {INT(dequantize.y_dtype, EPIQ_DTYPE_F32)}, {"f32", "e4m3", "tensor", "768 bytes"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        call c;
        char text[LONGEST];
        begin(&c, cases[i].op, cases[i].start);
        apply(&c, cases[i].settings, COUNT(cases[i].settings));
        assert_int_equal(call_check(&c, NULL), EPIQ_OK);
        call_explain(&c, text, sizeof text);
        assert_holds(text, cases[i].pieces, COUNT(cases[i].pieces));
    }
}

/* A call that would run says nothing of refusals; each kind of text ends its lines. */
static void test_accepted_is_told_from_refused(void **state)
{
    (void)state;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
        call c;
        char text[LONGEST];
        begin(&c, op, ANY);
        size_t length = call_explain(&c, text, sizeof text);
        assert_null(strstr(text, "refused"));
        assert_int_equal(text[length - 1], '\n');
        c.no_exec = 1;
        call_explain(&c, text, sizeof text);
        assert_null(strstr(text, "refused"));

        begin(&c, op, ANY);
        c.exec.tasks = -1;
        length = call_explain(&c, text, sizeof text);
        assert_int_equal(text[length - 1], '\n');
        assert_memory_equal(text, "exec.tasks: -1", 14); /* the field comes first */
        assert_non_null(strstr(text, epiq_status_string(EPIQ_ERROR_VALUE)));
        assert_null(strstr(text, "codes"));

        begin(&c, op, ANY);
        c.exec.backend = EPIQ_BACKEND_NEON;
        if (epiq_backend_usable(EPIQ_BACKEND_NEON, 0, NULL, 0) != EPIQ_OK) {
            call_explain(&c, text, sizeof text);
            assert_non_null(strstr(text, "refused"));
            assert_non_null(strstr(text, "neon"));
            assert_non_null(strstr(text, "codes"));
        }
    }
}

/* Whatever refuses a call, the reason is within the 512 bytes that the header's example gives. */
static void test_the_reason_is_within_the_examples_buffer(void **state)
{
    (void)state;
    static const struct {
        quantizer start;
        setting settings[4];
        const char *reason;
    } cases[] = {
        {NVFP4_COMPUTED, {PTR(out.scale_out, NULL)}, "scale_out: NULL"},
        {NVFP4_COMPUTED, {PTR(out.inv_scale_out, MEM(CODES, 0))}, "codes_out and inv_scale_out overlap"},
        {NVFP4_COMPUTED, {INT(exec.backend, EPIQ_BACKEND_CUDA)}, "workspace: 0 bytes are given"},
        {NVFP4_COMPUTED, {INT(exec.backend, EPIQ_BACKEND_NEON)}, "exec.backend: "},
    };
    for (operation op = ACT_MUL; op <= RMS_NORM; op *= 2)
        for (size_t i = 0; i < COUNT(cases); i++) {
            call c;
            char why[512];
            begin(&c, op, cases[i].start);
            c.act_mul.alpha = 1.702f; /* a long description */
            c.act_mul.limit = 7.0f;
            c.act_mul.up_offset = 1.0f;
            c.rms_norm.weight_bias = 1.0f;
            c.out.layout = EPIQ_LAYOUT_TILE128X4;
            c.out.padded_cols = 2 * COLS;
            apply(&c, cases[i].settings, COUNT(cases[i].settings));
            assert_true(call_run(&c) != EPIQ_OK);
            call_explain(&c, why, sizeof why);
            assert_holds(why, &cases[i].reason, 1);
        }
}

/* The same call, the same text, whatever the values in memory are. */
static void test_text_reads_no_memory(void **state)
{
    (void)state;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
        call c;
        static char before[LONGEST], after[LONGEST];
        begin(&c, op, NVFP4);
        fill_memory();
        size_t length = call_explain(&c, before, sizeof before);
        assert_true(memory_is_untouched());
        memset(memory, 0xff, sizeof memory);
        assert_int_equal(call_explain(&c, after, sizeof after), length);
        assert_string_equal(before, after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manners_of_accepted_calls),
        cmocka_unit_test(test_manners_of_refused_calls),
        cmocka_unit_test(test_manners_of_the_others),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_accepted_is_told_from_refused),
        cmocka_unit_test(test_the_reason_is_within_the_examples_buffer),
        cmocka_unit_test(test_text_reads_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
