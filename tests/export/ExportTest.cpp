//===- ExportTest.cpp - Exported kernels launch what the library launches ---===//
//
// The C sources are compiled by the system's compilers and run against the fake driver, beside Kernel::launch of the
// same image: parameters, grid, block, shared memory, tensor maps and error texts have to be the same.
//
//===----------------------------------------------------------------------===//

#include "attune/attune.h"
#include "runtime/CudaDriver.h"
#include "runtime/Launch.h"
#include "tests/export/Exported.h"
#include "tests/runtime/FakeCuda.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <functional>
#include <random>
#include <set>
#include <thread>

using namespace attune;

namespace {

FakeCuda &fakeDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  auto *entry = library ? reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda")) : nullptr;
  if (!entry)
    FAIL("run through CTest, which puts the fake libcuda.so.1 on LD_LIBRARY_PATH");
  return *entry();
}

/// A context of device 0 that no kernel has been loaded into.
void *freshContext() {
  static uintptr_t next = 100;
  return reinterpret_cast<void *>(next++);
}

alignas(64) char memory[1 << 16]; // what arguments point into; nothing reads it

//===----------------------------------------------------------------------===//
// Random launches
//===----------------------------------------------------------------------===//

/// The place of an axis' extent in a Problem; one past those that are passed where no operand has it.
size_t axisNumber(const KernelSignature &signature, std::string_view axis) {
  const std::vector<std::string> axes = signature.axes();
  return size_t(std::find(axes.begin(), axes.end(), axis) - axes.begin());
}

std::vector<int64_t> shapeOf(const KernelSignature &signature, const OperandParam &operand, const Problem &p) {
  std::vector<int64_t> shape;
  for (const AxisParam &axis : operand.axes) {
    const std::optional<TensorDimension> of = tensorDimension(axis.name);
    auto extentOf = [&](const TensorDimension &dimension) {
      const auto tensor = std::ranges::find(signature.tensors, dimension.tensor, &TensorParam::name);
      return p.tensors[tensor - signature.tensors.begin()].shape[dimension.dim];
    };
    const int64_t extent = axis.size ? axis.size : of ? extentOf(*of) : p.extents[axisNumber(signature, axis.name)];
    shape.push_back((extent + axis.by - 1) / axis.by);
  }
  return shape;
}

class ProblemMaker {
public:
  ProblemMaker(const KernelSignature &signature, uint32_t seed) : signature(signature), random(seed) {}

  Problem next() {
    Problem p = {};
    for (size_t i = 0; i < signature.axes().size(); ++i)
      p.extents[i] = pick({1, 2, 5});
    extent(p, "b") = pick({1, 1, 2, 3}), extent(p, "hkv") = pick({1, 2, 4});
    extent(p, "h") = extent(p, "hkv") * pick({1, 2, 3});
    extent(p, "q") = pick({1, 7, 64, 100, 129, 1000, 4096}), extent(p, "k") = pick({1, 8, 70, 128, 1000, 5000});
    if (one(20))
      *pickFrom<int64_t>({&extent(p, "b"), &extent(p, "q"), &extent(p, "k")}) = 0;
    for (size_t i = 0; i < signature.tensors.size(); ++i)
      p.tensors[i] = tensor(signature.tensors[i], p);
    for (size_t i = 0; i < given(signature).size(); ++i) {
      const OperandParam &operand = given(signature)[i];
      chooseStrides(operand, shapeOf(signature, operand, p), p.strides[i]);
      p.operands[i] = operand.optional && one(3) ? nullptr : address();
    }
    p.qOffset = signature.qOffset ? int32_t(pick({0, 5, 100, -3})) : 0;
    if (signature.dropout) {
      p.dropout = pickFrom<const float>({&probabilities[0], &probabilities[1], &probabilities[2]})[0];
      p.seed = random(), p.offset = uint64_t(random()) << 32 | 5;
      p.seedPointer = one(2) ? static_cast<uint64_t *>(address()) : nullptr;
      p.offsetPointer = one(2) ? static_cast<uint64_t *>(address()) : nullptr;
    }
    for (size_t i = 0; i < signature.scalars.size(); ++i)
      p.scalars[i] = signature.scalars[i].dtype == DType::Bool  ? random() & 1
                     : signature.scalars[i].dtype == DType::I64 ? random() * 77777u
                                                                : uint32_t(random());
    p.workspace = address();
    p.workspaceBytes = size_t(1) << 62;
    p.stream = address();
    if (one(4))
      spoil(p);
    return p;
  }

private:
  int64_t pick(std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; }
  template <typename T> T *pickFrom(std::initializer_list<T *> values) {
    return values.begin()[random() % values.size()];
  }
  bool one(unsigned of) { return random() % of == 0; }
  void *address() { return memory + 64 * (random() % 512); }

  int64_t &extent(Problem &p, std::string_view axis) { return p.extents[axisNumber(signature, axis)]; }

