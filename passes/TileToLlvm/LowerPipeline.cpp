//===- LowerPipeline.cpp - tile.pipeline as a loop over one copy of its buffers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToLlvm/VectorEmitter.h"

using namespace mlir;

void kimi::lowerPipeline(tile::PipelineOp op) {
  OpBuilder b(op);
  auto loop = scf::ForOp::create(b, op.getLoc(), op.getLower(), op.getUpper(), op.getStep());
  Block *body = loop.getBody();
  for (Region *region : {&op.getLoads(), &op.getCompute()}) {
    Block &block = region->front();
    block.getArgument(0).replaceAllUsesWith(loop.getInductionVar());
    body->getOperations().splice(Block::iterator(body->getTerminator()), block.getOperations());
  }
  op.erase();
}
