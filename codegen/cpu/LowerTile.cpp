//===- LowerTile.cpp - A tile.kernel as vector code -------------------------===//
//
// Storage. A tile is an array in the caller's scratch memory. For a tile of two axes one is the lane axis: the
// axis of S that belongs to the block (q where the kernel loops over k), where the tile has it. Its elements are
// contiguous and fill vectors:
//
//     | tile          | stored as      | vectors run along |
//     |---------------|----------------|-------------------|
//     | S, P (q x k)  | [k][q]         | q                 |
//     | Q (q x d)     | [d][q]         | q                 |
//     | O (q x dv)    | [dv][q]        | q                 |
//     | K (k x d)     | [k][d]         | d                 |
//     | m, l (q)      | [q]            | q                 |
//
// An op that needs the other order of a tile gets a transposed copy, made where the tile is defined.
//
// Steps. The ops of a block are regrouped into steps: element-wise ops and reductions over the same axes run as one
// loop nest, with intermediate values in registers; an accumulator's rescaling is part of the product that adds to
// it. A tile's memory is reused after the last step that reads it.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/LowerTile.h"

#include "attune/LaunchParams.h"
#include "ir/tile/Signature.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <cstddef>
#include <set>

using namespace mlir;
using namespace attune;
using namespace attune::tile;

namespace {

constexpr int64_t cacheLine = 64;

/// Order of a tile's two axes in memory: as the type lists them, or the reverse.
enum Order : unsigned { Listed = 0, Reversed = 1 };

/// Where a tile lies: a scratch offset for each order that exists.
struct Storage {
  TileType type;
  int64_t offset[2] = {-1, -1};
  bool owned = true; ///< freed after the last use
  Value base;        ///< where the listed order lies when that is known at run time only: scratch or global memory
  Value rowStride;   ///< i64, elements; with `base`

  bool has(Order order) const { return offset[order] >= 0; }
  Order any() const { return has(Listed) ? Listed : Reversed; }
};

/// A view's launch parameters.
struct Memory {
  Value base;
  SmallVector<Value> strides, extents; ///< i64, elements
  Type element;
  int64_t columns = -1;    ///< the last extent where it is known
  bool unitStride = false; ///< the last stride is 1
};

/// Ops that run together.
struct Step {
  SmallVector<Operation *> ops;
  bool isGroup = false;
};

bool isElementwise(Operation *op) {
  if (isa<MapOp, ConvertOp, DropoutOp, CombineLanesOp, SplatOp, ReduceOp>(op))
    return true;
  return false;
}

/// The tile whose axes an element-wise op or reduction visits.
TileType visitedType(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getTile().getType();
  return cast<TileType>(op->getResult(0).getType());
}

class Lowering {
public:
  Lowering(KernelOp kernel, const KernelSignature &signature, ModuleOp module, const HostVectors &host)
      : kernel(kernel), signature(signature), host(host), b(kernel.getLoc(), kernel.getContext()), f32(b.getF32Type()),
        i32(b.getI32Type()), i64(b.getI64Type()), i8(b.getI8Type()),
        pointer(LLVM::LLVMPointerType::get(kernel.getContext())) {
    b.setInsertionPointToEnd(module.getBody());
  }

  Expected<size_t> run() {
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer, pointer});
    auto function = LLVM::LLVMFuncOp::create(b, kernel.getSymName(), type);
    entry = function.addEntryBlock(b);
    b.setInsertionPointToStart(entry);
    LLVM::ReturnOp::create(b, ValueRange{});
    b.setInsertionPointToStart(entry);
    params = entry->getArgument(0);
    origin = entry->getArgument(1);
    scratch = entry->getArgument(2);
    findLaneAxis();
    findNeededOrders();
    // Parameters are read at the start, before anything else.
    paramEnd = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
    b.setInsertionPoint(entry->getTerminator());
    lowerBlock(kernel.getBody().front());
    if (!problem.empty())
      return Error{problem};
    return size_t(std::max<int64_t>(scratchEnd, cacheLine));
  }

