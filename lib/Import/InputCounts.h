//===- InputCounts.h - how many inputs the operators of ai.onnx take
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_INPUTCOUNTS_H
#define KIMI_LIB_IMPORT_INPUTCOUNTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace kimi {

/// Why a node of operator `name`, as opset `version` has it, cannot have these inputs (`given` says which are there,
/// the others have the empty name): too few, too many, or one missing that must be there. Empty where it can, and where
/// the operator is not known.
std::string wrongInputs(llvm::StringRef name, int64_t version, llvm::ArrayRef<bool> given);

} // namespace kimi

#endif // KIMI_LIB_IMPORT_INPUTCOUNTS_H
