//===- BoolToByte.cpp - buffers of i1 as buffers of bytes
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "passes/TileToLlvm/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kimi {
#define GEN_PASS_DEF_TILEBOOLTOBYTE
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

static bool holdsBytes(Value buffer) { return cast<MemRefType>(buffer.getType()).getElementType().isInteger(8); }

/// Makes `value`, an i1 by its uses, the byte that was loaded, and gives its uses `value != 0`.
static void loadByte(OpBuilder &b, Value value) {
  Location loc = value.getLoc();
  value.setType(b.getI8Type());
  Value zero = arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0));
  auto isSet = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
  value.replaceAllUsesExcept(isSet, isSet);
}

/// Makes an i1 operand a byte.
static void storeByte(OpOperand &operand) {
  OpBuilder b(operand.getOwner());
  operand.set(arith::ExtUIOp::create(b, operand.getOwner()->getLoc(), b.getI8Type(), operand.get()));
}

namespace {
struct TileBoolToByte : kimi::impl::TileBoolToByteBase<TileBoolToByte> {
  void runOnOperation() override {
    AttrTypeReplacer bytes;
    bytes.addReplacement([](MemRefType type) -> std::optional<Type> {
      if (!type.getElementType().isInteger(1)) {
        return std::nullopt;
      }
      return MemRefType::get(type.getShape(), IntegerType::get(type.getContext(), 8), type.getLayout(),
                             type.getMemorySpace());
    });
    bytes.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                       /*replaceTypes=*/true);
    getOperation()->walk([](Operation *op) {
      auto isBool = [](Value value) { return value.getType().isInteger(1); };
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](memref::LoadOp load) {
            if (holdsBytes(load.getMemRef()) && isBool(load)) {
              OpBuilder b(load.getContext());
              b.setInsertionPointAfter(load);
              loadByte(b, load);
            }
          })
          .Case([&](memref::StoreOp store) {
            if (holdsBytes(store.getMemRef()) && isBool(store.getValue())) {
              storeByte(store.getValueMutable());
            }
          })
          .Case([&](tile::FillOp fill) {
            if (holdsBytes(fill.getTile()) && isBool(fill.getValue())) {
              storeByte(fill.getValueMutable());
            }
          })
          .Case([&](tile::MapOp map) {
            Block &body = map.getBody().front();
            for (auto [input, argument] : llvm::zip_equal(map.getInputs(), body.getArguments())) {
              if (holdsBytes(input) && isBool(argument)) {
                OpBuilder b = OpBuilder::atBlockBegin(&body);
                loadByte(b, argument);
              }
            }
            auto yield = cast<tile::YieldOp>(body.getTerminator());
            if (holdsBytes(map.getOut()) && isBool(yield.getValue())) {
              storeByte(yield.getValueMutable());
            }
          });
    });
  }
};
} // namespace
