//===- PlanRoles.cpp - whether and how a kernel splits into producer and consumers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/WarpSpecialize.h"
#include "passes/TileToNvvm/WgmmaOperand.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kimi;
using namespace kimi::hopper;

using MaybeObstacle = std::optional<Obstacle>;

/// Extents of a tensor map's box, and its rank (CUDA driver API, cuTensorMapEncodeTiled).
constexpr int64_t kMaxBox = 256, kMaxRank = 5;
/// What the address and the strides of a tensor map are multiples of, in bytes.
constexpr int64_t kMapAlignment = 16;

static bool isFragment(Value value) {
  auto space = dyn_cast_or_null<tile::SpaceKindAttr>(cast<MemRefType>(value.getType()).getMemorySpace());
  return space && space.getValue() == tile::SpaceKind::fragment;
}

static bool isSharedTile(Value value) {
  auto alloc = value.getDefiningOp<tile::AllocOp>();
  return alloc && !isFragment(value) && alloc.getType().getRank() == 2;
}

static int64_t bytesOf(Type element) { return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8 : 0; }

static MaybeObstacle planOperand(KernelPlan &plan, tile::MmaOp op, Value tile, const char *name, bool kMajor,
                                 int64_t unit) {
  auto refuse = [&](const std::string &reason) { return Obstacle{op, std::string("operand ") + name + " " + reason}; };
  if (!isSharedTile(tile)) {
    return refuse("is no whole shared tile");
  }
  if (const char *reason = WgmmaOperand::of(cast<MemRefType>(tile.getType()), kMajor).whyNot(unit)) {
    return refuse(std::string("cannot be read by wgmma: ") + reason);
  }
  plan.operands.insert(tile);
  return std::nullopt;
}

static MaybeObstacle planProduct(KernelPlan &plan, tile::MmaOp op) {
  auto acc = cast<MemRefType>(op.getAcc().getType());
  Type element = cast<MemRefType>(op.getA().getType()).getElementType();
  if (!op.getAcc().getDefiningOp<tile::AllocOp>() || !isFragment(op.getAcc())) {
    return Obstacle{op, "the accumulator is no fragment"};
  }
  if (op.getPanels()) {
    return Obstacle{op, "operand b is packed in panels"};
  }
  if (element != cast<MemRefType>(op.getB().getType()).getElementType() ||
      !(element.isBF16() || element.isF16() || (element.isF32() && op.getTf32()))) {
    return Obstacle{op, "operands are not both bf16, both f16, or both f32 with tf32 allowed"};
  }
  int64_t rows = acc.getDimSize(0), columns = acc.getDimSize(1);
  if (rows % (64 * plan.groups) != 0) {
    return Obstacle{op, std::to_string(rows) + " rows do not split over " + std::to_string(plan.groups) +
                            " warpgroups in blocks of 64"};
  }
  if (columns % 8 != 0 || columns > 256) {
    return Obstacle{op, std::to_string(columns) + " columns are no multiple of 8 up to 256"};
  }
  if (isFragment(op.getA())) {
    if (!op.getA().getDefiningOp<tile::AllocOp>() || element.isF32()) {
      return Obstacle{op, "operand a is a fragment, but no whole one of 16-bit elements"};
    }
  } else if (MaybeObstacle obstacle = planOperand(plan, op, op.getA(), "a", /*kMajor=*/true, 64)) {
    return obstacle;
  }
  return planOperand(plan, op, op.getB(), "b", op.getTransposeB(), columns);
}

/// Whether the copy engine can do `load`.
static MaybeObstacle checkLoad(tile::KernelOp kernel, tile::LoadOp load) {
  auto refuse = [&](const std::string &reason) {
    return Obstacle{load, "the copy engine cannot fetch a box of its source: " + reason};
  };
  auto source = dyn_cast<BlockArgument>(load.getSource());
  if (!source || source.getOwner() != &kernel.getBody().front()) {
    return refuse("it is no argument of the kernel");
  }
  auto type = cast<MemRefType>(source.getType()), tile = cast<MemRefType>(load.getTile().getType());
  int64_t rank = type.getRank(), bytes = bytesOf(type.getElementType());
  if (rank < 2 || rank > kMaxRank) {
    return refuse("it has rank " + std::to_string(rank) + ", not 2 to 5");
  }
  if (type.getElementType() != tile.getElementType() || (bytes != 2 && bytes != 4)) {
    return refuse("elements are converted, or not of 2 or 4 bytes");
  }
  ArrayRef<int64_t> dims = load.getDims();
  if (dims.size() != 2 || dims[0] >= dims[1] || dims[1] != rank - 1) {
    return refuse("the tile is no rows and columns along ascending dims, the last one innermost");
  }
  if (!load.getPad().isZero()) {
    return refuse("elements outside of it are not zero");
  }
  if (tile.getDimSize(0) > kMaxBox) {
    return refuse("the tile has more than 256 rows");
  }
  auto align = kernel.getArgAttrOfType<IntegerAttr>(source.getArgNumber(), tile::KernelOp::kAlignAttrName);
  bool aligned = align && align.getInt() % kMapAlignment == 0;
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)) || strides.back() != 1) {
    return refuse("its innermost stride is not known to be 1");
  }
  if (!aligned) {
    return refuse("its address is not known to be a multiple of 16 bytes (tile.align)");
  }
  for (int64_t stride : ArrayRef<int64_t>(strides).drop_back()) {
    if (!ShapedType::isDynamic(stride) && stride * bytes % kMapAlignment != 0) {
      return refuse("a stride of " + std::to_string(stride) + " elements is no multiple of 16 bytes");
    }
  }
  return std::nullopt;
}

