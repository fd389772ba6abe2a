//===- CpuTarget.h - which processor kernels are compiled for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_CPUTARGET_H
#define KIMI_LIB_CODEGEN_CPUTARGET_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
}

namespace kimi {

struct CpuTargetOptions {
  /// "native", "x86-64-v3", "x86-64-v4", or any processor name that LLVM knows ("znver4", "skylake-avx512").
  std::string cpu = "native";
  /// f32 lanes of the vectors that tile ops are lowered to, a power of two; 0 takes those of the processor's registers.
  unsigned lanes = 0;
  /// Kernels compiled at a time; 0 takes one thread a core.
  unsigned threads = 0;
  /// Kernels end the program where they leave a buffer (see --tile-check-bounds).
  bool checkBounds = false;
};

/// A processor, resolved: what is required of the machine that runs the code and what the code is tuned for.
struct CpuTarget {
  std::string triple;
  std::string cpu;  ///< the instruction set, as an LLVM processor name
  std::string tune; ///< the processor to schedule for
  unsigned lanes;   ///< f32 lanes of a vector

  /// The name stored in a module: "cpu:" and the instruction set, e.g. "cpu:x86-64-v3".
  std::string name() const { return "cpu:" + cpu; }
};

/// "native" becomes the highest x86-64 level whose every feature the host has, tuned for the host. Errors: an unknown
/// name, a processor of another architecture, one without fused multiply-add.
llvm::Expected<CpuTarget> resolveCpuTarget(const CpuTargetOptions &options);

/// A code generator for `target`: position independent, -O3, products and sums may be fused.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const CpuTarget &target);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_CPUTARGET_H