private:
  //===--------------------------------------------------------------------===//
  // Analysis
  //===--------------------------------------------------------------------===//

  void fail(Operation *op, const Twine &reason) {
    if (problem.empty())
      problem = ("the cpu target cannot compile '" + op->getName().getStringRef() + "': " + reason).str();
  }

  /// The axis of S that the kernel does not loop over.
  void findLaneAxis() {
    laneAxis = "q";
    kernel.walk([&](DomainOp domain) { laneAxis = domain.getAxis() == "q" ? "k" : "q"; });
  }

  /// Lanes of a vector that divides `size`.
  int64_t lanesFor(int64_t size) const { return std::min<int64_t>(host.lanes, size & -size); }

  /// Position in `type` of the axis that vectors run along; the same axis whatever the order of the type's axes.
  unsigned innerAxis(TileType type) const {
    if (type.rank() == 1)
      return 0;
    auto rank = [&](unsigned i) {
      StringRef axis = type.axis(i);
      int64_t lanes = lanesFor(type.getShape()[i]);
      return std::tuple(lanes == host.lanes && axis == laneAxis, lanes, axis == laneAxis, axis.starts_with("d"), axis);
    };
    return rank(0) > rank(1) ? 0 : 1;
  }

  /// The order in which element-wise code visits a tile of this type.
  Order orderOf(TileType type) const { return orderWithInner(type, innerAxis(type)); }
  static Order orderWithInner(TileType type, unsigned inner) {
    return type.rank() == 2 && inner == 0 ? Reversed : Listed;
  }

  void need(Value value, Order order) { needed[value] |= 1u << order; }

  void findNeededOrders() {
    kernel.walk([&](Operation *op) {
      if (auto mma = dyn_cast<MmaOp>(op)) {
        TileType result = mma.getResult().getType();
        StringRef lane = result.axis(innerAxis(result));
        Value operand = mma.getLhs().getType().hasAxis(lane) ? mma.getLhs() : mma.getRhs();
        auto type = cast<TileType>(operand.getType());
        need(operand, orderWithInner(type, type.findAxis(lane)));
        if (mma.getAcc())
          need(mma.getAcc(), orderOf(result));
      } else if (auto any = dyn_cast<AnyOp>(op)) {
        need(any.getTile(), orderOf(any.getTile().getType()));
      } else if (isa<StoreOp, AccumulateOp>(op)) {
        need(op->getOperand(0), Listed);
      } else if (isElementwise(op)) {
        for (Value operand : op->getOperands())
          if (auto type = dyn_cast<TileType>(operand.getType()))
            need(operand, orderOf(type));
      } else if (isa<ForBlocksOp, tile::YieldOp>(op)) {
        for (Value operand : op->getOperands())
          if (auto type = dyn_cast<TileType>(operand.getType()))
            need(operand, orderOf(type));
      }
      for (Value value : op->getResults())
        if (auto type = dyn_cast<TileType>(value.getType()); type && type.rank() > 2)
          fail(op, "tiles have at most two axes");
    });
  }

  //===--------------------------------------------------------------------===//
  // Small constants and memory
  //===--------------------------------------------------------------------===//

  Value constI64(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value constI32(int32_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }
  Value constant(TypedAttr scalar, Type type) {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b, DenseElementsAttr::get(vector, Attribute(scalar)));
    return arith::ConstantOp::create(b, scalar);
  }
  Value zeroOf(Type type) { return arith::ConstantOp::create(b, cast<TypedAttr>(b.getZeroAttr(type))); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value toI64(Value x) { return x.getType() == i64 ? x : Value(arith::ExtSIOp::create(b, i64, x)); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) { return arith::CmpIOp::create(b, predicate, x, y); }

  Type vectorOf(Type element, int64_t lanes) { return lanes == 1 ? element : VectorType::get({lanes}, element); }
  int64_t lanesOf(Value value) {
    auto vector = dyn_cast<VectorType>(value.getType());
    return vector ? vector.getNumElements() : 1;
  }
  Value widen(Value value, int64_t lanes) {
    if (lanes == 1 || isa<VectorType>(value.getType()))
      return value;
    return vector::BroadcastOp::create(b, VectorType::get({lanes}, value.getType()), value);
  }

  static int64_t bytesOf(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

  /// The type of a tile's elements in registers: floats are f32.
  Type valueType(Type element) { return isa<FloatType>(element) ? f32 : element; }
  /// The type of a tile's elements in scratch memory: i1 takes a byte.
  Type storedType(Type element) { return element.isInteger(1) ? Type(i8) : valueType(element); }

  Value offsetBytes(Value base, int64_t bytes) {
    return bytes ? Value(LLVM::GEPOp::create(b, pointer, i8, base, ArrayRef<LLVM::GEPArg>{int32_t(bytes)})) : base;
  }
  Value offsetElements(Value base, Type element, Value index) {
    return LLVM::GEPOp::create(b, pointer, element, base, ArrayRef<LLVM::GEPArg>{index});
  }
  Value loadAt(Value address, Type type, int64_t alignment) {
    return LLVM::LoadOp::create(b, type, address, unsigned(alignment));
  }
  void storeAt(Value value, Value address, int64_t alignment) {
    LLVM::StoreOp::create(b, value, address, unsigned(alignment));
  }

  /// A loop from 0 to `count` by `step`; one trip needs no loop.
  SmallVector<Value> loop(int64_t count, int64_t step, ValueRange inits,
                          function_ref<SmallVector<Value>(Value, ValueRange)> body) {
    if (count == step)
      return body(constI64(0), inits);
    return loop(constI64(0), constI64(count), constI64(step), inits, body);
  }
  SmallVector<Value> loop(Value begin, Value end, Value step, ValueRange inits,
                          function_ref<SmallVector<Value>(Value, ValueRange)> body) {
    auto loop = scf::ForOp::create(b, begin, end, step, inits);
    OpBuilder::InsertionGuard guard(b);
    if (inits.empty())
      b.setInsertionPoint(loop.getBody()->getTerminator());
    else
      b.setInsertionPointToEnd(loop.getBody());
    SmallVector<Value> values = body(loop.getInductionVar(), loop.getRegionIterArgs());
    if (!inits.empty())
      scf::YieldOp::create(b, values);
    return llvm::to_vector(ValueRange(loop.getResults()));
  }
  void loop(int64_t count, int64_t step, function_ref<void(Value)> body) {
    loop(count, step, {}, [&](Value i, ValueRange) -> SmallVector<Value> { return body(i), SmallVector<Value>(); });
  }
  void loop(Value begin, Value end, function_ref<void(Value)> body) {
    loop(begin, end, constI64(1), {},
         [&](Value i, ValueRange) -> SmallVector<Value> { return body(i), SmallVector<Value>(); });
  }

  //===--------------------------------------------------------------------===//
  // Scratch memory
  //===--------------------------------------------------------------------===//

  int64_t allocate(int64_t bytes) {
    bytes = llvm::alignTo(bytes, cacheLine);
    if (auto found = freeList.find(bytes); found != freeList.end() && !found->second.empty())
      return found->second.pop_back_val();
    int64_t offset = scratchEnd;
    scratchEnd += bytes;
    return offset;
  }
  void release(int64_t offset, int64_t bytes) { freeList[llvm::alignTo(bytes, cacheLine)].push_back(offset); }

  int64_t bytesOf(TileType type) { return type.numElements() * bytesOf(storedType(type.getElementType())); }

  void release(Value value) {
    auto found = storage.find(value);
    if (found == storage.end() || !found->second.owned)
      return;
    for (int64_t offset : found->second.offset)
      if (offset >= 0)
        release(offset, bytesOf(found->second.type));
    storage.erase(found);
  }

  /// Address of element `index` of the array at a scratch offset.
  Value scratchAt(int64_t offset, Type element, Value index) {
    return offsetElements(offsetBytes(scratch, offset), element, index);
  }

  Value loadScratch(int64_t offset, Type element, Value index, int64_t lanes) {
    Type stored = storedType(element);
    Value value = loadAt(scratchAt(offset, stored, index), vectorOf(stored, lanes), bytesOf(stored) * lanes);
    if (element.isInteger(1))
      value = compare(arith::CmpIPredicate::ne, value, zeroOf(value.getType()));
    return value;
  }

  void storeScratch(Value value, int64_t offset, Type element, Value index, int64_t lanes) {
    Type stored = storedType(element);
    value = widen(value, lanes);
    if (element.isInteger(1))
      value = arith::ExtUIOp::create(b, vectorOf(stored, lanes), value);
    storeAt(value, scratchAt(offset, stored, index), bytesOf(stored) * lanes);
  }

  /// [rows][columns] at `from` becomes [columns][rows] at `to`.
  void transpose(int64_t from, int64_t to, int64_t rows, int64_t columns, Type stored) {
    int64_t block = std::min(lanesFor(rows), lanesFor(columns));
    Value rowCount = constI64(rows), columnCount = constI64(columns);
    loop(rows, block, [&](Value row) {
      loop(columns, block, [&](Value column) {
        SmallVector<Value> vectors;
        for (int64_t i = 0; i < block; ++i) {
          Value index = add(mul(add(row, constI64(i)), columnCount), column);
          vectors.push_back(loadAt(scratchAt(from, stored, index), vectorOf(stored, block), bytesOf(stored) * block));
        }
        transposeVectors(vectors);
        for (int64_t i = 0; i < block; ++i) {
          Value index = add(mul(add(column, constI64(i)), rowCount), row);
          storeAt(vectors[i], scratchAt(to, stored, index), bytesOf(stored) * block);
        }
      });
    });
  }

  /// Transposes n vectors of n elements in log2(n) rounds. Round `s` exchanges, between vectors i and i + s, the
  /// elements whose index has bit s: for n = 2 and s = 1, (a0 a1)(b0 b1) becomes (a0 b0)(a1 b1).
  void transposeVectors(SmallVectorImpl<Value> &vectors) {
    int64_t count = vectors.size();
    for (int64_t s = 1; s < count; s *= 2) {
      SmallVector<int64_t> low, high;
      for (int64_t j = 0; j < count; ++j) {
        low.push_back(j & s ? count + (j ^ s) : j);
        high.push_back(j & s ? count + j : j ^ s);
      }
      for (int64_t i = 0; i < count; ++i) {
        if (i & s)
          continue;
        Value x = vectors[i], y = vectors[i + s];
        vectors[i] = vector::ShuffleOp::create(b, x, y, low);
        vectors[i + s] = vector::ShuffleOp::create(b, x, y, high);
      }
    }
  }

  /// Registers a tile's memory and makes the other order where an op needs it.
  void define(Value value, int64_t offset, Order order, bool owned = true) {
    auto type = cast<TileType>(value.getType());
    Storage &made = storage[value];
    made.type = type;
    made.owned = owned;
    made.offset[order] = offset;
    if (type.rank() == 2 && (needed.lookup(value) & (1u << (1 - order))))
      ensure(value, Order(1 - order));
  }

  /// The scratch offset of `value` in `order`.
  int64_t ensure(Value value, Order order) {
    Storage &tile = storage[value];
    if (tile.type.rank() == 1)
      return tile.offset[Listed];
    if (tile.has(order))
      return tile.offset[order];
    Order from = Order(1 - order);
    int64_t rows = tile.type.getShape()[from == Listed ? 0 : 1], columns = tile.type.getShape()[from == Listed ? 1 : 0];
    int64_t to = allocate(bytesOf(tile.type));
    transpose(tile.offset[from], to, rows, columns, storedType(tile.type.getElementType()));
    storage[value].offset[order] = to;
    return to;
  }

  //===--------------------------------------------------------------------===//
  // Launch parameters
  //===--------------------------------------------------------------------===//

  Value field(Type type, int64_t offset) { return loadAt(offsetBytes(params, offset), type, bytesOf2(type)); }
  int64_t bytesOf2(Type type) { return isa<LLVM::LLVMPointerType>(type) ? 8 : bytesOf(type); }

  /// Runs `write` with the builder among the parameter reads at the function's start.
  template <typename F> void atStart(F write) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(paramEnd.getDefiningOp());
    write();
  }

  Value scalarParam(ParamOp op) {
    Value &value = scalarParams[op.getName()];
    if (!value)
      atStart([&] { value = readScalar(op.getName(), op.getType()); });
    return value;
  }

  /// Where the block's tile starts along an axis.
  Value originOf(BlockIndexOp op) {
    Value value;
    atStart([&] { value = loadAt(offsetBytes(origin, 4 * int64_t(op.getPosition())), i32, 4); });
    return value;
  }

  Value axisExtent(AxisExtentOp op) {
    Value &value = extents[op.getAxis()];
    if (!value)
      atStart([&] { value = field(i32, *findExtent(signature, op.getAxis())); });
    return value;
  }

  Value readScalar(StringRef name, Type type) {
    const std::pair<StringRef, size_t> fields[] = {{"group", offsetof(LaunchParams, group)},
                                                   {"q_offset", offsetof(LaunchParams, qOffset)},
                                                   {"drop_threshold", offsetof(LaunchParams, dropThreshold)},
                                                   {"keep_scale", offsetof(LaunchParams, keepScale)}};
    for (auto [known, offset] : fields)
      if (name == known)
        return field(type, offset);
    if (name == "seed" || name == "offset") {
      bool seed = name == "seed";
      int64_t inlined = seed ? offsetof(LaunchParams, seed) : offsetof(LaunchParams, offset);
      int64_t indirect = seed ? offsetof(LaunchParams, seedPointer) : offsetof(LaunchParams, offsetPointer);
      Value address = field(pointer, indirect);
      Value isNull = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::eq, address, LLVM::ZeroOp::create(b, pointer));
      return loadAt(LLVM::SelectOp::create(b, isNull, offsetBytes(params, inlined), address), i64, 8);
    }
    const size_t offset = *findScalar(signature, name);
    return type.isInteger(1) ? compare(arith::CmpIPredicate::ne, field(i8, offset), zeroOf(i8)) : field(type, offset);
  }

  const Memory &memoryOf(Value view) {
    auto param = view.getDefiningOp<ParamOp>();
    assert(param && "a view is a parameter");
    auto [found, isNew] = memories.try_emplace(param.getName().str());
    if (isNew)
      atStart([&] { found->second = readMemory(param.getName(), param.getType()); });
    return found->second;
  }

  Memory readMemory(StringRef name, Type type) {
    Memory memory;
    memory.element = cast<ViewType>(type).getElementType();
    const Declaration declared = *findView(signature, name);
    memory.base = field(pointer, declared.offset);
    for (int64_t i = 0; i < declared.rank; ++i) {
      memory.strides.push_back(field(i64, declared.offset + 8 * (1 + i)));
      memory.extents.push_back(field(i64, declared.offset + 8 * (1 + declared.rank + i)));
    }
    if (declared.kind != Declaration::Operand) {
      readAsZeroIfEmpty(memory);
    } else if (const OperandParam &operand = signature.operands[declared.index]; operand.isTiled()) {
      memory.columns = operand.axes.back().size;
      memory.unitStride = true;
      memory.strides.back() = constI64(1);
      memory.extents.back() = constI64(memory.columns);
    }
    return memory;
  }

  /// A captured tensor without elements reads as one zero.
  void readAsZeroIfEmpty(Memory &memory) {
    Value empty = arith::ConstantOp::create(b, b.getBoolAttr(false));
    for (Value extent : memory.extents)
      empty = arith::OrIOp::create(b, empty, compare(arith::CmpIPredicate::sle, extent, constI64(0)));
    if (emptyTensor < 0) {
      emptyTensor = std::exchange(scratchEnd, scratchEnd + cacheLine); // never reused
      storeAt(constI64(0), offsetBytes(scratch, emptyTensor), 8);
    }
    memory.base = LLVM::SelectOp::create(b, empty, offsetBytes(scratch, emptyTensor), memory.base);
    for (Value &stride : memory.strides)
      stride = select(empty, constI64(0), stride);
  }

  /// Address of `view[indices...]` with the later dimensions at 0.
  Value addressOf(const Memory &memory, ValueRange indices) {
    Value offset = constI64(0);
    for (auto [index, stride] : llvm::zip(indices, memory.strides))
      offset = add(offset, mul(toI64(index), stride));
    return offsetElements(memory.base, memory.element, offset);
  }

  /// Elements of memory as f32, or the integer type.
  Value loadGlobal(Value address, Type element, int64_t lanes) {
    if (element.isBF16())
      return fromBF16(loadAt(address, vectorOf(b.getI16Type(), lanes), 2));
    Value value = loadAt(address, vectorOf(element, lanes), bytesOf(element));
    return element.isF16() ? Value(arith::ExtFOp::create(b, vectorOf(f32, lanes), value)) : value;
  }

  Value fromBF16(Value bits) {
    int64_t lanes = lanesOf(bits);
    Value wide = arith::ExtUIOp::create(b, vectorOf(i32, lanes), bits);
    wide = arith::ShLIOp::create(b, wide, constant(b.getI32IntegerAttr(16), wide.getType()));
    return arith::BitcastOp::create(b, vectorOf(f32, lanes), wide);
  }

  void storeGlobal(Value value, Value address, Type element) {
    int64_t lanes = lanesOf(value);
    if (element.isBF16())
      value = toBF16(value);
    else if (element.isF16())
      value = arith::TruncFOp::create(b, vectorOf(element, lanes), value);
    storeAt(value, address, bytesOf(element));
  }

  /// The bits of f32 rounded to bf16, to nearest even; a NaN stays one.
  Value toBF16(Value value) {
    int64_t lanes = lanesOf(value);
    Type type = vectorOf(i32, lanes);
    auto c = [&](int32_t x) { return constant(b.getI32IntegerAttr(x), type); };
    Value bits = arith::BitcastOp::create(b, type, value);
    Value upper = arith::ShRUIOp::create(b, bits, c(16));
    Value odd = arith::AndIOp::create(b, upper, c(1));
    Value rounded = arith::ShRUIOp::create(b, add(bits, add(odd, c(0x7fff))), c(16));
    Value quiet = arith::OrIOp::create(b, upper, c(0x40));
    Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
    return arith::TruncIOp::create(b, vectorOf(b.getI16Type(), lanes), select(isNan, quiet, rounded));
  }

  //===--------------------------------------------------------------------===//
  // Scalars and the regions of maps
  //===--------------------------------------------------------------------===//

  /// The lowered form of a scalar, or of a value inside a map.
  Value lookup(Value value) {
    if (Value found = values.lookup(value))
      return found;
    if (auto param = value.getDefiningOp<ParamOp>())
      return scalarParam(param);
    if (auto extent = value.getDefiningOp<AxisExtentOp>())
      return axisExtent(extent);
    assert(false && "a value is used before it is lowered");
    return {};
  }

  /// A read of `view[indices]`, each index limited to the view.
  Value readElement(ElementOp op, ArrayRef<Value> indices) {
    const Memory &memory = memoryOf(op.getView());
    int64_t lanes = 1;
    Value uniform = constI64(0), varying;
    for (auto [index, extent, stride] : llvm::zip(indices, memory.extents, memory.strides)) {
      lanes = std::max(lanes, lanesOf(index));
      Type type = getElementTypeOrSelf(index.getType());
      Value last = arith::SubIOp::create(b, extent, constI64(1));
      if (type == i32)
        last = arith::TruncIOp::create(b, i32,
                                       arith::MinSIOp::create(b, last, constI64(std::numeric_limits<int32_t>::max())));
      Value limited = arith::MinSIOp::create(b, index, widen(last, lanesOf(index)));
      limited = arith::MaxSIOp::create(b, limited, zeroOf(index.getType()));
      if (!isa<VectorType>(index.getType())) {
        uniform = add(uniform, mul(toI64(limited), stride));
        continue;
      }
      int64_t width = lanesOf(index);
      if (type != i64)
        limited = arith::ExtSIOp::create(b, VectorType::get({width}, i64), limited);
      Value part = mul(limited, widen(stride, width));
      varying = varying ? add(varying, part) : part;
    }
    Value base = offsetElements(memory.base, memory.element, uniform);
    Value raw;
    Type loaded = memory.element.isBF16() ? Type(b.getI16Type()) : memory.element;
    if (!varying) {
      raw = loadAt(base, loaded, bytesOf(loaded));
    } else {
      Type addresses = VectorType::get({lanes}, pointer);
      Value address = LLVM::GEPOp::create(b, addresses, memory.element, base, ArrayRef<LLVM::GEPArg>{varying});
      Value all = constant(b.getBoolAttr(true), VectorType::get({lanes}, b.getI1Type()));
      raw = LLVM::masked_gather::create(b, VectorType::get({lanes}, loaded), address, all, ValueRange{},
                                        b.getI32IntegerAttr(bytesOf(loaded)));
    }
    if (memory.element.isBF16())
      return fromBF16(raw);
    if (memory.element.isF16())
      return arith::ExtFOp::create(b, vectorOf(f32, lanesOf(raw)), raw);
    if (memory.element.isInteger(8))
      return compare(arith::CmpIPredicate::ne, raw, zeroOf(raw.getType()));
    return raw;
  }

  /// Lowers one op on scalars; some operands may have become vectors.
  void lowerScalarOp(Operation *op) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      if (!isa<ViewType>(param.getType()))
        values[param] = scalarParam(param);
      return;
    }
    if (auto extent = dyn_cast<AxisExtentOp>(op)) {
      values[extent] = axisExtent(extent);
      return;
    }
    SmallVector<Value> operands;
    int64_t lanes = 1;
    for (Value operand : op->getOperands()) {
      if (isa<ViewType>(operand.getType()))
        continue;
      operands.push_back(lookup(operand));
      lanes = std::max(lanes, lanesOf(operands.back()));
    }
    if (auto element = dyn_cast<ElementOp>(op)) {
      values[element] = readElement(element, operands);
      return;
    }
    if (auto touches = dyn_cast<TouchesOp>(op)) {
      values[touches] = lowerTouches(touches);
      return;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto number = dyn_cast<FloatAttr>(constant.getValue());
      if (number && !number.getType().isF32() && number.getType().getIntOrFloatBitWidth() < 32)
        values[constant] = arith::ConstantOp::create(b, b.getF32FloatAttr(float(number.getValueAsDouble())));
      else
        values[constant] = b.clone(*op)->getResult(0);
      return;
    }
    if (auto product = dyn_cast<MulFiniteOp>(op)) {
      values[product] = mulFinite(product.getLoc(), widen(operands[0], lanes), widen(operands[1], lanes));
      return;
    }
    if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) || op->getNumRegions()) {
      fail(op, "no lowering");
      for (Value result : op->getResults())
        values[result] = zeroOf(result.getType());
      return;
    }
    bool isSelect = isa<arith::SelectOp>(op);
    for (auto [i, operand] : llvm::enumerate(operands))
      if (!(isSelect && i == 0))
        operand = widen(operand, lanes);
    if (isa<arith::ExtFOp, arith::TruncFOp>(op) && operands[0].getType() == vectorOf(f32, lanes) &&
        valueType(op->getResult(0).getType()) == f32) {
      values[op->getResult(0)] = operands[0];
      return;
    }
    if (Value value = approximate(b, op, operands, host)) {
      values[op->getResult(0)] = value;
      return;
    }
    Type narrow = valueType(op->getResult(0).getType());
    if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
      Type type = vectorOf(narrow, lanes);
      StringRef name = isa<arith::FPToSIOp>(op) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
      values[op->getResult(0)] = LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), operands).getResult(0);
      return;
    }
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults())) {
      to.setType(vectorOf(valueType(from.getType()), lanes));
      values[from] = to;
    }
  }

  /// tile.mul_finite: the product, or where it alone is infinite the greatest float of its sign.
  Value mulFinite(Location loc, Value lhs, Value rhs) {
    auto constant = [&](float value) -> Value {
      return widen(arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)), lanesOf(lhs));
    };
    Value infinity = constant(std::numeric_limits<float>::infinity());
    auto isFinite = [&](Value value) -> Value {
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, math::AbsFOp::create(b, loc, value), infinity);
    };
    Value product = arith::MulFOp::create(b, loc, lhs, rhs);
    Value overflows = arith::AndIOp::create(
        b, loc, arith::AndIOp::create(b, loc, isFinite(lhs), isFinite(rhs)),
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, loc, product), infinity));
    return arith::SelectOp::create(
        b, loc, overflows, math::CopySignOp::create(b, loc, constant(std::numeric_limits<float>::max()), product),
        product);
  }

  /// A map's value for the given elements and coordinates, `lanes` at a time (or one for all).
  Value lowerMapBody(MapOp map, ArrayRef<Value> elements, ArrayRef<Value> coordinates) {
    Block &body = map.getBody().front();
    for (auto [argument, value] : llvm::zip(body.getArguments(), llvm::concat<const Value>(elements, coordinates)))
      values[argument] = value;
    for (Operation &op : body.without_terminator())
      lowerScalarOp(&op);
    return lookup(map.getYield().getValues()[0]);
  }

  //===--------------------------------------------------------------------===//
  // Steps
  //===--------------------------------------------------------------------===//

  /// The op of `block` that contains `op`, or null.
  static Operation *ancestorIn(Block *block, Operation *op) { return block->findAncestorOpInBlock(*op); }

  /// Regroups a block's ops: see "Steps" at the top.
  SmallVector<Step> schedule(Block &block) {
    SmallVector<Step> steps;
    DenseSet<Operation *> done;
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      if (!isa<tile::YieldOp>(op))
        ops.push_back(&op);
    // Values of this block that are not ready yet.
    auto ready = [&](Operation *op, const DenseSet<Operation *> &also) {
      bool good = true;
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands()) {
          Operation *def = operand.getDefiningOp();
          if (!def || def->getBlock() != &block || done.contains(def))
            continue;
          if (!also.contains(def))
            good = false;
        }
      });
      return good;
    };
    for (size_t i = 0; i < ops.size(); ++i) {
      Operation *first = ops[i];
      if (done.contains(first))
        continue;
      if (deferred.contains(first)) {
        // Part of its user's step.
        done.insert(first);
        continue;
      }
      if (!isElementwise(first)) {
        done.insert(first);
        steps.push_back({{first}, false});
        continue;
      }
      Step group{{first}, true};
      TileType type = visitedType(first);
      DenseSet<Operation *> elements; // members whose values are elements at the same position
      auto join = [&](Operation *op) {
        if (!isa<ReduceOp>(op))
          elements.insert(op);
      };
      join(first);
      for (size_t j = i + 1; j < ops.size(); ++j) {
        Operation *op = ops[j];
        if (done.contains(op) || deferred.contains(op))
          continue;
        bool elementwise = isElementwise(op);
        if (elementwise && sameAxes(visitedType(op), type) && ready(op, elements)) {
          group.ops.push_back(op);
          join(op);
          continue;
        }
        // A small op in the way runs before the group.
        bool small = mlir::isPure(op) && (op->getResultTypes().empty() || !isa<TileType>(op->getResult(0).getType()) ||
                                          (elementwise && visitedType(op).rank() == 1));
        if (small && type.rank() == 2 && op->getNumResults() == 1 && ready(op, {})) {
          done.insert(op);
          steps.push_back({{op}, elementwise});
        }
      }
      done.insert(group.ops.begin(), group.ops.end());
      steps.push_back(std::move(group));
    }
    return steps;
  }

  static bool sameAxes(TileType a, TileType b) {
    if (a.rank() != b.rank())
      return false;
    for (unsigned i = 0; i < a.rank(); ++i)
      if (!b.hasAxis(a.axis(i)) || b.size(a.axis(i)) != a.getShape()[i])
        return false;
    return true;
  }

  /// Marks maps that only rescale the accumulator of a product in the same block.
  void findDeferred(Block &block) {
    for (Operation &op : block) {
      auto mma = dyn_cast<MmaOp>(op);
      if (!mma || !mma.getAcc())
        continue;
      auto map = mma.getAcc().getDefiningOp<MapOp>();
      if (map && map->getBlock() == &block && map->hasOneUse() && orderOf(map.getType()) == orderOf(mma.getType()))
        deferred.insert(map);
    }
  }

  void lowerBlock(Block &block) {
    findDeferred(block);
    SmallVector<Step> steps = schedule(block);
    // The last step that reads each tile of this block.
    DenseMap<Operation *, size_t> position;
    for (auto [i, step] : llvm::enumerate(steps))
      for (Operation *op : step.ops)
        position[op] = i;
    auto lastUse = [&](Value value) {
      size_t last = 0;
      SmallVector<Operation *> users(value.getUsers());
      while (!users.empty()) {
        Operation *user = ancestorIn(&block, users.pop_back_val());
        if (deferred.contains(user))
          user = *user->getUsers().begin();
        last = std::max(last, isa<tile::YieldOp>(user) ? steps.size() : position.lookup(user));
      }
      return last;
    };
    std::vector<SmallVector<Value>> dying(steps.size() + 1);
    for (Operation &op : block)
      for (Value result : op.getResults())
        if (isa<TileType>(result.getType())) {
          size_t last = lastUse(result);
          if (position.contains(&op))
            last = std::max(last, position[&op]);
          dying[last].push_back(result);
        }
    for (size_t i = 0; i < steps.size(); ++i) {
      // Carried tiles that this step is the last to read may be overwritten by it.
      SmallVector<std::pair<Value, Value>> reusable;
      if (auto loop = dyn_cast<ForBlocksOp>(block.getParentOp()))
        for (auto [carried, next] : llvm::zip(loop.getCarried(), loop.getYield().getValues()))
          if (isa<TileType>(carried.getType()) && next.getDefiningOp() && position.contains(next.getDefiningOp()) &&
              position[next.getDefiningOp()] == i && lastUse(carried) <= i && next != carried)
            reusable.push_back({next, carried});
      target.clear();
      for (auto [next, carried] : reusable)
        if (!target.contains(next) && overwrites(steps[i], next, carried))
          target[next] = carried;
      dyingNow = dying[i];
      moved.clear();
      lowerStep(steps[i]);
      for (auto [value, order] : std::exchange(moved, {}))
        storage[value].offset[order] = -1;
      for (Value value : dying[i])
        release(value);
    }
  }

  /// Whether the step reads `carried` only at the position where it then writes `next`.
  bool overwrites(const Step &step, Value next, Value carried) {
    auto type = cast<TileType>(carried.getType());
    if (cast<TileType>(next.getType()) != type || (needed.lookup(next) & ~(1u << orderOf(type))))
      return false;
    for (Operation *op : step.ops) {
      if (!isElementwise(op) && !isa<MmaOp>(op))
        return false;
      if (auto mma = dyn_cast<MmaOp>(op))
        if (mma.getLhs() == carried || mma.getRhs() == carried)
          return false;
      // Rows and columns of a two-axis group are read again at every position of the other axis.
      if (isElementwise(op) && visitedType(op).rank() == 2 && type.rank() == 1) {
        if (!isa<ReduceOp>(next.getDefiningOp()))
          return false;
        auto reduce = cast<ReduceOp>(next.getDefiningOp());
        TileType visited = reduce.getTile().getType();
        if (visited.axis(innerAxis(visited)) == reduce.getAxis())
          return false;
      }
    }
    if (auto mma = next.getDefiningOp<MmaOp>())
      if (auto map = mma.getAcc() ? mma.getAcc().getDefiningOp<MapOp>() : MapOp(); map && deferred.contains(map))
        for (Value input : map.getInputs())
          if (input == carried && type.rank() != 2)
            return false;
    return true;
  }

  /// Memory for a value that the current step writes element by element: the carried tile that it replaces, a tile of
  /// the same shape that the step is the last to read, or fresh memory.
  int64_t allocateResult(Value value, ArrayRef<Operation *> ops) {
    auto type = cast<TileType>(value.getType());
    Order order = orderOf(type);
    if (Value carried = target.lookup(value))
      return storage[carried].offset[order];
    for (Operation *op : ops)
      for (Value operand : op->getOperands()) {
        auto source = dyn_cast<TileType>(operand.getType());
        auto found = storage.find(operand);
        if (!source || source.rank() != type.rank() || !sameAxes(source, type) || found == storage.end() ||
            !found->second.owned || !llvm::is_contained(dyingNow, operand) || bytesOf(source) != bytesOf(type))
          continue;
        Order from = source.rank() == 1 ? Listed : orderOf(source);
        int64_t offset = found->second.offset[from];
        if (offset < 0 || !taken.insert(offset).second)
          continue;
        moved.push_back({operand, from});
        return offset;
      }
    return allocate(bytesOf(type));
  }

  void lowerStep(const Step &step) {
    taken.clear();
    if (step.isGroup)
      return lowerGroup(step.ops);
    Operation *op = step.ops.front();
    if (auto index = dyn_cast<BlockIndexOp>(op))
      values[index] = originOf(index);
    else if (isa<DomainOp>(op))
      return;
    else if (auto load = dyn_cast<tile::LoadOp>(op))
      lowerLoad(load);
    else if (auto store = dyn_cast<tile::StoreOp>(op))
      lowerStore(store, store.getTile(), store.getView(), store.getIndices(), store.getLimit(), store.getOptional(),
                 false);
    else if (auto accumulate = dyn_cast<AccumulateOp>(op))
      lowerStore(accumulate, accumulate.getTile(), accumulate.getView(), accumulate.getIndices(), accumulate.getLimit(),
                 false, true);
    else if (auto mma = dyn_cast<MmaOp>(op))
      lowerMma(mma);
    else if (auto loop = dyn_cast<ForBlocksOp>(op))
      lowerForBlocks(loop);
    else if (auto any = dyn_cast<AnyOp>(op))
      lowerAny(any);
    else
      lowerScalarOp(op);
  }

  //===--------------------------------------------------------------------===//
  // Loop nests over a tile's elements
  //===--------------------------------------------------------------------===//

  /// Evaluates the element-wise ops of one position. `outer` and `inner` are the position, `at` gives an input's value.
  struct Position {
    TileType type;       ///< the tile that is visited
    unsigned innerIndex; ///< which of its axes is the inner one
    Value outer, inner;  ///< i64; `outer` is null for one axis
    int64_t lanes;
  };

  /// Element(s) of `value` at a position, from memory.
  Value readTile(Value value, const Position &at) {
    const Storage &tile = storage.find(value)->second;
    Type element = tile.type.getElementType();
    StringRef inner = at.type.axis(at.innerIndex);
    if (tile.type.rank() == 2) {
      Order order = orderWithInner(tile.type, tile.type.findAxis(inner));
      assert(tile.has(order) && "the order was foreseen");
      Value index = add(mul(at.outer, constI64(tile.type.size(inner))), at.inner);
      return loadScratch(tile.offset[order], element, index, at.lanes);
    }
    if (tile.type.axis(0) == inner)
      return loadScratch(tile.offset[Listed], element, at.inner, at.lanes);
    return loadScratch(tile.offset[Listed], element, at.outer, 1);
  }

  Value coordinateAt(StringRef axis, Value origin, const Position &at) {
    if (origin.getType().isF32()) {
      Value offset = coordinateAt(axis, arith::ConstantIntOp::create(b, 0, 32), at);
      Type type = offset.getType().isInteger() ? Type(b.getF32Type()) : VectorType::get({at.lanes}, b.getF32Type());
      Value start = isa<VectorType>(type) ? widen(origin, at.lanes) : origin;
      return arith::AddFOp::create(b, start, arith::SIToFPOp::create(b, type, offset));
    }
    if (axis != at.type.axis(at.innerIndex))
      return add(origin, arith::TruncIOp::create(b, i32, at.outer));
    Value first = add(origin, arith::TruncIOp::create(b, i32, at.inner));
    if (at.lanes == 1)
      return first;
    SmallVector<int32_t> lanes(at.lanes);
    std::iota(lanes.begin(), lanes.end(), 0);
    auto type = VectorType::get({at.lanes}, i32);
    return add(widen(first, at.lanes), arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(lanes))));
  }

  Value evaluateMap(MapOp map, const Position &at, function_ref<Value(Value)> read) {
    auto evaluate = [&]() -> Value {
      SmallVector<Value> elements, coordinates;
      for (Value input : map.getInputs())
        elements.push_back(read(input));
      for (auto [axis, origin] : llvm::zip(map.getAxes().getAsValueRange<StringAttr>(), map.getOrigins()))
        coordinates.push_back(coordinateAt(axis, lookup(origin), at));
      return lowerMapBody(map, elements, coordinates);
    };
    if (!map.getOnlyIf() || map.getInputs().empty())
      return evaluate();
    Value plain = widen(read(map.getInputs()[0]), at.lanes);
    auto choice = scf::IfOp::create(b, TypeRange{plain.getType()}, lookup(map.getOnlyIf()), true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    scf::YieldOp::create(b, widen(evaluate(), at.lanes));
    b.setInsertionPointToStart(choice.elseBlock());
    scf::YieldOp::create(b, plain);
    return choice.getResult(0);
  }

  Value identityOf(Reduction kind, Type type) {
    if (kind == Reduction::Sum || !isa<FloatType>(getElementTypeOrSelf(type)))
      return kind == Reduction::Sum
                 ? zeroOf(type)
                 : constant(
                       b.getIntegerAttr(getElementTypeOrSelf(type),
                                        APInt::getSignedMinValue(getElementTypeOrSelf(type).getIntOrFloatBitWidth())),
                       type);
    return constant(b.getF32FloatAttr(-std::numeric_limits<float>::infinity()), type);
  }

  /// `max` keeps the accumulator where the element is NaN, and takes the element where the accumulator is.
  Value combine(Reduction kind, Value accumulator, Value value) {
    if (!isa<FloatType>(getElementTypeOrSelf(value.getType()))) {
      if (kind == Reduction::Max)
        return arith::MaxSIOp::create(b, accumulator, value);
      return add(accumulator, value);
    }
    if (kind == Reduction::Sum)
      return arith::AddFOp::create(b, accumulator, value);
    Value greater = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, value, accumulator);
    return select(greater, value, accumulator);
  }

  void lowerGroup(ArrayRef<Operation *> ops) {
    Position at;
    at.type = visitedType(ops.front());
    at.innerIndex = innerAxis(at.type);
    StringRef inner = at.type.axis(at.innerIndex);
    int64_t innerSize = at.type.size(inner);
    int64_t outerSize = at.type.rank() == 2 ? at.type.getShape()[1 - at.innerIndex] : 1;
    at.lanes = lanesFor(innerSize);

    DenseSet<Operation *> members(ops.begin(), ops.end());
    // Random numbers of dropout ops, and memory for every value that is used beyond the group.
    DenseMap<Operation *, int64_t> random;
    llvm::MapVector<Value, int64_t> outputs;
    SmallVector<ReduceOp> reductions, innerReductions;
    SmallVector<Value> lines; // one-axis inputs along the inner axis
    for (Operation *op : ops) {
      if (auto dropout = dyn_cast<DropoutOp>(op))
        random[op] = randomNumbers(dropout);
      for (Value operand : op->getOperands())
        if (auto type = dyn_cast<TileType>(operand.getType());
            type && type.rank() == 1 && type.axis(0) == inner && !members.contains(operand.getDefiningOp()) &&
            at.type.rank() == 2 && !llvm::is_contained(lines, operand))
          lines.push_back(operand);
      if (auto reduce = dyn_cast<ReduceOp>(op))
        (reduce.getAxis() == inner ? innerReductions : reductions).push_back(reduce);
    }
    for (Operation *op : ops) {
      Value result = op->getResult(0);
      bool used = llvm::any_of(result.getUsers(), [&](Operation *user) {
        Operation *local = ancestorIn(op->getBlock(), user);
        return !members.contains(local);
      });
      if (isa<ReduceOp>(op))
        outputs[result] = target.contains(result) ? storage[target[result]].offset[Listed]
                                                  : allocate(bytesOf(cast<TileType>(result.getType())));
      else if (used)
        outputs[result] = allocateResult(result, ops);
    }
    // Sums along the lanes accumulate in memory.
    for (ReduceOp reduce : innerReductions) {
      Type element = valueType(reduce.getType().getElementType());
      loop(outerSize, 1, [&](Value i) {
        Value init = reduce.getInit() ? loadScratch(storage.find(reduce.getInit())->second.offset[Listed],
                                                    reduce.getType().getElementType(), i, 1)
                                      : identityOf(reduce.getKind(), element);
        storeScratch(init, outputs[reduce.getResult()], reduce.getType().getElementType(), i, 1);
      });
    }

    loop(innerSize, at.lanes, [&](Value j) {
      at.inner = j;
      at.outer = {};
      DenseMap<Value, Value> lineValues;
      for (Value line : lines)
        lineValues[line] = readTile(line, at);
      SmallVector<Value> accumulators;
      for (ReduceOp reduce : reductions) {
        Type element = valueType(reduce.getType().getElementType());
        accumulators.push_back(reduce.getInit() ? lineValues[reduce.getInit()]
                                                : identityOf(reduce.getKind(), vectorOf(element, at.lanes)));
      }
      accumulators = loop(outerSize, 1, accumulators, [&](Value i, ValueRange carried) {
        at.outer = i;
        DenseMap<Value, Value> current = lineValues;
        auto read = [&](Value value) {
          Value &found = current[value];
          if (!found)
            found = readTile(value, at);
          return found;
        };
        // Inputs are read before the branch of a map with only_if.
        for (Operation *op : ops)
          for (Value operand : op->getOperands())
            if (isa<TileType>(operand.getType()) && !members.contains(operand.getDefiningOp()) &&
                !(isa<ReduceOp>(op) && operand == cast<ReduceOp>(op).getInit()))
              read(operand);
        SmallVector<Value> next(carried);
        for (Operation *op : ops) {
          if (auto reduce = dyn_cast<ReduceOp>(op)) {
            Value value = widen(read(reduce.getTile()), at.lanes);
            auto position = llvm::find(reductions, reduce);
            if (position != reductions.end()) {
              Value &accumulator = next[position - reductions.begin()];
              accumulator = combine(reduce.getKind(), accumulator, value);
            } else {
              reduceLanes(reduce, value, outputs[reduce.getResult()], at);
            }
            continue;
          }
          Value result;
          if (auto map = dyn_cast<MapOp>(op))
            result = evaluateMap(map, at, read);
          else if (auto splat = dyn_cast<SplatOp>(op))
            result = lookup(splat.getValue());
          else if (auto dropout = dyn_cast<DropoutOp>(op))
            result = drop(dropout, read(dropout.getTile()), random[op], innerSize, at);
          else
            result = read(op->getOperand(0));
          current[op->getResult(0)] = result;
          if (outputs.contains(op->getResult(0))) {
            Value index = at.type.rank() == 2 ? add(mul(i, constI64(innerSize)), j) : j;
            storeScratch(result, outputs[op->getResult(0)], cast<TileType>(op->getResult(0).getType()).getElementType(),
                         index, at.lanes);
          }
        }
        return next;
      });
      for (auto [reduce, value] : llvm::zip(reductions, accumulators))
        storeScratch(value, outputs[reduce.getResult()], reduce.getType().getElementType(), j, at.lanes);
    });

    for (auto [value, offset] : outputs) {
      auto type = cast<TileType>(value.getType());
      define(value, offset, type.rank() == 1 ? Listed : orderOf(type), !target.contains(value));
    }
    for (auto [op, offset] : random)
      release(offset, at.type.numElements() * 2);
  }

  /// Whether an element of the whole tile meets the condition.
  void lowerAny(AnyOp op) {
    Position at;
    at.type = op.getTile().getType();
    at.innerIndex = innerAxis(at.type);
    int64_t innerSize = at.type.getShape()[at.innerIndex];
    int64_t outerSize = at.type.rank() == 2 ? at.type.getShape()[1 - at.innerIndex] : 1;
    at.lanes = lanesFor(innerSize);
    Value none = arith::ConstantOp::create(b, b.getBoolAttr(false));
    SmallVector<Value> found = loop(innerSize, at.lanes, none, [&](Value j, ValueRange outer) {
      at.inner = j;
      return loop(outerSize, 1, outer, [&](Value i, ValueRange carried) -> SmallVector<Value> {
        at.outer = i;
        Block &body = op.getBody().front();
        values[body.getArgument(0)] = readTile(op.getTile(), at);
        for (Operation &inner : body.without_terminator())
          lowerScalarOp(&inner);
        Value met = lookup(body.getTerminator()->getOperand(0));
        if (isa<VectorType>(met.getType()))
          met = vector::ReductionOp::create(b, vector::CombiningKind::OR, met);
        return {arith::OrIOp::create(b, carried[0], met)};
      });
    });
    values[op.getResult()] = found[0];
  }

  /// Combines one vector into the element of its row.
  void reduceLanes(ReduceOp reduce, Value value, int64_t offset, const Position &at) {
    Type element = reduce.getType().getElementType();
    Value scalar = value;
    if (at.lanes > 1 && isa<FloatType>(element) && reduce.getKind() == Reduction::Max) {
      Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
      Value clean = select(isNan, identityOf(Reduction::Max, value.getType()), value);
      scalar = vector::ReductionOp::create(b, vector::CombiningKind::MAXNUMF, clean);
    } else if (at.lanes > 1) {
      scalar = vector::ReductionOp::create(
          b, reduce.getKind() == Reduction::Max ? vector::CombiningKind::MAXSI : vector::CombiningKind::ADD, value,
          arith::FastMathFlags::reassoc);
    }
    Value current = loadScratch(offset, element, at.outer, 1);
    storeScratch(combine(reduce.getKind(), current, scalar), offset, element, at.outer, 1);
  }

  //===--------------------------------------------------------------------===//
  // Dropout
  //===--------------------------------------------------------------------===//

  /// Zero where the random number is below the threshold.
  Value drop(DropoutOp op, Value value, int64_t random, int64_t innerSize, const Position &at) {
    Type i16 = b.getI16Type();
    Value index = add(mul(at.outer, constI64(innerSize)), at.inner);
    Value number = loadScratch(random, i16, index, at.lanes);
    Value threshold = arith::TruncIOp::create(b, i16, lookup(op.getThreshold()));
    Value keep = compare(arith::CmpIPredicate::uge, number, widen(threshold, at.lanes));
    value = widen(value, at.lanes);
    return select(keep, value, zeroOf(value.getType()));
  }

  /// Writes each element's 16 random bits, in the order of the tile. Lanes 0-7 and 8-15 of a Philox call hold g = 0..7
  /// of two neighbouring pairs of keys (c, c + 1), so two calls fill a 16 x 16 block.
  int64_t randomNumbers(DropoutOp op) {
    TileType type = op.getType();
    int64_t rows = type.size("q"), columns = type.size("k");
    Type i16 = b.getI16Type();
    int64_t offset = allocate(rows * columns * 2);
    auto v16 = VectorType::get({16}, i32);
    auto vector = [&](function_ref<int32_t(int)> element) -> Value {
      SmallVector<int32_t> lanes;
      for (int i = 0; i < 16; ++i)
        lanes.push_back(element(i));
      return arith::ConstantOp::create(b, DenseElementsAttr::get(v16, ArrayRef(lanes)));
    };
    auto low = [&](Value x) -> Value { return arith::TruncIOp::create(b, i32, x); };
    auto high = [&](Value x) -> Value { return low(arith::ShRUIOp::create(b, x, constI64(32))); };
    Value seed = lookup(op.getSeed()), counterOffset = lookup(op.getOffset());
    Value key0 = low(seed), key1 = arith::XOrIOp::create(b, high(seed), high(counterOffset));
    Value counter2 = widen(lookup(op.getHead()), 16), counter3 = widen(low(counterOffset), 16);
    auto blockBase = [&](Value origin, int32_t perBlock) {
      return mul(arith::ShRSIOp::create(b, origin, constI32(4)), constI32(perBlock));
    };
    Value q0 = blockBase(lookup(op.getQ0()), 8), k0 = blockBase(lookup(op.getK0()), 4);

    loop(rows, 16, [&](Value row) {
      Value rowBase = add(q0, arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, row, constI64(1))));
      Value counter0 = add(widen(rowBase, 16), vector([](int lane) { return lane & 7; }));
      loop(columns, 16, [&](Value column) {
        Value columnBase = add(k0, arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, column, constI64(2))));
        SmallVector<Value> words[2];
        for (int half = 0; half < 2; ++half) {
          Value counter1 = add(widen(columnBase, 16), vector([&](int lane) { return 2 * half + (lane >> 3); }));
          words[half] = philox({counter0, counter1, counter2, counter3}, key0, key1);
        }
        for (int k = 0; k < 16; ++k) {
          int pair = (k & 7) >> 1, word = 2 * (k & 1) + (k >> 3);
          SmallVector<int64_t> lanes;
          for (int lane = 0; lane < 16; ++lane)
            lanes.push_back((pair & 1) * 8 + (lane & 7));
          Value bits = words[pair >> 1][word];
          bits = vector::ShuffleOp::create(b, bits, bits, lanes);
          bits = arith::ShRUIOp::create(b, bits, vector([](int lane) { return lane < 8 ? 0 : 16; }));
          bits = arith::TruncIOp::create(b, VectorType::get({16}, i16), bits);
          Value index = add(mul(add(column, constI64(k)), constI64(rows)), row);
          storeAt(bits, scratchAt(offset, i16, index), 32);
        }
      });
    });
    if (type.axis(innerAxis(type)) == "q")
      return offset;
    int64_t turned = allocate(rows * columns * 2);
    transpose(offset, turned, columns, rows, i16);
    release(offset, rows * columns * 2);
    return turned;
  }

  /// Philox 4x32 with 7 rounds (Salmon et al., 2011) on 16 counters.
  SmallVector<Value> philox(std::array<Value, 4> counter, Value key0, Value key1) {
    auto v16 = VectorType::get({16}, i32);
    Value multiplier0 = constant(b.getI32IntegerAttr(int32_t(0xD2511F53)), v16);
    Value multiplier1 = constant(b.getI32IntegerAttr(int32_t(0xCD9E8D57)), v16);
    auto [c0, c1, c2, c3] = counter;
    for (int round = 0; round < 7; ++round) {
      auto product0 = arith::MulUIExtendedOp::create(b, c0, multiplier0);
      auto product1 = arith::MulUIExtendedOp::create(b, c2, multiplier1);
      auto mix = [&](Value x, Value y, Value key) -> Value {
        return arith::XOrIOp::create(b, arith::XOrIOp::create(b, x, y), widen(key, 16));
      };
      c0 = mix(product1.getHigh(), c1, key0);
      c1 = product1.getLow();
      c2 = mix(product0.getHigh(), c3, key1);
      c3 = product0.getLow();
      key0 = add(key0, constI32(int32_t(0x9E3779B9)));
      key1 = add(key1, constI32(int32_t(0xBB67AE85)));
    }
    return {c0, c1, c2, c3};
  }

  //===--------------------------------------------------------------------===//
  // Global memory
  //===--------------------------------------------------------------------===//

  /// Rows of the tile that lie below the limit.
  Value validRows(Value limit, Value firstRow, int64_t rows) {
    Value left = arith::SubIOp::create(b, toI64(limit), toI64(firstRow));
    return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, left, constI64(rows)), constI64(0));
  }

  /// Columns [begin, begin + lanes) in pieces of the vector width and then of smaller powers of two.
  void forPieces(int64_t begin, int64_t end, function_ref<void(Value column, int64_t lanes)> body) {
    int64_t lanes = host.lanes, whole = (end - begin) / lanes * lanes;
    if (whole > 0)
      loop(constI64(begin), constI64(begin + whole), constI64(lanes), {}, [&](Value column, ValueRange) {
        body(column, lanes);
        return SmallVector<Value>();
      });
    for (int64_t column = begin + whole; column < end;) {
      while (lanes > end - column)
        lanes /= 2;
      body(constI64(column), lanes);
      column += lanes;
    }
  }

  void lowerLoad(tile::LoadOp op) {
    TileType type = op.getType();
    const Memory memory = memoryOf(op.getView());
    SmallVector<Value> indices;
    for (Value index : op.getIndices())
      indices.push_back(lookup(index));
    Value base = addressOf(memory, indices);
    int64_t rows = type.getShape()[0];
    Value valid = validRows(lookup(op.getLimit()), indices.back(), rows);
    Type element = type.getElementType();
    Value rowStride = memory.strides[indices.size() - 1];
    int64_t offset = allocate(bytesOf(type));
    if (readsInPlace(op, memory)) {
      // Whole tiles are read where they are. Where a product runs down the rows, distant rows would share the sets of
      // the cache: they are packed.
      Value whole = compare(arith::CmpIPredicate::eq, valid, constI64(rows));
      if (!runsAlongRows(op))
        whole =
            arith::AndIOp::create(b, whole, compare(arith::CmpIPredicate::eq, rowStride, constI64(type.getShape()[1])));
      auto copied =
          scf::IfOp::create(b, arith::XOrIOp::create(b, whole, arith::ConstantOp::create(b, b.getBoolAttr(true))),
                            /*withElseRegion=*/false);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPoint(copied.thenBlock()->getTerminator());
        copyRows(op, memory, base, rowStride, valid, offset);
      }
      define(op, offset, Listed);
      Storage &tile = storage[op.getResult()];
      tile.base = LLVM::SelectOp::create(b, whole, base, offsetBytes(scratch, offset));
      tile.rowStride = select(whole, rowStride, constI64(type.getShape()[1]));
      return;
    }
    if (type.rank() == 1) {
      loop(constI64(0), valid, [&](Value i) {
        storeScratch(
            widenElement(loadGlobal(offsetElements(base, memory.element, mul(i, rowStride)), memory.element, 1),
                         memory.element),
            offset, element, i, 1);
      });
      loop(valid, constI64(rows), [&](Value i) { storeScratch(zeroOf(valueType(element)), offset, element, i, 1); });
      define(op, offset, Listed);
      return;
    }
    copyRows(op, memory, base, rowStride, valid, offset);
    define(op, offset, Listed);
    // Where only the reverse order is needed, the listed one was a step on the way.
    if (needed.lookup(op) == (1u << Reversed) && !usedInAnyOrder(op)) {
      release(offset, bytesOf(type));
      storage[op.getResult()].offset[Listed] = -1;
    }
  }

  /// Whether every reader is a product that takes single elements of whole f32 rows.
  bool readsInPlace(tile::LoadOp op, const Memory &memory) {
    return op.getType().rank() == 2 && memory.unitStride && memory.columns == op.getType().getShape()[1] &&
           memory.element.isF32() && needed.lookup(op) == 0 && usedInAnyOrder(op);
  }

  /// Whether products sum over the columns of `op`'s tile.
  bool runsAlongRows(tile::LoadOp op) {
    return llvm::all_of(op->getUsers(),
                        [&](Operation *user) { return !cast<MmaOp>(user).getType().hasAxis(op.getType().axis(1)); });
  }

  /// The first `valid` rows of a view's tile to scratch memory, and zeros below and right of them.
  void copyRows(tile::LoadOp op, const Memory &memory, Value base, Value rowStride, Value valid, int64_t offset) {
    TileType type = op.getType();
    Type element = type.getElementType(), stored = storedType(element);
    int64_t rows = type.getShape()[0], columns = type.getShape()[1];
    Value columnCount = constI64(columns);
    auto zeroRow = [&](Value i, int64_t begin) {
      forPieces(begin, columns, [&](Value column, int64_t lanes) {
        storeAt(zeroOf(vectorOf(stored, lanes)), scratchAt(offset, stored, add(mul(i, columnCount), column)),
                bytesOf(stored));
      });
    };
    if (memory.unitStride && memory.columns >= 0) {
      int64_t filled = std::min(memory.columns, columns);
      loop(constI64(0), valid, [&](Value i) {
        Value row = offsetElements(base, memory.element, mul(i, rowStride));
        forPieces(0, filled, [&](Value column, int64_t lanes) {
          Value value = loadGlobal(offsetElements(row, memory.element, column), memory.element, lanes);
          storeAt(value, scratchAt(offset, stored, add(mul(i, columnCount), column)), bytesOf(stored));
        });
        zeroRow(i, filled);
      });
    } else {
      Value filled = arith::MinSIOp::create(b, memory.extents.back(), columnCount);
      filled = arith::MaxSIOp::create(b, filled, constI64(0));
      loop(constI64(0), valid, [&](Value i) {
        Value row = offsetElements(base, memory.element, mul(i, rowStride));
        loop(constI64(0), filled, [&](Value column) {
          Value address = offsetElements(row, memory.element, mul(column, memory.strides.back()));
          storeScratch(widenElement(loadGlobal(address, memory.element, 1), memory.element), offset, element,
                       add(mul(i, columnCount), column), 1);
        });
        loop(filled, columnCount, [&](Value column) {
          storeScratch(zeroOf(valueType(element)), offset, element, add(mul(i, columnCount), column), 1);
        });
      });
    }
    loop(valid, constI64(rows), [&](Value i) { zeroRow(i, 0); });
  }

  /// i8 in memory is a bool where the tile says i1.
  Value widenElement(Value value, Type element) {
    if (element.isInteger(8))
      return compare(arith::CmpIPredicate::ne, value, zeroOf(value.getType()));
    return value;
  }

  /// Whether a product reads `value` one element at a time.
  bool usedInAnyOrder(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto mma = dyn_cast<MmaOp>(user);
      if (!mma)
        return false;
      TileType result = mma.getType();
      return !cast<TileType>(value.getType()).hasAxis(result.axis(innerAxis(result)));
    });
  }

  void lowerStore(Operation *op, Value tileValue, Value view, ValueRange indexOperands, Value limit, bool optional,
                  bool atomic) {
    auto type = cast<TileType>(tileValue.getType());
    const Memory memory = memoryOf(view);
    if (optional) {
      Value isSet = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, memory.base, LLVM::ZeroOp::create(b, pointer));
      auto guarded = scf::IfOp::create(b, isSet, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(guarded.thenBlock()->getTerminator());
      return lowerStore(op, tileValue, view, indexOperands, limit, false, atomic);
    }
    SmallVector<Value> indices;
    for (Value index : indexOperands)
      indices.push_back(lookup(index));
    Value base = addressOf(memory, indices);
    Value valid = validRows(lookup(limit), indices.back(), type.getShape()[0]);
    Value rowStride = memory.strides[indices.size() - 1];
    Type element = type.getElementType();
    int64_t offset = ensure(tileValue, Listed);
    auto write = [&](Value value, Value address) {
      if (atomic)
        LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::fadd, address, value, LLVM::AtomicOrdering::monotonic);
      else if (memory.element.isInteger(8) && value.getType().isInteger(1))
        storeAt(arith::ExtUIOp::create(b, i8, value), address, 1);
      else
        storeGlobal(value, address, memory.element);
    };
    if (type.rank() == 1) {
      loop(constI64(0), valid, [&](Value i) {
        write(loadScratch(offset, element, i, 1), offsetElements(base, memory.element, mul(i, rowStride)));
      });
      return;
    }
    int64_t columns = type.getShape()[1];
    bool vectors = memory.unitStride && memory.columns >= 0 && !atomic;
    loop(constI64(0), valid, [&](Value i) {
      Value row = offsetElements(base, memory.element, mul(i, rowStride));
      Value start = mul(i, constI64(columns));
      if (vectors) {
        forPieces(0, std::min(memory.columns, columns), [&](Value column, int64_t lanes) {
          Type stored = storedType(element);
          Value value = loadAt(scratchAt(offset, stored, add(start, column)), vectorOf(stored, lanes), bytesOf(stored));
          storeGlobal(value, offsetElements(row, memory.element, column), memory.element);
        });
        return;
      }
      Value end = arith::MinSIOp::create(b, memory.extents.back(), constI64(columns));
      loop(constI64(0), end, [&](Value column) {
        write(loadScratch(offset, element, add(start, column), 1),
              offsetElements(row, memory.element, mul(column, memory.strides.back())));
      });
    });
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// result[r][c] = acc[r][c] + sum_z broadcast[r, z] * lanes[z][c], in register tiles of `rows` x `vectors`.
  void lowerMma(MmaOp op) {
    TileType result = op.getType();
    unsigned inner = innerAxis(result);
    StringRef laneName = result.axis(inner), rowName = result.axis(1 - inner);
    Value laneOperand = op.getLhs().getType().hasAxis(laneName) ? op.getLhs() : op.getRhs();
    Value rowOperand = laneOperand == op.getLhs() ? op.getRhs() : op.getLhs();
    auto laneType = cast<TileType>(laneOperand.getType()), rowType = cast<TileType>(rowOperand.getType());
    StringRef depthName = laneType.axis(1 - laneType.findAxis(laneName));
    int64_t depth = laneType.size(depthName), columns = result.size(laneName), rows = result.size(rowName);

    int64_t laneOffset = ensure(laneOperand, orderWithInner(laneType, laneType.findAxis(laneName)));
    Order rowOrder = storage.find(rowOperand)->second.any();
    int64_t rowOffset = storage.find(rowOperand)->second.offset[rowOrder];
    // Strides of the broadcast operand: its last axis in memory is contiguous.
    StringRef contiguous = rowType.axis(rowOrder == Listed ? 1 : 0);
    Value apart = constI64(rowType.size(contiguous)), next = constI64(1);
    Value rowBase = offsetBytes(scratch, rowOffset);
    if (const Storage &source = storage.find(rowOperand)->second; source.base && rowOrder == Listed) {
      rowBase = source.base;
      apart = source.rowStride;
    }
    Value rowStride = contiguous == rowName ? next : apart, depthStride = contiguous == rowName ? apart : next;

    MapOp scaling;
    if (op.getAcc())
      if (auto map = op.getAcc().getDefiningOp<MapOp>(); map && deferred.contains(map))
        scaling = map;
    int64_t to;
    if (op.getAcc() && !scaling) {
      to = target.contains(op) ? storage[target[op]].offset[orderOf(result)]
           : llvm::is_contained(dyingNow, op.getAcc()) && op.getAcc() != op.getLhs() && op.getAcc() != op.getRhs()
               ? allocateAccumulator(op)
               : allocate(bytesOf(result));
    } else {
      to = target.contains(op) ? storage[target[op]].offset[orderOf(result)] : allocate(bytesOf(result));
    }

    int64_t lanes = lanesFor(columns), vectorsInRow = columns / lanes;
    int64_t budget = host.registers >= 32 ? 24 : 12;
    int64_t vectors = 1;
    for (int64_t n = 2; n <= (host.registers >= 32 ? 6 : 3); ++n)
      if (vectorsInRow % n == 0)
        vectors = n;
    int64_t most = std::min<int64_t>(budget / vectors, 14), tileRows = std::min(most, rows);
    // Prefer a height that divides the rows, if it is not much smaller.
    for (int64_t n = tileRows; 3 * n >= 2 * tileRows; --n)
      if (rows % n == 0) {
        tileRows = n;
        break;
      }

    auto block = [&](Value row, int64_t count, Value column) {
      Position at;
      at.type = result;
      at.innerIndex = inner;
      at.lanes = lanes;
      SmallVector<Value> accumulators;
      auto outIndex = [&](int64_t r, int64_t v) {
        return add(mul(add(row, constI64(r)), constI64(columns)), add(column, constI64(v * lanes)));
      };
      for (int64_t r = 0; r < count; ++r)
        for (int64_t v = 0; v < vectors; ++v) {
          at.outer = add(row, constI64(r));
          at.inner = add(column, constI64(v * lanes));
          if (scaling)
            accumulators.push_back(
                widen(evaluateMap(scaling, at, [&](Value input) { return readTile(input, at); }), lanes));
          else if (op.getAcc())
            accumulators.push_back(readTile(op.getAcc(), at));
          else
            accumulators.push_back(zeroOf(vectorOf(f32, lanes)));
        }
      accumulators = loop(depth, 1, accumulators, [&](Value z, ValueRange carried) {
        SmallVector<Value> next, panel;
        for (int64_t v = 0; v < vectors; ++v)
          panel.push_back(
              loadScratch(laneOffset, f32, add(mul(z, constI64(columns)), add(column, constI64(v * lanes))), lanes));
        for (int64_t r = 0; r < count; ++r) {
          Value index = add(mul(add(row, constI64(r)), rowStride), mul(z, depthStride));
          Value scalar = widen(loadAt(offsetElements(rowBase, f32, index), f32, 4), lanes);
          for (int64_t v = 0; v < vectors; ++v)
            next.push_back(math::FmaOp::create(b, scalar, panel[v], carried[r * vectors + v]));
        }
        return next;
      });
      for (int64_t r = 0; r < count; ++r)
        for (int64_t v = 0; v < vectors; ++v)
          storeScratch(accumulators[r * vectors + v], to, f32, outIndex(r, v), lanes);
    };
    loop(columns, vectors * lanes, [&](Value column) {
      int64_t whole = rows / tileRows * tileRows;
      loop(whole, tileRows, [&](Value row) { block(row, tileRows, column); });
      if (whole < rows)
        block(constI64(whole), rows - whole, column);
    });
    define(op, to, orderOf(result), !target.contains(op));
  }

  /// The accumulator's own memory where this product is its last reader.
  int64_t allocateAccumulator(MmaOp op) {
    auto found = storage.find(op.getAcc());
    Order order = orderOf(op.getType());
    if (!found->second.owned || found->second.offset[order] < 0)
      return allocate(bytesOf(op.getType()));
    moved.push_back({op.getAcc(), order});
    return found->second.offset[order];
  }

  //===--------------------------------------------------------------------===//
  // Loops over a domain
  //===--------------------------------------------------------------------===//

  /// Whether any block of the pattern that the tile touches is set.
  Value lowerTouches(TouchesOp op) {
    const Memory memory = memoryOf(op.getView());
    SmallVector<Value> indices;
    for (Value index : op.getIndices())
      indices.push_back(toI64(lookup(index)));
    unsigned rank = memory.extents.size();
    auto limited = [&](Value index, unsigned dim) -> Value {
      Value last = arith::SubIOp::create(b, memory.extents[dim], constI64(1));
      return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, index, last), constI64(0));
    };
    Value base = constI64(0);
    for (unsigned dim = 0; dim + 2 < rank; ++dim)
      base = add(base, mul(limited(indices[dim], dim), memory.strides[dim]));
    auto range = [&](int64_t count, int64_t block, unsigned dim) {
      Value begin = arith::DivSIOp::create(b, indices[dim], constI64(block));
      Value last = arith::DivSIOp::create(b, add(indices[dim], constI64(count - 1)), constI64(block));
      return std::pair(limited(begin, dim), add(limited(last, dim), constI64(1)));
    };
    auto [rowBegin, rowEnd] = range(op.getTileRows(), op.getRows(), rank - 2);
    auto [columnBegin, columnEnd] = range(op.getTileColumns(), op.getColumns(), rank - 1);
    Value none = zeroOf(i8);
    SmallVector<Value> found = loop(rowBegin, rowEnd, constI64(1), none, [&](Value i, ValueRange outer) {
      return loop(columnBegin, columnEnd, constI64(1), outer, [&](Value j, ValueRange inner) -> SmallVector<Value> {
        Value offset = add(base, add(mul(i, memory.strides[rank - 2]), mul(j, memory.strides[rank - 1])));
        Value flag = loadAt(offsetElements(memory.base, i8, offset), i8, 1);
        return {arith::OrIOp::create(b, inner[0], flag)};
      });
    });
    return compare(arith::CmpIPredicate::ne, found[0], none);
  }

  void lowerForBlocks(ForBlocksOp op) {
    auto domain = op.getDomain().getDefiningOp<DomainOp>();
    if (!domain)
      return fail(op, "its domain is not a tile.domain");
    // Carried tiles have memory of their own; carried scalars are values of the loops.
    SmallVector<Value> scalars;
    SmallVector<unsigned> scalarIndex;
    for (auto [i, init] : llvm::enumerate(op.getInits())) {
      auto type = dyn_cast<TileType>(init.getType());
      if (!type) {
        scalars.push_back(lookup(init));
        scalarIndex.push_back(i);
        continue;
      }
      Order order = type.rank() == 1 ? Listed : orderOf(type);
      int64_t from = ensure(init, order), to;
      auto found = storage.find(init);
      bool repeated =
          llvm::count_if(init.getUses(), [&](OpOperand &use) { return op->isAncestor(use.getOwner()); }) > 1;
      if (found->second.owned && llvm::is_contained(dyingNow, init) && !repeated && from >= 0) {
        to = std::exchange(found->second.offset[order], -1);
      } else {
        to = allocate(bytesOf(type));
        copy(from, to, bytesOf(type));
      }
      Storage carried;
      carried.type = type;
      carried.owned = false;
      carried.offset[order] = to;
      storage[op.getCarried()[i]] = carried;
    }

    size_t count = domain.getBegins().size();
    auto pick = [&](Value segment, function_ref<Value(size_t)> value) {
      Value picked = value(0);
      for (size_t i = 1; i < count; ++i)
        picked = select(compare(arith::CmpIPredicate::eq, segment, constI64(i)), value(i), picked);
      return picked;
    };
    SmallVector<Value> begins, ends;
    for (auto [begin, end] : llvm::zip(domain.getBegins(), domain.getEnds())) {
      begins.push_back(toI64(lookup(begin)));
      ends.push_back(toI64(lookup(end)));
    }
    SmallVector<Value> results = loop(int64_t(count), 1, scalars, [&](Value counter, ValueRange outer) {
      Value segment = domain.getReverse() ? Value(arith::SubIOp::create(b, constI64(count - 1), counter)) : counter;
      Value begin = pick(segment, [&](size_t i) { return begins[i]; });
      Value end = pick(segment, [&](size_t i) { return ends[i]; });
      Value partial = pick(segment, [&](size_t i) -> Value {
        return arith::ConstantOp::create(b, b.getBoolAttr(!domain.getFull()[i]));
      });
      return loop(begin, end, constI64(1), outer, [&](Value n, ValueRange inner) {
        if (domain.getReverse())
          n = arith::SubIOp::create(b, arith::SubIOp::create(b, add(begin, end), constI64(1)), n);
        Value first = arith::TruncIOp::create(b, i32, mul(n, constI64(domain.getStep())));
        if (domain.getWhere().empty())
          return lowerIteration(op, first, partial, inner, scalarIndex);
        values[domain.getWhere().getArgument(0)] = arith::TruncIOp::create(b, i32, n);
        for (Operation &asked : domain.getWhere().front().without_terminator())
          lowerScalarOp(&asked);
        Value mixed =
            arith::XOrIOp::create(b, lookup(domain.getFullWhere()), arith::ConstantOp::create(b, b.getBoolAttr(true)));
        partial = arith::OrIOp::create(b, partial, mixed);
        auto visit = scf::IfOp::create(b, inner.getTypes(), lookup(domain.getVisible()), !inner.empty());
        OpBuilder::InsertionGuard guard(b);
        if (inner.empty()) {
          b.setInsertionPoint(visit.thenBlock()->getTerminator());
          lowerIteration(op, first, partial, inner, scalarIndex);
        } else {
          b.setInsertionPointToStart(visit.thenBlock());
          scf::YieldOp::create(b, lowerIteration(op, first, partial, inner, scalarIndex));
          b.setInsertionPointToStart(visit.elseBlock());
          scf::YieldOp::create(b, inner);
        }
        return llvm::to_vector(ValueRange(visit.getResults()));
      });
    });
    for (auto [i, index] : llvm::enumerate(scalarIndex))
      values[op.getResult(index)] = results[i];
    for (auto [result, carried] : llvm::zip(op.getResults(), op.getCarried()))
      if (auto type = dyn_cast<TileType>(result.getType())) {
        Order order = type.rank() == 1 ? Listed : orderOf(type);
        define(result, storage.find(carried)->second.offset[order], order);
      }
  }

  SmallVector<Value> lowerIteration(ForBlocksOp op, Value first, Value partial, ValueRange scalars,
                                    ArrayRef<unsigned> scalarIndex) {
    values[op.getOrigin()] = first;
    values[op.getPartial()] = partial;
    for (auto [i, index] : llvm::enumerate(scalarIndex))
      values[op.getCarried()[index]] = scalars[i];
    // Orders of a carried tile that the body needs besides its own.
    SmallVector<std::pair<Value, Order>> extra;
    for (Value carried : op.getCarried())
      if (auto type = dyn_cast<TileType>(carried.getType()); type && type.rank() == 2)
        if (Order other = Order(1 - orderOf(type)); needed.lookup(carried) & (1u << other)) {
          ensure(carried, other);
          extra.push_back({carried, other});
        }
    SmallVector<Value> saved = dyingNow;
    SmallVector<std::pair<Value, Order>> savedMoved = moved;
    DenseMap<Value, Value> savedTarget = target;
    lowerBlock(op.getBody().front());
    dyingNow = saved;
    moved = savedMoved;
    target = savedTarget;

    // The next values take the place of the carried ones; a carried tile that moves to another place is saved first.
    struct Move {
      int64_t from, to, bytes, temporary;
    };
    SmallVector<Move> moves;
    SmallVector<Value> next;
    for (auto [carried, value] : llvm::zip(op.getCarried(), op.getYield().getValues())) {
      auto type = dyn_cast<TileType>(carried.getType());
      if (!type) {
        next.push_back(lookup(value));
        continue;
      }
      Order order = type.rank() == 1 ? Listed : orderOf(type);
      int64_t from = ensure(value, order), to = storage.find(carried)->second.offset[order];
      if (from != to)
        moves.push_back({from, to, bytesOf(type), -1});
    }
    for (Move &move : moves)
      if (llvm::any_of(moves, [&](const Move &other) { return other.to == move.from; })) {
        move.temporary = allocate(move.bytes);
        copy(move.from, move.temporary, move.bytes);
      }
    for (const Move &move : moves)
      copy(move.temporary >= 0 ? move.temporary : move.from, move.to, move.bytes);
    for (const Move &move : moves)
      if (move.temporary >= 0)
        release(move.temporary, move.bytes);
    for (auto [carried, order] : extra) {
      Storage &tile = storage[carried];
      release(std::exchange(tile.offset[order], -1), bytesOf(tile.type));
    }
    llvm::SmallSetVector<Value, 8> yielded(op.getYield().getValues().begin(), op.getYield().getValues().end());
    for (Value value : yielded)
      if (value.getDefiningOp() && value.getDefiningOp()->getBlock() == &op.getBody().front())
        release(value);
    return next;
  }

  void copy(int64_t from, int64_t to, int64_t bytes) {
    int64_t lanes = lanesFor(bytes / 4);
    if (bytes % 4 == 0) {
      loop(bytes / 4, lanes, [&](Value i) { storeScratch(loadScratch(from, f32, i, lanes), to, f32, i, lanes); });
      return;
    }
    loop(bytes, 1, [&](Value i) { storeScratch(loadScratch(from, i8, i, 1), to, i8, i, 1); });
  }

  KernelOp kernel;
  const KernelSignature &signature; ///< of the launch
  const HostVectors &host;
  ImplicitLocOpBuilder b;
  Type f32, i32, i64, i8, pointer;
  Block *entry = nullptr;
  Value params, origin, scratch, paramEnd;
  StringRef laneAxis;
  std::string problem;

  DenseMap<Value, unsigned> needed; ///< orders that ops need, as bits
  DenseMap<Value, Storage> storage; ///< tiles in memory
  DenseMap<Value, Value> values;    ///< scalars, and elements inside maps
  llvm::StringMap<Value> scalarParams;
  llvm::StringMap<Value> extents;
  std::map<std::string, Memory, std::less<>> memories;
  DenseSet<Operation *> deferred;             ///< maps evaluated where a product reads its accumulator
  SmallVector<Value> dyingNow;                ///< tiles that the current step is the last to read
  DenseMap<Value, Value> target;              ///< results of the current step that overwrite a carried tile
  std::set<int64_t> taken;                    ///< memory that the current step's results took over
  SmallVector<std::pair<Value, Order>> moved; ///< tiles whose memory that was
  std::map<int64_t, SmallVector<int64_t>> freeList;
  int64_t scratchEnd = 0, emptyTensor = -1;
};

} // namespace

Expected<LoweredModule> attune::lowerTile(ArrayRef<LaunchedKernel> kernels, const HostVectors &host) {
  const KernelSignature signature = signatureOf(kernels);
  LoweredModule lowered;
  lowered.module = ModuleOp::create(kernels.front().op->getLoc());
  for (LaunchedKernel kernel : kernels) {
    Expected<size_t> bytes = Lowering(cast<KernelOp>(kernel.op), signature, *lowered.module, host).run();
    if (!bytes)
      return bytes.error();
    lowered.scratchBytes.push_back(*bytes);
  }
  return lowered;
}
