/* test_sizes.c: the answers of epiq_check_* against sizes worked out by hand, and epiq_scale_offset against them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call_fixture.h"
#include "oracle/oracle.h"

/* ---- Single answers ---------------------------------------------------------------------------------------------- */

/* Settings on top of a call to start from, and the whole answer. `operations`: those that answer so. The shape of y is
 * that of the call to start from, 3 x 64 from bf16, unless a setting says otherwise; SHAPE sets it for all. */
typedef struct answer {
    int operations;
    quantizer start;
    setting settings[12];
    epiq_sizes sizes;
} answer;

/* x has the columns of y: act_mul of order ungated. */
#define SHAPE(rows_, cols_)                                                                                            \
    INT(act_mul.x.rows, rows_), INT(act_mul.x.cols, cols_), INT(act_mul.order, EPIQ_ORDER_UNGATED),                    \
        INT(rms_norm.x.rows, rows_), INT(rms_norm.x.cols, cols_), INT(quantize.x.rows, rows_),                         \
        INT(quantize.x.cols, cols_), INT(dequantize.rows, rows_), INT(dequantize.cols, cols_)

#define NO_Y PTR(act_mul.y_out, NULL), PTR(rms_norm.y_out, NULL)

static const answer answers[] = {
    /* ---- e4m3, one scale a row ---- */
    {QUANTIZE,
     E4M3_TOKEN,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {3, 1},
      .scale_stride = 4,
      .scale_bytes = 12}},
    {ACT_MUL | DEQUANTIZE, /* with y: 3 * 64 * 2 */
     E4M3_TOKEN,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {3, 1},
      .scale_stride = 4,
      .scale_bytes = 12,
      .y_bytes = 384}},
    {RMS_NORM, /* and the residual */
     E4M3_TOKEN,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {3, 1},
      .scale_stride = 4,
      .scale_bytes = 12,
      .y_bytes = 384,
      .residual_bytes = 384}},
    {ACT_MUL | RMS_NORM, /* without them */
     E4M3_TOKEN,
     {NO_Y, PTR(rms_norm.residual_out, NULL)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {3, 1},
      .scale_stride = 4,
      .scale_bytes = 12}},
    {QUANTIZE, /* with strides: (rows - 1) * stride + row, 2 * 100 + 64 and 2 * 24 + 4 */
     E4M3_TOKEN,
     {INT(out.codes_row_stride, 100), INT(out.scale_stride, 24)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 264,
      .scale_shape = {3, 1},
      .scale_stride = 24,
      .scale_bytes = 52}},
    {RMS_NORM, /* 2 * 130 + 128, 2 * 1000 + 128 */
     E4M3_TOKEN,
     {INT(rms_norm.y_row_stride, 130), INT(rms_norm.residual_out_row_stride, 1000)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {3, 1},
      .scale_stride = 4,
      .scale_bytes = 12,
      .y_bytes = 388,
      .residual_bytes = 2128}},
    {ACT_MUL, /* f32; an odd number of columns */
     E4M3_TOKEN,
     {INT(act_mul.x.dtype, EPIQ_DTYPE_F32), INT(act_mul.x.rows, 7), INT(act_mul.x.cols, 2 * 33)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 7,
      .cols = 33,
      .groups = 1,
      .codes_row_bytes = 33,
      .codes_bytes = 231,
      .scale_shape = {7, 1},
      .scale_stride = 4,
      .scale_bytes = 28,
      .y_bytes = 924}},
    {ACT_MUL | RMS_NORM, /* padded columns are of the codes alone */
     E4M3_TOKEN,
     {SHAPE(5, 10), PTR(rms_norm.residual_out, NULL), INT(out.padded_cols, 16)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 5,
      .cols = 10,
      .groups = 1,
      .codes_row_bytes = 16,
      .codes_bytes = 80,
      .scale_shape = {5, 1},
      .scale_stride = 4,
      .scale_bytes = 20,
      .y_bytes = 100}},
    {QUANTIZERS | DEQUANTIZE, /* no rows: nothing to write */
     E4M3_TOKEN,
     {SHAPE(0, 10), INT(out.codes_row_stride, 4096)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .cols = 10,
      .groups = 1,
      .codes_row_bytes = 10,
      .scale_shape = {0, 1},
      .scale_stride = 4}},

    /* ---- e4m3, one scale ---- */
    {QUANTIZE,
     E4M3_STATIC,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .rows = 3,
      .cols = 64,
      .codes_row_bytes = 64,
      .codes_bytes = 192}},
    {DEQUANTIZE,
     E4M3_STATIC,
     {INT(dequantize.y_dtype, EPIQ_DTYPE_F32), INT(dequantize.y_row_stride, 300)},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .rows = 3,
      .cols = 64,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .y_bytes = 856}},
    {QUANTIZE,
     E4M3_DYNAMIC,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {1, 1},
      .scale_stride = 4,
      .scale_bytes = 4}},
    {QUANTIZE, /* on a GPU that need not exist */
     E4M3_DYNAMIC,
     {INT(exec.backend, EPIQ_BACKEND_CUDA)},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {1, 1},
      .scale_stride = 4,
      .scale_bytes = 4,
      .workspace_bytes = 8192}},

    /* ---- nvfp4: two codes a byte, a scale byte for 16 columns ---- */
    {QUANTIZE,
     NVFP4,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_LINEAR,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 3,
      .cols = 64,
      .groups = 4,
      .codes_row_bytes = 32,
      .codes_bytes = 96,
      .scale_shape = {3, 4},
      .scale_stride = 4,
      .scale_bytes = 12}},
    {QUANTIZE, /* 2 * 10 + 4 */
     NVFP4,
     {INT(out.scale_stride, 10), INT(out.codes_row_stride, 33)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_LINEAR,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 3,
      .cols = 64,
      .groups = 4,
      .codes_row_bytes = 32,
      .codes_bytes = 98,
      .scale_shape = {3, 4},
      .scale_stride = 10,
      .scale_bytes = 24}},
    {QUANTIZE, /* tiles of 128 x 4, 512 bytes: 130 rows are 2 tiles, 5 groups are 2 */
     NVFP4,
     {SHAPE(130, 80), INT(out.layout, EPIQ_LAYOUT_TILE128X4)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 130,
      .cols = 80,
      .groups = 5,
      .codes_row_bytes = 40,
      .codes_bytes = 5200,
      .scale_shape = {256, 8},
      .scale_stride = 1024, /* of a row of tiles */
      .scale_bytes = 2048}},
    {QUANTIZE, /* 40 columns padded to 64: codes and scales of all, groups of padded columns are scales too */
     NVFP4,
     {SHAPE(128, 40), INT(out.layout, EPIQ_LAYOUT_TILE128X4), INT(out.padded_cols, 64)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 128,
      .cols = 40,
      .groups = 4,
      .codes_row_bytes = 32,
      .codes_bytes = 4096,
      .scale_shape = {128, 4},
      .scale_stride = 512,
      .scale_bytes = 512}},
    {QUANTIZE,
     NVFP4,
     {SHAPE(0, 64), INT(out.layout, EPIQ_LAYOUT_TILE128X4)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .cols = 64,
      .groups = 4,
      .codes_row_bytes = 32,
      .scale_shape = {0, 4},
      .scale_stride = 512}},
    {QUANTIZE,
     NVFP4_COMPUTED,
     {INT(exec.backend, EPIQ_BACKEND_CUDA)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_LINEAR,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 3,
      .cols = 64,
      .groups = 4,
      .codes_row_bytes = 32,
      .codes_bytes = 96,
      .scale_shape = {3, 4},
      .scale_stride = 4,
      .scale_bytes = 12,
      .workspace_bytes = 8192}},
    {DEQUANTIZE,
     NVFP4,
     {INT(dequantize.layout, EPIQ_LAYOUT_TILE128X4), INT(dequantize.rows, 1)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 1,
      .cols = 64,
      .groups = 4,
      .codes_row_bytes = 32,
      .codes_bytes = 32,
      .scale_shape = {128, 4},
      .scale_stride = 512,
      .scale_bytes = 512,
      .y_bytes = 128}},

    /* ---- Unknown dimensions: what hangs on them is unknown, the rest is not ---- */
    {QUANTIZE,
     E4M3_TOKEN,
     {SHAPE(EPIQ_UNKNOWN, 64)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = -1,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = -1,
      .scale_shape = {-1, 1},
      .scale_stride = 4,
      .scale_bytes = -1}},
    {QUANTIZE,
     E4M3_TOKEN,
     {SHAPE(5, EPIQ_UNKNOWN)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 5,
      .cols = -1,
      .groups = 1,
      .codes_row_bytes = -1,
      .codes_bytes = -1,
      .scale_shape = {5, 1},
      .scale_stride = 4,
      .scale_bytes = 20}},
    {QUANTIZE, /* padded columns are known all the same */
     NVFP4,
     {SHAPE(5, EPIQ_UNKNOWN), INT(out.padded_cols, 128)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_LINEAR,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 5,
      .cols = -1,
      .groups = 8,
      .codes_row_bytes = 64,
      .codes_bytes = 320,
      .scale_shape = {5, 8},
      .scale_stride = 8,
      .scale_bytes = 40}},
    {QUANTIZE,
     NVFP4,
     {SHAPE(EPIQ_UNKNOWN, 80), INT(out.layout, EPIQ_LAYOUT_TILE128X4)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = -1,
      .cols = 80,
      .groups = 5,
      .codes_row_bytes = 40,
      .codes_bytes = -1,
      .scale_shape = {-1, 8},
      .scale_stride = 1024,
      .scale_bytes = -1}},
    {QUANTIZE,
     NVFP4,
     {SHAPE(130, EPIQ_UNKNOWN), INT(out.layout, EPIQ_LAYOUT_TILE128X4)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = 130,
      .cols = -1,
      .groups = -1,
      .codes_row_bytes = -1,
      .codes_bytes = -1,
      .scale_shape = {256, -1},
      .scale_stride = -1,
      .scale_bytes = -1}},
    {QUANTIZE, /* a dynamic scale is one, whatever the rows */
     E4M3_DYNAMIC,
     {SHAPE(EPIQ_UNKNOWN, EPIQ_UNKNOWN)},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = -1,
      .cols = -1,
      .groups = 1,
      .codes_row_bytes = -1,
      .codes_bytes = -1,
      .scale_shape = {1, 1},
      .scale_stride = 4,
      .scale_bytes = 4}},
    {RMS_NORM,
     E4M3_STATIC,
     {SHAPE(EPIQ_UNKNOWN, 64)},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .rows = -1,
      .cols = 64,
      .codes_row_bytes = 64,
      .codes_bytes = -1,
      .y_bytes = -1,
      .residual_bytes = -1}},

    /* ---- y alone ---- */
    {ACT_MUL, NO_OUT, {SHAPE(9, 11)}, {.rows = 9, .cols = 11, .y_bytes = 198}},
    {ACT_MUL, NO_OUT, {SHAPE(9, 11), PTR(act_mul.y_out, NULL)}, {.rows = 9, .cols = 11, .y_bytes = 198}},
    {RMS_NORM,
     NO_OUT,
     {SHAPE(9, 11), INT(rms_norm.x.dtype, EPIQ_DTYPE_F32)},
     {.rows = 9, .cols = 11, .y_bytes = 396, .residual_bytes = 396}},

    /* ---- The largest shape: 64 bits throughout ---- */
    {QUANTIZE,
     E4M3_TOKEN,
     {SHAPE(INT64_C(0x7fffffff), INT64_C(1) << 28), INT(quantize.x.dtype, EPIQ_DTYPE_F32)},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = INT64_C(0x7fffffff),
      .cols = INT64_C(1) << 28,
      .groups = 1,
      .codes_row_bytes = INT64_C(1) << 28,
      .codes_bytes = INT64_C(0x07fffffff0000000), /* 2^59 - 2^28 */
      .scale_shape = {INT64_C(0x7fffffff), 1},
      .scale_stride = 4,
      .scale_bytes = INT64_C(0x1fffffffc)}},
    {ACT_MUL, /* x: 2^31 bytes a row, 2^62 in all */
     E4M3_STATIC,
     {INT(act_mul.x.rows, INT64_C(0x7fffffff)), INT(act_mul.x.cols, INT64_C(1) << 29),
      INT(act_mul.x.dtype, EPIQ_DTYPE_F32)},
     {.grain = EPIQ_GRAIN_TENSOR,
      .layout = EPIQ_LAYOUT_ROW,
      .rows = INT64_C(0x7fffffff),
      .cols = INT64_C(1) << 28,
      .codes_row_bytes = INT64_C(1) << 28,
      .codes_bytes = INT64_C(0x07fffffff0000000),
      .y_bytes = INT64_C(0x1fffffffc0000000)}},
    {QUANTIZE, /* 2^31 x 2^24 bytes of scales */
     NVFP4,
     {SHAPE(INT64_C(0x7fffffff), INT64_C(1) << 28), INT(out.layout, EPIQ_LAYOUT_TILE128X4)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_TILE128X4,
      .scale_dtype = EPIQ_DTYPE_E4M3,
      .rows = INT64_C(0x7fffffff),
      .cols = INT64_C(1) << 28,
      .groups = INT64_C(1) << 24,
      .codes_row_bytes = INT64_C(1) << 27,
      .codes_bytes = INT64_C(0x03fffffff8000000),
      .scale_shape = {INT64_C(1) << 31, INT64_C(1) << 24},
      .scale_stride = INT64_C(1) << 31,
      .scale_bytes = INT64_C(1) << 55}},

    /* ---- The other formats and layouts ---- */
    {QUANTIZE, /* 200 columns: groups of 128 and 72 */
     E4M3_GROUP,
     {SHAPE(5, 200)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 128,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 5,
      .cols = 200,
      .groups = 2,
      .codes_row_bytes = 200,
      .codes_bytes = 1000,
      .scale_shape = {5, 2},
      .scale_stride = 8,
      .scale_bytes = 40}},
    {QUANTIZE, /* [G, M]: 13 lines of 5 scales, 12 * 32 + 20 */
     E4M3_GROUP,
     {SHAPE(5, 200), INT(out.group, 16), INT(out.layout, EPIQ_LAYOUT_COL), INT(out.scale_stride, 32)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_COL,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 5,
      .cols = 200,
      .groups = 13,
      .codes_row_bytes = 200,
      .codes_bytes = 1000,
      .scale_shape = {13, 5},
      .scale_stride = 32,
      .scale_bytes = 404}},
    {QUANTIZE, /* [G, round_up(M, 4)] */
     E5M2_GROUP,
     {SHAPE(5, 200), INT(out.group, 64), INT(out.layout, EPIQ_LAYOUT_COL_ALIGNED)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 64,
      .layout = EPIQ_LAYOUT_COL_ALIGNED,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 5,
      .cols = 200,
      .groups = 4,
      .codes_row_bytes = 200,
      .codes_bytes = 1000,
      .scale_shape = {4, 8},
      .scale_stride = 32,
      .scale_bytes = 128}},
    {QUANTIZE, /* int32 [ceil(G / 4), round_up(M, 4)]: 13 groups are 4 words */
     E4M3_GROUP,
     {SHAPE(5, 200), INT(out.group, 16), INT(out.layout, EPIQ_LAYOUT_PACKED_UE8M0)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 16,
      .layout = EPIQ_LAYOUT_PACKED_UE8M0,
      .scale_dtype = EPIQ_DTYPE_I32,
      .rows = 5,
      .cols = 200,
      .groups = 13,
      .codes_row_bytes = 200,
      .codes_bytes = 1000,
      .scale_shape = {4, 8},
      .scale_stride = 32,
      .scale_bytes = 128}},
    {QUANTIZE,
     MXFP8,
     {SHAPE(9, 96), INT(out.layout, EPIQ_LAYOUT_TILE8X4)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 32,
      .layout = EPIQ_LAYOUT_TILE8X4,
      .scale_dtype = EPIQ_DTYPE_E8M0,
      .rows = 9,
      .cols = 96,
      .groups = 3,
      .codes_row_bytes = 96,
      .codes_bytes = 864,
      .scale_shape = {16, 4},
      .scale_stride = 32, /* of a row of tiles */
      .scale_bytes = 64}},
    {QUANTIZE,
     MXFP4,
     {SHAPE(9, 96)},
     {.grain = EPIQ_GRAIN_GROUP,
      .group = 32,
      .layout = EPIQ_LAYOUT_LINEAR,
      .scale_dtype = EPIQ_DTYPE_E8M0,
      .rows = 9,
      .cols = 96,
      .groups = 3,
      .codes_row_bytes = 48,
      .codes_bytes = 432,
      .scale_shape = {9, 3},
      .scale_stride = 3,
      .scale_bytes = 27}},
    {QUANTIZE,
     INT8_TOKEN,
     {{.kind = NOTHING}},
     {.grain = EPIQ_GRAIN_TOKEN,
      .layout = EPIQ_LAYOUT_ROW,
      .scale_dtype = EPIQ_DTYPE_F32,
      .rows = 3,
      .cols = 64,
      .groups = 1,
      .codes_row_bytes = 64,
      .codes_bytes = 192,
      .scale_shape = {3, 1},
      .scale_stride = 4,
      .scale_bytes = 12}},
};

