//===- Lowering.cpp - From a variant or IR text to CUDA source or an object -===//

#include "driver/Lowering.h"
#include "driver/PassLog.h"
#include "driver/ScheduleText.h"

#include "codegen/cpu/Cpu.h"
#include "codegen/cuda/Printer.h"
#include "dsl/PlainIndices.h"
#include "ir/NestedOps.h"
#include "ir/attn/FromVariant.h"
#include "ir/sched/LaunchMaps.h"
#include "ir/tile/Signature.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "passes/analysis/cost/BackwardPlan.h"
#include "passes/attn/Recompute.h"
#include "passes/attn/TileSize.h"
#include "passes/tile/PlanKernels.h"
#include "runtime/Launch.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
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

/// Contexts that no lowering uses at the moment. The pool is never destroyed, as a thread may still compile during the
/// destruction of static objects.
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

/// The file position within a location; unknown if there is none.
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

  /// The first error, or a generic one if `failed` gave no diagnostic.
  Error error(std::string_view failed) const {
    return first ? *first : Error{fmt::format("{} failed without a diagnostic; please report this", failed)};
  }

private:
  Error convert(Diagnostic &diagnostic) {
    Error error{diagnostic.str(), position(diagnostic.getLocation())};
    if (text && error.where.file == text->file)
      error.excerpt = excerptOf(text->text, error.where);
    for (Diagnostic &note : diagnostic.getNotes()) {
      // The note "see current operation" would print a whole kernel.
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

/// The kernels of a launch at stage sched.
SmallVector<sched::KernelOp> scheduledKernels(ArrayRef<tile::LaunchedKernel> kernels) {
  SmallVector<sched::KernelOp> scheduled;
  for (const tile::LaunchedKernel &kernel : kernels)
    if (auto one = dyn_cast<sched::KernelOp>(kernel.op))
      scheduled.push_back(one);
  return scheduled;
}

/// The signature of an attn op. The op declares no operands; a forward pass has known ones.
KernelSignature signatureOf(attn::AttentionOp op) {
  KernelSignature signature = tile::signatureOf(op);
  signature.headDim = int(op.getHeadDim());
  signature.headDimV = int(op.getHeadDimV());
  if (const std::optional<attn::GradientsAttr> gradients = op.getGradients()) {
    std::vector<TensorParam> learned;
    for (StringAttr name : gradients->getTensors())
      for (const TensorParam &tensor : signature.tensors)
        if (tensor.name == name.getValue())
          learned.push_back(tensor);
    signature.operands =
        backwardOperands(signature.dtype, signature.headDim, signature.headDimV,
                         !op.getNormaliser() || !op.getStatistics().empty(), gradients->getLse(), learned);
  } else
    signature.operands = tile::forwardOperandsOf(op);
  if (attn::SequencesAttr sequences = op.getSequencesAttr())
    packOperands(signature.operands, /*packsKeys=*/bool(sequences.getKeys()));
  for (StringRef what : op.getSaves().getAsValueRange<StringAttr>())
    signature.operands.push_back(savedOperand(what, op.getGradients() ? OperandRole::In : OperandRole::Out));
  return signature;
}

/// The summary of an attn.attention, tile.kernel or sched.kernel.
template <typename KernelLike> IrSummary summarize(KernelLike op, KernelSignature signature, Stage stage) {
  IrSummary summary;
  summary.stage = stage;
  summary.name = op.getSymName().str();
  summary.precise = op.getPrecise();
  summary.signature = std::move(signature);
  return summary;
}

/// The fields of a plan that are in a kernel's #tile.plan and its unit attributes. A plan for the CPU has no others.
template <typename KernelLike> Plan sizesAndMarksOf(KernelLike kernel) {
  Plan plan;
  plan.stages = 1;
  const tile::PlanAttr sizes = kernel.getPlan();
  plan.tileQ = int(sizes.getSize("q"));
  plan.tileK = int(sizes.getSize("k"));
  plan.warps = int(sizes.getWarps());
  plan.blocksPerSm = int(sizes.getBlocksPerSm());
  plan.dvWarps = int(sizes.getDvWarps());
  plan.longestFirst = kernel->hasAttr(sched::longestFirstAttr);
  plan.persistent = kernel->hasAttr(sched::persistentAttr);
  plan.pingPong = kernel->hasAttr(sched::pingPongAttr);
  plan.overlap = kernel->hasAttr(sched::overlapAttr);
  for (tile::DerivedAxisAttr axis : tile::derivedAxes(kernel)) {
    plan.packGqa |= axis.getName() == tile::rowsAxis;
    plan.splitKeys |= axis.getName() == tile::splitsAxis || axis.getName() == tile::workItemsAxis;
  }
  return plan;
}

/// The plan of a scheduled kernel. The rings of copies in loops over tiles give `stages`; the rings of copies before
/// these loops give the stages of Q.
Plan planOf(sched::KernelOp kernel) {
  Plan plan = sizesAndMarksOf(kernel);
  plan.producerWarps = int(kernel.getThreads() / 32) - plan.warps;
  auto note = [&](Operation *copy, Value shared) {
    const auto type = cast<tile::TileType>(shared.getType());
    int &stages = copy->getParentOfType<sched::ForTilesOp>() ? plan.stages : plan.queryStages;
    stages = std::max(stages, int(type.size("stage")));
  };
  kernel.walk([&](sched::LoadBoxOp copy) { note(copy, copy.getShared()); });
  if (!plan.producerWarps)
    kernel.walk([&](sched::CopyAsyncOp copy) {
      if (copy->getParentOfType<sched::ForTilesOp>())
        plan.stages = int(cast<tile::TileType>(copy.getShared().getType()).size("stage"));
    });
  plan.qRegisters = !plan.producerWarps && holds<sched::LoadMatrixOp>(kernel, [](sched::LoadMatrixOp load) {
    return !load->getParentOfType<sched::ForTilesOp>();
  });
  plan.stageBiases = holds<sched::TensorMapOp>(
      kernel, [](sched::TensorMapOp map) { return bool(tile::capturedTensorOf(map.getView())); });
  return plan;
}

/// The kernels of a launch, of which the last completes the results.
using LaunchedKernels = SmallVector<tile::LaunchedKernel>;

/// The main kernel, whose schedule represents the launch: the last kernel with matrix products, if there is one.
template <typename KernelLike> KernelLike mainKernel(const LaunchedKernels &kernels) {
  auto multiplies = [](const tile::LaunchedKernel &kernel) {
    return kernel.op
        ->walk([](Operation *op) {
          return isa<tile::MmaOp, sched::MmaOp, sched::MmaAsyncOp>(op) ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
        })
        .wasInterrupted();
  };
  for (const tile::LaunchedKernel &kernel : llvm::reverse(kernels))
    if (multiplies(kernel))
      return cast<KernelLike>(kernel.op);
  return cast<KernelLike>(kernels.back().op);
}

/// The name of a launch: the title of its tile.launch, else the name of its kernel.
std::string launchName(ModuleOp module, StringRef kernel) {
  for (auto launch : module.getOps<tile::LaunchOp>())
    return launch.getTitle().str();
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
  summary.signature.tensorMaps = sched::LaunchMaps(scheduledKernels(*kernels)).params();
  return summary;
}

/// The summary of a module's attention or kernels, at any stage.
Expected<IrSummary> summarizeModule(ModuleOp module) {
  auto attentions = llvm::to_vector(module.getOps<attn::AttentionOp>());
  const int kernels = int(llvm::count_if(module.getOps(), [](Operation &op) { return op.hasAttr("operands"); }));
  if (attentions.size() == 1 && kernels == 0) {
    IrSummary summary = summarize(attentions.front(), signatureOf(attentions.front()), Stage::Attn);
    summary.scale = attentions.front().getScale().convertToDouble();
    summary.backward = attentions.front().getGradients().has_value();
    return summary;
  }
  if (attentions.empty() && kernels > 0)
    return summarizeKernels(module);
  return Error{fmt::format("the text holds {} kernels, required is one attn.attention, tile.kernel or "
                           "sched.kernel; split it into one file each",
                           attentions.size() + size_t(kernels)),
               position(module.getLoc())};
}

/// The name of the parameter behind a view, a slice of a view, or a tensor map.
StringRef parameterOf(Value view) {
  Operation *definition = view.getDefiningOp();
  if (auto param = dyn_cast_or_null<tile::ParamOp>(definition))
    return param.getName();
  return isa_and_nonnull<sched::SliceOp, sched::TensorMapOp>(definition) ? parameterOf(definition->getOperand(0)) : "";
}

/// The operands to which kernels of a launch add atomically.
llvm::StringSet<> addedOperands(const LaunchedKernels &kernels) {
  llvm::StringSet<> added;
  auto note = [&](Value view) { added.insert(parameterOf(view)); };
  for (const tile::LaunchedKernel &kernel : kernels)
    kernel.op->walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](tile::AccumulateOp add) { note(add.getView()); })
          .Case([&](tile::ScatterOp scatter) {
            if (scatter.getAdd())
              note(scatter.getView());
          })
          .Case([&](sched::AddElementsOp add) { note(add.getView()); })
          .Case([&](sched::AddIntegerOp add) { note(add.getView()); })
          .Case([&](sched::AddRowsOp add) { note(add.getView()); })
          .Case([&](sched::StoreBoxOp store) {
            if (store.getAdds())
              note(store.getMap());
          });
    });
  return added;
}

