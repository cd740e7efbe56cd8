/* test_safetensors.c: src/io/safetensors.c and the file handling of src/io/io.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Seen failing: with the checks of the reader and the writer left out one at a time, an over-read of one byte past the
 * header, a forgotten free, close or unlink, mkstemp's mode, and a link replaced instead of what it points to. */
#include "io_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/socket.h>

/* These take the place of the C library's in the code under test, so that each can be made to fail. */
static int fail_fsync, fail_rename, fail_close;

int fsync(int fd)
{
    (void)fd;
    if (!fail_fsync)
        return 0;
    errno = EIO;
    return -1;
}

int rename(const char *from, const char *to)
{
    if (!fail_rename)
        return renameat(AT_FDCWD, from, AT_FDCWD, to);
    errno = EXDEV;
    return -1;
}

int close(int fd)
{
    int result = (int)syscall(SYS_close, fd);
    if (!fail_close)
        return result;
    errno = EDQUOT;
    return -1;
}

/* A file of a header, given as bytes or as text, and `data` bytes 0, 1, 2, ... */
static void put_safetensors(const char *path, const char *header, size_t header_bytes, size_t data)
{
    static unsigned char bytes[1 << 16];
    assert_true(8 + header_bytes + data <= sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
    memcpy(bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data; i++)
        bytes[8 + header_bytes + i] = (unsigned char)i;
    put_file(path, bytes, 8 + header_bytes + data);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const char *const words[] = {"F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "I8",  "U8",
                                        "I32", "I64", "F64",  "BOOL",    "I16",     "U16",     "U32", "U64"};
    static const size_t bytes[] = {4, 2, 2, 1, 1, 1, 1, 1, 4, 8, 8, 1, 2, 2, 4, 8};
    const char *path = in_folder("dtypes");
    for (int d = IO_F32; d <= IO_U64; d++) {
        char header[128];
        assert_string_equal(io_dtype_word((io_dtype)d), words[d]);
        assert_int_equal(io_dtype_bytes((io_dtype)d), bytes[d]);
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%d]}}", words[d],
                 3 * (int)bytes[d]);
        put_safetensors(path, header, strlen(header), 3 * bytes[d]);
        io_file file;
        check_opens(path, &file);
        assert_int_equal(file.tensors[0].dtype, d);
        io_close(&file);
    }
    assert_int_equal(io_dtype_bytes((io_dtype)(IO_U64 + 1)), 0);
    assert_int_equal(io_dtype_bytes((io_dtype)-1), 0);
    assert_non_null(io_dtype_word((io_dtype)-1));
}

/* Everything the grammar allows: white space, escapes, any order, empty tensors, scalars, padding. */
static void test_read(void **state)
{
    (void)state;
    static const char header[] =
        "{ \"b\"\t:\r\n{\"data_offsets\":[ 4 , 10 ],\"shape\":[3],\"dtype\":\"BF16\"} ,\n"
        "\"__metadata__\":{\"k\\\"\\\\\\/\\b\\f\\n\\r\\t\":\"\\u00e9\\u20AC\\uD83D\\uDE00\\ud7ff\\uffff "
        "\\udbff\\udfff\","
        "\"\":\"\",\"caf\xC3\xA9\":\"\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\\u007f\\u0080\\u07ff\\u0800\"},"
        "\"a\\u002fb\":{\"dtype\":\"U8\",\"shape\":[1,2,1,2,1,1,1,1],\"data_offsets\":[0,4]},"
        "\"scalar\":{\"d\\u0074ype\":\"I8\",\"shape\":[ ],\"data_offsets\":[10,11]},"
        "\"none\":{\"dtype\":\"F64\",\"shape\":[0,1152921504606846975],\"data_offsets\":[4,4]},"
        "\"\":{\"dtype\":\"F16\",\"shape\":[7,0],\"data_offsets\":[11,11]}}   ";
    const char *path = in_folder("any name");
    put_safetensors(path, header, sizeof header - 1, 11);
    io_file file;
    check_opens(path, &file);
    assert_int_equal(file.count, 5);
    static const unsigned char data[11] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    check_tensor(&file.tensors[0], "b", IO_BF16, 1, (int64_t[]){3}, data + 4, 6);
    check_tensor(&file.tensors[1], "a/b", IO_U8, 8, (int64_t[]){1, 2, 1, 2, 1, 1, 1, 1}, data, 4);
    check_tensor(&file.tensors[2], "scalar", IO_I8, 0, NULL, data + 10, 1);
    check_tensor(&file.tensors[3], "none", IO_F64, 2, (int64_t[]){0, 1152921504606846975}, NULL, 0);
    check_tensor(&file.tensors[4], "", IO_F16, 2, (int64_t[]){7, 0}, NULL, 0);
    assert_ptr_equal(io_find(&file, "scalar"), &file.tensors[2]);
    assert_ptr_equal(io_find(&file, ""), &file.tensors[4]);
    assert_null(io_find(&file, "Scalar"));
    assert_int_equal(file.metadata_count, 3);
    assert_string_equal(file.metadata[0], "k\"\\/\b\f\n\r\t");
    assert_string_equal(io_metadata(&file, "k\"\\/\b\f\n\r\t"),
                        "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\x9F\xBF\xEF\xBF\xBF \xF4\x8F\xBF\xBF");
    assert_string_equal(io_metadata(&file, ""), "");
    assert_string_equal(io_metadata(&file, "caf\xC3\xA9"),
                        "\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80");
    assert_null(io_metadata(&file, "kk"));
    check_sane(&file, 8 + sizeof header - 1);
    io_close(&file);
    io_close(&file);
    assert_null(file.content);

    put_safetensors(path, "{}", 2, 0);
    check_opens(path, &file);
    assert_int_equal(file.count, 0);
    assert_null(io_find(&file, ""));
    assert_null(io_metadata(&file, ""));
    io_close(&file);
    put_safetensors(path, "{\"__metadata__\":{}}", 19, 0);
    check_opens(path, &file);
    assert_int_equal(file.metadata_count, 0);
    io_close(&file);
}

