#include "tools/reference/Compare.h"

#include "attune/Builtins.h"
#include "tests/reference/Solve.h"
#include "tools/reference/Prepared.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::reference;
using namespace attune::tests;

namespace {

Problem randomProblem(const Variant &variant, DType dtype, int64_t heads, int64_t queries, int64_t keys,
                      int64_t headDim, int64_t headDimV) {
  return {.variant = &variant,
          .q = HostTensor::random(dtype, {1, heads, queries, headDim}, 1),
          .k = HostTensor::random(dtype, {1, heads, keys, headDim}, 2),
          .v = HostTensor::random(dtype, {1, heads, keys, headDimV}, 3)};
}

/// Results of a kernel, in the dtypes that kernels write.
HostTensor oOf(const Output &output, DType dtype) {
  return HostTensor::fromDoubles(dtype, {output.batch, output.heads, output.queryLength, output.headDimV}, output.o);
}
HostTensor lseOf(const Output &output) {
  return HostTensor::fromDoubles(f32, {output.batch, output.heads, output.queryLength}, output.lse);
}

/// A problem with the reference's answers.
struct Answered {
  explicit Answered(const Problem &problem)
      : dtype(problem.q.dtype), exact(solve(problem)), plain(solvePlain(problem)), o(oOf(exact, dtype)),
        lse(lseOf(exact)) {}

  Comparison compareO(const HostTensor &other) const { return reference::compareO(other, exact, plain); }
  Comparison compareLse(const HostTensor &other) const { return reference::compareLse(other, exact, plain); }

  DType dtype;
  Output exact, plain;
  HostTensor o, lse;
};

/// RMS over the row.
double plainErrorOf(const Answered &test, int64_t row) {
  double squares = 0;
  for (int64_t i = row * test.exact.headDimV; i < (row + 1) * test.exact.headDimV; ++i)
    squares += std::pow(test.plain.o[size_t(i)] - test.exact.o[size_t(i)], 2);
  return std::sqrt(squares / double(test.exact.headDimV));
}

} // namespace

TEST_CASE("comparisons pass what is right and name the row that is wrong") {
  Variant variant("causal");
  variant.mask([](Index, Index, Index q, Index k) { return q > k; });
  for (DType dtype : {f32, f16, bf16}) {
    Problem problem = randomProblem(variant, dtype, 2, 20, 20, 16, 8);
    problem.v.set(17 * 8 + 6, std::nan("")); // head 0: visible to rows 18 and 19
    Answered test(problem);
    Comparison good = test.compareO(test.o);
    INFO(good.describe());
    CHECK(good.pass);
    CHECK(good.ratio() < 1);
    CHECK(good.rows == 40);
    CHECK(good.badRows == 0);
    CHECK(test.compareO(oOf(test.plain, dtype)).pass);
    CHECK(test.compareLse(test.lse).pass);

    HostTensor shifted = test.o;
    const int64_t at = (20 + 3) * 8 + 2;
    shifted.set(at, test.exact.o[size_t(at)] + 0.25);
    Comparison bad = test.compareO(shifted);
    CHECK_FALSE(bad.pass);
    CHECK(bad.badRows == 1);
    CHECK(bad.worstRow == std::vector<int64_t>{0, 1, 3});
    CHECK(bad.worstError == Approx(0.25 / std::sqrt(8)).epsilon(0.1));
    CHECK(bad.worstLimit == Approx(std::max(2 * plainErrorOf(test, 23), 3 * test.exact.oError[23])));
    CHECK(bad.ratio() > 1);

    HostTensor poisoned = test.o;
    poisoned.set(at, std::nan(""));
    CHECK(test.compareO(poisoned).describe().starts_with("o: [0, 1, 3, 2] is nan, the reference has "));
    HostTensor cleaned = test.o;
    cleaned.set(18 * 8 + 6, 0); // NaN in the reference
    CHECK(test.compareO(cleaned).describe().starts_with(
        "o: [0, 0, 18, 6] is 0, the reference has nan; 1 of 40 rows are bad; "));
    CHECK(test.compareO(HostTensor::zeros(dtype, {1, 2, 20, 16})).describe() ==
          "o: has shape [1, 2, 20, 16], required is [1, 2, 20, 8]");

    HostTensor visibleRow = test.lse;
    visibleRow.set(0, -1e30); // -inf in the reference
    CHECK(test.compareLse(visibleRow)
              .describe()
              .starts_with("lse: [0, 0, 0] is -1e+30, the reference has -inf; 1 of 40 rows are bad; "));
    HostTensor lost = test.lse;
    lost.set(1, -infinity);
    CHECK_FALSE(test.compareLse(lost).pass);
    HostTensor drifted = test.lse;
    drifted.set(19, test.exact.lse[19] + 0.001);
    CHECK_FALSE(test.compareLse(drifted).pass);
  }
}