  /// Those of all dimensions but the last one of a tiled operand.
  void chooseStrides(const OperandParam &operand, const std::vector<int64_t> &shape, int64_t *strides) {
    const int count = operand.rank() - operand.isTiled();
    const int64_t row = operand.isTiled() ? shape.back() : 1, pad = pick({0, 8, 64});
    std::vector<int> inmostFirst;
    for (int i = count - 1; i >= 0; --i)
      inmostFirst.push_back(i);
    const int kind = int(random() % 4);
    if (kind == 0 && count >= 2) // [B, S, H, D]
      std::swap(inmostFirst[0], inmostFirst[1]);
    int64_t stride = row + pad;
    for (int i : inmostFirst) {
      const bool repeats = kind == 1 && operand.role == OperandRole::In; // one plane for all
      strides[i] = !repeats ? stride : i == count - 1 ? row : 0;
      stride *= std::max<int64_t>(shape[size_t(i)], 1);
    }
    if (count && shape[0] == 1 && one(2))
      strides[0] = 3; // never used
  }

  ProblemTensor tensor(const TensorParam &param, Problem &p) {
    const int64_t heads = extent(p, "h"), queries = extent(p, "q"), keys = extent(p, "k");
    ProblemTensor result = {address(), {}, {}};
    const bool pattern = signature.blockPattern && signature.blockPattern->tensor == param.name;
    for (int i = 0; i < param.rank; ++i)
      result.shape[i] = param.rank == 1       ? pick({extent(p, "b"), heads, std::max(queries, keys) + 100})
                        : i == param.rank - 1 ? queries + keys + pick({-1, 100, 8})
                        : i == param.rank - 2 && param.rank > 2 ? queries + 100
                                                                : pick({1, heads});
    if (pattern && one(2))
      result.shape[param.rank - 1] = (keys + signature.blockPattern->columns - 1) / signature.blockPattern->columns;
    for (int64_t &extent : result.shape)
      extent = std::max<int64_t>(extent, 1);
    const int64_t pad = pick({0, 8, 3});
    int64_t stride = 1;
    for (int i = param.rank - 1; i >= 0; --i) {
      result.strides[i] = one(8) ? 0 : stride;
      stride *= result.shape[i];
      if (i == param.rank - 1)
        stride = (stride + 7) / 8 * 8 + pad;
    }
    return result;
  }

  /// One mistake.
  void spoil(Problem &p) {
    auto moved = [](auto *pointer, size_t bytes) {
      return reinterpret_cast<decltype(pointer)>(reinterpret_cast<uintptr_t>(pointer) + bytes);
    };
    const size_t any = random() % given(signature).size(), written = numberOfRole(OperandRole::Out);
    switch (random() % 12) {
    case 0:
      p.operands[any] = moved(static_cast<char *>(p.operands[any]), one(2) ? 8 : 2);
      break;
    case 1:
      p.operands[any] = nullptr;
      break;
    case 2:
      p.strides[any][random() % 3] += 1;
      break;
    case 3:
      p.strides[written][random() % 3] = 0;
      break;
    case 4:
      p.strides[given(signature).size() - 1][random() % 3] = 0;
      break;
    case 5:
      extent(p, "h") += 1;
      break;
    case 6:
      extent(p, one(2) ? "q" : "k") = (int64_t(1) << 30) + 1;
      break;
    case 7:
      p.extents[random() % signature.axes().size()] = int64_t(1) << 31;
      break;
    case 8:
      p.dropout = signature.dropout ? 1.5f : 0;
      break;
    case 9:
      extent(p, "b") = 1 << 24, extent(p, "q") = 1 << 28;
      break;
    case 10:
      p.workspace = moved(static_cast<char *>(p.workspace), 4);
      break;
    default:
      if (!signature.tensors.empty()) {
        ProblemTensor &tensor = p.tensors[random() % signature.tensors.size()];
        one(2) ? void(tensor.data = moved(static_cast<const char *>(tensor.data), 1)) : void(tensor.shape[0] = 0);
      }
    }
  }

  /// An operand of that role.
  size_t numberOfRole(OperandRole role) const {
    const auto found = std::ranges::find(signature.operands, role, &OperandParam::role);
    return size_t(found - signature.operands.begin()) % given(signature).size();
  }

  const KernelSignature &signature;
  std::mt19937 random;
  static constexpr float probabilities[] = {0, 0.1f, 0.75f};
};

ScalarValue scalarOf(DType dtype, uint64_t slot) {
  float number;
  std::memcpy(&number, &slot, 4);
  return dtype == DType::F32   ? ScalarValue(number)
         : dtype == DType::I64 ? ScalarValue(int64_t(slot))
         : dtype == DType::I32 ? ScalarValue(int32_t(slot))
                               : ScalarValue(slot != 0);
}

