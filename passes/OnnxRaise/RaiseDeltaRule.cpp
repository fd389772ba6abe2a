//===- RaiseDeltaRule.cpp - --onnx-raise-delta-rule
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxRaise/LoopToScan.h"
#include "passes/OnnxRaise/Passes.h"
#include "passes/OnnxRaise/Recurrence.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXRAISEDELTARULE
#include "passes/OnnxRaise/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
constexpr unsigned kNone = ~0u;

/// Which argument of the body is what, and the names of the axes: batch, head, key channel, value channel.
struct Roles {
  unsigned q = kNone, k = kNone, v = kNone, decay = kNone, erase = kNone, write = kNone;
  bool isBeta = false; // erase and write are one factor of the whole
  double scale = 1.0;
  int batch = AxisNames::kOne, head = AxisNames::kOne, key = AxisNames::kOne, value = AxisNames::kOne;
  int queryHead = AxisNames::kOne; // q's heads: the same as `head`, or several for each
};

class ScanRaiser {
public:
  ScanRaiser(Raiser &raiser, NodeOp scan)
      : raiser(raiser), scan(scan), body(scan.getBodies().front().front()), r(raiser, body), loc(scan.getLoc()) {}

  LogicalResult run() {
    std::string why = match();
    if (why.empty()) {
      why = build();
    }
    if (!why.empty()) {
      scan.emitRemark() << "Scan '" << scan.getNodeName() << "' is not read as a delta rule: " << why;
      return raiser.rewriter.notifyMatchFailure(scan, why);
    }
    return success();
  }

private:
  /// The argument that `factor` is; kNone where it is something else.
  static unsigned argumentOf(const Factor &factor) {
    return factor.kind == Factor::Kind::Argument ? factor.argument : kNone;
  }
  bool runsAlong(unsigned argument, int name) const {
    return name != AxisNames::kOne && llvm::any_of(r.arguments[argument], [&](int axis) {
             return axis != AxisNames::kOne && r.names.find(axis) == r.names.find(name);
           });
  }

  std::string match();
  std::string matchDecay(const Product &kept);
  std::string matchFound(const Product &found, SmallVectorImpl<unsigned> &gates);
  std::string matchWrite(const Product &written);
  std::string matchRead(const Recurrence::Result &out, const Sum &state);
  std::string nameAxes();
  std::string build();
  Value operand(unsigned argument, ArrayRef<int> order, bool isGate);

  Raiser &raiser;
  NodeOp scan;
  Block &body;
  Recurrence r;
  Location loc;
  Roles roles;
  FactorRef decayFactor;
};
} // namespace

std::string ScanRaiser::match() {
  int64_t scanned = scan.getInt("num_scan_inputs", 0), states = static_cast<int64_t>(scan.getInputs().size()) - scanned;
  if (scan.getVersion() < 9) {
    return "before opset 9 it runs over batches, too";
  }
  if (states != 1 || scan->getNumResults() != 2) {
    return "it has " + std::to_string(states) + " states and " + std::to_string(scan->getNumResults()) +
           " results; expected one state, and the final state and one output";
  }
  for (StringRef direction : {"scan_input_directions", "scan_output_directions"}) {
    if (auto given = scan.getInts(direction); given && llvm::any_of(*given, [](int64_t d) { return d != 0; })) {
      return "it runs backwards";
    }
  }
  Operation *yield = body.getTerminator();
  const Recurrence::Result *state = r.of(yield->getOperand(0)), *out = r.of(yield->getOperand(1));
  if (!state || !out) {
    return "its body holds what is no product, sum, exponential or move of axes: " + r.obstacle().str();
  }
  const Recurrence::Result *before = r.of(body.getArgument(0));
  if (!before || state->axes.size() != before->axes.size() || state->sum.size() != 2) {
    return "the new state is not what is kept of the old one plus what is written";
  }
  for (auto [x, y] : llvm::zip_equal(state->axes, before->axes)) {
    if (r.names.find(x) != r.names.find(y)) {
      return "the axes of the state change places";
    }
  }
  // What is kept has the state among its factors, and not below a sum.
  auto isKept = [](const Product &product) {
    return llvm::any_of(product.factors, [](const FactorRef &factor) { return argumentOf(*factor) == 0; });
  };
  const Product *kept = &state->sum[0], *written = &state->sum[1];
  if (!isKept(*kept)) {
    std::swap(kept, written);
  }
  if (!isKept(*kept) || isKept(*written)) {
    return "the new state is not what is kept of the old one plus what is written";
  }
  std::string why = matchDecay(*kept);
  if (why.empty()) {
    why = matchRead(*out, state->sum);
  }
  if (why.empty()) {
    why = matchWrite(*written);
  }
  return why.empty() ? nameAxes() : why;
}

