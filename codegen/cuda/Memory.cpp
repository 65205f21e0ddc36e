//===- Memory.cpp - Print loads and stores of elements, and addresses -----===//

#include "codegen/cuda/KernelPrinter.h"
#include "ir/tile/Tile.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

std::string KernelPrinter::offset(const View &view, ArrayRef<Expr> indices) {
  std::string text;
  for (auto [index, stride] : llvm::zip(indices, view.strides)) {
    if (index.text == "0")
      continue;
    text += text.empty() ? "" : " + ";
    text += stride.empty() ? at(index, Sum) : at(index, Product) + " * " + stride;
  }
  return text;
}

Expr KernelPrinter::globalAddress(const View &view, ArrayRef<Expr> indices) {
  std::string text = offset(view, indices);
  return text.empty() ? Expr{view.pointer} : Expr{view.pointer + " + " + text, Sum};
}

std::string KernelPrinter::globalElement(const View &view, ArrayRef<Expr> indices) {
  std::string text = offset(view, indices);
  return text.empty() ? "*" + view.pointer : view.pointer + "[" + text + "]";
}

Expr KernelPrinter::sharedAddress(Operation *op, Value shared, Value stage, Value row, Value column) {
  SharedPlace place = sharedPlace(op, shared, stage, row, column);
  return place.offset.text.empty() ? place.base : infix(place.base, "+", place.offset, Sum);
}

KernelPrinter::SharedPlace KernelPrinter::sharedPlace(Operation *op, Value shared, Value stage, Value row,
                                                      Value column) {
  auto type = cast<TileType>(shared.getType());
  bool hasStages = type.axis(0) == "stage";
  ArrayRef<int64_t> shape = type.getShape().drop_front(hasStages);
  std::string base = buffers.lookup(shared);
  if (base.empty())
    fail(op, "needs a sched.shared buffer of this kernel");
  if (shape.empty() || shape.size() > 2) {
    fail(op, "needs a shared tile of one or two axes after the stage, got " + describe(type));
    return {};
  }
  int64_t elementBytes = type.getElementType().getIntOrFloatBitWidth() / 8;
  int64_t rows = shape.size() == 1 ? 1 : shape[0], rowBytes = type.rowBytes();
  SharedPlace place = {{base}, {}};
  Expr stageExpr = stage ? value(stage) : Expr{"0"};
  if (!hasStages && stageExpr.text != "0")
    fail(op, "gives a stage of " + describe(type) + ", which has none; pass the constant 0");
  if (hasStages && stageExpr.text != "0")
    place.base = {base + " + " +
                      (isNumber(stageExpr) ? std::to_string(std::stoll(stageExpr.text) * rows * rowBytes)
                                           : at(stageExpr, Product) + " * " + std::to_string(rows * rowBytes)),
                  Sum};
  auto bytes = [&](const Expr &index) -> Expr {
    if (index.text == "0")
      return {"0"};
    return elementBytes == 1 ? index : infix(index, "*", {std::to_string(elementBytes)}, Product);
  };
  Expr rowExpr = row ? value(row) : Expr{"0"}, columnExpr = column ? value(column) : Expr{"0"};
  if (auto swizzle = dyn_cast_or_null<SwizzleAttr>(type.getLayout())) {
    place.offset =
        primitive("swizzle", "<" + Twine(rows) + ", " + Twine(swizzle.getPanel()) + ">", {rowExpr, bytes(columnExpr)});
    return place;
  }
  if (rowExpr.text != "0")
    place.offset = infix(rowExpr, "*", {std::to_string(rowBytes)}, Product);
  if (columnExpr.text != "0")
    place.offset = place.offset.text.empty() ? bytes(columnExpr) : infix(place.offset, "+", bytes(columnExpr), Sum);
  return place;
}

