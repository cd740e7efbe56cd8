/* command.h: what the files of the `epiq` command share: exit codes, errors, memory, text, time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TOOLS_COMMAND_H
#define EPIQ_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_DIFFERS = 1, EXIT_UNUSABLE = 2, EXIT_BACKEND = 3 };

struct options;

/* Ends the command: "epiq: " and the text as one line on stderr (line ends become spaces, control characters '?'). */
_Noreturn void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Zeroed memory, at least one byte; ends the command if there is none. Release with free(). */
void *allocate(int64_t bytes);
void release(void *memory); /* of allocate */

/* A line on stderr that the next one replaces, only on a terminal. NULL removes it. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints text word by word from column `start` on, within 100 columns, later lines indented by `indent`. */
void print_wrapped(int start, int indent, const char *text);

/* A JSON string with its quotes; a JSON number, null if not finite. */
void print_json_string(const char *text);
void print_json_number(double value);

/* Median of the wall-clock time of one work(data), in ns: at least five samples, about `seconds` in all. Work that
 * takes less than a microsecond or so is repeated within a sample. */
double median_ns(void (*work)(void *data), void *data, double seconds);

/* The least such time of each of two kinds of work, in about `seconds` in all and seven turns at least. They take
 * turns, so that both meet the same moments of a machine that has other work, too. */
void least_ns(void (*const work[2])(void *data), void *const data[2], double seconds, double ns[2]);

/* The commands. They return the exit code. */
int cmd_info(struct options *o);
int cmd_demo(struct options *o);
int cmd_act_mul(struct options *o);
int cmd_rms_norm(struct options *o);
int cmd_quantize(struct options *o);
int cmd_dequantize(struct options *o);
int cmd_check(struct options *o);
int cmd_explain(struct options *o);
int cmd_bench(struct options *o);

#endif
