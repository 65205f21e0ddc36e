//===- Lowering.cpp - From a variant or IR text to CUDA source or an object -===//

#include "driver/Lowering.h"
#include "driver/PassLog.h"
#include "driver/ScheduleText.h"

#include "codegen/cpu/Cpu.h"
#include "codegen/cuda/Printer.h"
#include "dsl/PlainIndices.h"
#include "ir/attn/FromVariant.h"
#include "ir/sched/Sched.h"
#include "ir/tile/Signature.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "passes/attn/TileSize.h"
#include "runtime/Launch.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <chrono>
#include <fmt/format.h>
#include <mutex>

using namespace mlir;
using namespace attune;
using namespace attune::driver;

//===----------------------------------------------------------------------===//
// Contexts and diagnostics
//===----------------------------------------------------------------------===//

namespace {

/// Contexts that no lowering uses at the moment. Never destroyed: a thread may compile while statics are.
struct ContextPool {
  std::mutex mutex;
  std::vector<std::unique_ptr<MLIRContext>> idle;

  static ContextPool &process() {
    static auto *pool = new ContextPool;
    return *pool;
  }
};

class ContextLease {
public:
  ContextLease() {
    {
      ContextPool &pool = ContextPool::process();
      std::lock_guard lock(pool.mutex);
      if (!pool.idle.empty()) {
        held = std::move(pool.idle.back());
        pool.idle.pop_back();
        return;
      }
    }
    DialectRegistry registry;
    registerDialects(registry);
    held = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    held->loadAllAvailableDialects();
  }
  ~ContextLease() {
    ContextPool &pool = ContextPool::process();
    std::lock_guard lock(pool.mutex);
    pool.idle.push_back(std::move(held));
  }
  ContextLease(const ContextLease &) = delete;
  ContextLease &operator=(const ContextLease &) = delete;

  MLIRContext *get() const { return held.get(); }

private:
  std::unique_ptr<MLIRContext> held;
};

/// The file position inside a location, or nothing.
SourceLocation position(Location location) {
  SourceLocation result;
  location->walk([&](Location part) {
    auto file = dyn_cast<FileLineColLoc>(part);
    if (!file || file.getLine() == 0)
      return WalkResult::advance();
    result = {file.getFilename().str(), file.getLine(), file.getColumn()};
    return WalkResult::interrupt();
  });
  return result;
}

/// Collects the first error of a scope, with its notes, as an attune Error.
class Diagnostics {
public:
  Diagnostics(MLIRContext *context, const IrText *text)
      : text(text), handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && !first)
            first = convert(diagnostic);
          return success();
        }) {}

  /// The first error, or one that says what failed without a diagnostic.
  Error error(std::string_view failed) const {
    return first ? *first : Error{fmt::format("{} failed without a diagnostic; please report this", failed)};
  }

private:
  Error convert(Diagnostic &diagnostic) {
    Error error{diagnostic.str(), position(diagnostic.getLocation())};
    if (text && error.where.file == text->file)
      error.excerpt = excerptOf(text->text, error.where);
    for (Diagnostic &note : diagnostic.getNotes()) {
      // "see current operation" prints whole kernels.
      std::string message = note.str();
      if (StringRef(message).starts_with("see current operation"))
        continue;
      if (!error.excerpt.empty())
        error.excerpt += "\n";
      error.excerpt += "note: " + message;
    }
    return error;
  }

  const IrText *text;
  std::optional<Error> first;
  ScopedDiagnosticHandler handler;
};

