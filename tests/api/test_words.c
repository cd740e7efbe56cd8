/* test_words.c: every value of every enum of the public header has its word and the word its value. The values are read
 * from the header's text, so that a value added there without a word fails here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "call_fixture.h"

#include <ctype.h>
#include <stdlib.h>

#ifndef EPIQ_SOURCE_DIR
#define EPIQ_SOURCE_DIR "." /* tests run at the top of the tree */
#endif

/* ---- The enums as the header writes them ------------------------------------------------------------------------- */

typedef struct enumerator {
    char kind[32]; /* "format": typedef enum epiq_format */
    char word[32]; /* "e4m3": the tail of the name in lower case */
    int32_t value;
} enumerator;

enum { MOST = 200 };
static enumerator enumerators[MOST];
static size_t enumerator_count;
static char kinds_seen[32][32];
static size_t kind_count;

/* Reads `typedef enum epiq_KIND ... {`, then lines `    EPIQ_KIND_WORD = NUMBER,`, until `}`. */
static int read_header(void **state)
{
    (void)state;
    FILE *file = fopen(EPIQ_SOURCE_DIR "/include/epiq/epiq.h", "r");
    if (file == NULL)
        return -1;
    char line[512], kind[32] = "", prefix[48] = "";
    while (fgets(line, sizeof line, file) != NULL) {
        char name[64];
        int value;
        if (sscanf(line, "typedef enum epiq_%31[a-z0-9_]", kind) == 1) {
            snprintf(kinds_seen[kind_count++], sizeof kinds_seen[0], "%s", kind);
            snprintf(prefix, sizeof prefix, "EPIQ_%s_", strcmp(kind, "status") == 0 ? "error" : kind);
            for (char *p = prefix; *p != '\0'; p++)
                *p = (char)toupper((unsigned char)*p);
        } else if (line[0] == '}') {
            kind[0] = '\0';
        } else if (kind[0] != '\0' && sscanf(line, " EPIQ_%63[A-Z0-9_] = %d", name, &value) == 2) {
            enumerator *e = &enumerators[enumerator_count++];
            char whole[80];
            snprintf(whole, sizeof whole, "EPIQ_%s", name);
            const char *tail = strncmp(whole, prefix, strlen(prefix)) == 0 ? whole + strlen(prefix) : name;
            snprintf(e->kind, sizeof e->kind, "%s", kind);
            snprintf(e->word, sizeof e->word, "%.31s", tail);
            for (char *p = e->word; *p != '\0'; p++)
                *p = (char)tolower((unsigned char)*p);
            e->value = value;
        }
    }
    fclose(file);
    return enumerator_count < MOST ? 0 : -1;
}

/* The fields that take values of an enum; NULL ends. */
static const char *const fields[][6] = {
    {"status", "status", NULL},
    {"backend", "backend", NULL},
    {"dtype", "dtype", "weight_dtype", "scale_dtype", "y_dtype"},
    {"format", "format", NULL},
    {"grain", "grain", NULL},
    {"layout", "layout", NULL},
    {"act", "act", NULL},
    {"order", "order", NULL},
    {"chain", "chain", NULL},
    {"round", "act_round", "norm_round"},
    {"sum_round", "sum_round", NULL},
    {"mx_round", "mx_round", NULL},
    {"nvfp4", "nvfp4", NULL},
    {"nan", "nan", NULL},
    {"pad_rows", "pad_rows", NULL},
    {"pdl", "pdl", NULL},
};

