/* test_tvm_ffi.c: the tvm-ffi entry points, called as the ABI says, without Python and without libtvm_ffi.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Seen failing: with tvm_object of 16 bytes, with null strides refused, with byte_offset left out, with an option set
 * twice accepted, and with the error text not handed to the service. The numbers of fields: with the quotient taken for
 * the value, and with a start of a block refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <epiq/epiq.h>
#include "ffi/tvm_ffi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { M = 5, H = 64 };
static uint16_t x[M][H], r[M][H], w[H], y[M][H], y_plain[M][H], r_plain[M][H];
static uint8_t q[M][H], q_plain[M][H], sf[128 * 4], sf_plain[128 * 4];
static const float one = 1.0f, four = 4.0f;

static int fill(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < M * H; i++) {
        seed = seed * 1664525 + 1013904223;
        (&x[0][0])[i] = (uint16_t)((seed >> 16 & 0x81ff) | 0x3f00);
        (&r[0][0])[i] = (uint16_t)((seed >> 8 & 0x80ff) | 0x3f80);
        w[i % H] = (uint16_t)((seed >> 20 & 0x7f) | 0x3e80);
    }
    memset(q, 0xee, sizeof q);
    memset(q_plain, 0xee, sizeof q_plain);
    memset(sf, 0xee, sizeof sf);
    memset(sf_plain, 0xee, sizeof sf_plain);
    return 0;
}

/* ---- Arguments ---- */

typedef struct box { // a tensor with room for its shape
    dl_tensor t;
    int64_t shape[3], strides[3];
} box;

static dl_tensor *tensor(box *b, const void *data, uint8_t code, uint8_t bits, int ndim, int64_t s0, int64_t s1)
{
    *b = (box){.t = {.device = {DL_CPU, 0}, .ndim = ndim, .dtype = {code, bits, 1}}, .shape = {s0, s1}};
    memcpy(&b->t.data, &data, sizeof data);
    b->t.shape = b->shape;
    return &b->t;
}

static tvm_any any_tensor(dl_tensor *t)
{
    return (tvm_any){.type_index = TVM_DL_TENSOR, .pointer = t};
}

static tvm_any any_words(const char *text)
{
    return (tvm_any){.type_index = TVM_RAW_STR, .text = text};
}

static tvm_any any_integer(int64_t value)
{
    return (tvm_any){.type_index = TVM_INT, .integer = value};
}

static tvm_any any_float(double value)
{
    return (tvm_any){.type_index = TVM_FLOAT, .number = value};
}

static const tvm_any absent = {.type_index = TVM_NONE};
#define COUNT(array) ((int32_t)(sizeof(array) / sizeof *(array)))

static void expect_ok(int status, const tvm_any *result)
{
    if (status != 0)
        fail_msg("%s", result->type_index == TVM_RAW_STR ? result->text : "no text");
    assert_int_equal(result->type_index, TVM_NONE);
}

/* ---- Tests ---- */

static void layouts_are_those_of_the_abi(void **state)
{
    (void)state;
    assert_int_equal(sizeof(tvm_any), 16);
    assert_int_equal(offsetof(tvm_any, integer), 8);
    assert_int_equal(sizeof(tvm_object), 24);
    assert_int_equal(offsetof(tvm_object, type_index), 8);
    assert_int_equal(offsetof(tvm_tensor_object, tensor), 24);
    assert_int_equal(offsetof(tvm_str_object, data), 24);
    assert_int_equal(sizeof(dl_tensor), 48);
    assert_int_equal(offsetof(dl_tensor, ndim), 16);
    assert_int_equal(offsetof(dl_tensor, dtype), 20);
    assert_int_equal(offsetof(dl_tensor, shape), 24);
    assert_int_equal(offsetof(dl_tensor, byte_offset), 40);
}

