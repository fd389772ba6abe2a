//===- TestModule.cpp - small modules made in memory ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "TestModule.h"
#include "runtime/format/Header.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace kimi::test {

const std::vector<std::string> kernelNames = {"add_rows",   "scale", "scale_negative", "sum_rows",
                                              "accumulate", "root",  "next_token"};

int32_t EntrySpec::op(fb::ScalarOp op, int32_t a, int32_t b, int32_t c, int64_t imm) {
  scalars.emplace_back(op, a, b, c, imm);
  return static_cast<int32_t>(scalars.size()) - 1;
}

int32_t EntrySpec::buffer(fb::BufferKind kind, int32_t index, int32_t offset, int32_t size) {
  buffers.emplace_back(kind, index, offset, size);
  return static_cast<int32_t>(buffers.size()) - 1;
}

static std::vector<uint8_t> readFile(const char *path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

std::vector<Offset<fb::Port>> buildPorts(FlatBufferBuilder &builder, const std::vector<PortSpec> &specs) {
  std::vector<Offset<fb::Port>> out;
  for (const PortSpec &spec : specs) {
    auto name = builder.CreateString(spec.name);
    auto dims = builder.CreateVectorOfStructs(spec.dims);
    out.push_back(fb::CreatePort(builder, name, spec.dtype, dims, spec.role));
  }
  return out;
}

Offset<fb::Launch> buildLaunch(FlatBufferBuilder &builder, const LaunchSpec &spec) {
  std::vector<Offset<fb::Arg>> args;
  for (const ArgSpec &arg : spec.args) {
    auto sizes = builder.CreateVector(arg.sizes), strides = builder.CreateVector(arg.strides);
    args.push_back(fb::CreateArg(builder, arg.buffer, arg.dtype, arg.offset, sizes, strides, arg.written));
  }
  auto variants = builder.CreateVectorOfStructs(spec.variants);
  auto argList = builder.CreateVector(args);
  return fb::CreateLaunch(builder, builder.CreateString(spec.name), variants, argList, spec.flops);
}

Offset<fb::Entry> buildEntry(FlatBufferBuilder &builder, const EntrySpec &spec) {
  std::vector<Offset<fb::OutputDims>> outputDims;
  for (const PortSpec &port : spec.outputs) {
    outputDims.push_back(fb::CreateOutputDims(builder, builder.CreateVector(port.slots)));
  }
  std::vector<Offset<fb::Check>> checks;
  for (const auto &[slot, message] : spec.checks) {
    checks.push_back(fb::CreateCheck(builder, slot, builder.CreateString(message)));
  }
  std::vector<Offset<fb::Launch>> launches;
  for (const LaunchSpec &launch : spec.launches) {
    launches.push_back(buildLaunch(builder, launch));
  }
  auto name = builder.CreateString(spec.name);
  auto inputs = builder.CreateVector(buildPorts(builder, spec.inputs));
  auto outputs = builder.CreateVector(buildPorts(builder, spec.outputs));
  auto dims = builder.CreateVector(outputDims);
  auto states = builder.CreateVector(spec.states);
  auto scalars = builder.CreateVectorOfStructs(spec.scalars);
  auto checkList = builder.CreateVector(checks);
  auto buffers = builder.CreateVectorOfStructs(spec.buffers);
  auto launchList = builder.CreateVector(launches);
  return fb::CreateEntry(builder, name, inputs, outputs, dims, states, scalars, checkList, buffers, spec.arenaSize,
                         launchList, spec.stepTokens);
}

Offset<fb::Kernel> buildKernel(FlatBufferBuilder &builder, const KernelSpec &spec) {
  std::vector<Offset<fb::TensorMap>> maps;
  for (const TensorMapSpec &map : spec.maps) {
    auto dims = builder.CreateVector(map.dims), box = builder.CreateVector(map.box);
    maps.push_back(fb::CreateTensorMap(builder, map.arg, dims, box, map.swizzle, map.elementSize));
  }
  auto text = builder.CreateString(spec.symbol);
  auto mapList = builder.CreateVector(maps);
  return fb::CreateKernel(builder, text, text, spec.image, spec.threads, spec.tasksPerBlock, spec.sharedBytes, spec.pdl,
                          mapList, spec.walks);
}

/// Appends bytes to the data segment, and says where they went.
fb::Blob addBlob(std::vector<uint8_t> &data, const void *bytes, size_t size) {
  data.resize(format::alignTo(data.size(), format::blobAlignment));
  fb::Blob blob(data.size(), size);
  const auto *begin = static_cast<const uint8_t *>(bytes);
  data.insert(data.end(), begin, begin + size);
  return blob;
}

} // namespace

