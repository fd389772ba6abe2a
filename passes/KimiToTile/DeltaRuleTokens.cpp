//===- DeltaRuleTokens.cpp - a delta rule, token by token
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One block a head and a part of the value channels. The state stays in registers; norms of q and k and the formulas of
// the gates are computed in each block, beside the loads of its state, which take longer.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes/KimiToTile/DeltaRuleGpuKernel.h"
#include "passes/KimiToTile/HostViews.h"
#include "passes/KimiToTile/LoopKernels.h"

using namespace mlir;
using namespace kimi;

static int64_t rankOf(Value operand) { return cast<RankedTensorType>(operand.getType()).getRank(); }

/// The buffers of what `operand` is computed from. False where one cannot be an argument.
bool DeltaRuleGpuKernel::importSource(Source &source, const DeltaRuleInput &input, Value operand) {
  source.input = &input;
  source.operand = operand;
  auto argument = [&](Value tensor, ArrayRef<unsigned> axes) {
    Source::Part part{nullptr, SmallVector<int64_t>(axes.begin(), axes.end())};
    if (axes.size() == 1) { // a tile is loaded along two axes
      tensor = asMatrix(context, op, tensor);
      part.axes.insert(part.axes.begin(), -1);
    }
    part.buffer = writer.input(tensor);
    return part;
  };
  if (!input.formula) {
    source.parts.push_back(argument(input.tensor, input.axes));
    return source.parts.back().buffer != nullptr;
  }
  linalg::GenericOp formula = input.formula;
  for (OpOperand *in : formula.getDpsInputOperands()) {
    source.parts.emplace_back();
    if (!formula.payloadUsesValueFromOperand(in)) {
      continue;
    }
    BlockArgument element = formula.getMatchingBlockArgument(in);
    if (Value uniform = uniformValue(writer, in->get())) {
      source.values.map(element, uniform);
      continue;
    }
    SmallVector<unsigned> axes;
    for (AffineExpr expr : formula.getMatchingIndexingMap(in).getResults()) {
      axes.push_back(input.axes[cast<AffineDimExpr>(expr).getPosition()]);
    }
    source.parts.back() = argument(in->get(), axes);
    if (!source.parts.back().buffer) {
      return false;
    }
  }
  return succeeded(importCaptured(writer, formula, source.values));
}

/// Where `token`'s row of `part` begins, at channel `first`.
SmallVector<Value> DeltaRuleGpuKernel::startOf(const Source &source, const Source::Part &part, Value token,
                                               Value first) {
  int64_t own = cast<RankedTensorType>(source.operand.getType()).getDimSize(1);
  Value ownHead = own == heads ? head : divide(head, writer.constant(heads / own));
  std::array<Value, 4> positions{batchIndex, ownHead, token, first};
  SmallVector<Value> start;
  for (int64_t axis : part.axes) {
    start.push_back(axis < 0 ? zero : positions[axis]);
  }
  return start;
}

/// Loads the channels of `token` from `part`: down a tile of one column, or along one of one row.
void DeltaRuleGpuKernel::loadChannels(Value tile, const Source &source, const Source::Part &part, Value token,
                                      Value first) {
  const auto *of = llvm::find(part.axes, 3);
  int64_t channels = of - part.axes.begin(), other = channels == 0 ? 1 : channels - 1;
  bool isColumn = cast<MemRefType>(tile.getType()).getDimSize(1) == 1;
  t.load(tile, part.buffer, startOf(source, part, token, first),
         isColumn ? ArrayRef<int64_t>{channels, other} : ArrayRef<int64_t>{other, channels});
}

/// The channels of `token`, [Dk, 1], as the rule reads them.
Value DeltaRuleGpuKernel::channelsOf(const Source &source, Value token) {
  Value column = t.fragment(depth, 1);
  loadChannels(column, source, source.parts.front(), token, zero);
  if (!source.input->eps) {
    return column;
  }
  float eps = *source.input->eps;
  Value squares = t.fragment(depth, 1), factor = t.fragment(1, 1);
  t.map({column}, squares, [&](ValueRange e) { return mul(e[0], e[0]); });
  t.reduce(tile::ReduceKind::add, squares, factor, /*accumulate=*/false, /*axis=*/0);
  t.map({factor}, factor, [&](ValueRange e) -> Value {
    Value root = math::RsqrtOp::create(b, loc, add(e[0], t.number(eps)));
    if (eps != 0.0f) {
      return root;
    }
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, e[0], t.number(0.0f));
    return select(none, t.number(0.0f), root);
  });
  t.map({column, factor}, column, [&](ValueRange e) { return mul(e[0], e[1]); });
  return column;
}

