//===- ScheduleAttnRes.cpp - tile kernels of attention residuals
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/RowMix.h"
#include "passes/KimiToTile/ScheduleEach.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEATTNRES
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
int64_t bytesOf(Value value) { return typeOf(value).getElementType().getIntOrFloatBitWidth() / 8; }

/// Two sources at a time: the one that is being mixed, and the next, whose load is under way.
RowShape shapeOf(AttnResOp op) {
  int64_t bytes = bytesOf(op.getSources().front());
  return {typeOf(op.getScore()).getDimSize(0), std::min(bytes, bytesOf(op.getResult())), 2, bytes, 3};
}
/// All of the bank, for one score vector after the other.
RowShape shapeOf(AttnResBankOp op) {
  int64_t bytes = bytesOf(op.getSources().front()), bank = op.getSources().size();
  return {typeOf(op.getScores().front()).getDimSize(0), bytes, bank, bytes, 3};
}
RowShape shapeOf(AttnResMergeOp op) {
  int64_t bytes = bytesOf(op.getP());
  return {typeOf(op.getScore()).getDimSize(0), std::min(bytes, bytesOf(op.getResult())), 1, bytes, 2};
}

/// What the kernels of the three ops share: operands and results as matrices of rows, one launch.
template <typename Op>
class RowKernel {
public:
  RowKernel(HostContext &context, Op op, const RowTile &tile)
      : context(context), op(op), tile(tile), channels(shapeOf(op).channels), writer(context, op),
        mix(writer, tile, channels, op.getEps().convertToFloat()) {}

protected:
  /// `tensors` [..., n] as buffers [M, n]; false, and the kernel gone, where one has no layout.
  bool take(ValueRange tensors, SmallVectorImpl<Value> &buffers) {
    for (Value tensor : tensors) {
      Value matrix = asMatrix(context, op, tensor);
      rows = rows ? rows : std::optional(context.scalars.shape(matrix)[0]);
      buffers.push_back(writer.input(matrix));
      if (!buffers.back()) {
        writer.abandon();
        return false;
      }
    }
    return true;
  }
  /// A buffer [M, n] for `result` [..., n].
  Value give(Value result) {
    RankedTensorType type = typeOf(result);
    int64_t width = type.getShape().back();
    auto matrix =
        RankedTensorType::get({rows->getConstant().value_or(ShapedType::kDynamic), width}, type.getElementType());
    return writer.result(matrix, {*rows, SymbolicDim(width)});
  }
  void launch(const std::string &stem) {
    KernelWriter::Variant variant{writer.finish(stem), SymbolicDim(1), SymbolicDim::ceilDiv(*rows, tile.rows)};
    DispatchOp dispatch = writer.dispatch(variant);
    OpBuilder b(op);
    SmallVector<Value> results;
    for (auto [result, matrix] : llvm::zip_equal(op->getResults(), dispatch.getResults())) {
      results.push_back(fromMatrix(context, b, op.getLoc(), matrix, typeOf(result), context.scalars.shape(result)));
    }
    context.replace(op, results);
  }

  HostContext &context;
  Op op;
  RowTile tile;
  int64_t channels;
  KernelWriter writer;
  RowMix mix;
  std::optional<SymbolicDim> rows; // M
};

class DirectKernel : RowKernel<AttnResOp> {
public:
  using RowKernel::RowKernel;

  LogicalResult build() {
    SmallVector<Value> sources, vectors;
    if (!take(op.getSources(), sources) || !take(op.getScore(), vectors)) {
      return failure();
    }
    Value result = give(op.getResult());
    Value vector = mix.loadVector(vectors[0]), next = mix.load(sources[0]);
    RowMix::State state;
    for (size_t i = 0; i < sources.size(); ++i) {
      Value rows = next;
      if (i + 1 < sources.size()) { // under way while this one is mixed
        next = mix.load(sources[i + 1], (i + 1) % 2);
      }
      SmallVector<Value> sums = mix.sums({{rows, Value()}, {rows, vector}});
      Value score = mix.score(sums[0], sums[1]);
      if (i == 0) {
        state = mix.begin(rows, score);
      } else {
        mix.add(state, rows, score);
      }
    }
    mix.finish(state, result);
    launch("attn_res_" + std::to_string(channels) + "_n" + std::to_string(sources.size()));
    return success();
  }
};

class BankKernel : RowKernel<AttnResBankOp> {
public:
  using RowKernel::RowKernel;

