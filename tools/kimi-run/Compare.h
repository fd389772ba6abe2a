//===- Compare.h - how far two tensors are apart
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_COMPARE_H
#define KIMI_TOOLS_KIMIRUN_COMPARE_H

#include "tools/kimi-run/HostTensor.h"
#include <optional>

namespace kimi::run {

struct Difference {
  bool equal = true;
  double maxAbsolute = 0, maxRelative = 0; ///< Over the finite pairs of float tensors.
  double relativeNorm = 0;                 ///< |got - want| / |want|, Euclidean, over the finite pairs.
  std::string why;                         ///< The first reason against equality.
};

/// Same dtype, same shape, and for floats |got - want| <= atol + rtol * |want|: infinities of the same sign, NaN only
/// where NaN is wanted. With `rnorm` the finite floats of a tensor are judged together instead: relativeNorm <= rnorm.
/// Integers and bools must be the same (any non-zero byte of a bool but 1 is a mistake).
Difference compare(const HostTensor &got, const HostTensor &want, double rtol, double atol,
                   std::optional<double> rnorm = std::nullopt);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_COMPARE_H
