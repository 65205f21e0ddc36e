#include "tools/reference/Sequences.h"

#include "tools/reference/Prepared.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace attune::reference {

PackedRows::PackedRows(const HostTensor &bounds, int64_t rows) : all(rows) {
  for (int64_t i = 0; i < bounds.size(); ++i)
    begins.push_back(std::clamp(bounds.intAt(i), begins.empty() ? 0 : begins.back(), rows));
}

int64_t PackedRows::longest() const {
  int64_t most = 0;
  for (int64_t b = 0; b < sequences(); ++b)
    most = std::max(most, begins[size_t(b) + 1] - begins[size_t(b)]);
  return most;
}

HostTensor PackedRows::lengths(const HostTensor *most) const {
  HostTensor result = HostTensor::zeros(DType::I32, {sequences()});
  for (int64_t b = 0; b < sequences(); ++b)
    result.setInt(b, keysOf(most, b, begins[size_t(b) + 1] - begins[size_t(b)]));
  return result;
}

HostTensor PackedRows::unpack(const HostTensor &packed) const {
  std::vector<int64_t> shape = packed.shape;
  const int64_t heads = shape[1];
  shape[0] = sequences();
  shape[2] = longest();
  HostTensor batch = HostTensor::zeros(packed.dtype, shape);
  const size_t row = packed.size() ? packed.bytes() / size_t(heads * all) : 0;
  for (int64_t b = 0; b < sequences(); ++b)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t begin = begins[size_t(b)], count = begins[size_t(b) + 1] - begin;
      std::copy_n(packed.data.data() + size_t(h * all + begin) * row, size_t(count) * row,
                  batch.data.data() + size_t((b * heads + h) * shape[2]) * row);
    }
  return batch;
}

template <typename T>
std::vector<T> PackedRows::pack(const std::vector<T> &batch, int64_t heads, int64_t columns, T outside) const {
  std::vector<T> result(size_t(heads * all * columns), outside);
  const int64_t rows = longest();
  for (int64_t b = 0; b < sequences(); ++b)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t begin = begins[size_t(b)], count = begins[size_t(b) + 1] - begin;
      std::copy_n(batch.begin() + (b * heads + h) * rows * columns, count * columns,
                  result.begin() + (h * all + begin) * columns);
    }
  return result;
}

Expected<std::optional<Unpacked>> unpacked(const Problem &problem) {
  if (!problem.variant || problem.variant->error() || !problem.variant->sequences())
    return std::optional<Unpacked>();
  const Sequences &sequences = *problem.variant->sequences();
  if (problem.q.shape.size() != 4 || problem.k.shape.size() != 4 || problem.q.shape[0] != 1 ||
      (sequences.keys && problem.k.shape[0] != 1))
    return Error{"packed sequences need q, k and v with a batch of 1"};
  if (problem.wantKeep)
    return Error{"the reference does not tell what dropout keeps of packed sequences"};
  for (const TensorDecl *decl : {&sequences.queries, sequences.keys ? &*sequences.keys : nullptr}) {
    if (!decl)
      continue;
    auto found = problem.tensors.find(decl->name);
    if (found == problem.tensors.end())
      return Error{"tensor " + decl->name + " is not bound"};
    if (found->second.dtype != DType::I32 || found->second.shape.size() != 1 || found->second.shape[0] < 1 ||
        found->second.shape != problem.tensors.at(sequences.queries.name).shape)
      return Error{"bounds " + decl->name + " must be i32 [B + 1], as those of the queries"};
  }
  PackedRows queries(problem.tensors.at(sequences.queries.name), problem.q.shape[2]);
  std::optional<PackedRows> keys;
  if (sequences.keys)
    keys.emplace(problem.tensors.at(sequences.keys->name), problem.k.shape[2]);
  // The same variant, with lengths in place of the bounds.
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(problem.variant->toJson());
  json.erase("sequences");
  const HostTensor *most = nullptr;
  if (json.contains("keyLengths"))
    most = &problem.tensors.at(json["keyLengths"].get<std::string>());
  if (keys)
    json["keyLengths"] = "own_keys_";
  json["queryLengths"] = "own_queries_";
  Expected<Variant> variant = Variant::fromJson(json.dump());
  if (!variant)
    return variant.error();
  Problem batch{.variant = nullptr,
                .q = queries.unpack(problem.q),
                .k = keys ? keys->unpack(problem.k) : problem.k,
                .v = keys ? keys->unpack(problem.v) : problem.v,
                .tensors = problem.tensors,
                .scalars = problem.scalars,
                .scale = problem.scale,
                .dropout = problem.dropout,
                .seed = problem.seed,
                .offset = problem.offset,
                .threads = problem.threads};
  if (keys)
    batch.tensors["own_keys_"] = keys->lengths(most);
  batch.tensors["own_queries_"] = queries.lengths();
  return std::optional<Unpacked>(Unpacked{std::move(*variant), std::move(batch), std::move(queries), std::move(keys)});
}

Output packed(const Unpacked &from, Output batch) {
  const int64_t heads = batch.heads;
  Output result;
  result.batch = 1;
  result.heads = heads;
  result.headDimV = batch.headDimV;
  result.clampedReads = std::move(batch.clampedReads);
  auto rows = [&](const auto &values, int64_t columns, auto nothing) {
    return from.queries.pack(values, heads, columns, nothing);
  };
  result.o = rows(batch.o, batch.headDimV, 0.0);
  if (from.variant.hasLse())
    result.lse = rows(batch.lse, 1, -infinity);
  result.queryLength = heads && result.headDimV ? int64_t(result.o.size()) / (heads * result.headDimV) : 0;
  result.keyLength = batch.keyLength;
  // A batch without rows has no expected errors, and those of plainLowPrecision are not read.
  batch.oError.resize(size_t(from.queries.sequences() * heads * from.queries.longest()));
  batch.lseError.resize(from.variant.hasLse() ? batch.oError.size() : 0);
  batch.maskedNonFinite.resize(batch.oError.size());
  result.oError = rows(batch.oError, 1, 0.0);
  if (from.variant.hasLse())
    result.lseError = rows(batch.lseError, 1, 0.0);
  result.maskedNonFinite = rows(batch.maskedNonFinite, 1, uint8_t(0));
  return result;
}

GradientOf packed(const PackedRows &rows, GradientOf batch) {
  const int64_t heads = batch.shape[1], columns = batch.shape[3];
  GradientOf result;
  result.values = rows.pack(batch.values, heads, columns, 0.0);
  result.rowError = rows.pack(batch.rowError, heads, 1, 0.0);
  result.shape = {1, heads, heads ? int64_t(result.rowError.size()) / heads : 0, columns};
  return result;
}

} // namespace attune::reference
