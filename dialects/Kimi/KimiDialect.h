//===- KimiDialect.h - the kimi dialect
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_DIALECTS_KIMI_KIMIDIALECT_H
#define KIMI_DIALECTS_KIMI_KIMIDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Kimi/KimiDialect.h.inc"
#include "dialects/Kimi/KimiEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Kimi/KimiTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Kimi/KimiAttrs.h.inc"

namespace kimi {
/// One state of a token mixer: its short name (`key`, `value`, ...) and its type.
struct MixerState {
  std::string name;
  StateType type;
};
} // namespace kimi

#include "dialects/Kimi/MixerInterface.h.inc"

#define GET_OP_CLASSES
#include "dialects/Kimi/KimiOps.h.inc"

#endif // KIMI_DIALECTS_KIMI_KIMIDIALECT_H
