//===- KernelImage.h - native code of a module, loaded ----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CPU_KERNELIMAGE_H
#define KIMI_RUNTIME_CPU_KERNELIMAGE_H

#include "runtime/Status.h"
#include "runtime/cpu/ThreadPool.h"

#include <memory>

namespace kimi {

/// An ELF shared object loaded from memory. Its undefined symbols come from the C and mathematics libraries.
class KernelImage {
public:
  /// Loads the `size` bytes at `bytes`. Error: KIMI_BAD_FILE with the loader's reason.
  static Status load(const void *bytes, size_t size, std::unique_ptr<KernelImage> &out);
  ~KernelImage();

  /// The kernel of that symbol, or null.
  KernelFunction find(const char *symbol) const;

private:
  KernelImage() = default;

  // The file stays open as long as the library is loaded: the loader knows libraries by path, and this one's path is
  // its descriptor.
  int descriptor = -1;
  void *handle = nullptr;
};

} // namespace kimi

#endif // KIMI_RUNTIME_CPU_KERNELIMAGE_H
