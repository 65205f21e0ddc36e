//===- Diagonals.cpp - Sums along the diagonals of an accumulator ------------===//
//
// A warp holds R rows and C columns of an accumulator; its lane 4 g + c holds rows g + 8 r and columns 8 j + 2 c + e.
// The diagonal of an element, row minus column, is
//
//     8 (r - j) + (g - 2 c - e)       with the step n = r - j + C / 8:  8 n - C + (g - 2 c - e)
//
// A lane first adds up its elements of each step n, separately for e = 0 and e = 1. Then sums of different lanes that
// belong to the same diagonal are added. Where the row of the other lane would be past 7, that lane's sum of the next
// step is added instead:
//
//     e = 1       row g at e = 0 and row g + 1 at e = 1 have the same diagonal: exchange with the next lane row
//     c           row g at column c and row g + 2 c' at column c + c' have the same diagonal
//
// The sums of the four columns c are added for four steps at once. Each lane ends with the sum of one of the four
// steps:
//
//     lane (g, c)        at first:  sums of steps 4 p to 4 p + 3, of the lane's own column
//                        halves:    sums of the two steps of its half (c / 2), with those of the lane two columns away
//                        at last:   the sum of step 4 p + c, with that of the lane one column away
//
// The result has the layout `distances` of #sched.fragment: element 8 (4 p + c) + (g - 2 c) mod 8. For 16 rows and 128
// columns, the 64 elements of a lane become five sums.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::SumDiagonalsOp op) {
  Value source = buffers.lookup(op.getTile()), buffer = newBuffer(op.getResult());
  const int64_t columns = columnsOfLane(source), left = laneShape(buffer)[0], steps = 4 * left;
  // `sums` has a lane's sums over its elements for each step of 8 diagonals, and one more step, whose sum stays 0. That
  // sum is read where the next step of a diagonal is past the last step.
  Value sums = registers("step_sums", fragmentType({{tile::distanceAxis, 8 * (steps + 1)}}, builder.getF32Type(),
                                                   FragmentRole::Columns, 1));
  fillBuffer(arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0)), sums);
  auto sumAt = [&](Value n, int64_t e) { return get(sums, {n, i32(e)}); };
  auto plus = [&](Value a, Value b) { return arith::AddFOp::create(builder, loc, a, b).getResult(); };
  auto choose = [&](Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b).getResult();
  };
  auto from = [&](Value value, Value other) {
    return sched::ShuffleOp::create(builder, loc, value.getType(), value, other).getResult();
  };

  forEachPlace(source, [&](Value i, Value r, Value j, Value e, SmallVector<Value> at) {
    Value step =
        arith::SubIOp::create(builder, loc, add(add(mul(i, 2), r), columns), j, arith::IntegerOverflowFlags::nsw);
    SmallVector<Value> place{step, e};
    set(plus(get(sums, place), get(source, at)), sums, place);
  });

  Value isFirstRow = below(laneRow, i32(1)), nextRow = rem(add(lane, 4), 32);
  repeat(steps, "n", [&](Value n) {
    Value second = choose(isFirstRow, sumAt(add(n, 1), 1), sumAt(n, 1));
    set(plus(sumAt(n, 0), from(second, nextRow)), sums, {n, i32(0)});
  });
  Value runsPast = below(laneRow, laneColumn); // g - 2 c is negative
  repeat(steps, "n", [&](Value n) { set(choose(runsPast, sumAt(add(n, 1), 0), sumAt(n, 0)), sums, {n, i32(0)}); });

  Value isUpper = below(i32(1), quad), isOdd = below(i32(0), rem(quad, 2));
  Value beside = rem(add(lane, choose(isOdd, i32(32 - 9), i32(9))), 32);
  repeat(left, "p", [&](Value p) {
    Value first = mul(p, 4);
    auto half = [&](int64_t n) {
      Value lower = sumAt(add(first, n), 0), upper = sumAt(add(first, n + 2), 0), sent = choose(isUpper, lower, upper);
      // In lane ^ 18, bit 1 of the column c and bit 2 of the row g are flipped: two columns and four rows away.
      return plus(choose(isUpper, upper, lower), sched::ShuffleXorOp::create(builder, loc, sent.getType(), sent, 18));
    };
    Value even = half(0), odd = half(1);
    set(plus(choose(isOdd, odd, even), from(choose(isOdd, even, odd), beside)), buffer, {p});
  });
  buffers.map(op.getResult(), buffer);
  return success();
}

void KernelExpander::scatterMerged(tile::ScatterOp op, ArrayRef<Value> extents) {
  Value buffer = buffers.lookup(op.getTile()), view = mapping.lookup(op.getView());
  const int64_t count = laneShape(buffer)[0];
  const int64_t lanes[] = {1, 2, 4, 8, 16};
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, b).getResult();
  };
  // A sum along a diagonal whose index in the view is negative is skipped. For each dimension of the view, `place` has
  // the greatest index over all sums of the warp. `differs` is whether a sum of this lane has a nonnegative index other
  // than `place`.
  Value differs, inside = isWriter(buffer);
  SmallVector<Value> place, isPlaced(static_cast<size_t>(count));
  for (auto [index, extent] : llvm::zip(op.getIndices(), extents)) {
    if (!isa<TileType>(index.getType())) {
      place.push_back(mapping.lookup(index));
      continue;
    }
    SmallVector<Value> own;
    Value most;
    for (int64_t i = 0; i < count; ++i) {
      own.push_back(get(buffers.lookup(index), i32(i)));
      if (Value exists = i + 1 == count ? isDistance(buffer, i32(i)) : Value())
        own.back() = arith::SelectOp::create(builder, loc, exists, own.back(), i32(-1));
      most = most ? combine(tile::Reduction::Max, most, own[i]) : own[i];
    }
    place.push_back(tile::named(combineLanes(tile::Reduction::Max, most, lanes), "one_place"));
    inside = within(inside, place.back(), extent);
    for (int64_t i = 0; i < count; ++i) {
      Value isPlace = compare(arith::CmpIPredicate::sge, own[i], i32(0));
      Value isOther = both(isPlace, compare(arith::CmpIPredicate::ne, own[i], place.back()));
      differs = differs ? arith::OrIOp::create(builder, loc, differs, isOther).getResult() : isOther;
      isPlaced[i] = both(isPlaced[i], isPlace);
    }
  }
  Value severalPlaces = sched::AnyLaneOp::create(builder, loc, builder.getI1Type(), differs);
  either(
      tile::named(severalPlaces, "several_places"), [&] { scatterElements(op, extents); },
      [&] {
        Value total, zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
        for (int64_t i = 0; i < count; ++i) {
          Value one = arith::SelectOp::create(builder, loc, isPlaced[i], get(buffer, i32(i)), zero);
          total = total ? arith::AddFOp::create(builder, loc, total, one).getResult() : one;
        }
        total = tile::named(combineLanes(tile::Reduction::Sum, total, lanes), "total");
        Value isFirst = compare(arith::CmpIPredicate::eq, lane, i32(0));
        onlyIf(both(inside, isFirst),
               [&] { sched::AddElementsOp::create(builder, loc, ValueRange(total), view, place); });
      });
}

} // namespace attune::expansion
