//===- WeightFiles.cpp - maps the weights of a module -----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/WeightFiles.h"
#include "runtime/Text.h"

#include <cerrno>
#include <cstring>

namespace kimi {

static Status mapBeneath(const std::string &folderPath, const FileDescriptor &folder, const std::string &name,
                         Mapping &out) {
  OpenedFile opened;
  if (Status s = openBeneath(folder, name, opened)) {
    if (s.code() == KIMI_NOT_FOUND) {
      return {KIMI_NOT_FOUND, "weights " + quoted(name) + " not found beneath " + folderPath +
                                  "; pass --weights=DIR or compile with --bake"};
    }
    return {s.code(), "weights " + quoted(name) + " " + s.message()};
  }
  if (Status s = Mapping::ofFile(opened.file, out)) {
    return {s.code(), "weights " + quoted(name) + " beneath " + folderPath + ": " + s.message()};
  }
  return {};
}

Status WeightFiles::map(const format::Contents &contents, const std::string &folderPath) {
  const auto *weights = contents.module->weights();
  size_t count = weights ? weights->size() : 0;
  pointers.assign(count, nullptr);
  FileDescriptor folder;
  std::map<std::string, Mapping>::iterator file = files.end();
  for (size_t i = 0; i < count; ++i) {
    const fb::Weight &weight = *weights->Get(i);
    if (!weight.file() || weight.file()->size() == 0) {
      pointers[i] = contents.data + weight.blob()->offset();
      continue;
    }
    std::string name = weight.file()->str();
    if (file == files.end() || file->first != name) { // neighbours share a file
      file = files.find(name);
    }
    if (file == files.end()) {
      if (!folder) {
        folder = openFolder(folderPath.c_str());
      }
      if (!folder) {
        return {KIMI_NOT_FOUND, "the weights folder " + folderPath + " cannot be opened: " + std::strerror(errno)};
      }
      Mapping mapping;
      if (Status s = mapBeneath(folderPath, folder, name, mapping)) {
        return s;
      }
      file = files.emplace(name, std::move(mapping)).first;
    }
    uint64_t size = file->second.size();
    if (weight.offset() > size || weight.length() > size - weight.offset()) {
      return badFile("weight " + quoted(weight.name()->str()) + " lies at bytes " + std::to_string(weight.offset()) +
                     " to " + std::to_string(weight.offset() + weight.length()) + " of " + quoted(name) +
                     ", which has " + std::to_string(size) + "; the file is cut off or belongs to another model");
    }
    pointers[i] = file->second.data() + weight.offset();
  }
  return {};
}

void WeightFiles::release(const fb::Weight &weight) const {
  auto file = weight.file() ? files.find(weight.file()->str()) : files.end();
  if (file != files.end()) {
    file->second.release(weight.offset(), weight.length());
  }
}

} // namespace kimi
