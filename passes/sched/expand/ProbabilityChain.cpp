//===- ProbabilityChain.cpp - Exponentials, row sums, dropout and conversion of P, by blocks ---------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

std::optional<ProbabilityChain> KernelExpander::chainFrom(tile::MapOp map) {
  ProbabilityChain chain{map, {}, {}, {}};
  auto type = cast<TileType>(map.getResult().getType());
  if (type.rank() != 2 || map.getOnlyIf() || map.getInterleaved() ||
      cast<FragmentAttr>(type.getLayout()).getRole() != FragmentRole::C)
    return std::nullopt;
  for (Operation *user : map.getResult().getUsers()) {
    if (user->getBlock() != map->getBlock())
      return std::nullopt;
    if (auto sum = dyn_cast<tile::ReduceOp>(user); sum && sum.getPerLane() && !chain.sum)
      chain.sum = sum;
    else if (auto dropout = dyn_cast<tile::DropoutOp>(user); dropout && !chain.dropout)
      chain.dropout = dropout;
    else if (auto convert = dyn_cast<tile::ConvertOp>(user); convert && !chain.convert)
      chain.convert = convert;
    else
      return std::nullopt;
  }
  if (chain.dropout) {
    if (chain.convert || !chain.dropout.getResult().hasOneUse())
      return std::nullopt;
    chain.convert = dyn_cast<tile::ConvertOp>(*chain.dropout.getResult().getUsers().begin());
  }
  if (!chain.sum || !chain.convert || chain.sum.getResult().getType().getElementType() != builder.getF32Type() ||
      cast<TileType>(chain.convert.getResult().getType()).getElementType().isF32() ||
      !chain.sum->isBeforeInBlock(chain.convert))
    return std::nullopt;
  for (Operation *user : chain.sum.getResult().getUsers())
    if (user->getBlock() != map->getBlock() || user->isBeforeInBlock(chain.convert))
      return std::nullopt;
  if (chain.dropout && chain.dropout.getKept())
    for (Operation *user : chain.dropout.getKept().getUsers())
      if (user->getBlock() != map->getBlock() || user->isBeforeInBlock(chain.convert))
        return std::nullopt;
  for (Operation *op = map; op != chain.convert; op = op->getNextNode())
    if (isa<sched::MmaWaitOp>(op))
      return std::nullopt;
  return chain;
}

LogicalResult KernelExpander::expandOp(tile::MapOp op) {
  std::optional<ProbabilityChain> chain = chainFrom(op);
  if (!chain)
    return writeMap(op);
  // A probability chain (exponentials, row sum, dropout, conversion of P) is expanded at its last op. This is possible
  // because the operands of the chain are defined before its last op, and only ops of the chain read the chain's
  // results before that op.
  for (Operation *part : {chain->exponent.getOperation(), chain->sum.getOperation(), chain->dropout.getOperation()})
    if (part)
      chainEnds[part] = chain->convert;
  chains[chain->convert] = *chain;
  return success();
}