std::string ScanRaiser::matchDecay(const Product &kept) {
  if (kept.scale != 1.0 || kept.factors.size() > 2) {
    return "what is kept of the state is not the state times one decay";
  }
  for (const FactorRef &factor : kept.factors) {
    if (argumentOf(*factor) == 0) {
      continue;
    }
    bool isExp = factor->kind == Factor::Kind::Exp && factor->inner.size() == 1 && factor->inner[0].scale == 1.0 &&
                 factor->inner[0].factors.size() == 1;
    unsigned gate = isExp ? argumentOf(*factor->inner[0].factors[0]) : kNone;
    if (gate == kNone || gate == 0) {
      return "the decay is not the exponential of a scanned input";
    }
    roles.decay = gate;
    decayFactor = factor;
  }
  return "";
}

/// o = scale * sum over the key channels of q and the new state.
std::string ScanRaiser::matchRead(const Recurrence::Result &out, const Sum &state) {
  if (out.sum.size() != 1 || out.sum[0].factors.size() != 1 || out.sum[0].factors[0]->kind != Factor::Kind::Contract) {
    return "the output is no product of a query with the new state";
  }
  const Factor &read = *out.sum[0].factors[0];
  roles.scale = out.sum[0].scale * read.inner[0].scale;
  roles.key = r.names.find(read.label);
  for (const FactorRef &factor : read.inner[0].factors) {
    if (factor->kind == Factor::Kind::Paren && r.same(factor->inner, state)) {
      continue;
    }
    if (argumentOf(*factor) == kNone || argumentOf(*factor) == 0 || roles.q != kNone) {
      return "the output is no product of a query with the new state";
    }
    roles.q = argumentOf(*factor);
  }
  return roles.q == kNone || read.inner[0].factors.size() != 2
             ? "the output is no product of a query with the new state"
             : "";
}

/// sum over the key channels of the key and the decayed state, times gates. A decay a head stands beside the sum.
std::string ScanRaiser::matchFound(const Product &found, SmallVectorImpl<unsigned> &gates) {
  const std::string no = "what is read back is not the key times the decayed state";
  SmallVector<FactorRef> factors;
  bool hasKey = false, hasState = false, hasDecay = false, hasSum = false;
  for (const FactorRef &factor : found.factors) {
    if (factor->kind != Factor::Kind::Contract || hasSum) {
      factors.push_back(factor);
      continue;
    }
    hasSum = true;
    if (r.names.find(factor->label) != r.names.find(roles.key) || factor->inner[0].scale != 1.0) {
      return no;
    }
    factors.append(factor->inner[0].factors);
  }
  for (const FactorRef &factor : factors) {
    if (argumentOf(*factor) == roles.k && !hasKey) {
      hasKey = true;
    } else if (argumentOf(*factor) == 0 && !hasState) {
      hasState = true;
    } else if (decayFactor && !hasDecay && r.same(*factor, *decayFactor)) {
      hasDecay = true;
    } else {
      gates.push_back(argumentOf(*factor));
    }
  }
  return hasSum && hasKey && hasState && hasDecay == (decayFactor != nullptr) ? "" : no;
}

