//===- AddNextToken.cpp - --kimi-add-next-token
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/Shapes.h"
#include "lib/Module/HostScalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Kimi/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace kimi {
#define GEN_PASS_DEF_ADDNEXTTOKEN
#include "passes/Kimi/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {

/// The result of a function that holds logits, and the axis along which it has one row a token (-1: one row alone).
struct Logits {
  unsigned result;
  int64_t axis;
};

std::optional<Logits> findLogits(func::FuncOp func) {
  auto step = func->getAttrOfType<DenseI64ArrayAttr>("kimi.step_dim");
  if (!step || step.size() != 2 || step[0] < 0 || step[0] >= func.getNumArguments()) {
    return std::nullopt;
  }
  auto ids = dyn_cast<RankedTensorType>(func.getArgument(step[0]).getType());
  for (unsigned index = 0; ids && index < func.getNumResults(); ++index) {
    auto role = func.getResultAttrOfType<StringAttr>(index, "kimi.role");
    auto type = dyn_cast<RankedTensorType>(func.getResultTypes()[index]);
    if (!role || role.getValue() != "logits" || !type) {
      continue;
    }
    // [batch, tokens, V] or, of the last token only, [batch, V].
    if (type.getRank() == ids.getRank() + 1 && step[1] >= 0 && step[1] < ids.getRank()) {
      return Logits{index, step[1]};
    }
    if (type.getRank() == ids.getRank()) {
      return Logits{index, -1};
    }
  }
  return std::nullopt;
}

func::ReturnOp returnOf(func::FuncOp func) { return cast<func::ReturnOp>(func.getBody().front().getTerminator()); }

/// The last row of the logits of `func`, [batch, 1, V], at its end; the logits themselves where they are one row.
Value takeLast(func::FuncOp func, const Logits &logits) {
  Value all = returnOf(func).getOperand(logits.result);
  if (logits.axis < 0 || tensorType(all).getDimSize(logits.axis) == 1) {
    return all;
  }
  HostScalars scalars(func);
  SymbolicDim rows = scalars.shape(all)[logits.axis];
  if (rows.is(1)) {
    return all;
  }
  Location loc = all.getLoc();
  OpBuilder b(returnOf(func));
  // The tokens are counted on an argument where that is known to be the same: slices that move up need no more.
  bool computable = scalars.isComputable(rows);
  Value position = computable ? scalars.materialize(b, loc, rows - SymbolicDim(1)) : Value();
  if (!computable) {
    Value extent = tensor::DimOp::create(b, loc, all, logits.axis);
    position = arith::SubIOp::create(b, loc, extent, arith::ConstantIndexOp::create(b, loc, 1));
  }
  SmallVector<OpFoldResult> offsets(tensorType(all).getRank(), b.getIndexAttr(0)),
      steps(offsets.size(), b.getIndexAttr(1)), sizes = tensor::getMixedSizes(b, loc, all);
  offsets[logits.axis] = position;
  sizes[logits.axis] = b.getIndexAttr(1);
  return tensor::ExtractSliceOp::create(b, loc, all, offsets, sizes, steps);
}

/// `kimi.dims` of a result whose axis `axis` is one row.
ArrayAttr withOneRow(ArrayAttr dims, int64_t axis) {
  if (!dims || axis < 0 || axis >= static_cast<int64_t>(dims.size())) {
    return dims;
  }
  SmallVector<Attribute> changed(dims.getValue());
  changed[axis] = IntegerAttr::get(IntegerType::get(dims.getContext(), 64), 1);
  return ArrayAttr::get(dims.getContext(), changed);
}

/// A name that no input, output or state of `func` has.
StringAttr freshName(func::FuncOp func, StringRef stem) {
  llvm::StringSet<> taken;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    if (auto name = func.getArgAttrOfType<StringAttr>(i, "kimi.name")) {
      taken.insert(name.getValue());
    }
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    if (auto name = func.getResultAttrOfType<StringAttr>(i, "kimi.name")) {
      taken.insert(name.getValue());
    }
  }
  std::string name = stem.str();
  while (taken.contains(name)) {
    name += "_";
  }
  return StringAttr::get(func.getContext(), name);
}