static int compare_field(const char *name, int64_t got, int64_t expected)
{
    if (got == expected)
        return 0;
    print_error("    %s: %lld, expected %lld\n", name, (long long)got, (long long)expected);
    return 1;
}

static int compare_sizes(const epiq_sizes *got, const epiq_sizes *expected)
{
    int faults = 0;
#define FIELD_OF_SIZES(field) faults += compare_field(#field, got->field, expected->field)
    FIELD_OF_SIZES(grain);
    FIELD_OF_SIZES(group);
    FIELD_OF_SIZES(layout);
    FIELD_OF_SIZES(scale_dtype);
    FIELD_OF_SIZES(reserved);
    FIELD_OF_SIZES(rows);
    FIELD_OF_SIZES(cols);
    FIELD_OF_SIZES(groups);
    FIELD_OF_SIZES(codes_row_bytes);
    FIELD_OF_SIZES(codes_bytes);
    FIELD_OF_SIZES(scale_shape[0]);
    FIELD_OF_SIZES(scale_shape[1]);
    FIELD_OF_SIZES(scale_stride);
    FIELD_OF_SIZES(scale_bytes);
    FIELD_OF_SIZES(y_bytes);
    FIELD_OF_SIZES(residual_bytes);
    FIELD_OF_SIZES(workspace_bytes);
    return faults;
}

