//===- MoeKernel.h - what the kernels of a mixture of experts are written with
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_MOEKERNEL_H
#define KIMI_PASSES_KIMITOTILE_MOEKERNEL_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes/Kimi/Reference.h"
#include "passes/KimiToTile/MoeProblem.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {

/// The writer of one kernel of a mixture, and short forms.
class MoeKernel {
public:
  MoeKernel(HostContext &context, const MoeProblem &problem)
      : p(problem), writer(context, problem.op), t(writer), b(writer.body()), loc(writer.loc()),
        zero(writer.constant(0)) {}

protected:
  mlir::Value blockId(uint64_t dim) { return tile::BlockIdOp::create(b, loc, b.getIndexType(), dim); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddIOp::create(b, loc, x, y); }
  mlir::Value times(mlir::Value index, int64_t factor) {
    return mlir::arith::MulIOp::create(b, loc, index, writer.constant(factor));
  }
  mlir::Value wide(mlir::Value x) { return castFloat(b, loc, x, b.getF32Type()); }
  /// The number at `at` of an integer table.
  mlir::Value read(mlir::Value table, mlir::ValueRange at) {
    mlir::Value number = mlir::memref::LoadOp::create(b, loc, table, at);
    return mlir::arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
  }
  /// A result [rows, inner...].
  mlir::Value result(const SymbolicDim &rows, mlir::ArrayRef<int64_t> inner, mlir::Type element) {
    llvm::SmallVector<int64_t> shape{rows.getConstant().value_or(mlir::ShapedType::kDynamic)};
    llvm::SmallVector<SymbolicDim> sizes{rows};
    shape.append(inner.begin(), inner.end());
    sizes.append(inner.begin(), inner.end());
    return writer.result(mlir::RankedTensorType::get(shape, element), sizes);
  }
  /// Adds the buffers of `tensors`; false, and no kernel, where one has none.
  bool import(mlir::ArrayRef<mlir::Value> tensors) {
    for (mlir::Value tensor : tensors) {
      buffers.push_back(writer.input(tensor));
      if (!buffers.back()) {
        writer.abandon();
        return false;
      }
    }
    return true;
  }

  const MoeProblem &p;
  KernelWriter writer;
  TileBuilder t;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Value zero;
  llvm::SmallVector<mlir::Value> buffers;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_MOEKERNEL_H
