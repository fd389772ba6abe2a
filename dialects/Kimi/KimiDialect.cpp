//===- KimiDialect.cpp - the kimi dialect
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
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kimi;

#include "dialects/Kimi/KimiDialect.cpp.inc"
#include "dialects/Kimi/KimiEnums.cpp.inc"
#include "dialects/Kimi/MixerInterface.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Kimi/KimiTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Kimi/KimiAttrs.cpp.inc"

void KimiDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Kimi/KimiTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Kimi/KimiAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Kimi/KimiOps.cpp.inc"
      >();
}

#define GET_OP_CLASSES
#include "dialects/Kimi/KimiOps.cpp.inc"