/// The entries of a launch, one for each kernel.
std::vector<KernelEntry> entriesOf(const LaunchedKernels &kernels) {
  std::vector<KernelEntry> entries;
  const llvm::StringSet<> added = addedOperands(kernels);
  const sched::LaunchMaps maps(scheduledKernels(kernels));
  for (const tile::LaunchedKernel &kernel : kernels) {
    KernelEntry &entry = entries.emplace_back();
    entry.symbol = SymbolTable::getSymbolName(kernel.op).str();
    entry.grid = tile::gridOf(kernel.op);
    entry.skippedIf = tile::boundsOf(kernel.op);
    entry.dependent = kernel.dependent;
    // A preparation kernel accesses no operand except workspace that no kernel adds to, so its results stay valid for
    // further launches.
    entry.preparation = !holds<tile::ParamOp>(kernel.op->getRegion(0), [&](tile::ParamOp param) {
      const tile::OperandAttr operand = tile::findOperand(kernel.op, param.getName());
      return operand && (operand.getRole() != OperandRole::Workspace || added.contains(param.getName()));
    });
    entry.threads = 1;
    if (auto scheduled = dyn_cast<sched::KernelOp>(kernel.op)) {
      entry.symbol = codegen::kernelSymbol(scheduled);
      entry.threads = int(scheduled.getThreads());
      entry.sharedBytes = size_t(scheduled.getSharedBytes());
      entry.persistent = sched::isPersistent(scheduled);
      entry.claimsWork = sched::claimsWork(scheduled);
      entry.dependent = sched::waitsForLaunch(scheduled); // else it must not start early
      entry.maps = maps.conditionOf(scheduled);
    }
  }
  return entries;
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

/// The variant's JSON in the module, or "". If an attn op was edited, it is no longer that variant, and the result is
/// "".
std::string variantJsonOf(ModuleOp module, const IrSummary &summary) {
  auto attr = module->getAttrOfType<attn::VariantAttr>(attn::variantAttr);
  if (!attr)
    return "";
  if (summary.stage == Stage::Attn) {
    Expected<Variant> variant = Variant::fromJson(attr.getJson());
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
      for (StringRef decided :
           {StringRef(attn::planAttr), StringRef(attn::queriesPlanAttr), StringRef(attn::accumulatesDqAttr),
            StringRef(attn::separateDvAttr), StringRef(attn::decisionsAttr)})
        op->removeAttr(decided);
      op.setSavesAttr(ArrayAttr::get(op.getContext(), {}));
      op->walk([](Operation *inner) { inner->removeAttr(attn::savedAttr); });
      std::string text;
      llvm::raw_string_ostream stream(text);
      op.print(stream);
      return text;
    };
    auto op = *module.getOps<attn::AttentionOp>().begin();
    if (op.getGradients()) {
      (*(*built)->getOps<attn::AttentionOp>().begin()).setGradientsAttr(op.getGradientsAttr());
      if (!runPasses(**built, nullptr, addDifferentiate))
        return "";
    }
    if (textOf(module) != textOf(**built))
      return "";
  }
  return attr.getJson().str();
}

