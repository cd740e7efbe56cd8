/* tvm_ffi.h: the part of two published binary interfaces that the entry points of tvm_ffi.c need: the C ABI of tvm-ffi
 * (0.1) and DLPack. Declared here, so that neither a header nor a library of them is needed to build or to load epiq.
 * tests/ffi/test_tvm_ffi.c fixes sizes and offsets; tests/python/test_python_tvm_ffi.py calls through the real package.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EPIQ_TVM_FFI_H
#define EPIQ_TVM_FFI_H

#include <stddef.h>
#include <stdint.h>

/* ---- DLPack ------------------------------------------------------------------------------------------------------ */

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum {
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_E4M3FN = 10,
    DL_E5M2 = 12,
    DL_E8M0FNU = 14,
    DL_E2M1FN = 17
};

typedef struct dl_device {
    int32_t type;
    int32_t id;
} dl_device;

typedef struct dl_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dl_dtype;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; // in elements; NULL: dense
    uint64_t byte_offset;
} dl_tensor;

/* ---- tvm-ffi ----------------------------------------------------------------------------------------------------- */

enum {
    TVM_NONE = 0,
    TVM_INT = 1,
    TVM_BOOL = 2,
    TVM_FLOAT = 3,
    TVM_POINTER = 4,
    TVM_DL_TENSOR = 7,  // dl_tensor *
    TVM_RAW_STR = 8,    // const char *
    TVM_SMALL_STR = 11, // bytes in the value itself
    TVM_STR = 65,       // object: tvm_object, then data and size
    TVM_TENSOR = 70     // object: tvm_object, then dl_tensor
};

typedef struct tvm_object {
    uint64_t counts;
    int32_t type_index;
    uint32_t padding;
    void (*deleter)(void *self, int flags);
} tvm_object;

typedef struct tvm_str_object {
    tvm_object object;
    const char *data;
    size_t size;
} tvm_str_object;

typedef struct tvm_tensor_object {
    tvm_object object;
    dl_tensor tensor;
} tvm_tensor_object;

typedef struct tvm_any { // an argument or a result
    int32_t type_index;
    uint32_t small_size; // bytes of a TVM_SMALL_STR; else 0
    union {
        int64_t integer;
        double number;
        void *pointer;
        const char *text;
        char bytes[8];
    };
} tvm_any;

/* Services of libtvm_ffi, used if it is in the process. */
#define TVM_RAISE "TVMFFIErrorSetRaisedFromCStr"
#define TVM_STREAM "TVMFFIEnvGetStream"
typedef void tvm_raise(const char *kind, const char *message);
typedef void *tvm_stream(int32_t device_type, int32_t device_id);

/* ---- Exports of libepiq.so: the calling convention of tvm-ffi, handle is not used; tvm_ffi.c says what they take - */

#if defined(__GNUC__)
#define TVM_API __attribute__((visibility("default")))
#else
#define TVM_API
#endif
TVM_API int __tvm_ffi_epiq_act_mul(void *handle, const tvm_any *args, int32_t count, tvm_any *result);
TVM_API int __tvm_ffi_epiq_rms_norm(void *handle, const tvm_any *args, int32_t count, tvm_any *result);
TVM_API int __tvm_ffi_epiq_quantize(void *handle, const tvm_any *args, int32_t count, tvm_any *result);
TVM_API int __tvm_ffi_epiq_dequantize(void *handle, const tvm_any *args, int32_t count, tvm_any *result);

#endif
