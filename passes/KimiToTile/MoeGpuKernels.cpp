//===- MoeGpuKernels.cpp - the launches of a mixture of experts on a GPU
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KimiToTile/MoeGpuKernels.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/MoeKernel.h"
#include "passes/KimiToTile/MoeProducts.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;

namespace {
/// Copies and sums of whole rows, in pieces of a block's width.
class MoeRowKernel : MoeKernel {
public:
  MoeRowKernel(HostContext &context, const MoeProblem &problem, int64_t channels)
      : MoeKernel(context, problem), columns(std::clamp<int64_t>(llvm::PowerOf2Ceil(channels), kThreads, kMostColumns)),
        pieces(llvm::divideCeil(channels, columns)) {
    writer.setThreads(kThreads, kBlocksPerSm);
  }

  /// xs[r] = x[token of row r].
  FailureOr<Value> gather(const ExpertRows &rows) {
    if (!import({p.x, rows.pairOf})) {
      return failure();
    }
    Value sorted = result(rows.rows, {p.channels}, p.element);
    Value row = blockId(0), first = times(blockId(1), columns);
    Value token = arith::DivUIOp::create(b, loc, read(buffers[1], row), writer.scalar(p.slots));
    Value piece = t.fragment(1, columns, p.element);
    t.load(piece, buffers[0], {token, first}, {0, 1});
    t.store(piece, sorted, {row, first}, {0, 1});
    return launch("_gather", rows.rows);
  }

  /// y[n] = sum_j weights[n, j] * outputs[row of (n, j)].
  FailureOr<Value> combine(const ExpertRows &rows, Value outputs) {
    if (!import({outputs, rows.rowOf, p.weights})) {
      return failure();
    }
    Type element = cast<RankedTensorType>(MoeOp(p.op).getResult().getType()).getElementType();
    Value y = result(p.tokens, {p.outputs}, element);
    Value token = blockId(0), first = times(blockId(1), columns), slots = writer.extent(buffers[2], 1);
    Value piece = t.fragment(1, columns, p.element), sum = t.fragment(1, columns);
    t.fill(sum, 0.0f);
    Value firstPair = arith::MulIOp::create(b, loc, token, slots);
    buildLoop(b, loc, zero, slots, writer.constant(1), [&](Value slot) {
      Value weight = wide(memref::LoadOp::create(b, loc, buffers[2], ValueRange{token, slot}));
      t.load(piece, buffers[0], {read(buffers[1], add(firstPair, slot)), first}, {0, 1});
      t.map({sum, piece}, sum, [&](ValueRange e) -> Value {
        return arith::AddFOp::create(b, loc, e[0], arith::MulFOp::create(b, loc, weight, wide(e[1])));
      });
    });
    t.store(sum, y, {token, first}, {0, 1});
    return launch("_combine", p.tokens);
  }

private:
  static constexpr int64_t kThreads = 128, kMostColumns = 1024, kBlocksPerSm = 8;

  FailureOr<Value> launch(StringRef part, const SymbolicDim &rows) {
    KernelWriter::Variant variant{writer.finish(p.stem + part.str()), SymbolicDim(1), rows, SymbolicDim(pieces)};
    return writer.dispatch(variant).getResult(0);
  }

  int64_t columns, pieces;
};
} // namespace

LogicalResult kimi::scheduleMoe(HostContext &context, const GpuArch &arch, const MoeProblem &p) {
  MoeOp op = p.op;
  FailureOr<ExpertRows> rows = sortByExpert(context, p);
  if (failed(rows)) {
    return failure();
  }
  auto scales = [&](ArrayRef<Value> list) { return p.packed ? list : ArrayRef<Value>(); };
  ExpertMatrices inner({op.getW1(), op.getW3()}, scales({op.getS1(), op.getS3()})),
      outer(op.getW2(), scales(op.getS2()));
  FailureOr<Value> sorted = MoeRowKernel(context, p, p.channels).gather(*rows);
  if (failed(sorted)) {
    return failure();
  }
  FailureOr<Value> hidden = buildExpertProduct(context, arch, p, *rows, *sorted, inner, "_hidden");
  if (failed(hidden)) {
    return failure();
  }
  FailureOr<Value> outputs = buildExpertProduct(context, arch, p, *rows, *hidden, outer, "_output");
  if (failed(outputs)) {
    return failure();
  }
  FailureOr<Value> y = MoeRowKernel(context, p, p.outputs).combine(*rows, *outputs);
  if (failed(y)) {
    return failure();
  }
  OpBuilder at(op);
  Value result = *y;
  if (result.getType() != op.getType()) {
    result = tensor::CastOp::create(at, op.getLoc(), op.getType(), result);
  }
  context.replace(op, result);
  return success();
}
