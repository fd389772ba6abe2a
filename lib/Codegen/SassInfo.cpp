//===- SassInfo.cpp - what became of CUDA kernels
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/SassInfo.h"
#include "lib/Codegen/ToolRun.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
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

InstructionCounts kimi::countPtx(llvm::StringRef ptx) {
  InstructionCounts counts;
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

InstructionCounts kimi::countSass(llvm::StringRef text) {
  InstructionCounts counts;
  llvm::StringRef kernel;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    line = line.trim();
    if (line.starts_with(".text.") && line.ends_with(":")) {
      kernel = line.drop_front(6).drop_back();
      continue;
    }
    // "/*0040*/  @!P0 FFMA R5, R0, R0, R0 ;"
    if (kernel.empty() || !line.consume_front("/*")) {
      continue;
    }
    size_t end = line.find("*/");
    if (end == llvm::StringRef::npos) {
      continue;
    }
    line = line.substr(end + 2).ltrim();
    if (line.consume_front("@")) {
      line = line.drop_until([](char c) { return c == ' '; }).ltrim();
    }
    llvm::StringRef word = line.take_while([](char c) { return llvm::isUpper(c) || llvm::isDigit(c) || c == '_'; });
    if (!word.empty() && word != "NOP") {
      ++counts[kernel]["total"];
      ++counts[kernel][word];
    }
  }
  return counts;
}

/// What is worth a place in a line: memory, matrix units, barriers, and the arithmetic that fills time.
static const llvm::StringLiteral kSassOfInterest[] = {
    "total", "HGMMA", "IGMMA", "QGMMA", "HMMA",  "IMMA",     "UTMALDG",    "UTMASTG", "UBLKCP", "LDGSTS",
    "LDSM",  "STSM",  "LDG",   "STG",   "LDS",   "STS",      "LDL",        "STL",     "LD",     "ST",
    "ATOM",  "ATOMG", "RED",   "BAR",   "SYNCS", "WARPSYNC", "USETMAXREG", "ACQBULK", "SHFL",   "MUFU",
    "FFMA",  "FADD",  "FMUL",  "DFMA",  "IMAD",  "F2F",      "F2FP",       "CALL"};

/// The machine code as text; empty where there is no nvdisasm or it fails.
static std::string disassemble(const CudaImage &image, const CudaOptions &options) {
  llvm::Expected<std::optional<std::string>> ptxas = findPtxas(options.ptxas);
  std::string beside = ptxas && *ptxas ? **ptxas : "";
  llvm::consumeError(ptxas.takeError());
  std::optional<std::string> program = findProgramBeside(beside, "nvdisasm");
  if (!program) {
    return "";
  }
  llvm::Expected<ToolRun> files = ToolRun::create("kimi-sass");
  if (!files) {
    llvm::consumeError(files.takeError());
    return "";
  }
  if (llvm::Error problem = files->write("kernels.cubin", image.cubin)) {
    llvm::consumeError(std::move(problem));
    return "";
  }
  return files->run(*program, {"-c", files->path("kernels.cubin")}).output;
}

std::string kimi::describeSass(const CudaImage &image, const CudaOptions &options) {
  std::string text;
  llvm::raw_string_ostream os(text);
  std::string sass = disassemble(image, options);
  InstructionCounts inPtx = countPtx(image.ptx), inSass = countSass(sass);
  for (const plan::Kernel &kernel : image.kernels) {
    os << "kernel=" << kernel.symbol << " threads=" << kernel.threads;
    auto usage = llvm::find_if(image.usage, [&](const KernelUsage &u) { return u.kernel == kernel.symbol; });
    if (usage != image.usage.end()) {
      os << " registers=" << usage->registers << " spill_stores=" << usage->spillStores
         << " spill_loads=" << usage->spillLoads << " stack=" << usage->stack << " barriers=" << usage->barriers
         << " static_shared=" << usage->shared;
    }
    os << " dynamic_shared=" << kernel.sharedBytes << "\n  ptx:";
    for (auto &[name, count] : inPtx[kernel.symbol]) {
      os << " " << name << "=" << count;
    }
    auto machine = inSass.find(kernel.symbol);
    if (machine != inSass.end()) {
      os << "\n  sass:";
      for (llvm::StringRef name : kSassOfInterest) {
        auto count = machine->second.find(name);
        if (count != machine->second.end()) {
          os << " " << name << "=" << count->second;
        }
      }
    }
    os << "\n";
  }
  return text;
}