class Stopwatch {
public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

//===----------------------------------------------------------------------===//
// Reading ops
//===----------------------------------------------------------------------===//

void addTensorMaps(sched::KernelOp kernel, std::vector<TensorMapParam> &result) {
  kernel.walk([&](sched::TensorMapOp map) {
    auto type = map.getResult().getType();
    auto view = map.getView().getDefiningOp<tile::ParamOp>();
    result.push_back({view.getOwnName().str(), int(type.getRows()), int(type.getColumns()),
                      int(map.getSwizzle().getPanel()), bool(tile::capturedTensorOf(map.getView()))});
  });
}

/// What a launch asks of the schedules.
void describeLaunch(ArrayRef<tile::LaunchedKernel> kernels, KernelSignature &signature) {
  signature.tensorMaps.clear();
  for (const tile::LaunchedKernel &launched : kernels) {
    auto kernel = cast<sched::KernelOp>(launched.op);
    addTensorMaps(kernel, signature.tensorMaps);
    signature.claimsWork |= sched::claimsWork(kernel);
    signature.waitsForBounds |= sched::waitsForBounds(kernel);
  }
}

/// An attn op declares no operands: those of its forward pass are known.
KernelSignature signatureOf(attn::AttentionOp op) {
  KernelSignature signature = tile::signatureOf(op);
  signature.headDim = int(op.getHeadDim());
  signature.headDimV = int(op.getHeadDimV());
  signature.operands = forwardOperands(signature.dtype, signature.headDim, signature.headDimV);
  return signature;
}

/// What attn.attention, tile.kernel and sched.kernel have in common.
template <typename KernelLike> IrSummary summarize(KernelLike op, KernelSignature signature, Stage stage) {
  IrSummary summary;
  summary.stage = stage;
  summary.name = op.getSymName().str();
  summary.precise = op.getPrecise();
  summary.signature = std::move(signature);
  return summary;
}

Plan planOf(tile::PlanAttr attr) {
  Plan plan;
  plan.tileQ = int(attr.getTileQ());
  plan.tileK = int(attr.getTileK());
  plan.warps = int(attr.getWarps());
  plan.stages = int(attr.getStages());
  plan.qRegisters = attr.getQRegisters();
  plan.blocksPerSm = int(attr.getBlocksPerSm());
  plan.longestFirst = attr.getLongestFirst();
  plan.dvWarps = int(attr.getDvWarps());
  plan.copyWarps = int(attr.getCopyWarps());
  plan.persistent = attr.getPersistent();
  plan.queryStages = int(attr.getQStages());
  plan.turns = attr.getTurns();
  plan.overlap = attr.getOverlap();
  plan.stageBiases = attr.getStageBiases();
  return plan;
}

/// The kernels of a launch, of which the last completes the results.
using LaunchedKernels = SmallVector<tile::LaunchedKernel>;

template <typename KernelLike> KernelLike mainKernel(const LaunchedKernels &kernels) {
  return cast<KernelLike>(kernels.back().op);
}

/// A launch is called after its tile.launch.
std::string launchName(ModuleOp module, StringRef kernel) {
  for (auto launch : module.getOps<tile::LaunchOp>())
    return launch.getSymName().str();
  return kernel.str();
}

Expected<IrSummary> summarizeKernels(ModuleOp module) {
  Expected<LaunchedKernels> kernels = tile::launchedKernels(module);
  if (!kernels)
    return Error{kernels.error().message, position(module.getLoc())};
  for (const tile::LaunchedKernel &kernel : *kernels)
    if (kernel.op->getName() != kernels->back().op->getName())
      return Error{"the module has kernels of two stages; bring all to one", position(kernel.op->getLoc())};
  KernelSignature signature = tile::signatureOf(ArrayRef(*kernels));
  if (isa<tile::KernelOp>(kernels->back().op)) {
    IrSummary summary = summarize(mainKernel<tile::KernelOp>(*kernels), std::move(signature), Stage::Tile);
    summary.name = launchName(module, summary.name);
    return summary;
  }
  auto kernel = mainKernel<sched::KernelOp>(*kernels);
  IrSummary summary = summarize(kernel, std::move(signature), Stage::Sched);
  summary.name = launchName(module, summary.name);
  summary.arch = kernel.getArch().str();
  describeLaunch(*kernels, summary.signature);
  return summary;
}

/// The module's attention or kernels, at whatever stage.
Expected<IrSummary> summarizeModule(ModuleOp module) {
  auto attentions = llvm::to_vector(module.getOps<attn::AttentionOp>());
  const int kernels = int(llvm::count_if(module.getOps(), [](Operation &op) { return op.hasAttr("operands"); }));
  if (attentions.size() == 1 && kernels == 0) {
    IrSummary summary = summarize(attentions.front(), signatureOf(attentions.front()), Stage::Attn);
    summary.scale = attentions.front().getScale().convertToDouble();
    return summary;
  }
  if (attentions.empty() && kernels > 0)
    return summarizeKernels(module);
  return Error{fmt::format("the text holds {} kernels, required is one attn.attention, tile.kernel or "
                           "sched.kernel; split it into one file each",
                           attentions.size() + size_t(kernels)),
               position(module.getLoc())};
}

/// What a launch starts.
std::vector<KernelEntry> entriesOf(const LaunchedKernels &kernels) {
  std::vector<KernelEntry> entries;
  for (const tile::LaunchedKernel &kernel : kernels) {
    KernelEntry &entry = entries.emplace_back();
    entry.symbol = SymbolTable::getSymbolName(kernel.op).str();
    entry.grid = tile::gridOf(kernel.op);
    entry.dependent = kernel.dependent;
    entry.threads = 1;
    if (auto scheduled = dyn_cast<sched::KernelOp>(kernel.op)) {
      entry.symbol = codegen::kernelSymbol(scheduled);
      entry.threads = int(scheduled.getThreads());
      entry.sharedBytes = size_t(scheduled.getSharedBytes());
      entry.persistent = scheduled.getPlan().getPersistent();
      entry.dependent |= sched::waitsForBounds(scheduled);
    }
  }
  return entries;
}

/// The module's attribute that holds the variant's JSON.
constexpr llvm::StringLiteral variantAttr = "attn.variant";

/// The variant's JSON where the module has it. An attn op that was edited is no longer that variant.
std::string variantJsonOf(ModuleOp module, const IrSummary &summary) {
  auto attr = module->getAttrOfType<StringAttr>(variantAttr);
  if (!attr)
    return "";
  if (summary.stage == Stage::Attn) {
    Expected<Variant> variant = Variant::fromJson(attr.getValue());
    if (!variant)
      return "";
    const KernelSignature &signature = summary.signature;
    Expected<OwningOpRef<ModuleOp>> built =
        buildAttention(*module.getContext(), *variant, signature.dtype, signature.headDim, signature.headDimV);
    if (!built)
      return "";
    auto textOf = [](ModuleOp holder) {
      OwningOpRef<ModuleOp> copy = holder.clone();
      auto op = *copy->getOps<attn::AttentionOp>().begin();
      op->removeAttr("tile.plan");
      std::string text;
      llvm::raw_string_ostream stream(text);
      op.print(stream);
      return text;
    };
    if (textOf(module) != textOf(**built))
      return "";
  }
  return attr.getValue().str();
}

/// What a launch can know about the variant's indices. IR text that names no variant clamps them, as loads of IR do.
void addIndices(const Variant &variant, KernelSignature &signature) {
  std::vector<std::vector<IndexParam>> indices = dsl::plainIndices(variant);
  for (size_t i = 0; i < indices.size(); ++i)
    for (TensorParam &tensor : signature.tensors)
      if (tensor.name == variant.tensors()[i].name && tensor.rank == variant.tensors()[i].rank)
        tensor.indices = std::move(indices[i]);
}
/// The variant that the module names, and what it tells of the indices.
void addVariant(ModuleOp module, IrSummary &summary) {
  summary.variantJson = variantJsonOf(module, summary);
  if (summary.variantJson.empty())
    return;
  if (Expected<Variant> variant = Variant::fromJson(summary.variantJson))
    addIndices(*variant, summary.signature);
}

/// toJson() on one line: a JSON text breaks lines only between its tokens.
std::string oneLine(StringRef json) {
  std::string result;
  for (StringRef line : llvm::split(json, '\n'))
    result += line.trim().str() + (line.trim().ends_with(",") ? " " : "");
  return result;
}

/// MLIR text that parses back to the same module, the ops' locations included. Nothing is made from those of block
/// arguments.
std::string print(ModuleOp module) {
  Location unknown = UnknownLoc::get(module.getContext());
  module.walk([&](Block *block) {
    for (BlockArgument argument : block->getArguments())
      argument.setLoc(unknown);
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  // Among arguments, where a comma or parenthesis follows; the alias of ops without a location stands alone on its
  // line.
  std::string shown;
  StringRef rest = text, clutter = " loc(unknown)";
  for (size_t at; (at = rest.find(clutter)) != StringRef::npos; rest = rest.drop_front(at + clutter.size())) {
    bool ofArgument =
        rest.drop_front(at + clutter.size()).starts_with(",") || rest.drop_front(at + clutter.size()).starts_with(")");
    shown += rest.take_front(ofArgument ? at : at + clutter.size());
  }
  return shown + rest.str();
}

Expected<OwningOpRef<ModuleOp>> parse(MLIRContext *context, const IrText &text) {
  Diagnostics diagnostics(context, &text);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text.text, ParserConfig(context), text.file);
  if (!module)
    return diagnostics.error("parsing");
  return module;
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

bool fixesSchedule(const CompileOptions &options) {
  return options.tileQ || options.tileK || options.warps || options.stages || options.qRegisters || options.dvWarps;
}

PipelineOptions pipelineOptions(const CompileOptions &options, const Target &target) {
  PipelineOptions result;
  result.arch = target.arch;
  result.sramBudget = int64_t(options.sramBudget);
  result.tileQ = options.tileQ.value_or(0);
  result.tileK = options.tileK.value_or(0);
  result.warps = options.warps.value_or(0);
  result.stages = options.stages.value_or(0);
  result.qRegisters = options.qRegisters ? int(*options.qRegisters) : -1;
  result.dvWarps = options.dvWarps.value_or(0);
  return result;
}

template <typename AddPasses>
Expected<void> runPasses(ModuleOp module, const IrText *text, AddPasses &&addPasses, bool printAfterAll = false) {
  Diagnostics diagnostics(module.getContext(), text);
  PassManager passes(module.getContext());
  observePasses(passes, printAfterAll);
  addPasses(passes);
  if (failed(passes.run(module)))
    return diagnostics.error("a pass");
  return {};
}

/// `text` again, with the location of each op in it: printed text carries the locations of what it was made from.
OwningOpRef<ModuleOp> parseInPlace(MLIRContext *context, const IrText &text) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text.text, text.file), llvm::SMLoc());
  OwningOpRef<ModuleOp> holder = ModuleOp::create(UnknownLoc::get(context));
  AsmParserState state;
  if (failed(parseAsmSourceFile(sources, holder->getBody(), ParserConfig(context, /*verifyAfterParse=*/false), &state)))
    return {};
  for (const AsmParserState::OperationDefinition &definition : state.getOpDefs()) {
    auto [line, column] = sources.getLineAndColumn(definition.loc.Start);
    definition.op->setLoc(FileLineColLoc::get(context, text.file, line, column));
  }
  Operation *only = &holder->getBody()->front();
  if (auto module = dyn_cast<ModuleOp>(only); module && llvm::hasSingleElement(*holder->getBody())) {
    only->remove();
    return module;
  }
  return holder;
}

