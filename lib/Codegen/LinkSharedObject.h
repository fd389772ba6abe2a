//===- LinkSharedObject.h - objects in memory to a shared object in memory
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_LINKSHAREDOBJECT_H
#define KIMI_LIB_CODEGEN_LINKSHAREDOBJECT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace kimi {

/// Links ELF objects to one ELF shared object and returns its bytes, which depend on nothing but the objects and their
/// order. Undefined symbols stay (the process that loads it provides libm and libc). Errors carry lld's words, or the
/// file system's (lld works on a private temporary folder, removed before this returns).
llvm::Expected<std::string> linkSharedObject(llvm::ArrayRef<std::string> objects);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_LINKSHAREDOBJECT_H
