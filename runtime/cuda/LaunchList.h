//===- LaunchList.h - the launches of a frame as the driver takes them ------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_LAUNCHLIST_H
#define KIMI_RUNTIME_CUDA_LAUNCHLIST_H

#include "runtime/cuda/CudaProgram.h"

namespace kimi::cuda {

/// The launches of one entry, filled in from its frame before each run: grids in blocks, parameters, tensor maps.
class LaunchList {
public:
  LaunchList(const CudaProgram &program, Frame &frame);

  /// Takes over what the frame holds now; its pointers are bound. Error: a grid or a tensor map that the device cannot
  /// do, with the launch and the kernel.
  Status update();

  struct Item {
    size_t launch = 0;                        // index in the entry
    const LoadedKernel *kernel = nullptr;     // null: there is nothing to do
    unsigned gridX = 0, gridY = 0, gridZ = 0; // blocks
    std::vector<void *> parameters;           // pointers to the words, to gridExtent, to the maps
    int64_t *words = nullptr;
    uint32_t wordCount = 0;
    int64_t gridExtent = 0; // grid points along x
    std::vector<TensorMap> maps;
    std::vector<std::vector<int64_t>> mapKeys; // what each map was made of
  };
  const std::vector<Item> &items() const { return list; }

  /// Launches one item on a stream.
  Status launch(const Item &item, Stream stream) const;

  /// "entry 'decode': launch 3 ('blk.0/attn'): kernel 'attention_0'".
  std::string place(const Item &item) const;

private:
  Status encodeMap(Item &item, size_t index);

  const CudaProgram &program;
  Frame &frame;
  std::vector<Item> list;
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_LAUNCHLIST_H