static void test_answers(void **state)
{
    (void)state;
    int faults = 0;
    for (size_t i = 0; i < COUNT(answers); i++)
        for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
            const answer *a = &answers[i];
            if ((a->operations & (int)op) == 0)
                continue;
            call c;
            begin(&c, op, a->start);
            apply(&c, a->settings, COUNT(a->settings));
            epiq_sizes got;
            memset(&got, 0xee, sizeof got);
            got.struct_size = sizeof got;
            epiq_status status = call_check(&c, &got);
            int here = status != EPIQ_OK ? 1 : compare_sizes(&got, &a->sizes);
            if (here != 0 || got.struct_size != sizeof got) {
                print_error("answer %zu of %s, status %s\n", i, operation_name(op), epiq_word(status));
                faults++;
            }
        }
    assert_int_equal(faults, 0);
}

/* Where the buffers are missing, and whoever asks, the answer is the same. */
static void test_answers_need_no_buffers(void **state)
{
    (void)state;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2)
        for (quantizer q = E4M3_TOKEN; q < QUANTIZER_COUNT; q++) {
            call c;
            begin(&c, op, q);
            epiq_sizes with = {.struct_size = sizeof with}, without = {.struct_size = sizeof without};
            assert_int_equal(call_check(&c, &with), EPIQ_OK);
            c.act_mul.x.data = c.rms_norm.x.data = c.quantize.x.data = c.rms_norm.weight = NULL;
            c.out.codes_out = c.out.scale_out = c.dequantize.y_out = NULL;
            c.dequantize.codes = c.dequantize.scale = NULL;
            c.no_exec = 1;
            assert_int_equal(call_check(&c, &without), EPIQ_OK);
            assert_memory_equal(&with, &without, sizeof with);
        }
}

