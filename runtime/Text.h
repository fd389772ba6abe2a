//===- Text.h - names and shapes in messages --------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_H
#define KIMI_RUNTIME_TEXT_H

#include <cstdint>
#include <string>
#include <string_view>

namespace kimi {

/// The name between quotes, made safe for a terminal: control characters become '?', long names are cut.
inline std::string quoted(std::string_view name) {
  constexpr size_t longest = 200;
  std::string out = "'";
  for (char c : name.substr(0, longest)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return out + (name.size() > longest ? "...'" : "'");
}

/// "[1, 12, 64]".
inline std::string shapeText(const int64_t *dims, size_t rank) {
  std::string out = "[";
  for (size_t i = 0; i < rank; ++i) {
    out += (i ? ", " : "") + std::to_string(dims[i]);
  }
  return out + "]";
}

} // namespace kimi

#endif // KIMI_RUNTIME_TEXT_H
