//===- Patterns.cpp - Sparse attention patterns as masks ---------------------===//
#include "attune/Patterns.h"

#include "dsl/MaskAt.h"
#include "dsl/Trace.h"

#include <fmt/format.h>

namespace attune {

using dsl::maskAt;
using dsl::place;

namespace {

/// The value of an integer literal.
std::optional<int64_t> literalOf(const Operand &operand) {
  const Expr value(operand.node);
  const bool isLiteral = value.op() == Op::Constant && (value.type() == DType::I32 || value.type() == DType::I64);
  return isLiteral ? std::optional(value.node().intValue) : std::nullopt;
}

/// The error for a literal `side` of a window that is not odd, or greater than the extent `whole` that it moves in. What
/// only a launch knows is not checked.
std::optional<std::string> faultOfWindow(std::string_view pattern, const Operand &side, const Operand &whole) {
  const std::optional<int64_t> given = literalOf(side), room = literalOf(whole);
  if (room && *room < 1)
    return fmt::format("an extent of {} is {}, but must be positive", pattern, *room);
  if (!given)
    return std::nullopt;
  const int64_t most = room ? *room - 1 + *room % 2 : *given + 1;
  if (*given < 1 || *given % 2 == 0)
    return fmt::format("window of {} is {}, but must be odd and positive; use {}", pattern, *given,
                       std::min(std::max<int64_t>(*given, 0) / 2 * 2 + 1, most));
  if (room && *given > *room)
    return fmt::format("window of {} is {}, but the extent is {}; use at most {}", pattern, *given, *room, most);
  return std::nullopt;
}

/// Whether coordinate `of` is in the window of `side` around coordinate `around`, which is moved inside [0, whole).
Expr isInWindow(const Expr &of, const Expr &around, const Operand &side, const Operand &whole) {
  const Expr reach = side / 2;
  return abs(min(max(around, reach), whole - 1 - reach) - of) <= reach;
}

/// Mixes the bits of an i32 (lowbias32, a public-domain integer hash by C. Wellons).
Expr mixed(Expr x) {
  x = x ^ (x >> 16 & 0xffff);
  x = x * 0x7feb352d;
  x = x ^ (x >> 15 & 0x1ffff);
  x = x * int32_t(0x846ca68bu);
  return x ^ (x >> 16 & 0xffff);
}

} // namespace

Mask localGlobal(Operand window, Operand global, Operand dilation) {
  return maskAt(window.where, [=](Index, Index, Index q, Index k) {
    const bool isDense = literalOf(dilation) == 1;
    const Expr near = isDense ? abs(q - k) <= window : abs(q - k) <= window * dilation && (q - k) % dilation == 0;
    return near || q < global || k < global;
  });
}

Mask strided(Operand stride) {
  return maskAt(stride.where,
                [=](Index, Index, Index q, Index k) { return q >= k && (q - k < stride || (q - k) % stride == 0); });
}

Mask fixed(Operand length, Operand summary) {
  return maskAt(length.where, [=](Index, Index, Index q, Index k) {
    return q >= k && (q / length == k / length || k % length >= length - summary);
  });
}

Mask butterfly(Operand block) {
  return maskAt(block.where, [=](Index, Index, Index q, Index k) {
    const Expr digits = q / block ^ k / block;
    return (digits & (digits - 1)) == 0;
  });
}

Mask bigbird(Operand block, Operand window, Operand global, Operand random, Operand seed) {
  return maskAt(block.where, [=](Index, Index h, Index q, Index k) {
    const std::optional<int64_t> draws = literalOf(random);
    if (!draws || *draws < 0 || *draws > 16)
      return dsl::invalid("the random blocks of bigbird must be a number from 0 to 16, written out",
                          place(random.where));
    const Expr row = q / block, column = k / block, columns = (keyLength() + block - 1) / block;
    Expr sees = abs(row - column) <= window || row < global || column < global;
    for (int32_t n = 0; n < *draws; ++n)
      sees = sees || (mixed(mixed(mixed(row + seed) + h) + n) & 0x7fffffff) % columns == column;
    return sees;
  });
}

Mask natten(Operand height, Operand width, Operand window) {
  return maskAt(height.where, [=](Index, Index, Index q, Index k) {
    for (const Operand &side : {height, width})
      if (std::optional<std::string> fault = faultOfWindow("natten", window, side))
        return dsl::invalid(*fault, place(window.where));
    return isInWindow(k / width, q / width, window, height) && isInWindow(k % width, q % width, window, width);
  });
}

Mask sta(Operand tile, std::array<Operand, 3> tiles, std::array<Operand, 3> window) {
  return maskAt(tile.where, [=](Index, Index, Index q, Index k) {
    for (int axis = 0; axis < 3; ++axis)
      if (std::optional<std::string> fault = faultOfWindow("sta", window[axis], tiles[axis]))
        return dsl::invalid(*fault, place(window[axis].where));
    auto placeOf = [&](const Expr &token) {
      const Expr number = token / tile;
      return std::array<Expr, 3>{number / (tiles[1] * tiles[2]), number / tiles[2] % tiles[1], number % tiles[2]};
    };
    const std::array<Expr, 3> query = placeOf(q), key = placeOf(k);
    return isInWindow(key[0], query[0], window[0], tiles[0]) && isInWindow(key[1], query[1], window[1], tiles[1]) &&
           isInWindow(key[2], query[2], window[2], tiles[2]);
  });
}

} // namespace attune