/* ---- Rules over many shapes -------------------------------------------------------------------------------------- */

static void set_shape(call *c, int64_t rows, int64_t cols)
{
    const setting shape[] = {SHAPE(rows, cols)};
    apply(c, shape, COUNT(shape));
}

/* No workspace on a CPU; on a GPU it never falls as rows grow, so that the largest shape serves all. */
static void test_workspace_never_falls(void **state)
{
    (void)state;
    static const int64_t all_rows[] = {0,    1,    2,    3,     4,     7,      8,       127,        128,       129,
                                       1023, 1024, 4096, 65535, 65536, 100000, 1 << 20, 0x3fffffff, 0x7fffffff};
    static const int64_t all_cols[] = {32, 64, 4096, 16384, 1 << 20, 1 << 28};
    for (operation op = ACT_MUL; op <= QUANTIZE; op *= 2)
        for (quantizer q = E4M3_TOKEN; q < QUANTIZER_COUNT; q++)
            for (size_t k = 0; k < COUNT(all_cols); k++) {
                int64_t last = 0;
                for (size_t i = 0; i < COUNT(all_rows); i++) {
                    call c;
                    epiq_sizes z = {.struct_size = sizeof z};
                    begin(&c, op, q);
                    set_shape(&c, all_rows[i], all_cols[k]);
                    assert_int_equal(call_check(&c, &z), EPIQ_OK);
                    assert_int_equal(z.workspace_bytes, 0);
                    c.exec.backend = EPIQ_BACKEND_CUDA;
                    assert_int_equal(call_check(&c, &z), EPIQ_OK);
                    assert_true(z.workspace_bytes >= last);
                    last = z.workspace_bytes;
                }
                const int needed = q == E4M3_DYNAMIC || q == E5M2_DYNAMIC || q == NVFP4_COMPUTED;
                assert_int_equal(last > 0, needed);
            }
}