/// Adds the variant's indices that a launch can check. IR text without a variant has no checks; its loads clamp
/// indices.
void addIndices(const Variant &variant, KernelSignature &signature) {
  std::vector<std::string> gradients;
  for (const OperandParam &operand : signature.operands)
    if (StringRef name = operand.name; name.consume_front(gradientPrefix))
      gradients.push_back(name.str());
  std::vector<std::vector<IndexParam>> indices = dsl::plainIndices(variant, gradients);
  for (size_t i = 0; i < indices.size(); ++i)
    for (TensorParam &tensor : signature.tensors)
      if (tensor.name == variant.tensors()[i].name && tensor.rank == variant.tensors()[i].rank)
        tensor.indices = std::move(indices[i]);
}
/// Adds the variant that the module names, and its indices.
void addVariant(ModuleOp module, IrSummary &summary) {
  summary.variantJson = variantJsonOf(module, summary);
  if (summary.variantJson.empty())
    return;
  if (Expected<Variant> variant = Variant::fromJson(summary.variantJson))
    addIndices(*variant, summary.signature);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// `text` without ` loc(unknown)`, and without the printer's alias for it. Quoted text is unchanged.
std::string withoutUnknownLocations(StringRef text) {
  const StringRef definition = " = loc(unknown)\n";
  StringRef alias;
  if (size_t at = text.find(definition); at != StringRef::npos) {
    StringRef line = text.take_front(at).rsplit('\n').second;
    alias = line.empty() ? text.take_front(at) : line;
  }
  const std::string aliased = (" loc(" + alias + ")").str(), defined = (alias + definition).str();
  std::string shown;
  while (!text.empty()) {
    if (text.consume_front(" loc(unknown)") || (!alias.empty() && text.consume_front(aliased)) ||
        (!alias.empty() && (shown.empty() || shown.back() == '\n') && text.consume_front(defined)))
      continue;
    size_t length = 1;
    if (text.front() == '"')
      for (; length < text.size() && text[length] != '"'; ++length)
        length += text[length] == '\\';
    length = std::min(length + (text.front() == '"'), text.size());
    shown += text.take_front(length);
    text = text.drop_front(length);
  }
  return shown;
}

/// MLIR text that parses to the same module, including known locations of ops. Locations of block arguments, which
/// nothing uses, are dropped.
std::string print(ModuleOp module) {
  Location unknown = UnknownLoc::get(module.getContext());
  module.walk([&](Block *block) {
    for (BlockArgument argument : block->getArguments())
      argument.setLoc(unknown);
  });
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo());
  return withoutUnknownLocations(text);
}

/// The locations of ops in a parsed module.
enum class Locations {
  Written, ///< the location in the text's loc(...), else unknown; the module then equals the printed one
  OfText   ///< the position of the op in the text
};

/// Sets `tile.name` of an op in hand-written text to the name of its SSA value, which is then the name in the generated
/// source. Constants and ops with several results get no name.
void keepName(const AsmParserState::OperationDefinition &definition) {
  Operation *op = definition.op;
  if (op->getNumResults() != 1 || definition.resultGroups.empty() || op->hasTrait<OpTrait::ConstantLike>())
    return;
  const SMRange place = definition.resultGroups.front().definition.loc;
  StringRef name(place.Start.getPointer(), size_t(place.End.getPointer() - place.Start.getPointer()));
  if (name.consume_front("%") && !name.empty() && !llvm::isDigit(name.front()))
    tile::named(op->getResult(0), name);
}

