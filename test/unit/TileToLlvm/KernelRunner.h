//===- KernelRunner.h - compile a kernel from text and call it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_UNIT_TILETOLLVM_KERNELRUNNER_H
#define KIMI_TEST_UNIT_TILETOLLVM_KERNELRUNNER_H

#include <cstdint>
#include <string>
#include <vector>

namespace kimi::test {

/// One memref argument: a pointer, extents and strides in elements.
struct View {
  void *data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

/// Row-major view of `data`.
inline View dense(void *data, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return {data, std::move(sizes), std::move(strides)};
}

/// A shared object of kernels, compiled from MLIR text for the host and loaded.
class KernelRunner {
public:
  /// `expandMath`: every function of math is expanded first, as for targets without libm.
  explicit KernelRunner(const std::string &mlir, const std::string &cpu = "native", unsigned lanes = 0,
                        bool expandMath = false);
  ~KernelRunner();
  KernelRunner(const KernelRunner &) = delete;
  KernelRunner &operator=(const KernelRunner &) = delete;

  /// Empty unless compiling or loading failed.
  const std::string &error() const { return message; }
  const std::string &image() const { return bytes; }

  /// Runs one grid point. False if there is no such kernel.
  bool run(const std::string &symbol, const std::vector<View> &views, const std::vector<int64_t> &scalars = {},
           int64_t x = 0, int64_t y = 0, int64_t z = 0) const;

private:
  std::string message;
  std::string bytes;
  void *library = nullptr;
};

} // namespace kimi::test

#endif // KIMI_TEST_UNIT_TILETOLLVM_KERNELRUNNER_H
