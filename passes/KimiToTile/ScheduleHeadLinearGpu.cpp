//===- ScheduleHeadLinearGpu.cpp - tile kernels of kimi.head_linear for GPUs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/KimiToTile/GpuArchOption.h"
#include "passes/KimiToTile/HeadLinearProblem.h"
#include "passes/KimiToTile/Passes.h"
#include "passes/KimiToTile/ScheduleEach.h"
#include "passes/KimiToTile/TileBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace kimi {
#define GEN_PASS_DEF_KIMISCHEDULEHEADLINEARGPU
#include "passes/KimiToTile/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// What the rows of a block are: a head's tokens of one sequence, or, where sequences have one token each, sequences.
enum class HeadRows { tokens, sequences };

class HeadLinearGpuKernel {
public:
  HeadLinearGpuKernel(HostContext &context, const GpuArch &arch, const HeadLinearProblem &problem, HeadRows rowsAre,
                      int64_t rows)
      : p(problem), rowsAre(rowsAre), writer(context, problem.op), t(writer), b(writer.body()), loc(writer.loc()) {
    auto elementOf = [](Value value) { return cast<ShapedType>(value.getType()).getElementType(); };
    HeadLinearOp op = problem.op;
    operand = elementOf(op.getX()) == elementOf(op.getW()) ? elementOf(op.getX()) : Type(b.getF32Type());
    int64_t elementSize = operand.getIntOrFloatBitWidth() / 8;
    s = chooseHeadLinearTile(arch, {p.width, p.channels, elementSize}, rows);
    writer.setThreads(s.threads, s.blocksPerSm(arch, elementSize));
  }

  FailureOr<KernelWriter::Variant> build(const std::string &stem, const SymbolicDim &guard) {
    HeadLinearOp op = p.op;
    Value x = writer.input(op.getX()), w = writer.input(op.getW());
    if (!x || !w) {
      writer.abandon();
      return failure();
    }
    Value y = p.addResult(writer), zero = writer.constant(0);
    // Blocks of one head beside each other: they share its rows of x.
    int64_t columnTiles = llvm::divideCeil(p.width, s.columns);
    Value column = times(blockId(0), s.columns), row = times(blockId(1), s.rows), head = blockId(2), batch = zero;
    if (rowsAre == HeadRows::tokens) {
      Value heads = writer.extent(x, 1);
      batch = arith::DivUIOp::create(b, loc, head, heads);
      head = arith::RemUIOp::create(b, loc, head, heads);
    }
    auto at = [&](Value channel) {
      return rowsAre == HeadRows::tokens ? SmallVector<Value>{batch, head, row, channel}
                                         : SmallVector<Value>{row, head, zero, channel};
    };
    int64_t rowAxis = rowsAre == HeadRows::tokens ? 2 : 0;
    Value acc = t.fragment(s.rows, s.columns);
    Value rowTile = t.shared(s.rows, s.depth, operand), matrixTile = t.shared(s.depth, s.columns, operand);
    t.fill(acc, 0.0f);
    t.pipeline(
        zero, writer.constant(p.channels), writer.constant(s.depth), {rowTile, matrixTile}, s.stages,
        [&](Value k) {
          t.load(rowTile, x, at(k), {rowAxis, 3});
          t.load(matrixTile, w, {head, k, column}, {1, 2});
        },
        [&](Value) { t.multiply(acc, rowTile, matrixTile); });
    t.store(acc, y, at(column), {rowAxis, 3});
    SymbolicDim blocks = rowsAre == HeadRows::tokens ? p.batch * p.heads : p.heads;
    SymbolicDim rowTiles = SymbolicDim::ceilDiv(rowsAre == HeadRows::tokens ? p.tokens : p.batch, s.rows);
    return KernelWriter::Variant{writer.finish(stem), guard, SymbolicDim(columnTiles), rowTiles, blocks};
  }

  KernelWriter &getWriter() { return writer; }

private:
  Value times(Value index, int64_t factor) { return arith::MulIOp::create(b, loc, index, writer.constant(factor)); }
  Value blockId(uint64_t dim) { return tile::BlockIdOp::create(b, loc, b.getIndexType(), dim); }

  const HeadLinearProblem &p;
  HeadRows rowsAre;
  KernelWriter writer;
  TileBuilder t;
  OpBuilder &b;
  Location loc;
  Type operand;
  LinearTile s{};
};

struct KimiScheduleHeadLinearGpu : kimi::impl::KimiScheduleHeadLinearGpuBase<KimiScheduleHeadLinearGpu> {
  using KimiScheduleHeadLinearGpuBase::KimiScheduleHeadLinearGpuBase;

  void runOnOperation() override {
    FailureOr<GpuArch> found = gpuArchOption(getOperation(), archName, multiprocessors);
    if (failed(found)) {
      return signalPassFailure();
    }
    arch = *found;
    auto one = [&](HostContext &context, HeadLinearOp op) { return schedule(context, op); };
    if (failed(scheduleEach<HeadLinearOp>(getOperation(), whyNotHeadLinear, one, numScheduled, aloneInGroup))) {
      signalPassFailure();
    }
  }

private:
  LogicalResult schedule(HostContext &context, HeadLinearOp op) {
    constexpr int64_t few = 16, many = 64;
    HeadLinearProblem p(context, op);
    std::string stem = headLinearStem(op);
    struct Choice {
      HeadRows rowsAre;
      int64_t rows;
      SymbolicDim guard;
      const char *suffix;
    };
    SmallVector<Choice> choices;
    // Ends at the first that always holds; the last one is for what is left.
    auto add = [&](HeadRows rowsAre, int64_t rows, const SymbolicDim &guard, const char *suffix) {
      if (!guard.is(0) && (choices.empty() || !choices.back().guard.is(1))) {
        choices.push_back({rowsAre, rows, guard, suffix});
      }
    };
    SymbolicDim isOne = SymbolicDim::eq(p.tokens, 1);
    add(HeadRows::sequences, few, isOne * SymbolicDim::le(p.batch, few), "_b16");
    add(HeadRows::sequences, many, isOne, "_b");
    add(HeadRows::tokens, few, SymbolicDim::le(p.tokens, few), "_t16");
    add(HeadRows::tokens, many, SymbolicDim(1), "");
    SmallVector<KernelWriter::Variant> variants;
    std::unique_ptr<HeadLinearGpuKernel> kernel;
    for (const Choice &choice : choices) {
      kernel = std::make_unique<HeadLinearGpuKernel>(context, arch, p, choice.rowsAre, choice.rows);
      FailureOr<KernelWriter::Variant> variant = kernel->build(stem + choice.suffix, choice.guard);
      if (failed(variant)) {
        return failure();
      }
      variants.push_back(*variant);
    }
    context.replace(op, kernel->getWriter().dispatch(variants, 2 * p.channels).getResult(0));
    return success();
  }

  GpuArch arch;
};
} // namespace
