//===- WgmmaOperand.cpp - matrix descriptors of shared tiles
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/WgmmaOperand.h"

using namespace mlir;
using namespace kimi::hopper;

/// Fields of a descriptor hold 14 bits, in units of 16 bytes.
constexpr int64_t kFieldMask = 0x3fff, kUnit = 16;

WgmmaOperand WgmmaOperand::of(MemRefType tile, bool kMajor) {
  WgmmaOperand operand;
  operand.layout = SharedLayout::of(tile);
  operand.rows = tile.getShape().drop_back().back();
  operand.columns = tile.getShape().back();
  operand.kMajor = kMajor;
  return operand;
}

uint64_t WgmmaOperand::descriptorBits() const {
  // Stride byte offset: from 8 rows to the next 8. Leading byte offset: from a panel to the next one, which an
  // instruction only crosses along M or N (its K is 32 bytes); K major ignores it.
  uint64_t stride = 8 * layout.panelBytes / kUnit, leading = kMajor ? 1 : panelPitch() / kUnit;
  uint64_t mode = layout.panelBytes == 128 ? 1 : layout.panelBytes == 64 ? 2 : 3;
  return (mode << 62) | ((stride & kFieldMask) << 32) | ((leading & kFieldMask) << 16);
}

int64_t WgmmaOperand::offset(int64_t mn, int64_t k) const {
  int64_t row = kMajor ? mn : k, column = kMajor ? k : mn;
  return column / panelColumns() * panelPitch() + row * layout.panelBytes +
         column % panelColumns() * layout.elementBytes;
}

const char *WgmmaOperand::whyNot(int64_t unit) const {
  if (layout.mask == 0) {
    return "its rows are no multiple of 32 bytes";
  }
  if (rows % 8 != 0) {
    return "its rows do not come in eights";
  }
  if (depth() % step() != 0) {
    return "K is no multiple of an instruction's 32 bytes";
  }
  if (kMajor) {
    return unit % 8 != 0 ? "what an instruction reads along M or N is no multiple of 8" : nullptr;
  }
  if (layout.elementBytes != 2) {
    return "elements that are not 16 bits wide must be contiguous along K";
  }
  if (unit % panelColumns() != 0) {
    return "what an instruction reads along M or N is no multiple of a panel";
  }
  return panelPitch() / kUnit > kFieldMask ? "its panels are too far apart for a matrix descriptor" : nullptr;
}