template <typename Access> Expr KernelPrinter::steppedAddress(Access op) {
  Expr address = sharedAddress(op, op.getShared(), op.getStage(), op.getRow(), op.getColumn());
  if (!op.getRowStep())
    return address;
  auto type = cast<TileType>(op.getShared().getType());
  auto swizzle = dyn_cast_or_null<SwizzleAttr>(type.getLayout());
  if (!swizzle) {
    fail(op, "steps through " + describe(type) + ", which has no #sched.swizzle");
    return address;
  }
  Expr bytes = infix(value(op.getColumnStep()), "*",
                     {std::to_string(type.getElementType().getIntOrFloatBitWidth() / 8)}, Product);
  int64_t rows = type.getShape()[type.rank() - 2];
  return primitive("swizzle_step", "<" + Twine(rows) + ", " + Twine(swizzle.getPanel()) + ">",
                   {address, value(op.getRowStep()), bytes});
}

template Expr KernelPrinter::steppedAddress(LoadMatrixOp);
template Expr KernelPrinter::steppedAddress(LoadSharedOp);
template Expr KernelPrinter::steppedAddress(StoreMatrixOp);

void KernelPrinter::printSlice(SliceOp op) {
  View view = views[op.getView()];
  if (view.pointer.empty())
    return fail(op, "needs a view of this kernel's parameters");
  SmallVector<Expr> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  Expr address = globalAddress(view, indices);
  std::string base = StringRef(view.root).drop_front(paramsPrefix.size()).str();
  std::string name = nameFor(op, base + "_rows");
  statement(op, Twine(view.isWritten ? "" : "const ") + elementName(op.getResult().getType().getElementType()) +
                    " *const " + name + " = " + address.text + ";");
  view.pointer = name;
  view.strides = llvm::to_vector(llvm::drop_begin(view.strides, op.getDropped()));
  view.extents = llvm::to_vector(llvm::drop_begin(view.extents, op.getDropped()));
  views[op.getResult()] = view;
}

/// The device function that loads an element of `type` from read-only memory, widened; "" where there is none.
static StringRef elementLoad(Type type) {
  return type.isF32()         ? "load_f32"
         : type.isBF16()      ? "load_bf16"
         : type.isF16()       ? "load_f16"
         : type.isInteger(32) ? "load_i32"
         : type.isInteger(64) ? "load_i64"
         : type.isInteger(8)  ? "load_bool"
                              : "";
}

void KernelPrinter::printElement(tile::ElementOp op) {
  const View &view = views[op.getView()];
  SmallVector<Expr> indices;
  for (auto [i, index] : llvm::enumerate(op.getIndices())) {
    Expr expr = integer(index);
    indices.push_back(op.getInRange()[i] ? expr : primitive("clamp_index", {expr, {view.extents[i]}}));
  }
  Type type = op.getView().getType().getElementType();
  StringRef load = view.isWritten ? "load_written" : elementLoad(type);
  if (load.empty())
    return fail(op, "of " + text(type) + " has no printed form; use f32, bf16, f16, i32, i64 or i8");
  declare(cast<OpResult>(op.getResult()), primitive(load, {globalAddress(view, indices)}));
}

SmallVector<Expr> KernelPrinter::integers(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return integer(value); });
}

SmallVector<Expr> KernelPrinter::floats(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value each) { return value(each); });
}

void KernelPrinter::printLoadElements(LoadElementsOp op) {
  const View &view = views[op.getView()];
  Type type = op.getView().getType().getElementType();
  if (op.getElements().size() == 4)
    return declareAdjacent(
        op, "float4",
        primitive(view.isWritten ? "load_written_four" : "load_f32_four", {pairAddress(view, op.getIndices())}));
  StringRef load = view.isWritten  ? "load_written_pair"
                   : type.isF32()  ? "load_f32_pair"
                   : type.isBF16() ? "load_bf16_pair"
                                   : "load_f16_pair";
  if (view.isWritten && !type.isF32())
    return fail(op,
                "of " + text(type) + ", which the launch writes, has no printed form; only f32 is read in pairs there");
  declareAdjacent(op, "float2", primitive(load, {pairAddress(view, op.getIndices())}));
}

