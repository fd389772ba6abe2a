//===- Diagnostics.cpp - MLIR diagnostics as messages for people
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-compile/Diagnostics.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace kimi;

std::string kimi::describeLocation(Location loc) {
  if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    std::string where = file.getFilename().str();
    return file.getLine() == 0 ? where
                               : where + ":" + std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
  }
  if (auto name = dyn_cast<NameLoc>(loc)) {
    return "node '" + name.getName().str() + "'";
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    return describeLocation(call.getCallee());
  }
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations()) {
      std::string where = describeLocation(part);
      if (!where.empty()) {
        return where;
      }
    }
  }
  return "";
}

static StringRef severityName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Remark:
    return "remark";
  }
  return "";
}

static void print(const Diagnostic &diagnostic, StringRef tool, llvm::raw_ostream &log) {
  std::string where = describeLocation(diagnostic.getLocation());
  std::string message = diagnostic.str();
  log << tool << ": " << severityName(diagnostic.getSeverity()) << ": ";
  // Messages that name their node themselves need no second name.
  bool namesNode = StringRef(where).starts_with("node '") && StringRef(message).starts_with("node '");
  if (!where.empty() && !namesNode) {
    log << where << ": ";
  }
  log << message << "\n";
  for (const Diagnostic &note : diagnostic.getNotes()) {
    print(note, tool, log);
  }
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context, std::string tool, bool remarks, llvm::raw_ostream &log)
    : ScopedDiagnosticHandler(context) {
  setHandler([tool = std::move(tool), remarks, &log](Diagnostic &diagnostic) {
    if (remarks || diagnostic.getSeverity() != DiagnosticSeverity::Remark) {
      print(diagnostic, tool, log);
    }
    return success();
  });
}
