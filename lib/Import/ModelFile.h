//===- ModelFile.h - an .onnx file, mapped and parsed
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_IMPORT_MODELFILE_H
#define KIMI_LIB_IMPORT_MODELFILE_H

#include "lib/Import/ImportErrors.h"
#include "lib/Import/ImportLimits.h"
#include "onnx/onnx-ml.pb.h"
#include "runtime/files/OpenBeneath.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <optional>

namespace kimi {

/// A byte range of a file beneath the model's folder.
struct FileRange {
  std::string file;
  uint64_t offset = 0, length = 0;
};

/// The model file is mapped. Its protobuf is parsed without the large `raw_data` fields: where one was, the parsed
/// TensorProto has a `segment` with the byte range it occupies in the file.
class ModelFile {
public:
  /// Null after a report when the file cannot be read or is no ONNX model.
  static std::unique_ptr<ModelFile> open(llvm::StringRef path, const ImportLimits &limits, ImportErrors &errors);

  const ::onnx::ModelProto &proto() const { return *model; }
  const ImportLimits &getLimits() const { return limits; }
  /// Name of the file without its folder.
  llvm::StringRef name() const { return fileName; }

  /// Where the raw_data of `tensor` lies in the model file, if it was left out of the parsed protobuf.
  std::optional<FileRange> bulkRange(const ::onnx::TensorProto &tensor) const;
  /// The bytes of such a range.
  llvm::StringRef bytes(const FileRange &range) const;

  /// The range named by `external_data`; `length` is that of the tensor type. The path must stay beneath the model's
  /// folder and, where the file exists, the range within it. Reports and gives nullopt otherwise.
  std::optional<FileRange> externalRange(const ::onnx::TensorProto &tensor, uint64_t length, llvm::StringRef what,
                                         ImportErrors &errors);
  /// Reads a range of an external file; nullopt where the file is absent or has become shorter.
  std::optional<std::string> readExternal(const FileRange &range) const;

private:
  struct ExternalFile {
    std::string problem;          // why the path is refused, or empty
    std::optional<uint64_t> size; // nullopt: no such file
  };
  const ExternalFile &externalFile(llvm::StringRef location);

  ImportLimits limits;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::unique_ptr<::onnx::ModelProto> model;
  std::string fileName;
  FileDescriptor directory;                // of the model
  llvm::DenseMap<uint64_t, uint64_t> bulk; // begin -> end
  llvm::StringMap<ExternalFile> externals;
};

} // namespace kimi

#endif // KIMI_LIB_IMPORT_MODELFILE_H
