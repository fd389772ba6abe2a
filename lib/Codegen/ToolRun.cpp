//===- ToolRun.cpp - a program of the tool chain on files of its own
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/ToolRun.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace kimi;
namespace fs = llvm::sys::fs;

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<ToolRun> ToolRun::create(llvm::StringRef name) {
  ToolRun run;
  if (std::error_code code = fs::createUniqueDirectory(name, run.folder)) {
    run.folder.clear();
    return error("no temporary folder: " + code.message());
  }
  return run;
}

ToolRun::~ToolRun() {
  if (!folder.empty()) {
    fs::remove_directories(folder);
  }
}

std::string ToolRun::path(llvm::StringRef file) const {
  llvm::SmallString<128> result(folder);
  llvm::sys::path::append(result, file);
  return result.str().str();
}

llvm::Error ToolRun::write(llvm::StringRef file, llvm::StringRef bytes) const {
  std::error_code code;
  llvm::raw_fd_ostream stream(path(file), code);
  if (!code) {
    stream << bytes;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  return code ? error(path(file) + ": " + code.message()) : llvm::Error::success();
}

llvm::Expected<std::string> ToolRun::read(llvm::StringRef file) const {
  auto bytes = llvm::MemoryBuffer::getFile(path(file), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!bytes) {
    return error(path(file) + ": " + bytes.getError().message());
  }
  return (*bytes)->getBuffer().str();
}

ToolRun::Outcome ToolRun::run(llvm::StringRef program, llvm::ArrayRef<std::string> arguments) const {
  llvm::SmallVector<llvm::StringRef> words = {program};
  words.append(arguments.begin(), arguments.end());
  std::string output = path("stdout"), log = path("stderr");
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(output), llvm::StringRef(log)};
  Outcome outcome;
  std::string problem;
  outcome.succeeded = llvm::sys::ExecuteAndWait(program, words, std::nullopt, redirects, 0, 0, &problem) == 0;
  auto readTo = [&](llvm::StringRef file, std::string &text) {
    llvm::Expected<std::string> content = read(file);
    text = content ? *content : std::string();
    llvm::consumeError(content.takeError());
  };
  readTo("stdout", outcome.output);
  readTo("stderr", outcome.log);
  if (!problem.empty()) {
    outcome.log = problem;
  }
  return outcome;
}

std::optional<std::string> kimi::findProgramBeside(llvm::StringRef other, llvm::StringRef name) {
  if (!other.empty()) {
    llvm::SmallString<128> beside = llvm::sys::path::parent_path(other);
    llvm::sys::path::append(beside, name);
    if (fs::can_execute(beside)) {
      return beside.str().str();
    }
  }
  llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(name);
  return found ? std::optional<std::string>(*found) : std::nullopt;
}
