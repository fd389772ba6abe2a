//===- Graphs.cpp - launches captured once, replayed many times -------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/Graphs.h"

#include <algorithm>
#include <cstring>

namespace kimi::cuda {
namespace {

size_t mapCount(const LaunchList::Item &item) {
  const auto *maps = item.kernel->record->tensor_maps();
  return maps ? maps->size() : 0;
}

/// The node that the last launch on a capturing stream became: the only thing the next one would wait for.
Status lastNode(const Driver &driver, Stream stream, GraphNode &out) {
  CaptureStatus status = CaptureNone;
  uint64_t id = 0;
  Graph graph = nullptr;
  const GraphNode *nodes = nullptr;
  const GraphEdgeData *edges = nullptr;
  size_t count = 0;
  Result result = driver.streamGetCaptureInfoEdges
                      ? driver.streamGetCaptureInfoEdges(stream, &status, &id, &graph, &nodes, &edges, &count)
                      : driver.streamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &count);
  if (Status s = driver.check(result, "capture")) {
    return s;
  }
  if (status != CaptureActive || count != 1) {
    return {KIMI_RUNTIME_ERROR, "capture: the driver shows " + std::to_string(count) + " nodes after a launch"};
  }
  out = nodes[0];
  return {};
}

} // namespace

bool CapturedGraph::Node::isCurrent(const LaunchList::Item &item) const {
  return grid[0] == item.gridX && grid[1] == item.gridY && grid[2] == item.gridZ && gridExtent == item.gridExtent &&
         std::equal(words.begin(), words.end(), item.words) &&
         (maps.empty() || std::memcmp(maps.data(), item.maps.data(), maps.size() * sizeof(TensorMap)) == 0);
}

void CapturedGraph::Node::take(const LaunchList::Item &item) {
  grid[0] = item.gridX;
  grid[1] = item.gridY;
  grid[2] = item.gridZ;
  gridExtent = item.gridExtent;
  words.assign(item.words, item.words + item.wordCount);
  maps.assign(item.maps.begin(), item.maps.begin() + static_cast<ptrdiff_t>(mapCount(item)));
}

Status CapturedGraph::capture(const CudaDevice &device, const LaunchList &launches, Stream stream, CapturedGraph &out) {
  const Driver &driver = device.driver();
  CapturedGraph captured;
  if (Status s = driver.check(driver.streamBeginCapture(stream, CaptureThreadLocal), "capture")) {
    return s;
  }
  Status status;
  for (const LaunchList::Item &item : launches.items()) {
    if (!item.kernel) {
      continue;
    }
    Node node;
    node.item = item.launch;
    node.take(item);
    status = launches.launch(item, stream);
    if (!status) {
      status = lastNode(driver, stream, node.node);
    }
    if (status) {
      break;
    }
    captured.nodes.push_back(std::move(node));
  }
  Graph graph = nullptr; // the capture must end whatever has happened
  Result result = driver.streamEndCapture(stream, &graph);
  if (graph) {
    captured.graph = {device, graph};
  }
  if (status) {
    return status;
  }
  if (Status s = driver.check(result, "capture")) {
    return s;
  }
  GraphExec executable = nullptr;
  if (Status s = driver.check(driver.graphInstantiate(&executable, graph, 0), "cannot make a graph of the launches")) {
    return s;
  }
  captured.executable = {device, executable};
  out = std::move(captured);
  return {};
}

Status CapturedGraph::replay(const CudaDevice &device, const LaunchList &launches, Stream stream) {
  const Driver &driver = device.driver();
  for (Node &node : nodes) {
    const LaunchList::Item &item = launches.items()[node.item];
    if (node.isCurrent(item)) {
      continue;
    }
    const fb::Kernel &record = *item.kernel->record;
    KernelNodeParams params = {};
    params.function = item.kernel->function;
    params.gridX = item.gridX;
    params.gridY = item.gridY;
    params.gridZ = item.gridZ;
    params.blockX = static_cast<unsigned>(record.threads());
    params.blockY = params.blockZ = 1;
    params.sharedBytes = static_cast<unsigned>(record.shared_bytes());
    params.parameters = const_cast<void **>(item.parameters.data());
    Result result = driver.graphExecKernelNodeSetParams(executable.get(), node.node, &params);
    if (result != Success) {
      return driver.check(result, launches.place(item));
    }
    node.take(item);
  }
  return driver.check(driver.graphLaunch(executable.get(), stream), "cannot launch the graph");
}

GraphCache::Known *GraphCache::find(const Frame &frame, const LaunchList &launches, int turn, bool anyShape) {
  const std::vector<LaunchList::Item> &items = launches.items();
  for (auto it = known.begin(); it != known.end(); ++it) {
    bool fits = anyShape ? bool(it->graph) : it->shapes == frame.shapes();
    bool isSame =
        fits && it->plan == &frame.layout() && it->turn == turn &&
        std::equal(items.begin(), items.end(), it->kernels.begin(), it->kernels.end(),
                   [](const LaunchList::Item &item, const LoadedKernel *kernel) { return item.kernel == kernel; });
    if (isSame) {
      known.splice(known.begin(), known, it);
      return &known.front();
    }
  }
  return nullptr;
}

Status GraphCache::run(const CudaDevice &device, const Frame &frame, const LaunchList &launches, Stream stream,
                       int turn) {
  auto replay = [&](Known &found) {
    Status status = found.graph.replay(device, launches, stream);
    return status ? Status(status.code(), frame.place() + ": " + status.message()) : Status();
  };
  if (Known *found = find(frame, launches, turn, /*anyShape=*/false)) {
    if (!found->graph) {
      if (Status s = CapturedGraph::capture(device, launches, stream, found->graph)) {
        return {s.code(), frame.place() + ": " + s.message()};
      }
    }
    return replay(*found);
  }
  // A graph of the same kernels for other shapes takes the arguments of this one.
  Known *other = find(frame, launches, turn, /*anyShape=*/true);
  Known fresh{&frame.layout(), turn, frame.shapes(), {}, {}};
  for (const LaunchList::Item &item : launches.items()) {
    fresh.kernels.push_back(item.kernel);
  }
  if (known.size() == maxGraphs) {
    known.pop_back();
  }
  known.push_front(std::move(fresh));
  if (other) {
    return replay(*other);
  }
  for (const LaunchList::Item &item : launches.items()) {
    if (item.kernel) {
      if (Status s = launches.launch(item, stream)) {
        return s;
      }
    }
  }
  return {};
}

} // namespace kimi::cuda
