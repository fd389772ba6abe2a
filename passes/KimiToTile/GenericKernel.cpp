//===- GenericKernel.cpp - linalg.generic as a kernel of loops
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/KimiToTile/LoopKernels.h"
#include "passes/KimiToTile/TaskLoop.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kimi;

namespace {
/// What an operand of a generic is in the kernel: a buffer read through a map, or one value for every point.
struct Source {
  Value buffer, value;
  AffineMap map;
};

class GenericKernel {
public:
  GenericKernel(HostContext &context, linalg::GenericOp op, int64_t taskWork)
      : context(context), op(op), taskWork(taskWork), writer(context, op), b(writer.body()), loc(writer.loc()) {}

  LogicalResult run() {
    if (failed(importOperands()) || failed(findExtents())) {
      writer.abandon();
      return failure();
    }
    orderLoops();
    SmallVector<SymbolicDim> parallelExtents;
    SmallVector<Value> bounds;
    for (unsigned loop : parallel) {
      parallelExtents.push_back(hostExtents[loop]);
      bounds.push_back(kernelExtents[loop]);
    }
    SymbolicDim work(1);
    for (unsigned loop : reduction) {
      work = work * hostExtents[loop];
    }
    TaskLoop tasks(parallelExtents, work, taskWork);
    tasks.build(writer, bounds, [&](ArrayRef<Value> point) { buildPoint(point); });
    KernelWriter::Variant variant{writer.finish(kernelStem(op)), SymbolicDim(1), tasks.tasks()};
    DispatchOp dispatch = writer.dispatch(variant);
    context.replace(op, dispatch.getResults());
    return success();
  }

private:
  LogicalResult importOperands() {
    for (OpOperand &operand : op->getOpOperands()) {
      Source source;
      source.map = op.getMatchingIndexingMap(&operand);
      if (op.payloadUsesValueFromOperand(&operand)) {
        if (!isa<RankedTensorType>(operand.get().getType())) {
          FailureOr<Value> value = writer.import(operand.get());
          if (failed(value)) {
            return op.emitError() << "operand " << operand.getOperandNumber()
                                  << " is a scalar that neither the host nor a kernel can compute";
          }
          source.value = *value;
        } else if (Value value = uniformValue(writer, operand.get())) {
          source.value = value;
        } else if (!(source.buffer = writer.input(operand.get()))) {
          return failure();
        }
      }
      sources.push_back(source);
    }
    if (failed(importCaptured(writer, op, mapping))) {
      return failure();
    }
    for (OpResult result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      results.push_back(writer.result(type, context.scalars.shape(result)));
    }
    return success();
  }

  LogicalResult findExtents() {
    unsigned loops = op.getNumLoops();
    kernelExtents.resize(loops);
    hostExtents.resize(loops);
    auto look = [&](AffineMap map, Value tensor, Value buffer) {
      SmallVector<SymbolicDim> sizes;
      for (auto [axis, expr] : llvm::enumerate(map.getResults())) {
        auto dim = dyn_cast<AffineDimExpr>(expr);
        if (!dim || kernelExtents[dim.getPosition()]) {
          continue;
        }
        if (sizes.empty()) {
          sizes = context.scalars.shape(tensor);
        }
        hostExtents[dim.getPosition()] = sizes[axis];
        kernelExtents[dim.getPosition()] = buffer ? writer.extent(buffer, axis) : writer.scalar(sizes[axis]);
      }
    };
    for (auto [index, result] : llvm::enumerate(op->getResults())) {
      look(op.getMatchingIndexingMap(op.getDpsInitOperand(index)), result, results[index]);
    }
    for (OpOperand *operand : op.getDpsInputOperands()) {
      Source &source = sources[operand->getOperandNumber()];
      if (source.buffer) {
        look(source.map, operand->get(), source.buffer);
      }
    }
    for (OpOperand *operand : op.getDpsInputOperands()) { // operands that only say how often to loop
      if (isa<RankedTensorType>(operand->get().getType())) {
        look(sources[operand->getOperandNumber()].map, operand->get(), Value());
      }
    }
    for (unsigned loop = 0; loop < loops; ++loop) {
      if (!kernelExtents[loop]) {
        return op.emitError() << "the extent of loop " << loop << " is not an extent of any operand";
      }
    }
    return success();
  }