TEST_CASE("a failed check says row, error and limit") {
  Comparison bad{.name = "o",
                 .pass = false,
                 .maxError = 0.25,
                 .rmsError = 0.01,
                 .plainError = 0.004,
                 .limit = 0.008,
                 .rows = 40,
                 .badRows = 2,
                 .uncheckedRows = 3,
                 .worstRow = {0, 1, 3},
                 .worstError = 0.125,
                 .worstLimit = 0.0625};
  CHECK(bad.describe() == "o: row [0, 1, 3] has an error of 0.125, allowed is 0.0625; 2 of 40 rows are bad; rms 0.01 "
                          "(limit 0.008, plain 0.004), max 0.25; 3 of 40 rows not checked, keys hidden from them hold "
                          "NaN or infinities");
  CHECK(bad.ratio() == 2);
  Comparison whole{.name = "o",
                   .pass = false,
                   .maxError = 0.25,
                   .rmsError = 0.01,
                   .plainError = 0.004,
                   .limit = 0.008,
                   .rows = 40,
                   .worstRow = {0, 1, 3},
                   .worstError = 0.05,
                   .worstLimit = 0.0625};
  CHECK(whole.describe() == "o: rms 0.01 (limit 0.008, plain 0.004), row [0, 1, 3] 0.05 of 0.0625, max 0.25");
  CHECK(whole.ratio() == 1.25);
}

TEST_CASE("errors that no row shows are found in the whole") {
  Variant variant("causal");
  variant.mask(causal());
  Problem problem = randomProblem(variant, bf16, 4, 100, 100, 32, 32);
  Answered test(problem);
  // Each row nearly as far off as a row may be.
  HostTensor drifted = HostTensor::fromDoubles(f32, test.o.shape, test.exact.o);
  for (int64_t i = 0; i < drifted.size(); ++i)
    drifted.set(i, test.exact.o[size_t(i)] +
                       (i % 2 ? 1 : -1) * 0.9 *
                           std::max(2 * plainErrorOf(test, i / 32), 3 * test.exact.oError[size_t(i / 32)]));
  Comparison o = test.compareO(drifted);
  INFO(o.describe());
  CHECK(o.badRows == 0);
  CHECK_FALSE(o.pass);
}

