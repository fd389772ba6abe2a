//===- RequireExtents.cpp - --onnx-require-extents
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/OnnxToKimi/BuildContext.h"
#include "passes/OnnxToKimi/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_ONNXREQUIREEXTENTS
#include "passes/OnnxToKimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;
using namespace kimi::onnx;

namespace {
struct OnnxRequireExtents : kimi::impl::OnnxRequireExtentsBase<OnnxRequireExtents> {
  /// Known from the extents of arguments alone.
  static bool isKnownAtEntry(const SymbolicShapes &shapes, const SymbolicDim &dim) {
    return llvm::all_of(dim.leaves(), [&](const SymbolicDim::Leaf &leaf) {
      const DimSource *source = shapes.source(leaf.name);
      return leaf.kind == SymbolicDim::AtomKind::Symbol && source && isa<BlockArgument>(source->value);
    });
  }

  /// The ops that results depend on, in their order: dead nodes are nobody's concern.
  static SmallVector<Operation *> liveOps(Block &block) {
    llvm::SmallPtrSet<Operation *, 32> live = {block.getTerminator()};
    SmallVector<Operation *> ops;
    for (Operation &op : llvm::reverse(block)) {
      auto isLive = [&](Operation *user) { return live.contains(block.findAncestorOpInBlock(*user)); };
      if (live.contains(&op) || llvm::any_of(op.getUsers(), isLive)) {
        live.insert(&op);
        ops.push_back(&op);
      }
    }
    return SmallVector<Operation *>(llvm::reverse(ops));
  }

  void runOnOperation() override {
    if (getOperation().isExternal()) {
      return;
    }
    SymbolicShapes shapes(getOperation());
    FunctionBuilder function(getOperation(), shapes);
    for (Operation *op : liveOps(getOperation().getBody().front())) {
      op->walk([&](NodeOp node) {
        for (const Requirement &requirement : shapes.requirements(node)) {
          if (isKnownAtEntry(shapes, requirement.left) && isKnownAtEntry(shapes, requirement.right)) {
            function.require(requirement);
          }
        }
      });
    }
  }
};
} // namespace
