//===- DeriveDecodeRoles.cpp - which argument is the token ids, which result the logits
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Kimi/DeriveDecodeRoles.h"
#include "dialects/Kimi/KimiDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kimi;

namespace {

/// A lookup of rows of `table` by `ids`.
struct Lookup {
  Value ids;
  RankedTensorType table;
};

/// kimi.embedding, and generics whose body reads a table at a position that is computed from an integer input.
SmallVector<Lookup> findLookups(func::FuncOp func) {
  SmallVector<Lookup> lookups;
  func.walk([&](EmbeddingOp op) { lookups.push_back({op.getIds(), cast<RankedTensorType>(op.getTable().getType())}); });
  func.walk([&](linalg::GenericOp op) {
    op.walk([&](tensor::ExtractOp extract) {
      auto table = dyn_cast<RankedTensorType>(extract.getTensor().getType());
      if (!table || table.getRank() != 2 || !isa<FloatType>(table.getElementType())) {
        return;
      }
      for (OpOperand *input : op.getDpsInputOperands()) {
        auto type = dyn_cast<RankedTensorType>(input->get().getType());
        if (type && isa<IntegerType>(type.getElementType()) && !type.getElementType().isInteger(1)) {
          lookups.push_back({input->get(), table});
        }
      }
    });
  });
  return lookups;
}

/// Everything that `value` is computed from, as far as tensors go (extents aside).
struct Origin {
  llvm::SetVector<BlockArgument> arguments;
  bool counts = false; // a linalg.index is among it
};

Origin originOf(Value value) {
  Origin origin;
  llvm::SetVector<Value> open;
  open.insert(value);
  for (size_t next = 0; next < open.size(); ++next) {
    Value current = open[next];
    if (auto argument = dyn_cast<BlockArgument>(current)) {
      if (isa<func::FuncOp>(argument.getOwner()->getParentOp()) && isa<TensorType>(argument.getType())) {
        origin.arguments.insert(argument);
      }
      continue;
    }
    Operation *op = current.getDefiningOp();
    if (isa<tensor::DimOp, tensor::EmptyOp>(op)) {
      continue;
    }
    op->walk([&](linalg::IndexOp) { origin.counts = true; });
    for (Value operand : op->getOperands()) {
      open.insert(operand);
    }
  }
  return origin;
}

StringRef nameOf(func::FuncOp func, unsigned index) {
  auto name = func.getArgAttrOfType<StringAttr>(index, "kimi.name");
  return name ? name.getValue() : StringRef();
}

} // namespace

Roles kimi::findRoles(func::FuncOp func) {
  Roles roles;
  int64_t vocabulary = -1;
  SmallVector<std::pair<unsigned, RankedTensorType>> looked;
  for (const Lookup &lookup : findLookups(func)) {
    Origin origin = originOf(lookup.ids);
    int64_t rows = lookup.table.getDimSize(0);
    if (origin.arguments.empty() && origin.counts && !ShapedType::isDynamic(rows)) {
      roles.maxContext = std::min(roles.maxContext.value_or(rows), rows);
    }
    if (origin.arguments.size() != 1) {
      continue;
    }
    BlockArgument argument = origin.arguments.front();
    auto type = cast<RankedTensorType>(argument.getType());
    if (isa<IntegerType>(type.getElementType()) && (type.getRank() == 1 || type.getRank() == 2)) {
      looked.emplace_back(argument.getArgNumber(), lookup.table);
    }
  }
  for (auto [index, table] : looked) {
    int64_t rows = table.getDimSize(0);
    if (nameOf(func, index).contains("position")) {
      roles.positionIds = index;
      if (!ShapedType::isDynamic(rows)) {
        roles.maxContext = std::min(roles.maxContext.value_or(rows), rows);
      }
    } else if (rows > vocabulary || !roles.tokenIds) {
      roles.tokenIds = index;
      vocabulary = rows;
    }
  }
  if (!roles.tokenIds) {
    return roles;
  }
  roles.tokenAxis = cast<RankedTensorType>(func.getArgumentTypes()[*roles.tokenIds]).getRank() - 1;
  for (BlockArgument argument : func.getArguments()) { // what turns rows, or is not used at all
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    unsigned index = argument.getArgNumber();
    if (!roles.positionIds && index != *roles.tokenIds && type && isa<IntegerType>(type.getElementType()) &&
        type.getRank() <= 2 && type.getRank() >= 1 && nameOf(func, index).contains("position")) {
      roles.positionIds = index;
    }
  }
  for (BlockArgument argument : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    unsigned index = argument.getArgNumber();
    if (!type || type.getRank() != 2 || index == *roles.tokenIds || index == roles.positionIds || roles.attentionMask) {
      continue;
    }
    auto dims = func.getArgAttrOfType<ArrayAttr>(index, "kimi.dims");
    auto span = dims && dims.size() == 2 ? dyn_cast<StringAttr>(dims[1]) : StringAttr();
    if (nameOf(func, index).contains("attention_mask") || (span && span.getValue().contains(" + "))) {
      roles.attentionMask = index;
    }
  }
  int64_t best = -1;
  for (auto [index, type] : llvm::enumerate(func.getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !isa<FloatType>(tensor.getElementType()) || tensor.getRank() < 2 || tensor.getRank() > 3) {
      continue;
    }
    int64_t channels = tensor.getShape().back();
    int64_t score = (channels == vocabulary ? 2 : 0) + (tensor.getRank() == 3 ? 1 : 0);
    if (score > best) {
      best = score;
      roles.logits = index;
    }
  }
  return roles;
}

void kimi::annotateRoles(func::FuncOp func, const Roles &roles) {
  Builder b(func.getContext());
  auto set = [&](std::optional<unsigned> index, StringRef role) {
    if (index) {
      func.setArgAttr(*index, "kimi.role", b.getStringAttr(role));
    }
  };
  set(roles.tokenIds, "token_ids");
  set(roles.attentionMask, "attention_mask");
  set(roles.positionIds, "position_ids");
  if (roles.logits) {
    func.setResultAttr(*roles.logits, "kimi.role", b.getStringAttr("logits"));
  }
}
