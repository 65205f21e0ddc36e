#include "tools/attune/RunProgram.h"

#include "tools/attune/Output.h"
#include "tools/attune/RunLaunch.h"
#include "tools/reference/Memory.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;
using nlohmann::ordered_json;

namespace {

/// NAME=VALUE.
Result<std::pair<std::string, std::string>> splitAtEquals(std::string_view flag, const std::string &text,
                                                          std::string_view example) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return usageError(fmt::format("{} {}: write for example {}", flag, text, example));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

/// The operands that a launch is given: all but workspaces.
std::vector<OperandParam> operandsOf(const KernelSignature &signature) {
  std::vector<OperandParam> operands;
  for (const OperandParam &operand : signature.operands)
    if (operand.role != OperandRole::Workspace)
      operands.push_back(operand);
  return operands;
}

const KernelSignature &signatureOf(const Request &request) { return request.summary->signature; }

std::string listOf(const std::vector<OperandParam> &operands) {
  std::vector<std::string> names;
  for (const OperandParam &operand : operands)
    names.push_back(operand.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Finds the data of a program's operands.
class ProgramData {
public:
  ProgramData(const RunFlags &flags, const Request &request)
      : flags(flags), request(request), operands(operandsOf(signatureOf(request))) {}

  Result<RunData> fill() {
    Result<std::map<std::string, int64_t>> given = readExtents(flags, request);
    if (!given)
      return given.failure();
    extents = std::move(*given);
    if (std::optional<Failure> failure = readSources())
      return *failure;
    RunData data;
    if (std::optional<Failure> failure = makeOperands(data))
      return *failure;
    if (Expected<void> captured = makeCaptured(data); !captured)
      return captured.error();
    data.extents = extents;
    data.poisonResults();
    // What a program adds to begins as the user's, or as zeros.
    for (const OperandParam &operand : operands)
      if (operand.role == OperandRole::Accumulate) {
        HostTensor &sums = data.operands.at(operand.name);
        const auto file = files.find(operand.name);
        sums =
            file != files.end() ? file->second.converted(operand.dtype) : HostTensor::zeros(operand.dtype, sums.shape);
      }
    return data;
  }

private:
  /// Reads the files of --operand, which give extents too, and notes the other sources.
  std::optional<Failure> readSources() {
    for (const std::string &text : flags.operands) {
      Result<std::pair<std::string, std::string>> pair = splitAtEquals("--operand", text, "q=q.npy or q=random");
      if (!pair)
        return pair.failure();
      auto [name, source] = *pair;
      const auto operand = std::ranges::find(operands, name, &OperandParam::name);
      if (operand == operands.end())
        return usageError(fmt::format("--operand {}: the program has the operands {}", text, listOf(operands)));
      if (operand->role == OperandRole::Out)
        return usageError(
            fmt::format("--operand {}: the program writes {}; compare it by --expect {}=PATH.npy", text, name, name));
      if (!source.ends_with(".npy")) {
        // A captured tensor's flag has the same sources.
        Expected<TensorFlag> parsed =
            TensorFlag::parse(fmt::format("x={}[1]:{}", attune::name(operand->dtype), source));
        if (!parsed)
          return usageError(
              fmt::format("--operand {}: '{}' is not random, zeros, ones, LO..HI or a .npy file", text, source));
        sources.insert_or_assign(name, *parsed);
        continue;
      }
      Expected<HostTensor> file = reference::readNpy(source, reference::VoidElements::BFloat16);
      if (!file)
        return Failure{file.error(), usage};
      if (std::optional<Error> fault = matchExtents(*operand, source, file->shape))
        return Failure{*fault, usage};
      files.insert_or_assign(name, std::move(*file));
    }
    return std::nullopt;
  }

  /// Takes the extents of a file as those of the operand's axes; an error if they contradict what is known.
  std::optional<Error> matchExtents(const OperandParam &operand, const std::string &path,
                                    const std::vector<int64_t> &shape) {
    if (int(shape.size()) != operand.rank())
      return Error{fmt::format("{} holds [{}], operand {} has {} axes", path, fmt::join(shape, ", "), operand.name,
                               operand.rank())};
    for (size_t i = 0; i < shape.size(); ++i) {
      const AxisParam &axis = operand.axes[i];
      if (axis.by == 1 && !axis.size)
        extents.try_emplace(axis.name, shape[i]);
      const std::optional<int64_t> required = extentOf(axis);
      if (required && *required != shape[i])
        return Error{fmt::format("{} holds [{}], axis {} of operand {} is {}", path, fmt::join(shape, ", "), axis.name,
                                 operand.name, *required)};
    }
    return std::nullopt;
  }

  std::optional<int64_t> extentOf(const AxisParam &axis) const {
    if (axis.size)
      return axis.size;
    const auto known = extents.find(axis.name);
    return known == extents.end() ? std::nullopt : std::optional((known->second + axis.by - 1) / axis.by);
  }

  std::optional<Failure> makeOperands(RunData &data) {
    reference::MemoryNeed need;
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const OperandParam &operand : operands) {
      std::vector<int64_t> &shape = shapes[operand.name];
      for (const AxisParam &axis : operand.axes) {
        const std::optional<int64_t> extent = extentOf(axis);
        if (!extent)
          return usageError(fmt::format(
              "axis {} of operand {} has no extent; add --extents {}=N{}", axis.name, operand.name, axis.name,
              operand.role == OperandRole::Out ? "" : fmt::format(", or data by --operand {}=PATH.npy", operand.name)));
        shape.push_back(*extent);
      }
      need.add(operand.name, byteSize(operand.dtype), shape);
    }
    if (Expected<void> fits = need.fits("the operands", "make --extents smaller"); !fits)
      return Failure{fits.error()};
    uint64_t number = 1;
    for (const OperandParam &operand : operands) {
      data.operands[operand.name] = made(operand, shapes.at(operand.name), flags.seed * 1000 + number++);
      if (operand.role != OperandRole::In)
        data.written.push_back(operand.name);
    }
    return std::nullopt;
  }

  HostTensor made(const OperandParam &operand, const std::vector<int64_t> &shape, uint64_t seed) {
    if (const auto file = files.find(operand.name); file != files.end())
      return file->second.converted(operand.dtype);
    const auto source = sources.find(operand.name);
    if (operand.role != OperandRole::In)
      return HostTensor::zeros(operand.dtype, shape);
    if (source == sources.end() || source->second.source == "random")
      return HostTensor::random(operand.dtype, shape, seed);
    HostTensor tensor = HostTensor::zeros(operand.dtype, shape);
    const TensorFlag &flag = source->second;
    if (flag.source != "zeros")
      for (int64_t i = 0; i < tensor.size(); ++i)
        tensor.set(i, flag.range ? flag.range->draw(operand.dtype, seed, uint64_t(i)) : 1.0);
    return tensor;
  }

  /// Captured tensors and run-time scalars, as for a variant. B, H, Hkv, Sq and Sk are axes b, h, hkv, q and k.
  Expected<void> makeCaptured(RunData &data) {
    const KernelSignature &signature = signatureOf(request);
    Shape shape;
    for (auto [axis, extent] : {std::pair("b", &shape.batch),
                                {"h", &shape.heads},
                                {"hkv", &shape.headsKv},
                                {"q", &shape.queries},
                                {"k", &shape.keys}})
      if (const auto known = extents.find(axis); known != extents.end())
        *extent = known->second;
    if (Expected<void> there = requireData(request, signature.tensors, signature.scalars, shape); !there)
      return there;
    uint64_t number = 100;
    for (const TensorParam &param : signature.tensors) {
      Expected<HostTensor> tensor = makeTensor(request, param, shape, flags.seed * 1000 + number++);
      if (!tensor)
        return tensor.error();
      data.tensors[param.name] = std::move(*tensor);
    }
    for (const ScalarParam &param : signature.scalars) {
      Expected<HostTensor> value = makeScalar(request, param);
      if (!value)
        return value.error();
      data.scalars[param.name] = std::move(*value);
    }
    return {};
  }

  const RunFlags &flags;
  const Request &request;
  std::vector<OperandParam> operands;
  std::map<std::string, int64_t> extents;
  std::map<std::string, HostTensor> files;
  std::map<std::string, TensorFlag> sources; ///< that are no files
};

/// A result of a program beside what the user expects.
struct Compared {
  std::string name;
  double relative = 0; ///< root mean square of the differences over that of the expected values
  double largest = 0;  ///< the largest difference
  bool pass = false;

  std::string text(double tolerance) const {
    return fmt::format("relative rms {:.2e} (tolerance {:.2g}), largest difference {:.3g}", relative, tolerance,
                       largest);
  }
};

/// The relative root mean square error up to which a result passes without --tolerance. Sums of products of 16-bit
/// values that are rounded once or twice on the way stay below a few thousandths.
double toleranceOf(const RunFlags &flags) { return flags.tolerance.value_or(1e-2); }

Result<std::map<std::string, HostTensor>> readExpected(const RunFlags &flags, const RunData &data) {
  std::map<std::string, HostTensor> expected;
  for (const std::string &text : flags.expected) {
    Result<std::pair<std::string, std::string>> pair = splitAtEquals("--expect", text, "o=o.npy");
    if (!pair)
      return pair.failure();
    auto [name, path] = *pair;
    if (std::ranges::find(data.written, name) == data.written.end())
      return usageError(fmt::format("--expect {}: the program writes {}", text, fmt::join(data.written, ", ")));
    Expected<HostTensor> file = reference::readNpy(path, reference::VoidElements::BFloat16);
    if (!file)
      return Failure{file.error(), usage};
    if (file->shape != data.operands.at(name).shape)
      return usageError(fmt::format("{} holds [{}], {} is [{}]", path, fmt::join(file->shape, ", "), name,
                                    fmt::join(data.operands.at(name).shape, ", ")));
    expected.insert_or_assign(name, std::move(*file));
  }
  return expected;
}

Compared compare(const std::string &name, const HostTensor &result, const HostTensor &expected, double tolerance) {
  double squares = 0, reference = 0, largest = 0;
  for (int64_t i = 0; i < result.size(); ++i) {
    if (std::isnan(result.at(i)) && std::isnan(expected.at(i)))
      continue; // where NaN is expected, NaN is right
    const double difference = result.at(i) - expected.at(i);
    squares += difference * difference;
    reference += expected.at(i) * expected.at(i);
    largest = std::isnan(difference) ? difference : std::max(largest, std::abs(difference));
  }
  Compared compared{name, reference > 0 ? std::sqrt(squares / reference) : std::sqrt(squares), largest};
  compared.pass = compared.relative <= tolerance; // NaN does not
  return compared;
}

std::vector<Compared> compareAll(const RunFlags &flags, RunData &data,
                                 const std::map<std::string, HostTensor> &expected) {
  std::vector<Compared> compared;
  for (const auto &[name, values] : expected)
    compared.push_back(compare(name, data.operands.at(name), values, toleranceOf(flags)));
  return compared;
}

Expected<void> dump(const std::string &folder, const RunData &data) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    return Error{fmt::format("{} cannot be made: {}", folder, code.message())};
  for (const auto &[name, tensor] : data.operands) {
    const std::vector<std::byte> bytes = reference::formatNpy(tensor);
    if (Expected<void> written = writeFile((fs::path(folder) / (name + ".npy")).string(),
                                           {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
        !written)
      return written;
  }
  return {};
}

/// Prints the run, and gives the exit code: failed where a result differs from what is expected.
int reportProgram(const RunFlags &flags, const Request &request, RunData &data, const std::vector<Compared> &compared,
                  const std::string &what, std::optional<double> milliseconds) {
  if (!flags.dump.empty())
    if (Expected<void> dumped = dump(flags.dump, data); !dumped)
      return report({dumped.error()});
  const bool pass = std::ranges::all_of(compared, &Compared::pass);
  if (flags.json) {
    ordered_json json = {{"program", request.label}, {"target", request.target.text()}};
    if (milliseconds)
      json["milliseconds"] = *milliseconds;
    for (const auto &[name, tensor] : data.operands)
      json["operands"][name] = {{"dtype", attune::name(tensor.dtype)}, {"shape", tensor.shape}};
    for (const Compared &each : compared)
      json["results"][each.name] = {{"relativeRms", each.relative}, {"largest", each.largest}, {"pass", each.pass}};
    print("{}\n", json.dump(2));
  } else {
    print("{} on {}{}\n", request.label, request.target.text(), what);
    for (const auto &[name, tensor] : data.operands)
      cli::print("  {:<14} {} [{}]{}\n", name, attune::name(tensor.dtype), fmt::join(tensor.shape, ", "),
                 std::ranges::find(data.written, name) == data.written.end() ? "" : ", written");
    for (const Compared &each : compared)
      print("  {:<14} {} {}\n", each.pass ? "right" : "wrong", each.name, each.text(toleranceOf(flags)));
    if (compared.empty())
      print("  {:<14} nothing; give what you expect by --expect {}=PATH.npy\n", "checked", data.written.front());
    if (milliseconds)
      print("  {:<14} {:.3f} ms, median\n", "time", *milliseconds);
    if (!flags.dump.empty())
      print("  {:<14} {}\n", "dump", flags.dump);
  }
  if (pass)
    return done;
  for (const Compared &each : compared)
    if (!each.pass)
      printError("error: {} differs from what is expected: {}\n", each.name, each.text(toleranceOf(flags)));
  return failed;
}

int simulateProgram(const RunFlags &flags, const Request &request, RunData &data,
                    const std::map<std::string, HostTensor> &expected) {
  if (!request.target.isCuda())
    return report(usageError("--simulate is for a GPU's schedule; name its architecture, for example --arch sm_90a"));
  Expected<std::string> text =
      request.summary->stage == Stage::Sched ? request.text->text : emitStage(request, Stage::Sched);
  if (!text)
    return report({text.error()});
  Expected<Simulation> simulation = Simulation::load({*text, request.text->file});
  if (!simulation)
    return report({simulation.error()});
  LaunchArgs args = hostArgs(flags, Device{}, data);
  args.workspaceBytes = simulation->workspaceBytes(args);
  Expected<std::vector<std::max_align_t>> workspace = hostWorkspace(args.workspaceBytes);
  if (!workspace)
    return report({workspace.error()});
  args.workspace = workspace->data();
  const std::map<std::string, HostTensor> initial = data.operands;
  std::vector<Compared> compared;
  for (int seed = 0; seed < flags.simulate; ++seed) {
    for (const std::string &name : data.written)
      std::ranges::copy(initial.at(name).data, data.operands.at(name).data.begin());
    if (Expected<void> ran = simulation->run(args, {.seed = uint64_t(seed)}); !ran)
      return report({ran.error()});
    compared = compareAll(flags, data, expected);
    if (!std::ranges::all_of(compared, &Compared::pass))
      break;
  }
  return reportProgram(flags, request, data, compared,
                       fmt::format(", simulated under {} orders of events", flags.simulate), std::nullopt);
}

} // namespace

Result<std::map<std::string, int64_t>> attune::cli::readExtents(const RunFlags &flags, const Request &request) {
  std::map<std::string, int64_t> extents;
  for (const std::string &text : flags.extents) {
    Result<std::pair<std::string, std::string>> pair = splitAtEquals("--extents", text, "b=2,k=1024");
    if (!pair)
      return pair.failure();
    auto [axis, number] = *pair;
    int64_t extent = 0;
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), extent);
    if (fault != std::errc() || end != number.data() + number.size() || extent < 0 || extent > INT32_MAX)
      return usageError(fmt::format("--extents {}: {} is not a whole number from 0 to {}", text, number, INT32_MAX));
    const std::vector<std::string> axes = signatureOf(request).axes();
    if (std::ranges::find(axes, axis) == axes.end())
      return usageError(
          fmt::format("--extents {}: the program's axes without a fixed size are {}", text, fmt::join(axes, ", ")));
    extents[axis] = extent;
  }
  return extents;
}