void KernelExpander::expandChain(const ProbabilityChain &chain) {
  tile::MapOp map = chain.exponent;
  tile::ReduceOp sum = chain.sum;
  tile::ConvertOp convert = chain.convert;
  Value scores = bufferFor(convert, map.getResult(), map.getInputs());
  Value init = sum.getInit(), total = bufferFor(convert, sum.getResult(), init ? ValueRange(init) : ValueRange());
  if (init)
    copyBuffer(buffers.lookup(init), total);
  else
    fillBuffer(f32(0), total);
  Value fragment = newBuffer(convert.getResult());
  SmallVector<int64_t> shape = laneShape(fragment);
  std::optional<DropoutState> dropout;
  if (chain.dropout)
    dropout = prepareDropout(chain.dropout);
  auto blocks = [&](Range sixteens, bool computes) {
    repeat(sixteens, "kk", [&](Value kk) {
      repeat(shape[0], "i", [&](Value i) {
        repeat(2, "half", [&](Value half) {
          repeat(2, "r", [&](Value r) {
            repeat(2, "e", [&](Value c) {
              Value j = add(mul(kk, 2), half);
              SmallVector<Value> at{i, j, add(mul(r, 2), c)};
              Value p = computes ? mapElement(map, i, r, j, c) : get(scores, at);
              if (computes)
                set(p, scores, at);
              set(combine(tile::Reduction::Sum, get(total, {i, r}), p), total, {i, r});
            });
          });
        });
        if (dropout)
          dropBlock(*dropout, scores, scores, i, kk);
        packBlock(convert, scores, fragment, i, kk);
      });
    });
  };
  const std::optional<Range> pairs = pairsOf(map);
  const Range computed = pairs ? pairs->by(2) : Range{0, shape[1]};
  copyOtherColumns(map, scores);
  blocks({0, computed.begin}, false);
  blocks(computed, true);
  blocks({computed.end, shape[1]}, false);
  buffers.map(map.getResult(), scores);
  buffers.map(sum.getResult(), total);
  buffers.map(convert.getResult(), fragment);
  if (chain.dropout)
    buffers.map(tile::DropoutOp(chain.dropout).getResult(), scores);
}

DropoutState KernelExpander::prepareDropout(tile::DropoutOp op) {
  Value seed = mapping.lookup(op.getSeed()), offset = mapping.lookup(op.getOffset());
  Type word = builder.getI32Type();
  auto low = [&](Value v) { return arith::TruncIOp::create(builder, loc, word, v); };
  auto high = [&](Value v) {
    Value shift = arith::ConstantIntOp::create(builder, loc, 32, 64);
    return arith::TruncIOp::create(builder, loc, word, arith::ShRUIOp::create(builder, loc, v, shift));
  };
  DropoutState state;
  Value key0 = low(seed), key1 = arith::XOrIOp::create(builder, loc, high(seed), high(offset));
  if (tile::storedColumns(kernel) > 64) {
    // A zero that the device compiler cannot see is added to the keys, so that the compiler recomputes Philox's 14
    // round keys for each tile. With a wide accumulator of O no registers are left to keep the round keys in the loop.
    Value zero = tile::named(div(sched::ReadThreadIdOp::create(builder, loc, word), 1024), "zero");
    key0 = arith::AddIOp::create(builder, loc, key0, zero);
    key1 = arith::AddIOp::create(builder, loc, key1, zero);
  }
  state.key0 = tile::named(key0, "key0");
  state.key1 = tile::named(key1, "key1");
  state.offsetLow = tile::named(low(offset), "offset_low");
  state.head = mapping.lookup(op.getHead());
  state.highThreshold =
      tile::named(arith::ShLIOp::create(builder, loc, mapping.lookup(op.getThreshold()), i32(16)), "high_threshold");
  state.byKeys = op.getTile().getType().axis(0) == "k";
  state.negates = op.getNegates();
  if ((state.kept = op.getKept())) {
    buffers.map(state.kept, registers("kept", bitWordsOf(cast<TileType>(state.kept.getType()))));
    fillBuffer(i32(0), buffers.lookup(state.kept));
  }
  // The divisions by 16 are exact: the tile's origins and a warp's first row are multiples of 16.
  Value q0 = mapping.lookup(op.getQ0()), k0 = mapping.lookup(op.getK0());
  state.rowBlock = div(add(state.byKeys ? k0 : q0, firstRowOf(op.getTile().getType())), 16);
  state.columnBlock = div(state.byKeys ? q0 : k0, 16);
  return state;
}

sched::PhiloxOp KernelExpander::random(const DropoutState &state, Value query, Value key) {
  Type word = builder.getI32Type();
  return sched::PhiloxOp::create(builder, loc, word, word, word, word, query, key, state.head, state.offsetLow,
                                 state.key0, state.key1);
}