Expr KernelPrinter::pairAddress(View view, ValueRange indices) {
  view.strides.back().clear(); // the last stride is 1
  return globalAddress(view, integers(indices));
}

void KernelPrinter::printInPairs(InPairsOp op) {
  const View &view = views[op.getView()];
  // The bitwise or of all numbers that must be even (for `eights`: multiples of eight), namely the last extent and all
  // strides but the last. In View::strides, "" is a stride of 1.
  std::string even = view.extents.back();
  for (const std::string &stride : ArrayRef(view.strides).drop_back())
    even += " | " + stride;
  const std::string last = view.strides.back().empty() ? "1" : view.strides.back();
  declare(cast<OpResult>(op.getResult()),
          primitive(op.getEights() ? "in_eights" : "in_pairs", {{view.pointer}, {even, BitOr}, {last}}));
}

void KernelPrinter::printStoreElements(StoreElementsOp op) {
  Type type = op.getView().getType().getElementType();
  StringRef store = op.getValues().size() == 4 ? "store_f32_four"
                    : type.isF32()             ? "store_f32_pair"
                    : type.isBF16()            ? "store_bf16_pair"
                                               : "store_f16_pair";
  SmallVector<Expr> arguments{pairAddress(views[op.getView()], op.getIndices())};
  llvm::append_range(arguments, floats(op.getValues()));
  statement(op, primitive(store, arguments).text + ";");
}

void KernelPrinter::printStoreEights(StoreEightsOp op) {
  SmallVector<Expr> arguments{pairAddress(views[op.getView()], op.getIndices()), value(op.getQuad())};
  llvm::append_range(arguments, floats(op.getValues()));
  const bool isBf16 = op.getView().getType().getElementType().isBF16();
  statement(op, primitive(isBf16 ? "store_bf16_eights" : "store_f16_eights", arguments).text + ";");
}

void KernelPrinter::declareAdjacent(Operation *op, StringRef type, const Expr &vector) {
  std::string name = names.take(op->getNumResults() == 2 ? "pair" : "four");
  statement(op, ("const " + type + " " + name + " = " + vector.text + ";").str());
  for (auto [result, member] : llvm::zip(op->getResults(), StringRef("xyzw")))
    values[result] = {name + "." + member};
}

void KernelPrinter::printStoreElement(StoreElementOp op) {
  const View &view = views[op.getView()];
  const SmallVector<Expr> indices = integers(op.getIndices());
  Type type = op.getView().getType().getElementType();
  if (type.isBF16() || type.isF16())
    statement(
        op, primitive(type.isBF16() ? "store_bf16" : "store_f16", {globalAddress(view, indices), value(op.getValue())})
                    .text +
                ";");
  else
    statement(op, globalElement(view, indices) + " = " + value(op.getValue()).text + ";");
}

void KernelPrinter::printLoadByte(LoadByteOp op) {
  const View &view = views[op.getView()];
  const StringRef load = op.getPair() ? "load_byte_pair" : "load_byte";
  declare(cast<OpResult>(op.getResult()), primitive(view.isWritten ? (load + "_written").str() : load.str(),
                                                    {globalAddress(view, integers(op.getIndices()))}));
}

void KernelPrinter::printStoreByte(StoreByteOp op) {
  statement(
      op, primitive("store_byte", {globalAddress(views[op.getView()], integers(op.getIndices())), value(op.getValue())})
                  .text +
              ";");
}

void KernelPrinter::printAddElements(AddElementsOp op) {
  const View &view = views[op.getView()];
  const size_t count = op.getValues().size();
  SmallVector<Expr> arguments{count == 1 ? globalAddress(view, integers(op.getIndices()))
                                         : pairAddress(view, op.getIndices())};
  llvm::append_range(arguments, floats(op.getValues()));
  statement(op, primitive(count == 1 ? "add_f32" : count == 2 ? "add_f32_pair" : "add_f32_four", arguments).text + ";");
}

