//===- Frame.cpp - The whole source: header comment, struct Params, device functions, the kernel ===//

#include "codegen/cuda/KernelPrinter.h"

#include "codegen/cuda/CommentText.h"
#include "codegen/cuda/Primitives.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

/// A table as rows of cells.
using Rows = SmallVector<SmallVector<std::string>>;

/// Prints a table as comment lines; each column is as wide as its longest cell.
static std::string textTable(Rows rows) {
  SmallVector<size_t> width(rows.front().size());
  for (auto &row : rows)
    for (auto [i, cell] : llvm::enumerate(row)) {
      cell = codegen::commentText(cell);
      width[i] = std::max(width[i], cell.size());
    }
  std::string text;
  for (const auto &row : rows) {
    std::string line = "//  ";
    for (auto [i, cell] : llvm::enumerate(row))
      line += " " + cell + std::string(width[i] - cell.size() + 1, ' ');
    text += StringRef(line).rtrim().str() + "\n";
  }
  return text;
}

/// The axes of fixed extent, such as ", d 128, dv 64".
static std::string fixedExtents(const KernelSignature &signature) {
  std::string text;
  std::set<std::string> seen;
  for (const OperandParam &operand : signature.operands)
    for (const AxisParam &axis : operand.axes)
      if (axis.size && seen.insert(axis.name).second)
        text += ", " + axis.name + " " + std::to_string(axis.size);
  return text;
}

static const char *orderOf(sched::LongTiles longest) {
  return longest == sched::LongTiles::Last    ? ", last query tile first"
         : longest == sched::LongTiles::First ? ", first tiles of many heads first"
                                              : "";
}

/// Adds the rows of the header comment that describe the variant, the plan and the thread block.
static void describePlan(KernelOp kernel, const KernelSignature &signature, Rows &rows) {
  tile::PlanAttr plan = kernel.getPlan();
  std::string traits;
  for (auto [has, name] : {std::pair(kernel.getDropout(), "dropout"), std::pair(kernel.getPrecise(), "precise"),
                           std::pair(kernel.getQOffset(), "q_offset")})
    if (has)
      traits += std::string(", ") + name;
  rows.push_back(
      {"variant", kernel.getSymName().str() + ", " + text(kernel.getDtype()) + fixedExtents(signature) + traits});
  rows.push_back({"plan", (plan.getAxes().empty() ? "" : "tiles " + plan.sizesText() + ", ") +
                              std::to_string(plan.getWarps()) + " warps" +
                              (plan.getDvWarps() > 1 ? " (" + std::to_string(plan.getDvWarps()) + " split dv)" : "") +
                              orderOf(sched::longTilesOf(kernel))});
  rows.push_back({"block", std::to_string(kernel.getThreads()) + " threads, at least " +
                               std::to_string(kernel.getBlocksPerSm()) + " blocks on a multiprocessor, " +
                               std::to_string(kernel.getSharedBytes()) + " bytes of shared memory"});
}

/// Adds the rows of the header comment that list operands, block pattern, run-time scalars and captured tensors.
static void describeParameters(KernelOp kernel, Rows &rows) {
  for (auto operand : kernel.getOperands().getAsRange<OperandAttr>())
    rows.push_back({"operand", operand.getName().str() + ", " + (operand.getOptional() ? "optional " : "") +
                                   name(operand.getRole()) + " " + axesText(operand) + " " +
                                   text(operand.getElementType())});
  if (auto pattern = kernel.getPattern())
    rows.push_back({"pattern", pattern->getName().str() + ", blocks of " + std::to_string(pattern->getRows()) + " x " +
                                   std::to_string(pattern->getColumns())});
  for (auto scalar : kernel.getScalars().getAsRange<RuntimeScalarAttr>())
    rows.push_back({"scalar", scalar.getName().str() + ", " + text(scalar.getType())});
  for (auto tensor : kernel.getTensors().getAsRange<CapturedTensorAttr>())
    rows.push_back({"tensor", tensor.getName().str() + ", " + text(tensor.getElementType()) + ", rank " +
                                  std::to_string(tensor.getRank())});
}