TEST_CASE("hidden keys that hold NaN: their rows count as not checked where NaN arrives, and are held to the limit "
          "where it does not") {
  Variant padded("padded");
  padded.mask([](Index, Index, Index q, Index k) { return k < 7 && q >= k; });
  for (DType dtype : {f32, bf16})
    for (bool inKeys : {false, true}) {
      Problem problem = randomProblem(padded, dtype, 2, 9, 10, 16, 8);
      (inKeys ? problem.k : problem.v)
          .set((inKeys ? 16 : 8) * 8 + 5, inKeys ? infinity : std::nan("")); // head 0, key 8
      Answered test(problem);
      CHECK(std::isfinite(test.exact.o[8 * 8]));
      Comparison clean = test.compareO(test.o);
      CHECK(clean.pass);
      CHECK(clean.uncheckedRows == 0);

      HostTensor reached = test.o, reachedLse = test.lse;
      reached.set(4 * 8 + 5, std::nan(""));
      reached.set(6 * 8 + 5, infinity);
      reachedLse.set(6, std::nan(""));
      Comparison o = test.compareO(reached), lse = test.compareLse(reachedLse);
      CHECK(o.pass);
      CHECK(o.uncheckedRows == 2);
      CHECK(lse.pass == inKeys); // V does not reach LSE
      CHECK(lse.uncheckedRows == inKeys);
      CHECK(o.describe().ends_with("; 2 of 18 rows not checked, keys hidden from them hold NaN or infinities"));

      // What is finite has to be right, in the same row too; the other head hides nothing.
      HostTensor wrong = reached;
      wrong.set(4 * 8 + 1, 7);
      CHECK_FALSE(test.compareO(wrong).pass);
      HostTensor otherHead = test.o;
      otherHead.set((9 + 4) * 8, std::nan(""));
      CHECK_FALSE(test.compareO(otherHead).pass);
    }
}

TEST_CASE("values that only the dtype cannot hold may be infinite") {
  Variant variant("plain");
  Problem problem = randomProblem(variant, f16, 1, 1, 1, 8, 8);
  problem.v.set(0, 65504);
  Answered test(problem);
  test.exact.o[0] = 70000; // rounds to infinity in f16
  HostTensor o = test.o;
  o.set(0, infinity);
  CHECK(test.compareO(o).pass);
  o.set(0, -infinity);
  CHECK_FALSE(test.compareO(o).pass);
}

TEST_CASE("roundings other than the plain computation's pass, whatever the number of keys and columns") {
  // P before the division by l is what kernels round; the plain computation rounds it afterwards.
  Variant variant("plain");
  for (DType dtype : {f16, bf16})
    for (int64_t keys : {1, 2, 3, 8, 100})
      for (int64_t columns : {8, 64}) {
        Problem problem = randomProblem(variant, dtype, 1, 2000, keys, 16, columns);
        Answered test(problem);
        HostTensor o = HostTensor::zeros(dtype, test.o.shape);
        std::vector<double> q = problem.q.doubles(), k = problem.k.doubles(), v = problem.v.doubles();
        for (int64_t row = 0; row < 2000; ++row) {
          std::vector<double> s(size_t(keys), 0.0), sum(size_t(columns), 0.0);
          double m = -infinity, l = 0;
          for (int64_t j = 0; j < keys; ++j) {
            for (int64_t d = 0; d < 16; ++d)
              s[size_t(j)] += q[size_t(row * 16 + d)] * k[size_t(j * 16 + d)] / 4;
            m = std::max(m, s[size_t(j)]);
          }
          for (int64_t j = 0; j < keys; ++j) {
            float p = float(std::exp(s[size_t(j)] - m));
            l += p;
            for (int64_t d = 0; d < columns; ++d)
              sum[size_t(d)] += double(roundTo(dtype, p)) * v[size_t(j * columns + d)];
          }
          for (int64_t d = 0; d < columns; ++d)
            o.set(row * columns + d, sum[size_t(d)] / l);
        }
        Comparison result = test.compareO(o);
        INFO(name(dtype) << " keys " << keys << " Dv " << columns << ": " << result.describe());
        CHECK(result.pass);
      }
}

TEST_CASE("the limit of LSE covers fast math where the score has functions, and no more") {
  Variant plain("plain"), capped("capped"), precise("precise");
  capped.score(softcap(20));
  precise.score(softcap(20)).precise();
  for (const Variant *variant : {&plain, &capped, &precise}) {
    Problem problem = randomProblem(*variant, bf16, 1, 30, 40, 64, 8);
    problem.scale = 1.0; // |s| about 8
    Answered test(problem);
    HostTensor inside = test.lse, outside = test.lse;
    for (int64_t i = 0; i < 30; ++i) {
      inside.set(i, test.exact.lse[size_t(i)] * (1 + (variant == &capped ? 0x1p-11 : 0x1p-22)));
      outside.set(i, test.exact.lse[size_t(i)] * (1 + (variant == &capped ? 0x1p-7 : 0x1p-14)));
    }
    CHECK(test.compareLse(inside).pass);
    CHECK(test.compareLse(outside).badRows == 30);
  }
}

