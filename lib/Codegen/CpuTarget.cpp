//===- CpuTarget.cpp - resolving a processor name
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/CpuTarget.h"
#include "lib/Codegen/LlvmGlobals.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace kimi;

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static llvm::Expected<const llvm::Target *> hostTarget(const llvm::Triple &triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) {
    return error("no code generator for '" + triple.str() + "': " + message);
  }
  return target;
}

/// Whether the host has everything that the x86-64 level `cpu` stands for.
static bool hostHas(const llvm::Target &target, const llvm::Triple &triple, llvm::StringRef cpu,
                    const llvm::StringMap<bool> &host) {
  // The features of a level (see the x86-64 psABI) that LLVM's host detection reports.
  std::unique_ptr<llvm::MCSubtargetInfo> level(target.createMCSubtargetInfo(triple, cpu, ""));
  for (const llvm::SubtargetFeatureKV &feature : level->getAllProcessorFeatures()) {
    auto found = host.find(feature.Key);
    if (found != host.end() && !found->second && level->checkFeatures(("+" + llvm::StringRef(feature.Key)).str())) {
      return false;
    }
  }
  return true;
}

llvm::Expected<CpuTarget> kimi::resolveCpuTarget(const CpuTargetOptions &options) {
  std::shared_lock<std::shared_mutex> lock(llvmGlobals());
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  llvm::Expected<const llvm::Target *> target = hostTarget(triple);
  if (!target) {
    return target.takeError();
  }
  CpuTarget result;
  result.triple = triple.str();
  result.cpu = result.tune = options.cpu;
  if (options.cpu == "native") {
    result.cpu = result.tune = llvm::sys::getHostCPUName().str();
    if (triple.isX86_64()) {
      llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
      for (const char *level : {"x86-64-v4", "x86-64-v3"}) {
        if (hostHas(**target, triple, level, host)) {
          result.cpu = level;
          break;
        }
      }
    }
  }
  std::unique_ptr<llvm::MCSubtargetInfo> info((*target)->createMCSubtargetInfo(triple, "", ""));
  if (!info->isCPUStringValid(result.cpu)) {
    return error("unknown processor '" + result.cpu + "' for " + triple.getArchName() +
                 "; accepted are native, x86-64-v3, x86-64-v4 and the names that 'llc -mcpu=help' lists");
  }
  info.reset((*target)->createMCSubtargetInfo(triple, result.cpu, ""));
  if ((options.lanes & (options.lanes - 1)) != 0 || options.lanes > 64) {
    return error("vectors of " + llvm::Twine(options.lanes) + " lanes; accepted are powers of two up to 64");
  }
  if (!triple.isX86_64()) {
    result.lanes = options.lanes ? options.lanes : 4;
    return result;
  }
  if (!info->checkFeatures("+avx2") || !info->checkFeatures("+fma")) {
    return error("processor '" + result.cpu +
                 "' lacks AVX2 or FMA, which CPU kernels are built on; the least that is "
                 "accepted is x86-64-v3");
  }
  unsigned native = info->checkFeatures("+avx512f") ? 16 : 8;
  result.lanes = options.lanes ? options.lanes : native;
  return result;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> kimi::createTargetMachine(const CpuTarget &cpu) {
  llvm::Triple triple(cpu.triple);
  llvm::Expected<const llvm::Target *> target = hostTarget(triple);
  if (!target) {
    return target.takeError();
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine((*target)->createTargetMachine(
      triple, cpu.cpu, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine) {
    return error("no code generator for '" + cpu.triple + "'");
  }
  return machine;
}
