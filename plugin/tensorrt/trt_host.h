/* trt_host.h: what the plugin asks of the process around it: the logger and the version of TensorRT, and the backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TRT_HOST_H
#define EPIQ_TRT_HOST_H

#include <epiq/epiq.h>

#include <stdint.h>

namespace epiq_trt
{

enum class Severity : int32_t { ERROR = 1, WARNING = 2 };

/* One line, as printf, to TensorRT's logger; to the standard error stream while that is not known. */
void trt_log(Severity severity, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What setLoggerFinder was given: the interface of the version in use, see trt_host.cpp. */
void trt_set_logger_finder(void *finder);

/* major * 10000 + minor * 100 + patch of the TensorRT in this process, as its getInferLibVersion says; 0: not known.
 * TensorRT-RTX counts versions of its own (1.7.1 is 10701); it is not known in this sense. */
int32_t trt_runtime_version();

/* The backend that enqueue calls, and how one float is stored in its memory in stream order. trt_device_cuda.cpp is the
 * one in libepiq_trt.so; trt_device_host.cpp makes the library that the tests load, with all memory on the host. */
extern const epiq_backend trt_backend;
bool trt_store_float(void *memory, float value, void *stream);

} // namespace epiq_trt

#endif