std::vector<uint8_t> build(const ModuleSpec &spec, const std::vector<std::string> &kernelSymbols) {
  FlatBufferBuilder builder;
  std::vector<uint8_t> data;
  std::vector<Offset<fb::Weight>> weights;
  for (const WeightSpec &weight : spec.weights) {
    uint64_t length = 4;
    for (int64_t dim : weight.dims) {
      length *= static_cast<uint64_t>(dim);
    }
    auto name = builder.CreateString(weight.name), file = builder.CreateString(weight.file);
    auto dims = builder.CreateVector(weight.dims);
    fb::Blob blob;
    bool isInline = weight.file.empty();
    if (isInline) {
      blob = addBlob(data, weight.values.data(), weight.values.size() * sizeof(float));
    }
    weights.push_back(fb::CreateWeight(builder, name, fb::DType::F32, dims, file, weight.offset, isInline ? 0 : length,
                                       isInline ? &blob : nullptr));
  }
  std::vector<Offset<fb::Derived>> derived;
  for (const auto &[name, dims] : spec.derived) {
    auto text = builder.CreateString(name);
    derived.push_back(fb::CreateDerived(builder, text, fb::DType::F32, builder.CreateVector(dims)));
  }
  std::vector<Offset<fb::State>> states;
  for (const StateSpec &state : spec.states) {
    auto name = builder.CreateString(state.name);
    states.push_back(fb::CreateState(builder, name, fb::DType::F32, builder.CreateVector(state.dims), state.grows));
  }
  std::vector<ImageSpec> specImages = spec.images;
  if (specImages.empty()) {
    std::vector<uint8_t> code = readFile(KIMI_TEST_KERNELS);
    specImages = {{spec.target, std::string(code.begin(), code.end())}};
  }
  std::vector<Offset<fb::Image>> images;
  for (const ImageSpec &image : specImages) {
    fb::Blob code = addBlob(data, image.bytes.data(), image.bytes.size());
    images.push_back(fb::CreateImage(builder, builder.CreateString(image.target), &code,
                                     format::checksum(image.bytes.data(), image.bytes.size())));
  }
  std::vector<Offset<fb::Kernel>> kernels;
  if (spec.kernels.empty()) {
    for (const std::string &symbol : kernelSymbols) {
      kernels.push_back(buildKernel(builder, {symbol}));
    }
  }
  for (const KernelSpec &kernel : spec.kernels) {
    kernels.push_back(buildKernel(builder, kernel));
  }
  std::vector<Offset<fb::Entry>> entries;
  for (const EntrySpec &entry : spec.entries) {
    entries.push_back(buildEntry(builder, entry));
  }
  auto producer = builder.CreateString("test"), hash = builder.CreateString("0"),
       target = builder.CreateString(spec.target);
  auto symbols = builder.CreateVectorOfStrings(spec.symbols);
  auto weightList = builder.CreateVector(weights);
  auto derivedList = builder.CreateVector(derived);
  auto stateList = builder.CreateVector(states);
  auto imageList = builder.CreateVector(images);
  auto kernelList = builder.CreateVector(kernels);
  auto entryList = builder.CreateVector(entries);
  fb::FinishModuleBuffer(builder, fb::CreateModule(builder, producer, hash, target, symbols, weightList, derivedList,
                                                   stateList, imageList, kernelList, entryList, spec.maxContext));
  format::FileHeader header = format::makeHeader(builder.GetBufferPointer(), builder.GetSize(), data.size());
  std::vector<uint8_t> file(header.dataOffset + data.size());
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + header.tableOffset, builder.GetBufferPointer(), builder.GetSize());
  std::copy(data.begin(), data.end(), file.begin() + static_cast<ptrdiff_t>(header.dataOffset));
  return file;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "kimi-runtime-XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  folder = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
}

std::string TemporaryFolder::write(const std::string &name, const void *bytes, size_t size) const {
  std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
  std::ofstream file(path(name), std::ios::binary);
  file.write(static_cast<const char *>(bytes), static_cast<std::streamsize>(size));
  EXPECT_TRUE(file.good());
  return path(name);
}

kimi_status Runner::load(const std::vector<uint8_t> &bytes, const char *weightsFolder) {
  kimi_module_options options = {weightsFolder};
  return kimi_module_load(folder.write("module.kmod", bytes).c_str(), &options, &module);
}

kimi_status Runner::open(kimi_session_options options) {
  options.threads = options.threads ? options.threads : 2;
  return kimi_session_create(module, &options, &session);
}

Runner::~Runner() {
  kimi_session_free(session);
  kimi_module_free(module);
}

