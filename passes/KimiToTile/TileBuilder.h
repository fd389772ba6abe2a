//===- TileBuilder.h - short forms for the tile ops of a kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMITOTILE_TILEBUILDER_H
#define KIMI_PASSES_KIMITOTILE_TILEBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/KimiToTile/KernelWriter.h"

namespace kimi {

/// Lets a function whose value is rounded to 16 bits in the end have no more digits than that keeps.
inline void roundedLater(mlir::Operation *op) {
  if (mlir::isa<mlir::math::TanhOp, mlir::math::ExpOp, mlir::math::Exp2Op, mlir::arith::DivFOp>(op)) {
    auto flags = mlir::arith::FastMathFlags::afn;
    if (mlir::isa<mlir::arith::DivFOp>(op)) { // by a constant: times its reciprocal
      flags = flags | mlir::arith::FastMathFlags::arcp;
    }
    op->setAttr(mlir::arith::FastMathFlagsAttr::getMnemonic(),
                mlir::arith::FastMathFlagsAttr::get(op->getContext(), flags));
  }
}

/// Builds tiles (of f32 unless a type is given) and what is done to them, at the insertion point of a kernel writer.
class TileBuilder {
public:
  explicit TileBuilder(KernelWriter &writer) : b(writer.body()), loc(writer.loc()) {}
  mlir::OpBuilder &builder() { return b; }
  mlir::Location location() const { return loc; }

  mlir::Value alloc(int64_t rows, int64_t columns, tile::SpaceKind space, mlir::Type type = {}) {
    auto attribute = tile::SpaceKindAttr::get(b.getContext(), space);
    auto shape = mlir::MemRefType::get({rows, columns}, type ? type : b.getF32Type(), mlir::MemRefLayoutAttrInterface(),
                                       attribute);
    return tile::AllocOp::create(b, loc, shape);
  }
  mlir::Value shared(int64_t rows, int64_t columns, mlir::Type type = {}) {
    return alloc(rows, columns, tile::SpaceKind::shared, type);
  }
  mlir::Value fragment(int64_t rows, int64_t columns, mlir::Type type = {}) {
    return alloc(rows, columns, tile::SpaceKind::fragment, type);
  }
  void load(mlir::Value tile, mlir::Value source, mlir::ValueRange offsets, llvm::ArrayRef<int64_t> dims,
            float pad = 0.0f) {
    tile::LoadOp::create(b, loc, tile, source, offsets, b.getDenseI64ArrayAttr(dims), b.getF32FloatAttr(pad));
  }
  void store(mlir::Value tile, mlir::Value target, mlir::ValueRange offsets, llvm::ArrayRef<int64_t> dims) {
    tile::StoreOp::create(b, loc, tile, target, offsets, b.getDenseI64ArrayAttr(dims));
  }
  void fill(mlir::Value tile, float value) { tile::FillOp::create(b, loc, tile, number(value)); }
  mlir::Value number(float value) {
    return mlir::arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)).getResult();
  }
  /// out = fn(elements of ins); the builder stands in the region while `fn` runs.
  void map(mlir::ValueRange ins, mlir::Value out, llvm::function_ref<mlir::Value(mlir::ValueRange)> fn) {
    auto op = tile::MapOp::create(b, loc, ins, out);
    mlir::Block *block = new mlir::Block();
    op.getBody().push_back(block);
    for (mlir::Value in : ins) {
      block->addArgument(mlir::cast<mlir::MemRefType>(in.getType()).getElementType(), loc);
    }
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(block);
    mlir::Value value = fn(block->getArguments());
    tile::YieldOp::create(b, loc, value);
  }
  /// `value`, computed by `body`, from what `mapping` has for the body's arguments and captured values. Where the
  /// results are rounded to 16 bits (`rounded`), functions have no more digits than that keeps.
  mlir::Value inlined(mlir::Block &body, mlir::Value value, mlir::IRMapping &mapping, bool rounded) {
    for (mlir::Operation &op : body.without_terminator()) {
      if (!mlir::isOpTriviallyDead(&op)) {
        mlir::Operation *copy = b.clone(op, mapping);
        copy->setLoc(loc);
        if (rounded) {
          roundedLater(copy);
        }
      }
    }
    return mapping.lookupOrDefault(value);
  }
  /// acc += a . b^T, b being [N, K].
  void multiplyTransposed(mlir::Value acc, mlir::Value a, mlir::Value bTile, bool tf32 = false) {
    tile::MmaOp::create(b, loc, acc, a, bTile, /*transpose_b=*/true, /*panels=*/false, tf32);
  }
  /// acc += a . b, b being [K, N].
  void multiply(mlir::Value acc, mlir::Value a, mlir::Value bTile, bool tf32 = false) {
    tile::MmaOp::create(b, loc, acc, a, bTile, /*transpose_b=*/false, /*panels=*/false, tf32);
  }
  /// For each k of [lower, upper) by step: `loads(k)` fills the buffers, `compute(k)` uses them.
  void pipeline(mlir::Value lower, mlir::Value upper, mlir::Value step, mlir::ValueRange buffers, int64_t stages,
                llvm::function_ref<void(mlir::Value)> loads, llvm::function_ref<void(mlir::Value)> compute) {
    tile::PipelineOp::create(
        b, loc, lower, upper, step, buffers, stages,
        [&](mlir::OpBuilder &, mlir::Location, mlir::Value k) { loads(k); },
        [&](mlir::OpBuilder &, mlir::Location, mlir::Value k) { compute(k); });
  }
  void reduce(tile::ReduceKind kind, mlir::Value input, mlir::Value out, bool accumulate = false, uint64_t axis = 1) {
    tile::ReduceOp::create(b, loc, kind, input, out, axis, accumulate);
  }
  /// out[i] = in[0] + .. + in[i], row by row.
  void scan(mlir::Value input, mlir::Value out) { tile::ScanOp::create(b, loc, input, out); }
  /// Of each block of rows, row `row` for all.
  void pickRows(mlir::Value input, mlir::Value out, int64_t block, int64_t row) {
    tile::PickRowsOp::create(b, loc, input, out, block, row);
  }
  /// out = the numbers of MXFP4 bytes.
  void dequantize(mlir::Value codes, mlir::Value scales, mlir::Value out) {
    tile::DequantizeOp::create(b, loc, codes, scales, out);
  }
  /// x <- (I + L)^-1 x, L below the diagonal of a.
  void solve(mlir::Value a, mlir::Value x) { tile::SolveOp::create(b, loc, a, x); }

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace kimi

#endif // KIMI_PASSES_KIMITOTILE_TILEBUILDER_H
