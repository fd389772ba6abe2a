//===- Graphs.h - launches captured once, replayed many times ---------------===//
//
// Part of the Kimi compiler, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef KIMI_RUNTIME_CUDA_GRAPHS_H
#define KIMI_RUNTIME_CUDA_GRAPHS_H

#include "runtime/cuda/LaunchList.h"

#include <list>

namespace kimi::cuda {

/// The launches of an entry as a CUDA graph. Pointers, extents, grids and tensor maps may differ from replay to replay,
/// the kernels may not.
class CapturedGraph {
public:
  /// Captures the launches of `launches` on `stream`, on which nothing runs meanwhile by other threads.
  static Status capture(const CudaDevice &device, const LaunchList &launches, Stream stream, CapturedGraph &out);

  /// Puts the graph in the stream, with the arguments that `launches` has now: only nodes whose arguments differ from
  /// those of the last replay are set.
  Status replay(const CudaDevice &device, const LaunchList &launches, Stream stream);

  explicit operator bool() const { return bool(executable); }

private:
  /// A kernel node and what it was given last.
  struct Node {
    GraphNode node = nullptr;
    size_t item = 0;
    unsigned grid[3] = {};
    int64_t gridExtent = 0;
    std::vector<int64_t> words;
    std::vector<TensorMap> maps;

    bool isCurrent(const LaunchList::Item &item) const;
    void take(const LaunchList::Item &item);
  };

  OwnedGraph graph; // keeps the nodes alive
  OwnedGraphExec executable;
  std::vector<Node> nodes;
};

/// The graphs of a session: one for each entry, shapes of inputs and choice of kernels that came twice. The one that
/// was not used for longest goes when there are too many.
class GraphCache {
public:
  static constexpr size_t maxGraphs = 32;

  /// Runs the launches of `frame`: the first time by themselves, or as a graph that was made of the same kernels for
  /// other shapes (a mask that grows with every step has a new shape each time); from the second time on as a graph of
  /// their own. Runs of different `turn` have graphs of their own, so that one can be changed while another one is on
  /// its way.
  Status run(const CudaDevice &device, const Frame &frame, const LaunchList &launches, Stream stream, int turn);

private:
  struct Known {
    const Plan *plan;
    int turn;
    std::vector<int64_t> shapes;
    std::vector<const LoadedKernel *> kernels;
    CapturedGraph graph;
  };
  /// What is known of these kernels and shapes, or (`anyShape`) a graph of these kernels.
  Known *find(const Frame &frame, const LaunchList &launches, int turn, bool anyShape);

  std::list<Known> known; // the last used first
};

} // namespace kimi::cuda

#endif // KIMI_RUNTIME_CUDA_GRAPHS_H
