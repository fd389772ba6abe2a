//===- LinkSharedObject.cpp - lld as a library
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/LinkSharedObject.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "cannot link kernels: " + message);
}

llvm::Expected<std::string> kimi::linkSharedObject(llvm::ArrayRef<std::string> objects) {
  llvm::SmallString<128> folder;
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("kimi-link", folder)) {
    return error("no temporary folder: " + code.message());
  }
  llvm::scope_exit cleanUp([&] { llvm::sys::fs::remove_directories(folder); });

  auto path = [&](const llvm::Twine &name) {
    llvm::SmallString<128> result(folder);
    llvm::sys::path::append(result, name);
    return result.str().str();
  };
  std::string output = path("kernels.so");
  llvm::SmallVector<std::string> inputs;
  for (size_t i = 0; i < objects.size(); ++i) {
    inputs.push_back(path(llvm::Twine(i) + ".o"));
    std::error_code code;
    llvm::raw_fd_ostream file(inputs.back(), code);
    if (!code) {
      file << objects[i];
      file.close();
      code = file.error();
      file.clear_error();
    }
    if (code) {
      return error(inputs.back() + ": " + code.message());
    }
  }

  llvm::SmallVector<const char *> arguments = {"ld.lld",
                                               "-shared",
                                               "--build-id=none",
                                               "--hash-style=gnu",
                                               "--threads=1",
                                               "-z",
                                               "noexecstack",
                                               "-z",
                                               "now",
                                               "--no-undefined-version",
                                               "-o",
                                               output.c_str()};
  for (const std::string &input : inputs) {
    arguments.push_back(input.c_str());
  }
  std::string log;
  llvm::raw_string_ostream stream(log);
  static std::mutex mutex; // lld keeps its state in globals
  lld::Result result;
  {
    std::lock_guard<std::mutex> lock(mutex);
    result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  }
  if (result.retCode != 0) {
    return error(llvm::StringRef(log).trim());
  }
  auto bytes = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes) {
    return error(output + ": " + bytes.getError().message());
  }
  return (*bytes)->getBuffer().str();
}
