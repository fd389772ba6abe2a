//===- Checker.h - the pieces of module verification ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FORMAT_CHECKER_H
#define KIMI_RUNTIME_FORMAT_CHECKER_H

#include "runtime/Text.h"
#include "runtime/format/Verify.h"

#include <string>
#include <type_traits>

namespace kimi::format {

/// Length of a vector that may be absent.
template <typename T>
int64_t count(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

/// The FlatBuffers verifier looks at the alignment of a vector's length only; elements are read in place.
template <typename T>
bool isAligned(const flatbuffers::Vector<T> *vector) {
  using Element = std::remove_const_t<std::remove_pointer_t<T>>;
  return count(vector) == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % alignof(Element) == 0;
}

inline std::string_view view(const flatbuffers::String *text) {
  return text ? std::string_view(text->c_str(), text->size()) : std::string_view();
}

inline Status outOfRange(const std::string &where, const char *what, int64_t index, int64_t count) {
  return badFile(where + ": " + what + " " + std::to_string(index) + " is out of range (there are " +
                 std::to_string(count) + ")");
}

inline Status checkIndex(const std::string &where, const char *what, int64_t index, int64_t count) {
  return index >= 0 && index < count ? Status() : outOfRange(where, what, index, count);
}

/// Names that are printed or looked up: present where `needed`, and of bounded length.
inline Status checkName(const std::string &where, const flatbuffers::String *name, bool needed = true) {
  if (needed && view(name).empty()) {
    return badFile(where + ": the name is empty");
  }
  return view(name).size() > maxNameLength ? badFile(where + ": a name is longer than 4096 bytes") : Status();
}

/// One port, weight or state: an element type that exists and a rank the runtime holds.
Status checkTensor(const std::string &where, fb::DType dtype, int64_t rank);

/// True where `target` names a CUDA device or code for one.
inline bool isCuda(std::string_view target) { return target.substr(0, 5) == "cuda:"; }

/// Checks how a kernel is launched, every number against what its target allows.
Status verifyKernel(const std::string &where, const fb::Module &module, const fb::Kernel &kernel);

/// Checks entry `index`; the rest of the module (tables it refers to) is checked already.
Status verifyEntry(const fb::Module &module, int64_t index);

} // namespace kimi::format

#endif // KIMI_RUNTIME_FORMAT_CHECKER_H
