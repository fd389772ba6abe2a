//===- ByteAlphabet.h - the printable names of bytes in a byte-level vocabulary
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_BYTEALPHABET_H
#define KIMI_RUNTIME_TEXT_BYTEALPHABET_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kimi::text {

/// The character GPT-2's vocabulary writes for a byte: itself where printable, else U+0100 and up in byte order (a
/// space is U+0120, written as a G with a dot).
char32_t characterOfByte(uint8_t byte);

/// The bytes that a token of the vocabulary stands for, or nothing where a character is outside the alphabet.
std::optional<std::string> bytesOfToken(std::string_view token);

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_BYTEALPHABET_H
