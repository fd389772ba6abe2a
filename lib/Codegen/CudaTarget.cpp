//===- CudaTarget.cpp - which NVIDIA processor kernels are compiled for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Codegen/CudaTarget.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

using namespace kimi;

static llvm::Error error(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Each with the oldest PTX that has all that the processor can do; older drivers translate older PTX.
static const CudaTarget kTargets[] = {{"sm_80", 80, false, 78},
                                      {"sm_86", 86, false, 78},
                                      {"sm_89", 89, false, 81},
                                      {"sm_90", 90, false, 80},
                                      {"sm_90a", 90, true, 80}};

std::string kimi::cudaTargetNames() {
  return llvm::join(llvm::map_range(kTargets, [](const CudaTarget &target) { return target.name(); }), ", ");
}

llvm::Expected<CudaTarget> kimi::resolveCudaTarget(llvm::StringRef name) {
  for (const CudaTarget &target : kTargets) {
    if (name == target.name()) {
      return target;
    }
  }
  return error("unknown CUDA target '" + name + "'; accepted are " + cudaTargetNames());
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> kimi::createTargetMachine(const CudaTarget &cuda) {
#ifdef KIMI_HAVE_NVPTX
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
#endif
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) {
    return error("no code generator for '" + cuda.name() +
                 "': this compiler was built with an LLVM that lacks the "
                 "NVPTX target");
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, cuda.arch, "+ptx" + std::to_string(cuda.isa), options, std::nullopt,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine) {
    return error("no code generator for '" + cuda.name() + "'");
  }
  return machine;
}