LaunchArgs argsOf(const KernelSignature &signature, const Problem &p) {
  const Device device = Device::cuda(0);
  LaunchArgs args;
  for (size_t i = 0; i < given(signature).size(); ++i) {
    const OperandParam &operand = given(signature)[i];
    if (operand.optional && !p.operands[i])
      continue;
    std::vector<int64_t> strides(p.strides[i], p.strides[i] + operand.rank());
    if (operand.isTiled())
      strides.back() = 1;
    const Tensor tensor =
        Tensor::strided(p.operands[i], operand.dtype, shapeOf(signature, operand, p), strides, device);
    const std::pair<std::string_view, Tensor *> members[] = {
        {"q", &args.q}, {"k", &args.k}, {"v", &args.v}, {"o", &args.o}};
    const auto member = std::ranges::find(members, operand.name, &std::pair<std::string_view, Tensor *>::first);
    if (member != std::end(members))
      *member->second = tensor;
    else if (operand.name == "lse")
      args.lse = tensor;
    else
      args.operands.push_back({operand.name, tensor});
  }
  for (size_t i = 0; i < signature.scalars.size(); ++i)
    args.scalars.push_back({signature.scalars[i].name, scalarOf(signature.scalars[i].dtype, p.scalars[i])});
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const size_t rank = size_t(signature.tensors[i].rank);
    args.tensors.push_back({signature.tensors[i].name, Tensor::strided(p.tensors[i].data, signature.tensors[i].dtype,
                                                                       std::span(p.tensors[i].shape, rank),
                                                                       std::span(p.tensors[i].strides, rank), device)});
  }
  if (signature.dropout)
    args.dropout = p.dropout;
  args.seed = p.seed, args.offset = p.offset, args.seedPointer = p.seedPointer, args.offsetPointer = p.offsetPointer;
  args.qOffset = p.qOffset;
  args.workspace = p.workspace, args.workspaceBytes = p.workspaceBytes;
  return args;
}

//===----------------------------------------------------------------------===//
// What a launch did
//===----------------------------------------------------------------------===//

struct Outcome {
  std::string error;
  std::vector<FakeLaunch> launches;
  std::vector<unsigned> numbers;
  std::vector<unsigned char> params;
  friend bool operator==(const Outcome &, const Outcome &) = default;
};

Outcome outcomeOf(FakeCuda &fake, const KernelImage &image, const std::function<std::string()> &launch) {
  const FakeCuda before = fake;
  fake.launches = 0;
  fake.all.clear();
  fake.params.clear();
  fake.paramBytes = image.signature.packedBytes();
  Outcome result;
  result.error = launch();
  result.launches = fake.all;
  if (fake.launches)
    result.numbers = {fake.grid[1], fake.grid[2], fake.block[1], fake.block[2], unsigned(fake.maxDynamicShared)};
  result.params = fake.params;
  if (!result.params.empty() && !image.signature.tensorMaps.empty()) {
    // What lies between the parameters and the tensor maps is nobody's.
    const KernelSignature &signature = image.signature;
    std::fill(result.params.begin() + ptrdiff_t(signature.tensorOffset(signature.tensors.size())),
              result.params.begin() + ptrdiff_t(signature.tensorMapOffset()), 0);
  }
  fake = before;
  fake.maxDynamicShared = int(image.main().sharedBytes);
  return result;
}

/// What the launches of a signature show, in words.
void addFeatures(const KernelImage &image, std::set<std::string> &features) {
  const KernelSignature &signature = image.signature;
  const std::pair<bool, const char *> all[] = {{image.main().persistent, "persistent blocks"},
                                               {image.main().claimsWork, "claims"},
                                               {image.main().dependent, "programmatic launch"},
                                               {image.entries.size() > 1, "several kernels"},
                                               {signature.blockPattern.has_value(), "block pattern"},
                                               {signature.dropout, "dropout"},
                                               {signature.qOffset, "q offset"},
                                               {!signature.scalars.empty(), "scalars"},
                                               {!signature.tensorMaps.empty(), "tensor maps"}};
  for (auto [has, name] : all)
    if (has)
      features.insert(name);
  for (const TensorMapParam &map : signature.tensorMaps) {
    const auto operand = std::ranges::find(signature.operands, map.tensor, &OperandParam::name);
    if (map.captured)
      features.insert("tensor map of a captured tensor");
    else if (operand->role == OperandRole::Workspace)
      features.insert("tensor map of the workspace");
  }
  for (const OperandParam &operand : given(signature))
    for (std::string_view prefix : {gradientPrefix, savedPrefix})
      if (operand.name.starts_with(prefix))
        features.insert(operand.role == OperandRole::Out ? fmt::format("writes {}", prefix)
                                                         : fmt::format("reads {}", prefix));
  if (!std::ranges::equal(given(signature), forwardOperands(signature.dtype, signature.headDim, signature.headDimV)))
    features.insert("operands of another program");
}

struct Case {
  std::string name;
  Variant variant;
  CompileOptions options = {.headDim = 64};
};

Variant builtin(const char *name) { return *findBuiltin(name)->make(); }

std::vector<Case> cases() {
  auto own = [](const char *name) { return Variant(name); };
  const auto cap = scalar("cap", f32), shift = scalar("shift", i32), far = scalar("far", i64),
             strict = scalar("strict", boolean);
  const auto weights = captured("class", f32, rank(1)), other = captured("NULL", f32, rank(1));
  std::vector<Case> all = {
      {"plain", own("plain"), {.headDim = 128}},
      {"causal", builtin("causal").dropout(0.1f), {.dtype = f16, .headDim = 64, .headDimV = 128}},
      {"documents", builtin("documents")},
      {"alibi", builtin("alibi"), {.dtype = f32, .headDim = 64}},
      {"key-padding", builtin("key-padding")},
      {"block-sparse", builtin("block-sparse")},
      {"relative-bias", builtin("relative-bias")},
      {"bias", builtin("bias"), {.headDim = 128}},
      {"scalars", own("scalars")
                      .score([=](Score s, Index, Index, Index q, Index k) {
                        return softcap(cap)(s, k, k, q, k) + select(strict, 1.0f, 0.0f);
                      })
                      .mask([=](Index, Index, Index q, Index k) { return q + shift >= k && cast(k, i64) < far; })},
      {"keyword", own("keyword")
                      .qOffset()
                      .score([=](Score s, Index, Index h, Index, Index k) { return s + weights[k] * other[h]; })
                      .mask([](Index, Index, Index q, Index k) { return q >= k; })}};
  return all;
}

