//===- OpsDelta.cpp - LinearAttention and CausalConvWithState
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include <cmath>

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// LinearAttention
//===----------------------------------------------------------------------===//

namespace {
/// The extents of a LinearAttention node. Where com.microsoft allows it, states may outnumber the heads of q and k.
struct LinearShape {
  SymbolicDim batch = 0, tokens = 0, keySize = 0, valueSize = 0;
  int64_t queryHeads = 0, keyHeads = 0, heads = 0;
  bool decays = false, corrects = false;

  int64_t resultHeads() const { return std::max(queryHeads, heads); }
};
} // namespace

static FailureOr<LinearShape> linearShape(InferContext &c) {
  LinearShape s;
  for (unsigned index = 0; index < 3; ++index) {
    if (!c.has(index) || c.in(index).rank() != 3) {
      return c.fail("query, key and value must be [batch, tokens, heads * channels]");
    }
  }
  bool contributed = !c.node.getDomain().empty();
  s.queryHeads = c.node.getInt("q_num_heads", 0);
  s.heads = c.node.getInt("kv_num_heads", 0);
  if (s.queryHeads <= 0 || s.heads <= 0) {
    return c.fail("q_num_heads and kv_num_heads must be at least 1");
  }
  bool grouped = s.queryHeads % s.heads == 0, inverse = contributed && s.heads % s.queryHeads == 0;
  if (!grouped && !inverse) {
    return c.fail("q_num_heads of " + Twine(s.queryHeads) + " and kv_num_heads of " + Twine(s.heads) +
                  (contributed ? " do not divide each other" : ": the first must be a multiple of the second"));
  }
  if (c.node.getInt("state_window", 0) != 0) {
    return c.fail("state_window (states to roll back to) is not supported");
  }
  for (auto [index, heads] : {std::pair(0u, s.queryHeads), {2u, s.heads}}) {
    std::optional<int64_t> width = c.shape(index)[2].getConstant();
    if (width && *width % heads != 0) {
      return c.fail((index == 0 ? "query has " : "value has ") + Twine(*width) + " channels, which " + Twine(heads) +
                    " heads do not share evenly");
    }
  }
  s.batch = c.shape(0)[0];
  s.tokens = c.shape(0)[1];
  s.keySize = SymbolicDim::floorDiv(c.shape(0)[2], s.queryHeads);
  s.valueSize = SymbolicDim::floorDiv(c.shape(2)[2], s.heads);
  s.keyHeads = s.heads;
  // The width of the keys says how many heads share them.
  std::optional<int64_t> width = c.shape(1)[2].getConstant(), size = s.keySize.getConstant();
  if (width && size && *size > 0) {
    s.keyHeads = *width / *size;
    if (*width % *size != 0 || s.keyHeads <= 0 || s.heads % s.keyHeads != 0) {
      return c.fail("keys of " + Twine(*width) + " channels are no number of heads of " + Twine(*size) +
                    " that divides kv_num_heads of " + Twine(s.heads));
    }
    if (!contributed && s.keyHeads != s.heads) {
      return c.fail("keys of " + Twine(s.keyHeads) + " heads, but kv_num_heads is " + Twine(s.heads));
    }
  }
  StringRef rule = c.node.getString("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    return c.fail("update_rule '" + rule + "' is none of linear, gated, delta and gated_delta");
  }
  s.decays = rule.starts_with("gated");
  s.corrects = rule.ends_with("delta");
  if (c.has(4) != s.decays) {
    return c.fail("update_rule " + rule + (s.decays ? " needs decay" : " takes no decay"));
  }
  if (c.has(5) != s.corrects) {
    return c.fail("update_rule " + rule + (s.corrects ? " needs beta" : " takes no beta"));
  }
  if (c.has(3) && c.in(3).rank() != 4) {
    return c.fail("past_state must be [batch, kv_num_heads, key channels, value channels]");
  }
  if (c.has(3)) {
    SymbolicDim expected[] = {s.heads, s.keySize, s.valueSize};
    for (auto [given, dim] : llvm::zip_equal(llvm::ArrayRef(c.shape(3)).drop_front(), expected)) {
      if (given.isConstant() && dim.isConstant() && given != dim) {
        return c.fail("past_state has an extent of " + given.str() + " where " + dim.str() +
                      " is expected: [batch, kv_num_heads, key channels, value channels]");
      }
    }
  }
  for (unsigned gate : {4, 5}) {
    if (c.has(gate) && c.in(gate).rank() != 3) {
      return c.fail(gate == 4 ? "decay must be [batch, tokens, kv_num_heads (* key channels)]"
                              : "beta must be [batch, tokens, kv_num_heads or 1]");
    }
  }
  return s;
}