static void quantize_writes_the_bytes_of_the_plain_call(void **state)
{
    (void)state;
    float s[M] = {0}, s_plain[M] = {0};
    box bx, bq, bs;
    tvm_any args[] = {any_tensor(tensor(&bx, x, DL_BFLOAT, 16, 2, M, H)),
                      absent,
                      absent,
                      absent,
                      absent,
                      any_tensor(tensor(&bq, q, DL_E4M3FN, 8, 2, M, H)),
                      any_tensor(tensor(&bs, s, DL_FLOAT, 32, 1, M, 0)),
                      absent,
                      any_words("format=e4m3, grain=token")};
    tvm_any result;
    expect_ok(__tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result), &result);

    epiq_quantize_args a = {.struct_size = sizeof a, .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16}};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_E4M3, .codes_out = q_plain, .scale_out = s_plain};
    assert_int_equal(epiq_quantize(&a, &o, NULL), EPIQ_OK);
    assert_memory_equal(q, q_plain, sizeof q);
    assert_memory_equal(s, s_plain, sizeof s);

    // The same through three dimensions, strides, a byte offset and raw integers of the library's numbers.
    uint16_t wide[M][H + 8];
    memset(wide, 0, sizeof wide);
    for (int i = 0; i < M; i++)
        memcpy(&wide[i][8], x[i], sizeof x[i]);
    memset(q, 0, sizeof q);
    dl_tensor *t = tensor(&bx, wide, DL_BFLOAT, 16, 3, 1, M);
    bx.shape[2] = H;
    memcpy(bx.strides, (int64_t[3]){7, H + 8, 1}, sizeof bx.strides); // of a dimension of one: no matter
    t->strides = bx.strides;
    t->byte_offset = 16;
    tensor(&bq, q, DL_UINT, 8, 2, M, H);
    args[8] = any_integer(EPIQ_FORMAT_E4M3);
    expect_ok(__tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result), &result);
    assert_memory_equal(q, q_plain, sizeof q);

    // Every field as a number, those of integers and those left to the default too.
    args[8] = any_words("format=e4m3 grain=group group=32 ue8m0=1");
    float pairs[M][2] = {{0}}, pairs_plain[M][2] = {{0}};
    args[6] = any_tensor(tensor(&bs, pairs_plain, DL_FLOAT, 32, 2, M, 2));
    expect_ok(__tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result), &result);
    memcpy(q_plain, q, sizeof q);
    memset(q, 0, sizeof q);
    tvm_any numbers[16];
    memcpy(numbers, args, sizeof args);
    numbers[6] = any_tensor(tensor(&bs, pairs, DL_FLOAT, 32, 2, M, 2));
    const int64_t given[] = {EPIQ_FORMAT_E4M3, EPIQ_GRAIN_GROUP, 1000000000032, 500, 2000000000001, 1100,
                             3000000000000};
    for (int i = 0; i < COUNT(given); i++)
        numbers[8 + i] = any_integer(given[i]);
    expect_ok(__tvm_ffi_epiq_quantize(NULL, numbers, 8 + COUNT(given), &result), &result);
    assert_memory_equal(q, q_plain, sizeof q);
    assert_memory_equal(pairs, pairs_plain, sizeof pairs);
}

