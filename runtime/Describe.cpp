//===- Describe.cpp - a readable listing of a module ------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Dtype.h"
#include "runtime/Module.h"
#include "runtime/Text.h"

#include <sstream>

namespace kimi {
namespace {

/// Longer expressions are not repeated where they are used; the slot's number stands for them.
constexpr size_t longestExpression = 60;

template <typename T>
uint32_t lengthOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

std::string dimsText(const flatbuffers::Vector<int64_t> &dims, int32_t grows = -1) {
  std::string out = "[";
  for (uint32_t i = 0; i < dims.size(); ++i) {
    out += i ? ", " : "";
    out += static_cast<int32_t>(i) == grows ? "capacity" : dims.Get(i) < 0 ? "batch" : std::to_string(dims.Get(i));
  }
  return out + "]";
}

class EntryPrinter {
public:
  EntryPrinter(const fb::Module &module, const fb::Entry &entry, std::ostream &out)
      : module(module), entry(entry), out(out) {
    for (uint32_t i = 0; i < lengthOf(entry.scalars()); ++i) {
      texts.push_back(expression(*entry.scalars()->Get(i)));
    }
  }

  void print() {
    out << "\nentry " << quoted(entry.name()->str()) << "\n";
    ports();
    if (lengthOf(entry.states())) {
      out << "  states:";
      for (int32_t state : *entry.states()) {
        out << " " << module.states()->Get(state)->name()->str();
      }
      out << "\n";
    }
    if (entry.step_tokens() >= 0) {
      out << "  adds " << slot(entry.step_tokens()) << " tokens\n";
    }
    for (uint32_t i = 0; i < lengthOf(entry.checks()); ++i) {
      const fb::Check &check = *entry.checks()->Get(i);
      out << "  check " << slot(check.slot()) << ": " << check.message()->str() << "\n";
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].size() > longestExpression) {
        out << "  s" << i << " = " << texts[i] << "\n";
      }
    }
    if (entry.arena_size() >= 0) {
      out << "  arena: " << slot(entry.arena_size()) << " bytes\n";
    }
    buffers();
    launches();
  }

private:
  std::string slot(int32_t index) const {
    return texts[index].size() > longestExpression ? "s" + std::to_string(index) : texts[index];
  }

  /// Operands are in parentheses unless they are a name, a number or a call.
  std::string operand(int32_t index) const {
    fb::ScalarOp op = entry.scalars()->Get(index)->op();
    bool isInfix = (op >= fb::ScalarOp::Add && op <= fb::ScalarOp::Mod && op != fb::ScalarOp::CeilDiv) ||
                   (op >= fb::ScalarOp::Eq && op <= fb::ScalarOp::Or) || op == fb::ScalarOp::Select;
    return isInfix && texts[index].size() <= longestExpression ? "(" + texts[index] + ")" : slot(index);
  }

  std::string inputDim(int32_t input, int64_t axis) const {
    const fb::Port &port = *entry.inputs()->Get(input);
    int32_t symbol = port.dims()->Get(static_cast<uint32_t>(axis))->symbol();
    return symbol >= 0 ? module.symbols()->Get(symbol)->str() : port.name()->str() + "." + std::to_string(axis);
  }

  std::string expression(const fb::Scalar &it) const {
    auto infix = [&](const char *sign) { return operand(it.a()) + " " + sign + " " + operand(it.b()); };
    auto call = [&](const char *name) { return name + ("(" + slot(it.a()) + ", " + slot(it.b()) + ")"); };
    switch (it.op()) {
    case fb::ScalarOp::Const:
      return std::to_string(it.imm());
    case fb::ScalarOp::InputDim:
      return inputDim(it.a(), it.imm());
    case fb::ScalarOp::InputValue:
      return entry.inputs()->Get(it.a())->name()->str() + "[" + std::to_string(it.imm()) + "]";
    case fb::ScalarOp::StateLength:
      return "length";
    case fb::ScalarOp::Capacity:
      return "capacity";
    case fb::ScalarOp::Add:
      return infix("+");
    case fb::ScalarOp::Sub:
      return infix("-");
    case fb::ScalarOp::Mul:
      return infix("*");
    case fb::ScalarOp::FloorDiv:
      return infix("//");
    case fb::ScalarOp::CeilDiv:
      return call("ceildiv");
    case fb::ScalarOp::Mod:
      return infix("%");
    case fb::ScalarOp::Min:
      return call("min");
    case fb::ScalarOp::Max:
      return call("max");
    case fb::ScalarOp::Eq:
      return infix("==");
    case fb::ScalarOp::Lt:
      return infix("<");
    case fb::ScalarOp::Le:
      return infix("<=");
    case fb::ScalarOp::And:
      return infix("&&");
    case fb::ScalarOp::Or:
      return infix("||");
    case fb::ScalarOp::Not:
      return "!" + operand(it.a());
    case fb::ScalarOp::Select:
      return operand(it.a()) + " ? " + operand(it.b()) + " : " + operand(it.c());
    }
    return "?";
  }