/// Whether a tile op reads `buffer` and does not write it.
static bool onlyReads(Operation *op, Value buffer) {
  if (auto product = dyn_cast<tile::MmaOp>(op)) {
    return product.getAcc() != buffer;
  }
  if (auto map = dyn_cast<tile::MapOp>(op)) {
    return map.getOut() != buffer;
  }
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    return reduce.getOut() != buffer;
  }
  auto store = dyn_cast<tile::StoreOp>(op);
  return store && store.getDest() != buffer;
}

/// The first and the last op of the computation that read `buffer`; an obstacle where it is used for anything else.
static MaybeObstacle findReaders(PipelinePlan &pipeline, Value buffer, std::pair<Operation *, Operation *> &readers) {
  Block &compute = pipeline.op.getCompute().front();
  for (Operation *user : buffer.getUsers()) {
    if (user == pipeline.op || user->getBlock() == &pipeline.op.getLoads().front()) {
      continue;
    }
    if (user->getBlock() != &compute || !onlyReads(user, buffer)) {
      return Obstacle{user, "a buffer of the pipeline is not only read by whole ops of its computation"};
    }
    if (!readers.first || user->isBeforeInBlock(readers.first)) {
      readers.first = user;
    }
    if (!readers.second || readers.second->isBeforeInBlock(user)) {
      readers.second = user;
    }
  }
  if (!readers.first) {
    return Obstacle{pipeline.op, "a buffer of the pipeline is never read"};
  }
  return std::nullopt;
}

namespace {
/// Tells which values are the same in all blocks of a cluster: those that depend on the block's place along x only
/// through its quotient by the size of the cluster.
class ClusterUniformity {
public:
  explicit ClusterUniformity(int64_t cluster) : cluster(cluster) {}

  bool isUniform(Value value) {
    if (cluster == 1 || !seen.insert(value).second) {
      return true; // what closes a cycle is decided by the rest of it
    }
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (auto loop = dyn_cast<scf::ForOp>(parent)) {
        return allUniform(loop->getOperands()) && allUniform(loop.getBody()->getTerminator()->getOperands());
      }
      return isa<tile::KernelOp>(parent) || allUniform(parent->getOperands());
    }
    Operation *op = value.getDefiningOp();
    if (auto id = dyn_cast<tile::BlockIdOp>(op)) {
      return id.getDim() != 0;
    }
    if (auto quotient = dyn_cast<arith::DivUIOp>(op)) {
      auto id = quotient.getLhs().getDefiningOp<tile::BlockIdOp>();
      if (id && id.getDim() == 0 && getConstantIntValue(quotient.getRhs()) == cluster) {
        return true;
      }
    }
    bool uniform = allUniform(op->getOperands());
    for (Region &region : op->getRegions()) {
      for (Block &block : region) {
        uniform = uniform && allUniform(block.getTerminator()->getOperands());
      }
    }
    return uniform;
  }

private:
  bool allUniform(ValueRange values) {
    return llvm::all_of(values, [&](Value value) { return isUniform(value); });
  }

  int64_t cluster;
  llvm::DenseSet<Value> seen;
};
} // namespace

/// All blocks of a cluster must run a pipeline as often as each other where they fetch for each other.
static MaybeObstacle checkUniform(KernelPlan &kernel, tile::PipelineOp op) {
  for (Operation *parent = op; parent != kernel.kernel; parent = parent->getParentOp()) {
    unsigned count = isa<tile::PipelineOp, scf::ForOp>(parent) ? 3 : 1;
    for (Value operand : parent->getOperands().take_front(count)) {
      if (!ClusterUniformity(kernel.cluster).isUniform(operand)) {
        return Obstacle{parent, "the blocks of a cluster may run it differently often"};
      }
    }
  }
  return std::nullopt;
}