/// Holds `module` to the rules of the stage at which it starts. Errors point at the text, if there is one.
Expected<void> verifyStage(ModuleOp module, const IrText *text, Stage stage, const PipelineOptions &options) {
  auto verifyModule = [&](ModuleOp held) {
    return runPasses(held, text, [&](PassManager &passes) {
      if (stage == Stage::Attn)
        addAttnVerifier(passes);
      else if (stage == Stage::Tile)
        addTileVerifier(passes, options);
      else
        addSchedVerifier(passes, options);
    });
  };
  Expected<void> good = verifyModule(module);
  if (good || !text)
    return good;
  OwningOpRef<ModuleOp> inPlace = parseInPlace(module.getContext(), *text);
  Expected<void> again = inPlace ? verifyModule(*inPlace) : Expected<void>();
  return again ? good : again;
}

/// The cost model's request for the attn op of `module`, whose regions are canonicalised in a copy.
Expected<PlanRequest> requestFor(ModuleOp module, const CompileOptions &options, const Target &target,
                                 const ProblemSizes &sizes) {
  OwningOpRef<ModuleOp> copy = module.clone();
  Expected<void> ran = runPasses(*copy, nullptr, [](PassManager &passes) {
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
  });
  if (!ran)
    return ran.error();
  auto op = *copy->getOps<attn::AttentionOp>().begin();
  SizeHints hints;
  hints.batch = sizes.batch;
  hints.heads = sizes.heads;
  if (sizes.queries)
    hints.queries = sizes.queries;
  if (sizes.keys)
    hints.keys = sizes.keys;
  PlanRequest request = planRequest(op, target.arch, hints);
  if (sizes.headsKv)
    request.headsKv = sizes.headsKv;
  request.sramBudget = int64_t(options.sramBudget);
  if (auto given = op->getAttrOfType<tile::PlanAttr>("tile.plan")) {
    Plan plan = planOf(given);
    request.fixed = {plan.tileQ, plan.tileK, plan.warps, plan.stages, plan.qRegisters, plan.dvWarps};
  }
  if (options.tileQ)
    request.fixed.tileQ = options.tileQ;
  if (options.tileK)
    request.fixed.tileK = options.tileK;
  if (options.warps)
    request.fixed.warps = options.warps;
  if (options.stages)
    request.fixed.stages = options.stages;
  if (options.qRegisters)
    request.fixed.qRegisters = options.qRegisters;
  if (options.dvWarps)
    request.fixed.dvWarps = options.dvWarps;
  return request;
}

