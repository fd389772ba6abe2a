//===- Passes.td - passes of passes/Kimi
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_PASSES_KIMI_PASSES
#define KIMI_PASSES_KIMI_PASSES

include "mlir/Pass/PassBase.td"

def DeriveDecode : Pass<"kimi-derive-decode", "::mlir::ModuleOp"> {
  let summary = "entries that keep a state, from a function of whole sequences";
  let description = [{
    From `@main`, which maps token ids to logits, makes `@prefill` (any number of new tokens) and `@decode` (one new
    token): functions that read and update states (`!kimi.state` arguments) in place. `@main` stays as it is.

    A graph with a cache among its arguments: each `present = concat(past, rows)` whose `past` is an argument and whose
    `present` is a result becomes `kimi.cache_append` on a state; argument and result disappear from the signature.

    A graph without one: the token axis is followed from the ids through the graph. Every op must treat tokens alike,
    mixers excepted: they are rewritten through MixerOpInterface, and whatever counts positions (`linalg.index` along the
    token axis, slices of tables) counts from the number of tokens seen. Where an op mixes tokens, a remark at the op says
    so, and no entries are made.

    ```mlir
    func.func @main(%ids: tensor<?x?xi64>) -> tensor<?x?x512xf32> {
      ...
      %o = kimi.attention %q, %k, %v causal scale 0.25 : ...
    // also becomes
    func.func @prefill(%ids: tensor<?x?xi64> {kimi.role = "token_ids"}, %0: !kimi.state<tensor<?x4x?x16xf32>, 2>, ...)
        -> (tensor<?x?x512xf32> {kimi.role = "logits"}) attributes {kimi.entry = "prefill"} {
      %past = kimi.state_length %0 : ...
      %ks = kimi.cache_append %0, %k at %past : ...
      %vs = kimi.cache_append %1, %v at %past : ...
      %o = kimi.attention %q, %ks, %vs causal scale 0.25 : ...
    ```
    In `@decode` the number of new tokens is the constant 1. Attributes: `kimi.entry` and `kimi.step_dim` (argument and
    axis of the new tokens) on the functions, `kimi.role` on arguments and results, `kimi.input`/`kimi.output` (names in
    the file) on states, `kimi.max_context` (rows of the position table) on the module.

    Numeric effect: exact.
  }];
  let statistics = [Statistic<"numStates", "num-states", "states made">,
                    Statistic<"numMixers", "num-mixers", "mixers rewritten into steps">];
  let dependentDialects = ["::kimi::KimiDialect", "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

#endif // KIMI_PASSES_KIMI_PASSES