/// Passes of variants with gradients: every operand that there is.
std::vector<Case> gradientCases() {
  auto pass = [](const char *name, const Variant &variant, const Gradients &gradients, bool backward = true) {
    return Case{name, variant, {.headDim = 64, .gradients = gradients, .backward = backward}};
  };
  const Gradients saved = {.saving = {.save = {"dropout", "score"}}};
  const Variant capped = builtin("softcap").dropout(0.1f);
  return {pass("causal-backward", builtin("causal"), {.lse = true}),
          pass("saving-forward", capped, saved, false),
          pass("saving-backward", capped, saved),
          pass("alibi-backward", builtin("alibi"), {.tensors = {"slopes"}, .deterministic = true}),
          pass("bias-backward", builtin("bias"), {.tensors = {"bias"}}),
          pass("documents-backward", builtin("documents"), {}),
          pass("relative-bias-backward", builtin("relative-bias"), {.tensors = {"table"}})};
}

/// A kernel that no variant gives: sm_90a, of these operands.
KernelImage imageOf(const char *name, DType dtype, std::vector<OperandParam> operands) {
  KernelImage image;
  image.name = name;
  image.main().symbol = "entry";
  image.arch = "sm_90a";
  image.signature.dtype = dtype;
  image.signature.headDim = image.signature.headDimV = 64;
  image.signature.operands = std::move(operands);
  image.tileQ = image.tileK = 64;
  image.main().threads = 128;
  for (const AxisParam &axis : image.signature.operands.front().axes)
    if (!axis.size)
      image.main().grid.push_back({axis.name, 0, axis.name == "q" ? 64 : 1});
  image.nvrtcVersion = 13000;
  image.binary = {'\177', 'E', 'L', 'F'};
  image.planJson = "{}";
  return image;
}

/// As a backward pass has them, and more: a name that is C's, one that a captured tensor has too, an output that is
/// added to, axes that no expression counts in.
KernelImage gradients() {
  const AxisParam b{"b"}, h{"h"}, hkv{"hkv"}, q{"q"}, k{"k"}, d{"d", 64}, split{"split"};
  const OperandRole in = OperandRole::In, out = OperandRole::Out;
  KernelImage image = imageOf("gradients", bf16,
                              {{"q", bf16, in, false, {b, h, q, d}},
                               {"k", bf16, in, false, {b, hkv, k, d}},
                               {"do", bf16, in, false, {b, h, q, d}},
                               {"delta", f32, in, false, {b, h, q}},
                               {"dq", f32, OperandRole::Accumulate, false, {b, h, q, d}},
                               {"part", f16, out, false, {split, {"pair", 2}, b, h}},
                               {"counts", i32, out, true, {split}}});
  image.signature.tensors = {{"q", bf16, 2}};
  for (const char *tensor : {"q", "k", "dq", "q"})
    image.signature.tensorMaps.push_back({.tensor = tensor, .rows = 64, .columns = 32, .swizzle = 64});
  image.signature.tensorMaps.back().captured = true;
  return image;
}

/// No axis of attention but the queries.
KernelImage rows() {
  const AxisParam n{"n"}, q{"q"}, width{"width", 32};
  return imageOf("rows", f16,
                 {{"x", f16, OperandRole::In, false, {n, q, width}},
                  {"sums", f16, OperandRole::Out, false, {n, q}},
                  {"scale", f32, OperandRole::In, true, {width}}});
}

/// The kernels of all cases, each case's under its name.
std::vector<std::pair<std::string, std::function<std::vector<KernelImage>()>>> allImages() {
  std::vector<std::pair<std::string, std::function<std::vector<KernelImage>()>>> all;
  std::vector<Case> tests = cases();
  std::ranges::move(gradientCases(), std::back_inserter(tests));
  for (const Case &test : tests)
    all.emplace_back(test.name, [test] {
      std::vector<KernelImage> images;
      for (const char *arch : {"sm_80", "sm_90a", "sm_120"})
        images.push_back(imageWithoutCubin(test.variant, test.options, arch));
      return images;
    });
  all.emplace_back("gradients", [] { return std::vector{gradients()}; });
  all.emplace_back("rows", [] { return std::vector{rows()}; });
  return all;
}

} // namespace

