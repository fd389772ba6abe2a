//===- SassInfo.cpp - what became of CUDA kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/SassInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace kimi;

/// Mnemonics (their beginning) and the names they are counted under; the first that fits counts.
static const std::pair<llvm::StringLiteral, llvm::StringLiteral> kInstructions[] = {
    {"wgmma.mma_async", "wgmma"},
    {"mma.sync", "mma"},
    {"ldmatrix", "ldmatrix"},
    {"stmatrix", "stmatrix"},
    {"cp.async.bulk.tensor", "tma"},
    {"cp.async.bulk.commit_group", ""},
    {"cp.async.bulk.wait_group", ""},
    {"cp.async.bulk", "bulk_copy"},
    {"cp.async.c", "cp_async"},
    {"mbarrier", "mbarrier"},
    {"barrier", "barrier"},
    {"bar.", "barrier"},
    {"setmaxnreg", "setmaxnreg"},
    {"griddepcontrol", "griddepcontrol"},
    {"ld.global.nc", "ld_global_nc"},
    {"ld.global", "ld_global"},
    {"st.global", "st_global"},
    {"red.", "atomic"},
    {"atom.", "atomic"},
    {"ld.shared", "ld_shared"},
    {"st.shared", "st_shared"},
    {"ld.local", "ld_local"},
    {"st.local", "st_local"},
    {"ld.b", "ld_generic"},
    {"st.b", "st_generic"},
};

llvm::MapVector<llvm::StringRef, llvm::MapVector<llvm::StringRef, int64_t>>
kimi::countInstructions(llvm::StringRef ptx) {
  llvm::MapVector<llvm::StringRef, llvm::MapVector<llvm::StringRef, int64_t>> counts;
  llvm::StringRef kernel;
  while (!ptx.empty()) {
    auto [line, rest] = ptx.split('\n');
    ptx = rest;
    size_t entry = line.find(".entry ");
    if (entry != llvm::StringRef::npos) {
      kernel = line.substr(entry + 7).take_until([](char c) { return c == '(' || c == ' '; });
      counts[kernel];
      continue;
    }
    line = line.trim();
    if (line.consume_front("@")) { // a predicate
      line = line.drop_until([](char c) { return c == ' ' || c == '\t'; }).ltrim();
    }
    for (auto [mnemonic, name] : kInstructions) {
      if (line.starts_with(mnemonic)) {
        if (!name.empty() && !kernel.empty()) {
          ++counts[kernel][name];
        }
        break;
      }
    }
  }
  return counts;
}

std::string kimi::describeSass(const CudaImage &image, const CudaOptions &options) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto counts = countInstructions(image.ptx);
  for (const plan::Kernel &kernel : image.kernels) {
    os << "kernel=" << kernel.symbol << " threads=" << kernel.threads;
    auto usage = llvm::find_if(image.usage, [&](const KernelUsage &u) { return u.kernel == kernel.symbol; });
    if (usage != image.usage.end()) {
      os << " registers=" << usage->registers << " spill_stores=" << usage->spillStores
         << " spill_loads=" << usage->spillLoads << " stack=" << usage->stack << " static_shared=" << usage->shared
         << " barriers=" << usage->barriers;
    }
    os << " dynamic_shared=" << kernel.sharedBytes << " ptx:";
    for (auto &[name, count] : counts[kernel.symbol]) {
      os << " " << name << "=" << count;
    }
    os << "\n";
  }
  return text;
}
