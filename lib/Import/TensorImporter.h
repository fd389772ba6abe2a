//===- TensorImporter.h - TensorProto and TypeProto as attributes and types
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_TENSORIMPORTER_H
#define KIMI_LIB_IMPORT_TENSORIMPORTER_H

#include "lib/Import/ModelFile.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kimi {

/// A tensor of the file: small ones by value, others by where their bytes are.
struct ImportedTensor {
  mlir::RankedTensorType type;
  /// An elements attribute, or `#kimi.external`.
  mlir::Attribute source;
  /// To be an `onnx.constant` (then `source` is an elements attribute) rather than a `kimi.weight`.
  bool isConstant = false;
};

/// Converts tensors and types of one model. `what` names the thing in messages ("initializer 'w'"). Everything that
/// fails has been reported.
class TensorImporter {
public:
  TensorImporter(ModelFile &file, mlir::MLIRContext *context, ImportErrors &errors)
      : file(file), limits(file.getLimits()), context(context), errors(errors) {}

  /// The element type of an ONNX data type, or null after a report (strings, complex numbers, unknown numbers).
  mlir::Type elementType(int32_t dataType, llvm::StringRef what);

  /// The type of a value: `tensor<2x?xf32>`, `tensor<*xf32>` without a shape, `none` where the element type is not
  /// given either. Null after a report: sequences, maps, optionals, sparse and opaque values, impossible extents.
  mlir::Type valueType(const ::onnx::TypeProto &type, llvm::StringRef what);

  mlir::FailureOr<ImportedTensor> tensor(const ::onnx::TensorProto &tensor, llvm::StringRef what);
  /// By value whatever the size; external data is read.
  mlir::FailureOr<mlir::DenseElementsAttr> elements(const ::onnx::TensorProto &tensor, llvm::StringRef what);
  /// A sparse tensor, made dense.
  mlir::FailureOr<ImportedTensor> sparse(const ::onnx::SparseTensorProto &tensor, llvm::StringRef what);

private:
  /// What is checked before any memory is asked for.
  struct Layout {
    mlir::RankedTensorType type;
    unsigned bits = 0; // of one element in raw_data
    uint64_t elements = 0, bytes = 0;
  };
  template <typename Dims>
  mlir::FailureOr<Layout> layout(const Dims &dims, int32_t dataType, llvm::StringRef what);
  bool isInline(const Layout &layout) const;
  /// The contents as raw_data would hold them: a view of the file or of `storage`.
  mlir::FailureOr<llvm::StringRef> contents(const ::onnx::TensorProto &tensor, const Layout &layout,
                                            std::string &storage, llvm::StringRef what);
  mlir::FailureOr<llvm::StringRef> typedContents(const ::onnx::TensorProto &tensor, const Layout &layout,
                                                 std::string &storage, llvm::StringRef what);
  mlir::DenseElementsAttr decode(const Layout &layout, llvm::StringRef bytes);

  ModelFile &file;
  const ImportLimits &limits;
  mlir::MLIRContext *context;
  ImportErrors &errors;
};

/// "float16" for 10, "data type 99" for an unknown number.
std::string dataTypeName(int32_t dataType);

} // namespace kimi

#endif // KIMI_LIB_IMPORT_TENSORIMPORTER_H
