//===- FromVariant.cpp - From the expression graph to attn ------------------===//

#include "ir/attn/FromVariant.h"
#include "ir/attn/Attn.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <map>
#include <tuple>

using namespace mlir;
using namespace attune;

namespace {

using Op = attune::Op; // not mlir::Op

Type irType(MLIRContext &context, DType type) {
  Builder builder(&context);
  switch (type) {
  case DType::F32:
    return builder.getF32Type();
  case DType::F16:
    return builder.getF16Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::I32:
    return builder.getI32Type();
  case DType::I64:
    return builder.getI64Type();
  case DType::Bool:
    return builder.getI1Type();
  }
  llvm_unreachable("unknown dtype");
}

/// Fills one region with the ops of an expression.
class RegionBuilder {
public:
  /// Starts a score region, which takes (s, b, h, q, k), or a mask region, which takes (b, h, q, k).
  RegionBuilder(Region &region, Location outer, bool takesScore) : builder(region.getContext()), outer(outer) {
    SmallVector<Type> types(4, builder.getI32Type());
    if (takesScore)
      types.insert(types.begin(), builder.getF32Type());
    Block *block = builder.createBlock(&region, {}, types, SmallVector<Location>(types.size(), outer));
    if (takesScore)
      score = block->getArgument(0);
    coordinates = block->getArguments().take_back(4);
  }

  /// Starts a region of a normaliser, which takes b, h and one f32 for each of `names`. The expression refers to the
  /// f32 arguments as run-time scalars of the same names.
  RegionBuilder(Region &region, Location outer, ArrayRef<std::string> names)
      : builder(region.getContext()), outer(outer) {
    SmallVector<Type> types(2, builder.getI32Type());
    types.append(names.size(), builder.getF32Type());
    Block *block = builder.createBlock(&region, {}, types, SmallVector<Location>(types.size(), outer));
    coordinates = block->getArguments().take_front(2);
    for (auto [name, value] : llvm::zip(names, block->getArguments().drop_front(2)))
      values[name] = value;
  }

  void yield(const Expr &root) {
    Value value = build(root.ref().get());
    attn::YieldOp::create(builder, loc, value);
  }

private:
  /// Nodes with equal keys compute the same value. The fields are the node's operation, type, operands and name, and an
  /// integer: the bits of a constant, which coordinate or extent is read, or the SearchSide of a search.
  using Key = std::tuple<Op, DType, std::vector<const void *>, std::string, int64_t>;

  Value build(const Node *node) {
    if (auto known = ofNode.find(node); known != ofNode.end())
      return known->second;
    SmallVector<Value> operands;
    std::vector<const void *> pointers;
    for (const NodeRef &operand : node->operands) {
      operands.push_back(build(operand.get()));
      pointers.push_back(operands.back().getAsOpaquePointer());
    }
    int64_t data = node->intValue;
    if (node->op == Op::Constant && node->type == DType::F32)
      data = llvm::bit_cast<uint32_t>(node->floatValue);
    else if (node->op == Op::Coordinate)
      data = int64_t(node->coordinate);
    else if (node->op == Op::Extent)
      data = int64_t(node->extent);
    else if (node->op == Op::Search)
      data = int64_t(node->side);
    Value &value = ofKey[Key(node->op, node->type, std::move(pointers), node->name, data)];
    if (!value) {
      loc = location(*node);
      value = emit(*node, operands);
    }
    return ofNode[node] = value;
  }

  Location location(const Node &node) {
    if (!node.where.known())
      return outer;
    return FileLineColLoc::get(builder.getContext(), node.where.file, node.where.line, node.where.column);
  }

