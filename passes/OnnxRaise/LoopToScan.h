//===- LoopToScan.h - a Loop that reads token after token, as a Scan
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_ONNXRAISE_LOOPTOSCAN_H
#define KIMI_PASSES_ONNXRAISE_LOOPTOSCAN_H

#include "passes/OnnxRaise/Raiser.h"

namespace kimi::onnx {

/// Replaces `loop`, a Loop whose condition never changes and whose counter only chooses slices (Gather) of tensors from
/// around it, all of them, by an equal Scan, `scan`. Gives why it is none of these; empty where it was replaced.
std::string loopToScan(Raiser &raiser, NodeOp loop, NodeOp &scan);

} // namespace kimi::onnx

#endif // KIMI_PASSES_ONNXRAISE_LOOPTOSCAN_H