static LogicalResult inferLinear(InferContext &c) {
  FailureOr<LinearShape> s = linearShape(c);
  if (failed(s)) {
    return failure();
  }
  for (unsigned i : {1u, 2u, 4u, 5u}) {
    SymbolicDim rows[] = {s->batch, s->tokens};
    if (c.has(i) && failed(c.same(ArrayRef(c.shape(i)).take_front(2), rows, "the extents of batch and tokens"))) {
      return failure();
    }
  }
  if (c.has(3) &&
      failed(c.same(c.shape(3), {s->batch, s->heads, s->keySize, s->valueSize}, "the extents of past_state"))) {
    return failure();
  }
  Type element = c.in(0).elementType;
  c.setOut(ValueInfo(element, {s->batch, s->tokens, s->valueSize * SymbolicDim(s->resultHeads())}));
  c.setOut(1, ValueInfo(c.has(3) ? c.in(3).elementType : element, {s->batch, s->heads, s->keySize, s->valueSize}));
  return success();
}

/// [B, T, H*D] as [B, H, T, D].
static Tensor splitHeads(BuildContext &c, const Tensor &x, int64_t heads, const SymbolicDim &size) {
  return c.transpose(c.reshape(x, {x.shape[0], x.shape[1], heads, size}), {0, 2, 1, 3});
}