  LogicalResult build() {
    SmallVector<Value> sources, vectors, statistics, sums;
    if (!take(op.getSources(), sources) || !take(op.getScores(), vectors)) {
      return failure();
    }
    for (Value result : op.getStatistics()) {
      statistics.push_back(give(result));
    }
    for (Value result : op.getSums()) {
      sums.push_back(give(result));
    }
    SmallVector<Value> bank;
    SmallVector<RowMix::Sum> squared;
    for (Value source : sources) {
      bank.push_back(mix.hold(source));
      squared.push_back({bank.back(), Value()});
    }
    SmallVector<Value> squares = mix.sums(squared);
    // Two score vectors at a time: what is read of a source, and widened, serves both.
    for (size_t j = 0; j < vectors.size(); j += 2) {
      size_t count = std::min<size_t>(vectors.size() - j, 2);
      SmallVector<RowMix::Sum> wanted;
      SmallVector<Value> pair;
      for (Value buffer : ArrayRef(vectors).slice(j, count)) {
        pair.push_back(mix.loadVector(buffer, pair.size()));
      }
      for (Value rows : bank) {
        for (Value vector : pair) {
          wanted.push_back({rows, vector});
        }
      }
      SmallVector<Value> products = mix.sums(wanted);
      for (size_t k = 0; k < count; ++k) {
        SmallVector<Value> scores;
        for (size_t i = 0; i < bank.size(); ++i) {
          scores.push_back(mix.score(squares[i], products[i * count + k]));
        }
        finish(bank, scores, statistics[j + k], sums[j + k]);
      }
    }
    launch("attn_res_bank_" + std::to_string(channels) + "_n" + std::to_string(sources.size()) + "_m" +
           std::to_string(vectors.size()));
    return success();
  }

private:
  /// The softmax over the bank by the scores of one vector.
  void finish(ArrayRef<Value> bank, SmallVectorImpl<Value> &scores, Value statistics, Value sum) {
    TileBuilder &t = mix.builder();
    OpBuilder &b = t.builder();
    Location loc = t.location();
    Value maximum = mix.column(), total = mix.column();
    t.map(scores, maximum, [&](ValueRange e) -> Value {
      Value largest = e[0];
      for (Value score : e.drop_front()) {
        largest = arith::MaximumFOp::create(b, loc, largest, score);
      }
      return largest;
    });
    for (Value score : scores) {
      t.map({score, maximum}, score, [&](ValueRange e) { return mix.power(e[0], e[1]); });
    }
    t.map(scores, total, [&](ValueRange e) -> Value {
      Value all = e[0];
      for (Value weight : e.drop_front()) {
        all = mix.add(all, weight);
      }
      return all;
    });
    mix.storeColumn(maximum, statistics, 0);
    mix.storeColumn(total, statistics, 1);
    mix.store(mix.weightedSum(bank, scores), sum);
  }
};

class MergeKernel : RowKernel<AttnResMergeOp> {
public:
  using RowKernel::RowKernel;

  LogicalResult build() {
    SmallVector<Value> in;
    if (!take({op.getP(), op.getSum(), op.getStatistics(), op.getScore()}, in)) {
      return failure();
    }
    Value result = give(op.getResult());
    Value rows = mix.load(in[0]), vector = mix.loadVector(in[3]);
    RowMix::State state{mix.loadColumn(in[2], 0), mix.loadColumn(in[2], 1), mix.load(in[1], 1)};
    SmallVector<Value> sums = mix.sums({{rows, Value()}, {rows, vector}});
    mix.add(state, rows, mix.score(sums[0], sums[1]));
    mix.finish(state, result);
    launch("attn_res_merge_" + std::to_string(channels));
    return success();
  }
};

struct KimiScheduleAttnRes : kimi::impl::KimiScheduleAttnResBase<KimiScheduleAttnRes> {
  using KimiScheduleAttnResBase::KimiScheduleAttnResBase;

  void runOnOperation() override {
    if (!archName.empty()) {
      FailureOr<GpuArch> found = gpuArchOption(getOperation(), archName, multiprocessors);
      if (failed(found)) {
        return signalPassFailure();
      }
      arch = *found;
    }
    if (failed(scheduleAll<AttnResOp, DirectKernel>()) || failed(scheduleAll<AttnResBankOp, BankKernel>()) ||
        failed(scheduleAll<AttnResMergeOp, MergeKernel>())) {
      signalPassFailure();
    }
  }

private:
  template <typename Op, typename Kernel>
  LogicalResult scheduleAll() {
    return scheduleEach<Op>(
        getOperation(), [&](Op op) { return whyNot(op); },
        [&](HostContext &context, Op op) { return Kernel(context, op, *chooseRowTile(arch, shapeOf(op))).build(); },
        numScheduled, aloneInGroup);
  }

  template <typename Op>
  std::string whyNot(Op op) {
    for (Value value : op->getOperands()) {
      Type element = typeOf(value).getElementType();
      if (!element.isF32() && !element.isBF16() && !element.isF16()) {
        return "there is no kernel for operands that are not f32, bf16 or f16";
      }
      if (ShapedType::isDynamic(typeOf(value).getShape().back())) {
        return "the number of channels is not known";
      }
    }
    RowShape shape = shapeOf(op);
    if (shape.channels == 0) {
      return "rows of 0 channels do not fit a block";
    }
    if (!chooseRowTile(arch, shape)) {
      return "rows of " + std::to_string(shape.channels) + " channels do not fit a block, " +
             std::to_string(shape.held) + " at a time";
    }
    return "";
  }

  std::optional<GpuArch> arch;
};
} // namespace
