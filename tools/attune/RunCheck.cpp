#include "tools/attune/RunCheck.h"

#include "tools/attune/Output.h"
#include "tools/attune/RunLaunch.h"
#include "tools/reference/Gradients.h"
#include "tools/reference/Memory.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
/// The run as the reference has it, without tensors.
reference::Problem problemOf(const RunFlags &flags, const Variant &variant, const RunData &data) {
  reference::Problem problem;
  problem.variant = &variant;
  problem.scalars = data.scalars;
  problem.seed = flags.seed;
  problem.offset = flags.offset;
  problem.qOffset = flags.qOffsetValue.value_or(0);
  return problem;
}

/// Compares the results of the forward pass with the reference's.
Expected<Check> checkForward(reference::Problem &problem, const RunData &data) {
  Expected<reference::Output> exact = reference::attention(problem);
  if (!exact)
    return exact.error();
  problem.wantKeep = false;
  Expected<reference::Output> plain = reference::plainLowPrecision(problem);
  if (!plain)
    return plain.error();
  Check result{std::move(*exact), {}};
  result.results.push_back(reference::compareO(data.o, result.exact, *plain));
  if (problem.variant->hasLse())
    result.results.push_back(reference::compareLse(data.lse, result.exact, *plain));
  return result;
}

/// Those of the backward pass.
Expected<Check> checkBackward(reference::Problem &problem, const RunData &data) {
  const auto dLse = data.ofBackward.find("dlse");
  reference::BackwardProblem backward{.forward = std::move(problem), .dO = data.ofBackward.at("do"), .o = data.o};
  if (dLse != data.ofBackward.end())
    backward.dLse = dLse->second;
  for (const auto &[name, tensor] : data.ofBackward)
    if (name.starts_with(gradientPrefix))
      backward.tensors.push_back(name.substr(gradientPrefix.size()));
  Expected<reference::GradientValues> exact = reference::gradients(backward);
  problem = std::move(backward.forward);
  if (!exact)
    return exact.error();
  Check result{std::move(exact->forward), {}};
  for (auto [name, gradient] : {std::pair("dq", &exact->q), std::pair("dk", &exact->k), std::pair("dv", &exact->v)})
    result.results.push_back(reference::compareGradient(name, data.ofBackward.at(name), *gradient));
  for (const auto &[tensor, gradient] : exact->tensors) {
    const std::string name = std::string(gradientPrefix) + tensor;
    result.results.push_back(reference::compareGradient(name, data.ofBackward.at(name), gradient));
  }
  return result;
}

/// "score" or "mask" as the user wrote it, where that is text.
std::string roleText(const RunFlags &flags, const Request &request, const std::string &role) {
  if (role != "score" && role != "mask")
    return "";
  const std::optional<std::string> &given = role == "score" ? flags.score : flags.mask;
  if (given)
    return *given;
  if (request.input.kind != Input::Kind::Json)
    return "";
  ordered_json json = ordered_json::parse(request.input.file.text, nullptr, false);
  return request.variant && json.is_object() && json.contains(role) && json[role].is_string()
             ? json[role].get<std::string>()
             : "";
}
} // namespace

void attune::cli::Check::printErrors() const {
  for (const reference::Comparison &result : results)
    print("  {:<14} {}\n", &result == &results.front() ? "error" : "", result.describe());
}

void attune::cli::announceReference(const Shape &shape) {
  constexpr double longest = 20;
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  const std::array<int64_t, 4> q = {shape.batch, shape.heads, shape.queries, shape.headDim},
                               v = {shape.batch, shape.headsKv, shape.keys, shape.headDimV};
  const double seconds = reference::expectedSeconds(q, v, threads);
  if (seconds > longest)
    printError("note: the check against the float64 reference takes about {} on {} cores; --no-check leaves it out\n",
               seconds < 120 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} minutes", seconds / 60), threads);
}

Expected<Check> attune::cli::checkResults(const RunFlags &flags, const Variant &variant, RunData &data) {
  reference::Problem problem = problemOf(flags, variant, data);
  problem.q = std::move(data.q);
  problem.k = std::move(data.k);
  problem.v = std::move(data.v);
  problem.tensors = std::move(data.tensors);
  problem.wantKeep = !flags.dump.empty() && variant.hasDropout();
  Expected<Check> result = data.ofBackward.empty() ? checkForward(problem, data) : checkBackward(problem, data);
  data.q = std::move(problem.q);
  data.k = std::move(problem.k);
  data.v = std::move(problem.v);
  data.tensors = std::move(problem.tensors);
  return result;
}

Expected<std::optional<int64_t>> attune::cli::countVisible(const RunFlags &flags, const Variant &variant,
                                                           RunData &data) {
  const int64_t mostEvaluations = flags.noCheck ? int64_t(1) << 30 : std::numeric_limits<int64_t>::max();
  reference::Problem problem = problemOf(flags, variant, data);
  problem.q = {data.q.dtype, data.q.shape, {}};
  problem.k = {data.k.dtype, data.k.shape, {}};
  problem.v = {data.v.dtype, data.v.shape, {}};
  problem.tensors = std::move(data.tensors);
  Expected<std::optional<int64_t>> count = reference::countVisible(problem, mostEvaluations);
  data.tensors = std::move(problem.tensors);
  return count;
}

Expected<void> attune::cli::checkIndices(const RunFlags &flags, const Request &request, const RunData &data) {
  LaunchArgs args = hostArgs(flags, Device{}, data);
  Expected<std::optional<IndexFault>> found = findIndexFault(*request.variant, args);
  if (!found)
    return found.error();
  if (!*found)
    return {};
  Error error = (*found)->error();
  if (const BuiltinVariant *builtin = request.input.builtin; builtin && error.where.file == builtin->name)
    error.where = {}; // the registry's own place
  const std::string source = roleText(flags, request, error.where.file);
  if (error.where.known() && !source.empty()) {
    size_t begin = 0;
    for (unsigned line = 1; line < error.where.line; ++line)
      begin = source.find('\n', begin) + 1;
    std::string shown = source.substr(begin, source.find('\n', begin) - begin),
                indent = shown.substr(0, error.where.column - 1);
    std::replace_if(indent.begin(), indent.end(), [](char c) { return c != '\t'; }, ' ');
    error.excerpt = shown + "\n" + indent + "^";
  }
  return error;
}