/// The cost of exactly `plan`, where the model has it.
std::optional<RankedPlan> costOf(PlanRequest request, const Plan &plan) {
  request.fixed = {plan.tileQ, plan.tileK, plan.warps, plan.stages, plan.qRegisters, plan.dvWarps};
  Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
  if (!ranked)
    return std::nullopt;
  for (const RankedPlan &candidate : *ranked)
    if (candidate.plan == plan)
      return candidate;
  if (!ranked->empty() && ranked->front().accepted())
    return ranked->front();
  return std::nullopt;
}

/// The dtype and head dims are the text's or the options'; the module is at attn, tile or sched.
Expected<OwningOpRef<ModuleOp>> makeModule(MLIRContext *context, const Source &source, const CompileOptions &options) {
  if (source.text)
    return parse(context, *source.text);
  if (options.headDim == 0)
    return Error{"head dim is not set, required is a multiple of 8 up to 512; set CompileOptions::headDim"};
  return buildAttention(*context, *source.variant, options.dtype, options.headDim,
                        options.headDimV ? options.headDimV : options.headDim);
}

/// Errors that depend on where the text starts.
Expected<void> checkStart(const IrSummary &start, const CompileOptions &options, const Target &target, Stage stage) {
  if (start.stage > stage)
    return Error{fmt::format("the text is at stage {}, which comes after {}; emit {} or a later stage",
                             name(start.stage), name(stage), name(start.stage))};
  if (start.stage != Stage::Attn && (fixesSchedule(options) || options.sramBudget))
    return Error{fmt::format("the text is at stage {} and holds its schedule; edit the text, or start from attn text "
                             "to choose tiles, warps, stages or a budget",
                             name(start.stage))};
  if (start.stage == Stage::Sched && !target.isCuda())
    return Error{"the text is scheduled for a GPU, which the cpu target does not run; start from its tile text, or use "
                 "--target gpu"};
  if (start.stage == Stage::Sched && start.arch != target.arch)
    return Error{fmt::format("the text is scheduled for {}, not for {}; use --arch {}, or start from its tile text",
                             start.arch, target.arch, start.arch)};
  return {};
}

} // namespace

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

