//===- BuildPlan.cpp - host functions to launches over buffers
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kimi/KimiDialect.h"
#include "dialects/Tile/TileDialect.h"
#include "lib/Module/Arena.h"
#include "lib/Module/BuildModule.h"
#include "lib/Module/PlanTables.h"
#include "lib/Module/ScalarProgram.h"
#include "lib/Module/ViewLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kimi;

namespace {
/// Bytes start at multiples of this, which suits every vector register.
constexpr int64_t kArenaAlignment = 64;

class EntryBuilder {
public:
  EntryBuilder(PlanTables &tables, func::FuncOp func)
      : tables(tables), func(func), scalars(func), layouts(scalars),
        program(entry, [this](const std::string &name) { return source(name); }) {
    auto name = func->getAttrOfType<StringAttr>("kimi.entry");
    entry.name = name ? name.str() : func.getSymName().str();
  }

  FailureOr<plan::Entry> run() {
    if (failed(signature()) || failed(outputs()) || failed(placeResults()) || failed(launches()) ||
        failed(conditions())) {
      return failure();
    }
    return entry;
  }

private:
  std::optional<fb::Scalar> source(const std::string &name) {
    const HostAtom *atom = scalars.atom(name);
    if (!atom) {
      return std::nullopt;
    }
    switch (atom->kind) {
    case HostAtom::Kind::InputDim:
      return fb::Scalar(fb::ScalarOp::InputDim, inputIndex[atom->argument], 0, 0, atom->index);
    case HostAtom::Kind::InputValue:
      return fb::Scalar(fb::ScalarOp::InputValue, inputIndex[atom->argument], 0, 0, atom->index);
    case HostAtom::Kind::StateLength:
      return fb::Scalar(fb::ScalarOp::StateLength, 0, 0, 0, 0);
    case HostAtom::Kind::Capacity:
      return fb::Scalar(fb::ScalarOp::Capacity, 0, 0, 0, 0);
    case HostAtom::Kind::Opaque:
      return std::nullopt;
    }
    return std::nullopt;
  }

  /// The slot of `dim`, or an error at `op`.
  FailureOr<int32_t> slot(Operation *op, const SymbolicDim &dim) {
    int32_t index = program.emit(dim);
    if (index >= 0) {
      return index;
    }
    const HostAtom *atom = scalars.atom(program.missing());
    InFlightDiagnostic error = op->emitError() << "entry '" << entry.name
                                               << "': a size or an index depends on a value the host cannot compute";
    if (atom && atom->value && atom->value.getDefiningOp()) {
      error << " (the result of '" << atom->value.getDefiningOp()->getName() << "')";
    }
    return failure();
  }

  LogicalResult signature() {
    for (BlockArgument argument : func.getArguments()) {
      unsigned number = argument.getArgNumber();
      DictionaryAttr attributes = func.getArgAttrDict(number);
      inputIndex.push_back(static_cast<int32_t>(entry.inputs.size()));
      if (isa<StateType>(argument.getType())) {
        FailureOr<int32_t> state = tables.state(func, argument, attributes);
        if (failed(state)) {
          return failure();
        }
        entry.states.push_back(*state);
        newBuffer(argument, fb::Buffer(fb::BufferKind::State, *state, 0, 0));
        continue;
      }
      FailureOr<plan::Port> port = tables.port(func, argument.getType(), attributes, "input", entry.inputs.size());
      if (failed(port)) {
        return failure();
      }
      newBuffer(argument, fb::Buffer(fb::BufferKind::Input, static_cast<int32_t>(entry.inputs.size()), 0, 0));
      entry.inputs.push_back(*port);
    }
    return success();
  }

  LogicalResult outputs() {
    Operation *terminator = func.getBody().front().getTerminator();
    for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
      DictionaryAttr attributes = func.getResultAttrDict(index);
      FailureOr<plan::Port> port = tables.port(func, value.getType(), attributes, "output", index);
      if (failed(port)) {
        return failure();
      }
      entry.outputs.push_back(*port);
      std::vector<int32_t> dims;
      for (const SymbolicDim &size : scalars.shape(value)) {
        FailureOr<int32_t> dim = slot(terminator, size);
        if (failed(dim)) {
          return failure();
        }
        dims.push_back(*dim);
      }
      entry.outputDims.push_back(dims);
      FailureOr<ViewLayout> layout = layouts.of(value);
      if (failed(layout) || !layout->isDense() || !layout->base.getDefiningOp<DispatchOp>() ||
          buffers.count(layout->base)) {
        return terminator->emitError() << "result " << index
                                       << " is not the whole of a kernel's result of its own; run "
                                       << "--kimi-materialize-views before kernels are made";
      }
      newBuffer(layout->base, fb::Buffer(fb::BufferKind::Output, static_cast<int32_t>(index), 0, 0));
    }
    return success();
  }