  void ports() {
    for (uint32_t i = 0; i < lengthOf(entry.inputs()); ++i) {
      const fb::Port &port = *entry.inputs()->Get(i);
      out << "  input " << port.name()->str() << ": " << dtypeName(port.dtype()) << "[";
      for (uint32_t axis = 0; axis < port.dims()->size(); ++axis) {
        const fb::Dim &dim = *port.dims()->Get(axis);
        out << (axis ? ", " : "")
            << (dim.extent() >= 0   ? std::to_string(dim.extent())
                : dim.symbol() >= 0 ? inputDim(i, axis)
                                    : "?");
      }
      out << "]" << role(port) << "\n";
    }
    for (uint32_t i = 0; i < lengthOf(entry.outputs()); ++i) {
      const fb::Port &port = *entry.outputs()->Get(i);
      out << "  output " << port.name()->str() << ": " << dtypeName(port.dtype())
          << list(entry.output_dims()->Get(i)->slots()) << role(port) << "\n";
    }
  }

  static std::string role(const fb::Port &port) {
    return port.role() == fb::Role::None ? "" : std::string(" (") + fb::EnumNameRole(port.role()) + ")";
  }

  std::string list(const flatbuffers::Vector<int32_t> *slots) const {
    std::string text = "[";
    for (uint32_t i = 0; i < lengthOf(slots); ++i) {
      text += (i ? ", " : "") + slot(slots->Get(i));
    }
    return text + "]";
  }

  std::string bufferName(int32_t index) const {
    const fb::Buffer &buffer = *entry.buffers()->Get(index);
    switch (buffer.kind()) {
    case fb::BufferKind::Arena:
      return "b" + std::to_string(index);
    case fb::BufferKind::Input:
      return entry.inputs()->Get(buffer.index())->name()->str();
    case fb::BufferKind::Output:
      return entry.outputs()->Get(buffer.index())->name()->str();
    case fb::BufferKind::Weight:
      return module.weights()->Get(buffer.index())->name()->str();
    case fb::BufferKind::Derived:
      return module.derived()->Get(buffer.index())->name()->str();
    case fb::BufferKind::State:
      return module.states()->Get(buffer.index())->name()->str();
    }
    return "?";
  }

  void buffers() {
    for (uint32_t i = 0; i < lengthOf(entry.buffers()); ++i) {
      const fb::Buffer &buffer = *entry.buffers()->Get(i);
      if (buffer.kind() == fb::BufferKind::Arena) {
        out << "  buffer b" << i << ": " << slot(buffer.size()) << " bytes at " << slot(buffer.offset()) << "\n";
      }
    }
  }

  void launches() {
    for (uint32_t i = 0; i < lengthOf(entry.launches()); ++i) {
      const fb::Launch &launch = *entry.launches()->Get(i);
      out << "  launch " << i;
      if (launch.name() && launch.name()->size()) {
        out << " " << quoted(launch.name()->str());
      }
      out << "\n";
      for (const fb::Variant *variant : *launch.variants()) {
        out << "    " << module.kernels()->Get(variant->kernel())->name()->str() << " on " << operand(variant->grid_x())
            << " x " << operand(variant->grid_y()) << " x " << operand(variant->grid_z());
        if (variant->guard() >= 0) {
          out << " if " << slot(variant->guard());
        }
        out << "\n";
      }
      for (uint32_t k = 0; k < launch.args()->size(); ++k) {
        argument(*launch.args()->Get(k));
      }
    }
  }

