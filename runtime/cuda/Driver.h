//===- Driver.h - the CUDA driver, opened at run time -----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_DRIVER_H
#define KIMI_RUNTIME_CUDA_DRIVER_H

#include "runtime/Status.h"
#include "runtime/cuda/DriverTypes.h"

#include <string>

namespace kimi::cuda {

/// The oldest driver that is accepted (CUDA 12.0, driver 525): tensor maps and extended launches.
constexpr int oldestDriver = 12000;

/// ENTRY(member, name, CUDA version whose variant of the function is meant, needed, parameters)
#define KIMI_CUDA_ENTRIES(ENTRY)                                                                                       \
  ENTRY(init, "cuInit", 2000, true, (unsigned))                                                                        \
  ENTRY(getErrorName, "cuGetErrorName", 6000, true, (Result, const char **))                                           \
  ENTRY(getErrorString, "cuGetErrorString", 6000, true, (Result, const char **))                                       \
  ENTRY(deviceGetCount, "cuDeviceGetCount", 2000, true, (int *))                                                       \
  ENTRY(deviceGet, "cuDeviceGet", 2000, true, (Device *, int))                                                         \
  ENTRY(deviceGetName, "cuDeviceGetName", 2000, true, (char *, int, Device))                                           \
  ENTRY(deviceTotalMem, "cuDeviceTotalMem", 3020, true, (size_t *, Device))                                            \
  ENTRY(deviceGetAttribute, "cuDeviceGetAttribute", 2000, true, (int *, DeviceAttribute, Device))                      \
  ENTRY(devicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, true, (Context *, Device))                           \
  ENTRY(devicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000, true, (Device))                                   \
  ENTRY(ctxPushCurrent, "cuCtxPushCurrent", 4000, true, (Context))                                                     \
  ENTRY(ctxPopCurrent, "cuCtxPopCurrent", 4000, true, (Context *))                                                     \
  ENTRY(moduleLoadDataEx, "cuModuleLoadDataEx", 2010, true,                                                            \
        (CodeModule *, const void *, unsigned, JitOption *, void **))                                                  \
  ENTRY(moduleUnload, "cuModuleUnload", 2000, true, (CodeModule))                                                      \
  ENTRY(moduleGetFunction, "cuModuleGetFunction", 2000, true, (Function *, CodeModule, const char *))                  \
  ENTRY(funcGetAttribute, "cuFuncGetAttribute", 2020, true, (int *, FunctionAttribute, Function))                      \
  ENTRY(funcSetAttribute, "cuFuncSetAttribute", 9000, true, (Function, FunctionAttribute, int))                        \
  ENTRY(funcGetParamInfo, "cuFuncGetParamInfo", 12040, false, (Function, size_t, size_t *, size_t *))                  \
  ENTRY(memGetInfo, "cuMemGetInfo", 3020, true, (size_t *, size_t *))                                                  \
  ENTRY(memAlloc, "cuMemAlloc", 3020, true, (DevicePointer *, size_t))                                                 \
  ENTRY(memFree, "cuMemFree", 3020, true, (DevicePointer))                                                             \
  ENTRY(memHostAlloc, "cuMemHostAlloc", 2020, true, (void **, size_t, unsigned))                                       \
  ENTRY(memFreeHost, "cuMemFreeHost", 2000, true, (void *))                                                            \
  ENTRY(memcpyHtoDAsync, "cuMemcpyHtoDAsync", 3020, true, (DevicePointer, const void *, size_t, Stream))               \
  ENTRY(memcpyDtoHAsync, "cuMemcpyDtoHAsync", 3020, true, (void *, DevicePointer, size_t, Stream))                     \
  ENTRY(memsetD8Async, "cuMemsetD8Async", 3020, true, (DevicePointer, unsigned char, size_t, Stream))                  \
  ENTRY(streamCreate, "cuStreamCreate", 2000, true, (Stream *, unsigned))                                              \
  ENTRY(streamDestroy, "cuStreamDestroy", 4000, true, (Stream))                                                        \
  ENTRY(streamSynchronize, "cuStreamSynchronize", 2000, true, (Stream))                                                \
  ENTRY(streamWaitEvent, "cuStreamWaitEvent", 3020, true, (Stream, Event, unsigned))                                   \
  ENTRY(streamBeginCapture, "cuStreamBeginCapture", 10010, true, (Stream, CaptureMode))                                \
  ENTRY(streamEndCapture, "cuStreamEndCapture", 10000, true, (Stream, Graph *))                                        \
  ENTRY(streamGetCaptureInfo, "cuStreamGetCaptureInfo", 12000, true,                                                   \
        (Stream, CaptureStatus *, uint64_t *, Graph *, const GraphNode **, size_t *))                                  \
  ENTRY(streamGetCaptureInfoEdges, "cuStreamGetCaptureInfo", 12030, false,                                             \
        (Stream, CaptureStatus *, uint64_t *, Graph *, const GraphNode **, const GraphEdgeData **, size_t *))          \
  ENTRY(eventCreate, "cuEventCreate", 2000, true, (Event *, unsigned))                                                 \
  ENTRY(eventDestroy, "cuEventDestroy", 4000, true, (Event))                                                           \
  ENTRY(eventRecord, "cuEventRecord", 2000, true, (Event, Stream))                                                     \
  ENTRY(eventSynchronize, "cuEventSynchronize", 2000, true, (Event))                                                   \
  ENTRY(eventElapsedTime, "cuEventElapsedTime", 2000, true, (float *, Event, Event))                                   \
  ENTRY(launchKernelEx, "cuLaunchKernelEx", 11060, true, (const LaunchConfig *, Function, void **, void **))           \
  ENTRY(launchHostFunc, "cuLaunchHostFunc", 10000, true, (Stream, void (*)(void *), void *))                           \
  ENTRY(graphInstantiate, "cuGraphInstantiateWithFlags", 11040, true, (GraphExec *, Graph, unsigned long long))        \
  ENTRY(graphDestroy, "cuGraphDestroy", 10000, true, (Graph))                                                          \
  ENTRY(graphExecDestroy, "cuGraphExecDestroy", 10000, true, (GraphExec))                                              \
  ENTRY(graphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", 12000, true,                                   \
        (GraphExec, GraphNode, const KernelNodeParams *))                                                              \
  ENTRY(graphLaunch, "cuGraphLaunch", 10000, true, (GraphExec, Stream))                                                \
  ENTRY(tensorMapEncodeTiled, "cuTensorMapEncodeTiled", 12000, true,                                                   \
        (TensorMap *, TensorMapDataType, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,       \
         const uint32_t *, TensorMapInterleave, TensorMapSwizzle, TensorMapPromotion, TensorMapFill))

/// The entry points of the driver. Those that an older driver may lack are null there.
struct Driver {
#define KIMI_CUDA_MEMBER(member, name, version, needed, parameters) Result(*member) parameters = nullptr;
  KIMI_CUDA_ENTRIES(KIMI_CUDA_MEMBER)
#undef KIMI_CUDA_MEMBER

  int version = 0; // of the CUDA that the driver speaks: 1000 * major + 10 * minor

  /// The driver of this process, opened and initialised on the first call: libcuda.so.1, or the library that the
  /// environment variable KIMI_CUDA_DRIVER names. Stays loaded.
  /// Error: KIMI_UNSUPPORTED where there is none, where it is too old, or where it finds no GPU; each says what to do.
  static Status get(const Driver *&out);

  /// KIMI_OK, or an error that says what was tried and what the driver said. KIMI_OUT_OF_MEMORY for the driver's code
  /// of that name, else KIMI_RUNTIME_ERROR.
  Status check(Result result, const std::string &what) const;
  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
  std::string text(Result result) const;
};

/// "12.4" of 12040.
std::string versionText(int version);

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_DRIVER_H
