//===- ProgramCalibration.h - Fitted constants of the prediction of programs --------------===//
//
// passes/tile/KernelCost.h counts what a kernel does and predicts its time from the rates in ArchInfo and from these
// constants. Rates come from data sheets; constants are fitted to measured times:
//
//     attune tune linear.mlir --extents b=8,h=16,q=8192,k=8192 --candidates 1000 --budget 120 --times linear.json
//     attune-fit-cost linear.json ... --held-out retention.json ...                     prints an initialiser
//
// The initialiser goes to arch/ArchInfo.cpp, with the line of comment that says what it was fitted to.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace attune {

/// Each field is positive. Its row in bench/FitCost.cpp has the range in which the fit varies it.
struct ProgramCalibration {
  double memoryEfficiency;   ///< reached part of ArchInfo::memoryBytesPerSecond
  double level2Rate;         ///< rate of level 2 in units of memory's
  double warpProducts;       ///< rate of products by warps on an architecture with asynchronous products
  double othersDelay;        ///< part of memory's and the units' lesser time that does not overlap
  double latencyOfIteration; ///< cycles: barriers, dependent products, reductions over lanes
  double latencyOfCopy;      ///< cycles of a copy from memory, without a ring that hides it
  double stageHides;         ///< latencyOfCopy is divided by 1 + stageHides * stages that copies are ahead
  double producersAhead;     ///< stages that producer warps are ahead in addition to the ring's
  double leastAhead;         ///< stages whose bytes are under way where copies are no stage ahead
  double overlapLoss;        ///< part of the other units' time that does not overlap with the busiest's
  double fullWarps;          ///< warps on a multiprocessor that keep its units busy
  double fewWarpsExponent;   ///< with fewer, units are slower by (fullWarps / warps) to this power
  double lastRound;          ///< idle time at the end, in units of the time of a block
  double spillFactor;        ///< additional time for each spilled register, as a part of the whole
  double otherRegisters;     ///< registers of a thread in addition to tiles': addresses, bounds, fragments
};

struct ArchInfo;

/// Operations per second of products: asynchronous ones of a kernel that has producer warps, else those of warps.
double productRate(const ArchInfo &arch, const ProgramCalibration &calibration, bool hasProducers);

} // namespace attune