TEST_CASE("an exported kernel launches what the library launches", "[fake][.]") {
  FakeCuda &fake = fakeDriver();
  std::set<std::string> features;
  for (const auto &[name, make] : allImages()) {
    const std::vector<KernelImage> images = make();
    const Exported exported(images);
    for (const KernelImage &image : images) {
      fake = {};
      fake.major[0] = image.arch == "sm_80" ? 8 : image.arch == "sm_90a" ? 9 : 12;
      fake.paramBytes = image.signature.packedBytes();
      const CudaDriver *cuda = *cudaDriver();
      cuda->cuCtxSetCurrent(freshContext());
      Expected<Kernel> kernel = loadCudaKernel(image, 0);
      REQUIRE(kernel);
      REQUIRE(kernel->load());
      REQUIRE(exported.load() == 0);
      addFeatures(image, features);
      ProblemMaker maker(image.signature, 7);
      int good = 0, refused = 0;
      for (int i = 0; i < 400; ++i) {
        const Problem p = maker.next();
        const LaunchArgs args = argsOf(image.signature, p);
        fake.encodeResult = i % 16 == 15;
        const Outcome wanted = outcomeOf(fake, image, [&] {
          Expected<void> done = kernel->launch(p.stream, args);
          return done ? std::string() : done.error().message;
        });
        const Outcome found =
            outcomeOf(fake, image, [&] { return exported.launch(p) == 0 ? std::string() : exported.error(); });
        INFO(name << " for " << image.arch << ", problem " << i);
        CHECK(found.error == wanted.error);
        CHECK((found == wanted));
        (wanted.error.empty() ? good : refused) += 1;
        size_t most = 0;
        for (const KernelImage &other : images)
          most = std::max(most, attune::workspaceSize(LaunchTables(other), 1, args));
        // Of extents that a launch refuses, none is the right number.
        if (wanted.error.empty())
          CHECK(exported.workspaceBytes(p) == most);
      }
      INFO(name << " for " << image.arch);
      CHECK(good > 20);
      CHECK(refused > 20);
    }
  }
  CHECK(features == std::set<std::string>{"persistent blocks", "claims", "programmatic launch", "several kernels",
                                          "block pattern", "dropout", "q offset", "scalars", "tensor maps",
                                          "tensor map of a captured tensor", "tensor map of the workspace",
                                          "operands of another program", "reads saved.", "writes saved.",
                                          "writes grads."});
  fake = {};
}

namespace {

/// A kernel of no cubin and the arguments that it takes.
struct Setup {
  FakeCuda &fake = fakeDriver();
  std::vector<KernelImage> images;
  Problem problem = {};

  explicit Setup(std::initializer_list<const char *> archs, const Variant &variant = Variant("plain")) {
    fake = {};
    (*cudaDriver())->cuCtxSetCurrent(freshContext());
    for (const char *arch : archs)
      images.push_back(imageWithoutCubin(variant, {.headDim = 64}, arch));
    for (std::string_view axis : {"b", "h", "hkv"})
      extent(axis) = 1;
    for (std::string_view axis : {"q", "k"})
      extent(axis) = 64;
    for (int i = 0; i < 4; ++i)
      problem.operands[i] = memory;
    for (int64_t (&strides)[5] : problem.strides)
      strides[0] = strides[1] = 64 * 64, strides[2] = 64;
  }
  ~Setup() { fake = {}; }

  int64_t &extent(std::string_view axis) { return problem.extents[axisNumber(images[0].signature, axis)]; }
};

} // namespace

TEST_CASE("the most specific cubin that runs on the device is chosen", "[fake][.]") {
  Setup s({"sm_80", "sm_89", "sm_90", "sm_90a"});
  for (KernelImage &image : s.images)
    image.main().threads = image.arch == "sm_80" ? 80 : image.arch == "sm_89" ? 89 : image.arch == "sm_90" ? 900 : 901;
  const Exported exported(s.images);
  const std::tuple<int, int, unsigned> devices[] = {{8, 0, 80}, {8, 6, 80}, {8, 9, 89}, {9, 0, 901}};
  for (auto [major, minor, threads] : devices) {
    (*cudaDriver())->cuCtxSetCurrent(freshContext());
    s.fake.major[0] = major, s.fake.minor[0] = minor;
    REQUIRE(exported.launch(s.problem) == 0);
    CHECK(s.fake.block[0] == threads);
  }
  for (auto [major, minor] : {std::pair(8, 7), {7, 5}, {10, 0}}) {
    (*cudaDriver())->cuCtxSetCurrent(freshContext());
    s.fake.major[0] = major, s.fake.minor[0] = minor;
    CHECK(exported.launch(s.problem) == 3);
    CHECK(exported.error() == fmt::format("kernel 'kernel' was exported for sm_90a, sm_90, sm_89, sm_80, the device "
                                          "has compute capability {}.{}; export it for that too",
                                          major, minor));
  }
}

TEST_CASE("an exported kernel loads once for each context, from any thread", "[fake][.]") {
  Setup s({"sm_90"});
  const Exported exported(s.images);
  for (int contexts = 1; contexts <= 3; ++contexts) {
    void *context = freshContext();
    std::vector<std::thread> threads;
    std::atomic<int> failures = 0;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        (*cudaDriver())->cuCtxSetCurrent(context);
        failures += exported.load() != 0;
      });
    for (std::thread &thread : threads)
      thread.join();
    CHECK(failures == 0);
    CHECK(s.fake.loads == contexts);
  }
}

