//===- OutputFile.cpp - files that are written whole or not at all
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Support/OutputFile.h"
#include "runtime/files/WholeFile.h"
#include "llvm/Support/FileSystem.h"

using llvm::StringRef;
namespace fs = llvm::sys::fs;

static llvm::Error failure(StringRef path, std::error_code why) {
  std::string name = path == "-" ? "to standard output" : "'" + path.str() + "'";
  return llvm::createStringError("cannot write " + name + ": " + why.message() + kimi::adviceOnWriting(why.value()));
}

/// Runs `write` on `os`. A stream that is destroyed with an error ends the process, so the error is taken from it.
static std::error_code writeTo(llvm::raw_fd_ostream &os, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  write(os);
  os.flush();
  std::error_code error = os.error();
  os.clear_error();
  return error;
}

llvm::Error kimi::writeOutputFile(StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> write) {
  if (path == "-") {
    std::error_code error = writeTo(llvm::outs(), write);
    return error ? failure(path, error) : llvm::Error::success();
  }
  fs::file_status status;
  if (!fs::status(path, status) && status.type() != fs::file_type::regular_file) {
    std::error_code error;
    llvm::raw_fd_ostream os(path, error, fs::CD_OpenExisting, fs::FA_Write, fs::OF_None);
    if (!error) {
      error = writeTo(os, write);
    }
    return error ? failure(path, error) : llvm::Error::success();
  }
  llvm::Expected<fs::TempFile> file = fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!file) {
    return failure(path, llvm::errorToErrorCode(file.takeError()));
  }
  std::error_code error;
  {
    llvm::raw_fd_ostream os(file->FD, /*shouldClose=*/false);
    error = writeTo(os, write);
  }
  if (error) {
    llvm::consumeError(file->discard());
    return failure(path, error);
  }
  if (llvm::Error problem = file->keep(path)) {
    return failure(path, llvm::errorToErrorCode(std::move(problem)));
  }
  return llvm::Error::success();
}