/// Parses `text`. Returns null after an error, which the context's diagnostic handlers have received.
OwningOpRef<ModuleOp> parse(MLIRContext *context, const IrText &text, Locations locations, bool verify) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text.text, text.file), llvm::SMLoc());
  OwningOpRef<ModuleOp> holder = ModuleOp::create(UnknownLoc::get(context));
  AsmParserState state;
  if (failed(parseAsmSourceFile(sources, holder->getBody(), ParserConfig(context, verify), &state)))
    return {};
  const bool namesNothing =
      text.text.find("tile.name") == std::string::npos && text.text.find("attn.attention") == std::string::npos;
  for (const AsmParserState::OperationDefinition &definition : state.getOpDefs()) {
    if (namesNothing)
      keepName(definition);
    auto [line, column] = sources.getLineAndColumn(definition.loc.Start);
    Location place = FileLineColLoc::get(context, text.file, line, column);
    if (locations == Locations::OfText)
      definition.op->setLoc(place);
    else if (definition.op->getLoc() == place)
      definition.op->setLoc(UnknownLoc::get(context));
  }
  Block *body = holder->getBody();
  if (auto module = body->empty() ? ModuleOp() : dyn_cast<ModuleOp>(body->front());
      module && llvm::hasSingleElement(*body)) {
    module->remove();
    return module;
  }
  return holder;
}