TEST_CASE("errors of an exported kernel's launch", "[fake][.]") {
  Setup s({"sm_90a"}, builtin("documents"));
  const KernelImage &image = s.images[0];
  const Exported exported(s.images);
  const CudaDriver *cuda = *cudaDriver();
  s.problem.tensors[0] = {memory, {64}, {1}};
  auto fails = [&](int code, const std::string &text) {
    CHECK(exported.launch(s.problem) == code);
    CHECK(exported.error() == text);
  };
  cuda->cuCtxSetCurrent(nullptr);
  fails(1, "no CUDA context is current on this thread; call cudaSetDevice or cuCtxSetCurrent first");
  cuda->cuCtxSetCurrent(freshContext());
  s.fake.loadResult = 209;
  fails(4, "kernel 'kernel' does not load: CUDA_ERROR_NO_BINARY_FOR_GPU (a text)");
  s.fake.version = 12080;
  CHECK(exported.load() == 4); // the version was read when the driver was opened
  s.fake.loadResult = 0;
  s.fake.paramBytes = 8;
  fails(3, fmt::format("kernel 'kernel' takes 8 bytes of parameters, its tables pack {}; export it again",
                       image.signature.packedBytes()));
  CHECK(s.fake.unloads == 1);
  s.fake.paramBytes = image.signature.packedBytes();
  const size_t needed = exported.workspaceBytes(s.problem);
  CHECK(needed > 0);
  fails(1, fmt::format("the launch needs a workspace of {} bytes, workspace is null; allocate as many bytes as the "
                       "header's workspace_bytes function "
                       "says and pass them in "
                       "workspace and workspace_bytes",
                       needed));
  s.problem.workspace = memory, s.problem.workspaceBytes = 4;
  fails(1, fmt::format("the launch needs a workspace of {} bytes, workspace_bytes is 4; allocate as many bytes as the "
                       "header's workspace_bytes "
                       "function says and pass them in "
                       "workspace and workspace_bytes",
                       needed));
  s.problem.workspaceBytes = needed;
  CHECK(exported.launch(s.problem) == 0);
  s.fake.launchResult = 1;
  fails(4, "launch of kernel 'kernel' failed: CUDA_ERROR_INVALID_VALUE (invalid argument)");
  s.extent("k") = -1;
  fails(1, "key_length is -1; sizes are at least 0");
  // A launch without keys reads no captured tensor.
  s.fake.launchResult = 0;
  s.extent("k") = 0;
  s.problem.tensors[0] = {nullptr, {0}, {1}};
  CHECK(exported.launch(s.problem) == 0);
}

TEST_CASE("errors of an exported backward pass", "[fake][.]") {
  const CompileOptions options = {.headDim = 64, .gradients = Gradients{.tensors = {"bias"}}, .backward = true};
  Setup s({"sm_90a"});
  s.images = {imageWithoutCubin(builtin("bias"), options, "sm_90a")};
  const KernelSignature &signature = s.images[0].signature;
  const Exported exported(s.images);
  s.problem.workspace = memory, s.problem.workspaceBytes = size_t(1) << 40;
  for (std::string_view axis : {"b", "h", "hkv"})
    s.extent(axis) = 2;
  for (std::string_view axis : {"q", "k"})
    s.extent(axis) = 64;
  size_t dBias = 0;
  for (size_t i = 0; i < given(signature).size(); ++i) {
    const OperandParam &operand = given(signature)[i];
    s.problem.operands[i] = memory;
    const int64_t strides[5] = {8192, 4096, operand.isTiled() ? 64 : 1};
    std::copy(std::begin(strides), std::end(strides), s.problem.strides[i]);
    if (operand.name == "grads.bias")
      dBias = i;
  }
  const int64_t strides[3] = {4096, 64, 1};
  s.problem.tensors[0] = {memory, {2, 64, 64}, {4096, 64, 1}};
  auto fails = [&](const std::string &text) {
    CHECK(exported.launch(s.problem) == 1);
    CHECK(exported.error() == text);
  };
  std::copy(std::begin(strides), std::end(strides), s.problem.strides[dBias]);
  CHECK(exported.launch(s.problem) == 0);
  // A bias of the sequences' lengths has no margins to clear, and TMA can read it.
  const auto fallbacks =
      std::ranges::count_if(s.images[0].entries, [](const KernelEntry &e) { return e.maps.fallbackOf; });
  CHECK(fallbacks == 1);
  CHECK(s.fake.launches == int(s.images[0].entries.size() - fallbacks) - 1);
  s.problem.strides[dBias][2] = 0;
  fails("grads.bias has stride 0 along its tensors.bias.2 dimension of extent 64; an output cannot be broadcast");
  s.problem.strides[dBias][2] = 1;
  s.problem.operands[dBias] = nullptr;
  fails("grads.bias is null but has shape [2, 64, 64]; pass the address of its memory");
  s.problem.operands[dBias] = memory;
  s.problem.tensors[0].shape[1] = 32;
  fails("captured tensor 'bias' has 32 elements in dimension 1 and is indexed by q, but Sq is 64; pass at least 64: "
        "each index has an element of its own");
  s.problem.tensors[0].shape[1] = 64;
  s.problem.tensors[0].shape[0] = -1;
  fails("grads.bias has extent -1 in dimension 0; extents are at least 0");
  s.problem.tensors[0].shape[0] = 2;
  s.fake.encodeResult = 1;
  CHECK(exported.launch(s.problem) == 4);
}

