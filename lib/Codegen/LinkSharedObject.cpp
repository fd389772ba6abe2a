//===- LinkSharedObject.cpp - lld as a library
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/LinkSharedObject.h"
#include "lib/Codegen/LlvmGlobals.h"
#include "lib/Codegen/ToolRun.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "cannot link kernels: " + message);
}

llvm::Expected<std::string> kimi::linkSharedObject(llvm::ArrayRef<std::string> objects) {
  llvm::Expected<ToolRun> files = ToolRun::create("kimi-link");
  if (!files) {
    return error(llvm::toString(files.takeError()));
  }
  std::string output = files->path("kernels.so");
  llvm::SmallVector<std::string> inputs;
  for (size_t i = 0; i < objects.size(); ++i) {
    std::string name = std::to_string(i) + ".o";
    if (llvm::Error problem = files->write(name, objects[i])) {
      return error(llvm::toString(std::move(problem)));
    }
    inputs.push_back(files->path(name));
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
  lld::Result result;
  { // lld keeps its state in globals, too
    std::unique_lock<std::shared_mutex> lock(llvmGlobals());
    result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  }
  if (result.retCode != 0) {
    return error(llvm::StringRef(log).trim());
  }
  llvm::Expected<std::string> bytes = files->read("kernels.so");
  if (!bytes) {
    return error(llvm::toString(bytes.takeError()));
  }
  return bytes;
}
