/* fake_tvm_ffi.c: a library named libtvm_ffi.so with the two services that epiq looks up; it notes what it is told.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ffi/tvm_ffi.h"

#include <stdio.h>

#define FAKE __attribute__((visibility("default")))
FAKE void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
FAKE void *TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);
FAKE char fake_raised[1024];
FAKE int fake_streams;

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message)
{
    snprintf(fake_raised, sizeof fake_raised, "%s|%s", kind, message);
}

void *TVMFFIEnvGetStream(int32_t device_type, int32_t device_id)
{
    fake_streams += device_type == DL_CUDA && device_id == 0;
    return NULL;
}