static void rms_norm_takes_objects_and_absent_tensors(void **state)
{
    (void)state;
    memcpy(r_plain, r, sizeof r);
    epiq_rms_norm_args a = {.struct_size = sizeof a,
                            .eps = 1e-6f,
                            .weight = w,
                            .weight_bias = 1,
                            .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16},
                            .residual = r_plain,
                            .residual_out = r_plain,
                            .y_out = y_plain};
    epiq_output o = {.struct_size = sizeof o,
                     .format = EPIQ_FORMAT_NVFP4,
                     .layout = EPIQ_LAYOUT_TILE128X4,
                     .codes_out = q_plain,
                     .scale_out = sf_plain,
                     .inv_scale = &four};
    assert_int_equal(epiq_rms_norm(&a, &o, NULL), EPIQ_OK);

    box bx, br, bw, bg, bq, bs, by;
    tvm_tensor_object object = {.object = {.type_index = TVM_TENSOR}};
    object.tensor = *tensor(&bx, x, DL_BFLOAT, 16, 2, M, H);
    static const char words[] = "format=nvfp4 layout=tile128x4";
    tvm_str_object string = {.object = {.type_index = TVM_STR}, .data = words, .size = sizeof words - 1};
    br.t.data = NULL;
    tvm_any residual = any_tensor(tensor(&br, r, DL_BFLOAT, 16, 2, M, H));
    tvm_any args[] = {{.type_index = TVM_TENSOR, .pointer = &object},
                      residual,
                      any_tensor(tensor(&bw, w, DL_BFLOAT, 16, 1, H, 0)),
                      absent,
                      any_tensor(tensor(&bg, &four, DL_FLOAT, 32, 0, 0, 0)),
                      absent,
                      absent,
                      any_tensor(tensor(&bq, q, DL_UINT, 8, 2, M, H / 2)),
                      any_tensor(tensor(&bs, sf, DL_INT, 32, 2, 128, 1)), // one word of four scales
                      any_tensor(tensor(&by, y, DL_BFLOAT, 16, 2, M, H)),
                      residual,
                      absent,
                      any_float(1e-6f),
                      any_float(1),
                      {.type_index = TVM_STR, .pointer = &string},
                      absent};
    tvm_any result;
    expect_ok(__tvm_ffi_epiq_rms_norm(NULL, args, COUNT(args), &result), &result);
    assert_memory_equal(q, q_plain, sizeof q);
    assert_memory_equal(sf, sf_plain, sizeof sf);
    assert_memory_equal(y, y_plain, sizeof y);
    assert_memory_equal(r, r_plain, sizeof r);

    // y alone: neither codes nor a format. An array without elements is absent too.
    box nothing;
    memset(y, 0, sizeof y);
    memcpy(r, x, sizeof r);
    tvm_any y_only[] = {args[0],          any_tensor(tensor(&nothing, NULL, DL_FLOAT, 32, 1, 0, 0)),
                        args[2],          absent,
                        absent,           absent,
                        absent,           absent,
                        absent,           args[9],
                        absent,           absent,
                        any_float(1e-6f), any_float(1)};
    expect_ok(__tvm_ffi_epiq_rms_norm(NULL, y_only, COUNT(y_only), &result), &result);
    a.residual = a.residual_out = NULL;
    assert_int_equal(epiq_rms_norm(&a, NULL, NULL), EPIQ_OK);
    assert_memory_equal(y, y_plain, sizeof y);

    // Scales without codes are refused before anything is written.
    memset(y, 0xee, sizeof y);
    memset(y_plain, 0xee, sizeof y_plain);
    y_only[8] = args[8];
    assert_int_equal(__tvm_ffi_epiq_rms_norm(NULL, y_only, COUNT(y_only), &result), -1);
    assert_non_null(strstr(result.text, "scales without codes"));
    assert_memory_equal(y, y_plain, sizeof y);
}

