//===- WriteModule.cpp - a plan as the bytes of a .kmod
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/BuildModule.h"
#include "runtime/format/Header.h"

using namespace mlir;
using namespace kimi;

namespace {
class Writer {
public:
  explicit Writer(const ModuleOptions &options) : options(options) {}

  std::string write(const plan::Plan &plan) {
    // Images first: the blob of the first one is at the start of a page.
    std::vector<flatbuffers::Offset<fb::Image>> images;
    for (const plan::Image &image : options.images) {
      fb::Blob blob = addBlob(image.bytes);
      uint64_t sum = format::checksum(image.bytes.data(), image.bytes.size());
      images.push_back(fb::CreateImageDirect(b, image.target.c_str(), &blob, sum));
    }
    std::vector<flatbuffers::Offset<fb::Weight>> weights;
    for (const plan::Weight &w : plan.weights) {
      bool inlined = w.file.empty();
      fb::Blob blob = inlined ? addBlob(w.bytes) : fb::Blob(0, 0);
      weights.push_back(fb::CreateWeightDirect(b, w.name.c_str(), w.dtype, &w.dims, inlined ? "" : w.file.c_str(),
                                               inlined ? 0 : w.offset, inlined ? 0 : w.length, &blob));
    }
    std::vector<flatbuffers::Offset<fb::Derived>> derived;
    for (const plan::Derived &d : plan.derived) {
      derived.push_back(fb::CreateDerivedDirect(b, d.name.c_str(), d.dtype, &d.dims));
    }
    std::vector<flatbuffers::Offset<fb::State>> states;
    for (const plan::State &s : plan.states) {
      states.push_back(
          fb::CreateStateDirect(b, s.name.c_str(), s.dtype, &s.dims, s.grows, s.input.c_str(), s.output.c_str()));
    }
    std::vector<flatbuffers::Offset<fb::Kernel>> kernels;
    for (const plan::Kernel &k : plan.kernels) {
      kernels.push_back(kernel(k));
    }
    std::vector<flatbuffers::Offset<fb::Entry>> entries;
    for (const plan::Entry &e : plan.entries) {
      entries.push_back(entry(e));
    }
    std::vector<flatbuffers::Offset<flatbuffers::String>> symbols;
    for (const std::string &s : plan.symbols) {
      symbols.push_back(b.CreateString(s));
    }
    b.Finish(fb::CreateModuleDirect(b, "kimi " KIMI_VERSION, options.sourceHash.c_str(), options.target.c_str(),
                                    &symbols, &weights, &derived, &states, &images, &kernels, &entries,
                                    plan.maxContext),
             fb::ModuleIdentifier());
    format::FileHeader header = format::makeHeader(b.GetBufferPointer(), b.GetSize(), data.size());
    std::string file(reinterpret_cast<const char *>(&header), sizeof(header));
    file.resize(header.tableOffset, '\0');
    file.append(reinterpret_cast<const char *>(b.GetBufferPointer()), b.GetSize());
    if (!data.empty()) {
      file.resize(header.dataOffset, '\0');
      file += data;
    }
    return file;
  }

private:
  fb::Blob addBlob(const std::string &bytes) {
    data.resize(format::alignTo(data.size(), format::blobAlignment), '\0');
    fb::Blob blob(data.size(), bytes.size());
    data += bytes;
    return blob;
  }

  std::vector<flatbuffers::Offset<fb::Port>> ports(const std::vector<plan::Port> &list) {
    std::vector<flatbuffers::Offset<fb::Port>> out;
    for (const plan::Port &p : list) {
      out.push_back(fb::CreatePortDirect(b, p.name.c_str(), p.dtype, &p.dims, p.role));
    }
    return out;
  }

  flatbuffers::Offset<fb::Kernel> kernel(const plan::Kernel &k) {
    std::vector<flatbuffers::Offset<fb::TensorMap>> maps;
    for (const plan::TensorMap &m : k.tensorMaps) {
      maps.push_back(fb::CreateTensorMapDirect(b, m.arg, &m.dims, &m.box, m.swizzle, m.elementSize));
    }
    return fb::CreateKernelDirect(b, k.name.c_str(), k.symbol.c_str(), /*image=*/0, k.threads, k.tasksPerBlock,
                                  k.sharedBytes, k.pdl, maps.empty() ? nullptr : &maps, k.walks);
  }

  flatbuffers::Offset<fb::Entry> entry(const plan::Entry &e) {
    auto inputs = ports(e.inputs), outputs = ports(e.outputs);
    std::vector<flatbuffers::Offset<fb::OutputDims>> outputDims;
    for (const std::vector<int32_t> &slots : e.outputDims) {
      outputDims.push_back(fb::CreateOutputDimsDirect(b, &slots));
    }
    std::vector<flatbuffers::Offset<fb::Check>> checks;
    for (const plan::Check &c : e.checks) {
      checks.push_back(fb::CreateCheckDirect(b, c.slot, c.message.c_str()));
    }
    std::vector<flatbuffers::Offset<fb::Launch>> launches;
    for (const plan::Launch &l : e.launches) {
      std::vector<flatbuffers::Offset<fb::Arg>> args;
      for (const plan::Arg &a : l.args) {
        args.push_back(fb::CreateArgDirect(b, a.buffer, a.dtype, a.offset, &a.sizes, &a.strides, a.written));
      }
      launches.push_back(fb::CreateLaunchDirect(b, l.name.c_str(), &l.variants, &args, l.flops));
    }
    return fb::CreateEntryDirect(b, e.name.c_str(), &inputs, &outputs, &outputDims, &e.states, &e.scalars, &checks,
                                 &e.buffers, e.arenaSize, &launches, e.stepTokens);
  }

  const ModuleOptions &options;
  flatbuffers::FlatBufferBuilder b;
  std::string data;
};
} // namespace

std::string kimi::writePlan(const plan::Plan &plan, const ModuleOptions &options) {
  return Writer(options).write(plan);
}
