//===- VerifyEntry.cpp - checks the plan of one entry -----------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Dtype.h"
#include "runtime/format/Checker.h"

#include <unordered_set>

namespace kimi::format {
namespace {

class EntryVerifier {
public:
  EntryVerifier(const fb::Module &module, const fb::Entry &entry)
      : module(module), entry(entry), place("entry " + quoted(view(entry.name()))), slots(count(entry.scalars())),
        isInit(view(entry.name()) == initEntryName) {}

  Status run() {
    if (!isAligned(entry.scalars()) || !isAligned(entry.buffers())) {
      return badFile(place + ": a list is not aligned");
    }
    using Step = Status (EntryVerifier::*)();
    for (Step step :
         {&EntryVerifier::ports, &EntryVerifier::outputDims, &EntryVerifier::states, &EntryVerifier::scalars,
          &EntryVerifier::checks, &EntryVerifier::buffers, &EntryVerifier::launches}) {
      if (Status s = (this->*step)()) {
        return s;
      }
    }
    return {};
  }

private:
  Status slot(const std::string &where, const char *what, int64_t index) {
    return checkIndex(where, what, index, slots);
  }
  Status optionalSlot(const std::string &where, const char *what, int64_t index) {
    return index == -1 ? Status() : slot(where, what, index);
  }

  Status ports() {
    if (isInit && (count(entry.inputs()) || count(entry.outputs()))) {
      return badFile(place + ": has ports, but runs before any input is there");
    }
    for (const auto *list : {entry.inputs(), entry.outputs()}) {
      std::unordered_set<std::string_view> names;
      for (int64_t i = 0; i < count(list); ++i) {
        const fb::Port &port = *list->Get(i);
        std::string where = place + ": " + (list == entry.inputs() ? "input " : "output ");
        if (Status s = checkName(where + std::to_string(i), port.name())) {
          return s;
        }
        where += quoted(view(port.name()));
        if (!names.insert(view(port.name())).second) {
          return badFile(where + ": the name occurs twice");
        }
        if (Status s = checkPort(where, port)) {
          return s;
        }
        int64_t rank = count(port.dims());
        if (port.role() == fb::Role::NextToken &&
            (list == entry.inputs() || !isIntegerDtype(int(port.dtype())) || rank < 1 || rank > 2)) {
          return badFile(where + ": the next token is an output of integers of rank 1 or 2");
        }
      }
    }
    return {};
  }

  Status checkPort(const std::string &where, const fb::Port &port) {
    if (Status s = checkTensor(where, port.dtype(), count(port.dims()))) {
      return s;
    }
    if (port.role() > fb::Role::MAX) {
      return badFile(where + ": unknown role " + std::to_string(int(port.role())));
    }
    if (!isAligned(port.dims())) {
      return badFile(where + ": its dims are not aligned");
    }
    for (const fb::Dim *dim : *port.dims()) {
      if (dim->extent() < -1) {
        return badFile(where + ": extent " + std::to_string(dim->extent()) + " is negative");
      }
      if (dim->symbol() != -1) {
        if (Status s = checkIndex(where, "symbol", dim->symbol(), count(module.symbols()))) {
          return s;
        }
      }
    }
    return {};
  }

  Status outputDims() {
    if (count(entry.output_dims()) != count(entry.outputs())) {
      return badFile(place + ": has " + std::to_string(count(entry.outputs())) + " outputs but shapes for " +
                     std::to_string(count(entry.output_dims())));
    }
    for (int64_t i = 0; i < count(entry.outputs()); ++i) {
      const auto *list = entry.output_dims()->Get(i)->slots();
      const fb::Port &port = *entry.outputs()->Get(i);
      std::string where = place + ": output " + quoted(view(port.name()));
      if (count(list) != count(port.dims())) {
        return badFile(where + ": has rank " + std::to_string(count(port.dims())) + " but " +
                       std::to_string(count(list)) + " extents");
      }
      for (int64_t k = 0; k < count(list); ++k) {
        if (Status s = slot(where, "slot", list->Get(k))) {
          return s;
        }
      }
    }
    return {};
  }

  Status states() {
    if (isInit && count(entry.states())) {
      return badFile(place + ": uses states, but runs before any sequence is there");
    }
    for (int64_t i = 0; i < count(entry.states()); ++i) {
      if (Status s = checkIndex(place, "state", entry.states()->Get(i), count(module.states()))) {
        return s;
      }
      usedStates.insert(entry.states()->Get(i));
    }
    return optionalSlot(place, "step_tokens slot", entry.step_tokens());
  }

