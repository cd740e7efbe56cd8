/* options.h: the command line: one table of options that fills the structs of epiq.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TOOLS_OPTIONS_H
#define EPIQ_TOOLS_OPTIONS_H

#include <epiq/epiq.h>
#include <stdbool.h>

/* Bits: which commands take an option, and which operations it belongs to. */
enum {
    ACT_MUL = 1,
    RMS_NORM = 2,
    QUANTIZE = 4,
    DEQUANTIZE = 8,
    INFO = 16,
    DEMO = 32,
    CHECK = 64,
    EXPLAIN = 128,
    BENCH = 256,
    LAYOUT = 512 /* explain alone: no operation, but where the scales of one are stored */
};

typedef struct options {
    epiq_act_mul_args act_mul; /* those that concern the arithmetic; call_begin() completes them */
    epiq_rms_norm_args rms_norm;
    epiq_output out;
    epiq_chain chain;
    epiq_backend backend;
    epiq_dtype dtype, weight_dtype;
    const char *output, *up, *weight, *residual; /* FILE[:NAME] */
    const char *scale, *inv_scale;               /* number or FILE[:NAME] */
    const char *data;
    float scale_value, inv_scale_value; /* what the two above say: call_begin() */
    float scale_ub;                     /* 0: not given */
    int64_t rows, cols, threads, layer; /* not given: EPIQ_UNKNOWN, EPIQ_UNKNOWN, 1, -1 */
    int64_t cold;                       /* bench: MiB of buffers taken in turn */
    bool plain;                         /* --format none */
    bool y, residual_out, ue8m0, deep, json, csv, help;
    const char *positional; /* IN, or the operation of explain and bench; NULL: none */
    int operation;          /* explain, bench: its bit; bench without one: 0 */
    const char *command;    /* its name, for errors */
} options;

/* Reads the arguments that follow the command's name; ends the command at the first that is wrong. `command` is its
 * bit, `name` its name. */
void options_read(options *o, int command, const char *name, int argc, char **argv);

/* Prints the options that the command takes. */
void options_print(int command);

/* Copies a name, with '-' for '_', as far as it fits. */
void copy_name(char *to, size_t bytes, const char *from);

/* The n-th value (from 0) of a kind that has a word; 0 after the last. */
int32_t nth_value(const char *kind, int n);

/* A whole text as a finite float: false, and the reason, if it is not one. */
bool read_float(const char *text, float *value, const char **why);
bool read_int(const char *text, int64_t *value);

/* Of `count` names the one that takes the fewest edits to become `text`. */
const char *nearest_name(const char *text, const char *const *names, int count);

#endif