  /// Parallel loops in the order of the first result's axes, so that the innermost one runs along memory.
  void orderLoops() {
    SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
    AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    SetVector<unsigned> ordered;
    for (AffineExpr expr : map.getResults()) {
      if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
        ordered.insert(dim.getPosition());
      }
    }
    for (unsigned loop = 0; loop < kinds.size(); ++loop) {
      if (kinds[loop] == utils::IteratorType::parallel && !ordered.contains(loop)) {
        parallel.push_back(loop);
      }
    }
    for (unsigned loop : ordered) {
      if (kinds[loop] == utils::IteratorType::parallel) {
        parallel.push_back(loop);
      }
    }
    for (unsigned loop = 0; loop < kinds.size(); ++loop) {
      if (kinds[loop] != utils::IteratorType::parallel) {
        reduction.push_back(loop);
      }
    }
  }

  Value read(const Source &source, ValueRange point) {
    if (source.value) {
      return source.value;
    }
    auto indices = affine::expandAffineMap(b, loc, source.map, point);
    return memref::LoadOp::create(b, loc, source.buffer, ValueRange(*indices));
  }

  void buildPoint(ArrayRef<Value> values) {
    SmallVector<Value> point(op.getNumLoops(), writer.constant(0));
    for (auto [loop, value] : llvm::zip(parallel, values)) {
      point[loop] = value;
    }
    SmallVector<Value> accumulators;
    unsigned inputs = op.getNumDpsInputs();
    for (unsigned i = 0; i < results.size(); ++i) {
      const Source &init = sources[inputs + i];
      if (init.buffer || init.value) {
        accumulators.push_back(read(init, point));
      } else { // not read by the body, but carried through its loops
        Type type = cast<MemRefType>(results[i].getType()).getElementType();
        accumulators.push_back(reduction.empty() ? Value() : zero(type));
      }
    }
    SmallVector<Value> outcome = buildReduction(0, point, accumulators);
    for (auto [i, result] : llvm::enumerate(results)) {
      AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(i));
      auto indices = affine::expandAffineMap(b, loc, map, point);
      memref::StoreOp::create(b, loc, outcome[i], result, ValueRange(*indices));
    }
  }

  Value zero(Type type) { return arith::ConstantOp::create(b, loc, b.getZeroAttr(type)); }

  SmallVector<Value> buildReduction(unsigned depth, SmallVector<Value> &point, ArrayRef<Value> accumulators) {
    if (depth == reduction.size()) {
      return buildBody(point, accumulators);
    }
    Value step = writer.constant(1), start = writer.constant(0);
    auto loop = scf::ForOp::create(b, loc, start, kernelExtents[reduction[depth]], step, accumulators);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    point[reduction[depth]] = loop.getInductionVar();
    SmallVector<Value> carried(loop.getRegionIterArgs());
    SmallVector<Value> next = buildReduction(depth + 1, point, carried);
    scf::YieldOp::create(b, loc, next);
    point[reduction[depth]] = start;
    return SmallVector<Value>(loop.getResults());
  }

  SmallVector<Value> buildBody(ArrayRef<Value> point, ArrayRef<Value> accumulators) {
    IRMapping local = mapping;
    Block &body = op.getRegion().front();
    unsigned inputs = op.getNumDpsInputs();
    for (unsigned i = 0; i < inputs; ++i) {
      if (sources[i].buffer || sources[i].value) {
        local.map(body.getArgument(i), read(sources[i], point));
      }
    }
    for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
      if (accumulator) {
        local.map(body.getArgument(inputs + i), accumulator);
      }
    }
    for (Operation &inner : body.without_terminator()) {
      Operation *copy = b.clone(inner, local);
      SmallVector<Operation *> rewritten;
      copy->walk([&](Operation *nested) {
        nested->setLoc(loc);
        if (isa<linalg::IndexOp, tensor::ExtractOp, tensor::DimOp>(nested)) {
          rewritten.push_back(nested);
        }
      });
      for (Operation *nested : rewritten) {
        Value value = onBuffers(nested, point);
        nested->replaceAllUsesWith(ValueRange(value));
        if (nested == copy) {
          local.map(inner.getResult(0), value);
        }
        nested->erase();
      }
    }
    SmallVector<Value> values;
    for (Value value : body.getTerminator()->getOperands()) {
      values.push_back(local.lookupOrDefault(value));
    }
    return values;
  }

  /// linalg.index, tensor.extract and tensor.dim (their tensor is a buffer by now) as what a kernel does.
  Value onBuffers(Operation *nested, ArrayRef<Value> point) {
    if (auto index = dyn_cast<linalg::IndexOp>(nested)) {
      return point[index.getDim()];
    }
    OpBuilder at(nested);
    if (auto extract = dyn_cast<tensor::ExtractOp>(nested)) {
      return memref::LoadOp::create(at, loc, extract.getOperand(0), extract.getIndices());
    }
    auto dim = cast<tensor::DimOp>(nested);
    return memref::DimOp::create(at, loc, dim.getOperand(0), dim.getOperand(1));
  }

  HostContext &context;
  linalg::GenericOp op;
  int64_t taskWork;
  KernelWriter writer;
  OpBuilder &b;
  Location loc;
  SmallVector<Source> sources;
  SmallVector<Value> results;
  IRMapping mapping;
  SmallVector<Value> kernelExtents;
  SmallVector<SymbolicDim> hostExtents;
  SmallVector<unsigned> parallel, reduction;
};
} // namespace