static void act_mul_and_back(void **state)
{
    (void)state;
    epiq_act_mul_args a = {.struct_size = sizeof a,
                           .x = {.data = x, .rows = M, .cols = H, .dtype = EPIQ_DTYPE_BF16},
                           .order = EPIQ_ORDER_SEPARATE,
                           .chain = EPIQ_CHAIN_FLASHINFER,
                           .alpha = 1.5f,
                           .limit = 2,
                           .up = r,
                           .y_out = y_plain};
    epiq_output o = {.struct_size = sizeof o, .format = EPIQ_FORMAT_INT8, .codes_out = q_plain, .scale = &one};
    assert_int_equal(epiq_act_mul(&a, &o, NULL), EPIQ_OK);

    box bx, bu, b1, bq, by;
    tvm_any small = {.type_index = TVM_SMALL_STR, .small_size = 7};
    memcpy(&small.integer, "group=0", 7); // short strings lie in the value
    tvm_any args[] = {any_tensor(tensor(&bx, x, DL_BFLOAT, 16, 2, M, H)),
                      any_tensor(tensor(&bu, r, DL_BFLOAT, 16, 2, M, H)),
                      any_tensor(tensor(&b1, &one, DL_FLOAT, 32, 1, 1, 0)),
                      absent,
                      absent,
                      absent,
                      any_tensor(tensor(&bq, q, DL_INT, 8, 2, M, H)),
                      absent,
                      any_tensor(tensor(&by, y, DL_BFLOAT, 16, 2, M, H)),
                      absent,
                      any_float(1.5),
                      any_float(2),
                      any_words("format=int8 order=separate chain=flashinfer"),
                      small};
    tvm_any result;
    expect_ok(__tvm_ffi_epiq_act_mul(NULL, args, COUNT(args), &result), &result);
    assert_memory_equal(q, q_plain, sizeof q);
    assert_memory_equal(y, y_plain, sizeof y);

    float back[M][H], back_plain[M][H];
    box bb;
    epiq_dequantize_args d = {.struct_size = sizeof d,
                              .format = EPIQ_FORMAT_INT8,
                              .grain = EPIQ_GRAIN_TENSOR,
                              .rows = M,
                              .cols = H,
                              .codes = q,
                              .scale = &one,
                              .y_out = back_plain,
                              .y_dtype = EPIQ_DTYPE_F32};
    assert_int_equal(epiq_dequantize(&d, NULL), EPIQ_OK);
    tvm_any undo[] = {args[6], args[2], absent, any_tensor(tensor(&bb, back, DL_FLOAT, 32, 2, M, H)),
                      any_words("format=int8 grain=tensor")};
    expect_ok(__tvm_ffi_epiq_dequantize(NULL, undo, COUNT(undo), &result), &result);
    assert_memory_equal(back, back_plain, sizeof back);

    // The scale of a tensor is one float, whatever array it comes in.
    undo[1] = any_tensor(tensor(&b1, q, DL_UINT, 8, 2, M, 1));
    assert_int_equal(__tvm_ffi_epiq_dequantize(NULL, undo, COUNT(undo), &result), -1);
    assert_non_null(strstr(result.text, "scales is not one float32"));
}

static void a_column_major_scale_may_be_the_view_or_the_stored_array(void **state)
{
    (void)state;
    enum { N = 128, G = 2 };
    static uint16_t wide[M][N];
    static uint8_t codes[M][N];
    memcpy(wide, x, sizeof x);
    float view[G][M + 3], stored[G][M];
    memset(view, 0, sizeof view);
    box bx, bq, bs;
    tvm_any result;
    tvm_any args[] = {any_tensor(tensor(&bx, wide, DL_BFLOAT, 16, 2, M, N)),
                      absent,
                      absent,
                      absent,
                      absent,
                      any_tensor(tensor(&bq, codes, DL_E4M3FN, 8, 2, M, N)),
                      any_tensor(tensor(&bs, stored, DL_FLOAT, 32, 2, G, M)),
                      absent,
                      any_words("format=e4m3 grain=group group=64 layout=col")};
    expect_ok(__tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result), &result);
    dl_tensor *t = tensor(&bs, view, DL_FLOAT, 32, 2, M, G); // [M, G] with strides (1, M + 3)
    memcpy(bs.strides, (int64_t[2]){1, M + 3}, 2 * sizeof(int64_t));
    t->strides = bs.strides;
    expect_ok(__tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result), &result);
    for (int g = 0; g < G; g++) {
        assert_memory_equal(view[g], stored[g], sizeof stored[g]);
        assert_true(view[g][M] == 0);
    }
}

