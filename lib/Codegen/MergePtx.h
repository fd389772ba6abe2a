//===- MergePtx.h - kernels compiled apart as one PTX module
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_MERGEPTX_H
#define KIMI_LIB_CODEGEN_MERGEPTX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace kimi {

/// One module of PTX from modules of the same target, whose names are distinct except for external declarations of
/// shared memory, which are written once. Error: a module has no header, or another one than the first.
llvm::Expected<std::string> mergePtx(llvm::ArrayRef<std::string> modules);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_MERGEPTX_H
