//===- ScheduleDeltaRule.cpp - kimi.delta_rule token by token, its state in registers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/Layout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/DeltaRuleProblem.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "passes/KimiToTile/TileBuilder.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEDELTARULE
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
constexpr int64_t kThreads = 128, kStages = 3, kMaxKeyChannels = 256, kMaxGroup = 8;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Writes the kernel. Block (n, b * H + h) keeps value columns [n * width, ..) of one state, transposed: a row is a
/// value column, so that keys, queries and gates of a channel are rows that are broadcast.
class DeltaKernel {
public:
  DeltaKernel(HostContext &context, DeltaRuleProblem &p, bool gpu)
      : context(context), op(p.op), p(p), tokensFirst(p.tokensFirst()), writer(context, op), t(writer),
        b(writer.body()), loc(writer.loc()), gpu(gpu) {
    depth = typeOf(op.getK()).getDimSize(3);
    int64_t channels = typeOf(op.getV()).getDimSize(3);
    width = depth > 128 && !gpu ? 16 : 32;
    while (width / 2 >= channels && width > 1) {
      width /= 2;
    }
    group = op.getResultHeads() / op.getStateHeads();
    if (gpu) {
      writer.setThreads(kThreads, depth > 128 ? 2 : 3); // as many as keep the state in registers
    }
  }

