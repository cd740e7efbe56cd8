/* abi_table.cpp: sizes, offsets, values, and the slot of every virtual function. Compiled twice: against trt_abi.h, and
 * with EPIQ_TRT_REAL_HEADERS against TensorRT's own headers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "abi_table.h"
#include "../../plugin/tensorrt/trt_abi.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

using namespace nvinfer1;

namespace
{

/* The slot of a virtual function: the Itanium ABI keeps its offset in the pointer to the member, with a bit set in the
 * pointer (x86-64) or beside it (AArch64). */
template <class Member> long long slot(Member member)
{
    intptr_t words[2];
    static_assert(sizeof member == sizeof words, "the Itanium form");
    memcpy(words, &member, sizeof words);
#if defined(__aarch64__)
    return (words[1] & 1) != 0 ? words[0] / static_cast<long long>(sizeof(void *)) : -1;
#else
    return (words[0] & 1) != 0 ? (words[0] - 1) / static_cast<long long>(sizeof(void *)) : -1;
#endif
}

/* clang-format off: a line is a struct or an interface. */
const AbiEntry table[] = {
#define SIZE(type)                                                                                                     \
    {                                                                                                                  \
        "sizeof " #type, sizeof(type)                                                                                  \
    }
#define OFFSET(type, field)                                                                                            \
    {                                                                                                                  \
#type "::" #field, offsetof(type, field)                                                                       \
    }
#define VALUE(value)                                                                                                   \
    {                                                                                                                  \
#value, static_cast < long long>(value)                                                                        \
    }
#define SLOT(type, function)                                                                                           \
    {                                                                                                                  \
#type "::" #function, slot(&type::function)                                                                    \
    }
    SIZE(Dims),
    OFFSET(Dims, nbDims),
    OFFSET(Dims, d),
    VALUE(Dims::MAX_DIMS),
    SIZE(PluginTensorDesc),
    OFFSET(PluginTensorDesc, dims),
    OFFSET(PluginTensorDesc, type),
    OFFSET(PluginTensorDesc, format),
    OFFSET(PluginTensorDesc, scale),
    SIZE(DynamicPluginTensorDesc),
    OFFSET(DynamicPluginTensorDesc, desc),
    OFFSET(DynamicPluginTensorDesc, min),
    OFFSET(DynamicPluginTensorDesc, max),
    OFFSET(DynamicPluginTensorDesc, opt),
    SIZE(PluginField),
    OFFSET(PluginField, name),
    OFFSET(PluginField, data),
    OFFSET(PluginField, type),
    OFFSET(PluginField, length),
    SIZE(PluginFieldCollection),
    OFFSET(PluginFieldCollection, nbFields),
    OFFSET(PluginFieldCollection, fields),
    SIZE(InterfaceInfo),
    OFFSET(InterfaceInfo, kind),
    OFFSET(InterfaceInfo, major),
    OFFSET(InterfaceInfo, minor),
    SIZE(DimsExprs),
    OFFSET(DimsExprs, nbDims),
    OFFSET(DimsExprs, d),
    SIZE(IDimensionExpr),
    SIZE(IExprBuilder),
    SIZE(IPluginV3),
    SIZE(IPluginCreatorV3One),

    VALUE(DataType::kFLOAT),
    VALUE(DataType::kHALF),
    VALUE(DataType::kINT8),
    VALUE(DataType::kINT32),
    VALUE(DataType::kBOOL),
    VALUE(DataType::kUINT8),
    VALUE(DataType::kFP8),
    VALUE(DataType::kBF16),
    VALUE(DataType::kINT64),
    VALUE(DataType::kINT4),
    VALUE(TensorFormat::kLINEAR),
    VALUE(PluginFieldType::kFLOAT16),
    VALUE(PluginFieldType::kFLOAT32),
    VALUE(PluginFieldType::kFLOAT64),
    VALUE(PluginFieldType::kINT8),
    VALUE(PluginFieldType::kINT16),
    VALUE(PluginFieldType::kINT32),
    VALUE(PluginFieldType::kCHAR),
    VALUE(PluginFieldType::kDIMS),
    VALUE(PluginFieldType::kUNKNOWN),
    VALUE(PluginFieldType::kBF16),
    VALUE(PluginFieldType::kINT64),
    VALUE(PluginFieldType::kFP8),
    VALUE(PluginFieldType::kINT4),
    VALUE(TensorRTPhase::kBUILD),
    VALUE(TensorRTPhase::kRUNTIME),
    VALUE(PluginCapabilityType::kCORE),
    VALUE(PluginCapabilityType::kBUILD),
    VALUE(PluginCapabilityType::kRUNTIME),
    VALUE(APILanguage::kCPP),
    VALUE(APILanguage::kPYTHON),
    VALUE(DimensionOperation::kSUM),
    VALUE(DimensionOperation::kPROD),
    VALUE(DimensionOperation::kMAX),
    VALUE(DimensionOperation::kMIN),
    VALUE(DimensionOperation::kSUB),
    VALUE(DimensionOperation::kEQUAL),
    VALUE(DimensionOperation::kLESS),
    VALUE(DimensionOperation::kFLOOR_DIV),
    VALUE(DimensionOperation::kCEIL_DIV),
#if defined(EPIQ_TRT_REAL_HEADERS) && NV_TENSORRT_MAJOR * 100 + NV_TENSORRT_MINOR < 1008
    {"DataType::kFP4", 10},
    {"PluginFieldType::kFP4", 13}, // not there yet
#else
    VALUE(DataType::kFP4),
    VALUE(PluginFieldType::kFP4),
#endif
#if defined(EPIQ_TRT_REAL_HEADERS) && NV_TENSORRT_MAJOR * 100 + NV_TENSORRT_MINOR < 1013
    {"DataType::kE8M0", 11},
#else
    VALUE(DataType::kE8M0),
#endif

    SLOT(IPluginV3, getAPILanguage),
    SLOT(IPluginV3, getInterfaceInfo),
    SLOT(IPluginV3, getCapabilityInterface),
    SLOT(IPluginV3, clone),
    SLOT(IPluginV3OneCore, getAPILanguage),
    SLOT(IPluginV3OneCore, getInterfaceInfo),
    SLOT(IPluginV3OneCore, getPluginName),
    SLOT(IPluginV3OneCore, getPluginVersion),
    SLOT(IPluginV3OneCore, getPluginNamespace),
    SLOT(IPluginV3OneBuild, getAPILanguage),
    SLOT(IPluginV3OneBuild, getInterfaceInfo),
    SLOT(IPluginV3OneBuild, configurePlugin),
    SLOT(IPluginV3OneBuild, getOutputDataTypes),
    SLOT(IPluginV3OneBuild, getOutputShapes),
    SLOT(IPluginV3OneBuild, supportsFormatCombination),
    SLOT(IPluginV3OneBuild, getNbOutputs),
    SLOT(IPluginV3OneBuild, getWorkspaceSize),
    SLOT(IPluginV3OneBuild, getValidTactics),
    SLOT(IPluginV3OneBuild, getNbTactics),
    SLOT(IPluginV3OneBuild, getTimingCacheID),
    SLOT(IPluginV3OneBuild, getFormatCombinationLimit),
    SLOT(IPluginV3OneBuild, getMetadataString),
    SLOT(IPluginV3OneBuildV2, getAliasedInput),
    SLOT(IPluginV3OneRuntime, getAPILanguage),
    SLOT(IPluginV3OneRuntime, getInterfaceInfo),
    SLOT(IPluginV3OneRuntime, setTactic),
    SLOT(IPluginV3OneRuntime, onShapeChange),
    SLOT(IPluginV3OneRuntime, enqueue),
    SLOT(IPluginV3OneRuntime, attachToContext),
    SLOT(IPluginV3OneRuntime, getFieldsToSerialize),
    SLOT(IPluginCreatorV3One, getAPILanguage),
    SLOT(IPluginCreatorV3One, getInterfaceInfo),
    SLOT(IPluginCreatorV3One, createPlugin),
    SLOT(IPluginCreatorV3One, getFieldNames),
    SLOT(IPluginCreatorV3One, getPluginName),
    SLOT(IPluginCreatorV3One, getPluginVersion),
    SLOT(IPluginCreatorV3One, getPluginNamespace),
    SLOT(apiv::VDimensionExpr, isConstant),
    SLOT(apiv::VDimensionExpr, getConstantValue),
    SLOT(apiv::VDimensionExpr, isSizeTensor),
    SLOT(apiv::VExprBuilder, constant),
    SLOT(apiv::VExprBuilder, operation),
    SLOT(apiv::VExprBuilder, declareSizeTensor),
#ifdef EPIQ_TRT_REAL_HEADERS /* what trt_host.cpp assumes of loggers */
    {"ILoggerFinder::findLogger", slot(&ILoggerFinder::findLogger)},
    {"ILogger::log", slot(&ILogger::log)},
    {"slots by version", NV_TENSORRT_MAJOR >= 11 ? 4 : 0},
#else
    {"ILoggerFinder::findLogger", -1},
    {"ILogger::log", -1},
    {"slots by version", -1},
#endif
};
/* clang-format on */

} // namespace

#ifdef EPIQ_TRT_REAL_HEADERS
AbiTable real_abi_table()
#else
AbiTable own_abi_table()
#endif
{
    return {table, static_cast<int>(sizeof table / sizeof table[0])};
}
