//===- PackedNumbers.h - the numbers of MXFP4, bit by bit
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_SUPPORT_PACKEDNUMBERS_H
#define KIMI_LIB_SUPPORT_PACKEDNUMBERS_H

#include "mlir/IR/Builders.h"

namespace kimi {

/// The E2M1 number at position `index` of its row, as f32, from the i8 `byte` that holds it: the low half of a byte is
/// the element of even index. OCP Microscaling Formats 1.0, section 5.3.3.
mlir::Value emitE2M1(mlir::OpBuilder &b, mlir::Location loc, mlir::Value byte, mlir::Value index);

/// The same for the low or the high half of `byte`: the number's bits become those of an f16 2^14 times smaller, which
/// is a few operations on integers. For processors that convert f16.
mlir::Value emitE2M1Half(mlir::OpBuilder &b, mlir::Location loc, mlir::Value byte, bool high);

/// The scale 2^(byte - 127) as f32; NaN for 255. OCP Microscaling Formats 1.0, section 5.4.1.
mlir::Value emitE8M0(mlir::OpBuilder &b, mlir::Location loc, mlir::Value byte);

} // namespace kimi

#endif // KIMI_LIB_SUPPORT_PACKEDNUMBERS_H