std::string attune::driver::excerptOf(std::string_view whole, const SourceLocation &where) {
  StringRef text = whole;
  for (unsigned line = 1; line < where.line; ++line) {
    size_t end = text.find('\n');
    if (end == StringRef::npos)
      return "";
    text = text.drop_front(end + 1);
  }
  StringRef line = text.take_until([](char c) { return c == '\n' || c == '\r'; });
  size_t caret = where.column ? where.column - 1 : 0;
  // Generated lines are long: show what surrounds the fault.
  constexpr size_t reach = 100;
  std::string before, after;
  if (caret > reach) {
    line = line.drop_front(caret - reach / 2);
    caret = reach / 2 + 3;
    before = "...";
  }
  if (line.size() > 2 * reach) {
    line = line.take_front(2 * reach);
    after = "...";
  }
  std::string indent;
  std::string shown = before + line.str() + after;
  for (size_t i = 0; i < caret; ++i)
    indent += i < shown.size() && shown[i] == '\t' ? '\t' : ' ';
  return shown + "\n" + indent + "^";
}

Expected<IrSummary> attune::driver::describe(const IrText &text) {
  ContextLease context;
  Expected<OwningOpRef<ModuleOp>> module = parse(context.get(), text);
  if (!module)
    return module.error();
  Expected<IrSummary> summary = summarizeModule(**module);
  if (summary)
    addVariant(**module, *summary);
  return summary;
}

