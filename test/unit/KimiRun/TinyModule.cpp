//===- TinyModule.cpp - a module small enough to know every answer
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModule.h"
#include "runtime/format/Header.h"
#include "runtime/format/kmod_generated.h"
#include <fstream>
#include <sstream>

namespace kimi::run {

namespace {
using Ints = std::vector<int32_t>;

/// Builds the table.
class Builder {
public:
  explicit Builder(const TinyModule &spec) : spec(spec) {}

  std::string table(uint64_t imageSize, uint64_t imageSum) {
    std::vector<flatbuffers::Offset<fb::Entry>> entries;
    if (spec.whole) {
      entries.push_back(wholeEntry());
    }
    if (spec.prefill) {
      entries.push_back(stepEntry("prefill", -1));
    }
    if (spec.decode) {
      entries.push_back(stepEntry("decode", 1));
    }
    std::vector<int64_t> stateDims = {-1, -1};
    std::vector<flatbuffers::Offset<fb::State>> states = {
        fb::CreateStateDirect(out, "seen", fb::DType::I64, &stateDims, 1, "", "")};
    fb::Blob blob(0, imageSize);
    const char *device = spec.cuda ? "cuda:sm_90" : "cpu:x86-64";
    std::vector<flatbuffers::Offset<fb::Image>> images = {
        fb::CreateImage(out, out.CreateString(device), &blob, imageSum)};
    std::vector<flatbuffers::Offset<fb::Kernel>> kernels;
    for (const char *name : {"tiny_step", "tiny_whole", "tiny_choose"}) {
      kernels.push_back(fb::CreateKernelDirect(out, name, name, 0, /*threads=*/spec.cuda ? 32 : 0));
    }
    std::vector<flatbuffers::Offset<flatbuffers::String>> symbols;
    for (const char *name : {"batch", "seq", "total"}) {
      symbols.push_back(out.CreateString(name));
    }
    auto symbolList = out.CreateVector(symbols);
    auto stateList = out.CreateVector(states);
    auto imageList = out.CreateVector(images);
    auto kernelList = out.CreateVector(kernels);
    auto entryList = out.CreateVector(entries);
    auto producer = out.CreateString("test"), target = out.CreateString(device);
    fb::ModuleBuilder module(out);
    module.add_producer(producer);
    module.add_target(target);
    module.add_symbols(symbolList);
    if (spec.prefill || spec.decode) {
      module.add_states(stateList);
    }
    module.add_images(imageList);
    module.add_kernels(kernelList);
    module.add_entries(entryList);
    module.add_max_context(spec.context);
    out.Finish(module.Finish(), fb::ModuleIdentifier());
    return std::string(reinterpret_cast<const char *>(out.GetBufferPointer()), out.GetSize());
  }

private:
  int32_t scalar(fb::ScalarOp op, int32_t a = 0, int32_t b = 0, int64_t imm = 0) {
    scalars.emplace_back(op, a, b, 0, imm);
    return static_cast<int32_t>(scalars.size()) - 1;
  }

  flatbuffers::Offset<fb::Port> port(const char *name, fb::DType dtype, std::vector<fb::Dim> dims, fb::Role role) {
    return fb::CreatePortDirect(out, name, dtype, &dims, role);
  }

  /// A dense view of a whole buffer.
  flatbuffers::Offset<fb::Arg> view(int32_t buffer, fb::DType dtype, const Ints &sizes, bool written = false) {
    Ints strides(sizes.size(), one);
    for (size_t i = sizes.size() - 1; i-- > 0;) {
      strides[i] = scalar(fb::ScalarOp::Mul, strides[i + 1], sizes[i + 1]);
    }
    return fb::CreateArgDirect(out, buffer, dtype, zero, &sizes, &strides, written);
  }

  void begin() {
    scalars.clear();
    zero = scalar(fb::ScalarOp::Const);
    one = scalar(fb::ScalarOp::Const, 0, 0, 1);
    batch = scalar(fb::ScalarOp::InputDim, 0, 0, 0);
    tokens = scalar(fb::ScalarOp::InputDim, 0, 0, 1);
    vocabulary = scalar(fb::ScalarOp::Const, 0, 0, spec.vocabulary);
  }

  flatbuffers::Offset<fb::Launch> launch(int32_t kernel, const std::vector<flatbuffers::Offset<fb::Arg>> &args) {
    std::vector<fb::Variant> variants = {fb::Variant(kernel, -1, one, one, one)};
    return fb::CreateLaunchDirect(out, "tiny", &variants, &args);
  }

