/* trt_abi.h: the part of TensorRT's plugin interface that a plugin implements or is handed, declared here so that the
 * plugin builds without TensorRT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names, order of virtual functions, struct fields and numbers are facts of the documented interface (IPluginV3 as of
 * 10.0, the second build interface as of 10.3, both unchanged up to 11.1); everything else is left out.
 * tests/trt/abi_table.cpp compares them with real headers: sizes, offsets, values, the slot of every virtual.
 *
 * The names live in TensorRT's own namespaces, so that the type information beside the virtual tables has the names
 * that a caller with dynamic_cast looks for. What a version below 10.8 lacks (FP4) is guarded at run time: see
 * trt_runtime_version() in trt_host.h. Three classes differ between 10 and 11, or are not needed: the registry is never
 * called, IPluginResourceContext stays opaque, and loggers are reached by version in trt_host.cpp. */
#ifndef EPIQ_TRT_ABI_H
#define EPIQ_TRT_ABI_H

#ifdef EPIQ_TRT_REAL_HEADERS // libepiq_trt_v2.so, and the conformance test
#include <NvInfer.h>
#else

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct CUstream_st *cudaStream_t;

namespace nvinfer1
{

// ---- Numbers --------------------------------------------------------------------------------------------------------

enum class DataType : int32_t {
    kFLOAT = 0,
    kHALF = 1,
    kINT8 = 2,
    kINT32 = 3,
    kBOOL = 4,
    kUINT8 = 5,
    kFP8 = 6, // e4m3
    kBF16 = 7,
    kINT64 = 8,
    kINT4 = 9,
    kFP4 = 10,  // e2m1, since 10.8
    kE8M0 = 11, // since 10.13; of no plugin tensor
};

enum class TensorFormat : int32_t { kLINEAR = 0 };

enum class PluginFieldType : int32_t {
    kFLOAT16 = 0,
    kFLOAT32 = 1,
    kFLOAT64 = 2,
    kINT8 = 3,
    kINT16 = 4,
    kINT32 = 5,
    kCHAR = 6,
    kDIMS = 7,
    kUNKNOWN = 8,
    kBF16 = 9,
    kINT64 = 10,
    kFP8 = 11,
    kINT4 = 12,
    kFP4 = 13,
};

enum class TensorRTPhase : int32_t { kBUILD = 0, kRUNTIME = 1 };
enum class PluginCapabilityType : int32_t { kCORE = 0, kBUILD = 1, kRUNTIME = 2 };
enum class APILanguage : int32_t { kCPP = 0, kPYTHON = 1 };

enum class DimensionOperation : int32_t {
    kSUM = 0,
    kPROD = 1,
    kMAX = 2,
    kMIN = 3,
    kSUB = 4,
    kEQUAL = 5,
    kLESS = 6,
    kFLOOR_DIV = 7,
    kCEIL_DIV = 8,
};

// ---- Structs --------------------------------------------------------------------------------------------------------

class Dims64
{
  public:
    static constexpr int32_t MAX_DIMS = 8;
    int32_t nbDims;
    int64_t d[MAX_DIMS];
};
using Dims = Dims64;

struct PluginTensorDesc {
    Dims dims;
    DataType type;
    TensorFormat format;
    float scale;
};

struct DynamicPluginTensorDesc {
    PluginTensorDesc desc; // a dimension that is not known is -1
    Dims min;
    Dims max;
    Dims opt;
};

class PluginField
{
  public:
    const char *name;
    const void *data;
    PluginFieldType type;
    int32_t length; // elements of `type`
};

struct PluginFieldCollection {
    int32_t nbFields;
    const PluginField *fields;
};

class InterfaceInfo
{
  public:
    const char *kind;
    int32_t major;
    int32_t minor;
};

// ---- Expressions of dimensions: objects of TensorRT, called through the implementation that they point to -----------

class IDimensionExpr;

namespace apiv
{
class VRoot
{
  public:
    virtual ~VRoot() noexcept = default;
};

class VDimensionExpr : public VRoot
{
  public:
    virtual bool isConstant() const = 0;
    virtual int64_t getConstantValue() const = 0;
    virtual bool isSizeTensor() const = 0;
};

class VExprBuilder : public VRoot
{
  public:
    virtual const IDimensionExpr *constant(int64_t value) = 0;
    virtual const IDimensionExpr *operation(DimensionOperation op, const IDimensionExpr &first,
                                            const IDimensionExpr &second) = 0;
    virtual const IDimensionExpr *declareSizeTensor(int32_t outputIndex, const IDimensionExpr &opt,
                                                    const IDimensionExpr &upper) = 0;
};
} // namespace apiv

class IDimensionExpr
{
  public:
    bool isConstant() const noexcept
    {
        return mImpl->isConstant();
    }
    int64_t getConstantValue() const noexcept
    {
        return mImpl->getConstantValue();
    }