/* What a check answers is what the operation accepts: a workspace one byte smaller is refused, an equal one is not (the
 * next rule is the backend's). */
static void test_workspace_is_what_the_operation_wants(void **state)
{
    (void)state;
    if (epiq_backend_usable(EPIQ_BACKEND_CUDA, 0, NULL, 0) == EPIQ_OK)
        return; /* host memory is not for it */
    for (operation op = ACT_MUL; op <= QUANTIZE; op *= 2)
        for (quantizer q = E4M3_DYNAMIC; q <= NVFP4_COMPUTED; q += NVFP4_COMPUTED - E4M3_DYNAMIC) {
            call c;
            epiq_sizes z = {.struct_size = sizeof z};
            begin(&c, op, q);
            c.exec.backend = EPIQ_BACKEND_CUDA;
            assert_int_equal(call_check(&c, &z), EPIQ_OK);
            assert_true(z.workspace_bytes > 0 && z.workspace_bytes <= (SLOTS - WORKSPACE) * SLOT_BYTES);
            c.exec.workspace = MEM(WORKSPACE, 0);
            c.exec.workspace_bytes = z.workspace_bytes - 1;
            assert_int_equal(call_run(&c), EPIQ_ERROR_WORKSPACE);
            c.exec.workspace_bytes = z.workspace_bytes;
            assert_int_equal(call_run(&c), EPIQ_ERROR_BACKEND);
            c.exec.workspace = NULL;
            assert_int_equal(call_run(&c), EPIQ_ERROR_WORKSPACE);
        }
}