  FailureOr<DispatchOp> build() {
    SmallVector<Value *> buffers = {&q, &k, &v, &decay, &beta, &erase, &write};
    Value operands[] = {op.getQ(), op.getK(), op.getV(), op.getDecay(), op.getBeta(), op.getErase(), op.getWrite()};
    for (auto [buffer, operand] : llvm::zip_equal(buffers, operands)) {
      if (operand && !(*buffer = writer.input(operand))) {
        writer.abandon();
        return failure();
      }
    }
    if (op.getInitial() && !p.write && !(initial = writer.input(op.getInitial()))) {
      writer.abandon();
      return failure();
    }
    SymbolicDim batch = context.scalars.shape(op.getResult())[0];
    if (p.write) {
      initial = final = writer.state(p.write.getState(), batch);
    }
    out = p.addResult(context, writer);
    if (!p.write && !op.getState().use_empty()) {
      final = writer.result(typeOf(op.getState()), context.scalars.shape(op.getState()));
    }
    emit();
    int64_t channels = typeOf(op.getV()).getDimSize(3);
    KernelWriter::Variant variant{writer.finish(stem()), SymbolicDim(1), SymbolicDim(llvm::divideCeil(channels, width)),
                                  batch * SymbolicDim(op.getStateHeads())};
    return writer.dispatch(variant, /*flopsPerElement=*/(op.erases() ? 7 : 5) * depth);
  }

private:
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }

  /// The head of `buffer` that head `of` of `all` reads.
  Value headOf(Value buffer, Value of, int64_t all) {
    int64_t own = cast<MemRefType>(buffer.getType()).getDimSize(1);
    return own == all ? of : arith::DivUIOp::create(b, loc, of, writer.constant(all / own)).getResult();
  }

  /// A gate's tile: one number, or one a channel along tile axis `axis`.
  Value gateTile(Value gate, int64_t axis) {
    if (!gate) {
      return {};
    }
    bool channels = cast<MemRefType>(gate.getType()).getRank() == 4;
    return axis == 1 ? t.shared(1, channels ? depth : 1) : t.shared(channels ? width : 1, 1);
  }
  void loadGate(Value tile, Value gate, Value token, int64_t axis) {
    Value own = headOf(gate, head, op.getStateHeads());
    if (cast<MemRefType>(gate.getType()).getRank() == 3) {
      t.load(tile, gate, {batch, own, token}, {1, 2});
    } else if (axis == 1) {
      t.load(tile, gate, {batch, own, token, zero}, {2, 3});
    } else {
      t.load(tile, gate, {batch, own, token, column}, {3, 2});
    }
  }

  /// Four neighbouring lanes share a value column, a fourth of its key channels each: a sum over channels is two
  /// exchanges, keys are read four at a time, and eight columns of a row of memory fill its sectors.
  Value stateTile() {
    Value tile = t.fragment(width, depth);
    constexpr int64_t kVector = 4, kColumnLanes = 4, kRowLanes = 8, kWarps = kThreads / 32;
    if (gpu && width == kRowLanes * kWarps && depth % (kVector * kColumnLanes) == 0) {
      auto alloc = tile.getDefiningOp<tile::AllocOp>();
      alloc.setLayoutAttr(tile::makeLayout(
          b.getContext(), {{kVector, 1, 1}, {depth / (kVector * kColumnLanes), kVector * kColumnLanes, 1}},
          {{kColumnLanes, kVector, 1}, {kRowLanes, 1, 0}}, {{kWarps, kRowLanes, 0}}));
    }
    return tile;
  }

  void emit() {
    zero = writer.constant(0);
    Value heads = writer.constant(op.getStateHeads());
    Value y = tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(1));
    column = arith::MulIOp::create(b, loc, tile::BlockIdOp::create(b, loc, b.getIndexType(), uint64_t(0)),
                                   writer.constant(width));
    batch = arith::DivUIOp::create(b, loc, y, heads);
    head = arith::RemUIOp::create(b, loc, y, heads);
    state = stateTile();
    product = stateTile();
    if (initial) {
      t.load(state, initial, {batch, head, zero, column}, {3, 2});
    } else {
      t.fill(state, 0.0f);
    }
    keyTile = t.shared(1, depth);
    valueTile = t.shared(width, 1);
    decayTile = gateTile(decay, 1);
    betaTile = gateTile(beta, 1);
    eraseTile = gateTile(erase, 1);
    writeTile = gateTile(write, 0);
    SmallVector<Value> members;
    for (int64_t member = 0; member < group; ++member) {
      queryTiles.push_back(t.shared(1, depth));
      Value first = arith::MulIOp::create(b, loc, head, writer.constant(group));
      members.push_back(arith::AddIOp::create(b, loc, first, writer.constant(member)));
    }
    found = t.fragment(width, 1);
    correction = t.fragment(width, 1);
    result = t.fragment(width, 1);
    if (decay) {
      fade = t.fragment(1, cast<MemRefType>(decayTile.getType()).getDimSize(1));
    }
    SmallVector<Value> buffers{keyTile, valueTile};
    buffers.append(queryTiles);
    for (Value tile : {decayTile, betaTile, eraseTile, writeTile}) {
      if (tile) {
        buffers.push_back(tile);
      }
    }
    Value keyHead = headOf(k, head, op.getStateHeads()), valueHead = headOf(v, head, op.getStateHeads());
    t.pipeline(
        zero, writer.extent(q, 2), writer.constant(1), buffers, kStages,
        [&](Value token) {
          t.load(keyTile, k, {batch, keyHead, token, zero}, {2, 3});
          t.load(valueTile, v, {batch, valueHead, token, column}, {3, 2});
          for (auto [tile, member] : llvm::zip_equal(queryTiles, members)) {
            t.load(tile, q, {batch, headOf(q, member, op.getResultHeads()), token, zero}, {2, 3});
          }
          for (auto [tile, gate, axis] :
               {std::tuple(decayTile, decay, 1), {betaTile, beta, 1}, {eraseTile, erase, 1}, {writeTile, write, 0}}) {
            if (gate) {
              loadGate(tile, gate, token, axis);
            }
          }
        },
        [&](Value token) {
          update();
          for (auto [tile, member] : llvm::zip_equal(queryTiles, members)) {
            readOut(tile, member, token);
          }
        });
    if (final) {
      t.store(state, final, {batch, head, zero, column}, {3, 2});
    }
  }

  /// S <- fade * S + k * (w * v - sum(b * k * fade * S)).
  void update() {
    if (decay) {
      t.map({decayTile}, fade, [&](ValueRange e) { return math::ExpOp::create(b, loc, e[0]).getResult(); });
    }
    if (op.erases()) {
      SmallVector<Value> inputs{state, keyTile};
      if (decay) {
        inputs.push_back(fade);
      }
      if (erase) {
        inputs.push_back(eraseTile);
      }
      t.map(inputs, product, [&](ValueRange e) {
        Value key = e[1];
        for (Value factor : e.drop_front(2)) {
          key = mul(key, factor);
        }
        return mul(e[0], key);
      });
      t.reduce(tile::ReduceKind::add, product, found);
    }
    SmallVector<Value> inputs{valueTile};
    if (write) {
      inputs.push_back(writeTile);
    }
    if (op.erases()) {
      inputs.push_back(found);
    }
    if (beta) {
      inputs.push_back(betaTile);
    }
    t.map(inputs, correction, [&](ValueRange e) {
      size_t next = 1;
      Value value = e[0];
      if (write) {
        value = mul(value, e[next++]);
      }
      if (op.erases()) {
        value = sub(value, e[next++]);
      }
      return beta ? mul(value, e[next]) : value;
    });
    SmallVector<Value> parts{state, keyTile, correction};
    if (decay) {
      parts.push_back(fade);
    }
    t.map(parts, state, [&](ValueRange e) { return add(decay ? mul(e[0], e[3]) : e[0], mul(e[1], e[2])); });
  }

  void readOut(Value query, Value member, Value token) {
    t.map({state, query}, product, [&](ValueRange e) { return mul(e[0], e[1]); });
    t.reduce(tile::ReduceKind::add, product, result);
    Value scale = t.number(op.getScale().convertToFloat());
    t.map({result}, result, [&](ValueRange e) { return mul(e[0], scale); });
    if (tokensFirst) {
      t.store(result, out, {batch, token, member, column}, {3, 1});
    } else {
      t.store(result, out, {batch, member, token, column}, {3, 2});
    }
  }

  std::string stem() {
    std::string text = "delta_rule_d" + std::to_string(depth);
    if (int64_t channels = typeOf(op.getV()).getDimSize(3); channels != depth) {
      text += "_v" + std::to_string(channels);
    }
    auto gate = [&](Value value, const char *name) {
      if (value) {
        text += std::string("_") + name + (cast<MemRefType>(value.getType()).getRank() == 4 ? "_channel" : "");
      }
    };
    gate(decay, "decay");
    gate(beta, "beta");
    gate(erase, "erase");
    gate(write, "write");
    return text;
  }

  HostContext &context;
  DeltaRuleOp op;
  DeltaRuleProblem &p;
  bool tokensFirst;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  bool gpu;
  int64_t depth, width, group;
  Value q, k, v, decay, beta, erase, write, initial, final, out;
  Value zero, column, batch, head;
  Value state, product, keyTile, valueTile, decayTile, betaTile, eraseTile, writeTile;
  Value found, correction, result, fade;
  SmallVector<Value> queryTiles;
};

