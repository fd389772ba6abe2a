//===- KernelWriter.h - builds a kernel and the dispatch that launches it
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_KERNELWRITER_H
#define KIMI_PASSES_KIMITOTILE_KERNELWRITER_H

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Module/ViewLayout.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <string>

namespace kimi {

/// The kernels of a module. Kernels that are equal up to their name are one symbol, so identical layers share them.
class KernelPool {
public:
  explicit KernelPool(mlir::ModuleOp module);
  /// Keeps `kernel` (an op of the module) under a name that starts with `stem`, or erases it and gives the name of an
  /// equal one.
  mlir::FlatSymbolRefAttr add(tile::KernelOp kernel, llvm::StringRef stem);
  /// A kernel without arguments and a name of its own, before the host functions and behind the kernels there are.
  tile::KernelOp create();

private:
  mlir::ModuleOp module;
  mlir::Operation *firstFunc = nullptr;       // of the module
  llvm::StringSet<> taken;                    // names of the module's symbols
  std::map<std::string, std::string> symbols; // printed kernel -> name
};

/// What a pass over one host function works with. Ops to be replaced are erased at the end (see finish), because
/// `scalars` remembers values.
struct HostContext {
  HostContext(mlir::func::FuncOp func, KernelPool &pool) : func(func), pool(pool), scalars(func), layouts(scalars) {}
  /// `op`'s results are `values` from now on; it is erased by finish().
  void replace(mlir::Operation *op, mlir::ValueRange values);
  /// `from` is `to` from now on; its op stays.
  void replaceValue(mlir::Value from, mlir::Value to);
  /// Erases what was replaced, and what has no use any more.
  void finish();

  mlir::func::FuncOp func;
  KernelPool &pool;
  HostScalars scalars;
  ViewLayouts layouts;
  llvm::SmallVector<mlir::Operation *> dead;
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> replaced; // so far: what, and by what
};

/// Writes one kernel. Arguments are added as the body asks for them, in the order that kimi.dispatch prescribes:
/// inputs, states, results, scalars. Scalars that are constants are constants of the kernel.
class KernelWriter {
public:
  KernelWriter(HostContext &context, mlir::Operation *host);
  /// Threads of a block on a GPU and blocks that are to share an SM; `specialized` where a warp of its own may copy for
  /// the threads, in clusters of `cluster` blocks. Promises the alignment of buffers as well: those of a GPU start at
  /// multiples of 256 bytes.
  void setThreads(int64_t threads, int64_t blocksPerSm, bool specialized = false, int64_t cluster = 1);
  /// The kernel has no use: removes it.
  void abandon();

  mlir::OpBuilder &body() { return builder; }
  mlir::Location loc() const { return location; }

  /// The buffer of `tensor`, a view with the strides that are known; null where it has no layout.
  mlir::Value input(mlir::Value tensor);
  /// A result of the launch, row-major.
  mlir::Value result(mlir::RankedTensorType type, llvm::ArrayRef<SymbolicDim> sizes);
  mlir::Value state(mlir::Value state, const SymbolicDim &batch);
  mlir::Value scalar(const SymbolicDim &value);
  mlir::Value constant(int64_t value);
  /// The extent of `buffer` along `axis`, a constant where it is static.
  mlir::Value extent(mlir::Value buffer, int64_t axis);
  /// A host value within the kernel: a constant, a scalar argument, or the ops that compute it. Failure where it needs
  /// an op that does not belong in a kernel.
  mlir::FailureOr<mlir::Value> import(mlir::Value value);

  /// Ends the kernel and enters it in the pool.
  mlir::FlatSymbolRefAttr finish(llvm::StringRef stem);
  const llvm::SmallVector<mlir::Value> &inputs() const { return inputTensors; }

  /// A variant of a launch: its kernel, when it is taken (1 for the last), and its grid.
  struct Variant {
    mlir::FlatSymbolRefAttr kernel;
    SymbolicDim guard = SymbolicDim(1);
    SymbolicDim x = SymbolicDim(1), y = SymbolicDim(1), z = SymbolicDim(1);
  };
  /// The launch, with the arguments of this writer's kernel (those of all variants must agree).
  /// `flopsPerElement`, of the first result, is for reports (0: not known).
  DispatchOp dispatch(llvm::ArrayRef<Variant> variants, int64_t flopsPerElement = 0);

private:
  mlir::Value addArgument(unsigned position, mlir::Type type);

  HostContext &context;
  mlir::Operation *host;
  mlir::Location location;
  tile::KernelOp kernel;
  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Value> inputTensors, stateValues;
  llvm::SmallVector<mlir::RankedTensorType> resultTypes;
  llvm::SmallVector<SymbolicDim> resultDims, scalarValues;
  std::map<std::string, mlir::Value> scalarArguments;
  llvm::DenseMap<mlir::Value, int64_t> alignments; // bytes, of buffers
  bool aligned = false;
  llvm::DenseMap<mlir::Value, mlir::Value> imported;
};

/// The largest power of two, up to `limit` (one itself), that divides every value of `dim`.
int64_t divisorOf(const SymbolicDim &dim, int64_t limit);

/// What the address of a view and its dynamic strides are multiples of, in bytes, up to 16; its buffer is aligned.
int64_t alignmentOf(const ViewLayout &layout, mlir::Type element);

/// Lower-case letters, digits and single underscores of `text`, as a symbol may hold.
std::string symbolText(llvm::StringRef text);

/// `[a, b)` steps of `step` of a loop; `fn(index)` writes the body.
void buildLoop(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value lower, mlir::Value upper, mlir::Value step,
               llvm::function_ref<void(mlir::Value)> fn);

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_KERNELWRITER_H
