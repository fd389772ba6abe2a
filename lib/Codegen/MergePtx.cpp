//===- MergePtx.cpp - kernels compiled apart as one PTX module
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/MergePtx.h"
#include "llvm/ADT/StringSet.h"

using namespace kimi;

/// Splits a module behind its `.address_size` line; false where there is none.
static bool splitHeader(llvm::StringRef text, llvm::StringRef &header, llvm::StringRef &body) {
  size_t start = text.find("\n.version");
  size_t mark = text.find("\n.address_size");
  if (start == llvm::StringRef::npos || mark == llvm::StringRef::npos) {
    return false;
  }
  size_t end = text.find('\n', mark + 1);
  if (end == llvm::StringRef::npos) {
    return false;
  }
  header = text.slice(start + 1, end + 1);
  body = text.substr(end + 1);
  return true;
}

llvm::Expected<std::string> kimi::mergePtx(llvm::ArrayRef<std::string> modules) {
  auto error = [](const char *message) { return llvm::createStringError(llvm::inconvertibleErrorCode(), message); };
  std::string merged;
  llvm::StringRef first;
  llvm::StringSet<> shared;
  for (const std::string &module : modules) {
    llvm::StringRef header, body;
    if (!splitHeader(module, header, body)) {
      return error("the PTX of a kernel has no header");
    }
    if (merged.empty()) {
      first = header;
      merged = header.str();
    } else if (header != first) {
      return error("the PTX of kernels is for different targets");
    }
    while (!body.empty()) {
      auto [line, rest] = body.split('\n');
      body = rest;
      if (line.starts_with(".extern .shared") && !shared.insert(line).second) {
        continue;
      }
      merged += line;
      merged += '\n';
    }
  }
  return merged;
}
