#include "tests/golden/Edits.h"

#include "attune/Builtins.h"

#include <regex>

using namespace attune;
using namespace attune::tests;

CompileOptions attune::tests::editOptions() {
  return {.dtype = bf16, .headDim = 64, .tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .qRegisters = false};
}

std::string attune::tests::editText(const Edit &edit, const std::string &text) {
  std::string edited = text;
  for (const auto &[pattern, replacement] : edit.replacements) {
    std::regex expression(pattern);
    if (!std::regex_search(edited, expression))
      return text;
    edited = std::regex_replace(edited, expression, replacement);
  }
  return edited;
}

const std::vector<Edit> &attune::tests::textEdits() {
  auto plain = [] { return Variant("plain"); };
  auto busy = [] { return Variant("busy").mask(causal()).score(softcap(20)); };
  static const std::vector<Edit> edits = {
      {"three stages", Stage::Tile, busy, {{"ring<stages 2>", "ring<stages 3>"}}},
      {"one stage", Stage::Tile, busy, {{"ring<stages 2>", "ring<stages 1>"}}},
      {"Q in registers",
       Stage::Tile,
       busy,
       {{"(%q_tile = tile\\.load [^\n]*)",
         "$1\n%fragments = tile.convert %q_tile : !tile.tile<q 128 x d 64, bf16, shared> -> !tile.tile<q 128 x d 64, "
         "bf16, register>"},
        {"tile\\.mma %q_tile, %k_tile : <q 128 x d 64, bf16, shared>",
         "tile.mma %fragments, %k_tile : <q 128 x d 64, bf16, register>"}}},
      {"shortest first", Stage::Tile, busy, {{" attributes \\{sched\\.longest_first\\}", ""}}},
      {"one block an SM", Stage::Tile, busy, {{"blocks_per_sm = [0-9]+", "blocks_per_sm = 1"}}},
      // Half the keys a tile: the plan, the tiles' types, the step of the domain, and the sizes in its bounds.
      {"tiles of 32 keys",
       Stage::Tile,
       plain,
       {{"(plan <q 128 x k) 64", "$1 32"},
        {"k 64", "k 32"},
        {"k by 64", "k by 32"},
        {"constant 64 : i32", "constant 32 : i32"},
        {"constant 63 : i32", "constant 31 : i32"}}},
      // One more slot in both rings: their types, the slot after the last, and the places of the buffers behind them.
      {"rings of three slots",
       Stage::Sched,
       busy,
       {{"stage 2 x", "stage 3 x"},
        {"(sched\\.kernel .*\\{)", "$1\n%slots = arith.constant 3 : i32"},
        {"(= arith.remui %[0-9a-z_]+), %c2_i32 (\\{tile.name = \"(free|next)_slot)", "$1, %slots $2"},
        {"\"v_ring\" at 16384", "\"v_ring\" at 24576"},
        {"\"q_tile\" at 32768", "\"q_tile\" at 49152"},
        {"shared_bytes 49152", "shared_bytes 65536"}}},
      {"rows of four warps in order",
       Stage::Sched,
       busy,
       {{"arith.subi %last_tile[0-9_]*, (%[0-9a-z_]+)", "arith.ori $1, $1"}}},
  };
  return edits;
}
