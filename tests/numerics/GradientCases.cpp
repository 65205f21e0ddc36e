#include "tests/numerics/GradientCases.h"
#include "tests/numerics/Cases.h"

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

std::vector<Reader> attune::tests::orderedReaders() {
  auto one = [](const char *name, DType dtype = f32) { return captured(name, dtype, rank(1)); };
  auto t = one("t");
  auto half = captured("t", bf16, rank(1)), u = captured("u", f16, rank(1));
  auto two = captured("t", f32, rank(2)), three = captured("t", bf16, rank(3)), four = captured("t", f32, rank(4));
  auto type = captured("type", i32, rank(1));
  auto asFloat = [](const Expr &x) { return cast(x, f32); };
  return {
      {"t[h] * (k - q)",
       {{"t", f32, {-2}}},
       [=](Score s, Index, Index h, Index q, Index k) { return s + 0.1f * t[h] * asFloat(k - q); }},
      {"t[b]", {{"t", f32, {-1}}}, [=](Score s, Index b, Index, Index, Index) { return s * t[b]; }},
      {"t[0]", {{"t", f32, {3}}}, [=](Score s, Index, Index, Index, Index) { return tanh(s * t[0]); }},
      {"t[b, h] bf16",
       {{"t", bf16, {-1, -2}}},
       [t = captured("t", bf16, rank(2))](Score s, Index b, Index h, Index, Index) { return softcap(s * t[b][h], 3); }},
      {"t[h / 2]", {{"t", f32, {4}}}, [=](Score s, Index, Index h, Index, Index) { return s * t[h / 2]; }},
      {"t[q] and u[k]",
       {{"t", bf16, {-3}}, {"u", f16, {-4}}},
       [=](Score s, Index, Index, Index q, Index k) { return s * half[q] + u[k]; }},
      {"t[h, q] longer",
       {{"t", f32, {-2, 400}}},
       [=](Score s, Index, Index h, Index q, Index) { return s * two[h][q]; }},
      {"t[b, k]", {{"t", f32, {-1, -4}}}, [=](Score s, Index b, Index, Index, Index k) { return s + two[b][k]; }},
      {"t[k, h] longer",
       {{"t", f32, {350, -2}}},
       [=](Score s, Index, Index h, Index, Index k) { return s + two[k][h]; }},
      {"t[type[q]]",
       {{"t", f32, {5}}, {"type", i32, {-3}}},
       [=](Score s, Index, Index, Index q, Index) { return s * t[type[q]]; }},
      {"t[type[k]]",
       {{"t", f32, {5}}, {"type", i32, {-4}}},
       [=](Score s, Index, Index, Index, Index k) { return s + t[type[k]]; }},
      {"clamped t[k]", {{"t", f32, {20}}}, [=](Score s, Index, Index, Index, Index k) { return s + clamped(t[k]); }},
      {"clamped t[k - 5]",
       {{"t", f32, {20}}},
       [=](Score s, Index, Index, Index, Index k) { return s + clamped(t[k - 5]); }},
      {"broadcast t[b, h, k]",
       {{"t", bf16, {1, -2, -4}}},
       [=](Score s, Index b, Index h, Index, Index k) { return s + broadcast(three[b][h][k]); }},
      {"t[h] + t[q] + t[k]",
       {{"t", f32, {400}}},
       [=](Score s, Index, Index h, Index q, Index k) { return s * t[q] + t[k] + 0.5f * s * t[h]; }},
      {"t[q, k]", {{"t", f32, {-3, -4}}}, [=](Score s, Index, Index, Index q, Index k) { return s + two[q][k]; }},
      {"t[h, q, k] bf16",
       {{"t", bf16, {-2, -3, -4}}},
       [=](Score s, Index, Index h, Index q, Index k) { return s + three[h][q][k]; }},
      {"t[b, h, q, k]",
       {{"t", f32, {-1, -2, -3, -4}}},
       [=](Score s, Index b, Index h, Index q, Index k) { return s * four[b][h][q][k]; }},
      {"t[k, q, h] larger",
       {{"t", bf16, {350, 401, 9}}},
       [=](Score s, Index, Index h, Index q, Index k) { return s + three[k][q][h]; }},
      {"broadcast t[b, h, q, k]",
       {{"t", f32, {1, 1, -3, -4}}},
       [=](Score s, Index b, Index h, Index q, Index k) { return s + broadcast(four[b][h][q][k]); }},
  };
}

