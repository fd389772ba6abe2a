//===- PromptTest.cpp
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Prompt.h"
#include "tools/kimi-run/MemoryReport.h"
#include <gtest/gtest.h>

using namespace kimi::run;

namespace {

TEST(Prompt, TokensAreARectangle) {
  int64_t batch = 0;
  std::vector<int64_t> ids;
  ASSERT_FALSE(readTokens("17", batch, ids));
  EXPECT_EQ(batch, 1);
  EXPECT_EQ(ids, (std::vector<int64_t>{17}));
  ASSERT_FALSE(readTokens("1,2,3;4,5,6;7,8,9", batch, ids));
  EXPECT_EQ(batch, 3);
  EXPECT_EQ(ids, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  ASSERT_FALSE(readTokens("1;2", batch, ids));
  EXPECT_EQ(batch, 2);
  for (const char *wrong : {"", ",", "1,", "1;", ";1", "1,2;3", "1;2,3", "1;2;3,4", "1 2", "1.5", "x", "1,2;3,4;5",
                            "99999999999999999999"}) {
    EXPECT_TRUE(readTokens(wrong, batch, ids)) << wrong;
  }
  EXPECT_EQ(readTokens("not/there.npy", batch, ids).code(), KIMI_NOT_FOUND);
}

TEST(MemoryReport, KindsAreWhatNamesEndIn) {
  EXPECT_EQ(kindOf("0.memory"), "memory");
  EXPECT_EQ(kindOf("12.key"), "key");
  EXPECT_EQ(kindOf("past_key_values.3.recurrent_state"), "recurrent_state");
  EXPECT_EQ(kindOf("past.0.conv_states.0"), "conv_states");
  EXPECT_EQ(kindOf("cache"), "cache");
  EXPECT_EQ(kindOf("1.2"), "1.2");
  EXPECT_EQ(kindOf("a..1"), "a");
  EXPECT_EQ(kindOf(""), "");
}

} // namespace
