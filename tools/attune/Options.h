//===- Options.h - What the verbs of `attune` share --------------------------===//
//
// Flags of the command line, and what they mean: a variant, a target, tensors.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/attune.h"
#include "tools/attune/Input.h"
#include "tools/attune/Range.h"
#include "tools/attune/Scalar.h"
#include "tools/reference/Npy.h"

#include <CLI/CLI.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attune::driver {
struct Source;
}

namespace attune::cli {

/// Exit codes of every verb.
enum ExitCode : int { done = 0, failed = 1, usage = 2 };

/// A failure with its exit code.
struct Failure {
  Error error;
  ExitCode code = failed;
};
inline Failure usageError(std::string message) { return {Error{std::move(message)}, usage}; }

/// A value or a Failure.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state(std::in_place_index<1>, std::move(failure)) {}
  Result(Error error) : state(std::in_place_index<1>, Failure{std::move(error)}) {}
  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return *std::get_if<0>(&state); }
  T *operator->() { return std::get_if<0>(&state); }
  const Failure &failure() const { return *std::get_if<1>(&state); }

private:
  std::variant<T, Failure> state;
};

/// Prints the error to standard error and returns its exit code.
int report(const Failure &failure);

/// What to do without a GPU that can be used, and why it cannot.
Failure noGpu(const Error &reason);

/// One --tensor NAME=DTYPE[DIMS]:SOURCE.
struct TensorFlag {
  std::string name;
  DType dtype = DType::F32;
  std::optional<std::vector<std::string>> dims = {}; ///< numbers, or B H Hkv Sq Sk
  std::string source = {};                           ///< "", "random", "zeros", "ones", "LO..HI" or a path
  std::optional<Range> range = {};                   ///< where the source is one

  /// The shape in numbers where each dim is one.
  static Expected<TensorFlag> parse(const std::string &text);
};

/// The sizes of a run.
struct Shape {
  int64_t batch = 1, heads = 8, headsKv = 8, queries = 1024, keys = 1024;
  int headDim = 128, headDimV = 128;

  bool operator==(const Shape &) const = default;
  /// As --shape takes it: "1,8,8,1024,1024,128,128".
  std::string text() const;
};

/// Flags of compile, run and explain, as given (Flags.cpp).
struct Flags {
  std::string input;
  std::string name; ///< of the variant; "": nameOf
  std::optional<std::string> score, mask;
  std::string normaliser, sink;
  std::optional<int> pageSize;          ///< keys lie in pages of so many, named by the captured tensor "pages"
  std::optional<std::string> newTokens; ///< queries of each sequence: of "new_tokens", a file, or ""
  std::optional<std::string>
      lengths;            ///< keys of each sequence are those of the captured tensor "lengths": a file, or ""
  bool sequences = false; ///< packed, with bounds in the captured tensors "first_queries" and "first_keys"
  std::optional<double> dropout, scale;
  bool precise = false;
  bool qOffset = false;
  std::optional<int32_t> qOffsetValue; ///< of a run
  std::vector<std::string> tensors, scalars;
  std::map<std::string, double> parameters; ///< of built-ins
  std::string dtype;
  std::optional<int> headDim, headDimV;
  std::string arch, target;
  size_t sramBudget = 0;
  std::optional<int> tileQ, tileK, warps, stages, dvWarps, blocksPerSm, queryStages;
  std::optional<bool> qRegisters, longestFirst, persistent, pingPong, overlap, stageBiases, packGqa, splitKeys;
  std::string shape;
  std::string cuda;
  bool backward = false, gradLse = false, deterministic = false;
  std::vector<std::string> grads; ///< captured tensors
  size_t memoryBudget = 0;
  std::vector<std::string> recompute; ///< NAME=save or NAME=recompute
  std::string cacheDir, tuning;
  bool noCache = false;
  bool json = false;

  void addVariant(CLI::App &verb);
  void addTarget(CLI::App &verb, bool withTarget);
  void addTypes(CLI::App &group); ///< a part of addTarget
  void addShape(CLI::App &verb);
  void addSchedule(CLI::App &verb);
  void addGradients(CLI::App &verb);
  void addCuda(CLI::App &verb);
  void addTuning(CLI::App &verb, bool measures); ///< whether it can measure
  void addCache(CLI::App &verb);
};

/// The flags, resolved. Exactly one of `variant` and `text` drives the compilation; `variant` may be known beside
/// `text`, from the text itself, and then serves the reference.
struct Request {
  std::optional<Variant> variant;
  std::optional<IrText> text;
  std::optional<IrSummary> summary; ///< of `text`
  Input input;
  std::vector<TensorFlag> tensors;
  std::vector<ScalarFlag> scalars;
  CompileOptions options;
  Target target;
  std::optional<Shape> shape; ///< --shape
  std::string label;          ///< the variant's name
};

/// Reads files, parses expressions, applies defaults. `allowGpuless`: whether a CUDA target without a GPU is fine.
/// `knownShape` stands for --shape where the user's tensors give it.
Result<Request> resolve(const Flags &flags, const std::optional<Shape> &knownShape = {},
                        std::optional<DType> knownDtype = {});

/// Lets a flag hold whole numbers from `least` to `most` alone; CLI11 wraps negative and too large ones.
std::function<std::string(const std::string &)> wholeNumber(uint64_t least, uint64_t most);

/// Whether `text` is a name: a letter or underscore, then letters, digits and underscores.
bool isName(std::string_view text);
/// The integer that the whole of `text` denotes; nullopt if there is none.
std::optional<int64_t> integer(std::string_view text);

/// "1,8,8,1024,1024,128,128".
Result<Shape> parseShape(const std::string &text);

/// Kernel options that compile either form.
Expected<KernelImage> compileImage(const Request &request);
Expected<Kernel> compileKernel(const Request &request);
Expected<std::string> emitStage(const Request &request, Stage stage);
Expected<std::string> explainRequest(const Request &request, const ProblemSizes &sizes,
                                     std::shared_ptr<const TileMap> tiles = nullptr);

/// What drives the compilation; it lives as long as the request.
driver::Source sourceOf(const Request &request);

ProblemSizes sizesOf(const Shape &shape);
/// The value that --scalar gives a run-time scalar. Precondition: requireData.
Expected<reference::HostTensor> makeScalar(const Request &request, const ScalarParam &param);

/// A captured tensor's data: from its flag, or a default where the variant is a built-in. Precondition: requireData.
Expected<reference::HostTensor> makeTensor(const Request &request, const TensorParam &param, const Shape &shape,
                                           uint64_t seed);

/// An error that names every tensor and scalar without data, and the flags that give it.
Expected<void> requireData(const Request &request, const std::vector<TensorParam> &tensors,
                           const std::vector<ScalarParam> &scalars, const Shape &shape);

/// "12.3 MB".
std::string bytesText(double bytes);

// The verbs. Each adds itself to `app` and sets `exitCode` when it runs.
void addList(CLI::App &app, int &exitCode);
void addCompile(CLI::App &app, int &exitCode);
void addRun(CLI::App &app, int &exitCode);
void addExplain(CLI::App &app, int &exitCode);
void addShow(CLI::App &app, int &exitCode);
void addTune(CLI::App &app, int &exitCode);
void addExport(CLI::App &app, int &exitCode);
void addCache(CLI::App &app, int &exitCode);
// These two tell of the other verbs, and come last.
void addCompletion(CLI::App &app);
void addHelp(CLI::App &app);

} // namespace attune::cli