Value kimi::uniformValue(KernelWriter &writer, Value tensor) {
  if (auto fill = tensor.getDefiningOp<linalg::FillOp>()) {
    FailureOr<Value> value = writer.import(fill.getInputs()[0]);
    return succeeded(value) ? *value : Value();
  }
  if (auto constant = tensor.getDefiningOp<arith::ConstantOp>()) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (elements && elements.isSplat()) {
      return arith::ConstantOp::create(writer.body(), writer.loc(), elements.getSplatValue<TypedAttr>());
    }
  }
  return {};
}

LogicalResult kimi::importCaptured(KernelWriter &writer, linalg::GenericOp op, IRMapping &mapping) {
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(op.getRegion(), captured);
  for (Value value : captured) {
    FailureOr<Value> inside = writer.import(value);
    if (failed(inside)) {
      return op.emitError() << "the body uses a value that neither the host nor a kernel can compute";
    }
    mapping.map(value, *inside);
  }
  return success();
}

std::string kimi::kernelStem(linalg::GenericOp op) {
  llvm::SmallSetVector<StringRef, 4> names;
  op.getRegion().walk([&](Operation *inner) {
    StringRef name = inner->getName().stripDialect();
    bool plain = isa<linalg::YieldOp, linalg::IndexOp, arith::ConstantOp, scf::YieldOp>(inner);
    if (!plain && names.size() < 4) {
      names.insert(name);
    }
  });
  if (names.empty()) {
    return op.getNumDpsInputs() == 0 ? "fill" : "copy";
  }
  std::string text = op.getNumReductionLoops() == 0 ? "map" : "reduce";
  for (StringRef name : names) {
    text += "_" + name.str();
  }
  return text;
}

LogicalResult kimi::outlineGeneric(HostContext &context, linalg::GenericOp op, int64_t taskWork) {
  if (op->getNumResults() == 0) {
    return op.emitError() << "works on buffers; only tensors are expected here";
  }
  return GenericKernel(context, op, taskWork).run();
}
