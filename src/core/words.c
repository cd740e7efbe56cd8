/* words.c: words for values, values for words, sentences for statuses, and text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lists.h"
#include "text.h"

#include <epiq/epiq.h>

#include <stdarg.h>
#include <stdio.h>

static const struct {
    int32_t value;
    const char *word;
} words[] = {
#define X(value, word) {value, word},
    EPIQI_WORDS(X)
#undef X
};

static const struct {
    const char *kind;
    int32_t start;
} kinds[] = {
#define X(kind, start) {kind, start},
    EPIQI_KINDS(X)
#undef X
};

enum { WORDS = sizeof words / sizeof words[0], KINDS = sizeof kinds / sizeof kinds[0] };

static char plain(char c) /* lower case, '_' for '-', in any locale */
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

static int same_word(const char *a, const char *b)
{
    while (*a != '\0' && plain(*a) == plain(*b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

const char *epiq_word(int32_t value)
{
    for (int i = 0; i < WORDS; i++)
        if (words[i].value == value)
            return words[i].word;
    return NULL;
}

int32_t epiq_value(const char *kind, const char *word)
{
    if (kind == NULL)
        return 0;
    for (int k = 0; k < KINDS; k++) {
        if (!same_word(kinds[k].kind, kind))
            continue;
        if (word == NULL)
            return kinds[k].start;
        for (int i = 0; i < WORDS; i++)
            if (words[i].value / 100 * 100 == kinds[k].start && same_word(words[i].word, word))
                return words[i].value;
        return 0;
    }
    return 0;
}

const char *epiq_status_string(epiq_status status)
{
    switch (status) {
    case EPIQ_OK:
        return "success";
    case EPIQ_ERROR_STRUCT:
        return "a struct is NULL, has no struct_size, or sets a field that this library does not have";
    case EPIQ_ERROR_VALUE:
        return "a field is missing, or holds a value outside its list or range";
    case EPIQ_ERROR_CONFLICT:
        return "two fields contradict each other, or a field would have no effect";
    case EPIQ_ERROR_SHAPE:
        return "rows, columns or group do not suit the operation or the format";
    case EPIQ_ERROR_STRIDE:
        return "a stride is negative or shorter than its row";
    case EPIQ_ERROR_BUFFER:
        return "a required buffer is NULL";
    case EPIQ_ERROR_OVERLAP:
        return "two buffers overlap where that is not allowed";
    case EPIQ_ERROR_WORKSPACE:
        return "the workspace is NULL or too small";
    case EPIQ_ERROR_UNSUPPORTED:
        return "a meaningful combination that this version does not offer";
    case EPIQ_ERROR_BACKEND:
        return "the backend is not in this build, or not usable on this machine";
    case EPIQ_ERROR_DEVICE:
        return "no such device, or not the device of the stream";
    case EPIQ_ERROR_CUDA:
        return "the CUDA runtime returned an error";
    case EPIQ_ERROR_SELF_TEST:
        return "the self-test found a differing byte";
    default:
        return "not a status of epiq";
    }
}

void epiqi_print(epiqi_text *text, const char *format, ...)
{
    if (text == NULL)
        return;
    va_list list;
    va_start(list, format);
    size_t used = text->length < text->bytes ? text->length : text->bytes;
    int n = vsnprintf(text->text != NULL ? text->text + used : NULL, text->text != NULL ? text->bytes - used : 0,
                      format, list);
    va_end(list);
    if (n > 0)
        text->length += (size_t)n;
}
