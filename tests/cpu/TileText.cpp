//===- TileText.cpp - tile.kernel text for a test case ----------------------===//

#include "TileText.h"

#include "fmt/args.h"
#include "fmt/format.h"

#include <cmath>

using namespace attune::test;

float Case::scale() const { return 1.0f / std::sqrt(float(headDim)); }

std::string attune::test::tileText(const Case &t) {
  auto align = [](int x) { return (x + 15) / 16 * 16; };
  std::string tensors, params, score, mask;
  auto tensor = [&](std::string name, std::string type, int rank) {
    tensors += fmt::format("{}#attn.tensor<{}, {}, rank {}>", tensors.empty() ? "" : ", ", name, type, rank);
    params += fmt::format("  %{0} = tile.param \"tensors.{0}\" : !tile.view<{1}, {2}>\n", name, rank, type);
  };
  std::string s = "%x0";
  if (t.alibi) {
    tensor("slopes", "f32", 1);
    params += "  %slope = tile.element %slopes[%h] in_range [false] : !tile.view<1, f32> (i32) -> f32\n";
    score += fmt::format(R"(
      %al0 = arith.subi %j, %i : i32
      %al1 = arith.sitofp %al0 : i32 to f32
      %al2 = arith.mulf %slope, %al1 : f32
      %al3 = arith.addf {}, %al2 : f32)",
                         s);
    s = "%al3";
  }
  if (t.softcap) {
    score += fmt::format(R"(
      %cap = tile.param "scalars.cap" : f32
      %sc0 = arith.divf {}, %cap : f32
      %sc1 = math.tanh %sc0 : f32
      %sc2 = arith.mulf %sc1, %cap : f32)",
                         s);
    s = "%sc2";
  }
  if (t.bias) {
    tensor("bias", "f32", 3);
    score += fmt::format(R"(
      %b0 = tile.element %bias[%h, %i, %j] in_range [false, false, false] : !tile.view<3, f32> (i32, i32, i32) -> f32
      %b1 = arith.addf {}, %b0 : f32)",
                         s);
    s = "%b1";
  }
  std::string visible = "%in";
  if (t.causal) {
    mask += fmt::format("      %ca0 = arith.cmpi sge, %i, %j : i32\n      %ca1 = arith.andi {}, %ca0 : i1\n", visible);
    visible = "%ca1";
  }
  if (t.keep) {
    tensor("keep", "i8", 2);
    mask += fmt::format(
        "      %k1 = tile.element %keep[%i, %j] in_range [false, false] : !tile.view<2, i8> (i32, i32) -> i1\n"
        "      %k2 = arith.andi {}, %k1 : i1\n",
        visible);
    visible = "%k2";
  }
  if (t.pattern)
    tensor("pattern", "i8", 3);

  std::string domain;
  if (t.causal)
    domain = R"(
  %full0 = arith.minsi %q0, %Sk : i32
  %full = arith.divsi %full0, %ctk : i32
  %last0 = arith.addi %q0, %ctq : i32
  %last1 = arith.minsi %last0, %Sk : i32
  %last2 = arith.addi %last1, %ctkm1 : i32
  %last = arith.divsi %last2, %ctk : i32)";
  else
    domain = R"(
  %full = arith.divsi %Sk, %ctk : i32
  %last2 = arith.addi %Sk, %ctkm1 : i32
  %last = arith.divsi %last2, %ctk : i32)";
  // A tensor mask makes every tile partial.
  domain += t.keep ? "\n  %dom = tile.domain k by {tk} [%c0, %last) partial"
                   : "\n  %dom = tile.domain k by {tk} [%c0, %full) full [%full, %last) partial";
  if (t.pattern)
    domain += R"( where {{
  ^bb0(%n: i32):
    %key = arith.muli %n, %ctk : i32
    %set = tile.touches %pattern[%h, %q0, %key] tile {tq} x {tk} blocks {tq} x {tk} : !tile.view<3, i8>
    %whole = arith.constant true
    tile.yield %set, %whole : i1, i1
  }})";
  else if (t.reverse)
    domain += " reverse";

  fmt::dynamic_format_arg_store<fmt::format_context> args;
  auto arg = [&](const char *name, auto value) { args.push_back(fmt::arg(name, value)); };
  arg("T", t.dtype);
  arg("D", t.headDim);
  arg("Dv", t.headDimV);
  arg("d", align(t.headDim));
  arg("dv", align(t.headDimV));
  arg("tq", t.tileQ);
  arg("tk", t.tileK);
  arg("tkm1", t.tileK - 1);
  arg("tensors", tensors);
  arg("scalars", std::string(t.softcap ? "#attn.scalar<cap, f32>" : ""));
  arg("dropout", std::string(t.dropout ? ", dropout" : ""));
  arg("params", params);
  arg("score", score);
  arg("s", s);
  arg("mask", mask);
  arg("visible", visible);
  arg("scale", fmt::format("{:.9e}", t.scale()));
  arg("row", fmt::format("!tile.tile<q {}, f32, register>", t.tileQ));
  arg("S", fmt::format("!tile.tile<q {} x k {}, f32, register>", t.tileQ, t.tileK));
  arg("P", fmt::format("!tile.tile<q {} x k {}, {}, register>", t.tileQ, t.tileK, t.dtype));
  arg("A", fmt::format("!tile.tile<q {} x dv {}, f32, register>", t.tileQ, align(t.headDimV)));
  arg("Qt", fmt::format("!tile.tile<q {} x d {}, {}, shared>", t.tileQ, align(t.headDim), t.dtype));
  arg("Kt", fmt::format("!tile.tile<k {} x d {}, {}, shared>", t.tileK, align(t.headDim), t.dtype));
  arg("Vt", fmt::format("!tile.tile<k {} x dv {}, {}, shared>", t.tileK, align(t.headDimV), t.dtype));
  arg("numerator", std::string(t.dropout ? "%keep_scale" : "%one"));
  arg("any", std::string(t.skipRescale ? R"(    %any = tile.any %alpha : !tile.tile<q )" + std::to_string(t.tileQ) +
                                             R"(, f32, register> {
    ^bb0(%a: f32):
      %0 = arith.cmpf une, %a, %one : f32
      tile.yield %0 : i1
    }
)"
                                       : ""));
  arg("only", std::string(t.skipRescale ? " only_if %any" : ""));
  arg("kept", std::string(t.dropout ? "%pd" : "%p"));
  std::string text =
      R"(
