//===- DeviceFunctions.cpp - Print loops as device functions ----------------===//

#include "codegen/cuda/DeviceFunctions.h"

#include "codegen/cuda/CommentText.h"
#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

static const FunctionWords vocabulary[] = {
    {"fill", "Sets every element.", "tile", "", "", "value"},
    {"copy_fragment", "Copies this lane's elements of a register tile.", "to", "from", "from", ""},
    {"scale_rows", "Multiplies each row by its factor.", "tile", "", "factors", ""},
    {"row_max", "The maximum of each row; the four lanes of a quad share a row and exchange their maxima.", "maxima",
     "tile", "initial", ""},
    {"row_min", "The minimum of each row; the four lanes of a quad share a row and exchange their minima.", "minima",
     "tile", "initial", ""},
    {"row_sum", "The sum of each row, or of a lane's part of the row.", "sums", "tile", "initial", ""},
    {"column_max", "The maximum of each column.", "maxima", "tile", "", ""},
    {"column_min", "The minimum of each column.", "minima", "tile", "", ""},
    {"column_sum", "The sum of each column.", "sums", "tile", "", ""},
    {"combine_lanes", "Completes row sums that are split over the four lanes of a quad.", "sums", "", "parts", ""},
    {"pack", "Rounds an accumulator to 16 bits, as the left operand of a product.", "packed", "tile", "", ""},
    {"apply_mask", "Sets masked elements to -infinity, or to what the mask's other side is.", "", "", "", ""},
    {"multiply", "Adds a product of fragments to the accumulator by warp-level matrix instructions.", "", "", "", ""},
    {"copy_tile", "Starts the asynchronous copies of this thread's 16-byte chunks of a tile.", "", "", "", ""},
    {"load_tile", "Loads this lane's elements of a tile from global memory.", "", "", "", ""},
    {"store_tile", "Stores this lane's elements of a tile.", "", "", "", ""},
    {"accumulate_tile", "Adds this lane's elements of a tile to memory, atomically.", "", "", "", ""},
    {"scatter_tile", "Writes or adds each element of a tile to its own place in memory.", "", "", "", ""},
    {"drop_elements", "Drops elements at random (dropout).", "", "", "", ""},
    {"load_blocks", "Loads saved 16 x 16 blocks.", "", "", "", ""},
    {"store_blocks", "Saves 16 x 16 blocks.", "", "", "", ""},
};

const FunctionWords *functionWords(StringRef name) {
  auto *found = llvm::find_if(vocabulary, [&](const FunctionWords &words) { return words.name == name; });
  return found == std::end(vocabulary) ? nullptr : found;
}

bool isFunctionName(StringRef name) {
  return functionWords(name) || functionWords(withoutNumber(name)) || name.starts_with("compute_");
}

/// The lines of `body` without comments. The comments name lines of the user's source; functions that differ in these
/// comments only are one function.
static std::string withoutComments(StringRef body) {
  std::string code;
  for (StringRef line : llvm::split(body, '\n'))
    if (StringRef words = line.substr(0, line.find("//")).rtrim(); !words.empty())
      code += words.str() + "\n";
  return code;
}

std::string DeviceFunctions::define(StringRef wish, StringRef comment, const std::string &parameters,
                                    const std::string &body) {
  auto [known, isNew] = names.try_emplace((wish + "(" + parameters + ")" + withoutComments(body)).str());
  if (!isNew)
    return known->second;
  std::string name;
  do // the second `compute_x` gets the name compute_x2, which may also be the `wish` of another function
    name = numbered(wish, ++numbers[wish.str()]);
  while (!taken.insert(name).second);
  if (!comment.empty())
    definitions += "/// " + codegen::commentText(comment) + "\n";
  definitions += wrap("__device__ __forceinline__ void " + name + "(" + parameters + ") {", 0) + "\n" + body + "}\n\n";
  return known->second = name;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// Whether ops of `loop` write the register buffer.
static bool isWrittenIn(Value buffer, scf::ForOp loop) {
  return llvm::any_of(buffer.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (!loop->isAncestor(user) || isa<GetOp>(user))
      return false;
    if (auto mma = dyn_cast<MmaOp>(user))
      return mma.getAcc() == buffer;
    return true;
  });
}

