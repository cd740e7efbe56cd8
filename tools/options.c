/* options.c: the table of options, and reading the command line by it.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "options.h"

#include "command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum option_kind { FLAG, TEXT, WORD, FLOAT, POSITIVE, INT32, INT64 } option_kind;

typedef struct option {
    const char *name;
    char letter;
    option_kind kind;
    size_t offset;        /* in options */
    int commands;         /* that take it */
    int operations;       /* explain, bench: the operations that it belongs to; 0: all */
    const char *argument; /* WORD: the kind of epiq_value; else what help shows */
    int64_t least, most;  /* INT32, INT64 */
    const char *help;
} option;

#define AT(field) offsetof(options, field)
#define QUANT (ACT_MUL | RMS_NORM | QUANTIZE)
#define TWINS (EXPLAIN | BENCH)
#define COLS_MAX (INT64_C(1) << 28)

static const option table[] = {
    {"output", 'o', TEXT, AT(output), QUANT | DEQUANTIZE, 0, "FILE", 0, 0, "the safetensors file to write"},
    {"act", 0, WORD, AT(act_mul.act), ACT_MUL | TWINS, ACT_MUL, "act", 0, 0, "activation (silu):"},
    {"alpha", 0, POSITIVE, AT(act_mul.alpha), ACT_MUL | TWINS, ACT_MUL, "V", 0, 0,
     "silu: gate * sigmoid(alpha * gate) (1)"},
    {"limit", 0, POSITIVE, AT(act_mul.limit), ACT_MUL | TWINS, ACT_MUL, "V", 0, 0,
     "before the activation gate = min(gate, V), up = clamp(up, -V, V)"},
    {"limit-after", 0, POSITIVE, AT(act_mul.limit_after), ACT_MUL | TWINS, ACT_MUL, "V", 0, 0,
     "the same, on act(gate) instead of gate"},
    {"up-offset", 0, FLOAT, AT(act_mul.up_offset), ACT_MUL | TWINS, ACT_MUL, "V", 0, 0,
     "added to up after its limit (0)"},
    {"order", 0, WORD, AT(act_mul.order), ACT_MUL | TWINS, ACT_MUL, "order", 0, 0, "where gate and up lie (gate_up):"},
    {"up", 'u', TEXT, AT(up), ACT_MUL | TWINS, ACT_MUL, "IN", 0, 0, "order separate: the up half"},
    {"residual", 'r', TEXT, AT(residual), RMS_NORM | TWINS, RMS_NORM, "IN", 0, 0, "added to the input first"},
    {"weight", 'w', TEXT, AT(weight), RMS_NORM | TWINS, RMS_NORM, "IN", 0, 0,
     "one value a column; the input's dtype or f32"},
    {"weight-dtype", 0, WORD, AT(weight_dtype), TWINS, RMS_NORM, "dtype", 0, 0, "of the weight (the input's):"},
    {"weight-bias", 0, FLOAT, AT(rms_norm.weight_bias), RMS_NORM | TWINS, RMS_NORM, "V", 0, 0,
     "y = norm * (V + weight); 1 for Gemma (0)"},
    {"eps", 0, POSITIVE, AT(rms_norm.eps), RMS_NORM | TWINS, RMS_NORM, "V", 0, 0, "added to the mean square (1e-6)"},
    {"chain", 0, WORD, AT(chain), ACT_MUL | RMS_NORM | TWINS, ACT_MUL | RMS_NORM, "chain", 0, 0,
     "whose rounding points (vllm):"},
    {"act-round", 0, WORD, AT(act_mul.act_round), ACT_MUL | TWINS, ACT_MUL, "act_round", 0, 0,
     "how often y is rounded to its dtype (the chain's):"},
    {"sum-round", 0, WORD, AT(rms_norm.sum_round), RMS_NORM | TWINS, RMS_NORM, "sum_round", 0, 0,
     "what the norm sees of input + residual (the chain's):"},
    {"norm-round", 0, WORD, AT(rms_norm.norm_round), RMS_NORM | TWINS, RMS_NORM, "norm_round", 0, 0,
     "how often y is rounded to its dtype (the chain's):"},
    {"format", 'f', WORD, AT(out.format), QUANT | TWINS, 0, "format", 0, 0, "required; none writes y alone:"},
    {"grain", 0, WORD, AT(out.grain), QUANT | TWINS, 0, "grain", 0, 0,
     "how many elements share a scale (block formats: group; else tensor with a given scale, token without):"},
    {"group", 0, INT32, AT(out.group), QUANT | TWINS, 0, "N", 1, COLS_MAX,
     "columns that share a scale in grain group (128, or the format's block)"},
    {"layout", 0, WORD, AT(out.layout), QUANT | TWINS, 0, "layout", 0, 0, "of the stored scales (row):"},
    {"scale", 0, TEXT, AT(scale), QUANT | TWINS, QUANT | DEQUANTIZE, "V|IN", 0, 0,
     "static scale: codes = y / V. A number or a file with one f32; finite and > 0"},
    {"inv-scale", 0, TEXT, AT(inv_scale), QUANT | TWINS, QUANT | DEQUANTIZE, "V|IN", 0, 0,
     "static multiplier: codes = y * V. nvfp4: the second level, 448 * 6 / amax (computed from y, and stored)"},
    {"scale-ub", 0, POSITIVE, AT(scale_ub), QUANT | TWINS, QUANT, "V", 0, 0,
     "grain token: upper bound on a row's amax"},
    {"ue8m0", 0, FLAG, AT(ue8m0), QUANT | TWINS, QUANT, NULL, 0, 0, "e4m3, e5m2 groups: power-of-two scales"},
    {"mx-round", 0, WORD, AT(out.mx_round), QUANT | TWINS, QUANT, "mx_round", 0, 0,
     "mxfp8, mxfp4: amax to exponent (ceil):"},
    {"nvfp4", 0, WORD, AT(out.nvfp4), QUANT | TWINS, QUANT, "nvfp4", 0, 0, "block multiplier (vllm):"},
    {"nan", 0, WORD, AT(out.nan), QUANT | TWINS, QUANT, "nan", 0, 0, "what NaN becomes (propagate):"},
    {"padded-cols", 0, INT64, AT(out.padded_cols), QUANT | TWINS, 0, "N", 1, COLS_MAX,
     "codes and scales cover N columns, those beyond y as zeros"},
    {"pad-rows", 0, WORD, AT(out.pad_rows), TWINS, QUANT, "pad_rows", 0, 0,
     "rows that the layout of the scales has beyond those of y (zero):"},
    {"scale-stride", 0, INT64, AT(out.scale_stride), EXPLAIN, QUANT | DEQUANTIZE, "BYTES", 1, INT64_MAX,
     "between the lines of the stored scales (dense)"},
    {"y", 'y', FLAG, AT(y), ACT_MUL | RMS_NORM | TWINS, ACT_MUL | RMS_NORM, NULL, 0, 0, "write y too"},
    {"residual-out", 0, FLAG, AT(residual_out), RMS_NORM | TWINS, RMS_NORM, NULL, 0, 0,
     "write input + residual too, as `residual`"},
    {"dtype", 0, WORD, AT(dtype), DEQUANTIZE | TWINS, QUANT | DEQUANTIZE, "dtype", 0, 0,
     "of y; f32, f16 or bf16 (dequantize: the recorded one; else bf16):"},
    {"rows", 0, INT64, AT(rows), TWINS, 0, "M", 0, INT32_MAX, "rows of y"},
    {"cols", 0, INT64, AT(cols), TWINS, 0, "H", 1, COLS_MAX, "columns of y"},
    {"data", 0, TEXT, AT(data), DEMO, 0, "DIR", 0, 0, "where the activations lie (those that come with epiq)"},
    {"layer", 0, INT64, AT(layer), DEMO, 0, "N", 0, INT32_MAX, "this layer alone (all together)"},
    {"deep", 0, FLAG, AT(deep), CHECK, 0, NULL, 0, 0, "more shapes and settings, and several threads"},
    {"backend", 0, WORD, AT(backend), QUANT | DEQUANTIZE | DEMO | CHECK | BENCH, 0, "backend", 0, 0,
     "where it runs; changes no byte (the fastest CPU one; check: all):"},
    {"threads", 0, INT64, AT(threads), QUANT | DEQUANTIZE | DEMO | BENCH, 0, "N", 0, 1024,
     "0: every core; changes no byte (1)"},
    {"json", 0, FLAG, AT(json), QUANT | DEQUANTIZE | INFO | DEMO | CHECK | BENCH, 0, NULL, 0, 0,
     "the result as one JSON object"},
    {"cold", 0, INT64, AT(cold), BENCH, 0, "MIB", 0, 1 << 16,
     "each call on other buffers, so many MiB in all: more than caches hold (0: always the same)"},
    {"csv", 0, FLAG, AT(csv), BENCH, 0, NULL, 0, 0, "the result as comma-separated values"},
    {"help", 'h', FLAG, AT(help), -1, 0, NULL, 0, 0, "this text"},
};
enum { COUNT = sizeof table / sizeof table[0] };
_Static_assert(COUNT <= 64, "options_read keeps one bit for each option");

