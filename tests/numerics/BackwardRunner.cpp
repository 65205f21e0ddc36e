#include "tests/numerics/BackwardRunner.h"
#include "tests/numerics/CompileToRun.h"
#include "tests/numerics/Placement.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

reference::BackwardProblem attune::tests::backwardProblem(const Case &test, const Gradients &asked) {
  const reference::Problem &problem = test.problem;
  const std::vector<int64_t> o = {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.v.shape[3]};
  reference::BackwardProblem backward{
      .forward = problem, .dO = HostTensor::random(problem.q.dtype, o, problem.seed + 11), .tensors = asked.tensors};
  if (test.reference)
    backward.forward.variant = test.reference.get();
  if (asked.lse)
    backward.dLse = HostTensor::random(DType::F32, {o[0], o[1], o[2]}, problem.seed + 12);
  return backward;
}

Expected<reference::GradientValues> attune::tests::exactGradients(const Case &test,
                                                                  const reference::BackwardProblem &problem) {
  if (!test.lse)
    return reference::gradients(problem);
  const int64_t heads = problem.forward.q.shape[1], rows = problem.forward.q.shape[2];
  auto headOf = [&](size_t row) { return int64_t(row) / rows % heads; };
  reference::BackwardProblem ofReference = problem;
  if (ofReference.dLse) {
    const Expected<reference::Output> forward = reference::attention(problem.forward);
    if (!forward)
      return forward.error();
    constexpr double step = 0x1p-10;
    for (size_t row = 0; row < forward->lse.size(); ++row) {
      const double lse = forward->lse[row], above = test.lse(headOf(row), lse + step),
                   slope = (above - test.lse(headOf(row), lse - step)) / (2 * step);
      ofReference.dLse->set(int64_t(row), std::isfinite(lse) ? slope * ofReference.dLse->at(int64_t(row)) : 0);
    }
  }
  Expected<reference::GradientValues> exact = reference::gradients(ofReference);
  if (exact)
    for (size_t row = 0; row < exact->forward.lse.size(); ++row)
      exact->forward.lse[row] = test.lse(headOf(row), exact->forward.lse[row]);
  return exact;
}

/// In one piece, between ones; poisoned where it has no values.
static Placed arrangeSaved(const OperandParam &operand, const reference::Problem &problem, const HostTensor *values) {
  constexpr int64_t margin = 64;
  const auto shape =
      savedShape(operand, problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.k.shape[2]);
  Placed one;
  one.dtype = operand.dtype;
  one.values = values;
  one.shape.assign(shape.begin(), shape.end());
  one.strides.assign(shape.size(), 1);
  for (size_t i = shape.size() - 1; i-- > 0;)
    one.strides[i] = one.strides[i + 1] * shape[i + 1];
  one.origin = margin;
  one.chunk = one.chunkStride = one.elements() + 2 * margin;
  return one;
}

Expected<SavedTensors> attune::tests::runForwardSaving(const Launcher &launcher, const Case &test,
                                                       const std::vector<std::string> &values) {
  const Device device = launcher.device;
  const reference::Problem &problem = test.problem;
  PlacedInputs inputs(test);
  if (Expected<void> done = inputs.place(device); !done)
    return done.error();
  Placed o = arrange(problem.q.dtype, {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.v.shape[3]},
                     test.layout, false);
  if (Expected<void> done = o.place(device); !done)
    return done.error();
  LaunchArgs args = inputs.args(device);
  args.o = o.view(device);
  std::map<std::string, Placed> placed;
  for (const std::string &value : values) {
    const OperandParam operand = savedOperand(value, OperandRole::Out);
    Placed &one = placed[operand.name] = arrangeSaved(operand, problem, nullptr);
    if (Expected<void> done = one.place(device); !done)
      return done.error();
  }
  for (const auto &[name, one] : placed)
    args.operands.push_back({name, one.view(device)});
  if (Expected<std::string> around = launchInWorkspace(launcher, args); !around)
    return around.error();
  SavedTensors saved;
  for (auto &[name, one] : placed) {
    Expected<int64_t> outside = one.take(saved[name]);
    if (!outside)
      return outside.error();
    if (*outside >= 0)
      return Error{fmt::format("memory around {} was written at element {}", name, *outside)};
  }
  return saved;
}

