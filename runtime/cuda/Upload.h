//===- Upload.h - many bytes from the host to the device --------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_UPLOAD_H
#define KIMI_RUNTIME_CUDA_UPLOAD_H

#include "runtime/cuda/Resources.h"

namespace kimi::cuda {

/// Copies pieces of host memory (a mapped file, say) to the device through two pinned buffers: while one is copied by
/// the device, the other one is filled. Pieces that lie close together on the device share a copy.
class Upload {
public:
  Upload() = default;
  Upload(const Upload &) = delete;
  Upload &operator=(const Upload &) = delete;
  /// Where finish() was not reached: waits for the copies under way, which read the pinned buffers.
  ~Upload();

  /// `total`: about how many bytes will come, so that small uploads take small buffers.
  static Status create(const CudaDevice &device, Stream stream, uint64_t total, Upload &out);

  /// Copies `bytes` bytes from `source` to `destination`. May return before they are there.
  Status add(DevicePointer destination, const uint8_t *source, uint64_t bytes);
  /// Gives what is in the current buffer to the device, and waits for the other one. What is added next starts a copy
  /// of its own: due where it lies in another allocation, since no copy may reach across two.
  Status flush();
  /// Waits until everything is there.
  Status finish();

private:
  struct Buffer {
    PinnedMemory memory;
    OwnedEvent copied;
    bool isBusy = false;
  };
  const CudaDevice *device = nullptr;
  Stream stream = nullptr;
  Buffer buffers[2];
  int current = 0;
  bool isCopying = false;  // since the stream was last waited for
  DevicePointer start = 0; // of what the current buffer holds
  uint64_t filled = 0;
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_UPLOAD_H
