//===- SharedLayout.cpp - where the elements of a tile lie in shared memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNvvm/SharedLayout.h"

using namespace mlir;
using namespace kimi;

int64_t kimi::elementBytes(Type element) {
  return element.isIndex() ? 8 : std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

SharedLayout SharedLayout::of(MemRefType tile) {
  SharedLayout layout;
  layout.elementBytes = kimi::elementBytes(tile.getElementType());
  ArrayRef<int64_t> shape = tile.getShape();
  layout.rowBytes = layout.elementBytes * (shape.empty() ? 1 : shape.back());
  for (int64_t extent : shape.empty() ? shape : shape.drop_back()) {
    layout.rows *= extent;
  }
  layout.panelBytes = layout.rowBytes;
  if (layout.rows > 1) {
    for (int64_t panel : {128, 64, 32}) {
      if (layout.rowBytes % panel == 0) {
        layout.panelBytes = panel;
        layout.mask = panel / 16 - 1;
        break;
      }
    }
  }
  return layout;
}

int64_t SharedLayout::offset(int64_t row, int64_t column) const {
  int64_t byte = row * panelBytes + column % panelBytes;
  return column / panelBytes * rows * panelBytes + (byte ^ ((byte >> 7 & mask) << 4));
}
