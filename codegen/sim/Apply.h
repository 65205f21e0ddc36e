//===- Apply.h - Steps that apply a function to values --------------------===//
#pragma once

#include "codegen/sim/Machine.h"

#include <algorithm>
#include <utility>

namespace attune::sim {

/// Presents an operand as 32 values, one for each lane. The values of a per-lane operand are read where the warp stores
/// them; the value of a uniform operand is copied to all 32 lanes.
template <typename T> class Spread {
public:
  Spread(Warp &warp, Slot slot) {
    if (slot.varies) {
      values = reinterpret_cast<const T *>(warp.value(slot));
      return;
    }
    std::fill_n(copy, lanes, warp.get<T>(slot, 0));
    values = copy;
  }
  Spread(const Spread &) = delete;
  T operator[](int lane) const { return values[lane]; }

private:
  const T *values;
  T copy[lanes];
};

/// Computes out = f(in...), once where `out` is uniform, else in all 32 lanes. Inactive lanes are computed too, which
/// is harmless because expressions have no effects.
template <auto f, typename R, typename... A, size_t... i>
Go applyTo(Warp &warp, const Step &step, std::index_sequence<i...>) {
  if (!step.out[0].varies) {
    warp.set<R>(step.out[0], 0, f(warp.get<A>(step.in[i], 0)...));
    return Go::Next;
  }
  R *out = reinterpret_cast<R *>(warp.value(step.out[0]));
  [out](const Spread<A> &...operands) {
    for (int lane = 0; lane < lanes; ++lane)
      out[lane] = f(operands[lane]...);
  }(Spread<A>(warp, step.in[i])...);
  return Go::Next;
}
template <auto f, typename... A> Go apply(Machine &, Warp &warp, const Step &step) {
  return applyTo<f, decltype(f(A()...)), A...>(warp, step, std::index_sequence_for<A...>());
}

} // namespace attune::sim