tile.kernel @kernel(q: in [b, h, q, d {D}] {T}, k: in [b, hkv, k, d {D}] {T}, v: in [b, hkv, k, dv {Dv}] {T}, o: out [b, h, q, dv {Dv}] {T}, lse: optional out [b, h, q] f32) grid [b, h, q by {tq}] dtype {T} plan <q {tq} x k {tk}, warps = 4, blocks_per_sm = 2> attributes {{tensors = [{tensors}], scalars = [{scalars}]{dropout}}} {{
  %b = tile.block_index "b" : i32
  %h = tile.block_index "h" : i32
  %q0 = tile.block_index "q" : i32
  %group = tile.param "group" : i32
  %H = tile.axis_extent "h" : i32
  %Sq = tile.axis_extent "q" : i32
  %Sk = tile.axis_extent "k" : i32
  %Q = tile.param "q" : !tile.view<4, {T}>
  %K = tile.param "k" : !tile.view<4, {T}>
  %V = tile.param "v" : !tile.view<4, {T}>
  %O = tile.param "o" : !tile.view<4, {T}>
  %LSE = tile.param "lse" : !tile.view<3, f32>
  %seed = tile.param "seed" : i64
  %offset = tile.param "offset" : i64
  %threshold = tile.param "drop_threshold" : i32
  %keep_scale = tile.param "keep_scale" : f32
  %hk = arith.divsi %h, %group : i32
  %bH = arith.muli %b, %H : i32
  %head = arith.addi %bH, %h : i32
  %c0 = arith.constant 0 : i32
  %ctk = arith.constant {tk} : i32
  %ctkm1 = arith.constant {tkm1} : i32
  %ctq = arith.constant {tq} : i32
  %neg_inf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
{params})" +
      domain + R"(
  %q = tile.load %Q[%b, %h, %q0] limit %Sq : !tile.view<4, {T}> -> {Qt}
  %m0 = tile.splat %neg_inf : f32 -> {row}
  %l0 = tile.splat %zero : f32 -> {row}
  %acc0 = tile.splat %zero : f32 -> {A}
  %r:3 = tile.for_blocks (%k0, %partial) in %dom iter_args(%m = %m0 : {row}, %l = %l0 : {row}, %acc = %acc0 : {A}) {{
    %k = tile.load %K[%b, %hk, %k0] limit %Sk : !tile.view<4, {T}> -> {Kt}
    %sm = tile.mma %q, %k : {Qt}, {Kt} -> {S}
    %x = tile.map(%sm : {S}) at(q = %q0, k = %k0) -> {S} {{
    ^bb0(%s1: f32, %i: i32, %j: i32):
      %scale = arith.constant {scale} : f32
      %x0 = arith.mulf %s1, %scale : f32{score}
      tile.yield {s} : f32
    }}
    %y = tile.map(%x : {S}) at(q = %q0, k = %k0) only_if %partial -> {S} {{
    ^bb0(%x1: f32, %i: i32, %j: i32):
      %in = arith.cmpi slt, %j, %Sk : i32
{mask}      %masked = arith.select {visible}, %x1, %neg_inf : f32
      tile.yield %masked : f32
    }}
    %m1 = tile.reduce max %y over "k" init %m : {row}, {S} -> {row}
    %safe = tile.map(%m1 : {row}) -> {row} {{
    ^bb0(%a: f32):
      %0 = arith.cmpf oeq, %a, %neg_inf : f32
      %1 = arith.select %0, %zero, %a : f32
      tile.yield %1 : f32
    }}
    %alpha = tile.map(%m, %safe : {row}, {row}) -> {row} {{
    ^bb0(%a: f32, %c: f32):
      %0 = arith.subf %a, %c : f32
      %1 = math.exp %0 : f32
      tile.yield %1 : f32
    }}
    %p = tile.map(%y, %safe : {S}, {row}) -> {S} {{
    ^bb0(%a: f32, %c: f32):
      %log2e = arith.constant 1.44269502 : f32
      %0 = arith.subf %a, %c : f32
      %1 = arith.mulf %0, %log2e : f32
      %2 = math.exp2 %1 : f32
      tile.yield %2 : f32
    }}
    %l1 = tile.map(%l, %alpha : {row}, {row}) -> {row} {{
    ^bb0(%a: f32, %c: f32):
      %0 = arith.mulf %a, %c : f32
      tile.yield %0 : f32
    }}
    %l2 = tile.reduce sum %p over "k" init %l1 : {row}, {S} -> {row} per_lane
)" +
      std::string(t.dropout ? "    %pd = tile.dropout %p at(%q0, %k0) head %head seed %seed offset %offset threshold "
                              "%threshold : {S} -> {S}\n"
                            : "") +
      R"(
{any}    %acc1 = tile.map(%acc, %alpha : {A}, {row}){only} -> {A} {{
    ^bb0(%a: f32, %c: f32):
      %0 = arith.mulf %a, %c : f32
      tile.yield %0 : f32
    }}
    %ph = tile.convert {kept} : {S} -> {P}
    %v = tile.load %V[%b, %hk, %k0] limit %Sk : !tile.view<4, {T}> -> {Vt}
    %acc2 = tile.mma %ph, %v add %acc1 : {A}, {P}, {Vt} -> {A}
    tile.yield %m1, %l2, %acc2 : {row}, {row}, {A}
  }}
  %lt = tile.combine_lanes sum %r#1 : {row}
  %o = tile.map(%r#2, %lt : {A}, {row}) -> {A} {{
  ^bb0(%a: f32, %c: f32):
    %e = arith.cmpf oeq, %c, %zero : f32
    %0 = arith.divf {numerator}, %c : f32
    %1 = arith.select %e, %zero, %0 : f32
    %2 = arith.mulf %a, %1 : f32
    tile.yield %2 : f32
  }}
  %lse = tile.map(%r#0, %lt : {row}, {row}) -> {row} {{
  ^bb0(%a: f32, %c: f32):
    %0 = math.log %c : f32
    %1 = arith.addf %a, %0 : f32
    tile.yield %1 : f32
  }}
  tile.store %lse, %LSE[%b, %h, %q0] limit %Sq optional : {row}, !tile.view<3, f32>
  tile.store %o, %O[%b, %h, %q0] limit %Sq : {A}, !tile.view<4, {T}>
}}
)";
  return fmt::vformat(text, args);
}
