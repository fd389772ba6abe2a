//===- ByteAlphabet.cpp - the printable names of bytes in a byte-level vocabulary
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/ByteAlphabet.h"
#include "runtime/text/Utf8.h"
#include <array>

namespace kimi::text {

namespace {
struct Alphabet {
  std::array<char32_t, 256> character;
  std::array<int16_t, 0x144> byte; ///< -1: not in the alphabet.

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};
} // namespace

static const Alphabet &alphabet() {
  static const Alphabet instance;
  return instance;
}

char32_t characterOfByte(uint8_t byte) { return alphabet().character[byte]; }

std::optional<std::string> bytesOfToken(std::string_view token) {
  const Alphabet &table = alphabet();
  std::string out;
  while (!token.empty()) {
    Utf8Step step = decodeUtf8(token);
    if (step.kind != Utf8Step::Valid || step.codePoint >= table.byte.size() || table.byte[step.codePoint] < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(table.byte[step.codePoint]);
    token.remove_prefix(step.length);
  }
  return out;
}

} // namespace kimi::text