  flatbuffers::Offset<fb::Entry> entry(const char *name, const std::vector<flatbuffers::Offset<fb::Port>> &inputs,
                                       const fb::Dim &seq, const Ints &states, const std::vector<fb::Buffer> &buffers,
                                       const std::vector<flatbuffers::Offset<fb::Launch>> &launches,
                                       int32_t stepTokens) {
    std::vector<flatbuffers::Offset<fb::Port>> outputs = {
        port("logits", fb::DType::F32, {fb::Dim(-1, 0), seq, fb::Dim(spec.vocabulary, -1)}, fb::Role::Logits)};
    Ints dims = {batch, tokens, vocabulary};
    std::vector<flatbuffers::Offset<fb::OutputDims>> outputDims = {fb::CreateOutputDimsDirect(out, &dims)};
    if (launches.size() > 1) {
      dims = {batch, one};
      outputs.push_back(port("next", fb::DType::I64, {fb::Dim(-1, 0), fb::Dim(1, -1)}, fb::Role::NextToken));
      outputDims.push_back(fb::CreateOutputDimsDirect(out, &dims));
    }
    return fb::CreateEntryDirect(out, name, &inputs, &outputs, &outputDims, &states, &scalars, nullptr, &buffers, -1,
                                 &launches, stepTokens);
  }

  flatbuffers::Offset<fb::Entry> wholeEntry() {
    begin();
    fb::Dim seq(-1, 1);
    auto ids = port("input_ids", fb::DType::I64, {fb::Dim(-1, 0), seq}, fb::Role::TokenIds);
    std::vector<fb::Buffer> buffers = {fb::Buffer(fb::BufferKind::Input, 0, 0, 0),
                                       fb::Buffer(fb::BufferKind::Output, 0, 0, 0)};
    auto run = launch(
        1, {view(0, fb::DType::I64, {batch, tokens}), view(1, fb::DType::F32, {batch, tokens, vocabulary}, true)});
    return entry("main", {ids}, seq, {}, buffers, {run}, -1);
  }

  flatbuffers::Offset<fb::Entry> stepEntry(const char *name, int64_t fixed) {
    begin();
    int32_t past = scalar(fb::ScalarOp::StateLength), capacity = scalar(fb::ScalarOp::Capacity);
    int32_t total = scalar(fb::ScalarOp::Add, past, tokens);
    fb::Dim seq = fixed >= 0 ? fb::Dim(fixed, -1) : fb::Dim(-1, 1);
    std::vector<flatbuffers::Offset<fb::Port>> inputs = {
        port("input_ids", fb::DType::I64, {fb::Dim(-1, 0), seq}, fb::Role::TokenIds),
        port("attention_mask", fb::DType::F32, {fb::Dim(-1, 0), fb::Dim(-1, 2)}, fb::Role::AttentionMask),
        port("position_ids", fb::DType::I64, {fb::Dim(-1, 0), seq}, fb::Role::PositionIds)};
    std::vector<fb::Buffer> buffers;
    for (int32_t input = 0; input < 3; ++input) {
      buffers.emplace_back(fb::BufferKind::Input, input, 0, 0);
    }
    buffers.emplace_back(fb::BufferKind::State, 0, 0, 0);
    buffers.emplace_back(fb::BufferKind::Output, 0, 0, 0);
    auto scalarArg = fb::CreateArgDirect(out, -1, fb::DType::I64, past);
    auto run = launch(0, {view(0, fb::DType::I64, {batch, tokens}), view(1, fb::DType::F32, {batch, total}),
                          view(2, fb::DType::I64, {batch, tokens}), view(3, fb::DType::I64, {batch, capacity}, true),
                          view(4, fb::DType::F32, {batch, tokens, vocabulary}, true), scalarArg});
    std::vector<flatbuffers::Offset<fb::Launch>> launches = {run};
    if (spec.nextToken) {
      buffers.emplace_back(fb::BufferKind::Output, 1, 0, 0);
      launches.push_back(launch(
          2, {view(4, fb::DType::F32, {batch, tokens, vocabulary}), view(5, fb::DType::I64, {batch, one}, true)}));
    }
    return entry(name, inputs, seq, {0}, buffers, launches, tokens);
  }

  const TinyModule &spec;
  flatbuffers::FlatBufferBuilder out;
  std::vector<fb::Scalar> scalars;
  int32_t zero = 0, one = 0, batch = 0, tokens = 0, vocabulary = 0;
};
} // namespace

bool TinyModule::write(const std::string &path) const {
  std::ifstream image(KIMI_TINY_KERNELS, std::ios::binary);
  std::stringstream code;
  code << image.rdbuf();
  std::string data = code.str();
  std::string table = Builder(*this).table(data.size(), format::checksum(data.data(), data.size()));
  format::FileHeader header = format::makeHeader(table.data(), table.size(), data.size());
  std::string file(reinterpret_cast<const char *>(&header), sizeof(header));
  file.resize(header.tableOffset);
  file += table;
  file.resize(header.dataOffset);
  file += data;
  std::ofstream out(path, std::ios::binary);
  out << file << std::flush;
  return image && out;
}

std::vector<int64_t> TinyModule::answer(std::vector<int64_t> ids, int64_t count) const {
  std::vector<int64_t> out;
  for (int64_t n = 0; n < count; ++n) {
    int64_t sum = 1;
    for (int64_t id : ids) {
      sum += id;
    }
    out.push_back(sum % vocabulary);
    ids.push_back(out.back());
  }
  return out;
}

} // namespace kimi::run
