//===- WarpSpecialize.h - the parts of tile-warp-specialize
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_TILETONVVM_WARPSPECIALIZE_H
#define KIMI_PASSES_TILETONVVM_WARPSPECIALIZE_H

#include "dialects/Tile/TileDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>
#include <string>

namespace kimi::hopper {

/// Why a kernel or an op cannot take the road of sm_90a.
struct Obstacle {
  mlir::Operation *op = nullptr;
  std::string reason;
};

/// Buffers of a pipeline that the computation first needs, and last needs, at the same ops: one pair of barriers.
struct BufferGroup {
  llvm::SmallVector<mlir::Value> buffers; // in order of their loads
  mlir::Operation *lastReader = nullptr;  // in the computation
  mlir::Value full, empty;                // the barriers, once made
  int64_t bytes = 0;                      // of one stage
  bool multicast = false;                 // a buffer is fetched for the whole cluster
};

/// A pipeline with its buffers grouped, and its staged tiles once they are made.
struct PipelinePlan {
  tile::PipelineOp op;
  llvm::SmallVector<BufferGroup> groups;
  llvm::DenseMap<mlir::Value, unsigned> groupOf;     // by buffer
  llvm::DenseSet<mlir::Value> multicast;             // buffers whose contents are the same in all blocks of a cluster
  llvm::DenseMap<mlir::Value, mlir::Value> stagedOf; // buffer -> memref<stages x rows x columns>
};

struct KernelPlan {
  tile::KernelOp kernel;
  int64_t groups = 0;  // consumer warpgroups
  int64_t cluster = 1; // blocks
  llvm::SmallVector<PipelinePlan> pipelines;
  /// The shared tiles that the matrix units read, pipeline buffers too.
  llvm::DenseSet<mlir::Value> operands;

  PipelinePlan *find(mlir::Operation *pipeline) {
    for (PipelinePlan &plan : pipelines) {
      if (plan.op == pipeline) {
        return &plan;
      }
    }
    return nullptr;
  }
};

/// Whether the kernel can be split by role, and how; an obstacle if it cannot.
std::optional<Obstacle> planKernel(tile::KernelOp kernel, KernelPlan &plan);

/// Splits the kernel as planned.
void splitKernel(KernelPlan &plan);

/// Where in its stages a pipeline is: both i32.
struct Position {
  mlir::Value slot, parity;
};

/// Emits the computation of a block with its products asynchronous: waits for buffers before they are read, for
/// products before they are touched, and releases buffers after their last reader.
class ProductScheduler {
public:
  /// `position` is null outside of a pipeline. `map` maps what has been cloned so far.
  ProductScheduler(PipelinePlan *pipeline, Position position, mlir::IRMapping &map)
      : pipeline(pipeline), position(position), map(map) {}

  /// To be called for each op of the block in order, before its clone is emitted. True if the scheduler has emitted it;
  /// otherwise `emitted` is due once the clone is there.
  bool visit(mlir::OpBuilder &b, mlir::Operation *op);
  void emitted(mlir::OpBuilder &b, mlir::Operation *op);
  /// At the end of the block: products may stay in flight over the back edge of a pipeline's loop.
  void finish(mlir::OpBuilder &b);

  /// Whether products of the pipeline stay in flight from one iteration to the next.
  static bool defers(PipelinePlan &pipeline);
  /// After the loop of a pipeline that defers: waits, and releases the last stage. `any` (i1): the loop had iterations.
  static void drain(mlir::OpBuilder &b, PipelinePlan &pipeline, Position position, mlir::IRMapping &map,
                    mlir::Value any);
  /// i1: this is not the loop's first iteration (of a pipeline that defers).
  mlir::Value continued;
  /// Warpgroups issue the products of an iteration (of a pipeline with a delayed one) one after the other.
  bool takesTurns = false;

  /// The last product of a pipeline's computation if it can be issued an iteration later, behind the first product: the
  /// matrix units then have work while the threads turn that one's result into the next operand. Null where it cannot.
  static tile::MmaOp delayable(PipelinePlan &pipeline);
  /// Leaves out `product`, and issues that of the iteration before, at `previous` (nullopt in the first iteration),
  /// behind the first product.
  void delay(tile::MmaOp product, std::optional<Position> previous);
  /// Issues the delayed product of the last iteration and waits for it.
  void finishDelayed(mlir::OpBuilder &b);

private:
  struct Product {
    tile::MmaOp op;
    llvm::SmallVector<mlir::Value, 2> fragments; // acc, and a where it is a fragment: of the original kernel
  };

  void issue(mlir::OpBuilder &b, tile::MmaOp product);
  void awaitBuffers(mlir::OpBuilder &b, mlir::Operation *op);
  void viewBuffers(mlir::OpBuilder &b, mlir::Operation *op);
  void waitThrough(mlir::OpBuilder &b, size_t count);
  void releaseDone(mlir::OpBuilder &b);
  mlir::Value mapped(mlir::Value value) { return map.lookupOrDefault(value); }

  /// The stage of a group's buffers that this iteration reads.
  Position positionOf(unsigned group) const { return previous && group == delayedGroup ? *previous : position; }

  PipelinePlan *pipeline;
  Position position;
  mlir::IRMapping &map;
  llvm::SmallVector<Product> inFlight;
  tile::MmaOp delayed;
  unsigned delayedGroup = 0; // of its b
  std::optional<Position> previous;
  llvm::DenseSet<unsigned> awaited, released; // groups
  llvm::DenseSet<mlir::Operation *> done;     // ops that have been emitted
  bool deferredPending = true;                // those of the iteration before, until the first product of this one
};

} // namespace kimi::hopper

#endif // KIMI_PASSES_TILETONVVM_WARPSPECIALIZE_H