std::vector<Reader> attune::tests::scatteredReaders() {
  auto t = captured("t", f32, rank(1)), type = captured("type", i32, rank(1));
  auto two = captured("t", bf16, rank(2)), wide = captured("t", f32, rank(2));
  return {
      {"t[h, bucket(q - k)]",
       {{"t", bf16, {-2, 32}}},
       [=](Score s, Index, Index h, Index q, Index k) { return s + two[h][min(abs(q - k), 31)]; }},
      {"t[h, side and bucket of q - k]",
       {{"t", f32, {-2, 8}}},
       [=](Score s, Index, Index h, Index q, Index k) {
         return s + wide[h][select(q < k, 4, 0) + min(abs(q - k) >> 4, 3)];
       }},
      {"t[q - k + Sk]",
       {{"t", f32, {900}}},
       [=](Score s, Index, Index, Index q, Index k) { return s * t[q - k + keyLength()]; }},
      {"clamped t[q - k]",
       {{"t", f32, {40}}},
       [=](Score s, Index, Index, Index q, Index k) { return s + clamped(t[q - k]); }},
      {"t[type[q], k]",
       {{"t", f32, {5, -4}}, {"type", i32, {-3}}},
       [=](Score s, Index, Index, Index q, Index k) { return s + wide[type[q]][k]; }},
      {"t[q, k] and t[k, q]",
       {{"t", f32, {400, 400}}},
       [=](Score s, Index, Index, Index q, Index k) { return s * wide[q][k] + wide[k][q]; }},
      {"t[h, q] and t[q, k]",
       {{"t", f32, {400, 400}}},
       [=](Score s, Index, Index h, Index q, Index k) { return s * wide[h][q] + wide[q][k]; }},
      {"t[i64 of q - k]",
       {{"t", f32, {900}}},
       [=](Score s, Index, Index, Index q, Index k) { return s + clamped(t[cast(q - k, i64) * int64_t(3)]); }},
  };
}

Asked attune::tests::testOf(const Reader &reader, Variant variant, DType dtype, const Shape &shape, uint64_t seed) {
  Asked asked{makeCase(reader.label, std::move(variant), dtype, shape, seed), {}};
  const int64_t extents[] = {shape.batch, shape.heads, shape.queries, shape.keys};
  uint64_t number = seed * 10;
  for (const Learned &tensor : reader.tensors) {
    std::vector<int64_t> dims = tensor.dims;
    for (int64_t &dim : dims)
      dim = dim < 0 ? extents[-dim - 1] : dim;
    HostTensor values = HostTensor::random(tensor.dtype, dims, ++number);
    if (isFloat(tensor.dtype)) {
      asked.gradients.tensors.push_back(tensor.name);
    } else {
      std::vector<int64_t> kinds(size_t(values.size()));
      for (size_t i = 0; i < kinds.size(); ++i)
        kinds[i] = int64_t(i * 7 % 5);
      values = HostTensor::fromInts(tensor.dtype, dims, kinds);
    }
    asked.test.problem.tensors[tensor.name] = std::move(values);
  }
  return asked;
}

Asked attune::tests::sinkCase(DType dtype, double scale) {
  const Shape shape{.batch = 2, .heads = 6, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 32};
  const Variant variant =
      Variant("sink").mask(causal()).dropout(0.2f).normaliser(normalisers::softmaxWithSink("sinks"));
  Asked asked{makeCase("sinks", variant, dtype, shape, 4), {.tensors = {"sinks"}, .lse = true}};
  HostTensor &values = asked.test.problem.tensors.at("sinks");
  for (int64_t i = 0; i < values.size(); ++i)
    values.set(i, scale * values.at(i));
  return asked;
}

Normaliser attune::tests::softmax2() {
  return {.name = "softmax2",
          .statistics = {{"top", Reduction::Max, -INFINITY}, {"total", Reduction::Sum, 0}},
          .base = "top == -inf ? 0 : top",
          .rescale = "exp2((top - base) / temperature[h])",
          .p = "x == -inf ? 0 : exp2((x - base) / temperature[h])",
          .divisor = "total",
          .lse = "total == 0 ? -inf : top + temperature[h] * log2(total)",
          .tensors = {{"temperature", f32, 1}}};
}