Expected<Lowered> attune::driver::lower(const Source &source, const CompileOptions &options, const Target &target,
                                        Stage stage, bool withCost) {
  Stopwatch irTime;
  ContextLease context;
  Expected<OwningOpRef<ModuleOp>> made = makeModule(context.get(), source, options);
  if (!made)
    return made.error();
  ModuleOp module = **made;
  Expected<IrSummary> summary = summarizeModule(module);
  if (!summary)
    return summary.error();
  if (Expected<void> good = checkStart(*summary, options, target, stage); !good)
    return good.error();
  if (source.variant)
    addIndices(*source.variant, summary->signature);
  else
    addVariant(module, *summary);

  Lowered result;
  result.summary = *summary;
  Stage at = summary->stage;
  PipelineOptions pipeline = pipelineOptions(options, target);
  if (Expected<void> good = verifyStage(module, source.text, at, pipeline); !good)
    return good.error();
  if (at == Stage::Attn && withCost) {
    Expected<PlanRequest> request = requestFor(module, options, target, {});
    if (!request)
      return request.error();
    result.request = *request;
  }
  if (at == Stage::Attn && stage > Stage::Attn) {
    Expected<void> ran = runPasses(
        module, source.text, [&](PassManager &passes) { addAttnToTile(passes, pipeline); }, options.printAfterAll);
    if (!ran)
      return ran.error();
    at = Stage::Tile;
  }
  if (at == Stage::Tile) {
    const LaunchedKernels kernels = *tile::launchedKernels(module);
    auto kernel = mainKernel<tile::KernelOp>(kernels);
    const KernelSignature signature = tile::signatureOf(ArrayRef(kernels));
    result.plan = planOf(kernel.getPlan());
    result.entries = entriesOf(kernels);
    result.summary.signature.operands = signature.operands;
    result.summary.signature.bounds = signature.bounds;
    if (stage > Stage::Tile && target.isCuda())
      result.schedule = describeTiles(kernel);
  }
  if (at == Stage::Tile && stage > Stage::Tile && target.isCuda()) {
    Expected<void> ran = runPasses(
        module, source.text, [&](PassManager &passes) { addTileToSched(passes, pipeline); }, options.printAfterAll);
    if (!ran)
      return ran.error();
    at = Stage::Sched;
  }
  if (at == Stage::Sched) {
    const LaunchedKernels kernels = *tile::launchedKernels(module);
    auto kernel = mainKernel<sched::KernelOp>(kernels);
    result.entries = entriesOf(kernels);
    result.plan = planOf(kernel.getPlan());
    result.threads = int(kernel.getThreads());
    result.path = kernel.getBody().getOps<sched::RoleOp>().empty() ? "mma.sync" : "wgmma";
    describeLaunch(kernels, result.summary.signature);
    for (ScheduleLine &line : describeSchedule(kernel))
      result.schedule.push_back(std::move(line));
    result.sharedBytes = size_t(kernel.getSharedBytes());
    kernel.walk([&](sched::SharedOp buffer) {
      result.buffers.push_back(
          {buffer.getName().str(), buffer.getResult().getType().bytes(), int64_t(buffer.getOffset())});
    });
    kernel.walk([&](sched::RingOp ring) {
      result.buffers.push_back({ring.getName().str(), ring.getResult().getType().bytes(), int64_t(ring.getOffset())});
    });
  }
  result.irMilliseconds = irTime.milliseconds();

  if (stage <= Stage::Sched) {
    if (source.variant)
      module->setAttr(variantAttr, StringAttr::get(context.get(), oneLine(source.variant->toJson())));
    result.text = print(module);
    return result;
  }
  if (stage == Stage::Llvm) {
    Diagnostics diagnostics(context.get(), source.text);
    Expected<std::string> llvm = printHostLlvm(module);
    if (!llvm)
      return llvm.error();
    result.text = std::move(*llvm);
    return result;
  }
  if (target.isCuda()) {
    Stopwatch printTime;
    const LaunchedKernels kernels = *tile::launchedKernels(module);
    if (kernels.size() > 1)
      return Error{fmt::format("the launch starts {} kernels, which only the CPU target does so far; use --target cpu",
                               kernels.size())};
    Expected<std::string> cuda = codegen::printCuda(mainKernel<sched::KernelOp>(kernels));
    if (!cuda)
      return cuda.error();
    result.source = std::move(*cuda);
    result.printMilliseconds = printTime.milliseconds();
  } else {
    Stopwatch objectTime;
    Diagnostics diagnostics(context.get(), source.text);
    Expected<HostObject> object = compileHost(module);
    if (!object)
      return object.error();
    result.object = std::move(object->bytes);
    for (auto [entry, function] : llvm::zip(result.entries, object->functions))
      entry.sharedBytes = function.scratchBytes;
    result.buffers = {{"scratch per thread", int64_t(result.entries.back().sharedBytes), -1}};
    result.objectMilliseconds = objectTime.milliseconds();
  }
  if (result.request)
    result.predicted = costOf(*result.request, result.plan);
  return result;
}

