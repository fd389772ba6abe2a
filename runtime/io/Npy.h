//===- Npy.h - NumPy's .npy and .npz files ----------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_IO_NPY_H
#define KIMI_RUNTIME_IO_NPY_H

#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kimi {

/// A dense row-major array that owns its elements (aligned to 16 bytes).
struct Array {
  kimi_dtype dtype = KIMI_F32;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;

  /// The same memory for the C API; valid as long as the array. At most KIMI_MAX_RANK dims.
  kimi_tensor tensor();
};

using NamedArrays = std::vector<std::pair<std::string, Array>>;

/// Reads an array from the bytes of a .npy file (versions 1 to 3, either memory order, little-endian). NumPy has no
/// bf16: two-byte opaque elements ("V2", what ml_dtypes writes) are taken for it. Error: KIMI_BAD_FILE,
/// KIMI_UNSUPPORTED.
Status parseNpy(const uint8_t *bytes, size_t size, Array &out);
/// The .npy bytes of a tensor, without its elements (which follow, dense and row-major). bf16 is written as f32,
/// which holds every value of it.
std::string npyHeader(const kimi_tensor &tensor);

/// Files; errors name the path, and KIMI_NOT_FOUND where there is none.
Status readNpy(const std::string &path, Array &out);
Status writeNpy(const std::string &path, const kimi_tensor &tensor);
/// All arrays of a .npz file in its order, names without ".npy".
Status readNpz(const std::string &path, NamedArrays &out);
/// Stored without compression; read by numpy.load.
Status writeNpz(const std::string &path, const std::vector<std::pair<std::string, kimi_tensor>> &tensors);

} // namespace kimi

#endif // KIMI_RUNTIME_IO_NPY_H
