//===- SymbolicDimTest.cpp - integer polynomials over named dims
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/SymbolicDim.h"
#include <gtest/gtest.h>

using kimi::SymbolicDim;

namespace {

const SymbolicDim batch = SymbolicDim::symbol("batch");
const SymbolicDim past = SymbolicDim::symbol("past");
const SymbolicDim seq = SymbolicDim::symbol("seq");

TEST(SymbolicDim, EqualPolynomialsCompareEqual) {
  EXPECT_EQ(past + seq - seq, past);
  EXPECT_EQ((batch * SymbolicDim(2)) * seq, seq * batch + batch * seq);
  EXPECT_NE(past + seq, past);
  EXPECT_EQ((past + seq) * (past - seq), past * past - seq * seq);
  EXPECT_EQ((past - past).getConstant(), 0);
}

TEST(SymbolicDim, TextIsCanonical) {
  EXPECT_EQ((seq + past).str(), "past + seq");
  EXPECT_EQ((SymbolicDim(1) + batch * seq * SymbolicDim(2)).str(), "2*batch*seq + 1");
  EXPECT_EQ((SymbolicDim(0) - seq).str(), "-seq");
  EXPECT_EQ(SymbolicDim(-3).str(), "-3");
}

TEST(SymbolicDim, NamesAreParsedAsExpressions) {
  EXPECT_EQ(SymbolicDim::symbol("past + seq"), past + seq);
  EXPECT_EQ(SymbolicDim::symbol("2*(seq - 1) + past*batch"), seq + seq - SymbolicDim(2) + past * batch);
  EXPECT_EQ(SymbolicDim::symbol("seq//2"), SymbolicDim::floorDiv(seq, 2));
  EXPECT_EQ(SymbolicDim::symbol("Max(1, seq)"), SymbolicDim::max(1, seq));
  EXPECT_EQ(SymbolicDim::symbol("seq**2"), seq * seq);
  EXPECT_EQ(SymbolicDim::symbol("4"), SymbolicDim(4));
}

TEST(SymbolicDim, OtherNamesAreOneSymbol) {
  SymbolicDim odd = SymbolicDim::symbol("sequence length!");
  EXPECT_FALSE(odd.isConstant());
  EXPECT_EQ(odd, SymbolicDim::symbol("sequence length!"));
  EXPECT_NE(odd, SymbolicDim::symbol("sequence"));
  EXPECT_EQ(SymbolicDim::symbol("((((").str(), "'(((('");
  EXPECT_FALSE(SymbolicDim::symbol(std::string(100000, '(')).isConstant());
}

TEST(SymbolicDim, DivisionIsExactWherePolynomialsDivide) {
  SymbolicDim elements = batch * seq * SymbolicDim(768);
  EXPECT_EQ(SymbolicDim::floorDiv(elements, seq * SymbolicDim(64)), batch * SymbolicDim(12));
  EXPECT_EQ(SymbolicDim::floorDiv(batch * past + batch * seq, past + seq), batch);
  EXPECT_EQ(SymbolicDim::floorDiv(seq * SymbolicDim(4) + SymbolicDim(6), 4), seq + SymbolicDim(1));
  EXPECT_EQ(SymbolicDim::ceilDiv(seq * SymbolicDim(4) + SymbolicDim(6), 4), seq + SymbolicDim(2));
  EXPECT_EQ(SymbolicDim::mod(elements, 64), SymbolicDim(0));
  EXPECT_EQ(SymbolicDim::mod(seq * SymbolicDim(4) + SymbolicDim(-1), 4), SymbolicDim(3));
  EXPECT_EQ(SymbolicDim::floorDiv(-7, 2), SymbolicDim(-4));
  EXPECT_EQ(SymbolicDim::ceilDiv(-7, 2), SymbolicDim(-3));
  EXPECT_FALSE(SymbolicDim::divideExactly(seq, past));
  EXPECT_FALSE(SymbolicDim::floorDiv(seq, 0).isConstant());
}

TEST(SymbolicDim, OrderFollowsFromDimsBeingNonNegative) {
  EXPECT_TRUE((past + seq).isKnownNonNegative());
  EXPECT_FALSE((past - seq).isKnownNonNegative());
  EXPECT_EQ(SymbolicDim::min(seq, past + seq), seq);
  EXPECT_EQ(SymbolicDim::max(seq, past + seq), past + seq);
  EXPECT_EQ(SymbolicDim::max(seq - past, 0), SymbolicDim::max(0, seq - past));
  EXPECT_EQ(SymbolicDim::min(SymbolicDim::max(seq - past, 0), seq), SymbolicDim::max(seq - past, 0));
  EXPECT_FALSE(SymbolicDim::runtime("limit").isKnownNonNegative());
}

TEST(SymbolicDim, ComparisonsFoldWhereDecided) {
  EXPECT_EQ(SymbolicDim::eq(seq, seq), SymbolicDim(1));
  EXPECT_EQ(SymbolicDim::eq(seq + SymbolicDim(1), seq), SymbolicDim(0));
  EXPECT_EQ(SymbolicDim::lt(seq, seq + past + SymbolicDim(1)), SymbolicDim(1));
  EXPECT_EQ(SymbolicDim::le(past + seq, seq), SymbolicDim::le(past, 0));
  EXPECT_FALSE(SymbolicDim::eq(seq, past).isConstant());
  EXPECT_EQ(SymbolicDim::eq(seq, past), SymbolicDim::eq(past, seq));
  SymbolicDim isOne = SymbolicDim::eq(seq, 1);
  EXPECT_EQ(isOne * isOne, isOne);
  EXPECT_EQ(SymbolicDim::select(1, seq, past), seq);
  EXPECT_EQ(SymbolicDim::select(isOne, seq, seq), seq);
}

TEST(SymbolicDim, CoefficientsWrapInsteadOfTrapping) {
  SymbolicDim huge(INT64_MAX);
  EXPECT_EQ((huge + SymbolicDim(1)).getConstant(), INT64_MIN);
  EXPECT_EQ(SymbolicDim::floorDiv(INT64_MIN, -1).getConstant(), INT64_MIN);
}

TEST(SymbolicDim, NestedExpressionsStaySmall) {
  // The extent of a broadcast, again and again: each level holds the one before twice.
  SymbolicDim dim = seq, other = past;
  for (int i = 0; i < 200; ++i) {
    SymbolicDim next = SymbolicDim::select(SymbolicDim::eq(dim, 1), other, dim);
    other = dim + SymbolicDim(i);
    dim = next;
  }
  EXPECT_LT(dim.str().size(), 1000u);
  EXPECT_EQ(dim.leaves().size(), 2u);
  EXPECT_TRUE(dim.isKnownNonNegative());
  EXPECT_NE(dim, other);
}

TEST(SymbolicDim, TooManyTermsOrTooHighADegreeBecomeAnAtom) {
  SymbolicDim sum(0), power = seq;
  for (int i = 0; i < 2000; ++i) {
    sum = sum + SymbolicDim::symbol("s" + std::to_string(i));
  }
  EXPECT_LT(sum.str().size(), 10000u);
  EXPECT_EQ(sum.leaves().size(), 2000u);
  EXPECT_TRUE(sum.isKnownNonNegative());
  for (int i = 0; i < 100; ++i) {
    power = power * power; // seq to the power of 2^100
  }
  EXPECT_LT(power.str().size(), 1000u);
  SymbolicDim left = sum * power;
  EXPECT_EQ(left, power * sum);
}

TEST(SymbolicDim, DivisionGivesUpInTime) {
  // A truth value is its own square, so long division by a polynomial of them would never end.
  SymbolicDim chosen = SymbolicDim::eq(seq, 1) * past + seq;
  EXPECT_FALSE(SymbolicDim::divideExactly(chosen * seq + past, SymbolicDim::eq(past, 1) * seq + batch));
  EXPECT_EQ(SymbolicDim::divideExactly(chosen, chosen), SymbolicDim(1));
  EXPECT_EQ(SymbolicDim::divideExactly(chosen * SymbolicDim(6), 3), chosen * SymbolicDim(2));
  SymbolicDim high(1);
  for (int i = 0; i < 16; ++i) {
    high = high * batch;
  }
  EXPECT_FALSE(SymbolicDim::divideExactly(high, batch - seq));
}

TEST(SymbolicDim, LongNamesAreToldApart) {
  std::string name(5000, 'x');
  SymbolicDim a = SymbolicDim::opaque(name + "a"), b = SymbolicDim::opaque(name + "b");
  EXPECT_NE(a, b);
  EXPECT_EQ(a, SymbolicDim::opaque(name + "a"));
  EXPECT_LT(a.str().size(), 100u);
  EXPECT_EQ(a.leaves().begin()->name, name + "a");
}

// Written out as operations and read back, a condition is the same.
TEST(SymbolicDim, TruthsAreKept) {
  SymbolicDim some = SymbolicDim::lt(0, seq), one = SymbolicDim::eq(batch, 1), both = some * one;
  for (const SymbolicDim &truth : {some, one, both, SymbolicDim(1) - both}) {
    EXPECT_EQ(SymbolicDim::select(truth, 1, 0), truth);
    EXPECT_EQ(SymbolicDim::select(truth, 0, 1), SymbolicDim(1) - truth);
    EXPECT_EQ(SymbolicDim::eq(truth, 0), SymbolicDim(1) - truth);
    EXPECT_EQ(SymbolicDim::eq(0, truth), SymbolicDim(1) - truth);
    EXPECT_EQ(SymbolicDim::eq(truth, 1), truth);
  }
  EXPECT_NE(SymbolicDim::eq(seq, 0), SymbolicDim(1) - seq); // which may be 5
  EXPECT_NE(SymbolicDim::select(seq, 1, 0), seq);
  EXPECT_NE(SymbolicDim::eq(some + one, 0), SymbolicDim(1) - some - one);
  EXPECT_NE(SymbolicDim::select(some, seq, 0), some);
}

TEST(SymbolicDim, RuntimeValuesAreFound) {
  SymbolicDim limit = SymbolicDim::runtime("limit");
  EXPECT_TRUE(SymbolicDim::max(limit + seq, 0).hasRuntime());
  EXPECT_FALSE(SymbolicDim::max(past - seq, 0).hasRuntime());
}

} // namespace
