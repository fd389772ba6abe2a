//===- FuzzArrays.cpp - any bytes as .npy, .npz and .pb files
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/io/Npy.h"
#include "runtime/io/Zip.h"
#include "tools/kimi-run/TensorProto.h"

using namespace kimi;

static void require(bool holds) {
  if (!holds) {
    __builtin_trap();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  Array array;
  Status status = parseNpy(bytes, size, array);
  require(!status || !status.message().empty());
  std::vector<ZipMember> members;
  if (!listZip(bytes, size, members)) {
    for (const ZipMember &member : members) {
      std::vector<uint8_t> contents;
      if (!readZipMember(bytes, member, contents)) {
        (void)static_cast<bool>(parseNpy(contents.data(), contents.size(), array));
      }
    }
  }
  std::string name;
  run::HostTensor tensor;
  status = run::parseTensorProto({reinterpret_cast<const char *>(bytes), size}, name, tensor);
  require(!status || !status.message().empty());
  return 0;
}
