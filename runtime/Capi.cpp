//===- Capi.cpp - the C API -------------------------------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "kimi/kimi.h"
#include "runtime/Dtype.h"
#include "runtime/Session.h"
#include "runtime/cpu/CpuTarget.h"
#include "runtime/cuda/Cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

struct kimi_module {
  std::unique_ptr<kimi::Module> module;
};

struct kimi_session {
  std::unique_ptr<kimi::Session> session;
};

struct kimi_snapshot {
  std::unique_ptr<kimi::Snapshot> snapshot;
};

namespace {

using kimi::invalidArgument;
using kimi::Status;

/// The last error of this thread. Kept from call to call, so that running out of memory can still be told.
std::string &lastError() {
  thread_local std::string text;
  return text;
}

kimi_status report(const Status &status) {
  if (status) {
    lastError() = status.message();
  }
  return status.code();
}

/// Runs `call` and turns exceptions (only the C++ library throws) into codes: nothing may pass the C boundary.
template <typename Call>
kimi_status guarded(Call call) noexcept {
  try {
    return report(call());
  } catch (const std::bad_alloc &) {
    lastError().assign("out of memory"); // fits a string without an allocation
    return KIMI_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    try {
      lastError() = error.what();
    } catch (...) {
      lastError().clear();
    }
    return KIMI_RUNTIME_ERROR;
  }
}

const char *textOrEmpty(const flatbuffers::String *text) { return text ? text->c_str() : ""; }

using Ports = flatbuffers::Vector<flatbuffers::Offset<kimi::fb::Port>>;

const kimi::fb::Entry *findEntry(const kimi_module *module, int32_t entry) {
  return module && entry >= 0 && entry < module->module->entryCount() ? &module->module->plan(entry).entry : nullptr;
}

int32_t portCount(const Ports *ports) { return ports ? static_cast<int32_t>(ports->size()) : 0; }

Status describePort(const kimi_module *module, const Ports *ports, int32_t index, kimi_port *out) {
  if (!out || index < 0 || index >= portCount(ports)) {
    return invalidArgument("there is no port " + std::to_string(index) + " of that entry");
  }
  const kimi::fb::Port &port = *ports->Get(index);
  *out = {};
  out->name = port.name()->c_str();
  out->dtype = static_cast<kimi_dtype>(port.dtype());
  out->role = static_cast<kimi_role>(port.role());
  out->rank = static_cast<int32_t>(port.dims()->size());
  for (int32_t axis = 0; axis < out->rank; ++axis) {
    const kimi::fb::Dim &dim = *port.dims()->Get(axis);
    out->dims[axis] = dim.extent();
    if (dim.extent() < 0 && dim.symbol() >= 0) {
      out->symbols[axis] = module->module->table().symbols()->Get(dim.symbol())->c_str();
    }
  }
  return {};
}

} // namespace

