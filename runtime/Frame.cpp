//===- Frame.cpp - one run of an entry, assembled ---------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Frame.h"
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Text.h"

#include <utility>

namespace kimi {
namespace {

constexpr int64_t maxGridPoints = int64_t(1) << 62;

template <typename T>
uint32_t lengthOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

Status at(const std::string &place, const Status &status) { return {status.code(), place + ": " + status.message()}; }

} // namespace

Frame::Frame(const Plan &plan) : plan(plan) {
  size_t dims = 0;
  for (uint32_t i = 0; i < plan.inputCount(); ++i) {
    dims += plan.entry.inputs()->Get(i)->dims()->size();
  }
  inputDims.assign(dims, -1);
  dims = 0;
  for (uint32_t i = 0; i < plan.outputCount(); ++i) {
    firstOutputDim.push_back(static_cast<uint32_t>(dims));
    dims += plan.entry.outputs()->Get(i)->dims()->size();
  }
  outputExtents.assign(dims + 1, 0); // one more, so that a scalar's (empty) extents have an address
  values.resize(plan.program.size());
  buffers.resize(lengthOf(plan.entry.buffers()));
  bases.resize(buffers.size());
  byteOffsets.resize(plan.args.size());
  words.resize(plan.wordCount + 1);
  ready.resize(plan.launches.size());
}

Status Frame::checkInputs(const kimi_tensor *inputs, int32_t inputCount) const {
  uint32_t wanted = plan.inputCount();
  if (inputCount < 0 || static_cast<uint32_t>(inputCount) != wanted || (wanted != 0 && !inputs)) {
    return invalidArgument("takes " + std::to_string(wanted) + " inputs, not " + std::to_string(inputCount));
  }
  for (uint32_t i = 0; i < wanted; ++i) {
    const fb::Port &port = *plan.entry.inputs()->Get(i);
    const kimi_tensor &tensor = inputs[i];
    if (tensor.dtype != static_cast<kimi_dtype>(port.dtype())) {
      return invalidArgument("input " + quoted(port.name()->str()) + " holds " + dtypeName(tensor.dtype) +
                             ", the signature wants " + dtypeName(port.dtype()));
    }
    if (tensor.rank < 0 || static_cast<uint32_t>(tensor.rank) != port.dims()->size()) {
      return invalidArgument("input " + quoted(port.name()->str()) + " has rank " + std::to_string(tensor.rank) +
                             ", the signature wants " + std::to_string(port.dims()->size()));
    }
  }
  return {};
}

Status Frame::checkDims(const kimi_tensor *inputs) const {
  auto name = [&](uint32_t input) { return "input " + quoted(plan.entry.inputs()->Get(input)->name()->str()); };
  for (uint32_t i = 0; i < plan.inputCount(); ++i) {
    if (!denseBytes(inputs[i].dims, inputs[i].rank, dtypeSize(inputs[i].dtype))) {
      return invalidArgument(name(i) + " has the shape " + shapeText(inputs[i].dims, inputs[i].rank) +
                             ", which has no size");
    }
  }
  for (const DimRule &rule : plan.dimRules) {
    int64_t extent = inputs[rule.input].dims[rule.axis];
    if (rule.extent >= 0 && extent != rule.extent) {
      return invalidArgument(name(rule.input) + " has " + std::to_string(extent) + " in axis " +
                             std::to_string(rule.axis) + ", the signature wants " + std::to_string(rule.extent));
    }
    if (rule.extent < 0 && extent != inputs[rule.otherInput].dims[rule.otherAxis]) {
      int32_t symbol = plan.entry.inputs()->Get(rule.input)->dims()->Get(rule.axis)->symbol();
      return invalidArgument(name(rule.input) + " has " + std::to_string(extent) + " in axis " +
                             std::to_string(rule.axis) + ", but " + quoted(plan.module.symbols()->Get(symbol)->str()) +
                             " is " + std::to_string(inputs[rule.otherInput].dims[rule.otherAxis]) + " by " +
                             name(rule.otherInput));
    }
  }
  return {};
}

Status Frame::checkConditions(size_t evaluatedSlots) const {
  for (uint32_t i = 0; i < lengthOf(plan.entry.checks()); ++i) {
    const fb::Check &check = *plan.entry.checks()->Get(i);
    if (static_cast<size_t>(check.slot()) < evaluatedSlots && values[check.slot()] == 0) {
      return invalidArgument(printable(check.message()->string_view()));
    }
  }
  return {};
}

Status Frame::checkLength(const Environment &environment) {
  tokens = plan.entry.step_tokens() < 0 ? 0 : values[plan.entry.step_tokens()];
  int64_t total;
  if (tokens < 0 || !add(environment.length, tokens, total)) {
    return invalidArgument("a step of " + std::to_string(tokens) + " tokens is not possible");
  }
  int64_t context = plan.module.max_context();
  if (plan.entry.step_tokens() < 0 || (!environment.hasGrowingStates && context < 0)) {
    return {};
  }
  if (context >= 0 && total > context) {
    return invalidArgument("the sequence would be " + std::to_string(total) + " tokens long, but the model's weights " +
                           "allow " + std::to_string(context));
  }
  if (environment.hasGrowingStates && total > environment.capacity) {
    return invalidArgument("the sequence would be " + std::to_string(total) + " tokens long but the session was made " +
                           "for " + std::to_string(environment.capacity) + "; raise --max-seq");
  }
  return {};
}

Status Frame::evaluate(const Environment &environment, const kimi_tensor *inputs, uint8_t changed, bool all) {
  ScalarInputs reads{inputs, environment.length, environment.capacity};
  size_t failedSlot = values.size();
  Status failure = plan.program.evaluate(reads, changed, all, values, failedSlot);
  // A condition that fails says more to a person than arithmetic that went wrong because of it.
  if (Status s = checkConditions(failedSlot)) {
    return s;
  }
  return failure;
}

Status Frame::placeOutputs() {
  for (uint32_t i = 0; i < plan.outputCount(); ++i) {
    const auto &slots = *plan.entry.output_dims()->Get(i)->slots();
    int64_t *dims = &outputExtents[firstOutputDim[i]];
    for (uint32_t axis = 0; axis < slots.size(); ++axis) {
      dims[axis] = values[slots.Get(axis)];
    }
    const fb::Port &port = *plan.entry.outputs()->Get(i);
    if (!denseBytes(dims, slots.size(), dtypeSize(port.dtype()))) {
      return invalidArgument("output " + quoted(port.name()->str()) + " would have the shape " +
                             shapeText(dims, slots.size()) + ", which has no size");
    }
  }
  return {};
}

Status Frame::placeBuffer(const Environment &environment, const kimi_tensor *inputs, const fb::Buffer &buffer,
                          BufferRange &range) const {
  switch (buffer.kind()) {
  case fb::BufferKind::Arena: {
    range = {values[buffer.offset()], values[buffer.size()]};
    int64_t end;
    if (range.offset < 0 || range.bytes < 0 || !add(range.offset, range.bytes, end) || end > arenaBytes) {
      return badFile("lies at " + std::to_string(range.offset) + ", " + std::to_string(range.bytes) +
                     " bytes, outside the arena of " + std::to_string(arenaBytes));
    }
    return {};
  }
  case fb::BufferKind::Input: {
    const kimi_tensor &tensor = inputs[buffer.index()];
    range = {0, *denseBytes(tensor.dims, tensor.rank, dtypeSize(tensor.dtype))};
    return {};
  }
  case fb::BufferKind::Output: {
    const fb::Port &port = *plan.entry.outputs()->Get(buffer.index());
    range = {0, *denseBytes(outputDims(buffer.index()), port.dims()->size(), dtypeSize(port.dtype()))};
    return {};
  }
  case fb::BufferKind::Weight: {
    const fb::Weight &weight = *plan.module.weights()->Get(buffer.index());
    range = {0, *denseBytes(weight.dims()->data(), weight.dims()->size(), dtypeSize(weight.dtype()))};
    return {};
  }
  case fb::BufferKind::Derived: {
    const Extent &extent = (*environment.derivedExtents)[buffer.index()];
    range = {static_cast<int64_t>(extent.offset), static_cast<int64_t>(extent.size)};
    return {};
  }
  case fb::BufferKind::State: {
    const Extent &extent = environment.stateExtents[buffer.index()];
    range = {static_cast<int64_t>(extent.offset), static_cast<int64_t>(extent.size)};
    return {};
  }
  }
  return badFile("is of an unknown kind");
}

Status Frame::placeBuffers(const Environment &environment, const kimi_tensor *inputs) {
  arenaBytes = plan.entry.arena_size() < 0 ? 0 : values[plan.entry.arena_size()];
  if (arenaBytes < 0) {
    return badFile("its arena would have " + std::to_string(arenaBytes) + " bytes");
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (Status s = placeBuffer(environment, inputs, *plan.entry.buffers()->Get(i), buffers[i])) {
      return at("buffer " + std::to_string(i), s);
    }
  }
  return {};
}

/// Writes sizes and strides of a view, and its offset; every element it can reach lies within its buffer.
Status Frame::assembleView(const ArgPlan &arg, size_t index) {
  const int32_t *sizeSlots = plan.slots.data() + arg.firstSlot, *strideSlots = sizeSlots + arg.rank;
  int64_t *sizes = &words[arg.word + 1], *strides = sizes + arg.rank;
  int64_t first = values[arg.offsetSlot], last = first;
  bool isEmpty = false, overflow = false;
  for (uint32_t axis = 0; axis < arg.rank; ++axis) {
    int64_t size = sizes[axis] = values[sizeSlots[axis]], stride = strides[axis] = values[strideSlots[axis]];
    if (size < 0) {
      return badFile("has the extent " + std::to_string(size) + " in axis " + std::to_string(axis));
    }
    isEmpty |= size == 0;
    int64_t span = 0;
    overflow |=
        size > 0 && (!mul(size - 1, stride, span) || !(span < 0 ? add(first, span, first) : add(last, span, last)));
  }
  if (isEmpty) {
    byteOffsets[index] = 0; // nothing is read, so its offset may be anything; keep the pointer in the buffer
    return {};
  }
  const BufferRange &range = buffers[arg.buffer];
  int64_t elements = range.bytes / arg.elementSize;
  if (overflow || first < 0 || last >= elements) {
    std::string message = "reaches elements " + std::to_string(first) + " to " + std::to_string(last) + " of " +
                          bufferName(arg.buffer) + ", which has " + std::to_string(elements);
    if (plan.entry.buffers()->Get(arg.buffer)->kind() == fb::BufferKind::State) {
      return invalidArgument(message + "; the session's states are made for fewer sequences or tokens: raise its "
                                       "batch or --max-seq");
    }
    return badFile(message);
  }
  byteOffsets[index] = values[arg.offsetSlot] * arg.elementSize;
  if (range.offset % arg.elementSize != 0) {
    return badFile("lies at byte " + std::to_string(range.offset) + ", which is not aligned to its elements");
  }
  return {};
}

Status Frame::chooseVariant(size_t launch) {
  for (const fb::Variant *variant : *plan.entry.launches()->Get(launch)->variants()) {
    if (variant->guard() >= 0 && values[variant->guard()] == 0) {
      continue;
    }
    Grid grid{values[variant->grid_x()], values[variant->grid_y()], values[variant->grid_z()]};
    int64_t points;
    if (grid.x < 0 || grid.y < 0 || grid.z < 0) {
      return badFile("has a negative grid");
    }
    bool isEmpty = grid.x == 0 || grid.y == 0 || grid.z == 0;
    if (!isEmpty && (!mul(grid.x, grid.y, points) || !mul(points, grid.z, points) || points > maxGridPoints)) {
      return badFile("has a grid of more points than can be counted");
    }
    ready[launch] = {isEmpty ? -1 : variant->kernel(), grid};
    return {};
  }
  return invalidArgument("no variant of it fits these shapes");
}

Status Frame::assemble(size_t launch) {
  if (Status s = chooseVariant(launch)) {
    return at(launchPlace(launch), s);
  }
  if (ready[launch].kernel < 0) {
    return {};
  }
  const LaunchPlan &it = plan.launches[launch];
  for (uint32_t i = it.firstArg; i < it.endArg; ++i) {
    const ArgPlan &arg = plan.args[i];
    if (arg.buffer < 0) {
      words[arg.word] = values[arg.offsetSlot];
    } else if (Status s = assembleView(arg, i)) {
      return at(launchPlace(launch) + ": argument " + std::to_string(i - it.firstArg), s);
    }
  }
  return {};
}

/// Takes over dims and length, and says what differs from the last prepare.
uint8_t Frame::takeChanges(const Environment &environment, const kimi_tensor *inputs) {
  uint8_t changed = length != environment.length ? DependsOnLength : DependsOnNothing;
  length = environment.length;
  size_t position = 0;
  for (uint32_t i = 0; i < plan.inputCount(); ++i) {
    for (int32_t axis = 0; axis < inputs[i].rank; ++axis, ++position) {
      changed |= inputDims[position] != inputs[i].dims[axis] ? DependsOnDims : DependsOnNothing;
      inputDims[position] = inputs[i].dims[axis];
    }
  }
  ScalarInputs reads{inputs, environment.length, environment.capacity};
  changed |= plan.program.inputValuesChanged(reads, values) ? DependsOnValues : DependsOnNothing;
  return changed;
}

Status Frame::prepareChanged(const Environment &environment, const kimi_tensor *inputs, uint8_t changed, bool all) {
  if (all || (changed & DependsOnDims)) {
    if (Status s = checkDims(inputs)) {
      return s;
    }
  }
  if (Status s = evaluate(environment, inputs, changed, all)) {
    return s;
  }
  if (Status s = checkLength(environment)) {
    return s;
  }
  if (Status s = placeOutputs()) {
    return s;
  }
  if (Status s = placeBuffers(environment, inputs)) {
    return s;
  }
  for (size_t launch = 0; launch < plan.launches.size(); ++launch) {
    if (all || (plan.launches[launch].dependence & changed)) {
      if (Status s = assemble(launch)) {
        return s;
      }
    }
  }
  return {};
}

Status Frame::prepare(const Environment &environment, const kimi_tensor *inputs, int32_t inputCount) {
  if (Status s = checkInputs(inputs, inputCount)) {
    return at(plan.place(), s);
  }
  uint8_t changed = takeChanges(environment, inputs);
  if (valid && changed == 0) {
    return {};
  }
  bool all = !std::exchange(valid, false);
  if (Status s = prepareChanged(environment, inputs, changed, all)) {
    return at(plan.place(), s);
  }
  valid = true;
  return {};
}

uint64_t Frame::outputBytes(uint32_t output) const {
  const fb::Port &port = *plan.entry.outputs()->Get(output);
  return static_cast<uint64_t>(*denseBytes(outputDims(output), port.dims()->size(), dtypeSize(port.dtype())));
}

uint64_t Frame::inputBytes(uint32_t input) const {
  size_t position = 0;
  for (uint32_t i = 0; i < input; ++i) {
    position += plan.entry.inputs()->Get(i)->dims()->size();
  }
  const fb::Port &port = *plan.entry.inputs()->Get(input);
  return static_cast<uint64_t>(*denseBytes(&inputDims[position], port.dims()->size(), dtypeSize(port.dtype())));
}

void Frame::bind(const Addresses &addresses) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const fb::Buffer &buffer = *plan.entry.buffers()->Get(i);
    uint64_t offset = static_cast<uint64_t>(buffers[i].offset);
    switch (buffer.kind()) {
    case fb::BufferKind::Arena:
      bases[i] = addresses.arena + offset;
      break;
    case fb::BufferKind::Input:
      bases[i] = addresses.inputs[buffer.index()];
      break;
    case fb::BufferKind::Output:
      bases[i] = addresses.outputs[buffer.index()];
      break;
    case fb::BufferKind::Weight:
      bases[i] = addresses.weights[buffer.index()];
      break;
    case fb::BufferKind::Derived:
      bases[i] = addresses.derived + offset;
      break;
    case fb::BufferKind::State:
      bases[i] = addresses.states + offset;
      break;
    }
  }
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const ArgPlan &arg = plan.args[i];
    if (arg.buffer >= 0) {
      words[arg.word] = static_cast<int64_t>(bases[arg.buffer]) + byteOffsets[i];
    }
  }
}

