/* expressions.h: the dimensions that a host of TensorRT plugins lets them reckon with.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TRT_EXPRESSIONS_H
#define TRT_EXPRESSIONS_H

#include "../../plugin/tensorrt/trt_abi.h"

#include <stdint.h>

#include <memory>
#include <vector>

struct Expression : nvinfer1::IDimensionExpr, private nvinfer1::apiv::VDimensionExpr {
    Expression(int64_t v, bool c) : value(v), known(c)
    {
        mImpl = this;
    }
    bool isConstant() const override
    {
        return known;
    }
    int64_t getConstantValue() const override
    {
        return known ? value : INT64_MIN;
    }
    bool isSizeTensor() const override
    {
        return false;
    }
    int64_t value;
    bool known;
};

/* What no host would be asked is told to `complain`; a product that overflows is the largest number. */
struct Builder : nvinfer1::IExprBuilder, private nvinfer1::apiv::VExprBuilder {
    explicit Builder(void (*to)(const char *text)) : complain(to)
    {
        mImpl = this;
    }
    const nvinfer1::IDimensionExpr *make(int64_t value, bool known)
    {
        pool.emplace_back(new Expression(value, known));
        return pool.back().get();
    }
    const nvinfer1::IDimensionExpr *constant(int64_t value) override
    {
        return make(value, true);
    }
    const nvinfer1::IDimensionExpr *operation(nvinfer1::DimensionOperation op, const nvinfer1::IDimensionExpr &first,
                                              const nvinfer1::IDimensionExpr &second) override
    {
        const auto &a = static_cast<const Expression &>(first), &b = static_cast<const Expression &>(second);
        int64_t value = 0;
        if (op == nvinfer1::DimensionOperation::kPROD) {
            if (__builtin_mul_overflow(a.value, b.value, &value))
                value = INT64_MAX;
        } else if (b.value <= 0) {
            complain("a dimension is divided by what is not positive");
        } else if (op == nvinfer1::DimensionOperation::kFLOOR_DIV) {
            value = a.value / b.value;
        } else if (op == nvinfer1::DimensionOperation::kCEIL_DIV) {
            value = a.value / b.value + (a.value % b.value != 0);
        } else {
            complain("an operation that the host does not know");
        }
        return make(value, a.known && b.known);
    }
    const nvinfer1::IDimensionExpr *declareSizeTensor(int32_t, const nvinfer1::IDimensionExpr &,
                                                      const nvinfer1::IDimensionExpr &) override
    {
        return nullptr;
    }
    void (*complain)(const char *text);
    std::vector<std::unique_ptr<Expression>> pool;
};

#endif