std::vector<Asked> attune::tests::definedCases(DType dtype) {
  constexpr double ln2 = 0.693147180559945;
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 70, .keys = 90, .headDim = 32};
  auto temperature = captured("temperature", f32, rank(1));
  auto cooled = [=](Score s, Index, Index h, Index, Index) { return s * float(ln2) / temperature[h]; };
  auto temperatureOf = [](int64_t head) { return 0.5 + double(head); };
  auto hides = [](Index, Index, Index q, Index k) { return q % 5 != 0 && k <= q; };
  std::vector<Asked> cases;
  auto add = [&](const Normaliser &normaliser, Variant known, Gradients gradients,
                 std::function<double(int64_t, double)> lse = {}) {
    Variant variant = Variant(normaliser.name).mask(hides).normaliser(normaliser);
    known.mask(hides);
    if (cases.size() % 2)
      variant.dropout(0.2f), known.dropout(0.2f);
    Case test = makeCase(normaliser.name, variant, dtype, shape, cases.size() + 1);
    HostTensor temperatures = HostTensor::zeros(f32, {shape.heads});
    for (int64_t h = 0; h < shape.heads; ++h)
      temperatures.set(h, temperatureOf(h));
    for (const TensorDecl &tensor : variant.tensors())
      if (tensor.name == "temperature")
        test.problem.tensors[tensor.name] = temperatures;
    test.reference = std::make_shared<const Variant>(known);
    test.problem.variant = test.reference.get();
    test.lse = std::move(lse);
    cases.push_back({std::move(test), std::move(gradients)});
  };
  auto inUnits = [=](int64_t head, double lse) { return lse * temperatureOf(head) / ln2; };
  const Variant ofSoftmax("softmax"), ofTwo = Variant("softmax2").score(cooled),
                                      ofSink = Variant("sink").normaliser(normalisers::softmaxWithSink("sinks"));
  Normaliser normaliser = softmax2();
  // The reference, whose score has the temperature, expects of bf16 a smaller error (NormaliserLaw.h).
  Gradients ofTemperature;
  if (dtype == f32)
    ofTemperature.tensors = {"temperature"};
  add(normaliser, ofTwo, ofTemperature, inUnits);
  add(normaliser, ofTwo, ofTemperature, inUnits);
  add(normaliser, ofTwo, {.lse = true}, inUnits);
  // The temperature is applied to the base, whose gradient is not taken.
  normaliser.name = "divided_base";
  normaliser.base = "top == -inf ? 0 : top / temperature[h]";
  normaliser.rescale = "exp2(top / temperature[h] - base)";
  normaliser.p = "x == -inf ? 0 : exp2(x / temperature[h] - base)";
  add(normaliser, ofTwo, {.lse = true}, inUnits);
  // L is not LSE + log(divisor).
  normaliser = softmax2();
  normaliser.name = "sink2";
  normaliser.divisor = "total + exp(sinks[h] - 0.693147181 * top / temperature[h])";
  normaliser.tensors.push_back({"sinks", f32, 1});
  Variant cooledSink = Variant("v").score(cooled).normaliser(normalisers::softmaxWithSink("sinks"));
  add(normaliser, cooledSink, {.tensors = {"sinks"}, .lse = true}, inUnits);
  add(normaliser, cooledSink, {.tensors = {"sinks"}}, inUnits);
  // Softmax and a sink, the sum first.
  normaliser = {.name = "sum_first",
                .statistics = {{"total", Reduction::Sum, 0}, {"top", Reduction::Max, -INFINITY}},
                .base = "select(top > -inf, top, 0)",
                .rescale = "1 / exp(base - top)",
                .p = "exp(x - base)",
                .divisor = "total",
                .lse = "log(total) + top"};
  add(normaliser, ofSoftmax, {.lse = true});
  add(normaliser, ofSoftmax, {});
  normaliser.name = "other_sink";
  normaliser.divisor = "exp(-top) * exp(sinks[h]) + total";
  normaliser.tensors = {{"sinks", f32, 1}};
  add(normaliser, ofSink, {.tensors = {"sinks"}, .lse = true});
  add(normaliser, ofSink, {.tensors = {"sinks"}});
  // A cap of the weights.
  normaliser = normalisers::softmax();
  normaliser.name = "capped";
  normaliser.p = "x == -inf ? 0 : exp(min(x, 0.5) - base)";
  add(normaliser, Variant("v").score([](Score s, Index, Index, Index, Index) { return min(s, 0.5f); }), {.lse = true});
  return cases;
}

