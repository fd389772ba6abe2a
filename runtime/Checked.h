//===- Checked.h - 64-bit arithmetic that notices overflow ------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CHECKED_H
#define KIMI_RUNTIME_CHECKED_H

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kimi {

/// Each returns false on overflow.
[[nodiscard]] inline bool add(int64_t a, int64_t b, int64_t &out) { return !__builtin_add_overflow(a, b, &out); }
[[nodiscard]] inline bool sub(int64_t a, int64_t b, int64_t &out) { return !__builtin_sub_overflow(a, b, &out); }
[[nodiscard]] inline bool mul(int64_t a, int64_t b, int64_t &out) { return !__builtin_mul_overflow(a, b, &out); }

/// Bytes of a dense tensor; nothing where a dim is negative or the product passes 63 bits.
inline std::optional<int64_t> denseBytes(const int64_t *dims, size_t rank, size_t elementSize) {
  int64_t bytes = static_cast<int64_t>(elementSize);
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) {
      return std::nullopt;
    }
    empty |= dims[i] == 0;
    if (dims[i] != 0 && !mul(bytes, dims[i], bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

} // namespace kimi

#endif // KIMI_RUNTIME_CHECKED_H
