//===- TightnessTest.cpp - Masks whose tiles are told apart --------------------===//
//
// Every tile of long sequences against the mask's elements: none that holds a visible element is left out, nearly all
// empty ones are, and nearly all full ones are not masked.
//
//===----------------------------------------------------------------------===//

#include "tests/driver/Tightness.h"
#include "tools/reference/Reference.h"

using namespace attune;
using attune::testing::Tightness;
using reference::HostTensor;

namespace {

constexpr int64_t sequenceLength = 4096;

/// One class for each element, [sequenceLength, sequenceLength].
std::vector<uint8_t> elements(const Variant &variant, const reference::Problem &given) {
  reference::Problem problem = given;
  problem.variant = &variant;
  problem.q = problem.k = problem.v = {f32, {1, 1, sequenceLength, 16}, {}};
  Expected<std::vector<uint8_t>> visible =
      reference::visibleElements(problem, {.queries = sequenceLength, .keys = sequenceLength});
  if (!visible)
    FAIL(visible.error().message);
  return *visible;
}

/// The shares of empty tiles that are left out at least, and of full ones that are not masked.
struct Splits {
  double skippedBy192 = 0.99; ///< by tiles of 192 queries; of other tiles 0.99
  double unmasked = 0.99;
};

/// `scalars` are i32.
void check(const std::string &mask, const std::map<std::string, int32_t> &scalars = {}, const Splits &shares = {}) {
  INFO(mask);
  TextVariant text{.mask = mask, .tensors = {{"ids", i32, 1}}};
  for (const auto &[name, value] : scalars)
    text.scalars.push_back({name, i32});
  Expected<Variant> variant = Variant::parse("v", text);
  REQUIRE(variant);
  // Documents of 30 to 700 tokens.
  HostTensor ids = HostTensor::zeros(i32, {sequenceLength});
  for (int64_t i = 0, document = 0, end = 300; i < sequenceLength; ++i) {
    if (i == end)
      end += 30 + ++document * 173 % 670;
    ids.set(i, double(document));
  }
  reference::Problem problem;
  problem.tensors["ids"] = ids;
  TileMapArgs args{.sizes = {1, 1, 1, sequenceLength, sequenceLength}};
  if (mask.find("ids") != std::string::npos)
    args.tensors = {{"ids", Tensor::contiguous(ids.data.data(), i32, {sequenceLength})}};
  for (const auto &[name, value] : scalars) {
    problem.scalars[name] = reference::scalarOf(i32, value);
    args.scalars.push_back({name, value});
  }
  const std::vector<uint8_t> visible = elements(*variant, problem);
  for (auto [tileQ, tileK] : {std::pair(128, 128), {192, 64}, {64, 128}, {256, 64}}) {
    INFO(tileQ << " x " << tileK);
    args.tileQ = tileQ;
    args.tileK = tileK;
    Expected<TileMap> map = tileMap(*variant, args);
    REQUIRE(map);
    const Tightness of = testing::compare(*map, args.sizes, [&](int64_t, int64_t, int64_t q, int64_t k) {
      return visible[size_t(q * sequenceLength + k)] != 0;
    });
    CHECK(double(of.emptyFound) >= (tileQ == 192 ? shares.skippedBy192 : 0.99) * double(of.empty));
    CHECK(double(of.fullFound) >= shares.unmasked * double(of.full));
  }
}

// A tile of the sinks is masked where the window holds it too: one for each row of tiles within the window's reach of
// the first key, of all rows less than 1% where sequences are longer than 13,000.
const Splits withSinks = {.unmasked = 0.94};
// Rows that cross the end of a period of q count as all of it.
const Splits withPeriods = {.skippedBy192 = 0.92};

} // namespace

TEST_CASE("nearly all tiles of common masks are told apart") {
  check("q >= k");
  check("k - Sk <= q - Sq");
  check("q >= k && q - k < 1000");
  check("abs(q - k) <= 500");
  check("q >= k || k < 700");
  check("q / 512 == k / 512");
  check("q >= k && q / 500 == k / 500");
  check("ids[q] == ids[k]");
  check("q >= k && ids[q] == ids[k]");
  check("q >= k && (q - k < 1000 || k < 4)", {}, withSinks);
  check("q >= k && ids[q] == ids[k] && (q - k < 500 || k < 64)", {}, withSinks);
  // Block diffusion: noised blocks see themselves and the clean ones before.
  check("((q >= 2048) == (k >= 2048) && q % 2048 / 128 == k % 2048 / 128) || (q < 2048 && k >= 2048 && q / 128 > (k - "
        "2048) / 128) || (q >= 2048 && k >= 2048 && q / 128 >= k / 128)",
        {}, withPeriods);
  // Neighbourhoods on grids.
  check("abs(q / 64 - k / 64) <= 6 && abs(q % 64 - k % 64) <= 6");
  check("abs(q / 256 - k / 256) <= 2 && abs(q % 256 - k % 256) <= 20", {}, withPeriods);
  check("abs(q / 1024 - k / 1024) <= 1 && abs(q / 32 % 32 - k / 32 % 32) <= 3 && abs(q % 32 - k % 32) <= 3", {},
        withPeriods);
}

TEST_CASE("the same by run-time scalars") {
  check("q >= k && q - k < w", {{"w", 1000}});
  check("abs(q - k) <= w", {{"w", 500}});
  check("q >= k || k < w", {{"w", 700}});
  check("q / n == k / n", {{"n", 512}});
  check("q >= k && q / n == k / n", {{"n", 500}});
  check("q >= k && (q - k < w || k < n)", {{"w", 1000}, {"n", 4}}, withSinks);
  check("ids[q] == ids[k] && q - k < w && q >= k", {{"w", 300}});
  check(
      "((q >= n) == (k >= n) && q % n / 128 == k % n / 128) || (q < n && k >= n && q / 128 > (k - n) / 128) || (q >= n "
      "&& k >= n && q / 128 >= k / 128)",
      {{"n", 2048}}, withPeriods);
  check("abs(q / n - k / n) <= 6 && abs(q % n - k % n) <= 6", {{"n", 64}});
  check("abs(q / n - k / n) <= 2 && abs(q % n - k % n) <= w", {{"n", 256}, {"w", 20}}, withPeriods);
}