extern "C" {

const char *kimi_version(void) { return KIMI_VERSION; }

const char *kimi_last_error(void) { return lastError().c_str(); }

size_t kimi_dtype_size(kimi_dtype dtype) { return kimi::dtypeSize(dtype); }

const char *kimi_dtype_name(kimi_dtype dtype) { return kimi::dtypeName(dtype); }

kimi_status kimi_devices(kimi_device_info *out, int32_t capacity, int32_t *count) {
  return guarded([&]() -> Status {
    if (!count || capacity < 0 || (capacity != 0 && !out)) {
      return invalidArgument("kimi_devices needs a place for the devices and for their number");
    }
    std::vector<kimi_device_info> devices = {kimi::describeCpu()};
    Status status = kimi::cuda::appendDevices(devices);
    lastError() = status ? status.message() : devices.size() == 1 ? "the CUDA driver shows no GPU" : "";
    std::copy_n(devices.begin(), std::min<size_t>(devices.size(), static_cast<size_t>(capacity)), out);
    *count = static_cast<int32_t>(devices.size());
    return {};
  });
}

kimi_status kimi_module_load(const char *path, const kimi_module_options *options, kimi_module **out) {
  return guarded([&]() -> Status {
    if (!path || !out) {
      return invalidArgument("kimi_module_load needs a path and a place for the module");
    }
    *out = nullptr;
    auto module = std::make_unique<kimi_module>();
    const char *folder = options && options->weights_dir ? options->weights_dir : "";
    if (Status s = kimi::Module::load(path, folder, module->module)) {
      return s;
    }
    *out = module.release();
    return {};
  });
}

void kimi_module_free(kimi_module *module) { delete module; }

int32_t kimi_module_entry_count(const kimi_module *module) { return module ? module->module->entryCount() : 0; }

const char *kimi_module_entry_name(const kimi_module *module, int32_t entry) {
  const kimi::fb::Entry *it = findEntry(module, entry);
  return it ? it->name()->c_str() : nullptr;
}

int32_t kimi_module_find_entry(const kimi_module *module, const char *name) {
  return module && name ? module->module->findEntry(name) : -1;
}

int32_t kimi_module_input_count(const kimi_module *module, int32_t entry) {
  const kimi::fb::Entry *it = findEntry(module, entry);
  return it ? portCount(it->inputs()) : 0;
}

int32_t kimi_module_output_count(const kimi_module *module, int32_t entry) {
  const kimi::fb::Entry *it = findEntry(module, entry);
  return it ? portCount(it->outputs()) : 0;
}

kimi_status kimi_module_input(const kimi_module *module, int32_t entry, int32_t index, kimi_port *out) {
  return guarded([&] {
    const kimi::fb::Entry *it = findEntry(module, entry);
    return describePort(module, it ? it->inputs() : nullptr, index, out);
  });
}

kimi_status kimi_module_output(const kimi_module *module, int32_t entry, int32_t index, kimi_port *out) {
  return guarded([&] {
    const kimi::fb::Entry *it = findEntry(module, entry);
    return describePort(module, it ? it->outputs() : nullptr, index, out);
  });
}

int32_t kimi_module_state_count(const kimi_module *module) { return module ? module->module->stateCount() : 0; }

kimi_status kimi_module_state(const kimi_module *module, int32_t index, kimi_state_info *out) {
  return guarded([&]() -> Status {
    if (!out || index < 0 || index >= kimi_module_state_count(module)) {
      return invalidArgument("there is no state " + std::to_string(index));
    }
    const kimi::fb::State &state = *module->module->table().states()->Get(index);
    *out = {};
    out->name = state.name()->c_str();
    out->input = textOrEmpty(state.input());
    out->output = textOrEmpty(state.output());
    out->dtype = static_cast<kimi_dtype>(state.dtype());
    out->rank = static_cast<int32_t>(state.dims()->size());
    out->grows = state.grows();
    for (int32_t axis = 0; axis < out->rank; ++axis) {
      out->dims[axis] = axis == state.grows() ? -1 : state.dims()->Get(axis);
    }
    return {};
  });
}

int64_t kimi_module_max_context(const kimi_module *module) {
  return module ? module->module->table().max_context() : -1;
}

kimi_status kimi_module_describe(const kimi_module *module, char **out) {
  return guarded([&]() -> Status {
    if (!module || !out) {
      return invalidArgument("kimi_module_describe needs a module and a place for the text");
    }
    std::string text = kimi::describe(*module->module);
    *out = static_cast<char *>(std::malloc(text.size() + 1));
    if (!*out) {
      throw std::bad_alloc();
    }
    std::memcpy(*out, text.c_str(), text.size() + 1);
    return {};
  });
}

void kimi_free(void *pointer) { std::free(pointer); }

kimi_status kimi_session_create(const kimi_module *module, const kimi_session_options *options, kimi_session **out) {
  return guarded([&]() -> Status {
    if (!module || !out) {
      return invalidArgument("kimi_session_create needs a module and a place for the session");
    }
    *out = nullptr;
    auto session = std::make_unique<kimi_session>();
    if (Status s =
            kimi::Session::create(*module->module, options ? *options : kimi_session_options{}, session->session)) {
      return s;
    }
    *out = session.release();
    return {};
  });
}

void kimi_session_free(kimi_session *session) { delete session; }

kimi_status kimi_session_output_shapes(kimi_session *session, int32_t entry, const kimi_tensor *inputs,
                                       int32_t input_count, kimi_tensor *outputs, int32_t output_count) {
  return guarded([&] {
    return session ? session->session->outputShapes(entry, inputs, input_count, outputs, output_count)
                   : invalidArgument("there is no session");
  });
}

kimi_status kimi_session_run(kimi_session *session, int32_t entry, const kimi_tensor *inputs, int32_t input_count,
                             kimi_tensor *outputs, int32_t output_count) {
  return guarded([&] {
    return session ? session->session->run(entry, inputs, input_count, outputs, output_count)
                   : invalidArgument("there is no session");
  });
}

kimi_status kimi_session_decode(kimi_session *session, int32_t entry, const int64_t *tokens, int64_t batch,
                                int64_t steps, kimi_token_function on_tokens, void *user) {
  return guarded([&] {
    return session ? session->session->decode(entry, tokens, batch, steps, on_tokens, user)
                   : invalidArgument("there is no session");
  });
}

int32_t kimi_module_can_decode(const kimi_module *module, int32_t entry) {
  return guarded([&]() -> Status {
           if (!findEntry(module, entry)) {
             return invalidArgument("there is no entry " + std::to_string(entry));
           }
           kimi::Executor::TokenPorts ports;
           return kimi::findTokenPorts(module->module->plan(entry), ports);
         }) == KIMI_OK;
}

kimi_status kimi_session_time(kimi_session *session, int32_t entry, const kimi_tensor *inputs, int32_t input_count,
                              int64_t runs, double *seconds) {
  return guarded([&] {
    return session ? session->session->time(entry, inputs, input_count, runs, seconds)
                   : invalidArgument("there is no session");
  });
}

kimi_status kimi_session_profile(kimi_session *session, int32_t entry, const kimi_tensor *inputs, int32_t input_count,
                                 kimi_launch_time *times, int32_t capacity, int32_t *count) {
  return guarded([&]() -> Status {
    if (!session || !count || capacity < 0 || (capacity != 0 && !times)) {
      return invalidArgument("kimi_session_profile needs a session and a place for the times");
    }
    std::vector<kimi_launch_time> all;
    if (Status s = session->session->profile(entry, inputs, input_count, all)) {
      return s;
    }
    std::copy_n(all.begin(), std::min<size_t>(all.size(), static_cast<size_t>(capacity)), times);
    *count = static_cast<int32_t>(all.size());
    return {};
  });
}

const char *kimi_session_device(const kimi_session *session) {
  return session ? session->session->deviceName().c_str() : nullptr;
}

int64_t kimi_session_length(const kimi_session *session) { return session ? session->session->length() : 0; }

int64_t kimi_session_capacity(const kimi_session *session) { return session ? session->session->capacity() : 0; }

kimi_status kimi_session_reset(kimi_session *session) {
  return guarded([&]() -> Status {
    if (!session) {
      return invalidArgument("there is no session");
    }
    return session->session->reset();
  });
}

kimi_status kimi_session_truncate(kimi_session *session, int64_t length, const kimi_snapshot *snapshot) {
  return guarded([&] {
    return session ? session->session->truncate(length, snapshot ? snapshot->snapshot.get() : nullptr)
                   : invalidArgument("there is no session");
  });
}

kimi_status kimi_session_snapshot(kimi_session *session, int32_t kind, kimi_snapshot **out) {
  return guarded([&]() -> Status {
    if (!session || !out) {
      return invalidArgument("kimi_session_snapshot needs a session and a place for the snapshot");
    }
    *out = nullptr;
    if (kind != KIMI_SNAPSHOT_ALL && kind != KIMI_SNAPSHOT_FIXED) {
      return invalidArgument("there is no kind " + std::to_string(kind) + " of snapshots");
    }
    auto snapshot = std::make_unique<kimi_snapshot>();
    if (Status s = session->session->snapshot(kind == KIMI_SNAPSHOT_ALL, snapshot->snapshot)) {
      return s;
    }
    *out = snapshot.release();
    return {};
  });
}

kimi_status kimi_session_restore(kimi_session *session, const kimi_snapshot *snapshot) {
  return guarded([&]() -> Status {
    if (!session || !snapshot) {
      return invalidArgument("kimi_session_restore needs a session and a snapshot");
    }
    return session->session->restore(*snapshot->snapshot);
  });
}

int64_t kimi_snapshot_length(const kimi_snapshot *snapshot) { return snapshot ? snapshot->snapshot->length : 0; }

uint64_t kimi_snapshot_bytes(const kimi_snapshot *snapshot) { return snapshot ? snapshot->snapshot->bytes : 0; }

void kimi_snapshot_free(kimi_snapshot *snapshot) { delete snapshot; }

kimi_status kimi_session_memory(const kimi_session *session, kimi_memory *out) {
  return guarded([&]() -> Status {
    if (!session || !out) {
      return invalidArgument("kimi_session_memory needs a session and a place for the numbers");
    }
    *out = session->session->memory();
    return {};
  });
}

kimi_status kimi_module_memory(const kimi_module *module, kimi_memory *out) {
  return guarded([&]() -> Status {
    if (!module || !out) {
      return invalidArgument("kimi_module_memory needs a module and a place for the numbers");
    }
    *out = module->module->memory();
    return {};
  });
}

kimi_status kimi_module_arena(const kimi_module *module, int32_t entry, const kimi_session_options *options,
                              int64_t length, const kimi_tensor *inputs, int32_t input_count, uint64_t *bytes) {
  return guarded([&]() -> Status {
    if (!module || !bytes || length < 0) {
      return invalidArgument("kimi_module_arena needs a module, a length and a place for the bytes");
    }
    kimi::StateSizes sizes;
    if (Status s = kimi::chooseSizes(module->module->table(), options ? options->max_seq : 0,
                                     options ? options->batch : 0, sizes)) {
      return s;
    }
    return module->module->arenaBytes(entry, inputs, input_count, sizes, length, *bytes);
  });
}

} // extern "C"