Expected<GradientResults> attune::tests::runBackward(const Launcher &launcher, const Case &test,
                                                     const reference::BackwardProblem &problem,
                                                     const reference::GradientValues &exact,
                                                     const SavedTensors &saved) {
  const Device device = launcher.device;
  const DType dtype = test.problem.q.dtype;
  const HostTensor &q = problem.forward.q, &k = problem.forward.k, &v = problem.forward.v;
  auto dims = [](const std::vector<int64_t> &shape) {
    return std::array{shape[0], shape[1], shape[2], shape.size() > 3 ? shape[3] : 1};
  };
  const HostTensor o = HostTensor::fromDoubles(dtype, problem.dO.shape, exact.forward.o),
                   lse = !test.variant->hasLse()
                             ? HostTensor()
                             : HostTensor::fromDoubles(DType::F32, {q.shape[0], q.shape[1], q.shape[2]},
                                                       exact.forward.lse);
  PlacedInputs inputs(test);
  if (Expected<void> done = inputs.place(device); !done)
    return done.error();
  std::map<std::string, Placed> placed;
  auto arrangeOne = [&](const char *name, const std::vector<int64_t> &shape, const HostTensor *values) {
    const bool isRow = shape.size() == 3;
    Placed &one = placed[name] = arrange(isRow ? DType::F32 : dtype, dims(shape), test.layout, false, isRow);
    one.values = values;
    if (values == &problem.dO)
      one.ends = endsOf(test, test.layout.queriesEnd);
    return one.place(device);
  };
  std::vector<Expected<void>> arranged;
  for (auto [name, shape] : {std::pair("dq", &q.shape), std::pair("dk", &k.shape), std::pair("dv", &v.shape)})
    arranged.push_back(arrangeOne(name, *shape, nullptr));
  arranged.push_back(arrangeOne("do", problem.dO.shape, &problem.dO));
  if (test.variant->hasLse()) {
    arranged.push_back(arrangeOne("o", o.shape, &o));
    arranged.push_back(arrangeOne("lse", lse.shape, &lse));
  }
  if (problem.dLse)
    arranged.push_back(arrangeOne("dlse", problem.dLse->shape, &*problem.dLse));
  for (const std::string &name : problem.tensors) {
    // In the tensor's own order of strides, with nothing in it.
    Layout layout = test.layout;
    layout.tensorShift += layout.gradientShift;
    Placed &one = placed[std::string(gradientPrefix) + name] =
        arrangeCaptured(problem.forward.tensors.at(name), layout);
    one.values = nullptr;
    arranged.push_back(one.place(device));
  }
  for (const auto &[name, values] : saved) {
    Placed &one = placed[name] =
        arrangeSaved(savedOperand(name.substr(savedPrefix.size()), OperandRole::In), test.problem, &values);
    arranged.push_back(one.place(device));
  }
  for (const Expected<void> &done : arranged)
    if (!done)
      return done.error();

  LaunchArgs args = inputs.args(device);
  for (const auto &[name, one] : placed)
    if (name == "o")
      args.o = one.view(device);
    else if (name == "lse")
      args.lse = one.view(device);
    else
      args.operands.push_back({name, one.view(device)});
  Expected<std::string> around = launchInWorkspace(launcher, args);
  if (!around)
    return around.error();
  GradientResults results;
  results.outside = *around;
  std::vector<std::string> names = {"dq", "dk", "dv"};
  names.insert(names.end(), problem.tensors.begin(), problem.tensors.end());
  for (const std::string &name : names) {
    const bool isCaptured = std::ranges::find(problem.tensors, name) != problem.tensors.end();
    Expected<int64_t> outside =
        placed[isCaptured ? std::string(gradientPrefix) + name : name].take(results.gradients[name]);
    if (!outside)
      return outside.error();
    if (*outside >= 0)
      results.outside += fmt::format("memory around {} was written at element {}; ", name, *outside);
  }
  return results;
}