/// k * [beta] * (w * v - b * sum(k * kept)), or k * [w] * v.
std::string ScanRaiser::matchWrite(const Product &written) {
  const std::string no = "what is written is not a key times a value or its correction";
  if (written.scale != 1.0) {
    return no;
  }
  const Factor *correction = nullptr;
  SmallVector<unsigned> plain, values, erasers;
  for (const FactorRef &factor : written.factors) {
    if (factor->kind == Factor::Kind::Paren && !correction) {
      correction = factor.get();
    } else if (unsigned argument = argumentOf(*factor); argument != kNone && argument != 0) {
      plain.push_back(argument);
    } else {
      return no;
    }
  }
  // The key runs along the key channels; what else does is a gate of the correction.
  for (unsigned argument : plain) {
    if (runsAlong(argument, roles.key)) {
      if (roles.k != kNone) {
        return no;
      }
      roles.k = argument;
    }
  }
  llvm::erase(plain, roles.k);
  if (roles.k == kNone) {
    return no;
  }
  if (!correction) {
    values = plain;
    plain.clear();
  } else {
    if (correction->inner.size() != 2) {
      return no;
    }
    const Product *value = &correction->inner[0], *found = &correction->inner[1];
    if (value->scale < 0) {
      std::swap(value, found);
    }
    if (value->scale != 1.0 || found->scale != -1.0) {
      return no;
    }
    for (const FactorRef &factor : value->factors) {
      values.push_back(argumentOf(*factor));
    }
    std::string why = matchFound(*found, erasers);
    if (!why.empty()) {
      return why;
    }
  }
  if (llvm::is_contained(values, kNone) || llvm::is_contained(values, 0u) || llvm::is_contained(erasers, kNone) ||
      llvm::is_contained(erasers, 0u)) {
    return no;
  }
  // The value runs along an axis of the state that neither the key nor the key channels are.
  for (unsigned argument : values) {
    for (int axis : r.arguments[argument]) {
      if (axis != AxisNames::kOne && runsAlong(0, axis) && !runsAlong(roles.k, axis) && roles.v == kNone) {
        roles.v = argument;
        roles.value = r.names.find(axis);
      }
    }
  }
  llvm::erase(values, roles.v);
  if (roles.v == kNone || values.size() > 1 || erasers.size() > 1 || plain.size() > 1) {
    return no;
  }
  roles.write = values.empty() ? kNone : values[0];
  roles.erase = erasers.empty() ? kNone : erasers[0];
  if (!correction) {
    return "";
  }
  if (plain.size() == 1) {
    if (roles.write != kNone || roles.erase != kNone) {
      return "it has gates of the correction and of its parts";
    }
    roles.erase = roles.write = plain[0];
  } else if (roles.erase == kNone) {
    return "what is read back is erased without a gate";
  }
  roles.isBeta = roles.erase == roles.write && !runsAlong(roles.erase, roles.key);
  return "";
}

/// The axes of the state that are no channels are batch and head, in their order.
std::string ScanRaiser::nameAxes() {
  SmallVector<int> others;
  for (int axis : r.arguments[0]) {
    int name = r.names.find(axis);
    if (name == AxisNames::kOne || (name != r.names.find(roles.key) && name != r.names.find(roles.value))) {
      others.push_back(name);
    }
  }
  if (r.arguments[0].size() < 2 || r.arguments[0].size() > 4 || others.size() + 2 != r.arguments[0].size()) {
    return "the state has " + std::to_string(r.arguments[0].size()) +
           " axes; expected key and value channels, and up to two more (of more than one channel)";
  }
  if (!others.empty()) {
    roles.head = others.back();
  }
  if (others.size() == 2) {
    roles.batch = others.front();
  }
  if (roles.head != AxisNames::kOne && !r.names.extent(roles.head).isConstant()) {
    return "the number of heads is not known";
  }
  // q may have several heads for each of the state's: one axis that is (head, member) merged, or members alone where
  // there is one head.
  for (int axis : r.arguments[roles.q]) {
    int name = r.names.find(axis);
    if (name == AxisNames::kOne || name == roles.batch || name == r.names.find(roles.key)) {
      continue;
    }
    ArrayRef<int> parts = r.names.parts(name);
    bool isGroup = name == roles.head || roles.head == AxisNames::kOne ||
                   (parts.size() == 2 && r.names.find(parts[0]) == roles.head);
    if (roles.queryHead != AxisNames::kOne || !isGroup || !r.names.extent(name).isConstant()) {
      return "the query has axes that are no heads";
    }
    roles.queryHead = name;
  }
  return "";
}

