//===- LaunchGraph.h - Launching several kernels as one CUDA graph ----------===//
//
// A launch of several kernels costs the host one driver call per kernel. A CUDA graph that is built once and gets new
// parameters for each launch costs less than a single kernel call. On an H100's host, two kernels take 2.7 us as a
// graph and 7 us as two calls; one kernel takes 3.6 us.
//
//     if (!graphs.launch(cuda, kernels, arguments, stream))
//       ...                                                   // start the kernels one by one
//
// CUDA runs two launches of one graph one after the other, also in different streams. Each stream therefore has its own
// graph. Parameters and grids are set again before each launch of a graph, so both may change with every launch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/CudaDriver.h"
#include "runtime/Launcher.h"

#include "attune/Kernel.h"

#include <array>
#include <atomic>
#include <span>

namespace attune {

/// The graphs of one module's kernels. Any number of threads may call `launch` at once; no thread waits for another.
class LaunchGraphs {
public:
  static constexpr size_t capacity = 4; ///< the most streams that can have a graph

  LaunchGraphs();
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs &) = delete;

  /// Launches the kernels one after the other as a graph, all with the same `arguments`. No grid may be empty,
  /// and the kernels' context must be current. Returns false, without any effect, where the caller has to start the
  /// kernels one by one:
  ///   - there is only one kernel, or this is the first launch in the stream,
  ///   - the kernels are not those that the stream's graph was built for,
  ///   - the stream is being captured, which records into the caller's graph,
  ///   - the stream is the per-thread default stream, whose handle means another stream in each thread,
  ///   - another thread is using the stream's graph, or building or launching the graph fails or has failed before,
  ///   - `capacity` other streams have graphs, or the driver is older than CUDA 12.3.
  bool launch(const CudaDriver &driver, std::span<const started_kernel> kernels, void **arguments,
              CudaStreamHandle stream);

private:
  struct Graph {
    std::atomic<CudaStreamHandle> stream; ///< the stream that owns this graph; `unused` while no stream owns it
    std::atomic<bool> busy = false;       ///< a try-lock that guards the fields below
    bool wasChecked = false, fails = false;
    const CudaDriver *cuda = nullptr; ///< the driver that made the handles below
    CudaGraph chain = nullptr;        ///< the linear graph from which `exec` was instantiated; owns `nodes`
    CudaGraphExec exec = nullptr;
    std::array<CudaGraphNode, maxKernels> nodes = {};
    std::array<started_kernel, maxKernels> of = {}; ///< the kernels that the graph was built for
    size_t count = 0;                               ///< number of kernels in `of` and of handles in `nodes`
    bool isOf(std::span<const started_kernel> kernels) const;
  };
  Graph *graphOf(CudaStreamHandle stream);
  static int build(const CudaDriver &driver, std::span<const started_kernel> kernels, void **arguments, Graph &graph);

  CudaStreamHandle unused = this; ///< a handle that no stream can have
  std::array<Graph, capacity> graphs;
};

} // namespace attune