static LogicalResult buildLinear(BuildContext &c) {
  LinearShape s = *linearShape(c);
  Type single = c.b.getF32Type();
  Tensor q = splitHeads(c, c.input(0), s.queryHeads, s.keySize);
  Tensor k = splitHeads(c, c.input(1), s.keyHeads, s.keySize);
  Tensor v = splitHeads(c, c.input(2), s.heads, s.valueSize);
  Value initial, decay, beta;
  if (c.has(3)) {
    initial = c.value(c.cast(c.input(3), single));
  }
  if (s.decays) {
    Tensor gate = c.cast(c.input(4), single);
    if (gate.shape[2].is(s.heads)) {
      decay = c.value(c.transpose(gate, {0, 2, 1}));
    } else if (gate.shape[2] == s.keySize * SymbolicDim(s.heads)) {
      decay = c.value(splitHeads(c, gate, s.heads, s.keySize));
    } else {
      return c.fail("decay has " + gate.shape[2].str() + " channels; expected kv_num_heads of " + Twine(s.heads) +
                    ", or that many times the key channels");
    }
  }
  if (s.corrects) {
    Tensor gate = c.cast(c.input(5), single);
    if (!gate.shape[2].is(s.heads) && !gate.shape[2].is(1)) {
      return c.fail("beta has " + gate.shape[2].str() + " channels; expected kv_num_heads of " + Twine(s.heads) +
                    ", or 1");
    }
    beta = c.value(c.transpose(gate, {0, 2, 1}));
  }
  double scale = c.node.getFloat("scale", 0.0);
  if (scale == 0.0) {
    std::optional<int64_t> size = s.keySize.getConstant();
    if (!size || *size <= 0) {
      return c.fail("the head size must be constant where scale is not given");
    }
    scale = 1.0 / std::sqrt(static_cast<double>(*size));
  }
  Shape shape = {s.batch, s.resultHeads(), s.tokens, s.valueSize};
  Shape memory = {s.batch, s.heads, s.keySize, s.valueSize};
  auto op = DeltaRuleOp::create(c.b, c.loc, tensorType(shape, storageType(q.type)), tensorType(memory, single),
                                c.value(q), c.value(k), c.value(v), decay, beta, /*erase=*/Value(), /*write=*/Value(),
                                initial, c.b.getF32FloatAttr(static_cast<float>(scale)), FloatAttr());
  Tensor out = c.transpose(c.wrap(op.getResult(), shape, q.type), {0, 2, 1, 3});
  c.give(c.reshape(out, {s.batch, s.tokens, s.valueSize * SymbolicDim(s.resultHeads())}));
  if (c.wants(1)) {
    c.give(1, c.cast(c.wrap(op.getState(), memory, single), c.result(1).elementType));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// CausalConvWithState
//===----------------------------------------------------------------------===//

static LogicalResult inferConv(InferContext &c) {
  if (!c.has(0) || c.in(0).rank() != 3) {
    return c.fail("input must be [batch, channels, tokens]");
  }
  if (!c.has(1) || c.in(1).rank() != 3 || !c.shape(1)[1].is(1)) {
    return c.fail("weight must be [channels, 1, taps]");
  }
  std::optional<int64_t> taps = c.shape(1)[2].getConstant();
  if (!taps || *taps < 1) {
    return c.fail("the number of taps must be a constant of at least 1");
  }
  if (c.node.getInt("ndim", 1) != 1 || c.node.getInt("channels_last", 0) != 0 ||
      c.node.getInt("state_window", 0) != 0) {
    return c.fail("only one axis, channels first, without state_window is supported");
  }
  if (c.node.getInt("dilation", 1) != 1) {
    return c.fail("a dilation of " + Twine(c.node.getInt("dilation", 1)) + " is not supported");
  }
  if (std::optional<SmallVector<int64_t>> dilations = c.node.getInts("dilation");
      dilations && llvm::any_of(*dilations, [](int64_t dilation) { return dilation != 1; })) {
    return c.fail("dilation is not supported");
  }
  StringRef activation = c.node.getString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return c.fail("activation '" + activation + "' is none of none, silu and swish");
  }
  if (c.has(2) && c.in(2).rank() != 1) {
    return c.fail("bias must be [channels]");
  }
  if (c.has(3) && c.in(3).rank() != 3) {
    return c.fail("past_state must be [batch, channels, taps - 1]");
  }
  const Shape &x = c.shape(0);
  bool fits = succeeded(c.same(c.shape(1)[0], x[1], "the channels of weight and input")) &&
              (!c.has(2) || succeeded(c.same(c.shape(2)[0], x[1], "the channels of bias and input"))) &&
              (!c.has(3) || succeeded(c.same(c.shape(3), {x[0], x[1], *taps - 1}, "the extents of past_state")));
  if (!fits) {
    return failure();
  }
  Type element = c.in(0).elementType;
  c.setOut(ValueInfo(element, c.shape(0)));
  c.setOut(1,
           ValueInfo(c.has(3) ? c.in(3).elementType : element, {c.shape(0)[0], c.shape(0)[1], SymbolicDim(*taps - 1)}));
  return success();
}

static LogicalResult buildConv(BuildContext &c) {
  Tensor x = c.input(0), weight = c.input(1);
  Value w = c.value(c.reshape(weight, {weight.shape[0], weight.shape[2]}));
  Value bias = c.has(2) ? c.value(c.input(2)) : Value(), past = c.has(3) ? c.value(c.input(3)) : Value();
  Shape window = {x.shape[0], x.shape[1], weight.shape[2] - SymbolicDim(1)};
  Type kept = c.has(3) ? c.in(3).elementType : x.type;
  StringRef name = c.node.getString("activation", "none");
  auto activation =
      ConvActivationAttr::get(c.b.getContext(), name == "none" ? ConvActivation::none : ConvActivation::silu);
  auto op = CausalConvOp::create(c.b, c.loc, tensorType(x.shape, x.type), tensorType(window, kept), c.value(x), w, bias,
                                 past, activation);
  c.give(c.wrap(op.getResult(), x.shape, x.type));
  if (c.wants(1)) {
    c.give(1, c.wrap(op.getWindow(), window, kept));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

/// Shapes are inferred by SymbolicShapes, which reads the body.
static LogicalResult inferScan(InferContext &c) { return c.fail("its body is not understood"); }

static LogicalResult buildScan(BuildContext &c) {
  return c.fail("only a recurrence that is a delta rule (o = q S, S = decay * S + k (write * v - erase * k S)) is "
                "supported; what --onnx-raise-delta-rule remarks says why this one is not");
}

void kimi::onnx::registerDeltaOps(OpTable &table) {
  table.add("LinearAttention", 27, inferLinear, buildLinear);
  table.addMicrosoft("LinearAttention", inferLinear, buildLinear, "no state_window");
  table.add("Scan", 9, inferScan, buildScan, "recurrences that are a delta rule");
  table.add("CausalConvWithState", 27, inferConv, buildConv);
  table.addMicrosoft("CausalConvWithState", inferConv, buildConv,
                     "one axis, channels first, no dilation, no state_window");
}
