//===- FakeCuda.cpp - a CUDA driver without a GPU ---------------------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "FakeCuda.h"
#include "runtime/cuda/DriverTypes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <functional>
#include <memory>
#include <set>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace kimi::cuda;

namespace {

using KernelFunction = void (*)(const int64_t *args, int64_t x, int64_t y, int64_t z);
constexpr int invalidContext = 201, invalidHandle = 400, launchFailed = 719;

FakeCuda state;

struct FakeModule {
  void *library;
};
struct FakeFunction {
  std::string name;
  KernelFunction code;
  int words, maps;
  bool tasks;
};
struct FakeNode {
  FakeFunction *function;
  FakeCuda::Launch launch;
};
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};
struct FakeExec {
  FakeGraph *graph;
  std::vector<FakeNode> nodes;
};
struct FakeStream {
  std::vector<std::function<void()>> queue;
  double clock = 0; // milliseconds
  int error = 0;    // of what ran; sticks
  FakeGraph *capture = nullptr;
  const GraphNode *last = nullptr;
  GraphNode lastHandle = nullptr;
};
struct FakeEvent {
  FakeStream *stream = nullptr;
  double time = 0;
  bool timed;
};

std::set<FakeModule *> modules;
std::set<FakeGraph *> graphs;
std::set<FakeExec *> executables;
std::set<FakeStream *> streams;
std::set<FakeEvent *> events;
std::map<char *, size_t> deviceMemory, pinnedMemory;
std::vector<std::unique_ptr<FakeFunction>> functions;
int contexts = 0; // retained
int context;      // its address is the context
thread_local int current = 0;

template <typename To, typename From>
To handle(From *object) {
  return reinterpret_cast<To>(object);
}

void complain(const std::string &what) { state.misuse.push_back(what); }

/// Counts a call; the result that it must give at once, or Success.
Result enter(const char *name, bool needsContext = true) {
  int call = state.calls[name]++;
  if (state.failing == name && state.failingCall == call) {
    return Result(state.failure);
  }
  if (needsContext && current == 0) {
    complain(std::string(name) + " without a context");
    return Result(invalidContext);
  }
  return Success;
}

#define ENTER(name, ...)                                                                                               \
  if (Result result = enter(name, ##__VA_ARGS__)) {                                                                    \
    return result;                                                                                                     \
  }

template <typename T>
bool known(const std::set<T *> &set, const void *object, const char *what) {
  bool found = set.count(static_cast<T *>(const_cast<void *>(object))) != 0;
  if (!found) {
    complain(std::string("unknown ") + what);
  }
  return found;
}

bool isWithin(const std::map<char *, size_t> &blocks, const void *pointer, size_t size) {
  const char *begin = static_cast<const char *>(pointer);
  auto it = blocks.upper_bound(const_cast<char *>(begin));
  return it != blocks.begin() && begin + size <= std::prev(it)->first + std::prev(it)->second;
}

void flush(FakeStream *stream) {
  std::vector<std::function<void()>> queue = std::move(stream->queue);
  stream->queue.clear();
  for (auto &action : queue) {
    if (stream->error == 0) {
      action();
    }
  }
}

void runKernel(FakeStream *stream, const FakeNode &node) {
  const FakeCuda::Launch &launch = node.launch;
  state.launches.push_back(launch);
  stream->clock += 1;
  if (launch.kernel == state.brokenKernel) {
    stream->error = launchFailed;
    return;
  }
  for (int64_t z = 0; z < launch.grid[2]; ++z) {
    for (int64_t y = 0; y < launch.grid[1]; ++y) {
      for (int64_t block = 0; block < launch.grid[0]; ++block) {
        for (int64_t thread = 0; thread < (node.function->tasks ? int64_t(launch.block) : 1); ++thread) {
          int64_t x = node.function->tasks ? block * launch.block + thread : block;
          if (x < launch.gridExtent) {
            node.function->code(launch.words.data(), x, y, z);
          }
        }
      }
    }
  }
}

FakeNode makeNode(Function function, const unsigned *grid, unsigned block, unsigned shared, void **parameters,
                  bool pdl) {
  auto *code = reinterpret_cast<FakeFunction *>(function);
  FakeNode node{code, {code->name, {grid[0], grid[1], grid[2]}, block, shared, pdl, false, {}, 0, {}}};
  for (int i = 0; i < code->words; ++i) {
    node.launch.words.push_back(*static_cast<int64_t *>(parameters[i]));
  }
  node.launch.gridExtent = *static_cast<int64_t *>(parameters[code->words]);
  for (int i = 0; i < code->maps; ++i) {
    const auto *map = static_cast<const TensorMap *>(parameters[code->words + 1 + i]);
    node.launch.maps.emplace_back(map->opaque, map->opaque + 16);
  }
  return node;
}

} // namespace

