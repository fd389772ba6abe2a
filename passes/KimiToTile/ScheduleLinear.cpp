//===- ScheduleLinear.cpp - tile kernels of kimi.fused_linear
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/LinearProblem.h"
#include "passes/KimiToTile/LinearSchedule.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULELINEAR
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// With the weight in panels: [ceil(N/P), K, P].
struct Problem : LinearProblem {
  Problem(HostContext &context, FusedLinearOp op, int64_t panel) : LinearProblem(context, op), panel(panel) {
    OpBuilder b(op);
    auto type = RankedTensorType::get({static_cast<int64_t>(llvm::divideCeil(n, panel)), k, panel},
                                      cast<RankedTensorType>(op.getW().getType()).getElementType());
    packed = PackWeightOp::create(b, op.getLoc(), type, op.getW(), b.getI64IntegerAttr(panel),
                                  op.getTranspose() ? b.getUnitAttr() : UnitAttr());
  }
  Value packed;
  int64_t panel;
};

class LinearKernel {
public:
  LinearKernel(HostContext &context, Problem &problem, LinearSchedule schedule)
      : p(problem), s(schedule), writer(context, problem.op), t(writer), b(writer.body()), loc(writer.loc()) {
    panels = llvm::divideCeil(p.n, p.panel);
    group = std::min(std::max<int64_t>(s.columns / p.panel, 1), panels);
    s.columns = group * p.panel;
    bool whole = p.op.getNorm() != NormKind::none;
    depth = whole ? p.k : std::min(p.k, std::max<int64_t>(kRowBytes / (4 * s.rows) / 64 * 64, 64));
  }

  FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard) {
    Value x = writer.input(p.x), w = writer.input(p.packed);
    Value gamma = p.gamma ? writer.input(p.gamma) : Value(), beta = p.beta ? writer.input(p.beta) : Value();
    SmallVector<Value> extras;
    for (LinearExtra &extra : p.extras) {
      extras.push_back(writer.input(extra.matrix));
    }
    if (!x || !w || (p.gamma && !gamma) || (p.beta && !beta) || llvm::is_contained(extras, Value())) {
      writer.abandon();
      return failure();
    }
    int64_t rows = p.m.getConstant().value_or(ShapedType::kDynamic);
    auto type = RankedTensorType::get({rows, p.n}, cast<RankedTensorType>(p.op.getType()).getElementType());
    Value y = writer.result(type, {p.m, SymbolicDim(p.n)});

    Value zero = writer.constant(0);
    // Rows vary fastest: a block of columns of the weight is read from memory once and serves every row from the cache.
    Value firstPanel = blockStart(1, group);
    if (panels % group != 0) { // the last block starts early
      firstPanel = arith::MinUIOp::create(b, loc, firstPanel, writer.constant(panels - group));
    }
    Value firstRow = blockStart(0, s.rows);
    Value firstColumn = arith::MulIOp::create(b, loc, firstPanel, writer.constant(p.panel));
    Value acc = t.fragment(s.rows, s.columns);
    t.fill(acc, 0.0f);
    if (depth == p.k) {
      Value a = t.shared(s.rows, p.k);
      t.load(a, x, {firstRow, zero}, {0, 1});
      normalize(a, gamma, beta);
      multiply(acc, a, w, firstPanel, zero, p.k);
    } else {
      Value a = t.shared(s.rows, depth);
      int64_t whole = p.k / depth * depth;
      buildLoop(b, loc, zero, writer.constant(whole), writer.constant(depth), [&](Value at) {
        t.load(a, x, {firstRow, at}, {0, 1});
        multiply(acc, a, w, firstPanel, at, depth);
      });
      if (whole < p.k) {
        Value rest = t.shared(s.rows, p.k - whole), at = writer.constant(whole);
        t.load(rest, x, {firstRow, at}, {0, 1});
        multiply(acc, rest, w, firstPanel, at, p.k - whole);
      }
    }
    epilogue(acc, extras, firstRow, firstColumn);
    t.store(acc, y, {firstRow, firstColumn}, {0, 1});
    SymbolicDim blocks(static_cast<int64_t>(llvm::divideCeil(panels, group)));
    return KernelWriter::Variant{writer.finish(stem), guard, SymbolicDim::ceilDiv(p.m, s.rows), blocks};
  }

  KernelWriter &getWriter() { return writer; }

