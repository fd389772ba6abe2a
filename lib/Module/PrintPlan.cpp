//===- PrintPlan.cpp - a plan for people
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Module/BuildModule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kimi;

namespace {
class Printer {
public:
  Printer(const plan::Plan &plan, llvm::raw_ostream &os) : plan(plan), os(os) {}

  void print() {
    for (auto [i, w] : llvm::enumerate(plan.weights)) {
      os << "weight " << i << " '" << w.name << "' " << shape(w.dims) << " " << fb::EnumNameDType(w.dtype);
      if (w.file.empty()) {
        os << " inline, " << w.bytes.size() << " bytes\n";
      } else {
        os << " '" << w.file << "' at " << w.offset << ", " << w.length << " bytes\n";
      }
    }
    for (auto [i, d] : llvm::enumerate(plan.derived)) {
      os << "derived " << i << " '" << d.name << "' " << shape(d.dims) << " " << fb::EnumNameDType(d.dtype) << "\n";
    }
    for (auto [i, s] : llvm::enumerate(plan.states)) {
      os << "state " << i << " '" << s.name << "' " << shape(s.dims) << " " << fb::EnumNameDType(s.dtype) << " grows "
         << s.grows << "\n";
    }
    if (plan.maxContext >= 0) {
      os << "longest sequence " << plan.maxContext << "\n";
    }
    for (const plan::Kernel &k : plan.kernels) {
      if (k.threads > 0) { // otherwise it has no more to say than its launches
        kernel(k);
      }
    }
    for (const plan::Entry &e : plan.entries) {
      entry(e);
    }
  }

private:
  static std::string shape(const std::vector<int64_t> &dims) {
    std::string text = "[";
    for (int64_t dim : dims) {
      text += (text.size() > 1 ? ", " : "") + (dim < 0 ? std::string("?") : std::to_string(dim));
    }
    return text + "]";
  }

  void kernel(const plan::Kernel &k) {
    os << "kernel '" << k.name << "' " << k.threads << " threads";
    if (k.tasksPerBlock > 1) {
      os << " of a task each";
    }
    if (k.sharedBytes > 0) {
      os << ", " << k.sharedBytes << " bytes shared";
    }
    os << (k.pdl ? ", pdl" : "");
    auto list = [](const std::vector<int32_t> &values) {
      return shape(std::vector<int64_t>(values.begin(), values.end()));
    };
    for (const plan::TensorMap &m : k.tensorMaps) {
      os << ", map of argument " << m.arg << " dims " << list(m.dims) << " box " << list(m.box) << " swizzle "
         << int(m.swizzle);
    }
    os << "\n";
  }

  void ports(const char *kind, const std::vector<plan::Port> &list) {
    for (const plan::Port &p : list) {
      os << "  " << kind << " '" << p.name << "' [";
      llvm::interleaveComma(p.dims, os, [&](const fb::Dim &dim) {
        if (dim.extent() >= 0) {
          os << dim.extent();
        } else if (dim.symbol() >= 0) {
          os << plan.symbols[dim.symbol()];
        } else {
          os << "?";
        }
      });
      os << "] " << fb::EnumNameDType(p.dtype);
      if (p.role != fb::Role::None) {
        os << " " << fb::EnumNameRole(p.role);
      }
      os << "\n";
    }
  }

  std::string bufferName(const plan::Entry &e, int32_t index) {
    const fb::Buffer &buffer = e.buffers[index];
    switch (buffer.kind()) {
    case fb::BufferKind::Arena:
      return "arena@" + std::to_string(index);
    case fb::BufferKind::Input:
      return "'" + e.inputs[buffer.index()].name + "'";
    case fb::BufferKind::Output:
      return "'" + e.outputs[buffer.index()].name + "'";
    case fb::BufferKind::Weight:
      return "'" + plan.weights[buffer.index()].name + "'";
    case fb::BufferKind::Derived:
      return "'" + plan.derived[buffer.index()].name + "'";
    case fb::BufferKind::State:
      return "'" + plan.states[buffer.index()].name + "'";
    }
    return "?";
  }

  void arg(const plan::Entry &e, const plan::Arg &a) {
    auto text = [&](int32_t slot) { return e.scalarText[slot]; };
    if (a.buffer < 0) {
      os << text(a.offset);
      return;
    }
    os << (a.written ? "out " : "") << bufferName(e, a.buffer);
    if (text(a.offset) != "0") {
      os << "+" << text(a.offset);
    }
    os << "[";
    llvm::interleaveComma(a.sizes, os, [&](int32_t slot) { os << text(slot); });
    os << " : ";
    llvm::interleaveComma(a.strides, os, [&](int32_t slot) { os << text(slot); });
    os << "]";
  }

  void entry(const plan::Entry &e) {
    os << "entry '" << e.name << "'\n";
    ports("input", e.inputs);
    ports("output", e.outputs);
    for (int32_t state : e.states) {
      os << "  state '" << plan.states[state].name << "'\n";
    }
    if (e.stepTokens >= 0) {
      os << "  step " << e.scalarText[e.stepTokens] << " tokens\n";
    }
    for (const plan::Check &c : e.checks) {
      os << "  check " << e.scalarText[c.slot] << " else '" << c.message << "'\n";
    }
    for (auto [i, buffer] : llvm::enumerate(e.buffers)) {
      if (buffer.kind() == fb::BufferKind::Arena) {
        os << "  arena@" << i << " at " << e.scalarText[buffer.offset()] << ", " << e.scalarText[buffer.size()]
           << " bytes\n";
      }
    }
    if (e.arenaSize >= 0) {
      os << "  arena " << e.scalarText[e.arenaSize] << " bytes\n";
    }
    for (auto [i, l] : llvm::enumerate(e.launches)) {
      os << "  " << i << ":";
      for (const fb::Variant &v : l.variants) {
        os << " " << plan.kernels[v.kernel()].name << "<" << e.scalarText[v.grid_x()];
        if (e.scalarText[v.grid_y()] != "1" || e.scalarText[v.grid_z()] != "1") {
          os << " x " << e.scalarText[v.grid_y()] << " x " << e.scalarText[v.grid_z()];
        }
        os << ">";
        if (v.guard() >= 0) {
          os << " if " << e.scalarText[v.guard()] << ",";
        }
      }
      os << " (";
      llvm::interleaveComma(l.args, os, [&](const plan::Arg &a) { arg(e, a); });
      os << ")";
      if (l.flops >= 0) {
        os << ", " << e.scalarText[l.flops] << " flops";
      }
      if (!l.name.empty()) {
        os << " -- " << l.name;
      }
      os << "\n";
    }
  }

  const plan::Plan &plan;
  llvm::raw_ostream &os;
};
} // namespace

void kimi::printPlan(const plan::Plan &plan, llvm::raw_ostream &os) { Printer(plan, os).print(); }

LogicalResult kimi::printPlan(ModuleOp module, llvm::raw_ostream &os) {
  FailureOr<plan::Plan> plan = buildPlan(module);
  if (failed(plan)) {
    return failure();
  }
  printPlan(*plan, os);
  return success();
}