bool KernelPrinter::printMemory(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](SharedOp o) {
        used.insert("shared_address");
        std::string name = names.take(o.getName());
        buffers[o.getResult()] = name;
        std::string at = o.getOffset() ? "shared_base + " + std::to_string(o.getOffset()) : "shared_base";
        statement(op, "const unsigned " + name + " = " + at + ";  // " + describe(o.getResult().getType()));
      })
      .Case([&](SliceOp o) { printSlice(o); })
      .Case([&](tile::ElementOp o) { printElement(o); })
      .Case([&](tile::SearchOp o) {
        const View &view = views[o.getView()];
        if (const std::optional<uint64_t> rows = o.getTiles())
          return declare(cast<OpResult>(o.getResult()),
                         primitive("search_tiles",
                                   "<" + Twine(o.getRight() ? "true" : "false") + ", " + Twine(*rows) + ">",
                                   {{view.pointer}, {view.strides[0]}, {view.extents[0]}, integer(o.getX())}));
        const StringRef load = elementLoad(o.getView().getType().getElementType());
        used.insert(load.str());
        declare(cast<OpResult>(o.getResult()),
                primitive("search_sorted", "<" + load + ", " + (o.getRight() ? "true" : "false") + ">",
                          {{view.pointer},
                           {view.strides[0]},
                           {view.extents[0]},
                           isa<FloatType>(o.getX().getType()) ? value(o.getX()) : integer(o.getX())}));
      })
      .Case([&](LoadElementsOp o) { printLoadElements(o); })
      .Case([&](InPairsOp o) { printInPairs(o); })
      .Case([&](StoreElementOp o) { printStoreElement(o); })
      .Case([&](StoreElementsOp o) { printStoreElements(o); })
      .Case([&](StoreEightsOp o) { printStoreEights(o); })
      .Case([&](LoadByteOp o) { printLoadByte(o); })
      .Case([&](StoreByteOp o) { printStoreByte(o); })
      .Case([&](AddElementsOp o) { printAddElements(o); })
      .Case([&](AddIntegerOp o) {
        const Expr address = globalAddress(views[o.getView()], integers(o.getIndices()));
        statement(op, primitive("add_int64", {address, asSigned(value(o.getValue()))}).text + ";");
      })
      .Case([&](LoadSharedOp o) {
        Type type = o.getShared().getType().getElementType();
        StringRef load = type.isF32()         ? "load_shared"
                         : type.isInteger(32) ? "load_shared_int"
                         : type.isBF16()      ? "load_shared_bf16"
                         : type.isF16()       ? "load_shared_f16"
                                              : "";
        if (load.empty())
          return fail(op, "from " + describe(o.getShared().getType()) +
                              " has no printed form; only f32, bf16, f16 and i32 are read element by element");
        declare(cast<OpResult>(o.getResult()), primitive(load, {steppedAddress(o)}));
      })
      .Case([&](LoadPairOp o) {
        const bool isFloat = o.getFirst().getType().isF32();
        declareAdjacent(op, isFloat ? "float2" : "int2",
                        primitive(isFloat ? "load_shared_pair" : "load_shared_int_pair",
                                  {sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn())}));
      })
      .Case([&](StoreSharedOp o) {
        Expr what = value(o.getValue());
        if (o.getValue().getType().isInteger(32))
          what = asUnsigned(what);
        SmallVector<Expr> arguments{steppedAddress(o), what};
        if (o.getSecond())
          arguments.push_back(value(o.getSecond()));
        statement(op, primitive(o.getSecond() ? "store_shared_pair" : "store_shared", arguments).text + ";");
      })
      .Case([&](ScaleSharedOp o) {
        Expr at = sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn());
        statement(op,
                  primitive("scale_shared_16", {at, {printFloat(std::ldexp(1.0f, int(o.getExponent())))}}).text + ";");
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
