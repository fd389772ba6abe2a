//===- TestModule.h - small modules made in memory --------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_TEST_UNIT_RUNTIME_TESTMODULE_H
#define KIMI_TEST_UNIT_RUNTIME_TESTMODULE_H

#include "kimi/kimi.h"
#include "runtime/format/kmod_generated.h"

#include <memory>
#include <string>
#include <vector>

namespace kimi::test {

struct PortSpec {
  std::string name;
  fb::DType dtype;
  std::vector<fb::Dim> dims;
  std::vector<int32_t> slots = {}; // of an output
  fb::Role role = fb::Role::None;
};

struct ArgSpec {
  int32_t buffer;
  int32_t offset;
  std::vector<int32_t> sizes = {}, strides = {};
  bool written = false;
  fb::DType dtype = fb::DType::F32;
};

struct LaunchSpec {
  std::vector<fb::Variant> variants;
  std::vector<ArgSpec> args;
  std::string name = "step";
  int32_t flops = -1;
};

struct EntrySpec {
  std::string name;
  std::vector<PortSpec> inputs = {}, outputs = {};
  std::vector<int32_t> states = {};
  std::vector<fb::Scalar> scalars = {};
  std::vector<std::pair<int32_t, std::string>> checks = {};
  std::vector<fb::Buffer> buffers = {};
  int32_t arenaSize = -1, stepTokens = -1;
  std::vector<LaunchSpec> launches = {};

  /// Each adds an instruction and returns its slot.
  int32_t op(fb::ScalarOp op, int32_t a = 0, int32_t b = 0, int32_t c = 0, int64_t imm = 0);
  int32_t constant(int64_t value) { return op(fb::ScalarOp::Const, 0, 0, 0, value); }
  int32_t dim(int32_t input, int64_t axis) { return op(fb::ScalarOp::InputDim, input, 0, 0, axis); }
  int32_t mul(int32_t a, int32_t b) { return op(fb::ScalarOp::Mul, a, b); }
  int32_t add(int32_t a, int32_t b) { return op(fb::ScalarOp::Add, a, b); }
  int32_t buffer(fb::BufferKind kind, int32_t index, int32_t offset = -1, int32_t size = -1);
};

struct WeightSpec {
  std::string name;
  std::vector<int64_t> dims;
  std::string file; // empty: `values` go into the data segment
  uint64_t offset = 0;
  std::vector<float> values = {};
};

struct StateSpec {
  std::string name;
  std::vector<int64_t> dims;
  int32_t grows;
};

struct TensorMapSpec {
  int32_t arg;
  std::vector<int32_t> dims, box;
  uint8_t swizzle = 0, elementSize = 4;
};

/// How a kernel is launched on CUDA.
struct KernelSpec {
  std::string symbol;
  int32_t image = 0, threads = 0, tasksPerBlock = 1, sharedBytes = 0;
  bool pdl = false;
  std::vector<TensorMapSpec> maps = {};
  bool walks = false;
};

struct ImageSpec {
  std::string target, bytes;
};

/// A module of f32 tensors. Unless `kernels` and `images` say otherwise, its kernels are those of TestKernels.c, in the
/// order of kernelNames.
struct ModuleSpec {
  std::string target = "cpu:x86-64";
  std::vector<std::string> symbols = {};
  std::vector<WeightSpec> weights = {};
  std::vector<std::pair<std::string, std::vector<int64_t>>> derived = {};
  std::vector<StateSpec> states = {};
  std::vector<EntrySpec> entries = {};
  int64_t maxContext = -1;
  std::vector<KernelSpec> kernels = {};
  std::vector<ImageSpec> images = {};
};

enum Kernel { AddRows, Scale, ScaleNegative, SumRows, Accumulate, Root, NextToken, NoSuchKernel };
extern const std::vector<std::string> kernelNames;

/// The bytes of a .kmod file.
std::vector<uint8_t> build(const ModuleSpec &spec, const std::vector<std::string> &symbols = kernelNames);

/// A folder that is removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string &name = "") const { return folder + "/" + name; }
  std::string write(const std::string &name, const void *bytes, size_t size) const;
  std::string write(const std::string &name, const std::vector<uint8_t> &bytes) const {
    return write(name, bytes.data(), bytes.size());
  }

private:
  std::string folder;
};

/// A module (and, after open, a session) through the C API.
class Runner {
public:
  kimi_status load(const std::vector<uint8_t> &bytes, const char *weightsFolder = nullptr);
  kimi_status open(kimi_session_options options = {});
  ~Runner();

  kimi_status run(const char *entry, std::vector<kimi_tensor> inputs, std::vector<kimi_tensor> outputs);

  TemporaryFolder folder;
  kimi_module *module = nullptr;
  kimi_session *session = nullptr;
};

/// Session options of the given sizes, or for a device.
kimi_session_options sized(int64_t maxSeq, int64_t batch = 0, int32_t threads = 0);
kimi_session_options onDevice(const char *device);

/// A tensor on the elements of `data`.
kimi_tensor tensor(std::vector<float> &data, std::vector<int64_t> dims);
kimi_tensor tensor(std::vector<int64_t> &data, std::vector<int64_t> dims);

inline std::string lastError() { return kimi_last_error(); }

/// main(x: f32[n, m], y: f32[n, m]) -> (x + y) * 3, by way of an arena buffer.
ModuleSpec twoLaunchModule();

/// A module for CUDA: kernels in blocks of 64 threads (`scale` with a thread for each grid point), a cubin and PTX as
/// FakeCuda.cpp takes them.
ModuleSpec cudaModule(ModuleSpec module = twoLaunchModule());

/// main(x: f32[n], k: i64[2]) -> x * k[1], negative for n > 4; n > 100 is refused by a check, n > 50 has no variant.
ModuleSpec guardedModule();

/// init: packed = w * 2. main() -> sqrt(packed).
ModuleSpec derivedModule();

/// step(x: f32[t, 2]) -> f32[1, 2]: appends the rows of x to the growing state and returns the sum of all its rows.
/// With `total`, a fixed state gathers the first row of each step, and is the output instead.
ModuleSpec stateModule(bool total = false);

/// decode(ids: i64[b, 1]) -> next: i64[b, 1] with a growing state: next = 2 * ids + length. Tokens as roles say.
ModuleSpec decodeModule();

} // namespace kimi::test

#endif // KIMI_TEST_UNIT_RUNTIME_TESTMODULE_H