struct KimiScheduleDeltaRule : kimi::impl::KimiScheduleDeltaRuleBase<KimiScheduleDeltaRule> {
  using KimiScheduleDeltaRuleBase::KimiScheduleDeltaRuleBase;

  void runOnOperation() override {
    auto one = [&](HostContext &context, DeltaRuleOp op) { return schedule(context, op); };
    auto group = [](HostContext &, DeltaRuleOp op) { return DeltaRuleProblem::group(op); };
    if (failed(scheduleEach<DeltaRuleOp>(
            getOperation(), [](DeltaRuleOp op) { return whyNot(op); }, one, numScheduled, group))) {
      signalPassFailure();
    }
  }

  static std::string whyNot(DeltaRuleOp op) {
    if (op.getNormalize()) {
      return "there is no kernel that divides by the sum of the keys";
    }
    int64_t depth = typeOf(op.getK()).getDimSize(3), channels = typeOf(op.getV()).getDimSize(3);
    if (ShapedType::isDynamic(depth) || ShapedType::isDynamic(channels)) {
      return "the number of channels of a head is not known";
    }
    if (depth == 0 || channels == 0) {
      return "heads of 0 channels do not fit a block";
    }
    if (depth > kMaxKeyChannels) {
      return "heads of " + std::to_string(depth) + " key channels do not fit a block";
    }
    if (int64_t group = op.getResultHeads() / op.getStateHeads(); group > kMaxGroup) {
      return std::to_string(group) + " query heads share a state; a block takes up to " + std::to_string(kMaxGroup);
    }
    for (Value value : op->getOperands()) {
      Type element = typeOf(value).getElementType();
      if (!element.isF32() && !element.isBF16() && !element.isF16()) {
        return "there is no kernel for operands that are not f32, bf16 or f16";
      }
    }
    return "";
  }

  LogicalResult schedule(HostContext &context, DeltaRuleOp op) {
    DeltaRuleProblem p(context, op);
    FailureOr<DispatchOp> dispatch = DeltaKernel(context, p, gpu).build();
    if (failed(dispatch)) {
      return failure();
    }
    p.replace(context, *dispatch);
    return success();
  }
};
} // namespace
