//===- ModelFile.cpp - an .onnx file, mapped and parsed
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ModelFile.h"
#include "lib/Import/BulkStripper.h"
#include "lib/Import/ImportLimits.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstring>
#include <google/protobuf/io/coded_stream.h>

using namespace kimi;
using llvm::StringRef;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

std::unique_ptr<ModelFile> ModelFile::open(StringRef filePath, const ImportLimits &limits, ImportErrors &errors) {
  fs::file_status status;
  if (std::error_code error = fs::status(filePath, status)) {
    errors.report() << "cannot read the model: " << error.message();
    return nullptr;
  }
  if (!fs::is_regular_file(status)) {
    errors.report() << "cannot read the model: not a regular file; give the path of an .onnx file";
    return nullptr;
  }
  if (status.getSize() > limits.fileBytes) {
    errors.report() << "the model has " << status.getSize() << " bytes, more than " << limits.fileBytes
                    << " (--max-file-bytes)";
    return nullptr;
  }
  auto buffer = llvm::MemoryBuffer::getFile(filePath, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    errors.report() << "cannot read the model: " << buffer.getError().message();
    return nullptr;
  }
  auto file = std::unique_ptr<ModelFile>(new ModelFile);
  file->buffer = std::move(*buffer);
  file->limits = limits;
  file->fileName = path::filename(filePath).str();
  llvm::SmallString<256> directory(path::parent_path(filePath));
  if (directory.empty()) {
    directory = ".";
  }
  file->directory = openFolder(directory.c_str());
  if (!file->directory) {
    errors.report() << "cannot open the folder of the model: " << std::strerror(errno);
    return nullptr;
  }

  StringRef contents = file->buffer->getBuffer();
  if (contents.empty()) {
    errors.report() << "not an ONNX model: the file is empty";
    return nullptr;
  }
  BulkStripper stripper(contents, limits);
  std::string structure;
  if (!stripper.run(structure)) {
    errors.report() << "not a readable ONNX model: " << stripper.error();
    return nullptr;
  }
  file->bulk = stripper.ranges();
  file->model = std::make_unique<::onnx::ModelProto>();
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(structure.data()),
                                               static_cast<int>(structure.size()));
  input.SetRecursionLimit(static_cast<int>(3 * limits.nesting + 32));
  if (!file->model->ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) {
    errors.report() << "not a readable ONNX model: the protobuf is damaged or nested too deep";
    return nullptr;
  }
  return file;
}

std::optional<FileRange> ModelFile::bulkRange(const ::onnx::TensorProto &tensor) const {
  if (!tensor.has_segment() || tensor.has_raw_data()) {
    return std::nullopt;
  }
  uint64_t begin = tensor.segment().begin(), end = tensor.segment().end();
  // The sentinels of DenseMap are no offsets of a file.
  auto found = begin < buffer->getBufferSize() ? bulk.find(begin) : bulk.end();
  if (found == bulk.end() || found->second != end) {
    return std::nullopt;
  }
  return FileRange{fileName, begin, end - begin};
}

StringRef ModelFile::bytes(const FileRange &range) const {
  return buffer->getBuffer().substr(range.offset, range.length);
}

const ModelFile::ExternalFile &ModelFile::externalFile(StringRef location) {
  auto [entry, inserted] = externals.try_emplace(location);
  ExternalFile &file = entry->second;
  if (!inserted) {
    return file;
  }
  if (externals.size() > limits.externalFiles) {
    file.problem =
        "is one too many: a model may name " + std::to_string(limits.externalFiles) + " files (--max-external-files)";
    return file;
  }
  OpenedFile opened;
  if (Status status = openBeneath(directory, location.str(), opened)) {
    file.problem = status.code() == KIMI_NOT_FOUND ? "" : status.message();
  } else {
    file.size = opened.size;
  }
  return file;
}

std::optional<FileRange> ModelFile::externalRange(const ::onnx::TensorProto &tensor, uint64_t length, StringRef what,
                                                  ImportErrors &errors) {
  FileRange range;
  range.length = length;
  bool hasLocation = false;
  for (const auto &entry : tensor.external_data()) {
    StringRef key = entry.key(), value = entry.value();
    if (key == "location") {
      range.file = value.str();
      hasLocation = true;
    } else if (key == "offset") {
      if (value.getAsInteger(10, range.offset)) {
        errors.report() << what << ": external data offset '" << value << "' is not a number of bytes";
        return std::nullopt;
      }
    } else if (key == "length") {
      uint64_t given = 0;
      if (value.getAsInteger(10, given)) {
        errors.report() << what << ": external data length '" << value << "' is not a number of bytes";
        return std::nullopt;
      }
      if (given != length) {
        errors.report() << what << ": external data has " << given << " bytes where its type takes " << length;
        return std::nullopt;
      }
    } else if (key != "checksum") {
      errors.report() << what << ": external data key '" << key
                      << "' is unknown; known are location, offset, length and checksum";
      return std::nullopt;
    }
  }
  if (!hasLocation) {
    errors.report() << what << ": external data names no file (key 'location')";
    return std::nullopt;
  }
  if (range.offset > UINT64_MAX / 2 || length > UINT64_MAX / 2) {
    errors.report() << what << ": external data offset " << range.offset << " is too large";
    return std::nullopt;
  }
  const ExternalFile &file = externalFile(range.file);
  if (!file.problem.empty()) {
    errors.report() << what << ": external data file '" << range.file << "' " << file.problem;
    return std::nullopt;
  }
  if (file.size && range.offset + length > *file.size) {
    errors.report() << what << ": external data ends at byte " << (range.offset + length) << " of '" << range.file
                    << "', which has " << *file.size << " bytes";
    return std::nullopt;
  }
  return range;
}

std::optional<std::string> ModelFile::readExternal(const FileRange &range) const {
  OpenedFile opened;
  // The file may be another one than that whose size was looked at.
  if (openBeneath(directory, range.file, opened) || range.offset > opened.size ||
      range.length > opened.size - range.offset) {
    return std::nullopt;
  }
  auto slice = llvm::MemoryBuffer::getOpenFileSlice(opened.file.get(), range.file, range.length,
                                                    static_cast<int64_t>(range.offset));
  if (!slice || (*slice)->getBufferSize() != range.length) {
    return std::nullopt;
  }
  return (*slice)->getBuffer().str();
}