static MaybeObstacle planPipeline(KernelPlan &kernel, tile::PipelineOp op) {
  for (Operation *parent = op->getParentOp(); parent != kernel.kernel; parent = parent->getParentOp()) {
    if (!isa<scf::ForOp, scf::IfOp>(parent)) {
      return Obstacle{op, "the pipeline stands inside '" + parent->getName().getStringRef().str() + "'"};
    }
  }
  if (MaybeObstacle obstacle = checkUniform(kernel, op)) {
    return obstacle;
  }
  PipelinePlan &plan = kernel.pipelines.emplace_back();
  plan.op = op;
  llvm::MapVector<std::pair<Operation *, Operation *>, unsigned> known;
  for (auto load : op.getLoads().getOps<tile::LoadOp>()) {
    if (MaybeObstacle obstacle = checkLoad(kernel.kernel, load)) {
      return obstacle;
    }
    std::pair<Operation *, Operation *> readers;
    if (MaybeObstacle obstacle = findReaders(plan, load.getTile(), readers)) {
      return obstacle;
    }
    auto [entry, isNew] = known.try_emplace(readers, plan.groups.size());
    if (isNew) {
      plan.groups.emplace_back();
    }
    BufferGroup &group = plan.groups[entry->second];
    auto type = cast<MemRefType>(load.getTile().getType());
    group.buffers.push_back(load.getTile());
    group.lastReader = readers.second;
    group.bytes += type.getNumElements() * bytesOf(type.getElementType());
    plan.groupOf[load.getTile()] = entry->second;
    bool shared = kernel.cluster > 1 && type.getDimSize(0) % (8 * kernel.cluster) == 0 &&
                  llvm::all_of(load.getOffsets(),
                               [&](Value offset) { return ClusterUniformity(kernel.cluster).isUniform(offset); });
    if (shared) {
      plan.multicast.insert(load.getTile());
      group.multicast = true;
    }
  }
  return std::nullopt;
}

/// Sources of the producer must not be written by the consumers: they would race.
static MaybeObstacle checkWrites(tile::KernelOp kernel) {
  llvm::DenseMap<Value, Operation *> written;
  kernel.walk([&](tile::StoreOp store) { written.try_emplace(store.getDest(), store); });
  MaybeObstacle obstacle;
  kernel.walk([&](tile::PipelineOp pipeline) {
    for (auto load : pipeline.getLoads().getOps<tile::LoadOp>()) {
      if (Operation *store = written.lookup(load.getSource())) {
        obstacle = Obstacle{store, "writes what a pipeline of the kernel loads"};
      }
    }
  });
  return obstacle;
}

MaybeObstacle kimi::hopper::planKernel(tile::KernelOp kernel, KernelPlan &plan) {
  plan.kernel = kernel;
  int64_t threads = kernel.getThreads().value_or(0);
  if (threads < 128 || threads > 384 || threads % 128 != 0) {
    return Obstacle{kernel, "its " + std::to_string(threads) + " threads are not one to three warpgroups of 128"};
  }
  plan.groups = threads / 128;
  if (auto cluster = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kCluster)) {
    plan.cluster = cluster.getInt();
    if (plan.cluster < 1 || plan.cluster > 8 || !llvm::isPowerOf2_64(plan.cluster)) {
      return Obstacle{kernel, "clusters of " + std::to_string(plan.cluster) + " blocks are none of 1, 2, 4 and 8"};
    }
  }
  if (!llvm::hasSingleElement(kernel.getBody())) {
    return Obstacle{kernel, "it holds branches between blocks"};
  }
  SmallVector<Operation *> ops;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops) {
    if (auto product = dyn_cast<tile::MmaOp>(op)) {
      if (MaybeObstacle obstacle = planProduct(plan, product)) {
        return obstacle;
      }
    } else if (auto pipeline = dyn_cast<tile::PipelineOp>(op)) {
      if (MaybeObstacle obstacle = planPipeline(plan, pipeline)) {
        return obstacle;
      }
    } else if (isa<scf::WhileOp, scf::ParallelOp>(op)) {
      return Obstacle{op, "the producer cannot follow this loop"};
    }
  }
  if (plan.pipelines.empty()) {
    return Obstacle{kernel, "it has no tile.pipeline"};
  }
  return checkWrites(kernel);
}