  /// A tensor.empty that needs no values, for one of its extents is 0.
  static bool hasNoElements(Value base) {
    return base.getDefiningOp<tensor::EmptyOp>() && llvm::is_contained(cast<ShapedType>(base.getType()).getShape(), 0);
  }

  /// Dispatches of constants go to `init`; the other results get places in the arena.
  LogicalResult placeResults() {
    int count = 0;
    llvm::MapVector<Value, ArenaRequest> alive;
    for (Operation &op : func.getBody().front()) {
      auto dispatch = dyn_cast<DispatchOp>(op);
      if (!dispatch) {
        continue;
      }
      if (isConstant(dispatch)) {
        if (failed(hoist(dispatch))) {
          return failure();
        }
        continue;
      }
      int order = count++;
      for (Value input : dispatch.getInputs()) {
        Value base = ViewLayouts::base(input);
        if (hasNoElements(base)) {
          // Nothing of it counts, but kernels clamp the positions that they read to 0 where there are none.
          alive.insert({base, ArenaRequest{SymbolicDim(kArenaAlignment), order, order}});
        }
        auto it = alive.find(base);
        if (it != alive.end()) {
          it->second.last = order;
        }
      }
      for (Value result : dispatch.getResults()) {
        if (!buffers.count(result)) {
          SymbolicDim bytes(tables.elementSize(result.getType()));
          for (const SymbolicDim &size : scalars.shape(result)) {
            bytes = bytes * size;
          }
          alive.insert({result, ArenaRequest{bytes, order, order}});
        }
      }
    }
    std::vector<ArenaRequest> requests;
    for (auto &[value, request] : alive) {
      requests.push_back(request);
    }
    ArenaPlan arena = planArena(requests);
    SymbolicDim end(0);
    std::vector<std::pair<int32_t, int32_t>> places;
    for (const SymbolicDim &bytes : arena.bytes) {
      SymbolicDim aligned = SymbolicDim::ceilDiv(bytes, kArenaAlignment) * SymbolicDim(kArenaAlignment);
      FailureOr<int32_t> offset = slot(func, end), size = slot(func, aligned);
      if (failed(offset) || failed(size)) {
        return failure();
      }
      places.emplace_back(*offset, *size);
      end = end + aligned;
    }
    if (!places.empty()) {
      FailureOr<int32_t> total = slot(func, end);
      if (failed(total)) {
        return failure();
      }
      entry.arenaSize = *total;
    }
    std::vector<int32_t> slotBuffer(places.size(), -1);
    size_t next = 0;
    for (auto &[value, request] : alive) {
      int place = arena.slot[next++];
      if (slotBuffer[place] < 0) {
        newBuffer(value, fb::Buffer(fb::BufferKind::Arena, 0, places[place].first, places[place].second));
        slotBuffer[place] = buffers[value];
      } else {
        buffers[value] = slotBuffer[place];
      }
    }
    return success();
  }

  /// True for a single kernel that reads weights only and whose sizes are all known.
  bool isConstant(DispatchOp dispatch) {
    bool fixed = dispatch.getKernels().size() == 1 && dispatch.getStates().empty() && !dispatch.getInputs().empty();
    for (Value input : dispatch.getInputs()) {
      Value base = ViewLayouts::base(input);
      FailureOr<ViewLayout> layout = layouts.of(input);
      fixed = fixed && (base.getDefiningOp<WeightRefOp>() || constants.contains(base)) && succeeded(layout) &&
              layout->offset.isConstant() && llvm::all_of(layout->sizes, [](auto &d) { return d.isConstant(); }) &&
              llvm::all_of(layout->strides, [](auto &d) { return d.isConstant(); });
    }
    for (ValueRange values : {ValueRange(dispatch.getGrid()), ValueRange(dispatch.getScalars())}) {
      for (Value value : values) {
        fixed = fixed && scalars.of(value).isConstant();
      }
    }
    for (Value result : dispatch.getResults()) {
      fixed = fixed && cast<RankedTensorType>(result.getType()).hasStaticShape() && !buffers.count(result);
    }
    return fixed;
  }

