//===- ImportLimits.cpp - the limits of the importer, by name
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/ImportLimits.h"

using namespace kimi;

llvm::ArrayRef<ImportLimit> kimi::importLimits() {
  constexpr uint64_t any = INT64_MAX, protobuf = INT32_MAX;
  static const ImportLimit limits[] = {
      {"file-bytes", "bytes of the model file", &ImportLimits::fileBytes, any},
      {"structure-bytes", "bytes of it apart from large tensors", &ImportLimits::structureBytes, protobuf},
      {"fields", "fields of its nodes, graphs and tensors", &ImportLimits::fields, any},
      {"nesting", "subgraphs within each other", &ImportLimits::nesting, 256},
      {"depth", "subgraphs and function calls within each other, inlined", &ImportLimits::depth, 1024},
      {"nodes", "nodes and values after functions are inlined", &ImportLimits::nodes, any},
      {"initializers", "tensors of the graphs", &ImportLimits::initializers, any},
      {"name-bytes", "bytes of a name", &ImportLimits::nameBytes, protobuf},
      {"all-name-bytes", "bytes of all names made for inlined nodes", &ImportLimits::allNameBytes, any},
      {"rank", "extents of a tensor", &ImportLimits::rank, 1024},
      {"elements", "elements of a tensor", &ImportLimits::elements, uint64_t(1) << 56},
      {"sparse-bytes", "bytes of a sparse tensor made dense", &ImportLimits::sparseBytes, uint64_t(1) << 40},
      {"constant-bytes", "bytes of a file of --constant", &ImportLimits::constantBytes, protobuf},
      {"external-files", "files of external data", &ImportLimits::externalFiles, any},
  };
  return limits;
}