static void refuse(tvm_any *args, int32_t count, const char *part)
{
    tvm_any result = {.type_index = TVM_INT};
    assert_int_equal(__tvm_ffi_epiq_quantize(NULL, args, count, &result), -1);
    assert_int_equal(result.type_index, TVM_RAW_STR);
    if (strstr(result.text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, result.text);
}

static void errors_have_words(void **state)
{
    (void)state;
    memset(q, 0xee, sizeof q);
    memset(q_plain, 0xee, sizeof q_plain);
    box bx, bq, bs, bg;
    tvm_any plain[] = {any_tensor(tensor(&bx, x, DL_BFLOAT, 16, 2, M, H)),
                       absent,
                       any_tensor(tensor(&bg, &four, DL_FLOAT, 32, 1, 1, 0)),
                       absent,
                       absent,
                       any_tensor(tensor(&bq, q, DL_UINT, 8, 2, M, H / 2)),
                       any_tensor(tensor(&bs, sf, DL_UINT, 8, 2, M, H / 16)),
                       absent,
                       any_words("format=nvfp4"),
                       absent};
    tvm_any args[COUNT(plain)];
#define REFUSE(index, value, part)                                                                                     \
    (memcpy(args, plain, sizeof plain), args[index] = (value), refuse(args, COUNT(args), part))
    box b;
    refuse(plain, 3, "argument 3 (scale_ub) is missing");
    REFUSE(0, absent, "x is required");
    REFUSE(0, any_integer(3), "argument 0 (x) is neither a tensor nor None");
    REFUSE(0, any_tensor(tensor(&b, x, DL_INT, 16, 2, M, H)), "x: its element type");
    REFUSE(0, any_tensor(tensor(&b, x, DL_BFLOAT, 16, 2, M, H - 1)), "not a multiple of 16");
    REFUSE(2, any_tensor(tensor(&b, &four, DL_FLOAT, 32, 1, 2, 0)), "inv_scale is not one float32");
    REFUSE(5, any_tensor(tensor(&b, q, DL_FLOAT, 16, 2, M, H / 2)), "codes: the element type");
    REFUSE(5, any_tensor(tensor(&b, q, DL_UINT, 8, 2, M, H)), "codes are 5 rows of 64 bytes, not 5 of 32");
    REFUSE(6, any_tensor(tensor(&b, sf, DL_FLOAT, 32, 2, M, H / 16)), "scales: the element type is not e4m3");
    REFUSE(6, any_tensor(tensor(&b, sf, DL_UINT, 8, 2, M, 3)), "scales are 5 lines of 3 bytes");
    REFUSE(6, absent, "epiq_quantize: scale_out: NULL");
    REFUSE(8, any_words(""), "an empty string");
    REFUSE(8, any_words("format"), "'format' is not of the form key=word");
    REFUSE(8, any_words("format=fp4"), "'fp4' is no word of format");
    REFUSE(8, any_words("act=silu"), "'act=silu': there is no such option");
    REFUSE(8, any_words("format=nvfp4 format=nvfp4"), "format is given twice");
    REFUSE(8, any_words("format=nvfp4 group=1x"), "not a number");
    REFUSE(8, any_words("format=nvfp4 group=32"), "group");
    REFUSE(9, any_integer(EPIQ_FORMAT_E4M3), "format is given twice");
    REFUSE(9, any_integer(16), "16 is the number of no option here");
    REFUSE(9, any_integer(100), "100 is the number of no option here");
    REFUSE(9, any_integer(0), "0 is the number of no option here");
    REFUSE(9, any_integer(-1000000000016), "is the number of no option here");
    REFUSE(9, any_integer(600), "600 is the number of no option here"); // act
    REFUSE(9, any_integer(300), "format is given twice");
    REFUSE(9, any_integer(1000000000032), "group");
    REFUSE(9, any_integer(1000000000016 + (1ll << 32)), "is the number of no option here");
    REFUSE(9, any_integer(4000000000016), "4000000000016 is the number of no option here");
    REFUSE(9, any_integer(400000000000402), "400000000000402 is the number of no option here");
    REFUSE(9, any_float(1), "more floats than it has");
    REFUSE(9, ((tvm_any){.type_index = TVM_BOOL, .integer = 1}), "argument 9 is no float");
    dl_tensor *t = tensor(&b, x, DL_BFLOAT, 16, 2, M, H);
    t->strides = b.strides;
    memcpy(b.strides, (int64_t[2]){H, 2}, 2 * sizeof(int64_t));
    REFUSE(0, any_tensor(t), "elements of a row are not adjacent (stride 2)");
    memcpy(b.strides, (int64_t[2]){0, 1}, 2 * sizeof(int64_t));
    REFUSE(0, any_tensor(t), "one and the same");
    memcpy(b.strides, (int64_t[2]){INT64_MAX / 2, 1}, 2 * sizeof(int64_t));
    REFUSE(0, any_tensor(t), "x: its shape or its strides do not fit a memory");
    REFUSE(0, any_tensor(tensor(&b, x, DL_BFLOAT, 16, 2, M, INT64_MAX / 8)), "do not fit a memory");
    REFUSE(0, any_tensor(tensor(&b, x, DL_BFLOAT, 16, 2, INT64_MAX / 8, H)), "do not fit a memory");
    tensor(&b, NULL, DL_UINT, 8, 2, M, H / 16)->byte_offset = 16; // no memory, whatever the offset
    REFUSE(6, any_tensor(&b.t), "scale_out: NULL");
    t = tensor(&b, q, DL_UINT, 8, 2, M, H / 2);
    t->device.type = DL_CUDA;
    REFUSE(5, any_tensor(t), "codes is not on the device of the first tensor");
    assert_memory_equal(q, q_plain, sizeof q);
}

static void services_are_used_once_they_are_there(void **state)
{
    (void)state;
    void *library = dlopen(FAKE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    const char *raised = dlsym(library, "fake_raised");
    const int *streams = dlsym(library, "fake_streams");
    assert_non_null(raised);
    assert_non_null(streams);

    box bx, bq;
    tvm_any result;
    tvm_any args[] = {any_tensor(tensor(&bx, x, DL_BFLOAT, 16, 2, M, H)),
                      absent,
                      absent,
                      absent,
                      absent,
                      any_tensor(tensor(&bq, q, DL_UINT, 8, 2, M, H / 2)),
                      absent,
                      absent,
                      any_words("format=fp4")};
    assert_int_equal(__tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result), -1);
    assert_int_equal(result.type_index, TVM_NONE);
    assert_string_equal(raised, "ValueError|epiq_quantize: 'fp4' is no word of format");

    // No rows on a GPU: nothing is launched, but the stream is asked for; without a GPU the call is refused.
    tensor(&bx, NULL, DL_BFLOAT, 16, 2, 0, H)->device.type = DL_CUDA;
    tensor(&bq, NULL, DL_UINT, 8, 2, 0, H)->device.type = DL_CUDA;
    args[8] = any_words("format=int8");
    float s;
    box bs;
    args[6] = any_tensor(tensor(&bs, &s, DL_FLOAT, 32, 2, 0, 1));
    bs.t.device.type = DL_CUDA;
    int status = __tvm_ffi_epiq_quantize(NULL, args, COUNT(args), &result);
    assert_int_equal(*streams, 1);
    if (status != 0)
        assert_ptr_equal(strstr(raised, "RuntimeError|"), raised);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_those_of_the_abi),
        cmocka_unit_test_setup(quantize_writes_the_bytes_of_the_plain_call, fill),
        cmocka_unit_test_setup(rms_norm_takes_objects_and_absent_tensors, fill),
        cmocka_unit_test_setup(act_mul_and_back, fill),
        cmocka_unit_test_setup(a_column_major_scale_may_be_the_view_or_the_stored_array, fill),
        cmocka_unit_test_setup(errors_have_words, fill),
        cmocka_unit_test_setup(services_are_used_once_they_are_there, fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
