//===- Pipeline.cpp - the road from tile.kernel to the LLVM and NVVM dialects
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/TileDialect.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/TileToLlvm/Passes.h"
#include "passes/TileToNvvm/Passes.h"

using namespace mlir;

void kimi::buildTileToCudaPipeline(OpPassManager &pm, const TileToCudaOptions &options) {
  pm.addPass(createTileAssignThreads());
  pm.addPass(createConvertLinalgToLoopsPass());
  pm.addPass(createTileBoolToByte());
  pm.addPass(math::createMathExtendToSupportedTypes());
  // Block programs: tile ops to what one thread does of them.
  if (options.hopper) {
    pm.addPass(createTileWarpSpecialize());
    pm.addPass(createCanonicalizerPass());
  }
  if (options.sm >= 90) {
    pm.addPass(createTileDependentLaunch());
  }
  pm.addPass(createTileAssignLayouts());
  TileToNvvmOptions threads;
  threads.sm = options.sm;
  pm.addPass(createTileToNvvm(threads));
  pm.addPass(createTileInsertBarriers());
  // All kernels: functions, the signature, and the point of the grid.
  pm.addPass(createTileMathToNvvm());
  pm.addPass(createTileExpandMath({/*all=*/true}));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  TileKernelToNvvmOptions launch;
  launch.overlap = options.sm >= 90;
  pm.addPass(createTileKernelToNvvm(launch));
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  SmallVector<std::string> narrow = {"bf16"};
  emulate.sourceTypeStrs = narrow;
  emulate.targetTypeStr = "f32";
  pm.addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  pm.addPass(arith::createArithExpandOpsPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertNVVMToLLVMPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void kimi::registerTileToCudaPipeline() {
  PassPipelineRegistration<TileToCudaOptions>("tile-to-cuda", "tile.kernel to the LLVM dialect, for CUDA processors",
                                              buildTileToCudaPipeline);
}
