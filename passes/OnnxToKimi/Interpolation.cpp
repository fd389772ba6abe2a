//===- Interpolation.cpp - which elements of an axis a resized one reads
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/Interpolation.h"
#include <algorithm>
#include <cmath>

using namespace kimi::onnx;
using llvm::SmallVector;

bool AxisResize::isIdentity() const {
  return in == out && scale == 1.0 && (coordinates != "tf_crop_and_resize" || (roiStart == 0.0 && roiEnd == 1.0));
}

static double reachOf(const AxisResize &axis) { return axis.mode == "linear" ? 1.0 : axis.mode == "cubic" ? 2.0 : 0.0; }

/// An antialiased result of fewer elements sees a wider part of the axis.
static double shrinkOf(const AxisResize &axis) { return axis.antialias ? std::min(axis.scale, 1.0) : 1.0; }

double AxisResize::tapCount() const {
  return static_cast<double>(out) * (2.0 * reachOf(*this) / shrinkOf(*this) + 2.0);
}

/// The position of the axis, between elements, that position `o` of the result stands for.
static std::optional<double> sourceOf(const AxisResize &axis, int64_t o) {
  double x = static_cast<double>(o), in = static_cast<double>(axis.in), width = axis.scale * in;
  double centred = (x + 0.5) / axis.scale - 0.5;
  if (axis.coordinates == "half_pixel") {
    return centred;
  }
  if (axis.coordinates == "pytorch_half_pixel") {
    return width == 1.0 ? -0.5 : centred;
  }
  if (axis.coordinates == "half_pixel_symmetric") {
    return in / 2 * (1.0 - static_cast<double>(axis.out) / width) + centred;
  }
  if (axis.coordinates == "asymmetric") {
    return x / axis.scale;
  }
  if (axis.coordinates == "align_corners") {
    return width == 1.0 ? 0.0 : x * (in - 1) / (width - 1);
  }
  if (axis.coordinates == "tf_crop_and_resize") {
    double part = (axis.roiEnd - axis.roiStart) * (in - 1);
    return axis.roiStart * (in - 1) + (width == 1.0 ? part / 2 : x * part / (width - 1));
  }
  return std::nullopt;
}

static double cubic(double x, double a) {
  x = std::abs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0.0;
}

/// Weights of the elements at base + first, base + first + 1, ...; `ratio` in (0, 1] is the distance from base.
static std::optional<SmallVector<double>> weightsOf(const AxisResize &axis, double ratio, int64_t &first) {
  if (axis.mode == "nearest") {
    bool up = ratio == 1.0;
    if (!up && axis.nearest == "round_prefer_floor") {
      up = ratio > 0.5;
    } else if (!up && axis.nearest == "round_prefer_ceil") {
      up = ratio >= 0.5;
    } else if (axis.nearest == "ceil") {
      up = true;
    } else if (!up && axis.nearest != "floor") {
      return std::nullopt;
    }
    first = up ? 1 : 0;
    return SmallVector<double>{1.0};
  }
  double reach = reachOf(axis), shrink = shrinkOf(axis);
  if (reach == 0.0) {
    return std::nullopt;
  }
  first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  SmallVector<double> weights;
  double total = 0;
  for (int64_t i = first; i < 2 - first; ++i) {
    double x = (static_cast<double>(i) - ratio) * shrink;
    weights.push_back(reach == 1.0 ? std::clamp(1.0 - std::abs(x), 0.0, 1.0) : cubic(x, axis.cubicA));
    total += weights.back();
  }
  if (axis.antialias) {
    for (double &weight : weights) {
      weight /= total;
    }
  }
  return weights;
}

std::optional<Taps> kimi::onnx::interpolate(const AxisResize &axis) {
  Taps taps;
  if (axis.in < 1 || axis.tapCount() > kMostTaps) {
    return std::nullopt;
  }
  for (int64_t o = 0; o < axis.out; ++o) {
    std::optional<double> source = sourceOf(axis, o);
    if (!source) {
      return std::nullopt;
    }
    bool beyond = *source < 0 || *source > static_cast<double>(axis.in - 1);
    taps.outside.push_back(axis.coordinates == "tf_crop_and_resize" && beyond);
    // Of a whole position the element on the left is the base, at the distance 1.
    double base = std::ceil(*source) - 1;
    int64_t first = 0;
    std::optional<SmallVector<double>> weights = weightsOf(axis, *source - base, first);
    if (!weights) {
      return std::nullopt;
    }
    double total = 0;
    SmallVector<int64_t> positions;
    for (auto [i, weight] : llvm::enumerate(*weights)) {
      int64_t at = static_cast<int64_t>(base) + first + static_cast<int64_t>(i);
      if (axis.excludeOutside && (at < 0 || at >= axis.in)) {
        weight = 0;
      }
      total += weight;
      positions.push_back(std::clamp<int64_t>(at, 0, axis.in - 1));
    }
    taps.count = static_cast<int64_t>(positions.size());
    for (auto [at, weight] : llvm::zip(positions, *weights)) {
      taps.positions.push_back(static_cast<int32_t>(at));
      taps.weights.push_back(static_cast<float>(axis.excludeOutside && total != 0 ? weight / total : weight));
    }
  }
  return taps;
}