  LogicalResult hoist(DispatchOp dispatch) {
    plan::Entry &init = tables.init;
    ScalarProgram &values = *tables.initProgram;
    std::string key = cast<FlatSymbolRefAttr>(dispatch.getKernels()[0]).getValue().str();
    std::string name;
    plan::Launch launch;
    for (Value input : dispatch.getInputs()) {
      ViewLayout layout = *layouts.of(input); // isConstant has seen it
      fb::Buffer buffer(fb::BufferKind::Derived, 0, 0, 0);
      if (auto ref = layout.base.getDefiningOp<WeightRefOp>()) {
        FailureOr<int32_t> weight = tables.weight(ref);
        if (failed(weight)) {
          return failure();
        }
        buffer = fb::Buffer(fb::BufferKind::Weight, *weight, 0, 0);
        name = name.empty() ? ref.getWeight().str() : name;
      } else {
        buffer = fb::Buffer(fb::BufferKind::Derived, constants[layout.base], 0, 0);
        name = name.empty() ? tables.plan.derived[constants[layout.base]].name : name;
      }
      launch.args.push_back(view(values, tables.initBuffer(buffer), input.getType(), layout, false));
      key += " " + std::to_string(launch.args.back().buffer) + text(launch.args.back());
    }
    size_t resultArgs = launch.args.size();
    for (Value scalar : dispatch.getScalars()) {
      plan::Arg arg;
      arg.offset = values.emit(scalars.of(scalar));
      key += " #" + std::to_string(arg.offset);
      launch.args.push_back(arg);
    }
    name += "." + cast<FlatSymbolRefAttr>(dispatch.getKernels()[0]).getValue().str();
    auto [it, inserted] = tables.hoisted.try_emplace(key, static_cast<int32_t>(tables.plan.derived.size()));
    for (auto [index, result] : llvm::enumerate(dispatch.getResults())) {
      int32_t derived = it->second + static_cast<int32_t>(index);
      constants[result] = derived;
      newBuffer(result, fb::Buffer(fb::BufferKind::Derived, derived, 0, 0));
      if (!inserted) {
        continue;
      }
      auto type = cast<RankedTensorType>(result.getType());
      std::string suffix = index == 0 ? "" : "." + std::to_string(index);
      tables.plan.derived.push_back(
          {name + suffix, *tables.dtype(type), std::vector<int64_t>(type.getShape().begin(), type.getShape().end())});
      int32_t buffer = tables.initBuffer(fb::Buffer(fb::BufferKind::Derived, derived, 0, 0));
      plan::Arg arg = view(values, buffer, type, *layouts.of(result), true);
      launch.args.insert(launch.args.begin() + resultArgs++, arg);
    }
    if (inserted) {
      int32_t grid[3];
      for (int axis = 0; axis < 3; ++axis) {
        grid[axis] = values.emit(scalars.of(dispatch.getGrid()[axis]));
      }
      launch.name = name;
      launch.variants.emplace_back(tables.kernel(cast<FlatSymbolRefAttr>(dispatch.getKernels()[0]).getValue()), -1,
                                   grid[0], grid[1], grid[2]);
      init.launches.push_back(launch);
    }
    return success();
  }

  static std::string text(const plan::Arg &arg) {
    std::string out = "@" + std::to_string(arg.offset);
    for (int32_t slot : arg.sizes) {
      out += "," + std::to_string(slot);
    }
    for (int32_t slot : arg.strides) {
      out += ":" + std::to_string(slot);
    }
    return out;
  }

  /// The argument; a slot is -1 where the host cannot compute it.
  plan::Arg view(ScalarProgram &values, int32_t buffer, Type type, const ViewLayout &layout, bool written) {
    plan::Arg arg;
    arg.buffer = buffer;
    arg.dtype = tables.dtype(type).value_or(fb::DType::F32);
    arg.written = written;
    arg.offset = values.emit(layout.offset);
    for (const SymbolicDim &size : layout.sizes) {
      arg.sizes.push_back(values.emit(size));
    }
    for (const SymbolicDim &stride : layout.strides) {
      arg.strides.push_back(values.emit(stride));
    }
    return arg;
  }

