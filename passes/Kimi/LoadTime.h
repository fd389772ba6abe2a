//===- LoadTime.h - values that are known once the weights are loaded
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_LOADTIME_H
#define KIMI_PASSES_KIMI_LOADTIME_H

#include "mlir/IR/Value.h"

namespace kimi {

/// Whether `value` depends on weights and constants only, so that it is known once the weights are loaded.
bool isLoadTimeValue(mlir::Value value);

/// The same, where launches have been written already: what they compute of weights alone may be computed at load time.
bool mayBeLaunchedAtLoadTime(mlir::Value value);

/// Makes `value`, known when the weights are loaded, stand before `point`, if it stands later in the same block.
void moveBefore(mlir::Value value, mlir::Operation *point);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_LOADTIME_H
