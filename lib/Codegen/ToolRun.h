//===- ToolRun.h - a program of the tool chain on files of its own
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_TOOLRUN_H
#define KIMI_LIB_CODEGEN_TOOLRUN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace kimi {

/// A private temporary folder, removed at the end, and programs that work in it.
class ToolRun {
public:
  /// Error: there is no place for the folder.
  static llvm::Expected<ToolRun> create(llvm::StringRef name);
  ToolRun(ToolRun &&other) : folder(other.folder) { other.folder.clear(); }
  ToolRun &operator=(ToolRun &&) = delete;
  ~ToolRun();

  /// The path of a file of the folder.
  std::string path(llvm::StringRef file) const;
  llvm::Error write(llvm::StringRef file, llvm::StringRef bytes) const;
  llvm::Expected<std::string> read(llvm::StringRef file) const;

  struct Outcome {
    bool succeeded = false;
    std::string output; ///< what was written to standard output
    std::string log;    ///< what was written to standard error, or why the program could not be run
  };
  /// Runs `program` (a path) and waits for it.
  Outcome run(llvm::StringRef program, llvm::ArrayRef<std::string> arguments) const;

private:
  ToolRun() = default;
  llvm::SmallString<128> folder;
};

/// The program `name` ("nvdisasm") beside `other` (a path, or empty) or on the search path; nullopt where there is
/// none.
std::optional<std::string> findProgramBeside(llvm::StringRef other, llvm::StringRef name);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_TOOLRUN_H