Frame::Launch Frame::launch(size_t index) {
  const LaunchPlan &it = plan.launches[index];
  uint32_t end = index + 1 < plan.launches.size() ? plan.launches[index + 1].firstWord : plan.wordCount;
  return {ready[index].kernel, ready[index].grid, &words[it.firstWord], end - it.firstWord};
}

double Frame::launchBytes(size_t index) const {
  const LaunchPlan &it = plan.launches[index];
  double total = 0;
  for (uint32_t i = it.firstArg; i < it.endArg; ++i) {
    const ArgPlan &arg = plan.args[i];
    if (arg.buffer < 0) {
      continue;
    }
    const int64_t *sizes = &words[arg.word + 1], *strides = sizes + arg.rank;
    double bytes = arg.elementSize;
    for (uint32_t axis = 0; axis < arg.rank; ++axis) {
      bytes *= strides[axis] == 0 ? 1 : static_cast<double>(sizes[axis]);
    }
    const fb::Buffer &buffer = *plan.entry.buffers()->Get(arg.buffer);
    if (buffer.kind() == fb::BufferKind::State && plan.module.states()->Get(buffer.index())->grows() >= 0) {
      int64_t rows = static_cast<int64_t>(arg.rank) == plan.module.states()->Get(buffer.index())->dims()->size()
                         ? sizes[plan.module.states()->Get(buffer.index())->grows()]
                         : 0;
      int64_t filled = length + tokens;
      bytes *= rows > filled ? static_cast<double>(filled) / static_cast<double>(rows) : 1;
    }
    total += bytes;
  }
  return total;
}

std::string Frame::launchPlace(size_t launch) const {
  const flatbuffers::String *name = plan.entry.launches()->Get(launch)->name();
  std::string text = "launch " + std::to_string(launch);
  return name && name->size() ? text + " (" + quoted(name->str()) + ")" : text;
}

std::string Frame::bufferName(int32_t buffer) const {
  const fb::Buffer &it = *plan.entry.buffers()->Get(buffer);
  switch (it.kind()) {
  case fb::BufferKind::Arena:
    break;
  case fb::BufferKind::Input:
    return "input " + quoted(plan.entry.inputs()->Get(it.index())->name()->str());
  case fb::BufferKind::Output:
    return "output " + quoted(plan.entry.outputs()->Get(it.index())->name()->str());
  case fb::BufferKind::Weight:
    return "weight " + quoted(plan.module.weights()->Get(it.index())->name()->str());
  case fb::BufferKind::Derived:
    return "derived buffer " + quoted(plan.module.derived()->Get(it.index())->name()->str());
  case fb::BufferKind::State:
    return "state " + quoted(plan.module.states()->Get(it.index())->name()->str());
  }
  return "buffer " + std::to_string(buffer);
}

} // namespace kimi
