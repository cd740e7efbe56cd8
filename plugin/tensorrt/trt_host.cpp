/* trt_host.cpp: the version of TensorRT in the process, and its logger.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The logger finder and the logger became versioned interfaces in 11.0, which moved their one function behind four
 * others (getAPILanguage, getInterfaceInfo, two of the destructor). So the version decides how they are called, and
 * they are left alone while it is not known. */
#include "trt_host.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

namespace epiq_trt
{

namespace
{

void *logger_finder;

int32_t ask_version(void *library)
{
    auto ask = reinterpret_cast<int32_t (*)()>(dlsym(library, "getInferLibVersion"));
    return ask != nullptr ? ask() : 0;
}

int32_t library_version()
{
    /* Python loads TensorRT where a global search does not find it: first ask the library that the finder's virtual
     * table lies in, which is TensorRT itself. */
    void *finder = __atomic_load_n(&logger_finder, __ATOMIC_ACQUIRE);
    Dl_info where;
    if (finder != nullptr && dladdr(*static_cast<void **>(finder), &where) != 0 && where.dli_fname != nullptr) {
        void *library = dlopen(where.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
        if (library != nullptr) {
            const int32_t version = ask_version(library);
            dlclose(library);
            if (version != 0)
                return version;
        }
    }
    return ask_version(RTLD_DEFAULT);
}

/* Where findLogger and log stand in their virtual tables; -1: not known. TensorRT-RTX counts from 1 and is as 11 since
 * 1.7 at the latest. */
int logger_slot(int32_t version)
{
    if (version >= 100000 && version < 110000)
        return 0;
    if ((version >= 110000 && version < 120000) || (version >= 10700 && version < 20000))
        return 4;
    return -1;
}

/* A function of an object that is known by the place in its virtual table alone. */
template <class Function> Function slot(void *object, int number)
{
    return reinterpret_cast<Function>((*static_cast<void ***>(object))[number]);
}

bool log_to_tensorrt(Severity severity, const char *message)
{
    void *finder = __atomic_load_n(&logger_finder, __ATOMIC_ACQUIRE);
    const int number = finder != nullptr ? logger_slot(library_version()) : -1;
    if (number < 0)
        return false;
    void *logger = slot<void *(*)(void *)>(finder, number)(finder);
    if (logger != nullptr)
        slot<void (*)(void *, int32_t, const char *)>(logger, number)(logger, static_cast<int32_t>(severity), message);
    return logger != nullptr; // there is none before the first builder or runtime
}

} // namespace

void trt_set_logger_finder(void *finder)
{
    __atomic_store_n(&logger_finder, finder, __ATOMIC_RELEASE);
}

int32_t trt_runtime_version()
{
    const int32_t version = library_version();
    return version >= 100000 && version < 120000 ? version : 0;
}

void trt_log(Severity severity, const char *format, ...)
{
    char message[1536];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    for (size_t length = strlen(message); length > 0 && message[length - 1] == '\n'; length--)
        message[length - 1] = '\0';
    for (char *c = message; *c != '\0'; c++) // names of layers and fields come from a file, and may hold anything
        if (static_cast<unsigned char>(*c) < ' ')
            *c = '?';
    if (!log_to_tensorrt(severity, message))
        fprintf(stderr, "[%s] %s\n", severity == Severity::ERROR ? "E" : "W", message);
}

} // namespace epiq_trt
