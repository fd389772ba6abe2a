//===- OutputFile.h - files that are written whole or not at all
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_SUPPORT_OUTPUTFILE_H
#define KIMI_LIB_SUPPORT_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace kimi {

/// Gives `path` the text that `write` prints; "-" is standard output. A file is written under a temporary name beside
/// its place and renamed, so that no reader sees half of it and a failure leaves the old one; what is no regular file
/// (a device, a pipe) is written as it is. Error: "cannot write 'path': why".
llvm::Error writeOutputFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write);

} // namespace kimi

#endif // KIMI_LIB_SUPPORT_OUTPUTFILE_H
