//===- Frame.h - one run of an entry, assembled -----------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FRAME_H
#define KIMI_RUNTIME_FRAME_H

#include "runtime/Bindings.h"
#include "runtime/Plan.h"

namespace kimi {

/// What a run reads and writes besides its ports.
struct Environment {
  const Bindings *bindings = nullptr;
  ThreadPool *pool = nullptr;
  Mapping states;
  std::vector<Extent> stateExtents;
  bool hasGrowingStates = false;
  int64_t length = 0, capacity = 0; // tokens
  Mapping arena;                    // grows to what the largest run needed
};

/// The values of an entry for one set of input shapes and one length: scalars, output shapes, and the words that its
/// kernels get. Kept from run to run; only what a changed dim, length or input value touches is worked out again, and a
/// repeated step allocates nothing.
class Frame {
public:
  explicit Frame(const Plan &plan);

  /// Checks the inputs against the signature and the conditions of the entry, evaluates the scalars, and assembles
  /// every launch, each view within its buffer. Nothing is written. Error: KIMI_INVALID_ARGUMENT (inputs that do not
  /// fit, a sequence that grows too long), KIMI_BAD_FILE (a plan that reaches outside a buffer).
  Status prepare(const Environment &environment, const kimi_tensor *inputs, int32_t inputCount);

  /// Extents of output `output` after a successful prepare; as many as the port has dims.
  const int64_t *outputDims(uint32_t output) const { return &outputExtents[firstOutputDim[output]]; }
  /// Tokens that the run adds to the sequence.
  int64_t stepTokens() const { return tokens; }

  /// Runs the launches on inputs and outputs that were checked. Error: KIMI_OUT_OF_MEMORY for the arena, before
  /// anything is written.
  Status run(Environment &environment, const kimi_tensor *inputs, const kimi_tensor *outputs);

private:
  struct BufferRange {
    int64_t offset = 0, bytes = 0; // offset: in the arena, in the states, in the derived buffers
  };
  struct Ready {
    KernelFunction kernel = nullptr; // null: nothing to do
    Grid grid;
  };

  Status checkInputs(const kimi_tensor *inputs, int32_t inputCount) const;
  Status checkDims(const kimi_tensor *inputs) const;
  uint8_t takeChanges(const Environment &environment, const kimi_tensor *inputs);
  Status prepareChanged(const Environment &environment, const kimi_tensor *inputs, uint8_t changed, bool all);
  Status evaluate(const Environment &environment, const kimi_tensor *inputs, uint8_t changed, bool all);
  Status checkConditions(size_t evaluatedSlots) const;
  Status checkLength(const Environment &environment);
  Status placeOutputs();
  Status placeBuffers(const Environment &environment, const kimi_tensor *inputs);
  Status placeBuffer(const Environment &environment, const kimi_tensor *inputs, const fb::Buffer &buffer,
                     BufferRange &range) const;
  Status assemble(const Environment &environment, size_t launch);
  Status assembleView(const ArgPlan &arg, size_t index);
  Status chooseVariant(const Environment &environment, size_t launch);
  const uint8_t *baseOf(const Environment &environment, const kimi_tensor *inputs, const kimi_tensor *outputs,
                        const fb::Buffer &buffer, int64_t offset) const;
  std::string launchPlace(size_t launch) const;
  std::string bufferName(int32_t buffer) const;

  const Plan &plan;
  bool valid = false;             // everything below belongs to dims, length and values of the last prepare
  std::vector<int64_t> inputDims; // of all inputs, one after the other
  int64_t length = -1;
  std::vector<int64_t> values;
  std::vector<uint32_t> firstOutputDim;
  std::vector<int64_t> outputExtents;
  std::vector<BufferRange> buffers;
  std::vector<const uint8_t *> bases; // of this run
  std::vector<int64_t> byteOffsets;   // of each argument that is a view
  std::vector<int64_t> words;
  std::vector<Ready> ready;
  int64_t arenaBytes = 0, tokens = 0;
};

} // namespace kimi

#endif // KIMI_RUNTIME_FRAME_H
