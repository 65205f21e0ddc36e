//===- LaunchGraph.h - Several kernels in one submission --------------------===//
//
// A launch of several kernels costs the host a driver call for each. As a graph that is made once and whose nodes get
// new parameters, they cost less than one call: 2.7 us against 7 of two kernels, where one takes 3.6 (an H100's host).
//
//     if (!graphs.launch(cuda, kernels, arguments, stream))
//       ...                                                   // start them one by one
//
// A graph runs after its own last launch, and so belongs to one stream. Parameters are read by the call, so that they may
// change with every launch, grids among them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/CudaDriver.h"

#include "attune/Kernel.h"

#include <array>
#include <atomic>
#include <span>

namespace attune {

/// A kernel of a launch.
struct StartedKernel {
  CudaFunction function = nullptr;
  unsigned blocks = 0, threads = 0, sharedBytes = 0;
  bool overlapsLast = false; ///< may start before the one in front of it has ended
};

/// The graphs of one module's kernels. Any number of threads may call `launch` at once: none waits.
class LaunchGraphs {
public:
  static constexpr size_t capacity = 4; ///< streams that have a graph

  LaunchGraphs();
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs &) = delete;

  /// Starts the kernels, of which each has blocks, one after the other, with the same arguments, which `arguments` points to,
  /// in their context, which is current. Gives false, without an effect, where they are to be started one by one: a single
  /// kernel; the first launch in a stream; others than those of the stream's graph; a stream under capture, which makes
  /// its own graph; the stream of each thread, whose handle names several; a graph that another thread is about to launch,
  /// or that has failed; more streams than `capacity`; a driver before 12.3.
  bool launch(const CudaDriver &driver, std::span<const StartedKernel> kernels, void **arguments,
              CudaStreamHandle stream);

private:
  struct Graph {
    std::atomic<CudaStreamHandle> stream; ///< `unused` of none
    std::atomic<bool> busy = false;       ///< guards the rest
    bool wasChecked = false, fails = false;
    const CudaDriver *cuda = nullptr; ///< that made the rest
    CudaGraph chain = nullptr;        ///< by whose nodes those of `exec` are named
    CudaGraphExec exec = nullptr;
    std::array<CudaGraphNode, maxKernels> nodes = {};
    std::array<StartedKernel, maxKernels> of = {}; ///< those that it was made for
    size_t count = 0;                              ///< of them
    bool isOf(std::span<const StartedKernel> kernels) const;
  };
  Graph *graphOf(CudaStreamHandle stream);
  static int build(const CudaDriver &driver, std::span<const StartedKernel> kernels, void **arguments, Graph &graph);

  CudaStreamHandle unused = this; ///< the address of no stream
  std::array<Graph, capacity> graphs;
};

} // namespace attune
