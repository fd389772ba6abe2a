//===- GateRange.h - between which numbers the elements of a tensor lie ------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_GATERANGE_H
#define KIMI_PASSES_KIMITOTILE_GATERANGE_H

#include "mlir/IR/Value.h"

namespace kimi {

/// A closed interval of the extended reals.
struct GateRange {
  double least, most;
};

/// Where the elements of `tensor` lie, as far as the elementwise op that computes it tells (a constant times a sigmoid,
/// for example); through views. NaN is not considered. All reals where nothing is known.
GateRange rangeOfElements(mlir::Value tensor);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_GATERANGE_H