  protected:
    virtual ~IDimensionExpr() noexcept = default;
    apiv::VDimensionExpr *mImpl = nullptr;
};

class IExprBuilder
{
  public:
    const IDimensionExpr *constant(int64_t value) noexcept
    {
        return mImpl->constant(value);
    }
    const IDimensionExpr *operation(DimensionOperation op, const IDimensionExpr &first,
                                    const IDimensionExpr &second) noexcept
    {
        return mImpl->operation(op, first, second);
    }

  protected:
    virtual ~IExprBuilder() noexcept = default;
    apiv::VExprBuilder *mImpl = nullptr;
};

class DimsExprs
{
  public:
    int32_t nbDims;
    const IDimensionExpr *d[Dims::MAX_DIMS];
};

// ---- Interfaces -----------------------------------------------------------------------------------------------------

class IVersionedInterface
{
  public:
    virtual APILanguage getAPILanguage() const noexcept
    {
        return APILanguage::kCPP;
    }
    virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;
    virtual ~IVersionedInterface() noexcept = default;

    // Objects come from malloc, and their deleting destructor, which the other side calls, gives them back.
    static void operator delete(void *object) noexcept
    {
        free(object);
    }
};

class IPluginResourceContext; // opaque

namespace v_1_0
{

class IPluginCapability : public IVersionedInterface
{
};

class IPluginCreatorInterface : public IVersionedInterface
{
};

class IPluginV3 : public IVersionedInterface
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"PLUGIN", 1, 0};
    }
    virtual IPluginCapability *getCapabilityInterface(PluginCapabilityType type) noexcept = 0;
    virtual IPluginV3 *clone() noexcept = 0;
};

class IPluginV3OneCore : public IPluginCapability
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"PLUGIN_V3ONE_CORE", 1, 0};
    }
    virtual const char *getPluginName() const noexcept = 0;
    virtual const char *getPluginVersion() const noexcept = 0;
    virtual const char *getPluginNamespace() const noexcept = 0;
};

class IPluginV3OneBuild : public IPluginCapability
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"PLUGIN_V3ONE_BUILD", 1, 0};
    }
    virtual int32_t configurePlugin(const DynamicPluginTensorDesc *in, int32_t nbInputs,
                                    const DynamicPluginTensorDesc *out, int32_t nbOutputs) noexcept = 0;
    virtual int32_t getOutputDataTypes(DataType *outputTypes, int32_t nbOutputs, const DataType *inputTypes,
                                       int32_t nbInputs) const noexcept = 0;
    virtual int32_t getOutputShapes(const DimsExprs *inputs, int32_t nbInputs, const DimsExprs *shapeInputs,
                                    int32_t nbShapeInputs, DimsExprs *outputs, int32_t nbOutputs,
                                    IExprBuilder &exprBuilder) noexcept = 0;
    virtual bool supportsFormatCombination(int32_t pos, const DynamicPluginTensorDesc *inOut, int32_t nbInputs,
                                           int32_t nbOutputs) noexcept = 0;
    virtual int32_t getNbOutputs() const noexcept = 0;
    virtual size_t getWorkspaceSize(const DynamicPluginTensorDesc *inputs, int32_t nbInputs,
                                    const DynamicPluginTensorDesc *outputs, int32_t nbOutputs) const noexcept = 0;
    virtual int32_t getValidTactics(int32_t *, int32_t) noexcept
    {
        return 0;
    }
    virtual int32_t getNbTactics() noexcept
    {
        return 0;
    }
    virtual const char *getTimingCacheID() noexcept = 0;
    virtual int32_t getFormatCombinationLimit() noexcept
    {
        return 100;
    }
    virtual const char *getMetadataString() noexcept = 0;
};

