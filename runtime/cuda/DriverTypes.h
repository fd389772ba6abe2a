//===- DriverTypes.h - the types of the CUDA driver that the runtime uses ---===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No CUDA headers are needed to build the runtime: what it calls of the driver is declared here, with the numbers and
// layouts of NVIDIA's driver API (cuda.h), which are stable. test/unit/Runtime/DriverAbiTest.cpp compares them with
// cuda.h where that is installed.
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_DRIVERTYPES_H
#define KIMI_RUNTIME_CUDA_DRIVERTYPES_H

#include <cstddef>
#include <cstdint>

namespace kimi::cuda {

/// CUresult. Names are asked of the driver; these are the codes that the runtime tells apart.
enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  JitCompilerNotFound = 221,
  UnsupportedPtxVersion = 222,
  NotFound = 500,
  NotReady = 600,
  SystemDriverMismatch = 803,
  GraphExecUpdateFailure = 910,
};

using Device = int;
using DevicePointer = unsigned long long;
using Context = struct ContextHandle *;
using CodeModule = struct ModuleHandle *;
using Function = struct FunctionHandle *;
using Stream = struct StreamHandle *;
using Event = struct EventHandle *;
using Graph = struct GraphHandle *;
using GraphNode = struct GraphNodeHandle *;
using GraphExec = struct GraphExecHandle *;
using Kernel = struct KernelHandle *;

/// CUdevice_attribute.
enum DeviceAttribute : int {
  ClockRate = 13, // kHz
  MultiprocessorCount = 16,
  MemoryClockRate = 36,      // kHz
  GlobalMemoryBusWidth = 37, // bits
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerBlockOptin = 97,
};

/// CUfunction_attribute.
enum FunctionAttribute : int {
  FunctionMaxThreadsPerBlock = 0,
  FunctionSharedSizeBytes = 1,
  FunctionLocalSizeBytes = 3,
  FunctionNumRegs = 4,
  FunctionMaxDynamicSharedSizeBytes = 8,
};

enum JitOption : int { JitErrorLogBuffer = 5, JitErrorLogBufferSizeBytes = 6 };
enum StreamFlags : unsigned { StreamNonBlocking = 1 };
enum EventFlags : unsigned { EventDefault = 0, EventDisableTiming = 2 };
enum HostAllocFlags : unsigned { HostAllocPortable = 1 };
enum CaptureMode : int { CaptureThreadLocal = 1 };
enum CaptureStatus : int { CaptureNone = 0, CaptureActive = 1, CaptureInvalidated = 2 };
enum ProcAddressStatus : int { ProcFound = 0, ProcNotFound = 1, ProcVersionNotSufficient = 2 };

/// CUlaunchAttributeID.
enum LaunchAttributeId : int { ProgrammaticStreamSerialization = 6 };

/// CUlaunchAttribute: the value is a union of 64 bytes.
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char bytes[64];
    int programmaticStreamSerializationAllowed;
  } value;
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

/// CUDA_KERNEL_NODE_PARAMS (version 2).
struct KernelNodeParams {
  Function function;
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  void **parameters;
  void **extra;
  Kernel kernel;
  Context context;
};

/// CUgraphEdgeData.
struct GraphEdgeData {
  unsigned char fromPort, toPort, type, reserved[5];
};

/// CUtensorMap.
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

enum TensorMapDataType : int { MapUint8 = 0, MapUint16 = 1, MapUint32 = 2, MapInt32 = 3, MapUint64 = 4 };
enum TensorMapInterleave : int { MapInterleaveNone = 0 };
enum TensorMapSwizzle : int { MapSwizzleNone = 0, MapSwizzle32 = 1, MapSwizzle64 = 2, MapSwizzle128 = 3 };
enum TensorMapPromotion : int { MapPromotionNone = 0, MapPromotion128 = 2, MapPromotion256 = 3 };
enum TensorMapFill : int { MapFillZeros = 0 };

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_DRIVERTYPES_H
