//===- ValueNames.h - What values are called in printed text -----------------===//
//
//     %q_tile = tile.load %Q[%b, %h, %q0] limit %Sq {tile.name = "q_tile"} : ...
//     %s = tile.mma %q_tile, %k_tile : ...
//     %x = tile.map(%s : ...) at(q = %q0, k = %k0) only_if %partial -> ... {
//     ^bb0(%s_qk: f32, %q: i32, %k: i32):
//
// Where text is printed, by attune, attune-opt or a pass, values have these names. Ops without one keep their number.
// Names that meet in one scope get a number behind them, so that a name in the text does not tell `tile.name`. The
// attribute, which CUDA's names come from, is printed beside it, and renaming a value in the text changes no kernel. In
// text that has no `tile.name` at all, written by hand, a value's name there becomes its op's.
//
//     | value                                     | name                                                      |
//     |-------------------------------------------|-----------------------------------------------------------|
//     | result of an op with `tile.name`          | that                                                      |
//     | view of q, k, v, o or lse                 | Q, K, V, O, LSE                                           |
//     | parameter, buffer, ring                   | the op's own                                              |
//     | element of a map's input, of a fragment   | the tile's and its axes: s_qk, m_q                        |
//     | coordinate of a map                       | its axis; of an f32 origin q_f32                          |
//     | carried by a loop                         | that of its first value                                   |
//     | its first value, next value, last value   | the same with _init, _next, _end                          |
//     | a tile converted                          | the tile's with the type or space: p_bf16                 |
//     | constant                                  | its value: c0_i32, c0.125_f32, neg_inf                    |
//     | arguments of sched loops                  | `tile.names`; b, h, q0, count; tile                       |
//     | index of scf.for, what it carries         | `tile.name`, `tile.names`                                 |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/MLIRContext.h"

namespace attune {

/// Gives the values of each op of a loaded dialect their names.
void nameValues(mlir::MLIRContext *context, llvm::StringRef dialect);

} // namespace attune