  Value constant(Type type, int64_t value) {
    Value &known = integers[{type.getAsOpaquePointer(), value}];
    if (!known)
      known = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, value));
    return known;
  }
  Value constant(float value) {
    Value &known = floats[llvm::bit_cast<uint32_t>(value)];
    if (!known)
      known = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
    return known;
  }

  template <typename OpTy, typename... Args> Value make(Args &&...args) {
    return OpTy::create(builder, loc, std::forward<Args>(args)...);
  }

  template <typename FloatOp, typename IntOp> Value arithmetic(ValueRange x) {
    return isa<FloatType>(x[0].getType()) ? make<FloatOp>(x[0], x[1]) : make<IntOp>(x[0], x[1]);
  }

  Value compare(ValueRange x, arith::CmpFPredicate ofFloats, arith::CmpIPredicate ofIntegers) {
    return isa<FloatType>(x[0].getType()) ? make<arith::CmpFOp>(ofFloats, x[0], x[1])
                                          : make<arith::CmpIOp>(ofIntegers, x[0], x[1]);
  }

  Value negate(Value x) { return make<arith::SubIOp>(constant(x.getType(), 0), x); }

  /// x / y or x % y of integers: 0 for y = 0; the smallest integer divided by -1 wraps around.
  Value divide(Value x, Value y, const Node &divisor, bool remainder) {
    Type type = x.getType();
    if (divisor.op == Op::Constant) {
      if (divisor.intValue == 0 || (divisor.intValue == -1 && remainder))
        return constant(type, 0);
      if (divisor.intValue == -1)
        return negate(x);
      return remainder ? make<arith::RemSIOp>(x, y) : make<arith::DivSIOp>(x, y);
    }
    Value zero = constant(type, 0);
    Value byZero = make<arith::CmpIOp>(arith::CmpIPredicate::eq, y, zero);
    Value byMinusOne = make<arith::CmpIOp>(arith::CmpIPredicate::eq, y, constant(type, -1));
    Value guarded = make<arith::OrIOp>(byZero, byMinusOne);
    Value safe = make<arith::SelectOp>(guarded, constant(type, 1), y);
    if (remainder)
      return make<arith::RemSIOp>(x, safe);
    Value quotient = make<arith::DivSIOp>(x, safe);
    quotient = make<arith::SelectOp>(byMinusOne, negate(x), quotient);
    return make<arith::SelectOp>(byZero, zero, quotient);
  }

  template <typename OpTy> Value shift(Value x, Value count, const Node &by) {
    int64_t mask = x.getType().getIntOrFloatBitWidth() - 1;
    if (by.op == Op::Constant)
      return make<OpTy>(x, constant(x.getType(), by.intValue & mask));
    return make<OpTy>(x, make<arith::AndIOp>(count, constant(x.getType(), mask)));
  }

  /// Converts a float to an integer: truncates towards zero, saturates, and gives 0 for NaN. The selects ensure that
  /// fptosi gets only values that it can represent.
  Value toInteger(Value x, Type type) {
    bool wide = type.isInteger(64);
    Value low = constant(wide ? -0x1p63f : -0x1p31f), high = constant(wide ? 0x1p63f : 0x1p31f);
    Value atLeast = make<arith::CmpFOp>(arith::CmpFPredicate::OGE, x, low);
    Value below = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, high);
    Value inRange = make<arith::AndIOp>(atLeast, below);
    Value result = make<arith::FPToSIOp>(type, make<arith::SelectOp>(inRange, x, constant(0.0f)));
    Value tooLow = make<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, low);
    Value tooHigh = make<arith::CmpFOp>(arith::CmpFPredicate::OGE, x, high);
    int64_t least = wide ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
    int64_t most = wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
    result = make<arith::SelectOp>(tooLow, constant(type, least), result);
    return make<arith::SelectOp>(tooHigh, constant(type, most), result);
  }

  /// An extent in an expression. Where sequences have lengths of their own, Sq and Sk are the lengths of sequence b.
  Value extent(Extent which) {
    Type i32 = builder.getI32Type();
    Value ofAll = make<attn::ExtentOp>(i32, builder.getStringAttr(toRef(name(which))));
    auto op = cast<attn::AttentionOp>(builder.getInsertionBlock()->getParentOp());
    StringAttr lengths = which == Extent::Sk   ? op.getKeyLengthsAttr()
                         : which == Extent::Sq ? op.getQueryLengthsAttr()
                                               : StringAttr();
    if (!lengths)
      return ofAll;
    Value own = make<attn::LoadOp>(i32, lengths, coordinates[int(Coordinate::B)]);
    return make<arith::MinSIOp>(make<arith::MaxSIOp>(own, constant(i32, 0)), ofAll);
  }

  Value castTo(Value x, DType to) {
    Type from = x.getType(), type = irType(*builder.getContext(), to);
    if (from == type)
      return x;
    if (to == DType::Bool)
      return from.isF32() ? make<arith::CmpFOp>(arith::CmpFPredicate::UNE, x, constant(0.0f))
                          : make<arith::CmpIOp>(arith::CmpIPredicate::ne, x, constant(from, 0));
    if (to == DType::F32)
      return from.isInteger(1) ? make<arith::UIToFPOp>(type, x) : make<arith::SIToFPOp>(type, x);
    if (from.isF32())
      return toInteger(x, type);
    if (from.isInteger(1))
      return make<arith::ExtUIOp>(type, x);
    return from.isInteger(32) ? make<arith::ExtSIOp>(type, x) : make<arith::TruncIOp>(type, x);
  }

  Value literal(const Node &node) {
    if (node.type == DType::F32)
      return constant(node.floatValue);
    return constant(irType(*builder.getContext(), node.type),
                    node.type == DType::Bool ? node.intValue != 0 : node.intValue);
  }

  Value scalar(const Node &node) {
    if (auto value = values.find(node.name); value != values.end())
      return value->second;
    return make<attn::ScalarOp>(irType(*builder.getContext(), node.type), builder.getStringAttr(node.name));
  }

  Value incomingScore() {
    assert(score && "a mask has no incoming score");
    return score;
  }

  Value sigmoid(Value x) {
    Value one = constant(1.0f);
    Value exp = make<math::ExpOp>(make<arith::NegFOp>(x));
    return make<arith::DivFOp>(one, make<arith::AddFOp>(one, exp));
  }

  /// Emits the ops of one node of the expression graph: the switch maps each operation of expressions to ops of MLIR.
  /// `x` holds the node's operands.
  Value emit(const Node &node, ValueRange x) {
    using IntCompare = arith::CmpIPredicate;
    using FloatCompare = arith::CmpFPredicate;
    Type type = irType(*builder.getContext(), node.type);
    bool floats = node.type == DType::F32;
    switch (node.op) {
    case Op::Constant:
      return literal(node);
    case Op::Coordinate:
      return coordinates[int(node.coordinate)];
    case Op::Extent:
      return extent(node.extent);
    case Op::Scalar:
      return scalar(node);
    case Op::Input:
      return incomingScore();
    case Op::Load:
      return make<attn::LoadOp>(type, builder.getStringAttr(node.name), x);
    case Op::Search:
      return make<attn::SearchOp>(type, builder.getStringAttr(node.name), x[0], node.side == SearchSide::Right);
    case Op::Add:
      return arithmetic<arith::AddFOp, arith::AddIOp>(x);
    case Op::Sub:
      return arithmetic<arith::SubFOp, arith::SubIOp>(x);
    case Op::Mul:
      return arithmetic<arith::MulFOp, arith::MulIOp>(x);
    case Op::Div:
      return floats ? make<arith::DivFOp>(x[0], x[1]) : divide(x[0], x[1], *node.operands[1], false);
    case Op::Rem:
      return divide(x[0], x[1], *node.operands[1], true);
    case Op::Min:
      return arithmetic<arith::MinNumFOp, arith::MinSIOp>(x);
    case Op::Max:
      return arithmetic<arith::MaxNumFOp, arith::MaxSIOp>(x);
    case Op::Neg:
      return floats ? make<arith::NegFOp>(x[0]) : negate(x[0]);
    case Op::Abs:
      return floats ? make<math::AbsFOp>(x[0]) : make<math::AbsIOp>(x[0]);
#define ATTUNE_FUNCTION1(op, name, value, mlir, ...)                                                                   \
  case Op::op:                                                                                                         \
    return make<mlir>(x[0]);
#define ATTUNE_FUNCTION2(op, name, value, mlir, ...)                                                                   \
  case Op::op:                                                                                                         \
    return make<mlir>(x[0], x[1]);
#include "attune/Functions.def"
    case Op::Sigmoid:
      return sigmoid(x[0]);
    case Op::Select:
      return make<arith::SelectOp>(x[0], x[1], x[2]);
    case Op::Lt:
      return compare(x, FloatCompare::OLT, IntCompare::slt);
    case Op::Le:
      return compare(x, FloatCompare::OLE, IntCompare::sle);
    case Op::Gt:
      return compare(x, FloatCompare::OGT, IntCompare::sgt);
    case Op::Ge:
      return compare(x, FloatCompare::OGE, IntCompare::sge);
    case Op::Eq:
      return compare(x, FloatCompare::OEQ, IntCompare::eq);
    case Op::Ne:
      return compare(x, FloatCompare::UNE, IntCompare::ne);
    case Op::And:
    case Op::BitAnd:
      return make<arith::AndIOp>(x[0], x[1]);
    case Op::Or:
    case Op::BitOr:
      return make<arith::OrIOp>(x[0], x[1]);
    case Op::BitXor:
      return make<arith::XOrIOp>(x[0], x[1]);
    case Op::Not:
      return make<arith::XOrIOp>(x[0], constant(type, 1));
    case Op::BitNot:
      return make<arith::XOrIOp>(x[0], constant(type, -1));
    case Op::Shl:
      return shift<arith::ShLIOp>(x[0], x[1], *node.operands[1]);
    case Op::Shr:
      return shift<arith::ShRSIOp>(x[0], x[1], *node.operands[1]);
    case Op::Cast:
      return castTo(x[0], node.type);
    case Op::Invalid:
      break;
    }
    llvm_unreachable("a variant without error has no invalid node");
  }

  static StringRef toRef(std::string_view text) { return {text.data(), text.size()}; }

  OpBuilder builder;
  Location outer;
  Location loc = outer;
  Value score;
  ValueRange coordinates;
  std::map<std::string, Value> values; ///< name -> region argument of a normaliser
  std::map<const Node *, Value> ofNode;
  std::map<Key, Value> ofKey;
  std::map<std::pair<const void *, int64_t>, Value> integers;
  std::map<uint32_t, Value> floats;
};

