//===- Diagnostics.h - MLIR diagnostics as messages for people
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMICOMPILE_DIAGNOSTICS_H
#define KIMI_TOOLS_KIMICOMPILE_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace kimi {

/// While alive, prints the diagnostics of a context to `log`, one a line: "tool: error: where: message". Where is the
/// model file, or the ONNX node or value of the operation. Remarks are printed only with `remarks`.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  DiagnosticPrinter(mlir::MLIRContext *context, std::string tool, bool remarks, llvm::raw_ostream &log);
};

/// "model.onnx" for a file, "node 'name'" for a named location, "" where nothing is known.
std::string describeLocation(mlir::Location loc);

} // namespace kimi

#endif // KIMI_TOOLS_KIMICOMPILE_DIAGNOSTICS_H