/// The scanned input of `argument`, with axes (batch, head, time, channel) as `order` names them, time being -2; those
/// that it lacks have extent 1. Null where it has an axis that is not named.
Value ScanRaiser::operand(unsigned argument, ArrayRef<int> order, bool isGate) {
  constexpr int kTime = -2;
  Value whole = scan.getInputs()[argument];
  std::optional<SmallVector<int64_t>> axes = scan.getInts("scan_input_axes");
  int64_t rank = raiser.rank(whole), time = axes && argument <= axes->size() ? (*axes)[argument - 1] : 0;
  time += time < 0 ? rank : 0;
  SmallVector<int> names;
  for (int axis : r.arguments[argument]) {
    names.push_back(r.names.find(axis));
  }
  names.insert(names.begin() + time, kTime);
  SmallVector<int64_t> perm, squeezed, missing;
  for (auto [at, name] : llvm::enumerate(order)) {
    auto it = name == AxisNames::kOne ? names.end() : llvm::find(names, name);
    if (it == names.end()) {
      missing.push_back(static_cast<int64_t>(at));
    } else {
      perm.push_back(it - names.begin());
    }
  }
  for (auto [at, name] : llvm::enumerate(names)) {
    if (name == AxisNames::kOne) {
      squeezed.push_back(static_cast<int64_t>(perm.size()));
      perm.push_back(static_cast<int64_t>(at));
    }
  }
  if (static_cast<int64_t>(perm.size()) != rank) {
    return {};
  }
  for (int64_t axis : missing) { // a broadcast axis: that of the heads may be; others only where the extent is 1
    int name = order[axis];
    bool isHead = axis == 1;
    if (!isHead && name != AxisNames::kOne) {
      return {};
    }
  }
  Value value = whole;
  if (isGate && !raiser.shapes.of(value).elementType.isF32()) {
    value = raiser.create(loc, "Cast", value, raiser.intAttr("to", 1));
  }
  value = raiser.transpose(loc, value, perm);
  if (!squeezed.empty()) {
    value = raiser.create(loc, "Squeeze", {value, raiser.constant(loc, squeezed)});
  }
  if (!missing.empty()) {
    value = raiser.create(loc, "Unsqueeze", {value, raiser.constant(loc, missing)});
  }
  return raiser.ranked(value);
}

