/* trt_device_cuda.cpp: the plugin on a GPU. SPDX-License-Identifier: Apache-2.0 */
#include "trt_host.h"

#include <dlfcn.h>
#include <string.h>

namespace epiq_trt
{

const epiq_backend trt_backend = EPIQ_BACKEND_CUDA;

/* A memset of the driver: asynchronous, no host memory that must outlive the call, and a captured graph holds the
 * value. The driver is loaded by whoever made the stream. */
bool trt_store_float(void *memory, float value, void *stream)
{
    static int (*memset32)(unsigned long long, unsigned, size_t, void *);
    auto call = __atomic_load_n(&memset32, __ATOMIC_RELAXED);
    if (call == nullptr) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
        if (driver != nullptr)
            call = reinterpret_cast<decltype(call)>(dlsym(driver, "cuMemsetD32Async"));
        if (call == nullptr)
            return false;
        __atomic_store_n(&memset32, call, __ATOMIC_RELAXED);
    }
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return call(reinterpret_cast<unsigned long long>(memory), bits, 1, stream) == 0;
}

} // namespace epiq_trt
