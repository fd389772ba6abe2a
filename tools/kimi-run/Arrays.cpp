//===- Arrays.cpp - tensors in .npy and .npz files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/kimi-run/Arrays.h"
#include "runtime/files/WholeFile.h"
#include "runtime/io/Npy.h"
#include <cctype>
#include <cstring>
#include <filesystem>
#include <set>

namespace kimi::run {

namespace fs = std::filesystem;

static Status copy(const Array &from, HostTensor &to) {
  if (Status s = HostTensor::create(from.dtype, from.dims, to)) {
    return s;
  }
  if (from.data.size() != to.bytes()) {
    return {KIMI_BAD_FILE, "an array of the wrong size"};
  }
  if (to.bytes()) {
    std::memcpy(to.data(), from.data.data(), to.bytes());
  }
  return {};
}

Status readArrays(const std::string &path, NamedTensors &out) {
  NamedArrays arrays(1);
  bool archive = fs::path(path).extension() == ".npz";
  if (Status s = archive ? readNpz(path, arrays) : readNpy(path, arrays[0].second)) {
    return s;
  }
  out.clear();
  for (auto &[name, array] : arrays) {
    out.emplace_back(name, HostTensor());
    if (Status s = copy(array, out.back().second)) {
      return {s.code(), path + ": " + s.message()};
    }
    array.data = {}; // One array at a time is in memory twice.
  }
  return {};
}

/// A file name for a tensor: names of a graph may hold slashes, and must not lead out of the folder.
static std::string fileName(const std::string &name, std::set<std::string> &taken) {
  std::string safe;
  for (char c : name.substr(0, 100)) {
    safe += isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || (c == '.' && !safe.empty()) ? c : '_';
  }
  safe = safe.empty() ? "_" : safe;
  std::string unique = safe;
  for (int i = 1; !taken.insert(unique).second; ++i) {
    unique = safe + "_" + std::to_string(i);
  }
  return unique + ".npy";
}

Status writeArrays(const std::string &path, const NamedTensors &tensors) {
  fs::path extension = fs::path(path).extension();
  if (extension == ".npy") {
    if (tensors.size() != 1) {
      return invalidArgument(path + ": an .npy holds one array, and there are " + std::to_string(tensors.size()) +
                             " outputs; name an .npz or a folder");
    }
    return writeNpy(path, tensors[0].second.view());
  }
  if (extension == ".npz") {
    std::vector<std::pair<std::string, kimi_tensor>> views;
    for (const auto &[name, tensor] : tensors) {
      views.emplace_back(name, tensor.view());
    }
    return writeNpz(path, views);
  }
  std::error_code code;
  fs::create_directories(path, code);
  if (std::error_code none; !fs::is_directory(path, none)) {
    return {KIMI_RUNTIME_ERROR,
            path + ": no such folder, and it cannot be made: " + code.message() + adviceOnWriting(code.value())};
  }
  std::set<std::string> taken;
  for (const auto &[name, tensor] : tensors) {
    if (Status s = writeNpy((fs::path(path) / fileName(name, taken)).string(), tensor.view())) {
      return s;
    }
  }
  return {};
}

} // namespace kimi::run