struct AddNextTokenPass : kimi::impl::AddNextTokenBase<AddNextTokenPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    auto prefill = symbols.lookup<func::FuncOp>("prefill");
    if (prefill && !prefill.isExternal() && !symbols.lookup("prefill_last")) {
      addLast(prefill, symbols);
    }
    for (StringRef name : {"prefill", "prefill_last", "decode"}) {
      auto func = symbols.lookup<func::FuncOp>(name);
      if (func && !func.isExternal()) {
        addToken(func);
      }
    }
  }

  /// A copy of `prefill` that gives the logits of the last token only.
  void addLast(func::FuncOp prefill, SymbolTable &symbols) {
    std::optional<Logits> logits = findLogits(prefill);
    if (!logits || logits->axis < 0) {
      return; // no logits, or the last ones only already
    }
    auto func = cast<func::FuncOp>(prefill->clone());
    Value last = takeLast(func, *logits);
    func::ReturnOp ret = returnOf(func);
    if (last == ret.getOperand(logits->result)) {
      func->erase();
      return;
    }
    func.setName("prefill_last");
    symbols.insert(func, std::next(prefill->getIterator()));
    func->setAttr("kimi.entry", StringAttr::get(&getContext(), "prefill_last"));
    ret->setOperand(logits->result, last);
    SmallVector<Type> results(func.getResultTypes());
    results[logits->result] = last.getType();
    func.setType(FunctionType::get(&getContext(), func.getArgumentTypes(), results));
    if (auto dims = func.getResultAttrOfType<ArrayAttr>(logits->result, "kimi.dims")) {
      func.setResultAttr(logits->result, "kimi.dims", withOneRow(dims, logits->axis));
    }
  }

  void addToken(func::FuncOp func) {
    std::optional<Logits> logits = findLogits(func);
    if (!logits) {
      func.emitRemark("has no next token: none of its results is known to be logits");
      return;
    }
    func::ReturnOp ret = returnOf(func);
    auto type = tensorType(ret.getOperand(logits->result));
    int64_t vocabulary = type.getShape().back();
    if (ShapedType::isDynamic(vocabulary) || vocabulary < 1 || vocabulary > kMaxVocabulary || type.getRank() < 2) {
      func.emitRemark() << "has no next token: its logits are " << type << ", where a known number of tokens from 1 to "
                        << kMaxVocabulary << " is needed";
      return;
    }
    Value last = takeLast(func, *logits);
    OpBuilder b(ret);
    Location loc = last.getLoc();
    // Of the type of the ids, so that it feeds the next step.
    auto step = func->getAttrOfType<DenseI64ArrayAttr>("kimi.step_dim");
    Type element = tensorType(func.getArgument(step[0])).getElementType();
    element = element.isInteger(32) ? element : b.getI64Type();
    auto tokenType = RankedTensorType::get(tensorType(last).getShape().drop_back(), element);
    Value token = GreedyTokenOp::create(b, loc, tokenType, last);
    SmallVector<NamedAttribute> attributes = {b.getNamedAttr("kimi.name", freshName(func, "next_token")),
                                              b.getNamedAttr("kimi.role", b.getStringAttr("next_token"))};
    if (auto dims = func.getResultAttrOfType<ArrayAttr>(logits->result, "kimi.dims")) {
      ArrayAttr rows = withOneRow(dims, logits->axis);
      attributes.push_back(b.getNamedAttr("kimi.dims", b.getArrayAttr(rows.getValue().drop_back())));
    }
    if (succeeded(func.insertResult(func.getNumResults(), tokenType, b.getDictionaryAttr(attributes)))) {
      ret.getOperandsMutable().append(token);
      ++numTokens;
    }
  }
};

} // namespace
