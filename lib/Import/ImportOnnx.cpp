//===- ImportOnnx.cpp - an .onnx file as a module of the onnx dialect
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportOnnx.h"
#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Onnx/OnnxDialect.h"
#include "lib/Import/GraphImporter.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace kimi;

void kimi::loadImportDialects(MLIRContext *context) {
  context->loadDialect<func::FuncDialect, KimiDialect, kimi::onnx::OnnxDialect>();
}

FailureOr<OwningOpRef<ModuleOp>> kimi::importOnnx(StringRef path, MLIRContext *context, const ImportOptions &options) {
  loadImportDialects(context);
  ImportErrors errors(FileLineColLoc::get(context, path, 0, 0), options.maxErrors);
  std::unique_ptr<ModelFile> file = ModelFile::open(path, options.limits, errors);
  if (!file) {
    return failure();
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(NameLoc::get(StringAttr::get(context, file->name())));
  GraphImporter importer(*file, *module, errors);
  for (const auto &[name, constant] : options.constants) {
    importer.setConstant(name, constant);
  }
  importer.run();
  if (failed(errors.finish()) || (options.verify && failed(verify(*module)))) {
    return failure();
  }
  return module;
}
