/* epiq.c: the `epiq` command: which commands there are, their help, and what all of them share.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "accuracy.h"
#include "command.h"
#include "gpu.h"
#include "options.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    int bit;
    int (*run)(options *o);
    const char *arguments, *what, *more;
} commands[] = {
    {"info", INFO, cmd_info, "", "version, backends, formats",
     "Says what this build has and which backends can run on this machine, with the reason if one cannot."},
    {"demo", DEMO, cmd_demo, "", "every format on the bundled activations of a real model, as a table",
     "Runs act_mul and rms_norm (with a residual) on activations of a language model with every format. Columns: the "
     "bytes of codes and scales over the bytes read; accuracy as below, over all layers; codes that are NaN; time on "
     "this machine. The scale `own amax` is calibrated on the layer itself, `other layer` on the next one, the usual "
     "fault of a static scale."},
    {"act-mul", ACT_MUL, cmd_act_mul, " IN -o OUT --format F", "y = act(gate) * up, quantized",
     "IN holds gate and up side by side, see --order."},
    {"rms-norm", RMS_NORM, cmd_rms_norm, " IN -w WEIGHT [-r RESIDUAL] -o OUT --format F",
     "y = norm(x + residual) * weight, quantized", "IN is x."},
    {"quantize", QUANTIZE, cmd_quantize, " IN -o OUT --format F", "y = x, quantized", "IN is x."},
    {"dequantize", DEQUANTIZE, cmd_dequantize, " IN -o OUT", "from codes and scales back to values",
     "IN is a file that act-mul, rms-norm or quantize wrote; its metadata says the rest. OUT gets the tensor y."},
    {"check", CHECK, cmd_check, "", "known answers, and every backend against `c`, byte for byte",
     "Runs the self-test of each backend that can run here, then compares its bytes with those of `c` on random and "
     "extreme values for all formats, grains and layouts. Exit 1 on any difference."},
    {"explain", EXPLAIN, cmd_explain, " OPERATION", "one combination in words: arithmetic, sizes, or why it is refused",
     "OPERATION is act-mul, rms-norm, quantize or dequantize. No file is read: naming a weight, residual or up says "
     "that there is one. Without --rows or --cols the shape is left open. Exit 2 if the combination is refused. "
     "`epiq explain layout` draws where the scales of y [rows, cols] are stored: shape, formula, padding, memory."},
    {"bench", BENCH, cmd_bench, " [OPERATION]", "time, beside copying as many bytes, and an empty call",
     "OPERATION is act-mul, rms-norm or quantize; without it the first two. Without --format all formats, without "
     "--rows "
     "and --cols a few shapes. ns/row and GB/s (of the bytes that must move, inputs read once and outputs written "
     "once) "
     "are medians; copy is a memcpy that reads and writes the same volumes in the same run; empty is a call with no "
     "rows. No file is read: naming a weight, residual or up says that there is one."},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const char tensor_help[] =
    "IN is FILE[:NAME], a safetensors or npy file of F32, F16 or BF16. NAME may be left out where there is one tensor "
    "only. More than two dimensions count as rows but for the last; one dimension is one row.";
static const char output_help[] =
    "OUT is a safetensors file: `q` (codes; two to a byte for 4-bit formats), `scale` (as stored) and/or `inv_scale`, "
    "`y` and `residual` when asked; its metadata holds every argument. It is written whole or not at all.";
static const char exit_help[] = "Exit codes: 0 done, 1 a check failed, 2 usage or unusable input, 3 backend missing.";

static void print_version(void)
{
    int32_t v = epiq_version();
    printf("epiq %d.%d.%d (spec revision %d)\n", v / 10000, v / 100 % 100, v % 100, epiq_spec_revision());
}

static void usage(FILE *to)
{
    fprintf(to, "usage: epiq COMMAND [ARGUMENTS]\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-11s %s\n", commands[i].name, commands[i].what);
    fprintf(to, "\n`epiq COMMAND --help` lists its options; `epiq --version` says which epiq this is.\n%s\n",
            exit_help);
}

static void help(int index)
{
    const int bit = commands[index].bit;
    printf("usage: epiq %s%s [OPTIONS]\n\n", commands[index].name, commands[index].arguments);
    print_wrapped(0, 0, commands[index].more);
    if (bit & (ACT_MUL | RMS_NORM | QUANTIZE)) {
        print_wrapped(0, 0, tensor_help);
        print_wrapped(0, 0, output_help);
    }
    printf("\n");
    options_print(bit);
    printf("\n");
    if (bit & (ACT_MUL | RMS_NORM | QUANTIZE | DEMO))
        print_wrapped(0, 0, accuracy_definitions);
    printf("%s\n", exit_help);
}

static int find_command(const char *word)
{
    char name[32];
    const char *names[COMMANDS];
    copy_name(name, sizeof name, word);
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0)
            return i;
        names[i] = commands[i].name;
    }
    fail(EXIT_UNUSABLE, "there is no command '%s'; the nearest is %s", word, nearest_name(name, names, COMMANDS));
}

int main(int argc, char **argv)
{
    int code = 0;
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large: the write fails, in words, and takes its own away */
    if (argc < 2) {
        usage(stderr);
        return EXIT_UNUSABLE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout);
    } else {
        int i = find_command(argv[1]);
        options o;
        options_read(&o, commands[i].bit, commands[i].name, argc - 2, argv + 2);
        if (o.help)
            help(i);
        else
            code = commands[i].run(&o);
    }
    progress(NULL);
    if (fflush(stdout) != 0 || ferror(stdout))
        fail(EXIT_UNUSABLE, "the result cannot be written to standard output");
    return code;
}