  Status scalars() {
    for (int64_t i = 0; i < slots; ++i) {
      const fb::Scalar &it = *entry.scalars()->Get(i);
      std::string where = place + ": scalar " + std::to_string(i);
      auto earlier = [&](int64_t operand) { return checkIndex(where, "operand", operand, i); };
      switch (it.op()) {
      case fb::ScalarOp::Const:
      case fb::ScalarOp::StateLength:
      case fb::ScalarOp::Capacity:
        break;
      case fb::ScalarOp::InputDim:
      case fb::ScalarOp::InputValue:
        if (Status s = inputScalar(where, it)) {
          return s;
        }
        break;
      case fb::ScalarOp::Select:
        if (Status s = earlier(it.c())) {
          return s;
        }
        [[fallthrough]];
      case fb::ScalarOp::Add:
      case fb::ScalarOp::Sub:
      case fb::ScalarOp::Mul:
      case fb::ScalarOp::FloorDiv:
      case fb::ScalarOp::CeilDiv:
      case fb::ScalarOp::Mod:
      case fb::ScalarOp::Min:
      case fb::ScalarOp::Max:
      case fb::ScalarOp::Eq:
      case fb::ScalarOp::Lt:
      case fb::ScalarOp::Le:
      case fb::ScalarOp::And:
      case fb::ScalarOp::Or:
        if (Status s = earlier(it.b())) {
          return s;
        }
        [[fallthrough]];
      case fb::ScalarOp::Not:
        if (Status s = earlier(it.a())) {
          return s;
        }
        break;
      default:
        return badFile(where + ": unknown operation " + std::to_string(int(it.op())));
      }
    }
    return {};
  }

  Status inputScalar(const std::string &where, const fb::Scalar &it) {
    if (Status s = checkIndex(where, "input", it.a(), count(entry.inputs()))) {
      return s;
    }
    const fb::Port &port = *entry.inputs()->Get(it.a());
    if (it.op() == fb::ScalarOp::InputDim) {
      return checkIndex(where, "axis", it.imm(), count(port.dims()));
    }
    if (!isIntegerDtype(int(port.dtype()))) {
      return badFile(where + ": reads input " + quoted(view(port.name())) + ", which holds " + dtypeName(port.dtype()) +
                     ", as an integer");
    }
    return it.imm() < 0 ? badFile(where + ": element " + std::to_string(it.imm()) + " is negative") : Status();
  }

  Status checks() {
    for (int64_t i = 0; i < count(entry.checks()); ++i) {
      std::string where = place + ": check " + std::to_string(i);
      if (Status s = slot(where, "slot", entry.checks()->Get(i)->slot())) {
        return s;
      }
      if (Status s = checkName(where, entry.checks()->Get(i)->message())) {
        return s;
      }
    }
    return {};
  }

  Status buffers() {
    if (Status s = optionalSlot(place, "arena_size slot", entry.arena_size())) {
      return s;
    }
    for (int64_t i = 0; i < count(entry.buffers()); ++i) {
      if (Status s = checkBuffer(place + ": buffer " + std::to_string(i), *entry.buffers()->Get(i))) {
        return s;
      }
    }
    return {};
  }

  Status checkBuffer(const std::string &where, const fb::Buffer &buffer) {
    switch (buffer.kind()) {
    case fb::BufferKind::Arena:
      if (entry.arena_size() < 0) {
        return badFile(where + ": lies in the arena, but the entry has none");
      }
      if (Status s = slot(where, "offset slot", buffer.offset())) {
        return s;
      }
      return slot(where, "size slot", buffer.size());
    case fb::BufferKind::Input:
      return checkIndex(where, "input", buffer.index(), count(entry.inputs()));
    case fb::BufferKind::Output:
      return checkIndex(where, "output", buffer.index(), count(entry.outputs()));
    case fb::BufferKind::Weight:
      return checkIndex(where, "weight", buffer.index(), count(module.weights()));
    case fb::BufferKind::Derived:
      return checkIndex(where, "derived buffer", buffer.index(), count(module.derived()));
    case fb::BufferKind::State:
      if (Status s = checkIndex(where, "state", buffer.index(), count(module.states()))) {
        return s;
      }
      return usedStates.count(buffer.index()) ? Status()
                                              : badFile(where + ": state " + std::to_string(buffer.index()) +
                                                        " is not listed in the entry's states");
    }
    return badFile(where + ": unknown kind " + std::to_string(int(buffer.kind())));
  }