/// With g = lane / 4 and c = lane % 4, element (q, k) of the 16 x 16 block, q = g + 8 r and k = 2 c + e + 8 n, uses
/// half r of the Philox call's word 2 e + n.
KernelExpander::Words KernelExpander::wordsByQueries(const DropoutState &state, Value i, Value jj) {
  auto call =
      random(state, add(mul(add(state.rowBlock, i), 8), laneRow), add(mul(add(state.columnBlock, jj), 4), quad));
  return {{{call->getResult(0), call->getResult(1)}, {call->getResult(2), call->getResult(3)}}};
}

/// Random numbers of the 16 x 16 block (i, jj) whose rows are keys: one Philox call gives four words, each with two
/// random numbers. With g = lane / 4 and c = lane % 4, element (q, k) of the block, k = g + 8 r and q = 2 c + e + 8 n,
/// takes half n of word 2 (g % 2) + r of the call for q % 8 = 2 c + e. Lanes of an even row g make the call for e = 0,
/// lanes of an odd row that for e = 1, and neighbouring rows exchange words by shuffles.
KernelExpander::Words KernelExpander::wordsByKeys(const DropoutState &state, Value i, Value jj) {
  Value odd = rem(laneRow, 2);
  Value isOdd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, odd, i32(0));
  auto call = random(state, add(mul(add(state.columnBlock, jj), 8), add(laneColumn, odd)),
                     add(mul(add(state.rowBlock, i), 4), div(laneRow, 2)));
  auto choose = [&](Value ifOdd, Value ifEven) -> Value {
    return arith::SelectOp::create(builder, loc, isOdd, ifOdd, ifEven);
  };
  Words words;
  for (unsigned r = 0; r < 2; ++r) {
    Value own = choose(call->getResult(2 + r), call->getResult(r)),
          others = choose(call->getResult(r), call->getResult(2 + r));
    Value received = sched::ShuffleXorOp::create(builder, loc, others.getType(), others, 4);
    words[0][r] = choose(received, own);
    words[1][r] = choose(own, received);
  }
  return words;
}

void KernelExpander::dropBlock(const DropoutState &state, Value source, Value buffer, Value i, Value jj) {
  const Words words = state.byKeys ? wordsByKeys(state, i, jj) : wordsByQueries(state, i, jj);
  Value zero = f32(0), noted = i32(0);
  for (unsigned e = 0; e < 2; ++e)
    for (unsigned n = 0; n < 2; ++n)
      for (unsigned r = 0; r < 2; ++r) {
        Value bits = state.byKeys ? words[e][r] : words[e][n];
        // A 16-bit random number and the threshold are compared in the high 16 bits of 32-bit words. The low bits of
        // the random word do not change the result of number >= threshold, because the low bits of the threshold are 0.
        const bool isHigh = state.byKeys ? n : r;
        Value number = isHigh ? bits : Value(arith::ShLIOp::create(builder, loc, bits, i32(16)));
        Value keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, number, state.highThreshold);
        SmallVector<Value> at{i, add(mul(jj, 2), n), i32(2 * r + e)};
        Value value = get(source, at), dropped = state.negates ? arith::NegFOp::create(builder, loc, value) : zero;
        set(arith::SelectOp::create(builder, loc, keep, value, dropped), buffer, at);
        if (state.kept) {
          Value bit = arith::SelectOp::create(builder, loc, keep,
                                              i32(1 << (state.byKeys ? 8 * e + 2 * r + n : 4 * e + 2 * n + r)), i32(0));
          noted = arith::OrIOp::create(builder, loc, noted, bit);
        }
      }
  if (state.kept)
    addBits(noted, state.kept, i, jj);
}

LogicalResult KernelExpander::expandOp(tile::DropoutOp op) {
  Value source = buffers.lookup(op.getTile()), buffer = bufferFor(op, op.getResult(), op.getTile());
  DropoutState state = prepareDropout(op);
  SmallVector<int64_t> shape = laneShape(buffer);
  repeat(shape[0], "i",
         [&](Value i) { repeat(shape[1] / 2, "jj", [&](Value jj) { dropBlock(state, source, buffer, i, jj); }); });
  buffers.map(op.getResult(), buffer);
  return success();
}

} // namespace attune::expansion