std::optional<Error> checkHeadDim(const char *what, int dim) {
  std::string subject = std::string(what) + " " + std::to_string(dim);
  const std::string remedy = "use a multiple of 8 from 8 to " + std::to_string(maxHeadDim);
  if (dim <= 0)
    return Error{subject + " is not positive; " + remedy};
  if (dim > maxHeadDim)
    return Error{subject + " is larger than " + std::to_string(maxHeadDim) + "; " + remedy};
  if (dim % 8)
    return Error{subject + " is not a multiple of 8; pad the last dimension to " + std::to_string((dim + 7) / 8 * 8)};
  return std::nullopt;
}

void addNormaliser(attn::AttentionOp op, const Normaliser &normaliser, const NormaliserExpressions &expressions) {
  Builder builder(op.getContext());
  op.setNormaliserAttr(builder.getStringAttr(normaliser.name));
  std::vector<std::string> names;
  SmallVector<Attribute> statistics;
  for (const RowStatistic &statistic : normaliser.statistics) {
    names.push_back(statistic.name);
    statistics.push_back(attn::RowStatisticAttr::get(op.getContext(), builder.getStringAttr(statistic.name),
                                                     statistic.reduction == Reduction::Max,
                                                     builder.getF32FloatAttr(statistic.initial)));
  }
  if (!statistics.empty())
    op.setStatisticsAttr(builder.getArrayAttr(statistics));
  auto fill = [&](Region &region, const std::optional<Expr> &root, const std::vector<std::string> &takes) {
    if (root)
      RegionBuilder(region, op.getLoc(), takes).yield(*root);
  };
  auto withBase = [&](std::vector<std::string> takes) {
    if (expressions.base)
      takes.push_back("base");
    return takes;
  };
  fill(op.getBase(), expressions.base, names);
  fill(op.getRescale(), expressions.rescale, withBase(names));
  fill(op.getP(), expressions.p, withBase({"x"}));
  fill(op.getDivisor(), expressions.divisor, names);
  fill(op.getLse(), expressions.lse, names);
}

} // namespace