/* ---- Growth of the answer ---------------------------------------------------------------------------------------- */

static void test_growth(void **state)
{
    (void)state;
    union {
        epiq_sizes sizes;
        unsigned char bytes[sizeof(epiq_sizes) + 64];
    } big, untouched;
    for (operation op = ACT_MUL; op <= DEQUANTIZE; op *= 2) {
        call c;
        epiq_sizes plain = {.struct_size = sizeof plain};
        begin(&c, op, ANY);
        assert_int_equal(call_check(&c, &plain), EPIQ_OK);
        for (uint32_t extra = 0; extra <= 48; extra += 8) { /* a later caller's struct: its tail is zeroed */
            memset(&big, 0xee, sizeof big);
            big.sizes.struct_size = (uint32_t)sizeof(epiq_sizes) + extra;
            assert_int_equal(call_check(&c, &big.sizes), EPIQ_OK);
            assert_int_equal(big.sizes.struct_size, sizeof(epiq_sizes) + extra);
            assert_memory_equal(big.bytes + 4, (unsigned char *)&plain + 4, sizeof plain - 4);
            for (size_t i = sizeof(epiq_sizes); i < sizeof big; i++)
                assert_int_equal(big.bytes[i], i < sizeof(epiq_sizes) + extra ? 0 : 0xee);
        }
        static const uint32_t wrong[] = {
            0, 1, 4, 64, sizeof(epiq_sizes) - 8, sizeof(epiq_sizes) - 1, 4097, 0x10000, 0xcccccccc, 0xffffffff};
        for (size_t i = 0; i < COUNT(wrong); i++) {
            memset(&big, 0xee, sizeof big);
            big.sizes.struct_size = wrong[i];
            untouched = big;
            assert_int_equal(call_check(&c, &big.sizes), EPIQ_ERROR_STRUCT);
            assert_memory_equal(&big, &untouched, sizeof big);
        }
        memset(&big, 0xee, sizeof big); /* a refused call answers nothing */
        big.sizes.struct_size = sizeof(epiq_sizes);
        untouched = big;
        c.exec.tasks = -1;
        assert_int_equal(call_check(&c, &big.sizes), EPIQ_ERROR_VALUE);
        assert_memory_equal(&big, &untouched, sizeof big);
        c.exec.tasks = 0;
        assert_int_equal(call_check(&c, NULL), EPIQ_OK);
    }
}