std::map<std::string, int> FakeCuda::live() const {
  std::map<std::string, int> out;
  auto count = [&](const char *what, size_t n) {
    if (n != 0) {
      out[what] = static_cast<int>(n);
    }
  };
  count("modules", modules.size());
  count("graphs", graphs.size());
  count("executable graphs", executables.size());
  count("streams", streams.size());
  count("events", events.size());
  count("device memory", deviceMemory.size());
  count("pinned memory", pinnedMemory.size());
  count("contexts", static_cast<size_t>(contexts));
  count("current contexts", static_cast<size_t>(current));
  return out;
}

void FakeCuda::reset() {
  *this = FakeCuda();
  functions.clear();
}

extern "C" {

FakeCuda *fakeCuda() { return &state; }

Result cuDriverGetVersion(int *version) {
  *version = state.version;
  return Success;
}

Result cuInit(unsigned) { return enter("cuInit", false); }

Result cuGetErrorName(Result result, const char **out) {
  static const std::map<int, const char *> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {100, "CUDA_ERROR_NO_DEVICE"},
                                                    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                    {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto it = names.find(result);
  *out = it == names.end() ? nullptr : it->second;
  return it == names.end() ? InvalidValue : Success;
}

Result cuGetErrorString(Result, const char **out) {
  *out = "what the fake driver says";
  return Success;
}

Result cuDeviceGetCount(int *out) {
  ENTER("cuDeviceGetCount", false);
  *out = state.devices;
  return Success;
}

Result cuDeviceGet(Device *out, int ordinal) {
  ENTER("cuDeviceGet", false);
  *out = ordinal;
  return ordinal < state.devices ? Success : InvalidDevice;
}

Result cuDeviceGetName(char *name, int length, Device) {
  ENTER("cuDeviceGetName", false);
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return Success;
}

Result cuDeviceTotalMem(size_t *out, Device) {
  ENTER("cuDeviceTotalMem", false);
  *out = state.memory;
  return Success;
}

Result cuDeviceGetAttribute(int *out, DeviceAttribute attribute, Device) {
  ENTER("cuDeviceGetAttribute", false);
  switch (attribute) {
  case ComputeCapabilityMajor:
    *out = state.major;
    return Success;
  case ComputeCapabilityMinor:
    *out = state.minor;
    return Success;
  case MaxSharedMemoryPerBlockOptin:
    *out = 232448;
    return Success;
  default:
    *out = 1000;
    return Success;
  }
}

Result cuDevicePrimaryCtxRetain(Context *out, Device) {
  ENTER("cuDevicePrimaryCtxRetain", false);
  ++contexts;
  *out = handle<Context>(&context);
  return Success;
}

Result cuDevicePrimaryCtxRelease(Device) {
  --contexts;
  return Success;
}

Result cuCtxPushCurrent(Context pushed) {
  if (pushed != handle<Context>(&context) || contexts == 0) {
    complain("an unknown context");
  }
  ++current;
  return Success;
}

Result cuCtxPopCurrent(Context *out) {
  *out = handle<Context>(&context);
  --current;
  return Success;
}

Result cuModuleLoadDataEx(CodeModule *out, const void *image, unsigned count, JitOption *options, void **values) {
  ENTER("cuModuleLoadDataEx");
  const auto *header = static_cast<const Elf64_Ehdr *>(image);
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) {
    void *library = dlopen(KIMI_TEST_KERNELS, RTLD_NOW | RTLD_LOCAL);
    *out = handle<CodeModule>(*modules.insert(new FakeModule{library}).first);
    return library ? Success : InvalidPtx;
  }
  if (state.refusesCubins) {
    if (count == 2 && options[0] == JitErrorLogBuffer) {
      std::strcpy(static_cast<char *>(values[0]), "a line from the assembler\nanother one");
    }
    return NoBinaryForGpu;
  }
  size_t size = header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;
  int file = memfd_create("fake-cubin", MFD_CLOEXEC);
  bool written = write(file, image, size) == static_cast<ssize_t>(size);
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  close(file);
  if (!library) {
    return InvalidImage;
  }
  *out = handle<CodeModule>(*modules.insert(new FakeModule{library}).first);
  return Success;
}

Result cuModuleUnload(CodeModule module) {
  if (known(modules, module, "module")) {
    auto *it = reinterpret_cast<FakeModule *>(module);
    modules.erase(it);
    delete it; // the library stays: its kernels may still be in a queue
  }
  return Success;
}

Result cuModuleGetFunction(Function *out, CodeModule module, const char *name) {
  ENTER("cuModuleGetFunction");
  void *library = reinterpret_cast<FakeModule *>(module)->library;
  auto constant = [&](const char *suffix) {
    const auto *value = static_cast<const int *>(dlsym(library, (std::string(name) + suffix).c_str()));
    return value ? *value : 0;
  };
  void *code = dlsym(library, name);
  if (!code) {
    return NotFound;
  }
  functions.push_back(
      std::make_unique<FakeFunction>(FakeFunction{name, reinterpret_cast<KernelFunction>(code), constant("_parameters"),
                                                  constant("_maps"), constant("_tasks") != 0}));
  *out = handle<Function>(functions.back().get());
  return Success;
}

Result cuFuncGetAttribute(int *out, FunctionAttribute attribute, Function) {
  ENTER("cuFuncGetAttribute");
  *out = attribute == FunctionMaxThreadsPerBlock ? state.maxThreads : 0;
  return Success;
}

Result cuFuncSetAttribute(Function, FunctionAttribute, int) { return enter("cuFuncSetAttribute"); }

Result cuFuncGetParamInfo(Function function, size_t index, size_t *offset, size_t *size) {
  const auto *it = reinterpret_cast<FakeFunction *>(function);
  size_t words = static_cast<size_t>(it->words) + 1;
  *offset = index < words ? 8 * index : (8 * words + 63) / 64 * 64 + 128 * (index - words);
  *size = index < words ? 8 : 128;
  return index < words + static_cast<size_t>(it->maps) ? Success : InvalidValue;
}

Result cuMemGetInfo(size_t *free, size_t *total) {
  ENTER("cuMemGetInfo");
  size_t used = 0;
  for (const auto &[pointer, size] : deviceMemory) {
    used += size;
  }
  *total = state.memory;
  *free = state.memory - used;
  return Success;
}

Result cuMemAlloc(DevicePointer *out, size_t size) {
  ENTER("cuMemAlloc");
  size_t used = size;
  for (const auto &[pointer, bytes] : deviceMemory) {
    used += bytes;
  }
  if (used > state.memory) {
    return OutOfMemory;
  }
  auto *pointer = static_cast<char *>(std::aligned_alloc(256, (size + 255) / 256 * 256));
  std::memset(pointer, 0xff, size); // NaN: what nobody wrote shows
  deviceMemory[pointer] = size;
  *out = reinterpret_cast<DevicePointer>(pointer);
  return Success;
}

Result cuMemFree(DevicePointer address) {
  auto *pointer = reinterpret_cast<char *>(address);
  for (FakeStream *stream : streams) {
    flush(stream);
  }
  if (deviceMemory.erase(pointer) == 0) {
    complain("freed memory that is not the device's");
    return InvalidValue;
  }
  std::free(pointer);
  return Success;
}

Result cuMemHostAlloc(void **out, size_t size, unsigned) {
  ENTER("cuMemHostAlloc");
  *out = std::malloc(size);
  pinnedMemory[static_cast<char *>(*out)] = size;
  return Success;
}

Result cuMemFreeHost(void *pointer) {
  if (pinnedMemory.erase(static_cast<char *>(pointer)) == 0) {
    complain("freed memory that is not pinned");
    return InvalidValue;
  }
  std::free(pointer);
  return Success;
}

Result cuMemcpyHtoDAsync(DevicePointer to, const void *from, size_t size, Stream stream) {
  ENTER("cuMemcpyHtoDAsync");
  if (!known(streams, stream, "stream") || !isWithin(deviceMemory, reinterpret_cast<void *>(to), size)) {
    complain("a copy to memory that is not the device's");
    return InvalidValue;
  }
  auto *target = reinterpret_cast<char *>(to);
  auto &queue = reinterpret_cast<FakeStream *>(stream)->queue;
  if (isWithin(pinnedMemory, from, size)) {
    queue.push_back([=] { std::memcpy(target, from, size); });
  } else { // pageable memory is read before the call returns
    queue.push_back([target, bytes = std::string(static_cast<const char *>(from), size)] {
      std::memcpy(target, bytes.data(), bytes.size());
    });
  }
  return Success;
}

Result cuMemcpyDtoHAsync(void *to, DevicePointer from, size_t size, Stream stream) {
  ENTER("cuMemcpyDtoHAsync");
  const void *source = reinterpret_cast<void *>(from);
  if (!known(streams, stream, "stream") || !isWithin(deviceMemory, source, size)) {
    complain("a copy from memory that is not the device's");
    return InvalidValue;
  }
  reinterpret_cast<FakeStream *>(stream)->queue.push_back([=] { std::memcpy(to, source, size); });
  return Success;
}

Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t size, Stream stream) {
  ENTER("cuMemsetD8Async");
  auto *target = reinterpret_cast<char *>(to);
  if (!known(streams, stream, "stream") || !isWithin(deviceMemory, target, size)) {
    complain("a fill of memory that is not the device's");
    return InvalidValue;
  }
  reinterpret_cast<FakeStream *>(stream)->queue.push_back([=] { std::memset(target, value, size); });
  return Success;
}

