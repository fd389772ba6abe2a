//===- ReferenceRouting.cpp - routers, token by token
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kimi/Reference.h"
#include <limits>

using namespace mlir;
using namespace kimi;

namespace {

/// The body of the loops of one token (one row), and where it writes.
class RouteRow {
public:
  RouteRow(OpBuilder &b, Location loc, RouterOp op, Value row) : b(b), loc(loc), op(op), row(row) {}

  /// Values the groups (into `groupValues`: [N, groups]) and copies `choice` to `open`, `masked` in groups that are not
  /// kept.
  void mask(Value choice, Value groupValues, Value open) {
    int64_t groups = op.getGroups(), size = cast<MemRefType>(choice.getType()).getDimSize(1) / groups;
    Value lowest = number(-std::numeric_limits<double>::infinity()), members = index(size);
    forEach(groups, {}, [&](Value group, ValueRange) -> SmallVector<Value> {
      Value first = arith::MulIOp::create(b, loc, group, members);
      SmallVector<Value> best = forEach(size, {lowest, lowest}, [&](Value i, ValueRange found) -> SmallVector<Value> {
        Value item = load(choice, arith::AddIOp::create(b, loc, first, i));
        Value isBest = precedes(item, found[0]), isSecond = precedes(item, found[1]);
        Value second = select(isBest, found[0], select(isSecond, item, found[1]));
        return {select(isBest, item, found[0]), second};
      });
      Value value = op.getGroupTop() == 1 ? best[0] : arith::AddFOp::create(b, loc, best[0], best[1]).getResult();
      store(value, groupValues, group);
      return {};
    });
    forEach(groups, {}, [&](Value group, ValueRange) -> SmallVector<Value> {
      Value value = load(groupValues, group), one = index(1), none = index(0);
      Value rank = forEach(groups, {none}, [&](Value other, ValueRange count) -> SmallVector<Value> {
        Value ahead = comesFirst(load(groupValues, other), other, value, group);
        return {select(ahead, arith::AddIOp::create(b, loc, count[0], one), count[0])};
      })[0];
      Value kept = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, rank, index(op.getKeepGroups()));
      Value masked = number(op.getMasked().convertToDouble());
      Value first = arith::MulIOp::create(b, loc, group, members);
      forEach(size, {}, [&](Value i, ValueRange) -> SmallVector<Value> {
        Value expert = arith::AddIOp::create(b, loc, first, i);
        store(select(kept, load(choice, expert), masked), open, expert);
        return {};
      });
      return {};
    });
  }

  /// Places the experts of largest `choice`, one after another, and their weights from `scores`.
  void choose(Value scores, Value choice, Value indices, Value weights) {
    int64_t experts = cast<MemRefType>(choice.getType()).getDimSize(1), top = op.getTop();
    Value none = index(-1), zero = number(0.0);
    Type indexType = cast<MemRefType>(indices.getType()).getElementType();
    auto place = [&](Value slot, ValueRange placed) -> SmallVector<Value> {
      Value isFirst = equal(placed[1], none);
      SmallVector<Value> found = forEach(experts, {zero, none}, [&](Value i, ValueRange best) -> SmallVector<Value> {
        Value item = load(choice, i);
        Value isOpen = arith::OrIOp::create(b, loc, isFirst, comesFirst(placed[0], placed[1], item, i));
        Value isBetter = arith::OrIOp::create(b, loc, equal(best[1], none), precedes(item, best[0]));
        Value take = arith::AndIOp::create(b, loc, isOpen, isBetter);
        return {select(take, item, best[0]), select(take, i, best[1])};
      });
      Value weight = load(scores, found[1]);
      store(weight, weights, slot);
      store(arith::IndexCastOp::create(b, loc, indexType, found[1]), indices, slot);
      return {found[0], found[1], arith::AddFOp::create(b, loc, placed[2], weight)};
    };
    Value sum = forEach(top, {zero, none, zero}, place)[2];
    double scale = op.getScale().convertToDouble();
    if (!op.getNormalise() && scale == 1.0) {
      return;
    }
    forEach(top, {}, [&](Value slot, ValueRange) -> SmallVector<Value> {
      Value weight = load(weights, slot);
      if (op.getNormalise()) {
        Value eps = number(op.getNormalise()->convertToDouble());
        weight = arith::DivFOp::create(b, loc, weight, arith::AddFOp::create(b, loc, sum, eps));
      }
      store(arith::MulFOp::create(b, loc, weight, number(scale)), weights, slot);
      return {};
    });
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value number(double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value))); }
  Value load(Value buffer, Value column) { return memref::LoadOp::create(b, loc, buffer, ValueRange{row, column}); }
  void store(Value value, Value buffer, Value column) {
    memref::StoreOp::create(b, loc, value, buffer, ValueRange{row, column});
  }
  Value select(Value condition, Value x, Value y) { return arith::SelectOp::create(b, loc, condition, x, y); }
  Value equal(Value x, Value y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y); }

  /// x is larger than y; NaN is larger than every number.
  Value precedes(Value x, Value y) {
    Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x, y);
    Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
    Value isNumber = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, y, y);
    return arith::OrIOp::create(b, loc, larger, arith::AndIOp::create(b, loc, isNan, isNumber));
  }

  /// x at place i comes before y at place j: it is larger, or equal and i is lower.
  Value comesFirst(Value x, Value i, Value y, Value j) {
    Value lower = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, i, j);
    Value no = arith::ConstantIntOp::create(b, loc, 0, /*width=*/1);
    Value tied = select(precedes(y, x), no, lower);
    return arith::OrIOp::create(b, loc, precedes(x, y), tied);
  }

  /// A loop over [0, count) that carries `start`; the builder stands in its body while `body` runs.
  SmallVector<Value> forEach(int64_t count, ArrayRef<Value> start,
                             llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
    auto loop = scf::ForOp::create(b, loc, index(0), index(count), index(1), start);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
    if (!start.empty()) {
      scf::YieldOp::create(b, loc, next);
    }
    return SmallVector<Value>(loop.getResults());
  }

  OpBuilder &b;
  Location loc;
  RouterOp op;
  Value row;
};

