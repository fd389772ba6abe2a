//===- Bf16ToBits.cpp - bf16 values as 16-bit integers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "passes/TileToLlvm/Passes.h"

namespace kimi {
#define GEN_PASS_DEF_TILEBF16TOBITS
#include "passes/TileToLlvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

/// The bits of a bf16 constant, or null if `value` is none.
static TypedAttr bitsOf(TypedAttr value) {
  Type i16 = IntegerType::get(value.getContext(), 16);
  if (auto scalar = dyn_cast<FloatAttr>(value)) {
    return scalar.getType().isBF16() ? IntegerAttr::get(i16, scalar.getValue().bitcastToAPInt()) : TypedAttr();
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    return dense.getElementType().isBF16() ? dense.bitcast(i16) : TypedAttr();
  }
  return {};
}

namespace {
struct TileBf16ToBits : kimi::impl::TileBf16ToBitsBase<TileBf16ToBits> {
  void runOnOperation() override {
    getOperation()->walk([](arith::ConstantOp constant) {
      if (TypedAttr bits = bitsOf(constant.getValue())) {
        constant.setValueAttr(bits);
        constant.getResult().setType(bits.getType());
      }
    });
    AttrTypeReplacer replacer;
    replacer.addReplacement([](BFloat16Type type) -> Type { return IntegerType::get(type.getContext(), 16); });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    SmallVector<arith::BitcastOp> casts;
    getOperation()->walk([&](arith::BitcastOp cast) {
      if (cast.getIn().getType() == cast.getType()) {
        casts.push_back(cast);
      }
    });
    for (arith::BitcastOp cast : casts) {
      cast.replaceAllUsesWith(cast.getIn());
      cast.erase();
    }
  }
};
} // namespace
