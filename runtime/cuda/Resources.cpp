//===- Resources.cpp - what the driver gives, and gets back -----------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/Resources.h"

namespace kimi::cuda {

Status DeviceMemory::allocate(const CudaDevice &device, uint64_t bytes, const std::string &what, DeviceMemory &out) {
  out = DeviceMemory();
  if (bytes == 0) {
    return {};
  }
  CudaDevice::Scope scope(device);
  DevicePointer address = 0;
  Result result = device.driver().memAlloc(&address, bytes);
  if (result == OutOfMemory) {
    return device.outOfMemory(bytes, what);
  }
  if (Status s = device.driver().check(result, device.properties().place() + ": " + what)) {
    return s;
  }
  out.pointer = {device, address};
  out.bytes = bytes;
  return {};
}

Status PinnedMemory::allocate(const CudaDevice &device, uint64_t bytes, const std::string &what, PinnedMemory &out) {
  out = PinnedMemory();
  if (bytes == 0) {
    return {};
  }
  CudaDevice::Scope scope(device);
  void *address = nullptr;
  if (Status s = device.driver().check(device.driver().memHostAlloc(&address, bytes, HostAllocPortable),
                                       "no " + std::to_string(bytes) + " bytes of pinned host memory for " + what)) {
    return s;
  }
  out.pointer = {device, address};
  out.bytes = bytes;
  return {};
}

Status createStream(const CudaDevice &device, OwnedStream &out) {
  CudaDevice::Scope scope(device);
  Stream stream = nullptr;
  if (Status s = device.driver().check(device.driver().streamCreate(&stream, StreamNonBlocking),
                                       device.properties().place() + ": cannot make a stream")) {
    return s;
  }
  out = {device, stream};
  return {};
}

Status createEvent(const CudaDevice &device, bool timed, OwnedEvent &out) {
  CudaDevice::Scope scope(device);
  Event event = nullptr;
  if (Status s = device.driver().check(device.driver().eventCreate(&event, timed ? EventDefault : EventDisableTiming),
                                       device.properties().place() + ": cannot make an event")) {
    return s;
  }
  out = {device, event};
  return {};
}

} // namespace kimi::cuda
