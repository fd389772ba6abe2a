//===- MathToNvvm.cpp - functions of fp32 by the special function unit
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToLlvm/MathCode.h"
#include "passes/TileToNvvm/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace kimi {
#define GEN_PASS_DEF_TILEMATHTONVVM
#include "passes/TileToNvvm/Passes.h.inc"
} // namespace kimi

using namespace mlir;
using namespace kimi;

namespace {
/// On scalars. ex2.approx, rsqrt.approx and div.approx are within 2 units of the last place and treat 0, infinities,
/// NaN and (but for the quotient) values below the normal range as they should.
class UnitMath : public Float32Math {
public:
  UnitMath(OpBuilder &b, Location loc) : Float32Math(b, loc, b.getF32Type()) {}

  /// What `op` computes; null where it stays.
  Value lower(Operation *op) {
    Value x = op->getOperand(0);
    bool approximate = false;
    if (auto flags = dyn_cast<arith::ArithFastMathInterface>(op)) {
      approximate = arith::bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(), arith::FastMathFlags::afn);
    }
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case([&](math::Exp2Op) { return approximate ? quickExp2(x) : unit("llvm.nvvm.ex2.approx.f32", x); })
        .Case([&](math::ExpOp) { return approximate ? quickExp(x) : exactExp(x); })
        .Case([&](math::TanhOp) { return approximate ? quickTanh(x) : exactTanh(x); })
        .Case([&](math::ErfOp) { return erf(x); })
        .Case([&](math::RsqrtOp) { return unit("llvm.nvvm.rsqrt.approx.f", x); })
        .Default([](Operation *) { return Value(); });
  }

protected:
  Value quotient(Value x, Value y) override { return unit("llvm.nvvm.div.approx.f", {x, y}); }

private:
  Value unit(StringRef name, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), operands).getResult(0);
  }

  Value quickExp2(Value x) { return unit("llvm.nvvm.ex2.approx.ftz.f", x); }

  /// The error of the product grows with |x|: relative, |x| * 6e-8.
  Value quickExp(Value x) { return quickExp2(mul(x, f(1.44269504088896341))); }

  /// e^x = 2^n 2^r, n within the exponents of normal values; r is in [-1/2, 1/2] where n is not at an end.
  Value exactExp(Value x) {
    Value bounded = LLVM::MaxNumOp::create(b, loc, x, f(-87.0)); // an instruction each
    bounded = LLVM::MinNumOp::create(b, loc, bounded, f(88.0));
    Value shifted = fma(bounded, f(1.44269504088896341), f(12582912.0)); // 1.5 * 2^23: n in the low bits
    Value n = sub(shifted, f(12582912.0));
    Value r = fma(x, f(1.44269502162933349609), neg(n));
    r = fma(x, f(1.925963033500011079e-8), r);
    Value scale = toFloat(addInt(shiftLeft(toBits(shifted), 23), i(0x3f800000)));
    return mul(unit("llvm.nvvm.ex2.approx.f32", r), scale);
  }

  /// 5e-4, relative.
  Value quickTanh(Value x) {
    return LLVM::InlineAsmOp::create(b, loc, TypeRange{type}, ValueRange{x}, "tanh.approx.f32 $0, $1;", "=f,f",
                                     /*has_side_effects=*/false, /*is_align_stack=*/false,
                                     LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
        .getResult(0);
  }

  /// x + x^3 P(x^2) below 0.55 (minimax), 1 - 2 / (e^(2|x|) + 1) above.
  Value exactTanh(Value x) {
    Value magnitude = abs(x), square = mul(x, x);
    Value p = polynomial(square, {0.01573968, -0.05230378, 0.13315291, -0.33332735});
    Value low = fma(mul(p, square), x, x);
    Value power = unit("llvm.nvvm.ex2.approx.f32", mul(magnitude, f(2.88539008177792681)));
    Value inverse = unit("llvm.nvvm.rcp.approx.ftz.f", add(power, f(1.0)));
    Value high = copySign(fma(inverse, f(-2.0), f(1.0)), x);
    return select(compare(Predicate::OLT, magnitude, f(0.55)), low, high);
  }
};

struct TileMathToNvvm : kimi::impl::TileMathToNvvmBase<TileMathToNvvm> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::ExpOp, math::Exp2Op, math::TanhOp, math::ErfOp, math::RsqrtOp>(op) &&
          op->getResult(0).getType().isF32()) {
        ops.push_back(op);
      }
    });
    for (Operation *op : ops) {
      OpBuilder b(op);
      op->getResult(0).replaceAllUsesWith(UnitMath(b, op->getLoc()).lower(op));
      op->erase();
    }
  }
};
} // namespace