kimi_status Runner::run(const char *entry, std::vector<kimi_tensor> inputs, std::vector<kimi_tensor> outputs) {
  return kimi_session_run(session, kimi_module_find_entry(module, entry), inputs.data(),
                          static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()));
}

kimi_session_options sized(int64_t maxSeq, int64_t batch, int32_t threads) {
  kimi_session_options options = {};
  options.max_seq = maxSeq;
  options.batch = batch;
  options.threads = threads;
  return options;
}

kimi_session_options onDevice(const char *device) {
  kimi_session_options options = {};
  options.device = device;
  return options;
}

static kimi_tensor makeTensor(kimi_dtype dtype, void *data, const std::vector<int64_t> &dims) {
  kimi_tensor out = {};
  out.dtype = dtype;
  out.rank = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), out.dims);
  out.data = data;
  return out;
}

kimi_tensor tensor(std::vector<float> &data, std::vector<int64_t> dims) {
  return makeTensor(KIMI_F32, data.data(), dims);
}

kimi_tensor tensor(std::vector<int64_t> &data, std::vector<int64_t> dims) {
  return makeTensor(KIMI_I64, data.data(), dims);
}

ModuleSpec twoLaunchModule() {
  ModuleSpec module;
  module.symbols = {"n", "m"};
  EntrySpec entry{"main"};
  std::vector<fb::Dim> dims = {fb::Dim(-1, 0), fb::Dim(-1, 1)};
  int32_t rows = entry.dim(0, 0), columns = entry.dim(0, 1), zero = entry.constant(0), one = entry.constant(1);
  int32_t three = entry.constant(3), bytes = entry.mul(entry.mul(rows, columns), entry.constant(4));
  entry.inputs = {{"x", fb::DType::F32, dims}, {"y", fb::DType::F32, dims}};
  entry.outputs = {{"z", fb::DType::F32, dims, {rows, columns}}};
  entry.arenaSize = bytes;
  int32_t x = entry.buffer(fb::BufferKind::Input, 0), y = entry.buffer(fb::BufferKind::Input, 1);
  int32_t z = entry.buffer(fb::BufferKind::Output, 0), sum = entry.buffer(fb::BufferKind::Arena, 0, zero, bytes);
  auto whole = [&](int32_t buffer, bool written = false) {
    return ArgSpec{buffer, zero, {rows, columns}, {columns, one}, written};
  };
  entry.launches = {{{fb::Variant(AddRows, -1, rows, one, one)}, {whole(x), whole(y), whole(sum, true)}},
                    {{fb::Variant(Scale, -1, rows, columns, one)}, {whole(sum), whole(z, true), {-1, three}}}};
  module.entries = {entry};
  return module;
}

ModuleSpec cudaModule(ModuleSpec module) {
  std::vector<uint8_t> code = readFile(KIMI_TEST_KERNELS);
  module.target = "cuda:sm_90a";
  module.images = {{"cuda:sm_90a", std::string(code.begin(), code.end())},
                   {"cuda:ptx:sm_90a", std::string("// PTX of the fake driver\0", 26)}};
  module.kernels = {};
  for (const std::string &symbol : kernelNames) {
    module.kernels.push_back({symbol, 0, /*threads=*/64});
  }
  module.kernels[Scale].tasksPerBlock = 64;
  return module;
}

ModuleSpec guardedModule() {
  ModuleSpec module;
  module.symbols = {"n"};
  EntrySpec entry{"main"};
  int32_t n = entry.dim(0, 0), zero = entry.constant(0), one = entry.constant(1);
  int32_t factor = entry.op(fb::ScalarOp::InputValue, 1, 0, 0, 1);
  int32_t isSmall = entry.op(fb::ScalarOp::Le, n, entry.constant(4)),
          isMiddle = entry.op(fb::ScalarOp::Le, n, entry.constant(50));
  int32_t isPossible = entry.op(fb::ScalarOp::Le, n, entry.constant(100));
  entry.inputs = {{"x", fb::DType::F32, {fb::Dim(-1, 0)}}, {"k", fb::DType::I64, {fb::Dim(2, -1)}}};
  entry.outputs = {{"z", fb::DType::F32, {fb::Dim(-1, 0)}, {n}}};
  entry.checks = {{isPossible, "n is at most 100"}};
  int32_t x = entry.buffer(fb::BufferKind::Input, 0), z = entry.buffer(fb::BufferKind::Output, 0);
  entry.launches = {{{fb::Variant(Scale, isSmall, n, one, one), fb::Variant(ScaleNegative, isMiddle, n, one, one)},
                     {{x, zero, {n, one}, {one, one}}, {z, zero, {n, one}, {one, one}, true}, {-1, factor}}}};
  module.entries = {entry};
  return module;
}

