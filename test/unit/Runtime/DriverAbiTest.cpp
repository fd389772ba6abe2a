//===- DriverAbiTest.cpp - our declarations of the driver against NVIDIA's --===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled where CMake finds cuda.h. What does not agree does not compile.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/Driver.h"

#include <cstddef>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <gtest/gtest.h>
#include <type_traits>

using namespace kimi;

namespace {

#define SAME_VALUE(ours, theirs) static_assert(int(cuda::ours) == int(theirs), #ours)
SAME_VALUE(InvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(NoDevice, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(InvalidDevice, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(InvalidImage, CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(InvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME_VALUE(JitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME_VALUE(UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(NotFound, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(NotReady, CUDA_ERROR_NOT_READY);
SAME_VALUE(SystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(GraphExecUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
SAME_VALUE(ClockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME_VALUE(MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(MemoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME_VALUE(GlobalMemoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME_VALUE(ComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(ComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(MaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(FunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(FunctionSharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(FunctionLocalSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_VALUE(FunctionNumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(FunctionMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(JitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME_VALUE(JitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(StreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(EventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(HostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(CaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(CaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(ProcFound, CU_GET_PROC_ADDRESS_SUCCESS);
SAME_VALUE(ProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_VALUE(MapUint8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME_VALUE(MapUint16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME_VALUE(MapUint32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME_VALUE(MapUint64, CU_TENSOR_MAP_DATA_TYPE_UINT64);
SAME_VALUE(MapInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME_VALUE(MapSwizzleNone, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME_VALUE(MapSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME_VALUE(MapSwizzle64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME_VALUE(MapSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME_VALUE(MapPromotionNone, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME_VALUE(MapPromotion128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME_VALUE(MapPromotion256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME_VALUE(MapFillZeros, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

#define SAME_PLACE(ours, member, theirs, theirMember)                                                                  \
  static_assert(offsetof(cuda::ours, member) == offsetof(theirs, theirMember), #ours "." #member)
static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
SAME_PLACE(LaunchAttribute, value, CUlaunchAttribute, value);
static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
SAME_PLACE(LaunchConfig, gridX, CUlaunchConfig, gridDimX);
SAME_PLACE(LaunchConfig, blockX, CUlaunchConfig, blockDimX);
SAME_PLACE(LaunchConfig, sharedBytes, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_PLACE(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_PLACE(LaunchConfig, attributeCount, CUlaunchConfig, numAttrs);
static_assert(sizeof(cuda::KernelNodeParams) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
SAME_PLACE(KernelNodeParams, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
SAME_PLACE(KernelNodeParams, gridX, CUDA_KERNEL_NODE_PARAMS_v2, gridDimX);
SAME_PLACE(KernelNodeParams, blockX, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX);
SAME_PLACE(KernelNodeParams, sharedBytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_PLACE(KernelNodeParams, parameters, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_PLACE(KernelNodeParams, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
SAME_PLACE(KernelNodeParams, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);
static_assert(sizeof(cuda::GraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(sizeof(cuda::TensorMap) == sizeof(CUtensorMap) && alignof(cuda::TensorMap) == alignof(CUtensorMap));

/// Functions agree where they take as many arguments of the same sizes and kinds.
template <typename A, typename B>
constexpr bool agree = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
template <typename Ours, typename Theirs>
struct Agree;
template <typename... A, typename... B>
struct Agree<cuda::Result (*)(A...), CUresult (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return (agree<A, B> && ...);
    }
    return false;
  }();
};
#define SAME_FUNCTION(member, theirs) static_assert(Agree<decltype(cuda::Driver::member), theirs>::value, #member)
SAME_FUNCTION(init, PFN_cuInit_v2000);
SAME_FUNCTION(getErrorName, PFN_cuGetErrorName_v6000);
SAME_FUNCTION(getErrorString, PFN_cuGetErrorString_v6000);
SAME_FUNCTION(deviceGetCount, PFN_cuDeviceGetCount_v2000);
SAME_FUNCTION(deviceGet, PFN_cuDeviceGet_v2000);
SAME_FUNCTION(deviceGetName, PFN_cuDeviceGetName_v2000);
SAME_FUNCTION(deviceTotalMem, PFN_cuDeviceTotalMem_v3020);
SAME_FUNCTION(deviceGetAttribute, PFN_cuDeviceGetAttribute_v2000);
SAME_FUNCTION(devicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000);
SAME_FUNCTION(devicePrimaryCtxRelease, PFN_cuDevicePrimaryCtxRelease_v11000);
SAME_FUNCTION(ctxPushCurrent, PFN_cuCtxPushCurrent_v4000);
SAME_FUNCTION(ctxPopCurrent, PFN_cuCtxPopCurrent_v4000);
SAME_FUNCTION(moduleLoadDataEx, PFN_cuModuleLoadDataEx_v2010);
SAME_FUNCTION(moduleUnload, PFN_cuModuleUnload_v2000);
SAME_FUNCTION(moduleGetFunction, PFN_cuModuleGetFunction_v2000);
SAME_FUNCTION(funcGetAttribute, PFN_cuFuncGetAttribute_v2020);
SAME_FUNCTION(funcSetAttribute, PFN_cuFuncSetAttribute_v9000);
SAME_FUNCTION(funcGetParamInfo, PFN_cuFuncGetParamInfo_v12040);
SAME_FUNCTION(memGetInfo, PFN_cuMemGetInfo_v3020);
SAME_FUNCTION(memAlloc, PFN_cuMemAlloc_v3020);
SAME_FUNCTION(memFree, PFN_cuMemFree_v3020);
SAME_FUNCTION(memHostAlloc, PFN_cuMemHostAlloc_v2020);
SAME_FUNCTION(memFreeHost, PFN_cuMemFreeHost_v2000);
SAME_FUNCTION(memcpyHtoDAsync, PFN_cuMemcpyHtoDAsync_v3020);
SAME_FUNCTION(memcpyDtoHAsync, PFN_cuMemcpyDtoHAsync_v3020);
SAME_FUNCTION(memsetD8Async, PFN_cuMemsetD8Async_v3020);
SAME_FUNCTION(streamCreate, PFN_cuStreamCreate_v2000);
SAME_FUNCTION(streamDestroy, PFN_cuStreamDestroy_v4000);
SAME_FUNCTION(streamSynchronize, PFN_cuStreamSynchronize_v2000);
SAME_FUNCTION(streamWaitEvent, PFN_cuStreamWaitEvent_v3020);
SAME_FUNCTION(streamBeginCapture, PFN_cuStreamBeginCapture_v10010);
SAME_FUNCTION(streamEndCapture, PFN_cuStreamEndCapture_v10000);
SAME_FUNCTION(streamGetCaptureInfo, PFN_cuStreamGetCaptureInfo_v11030);
SAME_FUNCTION(streamGetCaptureInfoEdges, PFN_cuStreamGetCaptureInfo_v12030);
SAME_FUNCTION(eventCreate, PFN_cuEventCreate_v2000);
SAME_FUNCTION(eventDestroy, PFN_cuEventDestroy_v4000);
SAME_FUNCTION(eventRecord, PFN_cuEventRecord_v2000);
SAME_FUNCTION(eventSynchronize, PFN_cuEventSynchronize_v2000);
SAME_FUNCTION(eventElapsedTime, PFN_cuEventElapsedTime_v2000);
SAME_FUNCTION(launchKernelEx, PFN_cuLaunchKernelEx_v11060);
SAME_FUNCTION(launchHostFunc, PFN_cuLaunchHostFunc_v10000);
SAME_FUNCTION(graphInstantiate, PFN_cuGraphInstantiateWithFlags_v11040);
SAME_FUNCTION(graphDestroy, PFN_cuGraphDestroy_v10000);
SAME_FUNCTION(graphExecDestroy, PFN_cuGraphExecDestroy_v10000);
SAME_FUNCTION(graphExecKernelNodeSetParams, PFN_cuGraphExecKernelNodeSetParams_v12000);
SAME_FUNCTION(graphLaunch, PFN_cuGraphLaunch_v10000);
SAME_FUNCTION(tensorMapEncodeTiled, PFN_cuTensorMapEncodeTiled_v12000);

TEST(DriverAbi, AgreesWithTheHeader) { EXPECT_EQ(cuda::oldestDriver, 12000); }

} // namespace
