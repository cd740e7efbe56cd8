/* abi_table.h: the numbers that a plugin and TensorRT must agree on.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRT_ABI_TABLE_H
#define TRT_ABI_TABLE_H

struct AbiEntry {
    const char *what;
    long long number;
};
struct AbiTable {
    const AbiEntry *entries;
    int count;
};
AbiTable own_abi_table();  // of plugin/tensorrt/trt_abi.h
AbiTable real_abi_table(); // of TensorRT's headers

#endif
