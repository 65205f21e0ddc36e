//===- FakeCuda.h - A driver library that records what is asked of it -------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// What the fake driver writes as a tensor map: what it was asked to describe.
struct FakeTensorMap {
  uint64_t address, dimensions[5], strides[4];
  uint32_t box[5];
  int type, rank, swizzle, promotion;
};

/// One launch of a kernel.
struct FakeLaunch {
  unsigned grid, block, shared;
  void *stream;
  bool programmatic;
  friend bool operator==(const FakeLaunch &, const FakeLaunch &) = default;
};

/// The state of the fake driver; a test sets the inputs and reads what happened.
struct FakeCuda {
  // Inputs.
  int version = 13000;
  int devices = 2;
  int major[2] = {9, 8};
  int minor[2] = {0, 0};
  int initResult = 0;
  int loadResult = 0;
  int launchResult = 0;
  int encodeResult = 0;
  int graphResult = 0;   ///< of making a graph
  int capturing = 0;     ///< what cuStreamIsCapturing says
  size_t paramBytes = 0; ///< what cuFuncGetParamInfo says
  // One allocation that pointer queries know.
  uint64_t rangeStart = 0;
  size_t rangeSize = 0;
  int rangeDevice = 0;
  // What happened.
  int loads = 0, unloads = 0, launches = 0, encodes = 0, contextPushes = 0, liveAllocations = 0;
  int graphLaunches = 0, liveGraphs = 0;
  int maxDynamicShared = 0;
  unsigned grid[3] = {}, block[3] = {}, shared = 0;
  void *stream = nullptr;
  void *launchContext = nullptr;
  bool programmatic = false;   ///< whether the last launch may start before the one before has ended
  std::vector<FakeLaunch> all; ///< one after the other
  std::vector<unsigned char> params;
};

/// Exported by the library as "fakeCuda".
extern "C" FakeCuda *fakeCuda();
