//===- CpuTargetTest.cpp ----------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cpu/CpuTarget.h"

#include <gtest/gtest.h>

using kimi::checkCpuTarget;

TEST(CpuTarget, AcceptsTheBaselineAndUnknownNames) {
  EXPECT_FALSE(checkCpuTarget("cpu"));
  EXPECT_FALSE(checkCpuTarget("cpu:some-later-core"));
  EXPECT_FALSE(checkCpuTarget("cpu:some-later-core:+some-feature,-avx512f"));
#if defined(__x86_64__)
  EXPECT_FALSE(checkCpuTarget("cpu:x86-64"));
  EXPECT_FALSE(checkCpuTarget("cpu:x86-64:+sse3"));
#endif
}

TEST(CpuTarget, RefusesAnotherDevice) {
  auto status = checkCpuTarget("cuda:sm_90a");
  EXPECT_EQ(status.code(), KIMI_UNSUPPORTED);
  EXPECT_NE(status.message().find("cuda:sm_90a"), std::string::npos);
}

#if defined(__x86_64__)
TEST(CpuTarget, AsksTheCpu) {
  EXPECT_EQ(bool(checkCpuTarget("cpu:x86-64-v3")), !__builtin_cpu_supports("x86-64-v3"));
  EXPECT_EQ(bool(checkCpuTarget("cpu:x86-64-v4")), !__builtin_cpu_supports("x86-64-v4"));
  auto status = checkCpuTarget("cpu:some-core:+sse3,+avx512f");
  EXPECT_EQ(bool(status), !__builtin_cpu_supports("avx512f"));
  if (status) {
    EXPECT_EQ(status.code(), KIMI_UNSUPPORTED);
    EXPECT_NE(status.message().find("'avx512f'"), std::string::npos);
  }
}
#endif