std::string ScanRaiser::build() {
  constexpr int kTime = -2;
  int batch = roles.batch, head = roles.head, key = r.names.find(roles.key), value = r.names.find(roles.value);
  Value q = operand(roles.q, {batch, roles.queryHead, kTime, key}, false);
  Value k = operand(roles.k, {batch, head, kTime, key}, false),
        v = operand(roles.v, {batch, head, kTime, value}, false);
  if (!q || !k || !v) {
    return "query, key or value are broadcast";
  }
  auto gate = [&](unsigned argument, int channel) -> Value {
    bool perChannel = runsAlong(argument, channel);
    return perChannel ? operand(argument, {batch, head, kTime, channel}, true)
                      : operand(argument, {batch, head, kTime}, true);
  };
  Value decay, beta, erase, write;
  if (roles.decay != kNone && !(decay = gate(roles.decay, key))) {
    return "the decay has axes that the state has not";
  }
  if (roles.isBeta) {
    beta = gate(roles.erase, key);
  } else {
    erase = roles.erase != kNone ? gate(roles.erase, key) : Value();
    write = roles.write != kNone ? gate(roles.write, value) : Value();
  }
  if ((roles.isBeta && !beta) ||
      (!roles.isBeta && ((roles.erase != kNone && !erase) || (roles.write != kNone && !write)))) {
    return "a gate has axes that the state has not";
  }
  // The state as [batch, head, key, value].
  SmallVector<int64_t> perm, back;
  SmallVector<int> stateNames;
  for (int axis : r.arguments[0]) {
    stateNames.push_back(r.names.find(axis));
  }
  int64_t rank = static_cast<int64_t>(stateNames.size());
  for (int64_t at = 0; at < rank; ++at) {
    if (stateNames[at] != key && stateNames[at] != value) {
      perm.push_back(at);
    }
  }
  perm.push_back(llvm::find(stateNames, key) - stateNames.begin());
  perm.push_back(llvm::find(stateNames, value) - stateNames.begin());
  back.resize(rank);
  for (auto [to, from] : llvm::enumerate(perm)) {
    back[from] = static_cast<int64_t>(to);
  }
  Value initial = scan.getInputs()[0];
  Type stateElement = raiser.shapes.of(initial).elementType;
  if (raiser.scalar(initial) == 0.0) {
    initial = {};
  } else {
    if (!stateElement.isF32()) {
      initial = raiser.create(loc, "Cast", initial, raiser.intAttr("to", 1));
    }
    initial = raiser.padRank(loc, raiser.transpose(loc, initial, perm), 4);
    if (!(initial = raiser.ranked(initial))) {
      return "the shape of the initial state is not known";
    }
  }
  auto typeOf = [](Value x) { return cast<RankedTensorType>(x.getType()); };
  Type element = raiser.shapes.of(scan->getResult(1)).elementType, f32 = raiser.rewriter.getF32Type();
  int64_t heads = std::max(typeOf(k).getDimSize(1), typeOf(v).getDimSize(1));
  int64_t queryHeads = typeOf(q).getDimSize(1);
  if (ShapedType::isDynamic(heads) || ShapedType::isDynamic(queryHeads)) {
    return "the number of heads is not known";
  }
  Type inner = element == typeOf(q).getElementType() ? element : f32;
  auto result = RankedTensorType::get(
      {typeOf(q).getDimSize(0), std::max(heads, queryHeads), typeOf(q).getDimSize(2), typeOf(v).getDimSize(3)}, inner);
  auto memory =
      RankedTensorType::get({typeOf(q).getDimSize(0), heads, typeOf(q).getDimSize(3), typeOf(v).getDimSize(3)}, f32);
  IRRewriter &b = raiser.rewriter;
  auto op = DeltaRuleOp::create(b, loc, result, memory, q, k, v, decay, beta, erase, write, initial,
                                b.getF32FloatAttr(static_cast<float>(roles.scale)), FloatAttr());
  raiser.shapes.infer(op);
  // [batch, query head, time, value] in the order of the body's output, time where the outputs are stacked.
  const Recurrence::Result &out = *r.of(body.getTerminator()->getOperand(1));
  std::optional<SmallVector<int64_t>> outputAxes = scan.getInts("scan_output_axes");
  int64_t outRank = static_cast<int64_t>(out.axes.size()) + 1,
          time = outputAxes && !outputAxes->empty() ? outputAxes->front() : 0;
  time += time < 0 ? outRank : 0;
  SmallVector<int> outNames;
  for (int axis : out.axes) {
    outNames.push_back(r.names.find(axis));
  }
  outNames.insert(outNames.begin() + time, kTime);
  SmallVector<int> given = {batch, roles.queryHead, kTime, value};
  SmallVector<int64_t> order, dropped, added;
  for (auto [at, name] : llvm::enumerate(outNames)) {
    auto it = name == AxisNames::kOne ? given.end() : llvm::find(given, name);
    if (it == given.end()) {
      added.push_back(static_cast<int64_t>(at));
    } else {
      order.push_back(it - given.begin());
    }
  }
  for (auto [at, name] : llvm::enumerate(given)) {
    if (!llvm::is_contained(order, static_cast<int64_t>(at))) {
      dropped.push_back(static_cast<int64_t>(order.size()));
      order.push_back(static_cast<int64_t>(at));
      if (name != AxisNames::kOne) {
        b.eraseOp(op);
        return "the output lacks an axis of the state";
      }
    }
  }
  Value o = raiser.transpose(loc, op.getResult(), order);
  if (!dropped.empty()) {
    o = raiser.create(loc, "Squeeze", {o, raiser.constant(loc, dropped)});
  }
  if (!added.empty()) {
    o = raiser.create(loc, "Unsqueeze", {o, raiser.constant(loc, added)});
  }
  Value last = op.getState();
  if (rank < 4) {
    SmallVector<int64_t> leading = llvm::to_vector(llvm::seq<int64_t>(0, 4 - rank));
    last = raiser.create(loc, "Squeeze", {last, raiser.constant(loc, leading)});
  }
  last = raiser.transpose(loc, last, back);
  auto castLike = [&](Value x, Value like) {
    return raiser.shapes.of(x).elementType == raiser.shapes.of(like).elementType
               ? x
               : raiser.create(loc, "CastLike", {x, like});
  };
  if (element != inner) {
    o = raiser.create(loc, "CastLike", {o, scan.getInputs()[roles.q]});
  }
  raiser.replace(scan->getResult(0), castLike(last, scan.getInputs()[0]));
  raiser.replace(scan->getResult(1), o);
  return "";
}

namespace {
struct OnnxRaiseDeltaRulePass : kimi::impl::OnnxRaiseDeltaRuleBase<OnnxRaiseDeltaRulePass> {
  void runOnOperation() override {
    Raiser raiser(getOperation());
    numRaised += raiser.forEachNode([&](NodeOp node) -> LogicalResult {
      if (node.is("Loop")) {
        NodeOp loop = node;
        if (std::string why = loopToScan(raiser, loop, node); !why.empty()) {
          loop.emitRemark() << "Loop '" << loop.getNodeName() << "' is not read as a Scan: " << why;
          return failure();
        }
        raiser.rewriter.setInsertionPoint(node);
      }
      if (!node.is("Scan") || !raiser.shapes.whyUnknown(node).empty() || !raiser.shape(node->getResult(0))) {
        return failure();
      }
      return ScanRaiser(raiser, node).run();
    });
    raiser.finish();
  }
};
} // namespace