/* ---- epiq_scale_offset ------------------------------------------------------------------------------------------- */

static void test_scale_offsets(void **state)
{
    (void)state;
    static const struct {
        quantizer start;
        epiq_layout layout;
        int32_t group;
        int64_t stride; /* of lines, 0 dense */
        int64_t unit;   /* bytes of a scale as the oracle counts them */
    } cases[] = {
        {NVFP4, EPIQ_LAYOUT_LINEAR, 0, 0, 1},
        {NVFP4, EPIQ_LAYOUT_LINEAR, 0, 23, 1},
        {NVFP4, EPIQ_LAYOUT_TILE128X4, 0, 0, 1},
        {NVFP4, EPIQ_LAYOUT_TILE8X4, 0, 0, 1},
        {MXFP8, EPIQ_LAYOUT_TILE128X4, 0, 0, 1},
        {MXFP4, EPIQ_LAYOUT_TILE8X4, 0, 0, 1},
        {E4M3_GROUP, EPIQ_LAYOUT_ROW, 16, 0, 4},
        {E4M3_GROUP, EPIQ_LAYOUT_ROW, 32, 80, 4},
        {E4M3_GROUP, EPIQ_LAYOUT_COL, 16, 0, 4},
        {E5M2_GROUP, EPIQ_LAYOUT_COL, 32, 2000, 4},
        {E4M3_GROUP, EPIQ_LAYOUT_COL_ALIGNED, 32, 0, 4},
        {E4M3_GROUP, EPIQ_LAYOUT_PACKED_UE8M0, 16, 0, 1},
        {E5M2_GROUP, EPIQ_LAYOUT_PACKED_UE8M0, 32, 2000, 1},
    };
    static const int64_t all_rows[] = {1, 3, 8, 31, 33, 127, 130, 257}, all_cols[] = {32, 64, 160};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t m = 0; m < COUNT(all_rows); m++)
            for (size_t h = 0; h < COUNT(all_cols); h++) {
                call c;
                epiq_sizes z = {.struct_size = sizeof z};
                begin(&c, QUANTIZE, cases[i].start);
                set_shape(&c, all_rows[m], all_cols[h]);
                c.out.layout = cases[i].layout;
                c.out.group = cases[i].group;
                c.out.scale_stride = cases[i].stride;
                assert_int_equal(call_check(&c, &z), EPIQ_OK);
                oracle_layout l = oracle_layout_make(cases[i].layout, z.rows, z.groups, cases[i].unit, cases[i].stride);
                assert_int_equal(z.scale_bytes, oracle_layout_bytes(&l));
                for (int64_t row = 0; row < z.rows; row++)
                    for (int64_t group = 0; group < z.groups; group++)
                        assert_int_equal(epiq_scale_offset(&z, row, group), oracle_layout_offset(&l, row, group));
                assert_int_equal(epiq_scale_offset(&z, z.rows, 0), -1);
                assert_int_equal(epiq_scale_offset(&z, 0, z.groups), -1);
                oracle_layout_free(&l);
            }
}

