//===- InsertBarriers.cpp - barriers between accesses to the same shared memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TileToNvvm/Hopper.h"
#include "passes/TileToNvvm/KernelAttrs.h"
#include "passes/TileToNvvm/Passes.h"
#include <set>

namespace kimi {
#define GEN_PASS_DEF_TILEINSERTBARRIERS
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// The barrier at which the consumers of a kernel with a producer meet; the whole block's is 0.
constexpr int64_t kConsumerBarrier = 1;

/// Bytes [first, first + second).
using Range = std::pair<int64_t, int64_t>;

/// What threads may have accessed since the last barrier.
struct Pending {
  std::set<Range> reads, writes;

  bool join(const Pending &other) {
    size_t before = reads.size() + writes.size();
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
    return reads.size() + writes.size() != before;
  }
  void clear() {
    reads.clear();
    writes.clear();
  }
};

bool overlaps(const std::set<Range> &pending, ArrayRef<int64_t> accesses) {
  for (size_t i = 0; i + 1 < accesses.size(); i += 2) {
    for (const Range &range : pending) {
      if (range.first < accesses[i] + accesses[i + 1] && accesses[i] < range.first + range.second) {
        return true;
      }
    }
  }
  return false;
}

void append(std::set<Range> &pending, ArrayRef<int64_t> accesses) {
  for (size_t i = 0; i + 1 < accesses.size(); i += 2) {
    pending.emplace(accesses[i], accesses[i + 1]);
  }
}

class BarrierAnalysis {
public:
  /// Follows `block` from `state`, which becomes the state behind it.
  void visit(Block &block, Pending &state) {
    for (Operation &op : block) {
      if (auto access = dyn_cast<tile::SharedAccessOp>(op)) {
        bool hazard = overlaps(state.writes, access.getReads()) || overlaps(state.writes, access.getWrites()) ||
                      overlaps(state.reads, access.getWrites());
        if (hazard || needed.contains(access)) {
          needed.insert(access);
          state.clear();
        }
        append(state.reads, access.getReads());
        append(state.writes, access.getWrites());
      } else if (isWholeBarrier(op)) {
        state.clear();
      } else if (op.getNumRegions() != 0) {
        visitRegions(op, state);
      }
    }
  }

  llvm::SmallPtrSet<Operation *, 16> needed;

private:
  static bool isWholeBarrier(Operation &op) {
    if (isa<NVVM::Barrier0Op>(op)) {
      return true;
    }
    auto barrier = dyn_cast<NVVM::BarrierOp>(op);
    return barrier && !barrier.getBarrierId() && !barrier.getNumberOfThreads();
  }

  void visitRegions(Operation &op, Pending &state) {
    Pending after = state;
    if (isa<scf::IfOp>(op)) {
      auto ifOp = cast<scf::IfOp>(op);
      Pending otherwise = state;
      after = state;
      visit(ifOp.getThenRegion().front(), after);
      if (!ifOp.getElseRegion().empty()) {
        visit(ifOp.getElseRegion().front(), otherwise);
      }
      after.join(otherwise);
      state = after;
      return;
    }
    // A loop: what its end leaves pending meets its start.
    Pending entry = state;
    bool more = true;
    while (more) {
      Pending body = entry;
      for (Region &region : op.getRegions()) {
        for (Block &block : region) {
          visit(block, body);
        }
      }
      after = body;
      more = entry.join(body);
    }
    after.join(state); // it may run no round
    state = after;
  }
};

struct TileInsertBarriers : kimi::impl::TileInsertBarriersBase<TileInsertBarriers> {
  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
      BarrierAnalysis analysis;
      for (Block &block : kernel.getBody()) {
        Pending state;
        analysis.visit(block, state);
      }
      SmallVector<tile::SharedAccessOp> accesses;
      kernel.walk([&](tile::SharedAccessOp access) { accesses.push_back(access); });
      for (tile::SharedAccessOp access : accesses) {
        if (analysis.needed.contains(access)) {
          OpBuilder b(access);
          if (auto consumers = kernel->getAttrOfType<IntegerAttr>(kernel_attrs::kConsumers)) {
            hopper::emitNamedBarrier(b, access.getLoc(), kConsumerBarrier, consumers.getInt());
          } else {
            NVVM::BarrierOp::create(b, access.getLoc());
          }
          ++numBarriers;
        }
        access.erase();
      }
    }
  }
};
} // namespace
