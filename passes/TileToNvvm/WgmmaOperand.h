//===- WgmmaOperand.h - shared-memory operands of wgmma
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The 64-bit matrix descriptors of tiles that lie in shared memory as SharedLayout says (PTX ISA, "Asynchronous
// warpgroup level matrix shared memory layout" and "Matrix-descriptor format").
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_WGMMAOPERAND_H
#define KIMI_PASSES_TILETONVVM_WGMMAOPERAND_H

#include "passes/TileToNvvm/SharedLayout.h"

namespace kimi::hopper {

/// A shared tile of rank 2, or one stage of a tile of rank 3, as an operand.
struct WgmmaOperand {
  SharedLayout layout;
  int64_t rows = 0, columns = 0; ///< of a stage
  /// The tile's columns are K (A [M, K], B [N, K]); else its rows are (A [K, M], B [K, N]).
  bool kMajor = true;

  static WgmmaOperand of(mlir::MemRefType tile, bool kMajor);

  int64_t extent() const { return kMajor ? rows : columns; } ///< along M or N
  int64_t depth() const { return kMajor ? columns : rows; }  ///< along K
  /// Columns of a panel, and bytes from one panel to the next.
  int64_t panelColumns() const { return layout.panelBytes / layout.elementBytes; }
  int64_t panelPitch() const { return layout.rows * layout.panelBytes; }
  /// Bytes from a stage to the next.
  int64_t stagePitch() const { return rows * layout.panelBytes; }
  /// K of one instruction: 32 bytes of elements (16 of bf16, 8 of tf32).
  int64_t step() const { return 32 / layout.elementBytes; }

  /// The descriptor's bits but for the address: swizzle mode, stride and leading byte offsets.
  uint64_t descriptorBits() const;
  /// Bytes from the start of the stage to (`mn`, `k`), as the address of a descriptor: mn is a multiple of 8 rows (K
  /// major) or of a panel, k of a step.
  int64_t offset(int64_t mn, int64_t k) const;
  /// Why it cannot be an operand of which an instruction reads `unit` along M or N (64 rows of A, n of B); null where
  /// it can.
  const char *whyNot(int64_t unit) const;
};

} // namespace kimi::hopper

#endif // KIMI_PASSES_TILETONVVM_WGMMAOPERAND_H
