//===- ValueNames.h - Readable names of SSA values in printed text -----------===//
//
//     %q_tile = tile.load %Q[%b, %h, %q0] limit %Sq {tile.name = "q_tile"} : ...
//     %s = tile.mma %q_tile, %k_tile : ...
//     %x = tile.map(%s : ...) at(q = %q0, k = %k0) only_if %partial -> ... {
//     ^bb0(%s_qk: f32, %q: i32, %k: i32):
//
// attune, attune-opt and passes print values with the names of the table below. A value without such a name keeps its
// number. Equal names in one scope get a numeric suffix, so the name in the text may differ from `tile.name`. The
// generated CUDA takes its names from the attribute `tile.name`, which is printed too: renaming a value in the text
// changes no kernel. In text without any `tile.name`, written by hand, the name of a value becomes its op's
// `tile.name`.
//
//     | value                                     | name                                                      |
//     |-------------------------------------------|-----------------------------------------------------------|
//     | result of an op with `tile.name`          | the value of `tile.name`                                  |
//     | view of an operand                        | the operand's name in upper case: Q, K, V, O, LSE         |
//     | parameter, buffer, ring                   | the attribute `name` of the op                            |
//     | element of a map's input or of a fragment | the tile's name and axes: s_qk, m_q                       |
//     | coordinate of a map                       | its axis: q; with an f32 origin q_f32                     |
//     | loop-carried block argument               | the name of its initial value                             |
//     | initial value, next value, loop result    | the name of the argument with _init, _next, _end          |
//     | result of tile.convert                    | the tile's name with the new type or space: p_bf16        |
//     | constant                                  | its value: c0_i32, c0.125_f32, neg_inf                    |
//     | arguments of sched.for_work               | `tile.names`, else number, count, carried                 |
//     | arguments of sched.for_tiles              | `tile.names`, else tile, slot                             |
//     | induction variable of scf.for, iter_args  | `tile.name`, `tile.names`                                 |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/MLIRContext.h"

namespace attune {

/// Attaches the naming interface to every op of `dialect`, which must already be loaded into `context`.
void nameValues(mlir::MLIRContext *context, llvm::StringRef dialect);

} // namespace attune
