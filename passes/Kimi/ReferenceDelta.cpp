//===- ReferenceDelta.cpp - the delta rule and the causal convolution, token by token
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Kimi/Reference.h"

using namespace mlir;
using namespace kimi;

namespace {

/// The body of a kimi.loops that runs the recurrence of one batch entry and one head of the state.
class DeltaLoops {
public:
  DeltaLoops(OpBuilder &b, Location loc, DeltaRuleOp op) : b(b), loc(loc), op(op) {}

  /// `args`: the op's operands that are there, in order, the result, the state, and the row.
  void build(ValueRange args) {
    auto next = args.begin();
    auto take = [&](Value operand) { return operand ? *next++ : Value(); };
    q = take(op.getQ());
    k = take(op.getK());
    v = take(op.getV());
    decay = take(op.getDecay());
    beta = take(op.getBeta());
    erase = take(op.getErase());
    write = take(op.getWrite());
    initial = take(op.getInitial());
    out = *next++;
    state = *next++;
    Value row = *next;
    zero = index(0);
    one = index(1);
    keys = memref::DimOp::create(b, loc, q, 3);
    values = memref::DimOp::create(b, loc, v, 3);
    columns = memref::DimOp::create(b, loc, state, 3);
    Value tokens = memref::DimOp::create(b, loc, q, 2), heads = index(op.getStateHeads());
    batch = arith::DivUIOp::create(b, loc, row, heads);
    head = arith::RemUIOp::create(b, loc, row, heads);
    each(keys, [&](Value i) {
      each(columns, [&](Value j) {
        Value start = initial ? load(initial, {batch, head, i, j}) : number(0.0);
        memref::StoreOp::create(b, loc, start, state, ValueRange{batch, head, i, j});
      });
    });
    each(tokens, [&](Value t) {
      each(columns, [&](Value j) { update(t, j); });
      readOut(t);
    });
  }

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value number(double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value))); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value load(Value buffer, ValueRange at) {
    return castFloat(b, loc, memref::LoadOp::create(b, loc, buffer, at), b.getF32Type());
  }
  void each(Value extent, llvm::function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, loc, zero, extent, one);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  Value sum(Value extent, llvm::function_ref<Value(Value)> term) {
    auto loop = scf::ForOp::create(b, loc, zero, extent, one, ValueRange{number(0.0)});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b, loc, add(loop.getRegionIterArg(0), term(loop.getInductionVar())));
    return loop.getResult(0);
  }
  /// The head of `buffer` that the head `of` of `all` reads.
  Value headOf(Value buffer, Value of, int64_t all) {
    int64_t own = cast<MemRefType>(buffer.getType()).getDimSize(1);
    return own == all ? of : arith::DivUIOp::create(b, loc, of, index(all / own)).getResult();
  }
  /// An operand of the state at token t and channel c.
  Value at(Value buffer, Value t, Value c) {
    Value own = headOf(buffer, head, op.getStateHeads());
    return cast<MemRefType>(buffer.getType()).getRank() == 4 ? load(buffer, {batch, own, t, c})
                                                             : load(buffer, {batch, own, t});
  }

  /// Column j of the state after token t.
  void update(Value t, Value j) {
    auto element = [&](Value i) { return SmallVector<Value>{batch, head, i, j}; };
    if (decay) {
      each(keys, [&](Value i) {
        Value faded = mul(load(state, element(i)), math::ExpOp::create(b, loc, at(decay, t, i)));
        memref::StoreOp::create(b, loc, faded, state, element(i));
      });
    }
    Value written;
    if (op.getNormalize()) { // the last column sums the keys
      Value isValue = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, j, values);
      auto choice = scf::IfOp::create(b, loc, TypeRange(b.getF32Type()), isValue, /*withElseRegion=*/true);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(choice.thenBlock());
      scf::YieldOp::create(b, loc, at(v, t, j));
      b.setInsertionPointToStart(choice.elseBlock());
      scf::YieldOp::create(b, loc, number(1.0));
      written = choice.getResult(0);
    } else {
      written = at(v, t, j);
    }
    if (write) {
      written = mul(at(write, t, j), written);
    }
    if (op.erases()) {
      Value found = sum(keys, [&](Value i) {
        Value key = at(k, t, i);
        return mul(erase ? mul(at(erase, t, i), key) : key, load(state, element(i)));
      });
      written = sub(written, found);
    }
    if (beta) {
      written = mul(at(beta, t, zero), written);
    }
    each(keys, [&](Value i) {
      Value updated = add(load(state, element(i)), mul(at(k, t, i), written));
      memref::StoreOp::create(b, loc, updated, state, element(i));
    });
  }

  /// The results of token t that read this head's state.
  void readOut(Value t) {
    int64_t heads = op.getResultHeads(), group = heads / op.getStateHeads();
    each(index(group), [&](Value member) {
      Value own = add(head, member, group);
      Value query = headOf(q, own, heads);
      auto product = [&](Value j) {
        Value total =
            sum(keys, [&](Value i) { return mul(load(q, {batch, query, t, i}), load(state, {batch, head, i, j})); });
        return mul(total, number(op.getScale().convertToDouble()));
      };
      Value divisor;
      if (op.getNormalize()) {
        divisor = add(product(values), number(op.getNormalize()->convertToDouble()));
      }
      each(values, [&](Value j) {
        Value value = product(j);
        if (divisor) {
          value = arith::DivFOp::create(b, loc, value, divisor);
        }
        value = castFloat(b, loc, value, cast<MemRefType>(out.getType()).getElementType());
        memref::StoreOp::create(b, loc, value, out, ValueRange{batch, own, t, j});
      });
    });
  }
  Value add(Value head, Value member, int64_t group) {
    if (group == 1) {
      return head;
    }
    Value first = arith::MulIOp::create(b, loc, head, index(group));
    return arith::AddIOp::create(b, loc, first, member);
  }

  OpBuilder &b;
  Location loc;
  DeltaRuleOp op;
  Value q, k, v, decay, beta, erase, write, initial, out, state;
  Value zero, one, keys, values, columns, batch, head;
};