Result cuStreamCreate(Stream *out, unsigned) {
  ENTER("cuStreamCreate");
  *out = handle<Stream>(*streams.insert(new FakeStream()).first);
  return Success;
}

Result cuStreamDestroy(Stream stream) {
  if (known(streams, stream, "stream")) {
    auto *it = reinterpret_cast<FakeStream *>(stream);
    flush(it);
    streams.erase(it);
    delete it;
  }
  return Success;
}

Result cuStreamSynchronize(Stream stream) {
  ENTER("cuStreamSynchronize");
  if (!known(streams, stream, "stream")) {
    return Result(invalidHandle);
  }
  auto *it = reinterpret_cast<FakeStream *>(stream);
  if (it->capture) {
    complain("waited for a stream that captures");
  }
  flush(it);
  return Result(it->error);
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  ENTER("cuStreamWaitEvent");
  auto *it = reinterpret_cast<FakeEvent *>(event);
  if (!known(streams, stream, "stream") || !known(events, event, "event") || !it->stream) {
    return Result(invalidHandle);
  }
  // Runs all that the other stream has by then: more than must have run, and as much as may have.
  FakeStream *other = it->stream;
  reinterpret_cast<FakeStream *>(stream)->queue.push_back([=] {
    if (streams.count(other)) {
      flush(other);
    }
  });
  return Success;
}

