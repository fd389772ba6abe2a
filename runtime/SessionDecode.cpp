//===- SessionDecode.cpp - greedy decoding without the host in between ------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/Checked.h"
#include "runtime/Dtype.h"
#include "runtime/Session.h"
#include "runtime/Text.h"

#include <cstring>

namespace kimi {
namespace {

Status unsupported(const Plan &plan, const std::string &why) {
  return {KIMI_UNSUPPORTED, plan.place() + " cannot decode by itself: " + why};
}

/// Writes an integer as an element of the given dtype; false where the dtype cannot hold it.
bool writeElement(kimi_dtype dtype, uint8_t *at, int64_t value) {
  float f32 = static_cast<float>(value);
  double f64 = static_cast<double>(value);
  switch (dtype) {
  case KIMI_F32:
    std::memcpy(at, &f32, sizeof(f32));
    return true;
  case KIMI_F64:
    std::memcpy(at, &f64, sizeof(f64));
    return true;
  case KIMI_F16:
  case KIMI_BF16:
    return false;
  default:
    std::memcpy(at, &value, dtypeSize(dtype)); // little-endian
    return true;
  }
}

int64_t readInteger(kimi_dtype dtype, const uint8_t *at) {
  if (dtype == KIMI_I32) {
    int32_t value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

/// The inputs of a step of one token for each sequence, made by their roles.
class StepInputs {
public:
  StepInputs(const Plan &plan, Executor::TokenPorts ports, int64_t batch) : plan(plan), ports(ports), batch(batch) {
    tensors.resize(plan.inputCount());
    storage.resize(plan.inputCount());
  }

  /// `tokens`: null where the step before gives them. `past`: tokens held so far.
  Status fill(const int64_t *tokens, int64_t past) {
    for (uint32_t i = 0; i < plan.inputCount(); ++i) {
      const fb::Port &port = *plan.entry.inputs()->Get(i);
      int64_t columns = port.role() == fb::Role::AttentionMask ? past + 1 : 1, rows = batch;
      bool isShared = port.role() == fb::Role::PositionIds && port.dims()->Get(0)->extent() == 1;
      if (port.dims()->size() == 1) {
        if (i == ports.input && batch != 1) {
          return unsupported(plan, "input " + quoted(port.name()->string_view()) + " takes one sequence at a time");
        }
        isShared = true;
      }
      rows = isShared ? 1 : rows;
      kimi_tensor &tensor = tensors[i];
      tensor.dtype = static_cast<kimi_dtype>(port.dtype());
      tensor.rank = static_cast<int32_t>(port.dims()->size());
      tensor.dims[0] = tensor.rank == 1 ? columns : rows;
      tensor.dims[1] = columns;
      tensor.data = nullptr;
      if (i == ports.input && !tokens) {
        continue;
      }
      size_t size = dtypeSize(tensor.dtype);
      storage[i].resize(static_cast<size_t>(rows * columns) * size);
      for (int64_t k = 0; k < rows * columns; ++k) {
        int64_t value = i == ports.input ? tokens[k] : port.role() == fb::Role::PositionIds ? past : 1;
        if (!writeElement(tensor.dtype, &storage[i][static_cast<size_t>(k) * size], value)) {
          return unsupported(plan, "input " + quoted(port.name()->string_view()) + " holds " + dtypeName(port.dtype()));
        }
      }
      tensor.data = storage[i].data();
    }
    return {};
  }

  const kimi_tensor *data() const { return tensors.data(); }
  int32_t count() const { return static_cast<int32_t>(tensors.size()); }

private:
  const Plan &plan;
  Executor::TokenPorts ports;
  int64_t batch;
  std::vector<kimi_tensor> tensors;
  std::vector<std::vector<uint8_t>> storage;
};

} // namespace

Status findTokenPorts(const Plan &plan, Executor::TokenPorts &out) {
  int32_t input = -1, output = -1;
  for (uint32_t i = 0; i < plan.inputCount(); ++i) {
    const fb::Port &port = *plan.entry.inputs()->Get(i);
    std::string name = "input " + quoted(port.name()->string_view());
    uint32_t rank = port.dims()->size();
    switch (port.role()) {
    case fb::Role::TokenIds:
      if (input >= 0) {
        return unsupported(plan, "it has two inputs of token ids");
      }
      input = static_cast<int32_t>(i);
      [[fallthrough]];
    case fb::Role::PositionIds:
    case fb::Role::AttentionMask:
      if (rank < 1 || rank > 2) {
        return unsupported(plan, name + " has rank " + std::to_string(rank));
      }
      break;
    default:
      return unsupported(plan, name + " is neither tokens nor positions nor a mask");
    }
  }
  for (uint32_t i = 0; i < plan.outputCount(); ++i) {
    if (plan.entry.outputs()->Get(i)->role() == fb::Role::NextToken) {
      output = static_cast<int32_t>(i);
    }
  }
  if (input < 0 || output < 0) {
    return unsupported(plan, input < 0 ? "it has no input of token ids" : "it has no output of next tokens");
  }
  fb::DType taken = plan.entry.inputs()->Get(static_cast<uint32_t>(input))->dtype();
  fb::DType given = plan.entry.outputs()->Get(static_cast<uint32_t>(output))->dtype();
  if (taken != given || (taken != fb::DType::I64 && taken != fb::DType::I32)) {
    return unsupported(plan, std::string("it takes tokens as ") + dtypeName(taken) + " and gives them as " +
                                 dtypeName(given) + "; i64 or i32 for both is supported");
  }
  if (plan.program.readsInput(input)) {
    return unsupported(plan, "its sizes depend on the values of the token ids");
  }
  out = {static_cast<uint32_t>(input), static_cast<uint32_t>(output)};
  return {};
}

Status Session::decode(int32_t entry, const int64_t *tokens, int64_t batch, int64_t steps, kimi_token_function onTokens,
                       void *user) {
  if (entry < 0 || entry >= module.entryCount()) {
    return invalidArgument("there is no entry " + std::to_string(entry));
  }
  if (!tokens || batch < 1 || batch > INT32_MAX || steps < 0 || !onTokens) {
    return invalidArgument("decoding needs a token for each sequence and somebody to take what comes");
  }
  const Plan &plan = module.plan(entry);
  Executor::TokenPorts ports;
  if (Status s = findTokenPorts(plan, ports)) {
    return s;
  }
  StepInputs inputs(plan, ports, batch);
  const auto dtype = static_cast<kimi_dtype>(plan.entry.inputs()->Get(ports.input)->dtype());
  const uint64_t bytes = static_cast<uint64_t>(batch) * dtypeSize(dtype);
  std::vector<uint8_t> raw(bytes);
  std::vector<int64_t> given(static_cast<size_t>(batch));
  Status failure;
  bool stops = false;
  int64_t enqueued = 0, taken = 0;
  auto enqueue = [&]() -> Status {
    if (Status s = inputs.fill(enqueued == 0 ? tokens : nullptr, environment.length)) {
      return s;
    }
    if (Status s = prepare(entry, inputs.data(), inputs.count())) {
      return s;
    }
    Frame &frame = *frames[entry];
    if (frame.outputBytes(ports.output) != bytes) {
      return unsupported(plan, "a step of " + std::to_string(batch) + " sequences gives " +
                                   std::to_string(frame.outputBytes(ports.output) / dtypeSize(dtype)) + " next tokens");
    }
    if (Status s = executor->enqueueStep(frame, inputs.data(), ports)) {
      return s;
    }
    environment.length += frame.stepTokens();
    ++enqueued;
    return {};
  };
  while (taken < enqueued || (enqueued < steps && !failure && !stops)) {
    if (enqueued < steps && !failure && !stops && enqueued - taken < 2) {
      failure = enqueue();
      continue;
    }
    if (Status s = executor->takeTokens(raw.data(), bytes)) {
      return s;
    }
    ++taken;
    if (stops) {
      continue; // begun before the stop
    }
    for (int64_t i = 0; i < batch; ++i) {
      given[i] = readInteger(dtype, &raw[static_cast<size_t>(i) * dtypeSize(dtype)]);
    }
    stops = onTokens(user, given.data(), batch) != 0;
    if (stops && taken < enqueued && !findFixedState(module.table())) {
      environment.length -= (enqueued - taken) * frames[entry]->stepTokens();
    }
  }
  return failure;
}

} // namespace kimi