TEST_CASE("large finite scores are held to tight limits") {
  Variant shifted("shifted"), lowest("lowest");
  shifted.score([](Score s, Index, Index, Index, Index) { return s + 1e10f; });
  lowest.score([](Score s, Index, Index, Index q, Index) {
    return select(q % 3 == 0, std::numeric_limits<float>::lowest(), s);
  });
  for (const Variant *variant : {&shifted, &lowest})
    for (DType dtype : {f32, bf16}) {
      Answered test(randomProblem(*variant, dtype, 2, 30, 40, 32, 32));
      CHECK(test.compareO(test.o).pass);
      CHECK(test.compareO(test.o).limit < (dtype == f32 ? 1e-5 : 2e-3));
      CHECK(test.compareO(HostTensor::zeros(dtype, test.o.shape)).badRows >= 20);
      CHECK(test.compareLse(test.lse).pass);
    }
}

//===----------------------------------------------------------------------===//
// A lost key
//===----------------------------------------------------------------------===//

namespace {

/// Rows q that see keys [0, q], and the plain computation without key q.
struct Losing {
  explicit Losing(Problem problem) : test((whole.mask(causal()), withVariant(problem, whole))) {
    lost.mask([](Index, Index, Index q, Index k) { return q > k; });
    without = solvePlain(withVariant(problem, lost));
  }
  static Problem &withVariant(Problem &problem, const Variant &variant) {
    problem.variant = &variant;
    return problem;
  }
  Variant whole{"causal"}, lost{"lost"};
  Answered test;
  Output without;
};

} // namespace

TEST_CASE("losing the newest of keys that weigh alike fails in every row up to S 8192, by O alone") {
  Variant none("none");
  Problem problem = randomProblem(none, bf16, 1, 8192, 8192, 8, 64);
  problem.scale = 1e-3; // scores of about 1e-3: a key weighs 1 / n
  Losing losing(problem);
  Comparison o = losing.test.compareO(oOf(losing.without, bf16));
  INFO(o.describe());
  CHECK(o.badRows == 8192);
}

TEST_CASE("losing the newest key fails in every row that it weighs something in, N(0, 1) scores") {
  Variant none("none");
  Problem problem = randomProblem(none, bf16, 1, 8192, 8192, 16, 64);
  Losing losing(problem);
  const Output &exact = losing.test.exact, &plain = losing.test.plain, &without = losing.without;
  int64_t heavy = 0, foundInO = 0, light = 0, found = 0;
  for (int64_t q = 0; q < 8192; ++q) {
    // The row alone, so that the verdict is the row's.
    auto rowOf = [&](const Output &all) {
      Output row;
      row.batch = row.heads = row.queryLength = 1;
      row.headDimV = 64;
      row.o.assign(all.o.begin() + q * 64, all.o.begin() + (q + 1) * 64);
      row.lse = {all.lse[size_t(q)]};
      row.maskedNonFinite = {0};
      return row;
    };
    Output one = rowOf(exact);
    one.oError = {exact.oError[size_t(q)]};
    one.lseError = {exact.lseError[size_t(q)]};
    bool o = !compareO(oOf(rowOf(without), bf16), one, rowOf(plain)).pass;
    bool lse = !compareLse(lseOf(rowOf(without)), one, rowOf(plain)).pass;
    double weight = 1 - std::exp(without.lse[size_t(q)] - exact.lse[size_t(q)]), unit = 1 / std::sqrt(double(q + 1));
    heavy += weight > 0.1 * unit;
    foundInO += weight > 0.1 * unit && o;
    light += weight > 0.04 * unit;
    found += weight > 0.04 * unit && (o || lse);
  }
  CHECK(heavy > 150);
  CHECK(foundInO == heavy);
  CHECK(light > 800);
  CHECK(found == light);
}