Result cuStreamBeginCapture(Stream stream, CaptureMode) {
  ENTER("cuStreamBeginCapture");
  reinterpret_cast<FakeStream *>(stream)->capture = *graphs.insert(new FakeGraph()).first;
  return Success;
}

Result cuStreamEndCapture(Stream stream, Graph *out) {
  auto *it = reinterpret_cast<FakeStream *>(stream);
  FakeGraph *graph = std::exchange(it->capture, nullptr);
  if (!graph) {
    complain("ended a capture that never began");
    return InvalidValue;
  }
  if (Result result = enter("cuStreamEndCapture")) {
    graphs.erase(graph);
    delete graph;
    *out = nullptr;
    return result;
  }
  *out = handle<Graph>(graph);
  return Success;
}

Result cuStreamGetCaptureInfo_v2(Stream stream, CaptureStatus *status, uint64_t *id, Graph *graph,
                                 const GraphNode **nodes, size_t *count) {
  ENTER("cuStreamGetCaptureInfo");
  auto *it = reinterpret_cast<FakeStream *>(stream);
  *status = it->capture ? CaptureActive : CaptureNone;
  *id = 1;
  *graph = handle<Graph>(it->capture);
  *count = it->capture && !it->capture->nodes.empty() ? 1 : 0;
  it->lastHandle = *count ? handle<GraphNode>(it->capture->nodes.back().get()) : nullptr;
  *nodes = &it->lastHandle;
  return Success;
}