Result<RunData> attune::cli::programData(const RunFlags &flags, const Request &request) {
  return ProgramData(flags, request).fill();
}

void attune::cli::addExtents(CLI::Option_group &group, RunFlags &flags) {
  group
      .add_option("--extents", flags.extents,
                  "extents of the program's axes that have no fixed size, as b=2,h=4,k=1024; files give the others")
      ->type_name("AXIS=N")
      ->delimiter(',');
}

void attune::cli::addProgramFlags(CLI::App &verb, RunFlags &flags, bool checks) {
  auto *group = verb.add_option_group("Programs of your own, in tile or sched text");
  addExtents(*group, flags);
  group
      ->add_option("--operand", flags.operands,
                   "data of an operand, NAME=SOURCE; repeatable. SOURCE is random (without it, too), zeros, ones, "
                   "LO..HI (uniform) or a .npy file")
      ->type_name("NAME=SOURCE");
  if (!checks)
    return;
  group
      ->add_option(
          "--expect", flags.expected,
          "what an operand that the program writes should hold, NAME=PATH.npy; repeatable. The run fails where "
          "it differs")
      ->type_name("NAME=PATH.npy");
  group
      ->add_option("--tolerance", flags.tolerance,
                   "largest root mean square of the differences, relative to that of the expected values (0.01)")
      ->check(CLI::PositiveNumber);
}