  Status launches() {
    for (int64_t i = 0; i < count(entry.launches()); ++i) {
      const fb::Launch &launch = *entry.launches()->Get(i);
      std::string where = place + ": launch " + std::to_string(i);
      if (Status s = checkName(where, launch.name(), false)) {
        return s;
      }
      if (!view(launch.name()).empty()) {
        where += " (" + quoted(view(launch.name())) + ")";
      }
      int64_t variants = count(launch.variants());
      if (variants == 0 || variants > maxVariants) {
        return badFile(where + ": has " + std::to_string(variants) + " variants; 1 to " + std::to_string(maxVariants) +
                       " are possible");
      }
      for (const fb::Variant *variant : *launch.variants()) {
        if (Status s = checkVariant(where, launch, *variant)) {
          return s;
        }
      }
      if (Status s = optionalSlot(where, "flops slot", launch.flops())) {
        return s;
      }
      for (int64_t k = 0; k < count(launch.args()); ++k) {
        if (Status s = checkArg(where + ": argument " + std::to_string(k), *launch.args()->Get(k))) {
          return s;
        }
      }
    }
    return {};
  }

  Status checkVariant(const std::string &where, const fb::Launch &launch, const fb::Variant &variant) {
    if (Status s = checkIndex(where, "kernel", variant.kernel(), count(module.kernels()))) {
      return s;
    }
    if (Status s = optionalSlot(where, "guard slot", variant.guard())) {
      return s;
    }
    for (int64_t extent : {variant.grid_x(), variant.grid_y(), variant.grid_z()}) {
      if (Status s = slot(where, "grid slot", extent)) {
        return s;
      }
    }
    const fb::Kernel &kernel = *module.kernels()->Get(variant.kernel());
    for (int64_t i = 0; i < count(kernel.tensor_maps()); ++i) {
      std::string map = where + ": kernel " + quoted(view(kernel.name())) + ": tensor map " + std::to_string(i);
      if (Status s = checkTensorMap(map, launch, *kernel.tensor_maps()->Get(i))) {
        return s;
      }
    }
    return {};
  }

  /// A tensor map against the argument it describes.
  Status checkTensorMap(const std::string &where, const fb::Launch &launch, const fb::TensorMap &map) {
    if (Status s = checkIndex(where, "argument", map.arg(), count(launch.args()))) {
      return s;
    }
    const fb::Arg &arg = *launch.args()->Get(map.arg());
    if (arg.buffer() == -1) {
      return badFile(where + ": argument " + std::to_string(map.arg()) + " is no view");
    }
    for (int64_t dim : *map.dims()) {
      if (Status s = checkIndex(where, "dim", dim, count(arg.sizes()))) {
        return s;
      }
    }
    return map.element_size() == dtypeSize(arg.dtype())
               ? Status()
               : badFile(where + ": elements of " + std::to_string(map.element_size()) + " bytes, those of argument " +
                         std::to_string(map.arg()) + " have " + std::to_string(dtypeSize(arg.dtype())));
  }

  Status checkArg(const std::string &where, const fb::Arg &arg) {
    if (Status s = slot(where, arg.buffer() == -1 ? "slot" : "offset slot", arg.offset())) {
      return s;
    }
    if (arg.buffer() == -1) {
      return {};
    }
    if (Status s = checkIndex(where, "buffer", arg.buffer(), count(entry.buffers()))) {
      return s;
    }
    int64_t rank = count(arg.sizes());
    if (Status s = checkTensor(where, arg.dtype(), rank)) {
      return s;
    }
    if (count(arg.strides()) != rank) {
      return badFile(where + ": has " + std::to_string(rank) + " sizes but " + std::to_string(count(arg.strides())) +
                     " strides");
    }
    for (int64_t i = 0; i < rank; ++i) {
      if (Status s = slot(where, "size slot", arg.sizes()->Get(i))) {
        return s;
      }
      if (Status s = slot(where, "stride slot", arg.strides()->Get(i))) {
        return s;
      }
    }
    fb::BufferKind kind = entry.buffers()->Get(arg.buffer())->kind();
    bool readOnly =
        kind == fb::BufferKind::Input || kind == fb::BufferKind::Weight || (kind == fb::BufferKind::Derived && !isInit);
    return arg.written() && readOnly ? badFile(where + ": is written, but lies in a buffer that may only be read")
                                     : Status();
  }

  const fb::Module &module;
  const fb::Entry &entry;
  const std::string place;
  const int64_t slots;
  const bool isInit;
  std::unordered_set<int64_t> usedStates;
};

} // namespace

Status verifyEntry(const fb::Module &module, int64_t index) {
  return EntryVerifier(module, *module.entries()->Get(index)).run();
}

} // namespace kimi::format