private:
  Value blockStart(uint64_t dim, int64_t step) {
    Value block = tile::BlockIdOp::create(b, loc, b.getIndexType(), dim);
    return arith::MulIOp::create(b, loc, block, writer.constant(step));
  }

  void multiply(Value acc, Value a, Value w, Value firstPanel, Value firstRow, int64_t rows) {
    SmallVector<OpFoldResult> offsets{firstPanel, firstRow, b.getIndexAttr(0)},
        sizes{b.getIndexAttr(group), b.getIndexAttr(rows), b.getIndexAttr(p.panel)}, steps(3, b.getIndexAttr(1));
    Value part = memref::SubViewOp::create(b, loc, w, offsets, sizes, steps);
    tile::MmaOp::create(b, loc, acc, a, part, /*transpose_b=*/false, /*panels=*/true);
  }

  /// a = norm(a) * gamma + beta, row by row.
  void normalize(Value a, Value gamma, Value beta) {
    NormKind norm = p.op.getNorm();
    if (norm == NormKind::none) {
      return;
    }
    Value zero = writer.constant(0);
    Value scale = t.fragment(s.rows, 1);
    Value width = t.number(1.0f / static_cast<float>(p.k)), eps = t.number(p.op.getEps().convertToFloat());
    auto mul = [&](Value x, Value y) { return arith::MulFOp::create(b, loc, x, y).getResult(); };
    auto add = [&](Value x, Value y) { return arith::AddFOp::create(b, loc, x, y).getResult(); };
    if (norm == NormKind::layer) {
      Value mean = t.fragment(s.rows, 1);
      t.reduce(tile::ReduceKind::add, a, mean);
      t.map({a, mean}, a,
            [&](ValueRange v) { return arith::SubFOp::create(b, loc, v[0], mul(v[1], width)).getResult(); });
    }
    Value squares = t.fragment(s.rows, p.k);
    t.map({a}, squares, [&](ValueRange v) { return mul(v[0], v[0]); });
    t.reduce(tile::ReduceKind::add, squares, scale);
    t.map({scale}, scale,
          [&](ValueRange v) { return math::RsqrtOp::create(b, loc, add(mul(v[0], width), eps)).getResult(); });
    SmallVector<Value> factors{a, scale};
    for (Value source : {gamma, beta}) {
      if (source) {
        Value tile = t.shared(1, p.k);
        t.load(tile, source, {zero, zero}, {0, 1});
        factors.push_back(tile);
      }
    }
    t.map(factors, a, [&](ValueRange v) {
      Value value = mul(v[0], v[1]);
      if (gamma) {
        value = mul(value, v[2]);
      }
      return beta ? add(value, v.back()) : value;
    });
  }

  void epilogue(Value acc, ArrayRef<Value> extras, Value firstRow, Value firstColumn) {
    SmallVector<Value> tiles;
    Value zero = writer.constant(0);
    for (auto [source, extra] : llvm::zip(extras, p.extras)) {
      Value tile = t.shared(extra.perRow ? s.rows : 1, extra.perColumn ? s.columns : 1,
                            cast<MemRefType>(source.getType()).getElementType());
      t.load(tile, source, {extra.perRow ? firstRow : zero, extra.perColumn ? firstColumn : zero}, {0, 1});
      tiles.push_back(tile);
    }
    buildEpilogue(t, p.op, acc, {}, {}, tiles);
  }

  Problem &p;
  LinearSchedule s;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  int64_t panels, group, depth;
};

/// Rows of a block such that a normalised row fits, as many as `wanted` at most; 0 where not even a few do.
int64_t rowsThatFit(const FusedLinearOp &op, int64_t k, int64_t wanted, bool norm) {
  int64_t fit = norm ? kRowBytes / (4 * k) : wanted;
  return fit >= wanted ? wanted : fit / 6 * 6;
}

struct KimiScheduleLinear : kimi::impl::KimiScheduleLinearBase<KimiScheduleLinear> {
  using KimiScheduleLinearBase::KimiScheduleLinearBase;

  void runOnOperation() override {
    KernelPool pool(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal()) {
        continue;
      }
      SmallVector<FusedLinearOp> ops;
      func.walk([&](FusedLinearOp op) { ops.push_back(op); });
      if (ops.empty()) {
        continue;
      }
      HostContext context(func, pool);
      for (FusedLinearOp op : ops) {
        std::string obstacle = whyNot(op);
        if (!obstacle.empty()) {
          op.emitRemark() << "is computed by the reference lowering: " << obstacle;
          continue;
        }
        if (failed(schedule(context, op))) {
          return signalPassFailure();
        }
        ++numScheduled;
      }
      context.finish();
    }
  }

  std::string whyNot(FusedLinearOp op) {
    std::string obstacle = whyNotLinear(op);
    if (!obstacle.empty()) {
      return obstacle;
    }
    auto w = cast<RankedTensorType>(op.getW().getType());
    int64_t k = w.getDimSize(op.getTranspose() ? 1 : 0);
    if (rowsThatFit(op, k, kManyRows.rows, op.getNorm() != NormKind::none) == 0) {
      return "its rows of " + std::to_string(k) + " elements are too long to be normalised within a block";
    }
    return {};
  }

  LogicalResult schedule(HostContext &context, FusedLinearOp op) {
    Problem p(context, op, panel);
    LinearSchedule many = kManyRows;
    many.rows = rowsThatFit(op, p.k, many.rows, p.hasNorm());
    std::string stem = linearStem(op);
    struct Choice {
      LinearSchedule schedule;
      SymbolicDim guard;
      const char *suffix;
    };
    SmallVector<Choice> choices;
    std::optional<int64_t> fixed = p.m.getConstant();
    if (!fixed || *fixed == 1) {
      choices.push_back({kOneRow, SymbolicDim::eq(p.m, 1), "_m1"});
    }
    if (!fixed || (*fixed > 1 && *fixed <= kFewRows.rows)) {
      choices.push_back({kFewRows, SymbolicDim::le(p.m, kFewRows.rows), "_m4"});
    }
    if (!fixed || *fixed > kFewRows.rows || *fixed < 1) {
      choices.push_back({many, SymbolicDim(1), ""});
    }
    SmallVector<KernelWriter::Variant> variants;
    SmallVector<std::unique_ptr<LinearKernel>> kernels;
    for (const Choice &choice : choices) {
      kernels.push_back(std::make_unique<LinearKernel>(context, p, choice.schedule));
      FailureOr<KernelWriter::Variant> variant = kernels.back()->build(stem + choice.suffix, choice.guard);
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
    }
    Value y = kernels.back()->getWriter().dispatch(variants).getResult(0);
    OpBuilder b(p.op);
    auto type = cast<RankedTensorType>(p.op.getType());
    Value result = fromMatrix(context, b, p.op.getLoc(), y, type, context.scalars.shape(p.op.getResult()));
    context.replace(p.op, result);
    return success();
  }
};
} // namespace
