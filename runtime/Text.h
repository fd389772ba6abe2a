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

/// Text of a file, made safe for a terminal: control characters become '?', and so does a line feed unless `keepLines`.
inline std::string printable(std::string_view text, bool keepLines = false) {
  std::string out(text);
  for (char &c : out) {
    bool isControl = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    c = isControl && !(keepLines && c == '\n') ? '?' : c;
  }
  return out;
}

/// A name between quotes, printable; long names are cut.
inline std::string quoted(std::string_view name) {
  constexpr size_t longest = 200;
  return "'" + printable(name.substr(0, longest)) + (name.size() > longest ? "...'" : "'");
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
