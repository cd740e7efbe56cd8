/* text.h: text into a caller's buffer, with snprintf's manners.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TEXT_H
#define EPIQ_TEXT_H

#include <stddef.h>

typedef struct epiqi_text {
    char *text; /* may be NULL: then only the length is counted */
    size_t bytes;
    size_t length; /* of the whole text so far, whether it fits or not */
} epiqi_text;

/* Appends; a NULL text is allowed and does nothing. */
__attribute__((format(printf, 2, 3))) void epiqi_print(epiqi_text *text, const char *format, ...);

#endif