TEST_CASE("a driver that is too old for an exported kernel", "[fake][.]") {
  Setup s({"sm_90"});
  s.fake.version = 12080;
  s.fake.loadResult = 222;
  const Exported exported(s.images);
  CHECK(exported.load() == 2);
  CHECK(exported.error() == "the driver supports CUDA 12.8, the kernel was compiled by NVRTC 13.0; install a driver "
                            "for CUDA 13.0 or newer, or export the kernel with an "
                            "NVRTC 12.x");
  s.fake.version = 11020;
  const Exported another(s.images);
  CHECK(another.load() == 2);
  CHECK(another.error() == "the driver supports CUDA 11.2, required is 11.4 or newer; install a newer NVIDIA driver");
}

TEST_CASE("what cannot be exported", "[fake][.]") {
  Setup s({"sm_80", "sm_90a"});
  auto text = [](const std::vector<KernelImage> &images, const std::string &name = "") {
    return exportKernel(images, {.name = name}).error().message;
  };
  CHECK(text({}) == "there is no kernel to export; name at least one architecture");
  CHECK(text(s.images, "a b") == "'a b' is not a name in C; use letters, digits and _, and no keyword or macro");
  CHECK(text(s.images, "class") == "'class' is not a name in C; use letters, digits and _, and no keyword or macro");
  std::vector<KernelImage> images = s.images;
  images[1].arch = "sm_80";
  CHECK(text(images) == "there are two kernels for sm_80; name each architecture once");
  images[1].arch = "cpu";
  CHECK(
      text(images) ==
      "kernel 'plain' is for cpu, but only CUDA kernels can be exported; name architectures such as sm_80 and sm_90a");
  images = s.images;
  images[1].signature.headDim = 128;
  CHECK(text(images) == "the kernels for sm_80 and sm_90a take different arguments; export them under two names");
}

TEST_CASE("operands that a header cannot have", "[fake][.]") {
  auto text = [](auto change) {
    KernelImage image = rows();
    change(image.signature.operands);
    return exportKernel(std::vector{image}).error().message;
  };
  using Operands = std::vector<OperandParam>;
  CHECK(text([](Operands &all) { all.clear(); }) ==
        "kernel 'rows' has no operand whose extents a launch passes; compile it again");
  CHECK(text([](Operands &all) { all[0].name = "x-1"; }) ==
        "operand 'x-1' of kernel 'rows' is not a name in C; rename it with letters, digits and _");
  CHECK(text([](Operands &all) { all[0].axes[0].name = "2n"; }) ==
        "axis '2n' of kernel 'rows' is not a name in C; rename it with letters, digits and _");
  CHECK(text([](Operands &all) { all[0].name = "stream"; }) ==
        "operand 'stream' of kernel 'rows' would be member 'stream' of the header's arguments, which another one is; "
        "rename it");
  CHECK(text([](Operands &all) { all[1].name = "x_strides"; }) ==
        "operand 'x_strides' of kernel 'rows' would be member 'x_strides' of the header's arguments, which another one "
        "is; rename it");
  CHECK(text([](Operands &all) { all[1].name = "n"; }) ==
        "operand 'n' of kernel 'rows' would be member 'n' of the header's arguments, which another one is; rename it");
  CHECK(text([](Operands &all) { all[1].axes.resize(6, {"m"}); }) ==
        "operand 'sums' of kernel 'rows' has rank 6, the most is 5; join dimensions of it");
  CHECK(text([](Operands &all) {
          all[1].role = OperandRole::Workspace;
          all[1].axes[0].name = "elsewhere";
        }) == "a workspace operand of kernel 'rows' has an axis whose extent no other operand gives");
}

namespace {

std::string headerOf(const KernelImage &image) {
  Expected<std::vector<ExportedFile>> files = exportKernel(std::vector{image}, {.name = "kernel"});
  REQUIRE(files);
  return (*files)[0].content;
}

/// The members of the header's arguments, up to those that every kernel has.
std::string membersOf(const KernelImage &image) {
  const std::string header = headerOf(image);
  const size_t begin = header.find("typedef struct kernel_args {\n"), end = header.find("  void *workspace;");
  return header.substr(begin, end - begin);
}

} // namespace