/// Whether `text` names a member of struct Params, such as "params.scale".
static bool isMember(StringRef text) { return text.consume_front(paramsPrefix) && isIdentifier(text); }

/// The loop that contains all users of the register buffer, if that loop is marked `sched.function`; else null. The
/// loop's device function declares the buffer.
scf::ForOp KernelPrinter::functionWithBuffer(RegistersOp buffer) {
  scf::ForOp only;
  for (Operation *user : buffer->getUsers()) {
    Operation *ancestor = buffer->getBlock()->findAncestorOpInBlock(*user);
    auto loop = dyn_cast_or_null<scf::ForOp>(ancestor);
    if (!loop || !loop->hasAttr(functionAttr) || (only && only != loop))
      return {};
    only = loop;
  }
  return only;
}

bool KernelPrinter::collectParameters(scf::ForOp loop, SmallVector<FunctionParameter> &parameters) {
  llvm::SetVector<Value> captured;
  for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
    captured.insert(bound);
  getUsedValuesDefinedAbove(loop.getRegion(), captured);
  for (Value value : captured) {
    FunctionParameter parameter{value};
    if (auto type = dyn_cast<TileType>(value.getType())) {
      auto known = buffers.find(value);
      auto registers = value.getDefiningOp<RegistersOp>();
      if (registers && functionWithBuffer(registers) == loop) {
        parameter.kind = FunctionParameter::Local;
      } else if (known == buffers.end()) {
        return false;
      } else {
        parameter.argument = known->second;
        parameter.kind = type.getSpace() == tile::MemorySpace::Shared ? FunctionParameter::Shared
                         : isWrittenIn(value, loop)                   ? FunctionParameter::Written
                                                                      : FunctionParameter::Read;
      }
    } else if (isa<ViewType>(value.getType())) {
      auto known = views.find(value);
      if (known == views.end())
        return false;
      const View &view = known->second;
      auto isFixed = [](StringRef text) {
        return text.empty() || text.starts_with(paramsPrefix) || llvm::all_of(text, llvm::isDigit);
      };
      if (!llvm::all_of(view.strides, isFixed) || !llvm::all_of(view.extents, isFixed))
        return false;
      if (isMember(view.pointer))
        continue;
      if (!isIdentifier(view.pointer))
        return false;
      parameter.argument = view.pointer;
      parameter.kind = FunctionParameter::Pointer;
    } else if (valueName(value.getType()).empty()) {
      return false; // rings and tensor maps cannot be parameters
    } else {
      const Expr expr = this->value(value);
      const bool isStored = llvm::any_of(value.getUses(), [&](OpOperand &use) {
        auto set = dyn_cast<SetOp>(use.getOwner());
        return set && loop->isAncestor(set) && set.getValue() == value;
      });
      if (auto constant = value.getDefiningOp<arith::ConstantOp>(); constant && !isStored)
        continue;
      if (isMember(expr.text))
        continue;
      parameter.argument = expr.text;
      parameter.kind = FunctionParameter::Scalar;
    }
    parameters.push_back(parameter);
  }
  // Parameters are ordered by kind: register tiles that the function writes, register tiles that the function only
  // reads, shared tiles, pointers, scalars.
  SmallVector<FunctionParameter> ordered;
  using Kind = FunctionParameter::Kind;
  for (Kind kind : {Kind::Written, Kind::Read, Kind::Shared, Kind::Pointer, Kind::Scalar, Kind::Local})
    llvm::copy_if(parameters, std::back_inserter(ordered), [&](const FunctionParameter &p) { return p.kind == kind; });
  parameters = std::move(ordered);
  return true;
}