/// The type of a buffer that holds `value`.
MemRefType bufferOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return MemRefType::get(type.getShape(), type.getElementType());
}

struct LowerDeltaRule : OpRewritePattern<DeltaRuleOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DeltaRuleOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    ReifiedRankedShapedTypeDims shapes;
    if (failed(op.reifyResultShapes(rewriter, shapes))) {
      return rewriter.notifyMatchFailure(op, "the shapes of its results are not known");
    }
    SmallVector<Value> dims;
    SmallVector<Type> arguments;
    for (Value operand : op->getOperands()) {
      arguments.push_back(bufferOf(operand));
    }
    for (auto [result, shape] : llvm::zip_equal(op->getResults(), shapes)) {
      arguments.push_back(bufferOf(result));
      for (auto [axis, size] : llvm::enumerate(shape)) {
        if (cast<RankedTensorType>(result.getType()).isDynamicDim(axis)) {
          dims.push_back(getValueOrCreateConstantIndexOp(rewriter, loc, size));
        }
      }
    }
    arguments.push_back(rewriter.getIndexType());
    Value batch = getValueOrCreateConstantIndexOp(rewriter, loc, tensor::getMixedSize(rewriter, loc, op.getQ(), 0));
    Value heads = arith::ConstantIndexOp::create(rewriter, loc, op.getStateHeads());
    Value rows = arith::MulIOp::create(rewriter, loc, batch, heads);
    auto loops = LoopsOp::create(rewriter, loc, op->getResultTypes(), op->getOperands(), ValueRange(), dims, rows);
    loops->setAttr("kimi.name", rewriter.getStringAttr("delta_rule"));
    SmallVector<Location> locations(arguments.size(), loc);
    {
      OpBuilder::InsertionGuard guard(rewriter);
      Block *body = rewriter.createBlock(&loops.getBody(), {}, arguments, locations);
      DeltaLoops(rewriter, loc, op).build(body->getArguments());
      YieldOp::create(rewriter, loc, ValueRange());
    }
    rewriter.replaceOp(op, loops.getResults());
    return success();
  }
};

