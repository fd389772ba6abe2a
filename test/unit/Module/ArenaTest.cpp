//===- ArenaTest.cpp - buffers that are never alive together share memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/Arena.h"
#include <gtest/gtest.h>

using namespace kimi;

TEST(Arena, OverlappingRequestsGetSlotsOfTheirOwn) {
  SymbolicDim n = SymbolicDim::symbol("n");
  ArenaPlan plan = planArena({{n, 0, 2}, {n, 1, 2}});
  EXPECT_NE(plan.slot[0], plan.slot[1]);
}

TEST(Arena, ASlotIsReusedAfterTheLastReader) {
  SymbolicDim n = SymbolicDim::symbol("n");
  // A launch may not write what it reads: the slot is free only after its last reader.
  ArenaPlan plan = planArena({{n, 0, 1}, {n, 1, 2}, {n, 2, 3}});
  EXPECT_NE(plan.slot[0], plan.slot[1]);
  EXPECT_EQ(plan.slot[0], plan.slot[2]);
  EXPECT_EQ(plan.bytes.size(), 2u);
}

TEST(Arena, SlotsGrowWhereTheLargerSizeIsKnown) {
  SymbolicDim n = SymbolicDim::symbol("n");
  ArenaPlan plan = planArena({{n, 0, 0}, {n * SymbolicDim(4), 1, 1}, {n * SymbolicDim(2), 2, 2}});
  ASSERT_EQ(plan.bytes.size(), 1u);
  EXPECT_EQ(plan.bytes[0].str(), (n * SymbolicDim(4)).str());
}

TEST(Arena, SizesThatCannotBeComparedDoNotShare) {
  ArenaPlan plan = planArena({{SymbolicDim::symbol("n"), 0, 0}, {SymbolicDim::symbol("m"), 1, 1}});
  EXPECT_EQ(plan.bytes.size(), 2u);
}