TEST_CASE("the header has a member for each operand and each extent", "[fake][.]") {
  CHECK(membersOf(imageOf("forward", bf16, forwardOperands(bf16, 64, 64))) ==
        R"(typedef struct kernel_args {
  /* Device memory of bf16, 16-byte aligned. Strides (batch, head, row) count elements and are multiples of 16 bytes; the elements of
   * a row lie side by side. */
  const void *q; /* [batch, heads, query_length, head_dim] */
  const void *k; /* [batch, heads_kv, key_length, head_dim] */
  const void *v; /* [batch, heads_kv, key_length, head_dim_v] */
  void *o;       /* [batch, heads, query_length, head_dim_v] */
  float *lse;    /* [batch, heads, query_length], natural logarithm; null where not wanted */
  int64_t q_strides[3], k_strides[3], v_strides[3], o_strides[3], lse_strides[3];
  int64_t batch, heads, heads_kv, query_length, key_length; /* heads is a multiple of heads_kv */
)");
  CHECK(membersOf(gradients()) == R"(typedef struct kernel_args {
  /* Device memory of bf16, 16-byte aligned. Strides (batch, head, row) count elements and are multiples of 16 bytes; the elements of
   * a row lie side by side. */
  const void *q;      /* [batch, heads, query_length, head_dim] */
  const void *k;      /* [batch, heads_kv, key_length, head_dim] */
  const void *do_;    /* [batch, heads, query_length, head_dim] */
  const float *delta; /* [batch, heads, query_length] */
  void *dq;           /* [batch, heads, query_length, head_dim], f32, added to */
  void *part;         /* [split, 2, batch, heads], f16 */
  int32_t *counts;    /* [split]; null where not wanted */
  int64_t q_strides[3], k_strides[3], do_strides[3], delta_strides[3], dq_strides[3], part_strides[4], counts_strides[1];
  int64_t batch, heads, heads_kv, query_length, key_length, split; /* heads is a multiple of heads_kv */
  /* Captured tensors: device memory; strides count elements, kernel_contiguous fills them. */
  struct {
    struct { const void *data; int64_t shape[2], strides[2]; } q; /* bf16 */
  } tensors;
)");
  CHECK(membersOf(rows()) == R"(typedef struct kernel_args {
  /* Device memory of f16, 16-byte aligned. Strides (n, row) count elements and are multiples of 16 bytes; the elements of
   * a row lie side by side. */
  const void *x;     /* [n, query_length, 32] */
  void *sums;        /* [n, query_length] */
  const void *scale; /* [32], f32; null where not wanted */
  int64_t x_strides[2], sums_strides[2];
  int64_t query_length, n;
)");
  const Gradients learned = {.tensors = {"slopes"}, .saving = {.save = {"dropout"}}};
  const KernelImage backward = imageWithoutCubin(builtin("alibi").dropout(0.1f),
                                                 {.headDim = 64, .gradients = learned, .backward = true}, "sm_90a");
  const std::string ofBackward = membersOf(backward);
  for (const char *line :
       {"  const void *do_;           /* [batch, heads, query_length, head_dim_v] */\n",
        "  void *dq;                  /* [batch, heads, query_length, head_dim] */\n",
        "  const void *saved_dropout; /* [batch, heads, ceil(query_length / 16), ceil(key_length / 16), 32], bool; as "
        "the "
        "forward launch left it */\n",
        "  float *grads_slopes;       /* in the shape of tensors.slopes; its strides are left to set */\n",
        " saved_dropout_strides[4], ", " grads_slopes_strides[1]"}) {
    INFO(ofBackward);
    INFO(line);
    CHECK(ofBackward.find(line) != std::string::npos);
  }
  CHECK(headerOf(backward).starts_with(
      "/* alibi: attention backward, bf16, head_dim 64 x 64, for sm_90a; exported by attune 0.2.0 */"));
  const std::string header = headerOf(gradients());
  for (const char *line :
       {"/* gradients: attention, bf16, head_dim 64 x 64, for sm_90a; exported by attune 0.2.0 */\n",
        " *     kernel_defaults(&args, B, H, Hkv, Sq, Sk, split);    // sizes, strides of contiguous [B, H, S, D] "
        "memory, "
        "the rest 0\n",
        " *     args.q = q; args.k = k; args.do_ = do_; args.delta = delta; args.dq = dq; args.part = part;\n",
        "void kernel_defaults(kernel_args *args, int64_t batch, int64_t heads, int64_t heads_kv, int64_t query_length, "
        "int64_t key_length, int64_t split);\n"}) {
    INFO(line);
    CHECK(header.find(line) != std::string::npos);
  }
}

TEST_CASE("defaults of an exported kernel's arguments", "[fake][.]") {
  const KernelImage image = gradients();
  const Exported exported({image});
  Problem problem = {};
  for (size_t i = 0; i < image.signature.axes().size(); ++i)
    problem.extents[i] = int64_t(i) + 2;
  const Problem defaults = exported.defaults(problem);
  for (size_t i = 0; i < given(image.signature).size(); ++i) {
    const OperandParam &operand = image.signature.operands[i];
    const std::vector<int64_t> shape = shapeOf(image.signature, operand, problem);
    int64_t stride = 1;
    for (int dim = operand.rank() - 1; dim >= 0; --dim) {
      INFO(operand.name << " dimension " << dim);
      CHECK(defaults.strides[i][dim] == (operand.isTiled() && dim == operand.rank() - 1 ? 0 : stride));
      stride *= shape[size_t(dim)];
    }
    CHECK(defaults.operands[i] == nullptr);
  }
  CHECK(std::equal(std::begin(problem.extents), std::end(problem.extents), std::begin(defaults.extents)));
}

TEST_CASE("files of an export", "[fake][.]") {
  Setup s({"sm_80", "sm_90a"});
  s.images[0].name = s.images[1].name = "9 lives*/";
  Expected<std::vector<ExportedFile>> files = exportKernel(s.images);
  REQUIRE(files);
  std::vector<std::string> names;
  for (const ExportedFile &file : *files)
    names.push_back(file.name);
  CHECK(names == std::vector<std::string>{"_9_lives__.h", "_9_lives__.c", "_9_lives__.json", "_9_lives__.sm_90a.cubin",
                                          "_9_lives__.sm_80.cubin"});
  CHECK((*files)[3].content == "\177ELF");
  CHECK((*files)[0].content.starts_with(
      "/* 9 lives__: attention forward, bf16, head_dim 64 x 64, for sm_90a, sm_80; exported by attune 0.2.0 */"));
}