bool read_float(const char *text, float *value, const char **why)
{
    char *end;
    errno = 0;
    *value = strtof(text, &end);
    *why = NULL;
    if (end == text || *end != '\0' || strchr(" \t\n\v\f\r", *text))
        *why = "is not a number";
    else if (errno == ERANGE && (*value == 0 || isinf(*value)))
        *why = "does not fit an fp32";
    else if (!isfinite(*value))
        *why = "is not finite";
    return *why == NULL;
}

bool read_int(const char *text, int64_t *value)
{
    char *end;
    if (strspn(text, "-0123456789") != strlen(text))
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0;
}

int32_t nth_value(const char *kind, int n)
{
    int32_t start = epiq_value(kind, NULL);
    for (int32_t value = start + 1; value < start + 100; value++)
        if (epiq_word(value) != NULL && n-- == 0)
            return value;
    return 0;
}

/* Appends the words of a kind. */
static void append_words(char *text, size_t bytes, const char *kind)
{
    int32_t value;
    for (int i = 0; (value = nth_value(kind, i)) != 0; i++)
        snprintf(text + strlen(text), bytes - strlen(text), " %s", epiq_word(value));
}

void copy_name(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from);
    for (; *to; to++)
        if (*to == '_')
            *to = '-';
}

/* Edits (insert, delete, replace) between two names. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    int row[MOST + 1], n = (int)strlen(b);
    if (n > MOST)
        n = MOST;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; i < MOST && a[i] != '\0'; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int replaced = diagonal + (a[i] != b[j]), edited = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replaced < edited ? replaced : edited;
        }
    }
    return row[n];
}

const char *nearest_name(const char *text, const char *const *names, int count)
{
    const char *best = NULL;
    for (int i = 0; i < count; i++)
        if (best == NULL || distance(text, names[i]) < distance(text, best))
            best = names[i];
    return best;
}

static _Noreturn void unknown_option(const options *o, int command, const char *name)
{
    const char *names[COUNT];
    int count = 0;
    for (int i = 0; i < COUNT; i++)
        if (table[i].commands & command)
            names[count++] = table[i].name;
    fail(EXIT_UNUSABLE, "%s has no option --%s; the nearest is --%s", o->command, name,
         nearest_name(name, names, count));
}

static void set(options *o, const option *opt, const char *text)
{
    void *field = (char *)o + opt->offset;
    const char *why;
    float number;
    int64_t integer;
    int32_t value;
    switch (opt->kind) {
    case FLAG:
        *(bool *)field = true;
        break;
    case TEXT:
        *(const char **)field = text;
        break;
    case WORD:
        value = epiq_value(opt->argument, text);
        if (field == &o->out.format)
            o->plain = value == 0 && strcasecmp(text, "none") == 0;
        if (value == 0 && !(field == &o->out.format && o->plain)) {
            char list[400] = "";
            append_words(list, sizeof list, opt->argument);
            fail(EXIT_UNUSABLE, "--%s: there is no '%s'; words are:%s%s", opt->name, text, list,
                 field == &o->out.format ? " none" : "");
        }
        memcpy(field, &value, sizeof value);
        break;
    case FLOAT:
    case POSITIVE:
        if (!read_float(text, &number, &why))
            fail(EXIT_UNUSABLE, "--%s: '%s' %s", opt->name, text, why);
        if (opt->kind == POSITIVE && !(number > 0))
            fail(EXIT_UNUSABLE, "--%s: '%s' is not > 0", opt->name, text);
        *(float *)field = number;
        break;
    case INT32:
    case INT64:
        if (!read_int(text, &integer))
            fail(EXIT_UNUSABLE, "--%s: '%s' is not a whole number", opt->name, text);
        if (integer < opt->least || integer > opt->most)
            fail(EXIT_UNUSABLE, "--%s: %s is outside %lld to %lld", opt->name, text, (long long)opt->least,
                 (long long)opt->most);
        if (opt->kind == INT32)
            *(int32_t *)field = (int32_t)integer;
        else
            *(int64_t *)field = integer;
        break;
    }
}

/* The option that argv[i] names, and its value: after '=', in the rest of a letter's word, or in the next word. */
static const option *match(const options *o, int command, char **argv, int *i, const char **text)
{
    const char *word = argv[*i];
    char name[64] = "";
    const option *found = NULL;
    *text = NULL;
    if (word[1] == '-') {
        copy_name(name, sizeof name, word + 2);
        name[strcspn(name, "=")] = '\0';
        if (strchr(word, '='))
            *text = strchr(word, '=') + 1;
        for (int k = 0; k < COUNT; k++)
            if ((table[k].commands & command) && strcmp(name, table[k].name) == 0)
                found = &table[k];
    } else {
        name[0] = word[1];
        for (int k = 0; k < COUNT; k++)
            if ((table[k].commands & command) && table[k].letter == word[1])
                found = &table[k];
        if (found != NULL && word[2] != '\0')
            *text = word + 2;
    }
    if (found == NULL)
        unknown_option(o, command, name);
    if (found->kind == FLAG && *text != NULL)
        fail(EXIT_UNUSABLE, "--%s takes no value", found->name);
    if (found->kind != FLAG && *text == NULL) {
        if (argv[*i + 1] == NULL)
            fail(EXIT_UNUSABLE, "--%s needs a value", found->name);
        *text = argv[++*i];
    }
    return found;
}