Expected<GradientResults> attune::tests::runBackward(const Kernel &kernel, const Case &test,
                                                     const reference::BackwardProblem &problem,
                                                     const reference::GradientValues &exact,
                                                     const SavedTensors &saved) {
  Expected<Launcher> launcher = launcherOf(kernel);
  return launcher ? runBackward(*launcher, test, problem, exact, saved) : Expected<GradientResults>(launcher.error());
}

Verdict attune::tests::judgeBackward(const Case &test, const reference::GradientValues &exact,
                                     const Expected<GradientResults> &results) {
  Verdict verdict{true, test.describe() + ": ", 0};
  auto oneLine = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  if (!results)
    return {false, verdict.text + oneLine(results.error().text()), 0};
  for (const auto &[name, actual] : results->gradients) {
    const auto &of = name == "dq" ? exact.q : name == "dk" ? exact.k : name == "dv" ? exact.v : exact.tensors.at(name);
    const reference::Comparison comparison = reference::compareGradient(name, actual, of);
    verdict.pass &= comparison.pass;
    verdict.text += oneLine(comparison.describe()) + "; ";
    verdict.ratio = std::max(verdict.ratio, comparison.ratio());
  }
  verdict.pass &= results->outside.empty();
  verdict.text += results->outside;
  return verdict;
}

Verdict attune::tests::checkBackward(const Case &test, const Target &target, const Gradients &asked) {
  CompileOptions options = optionsOf(test);
  options.gradients = asked;
  options.backward = true;
  const reference::BackwardProblem problem = backwardProblem(test, asked);
  Expected<reference::GradientValues> exact = exactGradients(test, problem);
  if (!exact)
    return {false, test.describe() + ": " + exact.error().text(), 0};
  Expected<Kernel> kernel = compileToRun(*test.variant, options, target);
  if (!kernel)
    return {false, test.describe() + ": " + kernel.error().text(), 0};
  SavedTensors saved;
  if (!asked.saving.save.empty()) {
    options.backward = false;
    Expected<Kernel> forward = compileToRun(*test.variant, options, target);
    Expected<Launcher> launcher = forward ? launcherOf(*forward) : Expected<Launcher>(forward.error());
    Expected<SavedTensors> left =
        launcher ? runForwardSaving(*launcher, test, asked.saving.save) : Expected<SavedTensors>(launcher.error());
    if (!left)
      return {false, test.describe() + ": " + left.error().text(), 0};
    saved = std::move(*left);
  }
  return judgeBackward(test, *exact, runBackward(*kernel, test, problem, *exact, saved));
}

Verdict attune::tests::checkRepeats(const Case &test, const Target &target, int launches,
                                    std::vector<std::string> tensors) {
  CompileOptions options = optionsOf(test);
  options.gradients = Gradients{.tensors = std::move(tensors), .deterministic = true};
  options.backward = true;
  const reference::BackwardProblem problem = backwardProblem(test, *options.gradients);
  Expected<reference::GradientValues> exact = reference::gradients(problem);
  Expected<Kernel> kernel = compileToRun(*test.variant, options, target);
  if (!exact || !kernel)
    return {false, test.describe() + ": " + (exact ? kernel.error() : exact.error()).text(), 0};
  std::optional<GradientResults> first;
  for (int launch = 0; launch < launches; ++launch) {
    Expected<GradientResults> results = runBackward(*kernel, test, problem, *exact);
    if (!results)
      return {false, test.describe() + ": " + results.error().text(), 0};
    if (!first) {
      first = std::move(*results);
      continue;
    }
    for (const auto &[name, gradient] : first->gradients)
      if (results->gradients.at(name).data != gradient.data)
        return {false, fmt::format("{}: launch {} gave other bits of {}", test.describe(), launch + 1, name), 0};
  }
  return {true, fmt::format("{}: {} launches gave the same bits", test.describe(), launches), 0};
}
