/* dequantize.cu: the kernel of epiq_dequantize: a thread an element, any shape,
 * stride and alignment. SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"
#include "row.cuh"

static __device__ float value_of(int format, uint32_t code)
{
    switch (format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        return format_of<CUDA_##upper>::value(code);
        EPIQI_FORMATS(X)
#undef X
    default:
        return 0.0f;
    }
}

static __device__ float scale_value_of(int format, const ar_quant &q, uint32_t stored)
{
    switch (format) {
#define X(upper, lower, bits, block, scale, grains)                                                                    \
    case CUDA_##upper:                                                                                                 \
        return format_of<CUDA_##upper>::scale_value(q, stored);
        EPIQI_FORMATS(X)
#undef X
    default:
        return 0.0f;
    }
}

static __device__ uint32_t load_scale(const cuda_args &a, int64_t row, int64_t group)
{
    const char *p = scale_at(a, scales_of_row(a, row), group);
    uint32_t u = 0;
    for (int i = 0; i < a.scales.bytes; i++)
        u |= (uint32_t)(unsigned char)p[i] << (8 * i);
    return u;
}

template <int DT> __global__ void __launch_bounds__(256) dequantize_kernel(const __grid_constant__ cuda_args a)
{
    begin_kernel(a);
    float tensor = 0.0f, second = 1.0f;
    if (a.format == CUDA_NVFP4)
        second = ar_multiplier_of_scale(ar_second_level(*a.inv_scale));
    else if (a.group == 0 && a.scales.data == NULL)
        tensor = a.scale != NULL ? *a.scale : ar_multiplier_of_scale(*a.inv_scale);
    const uint32_t chunk = blockIdx.x % (uint32_t)a.chunks;
    const int64_t row = blockIdx.x / (uint32_t)a.chunks;
    for (int64_t col = (int64_t)chunk * 256 + threadIdx.x; col < a.cols; col += (int64_t)a.chunks * 256) {
        const char *from = a.codes.data + row * a.codes.stride + col * a.bits / 8;
        uint32_t code = (unsigned char)*from;
        if (a.bits == 4)
            code = code >> (col % 2 * 4) & 15;
        float factor = tensor;
        if (a.scales.data != NULL)
            factor = scale_value_of(a.format, a.quant, load_scale(a, row, a.group != 0 ? col / a.group : 0));
        const float y = vf_mul(vf_mul(value_of(a.format, code), factor), second);
        store_one<DT>(a.y_out.data + row * a.y_out.stride + col * dtype_of<DT>::BYTES, y);
    }
    end_kernel(a);
}

const void *epiqi_cuda_dequantize_kernel(int dtype)
{
    return dtype == AR_F32   ? (const void *)dequantize_kernel<AR_F32>
           : dtype == AR_F16 ? (const void *)dequantize_kernel<AR_F16>
                             : (const void *)dequantize_kernel<AR_BF16>;
}

int epiqi_cuda_divides(int format)
{
    static const int divides[] = {
#define X(upper, lower, bits, block, scale, grains) AR_##upper##_DIVIDES,
        EPIQI_FORMATS(X)
#undef X
    };
    return divides[format];
}

int epiqi_cuda_divides_static(int format)
{
    static const int divides[] = {
#define X(upper, lower, bits, block, scale, grains) AR_##upper##_DIVIDES_STATIC,
        EPIQI_FORMATS(X)
#undef X
    };
    return divides[format];
}