std::vector<Shape> attune::tests::gradientShapes() {
  return {
      {.batch = 2, .heads = 6, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 32},
      {.batch = 1, .heads = 3, .headsKv = 1, .queries = 64, .keys = 64, .headDim = 16, .headDimV = 24},
      {.batch = 3, .heads = 2, .headsKv = 2, .queries = 1, .keys = 130, .headDim = 8},
      {.batch = 2, .heads = 1, .headsKv = 1, .queries = 130, .keys = 1, .headDim = 8},
  };
}

std::vector<std::function<Asked()>> attune::tests::gradientCases() {
  std::vector<std::function<Asked()>> cases;
  uint64_t seed = 1;
  for (const std::vector<Reader> &readers : {orderedReaders(), scatteredReaders()})
    for (const Reader &reader : readers)
      for (const Shape &shape : gradientShapes()) {
        cases.push_back(
            [=] { return testOf(reader, Variant("plain").score(reader.score), dtypes[seed % 3], shape, seed); });
        cases.push_back([=] {
          const Variant masked = Variant("masked").score(reader.score).mask(causal() && slidingWindow(50, 0));
          return testOf(reader, Variant(masked).dropout(0.2f), dtypes[(seed + 1) % 3], shape, seed);
        });
        ++seed;
      }
  for (DType dtype : dtypes)
    for (double scale : {1.0, 30.0, 300.0})
      cases.push_back([=] { return sinkCase(dtype, scale); });
  return cases;
}

std::vector<std::function<Asked()>> attune::tests::savingCases() {
  struct Given {
    Variant variant;
    std::vector<std::string> values;
  };
  const std::vector<std::string> dropout = {"dropout"}, score = {"score"}, both = {"dropout", "score"};
  Variant dropped = Variant("dropped").mask(causal()).dropout(0.3f);
  Variant sigmoid = Variant("sigmoid").mask(slidingWindow(40, 3)).normaliser(normalisers::sigmoid()).dropout(0.3f);
  // What is saved is neither s nor what the region yields: tanh, of which score and gradient follow.
  auto bounded = [](Score s, Index, Index, Index q, Index k) { return 5 * tanh(s / 5) + 0.01f * (k - q); };
  // Of x more than the saved value follows from s.
  auto twice = [](Score s, Index, Index, Index, Index) { return s + 0.5f * sin(s) * tanh(0.3f * s); };
  const Given given[] = {{dropped, dropout},
                         {dropped, both},
                         {Variant("plain"), score},
                         {sigmoid, both},
                         {Variant("softcap").score(softcap(5)).mask(causal()), score},
                         {Variant("bounded").score(bounded).qOffset().dropout(0.5f), both},
                         {Variant("twice").score(twice).mask(slidingWindow(64, 0)), score}};
  std::vector<Shape> shapes = gradientShapes();
  shapes.push_back({.batch = 1, .heads = 2, .headsKv = 1, .queries = 300, .keys = 260, .headDim = 128});
  shapes.push_back({.batch = 1, .heads = 2, .headsKv = 2, .queries = 90, .keys = 77, .headDim = 40, .headDimV = 72});
  std::vector<std::function<Asked()>> cases;
  uint64_t seed = 0;
  for (const Given &one : given)
    for (const Shape &shape : shapes)
      for (DType dtype : {DType::BF16, DType::F16, DType::F32}) {
        if (++seed % 2 && dtype != DType::BF16)
          continue;
        cases.push_back([=] {
          Asked asked{makeCase("saved " + std::string(one.variant.name()), one.variant, dtype, shape, seed), {}};
          asked.gradients.saving.save = one.values;
          return asked;
        });
      }
  return cases;
}