  void newBuffer(Value value, fb::Buffer buffer) {
    buffers[value] = static_cast<int32_t>(entry.buffers.size());
    entry.buffers.push_back(buffer);
  }

  FailureOr<int32_t> bufferOf(Operation *op, Value base) {
    auto it = buffers.find(base);
    if (it != buffers.end()) {
      return it->second;
    }
    auto ref = base.getDefiningOp<WeightRefOp>();
    if (!ref) {
      return op->emitError() << "reads the result of '" << base.getDefiningOp()->getName()
                             << "', which no kernel computes";
    }
    FailureOr<int32_t> weight = tables.weight(ref);
    if (failed(weight)) {
      return failure();
    }
    auto [known, inserted] = weightBuffers.try_emplace(*weight, static_cast<int32_t>(entry.buffers.size()));
    if (inserted) {
      entry.buffers.push_back(fb::Buffer(fb::BufferKind::Weight, *weight, 0, 0));
    }
    return buffers[base] = known->second;
  }

  FailureOr<plan::Arg> viewArgument(DispatchOp dispatch, Type type, const ViewLayout &layout, bool written) {
    FailureOr<int32_t> buffer = bufferOf(dispatch, layout.base);
    if (failed(buffer)) {
      return failure();
    }
    if (!tables.dtype(type)) {
      return dispatch.emitError() << "elements of type " << cast<ShapedType>(type).getElementType()
                                  << " have no place in a module";
    }
    for (const SymbolicDim &dim : llvm::concat<const SymbolicDim>(layout.sizes, layout.strides)) {
      if (failed(slot(dispatch, dim))) {
        return failure();
      }
    }
    if (failed(slot(dispatch, layout.offset))) {
      return failure();
    }
    return view(program, *buffer, type, layout, written);
  }

  /// A kernel trusts the extents and strides that its type holds; a view must have them.
  LogicalResult checkKernels(DispatchOp dispatch, ArrayRef<ViewLayout> views) {
    for (Attribute symbol : dispatch.getKernels()) {
      auto kernel = tables.findKernel(cast<FlatSymbolRefAttr>(symbol).getValue());
      if (!kernel) {
        return dispatch.emitError() << "kernel " << symbol << " is not in the module";
      }
      ArrayRef<Type> types = kernel.getArgumentTypes();
      for (auto [index, layout] : llvm::enumerate(views)) {
        auto type = index < types.size() ? dyn_cast<MemRefType>(types[index]) : MemRefType();
        int64_t offset;
        SmallVector<int64_t> strides;
        bool agrees = type && type.getRank() == static_cast<int64_t>(layout.sizes.size()) &&
                      succeeded(type.getStridesAndOffset(strides, offset));
        for (int64_t axis = 0; agrees && axis < type.getRank(); ++axis) {
          agrees = (type.isDynamicDim(axis) || layout.sizes[axis].is(type.getDimSize(axis))) &&
                   (ShapedType::isDynamic(strides[axis]) || layout.sizes[axis].is(1) ||
                    layout.strides[axis].is(strides[axis]));
        }
        if (!agrees) {
          return dispatch.emitError() << "argument " << index << " of kernel " << symbol
                                      << " does not have the layout that the kernel was made for";
        }
      }
    }
    return success();
  }

  LogicalResult launches() {
    for (Operation &op : func.getBody().front()) {
      auto dispatch = dyn_cast<DispatchOp>(op);
      if (!dispatch || (dispatch->getNumResults() && constants.contains(dispatch->getResult(0)))) {
        continue;
      }
      plan::Launch launch;
      if (auto name = dyn_cast<NameLoc>(op.getLoc())) {
        launch.name = name.getName().str();
      }
      SmallVector<ViewLayout> views;
      auto add = [&](Type type, const ViewLayout &layout, bool written) -> LogicalResult {
        FailureOr<plan::Arg> arg = viewArgument(dispatch, type, layout, written);
        if (failed(arg)) {
          return failure();
        }
        launch.args.push_back(*arg);
        views.push_back(layout);
        return success();
      };
      for (Value input : dispatch.getInputs()) {
        FailureOr<ViewLayout> layout = layouts.of(input);
        if (failed(layout)) {
          return dispatch.emitError() << "reads a reshape of memory with gaps";
        }
        if (failed(add(input.getType(), *layout, false))) {
          return failure();
        }
      }
      for (Value state : dispatch.getStates()) {
        ViewLayout layout = layouts.ofState(state, batchOf(state));
        if (failed(add(cast<StateType>(state.getType()).getShape(), layout, true))) {
          return failure();
        }
      }
      for (Value result : dispatch.getResults()) {
        if (failed(add(result.getType(), *layouts.of(result), true))) {
          return failure();
        }
      }
      if (failed(checkKernels(dispatch, views)) || failed(scalarsAndVariants(dispatch, launch)) ||
          failed(countFlops(dispatch, launch))) {
        return failure();
      }
      entry.launches.push_back(launch);
    }
    return success();
  }

