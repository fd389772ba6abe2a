//===- LinearFusion.h - what kimi.fused_linear can take in
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_LINEARFUSION_H
#define KIMI_PASSES_KIMI_LINEARFUSION_H

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace kimi {

/// The matrix behind a transposition, which the `transpose` flag can say.
std::pair<mlir::Value, bool> matrixOf(LinearOp op);

/// Why `op` cannot become a fused_linear; an empty string where it can.
llvm::StringRef fusionObstacle(LinearOp op);

/// The elementwise op that may be taken into the epilogue of the op that gives `value`, or null.
mlir::Operation *fusableConsumer(mlir::Value value);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_LINEARFUSION_H
