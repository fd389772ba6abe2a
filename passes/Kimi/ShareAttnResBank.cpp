//===- ShareAttnResBank.cpp - --kimi-share-attn-res-bank
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "passes/Kimi/LoadTime.h"
#include "passes/Kimi/Passes.h"
#include "llvm/Support/MathExtras.h"
#include <map>

namespace kimi {
#define GEN_PASS_DEF_SHAREATTNRESBANK
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// The sources of a bank in order, and eps: what mixes that can share have in common.
using Key = std::pair<std::vector<const void *>, uint64_t>;

Key keyOf(AttnResOp op) {
  std::vector<const void *> bank;
  for (Value source : op.getSources().drop_back()) {
    bank.push_back(source.getAsOpaquePointer());
  }
  return {std::move(bank), op.getEps().bitcastToAPInt().getZExtValue()};
}

/// Whether `value` is there before `point`, or can be: it is known when weights are loaded.
bool isReadyBefore(Value value, Operation *point) {
  Operation *op = value.getDefiningOp();
  return !op || op->getBlock() != point->getBlock() || op->isBeforeInBlock(point) || isLoadTimeValue(value);
}

/// The bytes for each row and channel that a group of mixes moves less when the bank is read once for all of them (see
/// the pass's description); negative where it moves more.
int64_t savedPerChannel(int64_t mixes, int64_t bank, Type element) {
  constexpr int64_t kSumBytes = 4;
  return (mixes - 1) * bank * element.getIntOrFloatBitWidth() / 8 - 2 * mixes * kSumBytes;
}

struct ShareAttnResBankPass : kimi::impl::ShareAttnResBankBase<ShareAttnResBankPass> {
  using ShareAttnResBankBase::ShareAttnResBankBase;

  void runOnOperation() override {
    if (queries < 1) {
      getOperation()->emitError() << "kimi-share-attn-res-bank: queries is " << queries.getValue()
                                  << "; expected at least 1";
      return signalPassFailure();
    }
    getOperation()->walk([&](Block *block) {
      std::map<Key, SmallVector<AttnResOp>> groups;
      SmallVector<Key> order;
      for (auto op : block->getOps<AttnResOp>()) {
        if (op.getSources().size() < 2) {
          continue; // there is no bank
        }
        SmallVector<AttnResOp> &group = groups[keyOf(op)];
        if (group.empty()) {
          order.push_back(keyOf(op));
        }
        group.push_back(op);
      }
      for (const Key &key : order) {
        shareGroup(groups[key]);
      }
    });
  }

  /// As few parts as `queries` allows, of equal size but for one.
  void shareGroup(SmallVector<AttnResOp> &group) {
    SmallVector<AttnResOp> ready;
    for (AttnResOp op : group) {
      if (isReadyBefore(op.getScore(), group.front())) {
        ready.push_back(op);
      } else {
        op.emitRemark() << "does not share its bank: its score vector is computed after the first use of the bank";
      }
    }
    ArrayRef<AttnResOp> left(ready);
    for (int64_t parts = llvm::divideCeil(left.size(), queries.getValue()); parts > 0; --parts) {
      int64_t count = llvm::divideCeil(left.size(), parts);
      shareBank(left.take_front(count));
      left = left.drop_front(count);
    }
  }

  void shareBank(ArrayRef<AttnResOp> mixes) {
    AttnResOp first = mixes.front();
    if (std::string reason = whyNot(mixes); !reason.empty()) {
      first.emitRemark() << "does not share its bank: " << reason;
      return;
    }
    OpBuilder b(first);
    ValueRange bank = first.getSources().drop_back();
    auto rows = cast<RankedTensorType>(bank.front().getType());
    SmallVector<int64_t> pair(rows.getShape());
    pair.back() = 2;
    SmallVector<Type> types(mixes.size(), RankedTensorType::get(pair, b.getF32Type()));
    types.append(mixes.size(), RankedTensorType::get(rows.getShape(), b.getF32Type()));
    SmallVector<Value> scores;
    SmallVector<Location> locs;
    for (AttnResOp mix : mixes) {
      moveBefore(mix.getScore(), first);
      scores.push_back(mix.getScore());
      locs.push_back(mix.getLoc());
    }
    b.setInsertionPoint(first);
    auto shared = AttnResBankOp::create(b, b.getFusedLoc(locs), types, bank, scores, first.getEpsAttr());
    for (size_t j = 0; j < mixes.size(); ++j) {
      AttnResOp mix = mixes[j];
      b.setInsertionPoint(mix);
      auto merge =
          AttnResMergeOp::create(b, mix.getLoc(), mix.getType(), mix.getSources().back(), shared.getStatistics()[j],
                                 shared.getSums()[j], mix.getScore(), mix.getEpsAttr());
      mix->replaceAllUsesWith(merge);
      mix->erase();
      ++numShared;
    }
    ++numBanks;
  }

  /// Why sharing would not pay, or empty.
  std::string whyNot(ArrayRef<AttnResOp> mixes) {
    AttnResOp first = mixes.front();
    auto type = cast<RankedTensorType>(first.getSources().front().getType());
    int64_t bank = first.getSources().size() - 1, count = mixes.size();
    if (count == 1) {
      return "nothing else mixes it";
    }
    int64_t saved = savedPerChannel(count, bank, type.getElementType());
    if (saved <= 0) {
      return std::to_string(count) + " mixes of " + std::to_string(bank) +
             " sources each read less than their sums would be to write and read";
    }
    if (type.hasStaticShape() && saved * type.getNumElements() < launchBytes) {
      return "it would save " + std::to_string(saved * type.getNumElements()) + " bytes, less than a launch is worth";
    }
    return "";
  }
};

} // namespace