static int operation_of(int command, const char *word)
{
    static const char *const names[] = {"act-mul", "rms-norm", "quantize", "dequantize", "layout"};
    static const int bits[] = {ACT_MUL, RMS_NORM, QUANTIZE, DEQUANTIZE, LAYOUT};
    const int count = command == EXPLAIN ? 5 : 3;
    char name[32];
    copy_name(name, sizeof name, word);
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return bits[i];
    fail(EXIT_UNUSABLE, "there is no operation '%s'; the nearest is %s", word, nearest_name(name, names, count));
}

/* Whether the quantizer alone takes it. */
static bool of_quantizer(const option *opt)
{
    return opt->commands == (QUANT | TWINS) || (opt->offset >= AT(out) && opt->offset < AT(out) + sizeof(epiq_output));
}

void options_read(options *o, int command, const char *name, int argc, char **argv)
{
    uint64_t given = 0;
    bool only_words = false;
    memset(o, 0, sizeof *o);
    o->command = name;
    o->rms_norm.eps = 1e-6f;
    o->rows = o->cols = EPIQ_UNKNOWN;
    o->threads = 1;
    o->layer = -1;
    for (int i = 0; i < argc; i++) {
        const char *text;
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1] != '\0') {
            const option *found = match(o, command, argv, &i, &text);
            set(o, found, text);
            given |= UINT64_C(1) << (found - table);
            if (o->help)
                return;
        } else if (o->positional != NULL || (command & (INFO | DEMO | CHECK))) {
            fail(EXIT_UNUSABLE, "%s: one argument too many: '%s'", name, argv[i]);
        } else {
            o->positional = argv[i];
        }
    }
    if (command & (INFO | DEMO | CHECK))
        return;
    if (o->positional == NULL && command != BENCH)
        fail(EXIT_UNUSABLE, "%s: %s", name,
             command == EXPLAIN ? "name an operation: act-mul, rms-norm, quantize or dequantize; or layout"
                                : "name the input, FILE[:NAME]");
    if ((command & (QUANT | DEQUANTIZE)) && o->output == NULL)
        fail(EXIT_UNUSABLE, "%s: say where to write: -o FILE.safetensors", name);
    for (int i = 0; i < COUNT; i++)
        if (o->plain && (given >> i & 1) && of_quantizer(&table[i]) && table[i].offset != AT(out.format))
            fail(EXIT_UNUSABLE, "--%s has no effect with --format none", table[i].name);
    if (command & TWINS) {
        o->operation = o->positional ? operation_of(command, o->positional) : 0;
        int wanted = o->operation ? o->operation : ACT_MUL | RMS_NORM;
        for (int i = 0; i < COUNT; i++)
            if ((given >> i & 1) && table[i].operations != 0 && (table[i].operations & wanted) != wanted)
                fail(EXIT_UNUSABLE, "%s %s has no option --%s", name,
                     o->operation ? o->positional : "without an operation", table[i].name);
    }
}

void options_print(int command)
{
    printf("Options ('-' and '_' are alike; defaults in parentheses):\n");
    for (int i = 0; i < COUNT; i++) {
        const option *opt = &table[i];
        if (!(opt->commands & command))
            continue;
        char text[600];
        int used = printf("  %c%c%c --%s %s", opt->letter ? '-' : ' ', opt->letter ? opt->letter : ' ',
                          opt->letter ? ',' : ' ', opt->name,
                          opt->kind == FLAG   ? ""
                          : opt->kind == WORD ? "WORD"
                                              : opt->argument);
        snprintf(text, sizeof text, "%s", opt->help);
        if (opt->kind == WORD) {
            if (opt->offset == AT(out.format))
                strcat(text, " none");
            append_words(text, sizeof text, opt->argument);
        }
        int start = used < 25 ? 25 : used + 1;
        printf("%*s", start - used, "");
        print_wrapped(start, 25, text);
    }
}