static const char *const *fields_of(const char *kind)
{
    for (size_t i = 0; i < COUNT(fields); i++)
        if (strcmp(fields[i][0], kind) == 0)
            return &fields[i][1];
    print_error("no field takes the values of enum epiq_%s: extend `fields`\n", kind);
    fail();
    return NULL;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void test_header_was_read(void **state)
{
    (void)state;
    assert_int_equal(kind_count, COUNT(fields));
    for (size_t i = 0; i < kind_count; i++)
        fields_of(kinds_seen[i]);
    assert_true(enumerator_count >= 69);
    for (size_t i = 0; i < enumerator_count; i++) /* each kind owns its block of 100 */
        for (size_t k = 0; k < i; k++)
            if (strcmp(enumerators[i].kind, enumerators[k].kind) != 0)
                assert_true(enumerators[i].value / 100 != enumerators[k].value / 100);
    static const struct {
        const char *kind, *word;
        int32_t value;
    } some[] = {
        {"status", "ok", EPIQ_OK},
        {"status", "self_test", EPIQ_ERROR_SELF_TEST},
        {"dtype", "i32", EPIQ_DTYPE_I32},
        {"layout", "linear", EPIQ_LAYOUT_LINEAR},
        {"round", "twice", EPIQ_ROUND_TWICE},
        {"pdl", "early", EPIQ_PDL_EARLY},
    };
    for (size_t i = 0; i < COUNT(some); i++) {
        size_t found = 0;
        for (size_t k = 0; k < enumerator_count; k++)
            found += strcmp(enumerators[k].kind, some[i].kind) == 0 && strcmp(enumerators[k].word, some[i].word) == 0 &&
                     enumerators[k].value == some[i].value;
        assert_int_equal(found, 1);
    }
}

static void test_each_value_has_its_word(void **state)
{
    (void)state;
    for (size_t i = 0; i < enumerator_count; i++) {
        const enumerator *e = &enumerators[i];
        const char *word = epiq_word(e->value);
        if (word == NULL)
            fail_msg("no word for %s = %d of enum epiq_%s", e->word, e->value, e->kind);
        if (strcmp(e->word, "linear") != 0) /* the second word of its value */
            assert_string_equal(word, e->word);
    }
    assert_string_equal(epiq_word(EPIQ_LAYOUT_LINEAR), "row");
}

static void test_each_word_has_its_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < enumerator_count; i++) {
        const enumerator *e = &enumerators[i];
        const char *const *field = fields_of(e->kind);
        for (int k = 0; k < 5 && field[k] != NULL; k++) {
            char other[32];
            assert_int_equal(epiq_value(field[k], e->word), e->value);
            snprintf(other, sizeof other, "%s", e->word);
            for (char *p = other; *p != '\0'; p++)
                *p = *p == '_' ? '-' : (char)toupper((unsigned char)*p);
            assert_int_equal(epiq_value(field[k], other), e->value); /* "SELF-TEST" */
            other[0] = (char)tolower((unsigned char)other[0]);
            assert_int_equal(epiq_value(field[k], other), e->value); /* "sELF-TEST" */

            snprintf(other, sizeof other, "%sx", e->word);
            assert_int_equal(epiq_value(field[k], other), 0);
            snprintf(other, sizeof other, " %s", e->word);
            assert_int_equal(epiq_value(field[k], other), 0);
            if (strlen(e->word) > 1) {
                snprintf(other, sizeof other, "%.*s", (int)strlen(e->word) - 1, e->word);
                int32_t value = epiq_value(field[k], other);
                assert_true(value == 0 || strcmp(epiq_word(value), other) == 0); /* "relu2" without its 2 */
            }
        }
    }
    assert_int_equal(epiq_value("layout", "linear"), EPIQ_LAYOUT_ROW);
    assert_int_equal(epiq_value("layout", "row"), EPIQ_LAYOUT_ROW);
    assert_int_equal(epiq_value("layout", "Packed-UE8M0"), EPIQ_LAYOUT_PACKED_UE8M0);
    assert_int_equal(epiq_value("layout", "tile128X4"), EPIQ_LAYOUT_TILE128X4);
}

static void test_a_word_belongs_to_its_kind(void **state)
{
    (void)state;
    assert_int_equal(epiq_value("chain", "vllm"), EPIQ_CHAIN_VLLM); /* one word, three values */
    assert_int_equal(epiq_value("mx_round", "vllm"), EPIQ_MX_ROUND_VLLM);
    assert_int_equal(epiq_value("nvfp4", "vllm"), EPIQ_NVFP4_VLLM);
    assert_int_equal(epiq_value("dtype", "e4m3"), EPIQ_DTYPE_E4M3);
    assert_int_equal(epiq_value("format", "e4m3"), EPIQ_FORMAT_E4M3);
    assert_int_equal(epiq_value("status", "backend"), EPIQ_ERROR_BACKEND);
    assert_int_equal(epiq_value("status", "cuda"), EPIQ_ERROR_CUDA);
    assert_int_equal(epiq_value("backend", "cuda"), EPIQ_BACKEND_CUDA);
    assert_int_equal(epiq_value("format", "silu"), 0);
    assert_int_equal(epiq_value("act", "e4m3"), 0);
    assert_int_equal(epiq_value("act", ""), 0);
    assert_int_equal(epiq_value("act", "601"), 0);
    assert_int_equal(epiq_value("act", "gelu tanh"), 0);
    static const char *const no_kinds[] = {"", "formats", "round", "rounds", "x", "group", "device", "eps", "form"};
    for (size_t i = 0; i < COUNT(no_kinds); i++) {
        assert_int_equal(epiq_value(no_kinds[i], NULL), 0);
        assert_int_equal(epiq_value(no_kinds[i], "e4m3"), 0);
    }
    assert_int_equal(epiq_value(NULL, "e4m3"), 0);
    assert_int_equal(epiq_value(NULL, NULL), 0);
}

