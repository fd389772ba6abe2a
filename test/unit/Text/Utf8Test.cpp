//===- Utf8Test.cpp - sequences, and text that arrives in pieces
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Utf8.h"
#include <gtest/gtest.h>

using namespace kimi::text;

TEST(Utf8, Classifies) {
  auto kind = [](std::string_view bytes) { return decodeUtf8(bytes).kind; };
  EXPECT_EQ(decodeUtf8("\xE2\x82\xAC").codePoint, 0x20ACu);
  EXPECT_EQ(decodeUtf8("\xF4\x8F\xBF\xBF").codePoint, 0x10FFFFu);
  EXPECT_EQ(kind("\xE2\x82"), Utf8Step::Incomplete);
  EXPECT_EQ(kind("\xC0\x80"), Utf8Step::Invalid);         // overlong
  EXPECT_EQ(kind("\xE0\x9F\xBF"), Utf8Step::Invalid);     // overlong
  EXPECT_EQ(kind("\xED\xA0\x80"), Utf8Step::Invalid);     // surrogate
  EXPECT_EQ(kind("\xF4\x90\x80\x80"), Utf8Step::Invalid); // past the last code point
  EXPECT_EQ(kind("\x80"), Utf8Step::Invalid);
  EXPECT_EQ(validUtf8Prefix("ab\xE2\x82\xAC\xFFz"), 5u);
}

TEST(Utf8, EncodesEveryCodePoint) {
  for (char32_t c = 1; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 61) {
    if (c >= 0xD800 && c < 0xE000) {
      continue;
    }
    std::string bytes;
    appendUtf8(c, bytes);
    Utf8Step step = decodeUtf8(bytes);
    ASSERT_EQ(step.kind, Utf8Step::Valid);
    ASSERT_EQ(step.codePoint, c);
    ASSERT_EQ(step.length, bytes.size());
  }
}

TEST(Utf8Stream, HoldsBackIncompleteSequences) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.feed("\x98"), "");
  EXPECT_EQ(stream.feed("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesWhatIsNoText) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xFFz\xE2"), "\xEF\xBF\xBDz");
  EXPECT_EQ(stream.feed("x"), "\xEF\xBF\xBDx");
  EXPECT_EQ(stream.feed("\xE2\x82"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}
