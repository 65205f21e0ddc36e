//===- ParallelFor.h - A loop on all cores ------------------------------------===//
#pragma once

#include <cstdint>
#include <functional>

namespace attune::reference {

/// Calls work(begin, end) until [0, count) is covered, on `threads` threads; 0: all that the hardware has. A limit on
/// threads leaves fewer of them.
void parallelFor(int64_t count, unsigned threads, const std::function<void(int64_t, int64_t)> &work);

} // namespace attune::reference
