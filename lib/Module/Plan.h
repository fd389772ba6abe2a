//===- Plan.h - what a .kmod says, as plain structs
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_MODULE_PLAN_H
#define KIMI_LIB_MODULE_PLAN_H

#include "runtime/format/kmod_generated.h"
#include <cstdint>
#include <string>
#include <vector>

/// The tables of runtime/format/kmod.fbs in a form that is easy to build, print and test. Slots index the scalars of
/// their entry; -1 means none.
namespace kimi::plan {

struct Port {
  std::string name;
  fb::DType dtype = fb::DType::F32;
  std::vector<fb::Dim> dims;
  fb::Role role = fb::Role::None;
};

struct Weight {
  std::string name;
  fb::DType dtype = fb::DType::F32;
  std::vector<int64_t> dims;
  std::string file; // empty: `bytes`
  uint64_t offset = 0, length = 0;
  std::string bytes;
};

struct Derived {
  std::string name;
  fb::DType dtype = fb::DType::F32;
  std::vector<int64_t> dims;
};

struct State {
  std::string name;
  fb::DType dtype = fb::DType::F32;
  std::vector<int64_t> dims; // -1 where dynamic
  int32_t grows = -1;
  std::string input, output;
};

struct Arg {
  int32_t buffer = -1; // -1: the scalar of slot `offset`
  fb::DType dtype = fb::DType::I64;
  int32_t offset = 0;
  std::vector<int32_t> sizes, strides;
  bool written = false;
};

struct Launch {
  std::string name;
  std::vector<fb::Variant> variants;
  std::vector<Arg> args;
  int32_t flops = -1; // slot
};

struct Check {
  int32_t slot = 0;
  std::string message;
};

struct Entry {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<std::vector<int32_t>> outputDims;
  std::vector<int32_t> states;
  std::vector<fb::Scalar> scalars;
  std::vector<std::string> scalarText; // what each slot is, for a person
  std::vector<Check> checks;
  std::vector<fb::Buffer> buffers;
  int32_t arenaSize = -1;
  std::vector<Launch> launches;
  int32_t stepTokens = -1;
};

/// A tensor map that a CUDA kernel takes: see fb::TensorMap.
struct TensorMap {
  int32_t arg = 0;
  std::vector<int32_t> dims, box;
  uint8_t swizzle = 0, elementSize = 0;
};

/// A kernel of the images. The fields below `symbol` are for CUDA, where the code generator gives them.
struct Kernel {
  std::string name, symbol;
  int32_t threads = 0;       // of a block
  int32_t tasksPerBlock = 1; // 1: a block a grid point; `threads`: a thread a grid point
  int32_t sharedBytes = 0;   // dynamic shared memory
  bool pdl = false;
  bool walks = false; // threads go on to further tasks: any number of blocks does them all
  std::vector<TensorMap> tensorMaps;
};

/// Code for `target`: "cpu:...", "cuda:sm_90a" (a cubin) or "cuda:ptx:sm_90a" (PTX text).
struct Image {
  std::string target, bytes;
};

struct Plan {
  std::vector<std::string> symbols;
  std::vector<Weight> weights;
  std::vector<Derived> derived;
  std::vector<State> states;
  std::vector<Kernel> kernels;
  std::vector<Entry> entries;
  int64_t maxContext = -1;
};

} // namespace kimi::plan

#endif // KIMI_LIB_MODULE_PLAN_H