Expected<std::vector<RankedPlan>> attune::driver::rank(const Source &source, const CompileOptions &options,
                                                       const Target &target, const ProblemSizes &sizes,
                                                       Lowered &described) {
  ContextLease context;
  Expected<OwningOpRef<ModuleOp>> made = makeModule(context.get(), source, options);
  if (!made)
    return made.error();
  Expected<IrSummary> summary = summarizeModule(**made);
  if (!summary)
    return summary.error();
  if (summary->stage != Stage::Attn)
    return Error{fmt::format("the text is at stage {} and holds its schedule, so there is nothing to rank; explain its "
                             "attn text",
                             name(summary->stage))};
  described.summary = *summary;
  Expected<PlanRequest> request = requestFor(**made, options, target, sizes);
  if (!request)
    return request.error();
  described.request = *request;
  return rankPlans(*request);
}

Expected<Simulated> attune::driver::simulated(const IrText &text) {
  ContextLease context;
  Diagnostics diagnostics(context.get(), &text);
  OwningOpRef<ModuleOp> module = parseInPlace(context.get(), text);
  if (!module || failed(mlir::verify(*module)))
    return diagnostics.error("parsing");
  Expected<IrSummary> summary = summarizeModule(*module);
  if (!summary)
    return summary.error();
  if (summary->stage != Stage::Sched)
    return Error{fmt::format("the text is at stage {}, only a schedule can be simulated; emit its sched text",
                             name(summary->stage))};
  addVariant(*module, *summary);
  Expected<Simulator> simulator = Simulator::load(*module);
  if (!simulator)
    return simulator.error();
  const LaunchedKernels kernels = *tile::launchedKernels(*module);
  auto kernel = mainKernel<sched::KernelOp>(kernels);
  return Simulated{std::move(*summary), entriesOf(kernels), int(kernel.getPlan().getTileQ()),
                   int(kernel.getPlan().getTileK()), std::move(*simulator)};
}

Expected<Kernel> attune::driver::loadHostImage(KernelImage image) {
  if (Expected<void> good = checkSignature(image); !good)
    return good.error();
  Stopwatch loadTime;
  std::vector<std::string> symbols;
  for (const KernelEntry &entry : image.entries)
    symbols.push_back(entry.symbol);
  Expected<HostCode> code = loadHost(image.binary, symbols);
  if (!code)
    return code.error();
  image.times.load = loadTime.milliseconds();
  std::vector<HostEntry> functions;
  for (auto [function, entry] : llvm::zip(code->functions, image.entries))
    functions.push_back({function, entry.sharedBytes});
  return makeHostKernel(std::move(image), std::move(functions), code->owner);
}

const std::string &attune::driver::hostKey() {
  static const std::string key = hostCpuKey();
  return key;
}
