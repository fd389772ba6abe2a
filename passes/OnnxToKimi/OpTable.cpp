//===- OpTable.cpp - the operators this compiler knows, in one table
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/OnnxToKimi/OpTable.h"
#include "passes/OnnxToKimi/Interpolation.h"
#include "passes/OnnxToKimi/OnnxSupport.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

//===----------------------------------------------------------------------===//
// InferContext
//===----------------------------------------------------------------------===//

InferContext::InferContext(NodeOp node, const SymbolicShapes &shapes)
    : node(node), shapes(shapes), outs(node->getNumResults()) {}

const ValueInfo &InferContext::in(unsigned index) {
  static const ValueInfo absent;
  Value value = node.getInput(index);
  return value ? shapes.of(value) : absent;
}

void InferContext::setOut(unsigned index, ValueInfo info) {
  if (index < outs.size()) {
    outs[index] = std::move(info);
  }
}

LogicalResult InferContext::fail(const Twine &why) {
  reason = why.str();
  return failure();
}

LogicalResult InferContext::same(const SymbolicDim &a, const SymbolicDim &b, const Twine &what) {
  if (a == b) {
    return success();
  }
  if (a.isConstant() && b.isConstant()) {
    return fail(what + " differ: " + a.str() + " and " + b.str());
  }
  requirements.push_back({node, a, RequireKind::equal, b});
  return success();
}

LogicalResult InferContext::same(ArrayRef<SymbolicDim> a, ArrayRef<SymbolicDim> b, const Twine &what) {
  if (a.size() != b.size()) {
    return fail(what + " differ in number: " + Twine(a.size()) + " and " + Twine(b.size()));
  }
  for (auto [left, right] : llvm::zip(a, b)) {
    if (failed(same(left, right, what))) {
      return failure();
    }
  }
  return success();
}

LogicalResult InferContext::atMost(const SymbolicDim &a, const SymbolicDim &b, const Twine &what) {
  if ((b - a).isKnownNonNegative()) {
    return success();
  }
  if (a.isConstant() && b.isConstant()) {
    return fail(what + " of " + a.str() + " is more than " + b.str());
  }
  requirements.push_back({node, a, RequireKind::at_most, b});
  return success();
}

LogicalResult InferContext::atMostBut(int64_t axis, ArrayRef<SymbolicDim> a, ArrayRef<SymbolicDim> b,
                                      const Twine &what) {
  for (auto [at, pair] : llvm::enumerate(llvm::zip(a, b))) {
    auto [left, right] = pair;
    if (static_cast<int64_t>(at) != axis && failed(atMost(left, right, what + " along axis " + Twine(at)))) {
      return failure();
    }
  }
  return success();
}

LogicalResult InferContext::hasPositions(const SymbolicDim &axis, ArrayRef<SymbolicDim> positions) {
  SymbolicDim any = SymbolicDim::min(1, elementCount(positions));
  if (any.is(1) && axis.is(0)) {
    return fail("its indices are positions in an axis that has no elements");
  }
  return atMost(any, axis, "the number of positions");
}

void InferContext::broadcasts(ArrayRef<SymbolicDim> shape, ArrayRef<SymbolicDim> full) {
  size_t rank = std::min(shape.size(), full.size());
  for (auto [a, b] : llvm::zip(shape.take_back(rank), full.take_back(rank))) {
    bool known = a == b || a.is(1) || b.is(1) || (a.isConstant() && b.isConstant());
    if (!known) {
      requirements.push_back({node, a, RequireKind::broadcast, b});
    }
  }
}

FailureOr<int64_t> InferContext::axis(int64_t axis, int64_t rank) {
  int64_t counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank) {
    return fail("axis " + Twine(axis) + " is outside the rank " + Twine(rank));
  }
  return counted;
}

FailureOr<std::optional<SmallVector<int64_t>>> InferContext::axes(unsigned index, int64_t rank) {
  std::optional<SmallVector<int64_t>> given = node.getInts("axes");
  if (!given && has(index)) {
    FailureOr<SmallVector<int64_t>> input = constants(index, "axes");
    if (failed(input)) {
      return failure();
    }
    given = *input;
  }
  if (given) {
    for (int64_t &entry : *given) {
      FailureOr<int64_t> counted = axis(entry, rank);
      if (failed(counted)) {
        return failure();
      }
      entry = *counted;
    }
  }
  return given;
}

FailureOr<Shape> InferContext::content(unsigned index, StringRef what) {
  const ValueInfo &info = in(index);
  if (!info.content) {
    return fail(what + " must follow from constants and the extents of inputs, but is computed by a kernel");
  }
  return *info.content;
}

FailureOr<SmallVector<int64_t>> InferContext::constants(unsigned index, StringRef what) {
  std::optional<SmallVector<int64_t>> values = in(index).constants();
  if (!values) {
    return fail(what + " must be constant");
  }
  return *values;
}

//===----------------------------------------------------------------------===//
// Broadcasting
//===----------------------------------------------------------------------===//

bool kimi::onnx::mayBroadcast(const SymbolicDim &dim, const SymbolicDim &full) {
  return dim.is(1) || dim == full || !dim.isConstant() || !full.isConstant();
}

