//===- Utf8.cpp - valid and invalid runs of UTF-8
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Utf8.h"

namespace kimi::text {

static constexpr std::string_view replacement = "\xEF\xBF\xBD";

Utf8Step decodeUtf8(std::string_view bytes) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char lead = at(0);
  if (lead < 0x80) {
    return {Utf8Step::Valid, 1, lead};
  }
  size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                  : lead >= 0xE0 && lead <= 0xEF ? 3
                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                 : 0;
  if (length == 0) {
    return {Utf8Step::Invalid, 1, 0};
  }
  // The second byte has a narrower range after some leads: no overlong forms, no surrogates, nothing past U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) {
      return {Utf8Step::Incomplete, i, 0};
    }
    if (at(i) < low || at(i) > high) {
      return {Utf8Step::Invalid, i, 0};
    }
    value = (value << 6) | (at(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::Valid, length, value};
}

void appendUtf8(char32_t c, std::string &out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t validUtf8Prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    Utf8Step step = decodeUtf8(bytes.substr(at));
    if (step.kind != Utf8Step::Valid) {
      break;
    }
    at += step.length;
  }
  return at;
}

bool isWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string Utf8Stream::feed(std::string_view bytes) {
  held.append(bytes);
  std::string out;
  size_t at = 0;
  while (at < held.size()) {
    std::string_view rest = std::string_view(held).substr(at);
    Utf8Step step = decodeUtf8(rest);
    if (step.kind == Utf8Step::Incomplete) {
      break;
    }
    out.append(step.kind == Utf8Step::Valid ? rest.substr(0, step.length) : replacement);
    at += step.length;
  }
  held.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out(held.empty() ? std::string_view() : replacement);
  held.clear();
  return out;
}

} // namespace kimi::text
