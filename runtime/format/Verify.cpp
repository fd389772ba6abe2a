//===- Verify.cpp - checks a .kmod file before anything trusts it -----------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/format/Verify.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/format/Checker.h"
#include "runtime/format/Header.h"

#include <unordered_set>

namespace kimi::format {

Status checkTensor(const std::string &where, fb::DType dtype, int64_t rank) {
  if (!isValidDtype(int(dtype))) {
    return badFile(where + ": unknown element type " + std::to_string(int(dtype)));
  }
  if (rank > KIMI_MAX_RANK) {
    return badFile(where + ": rank " + std::to_string(rank) + " is above " + std::to_string(KIMI_MAX_RANK));
  }
  return {};
}

namespace {

Status checkShape(const std::string &where, fb::DType dtype, const flatbuffers::Vector<int64_t> *dims) {
  return isAligned(dims) ? checkTensor(where, dtype, count(dims)) : badFile(where + ": its dims are not aligned");
}

/// True where [offset, offset + length) lies within [0, size).
bool fits(uint64_t offset, uint64_t length, uint64_t size) { return offset <= size && length <= size - offset; }

Status checkBlob(const std::string &where, const fb::Blob *blob, uint64_t dataLength) {
  if (!blob) {
    return badFile(where + ": has no bytes");
  }
  if (!fits(blob->offset(), blob->length(), dataLength)) {
    return badFile(where + ": bytes [" + std::to_string(blob->offset()) + ", +" + std::to_string(blob->length()) +
                   ") lie outside the data segment of " + std::to_string(dataLength) + " bytes");
  }
  return {};
}

Status verifyWeight(const std::string &where, const fb::Weight &weight, uint64_t dataLength) {
  if (Status s = checkShape(where, weight.dtype(), weight.dims())) {
    return s;
  }
  auto bytes = denseBytes(weight.dims()->data(), weight.dims()->size(), dtypeSize(weight.dtype()));
  if (!bytes) {
    return badFile(where + ": shape " + shapeText(weight.dims()->data(), weight.dims()->size()) + " has no size");
  }
  uint64_t length = weight.length();
  if (view(weight.file()).empty()) {
    if (Status s = checkBlob(where, weight.blob(), dataLength)) {
      return s;
    }
    length = weight.blob()->length();
    if (weight.blob()->offset() % dtypeSize(weight.dtype()) != 0) {
      return badFile(where + ": its bytes are not aligned to its elements");
    }
  } else {
    if (Status s = checkName(where, weight.file())) {
      return s;
    }
    if (weight.offset() + length < length) {
      return badFile(where + ": offset and length pass 64 bits");
    }
  }
  if (length != static_cast<uint64_t>(*bytes)) {
    return badFile(where + ": holds " + std::to_string(length) + " bytes, its shape " +
                   shapeText(weight.dims()->data(), weight.dims()->size()) + " of " + dtypeName(weight.dtype()) +
                   " needs " + std::to_string(*bytes));
  }
  return {};
}

Status verifyState(const std::string &where, const fb::State &state) {
  int64_t rank = count(state.dims());
  if (Status s = checkShape(where, state.dtype(), state.dims())) {
    return s;
  }
  if (state.grows() < -1 || state.grows() >= rank) {
    return outOfRange(where, "growing axis", state.grows(), rank);
  }
  for (int64_t dim : *state.dims()) {
    if (dim < -1) {
      return badFile(where + ": shape " + shapeText(state.dims()->data(), rank) + " has a negative dim");
    }
  }
  for (const flatbuffers::String *port : {state.input(), state.output()}) {
    if (Status s = checkName(where, port, false)) {
      return s;
    }
  }
  return {};
}

Status verifyImage(const std::string &where, const fb::Image &image, const Contents &contents) {
  if (Status s = checkName(where, image.target())) {
    return s;
  }
  if (Status s = checkBlob(where, image.blob(), contents.dataLength)) {
    return s;
  }
  if (checksum(contents.data + image.blob()->offset(), image.blob()->length()) != image.checksum()) {
    return badFile(where + ": its checksum is wrong; the file is damaged");
  }
  std::string_view target = view(image.target());
  if (isCuda(target) != isCuda(view(contents.module->target()))) {
    return badFile(where + ": holds code for " + quoted(target) + ", the module is for " +
                   quoted(view(contents.module->target())));
  }
  // The driver reads PTX up to its zero byte.
  if (isPtx(target) &&
      (image.blob()->length() == 0 || contents.data[image.blob()->offset() + image.blob()->length() - 1] != 0)) {
    return badFile(where + ": its PTX does not end with a zero byte");
  }
  return {};
}

/// Runs `check` on every element of a vector of tables that have names, with "`kind` 'name'" as the place.
template <typename T, typename Check>
Status forEachNamed(const char *kind, const flatbuffers::Vector<flatbuffers::Offset<T>> *tables, Check check) {
  for (int64_t i = 0, e = count(tables); i < e; ++i) {
    const T &table = *tables->Get(i);
    if (Status s = checkName(kind + (" " + std::to_string(i)), table.name())) {
      return s;
    }
    if (Status s = check(kind + (" " + quoted(view(table.name()))), table)) {
      return s;
    }
  }
  return {};
}

Status verifyTables(const Contents &contents) {
  const fb::Module &module = *contents.module;
  for (const flatbuffers::String *text : {module.producer(), module.source_hash(), module.target()}) {
    if (Status s = checkName("module", text, false)) {
      return s;
    }
  }
  if (module.max_context() < -1 || module.max_context() == 0) {
    return badFile("module: a context of " + std::to_string(module.max_context()) + " tokens makes no sense");
  }
  for (int64_t i = 0; i < count(module.symbols()); ++i) {
    if (Status s = checkName("symbol " + std::to_string(i), module.symbols()->Get(i))) {
      return s;
    }
  }
  if (Status s = forEachNamed("weight", module.weights(), [&](const std::string &where, const fb::Weight &weight) {
        return verifyWeight(where, weight, contents.dataLength);
      })) {
    return s;
  }
  if (Status s = forEachNamed("derived buffer", module.derived(), [](const std::string &where, const fb::Derived &it) {
        if (Status s = checkShape(where, it.dtype(), it.dims())) {
          return s;
        }
        return denseBytes(it.dims()->data(), it.dims()->size(), dtypeSize(it.dtype()))
                   ? Status()
                   : badFile(where + ": shape " + shapeText(it.dims()->data(), it.dims()->size()) + " has no size");
      })) {
    return s;
  }
  if (Status s = forEachNamed("state", module.states(), verifyState)) {
    return s;
  }
  for (int64_t i = 0; i < count(module.images()); ++i) {
    if (Status s = verifyImage("image " + std::to_string(i), *module.images()->Get(i), contents)) {
      return s;
    }
  }
  return forEachNamed("kernel", module.kernels(), [&](const std::string &where, const fb::Kernel &kernel) {
    return verifyKernel(where, module, kernel);
  });
}

Status verifyHeader(const uint8_t *file, uint64_t size, FileHeader &header) {
  if (size < sizeof(FileHeader)) {
    return badFile("is no .kmod file: " + std::to_string(size) + " bytes are too few for a header");
  }
  std::memcpy(&header, file, sizeof(header));
  if (std::memcmp(header.magic, fileMagic, sizeof(fileMagic)) != 0) {
    return badFile("is no .kmod file: it does not start with KMOD");
  }
  if (header.version != formatVersion) {
    return badFile("has format version " + std::to_string(header.version) + ", this runtime reads version " +
                   std::to_string(formatVersion) + "; compile the model again");
  }
  if (header.tableOffset < sizeof(FileHeader) || header.tableOffset % tableAlignment != 0 ||
      !fits(header.tableOffset, header.tableLength, size)) {
    return badFile("is damaged or cut off: the table at " + std::to_string(header.tableOffset) + ", " +
                   std::to_string(header.tableLength) + " bytes, does not fit the file of " + std::to_string(size));
  }
  if (header.tableLength < 16 || header.tableLength >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    return badFile("is damaged: a table of " + std::to_string(header.tableLength) + " bytes makes no sense");
  }
  if (header.dataLength == 0) {
    return {};
  }
  if (header.dataOffset % dataAlignment != 0 || header.dataOffset < header.tableOffset + header.tableLength ||
      !fits(header.dataOffset, header.dataLength, size)) {
    return badFile("is damaged or cut off: the data segment at " + std::to_string(header.dataOffset) + ", " +
                   std::to_string(header.dataLength) + " bytes, does not fit the file of " + std::to_string(size));
  }
  return {};
}

} // namespace

Status verifyModule(const Contents &contents) {
  if (Status s = verifyTables(contents)) {
    return s;
  }
  const fb::Module &module = *contents.module;
  int64_t entries = count(module.entries());
  if (entries > maxEntries) {
    return badFile("has " + std::to_string(entries) + " entries, more than " + std::to_string(maxEntries));
  }
  std::unordered_set<std::string_view> names;
  if (Status s = forEachNamed("entry", module.entries(), [&](const std::string &where, const fb::Entry &entry) {
        return names.insert(view(entry.name())).second ? Status() : badFile(where + ": the name occurs twice");
      })) {
    return s;
  }
  if (count(module.derived()) != 0 && names.count(initEntryName) == 0) {
    return badFile("has derived buffers but no entry 'init' that fills them");
  }
  for (int64_t i = 0; i < entries; ++i) {
    if (Status s = verifyEntry(module, i)) {
      return s;
    }
  }
  return {};
}

Status verifyFile(const uint8_t *file, uint64_t size, Contents &out) {
  FileHeader header;
  if (Status s = verifyHeader(file, size, header)) {
    return s;
  }
  const uint8_t *table = file + header.tableOffset;
  if (checksum(table, header.tableLength) != header.tableChecksum) {
    return badFile("is damaged: the checksum of its table is wrong");
  }
  // A table costs its reference at least, so an honest file stays below this; one that multiplies itself by sharing
  // does not.
  flatbuffers::Verifier::Options options;
  options.max_depth = 16;
  options.max_tables = static_cast<flatbuffers::uoffset_t>(header.tableLength / 4 + 1000000);
  flatbuffers::Verifier verifier(table, header.tableLength, options);
  if (!fb::VerifyModuleBuffer(verifier)) {
    return badFile("is damaged: its table is no valid FlatBuffer");
  }
  out.module = fb::GetModule(table);
  out.data = header.dataLength ? file + header.dataOffset : file;
  out.dataLength = header.dataLength;
  return verifyModule(out);
}

} // namespace kimi::format
