//===- Copies.cpp - Print copies between global and shared memory ---------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

bool KernelPrinter::printCopy(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](CopyToGlobalOp o) {
        Expr to = globalAddress(views[o.getView()], {integer(o.getViewRow()), integer(o.getColumn())});
        Expr from = sharedAddress(op, o.getShared(), {}, o.getRow(), o.getColumn());
        statement(op, primitive("copy_to_global_16", {to, from}).text + ";");
      })
      .Case([&](CopyAsyncOp o) {
        const bool isVector = o.getBytes() == 4;
        SmallVector<Expr> place{integer(o.getViewRow())};
        if (!isVector)
          place.push_back(integer(o.getColumn()));
        Expr from = globalAddress(views[o.getView()], place);
        Expr to = sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn());
        Expr valid = value(o.getValid());
        if (isVector)
          return statement(op, primitive("copy_async_4_if", {valid, to, from}).text + ";");
        statement(op, (valid.text == "true" ? primitive("copy_async_16", {to, from})
                                            : primitive("copy_async_16_if", {valid, to, from}))
                              .text +
                          ";");
      })
      .Case([&](CommitCopiesOp) { statement(op, primitive("commit_copies", {}).text + ";"); })
      .Case([&](WaitCopiesOp o) {
        statement(op, primitive("wait_copies", "<" + Twine(o.getPending()) + ">", {}).text + ";");
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

/// The arguments of load_box and store_box that say where the box is in the tensor.
template <typename Op> SmallVector<Expr> KernelPrinter::boxPlace(Op op) {
  SmallVector<Expr> place{integer(op.getBatch()), integer(op.getHead()), integer(op.getRow())};
  if (op.getLimit()) {
    const auto &extents = views[op.getMap().template getDefiningOp<TensorMapOp>().getView()].extents;
    place.push_back(integer(op.getLimit()));
    place.push_back({extents[extents.size() - 2]});
  }
  place.push_back(integer(op.getTensorColumn() ? op.getTensorColumn() : op.getColumn()));
  return place;
}

bool KernelPrinter::printBox(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](TensorMapOp o) {
        std::string &name = maps.names[maps.all.numberOf(o)];
        if (!name.empty())
          return;
        const StringRef wish = tile::nameOf(o.getResult());
        name = maps.taken.take(wish.empty() ? "map" : wish);
        maps.text += "  TensorMap " + name + ";\n";
      })
      .Case([&](LoadBoxOp o) {
        Expr to = sharedAddress(op, o.getShared(), o.getStage(), {}, o.getColumn());
        // TMA derives the swizzle from the bits of the shared-memory address, so the box's address is the address of
        // its first row without the swizzle.
        if (o.getSharedRow()) {
          const int64_t panel = cast<sched::SwizzleAttr>(o.getShared().getType().getLayout()).getPanel();
          to = infix(to, "+", infix(value(o.getSharedRow()), "*", {std::to_string(panel)}, Product), Sum);
        }
        SmallVector<Expr> arguments{to, {mapMember(o.getMap())}, barrier(o.getRing(), o.getStage(), true)};
        arguments.append(boxPlace(o));
        statement(op, primitive(o.getLimit() ? "load_box_until" : "load_box", arguments).text + ";");
      })
      .Case([&](StoreBoxOp o) {
        Expr from = sharedAddress(op, o.getShared(), o.getStage(), o.getSharedRow(), o.getColumn());
        SmallVector<Expr> arguments{{mapMember(o.getMap())}, from};
        arguments.append(boxPlace(o));
        const char *name = o.getAdds() ? "add_box" : o.getLimit() ? "store_box_until" : "store_box";
        statement(op, primitive(name, arguments).text + ";");
      })
      .Case([&](AddRowsOp o) {
        TileType type = o.getShared().getType();
        Expr to = globalAddress(views[o.getView()], {integer(o.getViewRow())});
        Expr from = sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), {});
        statement(op,
                  primitive("add_rows", {to, from, {std::to_string(o.getRows() * type.getShape()[2] * 4)}}).text + ";");
      })
      .Case([&](CommitBoxesOp) { statement(op, primitive("commit_boxes", {}).text + ";"); })
      .Case([&](WaitBoxesOp o) {
        statement(op, primitive("wait_boxes", "<" + Twine(o.getPending()) + ">", {}).text + ";");
      })
      .Case([&](FenceAsyncOp) { statement(op, primitive("fence_async", {}).text + ";"); })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
