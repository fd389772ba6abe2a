//===- CudaDevice.h - a GPU and its context ---------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_CUDADEVICE_H
#define KIMI_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/cuda/Driver.h"

#include <memory>
#include <string_view>
#include <vector>

namespace kimi::cuda {

/// What can be known of a GPU without using it.
struct DeviceProperties {
  std::string name;
  int32_t ordinal = 0;
  int major = 0, minor = 0; // compute capability
  int multiprocessors = 0;
  int sharedBytes = 0; // most of a block
  uint64_t memoryBytes = 0;
  double memoryBandwidth = 0; // bytes a second, by clock and width of the bus

  std::string arch() const { return "sm_" + std::to_string(major) + std::to_string(minor); }
  std::string place() const { return "device cuda:" + std::to_string(ordinal) + " (" + name + ")"; }
};

/// The GPUs that the driver shows to this process.
Status listDevices(const Driver &driver, std::vector<DeviceProperties> &out);

/// Whether code for `arch` ("sm_80", "sm_90a") runs on the device: as a cubin where the major number is the same and
/// the minor one no higher, as PTX where the number is no higher; with a letter only on the very device it names.
bool cubinFits(std::string_view arch, const DeviceProperties &device);
bool ptxFits(std::string_view arch, const DeviceProperties &device);

/// A GPU in use: its primary context, retained. Everything made on it must be gone before it.
class CudaDevice {
public:
  /// The device of that number, shared while somebody uses it.
  /// Error: KIMI_UNSUPPORTED where there is no driver or no such device.
  static Status open(int32_t ordinal, std::shared_ptr<const CudaDevice> &out);
  ~CudaDevice();
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  const Driver &driver() const { return api; }
  const DeviceProperties &properties() const { return about; }

  /// An error of an allocation: how much was wanted for what, and how much is free.
  Status outOfMemory(uint64_t bytes, const std::string &what) const;

  /// Makes the context current for the calling thread while it lives.
  class Scope {
  public:
    explicit Scope(const CudaDevice &device);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    const CudaDevice &device;
    bool isPushed;
  };

private:
  CudaDevice(const Driver &driver, DeviceProperties properties) : api(driver), about(std::move(properties)) {}

  const Driver &api;
  DeviceProperties about;
  Device handle = -1;
  Context context = nullptr;
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_CUDADEVICE_H