void fail(int code, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *c = text; *c; c++) {
        if (*c == '\n')
            *c = ' ';
        else if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    }
    progress(NULL);
    fflush(stdout);
    fprintf(stderr, "epiq: %s\n", text);
    exit(code);
}

void *allocate(int64_t bytes)
{
    void *memory = gpu_allocate(bytes);
    if (memory == NULL && bytes >= 0 && (uint64_t)bytes <= SIZE_MAX)
        memory = calloc(bytes > 0 ? (size_t)bytes : 1, 1);
    if (memory == NULL)
        fail(EXIT_UNUSABLE, "there is no memory for %lld bytes", (long long)bytes);
    return memory;
}

void release(void *memory)
{
    if (!gpu_release(memory))
        free(memory);
}

void progress(const char *format, ...)
{
    static bool shown;
    if (format == NULL ? !shown : !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K");
    shown = format != NULL;
    if (format == NULL)
        return;
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fflush(stderr);
}

void print_wrapped(int start, int indent, const char *text)
{
    enum { WIDTH = 100 };
    int at = start;
    while (*text) {
        int length = (int)strcspn(text, " ");
        bool first = at == start || at == indent;
        if (!first && at + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
            first = true;
        }
        at += printf("%s%.*s", first ? "" : " ", length, text);
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

void print_json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 32)
            printf("\\u%04x", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

void print_json_number(double value)
{
    if (isfinite(value))
        printf("%.6g", value);
    else
        printf("null");
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double sample_ns(void (*work)(void *data), void *data, int repeats)
{
    double start = now_ns();
    for (int i = 0; i < repeats; i++)
        work(data);
    return (now_ns() - start) / repeats;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How often to do work that takes so long, for one sample. */
static int repeats_of(double once)
{
    return once < 20e3 ? (int)(20e3 / (once + 1)) + 1 : 1;
}

void least_ns(void (*const work[2])(void *data), void *const data[2], double seconds, double ns[2])
{
    int repeats[2];
    for (int i = 0; i < 2; i++)
        repeats[i] = repeats_of(ns[i] = sample_ns(work[i], data[i], 1));
    double start = now_ns();
    for (int count = 0; count < 7 || now_ns() - start < seconds * 1e9; count++)
        for (int i = 0; i < 2; i++) {
            double sample = sample_ns(work[i], data[i], repeats[i]);
            ns[i] = sample < ns[i] ? sample : ns[i];
        }
}

double median_ns(void (*work)(void *data), void *data, double seconds)
{
    enum { MOST = 101 };
    double samples[MOST], once = sample_ns(work, data, 1), start = now_ns();
    int repeats = repeats_of(once), count = 0;
    while (count < MOST && (count < 5 || now_ns() - start < seconds * 1e9))
        samples[count++] = sample_ns(work, data, repeats);
    qsort(samples, (size_t)count, sizeof samples[0], compare_doubles);
    return samples[count / 2];
}