ModuleSpec derivedModule() {
  ModuleSpec module;
  module.weights = {{"w", {2, 2}, "", 0, {2, 8, 18, 32}}};
  module.derived = {{"pad", {3}}, {"packed", {2, 2}}};
  EntrySpec init{"init"}, entry{"main"};
  int32_t zero = init.constant(0), one = init.constant(1), two = init.constant(2);
  init.buffer(fb::BufferKind::Weight, 0);
  init.buffer(fb::BufferKind::Derived, 1);
  init.launches = {{{fb::Variant(Scale, -1, two, two, one)},
                    {{0, zero, {two, two}, {two, one}}, {1, zero, {two, two}, {two, one}, true}, {-1, two}}}};
  entry.scalars = init.scalars;
  entry.outputs = {{"z", fb::DType::F32, {fb::Dim(2, -1), fb::Dim(2, -1)}, {two, two}}};
  entry.buffer(fb::BufferKind::Derived, 1);
  entry.buffer(fb::BufferKind::Output, 0);
  entry.launches = {{{fb::Variant(Root, -1, two, two, one)},
                     {{0, zero, {two, two}, {two, one}}, {1, zero, {two, two}, {two, one}, true}}}};
  module.entries = {init, entry};
  return module;
}

ModuleSpec stateModule(bool total) {
  ModuleSpec module;
  module.symbols = {"t"};
  module.states = {{"rows", {-1, 0, 2}, 1}};
  EntrySpec entry{"step"};
  int32_t t = entry.dim(0, 0), zero = entry.constant(0), one = entry.constant(1), two = entry.constant(2);
  int32_t length = entry.op(fb::ScalarOp::StateLength), start = entry.mul(length, two), all = entry.add(length, t);
  entry.inputs = {{"x", fb::DType::F32, {fb::Dim(-1, 0), fb::Dim(2, -1)}}};
  entry.outputs = {{"sum", fb::DType::F32, {fb::Dim(1, -1), fb::Dim(2, -1)}, {one, two}}};
  entry.states = {0};
  entry.stepTokens = t;
  int32_t x = entry.buffer(fb::BufferKind::Input, 0), sum = entry.buffer(fb::BufferKind::Output, 0);
  int32_t rows = entry.buffer(fb::BufferKind::State, 0);
  entry.launches = {{{fb::Variant(Scale, -1, t, two, one)},
                     {{x, zero, {t, two}, {two, one}}, {rows, start, {t, two}, {two, one}, true}, {-1, one}}},
                    {{fb::Variant(SumRows, -1, one, two, one)},
                     {{rows, zero, {all, two}, {two, one}}, {sum, zero, {one, two}, {two, one}, true}}}};
  if (total) {
    module.states.push_back({"total", {-1, 2}, -1});
    entry.states.push_back(1);
    int32_t fixed = entry.buffer(fb::BufferKind::State, 1);
    ArgSpec view{fixed, zero, {one, two}, {two, one}, true};
    entry.launches[1] = {{fb::Variant(Accumulate, -1, one, one, one)}, {{x, zero, {one, two}, {two, one}}, view}};
    view.written = false;
    entry.launches.push_back(
        {{fb::Variant(Scale, -1, one, two, one)}, {view, {sum, zero, {one, two}, {two, one}, true}, {-1, one}}});
  }
  module.entries = {entry};
  return module;
}

ModuleSpec decodeModule() {
  ModuleSpec module;
  module.symbols = {"b"};
  module.states = {{"kv", {-1, 4, 1}, 1}};
  EntrySpec entry{"decode"};
  int32_t rows = entry.dim(0, 0), one = entry.constant(1), zero = entry.constant(0);
  int32_t length = entry.op(fb::ScalarOp::StateLength);
  entry.stepTokens = one;
  entry.states = {0};
  entry.inputs = {{"ids", fb::DType::I64, {fb::Dim(-1, 0), fb::Dim(1, -1)}, {}, fb::Role::TokenIds}};
  entry.outputs = {{"next", fb::DType::I64, {fb::Dim(-1, 0), fb::Dim(1, -1)}, {rows, one}, fb::Role::NextToken}};
  int32_t ids = entry.buffer(fb::BufferKind::Input, 0), next = entry.buffer(fb::BufferKind::Output, 0);
  entry.launches = {{{fb::Variant(NextToken, -1, rows, one, one)},
                     {{ids, zero, {rows, one}, {one, one}, false, fb::DType::I64},
                      {next, zero, {rows, one}, {one, one}, true, fb::DType::I64},
                      {-1, length}}}};
  module.entries = {entry};
  return module;
}

} // namespace kimi::test