/// An element of concat(past, x) at column `at`, counted from past's first: what is before the tokens is past's, or 0.
Value windowElement(OpBuilder &b, Location loc, CausalConvOp op, Value batch, Value channel, Value at) {
  int64_t before = cast<RankedTensorType>(op.getWeight().getType()).getDimSize(1) - 1;
  Value edge = arith::ConstantIndexOp::create(b, loc, before);
  Value isNew = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, at, edge);
  auto choice = scf::IfOp::create(b, loc, TypeRange(b.getF32Type()), isNew, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  Value token = arith::SubIOp::create(b, loc, at, edge);
  Value fresh = tensor::ExtractOp::create(b, loc, op.getX(), ValueRange{batch, channel, token});
  scf::YieldOp::create(b, loc, castFloat(b, loc, fresh, b.getF32Type()));
  b.setInsertionPointToStart(choice.elseBlock());
  Value old;
  if (op.getPast() && before > 0) {
    old = tensor::ExtractOp::create(b, loc, op.getPast(), ValueRange{batch, channel, at});
    old = castFloat(b, loc, old, b.getF32Type());
  } else {
    old = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
  }
  scf::YieldOp::create(b, loc, old);
  return choice.getResult(0);
}

struct LowerCausalConv : OpRewritePattern<CausalConvOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CausalConvOp op, PatternRewriter &rewriter) const override {
    TensorCode code(rewriter, op.getLoc());
    auto resultType = cast<RankedTensorType>(op.getResult().getType());
    auto windowType = cast<RankedTensorType>(op.getWindow().getType());
    SmallVector<OpFoldResult> sizes = code.sizes(op.getX());
    int64_t taps = cast<RankedTensorType>(op.getWeight().getType()).getDimSize(1);
    SmallVector<TensorCode::Operand> operands;
    if (op.getBias()) {
      operands.push_back({op.getBias(), code.loops(3, {1})});
    }
    Value y = code.map(sizes, resultType.getElementType(), operands,
                       [&](OpBuilder &b, Location loc, ValueRange args) -> Value {
                         return convolve(b, loc, op, taps, op.getBias() ? args[0] : Value());
                       });
    SmallVector<OpFoldResult> columns = sizes;
    columns[2] = rewriter.getIndexAttr(taps - 1);
    OpFoldResult tokens = sizes[2];
    Value count = getValueOrCreateConstantIndexOp(rewriter, op.getLoc(), tokens);
    Value window = code.map(columns, windowType.getElementType(), {}, [&](OpBuilder &b, Location loc, ValueRange) {
      Value column = linalg::IndexOp::create(b, loc, 2);
      Value at = arith::AddIOp::create(b, loc, column, count);
      return windowElement(b, loc, op, linalg::IndexOp::create(b, loc, 0), linalg::IndexOp::create(b, loc, 1), at);
    });
    rewriter.replaceOp(op, {code.castTo(y, resultType), code.castTo(window, windowType)});
    return success();
  }

  /// y[b,c,t] at the place of the loops.
  static Value convolve(OpBuilder &b, Location loc, CausalConvOp op, int64_t taps, Value bias) {
    Value batch = linalg::IndexOp::create(b, loc, 0), channel = linalg::IndexOp::create(b, loc, 1),
          token = linalg::IndexOp::create(b, loc, 2);
    Value zero = arith::ConstantIndexOp::create(b, loc, 0), one = arith::ConstantIndexOp::create(b, loc, 1),
          end = arith::ConstantIndexOp::create(b, loc, taps);
    if (!bias) {
      bias = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.0f));
    }
    auto loop = scf::ForOp::create(b, loc, zero, end, one, ValueRange{bias});
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value tap = loop.getInductionVar();
      Value weight = tensor::ExtractOp::create(b, loc, op.getWeight(), ValueRange{channel, tap});
      Value at = arith::AddIOp::create(b, loc, token, tap);
      Value product = arith::MulFOp::create(b, loc, castFloat(b, loc, weight, b.getF32Type()),
                                            windowElement(b, loc, op, batch, channel, at));
      scf::YieldOp::create(b, loc, arith::AddFOp::create(b, loc, loop.getRegionIterArg(0), product).getResult());
    }
    Value y = loop.getResult(0);
    if (op.getActivation() == ConvActivation::silu) {
      Value unit = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
      Value exp = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, y));
      y = arith::DivFOp::create(b, loc, y, arith::AddFOp::create(b, loc, unit, exp));
    }
    return y;
  }
};

} // namespace

void kimi::populateReferenceDeltaPatterns(RewritePatternSet &patterns) {
  patterns.add<LowerDeltaRule, LowerCausalConv>(patterns.getContext());
}