/// Returns `work(module)` for the module of `text`. If `work` fails at an op without a known location, it is repeated
/// on a module with Locations::OfText, so that the error has a position in the text.
template <typename Work>
std::invoke_result_t<Work, ModuleOp> onParsed(MLIRContext *context, const IrText &text, Work &&work) {
  Diagnostics diagnostics(context, &text);
  OwningOpRef<ModuleOp> module = parse(context, text, Locations::Written, /*verify=*/true);
  if (!module)
    return diagnostics.error("parsing");
  auto result = work(*module);
  if (result || result.error().where.known())
    return result;
  OwningOpRef<ModuleOp> inPlace = parse(context, text, Locations::OfText, /*verify=*/true);
  auto again = work(*inPlace);
  return again ? std::move(result) : std::move(again);
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

PipelineOptions pipelineOptions(const CompileOptions &options, const Target &target) {
  PipelineOptions result;
  result.arch = target.arch;
  result.sramBudget = int64_t(options.sramBudget);
  result.fixed = choiceOf(options);
  if (options.gradients) {
    const Saving &saving = options.gradients->saving;
    result.saving = {int64_t(saving.memoryBudget), saving.save, saving.recompute, saving.sizes.batch,
                     saving.sizes.heads};
    if (saving.sizes.queries)
      result.saving.queries = saving.sizes.queries;
    if (saving.sizes.keys)
      result.saving.keys = saving.sizes.keys;
  }
  return result;
}

/// Adds the passes that write gradient regions and choose the values that the forward pass saves.
void addGradientPasses(PassManager &passes, const PipelineOptions &options) {
  addDifferentiate(passes);
  addRecompute(passes, options);
}

/// Verifies `module` by the rules of the stage at which it starts. Errors point at the text, if there is one.
Expected<void> verifyStage(ModuleOp module, const IrText *text, Stage stage, const PipelineOptions &options) {
  auto verifyModule = [&](ModuleOp held) {
    return runPasses(held, text, [&](PassManager &passes) {
      if (stage == Stage::Attn)
        addAttnVerifier(passes);
      else if (stage == Stage::Tile)
        addPlans(passes, options), addTileVerifier(passes, options); // the text in place has no plan yet
      else
        addSchedVerifier(passes, options);
    });
  };
  Expected<void> good = verifyModule(module);
  if (good || !text)
    return good;
  OwningOpRef<ModuleOp> inPlace = parse(module.getContext(), *text, Locations::OfText, /*verify=*/false);
  Expected<void> again = inPlace ? verifyModule(*inPlace) : Expected<void>();
  return again ? good : again;
}

/// The sizes for which plans are ranked: `sizes`, or the default of those that are 0.
SizeHints hintsOf(const ProblemSizes &sizes) {
  SizeHints hints;
  hints.batch = sizes.batch;
  hints.heads = sizes.heads;
  if (sizes.queries)
    hints.queries = sizes.queries;
  if (sizes.keys)
    hints.keys = sizes.keys;
  return hints;
}

/// The cost model's request for the attn op of `module`, whose regions are canonicalised in a copy.
Expected<PlanRequest> requestFor(ModuleOp module, const CompileOptions &options, const Target &target,
                                 const ProblemSizes &sizes) {
  OwningOpRef<ModuleOp> copy = module.clone();
  Expected<void> ran = runPasses(*copy, nullptr, [](PassManager &passes) { addAttnCanonical(passes); });
  if (!ran)
    return ran.error();
  auto op = *copy->getOps<attn::AttentionOp>().begin();
  PlanRequest request = planRequest(op, target.arch, hintsOf(sizes));
  if (sizes.headsKv)
    request.headsKv = sizes.headsKv;
  request.sramBudget = int64_t(options.sramBudget);
  if (auto given = op->getAttrOfType<attn::PlanAttr>(attn::planAttr))
    request.fixed = choiceOf(attune::planOf(given));
  request.fixed.overrule(options);
  return request;
}

/// The predicted cost of `plan`; nullopt if the model does not have this plan.
std::optional<RankedPlan> costOf(PlanRequest request, const Plan &plan) {
  request.fixed = choiceOf(plan);
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

void setGradients(attn::AttentionOp op, const Gradients &gradients) {
  const Builder builder(op.getContext());
  const auto names = llvm::map_to_vector(
      gradients.tensors, [&](const std::string &name) { return StringAttr::get(op.getContext(), name); });
  op.setGradientsAttr(attn::GradientsAttr::get(op.getContext(), names, gradients.lse, gradients.deterministic));
}

/// Decides which values a forward pass saves, by the passes for its backward pass, and stores the decision in the op.
Expected<void> decideSaves(ModuleOp module, const CompileOptions &options, const Target &target) {
  auto op = *module.getOps<attn::AttentionOp>().begin();
  setGradients(op, *options.gradients);
  Expected<void> ran = runPasses(
      module, nullptr, [&](PassManager &passes) { addGradientPasses(passes, pipelineOptions(options, target)); });
  if (!ran)
    return ran;
  op.removeGradientsAttr();
  for (auto [gradient, of] : op.gradientRegions()) {
    gradient->dropAllReferences();
    gradient->getBlocks().clear();
  }
  return {};
}

/// Returns `work(module)` for the module of `source`, at stage attn, tile or sched. With a `target`, a forward pass
/// also has the values that it saves. Dtype and head dims come from the text, or else from the options.
template <typename Work>
std::invoke_result_t<Work, ModuleOp> onModule(MLIRContext *context, const Source &source, const CompileOptions &options,
                                              const Target *target, Work &&work) {
  auto planned = [&](ModuleOp module) {
    if (source.plans)
      setBackwardPlans(*module.getOps<attn::AttentionOp>().begin(), *source.plans);
    return work(module);
  };
  if (source.text)
    return onParsed(context, *source.text, planned);
  if (options.headDim == 0)
    return Error{fmt::format("head dim is not set, required is a multiple of 8 up to {}; set CompileOptions::headDim",
                             maxHeadDim)};
  Expected<OwningOpRef<ModuleOp>> built = buildAttention(*context, *source.variant, options.dtype, options.headDim,
                                                         options.headDimV ? options.headDimV : options.headDim);
  if (!built)
    return built.error();
  if (options.backward)
    setGradients(*(*built)->getOps<attn::AttentionOp>().begin(), *options.gradients);
  else if (target && options.gradients && options.gradients->saving.any())
    if (Expected<void> decided = decideSaves(**built, options, *target); !decided)
      return decided.error();
  return planned(**built);
}

/// Errors that depend on where the text starts.
Expected<void> checkStart(const IrSummary &start, const CompileOptions &options, const Target &target, Stage stage) {
  if (start.stage > stage)
    return Error{fmt::format("the text is at stage {}, which comes after {}; emit {} or a later stage",
                             name(start.stage), name(stage), name(start.stage))};
  if (start.stage != Stage::Attn && (choiceOf(options).any() || options.sramBudget))
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

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// The arguments of lower(), and a stopwatch started at the call.
struct Request {
  const Source &source;
  CompileOptions options;
  const Target &target;
  Stage stage;
  bool withCost;
  Stopwatch irTime = {};
};

/// Sets the fields of `result` that are known at stage tile.
void describeTile(ModuleOp module, const Request &request, Lowered &result) {
  const LaunchedKernels kernels = *tile::launchedKernels(module);
  auto kernel = mainKernel<tile::KernelOp>(kernels);
  const KernelSignature signature = tile::signatureOf(ArrayRef(kernels));
  result.plan = sizesAndMarksOf(kernel);
  result.planned = kernel.getSymName().str();
  result.entries = entriesOf(kernels);
  result.summary.signature.operands = signature.operands;
  result.summary.signature.derived = signature.derived;
  if (request.stage > Stage::Tile && request.target.isCuda())
    result.schedule = describeTiles(kernel);
}

/// Sets the fields of `result` that are known at stage sched: the whole schedule.
void describeSched(ModuleOp module, Lowered &result) {
  const LaunchedKernels kernels = *tile::launchedKernels(module);
  auto kernel = mainKernel<sched::KernelOp>(kernels);
  result.plan = planOf(kernel);
  result.entries = entriesOf(kernels);
  result.threads = int(kernel.getThreads());
  result.path = kernel.getBody().getOps<sched::RoleOp>().empty() ? "mma.sync" : "wgmma";
  result.summary.signature.tensorMaps = sched::LaunchMaps(scheduledKernels(kernels)).params();
  for (ScheduleLine &line : describeSchedule(kernel))
    result.schedule.push_back(std::move(line));
  for (const tile::LaunchedKernel &launched : kernels)
    if (auto remarks = launched.op->getAttrOfType<ArrayAttr>(tile::remarksAttr))
      for (StringRef text : remarks.getAsValueRange<StringAttr>())
        result.remarks.push_back(
            kernels.size() > 1 ? (SymbolTable::getSymbolName(launched.op).getValue() + ": " + text).str() : text.str());
  result.sharedBytes = size_t(kernel.getSharedBytes());
  kernel.walk([&](sched::SharedOp buffer) {
    result.buffers.push_back(
        {buffer.getName().str(), buffer.getResult().getType().bytes(), int64_t(buffer.getOffset())});
  });
  kernel.walk([&](sched::RingOp ring) {
    result.buffers.push_back({ring.getName().str(), ring.getResult().getType().bytes(), int64_t(ring.getOffset())});
  });
}

/// Sets the request and the plans of a backward pass, whose plans are chosen.
Expected<void> describeBackward(attn::AttentionOp op, const Request &request, Lowered &result) {
  result.backward = {backwardRequest(op, request.target.arch, {}), *backwardPlansOf(op)};
  if (request.source.plans && *request.source.plans != result.backward->second)
    return Error{
        fmt::format("the plans {} are not among those of the backward pass; tune again", request.source.plans->text())};
  return {};
}

/// Runs the passes from the stage of `module` up to the requested stage, at most Sched.
Expected<void> runStages(ModuleOp module, const Request &request, Lowered &result) {
  const auto &[source, options, target, stage, withCost, irTime] = request;
  const PipelineOptions pipeline = pipelineOptions(options, target);
  Stage at = result.summary.stage;
  if (at == Stage::Tile)
    if (Expected<void> planned = runPasses(
            module, source.text, [&](PassManager &passes) { addPlans(passes, pipeline); }, options.printAfterAll);
        !planned)
      return planned;
  if (Expected<void> good = verifyStage(module, source.text, at, pipeline); !good)
    return good;
  // The pipeline for stages after attn starts with differentiation itself.
  if (stage == Stage::Attn && result.summary.backward)
    if (Expected<void> ran = runPasses(
            module, source.text, [&](PassManager &passes) { addGradientPasses(passes, pipeline); },
            options.printAfterAll);
        !ran)
      return ran;
  if (at == Stage::Attn && withCost && !result.summary.backward) {
    Expected<PlanRequest> plans = requestFor(module, options, target, {});
    if (!plans)
      return plans.error();
    result.request = *plans;
  }
  if (at == Stage::Attn && stage > Stage::Attn) {
    Expected<void> ran = runPasses(
        module, source.text, [&](PassManager &passes) { addAttnPlan(passes, pipeline); }, options.printAfterAll);
    if (ran && result.summary.backward)
      ran = describeBackward(*module.getOps<attn::AttentionOp>().begin(), request, result);
    if (ran)
      ran = runPasses(
          module, source.text, [&](PassManager &passes) { addAttnToTile(passes, pipeline); }, options.printAfterAll);
    if (!ran)
      return ran;
    at = Stage::Tile;
  }
  if (at == Stage::Tile)
    describeTile(module, request, result);
  if (at == Stage::Tile && stage > Stage::Tile && target.isCuda()) {
    Expected<void> ran = runPasses(
        module, source.text, [&](PassManager &passes) { addTileToSched(passes, pipeline); }, options.printAfterAll);
    if (!ran)
      return ran;
    at = Stage::Sched;
  }
  if (at == Stage::Tile && stage > Stage::Tile && !target.isCuda())
    if (Expected<void> ran = runPasses(module, source.text, addTileToCpu, options.printAfterAll); !ran)
      return ran;
  if (at == Stage::Sched)
    describeSched(module, result);
  return {};
}

/// Emits the text of the requested stage, CUDA C++, or a host object.
Expected<void> emitCode(ModuleOp module, const Request &request, Lowered &result) {
  const auto &[source, options, target, stage, withCost, irTime] = request;
  MLIRContext *context = module.getContext();
  if (stage <= Stage::Sched) {
    if (source.variant)
      module->setAttr(attn::variantAttr, attn::VariantAttr::get(context, source.variant->toJson()));
    result.text = print(module);
    return {};
  }
  if (stage == Stage::Llvm) {
    Diagnostics diagnostics(context, source.text);
    Expected<std::string> llvm = printHostLlvm(module);
    if (!llvm)
      return llvm.error();
    result.text = std::move(*llvm);
    return {};
  }
  if (target.isCuda()) {
    Stopwatch printTime;
    Expected<std::string> cuda = codegen::printCuda(scheduledKernels(*tile::launchedKernels(module)));
    if (!cuda)
      return cuda.error();
    result.source = std::move(*cuda);
    result.printMilliseconds = printTime.milliseconds();
    return {};
  }
  Stopwatch objectTime;
  Diagnostics diagnostics(context, source.text);
  Expected<HostObject> object = compileHost(module);
  if (!object)
    return object.error();
  result.object = std::move(object->bytes);
  for (auto [entry, function] : llvm::zip(result.entries, object->functions))
    entry.sharedBytes = function.scratchBytes;
  result.buffers = {{"scratch per thread", int64_t(result.entries.back().sharedBytes), -1}};
  result.objectMilliseconds = objectTime.milliseconds();
  return {};
}

Expected<Lowered> lowerModule(ModuleOp module, const Request &request) {
  Expected<IrSummary> summary = summarizeModule(module);
  if (!summary)
    return summary.error();
  if (Expected<void> good = checkStart(*summary, request.options, request.target, request.stage); !good)
    return good.error();
  if (request.source.variant)
    addIndices(*request.source.variant, summary->signature);
  else
    addVariant(module, *summary);
  Lowered result;
  result.summary = *summary;
  if (Expected<void> ran = runStages(module, request, result); !ran)
    return ran.error();
  result.irMilliseconds = request.irTime.milliseconds();
  if (Expected<void> emitted = emitCode(module, request, result); !emitted)
    return emitted.error();
  if (result.request && request.stage > Stage::Sched && request.stage != Stage::Llvm)
    result.predicted = costOf(*result.request, result.plan);
  return result;
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
  // Generated lines are long, so only the part around the fault is shown.
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
  return onParsed(context.get(), text, [](ModuleOp module) {
    Expected<IrSummary> summary = summarizeModule(module);
    if (summary)
      addVariant(module, *summary);
    return summary;
  });
}

Expected<Lowered> attune::driver::lower(const Source &source, const CompileOptions &options, const Target &target,
                                        Stage stage, bool withCost) {
  Request request{source, options, target, stage, withCost};
  ContextLease context;
  return onModule(context.get(), source, options, &target, [&](ModuleOp module) {
    Expected<Lowered> lowered = lowerModule(module, request);
    // If the lowering fails, onParsed repeats it to find the error's position, without printing again.
    request.options.printAfterAll = false;
    return lowered;
  });
}

Expected<PlanRequest> attune::driver::requestOf(const Source &source, const CompileOptions &options,
                                                const Target &target, const ProblemSizes &sizes, IrSummary &summary) {
  ContextLease context;
  return onModule(context.get(), source, options, &target, [&](ModuleOp module) -> Expected<PlanRequest> {
    Expected<IrSummary> found = summarizeModule(module);
    if (!found)
      return found.error();
    if (found->stage != Stage::Attn)
      return Error{fmt::format("the text is at stage {} and holds its schedule, so there is nothing to rank; explain "
                               "its attn text",
                               name(found->stage))};
    summary = *found;
    return requestFor(module, options, target, sizes);
  });
}

Expected<std::vector<RankedPlan>> attune::driver::rank(const Source &source, const CompileOptions &options,
                                                       const Target &target, const ProblemSizes &sizes,
                                                       Lowered &described, std::shared_ptr<const TileMap> tiles) {
  Expected<PlanRequest> request = requestOf(source, options, target, sizes, described.summary);
  if (!request)
    return request.error();
  request->tiles = std::move(tiles);
  described.request = *request;
  return rankPlans(*request);
}

Expected<std::vector<PredictedPlan>> attune::driver::tuningSpace(const Source &source, const CompileOptions &options,
                                                                 const Target &target, const ProblemSizes &sizes) {
  using Space = std::vector<PredictedPlan>;
  if (!options.backward) {
    IrSummary summary;
    Expected<PlanRequest> request = requestOf(source, options, target, sizes, summary);
    if (!request)
      return request.error();
    request->theseSizes = true;
    Expected<std::vector<RankedPlan>> ranked = planSpace(*request);
    if (!ranked)
      return ranked.error();
    Space space;
    for (const RankedPlan &plan : *ranked)
      space.push_back({plan.plan, plan.cost.totalSeconds});
    return space;
  }
  ContextLease context;
  return onModule(context.get(), source, options, &target, [&](ModuleOp module) -> Expected<Space> {
    const PipelineOptions pipeline = pipelineOptions(options, target);
    Expected<void> ran = runPasses(module, nullptr, [&](PassManager &passes) { addGradientPasses(passes, pipeline); });
    if (!ran)
      return ran.error();
    auto op = *module.getOps<attn::AttentionOp>().begin();
    // Plans do not depend on sizes, only their times do.
    Expected<std::vector<BackwardPlans>> plans = backwardPlans(planRequest(op, target.arch));
    if (!plans)
      return plans.error();
    BackwardRequest request = backwardRequest(op, target.arch, hintsOf(sizes));
    request.plan.headsKv = sizes.headsKv;
    return rankBackward(request, *plans);
  });
}

Expected<size_t> attune::driver::opsOfElement(const Source &source, const CompileOptions &options,
                                              const Target &target) {
  ContextLease context;
  return onModule(context.get(), source, options, &target, [&](ModuleOp module) -> Expected<size_t> {
    Expected<IrSummary> found = summarizeModule(module);
    if (!found)
      return found.error();
    if (found->stage != Stage::Attn)
      return 0;
    if (Expected<void> ran = runPasses(module, source.text, addAttnCanonical); !ran)
      return ran.error();
    auto op = *module.getOps<attn::AttentionOp>().begin();
    size_t ops = 0;
    for (Region *region : {&op.getScore(), &op.getMask()})
      region->walk([&](Operation *) { ++ops; });
    return ops;
  });
}

Expected<BackwardExplained> attune::driver::explainGradients(const Source &source, const CompileOptions &options,
                                                             const Target &target, const ProblemSizes &sizes,
                                                             std::shared_ptr<const TileMap> tiles) {
  ContextLease context;
  CompileOptions ofBackward = options;
  ofBackward.backward = true;
  return onModule(context.get(), source, ofBackward, &target, [&](ModuleOp module) -> Expected<BackwardExplained> {
    Expected<IrSummary> found = summarizeModule(module);
    if (!found)
      return found.error();
    if (Expected<void> ran = runPasses(module, source.text, addDifferentiate); !ran)
      return ran.error();
    auto op = *module.getOps<attn::AttentionOp>().begin();
    SavingRequest asked{.arch = target.arch, .sizes = hintsOf(sizes)};
    if (options.gradients) {
      const Saving &saving = options.gradients->saving;
      asked.memoryBudget = int64_t(saving.memoryBudget);
      for (const std::string &name : saving.save)
        asked.chosen.push_back({name, true});
      for (const std::string &name : saving.recompute)
        asked.chosen.push_back({name, false});
    }
    Expected<std::vector<SavingDecision>> values = weighSaving(op, asked);
    if (!values)
      return values.error();
    BackwardExplained result;
    result.summary = *found;
    result.request = backwardRequest(op, target.arch, asked.sizes);
    PlanRequest &plan = result.request.plan;
    if (sizes.headsKv)
      plan.headsKv = sizes.headsKv;
    plan.tiles = std::move(tiles);
    plan.sramBudget = int64_t(options.sramBudget);
    plan.fixed = choiceOf(options);
    result.values = std::move(*values);
    SavedValues saved;
    for (const SavingDecision &value : result.values) {
      saved.dropout |= value.isSaved && value.value == name(Savable::Dropout);
      saved.score |= value.isSaved && value.value == name(Savable::Score);
    }
    Expected<BackwardPlans> chosen = chooseBackwardPlans(plan);
    if (!chosen)
      return chosen.error();
    result.plans = *chosen;
    result.cost = backwardCost(result.request, *chosen, saved);
    PlanRequest ofForward = plan;
    ofForward.fixed = {};
    Expected<RankedPlan> forward = choosePlan(ofForward);
    if (!forward)
      return forward.error();
    result.forward = *forward;
    result.forwardSaving = savingSeconds(result.request, forward->cost.totalSeconds, forward->cost.hbmBytes, saved);
    return result;
  });
}

Expected<TileMapText> attune::driver::tileMapText(const Source &source, int tileQ, int tileK) {
  ContextLease context;
  CompileOptions options;
  options.headDim = 16; // required, but without effect on the map
  return onModule(context.get(), source, options, nullptr, [&](ModuleOp module) -> Expected<TileMapText> {
    Expected<IrSummary> found = summarizeModule(module);
    if (!found)
      return found.error();
    if (found->stage != Stage::Attn)
      return Error{fmt::format("the text is at stage {} and has no mask of its own any more; use its attn text",
                               name(found->stage))};
    Expected<void> ran = runPasses(module, source.text, [](PassManager &passes) {
      addAttnVerifier(passes);
      addAttnCanonical(passes);
    });
    if (!ran)
      return ran.error();
    TileMapText result;
    auto op = *module.getOps<attn::AttentionOp>().begin();
    if (op.getSequences())
      return Error{fmt::format("'{}' has packed sequences, each with tiles of its own; ask for the tiles of one "
                               "sequence's lengths, by the same variant without sequences",
                               op.getSymName().str())};
    result.byBatch = op.getKeyLengths() || op.getQueryLengths();
    if (!op.getMask().empty()) {
      result.byBatch |= !op.getMask().getArgument(0).use_empty();
      result.byHead = !op.getMask().getArgument(1).use_empty();
      op.getMask().walk([&](attn::ExtentOp extent) {
        result.byBatch |= extent.getName() == "B";
        result.byHead |= extent.getName() == "H";
      });
    }
    if (attn::BlockPatternAttr pattern = op.getPatternAttr())
      result.byHead |= op.findTensor(pattern.getName()).getRank() == 3;
    ran = runPasses(module, source.text, [&](PassManager &passes) { addAttnToTileMap(passes, tileQ, tileK); });
    if (!ran)
      return ran.error();
    module->removeAttr(attn::variantAttr);
    module.walk([&](tile::DomainOp domain) { result.skips |= domain.skips(); });
    const KernelSignature signature = tile::signatureOf(ArrayRef(*tile::launchedKernels(module)));
    result.evaluatesAll = llvm::any_of(signature.operands, [](const OperandParam &operand) {
      auto has = [&](std::string_view axis) {
        return llvm::any_of(operand.axes, [&](const AxisParam &each) { return each.name == axis; });
      };
      return operand.role == OperandRole::Workspace && has("q") && has("k");
    });
    result.tensors = signature.tensors;
    result.scalars = signature.scalars;
    result.text = {print(module), "the tile map"};
    return result;
  });
}

std::string attune::driver::textOf(const ProgramPlan &plan) {
  std::string text;
  for (const auto &[kernel, each] : plan)
    text += (text.empty() ? "" : "; ") + (plan.size() > 1 ? kernel + ": " : "") + each.text();
  return text;
}

/// The ranked plans of the kernels of a program whose plans are open; an error if there is none.
static Expected<KernelPlans> rankedPlans(ModuleOp module, const ArchInfo &arch, const Extents &extents) {
  KernelPlans ranked;
  for (auto kernel : module.getOps<tile::KernelOp>())
    if (kernel.getPlan().isOpen())
      ranked[kernel.getSymName().str()] = rankPlans(kernel, arch, 0, extents);
  if (ranked.empty())
    return Error{"the text gives the plans of all its kernels; leave a kernel's `plan` out, and `sched.roles` and the "
                 "stages of rings where they are open",
                 position(module.getLoc())};
  return ranked;
}

Expected<KernelPlans> attune::driver::kernelPlans(const IrText &text, const Target &target, const Extents &extents) {
  ContextLease context;
  return onParsed(context.get(), text,
                  [&](ModuleOp module) { return rankedPlans(module, *findArch(target.arch), extents); });
}

Expected<std::vector<PlannedProgram>> attune::driver::plannedPrograms(const IrText &text, const Target &target,
                                                                      const Extents &extents) {
  ContextLease context;
  return onParsed(context.get(), text, [&](ModuleOp module) -> Expected<std::vector<PlannedProgram>> {
    const ArchInfo &arch = *findArch(target.arch);
    Expected<KernelPlans> ranked = rankedPlans(module, arch, extents);
    if (!ranked)
      return ranked.error();
    size_t most = 0;
    for (const auto &[kernel, plans] : *ranked)
      most = std::max(most, plans.size());
    std::vector<PlannedProgram> programs;
    for (size_t n = 0; n < most; ++n) {
      OwningOpRef<ModuleOp> copy = module.clone();
      PlannedProgram &program = programs.emplace_back();
      double seconds = 0;
      for (const auto &[kernel, plans] : *ranked) {
        const KernelPlan &plan = program.plan[kernel] = plans[n < plans.size() ? n : 0];
        setPlan(cast<tile::KernelOp>(SymbolTable::lookupSymbolIn(*copy, kernel)), plan, arch);
        seconds += plan.cost.seconds;
        if (plan.cost.seconds >= program.cost.seconds)
          program.cost = plan.cost;
      }
      program.cost.seconds = seconds;
      program.text = print(*copy);
    }
    return programs;
  });
}

Expected<Simulated> attune::driver::simulated(const IrText &text) {
  ContextLease context;
  Diagnostics diagnostics(context.get(), &text);
  OwningOpRef<ModuleOp> module = parse(context.get(), text, Locations::OfText, /*verify=*/false);
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
  return Simulated{std::move(*summary), entriesOf(kernels), int(kernel.getPlan().getSize("q")),
                   int(kernel.getPlan().getSize("k")), std::move(*simulator)};
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