SymbolicDim kimi::onnx::broadcastDim(const SymbolicDim &a, const SymbolicDim &b) {
  if (a == b || b.is(1)) {
    return a;
  }
  if (a.is(1)) {
    return b;
  }
  // An extent other than 1 decides; with two unknown extents, whichever is not 1 does.
  if (a.isConstant()) {
    return a;
  }
  if (b.isConstant()) {
    return b;
  }
  return SymbolicDim::select(SymbolicDim::eq(a, 1), b, a);
}

Shape kimi::onnx::broadcastShapes(ArrayRef<SymbolicDim> a, ArrayRef<SymbolicDim> b) {
  size_t rank = std::max(a.size(), b.size());
  Shape result;
  for (size_t i = 0; i < rank; ++i) {
    bool inA = i + a.size() >= rank, inB = i + b.size() >= rank;
    if (inA && inB) {
      result.push_back(broadcastDim(a[i + a.size() - rank], b[i + b.size() - rank]));
    } else {
      result.push_back(inA ? a[i + a.size() - rank] : b[i + b.size() - rank]);
    }
  }
  return result;
}

int64_t kimi::onnx::broadcastIndex(int64_t flat, ArrayRef<int64_t> out, ArrayRef<int64_t> in) {
  int64_t index = 0, stride = 1;
  for (size_t back = 1; back <= out.size(); ++back) {
    int64_t extent = out[out.size() - back];
    int64_t position = extent == 0 ? 0 : flat % extent;
    flat = extent == 0 ? 0 : flat / extent;
    if (back <= in.size()) {
      int64_t size = in[in.size() - back];
      index += size == 1 ? 0 : position * stride;
      stride *= size;
    }
  }
  return index;
}

std::optional<SmallVector<int64_t>> kimi::onnx::staticShape(ArrayRef<SymbolicDim> shape) {
  SmallVector<int64_t> extents;
  for (const SymbolicDim &dim : shape) {
    std::optional<int64_t> constant = dim.getConstant();
    if (!constant) {
      return std::nullopt;
    }
    extents.push_back(*constant);
  }
  return extents;
}

//===----------------------------------------------------------------------===//
// OpTable
//===----------------------------------------------------------------------===//

const OpTable &OpTable::get() {
  static const OpTable table = [] {
    OpTable table;
    registerElementwiseOps(table);
    registerMathOps(table);
    registerShapeOps(table);
    registerMovementOps(table);
    registerGatherOps(table);
    registerScatterOps(table);
    registerLayoutOps(table);
    registerReduceOps(table);
    registerMatmulOps(table);
    registerEinsumOps(table);
    registerNormOps(table);
    registerAttentionOps(table);
    registerDeltaOps(table);
    registerSortOps(table);
    registerLossOps(table);
    registerChannelNormOps(table);
    registerWindowOps(table);
    registerConvOps(table);
    registerQuantizationOps(table);
    registerQuantizeLinearOps(table);
    registerBitCastOps(table);
    registerResizeOps(table);
    return table;
  }();
  return table;
}

void OpTable::add(StringRef name, int64_t since, InferFn infer, BuildFn build, StringRef note) {
  table[{"", name.str()}][since] = {"", name.str(), since, std::move(infer), std::move(build), note.str()};
}

void OpTable::addMicrosoft(StringRef name, InferFn infer, BuildFn build, StringRef note) {
  table[{"com.microsoft", name.str()}][1] = {"com.microsoft",  name.str(),       1,
                                             std::move(infer), std::move(build), note.str()};
}

static std::string normalised(StringRef domain) { return domain == "ai.onnx" ? "" : domain.str(); }

const OpEntry *OpTable::lookup(StringRef domain, StringRef name, int64_t version) const {
  auto versions = table.find({normalised(domain), name.str()});
  if (versions == table.end() || (versions->first.first.empty() && version > kNewestOpset)) {
    return nullptr;
  }
  auto next = versions->second.upper_bound(version);
  return next == versions->second.begin() ? nullptr : &std::prev(next)->second;
}

std::string OpTable::whyUnsupported(StringRef domain, StringRef name, int64_t version) const {
  auto versions = table.find({normalised(domain), name.str()});
  if (versions == table.end()) {
    return "no version of this operator is supported";
  }
  int64_t oldest = versions->second.begin()->first;
  if (version < oldest) {
    return "this version is too old; nearest supported version is " + std::to_string(oldest);
  }
  return "this version is too new; nearest supported version is " + std::to_string(kNewestOpset);
}

std::vector<const OpEntry *> OpTable::entries() const {
  std::vector<const OpEntry *> result;
  for (const auto &[key, versions] : table) {
    for (const auto &[since, entry] : versions) {
      result.push_back(&entry);
    }
  }
  return result;
}

void kimi::onnx::printOnnxSupport(raw_ostream &os) {
  os << "# Supported ONNX operators\n\n"
     << "Generated from the operator table (`passes/OnnxToKimi/OpTable.h`); do not edit by hand.\n\n"
     << "An operator is supported from the opset in the second column up to opset " << kNewestOpset
     << " of the default domain.\nRun `kimi-compile model.onnx` to list every node of a model that is not supported.\n";
  std::string domain = "?";
  for (const OpEntry *entry : OpTable::get().entries()) {
    if (entry->domain != domain) {
      domain = entry->domain;
      os << "\n## " << (domain.empty() ? "ai.onnx" : domain)
         << "\n\n| operator | since opset | limits |\n|---|---|---|\n";
    }
    os << "| " << entry->name << " | " << entry->since << " | " << entry->note << " |\n";
  }
}
