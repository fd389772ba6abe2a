//===- OpTable.h - the operators this compiler knows, in one table
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXTOKIMI_OPTABLE_H
#define KIMI_PASSES_ONNXTOKIMI_OPTABLE_H

#include "passes/OnnxToKimi/SymbolicShapes.h"
#include <functional>
#include <map>

namespace kimi::onnx {

class BuildContext;

/// The newest opset of the default domain whose operators have been read.
constexpr int64_t kNewestOpset = 28;

/// One node being inferred: its inputs are known, its outputs are to be filled in.
class InferContext {
public:
  InferContext(NodeOp node, const SymbolicShapes &shapes);

  NodeOp node;
  const SymbolicShapes &shapes;
  llvm::SmallVector<ValueInfo> outs;
  std::string reason;
  llvm::SmallVector<Requirement> requirements;

  bool has(unsigned index) { return static_cast<bool>(node.getInput(index)); }
  unsigned numInputs() { return node.getInputs().size(); }
  /// What is known of input `index`; an empty info where it is absent.
  const ValueInfo &in(unsigned index);
  const Shape &shape(unsigned index) { return *in(index).shape; }
  /// The first output.
  ValueInfo &out() { return outs.front(); }
  /// Sets output `index` where the node has it.
  void setOut(unsigned index, ValueInfo info);
  void setOut(ValueInfo info) { setOut(0, std::move(info)); }
  /// Records why this node is not supported.
  mlir::LogicalResult fail(const llvm::Twine &why);

  /// Extents `a` and `b` are one: failure, `what` differ, where they never are; a requirement where that is not known.
  mlir::LogicalResult same(const SymbolicDim &a, const SymbolicDim &b, const llvm::Twine &what);
  /// The same of each of these; failure where their numbers differ.
  mlir::LogicalResult same(llvm::ArrayRef<SymbolicDim> a, llvm::ArrayRef<SymbolicDim> b, const llvm::Twine &what);
  /// The same of `a` <= `b`.
  mlir::LogicalResult atMost(const SymbolicDim &a, const SymbolicDim &b, const llvm::Twine &what);
  /// The same of each axis but `axis`, of tensors of one rank.
  mlir::LogicalResult atMostBut(int64_t axis, llvm::ArrayRef<SymbolicDim> a, llvm::ArrayRef<SymbolicDim> b,
                                const llvm::Twine &what);
  /// An axis of extent `axis` has elements if there are any of `positions` in it.
  mlir::LogicalResult hasPositions(const SymbolicDim &axis, llvm::ArrayRef<SymbolicDim> positions);
  /// `shape` is broadcast to or against `full`, last axis to last axis: requirements where it is not known whether it
  /// can be.
  void broadcasts(llvm::ArrayRef<SymbolicDim> shape, llvm::ArrayRef<SymbolicDim> full);

  /// `axis` counted from the front, in [0, rank); failure (with its reason) where it is out of range.
  mlir::FailureOr<int64_t> axis(int64_t axis, int64_t rank);
  /// The axes of attribute `axes` or of input `index`; an empty optional where neither is given.
  mlir::FailureOr<std::optional<llvm::SmallVector<int64_t>>> axes(unsigned index, int64_t rank);
  /// The host elements of input `index`; failure (with its reason) where they are not known at compile time.
  mlir::FailureOr<Shape> content(unsigned index, llvm::StringRef what);
  /// The same, where every element must be a constant.
  mlir::FailureOr<llvm::SmallVector<int64_t>> constants(unsigned index, llvm::StringRef what);
};

/// Whether an axis of extent `dim` can be broadcast to one of `full`, as far as is known.
bool mayBroadcast(const SymbolicDim &dim, const SymbolicDim &full);
/// Whether a tensor of extents `from` can have extents `to` instead, as far as is known: not where it takes a known
/// number of elements for another.
bool mayReshape(llvm::ArrayRef<SymbolicDim> from, llvm::ArrayRef<SymbolicDim> to);
/// The extent where `a` and `b` are broadcast against each other.
SymbolicDim broadcastDim(const SymbolicDim &a, const SymbolicDim &b);
Shape broadcastShapes(llvm::ArrayRef<SymbolicDim> a, llvm::ArrayRef<SymbolicDim> b);
/// Row-major position of element `flat` of a tensor of extents `out` within one of extents `in` broadcast to it.
int64_t broadcastIndex(int64_t flat, llvm::ArrayRef<int64_t> out, llvm::ArrayRef<int64_t> in);
/// The constant extents; nullopt where one is not a constant.
std::optional<llvm::SmallVector<int64_t>> staticShape(llvm::ArrayRef<SymbolicDim> shape);

using InferFn = std::function<mlir::LogicalResult(InferContext &)>;
using BuildFn = std::function<mlir::LogicalResult(BuildContext &)>;

/// How nodes of one operator are understood, from opset `since` on.
struct OpEntry {
  std::string domain;
  std::string name;
  int64_t since;
  InferFn infer;
  BuildFn build;
  /// What is not covered, for the support page.
  std::string note;
};

/// (domain, operator, since-version) -> entry. Built once, never changed afterwards.
class OpTable {
public:
  static const OpTable &get();

  void add(llvm::StringRef name, int64_t since, InferFn infer, BuildFn build, llvm::StringRef note = "");
  void addMicrosoft(llvm::StringRef name, InferFn infer, BuildFn build, llvm::StringRef note = "");

  /// The entry with the greatest since-version that is not above `version`, or null.
  const OpEntry *lookup(llvm::StringRef domain, llvm::StringRef name, int64_t version) const;
  /// Why there is no entry for a node of this version, and the nearest version that has one.
  std::string whyUnsupported(llvm::StringRef domain, llvm::StringRef name, int64_t version) const;
  /// All entries, by domain, name and version.
  std::vector<const OpEntry *> entries() const;

private:
  using Key = std::pair<std::string, std::string>;
  std::map<Key, std::map<int64_t, OpEntry>> table;
};

// One family of operators a file.
void registerElementwiseOps(OpTable &table);
void registerMathOps(OpTable &table);
void registerShapeOps(OpTable &table);
void registerMovementOps(OpTable &table);
void registerGatherOps(OpTable &table);
void registerScatterOps(OpTable &table);
void registerLayoutOps(OpTable &table);
void registerReduceOps(OpTable &table);
void registerMatmulOps(OpTable &table);
void registerEinsumOps(OpTable &table);
void registerNormOps(OpTable &table);
void registerAttentionOps(OpTable &table);
void registerDeltaOps(OpTable &table);
void registerSortOps(OpTable &table);
void registerLossOps(OpTable &table);
void registerChannelNormOps(OpTable &table);
void registerWindowOps(OpTable &table);
void registerConvOps(OpTable &table);
void registerQuantizationOps(OpTable &table);
void registerQuantizeLinearOps(OpTable &table);
void registerBitCastOps(OpTable &table);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXTOKIMI_OPTABLE_H
