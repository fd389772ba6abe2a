//===- CudaTarget.h - which NVIDIA processor kernels are compiled for
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_LIB_CODEGEN_CUDATARGET_H
#define KIMI_LIB_CODEGEN_CUDATARGET_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace llvm {
class TargetMachine;
}

namespace kimi {

/// A processor architecture of NVIDIA.
struct CudaTarget {
  std::string arch;    ///< "sm_90a"
  unsigned sm = 80;    ///< compute capability, major * 10 + minor
  bool hopper = false; ///< with the instructions of sm_90a, which later processors do not have
  unsigned isa = 78;   ///< version of the PTX language, major * 10 + minor

  /// The name stored in a module: "cuda:sm_90a".
  std::string name() const { return "cuda:" + arch; }
  /// That of an image of PTX: "cuda:ptx:sm_90a".
  std::string ptxName() const { return "cuda:ptx:" + arch; }
};

/// The target that `name` ("cuda:sm_90a") stands for. Error: an unknown name; the message lists the known ones.
llvm::Expected<CudaTarget> resolveCudaTarget(llvm::StringRef name);

/// "cuda:sm_80, cuda:sm_86, ..."
std::string cudaTargetNames();

/// A generator of PTX for `target`: -O3, products and sums may be fused, everything else as IEEE 754 says. Error: this
/// LLVM was built without the NVPTX target.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const CudaTarget &target);

} // namespace kimi

#endif // KIMI_LIB_CODEGEN_CUDATARGET_H
