//===- DerivedNames.cpp - Variable names derived from ops and operands -------===//
//
// A value that no pass has named gets a variable name from its op and its operands:
//
//     %0 = arith.addi %tile, %c1                  tile_plus_1
//     %1 = arith.cmpi slt, %0, %tiles_end         tile_plus_1_below_tiles_end
//     %2 = arith.mulf %s, %scale                  s_times_scale
//
// An inlined operand has no variable; such an operand contributes the name derived from the op that defines the
// operand, up to two levels deep. A name longer than `longest` is dropped (""); the variable is then named after its
// type.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;

namespace attune::codegen::cuda {

static constexpr size_t longest = 28;

/// "a_JOIN_b"; "a_JOIN" if the right operand has no name, "b" if the left operand has none, "" if neither has one.
static std::string joined(const std::string &a, llvm::StringRef join, const std::string &b) {
  if (a.empty())
    return b;
  return a + "_" + join.str() + (b.empty() ? "" : "_" + b);
}

static StringRef wordOf(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return "is";
  case arith::CmpIPredicate::ne:
    return "is_not";
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return "below";
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return "up_to";
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return "above";
  default:
    return "from";
  }
}

static StringRef wordOf(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
  case arith::CmpFPredicate::UEQ:
    return "is";
  case arith::CmpFPredicate::ONE:
  case arith::CmpFPredicate::UNE:
    return "is_not";
  case arith::CmpFPredicate::OLT:
  case arith::CmpFPredicate::ULT:
    return "below";
  case arith::CmpFPredicate::OLE:
  case arith::CmpFPredicate::ULE:
    return "up_to";
  case arith::CmpFPredicate::OGT:
  case arith::CmpFPredicate::UGT:
    return "above";
  default:
    return "from";
  }
}

std::string KernelPrinter::wordFor(Value value, int depth) {
  if (auto constant = value.getDefiningOp<arith::ConstantOp>()) {
    auto number = dyn_cast<IntegerAttr>(constant.getValue());
    if (!number || number.getType().isInteger(1))
      return "";
    const int64_t digits = number.getInt();
    return digits < 0 ? "minus_" + std::to_string(-digits) : std::to_string(digits);
  }
  if (auto known = values.find(value); known != values.end()) {
    StringRef text = known->second.text;
    text.consume_front(paramsPrefix);
    if (isIdentifier(text))
      // A fallback name, such as "term", says nothing about its value, so it is not used in the names of other values.
      return llvm::is_contained({"term", "condition", "word", "number", "number64"}, withoutNumber(text))
                 ? std::string()
                 : withoutNumber(text).str();
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return "";
  if (auto name = op->getAttrOfType<StringAttr>(tile::nameAttr))
    return name.str();
  return depth > 0 ? derivedName(op, depth - 1) : "";
}

std::string KernelPrinter::derivedName(Operation *op, int depth) {
  auto word = [&](unsigned i) { return wordFor(op->getOperand(i), depth); };
  auto two = [&](StringRef join) { return joined(word(0), join, word(1)); };
  auto extreme = [&](StringRef kind) {
    const std::string a = word(0), b = word(1);
    return a.empty() && b.empty() ? a : kind.str() + (a.empty() ? "" : "_" + a) + (b.empty() ? "" : "_" + b);
  };
  auto one = [&](StringRef prefix) {
    std::string of = word(0);
    return of.empty() ? of : prefix.str() + of;
  };
  std::string name =
      llvm::TypeSwitch<Operation *, std::string>(op)
          .Case<arith::AddIOp, arith::AddFOp>([&](auto) { return two("plus"); })
          .Case<arith::SubIOp, arith::SubFOp>([&](auto) { return two("minus"); })
          .Case<arith::MulIOp, arith::MulFOp>([&](auto) { return two("times"); })
          .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
                arith::DivFOp>([&](auto) { return two("over"); })
          .Case<arith::RemSIOp, arith::RemUIOp, arith::RemFOp>([&](auto) { return two("mod"); })
          .Case<arith::MaxSIOp, arith::MaxUIOp, arith::MaxNumFOp, arith::MaximumFOp>(
              [&](auto) { return extreme("max"); })
          .Case<arith::MinSIOp, arith::MinUIOp, arith::MinNumFOp, arith::MinimumFOp>(
              [&](auto) { return extreme("min"); })
          .Case<arith::AndIOp>([&](auto) { return two("and"); })
          .Case<arith::OrIOp>([&](auto) { return two("or"); })
          .Case<arith::XOrIOp>([&](auto) {
            return op->getResult(0).getType().isInteger(1) && op->getOperand(1).getDefiningOp<arith::ConstantOp>()
                       ? one("not_")
                       : two("xor");
          })
          .Case<arith::ShLIOp>([&](auto) { return two("shl"); })
          .Case<arith::ShRUIOp, arith::ShRSIOp>([&](auto) { return two("shr"); })
          .Case([&](arith::CmpIOp compare) { return two(wordOf(compare.getPredicate())); })
          .Case([&](arith::CmpFOp compare) { return two(wordOf(compare.getPredicate())); })
          .Case([&](arith::SelectOp) {
            const std::string a = word(1), b = word(2), only = a + b;
            if (a.empty() == b.empty())
              return joined(a, "or", b);
            return StringRef(only).starts_with("chosen_") ? only : "chosen_" + only;
          })
          .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
                arith::BitcastOp, NonnegativeOp, OpaqueOp, UniformOp, AfterOp>([&](auto) { return word(0); })
          .Case<arith::NegFOp>([&](auto) { return one("minus_"); })
          .Case<math::FmaOp>([&](auto) { return joined(joined(word(0), "times", word(1)), "plus", word(2)); })
          .Case([&](GetOp get) {
            std::string of = withoutNumber(buffers.lookup(get.getBuffer())).str();
            return of.empty() ? of : of + "_value";
          })
          .Case<ShuffleOp, ShuffleXorOp>([&](auto) { return one("other_lane_"); })
          .Case([&](LoadSharedOp load) { return withoutNumber(buffers.lookup(load.getShared())).str() + "_value"; })
          .Case([](LaneIdOp) { return "lane"; })
          .Case([&](BallotOp) { return one("lanes_with_"); })
          .Case([&](AnyLaneOp) { return one("any_"); })
          .Case([&](PackOp) { return joined(word(0), "and", word(1)); })
          .Case([&](UnpackOp) { return one("unpacked_"); })
          .Case([&](TestBitOp) { return one("bit_of_"); })
          .Default([&](Operation *) {
            return isa<math::MathDialect>(op->getDialect()) && op->getNumOperands() == 1
                       ? one((op->getName().stripDialect() + "_").str())
                       : std::string();
          });
  return name.size() > longest || (!name.empty() && llvm::isDigit(name[0])) ? "" : name;
}

} // namespace attune::codegen::cuda