void attune::writeNormaliser(attn::AttentionOp op, const Normaliser &normaliser) {
  Expected<NormaliserExpressions> expressions = parseExpressions(normaliser);
  assert(expressions && "the normaliser is right");
  addNormaliser(op, normaliser, *expressions);
}

Expected<OwningOpRef<ModuleOp>> attune::buildAttention(MLIRContext &context, const Variant &variant, DType dtype,
                                                       int headDim, int headDimV) {
  if (variant.error())
    return *variant.error();
  if (!isFloat(dtype))
    return Error{"dtype " + std::string(name(dtype)) + " is not f16, bf16 or f32; convert q, k and v"};
  if (auto error = checkHeadDim("head_dim", headDim))
    return *error;
  if (auto error = checkHeadDim("head_dim_v", headDimV))
    return *error;

  context.loadDialect<attn::AttnDialect, arith::ArithDialect, math::MathDialect>();
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());

  SmallVector<Attribute> tensors, scalars;
  for (const TensorDecl &tensor : variant.tensors()) {
    Type element = tensor.dtype == DType::Bool ? builder.getI8Type() : irType(context, tensor.dtype);
    tensors.push_back(
        attn::CapturedTensorAttr::get(&context, builder.getStringAttr(tensor.name), element, tensor.rank));
  }
  for (const ScalarDecl &scalar : variant.scalars())
    scalars.push_back(
        attn::RuntimeScalarAttr::get(&context, builder.getStringAttr(scalar.name), irType(context, scalar.dtype)));
  attn::BlockPatternAttr pattern;
  if (const auto &blocks = variant.blockPattern())
    pattern = attn::BlockPatternAttr::get(&context, builder.getStringAttr(blocks->tensor.name), blocks->rows,
                                          blocks->columns);
  float scale = variant.scale().value_or(float(1.0 / std::sqrt(double(headDim))));

  OperationState state(loc, attn::AttentionOp::getOperationName());
  for (size_t region = 0; region < attn::AttentionOp::regionCount; ++region)
    state.addRegion();
  auto &properties = state.getOrAddProperties<attn::AttentionOp::Properties>();
  properties.sym_name = builder.getStringAttr(variant.name());
  properties.dtype = TypeAttr::get(irType(context, dtype));
  properties.head_dim = builder.getI64IntegerAttr(headDim);
  properties.head_dim_v = builder.getI64IntegerAttr(headDimV);
  properties.scale = builder.getF32FloatAttr(scale);
  if (!tensors.empty())
    properties.tensors = builder.getArrayAttr(tensors);
  if (!scalars.empty())
    properties.scalars = builder.getArrayAttr(scalars);
  properties.pattern = pattern;
  if (const std::optional<TensorDecl> &lengths = variant.keyLengths())
    properties.key_lengths = builder.getStringAttr(lengths->name);
  if (const std::optional<TensorDecl> &lengths = variant.queryLengths())
    properties.query_lengths = builder.getStringAttr(lengths->name);
  if (const std::optional<Sequences> &packed = variant.sequences())
    properties.sequences =
        attn::SequencesAttr::get(&context, builder.getStringAttr(packed->queries.name),
                                 packed->keys ? builder.getStringAttr(packed->keys->name) : StringAttr());
  if (const std::optional<KeyPages> &pages = variant.keyPages())
    properties.key_pages = attn::KeyPagesAttr::get(&context, builder.getStringAttr(pages->tensor.name), pages->size);
  if (variant.hasDropout())
    properties.dropout = builder.getUnitAttr();
  if (variant.isPrecise())
    properties.precise = builder.getUnitAttr();
  if (variant.hasQOffset())
    properties.q_offset = builder.getUnitAttr();
  auto op = cast<attn::AttentionOp>(builder.create(state));

  if (variant.scoreExpr())
    RegionBuilder(op.getScore(), loc, /*takesScore=*/true).yield(*variant.scoreExpr());
  if (variant.maskExpr())
    RegionBuilder(op.getMask(), loc, /*takesScore=*/false).yield(*variant.maskExpr());
  if (const std::optional<NormaliserExpressions> &expressions = variant.normaliserExpressions())
    addNormaliser(op, variant.normaliser(), *expressions);
  return module;
}
