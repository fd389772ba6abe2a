//===- Utf8.h - valid and invalid runs of UTF-8
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_TEXT_UTF8_H
#define KIMI_RUNTIME_TEXT_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kimi::text {

/// What the first bytes of a string are.
struct Utf8Step {
  enum Kind { Valid, Invalid, Incomplete } kind; ///< Incomplete: a prefix of a valid sequence, cut off by the end.
  size_t length;                                 ///< Bytes of the sequence (Valid), 1..3 to skip or hold otherwise.
  char32_t codePoint;                            ///< Only for Valid.
};

/// Classifies the sequence at the front of `bytes`, which must not be empty. Surrogates, overlong forms and values
/// past U+10FFFF are invalid; an invalid step covers the longest prefix that could have begun a sequence (at least one
/// byte), which is how the Unicode standard asks for U+FFFD to be counted.
Utf8Step decodeUtf8(std::string_view bytes);

/// Appends the encoding of a code point (at most U+10FFFF).
void appendUtf8(char32_t codePoint, std::string &out);

/// Length of the longest valid prefix of `bytes`.
size_t validUtf8Prefix(std::string_view bytes);

/// Unicode's White_Space property.
bool isWhiteSpace(char32_t codePoint);

/// Turns bytes that arrive in pieces into text: holds an incomplete sequence back until its rest comes, and replaces
/// what can be no text by U+FFFD.
class Utf8Stream {
public:
  /// Text that is complete after these bytes.
  std::string feed(std::string_view bytes);
  /// Text for what is still held back (U+FFFD or nothing).
  std::string finish();

private:
  std::string held;
};

} // namespace kimi::text

#endif // KIMI_RUNTIME_TEXT_UTF8_H