class IPluginV3OneRuntime : public IPluginCapability
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"PLUGIN_V3ONE_RUNTIME", 1, 0};
    }
    virtual int32_t setTactic(int32_t) noexcept
    {
        return 0;
    }
    virtual int32_t onShapeChange(const PluginTensorDesc *in, int32_t nbInputs, const PluginTensorDesc *out,
                                  int32_t nbOutputs) noexcept = 0;
    virtual int32_t enqueue(const PluginTensorDesc *inputDesc, const PluginTensorDesc *outputDesc,
                            const void *const *inputs, void *const *outputs, void *workspace,
                            cudaStream_t stream) noexcept = 0;
    virtual IPluginV3 *attachToContext(IPluginResourceContext *context) noexcept = 0;
    virtual const PluginFieldCollection *getFieldsToSerialize() noexcept = 0; // stays alive until the next call
};

class IPluginCreatorV3One : public IPluginCreatorInterface
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"PLUGIN CREATOR_V3ONE", 1, 0};
    }
    virtual IPluginV3 *createPlugin(const char *name, const PluginFieldCollection *fc,
                                    TensorRTPhase phase) noexcept = 0;
    virtual const PluginFieldCollection *getFieldNames() noexcept = 0;
    virtual const char *getPluginName() const noexcept = 0;
    virtual const char *getPluginVersion() const noexcept = 0;
    virtual const char *getPluginNamespace() const noexcept = 0;
};

} // namespace v_1_0

namespace v_2_0
{

class IPluginV3OneBuild : public v_1_0::IPluginV3OneBuild // since 10.3
{
  public:
    InterfaceInfo getInterfaceInfo() const noexcept override
    {
        return {"PLUGIN_V3ONE_BUILD", 2, 0};
    }
    virtual int32_t getAliasedInput(int32_t outputIndex) noexcept = 0; // -1: none. Asked only if the preview is on
};

} // namespace v_2_0

using IPluginCapability = v_1_0::IPluginCapability;
using IPluginCreatorInterface = v_1_0::IPluginCreatorInterface;
using IPluginCreatorV3One = v_1_0::IPluginCreatorV3One;
using IPluginV3 = v_1_0::IPluginV3;
using IPluginV3OneBuild = v_1_0::IPluginV3OneBuild;
using IPluginV3OneBuildV2 = v_2_0::IPluginV3OneBuild;
using IPluginV3OneCore = v_1_0::IPluginV3OneCore;
using IPluginV3OneRuntime = v_1_0::IPluginV3OneRuntime;

static_assert(sizeof(Dims) == 72 && sizeof(PluginTensorDesc) == 88 && sizeof(DynamicPluginTensorDesc) == 304 &&
                  sizeof(DimsExprs) == 72 && sizeof(PluginField) == 24 && sizeof(PluginFieldCollection) == 16 &&
                  sizeof(InterfaceInfo) == 16,
              "the structs of the plugin interface have these sizes since 10.0");

} // namespace nvinfer1

#endif // EPIQ_TRT_REAL_HEADERS

namespace epiq_trt
{
/* Headers before 10.8 do not name it. */
constexpr nvinfer1::DataType TYPE_FP4 = static_cast<nvinfer1::DataType>(10);
} // namespace epiq_trt

#endif
