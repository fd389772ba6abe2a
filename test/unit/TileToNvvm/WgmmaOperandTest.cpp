//===- WgmmaOperandTest.cpp - what a descriptor points at is where the tile lies
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/WgmmaOperand.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace kimi::hopper;

/// Where wgmma reads element (mn, k) of an instruction whose descriptor has address `start` (PTX ISA, "Strides", as
/// CuTe writes them), before and after the swizzle, which XORs address bits.
static int64_t readAddress(const WgmmaOperand &operand, int64_t start, int64_t mn, int64_t k) {
  uint64_t bits = operand.descriptorBits();
  int64_t leading = ((bits >> 16) & 0x3fff) * 16, stride = ((bits >> 32) & 0x3fff) * 16;
  int64_t mode = bits >> 62, swizzle = mode == 1 ? 128 : mode == 2 ? 64 : 32, bytes = operand.layout.elementBytes;
  int64_t address = start;
  if (operand.kMajor) { // ((8, n), 2) : ((swizzle, SBO), 16)
    address += mn / 8 * stride + mn % 8 * swizzle + k * bytes;
  } else { // ((swizzle, n), (8, k)) : ((1, LBO), (swizzle, SBO))
    int64_t panel = swizzle / bytes;
    address += mn / panel * leading + mn % panel * bytes + k / 8 * stride + k % 8 * swizzle;
  }
  int64_t mask = swizzle / 16 - 1;
  return address ^ (((address >> 7) & mask) << 4);
}

class WgmmaOperandTest : public testing::Test {
protected:
  MemRefType tile(ArrayRef<int64_t> shape, int64_t bytes) {
    Builder b(&context);
    return MemRefType::get(shape, bytes == 2 ? Type(b.getBF16Type()) : Type(b.getF32Type()));
  }

  /// Every element of every instruction is read where the tile's layout says that it lies, in each stage.
  void check(int64_t stages, int64_t rows, int64_t columns, int64_t bytes, bool kMajor, int64_t unit) {
    WgmmaOperand operand = WgmmaOperand::of(tile({stages, rows, columns}, bytes), kMajor);
    ASSERT_EQ(operand.whyNot(unit), nullptr) << rows << "x" << columns;
    int64_t base = 3 * operand.layout.alignment();
    for (int64_t stage = 0; stage < stages; ++stage) {
      for (int64_t mn0 = 0; mn0 < operand.extent(); mn0 += unit) {
        for (int64_t k0 = 0; k0 < operand.depth(); k0 += operand.step()) {
          int64_t start = base + stage * operand.stagePitch() + operand.offset(mn0, k0);
          ASSERT_EQ(start % 16, 0);
          for (int64_t mn = 0; mn < unit; ++mn) {
            for (int64_t k = 0; k < operand.step(); ++k) {
              int64_t row = kMajor ? mn0 + mn : k0 + k, column = kMajor ? k0 + k : mn0 + mn;
              ASSERT_EQ(readAddress(operand, start, mn, k),
                        base + operand.layout.offset(stage * rows + row, column * bytes))
                  << rows << "x" << columns << (kMajor ? " K major" : " MN major") << " at " << row << ", " << column;
            }
          }
        }
      }
    }
  }

  MLIRContext context;
};

TEST_F(WgmmaOperandTest, KMajorTilesAreReadWhereTheyLie) {
  for (int64_t columns : {16, 32, 48, 64, 96, 128, 192}) {
    check(1, 128, columns, 2, true, 64);
    check(3, 256, columns, 2, true, 256);
  }
  check(2, 40, 64, 2, true, 8);
  check(2, 64, 32, 4, true, 64);
  check(1, 64, 8, 4, true, 64);
}

TEST_F(WgmmaOperandTest, MnMajorTilesAreReadWhereTheyLie) {
  for (int64_t columns : {16, 32, 64, 128, 256}) {
    check(1, 64, columns, 2, false, columns);
    check(4, 64, columns, 2, false, columns);
  }
  check(2, 32, 128, 2, false, 64);
  check(1, 16, 96, 2, false, 96);
}

TEST_F(WgmmaOperandTest, RefusesWhatNoDescriptorSays) {
  auto refuses = [&](ArrayRef<int64_t> shape, int64_t bytes, bool kMajor, int64_t unit) {
    return WgmmaOperand::of(tile(shape, bytes), kMajor).whyNot(unit) != nullptr;
  };
  EXPECT_FALSE(refuses({64, 64}, 2, true, 64));
  EXPECT_TRUE(refuses({64, 64}, 2, true, 12));
  EXPECT_TRUE(refuses({64, 20}, 2, true, 64));        // rows of 40 bytes
  EXPECT_TRUE(refuses({12, 64}, 2, true, 8));         // rows not in eights
  EXPECT_TRUE(refuses({64, 64}, 4, false, 64));       // fp32 must be K major
  EXPECT_TRUE(refuses({64, 128}, 2, false, 96));      // one and a half panels
  EXPECT_TRUE(refuses({24, 64}, 2, false, 64));       // K of one and a half instructions
  EXPECT_TRUE(refuses({8, 256, 128}, 2, false, 128)); // panels 256 KiB apart
}