/// Prints the tables of shared-memory and register buffers in the header comment.
void KernelPrinter::printBuffers(std::string &out) {
  Rows shared = {{"shared", "offset", "bytes", "tile", "panels"}};
  Rows registers = {{"registers", "a lane's array", "tile", "fragment"}};
  kernel.walk([&](Operation *op) {
    if (auto o = dyn_cast<SharedOp>(op)) {
      TileType type = o.getResult().getType();
      auto swizzle = dyn_cast_or_null<SwizzleAttr>(type.getLayout());
      shared.push_back({buffers.lookup(o.getResult()), std::to_string(o.getOffset()), std::to_string(type.bytes()),
                        describe(type), swizzle ? std::to_string(swizzle.getPanel()) + " bytes" : "-"});
    } else if (auto o = dyn_cast<RegistersOp>(op)) {
      TileType type = o.getResult().getType();
      registers.push_back({buffers.lookup(o.getResult()), arrayElement(type).str() + arrayShape(type), describe(type),
                           stringifyFragmentRole(cast<FragmentAttr>(type.getLayout()).getRole()).str()});
    }
  });
  if (shared.size() > 1)
    out += "//\n" + textTable(shared);
  if (registers.size() > 1)
    out += "//\n" + textTable(registers);
}

void KernelPrinter::printHeader(std::string &out) {
  out += "// " + codegen::kernelSymbol(kernel) + " for " + codegen::commentText(kernel.getArch()) +
         ", generated by attune\n//\n";
  if (!options.banner.empty()) {
    for (StringRef rest = options.banner; !rest.empty();) {
      auto [head, tail] = rest.split('\n');
      out += "// " + codegen::commentText(head.rtrim()) + "\n";
      rest = tail;
    }
    out += "//\n";
  }
  Rows facts;
  describePlan(kernel, signature, facts);
  describeParameters(kernel, facts);
  out += textTable(facts);
  printBuffers(out);
  out += "\n";
}

void KernelPrinter::printParams(std::string &out) {
  auto uses = [&](StringRef alias) {
    return llvm::any_of(declared.operands, [&](OperandAttr o) { return elementName(o.getElementType()) == alias; }) ||
           llvm::any_of(declared.tensors,
                        [&](CapturedTensorAttr t) { return elementName(t.getElementType()) == alias; });
  };
  for (StringRef alias : {"bf16", "f16"})
    if (uses(alias))
      out += ("typedef unsigned short " + alias + "; // bits in memory\n\n").str();
  const size_t mapCount = maps.names.size();
  if (mapCount)
    out += codegen::primitives({"TensorMap"});
  const size_t plain = signature.packedBytes(), bytes = mapCount ? llvm::alignTo(plain, 64) + 128 * mapCount : plain;
  out += "// Strides count elements; where the last axis has a fixed extent its stride is 1.\n"
         "struct Params {\n"
         "  long long seed, offset;\n"
         "  const long long *seed_pointer, *offset_pointer;\n"
         "  void *workspace;\n"
         "  int group, q_offset, drop_threshold;\n"
         "  float keep_scale;\n"
         "  int mapped;  // bit n: TMA can read by the n-th tensor map\n" +
         params + maps.text +
         "};\n"
         "static_assert(sizeof(Params) == " +
         std::to_string(bytes) + ", \"the launch parameters differ\");\n\n";
}

Expected<void> KernelPrinter::run() {
  declareParams();
  names.take(codegen::kernelSymbol(kernel));
  printBlock(kernel.getBody().front());
  if (error)
    return *error;
  return {};
}

std::string KernelPrinter::function() {
  std::string out = ("extern \"C\" __global__ void __launch_bounds__(" + Twine(kernel.getThreads()) + ", " +
                     Twine(kernel.getBlocksPerSm()) + ")\n" + codegen::kernelSymbol(kernel) +
                     "(const __grid_constant__ Params params) {\n")
                        .str();
  if (used.count("shared_address"))
    out += "  extern __shared__ __align__(1024) unsigned char shared_memory[];\n"
           "  const unsigned shared_base = shared_address(shared_memory);\n";
  return out + source.text() + "}\n";
}

} // namespace attune::codegen::cuda
