#include "runtime/LaunchGraph.h"

#include <algorithm>

using namespace attune;

// Enumerators of cuda.h.
static constexpr unsigned char programmaticEdge = 1; // CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
static constexpr unsigned char programmaticPort = 1; // CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
/// CU_STREAM_PER_THREAD. In each thread this handle denotes a different stream.
static const CudaStreamHandle perThreadStream = reinterpret_cast<CudaStreamHandle>(2);

LaunchGraphs::LaunchGraphs() {
  for (Graph &graph : graphs)
    graph.stream = unused;
}

LaunchGraphs::~LaunchGraphs() {
  for (Graph &graph : graphs) {
    if (graph.exec)
      graph.cuda->cuGraphExecDestroy(graph.exec);
    if (graph.chain)
      graph.cuda->cuGraphDestroy(graph.chain);
  }
}

LaunchGraphs::Graph *LaunchGraphs::graphOf(CudaStreamHandle stream) {
  for (Graph &graph : graphs) {
    CudaStreamHandle held = unused;
    if (graph.stream.load(std::memory_order_acquire) == stream || graph.stream.compare_exchange_strong(held, stream) ||
        held == stream)
      return &graph;
  }
  return nullptr;
}

bool LaunchGraphs::Graph::isOf(std::span<const started_kernel> kernels) const {
  return std::ranges::equal(kernels, std::span(of.data(), count), [](const started_kernel &a, const started_kernel &b) {
    return a.function == b.function && a.overlaps == b.overlaps;
  });
}

static CudaKernelNode nodeOf(const started_kernel &kernel, void **arguments) {
  return {.function = kernel.function,
          .grid = {kernel.blocks, 1, 1},
          .block = {kernel.threads, 1, 1},
          .sharedBytes = kernel.shared_bytes,
          .arguments = arguments};
}

/// Builds and instantiates a linear graph: each kernel depends on the one before it.
int LaunchGraphs::build(const CudaDriver &driver, std::span<const started_kernel> kernels, void **arguments,
                        Graph &graph) {
  std::ranges::copy(kernels, graph.of.begin());
  graph.count = kernels.size();
  int code = driver.cuGraphCreate(&graph.chain, 0);
  for (size_t i = 0; i < kernels.size() && code == 0; ++i) {
    CudaNodeParams params = {.kernel = nodeOf(kernels[i], arguments)};
    CudaEdge edge;
    if (kernels[i].overlaps)
      edge = {.fromPort = programmaticPort, .type = programmaticEdge};
    code = driver.cuGraphAddNode(&graph.nodes[i], graph.chain, i ? &graph.nodes[i - 1] : nullptr, i ? &edge : nullptr,
                                 i > 0, &params);
  }
  return code == 0 ? driver.cuGraphInstantiate(&graph.exec, graph.chain, 0) : code;
}

bool LaunchGraphs::launch(const CudaDriver &driver, std::span<const started_kernel> kernels, void **arguments,
                          CudaStreamHandle stream) {
  int capturing = 0;
  if (kernels.size() < 2 || stream == perThreadStream || !driver.launchesGraphs() ||
      driver.cuStreamIsCapturing(stream, &capturing) != 0 || capturing)
    return false;
  Graph *graph = graphOf(stream);
  if (!graph || graph->busy.exchange(true, std::memory_order_acquire))
    return false;
  bool started = false;
  if (!graph->wasChecked) {
    graph->wasChecked = true;
  } else if (!graph->fails && (!graph->exec || graph->isOf(kernels))) {
    int code = 0;
    if (!graph->exec) {
      RelaxedCapture relaxed(driver);
      graph->cuda = &driver;
      code = build(driver, kernels, arguments, *graph);
    } else {
      for (size_t i = 0; i < kernels.size() && code == 0; ++i) {
        const CudaKernelNode node = nodeOf(kernels[i], arguments);
        code = driver.cuGraphExecKernelNodeSetParams(graph->exec, graph->nodes[i], &node);
      }
    }
    if (code == 0)
      code = driver.cuGraphLaunch(graph->exec, stream);
    // The error is not reported here: the caller then launches the kernels one by one, and any error of the kernels
    // themselves is reported by those launches.
    graph->fails = code != 0;
    started = code == 0;
  }
  graph->busy.store(false, std::memory_order_release);
  return started;
}
