//===- HostTensor.h - a tensor in the memory of this process
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_HOSTTENSOR_H
#define KIMI_TOOLS_KIMIRUN_HOSTTENSOR_H

#include "kimi/kimi.h"
#include "runtime/Status.h"
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace kimi::run {

/// A dense row-major tensor that owns its bytes, aligned to 64.
class HostTensor {
public:
  kimi_dtype dtype = KIMI_F32;
  std::vector<int64_t> dims;

  /// Memory for `dims` of `dtype`, not initialised. An error where a dim is negative, the rank is past KIMI_MAX_RANK,
  /// or the memory is not to be had.
  static Status create(kimi_dtype dtype, std::vector<int64_t> dims, HostTensor &out);

  int64_t count() const { return elements; }
  size_t bytes() const { return static_cast<size_t>(elements) * kimi_dtype_size(dtype); }
  void *data() { return memory.get(); }
  const void *data() const { return memory.get(); }

  /// The C API's view of it, for as long as this object lives.
  kimi_tensor view() const;

  /// Element `i` (< count()) as a double: exact but for 64-bit integers past 2^53.
  double at(int64_t i) const;
  /// Element `i` of an integer or bool tensor.
  int64_t integerAt(int64_t i) const;
  /// Stores a number, rounded to the dtype where it is a float and cut where it is an integer.
  void set(int64_t i, int64_t value);

private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory;
  int64_t elements = 0;
};

inline bool isFloat(kimi_dtype dtype) {
  return dtype == KIMI_F32 || dtype == KIMI_F16 || dtype == KIMI_BF16 || dtype == KIMI_F64;
}

/// "[1, 12, 64]".
std::string shapeText(const std::vector<int64_t> &dims);

/// "f32 [1, 12, 64]", with symbols or ? where a dim varies.
std::string describePort(const kimi_port &port);

float halfToFloat(uint16_t bits);
float bfloatToFloat(uint16_t bits);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_HOSTTENSOR_H
