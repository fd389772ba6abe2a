//===- MergeLinears.cpp - --kimi-merge-linears
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/LinearFusion.h"
#include "passes/Kimi/LoadTime.h"
#include "passes/Kimi/Passes.h"
#include <map>
#include <numeric>

namespace kimi {
#define GEN_PASS_DEF_MERGELINEARS
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// What linears that can be one have in common: x, the orientation of the matrix, whether there is a bias, and the
/// element types.
using Key = std::tuple<void *, bool, bool, const void *, const void *, const void *>;

Key keyOf(LinearOp op) {
  auto element = [](Value value) -> const void * {
    return value ? tensorOf(value).getElementType().getAsOpaquePointer() : nullptr;
  };
  return {op.getX().getAsOpaquePointer(), matrixOf(op).second,    bool(op.getBias()), element(op.getW()),
          element(op.getBias()),          element(op.getResult())};
}

struct MergeLinearsPass : kimi::impl::MergeLinearsBase<MergeLinearsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](Block *block) {
      std::map<Key, SmallVector<LinearOp>> groups;
      SmallVector<Key> order;
      for (auto op : block->getOps<LinearOp>()) {
        if (!isCandidate(op)) {
          continue;
        }
        SmallVector<LinearOp> &group = groups[keyOf(op)];
        if (group.empty()) {
          order.push_back(keyOf(op));
        }
        group.push_back(op);
      }
      for (const Key &key : order) {
        if (groups[key].size() > 1) {
          merge(groups[key]);
        }
      }
    });
  }

  /// A projection by weights whose result is read through views: an elementwise op that follows it would be lost to its
  /// epilogue, and a function's result would have to be copied out.
  static bool isCandidate(LinearOp op) {
    Value result = op.getResult();
    return fusionObstacle(op).empty() && (!op.getBias() || isLoadTimeValue(op.getBias())) && !result.use_empty() &&
           !fusableConsumer(result) &&
           llvm::none_of(result.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
  }

  void merge(ArrayRef<LinearOp> group) {
    LinearOp first = group.front();
    OpBuilder b(first);
    SmallVector<Location> locs;
    SmallVector<Value> matrices, biases;
    SmallVector<int64_t> widths;
    bool transpose = matrixOf(first).second;
    for (LinearOp op : group) {
      locs.push_back(op.getLoc());
      matrices.push_back(matrixOf(op).first);
      widths.push_back(tensorOf(op.getW()).getDimSize(op.getTranspose() ? 0 : 1));
      moveBefore(matrices.back(), first);
      if (op.getBias()) {
        biases.push_back(op.getBias());
        moveBefore(op.getBias(), first);
      }
    }
    Location loc = b.getFusedLoc(locs);
    Value w = tensor::ConcatOp::create(b, loc, transpose ? 0 : 1, matrices);
    Value bias = biases.empty() ? Value() : tensor::ConcatOp::create(b, loc, 0, biases).getResult();
    SmallVector<int64_t> shape(tensorOf(first.getResult()).getShape());
    int64_t last = static_cast<int64_t>(shape.size()) - 1;
    shape[last] = std::accumulate(widths.begin(), widths.end(), int64_t(0));
    auto type = RankedTensorType::get(shape, tensorOf(first.getResult()).getElementType());
    Value y = LinearOp::create(b, loc, type, first.getX(), w, bias, transpose);
    int64_t at = 0;
    for (auto [each, width] : llvm::zip_equal(group, widths)) {
      LinearOp op = each;
      SmallVector<OpFoldResult> offsets(shape.size(), b.getIndexAttr(0)), steps(shape.size(), b.getIndexAttr(1)),
          sizes = tensor::getMixedSizes(b, loc, y);
      offsets[last] = b.getIndexAttr(at);
      sizes[last] = b.getIndexAttr(width);
      Value part = tensor::ExtractSliceOp::create(b, op.getLoc(), y, offsets, sizes, steps);
      if (part.getType() != op.getType()) {
        part = tensor::CastOp::create(b, op.getLoc(), op.getType(), part);
      }
      op.getResult().replaceAllUsesWith(part);
      at += width;
    }
    first.emitRemark() << "and " << group.size() - 1 << " more projections of the same input are one of " << shape[last]
                       << " columns";
    for (LinearOp op : group) {
      op.erase();
    }
    numMerged += group.size();
    ++numGroups;
  }
};

} // namespace
