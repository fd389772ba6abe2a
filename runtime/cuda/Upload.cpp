//===- Upload.cpp - many bytes from the host to the device ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/Upload.h"

#include <algorithm>
#include <cstring>

namespace kimi::cuda {
namespace {

/// Large enough for the bus to be busy, small enough to be pinned quickly.
constexpr uint64_t bufferBytes = 16 << 20;
/// Gaps up to this are copied along: alignment between weights.
constexpr uint64_t largestGap = 4096;

} // namespace

Upload::~Upload() {
  if (isCopying) {
    device->driver().streamSynchronize(stream); // an error is on its way already
  }
}

Status Upload::create(const CudaDevice &device, Stream stream, uint64_t total, Upload &out) {
  out.device = &device;
  out.stream = stream;
  for (Buffer &buffer : out.buffers) {
    uint64_t bytes = std::clamp<uint64_t>(total, 1, bufferBytes);
    if (Status s = PinnedMemory::allocate(device, bytes, "the upload of weights", buffer.memory)) {
      return s;
    }
    if (Status s = createEvent(device, /*timed=*/false, buffer.copied)) {
      return s;
    }
  }
  return {};
}

Status Upload::add(DevicePointer destination, const uint8_t *source, uint64_t bytes) {
  while (bytes != 0) {
    uint64_t room = buffers[current].memory.size();
    bool follows = filled != 0 && destination >= start + filled && destination - (start + filled) <= largestGap &&
                   destination - start < room;
    if (!follows) {
      if (Status s = flush()) {
        return s;
      }
      start = destination;
    }
    uint64_t offset = destination - start;
    uint8_t *buffer = buffers[current].memory.data();
    uint64_t count = std::min(bytes, room - offset);
    std::memset(buffer + filled, 0, offset - filled);
    std::memcpy(buffer + offset, source, count);
    filled = offset + count;
    destination += count;
    source += count;
    bytes -= count;
  }
  return {};
}

Status Upload::flush() {
  if (filled == 0) {
    return {};
  }
  const Driver &driver = device->driver();
  Buffer &buffer = buffers[current];
  isCopying = true;
  Status status =
      driver.check(driver.memcpyHtoDAsync(start, buffer.memory.data(), filled, stream), "upload of weights");
  if (!status) {
    status = driver.check(driver.eventRecord(buffer.copied.get(), stream), "upload of weights");
  }
  if (status) {
    return status;
  }
  buffer.isBusy = true;
  filled = 0;
  current = 1 - current;
  Buffer &next = buffers[current];
  if (next.isBusy) {
    next.isBusy = false;
    return driver.check(driver.eventSynchronize(next.copied.get()), "upload of weights");
  }
  return {};
}

Status Upload::finish() {
  if (Status s = flush()) {
    return s;
  }
  Status status = device->driver().check(device->driver().streamSynchronize(stream), "upload of weights");
  isCopying = static_cast<bool>(status);
  return status;
}

} // namespace kimi::cuda