  /// `kimi.flops_per_element`: floating-point operations for each element of the first result; a schedule that knows
  /// them says so, for reports.
  LogicalResult countFlops(DispatchOp dispatch, plan::Launch &launch) {
    auto each = dispatch->getAttrOfType<IntegerAttr>("kimi.flops_per_element");
    if (!each || dispatch.getNumResults() == 0) {
      return success();
    }
    SymbolicDim flops(each.getInt());
    for (const SymbolicDim &size : scalars.shape(dispatch.getResult(0))) {
      flops = flops * size;
    }
    FailureOr<int32_t> count = slot(dispatch, flops);
    if (failed(count)) {
      return failure();
    }
    launch.flops = *count;
    return success();
  }

  /// The sequences a state holds: as many as its views in this function show; where it has none, as many as the first
  /// input of a launch that writes it (rows to append, what a mixer reads) has.
  SymbolicDim batchOf(Value state) {
    int64_t grows = cast<StateType>(state.getType()).getGrows();
    RankedTensorType shape = cast<StateType>(state.getType()).getShape();
    for (Operation *user : state.getUsers()) {
      if (auto view = dyn_cast<StateViewOp>(user)) {
        SmallVector<SymbolicDim> sizes = scalars.shape(view.getResult());
        for (int64_t axis = 0; axis < shape.getRank(); ++axis) {
          if (axis != grows && shape.isDynamicDim(axis)) {
            return sizes[axis];
          }
        }
      }
    }
    for (Operation *user : state.getUsers()) {
      auto dispatch = dyn_cast<DispatchOp>(user);
      if (dispatch && !dispatch.getInputs().empty()) {
        return scalars.shape(dispatch.getInputs().front()).front();
      }
    }
    return SymbolicDim(1);
  }

  LogicalResult scalarsAndVariants(DispatchOp dispatch, plan::Launch &launch) {
    for (Value scalar : dispatch.getScalars()) {
      FailureOr<int32_t> value = slot(dispatch, scalars.of(scalar));
      if (failed(value)) {
        return failure();
      }
      plan::Arg arg;
      arg.offset = *value;
      launch.args.push_back(arg);
    }
    for (auto [index, symbol] : llvm::enumerate(dispatch.getKernels())) {
      int32_t guard = -1, grid[3];
      if (index < dispatch.getGuards().size()) {
        FailureOr<int32_t> value = slot(dispatch, scalars.of(dispatch.getGuards()[index]));
        if (failed(value)) {
          return failure();
        }
        guard = *value;
      }
      for (int axis = 0; axis < 3; ++axis) {
        FailureOr<int32_t> value = slot(dispatch, scalars.of(dispatch.getGrid()[3 * index + axis]));
        if (failed(value)) {
          return failure();
        }
        grid[axis] = *value;
      }
      launch.variants.emplace_back(tables.kernel(cast<FlatSymbolRefAttr>(symbol).getValue()), guard, grid[0], grid[1],
                                   grid[2]);
    }
    return success();
  }

