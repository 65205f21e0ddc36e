//===- ValueNames.cpp - Readable names of SSA values in printed text ----------===//

#include "ir/ValueNames.h"
#include "ir/attn/Attn.h"
#include "ir/sched/Sched.h"
#include "ir/tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;

namespace {

/// The name of a value without the suffixes _init, _next and _end of loops; "" where the value has no name.
std::string baseName(Value value);

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// The loop-carried values of a loop in four lists: initial values, block arguments, next values and results. Entry i
/// of each list belongs to the same loop-carried value.
struct Carried {
  ValueRange inits, arguments, nexts, ends;
};

Carried carriedBy(Operation *op) {
  if (auto loop = dyn_cast<tile::ForBlocksOp>(op))
    return {loop.getInits(), loop.getCarried(), loop.getYield().getValues(), loop.getResults()};
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return {loop.getInits(), loop.getRegionIterArgs(), loop.getYieldedValues(), loop.getResults()};
  return {};
}

/// The carried tiles of a sched.for_tiles. The carried scalars take their names from `tile.names` instead.
Carried tilesCarriedBy(sched::ForTilesOp loop) {
  const size_t scalars = loop.getInits().size();
  return {loop.getTiles(), loop.getBody().getArguments().drop_front(scalars),
          loop.getNext().getValues().drop_front(scalars), loop.getResults().take_front(loop.getTiles().size())};
}

/// The name of the `i`th loop-carried value.
std::string carriedName(const Carried &carried, size_t i) {
  std::string name = baseName(carried.inits[i]);
  // The next value is not named by baseName, which would recurse forever where a loop yields its argument unchanged.
  return name.empty() ? tile::nameOf(carried.nexts[i]).str() : name;
}

/// Entry `i` of the attribute `tile.names` of `op`, or `fallback` where there is none.
std::string listedName(Operation *op, size_t i, StringRef fallback) {
  if (auto names = op->getAttrOfType<ArrayAttr>(tile::namesAttr); names && i < names.size())
    if (auto name = dyn_cast<StringAttr>(names[i]))
      return name.str();
  return fallback.str();
}

std::string argumentName(sched::ForWorkOp loop, size_t i) {
  Value argument = loop.getBody().getArgument(i);
  return listedName(loop, i,
                    argument == loop.getNumber()                                               ? "number"
                    : loop.getOrder() != sched::WorkOrder::Grid && argument == loop.getCount() ? "count"
                                                                                               : "carried");
}

std::string argumentName(sched::ForTilesOp loop, size_t i) {
  if (i < loop.getInits().size())
    return listedName(loop, i, i == 0 ? "tile" : "slot");
  return carriedName(tilesCarriedBy(loop), i - loop.getInits().size());
}

std::string resultName(sched::ForTilesOp loop, size_t i) {
  const size_t scalars = loop.getInits().size(), tiles = loop.getTiles().size();
  return argumentName(loop, i < tiles ? scalars + i : i - tiles);
}

/// The suffix of `value` if a loop-carried argument has the same name: "_init" for an initial value that only the loop
/// uses, "_next" for a value that the loop yields. Else "".
StringRef loopSuffix(Value value, StringRef name) {
  for (OpOperand &use : value.getUses()) {
    Operation *loop = use.getOwner();
    const bool isNext = loop->hasTrait<OpTrait::IsTerminator>();
    if (isNext)
      loop = loop->getParentOp();
    auto tiles = dyn_cast<sched::ForTilesOp>(loop);
    const Carried carried = tiles ? tilesCarriedBy(tiles) : carriedBy(loop);
    ValueRange values = isNext ? carried.nexts : carried.inits;
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] == value && carriedName(carried, i) == name) {
        if (isNext)
          return "_next";
        if (llvm::all_of(value.getUsers(), [&](Operation *user) { return user == loop; }))
          return "_init";
      }
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// The name of an element of `tile`: s_qk for a tile s with axes q and k.
std::string elementName(Value tile) {
  std::string name = baseName(tile);
  if (name.empty())
    return "";
  name += "_";
  for (StringAttr axis : cast<tile::TileType>(tile.getType()).getAxes())
    name += axis.getValue();
  return name;
}

/// The name of an element of a view: slopes_h for slopes[h]. The name is the view's name alone where an index has no
/// name or is a tile.element itself: including the names of nested elements would double the length of the name at each
/// level.
std::string elementName(tile::ElementOp op) {
  std::string name = baseName(op.getView()), indices;
  for (Value index : op.getIndices()) {
    std::string one = index.getDefiningOp<tile::ElementOp>() ? "" : baseName(index);
    if (one.empty())
      return name;
    indices += "_" + one;
  }
  return name.empty() ? "" : name + indices;
}

std::string coordinateName(tile::MapOp map, size_t i) {
  StringRef axis = cast<StringAttr>(map.getAxes()[i]).getValue();
  return (axis + (map.getOrigins()[i].getType().isF32() ? "_f32" : "")).str();
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string argumentName(BlockArgument argument) {
  const size_t i = argument.getArgNumber();
  auto fromParts = [&](std::initializer_list<StringRef> names) {
    return i < names.size() ? names.begin()[i].str() : std::string();
  };
  return llvm::TypeSwitch<Operation *, std::string>(argument.getOwner()->getParentOp())
      .Case([&](attn::AttentionOp op) {
        Region *region = argument.getOwner()->getParent();
        for (auto [gradient, of] : op.gradientRegions())
          if (region == gradient) {
            if (i + 1 == region->getNumArguments())
              return std::string("g");
            region = of;
          }
        return region == &op.getScore()  ? fromParts({"s", "b", "h", "q", "k"})
               : region == &op.getMask() ? fromParts({"b", "h", "q", "k"})
                                         : op.normaliserArgument(*region, i);
      })
      .Case([&](tile::DomainOp op) {
        return fromParts({argument.getParentRegion() == &op.getGroups() ? "group" : "tile", "iteration"});
      })
      .Case([&](tile::ForBlocksOp op) {
        auto domain = op.getDomain().getDefiningOp<tile::DomainOp>();
        return i == 0   ? domain && domain.getAxis() == "q" ? "q0" : "k0"
               : i == 1 ? "partial"
               : op.getIteration() == argument
                   ? "iteration"
                   : carriedName(carriedBy(op), i - (op.getBody().getNumArguments() - op.getInits().size()));
      })
      .Case([&](tile::MapOp op) {
        const size_t inputs = op.getInputs().size();
        return i < inputs ? elementName(op.getInputs()[i]) : coordinateName(op, i - inputs);
      })
      .Case([&](tile::AnyOp op) { return elementName(op.getTile()); })
      .Case<sched::ForWorkOp, sched::ForTilesOp>([&](auto op) { return argumentName(op, i); })
      .Case([&](sched::NextVisibleOp op) {
        return fromParts({argument.getParentRegion() == &op.getGroups() ? "group" : "tile"});
      })
      .Case([&](scf::ForOp op) {
        if (i > 0)
          return listedName(op, i - 1, carriedName(carriedBy(op), i - 1));
        auto name = op->getAttrOfType<StringAttr>(tile::nameAttr);
        return name ? name.str() : std::string();
      })
      .Default([](Operation *) { return std::string(); });
}

/// The name of a kernel parameter. Operands are in upper case, to distinguish tensor Q from coordinate q.
std::string parameterName(tile::ParamOp op) {
  Operation *kernel = tile::kernelAround(op);
  const bool isOperand = kernel && tile::findOperand(kernel, op.getName());
  return isOperand ? op.getName().upper() : op.getOwnName().str();
}

std::string derivedName(Value of, StringRef suffix) {
  std::string name = baseName(of);
  return name.empty() ? name : name + suffix.str();
}

/// The name of the first result of an op without `tile.name`.
std::string resultName(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<attn::LoadOp, attn::ScalarOp, attn::ExtentOp>([](auto op) { return op.getName().str(); })
      .Case([](attn::SearchOp op) { return attn::nameOfSearch(op.getName()); })
      .Case([](tile::BlockIndexOp op) { return op.getAxis() == "q" ? "q0" : op.getAxis().str(); })
      .Case([](tile::AxisExtentOp op) { return (op.getAxis() + "_extent").str(); })
      .Case([](tile::WarpgroupRowOp) { return "warpgroup_row"; })
      .Case([](tile::DomainOp) { return "domain"; })
      .Case([](tile::FirstVisibleOp) { return "first_visible"; })
      .Case([](tile::TouchesOp) { return "touches"; })
      .Case<tile::ConvertOp, tile::ScaleOp>([](auto op) { return baseName(op.getTile()); })
      .Case<sched::SharedOp, sched::RegistersOp, sched::RingOp>([](auto op) { return op.getName().str(); })
      .Case([](sched::ThreadIdOp op) { return op.getInRole() ? "role_thread" : "thread"; })
      .Case([](sched::ReadThreadIdOp) { return "thread"; })
      .Case([](sched::LaneIdOp) { return "lane"; })
      .Case([](sched::BallotOp op) { return derivedName(op.getCondition(), "_votes"); })
      .Case([](sched::ElectOp) { return "elected"; })
      .Case<sched::BlockIdOp, sched::ReadBlockIdOp>([](auto) { return "block"; })
      .Case([](sched::GridSizeOp) { return "blocks"; })
      .Case<sched::OpaqueOp, sched::NonnegativeOp>([](auto op) { return baseName(op.getValue()); })
      .Case([](sched::ClaimWorkOp) { return "claimed"; })
      .Case([](sched::TensorMapOp op) { return derivedName(op.getView(), "_map"); })
      .Case([](sched::SlotOp op) { return derivedName(op.getRing(), "_slot"); })
      .Case([](sched::SliceOp op) { return derivedName(op.getView(), "_rows"); })
      .Case([](sched::ExtentOp op) { return derivedName(op.getView(), "_extent"); })
      .Case([](sched::GetOp op) { return elementName(op.getBuffer()); })
      .Case([](sched::UniformOp op) { return derivedName(op.getValue(), "_uniform"); })
      .Case([](sched::ReceiveOp op) { return derivedName(op.getShared(), "_message"); })
      .Case([](sched::PhiloxOp) { return "random"; })
      .Default([](Operation *) { return std::string(); });
}

/// The name of result `i` of `op` without suffixes of loops. The results of sched.receive and of sched.philox are
/// printed as one group, so only the first result has a name.
std::string resultName(Operation *op, size_t i) {
  static constexpr StringRef search[] = {"found", "origin", "visible", "full", "begins"};
  static constexpr StringRef split[] = {"big", "small"}, adjacent[] = {"first", "second", "third", "fourth"};
  if (auto loop = dyn_cast<sched::ForTilesOp>(op))
    return resultName(loop, i);
  if (isa<tile::ForBlocksOp, scf::ForOp>(op))
    return listedName(op, i, carriedName(carriedBy(op), i));
  if (isa<sched::NextVisibleOp>(op) && i > 0)
    return search[std::min<size_t>(i, 4)].str();
  if (isa<sched::SplitTf32Op>(op))
    return listedName(op, i, split[i]);
  if (isa<sched::LoadPairOp, sched::LoadElementsOp>(op))
    return adjacent[i].str();
  if (isa<tile::DropoutOp>(op) && i == 1)
    return "kept";
  if (i > 0)
    return "";
  if (auto param = dyn_cast<tile::ParamOp>(op))
    return parameterName(param);
  if (auto element = dyn_cast<tile::ElementOp>(op))
    return elementName(element);
  if (auto name = op->getAttrOfType<StringAttr>(tile::nameAttr))
    return name.str();
  return isa<sched::NextVisibleOp>(op) ? search[0].str() : resultName(op);
}

std::string baseName(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argumentName(argument);
  return resultName(value.getDefiningOp(), cast<OpResult>(value).getResultNumber());
}

/// The suffix that distinguishes `result` from other values with the base name `name`.
std::string suffixOf(OpResult result, StringRef name) {
  Operation *op = result.getOwner();
  if (isa<tile::ForBlocksOp, scf::ForOp, sched::ForTilesOp>(op))
    return "_end";
  if (StringRef suffix = loopSuffix(result, name); !suffix.empty())
    return suffix.str();
  if (isa<tile::CombineLanesOp>(op))
    return "_total";
  auto convert = dyn_cast<tile::ConvertOp>(op);
  if (!convert || baseName(convert.getTile()) != name)
    return "";
  tile::TileType from = convert.getTile().getType(), to = convert.getResult().getType();
  std::string suffix;
  llvm::raw_string_ostream stream(suffix);
  if (from.getElementType() != to.getElementType())
    stream << "_" << to.getElementType();
  if (from.getSpace() != to.getSpace())
    stream << "_" << tile::stringifyMemorySpace(to.getSpace());
  return suffix;
}

using Names = OpAsmOpInterface::Concept;

void nameResults(const Names *, Operation *op, OpAsmSetValueNameFn set) {
  const bool isGroup = isa<sched::ReceiveOp, sched::PhiloxOp>(op);
  bool isNamed = false;
  for (OpResult result : op->getResults().take_front(isGroup ? 1 : op->getNumResults())) {
    // From result 4 on, sched.next_visible has one result for each warpgroup's part of the rows. The printer shows
    // these results as one group (%begins:2), which is named by its first result.
    if (isa<sched::NextVisibleOp>(op) && result.getResultNumber() > 4)
      break;
    std::string name = baseName(result);
    // Each call of `set` starts a group of results. A result without a name starts a group if the previous result has a
    // name; adjacent results without names form one group.
    if (isNamed || !name.empty())
      set(result, name.empty() ? name : name + suffixOf(result, name));
    isNamed = !name.empty();
  }
}

void nameArguments(const Names *, Operation *, Region &region, OpAsmSetValueNameFn set) {
  for (BlockArgument argument : region.getArguments())
    if (std::string name = argumentName(argument); !name.empty())
      set(argument, name);
}

/// The naming interface that nameValues attaches to ops of all dialects. The interface may assume that ops are valid:
/// the printer requests no names from an op that fails verification.
struct ValueNames : OpAsmOpInterface::FallbackModel<ValueNames> {
  void getAsmResultNames(Operation *op, OpAsmSetValueNameFn set) const { nameResults(this, op, set); }
  void getAsmBlockArgumentNames(Operation *op, Region &region, OpAsmSetValueNameFn set) const {
    nameArguments(this, op, region, set);
  }
  void getAsmBlockNames(Operation *, OpAsmSetBlockNameFn) const {}
  static StringRef getDefaultDialect() { return ""; }
};

//===----------------------------------------------------------------------===//
// arith
//===----------------------------------------------------------------------===//

/// The name of a float constant, such as c0.125_f32 or neg_inf; "" where the number has too many digits for a name.
std::string constantName(FloatAttr constant) {
  const APFloat value = constant.getValue();
  if (value.isInfinity())
    return value.isNegative() ? "neg_inf" : "inf";
  SmallString<16> digits;
  value.toString(digits, /*FormatPrecision=*/9, /*FormatMaxPadding=*/9, /*TruncateZero=*/true);
  if (digits.size() > 12 || StringRef(digits).contains_insensitive('e') || value.isNaN())
    return "";
  std::string name = ("c" + digits + "_").str();
  llvm::raw_string_ostream(name) << constant.getType();
  return name;
}

/// Names the results of arith.constant and arith.muli, for which arith has names of its own. The names of arith are the
/// fallback where attune has none.
void nameArithResult(const Names *, Operation *op, OpAsmSetValueNameFn set) {
  if (StringRef name = tile::nameOf(op->getResult(0)); !name.empty()) {
    set(op->getResult(0), name.str() + loopSuffix(op->getResult(0), name).str());
    return;
  }
  if (auto multiply = dyn_cast<arith::MulIOp>(op))
    return multiply.getAsmResultNames(set);
  auto constant = cast<arith::ConstantOp>(op);
  if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
    if (std::string name = constantName(value); !name.empty())
      return set(constant, name);
  constant.getAsmResultNames(set);
}

} // namespace

void attune::nameValues(MLIRContext *context, StringRef dialect) {
  const bool isOurs = llvm::is_contained({"attn", "tile", "sched"}, dialect);
  // All registered ops are visited. getRegisteredOperationsByDialect would miss ops of some dialects: it searches a
  // list by the dialect's name, but the list is not sorted in that order for all names.
  for (RegisteredOperationName op : context->getRegisteredOperations()) {
    if (op.getDialectNamespace() != dialect)
      continue;
    // Ops with several results have the interface from ODS already. As an interface is not attached twice, its
    // functions are replaced.
    Names *present = op.getInterface<OpAsmOpInterface>();
    if (!present) {
      op.attachInterface<ValueNames>();
    } else if (isOurs) {
      present->getAsmResultNames = nameResults;
      present->getAsmBlockArgumentNames = nameArguments;
    } else if (llvm::is_contained({arith::ConstantOp::getOperationName(), arith::MulIOp::getOperationName()},
                                  op.getStringRef())) {
      present->getAsmResultNames = nameArithResult;
    }
  }
}
