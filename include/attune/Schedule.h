//===- Schedule.h - The fields of a schedule, named once ---------------------===//
//
// The fields of a kernel's schedule that a user may fix; the cost model chooses the other fields. All structures with
// these fields (CompileOptions, the plan of a kernel, the command line's flags) use the same names. Code that treats
// all fields alike visits them:
//
//     visitSchedule([](std::string_view name, std::string_view, const auto &field) {
//       if (field)
//         fmt::print("{} {}\n", name, *field);                       // "tileQ 128"
//     }, options);
//     assignSchedule(options, plan);                                   // options.tileQ = plan.tileQ; ...
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace attune {

/// Calls `visit(name, meaning, fields...)` for each field of a schedule; `fields` are this field in each of the
/// structures.
template <typename Visit, typename... Structures> void visitSchedule(Visit visit, Structures &...of) {
  visit("tileQ", "query rows per block", of.tileQ...);
  visit("tileK", "keys per tile", of.tileK...);
  visit("warps", "warps per block", of.warps...);
  visit("stages", "buffers of the K and V rings", of.stages...);
  visit("qRegisters", "whether Q stays in registers: true or false", of.qRegisters...);
  visit("dvWarps", "warps that share rows and split the columns of V: 1, 2 or 4", of.dvWarps...);
  visit("blocksPerSm", "blocks that share a multiprocessor", of.blocksPerSm...);
  visit("longestFirst",
        "whether the last rows (backward: also the first keys), longest under a causal mask, are scheduled first",
        of.longestFirst...);
  visit("persistent", "whether blocks are persistent: each computes several tiles of rows", of.persistent...);
  visit("queryStages", "buffers of Q (backward: of K and V) in persistent blocks: 1 or 2", of.queryStages...);
  visit("pingPong", "whether warpgroups ping-pong: one runs its products while another runs its softmax",
        of.pingPong...);
  visit("overlap", "whether a tile's product with V overlaps with the softmax of the next", of.overlap...);
  visit("stageBiases", "whether dense biases are copied to shared memory", of.stageBiases...);
  visit("packGqa", "whether the query heads of a key head share a tile's rows", of.packGqa...);
  visit("splitKeys", "whether several blocks share the keys of a tile of rows", of.splitKeys...);
}

/// Copies all schedule fields of `from` to `to`.
template <typename To, typename From> void assignSchedule(To &to, const From &from) {
  visitSchedule([](auto, auto, auto &field, const auto &value) { field = value; }, to, from);
}

/// "tileQ" as "tile-q" or "tile_q".
inline std::string spelled(std::string_view name, char separator) {
  std::string result;
  for (char letter : name) {
    if (std::isupper(static_cast<unsigned char>(letter)))
      result += separator;
    result += char(std::tolower(static_cast<unsigned char>(letter)));
  }
  return result;
}

} // namespace attune