  /// Extents that the signature gives as an expression of others ("past + seq"), and the tokens of a step.
  LogicalResult conditions() {
    for (BlockArgument argument : func.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      for (int64_t axis = 0; type && axis < type.getRank(); ++axis) {
        SymbolicDim size = scalars.shape(argument)[axis];
        if (size.isConstant() || scalars.isSoleAtom(size)) {
          continue;
        }
        int32_t input = inputIndex[argument.getArgNumber()];
        std::string port = entry.inputs[input].name;
        int32_t actual =
            program.emit(fb::Scalar(fb::ScalarOp::InputDim, input, 0, 0, axis), port + ".dim" + std::to_string(axis));
        FailureOr<int32_t> expected = slot(func, size);
        if (failed(expected)) {
          return failure();
        }
        int32_t equal = program.emit(fb::Scalar(fb::ScalarOp::Eq, actual, *expected, 0, 0),
                                     port + ".dim" + std::to_string(axis) + " == " + size.str());
        entry.checks.push_back(
            {equal, "axis " + std::to_string(axis) + " of input '" + port + "' must be " + size.str()});
      }
    }
    for (auto require : func.getBody().front().getOps<RequireOp>()) {
      SymbolicDim left = scalars.of(require.getLeft()), right = scalars.of(require.getRight());
      if (!scalars.isComputable(left) || !scalars.isComputable(right)) {
        continue; // what a kernel counts is not known before it has run
      }
      bool atMost = require.getKind() == RequireKind::at_most;
      SymbolicDim holds = atMost ? SymbolicDim::le(left, right) : SymbolicDim::eq(left, right);
      if (require.getKind() == RequireKind::broadcast) {
        holds = SymbolicDim::max(holds, SymbolicDim::max(SymbolicDim::eq(left, 1), SymbolicDim::eq(right, 1)));
      }
      if (holds.is(1)) {
        continue;
      }
      FailureOr<int32_t> checked = slot(require, holds);
      if (failed(checked)) {
        return failure();
      }
      if (llvm::none_of(entry.checks, [&](const plan::Check &check) { return check.slot == *checked; })) {
        entry.checks.push_back({*checked, require.getMessage().str()});
      }
    }
    if (auto step = func->getAttrOfType<DenseI64ArrayAttr>("kimi.step_dim")) {
      if (step.size() == 2 && step[0] >= 0 && step[0] < func.getNumArguments()) {
        auto type = dyn_cast<RankedTensorType>(func.getArgument(step[0]).getType());
        if (type && step[1] >= 0 && step[1] < type.getRank()) {
          FailureOr<int32_t> tokens = slot(func, scalars.shape(func.getArgument(step[0]))[step[1]]);
          if (failed(tokens)) {
            return failure();
          }
          entry.stepTokens = *tokens;
        }
      }
    }
    return success();
  }

  PlanTables &tables;
  func::FuncOp func;
  HostScalars scalars;
  ViewLayouts layouts;
  plan::Entry entry;
  ScalarProgram program;
  std::vector<int32_t> inputIndex; // by argument
  llvm::DenseMap<Value, int32_t> buffers, constants;
  std::map<int32_t, int32_t> weightBuffers;
};
} // namespace

FailureOr<plan::Plan> kimi::buildPlan(ModuleOp module) {
  PlanTables tables(module);
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal()) {
      continue;
    }
    FailureOr<plan::Entry> entry = EntryBuilder(tables, func).run();
    if (failed(entry)) {
      return failure();
    }
    tables.plan.entries.push_back(*entry);
  }
  if (auto context = module->getAttrOfType<IntegerAttr>("kimi.max_context")) {
    tables.plan.maxContext = context.getInt();
  }
  if (!tables.init.launches.empty()) {
    tables.plan.entries.push_back(tables.init);
  }
  return tables.plan;
}

LogicalResult kimi::applyKernelRecords(ModuleOp module, plan::Plan &plan, StringRef target,
                                       ArrayRef<plan::Kernel> records) {
  llvm::StringMap<const plan::Kernel *> bySymbol;
  for (const plan::Kernel &record : records) {
    bySymbol[record.symbol] = &record;
  }
  for (plan::Kernel &kernel : plan.kernels) {
    auto record = bySymbol.find(kernel.symbol);
    if (record != bySymbol.end()) {
      kernel = *record->second;
    } else if (target.starts_with("cuda:")) {
      return module.emitError() << "kernel '" << kernel.symbol << "' has no code for " << target;
    }
  }
  return success();
}

FailureOr<std::string> kimi::buildModule(ModuleOp module, const ModuleOptions &options) {
  FailureOr<plan::Plan> plan = buildPlan(module);
  if (failed(plan) || failed(applyKernelRecords(module, *plan, options.target, options.kernels)) ||
      (options.bake && failed(bakeWeights(module, *plan, options.modelDir)))) {
    return failure();
  }
  return writePlan(*plan, options);
}