/* The words of a kind are among those of start + 1 to start + 99, nothing else has a word. */
static void test_enumeration(void **state)
{
    (void)state;
    for (size_t i = 0; i < kind_count; i++) {
        const char *const *field = fields_of(kinds_seen[i]);
        for (int k = 0; k < 5 && field[k] != NULL; k++) {
            int32_t start = epiq_value(field[k], NULL);
            assert_int_equal(start % 100, 0);
            for (int32_t value = start + 1; value < start + 100; value++) {
                int in_header = 0;
                for (size_t n = 0; n < enumerator_count; n++)
                    in_header |= enumerators[n].value == value && strcmp(enumerators[n].kind, kinds_seen[i]) == 0;
                assert_int_equal(epiq_word(value) != NULL, in_header);
                if (in_header)
                    assert_int_equal(epiq_value(field[k], epiq_word(value)), value);
            }
        }
    }
    int with_word = 0, distinct = 0;
    for (int32_t value = -1000; value < 10000; value++)
        with_word += epiq_word(value) != NULL;
    for (size_t i = 0; i < enumerator_count; i++) {
        int seen = 0;
        for (size_t k = 0; k < i; k++)
            seen |= enumerators[k].value == enumerators[i].value;
        distinct += !seen;
    }
    assert_int_equal(with_word, distinct);
    static const int32_t none[] = {INT32_MIN, -1, 100, 200, 204, 300, 307, EPIQ_DEVICE(0), INT32_MAX};
    for (size_t i = 0; i < COUNT(none); i++)
        assert_null(epiq_word(none[i]));
}

/* A sentence for each status, its own; one for whatever is none. */
static void test_status_strings(void **state)
{
    (void)state;
    const char *none = epiq_status_string((epiq_status)-1);
    int statuses = 0;
    for (int32_t value = 0; value < 100; value++) {
        const char *sentence = epiq_status_string((epiq_status)value);
        assert_non_null(sentence);
        assert_true(strlen(sentence) > 0 && strlen(sentence) < 120);
        assert_int_equal(strcmp(sentence, none) != 0, epiq_word(value) != NULL);
        statuses += epiq_word(value) != NULL;
        for (int32_t other = 0; other < value; other++)
            assert_true(strcmp(sentence, epiq_status_string((epiq_status)other)) != 0 ||
                        (epiq_word(value) == NULL && epiq_word(other) == NULL));
    }
    assert_int_equal(statuses, 14);
    static const struct {
        epiq_status status;
        const char *about;
    } some[] = {
        {EPIQ_ERROR_STRUCT, "struct"},       {EPIQ_ERROR_VALUE, "range"},         {EPIQ_ERROR_CONFLICT, "contradict"},
        {EPIQ_ERROR_SHAPE, "rows"},          {EPIQ_ERROR_STRIDE, "stride"},       {EPIQ_ERROR_BUFFER, "NULL"},
        {EPIQ_ERROR_OVERLAP, "overlap"},     {EPIQ_ERROR_WORKSPACE, "workspace"}, {EPIQ_ERROR_UNSUPPORTED, "offer"},
        {EPIQ_ERROR_BACKEND, "backend"},     {EPIQ_ERROR_DEVICE, "device"},       {EPIQ_ERROR_CUDA, "CUDA"},
        {EPIQ_ERROR_SELF_TEST, "differing"},
    };
    for (size_t i = 0; i < COUNT(some); i++)
        assert_non_null(strstr(epiq_status_string(some[i].status), some[i].about));
    assert_string_equal(epiq_status_string((epiq_status)INT32_MAX), none);
    assert_string_equal(epiq_status_string((epiq_status)EPIQ_FORMAT_E4M3), none);
}

static void test_versions(void **state)
{
    (void)state;
    assert_int_equal(epiq_version(), EPIQ_VERSION);
    assert_int_equal(epiq_spec_revision(), EPIQ_SPEC_REVISION);
    assert_non_null(strstr(epiq_build_info(), "backends: c"));
    assert_non_null(strstr(epiq_build_info(), "; gpu images: ")); /* what was left out is not named there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_was_read),
        cmocka_unit_test(test_each_value_has_its_word),
        cmocka_unit_test(test_each_word_has_its_value),
        cmocka_unit_test(test_a_word_belongs_to_its_kind),
        cmocka_unit_test(test_enumeration),
        cmocka_unit_test(test_status_strings),
        cmocka_unit_test(test_versions),
    };
    return cmocka_run_group_tests(tests, read_header, NULL);
}