std::string KernelPrinter::declareParameter(FunctionParameter &parameter, StringRef wish) {
  Value value = parameter.value;
  std::string base = parameter.argument;
  if (!isIdentifier(base))
    base = "value";
  const std::string name = names.take(wish.empty() ? withoutNumber(base) : wish);
  auto type = dyn_cast<TileType>(value.getType());
  switch (parameter.kind) {
  case FunctionParameter::Written:
  case FunctionParameter::Read:
    buffers[value] = name;
    return (parameter.kind == FunctionParameter::Read ? "const " : "") + arrayElement(type).str() + " (&" + name + ")" +
           arrayShape(type);
  case FunctionParameter::Shared:
    buffers[value] = name;
    return "unsigned " + name;
  case FunctionParameter::Pointer: {
    View &view = views[value];
    view.pointer = name;
    return (view.isWritten ? "" : "const ") + elementName(cast<ViewType>(value.getType()).getElementType()).str() +
           " *" + name;
  }
  default: {
    Expr &expr = values[value];
    parameter.outer = expr;
    expr = {name, Primary, expr.isUnsigned, expr.isNatural};
    return (expr.isUnsigned ? value.getType().isInteger(64) ? "unsigned long long" : "unsigned"
                            : valueName(value.getType()).str()) +
           " " + name;
  }
  }
}

void KernelPrinter::restore(const FunctionParameter &parameter) {
  switch (parameter.kind) {
  case FunctionParameter::Local: // the table of registers in the source's header comment prints the buffer's IR name
    buffers[parameter.value] = parameter.value.getDefiningOp<RegistersOp>().getName().str();
    break;
  case FunctionParameter::Pointer:
    views[parameter.value].pointer = parameter.argument;
    break;
  case FunctionParameter::Scalar:
    values[parameter.value] = parameter.outer;
    break;
  default:
    buffers[parameter.value] = parameter.argument;
  }
}

bool KernelPrinter::printFunction(scf::ForOp loop) {
  auto wish = loop->getAttrOfType<StringAttr>(functionAttr);
  SmallVector<FunctionParameter> parameters;
  if (!wish || inFunction || loop.getNumResults() || !collectParameters(loop, parameters))
    return false;

  Source outerSource = std::exchange(source, Source());
  Names outerNames = std::exchange(names, Names());
  inFunction = true;
  const FunctionWords *words = functionWords(wish.getValue());
  std::string declared, arguments;
  bool written = false; // whether FunctionWords::written has been used: only the first written tile gets that name
  for (FunctionParameter &parameter : parameters) {
    if (parameter.kind == FunctionParameter::Local)
      continue;
    StringRef word;
    if (words && parameter.kind == FunctionParameter::Scalar)
      word = words->scalar;
    else if (words && parameter.kind == FunctionParameter::Written)
      word = std::exchange(written, true) ? StringRef() : StringRef(words->written);
    else if (words && parameter.kind == FunctionParameter::Read)
      word = cast<FragmentAttr>(cast<TileType>(parameter.value.getType()).getLayout()).getRole() == FragmentRole::C
                 ? words->tile
                 : words->rows;
    declared += (declared.empty() ? "" : ", ") + declareParameter(parameter, word);
    arguments += (arguments.empty() ? "" : ", ") + parameter.argument;
  }
  for (FunctionParameter &parameter : parameters)
    if (parameter.kind == FunctionParameter::Local)
      printStatement(parameter.value.getDefiningOp());
  printFor(loop);
  const std::string body = source.text();
  if (mentions(body, paramsName)) {
    declared += std::string(declared.empty() ? "" : ", ") + "const Params &" + paramsName.str();
    arguments += (arguments.empty() ? "" : ", ") + paramsName.str();
  }
  inFunction = false;
  source = std::move(outerSource);
  names = std::move(outerNames);
  for (FunctionParameter &parameter : parameters)
    restore(parameter);
  auto note = loop->getAttrOfType<StringAttr>(tile::commentAttr);
  for (const FunctionParameter &parameter : parameters)
    if (!note && parameter.kind == FunctionParameter::Local)
      note = parameter.value.getDefiningOp()->getAttrOfType<StringAttr>(tile::commentAttr);
  if (note)
    source.comment(codegen::commentText(note.getValue()));
  const StringRef text = words ? StringRef(words->comment) : note ? note.getValue() : StringRef();
  statement(loop, functions.define(wish.getValue(), text, declared, body) + "(" + arguments + ");");
  return true;
}

} // namespace attune::codegen::cuda
