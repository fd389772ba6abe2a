//===- Frame.h - one run of an entry, assembled -----------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_FRAME_H
#define KIMI_RUNTIME_FRAME_H

#include "runtime/Grid.h"
#include "runtime/Plan.h"

namespace kimi {

/// A run of a block of memory: bytes [offset, offset + size).
struct Extent {
  uint64_t offset = 0, size = 0;
};

/// What a run depends on besides its inputs.
struct Environment {
  const std::vector<Extent> *derivedExtents = nullptr;
  std::vector<Extent> stateExtents;
  bool hasGrowingStates = false;
  int64_t length = 0, capacity = 0; // tokens
};

/// Where the buffers of a run are, as kernels see them. Arrays go by the index of the weight or port.
struct Addresses {
  uint64_t arena, states, derived;
  const uint64_t *weights, *inputs, *outputs;
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

  // After a successful prepare:

  /// Bytes of output `output`, of input `input`, and of the arena.
  uint64_t outputBytes(uint32_t output) const;
  uint64_t inputBytes(uint32_t input) const;
  uint64_t arenaSize() const { return static_cast<uint64_t>(arenaBytes); }
  /// The extents of all inputs, one after the other: what a repeated run has in common with this one.
  const std::vector<int64_t> &shapes() const { return inputDims; }

  /// Writes the pointers of every view.
  void bind(const Addresses &addresses);

  /// A launch: its kernel (-1: its grid is empty, there is nothing to do) and the words that the kernel gets. They stay
  /// where they are as long as the frame lives.
  struct Launch {
    int32_t kernel;
    Grid grid;
    int64_t *words;
    uint32_t wordCount;
  };
  size_t launchCount() const { return ready.size(); }
  Launch launch(size_t index);
  /// Bytes of the arguments of a launch, each counted once: what it must move at least where it reads all of them. Of
  /// growing states only the rows that hold tokens count.
  double launchBytes(size_t index) const;
  /// The value of a slot.
  int64_t value(int32_t slot) const { return values[slot]; }

  const Plan &layout() const { return plan; }
  uint32_t inputCount() const { return plan.inputCount(); }
  uint32_t outputCount() const { return plan.outputCount(); }
  std::string place() const { return plan.place(); } // "entry 'decode'"
  std::string launchPlace(size_t launch) const;      // "launch 3 ('blk.0/attn')"

private:
  struct BufferRange {
    int64_t offset = 0, bytes = 0; // offset: in the arena, in the states, in the derived buffers
  };
  struct Ready {
    int32_t kernel = -1; // nothing to do
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
  Status assemble(size_t launch);
  Status assembleView(const ArgPlan &arg, size_t index);
  Status chooseVariant(size_t launch);
  std::string bufferName(int32_t buffer) const;

  const Plan &plan;
  bool valid = false;             // everything below belongs to dims, length and values of the last prepare
  std::vector<int64_t> inputDims; // of all inputs, one after the other
  int64_t length = -1;
  std::vector<int64_t> values;
  std::vector<uint32_t> firstOutputDim;
  std::vector<int64_t> outputExtents;
  std::vector<BufferRange> buffers;
  std::vector<uint64_t> bases;      // of this run
  std::vector<int64_t> byteOffsets; // of each argument that is a view
  std::vector<int64_t> words;
  std::vector<Ready> ready;
  int64_t arenaBytes = 0, tokens = 0;
};

} // namespace kimi

#endif // KIMI_RUNTIME_FRAME_H