/* A tensor entry of U8, with the shape and the data_offsets. */
#define ENTRY(shape, offsets) "{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(shape, offsets) "{\"a\":" ENTRY(shape, offsets) "}"
#define META(value) "{\"__metadata__\":" value "}"
#define NAME(name) "{\"" name "\":" ENTRY("[4]", "[0,4]") "}"
#define BAD(header, data, fragment)                                                                                    \
    {                                                                                                                  \
        header, sizeof header - 1, data, fragment                                                                      \
    }

static const struct {
    const char *header;
    size_t header_bytes, data;
    const char *fragment;
} malformed[] = {
    /* around the object */
    BAD("", 0, "byte 8: expected '{' at once, found the end of the header"),
    BAD("", 4, "byte 8: expected '{' at once, found the end of the header"),
    BAD(" {}", 0, "byte 8: expected '{' at once, found ' '"),
    BAD("\xEF\xBB\xBF{}", 0, "byte 8: expected '{' at once, found byte 0xef"),
    BAD("\0{}", 0, "byte 8: expected '{' at once, found byte 0x00"),
    BAD("[]", 0, "expected '{' at once, found '['"),
    BAD("null", 0, "expected '{' at once, found 'n'"),
    BAD("{", 0, "byte 9: expected a string, found the end of the header"),
    BAD("{}}", 0, "byte 10: expected only spaces after the header, found '}'"),
    BAD("{}\n", 0, "expected only spaces after the header, found byte 0x0a"),
    BAD("{}\0", 0, "expected only spaces after the header, found byte 0x00"),
    BAD("{}  x", 0, "expected only spaces after the header, found 'x'"),
    BAD("{}{}", 0, "expected only spaces after the header, found '{'"),
    BAD("{/**/}", 0, "expected a string, found '/'"),
    BAD("{,}", 0, "expected a string, found ','"),
    BAD("{'a':1}", 0, "expected a string, found '''"),
    BAD("{a:1}", 0, "expected a string, found 'a'"),
    BAD("{1:1}", 0, "expected a string, found '1'"),
    BAD("{\"a\"}", 0, "expected ':', found '}'"),
    BAD("{\"a\"=1}", 0, "expected ':', found '='"),
    BAD("{\"a\":}", 0, "expected '{', found '}'"),
    BAD("{\"a\":null}", 0, "expected '{', found 'n'"),
    BAD("{\"a\":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]}", 0, "expected '{', found '['"),
    BAD("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}", 0, "unknown key 'a'"),
    BAD("{\"a\":" ENTRY("[4]", "[0,4]"), 4, "expected ',' or '}', found the end of the header"),
    BAD("{\"a\":" ENTRY("[4]", "[0,4]") ",}", 4, "expected a string, found '}'"),
    BAD("{\"a\":" ENTRY("[2]", "[0,2]") " \"b\":" ENTRY("[2]", "[2,4]") "}", 4, "expected ',' or '}', found '\"'"),
    /* the keys of an entry */
    BAD("{\"a\":{}}", 0, "key 'dtype' is missing"),
    BAD("{\"a\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, "key 'dtype' is missing"),
    BAD("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "key 'shape' is missing"),
    BAD("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 1, "key 'data_offsets' is missing"),
    BAD("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "second key 'dtype'"),
    BAD("{\"a\":{\"shape\":[],\"sh\\u0061pe\":[],\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "second key 'shape'"),
    BAD("{\"a\":{\"data_offsets\":[0,1],\"data_offsets\":[0,1]}}", 1, "second key 'data_offsets'"),
    BAD("{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":1}}", 1, "unknown key 'x'"),
    BAD("{\"a\":{\"Dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "unknown key 'Dtype'"),
    BAD("{\"a\":{\"dtype\":\"U8\",}}", 1, "expected a string, found '}'"),
    BAD("{\"a\":{\"dtype\":\"U8\"\"shape\":[]}}", 1, "expected ',' or '}', found '\"'"),
    BAD("{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]]}", 1, "expected ',' or '}', found ']'"),
    /* dtype */
    BAD("{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, "unknown dtype 'F4'"),
    BAD("{\"a\":{\"dtype\":\"u8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype 'u8'"),
    BAD("{\"a\":{\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype ''"),
    BAD("{\"a\":{\"dtype\":\"U8 \",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype 'U8 '"),
    BAD("{\"a\":{\"dtype\":\"U\\n\\u001b[31m\\u009b\x7F\",\"shape\":[1]}}", 1,
        "dtype 'U\\x0a\\x1b[31m\\xc2\\x9b\\x7f'"),
    BAD("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "expected a string, found '7'"),
    BAD("{\"a\":{\"dtype\":null,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "expected a string, found 'n'"),
    /* shape */
    BAD(ONE("4", "[0,4]"), 4, "expected '[', found '4'"),
    BAD(ONE("{}", "[0,4]"), 4, "expected '[', found '{'"),
    BAD(ONE("[-4]", "[0,4]"), 4, "expected a whole number that is not negative, found '-'"),
    BAD(ONE("[-0]", "[0,0]"), 0, "expected a whole number that is not negative, found '-'"),
    BAD(ONE("[+4]", "[0,4]"), 4, "expected a whole number that is not negative, found '+'"),
    BAD(ONE("[\"4\"]", "[0,4]"), 4, "expected a whole number that is not negative, found '\"'"),
    BAD(ONE("[[4]]", "[0,4]"), 4, "expected a whole number that is not negative, found '['"),
    BAD(ONE("[null]", "[0,4]"), 4, "expected a whole number that is not negative, found 'n'"),
    BAD(ONE("[4,]", "[0,4]"), 4, "expected a whole number that is not negative, found ']'"),
    BAD(ONE("[,4]", "[0,4]"), 4, "expected a whole number that is not negative, found ','"),
    BAD(ONE("[4.0]", "[0,4]"), 4, "expected ',' or ']', found '.'"),
    BAD(ONE("[4e0]", "[0,4]"), 4, "expected ',' or ']', found 'e'"),
    BAD(ONE("[0x4]", "[0,4]"), 4, "expected ',' or ']', found 'x'"),
    BAD(ONE("[2 2]", "[0,4]"), 4, "expected ',' or ']', found '2'"),
    BAD(ONE("[4}", "[0,4]"), 4, "expected ',' or ']', found '}'"),
    BAD(ONE("[04]", "[0,4]"), 4, "expected a number without a leading zero, found '4'"),
    BAD(ONE("[00]", "[0,0]"), 0, "expected a number without a leading zero, found '0'"),
    BAD(ONE("[9223372036854775808]", "[0,4]"), 4, "expected a number below 2^63, found '8'"),
    BAD(ONE("[18446744073709551620]", "[0,4]"), 4, "expected a number below 2^63"),
    BAD(ONE("[1,1,1,1,4,1,1,1,1]", "[0,4]"), 4, "expected no more than 8 dimensions, found '1'"),
    BAD(ONE("[9223372036854775807,2]", "[0,4]"), 4, "tensor 'a': the shape is too large"),
    BAD(ONE("[4294967296,4294967296]", "[0,0]"), 0, "tensor 'a': the shape is too large"),
    BAD(ONE("[0,4294967296,4294967296]", "[0,0]"), 0, "tensor 'a': the shape is too large"),
    BAD(ONE("[4294967296,4294967296,0]", "[0,0]"), 0, "tensor 'a': the shape is too large"),
    BAD("{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0, "shape is too large"),
    /* data_offsets */
    BAD(ONE("[4]", "4"), 4, "expected '[', found '4'"),
    BAD(ONE("[4]", "[]"), 4, "tensor 'a': 0 data_offsets, not two"),
    BAD(ONE("[4]", "[0]"), 4, "tensor 'a': 1 data_offsets, not two"),
    BAD(ONE("[4]", "[0,4,4]"), 4, "expected no more than two offsets, found '4'"),
    BAD(ONE("[4]", "[-4,0]"), 4, "expected a whole number that is not negative, found '-'"),
    BAD(ONE("[4]", "[4,0]"), 4, "tensor 'a': data_offsets 4 to 0 in 4 bytes of data"),
    BAD(ONE("[5]", "[0,5]"), 4, "tensor 'a': data_offsets 0 to 5 in 4 bytes of data"),
    BAD(ONE("[0]", "[5,5]"), 4, "tensor 'a': data_offsets 5 to 5 in 4 bytes of data"),
    BAD(ONE("[4]", "[0,9223372036854775807]"), 4, "data_offsets 0 to 9223372036854775807 in 4 bytes of data"),
    BAD(ONE("[4]", "[0,18446744073709551615]"), 4, "expected a number below 2^63"),
    BAD(ONE("[5]", "[0,4]"), 4, "tensor 'a': its shape of U8 needs 5 bytes, data_offsets give 4"),
    BAD(ONE("[3]", "[0,4]"), 4, "tensor 'a': its shape of U8 needs 3 bytes, data_offsets give 4"),
    BAD(ONE("[0]", "[0,4]"), 4, "tensor 'a': its shape of U8 needs 0 bytes, data_offsets give 4"),
    BAD(ONE("[]", "[0,0]"), 0, "tensor 'a': its shape of U8 needs 1 bytes, data_offsets give 0"),
    /* the tiling */
    BAD("{}", 1, "data bytes 0 to 1 belong to no tensor"),
    BAD(ONE("[3]", "[1,4]"), 4, "data bytes 0 to 1 belong to no tensor"),
    BAD(ONE("[3]", "[0,3]"), 4, "data bytes 3 to 4 belong to no tensor"),
    BAD(ONE("[0]", "[4,4]"), 4, "data bytes 0 to 4 belong to no tensor"),
    BAD("{\"b\":" ENTRY("[1]", "[3,4]") ",\"a\":" ENTRY("[2]", "[0,2]") "}", 4,
        "data bytes 2 to 3 belong to no tensor"),
    BAD("{\"a\":" ENTRY("[4]", "[0,4]") ",\"b\":" ENTRY("[4]", "[0,4]") "}", 4,
        "begins at data byte 0, inside another"),
    BAD("{\"b\":" ENTRY("[2]", "[2,4]") ",\"a\":" ENTRY("[3]", "[0,3]") "}", 4, "'b' begins at data byte 2, inside"),
    BAD("{\"a\":" ENTRY("[0]", "[2,2]") ",\"b\":" ENTRY("[4]", "[0,4]") "}", 4, "'a' begins at data byte 2, inside"),
    BAD("{\"b\\u001b\":" ENTRY("[2]", "[2,4]") ",\"a\":" ENTRY("[3]", "[0,3]") "}", 4, "tensor 'b\\x1b' begins"),
    /* names */
    BAD("{\"a\":" ENTRY("[4]", "[0,4]") ",\"a\":" ENTRY("[4]", "[4,8]") "}", 8, "tensor 'a' comes twice"),
    BAD("{\"a\":" ENTRY("[2]", "[0,2]") ",\"b\":" ENTRY("[2]", "[2,4]") ",\"\\u0061\":" ENTRY("[2]", "[4,6]") "}", 6,
        "tensor 'a' comes twice"),
    BAD(NAME("a\x01"), 4, "expected no control character in a string, found byte 0x01"),
    BAD(NAME("a\n"), 4, "expected no control character in a string, found byte 0x0a"),
    BAD(NAME("a\0"), 4, "expected no control character in a string, found byte 0x00"),
    BAD(NAME("a\x1F"), 4, "expected no control character in a string, found byte 0x1f"),
    BAD(NAME("\xFF"), 4, "expected UTF-8 text, found byte 0xff"),
    BAD(NAME("\x80"), 4, "expected UTF-8 text, found byte 0x80"),
    BAD(NAME("\xC0\x80"), 4, "expected UTF-8 text, found byte 0xc0"),
    BAD(NAME("\xC1\xBF"), 4, "expected UTF-8 text, found byte 0xc1"),
    BAD(NAME("\xE0\x9F\xBF"), 4, "expected UTF-8 text, found byte 0xe0"),
    BAD(NAME("\xED\xA0\x80"), 4, "expected UTF-8 text, found byte 0xed"),
    BAD(NAME("\xF0\x8F\xBF\xBF"), 4, "expected UTF-8 text, found byte 0xf0"),
    BAD(NAME("\xF4\x90\x80\x80"), 4, "expected UTF-8 text, found byte 0xf4"),
    BAD(NAME("\xE2\x82"), 4, "expected UTF-8 text, found byte 0xe2"),
    BAD("{\"a\xE2\x82", 0, "expected UTF-8 text, found byte 0xe2"),
    BAD("{\"a\xE2\x82", 4, "expected UTF-8 text, found byte 0xe2"),
    BAD(NAME("\\x41"), 4, "expected an escape: one of \"\\/bfnrtu, found 'x'"),
    BAD(NAME("\\'"), 4, "expected an escape: one of \"\\/bfnrtu, found '''"),
    BAD(NAME("\\\0"), 4, "expected an escape: one of \"\\/bfnrtu, found byte 0x00"),
    BAD(NAME("\\U0041"), 4, "expected an escape: one of \"\\/bfnrtu, found 'U'"),
    BAD(NAME("\\u004"), 4, "expected four hexadecimal digits after \\u, found '\"'"),
    BAD(NAME("\\u00g1"), 4, "expected four hexadecimal digits after \\u, found 'g'"),
    BAD(NAME("\\u+041"), 4, "expected four hexadecimal digits after \\u, found '+'"),
    BAD(NAME("\\u0000"), 4, "byte 10: expected a character other than U+0000, found '\\'"),
    BAD(NAME("\\ud800"), 4, "byte 10: expected a pair of surrogates, high and low, found '\\'"),
    BAD(NAME("\\udbff\\u0041"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\ud800\\ud800"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\ud800\\ue000"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\ud800\\n"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\udc00"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\udc00\\udc00"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\udc00\\ud800"), 4, "expected a pair of surrogates"),
    BAD(NAME("\\ud800\\udc0"), 4, "expected four hexadecimal digits after \\u"),
    BAD("{\"a", 0, "byte 11: expected the end of the string, found the end of the header"),
    BAD("{\"a\\", 0, "expected an escape: one of \"\\/bfnrtu, found the end of the header"),
    BAD("{\"a\\\"", 0, "expected the end of the string, found the end of the header"),
    BAD("{\"a\\u00", 0, "expected four hexadecimal digits after \\u, found the end of the header"),
    BAD("{\"\\ud83d\\", 0, "expected a pair of surrogates"),
    /* metadata */
    BAD(META("[]"), 0, "expected '{', found '['"),
    BAD(META("null"), 0, "expected '{', found 'n'"),
    BAD(META("\"x\""), 0, "expected '{', found '\"'"),
    BAD(META("{\"k\":1}"), 0, "expected a string, found '1'"),
    BAD(META("{\"k\":null}"), 0, "expected a string, found 'n'"),
    BAD(META("{\"k\":{}}"), 0, "expected a string, found '{'"),
    BAD(META("{\"k\"}"), 0, "expected ':', found '}'"),
    BAD(META("{\"k\":}"), 0, "expected a string, found '}'"),
    BAD(META("{\"k\":\"v\",}"), 0, "expected a string, found '}'"),
    BAD(META("{\"k\":\"v\" \"l\":\"v\"}"), 0, "expected ',' or '}', found '\"'"),
    BAD(META("{\"k\":\"v\",\"l\":\"v\",\"\\u006b\":\"w\"}"), 0, "metadata key 'k' comes twice"),
    BAD("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ comes twice"),
    BAD("{\"__metadata__\":{},\"__metadata\\u005f_\":{}}", 0, "__metadata__ comes twice"),
    BAD("{\"__metadata__\":" ENTRY("[4]", "[0,4]") "}", 4, "expected a string, found '['"),
};

static void test_malformed(void **state)
{
    (void)state;
    const char *path = in_folder("malformed");
    size_t count = sizeof malformed / sizeof *malformed;
    for (size_t i = 0; i < count; i++) {
        char label[48];
        snprintf(label, sizeof label, "malformed[%zu]", i);
        put_safetensors(path, malformed[i].header, malformed[i].header_bytes, malformed[i].data);
        check_refused(path, malformed[i].fragment, label);
    }
    print_message("%zu malformed headers\n", count);
}

static void test_header_length(void **state)
{
    (void)state;
    const char *path = in_folder("length");
    static const char bytes[] = "\2\0\0\0\0\0\0\0{}";
    for (size_t n = 0; n < 8; n++) {
        char fragment[64];
        snprintf(fragment, sizeof fragment, "neither safetensors nor .npy: only %zu bytes", n);
        put_file(path, bytes, n);
        check_refused(path, fragment, "short file");
    }
    put_file(path, "\3\0\0\0\0\0\0\0{}", 10);
    check_refused(path, "a header of 3 bytes in a file of 10", "long header");
    put_file(path, "\2\0\0\0\0\0\0\x80{}", 10);
    check_refused(path, "a header of 9223372036854775810 bytes in a file of 10", "huge header");
    put_file(path, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10);
    check_refused(path, "a header of 18446744073709551615 bytes in a file of 10", "largest header");
    put_file(path, "\xF8\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10);
    check_refused(path, "a header of 18446744073709551608 bytes in a file of 10", "header that wraps");
    /* 100000001 bytes of header that the file does have, then one less */
    put_file(path, "\x01\xE1\xF5\x05\0\0\0\0{}", 10);
    assert_int_equal(truncate(path, 8 + 100000001), 0);
    check_refused(path, "a header of 100000001 bytes in a file of 100000009", "header over the limit");
    put_file(path, "\x00\xE1\xF5\x05\0\0\0\0{}", 10);
    assert_int_equal(truncate(path, 8 + 100000000), 0);
    check_refused(path, "byte 10: expected only spaces after the header, found byte 0x00", "header at the limit");
}

/* Two tensors and metadata; `header` becomes where the data begins. */
static unsigned char *valid_file(const char *path, size_t *bytes, size_t *header)
{
    static const char text[] =
        "{\"__metadata__\":{\"k\":\"\\n\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],"
        "\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[8,11]}} ";
    *header = 8 + sizeof text - 1;
    put_safetensors(path, text, sizeof text - 1, 11);
    return get_file(path, bytes);
}

static void test_truncated(void **state)
{
    (void)state;
    size_t bytes, header;
    const char *path = in_folder("cut");
    unsigned char *content = valid_file(path, &bytes, &header);
    io_file file;
    check_opens(path, &file);
    io_close(&file);
    for (size_t n = 0; n < bytes; n++) {
        char label[48];
        snprintf(label, sizeof label, "cut to %zu bytes", n);
        put_file(path, content, n);
        check_refused(path, n < 8 ? "only" : n < header ? "a header of" : "data_offsets", label);
    }
    put_file(path, content, bytes);
    assert_int_equal(truncate(path, (off_t)bytes + 1), 0);
    check_refused(path, "data bytes 11 to 12 belong to no tensor", "one byte more");
    free(content);
}

static void test_flipped(void **state)
{
    (void)state;
    size_t bytes, header;
    const char *path = in_folder("flipped");
    unsigned char *content = valid_file(path, &bytes, &header);
    size_t accepted = check_flipped(path, content, header);
    free(content);
    assert_true(accepted > 300 && accepted < 255 * header / 2); /* names and metadata may change */
}

/* Many names, so that the arrays grow and the sorting works; a duplicate far from its twin. */
static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static char header[1 << 16];
    const char *path = in_folder("many");
    for (int twice = 0; twice < 2; twice++) {
        size_t used = (size_t)sprintf(header, "{");
        for (int i = 0; i < COUNT; i++)
            used += (size_t)sprintf(header + used, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d]}",
                                    i ? "," : "", twice && i == COUNT - 1 ? 0 : i * 7919 % COUNT, i, i + 1);
        used += (size_t)sprintf(header + used, "}");
        put_safetensors(path, header, used, COUNT);
        if (twice) {
            check_refused(path, "tensor '0' comes twice", "many");
        } else {
            io_file file;
            check_opens(path, &file);
            assert_int_equal(file.count, COUNT);
            const io_tensor *t = io_find(&file, "919");
            check_tensor(t, "919", IO_U8, 0, NULL, &(unsigned char){(unsigned char)(t - file.tensors)}, 1);
            assert_int_equal((t - file.tensors) * 7919 % COUNT, 919);
            check_sane(&file, 8 + used);
            io_close(&file);
        }
    }
}

/* As another user if this is root, whom permissions do not stop. */
static void without_privilege(int on)
{
    if (getuid() == 0)
        assert_int_equal(seteuid(on ? 65534 : 0), 0);
}

static void test_irregular(void **state)
{
    (void)state;
    check_refused(in_folder("absent"), "No such file or directory", "absent");
    check_refused("", "No such file or directory", "empty path");
    check_refused(folder, "is a directory, not a regular file", "directory");
    check_refused("/dev/zero", "is a device, a pipe or a socket, not a regular file", "device");
    const char *path = in_folder("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20); /* should it hang after all */
    check_refused(path, "is a device, a pipe or a socket, not a regular file", "fifo");
    alarm(0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    path = in_folder("socket");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && strlen(path) < sizeof address.sun_path && bind(fd, (struct sockaddr *)&address, sizeof address) == 0)
        check_refused(path, "is a device, a pipe or a socket, not a regular file", "socket");
    if (fd >= 0)
        close(fd);
    path = in_folder("loop");
    assert_int_equal(symlink("loop", path), 0);
    check_refused(path, "symbolic link", "loop");
    path = in_folder("private");
    put_safetensors(path, "{}", 2, 0);
    assert_int_equal(chmod(path, 0), 0);
    without_privilege(1);
    check_refused(path, "Permission denied", "unreadable");
    without_privilege(0);

    /* The kernel's own files say one size and give another, as a file does that changes at that moment. */
    struct stat status;
    path = "/proc/self/status";
    if (stat(path, &status) == 0)
        check_refused(path, "it had 0 bytes, then more", "grown");
    path = "/sys/kernel/uevent_seqnum";
    if (stat(path, &status) == 0 && status.st_size == 4096)
        check_refused(path, "it had 4096 bytes, then fewer", "shrunk");
}

/* A message keeps to its size and to one line, whatever the path and the names are. */
static void test_messages(void **state)
{
    (void)state;
    char path[1400], header[1200], name[1000], why[IO_TEXT];
    io_file file;
    memset(name, '/', sizeof name);
    for (size_t length = 1; length < sizeof name; length++) {
        name[length] = 0;
        snprintf(path, sizeof path, "%s%sabsent", folder, name);
        check_refused(path, "/absent: No such file or directory", "long path");
        assert_int_equal(io_open(path, &file, why), -1);
        assert_int_equal(strlen(path) > 481, strncmp(why, "...", 3) == 0);
        name[length] = '/';
    }
    assert_int_equal(io_open(in_folder("\x01\n\x1b[2J\x7F"), &file, why), -1);
    assert_non_null(strstr(why, "/???[2J?: No such file"));
    for (size_t i = 0; i < sizeof name - 1; i++)
        name[i] = i % 2 ? '\xA9' : '\xC3';
    name[sizeof name - 2] = 'x';
    for (size_t from = 0; from < 2; from++) { /* a cut path begins with a whole character either way */
        name[998 - from] = 0;
        assert_int_equal(io_open(name, &file, why), -1);
        assert_memory_equal(why, "...\xC3\xA9", 5);
    }

    memset(name, 'n', sizeof name);
    for (size_t length = 50; length < 90; length++) { /* around the place where a name is cut */
        snprintf(header, sizeof header, "{\"%.*s\":{\"x\\u0001\":1}}", (int)length, name);
        put_safetensors(in_folder("names"), header, strlen(header), 0);
        check_refused(in_folder("names"), "unknown key 'x\\x01'", "key");
        for (int control = 0; control < 2; control++) {
            snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%.*s%s", (int)length, name,
                     control ? "\\n\"}}" : "\"}}");
            put_safetensors(in_folder("names"), header, strlen(header), 0);
            const char *shown = length + (control ? 1 : 0) > 65 ? "n...'" : control ? "n\\x0a'" : "n'";
            check_refused(in_folder("names"), shown, "dtype");
        }
    }
}

/* Writing. */

static char why[IO_TEXT];

static void test_written_bytes(void **state)
{
    (void)state;
    static const unsigned char data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const io_tensor tensors[] = {{"b\"\\/\x1f\n\x7f\xC3\xA9", IO_U8, 1, {3}, data, 3},
                                 {"", IO_F16, 2, {0, 5}, NULL, 0},
                                 {"a", IO_BF16, 3, {1, 3, 1}, data + 3, 6}};
    static const char *const metadata[] = {"k\t", "v\"", "", "\xF0\x9F\x98\x80"};
    static const char expected[] =
        "\xE8\0\0\0\0\0\0\0"
        "{\"__metadata__\":{\"k\\u0009\":\"v\\\"\",\"\":\"\xF0\x9F\x98\x80\"},"
        "\"b\\\"\\\\/\\u001f\\u000a\x7f\xC3\xA9\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[3,3]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,3,1],\"data_offsets\":[3,9]}}"
        "    \1\2\3\4\5\6\7\10\11";
    const char *path = in_folder("written");
    assert_int_equal(io_write_safetensors(path, tensors, 3, metadata, 2, why), 0);
    assert_string_equal(why, "");
    size_t bytes;
    unsigned char *content = get_file(path, &bytes);
    assert_int_equal(bytes, sizeof expected - 1);
    assert_memory_equal(content, expected, bytes);
    free(content);
    assert_int_equal(io_write_safetensors(path, NULL, 0, NULL, 0, why), 0);
    content = get_file(path, &bytes);
    assert_int_equal(bytes, 16);
    assert_memory_equal(content, "\x08\0\0\0\0\0\0\0{}      ", 16);
    free(content);
    assert_int_equal(folder_entries(0), 1);
}

/* Names of every length shift the padding; every byte but 0 that UTF-8 allows in one place passes through. */
static void test_round_trip(void **state)
{
    (void)state;
    static unsigned char data[7 * 1000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 31 >> 3);
    char all[128 + 4 * 3], name[32] = "";
    for (int i = 1; i < 128; i++)
        all[i - 1] = (char)i;
    strcpy(all + 127, "\xDF\xBF\xEF\xBF\xBD");
    const char *metadata[] = {all, "", "plain", all};
    const char *path = in_folder("round");
    for (int length = 0; length < 20; length++) {
        memset(name, 'm', (size_t)length);
        io_tensor tensors[IO_U64 + 2];
        size_t offset = 0;
        for (int d = IO_F32; d <= IO_U64; d++) {
            io_tensor *t = &tensors[d];
            *t = (io_tensor){(char *)(uintptr_t)io_dtype_word((io_dtype)d), (io_dtype)d, d % 9, {0}, data + offset, 0};
            t->bytes = io_dtype_bytes(t->dtype);
            for (int i = 0; i < t->rank; i++)
                t->bytes *= (size_t)(t->shape[i] = 1 + i % 3);
            offset += t->bytes;
        }
        assert_true(offset <= sizeof data);
        tensors[IO_U64 + 1] = (io_tensor){name, IO_I64, 2, {3, 0}, data, 0};
        assert_int_equal(io_write_safetensors(path, tensors, IO_U64 + 2, metadata, 2, why), 0);
        io_file file;
        check_opens(path, &file);
        assert_int_equal(file.count, IO_U64 + 2);
        for (size_t i = 0; i < file.count; i++)
            check_tensor(&file.tensors[i], tensors[i].name, tensors[i].dtype, tensors[i].rank, tensors[i].shape,
                         tensors[i].data, tensors[i].bytes);
        assert_int_equal(file.metadata_count, 2);
        for (int i = 0; i < 4; i++)
            assert_string_equal(file.metadata[i], metadata[i]);
        size_t header = (size_t)((const unsigned char *)file.tensors[0].data - (unsigned char *)file.content);
        assert_int_equal(header % 8, 0);
        check_sane(&file, header);
        /* What was read can be written as it is, over itself. */
        assert_int_equal(io_write_safetensors(path, file.tensors, file.count, (const char *const *)file.metadata,
                                              file.metadata_count, why),
                         0);
        size_t bytes;
        unsigned char *content = get_file(path, &bytes);
        assert_int_equal(bytes, file.content_bytes);
        assert_memory_equal(content + header, (unsigned char *)file.content + header, bytes - header);
        free(content);
        io_close(&file);
    }
    assert_int_equal(folder_entries(0), 1);
}

static void put_old(const char *path)
{
    put_file(path, "old", 3);
}

static void check_old(const char *path)
{
    size_t bytes;
    unsigned char *content = get_file(path, &bytes);
    assert_int_equal(bytes, 3);
    assert_memory_equal(content, "old", 3);
    free(content);
}

static void test_write_refused(void **state)
{
    (void)state;
    static const unsigned char data[64];
    static const struct {
        io_tensor tensors[2];
        size_t count;
        const char *metadata[4];
        size_t metadata_count;
        const char *fragment;
    } bad[] = {
        {{{"a", IO_U8, 1, {3}, data, 3}, {"a", IO_U8, 1, {4}, data, 4}}, 2, {0}, 0, "tensor 'a' comes twice"},
        {{{"\n", IO_U8, 1, {3}, data, 3}, {"\n", IO_U8, 1, {4}, data, 4}}, 2, {0}, 0, "tensor '\\x0a' comes twice"},
        {{{NULL, IO_U8, 1, {3}, data, 3}}, 1, {0}, 0, "a tensor's name is missing"},
        {{{"__metadata__", IO_U8, 1, {3}, data, 3}}, 1, {0}, 0, "a tensor cannot be named __metadata__"},
        {{{"\xC3", IO_U8, 1, {3}, data, 3}}, 1, {0}, 0, "a tensor's name is not UTF-8: '\\xc3'"},
        {{{"ab\xED\xA0\x80", IO_U8, 1, {3}, data, 3}}, 1, {0}, 0, "a tensor's name is not UTF-8: '\\xed\\xa0\\x80'"},
        {{{"a", (io_dtype)16, 1, {3}, data, 3}}, 1, {0}, 0, "tensor 'a': unknown dtype 16"},
        {{{"a", (io_dtype)99, 1, {3}, data, 3}}, 1, {0}, 0, "tensor 'a': unknown dtype 99"},
        {{{"a", IO_U8, -1, {3}, data, 3}}, 1, {0}, 0, "tensor 'a': rank -1 is not 0 to 8"},
        {{{"a", IO_U8, 9, {3}, data, 3}}, 1, {0}, 0, "tensor 'a': rank 9 is not 0 to 8"},
        {{{"a", IO_U8, 2, {3, -1}, data, 3}}, 1, {0}, 0, "tensor 'a': dimension 1 is -1"},
        {{{"a", IO_U8, 2, {INT64_MAX, 2}, data, 3}}, 1, {0}, 0, "tensor 'a': the shape is too large"},
        {{{"a", IO_F32, 1, {3}, data, 3}}, 1, {0}, 0, "tensor 'a': its shape of F32 needs 12 bytes, not 3"},
        {{{"a", IO_F32, 1, {0}, data, 4}}, 1, {0}, 0, "tensor 'a': its shape of F32 needs 0 bytes, not 4"},
        {{{"a", IO_F32, 1, {3}, NULL, 12}}, 1, {0}, 0, "tensor 'a' has no data"},
        {{{"a", IO_U8, 1, {INT64_MAX - 1}, data, INT64_MAX - 1}}, 1, {0}, 0, "the tensors have more than 2^63 bytes"},
        {{{"a", IO_U8, 1, {INT64_MAX >> 1}, data, INT64_MAX >> 1}, {"b", IO_U8, 1, {INT64_MAX}, data, INT64_MAX}},
         2,
         {0},
         0,
         "the tensors have more than 2^63 bytes"},
        {{{0}}, 0, {"k", "v", "k", "w"}, 2, "metadata key 'k' comes twice"},
        {{{0}}, 0, {NULL, "v"}, 1, "a metadata key is missing"},
        {{{0}}, 0, {"k", NULL}, 1, "a metadata value is missing"},
        {{{0}}, 0, {"k", "v", "\xFF", "w"}, 2, "a metadata key is not UTF-8: '\\xff'"},
        {{{0}}, 0, {"k", "v", "l", "w\x80"}, 2, "a metadata value is not UTF-8: '\\x80'"},
    };
    const char *path = in_folder("kept");
    put_old(path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char label[48];
        snprintf(label, sizeof label, "bad[%zu]", i);
        memset(why, 'x', sizeof why);
        assert_int_equal(
            io_write_safetensors(path, bad[i].tensors, bad[i].count, bad[i].metadata, bad[i].metadata_count, why), -1);
        check_why(why, path, bad[i].fragment, label);
        check_old(path);
        assert_int_equal(folder_entries(0), 1);
    }
}

static const unsigned char some_data[1000];
static const io_tensor some_tensor = {"t", IO_U8, 1, {1000}, some_data, 1000};

static void check_write_fails(const char *path, const char *fragment)
{
    int entries = folder_entries(0);
    memset(why, 'x', sizeof why);
    if (io_write_safetensors(path, &some_tensor, 1, NULL, 0, why) != -1)
        fail_msg("not refused: %s", fragment);
    check_why(why, path, fragment, "write");
    assert_int_equal(folder_entries(0), entries);
}

static void check_write_works(const char *path)
{
    if (io_write_safetensors(path, &some_tensor, 1, NULL, 0, why))
        fail_msg("refused: %s", why);
    io_file file;
    check_opens(path, &file);
    check_tensor(io_find(&file, "t"), "t", IO_U8, 1, (int64_t[]){1000}, some_data, 1000);
    io_close(&file);
}

static void test_write_fails(void **state)
{
    (void)state;
    const char *path = in_folder("kept");
    put_old(path);
    fail_fsync = 1;
    check_write_fails(path, "cannot be written: Input/output error");
    fail_fsync = 0, fail_rename = 1;
    check_write_fails(path, "cannot be written: Invalid cross-device link");
    fail_rename = 0, fail_close = 1;
    memset(why, 'x', sizeof why);
    int failed = io_write_safetensors(path, &some_tensor, 1, NULL, 0, why);
    fail_close = 0;
    assert_int_equal(failed, -1);
    check_why(why, path, "cannot be written: Disk quota exceeded", "close");
    assert_int_equal(folder_entries(0), 1);

    /* A full device, at every number of bytes that it may still take: at once, in the header, in the data. */
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 1072; room += 67) {
        limit = old;
        limit.rlim_cur = room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        int result = io_write_safetensors(path, &some_tensor, 1, NULL, 0, why);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(result, -1);
        check_why(why, path, "cannot be written: File too large", "full");
        assert_int_equal(folder_entries(0), 1);
        check_old(path);
    }
    signal(SIGXFSZ, handler);

    check_write_fails(folder, "is a directory, not a regular file");
    check_write_fails("/dev/full", "is a device, a pipe or a socket, not a regular file");
    check_write_fails("", ": No such file or directory");
    check_write_fails(in_folder("no/file"), "no temporary file can be made beside it: No such file or directory");
    check_write_fails(in_folder("new/"), "no temporary file can be made beside it: No such file or directory");
    check_write_fails(in_folder("kept/file"), "Not a directory");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    check_write_fails(in_folder("fifo"), "is a device, a pipe or a socket, not a regular file");
    assert_int_equal(symlink("fifo", in_folder("link to fifo")), 0);
    check_write_fails(in_folder("link to fifo"), "is a device, a pipe or a socket, not a regular file");
    assert_int_equal(symlink("nothing", in_folder("dangling")), 0);
    check_write_fails(in_folder("dangling"), "is a symbolic link to a file that does not exist");
    if (getuid() == 0) {
        assert_int_equal(chmod(folder, 0755), 0);
        without_privilege(1);
        int result = io_write_safetensors(path, &some_tensor, 1, NULL, 0, why);
        without_privilege(0);
        assert_int_equal(result, -1);
        check_why(why, path, "no temporary file can be made beside it: Permission denied", "folder of another user");
        assert_int_equal(chmod(folder, 0700), 0);
    }
    check_old(path);
}

static void test_write_in_place(void **state)
{
    (void)state;
    struct stat status;
    const char *path = in_folder("file"), *link = in_folder("link");
    char other[300];

    mode_t mask = umask(027);
    check_write_works(path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    umask(0);
    check_write_works(path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0666);
    umask(mask);

    /* A link stays and what it points to is replaced, in its own folder. */
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    put_old(in_folder("sub/target"));
    assert_int_equal(symlink("sub/target", link), 0);
    check_write_works(link);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(in_folder("sub/target"), &status), 0);
    assert_true(status.st_size > 1000);
    assert_int_equal(unlink(in_folder("sub/target")), 0);
    assert_int_equal(rmdir(in_folder("sub")), 0);

    /* A temporary that an earlier process left stays, and is not in the way. */
    snprintf(other, sizeof other, "%s/.epiq-%ld-0.tmp", folder, (long)getpid());
    put_old(other);
    check_write_works(path);
    check_old(other);
    assert_int_equal(folder_entries(0), 3);

    /* A name without a folder, and one as long as names can be. */
    char here[1024], longest[256];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    check_write_works("bare");
    memset(longest, 'l', 255);
    longest[255] = 0;
    check_write_works(longest);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(folder_entries(0), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_dtypes, empty_folder),
        cmocka_unit_test_teardown(test_read, empty_folder),
        cmocka_unit_test_teardown(test_malformed, empty_folder),
        cmocka_unit_test_teardown(test_header_length, empty_folder),
        cmocka_unit_test_teardown(test_truncated, empty_folder),
        cmocka_unit_test_teardown(test_flipped, empty_folder),
        cmocka_unit_test_teardown(test_many, empty_folder),
        cmocka_unit_test_teardown(test_irregular, empty_folder),
        cmocka_unit_test_teardown(test_messages, empty_folder),
        cmocka_unit_test_teardown(test_written_bytes, empty_folder),
        cmocka_unit_test_teardown(test_round_trip, empty_folder),
        cmocka_unit_test_teardown(test_write_refused, empty_folder),
        cmocka_unit_test_teardown(test_write_fails, empty_folder),
        cmocka_unit_test_teardown(test_write_in_place, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
