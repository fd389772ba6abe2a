//===- Dtype.h - element types of tensors -----------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_DTYPE_H
#define KIMI_RUNTIME_DTYPE_H

#include "kimi/kimi.h"
#include "runtime/format/kmod_generated.h"

#include <initializer_list>

namespace kimi {

static_assert(int(fb::DType::F32) == KIMI_F32 && int(fb::DType::Bool) == KIMI_BOOL &&
                  int(fb::DType::MAX) == KIMI_BOOL && int(fb::DType::I64) == KIMI_I64,
              "the file and the C API number the element types alike");
static_assert(int(fb::Role::None) == KIMI_ROLE_NONE && int(fb::Role::MAX) == KIMI_ROLE_NEXT_TOKEN,
              "the file and the C API number the roles alike");

inline bool isValidDtype(int dtype) { return dtype >= KIMI_F32 && dtype <= KIMI_BOOL; }

/// Bytes of an element; 0 for a number that is no dtype.
inline size_t dtypeSize(int dtype) {
  static constexpr uint8_t sizes[] = {4, 2, 2, 8, 8, 4, 2, 1, 8, 4, 2, 1, 1};
  return isValidDtype(dtype) ? sizes[dtype] : 0;
}
inline size_t dtypeSize(fb::DType dtype) { return dtypeSize(int(dtype)); }

inline const char *dtypeName(int dtype) {
  static constexpr const char *names[] = {"f32", "f16", "bf16", "f64", "i64", "i32", "i16",
                                          "i8",  "u64", "u32",  "u16", "u8",  "bool"};
  return isValidDtype(dtype) ? names[dtype] : "invalid";
}
inline const char *dtypeName(fb::DType dtype) { return dtypeName(int(dtype)); }

inline bool isIntegerDtype(int dtype) { return dtype >= KIMI_I64 && dtype <= KIMI_BOOL; }

} // namespace kimi

#endif // KIMI_RUNTIME_DTYPE_H
