//===- Interpolation.h - which elements of an axis a resized one reads
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_INTERPOLATION_H
#define KIMI_PASSES_ONNXTOKIMI_INTERPOLATION_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace kimi::onnx {

/// Entries of one axis' table of taps, at most.
constexpr double kMostTaps = 1 << 22;

/// One axis of a Resize, by the definitions of ONNX's Resize-19 (onnx/reference/ops/op_resize.py).
struct AxisResize {
  int64_t in = 0, out = 0;
  double scale = 1.0;
  /// Ends of the region of interest, in shares of the axis (tf_crop_and_resize).
  double roiStart = 0.0, roiEnd = 1.0;
  llvm::StringRef mode, coordinates, nearest;
  double cubicA = -0.75;
  bool antialias = false, excludeOutside = false;

  /// How many elements its table of taps has; more than kMostTaps are refused.
  double tapCount() const;
  /// Position o of the result is position o of the axis.
  bool isIdentity() const;
};

/// What each position of a resized axis reads: `count` positions of the axis (all inside it) and their weights; nothing
/// of it, but the extrapolation value, where `outside`.
struct Taps {
  int64_t count = 1;
  llvm::SmallVector<int32_t> positions; // [out, count]
  llvm::SmallVector<float> weights;     // [out, count]
  llvm::SmallVector<bool> outside;      // [out]
};

/// Nothing where mode, coordinates or nearest are none that ONNX knows, in is 0, or there are more than
/// kMostTaps; computed in double precision.
std::optional<Taps> interpolate(const AxisResize &axis);

class OpTable;
/// Resize and Upsample.
void registerResizeOps(OpTable &table);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_INTERPOLATION_H