static void test_scale_offset_limits(void **state)
{
    (void)state;
    call c;
    epiq_sizes z = {.struct_size = sizeof z};
    assert_int_equal(epiq_scale_offset(NULL, 0, 0), -1);

    begin(&c, QUANTIZE, E4M3_TOKEN); /* token: group 0 alone */
    c.out.scale_stride = 24;
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), 0);
    assert_int_equal(epiq_scale_offset(&z, 2, 0), 48);
    assert_int_equal(epiq_scale_offset(&z, 3, 0), -1);
    assert_int_equal(epiq_scale_offset(&z, 0, 1), -1);
    assert_int_equal(epiq_scale_offset(&z, -1, 0), -1);
    assert_int_equal(epiq_scale_offset(&z, 0, -1), -1);
    assert_int_equal(epiq_scale_offset(&z, INT64_MAX, 0), -1);
    assert_int_equal(epiq_scale_offset(&z, INT64_MIN, 0), -1);
    assert_int_equal(epiq_scale_offset(&z, 0, INT64_MAX), -1);

    begin(&c, QUANTIZE, E4M3_DYNAMIC); /* one scale for all */
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), 0);
    assert_int_equal(epiq_scale_offset(&z, 1, 0), -1);
    assert_int_equal(epiq_scale_offset(&z, 0, 1), -1);

    begin(&c, QUANTIZE, E4M3_STATIC); /* none is stored */
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), -1);
    begin(&c, RMS_NORM, NO_OUT);
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), -1);

    begin(&c, QUANTIZE, E4M3_TOKEN); /* no rows, unknown rows, unknown groups */
    set_shape(&c, 0, 64);
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), -1);
    set_shape(&c, EPIQ_UNKNOWN, 64);
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), -1);
    begin(&c, QUANTIZE, NVFP4);
    set_shape(&c, 3, EPIQ_UNKNOWN);
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0, 0), -1);

    begin(&c, QUANTIZE, NVFP4); /* the last scale of the largest tiled array is its last byte but the padding */
    set_shape(&c, 0x7fffffff, 1 << 28);
    c.out.layout = EPIQ_LAYOUT_TILE128X4;
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 0x7ffffffe, (1 << 24) - 1), (INT64_C(1) << 55) - 1 - 16);
    begin(&c, DEQUANTIZE, NVFP4); /* of codes that exist, the same */
    c.dequantize.layout = EPIQ_LAYOUT_TILE128X4;
    assert_int_equal(call_check(&c, &z), EPIQ_OK);
    assert_int_equal(epiq_scale_offset(&z, 2, 3), 2 * 16 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_need_no_buffers),
        cmocka_unit_test(test_workspace_never_falls),
        cmocka_unit_test(test_workspace_is_what_the_operation_wants),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_scale_offsets),
        cmocka_unit_test(test_scale_offset_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
