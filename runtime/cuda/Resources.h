//===- Resources.h - what the driver gives, and gets back -------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_RESOURCES_H
#define KIMI_RUNTIME_CUDA_RESOURCES_H

#include "runtime/cuda/CudaDevice.h"

#include <utility>

namespace kimi::cuda {

/// A handle that is given back at the end, with the device's context current. The device outlives it.
template <typename Handle, Result (*Driver::*Release)(Handle)>
class Owned {
public:
  Owned() = default;
  Owned(const CudaDevice &device, Handle handle) : device(&device), handle(handle) {}
  Owned(Owned &&other) noexcept : device(other.device), handle(std::exchange(other.handle, Handle())) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(device, other.device);
    std::swap(handle, other.handle);
    return *this;
  }
  ~Owned() {
    if (handle) {
      CudaDevice::Scope scope(*device);
      (device->driver().*Release)(handle);
    }
  }

  Handle get() const { return handle; }
  explicit operator bool() const { return handle != Handle(); }

private:
  const CudaDevice *device = nullptr;
  Handle handle = Handle();
};

using OwnedModule = Owned<CodeModule, &Driver::moduleUnload>;
using OwnedStream = Owned<Stream, &Driver::streamDestroy>;
using OwnedEvent = Owned<Event, &Driver::eventDestroy>;
using OwnedGraph = Owned<Graph, &Driver::graphDestroy>;
using OwnedGraphExec = Owned<GraphExec, &Driver::graphExecDestroy>;

/// Memory of the device.
class DeviceMemory {
public:
  /// Allocates `bytes` bytes, aligned to 256 at least; none for 0. `what` they are for, in messages.
  /// Error: KIMI_OUT_OF_MEMORY with what was wanted and what is free.
  static Status allocate(const CudaDevice &device, uint64_t bytes, const std::string &what, DeviceMemory &out);

  DevicePointer address() const { return pointer.get(); }
  uint64_t size() const { return bytes; }

private:
  Owned<DevicePointer, &Driver::memFree> pointer;
  uint64_t bytes = 0;
};

/// Host memory that the device can copy from and to by itself.
class PinnedMemory {
public:
  static Status allocate(const CudaDevice &device, uint64_t bytes, const std::string &what, PinnedMemory &out);

  uint8_t *data() const { return static_cast<uint8_t *>(pointer.get()); }
  uint64_t size() const { return bytes; }

private:
  Owned<void *, &Driver::memFreeHost> pointer;
  uint64_t bytes = 0;
};

Status createStream(const CudaDevice &device, OwnedStream &out);
/// An event; `timed` ones can be compared with others.
Status createEvent(const CudaDevice &device, bool timed, OwnedEvent &out);

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_RESOURCES_H
