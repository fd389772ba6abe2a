//===- FuseLinear.cpp - norm, projection and what follows it as one kernel
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kimi/LinearFusion.h"
#include "passes/Kimi/Passes.h"
#include "passes/Kimi/Reference.h"
#include "llvm/ADT/SetVector.h"

namespace kimi {
#define GEN_PASS_DEF_FUSELINEAR
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

RankedTensorType tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

//===----------------------------------------------------------------------===//
// Building the fused op
//===----------------------------------------------------------------------===//

/// The epilogue under construction: extras, their maps, and the scalar code.
class Epilogue {
public:
  Epilogue(OpBuilder &b, unsigned rank) : b(b), rank(rank), body(std::make_unique<Block>()) {
    value = body->addArgument(b.getF32Type(), b.getUnknownLoc());
  }

  /// The scalar argument that reads `tensor` through `map`; one for equal pairs.
  Value extra(Value tensor, AffineMap map, Location loc) {
    for (auto [i, known] : llvm::enumerate(extras)) {
      if (known == tensor && maps[i] == map) {
        return body->getArgument(i + 1);
      }
    }
    extras.push_back(tensor);
    maps.push_back(map);
    return body->addArgument(tensorOf(tensor).getElementType(), loc);
  }

  void addBias(Value bias, Location loc) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body.get());
    AffineMap last = AffineMap::get(rank, 0, b.getAffineDimExpr(rank - 1), b.getContext());
    Value element = castFloat(b, loc, extra(bias, last, loc), b.getF32Type());
    value = arith::AddFOp::create(b, loc, value, element);
  }

  /// The value rounded to `type`.
  void round(Type type, Location loc) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body.get());
    value = castFloat(b, loc, value, type);
  }

  void addGelu(GeluOp op) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body.get());
    value = emitGelu(b, op.getLoc(), castFloat(b, op.getLoc(), value, b.getF32Type()), op.getTanh());
    value = castFloat(b, op.getLoc(), value, tensorOf(op.getResult()).getElementType());
  }

  void addGeneric(linalg::GenericOp op, Value source) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body.get());
    IRMapping mapping;
    for (OpOperand *input : op.getDpsInputOperands()) {
      DenseElementsAttr elements;
      Value scalar;
      if (input->get() == source) {
        scalar = value;
      } else if (matchPattern(input->get(), m_Constant(&elements)) && elements.isSplat()) {
        auto number = elements.getSplatValue<TypedAttr>();
        scalar = arith::ConstantOp::create(b, op.getLoc(), number);
      } else {
        scalar = extra(input->get(), op.getMatchingIndexingMap(input), input->get().getLoc());
      }
      mapping.map(op.getMatchingBlockArgument(input), scalar);
    }
    auto clone = [&](Operation &inner) {
      for (Value operand : inner.getOperands()) {
        if (operand.getParentBlock() != op.getBody() && !mapping.contains(operand)) {
          mapping.map(operand, b.clone(*operand.getDefiningOp())->getResult(cast<OpResult>(operand).getResultNumber()));
        }
      }
    };
    for (Operation &inner : op.getBody()->without_terminator()) {
      clone(inner);
      b.clone(inner, mapping);
    }
    clone(*op.getBody()->getTerminator());
    value = mapping.lookup(op.getBody()->getTerminator()->getOperand(0));
  }

  /// Ends the code and moves it into `op`'s region.
  void moveInto(FusedLinearOp op, Location loc) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body.get());
    YieldOp::create(b, loc, value);
    op.getEpilogue().push_back(body.release());
  }

  ArrayAttr mapsAttr() { return b.getAffineMapArrayAttr(maps); }

  SmallVector<Value> extras;

private:
  OpBuilder &b;
  unsigned rank;
  std::unique_ptr<Block> body;
  SmallVector<AffineMap> maps;
  Value value;
};

struct FuseLinearPass : kimi::impl::FuseLinearBase<FuseLinearPass> {
  void runOnOperation() override {
    llvm::SetVector<Operation *> linearOps, normOps;
    getOperation()->walk([&](LinearOp op) {
      StringRef why = fusionObstacle(op);
      if (matrixOf(op).first.getDefiningOp<DequantizeOp>()) {
        op.emitRemark(
            "its packed weight is expanded, once, when weights are loaded: only experts are multiplied packed");
      }
      if (why.empty()) {
        linearOps.insert(op);
        return;
      }
      ++refused;
      op.emitRemark("not fused: ") << why << "; it runs as plain loops";
    });
    getOperation()->walk([&](Operation *op) {
      if (isa<LayerNormOp, RmsNormOp>(op) && !op->use_empty() && llvm::all_of(op->getUses(), [&](OpOperand &use) {
            return linearOps.contains(use.getOwner()) && use.getOperandNumber() == 0;
          })) {
        normOps.insert(op);
      }
    });
    for (Operation *op : linearOps) {
      fuse(cast<LinearOp>(op), normOps);
    }
    getOperation()->walk([](linalg::TransposeOp op) {
      if (isOpTriviallyDead(op)) {
        op->erase();
      }
    });
    for (Operation *op : normOps) {
      if (op->use_empty()) {
        op->erase();
        ++norms;
      }
    }
  }

  void fuse(LinearOp op, const llvm::SetVector<Operation *> &foldableNorms) {
    OpBuilder b(op);
    Epilogue epilogue(b, tensorOf(op.getResult()).getRank());
    if (op.getBias()) {
      epilogue.addBias(op.getBias(), op.getLoc());
    }
    SmallVector<Operation *> taken = {op};
    SmallVector<Location> locs = {op.getLoc()};
    Value result = op.getResult();
    epilogue.round(tensorOf(result).getElementType(), op.getLoc());
    while (Operation *consumer = fusableConsumer(result)) {
      if (auto gelu = dyn_cast<GeluOp>(consumer)) {
        epilogue.addGelu(gelu);
      } else {
        epilogue.addGeneric(cast<linalg::GenericOp>(consumer), result);
      }
      ++consumers;
      Type before = tensorOf(result).getElementType();
      result = consumer->getResult(0);
      taken.push_back(consumer);
      locs.push_back(consumer->getLoc());
      if (tensorOf(result).getElementType() != before) {
        break;
      }
    }

    Value x = op.getX(), gamma, beta;
    NormKind kind = NormKind::none;
    FloatAttr eps = b.getF32FloatAttr(0.0f);
    if (Operation *norm = x.getDefiningOp(); norm && foldableNorms.contains(norm)) {
      locs.insert(locs.begin(), norm->getLoc());
      if (auto layer = dyn_cast<LayerNormOp>(norm)) {
        std::tie(kind, x, gamma, beta) = std::tuple(NormKind::layer, layer.getX(), layer.getGamma(), layer.getBeta());
        eps = layer.getEpsAttr();
      } else {
        auto rms = cast<RmsNormOp>(norm);
        std::tie(kind, x, gamma) = std::tuple(NormKind::rms, rms.getX(), rms.getGamma());
        eps = rms.getEpsAttr();
      }
    }
    auto [w, transpose] = matrixOf(op);
    b.setInsertionPoint(taken.back());
    Location loc = b.getFusedLoc(locs);
    auto fused = FusedLinearOp::create(b, loc, result.getType(), x, w, gamma, beta, epilogue.extras, kind,
                                       eps.getValue(), transpose, epilogue.mapsAttr());
    epilogue.moveInto(fused, loc);
    result.replaceAllUsesWith(fused.getResult());
    for (Operation *old : llvm::reverse(taken)) {
      old->erase();
    }
    ++linears;
  }
};

} // namespace
