//===- CompileCache.h - compiles an .onnx once, and keeps the module
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_COMPILECACHE_H
#define KIMI_TOOLS_KIMIRUN_COMPILECACHE_H

#include "runtime/Status.h"
#include "tools/kimi-run/Options.h"
#include <iosfwd>
#include <string>

namespace kimi::run {

/// What a module depends on besides the model.
struct CompileOptions {
  std::string cpu = "native";
  bool reference = false;
  std::string precision = "f32", target = "cpu";
  /// Inputs that are constants: names, and files of TensorProtos.
  std::vector<std::pair<std::string, std::string>> constants;
  /// What the compiler prints goes into the error instead of to stderr.
  bool quiet = false;
};

/// The compiler that belongs to this executable: beside it (installed), or in the sibling folder of the build tree.
Status findCompiler(std::string &path);

/// The folder for compiled modules: `given`, else $XDG_CACHE_HOME/kimi, else ~/.cache/kimi.
Status cacheFolder(const std::string &given, std::string &folder);

/// Name of the module in the cache: a hash of the model's bytes, of the size and time of its external data files, of
/// the options, the compiler and, for `native`, this processor.
Status cacheKey(const std::string &model, const std::string &compiler, const CompileOptions &options, std::string &key);

/// Puts the path of the compiled module of `model` into `module`, compiling it where the cache has none. The file
/// appears under its name only when it is whole, so that two processes may do this at once.
Status compileCached(const std::string &model, const std::string &cache, const CompileOptions &options,
                     std::ostream &log, std::string &module);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_COMPILECACHE_H
