/* replay.c: runs a fuzz target without a fuzzer: on inputs, and on variations of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: fuzz_X [--vary N] PATH...      N variations of each input, the same in every run
 *
 * A path is a file, an input; a folder of such; or a file NAME.hex, each line of which is an input in hexadecimal, or a
 * comment after '#'. */
#define _XOPEN_SOURCE 700
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MOST_BYTES = 1 << 20 };

static unsigned char input[MOST_BYTES];
static long inputs, runs, vary;

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* On a copy of exactly its size, for sanitizers to see its end. */
static void run(const unsigned char *data, size_t size)
{
    unsigned char *copy = malloc(size != 0 ? size : 1);
    if (copy == NULL)
        fuzz_fail("out of memory");
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static void run_varied(size_t size)
{
    static unsigned char varied[MOST_BYTES];
    uint32_t state = 2463534242u + (uint32_t)size;
    for (long i = 0; i < vary && size > 0; i++) {
        memcpy(varied, input, size);
        size_t kept = size;
        for (uint32_t n = 1 + next(&state) % 4; n > 0; n--) {
            size_t at = next(&state) % kept;
            switch (next(&state) % 4) {
            case 0:
                varied[at] = (unsigned char)(varied[at] ^ 1u << next(&state) % 8);
                break;
            case 1:
                varied[at] = (unsigned char)next(&state);
                break;
            case 2: /* a piece of it elsewhere */
                memmove(varied + at, varied + next(&state) % (at + 1), kept - at < 8 ? kept - at : 8);
                break;
            default:
                if (next(&state) % 4 == 0)
                    kept = at + 1;
            }
        }
        run(varied, kept);
    }
}

static void run_input(size_t size, const char *path, int line)
{
    fprintf(stderr, line != 0 ? "%s:%d\n" : "%s\n", path, line); /* the last one is the one at fault */
    run(input, size);
    run_varied(size);
    inputs++;
}

/* The bytes of a line, 0 for a comment. */
static size_t bytes_of(const char *line)
{
    size_t size = 0;
    unsigned byte;
    for (; size < sizeof input && line[0] != '#' && line[0] != '\n' && sscanf(line, "%2x", &byte) == 1; line += 2)
        input[size++] = (unsigned char)byte;
    if (line[0] != '#' && line[0] != '\n')
        fuzz_fail("not hexadecimal: %s", line);
    return size;
}

static void run_lines(FILE *f, const char *path)
{
    static char line[2 * MOST_BYTES];
    for (int number = 1; fgets(line, sizeof line, f) != NULL; number++) {
        size_t size = bytes_of(line);
        if (size != 0)
            run_input(size, path, number);
    }
}

static void run_path(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        fuzz_fail("%s: cannot be read", path);
    if (S_ISDIR(status.st_mode)) {
        struct dirent **list;
        int count = scandir(path, &list, NULL, alphasort);
        for (int i = 0; i < count; i++) {
            char inner[4096];
            snprintf(inner, sizeof inner, "%s/%s", path, list[i]->d_name);
            if (list[i]->d_name[0] != '.')
                run_path(inner);
            free(list[i]);
        }
        free(list);
        return;
    }
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fuzz_fail("%s: cannot be read", path);
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".hex") == 0)
        run_lines(f, path);
    else
        run_input(fread(input, 1, sizeof input, f), path, 0);
    if (ferror(f) || fclose(f) != 0)
        fuzz_fail("%s: cannot be read", path);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--vary") == 0 && i + 1 < argc)
            vary = strtol(argv[++i], NULL, 10);
        else
            run_path(argv[i]);
    }
    printf("%ld inputs, %ld runs\n", inputs, runs);
    return inputs == 0; /* an empty corpus is a fault */
}