/// The buffer of `type` that a body of kimi.loops sees.
MemRefType bufferOf(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  auto layout = StridedLayoutAttr::get(type.getContext(), ShapedType::kDynamic,
                                       SmallVector<int64_t>(type.getRank(), ShapedType::kDynamic));
  return MemRefType::get(type.getShape(), type.getElementType(), layout);
}

struct LowerRouter : OpRewritePattern<RouterOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(RouterOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getLogits());
    AffineMap all = code.identity(2);
    Type f32 = rewriter.getF32Type();
    Value scores = op.getLogits();
    if (op.getScores() == RouterScores::softmax) {
      scores = emitSoftmax(code, scores, /*axis=*/1, /*log=*/false, f32);
    } else {
      scores = code.map(sizes, f32, {{scores, all}}, [](OpBuilder &b, Location loc, ValueRange args) -> Value {
        return emitSigmoid(b, loc, args[0]);
      });
    }
    Value choice = scores;
    if (op.getBias()) {
      choice = code.map(sizes, f32, {{scores, all}, {op.getBias(), code.loops(2, {1})}},
                        [](OpBuilder &b, Location loc, ValueRange args) -> Value {
                          return arith::AddFOp::create(b, loc, args[0], args[1]);
                        });
    }
    auto [indices, weights] = emitSelection(code, op, scores, choice, sizes[0]);
    rewriter.replaceOp(op, {indices, weights});
    return success();
  }

  static std::pair<Value, Value> emitSelection(TensorCode &code, RouterOp op, Value scores, Value choice,
                                               OpFoldResult tokens) {
    OpBuilder &b = code.b;
    auto rows = [&](int64_t columns, Type element) {
      int64_t known = cast<RankedTensorType>(op.getLogits().getType()).getDimSize(0);
      return RankedTensorType::get({known, columns}, element);
    };
    int64_t experts = cast<RankedTensorType>(op.getLogits().getType()).getDimSize(1);
    Type f32 = b.getF32Type(), integer = cast<RankedTensorType>(op.getIndices().getType()).getElementType();
    bool grouped = op.getGroups() > 1 && op.getKeepGroups() < op.getGroups();
    int64_t top = op.getTop(), groups = op.getGroups();
    SmallVector<Type> types = {rows(top, integer), rows(top, f32)};
    if (grouped) {
      types.append({rows(groups, f32), rows(experts, f32)});
    }
    Value count = getValueOrCreateConstantIndexOp(b, code.loc, tokens);
    SmallVector<Value> dims;
    if (cast<RankedTensorType>(types[0]).isDynamicDim(0)) {
      dims.assign(types.size(), count);
    }
    SmallVector<Value> inputs = {scores};
    if (choice != scores) {
      inputs.push_back(choice);
    }
    auto loops = LoopsOp::create(b, code.loc, types, inputs, ValueRange(), dims, count);
    loops->setAttr("kimi.name", b.getStringAttr("router"));
    Block &block = loops.getBody().emplaceBlock();
    for (Value input : inputs) {
      block.addArgument(bufferOf(input.getType()), code.loc);
    }
    for (Type type : types) {
      block.addArgument(bufferOf(type), code.loc);
    }
    block.addArgument(b.getIndexType(), code.loc);
    OpBuilder inner = OpBuilder::atBlockEnd(&block);
    auto arguments = block.getArguments();
    unsigned first = inputs.size();
    RouteRow row(inner, code.loc, op, arguments.back());
    Value scoreBuffer = arguments[0], choiceBuffer = arguments[first - 1];
    if (grouped) {
      row.mask(choiceBuffer, arguments[first + 2], arguments[first + 3]);
      choiceBuffer = arguments[first + 3];
    }
    row.choose(scoreBuffer, choiceBuffer, arguments[first], arguments[first + 1]);
    kimi::YieldOp::create(inner, code.loc, ValueRange());
    return {code.castTo(loops.getResult(0), op.getIndices().getType()),
            code.castTo(loops.getResult(1), op.getWeights().getType())};
  }
};

} // namespace

void kimi::populateReferenceRouterPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerRouter>(patterns.getContext());
}