/// The gates of `token`: one number, [1, 1], or one a channel: of the keys, [Dk, 1], or of this block's values, [1, N].
Value DeltaRuleGpuKernel::gatesOf(const Source &source, Value token, bool ofKeys) {
  bool whole = rankOf(source.operand) == 4;
  Value first = whole && !ofKeys ? firstColumn : zero;
  auto fragment = [&](bool channels) {
    return channels && ofKeys ? t.fragment(depth, 1) : t.fragment(1, channels ? s.columns : 1);
  };
  Value gates = fragment(whole);
  linalg::GenericOp formula = source.input->formula;
  if (!formula) {
    const Source::Part &part = source.parts.front();
    if (whole) {
      loadChannels(gates, source, part, token, first);
    } else {
      t.load(gates, part.buffer, startOf(source, part, token, first), {1, 2});
    }
    return gates;
  }
  // What has no channels is one number for all threads.
  IRMapping values = source.values;
  SmallVector<Value> tiles;
  SmallVector<BlockArgument> elements;
  for (auto [in, part] : llvm::zip_equal(formula.getDpsInputOperands(), source.parts)) {
    if (!part.buffer) {
      continue;
    }
    BlockArgument element = formula.getMatchingBlockArgument(in);
    if (!llvm::is_contained(part.axes, 3)) {
      Value number = memref::LoadOp::create(b, loc, part.buffer, startOf(source, part, token, first));
      values.map(element, number);
      continue;
    }
    Value tile = fragment(true);
    loadChannels(tile, source, part, token, first);
    tiles.push_back(tile);
    elements.push_back(element);
  }
  t.map(tiles, gates, [&](ValueRange e) {
    for (auto [element, value] : llvm::zip_equal(elements, e)) {
      values.map(element, castTo(value, element.getType()));
    }
    Block &body = *formula.getBody();
    return widened(t.inlined(body, body.getTerminator()->getOperand(0), values, isNarrow()));
  });
  return gates;
}

void DeltaRuleGpuKernel::runTokens() {
  Value memory = t.fragment(depth, s.columns), products = t.fragment(depth, s.columns);
  Value fade = t.fragment(depth, 1), sum = t.fragment(1, s.columns), value = t.fragment(1, s.columns);
  if (initial) {
    t.load(memory, initial, {batchIndex, head, zero, firstColumn}, {2, 3});
  } else {
    t.fill(memory, 0.0f);
  }
  const Source::Part &queries = sources.q.parts.front();
  Value tokens = writer.extent(queries.buffer, llvm::find(queries.axes, 2) - queries.axes.begin());
  buildLoop(b, loc, zero, tokens, writer.constant(1), [&](Value token) {
    Value key = channelsOf(sources.k, token), query = channelsOf(sources.q, token);
    t.load(value, v, {batchIndex, headOf(v), token, firstColumn}, {2, 3});
    if (op.getDecay()) {
      t.map({gatesOf(sources.decay, token, true)}, fade, [&](ValueRange e) { return exponential(e[0]); });
      t.map({memory, fade}, memory, [&](ValueRange e) { return mul(e[0], e[1]); });
    }
    if (op.getBeta() || op.getWrite()) {
      Value gates = gatesOf(op.getBeta() ? sources.beta : sources.write, token, false);
      t.map({value, gates}, value, [&](ValueRange e) { return mul(e[0], e[1]); });
    }
    if (erases) {
      Value gates = gatesOf(op.getBeta() ? sources.beta : sources.erase, token, true);
      t.map({memory, key, gates}, products, [&](ValueRange e) { return mul(e[0], mul(e[1], e[2])); });
      t.reduce(tile::ReduceKind::add, products, sum, /*accumulate=*/false, /*axis=*/0);
      t.map({value, sum}, value, [&](ValueRange e) { return sub(e[0], e[1]); });
    }
    t.map({memory, key, value}, memory, [&](ValueRange e) { return add(e[0], mul(e[1], e[2])); });
    t.map({memory, query}, products, [&](ValueRange e) { return mul(e[0], e[1]); });
    t.reduce(tile::ReduceKind::add, products, sum, /*accumulate=*/false, /*axis=*/0);
    t.map({sum}, sum, [&](ValueRange e) { return mul(e[0], t.number(scale)); });
    storeResult(sum, token);
  });
  if (state) {
    t.store(memory, state, {batchIndex, head, zero, firstColumn}, {2, 3});
  }
}