  void argument(const fb::Arg &arg) {
    if (arg.buffer() < 0) {
      out << "      " << slot(arg.offset()) << "\n";
      return;
    }
    out << "      " << (arg.written() ? "-> " : "") << bufferName(arg.buffer()) << ": " << dtypeName(arg.dtype())
        << list(arg.sizes()) << " strides " << list(arg.strides());
    if (slot(arg.offset()) != "0") {
      out << " from " << slot(arg.offset());
    }
    out << "\n";
  }

  const fb::Module &module;
  const fb::Entry &entry;
  std::ostream &out;
  std::vector<std::string> texts;
};

} // namespace

/// How a CUDA kernel is launched.
static std::string launchText(const fb::Kernel &kernel) {
  std::string text = ", " + std::to_string(kernel.threads()) + " threads";
  text += kernel.tasks_per_block() > 1 ? " of a task each" : "";
  text += kernel.shared_bytes() > 0 ? ", " + std::to_string(kernel.shared_bytes()) + " bytes shared" : "";
  text += kernel.pdl() ? ", pdl" : "";
  auto list = [](const flatbuffers::Vector<int32_t> &values) {
    std::vector<int64_t> wide(values.begin(), values.end());
    return shapeText(wide.data(), wide.size());
  };
  for (uint32_t i = 0; i < lengthOf(kernel.tensor_maps()); ++i) {
    const fb::TensorMap &map = *kernel.tensor_maps()->Get(i);
    text += ", map of argument " + std::to_string(map.arg()) + " " + list(*map.dims()) + " in boxes of " +
            list(*map.box()) + ", swizzle " + std::to_string(map.swizzle());
  }
  return text;
}

std::string describe(const Module &it) {
  const fb::Module &module = it.table();
  std::ostringstream out;
  out << "module for " << quoted(module.target()->str()) << " by " << quoted(module.producer()->str());
  if (module.source_hash() && module.source_hash()->size()) {
    out << " from " << module.source_hash()->str();
  }
  out << "\n";
  if (module.max_context() >= 0) {
    out << "longest sequence: " << module.max_context() << " tokens\n";
  }
  for (uint32_t i = 0; i < lengthOf(module.weights()); ++i) {
    const fb::Weight &weight = *module.weights()->Get(i);
    bool isInline = !weight.file() || weight.file()->size() == 0;
    out << "weight " << weight.name()->str() << ": " << dtypeName(weight.dtype()) << dimsText(*weight.dims()) << " at "
        << (isInline ? weight.blob()->offset() : weight.offset()) << " of "
        << (isInline ? "the data segment" : quoted(weight.file()->str())) << "\n";
  }
  for (uint32_t i = 0; i < lengthOf(module.derived()); ++i) {
    const fb::Derived &derived = *module.derived()->Get(i);
    out << "derived " << derived.name()->str() << ": " << dtypeName(derived.dtype()) << dimsText(*derived.dims())
        << "\n";
  }
  for (uint32_t i = 0; i < lengthOf(module.states()); ++i) {
    const fb::State &state = *module.states()->Get(i);
    out << "state " << state.name()->str() << ": " << dtypeName(state.dtype()) << dimsText(*state.dims(), state.grows())
        << "\n";
  }
  for (uint32_t i = 0; i < lengthOf(module.images()); ++i) {
    const fb::Image &image = *module.images()->Get(i);
    out << "image " << i << ": " << image.target()->str() << ", " << image.blob()->length() << " bytes\n";
  }
  for (uint32_t i = 0; i < lengthOf(module.kernels()); ++i) {
    const fb::Kernel &kernel = *module.kernels()->Get(i);
    out << "kernel " << kernel.name()->str() << ": " << kernel.symbol()->str();
    if (kernel.threads() > 0) {
      out << launchText(kernel) << "\n";
    } else {
      out << " in image " << kernel.image() << "\n";
    }
  }
  for (int32_t i = 0; i < it.entryCount(); ++i) {
    EntryPrinter(module, it.plan(i).entry, out).print();
  }
  return printable(out.str(), /*keepLines=*/true);
}

} // namespace kimi
