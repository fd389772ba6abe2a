//===- TensorProto.h - ONNX tensor files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TOOLS_KIMIRUN_TENSORPROTO_H
#define KIMI_TOOLS_KIMIRUN_TENSORPROTO_H

#include "runtime/Status.h"
#include "tools/kimi-run/HostTensor.h"
#include <string>
#include <string_view>

namespace kimi::run {

/// Decodes a serialised onnx.TensorProto. Errors: damaged bytes, element counts that do not fit the shape, external
/// data, and element types the runtime has not (strings, complex numbers, 8-bit floats, 4-bit numbers).
Status parseTensorProto(std::string_view bytes, std::string &name, HostTensor &tensor);

/// The same from a file; messages name it.
Status readTensorProto(const std::string &path, std::string &name, HostTensor &tensor);

} // namespace kimi::run

#endif // KIMI_TOOLS_KIMIRUN_TENSORPROTO_H
