//===- Passes.h - registration of every pass and pipeline
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_PASSES_H
#define KIMI_PASSES_PASSES_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace kimi {
/// Our dialects, the upstream dialects their passes make, and the interface models those need.
void registerKimiDialects(mlir::DialectRegistry &registry);
/// Registers every pass and pipeline of the project under its command-line name.
void registerKimiPasses();
} // namespace kimi

#endif // KIMI_PASSES_PASSES_H