Result<bool> attune::cli::runsAsProgram(const RunFlags &flags, const Request &request) {
  const bool asked = !flags.extents.empty() || !flags.operands.empty() || !flags.expected.empty() || flags.tolerance;
  if (!request.text || request.variant) {
    if (asked)
      return usageError("--extents, --operand, --expect and --tolerance are for programs in tile or sched text; a "
                        "variant's sizes are --shape, its inputs --q, --k and --v");
    return false;
  }
  const std::vector<OperandParam> operands = operandsOf(signatureOf(request));
  const std::string_view attention[] = {"q", "k", "v", "o", "lse", "do", "dlse", "dq", "dk", "dv"};
  const bool isAttention = std::ranges::all_of(operands, [&](const OperandParam &operand) {
    return std::ranges::find(attention, operand.name) != std::end(attention) || operand.name.starts_with(savedPrefix) ||
           operand.name.starts_with(gradientPrefix);
  });
  return asked || !isAttention;
}

int attune::cli::runProgram(const RunFlags &flags, const Request &request) {
  if (!flags.shape.empty() || !flags.q.empty() || flags.checked || flags.prepare)
    return report(usageError("a program's sizes and inputs are --extents and --operand; leave out --shape, --q, --k, "
                             "--v, --checked and --prepare"));
  Result<RunData> filled = programData(flags, request);
  if (!filled)
    return report(filled.failure());
  RunData &data = *filled;
  Result<std::map<std::string, HostTensor>> expected = readExpected(flags, data);
  if (!expected)
    return report(expected.failure());
  if (flags.simulate)
    return simulateProgram(flags, request, data, *expected);
  Expected<Kernel> kernel = compileKernel(request);
  if (!kernel)
    return report({kernel.error()});
  Expected<double> milliseconds = runKernel(flags, *kernel, request.target, data);
  if (!milliseconds)
    return report({milliseconds.error()});
  return reportProgram(flags, request, data, compareAll(flags, data, *expected),
                       fmt::format(", path {}", kernel->image().path), *milliseconds);
}
