//===- PlanTables.h - the tables that the entries of a module share
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_PLANTABLES_H
#define KIMI_LIB_MODULE_PLANTABLES_H

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Module/Plan.h"
#include "lib/Module/ScalarProgram.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>
#include <memory>

namespace kimi {

/// Weights, states, symbols, kernels and the `init` entry, filled as entries ask for them.
class PlanTables {
public:
  explicit PlanTables(mlir::ModuleOp module);

  static std::optional<fb::DType> dtype(mlir::Type shaped);
  /// Bytes of an element.
  static int64_t elementSize(mlir::Type shaped);

  int32_t symbol(const std::string &name);
  int32_t kernel(llvm::StringRef name);
  tile::KernelOp findKernel(llvm::StringRef name) { return symbols.lookup<tile::KernelOp>(name); }
  mlir::FailureOr<int32_t> weight(WeightRefOp ref);
  mlir::FailureOr<int32_t> state(mlir::func::FuncOp func, mlir::BlockArgument argument,
                                 mlir::DictionaryAttr attributes);
  /// `kind` and `index` name a port that has no name.
  mlir::FailureOr<plan::Port> port(mlir::func::FuncOp func, mlir::Type type, mlir::DictionaryAttr attributes,
                                   const char *kind, size_t index);
  /// The index among the buffers of `init`.
  int32_t initBuffer(fb::Buffer buffer);

  plan::Plan plan;
  plan::Entry init;
  std::unique_ptr<ScalarProgram> initProgram;
  std::map<std::string, int32_t> hoisted; // a constant dispatch -> its first derived buffer

private:
  mlir::SymbolTable symbols;
  std::map<std::string, int32_t> symbolIndex, kernelIndex, weightIndex, stateIndex;
  std::map<std::pair<int, int32_t>, int32_t> initBuffers;
};

/// Copies the bytes of external weights, files beneath `modelDir`, into the plan.
mlir::LogicalResult bakeWeights(mlir::ModuleOp module, plan::Plan &plan, const std::string &modelDir);

} // namespace kimi

#endif // KIMI_LIB_MODULE_PLANTABLES_H