Result cuStreamGetCaptureInfo_v3(Stream stream, CaptureStatus *status, uint64_t *id, Graph *graph,
                                 const GraphNode **nodes, const GraphEdgeData **edges, size_t *count) {
  *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}

Result cuEventCreate(Event *out, unsigned flags) {
  ENTER("cuEventCreate");
  auto *event = new FakeEvent();
  event->timed = (flags & EventDisableTiming) == 0;
  *out = handle<Event>(*events.insert(event).first);
  return Success;
}

Result cuEventDestroy(Event event) {
  if (known(events, event, "event")) {
    auto *it = reinterpret_cast<FakeEvent *>(event);
    if (it->stream && streams.count(it->stream)) {
      flush(it->stream);
    }
    events.erase(it);
    delete it;
  }
  return Success;
}

Result cuEventRecord(Event event, Stream stream) {
  ENTER("cuEventRecord");
  if (!known(events, event, "event") || !known(streams, stream, "stream")) {
    return Result(invalidHandle);
  }
  auto *it = reinterpret_cast<FakeEvent *>(event);
  it->stream = reinterpret_cast<FakeStream *>(stream);
  it->stream->queue.push_back([it] { it->time = it->stream->clock; });
  return Success;
}

Result cuEventSynchronize(Event event) {
  ENTER("cuEventSynchronize");
  auto *it = reinterpret_cast<FakeEvent *>(event);
  if (!known(events, event, "event") || !it->stream) {
    return Result(invalidHandle);
  }
  flush(it->stream);
  return Result(it->stream->error);
}

Result cuEventElapsedTime(float *out, Event from, Event to) {
  ENTER("cuEventElapsedTime");
  const auto *a = reinterpret_cast<FakeEvent *>(from), *b = reinterpret_cast<FakeEvent *>(to);
  if (!a->timed || !b->timed) {
    return Result(invalidHandle);
  }
  *out = static_cast<float>(b->time - a->time);
  return Success;
}

Result cuLaunchKernelEx(const LaunchConfig *config, Function function, void **parameters, void **) {
  ENTER("cuLaunchKernelEx");
  auto *stream = reinterpret_cast<FakeStream *>(config->stream);
  if (!known(streams, config->stream, "stream")) {
    return Result(invalidHandle);
  }
  const unsigned grid[] = {config->gridX, config->gridY, config->gridZ};
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[1] > 65535 || grid[2] > 65535 || config->blockX > 1024) {
    return InvalidValue;
  }
  bool pdl = config->attributeCount == 1 && config->attributes[0].id == ProgrammaticStreamSerialization &&
             config->attributes[0].value.programmaticStreamSerializationAllowed == 1;
  FakeNode node = makeNode(function, grid, config->blockX, config->sharedBytes, parameters, pdl);
  if (stream->capture) {
    node.launch.fromGraph = true;
    stream->capture->nodes.push_back(std::make_unique<FakeNode>(std::move(node)));
  } else {
    stream->queue.push_back([=] { runKernel(stream, node); });
  }
  return Success;
}

Result cuLaunchHostFunc(Stream stream, void (*function)(void *), void *data) {
  ENTER("cuLaunchHostFunc");
  reinterpret_cast<FakeStream *>(stream)->queue.push_back([=] { function(data); });
  return Success;
}

