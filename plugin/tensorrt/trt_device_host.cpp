/* trt_device_host.cpp: the plugin with all memory on the host, for the tests; in no installed file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trt_host.h"

namespace epiq_trt
{

const epiq_backend trt_backend = EPIQ_BACKEND_C;

bool trt_store_float(void *memory, float value, void *)
{
    *static_cast<float *>(memory) = value;
    return true;
}

} // namespace epiq_trt
