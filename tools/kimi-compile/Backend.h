//===- Backend.h - the code generator that was asked for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMICOMPILE_BACKEND_H
#define KIMI_TOOLS_KIMICOMPILE_BACKEND_H

#include "lib/Codegen/CompileCuda.h"
#include "lib/Codegen/CpuTarget.h"
#include "lib/Module/BuildModule.h"
#include "passes/Pipelines/Pipelines.h"
#include "tools/kimi-compile/Driver.h"
#include <optional>
#include <string>

namespace kimi {

/// The code generator for the target of the options.
class Backend {
public:
  /// Error: a target or processor that is unknown here.
  static llvm::Expected<Backend> create(const CompileOptions &options);

  /// What the phases have to know of the target.
  void set(PipelineOptions &pipeline) const;

  /// The kernels of `module` as text: llvm, asm, ptx, sass-info. Problems are diagnostics.
  mlir::FailureOr<std::string> text(mlir::ModuleOp module, Emit emit) const;

  /// The kernels of `module` for a module file. Problems are diagnostics.
  mlir::LogicalResult addImages(mlir::ModuleOp module, ModuleOptions &options) const;

private:
  std::string name;
  CpuTargetOptions cpu;
  int64_t panel = 0;
  std::optional<CudaOptions> cuda;
};

} // namespace kimi

#endif // KIMI_TOOLS_KIMICOMPILE_BACKEND_H