Result cuGraphInstantiateWithFlags(GraphExec *out, Graph graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags");
  auto *it = reinterpret_cast<FakeGraph *>(graph);
  if (!known(graphs, graph, "graph")) {
    return Result(invalidHandle);
  }
  auto *executable = new FakeExec{it, {}};
  for (const auto &node : it->nodes) {
    executable->nodes.push_back(*node);
  }
  *out = handle<GraphExec>(*executables.insert(executable).first);
  return Success;
}

Result cuGraphDestroy(Graph graph) {
  if (known(graphs, graph, "graph")) {
    auto *it = reinterpret_cast<FakeGraph *>(graph);
    graphs.erase(it);
    delete it;
  }
  return Success;
}

Result cuGraphExecDestroy(GraphExec executable) {
  if (known(executables, executable, "executable graph")) {
    auto *it = reinterpret_cast<FakeExec *>(executable);
    executables.erase(it);
    delete it;
  }
  return Success;
}

Result cuGraphExecKernelNodeSetParams(GraphExec executable, GraphNode node, const KernelNodeParams *params) {
  ENTER("cuGraphExecKernelNodeSetParams");
  auto *it = reinterpret_cast<FakeExec *>(executable);
  if (!known(executables, executable, "executable graph") || !known(graphs, it->graph, "graph")) {
    return Result(invalidHandle);
  }
  for (size_t i = 0; i < it->nodes.size(); ++i) {
    if (handle<GraphNode>(it->graph->nodes[i].get()) == node) {
      if (reinterpret_cast<FakeFunction *>(params->function) != it->nodes[i].function) {
        complain("a graph node was given another kernel");
      }
      const unsigned grid[] = {params->gridX, params->gridY, params->gridZ};
      bool pdl = it->nodes[i].launch.pdl;
      it->nodes[i] = makeNode(params->function, grid, params->blockX, params->sharedBytes, params->parameters, pdl);
      it->nodes[i].launch.fromGraph = true;
      return Success;
    }
  }
  complain("an unknown graph node");
  return InvalidValue;
}

Result cuGraphLaunch(GraphExec executable, Stream stream) {
  ENTER("cuGraphLaunch");
  if (!known(executables, executable, "executable graph") || !known(streams, stream, "stream")) {
    return Result(invalidHandle);
  }
  auto *to = reinterpret_cast<FakeStream *>(stream);
  for (const FakeNode &node : reinterpret_cast<FakeExec *>(executable)->nodes) {
    to->queue.push_back([=] {
      if (to->error == 0) {
        runKernel(to, node);
      }
    });
  }
  return Success;
}

/// A map of the fake: address; rank, swizzle and type; then extents, strides and box, five words each (box in pairs).
Result cuTensorMapEncodeTiled(TensorMap *out, TensorMapDataType type, uint32_t rank, void *address,
                              const uint64_t *extents, const uint64_t *strides, const uint32_t *box, const uint32_t *,
                              TensorMapInterleave, TensorMapSwizzle swizzle, TensorMapPromotion, TensorMapFill) {
  ENTER("cuTensorMapEncodeTiled", false);
  std::memset(out, 0, sizeof(*out));
  out->opaque[0] = reinterpret_cast<uint64_t>(address);
  out->opaque[1] = rank | uint64_t(swizzle) << 8 | uint64_t(type) << 16;
  for (uint32_t i = 0; i < rank; ++i) {
    out->opaque[2 + i] = extents[i];
    out->opaque[7 + i] = i == 0 ? 0 : strides[i - 1];
    out->opaque[12 + i / 2] |= uint64_t(box[i]) << (i % 2 * 32);
  }
  return Success;
}

Result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t, ProcAddressStatus *status) {
  std::string symbol = name;
  if (symbol == "cuStreamGetCaptureInfo") {
    symbol += version >= 12030 ? "_v3" : "_v2";
  }
  static void *self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&fakeCuda), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  *out = version <= state.version ? dlsym(self, symbol.c_str()) : nullptr;
  *status = *out ? ProcFound : version <= state.version ? ProcNotFound : ProcVersionNotSufficient;
  return *out ? Success : NotFound;
}

} // extern "C"
