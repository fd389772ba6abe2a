//===- MlaForms.h - the two ways to compute multi-head latent attention
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_MLAFORMS_H
#define KIMI_PASSES_KIMI_MLAFORMS_H

#include "dialects/Kimi/KimiDialect.h"
#include "lib/Module/HostScalars.h"

namespace kimi {

/// What `op` gives with keys and values made of every latent: [B, H, T, V].
mlir::Value expandMla(mlir::OpBuilder &b, MlaOp op);

/// The same with kv_b absorbed: attention of one key head over the latents themselves, between two products a head.
mlir::Value absorbMla(mlir::OpBuilder &b, MlaOp op, HostScalars &scalars);

} // namespace kimi

#endif // KIMI_PASSES_KIMI_MLAFORMS_H
