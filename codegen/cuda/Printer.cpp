//===- Printer.cpp - CUDA C++ from scheduled IR -----------------------------===//

#include "codegen/cuda/Printer.h"

#include "attune/LaunchParams.h"
#include "codegen/cuda/CommentText.h"
#include "codegen/cuda/Primitives.h"
#include "ir/tile/Signature.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"
#include <charconv>
#include <cmath>

using namespace mlir;
using namespace attune;
using namespace attune::sched;
using llvm::Twine;

namespace {

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

/// Binding strength of C++ operators.
enum Level { Conditional = 1, Or, And, BitOr, BitXor, BitAnd, Equality, Relation, Shift, Sum, Product, Unary, Primary };

/// A printed value. i32 values are `int`, or `unsigned` where they are bit patterns. Of a natural one it is known that
/// it is not negative: unsigned operations on it print as signed ones.
struct Expr {
  std::string text;
  Level level = Primary;
  bool isUnsigned = false;
  bool isNatural = false;
};

/// `expr` as an operand that needs at least the given binding strength.
std::string at(const Expr &expr, Level level) { return expr.level >= level ? expr.text : "(" + expr.text + ")"; }

bool isNumber(const Expr &expr) { return !expr.text.empty() && llvm::all_of(expr.text, llvm::isDigit); }

Expr cast(StringRef type, const Expr &expr) { return {("(" + type + ")").str() + at(expr, Unary), Unary}; }

Expr natural(Expr expr, bool is = true) {
  expr.isNatural = is && !expr.isUnsigned;
  return expr;
}

Expr asSigned(const Expr &expr) { return expr.isUnsigned ? ::cast("int", expr) : expr; }

Expr asUnsigned(const Expr &expr, bool wide = false) {
  if (expr.isUnsigned)
    return expr;
  StringRef digits = expr.text;
  bool isNegative = digits.consume_front("-");
  int64_t number;
  bool isLiteral = !digits.getAsInteger(10, number); // i64 literals end in ll
  Expr result = !isLiteral   ? ::cast(wide ? "unsigned long long" : "unsigned", expr)
                : isNegative ? Expr{"0x" + llvm::utohexstr(uint32_t(-number), true) + "u"}
                             : Expr{expr.text + "u"};
  result.isUnsigned = true;
  return result;
}

/// `a op b`; what binds equally strongly on the right gets parentheses.
Expr infix(const Expr &a, StringRef op, const Expr &b, Level level) {
  bool bits = level == Shift || level == BitAnd || level == BitXor || level == BitOr;
  Level left = bits || level == Or ? Unary : level, right = bits || level == Or ? Unary : Level(level + 1);
  if (level == Equality || level == Relation)
    left = right = Sum;
  return {at(a, left) + " " + op.str() + " " + at(b, right), level};
}

Expr call(const Twine &function, ArrayRef<Expr> arguments) {
  std::string text = function.str() + "(";
  llvm::interleave(arguments, [&](const Expr &argument) { text += argument.text; }, [&] { text += ", "; });
  return {text + ")"};
}

/// Shortest digits that read back as the same float.
std::string printFloat(float value) {
  char buffer[48];
  char *end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text + "f";
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

const llvm::StringLiteral reservedWords[] = {
    "alignas", "alignof", "and", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t",
    "char32_t", "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do",
    "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator",
    "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
    "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "wchar_t", "while", "xor", "xor_eq", "main", "NULL", "signbit", "isnan", "isinf", "isfinite",
    // what the generated source refers to
    "p", "Params", "bf16", "f16", "shared_base", "shared_memory", "threadIdx", "blockIdx", "blockDim", "gridDim",
    "warpSize", "min", "max", "abs", "fabsf", "fmaf", "fmodf", "fmaxf", "fminf", "floorf", "ceilf", "truncf", "rintf",
    "roundf", "copysignf", "expf", "exp2f", "expm1f", "logf", "log2f", "log10f", "log1pf", "tanhf", "sinf", "cosf",
    "tanf", "sqrtf", "rsqrtf", "powf", "erff", "atanf", "atan2f", "sinhf", "coshf", "asinf", "acosf", "asinhf",
    "acoshf", "atanhf", "cbrtf", "GridTile", "uint4", "int2", "float2", "exp", "exp2", "log", "log2", "tanh", "sin",
    "cos", "tan", "sqrt", "rsqrt", "pow", "floor", "ceil", "round", "trunc", "erf"};

bool isReserved(StringRef name) {
  return llvm::is_contained(reservedWords, name) || codegen::isPrimitive(name) || name.starts_with("__");
}

/// `name` with what an identifier does not take replaced by '_'.
std::string identifier(StringRef name) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  if (result.empty() || llvm::isDigit(result[0]))
    result.insert(0, "_");
  return result;
}

/// Names in the nested scopes of the generated source: none hides another. A wish gets the least number that makes it
/// one. Each takes constant time, however many share a wish: the search goes on from the number that it ended with
/// last.
class Names {
public:
  std::string take(StringRef wish) {
    std::string base = identifier(wish);
    if (isReserved(base))
      base += "_";
    unsigned &next = nexts.try_emplace(base, 1).first->second;
    const unsigned before = next;
    auto numbered = [&] {
      return next == 1 ? base : base + (llvm::isDigit(base.back()) ? "_" : "") + std::to_string(next);
    };
    std::string name = numbered();
    for (; taken.contains(name); name = numbered())
      ++next;
    taken.insert(name);
    undo.push_back({std::move(base), before, name});
    return name;
  }
  size_t open() const { return undo.size(); }
  void close(size_t mark) {
    for (; undo.size() > mark; undo.pop_back()) {
      taken.erase(undo.back().name);
      nexts[undo.back().base] = undo.back().next;
    }
  }

private:
  /// What a name changed.
  struct Taken {
    std::string base;
    unsigned next;
    std::string name;
  };
  llvm::StringSet<> taken;
  llvm::StringMap<unsigned> nexts; ///< by base: all numbers below are taken
  std::vector<Taken> undo;
};

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// Type of an element in global memory; 16-bit floats are storage only.
StringRef elementName(Type type) {
  if (type.isF32())
    return "float";
  if (type.isBF16())
    return "bf16";
  if (type.isF16())
    return "f16";
  if (type.isInteger(8))
    return "unsigned char";
  if (type.isInteger(32))
    return "int";
  if (type.isInteger(64))
    return "long long";
  return "";
}

/// Type of a value in expressions.
StringRef valueName(Type type) {
  if (type.isInteger(1))
    return "bool";
  return type.isF32() || type.isInteger(32) || type.isInteger(64) ? elementName(type) : StringRef();
}

std::string text(Type type) {
  std::string result;
  llvm::raw_string_ostream(result) << type;
  return result;
}

/// "stage 2 x k 64 x d 64 bf16"
std::string describe(TileType type) {
  std::string result;
  for (unsigned i = 0; i < type.rank(); ++i)
    result += (i ? " x " : "") + type.axis(i).str() + " " + std::to_string(type.getShape()[i]);
  return result + " " + text(type.getElementType());
}

/// A tensor in global memory: where it starts and what its dimensions are, as expressions.
struct View {
  std::string pointer;
  std::string root;                 ///< the address in the parameters, which is null for an output that is not wanted
  SmallVector<std::string> strides; ///< "" for 1
  SmallVector<std::string> extents;
  bool isWritten = false;
};

/// Where an axis's extent stands among the members of Params, apart from parameters.
std::string axisKey(StringRef axis) { return ("axis " + axis).str(); }

/// "[b, h, q, d 64]"
std::string axesText(OperandAttr operand) {
  std::string result;
  for (tile::AxisAttr axis : operand.getAxes())
    result += (result.empty() ? "" : ", ") + axis.getName().str() +
              (axis.isFixed() ? " " + std::to_string(axis.getSize()) : "");
  return "[" + result + "]";
}

//===----------------------------------------------------------------------===//
// The printer
//===----------------------------------------------------------------------===//

class Printer {
public:
  Printer(KernelOp kernel, const codegen::PrintOptions &options)
      : kernel(kernel), signature(tile::signatureOf(kernel)), options(options),
        isPrecise(kernel.getPrecise() || kernel.getDtype().isF32()), waitsForBounds(sched::waitsForBounds(kernel)) {}

  Expected<std::string> run();

private:
  void printHeader(std::string &out);
  size_t paramsBytes() const;
  void declareParams();
  void declareExtents(Names &member);
  void declareTensor(Names &member, StringRef key, StringRef wish, Type element, int64_t rank, bool written,
                     StringRef comment);
  View parameterView(tile::ParamOp op);

  void printBlock(Block &block, function_ref<void()> atEnd = {});
  void printOp(Operation *op);
  void printStatement(Operation *op);
  void printFor(scf::ForOp op);
  void printIf(scf::IfOp op);
  Expr workNumber(ForWorkOp op, Expr round);
  Expr workTiles(ForWorkOp op);
  Expr gridTile(ForWorkOp op, Expr number);
  void printForWork(ForWorkOp op);
  void assignCarried(NextOp op, ValueRange next, ArrayRef<std::string> carried);
  void printReadWork(ReadWorkOp op);
  void printForTiles(ForTilesOp op);
  void printSlice(SliceOp op);
  void printPhilox(PhiloxOp op);
  void printSet(SetOp op);
  /// The swizzled place of a lane's (row, column), moved by the steps where there are any.
  template <typename Load> Expr steppedAddress(Load op);
  void printLoadMatrix(LoadMatrixOp op);
  void printMma(MmaOp op);
  void printElement(tile::ElementOp op);
  void printTouches(tile::TouchesOp op);
  void printNextVisible(NextVisibleOp op);
  void printBounds();
  void printRoles(RoleOp first);
  void printMmaAsync(MmaAsyncOp op);
  /// Address of a stage's full or empty barrier.
  Expr barrier(Value ring, Value stage, bool full);
  /// A shared tile as an operand of a warpgroup's product, from `column` of `row` on.
  Expr matrixDescriptor(Operation *op, Value shared, Value stage, Value row, Value column, bool transpose);

  /// The expression of a scalar op without regions or effects; nothing where `op` is not such an op.
  std::optional<Expr> expression(Operation *op);
  std::optional<Expr> arithmetic(Operation *op);
  Expr constant(arith::ConstantOp op);
  Expr compare(arith::CmpIOp op);
  Expr compare(arith::CmpFOp op);
  Expr extentOf(StringRef axis);
  Expr parameter(tile::ParamOp op);
  /// Whether the expression of `op` may stand in its only user in place of a statement of its own.
  bool canInline(Operation *op);
  /// Whether the block combines so many conditions that `&` and `|` join them: `&&` and `||` are branches to NVRTC, in
  /// each of the elements that it unrolls, and their control flow takes it many times as long as the arithmetic does.
  bool hasManyTerms(Block *block);

  Expr value(Value value);
  Expr integer(Value value) { return asSigned(this->value(value)); }
  std::string element(Value buffer, OperandRange indices);
  std::string element(Value buffer, ArrayRef<Expr> indices);
  /// Where an element lies: its stage, and how many bytes after the stage's first; empty for the first.
  struct SharedPlace {
    Expr base, offset;
  };
  SharedPlace sharedPlace(Operation *op, Value shared, Value stage, Value row, Value column);
  /// Address of `shared[stage, row, column]`, each 0 where it is null.
  Expr sharedAddress(Operation *op, Value shared, Value stage, Value row, Value column);
  /// `view + offset` of an element given by all of its indices, or the expression of the element itself.
  Expr globalAddress(const View &view, ArrayRef<Expr> indices);
  std::string globalElement(const View &view, ArrayRef<Expr> indices);
  std::string offset(const View &view, ArrayRef<Expr> indices);

  /// The call of a function of Primitives.cuh, which the source then holds.
  Expr primitive(StringRef name, ArrayRef<Expr> arguments) { return primitive(name, "", arguments); }
  Expr primitive(StringRef name, const Twine &templateArguments, ArrayRef<Expr> arguments);

  std::string nameFor(Operation *op, StringRef fallback);
  std::string nameFor(Operation *op, unsigned i, StringRef fallback);
  void declare(OpResult result, const Expr &expr);
  void statement(Operation *op, const Twine &text);
  void open(Operation *op, const Twine &text);
  void close(const Twine &text = "}");
  void comment(Operation *op);
  void line(const Twine &text);
  std::string sourceLine(Operation *op);
  void fail(Operation *op, const Twine &message);

  KernelOp kernel;
  KernelSignature signature;
  codegen::PrintOptions options;
  bool isPrecise;
  bool waitsForBounds; ///< the kernel may start while its bounds are being made
  std::string body;
  unsigned depth = 1;
  Names names;
  std::set<std::string, std::less<>> used;
  std::string params;     ///< members of Params after the fixed ones
  std::string tensorMaps; ///< those at its end
  std::string boundsKernel;
  std::map<std::string, std::string> members; ///< member of Params by name of parameter
  llvm::DenseMap<Value, Expr> values;
  llvm::DenseMap<Value, View> views;
  llvm::DenseMap<Value, std::string> buffers;
  llvm::DenseMap<Value, std::string> rings, maps; ///< names of barriers, and of tensor maps in the parameters
  llvm::DenseMap<Value, unsigned> mapIndices;     ///< of tensor maps among the parameters
  llvm::DenseMap<Operation *, std::string>
      workTotals;           ///< of loops over work in order persistent: how many tiles there are
  std::string claimedHeads; ///< of the loop over work in order claimed: heads whose tiles stand side by side
  unsigned firstThread = 0; ///< of the role that is printed
  /// How many ops that write stand before an op in its block.
  llvm::DenseMap<Operation *, unsigned> writesBefore;
  llvm::DenseMap<Block *, bool> manyTerms; ///< hasManyTerms
  std::string lastLine;
  std::optional<Error> error;
};

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void Printer::fail(Operation *op, const Twine &message) {
  if (error)
    return;
  error.emplace();
  error->message = (op->getName().getStringRef() + " " + message).str();
  if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>())
    error->where = {loc.getFilename().str(), loc.getLine(), loc.getColumn()};
}

/// `text` broken where it is too long for a line: after a comma or an operator of the outermost call that has one near
/// the end of the line.
static std::string wrap(std::string text, unsigned indent) {
  constexpr size_t width = 116;
  size_t start = 0, slack = indent;
  while (text.size() - start + slack > width) {
    int depth = 0, best = INT_MAX;
    size_t at = std::string::npos;
    for (size_t i = 0; i < text.size() && i - std::min(i, start) + slack < width; ++i) {
      bool isTemplate = (text[i] == '<' && i && llvm::isAlnum(text[i - 1])) || (text[i] == '>' && text[i + 1] == '(');
      depth += text[i] == '(' || (isTemplate && text[i] == '<');
      depth -= text[i] == ')' || (isTemplate && text[i] == '>');
      if (text[i] != ' ' || i < start + 20)
        continue;
      char before = text[i - 1];
      bool isSpaced = i >= 2 && StringRef(" &|").contains(text[i - 2]);
      bool isTerm = isSpaced && StringRef("+-?:&|").contains(before),
           isFactor = isSpaced && StringRef("*/").contains(before);
      if (before != ',' && !isTerm && !isFactor)
        continue;
      int cost = 3 * depth + isTerm + 2 * isFactor;
      if (cost <= best)
        best = cost, at = i;
    }
    if (at == std::string::npos)
      break;
    text.replace(at, 1, "\n" + std::string(indent + 4, ' '));
    start = at + 1;
    slack = 0;
  }
  return text;
}

void Printer::line(const Twine &text) {
  std::string content = text.str();
  if (!content.empty())
    body += std::string(2 * depth, ' ') + content;
  body += '\n';
}

/// The user's source line of `op`, or "". Text of the IR itself has locations too: those do not count.
std::string Printer::sourceLine(Operation *op) {
  auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>();
  if (!loc || loc.getLine() == 0)
    return "";
  StringRef file = llvm::sys::path::filename(loc.getFilename().getValue());
  if (file.empty() || file.starts_with("<") || file == "-" || file.ends_with(".mlir"))
    return "";
  return codegen::commentText(file) + ":" + std::to_string(loc.getLine());
}

/// The op's `tile.comment` as a line of its own.
void Printer::comment(Operation *op) {
  if (auto comment = op->getAttrOfType<StringAttr>(codegen::commentAttr)) {
    if (!StringRef(body).ends_with("{\n") && !body.empty())
      line("");
    line("// " + codegen::commentText(comment.getValue()));
  }
}

void Printer::statement(Operation *op, const Twine &text) {
  if (!op->getNumRegions())
    comment(op);
  std::string source = sourceLine(op);
  line(wrap(text.str(), 2 * depth) + (source.empty() || source == lastLine ? "" : "  // " + source));
  lastLine = source;
}

void Printer::open(Operation *op, const Twine &text) {
  statement(op, text + " {");
  ++depth;
}

void Printer::close(const Twine &text) {
  --depth;
  line(text);
}

std::string Printer::nameFor(Operation *op, StringRef fallback) {
  auto name = op->getAttrOfType<StringAttr>(tile::nameAttr);
  return names.take(name ? name.getValue() : fallback);
}

std::string Printer::nameFor(Operation *op, unsigned i, StringRef fallback) {
  if (auto all = op->getAttrOfType<ArrayAttr>(tile::namesAttr); all && i < all.size())
    if (auto name = dyn_cast<StringAttr>(all[i]))
      return names.take(name.getValue());
  return names.take(fallback);
}

Expr Printer::primitive(StringRef name, const Twine &templateArguments, ArrayRef<Expr> arguments) {
  assert(codegen::isPrimitive(name) && "no such function in Primitives.cuh");
  used.insert(name.str());
  return call(name + templateArguments, arguments);
}

/// `const T name = expr;`
void Printer::declare(OpResult result, const Expr &expr) {
  Operation *op = result.getOwner();
  StringRef type = valueName(result.getType());
  if (type.empty())
    return fail(op, "gives " + text(result.getType()) + ", which has no printed form; lower it to f32, i32, i64 or i1");
  if (expr.isUnsigned)
    type = "unsigned";
  StringRef fallback = llvm::StringSwitch<StringRef>(type)
                           .Case("float", "x")
                           .Case("bool", "flag")
                           .Case("unsigned", "bits")
                           .Case("long long", "wide")
                           .Default("n");
  std::string name = nameFor(op, fallback);
  statement(op, "const " + type + " " + name + " = " + expr.text + ";");
  values[result] = {name, Primary, expr.isUnsigned, expr.isNatural};
}

bool Printer::hasManyTerms(Block *block) {
  constexpr int fewTerms = 24;
  auto [known, isNew] = manyTerms.try_emplace(block, false);
  if (isNew)
    known->second = llvm::count_if(*block, [](Operation &op) {
                      return isa<arith::AndIOp, arith::OrIOp>(op) && op.getResult(0).getType().isInteger(1);
                    }) > fewTerms;
  return known->second;
}

Expr Printer::value(Value value) {
  auto it = values.find(value);
  if (it != values.end())
    return it->second;
  if (!error) {
    Operation *op = value.getDefiningOp() ? value.getDefiningOp() : value.getParentBlock()->getParentOp();
    fail(op, "gives a value that its user cannot take");
  }
  return {"0"};
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Members of Params behind the fixed ones, in the order of attune/LaunchParams.h.
void Printer::declareParams() {
  Names member;
  for (StringRef fixed : {"seed", "offset", "seed_pointer", "offset_pointer", "workspace", "group", "q_offset",
                          "drop_threshold", "keep_scale", "mapped"})
    member.take(fixed);
  declareExtents(member);
  for (auto scalar : kernel.getScalars().getAsRange<RuntimeScalarAttr>()) {
    StringRef own = scalar.getName().getValue(), type = valueName(scalar.getType());
    std::string name = member.take(own);
    if (type.empty())
      fail(kernel, "has run-time scalar '" + own + "' of type " + text(scalar.getType()) + "; use f32, i32, i64 or i1");
    params += ("  alignas(8) " + type + " " + name + ";\n").str();
    members[(tile::scalarPrefix + own).str()] = name;
  }
  for (auto operand : kernel.getOperands().getAsRange<OperandAttr>())
    declareTensor(member, operand.getName(), operand.getName(), operand.getElementType(), operand.getAxes().size(),
                  operand.isWritten(), axesText(operand) + (operand.getOptional() ? ", or null" : ""));
  for (auto tensor : kernel.getTensors().getAsRange<CapturedTensorAttr>())
    declareTensor(member, (tile::tensorPrefix + tensor.getName().getValue()).str(), tensor.getName(),
                  tensor.getElementType(), tensor.getRank(), /*written=*/false, "");
  for (auto bounds : kernel.getBounds().getAsRange<tile::BoundsAttr>()) {
    CapturedTensorAttr tensor = tile::boundedTensor(kernel.getTensors(), bounds);
    declareTensor(member, bounds.getName(), bounds.getName(), tensor.getElementType(), tensor.getRank(),
                  /*written=*/true,
                  "the least and the greatest element of " + codegen::commentText(tensor.getName().getValue()) +
                      " in each tile");
  }
}

/// What the extents of the axes that attention has are called; that of any other axis is called after it.
static std::string extentName(StringRef axis) {
  return llvm::StringSwitch<std::string>(axis)
      .Case("b", "batch")
      .Case("h", "heads")
      .Case("hkv", "kv_heads")
      .Case("q", "query_length")
      .Case("k", "key_length")
      .Default((axis + "_extent").str());
}

void Printer::declareExtents(Names &member) {
  for (const std::string &axis : signature.axes()) {
    std::string name = member.take(extentName(axis));
    params += "  alignas(8) int " + name + ";\n";
    members[axisKey(axis)] = name;
  }
}

/// `key` is the parameter's name in the IR.
void Printer::declareTensor(Names &member, StringRef key, StringRef wish, Type element, int64_t rank, bool written,
                            StringRef comment) {
  std::string name = member.take(wish);
  member.take(name + "_stride");
  member.take(name + "_extent");
  params += (Twine("  ") + (written ? "" : "const ") + elementName(element) + " *" + name + ";" +
             (comment.empty() ? "" : "  // " + comment) + "\n")
                .str();
  if (rank)
    params +=
        ("  long long " + name + "_stride[" + Twine(rank) + "], " + name + "_extent[" + Twine(rank) + "];\n").str();
  members[key.str()] = name;
}

/// The extent of an axis, 1 where no operand has it.
Expr Printer::extentOf(StringRef axis) {
  auto member = members.find(axisKey(axis));
  return natural({member == members.end() ? "1" : "p." + member->second});
}

Expr Printer::parameter(tile::ParamOp op) {
  StringRef name = op.getName();
  if (name == "seed" || name == "offset") {
    std::string slot = "p." + name.str();
    return {slot + "_pointer ? *" + slot + "_pointer : " + slot, Conditional};
  }
  if (auto member = members.find(name.str()); member != members.end())
    return {"p." + member->second};
  return natural({("p." + name).str()}, op.getResult().getType().isInteger(32) && name != "q_offset");
}

/// An operand's extents are those of its axes.
View Printer::parameterView(tile::ParamOp op) {
  View view;
  std::string name = "p." + members[op.getName().str()];
  view.pointer = view.root = name;
  int64_t rank = cast<ViewType>(op.getResult().getType()).getRank();
  for (int64_t i = 0; i < rank; ++i) {
    view.strides.push_back(name + "_stride[" + std::to_string(i) + "]");
    view.extents.push_back(name + "_extent[" + std::to_string(i) + "]");
  }
  OperandAttr operand = tile::operandOf(op.getResult());
  if (!operand)
    return view;
  view.isWritten = operand.isWritten();
  for (auto [axis, extent] : llvm::zip(operand.getAxes(), view.extents))
    extent = axis.isFixed() ? std::to_string(axis.getSize()) : "p." + members[axisKey(axis.getName().getValue())];
  if (operand.isTiled())
    view.strides.back().clear();
  return view;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

std::string Printer::element(Value buffer, ArrayRef<Expr> indices) {
  std::string text = buffers.lookup(buffer);
  if (text.empty())
    fail(buffer.getDefiningOp() ? buffer.getDefiningOp() : kernel, "is not a sched.registers buffer of this kernel");
  for (const Expr &index : indices)
    text += "[" + index.text + "]";
  return text;
}

std::string Printer::element(Value buffer, OperandRange indices) {
  SmallVector<Expr> exprs;
  for (Value index : indices)
    exprs.push_back(value(index));
  return element(buffer, exprs);
}

std::string Printer::offset(const View &view, ArrayRef<Expr> indices) {
  std::string text;
  for (auto [index, stride] : llvm::zip(indices, view.strides)) {
    if (index.text == "0")
      continue;
    text += text.empty() ? "" : " + ";
    text += stride.empty() ? at(index, Sum) : at(index, Product) + " * " + stride;
  }
  return text;
}

Expr Printer::globalAddress(const View &view, ArrayRef<Expr> indices) {
  std::string text = offset(view, indices);
  return text.empty() ? Expr{view.pointer} : Expr{view.pointer + " + " + text, Sum};
}

std::string Printer::globalElement(const View &view, ArrayRef<Expr> indices) {
  std::string text = offset(view, indices);
  return text.empty() ? "*" + view.pointer : view.pointer + "[" + text + "]";
}

Expr Printer::sharedAddress(Operation *op, Value shared, Value stage, Value row, Value column) {
  SharedPlace place = sharedPlace(op, shared, stage, row, column);
  return place.offset.text.empty() ? place.base : infix(place.base, "+", place.offset, Sum);
}

Printer::SharedPlace Printer::sharedPlace(Operation *op, Value shared, Value stage, Value row, Value column) {
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
  int64_t rows = shape.size() == 1 ? 1 : shape[0], rowBytes = shape.back() * elementBytes;
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
    if (rowBytes % swizzle.getPanel())
      fail(op, "reads " + describe(type) + ", whose rows are not made of panels of " + Twine(swizzle.getPanel()) +
                   " bytes");
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

//===----------------------------------------------------------------------===//
// Scalar expressions
//===----------------------------------------------------------------------===//

Expr Printer::constant(arith::ConstantOp op) {
  Attribute attribute = op.getValue();
  if (auto number = dyn_cast<FloatAttr>(attribute); number && number.getType().isF32()) {
    APFloat f = number.getValue();
    if (f.isNaN()) {
      used.insert("not_a_number");
      return {"not_a_number"};
    }
    if (f.isInfinity()) {
      used.insert("infinity");
      return f.isNegative() ? Expr{"-infinity", Unary} : Expr{"infinity"};
    }
    return {printFloat(f.convertToFloat()), f.isNegative() ? Unary : Primary};
  }
  if (auto number = dyn_cast<IntegerAttr>(attribute)) {
    if (number.getType().isInteger(1))
      return {number.getValue().isZero() ? "false" : "true"};
    int64_t n = number.getInt();
    if (number.getType().isInteger(32))
      return n == INT32_MIN ? Expr{"-2147483647 - 1", Sum}
                            : natural({std::to_string(n), n < 0 ? Unary : Primary}, n >= 0);
    if (number.getType().isInteger(64))
      return n == INT64_MIN ? Expr{"-9223372036854775807ll - 1", Sum}
                            : natural({std::to_string(n) + "ll", n < 0 ? Unary : Primary}, n >= 0);
  }
  fail(op, "of type " + text(op.getType()) + " has no printed form; use f32, i32, i64 or i1");
  return {"0"};
}

Expr Printer::compare(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  Expr a = value(op.getLhs()), b = value(op.getRhs());
  bool isBool = op.getLhs().getType().isInteger(1), isWide = op.getLhs().getType().isInteger(64);
  P predicate = op.getPredicate();
  bool isEquality = predicate == P::eq || predicate == P::ne;
  bool isUnsigned =
      llvm::is_contained({P::ult, P::ule, P::ugt, P::uge}, predicate) && (isBool || !a.isNatural || !b.isNatural);
  if (isBool && !isEquality && !isUnsigned)
    std::swap(a, b); // as a signed number true is -1
  else if (isUnsigned && !isBool)
    a = asUnsigned(a, isWide), b = asUnsigned(b, isWide);
  else if (isEquality && (a.isUnsigned || b.isUnsigned))
    a = asUnsigned(a), b = asUnsigned(b);
  else if (!isBool)
    a = asSigned(a), b = asSigned(b);
  StringRef sign = predicate == P::eq                           ? "=="
                   : predicate == P::ne                         ? "!="
                   : predicate == P::slt || predicate == P::ult ? "<"
                   : predicate == P::sle || predicate == P::ule ? "<="
                   : predicate == P::sgt || predicate == P::ugt ? ">"
                                                                : ">=";
  return infix(a, sign, b, isEquality ? Equality : Relation);
}

/// An ordered comparison is C++'s own; an unordered one is the negated opposite.
Expr Printer::compare(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  Expr a = value(op.getLhs()), b = value(op.getRhs());
  auto plain = [&](StringRef sign) { return infix(a, sign, b, sign == "==" || sign == "!=" ? Equality : Relation); };
  auto negated = [&](StringRef sign) -> Expr { return {"!(" + plain(sign).text + ")", Unary}; };
  auto both = [&](const Expr &x, StringRef sign, const Expr &y) { return infix(x, sign, y, sign == "&&" ? And : Or); };
  Expr isNanA = infix(a, "!=", a, Equality), isNanB = infix(b, "!=", b, Equality);
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return {"false"};
  case P::AlwaysTrue:
    return {"true"};
  case P::OEQ:
    return plain("==");
  case P::OGT:
    return plain(">");
  case P::OGE:
    return plain(">=");
  case P::OLT:
    return plain("<");
  case P::OLE:
    return plain("<=");
  case P::UNE:
    return plain("!=");
  case P::ULE:
    return negated(">");
  case P::ULT:
    return negated(">=");
  case P::UGE:
    return negated("<");
  case P::UGT:
    return negated("<=");
  case P::ONE:
    return both(plain("<"), "||", plain(">"));
  case P::UEQ: {
    Expr different = both(plain("<"), "||", plain(">"));
    return {"!(" + different.text + ")", Unary};
  }
  case P::UNO:
    return both(isNanA, "||", isNanB);
  case P::ORD: {
    Expr unordered = both(isNanA, "||", isNanB);
    return {"!(" + unordered.text + ")", Unary};
  }
  }
  llvm_unreachable("unknown predicate");
}

std::optional<Expr> Printer::arithmetic(Operation *op) {
  auto operand = [&](unsigned i) { return value(op->getOperand(i)); };
  Type type = op->getNumResults() == 1 ? op->getResult(0).getType() : Type();
  bool isBool = type && type.isInteger(1), isWide = type && type.isInteger(64);
  auto function = [&](StringRef name) -> Expr {
    SmallVector<Expr> arguments;
    for (Value value : op->getOperands())
      arguments.push_back(this->value(value));
    return call(name, arguments);
  };
  // A math function: the kernel's short form or CUDA's own.
  auto math = [&](StringRef shortForm, StringRef full) -> Expr {
    return isPrecise ? function(full) : primitive(shortForm, {operand(0)});
  };
  auto unary = [&](StringRef sign, const Expr &x) -> Expr {
    return {sign.str() + at(x, x.text.front() == '-' ? Primary : Unary), Unary};
  };
  auto floats = [&](StringRef sign, Level level) { return infix(operand(0), sign, operand(1), level); };
  // Signed where the op rules out overflow, else modulo 2^n.
  auto overflowing = [&](auto arithOp, StringRef sign, Level level, StringRef wrapping) -> Expr {
    Expr a = operand(0), b = operand(1);
    if (isBool)
      return sign == "*" ? infix(a, "&&", b, And) : infix(a, "!=", b, Equality);
    if (a.isUnsigned && b.isUnsigned) {
      Expr result = infix(a, sign, b, level);
      result.isUnsigned = true;
      return result;
    }
    a = asSigned(a), b = asSigned(b);
    if (bitEnumContainsAny(arithOp.getOverflowFlags(), arith::IntegerOverflowFlags::nsw))
      return natural(infix(a, sign, b, level), sign != "-" && a.isNatural && b.isNatural);
    return primitive(wrapping, {a, b});
  };
  auto bitwise = [&](StringRef sign, Level level, StringRef logical, Level logicalLevel) -> Expr {
    Expr a = operand(0), b = operand(1);
    if (isBool)
      return hasManyTerms(op->getBlock()) ? infix(a, sign, b, level) : infix(a, logical, b, logicalLevel);
    bool isUnsigned = a.isUnsigned || b.isUnsigned;
    if (isUnsigned)
      for (Expr *expr : {&a, &b})
        if (expr->level == Unary || isNumber(*expr))
          *expr = asUnsigned(*expr);
    Expr result = infix(a, sign, b, level);
    result.isUnsigned = isUnsigned;
    return natural(result, sign == "&" ? a.isNatural || b.isNatural : a.isNatural && b.isNatural);
  };
  auto areNatural = [&] { return operand(0).isNatural && operand(1).isNatural; };
  auto integers = [&](StringRef sign, Level level) {
    return natural(infix(asSigned(operand(0)), sign, asSigned(operand(1)), level), areNatural());
  };
  // An operation on unsigned operands; the result stays a bit pattern (i32) or is cast back (i64).
  auto unsignedResult = [&](Expr result) -> Expr {
    if (isWide)
      return ::cast("long long", result);
    result.isUnsigned = true;
    return result;
  };
  auto bits = [&](unsigned i) { return asUnsigned(operand(i), isWide); };

  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      // Integers.
      .Case([&](arith::AddIOp o) { return overflowing(o, "+", Sum, "wrap_add"); })
      .Case([&](arith::SubIOp o) { return overflowing(o, "-", Sum, "wrap_sub"); })
      .Case([&](arith::MulIOp o) { return overflowing(o, "*", Product, "wrap_mul"); })
      .Case([&](arith::DivSIOp) { return integers("/", Product); })
      .Case([&](arith::RemSIOp) { return integers("%", Product); })
      .Case([&](arith::DivUIOp) {
        return areNatural() ? integers("/", Product) : unsignedResult(infix(bits(0), "/", bits(1), Product));
      })
      .Case([&](arith::RemUIOp) {
        return areNatural() ? integers("%", Product) : unsignedResult(infix(bits(0), "%", bits(1), Product));
      })
      .Case([&](arith::FloorDivSIOp) { return primitive("floor_div", {asSigned(operand(0)), asSigned(operand(1))}); })
      .Case([&](arith::CeilDivSIOp) { return primitive("ceil_div", {asSigned(operand(0)), asSigned(operand(1))}); })
      .Case([&](arith::MinSIOp) {
        return natural(call("min", {asSigned(operand(0)), asSigned(operand(1))}), areNatural());
      })
      .Case([&](arith::MaxSIOp) {
        return natural(call("max", {asSigned(operand(0)), asSigned(operand(1))}),
                       operand(0).isNatural || operand(1).isNatural);
      })
      .Case([&](arith::MinUIOp) { return unsignedResult(call("min", {bits(0), bits(1)})); })
      .Case([&](arith::MaxUIOp) { return unsignedResult(call("max", {bits(0), bits(1)})); })
      .Case([&](arith::AndIOp) { return bitwise("&", BitAnd, "&&", And); })
      .Case([&](arith::OrIOp) { return bitwise("|", BitOr, "||", Or); })
      .Case([&](arith::XOrIOp) -> std::optional<Expr> {
        if (isBool && operand(1).text == "true")
          return unary("!", operand(0));
        return bitwise("^", BitXor, "!=", Equality);
      })
      .Case([&](arith::ShLIOp o) {
        if (bitEnumContainsAny(o.getOverflowFlags(), arith::IntegerOverflowFlags::nsw) && operand(0).isNatural)
          return natural(infix(operand(0), "<<", operand(1), Shift));
        return unsignedResult(infix(bits(0), "<<", operand(1), Shift));
      })
      .Case([&](arith::ShRUIOp) {
        if (operand(0).isNatural)
          return natural(infix(operand(0), ">>", operand(1), Shift));
        return unsignedResult(infix(bits(0), ">>", operand(1), Shift));
      })
      .Case([&](arith::ShRSIOp) {
        return natural(infix(asSigned(operand(0)), ">>", operand(1), Shift), operand(0).isNatural);
      })
      .Case([&](math::AbsIOp) { return primitive("wrap_abs", {asSigned(operand(0))}); })
      .Case([&](arith::CmpIOp o) { return compare(o); })
      .Case([&](arith::SelectOp) {
        Expr a = operand(1), b = operand(2);
        if (a.isUnsigned != b.isUnsigned)
          a = asSigned(a), b = asSigned(b);
        Expr result{at(operand(0), Or) + " ? " + at(a, Or) + " : " + at(b, Or), Conditional};
        result.isUnsigned = a.isUnsigned;
        return natural(result, a.isNatural && b.isNatural);
      })
      // Conversions.
      .Case([&](arith::ExtSIOp) -> std::optional<Expr> {
        if (op->getOperand(0).getType().isInteger(1))
          return unary("-", ::cast(valueName(type), operand(0)));
        return ::cast(valueName(type), asSigned(operand(0)));
      })
      .Case([&](arith::ExtUIOp) -> std::optional<Expr> {
        if (op->getOperand(0).getType().isInteger(1) || operand(0).isNatural)
          return natural(::cast(valueName(type), operand(0)));
        return ::cast(valueName(type), asUnsigned(operand(0)));
      })
      .Case([&](arith::TruncIOp) -> std::optional<Expr> {
        if (isBool)
          return infix({"(" + infix(operand(0), "&", {"1"}, BitAnd).text + ")"}, "!=", {"0"}, Equality);
        return ::cast("int", operand(0));
      })
      .Case([&](arith::SIToFPOp) -> std::optional<Expr> {
        if (op->getOperand(0).getType().isInteger(1))
          return unary("-", ::cast("float", operand(0)));
        return ::cast("float", asSigned(operand(0)));
      })
      .Case([&](arith::UIToFPOp) -> std::optional<Expr> {
        Type from = op->getOperand(0).getType();
        return ::cast("float", from.isInteger(1) ? operand(0) : asUnsigned(operand(0), from.isInteger(64)));
      })
      .Case([&](arith::FPToSIOp) { return primitive(isWide ? "float_to_int64" : "float_to_int", {operand(0)}); })
      .Case([&](arith::BitcastOp) -> std::optional<Expr> {
        Type from = op->getOperand(0).getType();
        if (from.isF32() && type.isInteger(32))
          return call("__float_as_int", {operand(0)});
        if (from.isInteger(32) && type.isF32())
          return operand(0).isUnsigned ? call("__uint_as_float", {operand(0)}) : call("__int_as_float", {operand(0)});
        return from == type ? std::optional(operand(0)) : std::nullopt;
      })
      // Floats.
      .Case([&](arith::AddFOp) { return floats("+", Sum); })
      .Case([&](arith::SubFOp) { return floats("-", Sum); })
      .Case([&](arith::MulFOp) { return floats("*", Product); })
      .Case([&](arith::DivFOp) {
        return isPrecise ? floats("/", Product) : primitive("fast_divide", {operand(0), operand(1)});
      })
      .Case([&](arith::RemFOp) { return function("fmodf"); })
      .Case([&](arith::NegFOp) { return unary("-", operand(0)); })
      .Case([&](arith::MaximumFOp) { return primitive("max_nan", {operand(0), operand(1)}); })
      .Case([&](arith::MinimumFOp) { return primitive("min_nan", {operand(0), operand(1)}); })
      .Case([&](arith::MaxNumFOp) { return function("fmaxf"); })
      .Case([&](arith::MinNumFOp) { return function("fminf"); })
      .Case([&](arith::CmpFOp o) { return compare(o); })
      .Case([&](math::FmaOp) { return function("fmaf"); })
      .Case([&](math::AbsFOp) { return function("fabsf"); })
      .Case([&](math::CopySignOp) { return function("copysignf"); })
      .Case([&](math::FloorOp) { return function("floorf"); })
      .Case([&](math::CeilOp) { return function("ceilf"); })
      .Case([&](math::TruncOp) { return function("truncf"); })
      .Case([&](math::RoundOp) { return function("roundf"); })
      .Case([&](math::RoundEvenOp) { return function("rintf"); })
      .Case([&](math::ExpOp) { return math("fast_exp", "expf"); })
      .Case([&](math::Exp2Op) { return math("fast_exp2", "exp2f"); })
      .Case([&](math::ExpM1Op) { return function("expm1f"); })
      .Case([&](math::LogOp) { return math("fast_log", "logf"); })
      .Case([&](math::Log2Op) { return math("fast_log2", "log2f"); })
      .Case([&](math::Log10Op) { return function("log10f"); })
      .Case([&](math::Log1pOp) { return function("log1pf"); })
      .Case([&](math::TanhOp) { return math(kernel.getDtype().isBF16() ? "fast_tanh" : "exp_tanh", "tanhf"); })
      // No short form: the approximations have an absolute error, not a relative one, near their zeros.
      .Case([&](math::SinOp) { return function("sinf"); })
      .Case([&](math::CosOp) { return function("cosf"); })
      .Case([&](math::TanOp) { return function("tanf"); })
      .Case([&](math::PowFOp) { return function("powf"); })
      .Case([&](math::ErfOp) { return function("erff"); })
      .Case([&](math::AtanOp) { return function("atanf"); })
      .Case([&](math::Atan2Op) { return function("atan2f"); })
      .Case([&](math::SqrtOp) { return math("fast_sqrt", "sqrtf"); })
      .Case([&](math::RsqrtOp) { return math("fast_rsqrt", "rsqrtf"); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> Printer::expression(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](ThreadIdOp) { return ::cast("int", {"threadIdx.x"}); })
      .Case([&](GetOp get) {
        Expr expr{element(get.getBuffer(), get.getIndices())};
        auto type = cast<TileType>(get.getBuffer().getType());
        FragmentRole role = cast<FragmentAttr>(type.getLayout()).getRole();
        expr.isUnsigned =
            get.getResult().getType().isInteger(32) && (role == FragmentRole::A || role == FragmentRole::B);
        return expr;
      })
      .Case([&](ExtentOp o) { return natural(primitive("extent", {{views[o.getView()].extents[o.getDim()]}})); })
      .Case([&](UnpackOp o) {
        return primitive(o.getType().isBF16() ? "unpack_bf16" : "unpack_f16",
                         {integer(o.getPair()), value(o.getIndex())});
      })
      .Case([&](tile::MulFiniteOp o) { return call("__fmul_rz", {value(o.getLhs()), value(o.getRhs())}); })
      .Case([&](BehindOp o) { return primitive("behind", {value(o.getValue()), value(o.getFirst())}); })
      .Case([&](ColumnsBelowOp o) { return primitive("columns_below", {value(o.getBound())}); })
      .Case([&](TestBitOp o) { return primitive("test_bit", {value(o.getWord()), value(o.getIndex())}); })
      .Case([&](IsMappedOp o) {
        Expr bit = infix({"p.mapped"}, "&", {std::to_string(1u << mapIndices[o.getMap()])}, BitAnd);
        return infix({"(" + bit.text + ")"}, "!=", {"0"}, Equality);
      })
      .Case([&](IsNullOp null) { return infix({views[null.getView()].root}, "==", {"nullptr"}, Equality); })
      .Case([&](PackOp pack) -> std::optional<Expr> {
        if (!pack.getType().isBF16() && !pack.getType().isF16())
          return fail(op, "of type " + text(pack.getType()) + " has no printed form; use bf16 or f16"), Expr{"0"};
        Expr expr = primitive(pack.getType().isBF16() ? "pack_bf16" : "pack_f16",
                              {value(pack.getLow()), value(pack.getHigh())});
        expr.isUnsigned = true;
        return expr;
      })
      .Default([&](Operation *) -> std::optional<Expr> {
        for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
          if (valueName(type).empty())
            return std::nullopt;
        return arithmetic(op);
      });
}

//===----------------------------------------------------------------------===//
// Inlining
//===----------------------------------------------------------------------===//

/// Ops whose expression takes the place of a value.
static bool isExpression(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<tile::MulFiniteOp, GetOp, IsNullOp, PackOp, UnpackOp, BehindOp, ColumnsBelowOp, TestBitOp, ExtentOp,
             IsMappedOp>(op);
}

bool Printer::canInline(Operation *op) {
  Value result = op->getResult(0);
  if (!result.hasOneUse() || op->hasAttr(tile::nameAttr) || op->hasAttr(codegen::commentAttr))
    return false;
  Operation *user = *result.getUsers().begin();
  if (user->getBlock() != op->getBlock() || isa<scf::ForOp, ForTilesOp>(user))
    return false; // another block, or a condition that is evaluated again and again
  if (!isa<GetOp>(op))
    return true;
  // A read moves to the statement that its expression becomes part of: nothing may be written before.
  while (isExpression(user) && user->getNumResults() == 1 && user->getResult(0).hasOneUse() &&
         (*user->getResult(0).getUsers().begin())->getBlock() == op->getBlock() &&
         !isa<scf::ForOp, ForTilesOp>(*user->getResult(0).getUsers().begin()) && !user->hasAttr(tile::nameAttr) &&
         !user->hasAttr(codegen::commentAttr))
    user = *user->getResult(0).getUsers().begin();
  return writesBefore[op] == writesBefore[user];
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

/// `atEnd` prints what stands in the block behind its ops, where their names are taken.
void Printer::printBlock(Block &block, function_ref<void()> atEnd) {
  unsigned writes = 0;
  for (Operation &op : block) {
    writesBefore[&op] = writes;
    if (!isMemoryEffectFree(&op) && !isa<GetOp, LoadSharedOp, RegistersOp, SharedOp>(op))
      ++writes;
  }
  size_t mark = names.open();
  for (Operation &op : block) {
    printOp(&op);
    if (error)
      return;
  }
  if (atEnd)
    atEnd();
  names.close(mark);
}

void Printer::printOp(Operation *op) {
  /// Longest expression that is written into its user.
  constexpr size_t longest = 72;
  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    values[constantOp.getResult()] = constant(constantOp);
    return;
  }
  if (auto param = dyn_cast<tile::ParamOp>(op)) {
    if (isa<ViewType>(param.getResult().getType())) {
      views[param.getResult()] = parameterView(param);
    } else if (Expr expr = parameter(param); expr.level == Primary) {
      values[param.getResult()] = expr;
    } else {
      std::string name = nameFor(op, param.getName());
      statement(op, "const long long " + name + " = " + expr.text + ";");
      values[param.getResult()] = {name};
    }
    return;
  }
  if (auto extent = dyn_cast<tile::AxisExtentOp>(op)) {
    values[extent.getResult()] = extentOf(extent.getAxis());
    return;
  }
  if (std::optional<Expr> expr = expression(op)) {
    if (error)
      return;
    if (isa<ThreadIdOp>(op)) {
      std::string name = nameFor(op, "thread");
      statement(op, "const int " + name + " = threadIdx.x" + (firstThread ? " - " + std::to_string(firstThread) : "") +
                        ";");
      values[op->getResult(0)] = natural({name});
    } else if (expr->text.size() <= longest && canInline(op)) {
      values[op->getResult(0)] = *expr;
    } else {
      declare(op->getOpResult(0), *expr);
    }
    return;
  }
  printStatement(op);
}

/// Element type of a lane's array, or "".
static StringRef arrayElement(TileType type) {
  FragmentRole role = cast<FragmentAttr>(type.getLayout()).getRole();
  Type element = type.getElementType();
  bool isOperand = role == FragmentRole::A || role == FragmentRole::B;
  if (element.isBF16() || element.isF16())
    return isOperand ? "unsigned" : "";
  if (element.isInteger(32) && isOperand)
    return "unsigned";
  return valueName(element);
}

/// "[2][8][4]"
static std::string arrayShape(TileType type) {
  std::string text;
  for (int64_t size : cast<FragmentAttr>(type.getLayout()).laneShape(type))
    text += "[" + std::to_string(size) + "]";
  return text;
}

void Printer::printStatement(Operation *op) {
  auto unexpanded = [&] { fail(op, "is not expanded; run the scheduling passes to their end before printing"); };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](SharedOp o) {
        used.insert("shared_address");
        std::string name = names.take(o.getName());
        buffers[o.getResult()] = name;
        std::string at = o.getOffset() ? "shared_base + " + std::to_string(o.getOffset()) : "shared_base";
        statement(op, "const unsigned " + name + " = " + at + ";  // " + describe(o.getResult().getType()));
      })
      .Case([&](RegistersOp o) {
        TileType type = o.getResult().getType();
        StringRef element = arrayElement(type);
        if (element.empty())
          return fail(op, "of " + describe(type) + " has no printed form; use f32, or 16 bits in a fragment a or b");
        std::string name = names.take(o.getName());
        buffers[o.getResult()] = name;
        statement(op, element + " " + name + arrayShape(type) + ";  // " + describe(type));
      })
      .Case([&](SetOp o) { printSet(o); })
      .Case([&](SliceOp o) { printSlice(o); })
      .Case([&](tile::ElementOp o) { printElement(o); })
      .Case([&](tile::TouchesOp o) { printTouches(o); })
      .Case([&](VisibleOp) {}) // the search returns it
      .Case([&](StoreElementOp o) {
        const View &view = views[o.getView()];
        SmallVector<Expr> indices;
        for (Value index : o.getIndices())
          indices.push_back(integer(index));
        Type type = o.getView().getType().getElementType();
        if (type.isF32())
          statement(op, globalElement(view, indices) + " = " + value(o.getValue()).text + ";");
        else if (type.isBF16() || type.isF16())
          statement(op, primitive(type.isBF16() ? "store_bf16" : "store_f16",
                                  {globalAddress(view, indices), value(o.getValue())})
                                .text +
                            ";");
        else
          fail(op, "to a view of " + text(type) + " has no printed form; store f32, bf16 or f16");
      })
      .Case([&](CopyToGlobalOp o) {
        Expr to = globalAddress(views[o.getView()], {integer(o.getViewRow()), integer(o.getColumn())});
        Expr from = sharedAddress(op, o.getShared(), {}, o.getRow(), o.getColumn());
        statement(op, primitive("copy_to_global_16", {to, from}).text + ";");
      })
      .Case([&](CopyAsyncOp o) {
        Expr from = globalAddress(views[o.getView()], {integer(o.getViewRow()), integer(o.getColumn())});
        Expr to = sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn());
        Expr valid = value(o.getValid());
        statement(op, (valid.text == "true" ? primitive("copy_async_16", {to, from})
                                            : primitive("copy_async_16_if", {valid, to, from}))
                              .text +
                          ";");
      })
      .Case([&](CommitCopiesOp) { statement(op, primitive("commit_copies", {}).text + ";"); })
      .Case([&](WaitCopiesOp o) {
        statement(op, primitive("wait_copies", "<" + Twine(o.getPending()) + ">", {}).text + ";");
      })
      .Case([&](BarrierOp) { statement(op, "__syncthreads();"); })
      .Case([&](LoadMatrixOp o) { printLoadMatrix(o); })
      .Case([&](LoadSharedOp o) {
        Type type = o.getShared().getType().getElementType();
        if (!type.isF32() && !type.isInteger(32))
          return fail(op, "from " + describe(o.getShared().getType()) +
                              " has no printed form; only f32 and i32 are read element by element");
        declare(cast<OpResult>(o.getResult()),
                primitive(type.isF32() ? "load_shared" : "load_shared_int", {steppedAddress(o)}));
      })
      .Case([&](LoadPairOp o) {
        const bool isFloat = o.getFirst().getType().isF32();
        std::string name = names.take("pair");
        Expr pair = primitive(isFloat ? "load_shared_pair" : "load_shared_int_pair",
                              {sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn())});
        statement(op, std::string(isFloat ? "const float2 " : "const int2 ") + name + " = " + pair.text + ";");
        values[o.getFirst()] = {name + ".x"};
        values[o.getSecond()] = {name + ".y"};
      })
      .Case([&](StoreSharedOp o) {
        Expr what = value(o.getValue());
        if (o.getValue().getType().isInteger(32))
          what = asUnsigned(what);
        statement(op, primitive("store_shared",
                                {sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn()), what})
                              .text +
                          ";");
      })
      .Case([&](ScaleSharedOp o) {
        Expr at = sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn());
        statement(op,
                  primitive("scale_shared_16", {at, {printFloat(std::ldexp(1.0f, int(o.getExponent())))}}).text + ";");
      })
      .Case([&](StoreMatrixOp o) {
        SmallVector<Expr> arguments{sharedAddress(op, o.getShared(), o.getStage(), o.getRow(), o.getColumn())};
        for (Value matrix : {o.getFirst(), o.getSecond(), o.getThird(), o.getFourth()})
          arguments.push_back(asUnsigned(value(matrix)));
        statement(op, primitive("store_matrix", arguments).text + ";");
      })
      .Case([&](SplitTf32Op o) {
        std::string big = nameFor(op, 0, "big"), small = nameFor(op, 1, "small");
        statement(op, "unsigned " + big + ", " + small + ";");
        statement(op, primitive("split_tf32", {value(o.getValue()), {big}, {small}}).text + ";");
        values[o.getBig()] = {big, Primary, true};
        values[o.getSmall()] = {small, Primary, true};
      })
      .Case([&](MmaOp o) { printMma(o); })
      .Case([&](ReadThreadIdOp o) {
        std::string name = nameFor(op, "thread");
        statement(op, "const int " + name + " = " + primitive("read_thread_id", {}).text +
                          (firstThread ? " - " + std::to_string(firstThread) : "") + ";");
        values[o.getResult()] = natural({name});
      })
      .Case([&](ReadWorkOp o) { printReadWork(o); })
      .Case([&](MoreWorkOp o) {
        auto work = cast<ForWorkOp>(o->getParentOp());
        Expr next = o.getNumber() ? asUnsigned(value(o.getNumber()))
                                  : workNumber(work, infix(value(work.getCount()), "+", {"1"}, Sum));
        declare(o->getResult(0), {at(next, Relation) + " < " + workTiles(work).text + " ? 1 : 0", Conditional});
      })
      .Case([&](WaitBoundsOp) { statement(op, primitive("wait_launch", {}).text + ";"); })
      .Case([&](ClaimWorkOp) {}) // the loop over work has printed it
      .Case([&](SendOp o) {
        std::string fields;
        for (Value value : o.getValues())
          fields += (fields.empty() ? "" : ", ") + integer(value).text;
        std::string message = "Message<" + std::to_string(o.getShared().getType().getShape()[2]) + ">{" + fields + "}";
        statement(op,
                  primitive("send", {sharedAddress(op, o.getShared(), o.getStage(), {}, {}), {message}}).text + ";");
      })
      .Case([&](ReceiveOp o) {
        std::string fields = "<" + std::to_string(o.getShared().getType().getShape()[2]) + ">";
        std::string name = names.take(o.getShared().getDefiningOp<SharedOp>().getName().str() + "_message");
        Expr message = primitive("receive", fields, {sharedAddress(op, o.getShared(), o.getStage(), {}, {})});
        statement(op, "const Message" + fields + " " + name + " = " + message.text + ";");
        for (auto [i, result] : llvm::enumerate(o.getResults()))
          values[result] = natural({name + ".field[" + std::to_string(i) + "]"});
      })
      .Case([&](ShuffleXorOp o) {
        declare(cast<OpResult>(o.getResult()),
                primitive("shuffle_xor", {value(o.getValue()), {std::to_string(o.getMask())}}));
      })
      // Statements of their own although they have no effects: all lanes must take part.
      .Case([&](ShuffleOp o) {
        declare(cast<OpResult>(o.getResult()), primitive("shuffle", {value(o.getValue()), integer(o.getLane())}));
      })
      .Case([&](UniformOp o) { declare(cast<OpResult>(o.getResult()), primitive("uniform", {integer(o.getValue())})); })
      .Case([&](AnyLaneOp o) {
        declare(cast<OpResult>(o.getResult()), primitive("any_lane", {value(o.getCondition())}));
      })
      .Case([&](RoleOp o) {
        if (!isa_and_nonnull<RoleOp>(o->getPrevNode()))
          printRoles(o);
      })
      .Case([&](ElectOp o) { declare(cast<OpResult>(o.getResult()), primitive("elect_one", {})); })
      .Case([&](RingOp o) {
        used.insert("shared_address");
        std::string name = names.take(o.getName());
        rings[o.getResult()] = name;
        statement(op, "const unsigned " + name + " = shared_base + " + std::to_string(o.getOffset()) +
                          ";  // full and empty, " + std::to_string(o.getResult().getType().getStages()) + " each");
      })
      .Case([&](InitRingOp o) {
        auto ring = o.getRing().getDefiningOp<RingOp>();
        statement(
            op, primitive(
                    "init_ring", "<" + Twine(o.getRing().getType().getStages()) + ">",
                    {{rings[o.getRing()]}, {std::to_string(ring.getFilledBy())}, {std::to_string(ring.getEmptiedBy())}})
                        .text +
                    ";");
      })
      .Case([&](FenceInitOp) { statement(op, primitive("fence_init", {}).text + ";"); })
      .Case([&](AcquireOp o) {
        // Nothing is in a ring at first: its empty barriers count as complete in the phase before.
        Expr phase = infix(integer(o.getPhase()), "^", {"1"}, BitXor);
        statement(op, primitive("wait_barrier", {barrier(o.getRing(), o.getStage(), false), phase}).text + ";");
      })
      .Case([&](WaitOp o) {
        statement(op,
                  primitive("wait_barrier", {barrier(o.getRing(), o.getStage(), true), integer(o.getPhase())}).text +
                      ";");
      })
      .Case([&](ExpectBytesOp o) {
        statement(
            op,
            primitive("expect_bytes", {barrier(o.getRing(), o.getStage(), true), {std::to_string(o.getBytes())}}).text +
                ";");
      })
      .Case([&](CommitOp o) {
        statement(op, primitive("arrive", {barrier(o.getRing(), o.getStage(), true)}).text + ";");
      })
      .Case([&](ReleaseOp o) {
        statement(
            op,
            primitive(o.getByLanes() ? "arrive" : "arrive_as_warp", {barrier(o.getRing(), o.getStage(), false)}).text +
                ";");
      })
      .Case([&](SyncLanesOp) { statement(op, primitive("sync_lanes", {}).text + ";"); })
      .Case([&](SyncWarpsOp o) {
        statement(op, primitive("sync_warps", {integer(o.getId()), {std::to_string(o.getThreads())}}).text + ";");
      })
      .Case([&](ArriveWarpsOp o) {
        statement(op, primitive("arrive_warps", {integer(o.getId()), {std::to_string(o.getThreads())}}).text + ";");
      })
      .Case([&](TensorMapOp o) {
        std::string name = nameFor(op, "map");
        mapIndices[o.getResult()] = unsigned(maps.size());
        maps[o.getResult()] = "p." + name;
        tensorMaps += "  TensorMap " + name + ";\n";
      })
      .Case([&](LoadBoxOp o) {
        Expr to = sharedAddress(op, o.getShared(), o.getStage(), {}, o.getColumn());
        statement(op, primitive("load_box", {to,
                                             {maps[o.getMap()]},
                                             barrier(o.getRing(), o.getStage(), true),
                                             integer(o.getBatch()),
                                             integer(o.getHead()),
                                             integer(o.getRow()),
                                             integer(o.getTensorColumn() ? o.getTensorColumn() : o.getColumn())})
                              .text +
                          ";");
      })
      .Case([&](StoreBoxOp o) {
        Expr from = sharedAddress(op, o.getShared(), o.getStage(), o.getSharedRow(), o.getColumn());
        statement(op, primitive("store_box", {{maps[o.getMap()]},
                                              from,
                                              integer(o.getBatch()),
                                              integer(o.getHead()),
                                              integer(o.getRow()),
                                              integer(o.getColumn())})
                              .text +
                          ";");
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
      .Case([&](MmaAsyncOp o) { printMmaAsync(o); })
      .Case([&](MmaFenceOp) { statement(op, primitive("mma_fence", {}).text + ";"); })
      .Case([&](MmaCommitOp) { statement(op, primitive("mma_commit", {}).text + ";"); })
      .Case([&](MmaWaitOp o) {
        SmallVector<Expr> complete;
        for (Value tile : o.getCompletes())
          complete.push_back({element(tile, ArrayRef<Expr>{{"0"}})});
        statement(op, primitive("mma_wait", "<" + Twine(o.getPending()) + ">", complete).text + ";");
      })
      .Case([&](PhiloxOp o) { printPhilox(o); })
      .Case([&](NextVisibleOp o) { printNextVisible(o); })
      .Case([&](scf::ForOp o) { printFor(o); })
      .Case([&](scf::IfOp o) { printIf(o); })
      .Case([&](ForWorkOp o) { printForWork(o); })
      .Case([&](ForTilesOp o) { printForTiles(o); })
      .Case([&](scf::YieldOp) {})
      .Case([&](NextOp) {})
      .Case([&](SlotOp) { unexpanded(); })
      .Case([&](CopyTileOp) { unexpanded(); })
      .Case([&](StoreTileOp) { unexpanded(); })
      .Case([&](CopyWindowOp) { unexpanded(); })
      .Default([&](Operation *) {
        if (isa<tile::TileDialect>(op->getDialect()))
          return unexpanded();
        if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
          for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
            if (valueName(type).empty())
              return fail(op, "on " + text(type) + " has no printed form; use f32, i32, i64 or i1");
        fail(op, "has no printed form in CUDA; lower it to arith, math, scf and sched ops");
      });
}

/// `buffer[i] = value;`, or `buffer[i] += value;` where the value is the element and a term.
void Printer::printSet(SetOp op) {
  std::string target = element(op.getBuffer(), op.getIndices());
  Expr what = value(op.getValue());
  StringRef sign = "=";
  std::string text = what.text;
  if (Operation *term = op.getValue().getDefiningOp(); term && isa<arith::AddFOp, arith::MulFOp>(term))
    for (StringRef both : {" + ", " * "})
      if (StringRef(text).starts_with(target + both.str()) && both == (isa<arith::AddFOp>(term) ? " + " : " * ")) {
        Expr rest = value(term->getOperand(1));
        if (value(term->getOperand(0)).text == target) {
          sign = both == " + " ? "+=" : "*=";
          text = rest.text;
        }
        break;
      }
  statement(op, target + " " + sign + " " + text + ";");
}

void Printer::printSlice(SliceOp op) {
  View view = views[op.getView()];
  if (view.pointer.empty())
    return fail(op, "needs a view of this kernel's parameters");
  SmallVector<Expr> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  Expr address = globalAddress(view, indices);
  std::string base = StringRef(view.root).drop_front(2).str();
  std::string name = nameFor(op, base + "_rows");
  statement(op, Twine(view.isWritten ? "" : "const ") + elementName(op.getResult().getType().getElementType()) +
                    " *const " + name + " = " + address.text + ";");
  view.pointer = name;
  view.strides = llvm::to_vector(llvm::drop_begin(view.strides, indices.size()));
  view.extents = llvm::to_vector(llvm::drop_begin(view.extents, indices.size()));
  views[op.getResult()] = view;
}

void Printer::printElement(tile::ElementOp op) {
  const View &view = views[op.getView()];
  SmallVector<Expr> indices;
  for (auto [i, index] : llvm::enumerate(op.getIndices())) {
    Expr expr = integer(index);
    indices.push_back(op.getInRange()[i] ? expr : primitive("clamp_index", {expr, {view.extents[i]}}));
  }
  Type type = op.getView().getType().getElementType();
  // While another kernel writes them, bounds are no constants.
  auto parameter = op.getView().getDefiningOp<tile::ParamOp>();
  const bool isMade = waitsForBounds && parameter &&
                      llvm::any_of(kernel.getBounds().getAsRange<tile::BoundsAttr>(), [&](tile::BoundsAttr bounds) {
                        return bounds.getName().getValue() == parameter.getName();
                      });
  StringRef load = isMade               ? "load_bound"
                   : type.isF32()       ? "load_f32"
                   : type.isBF16()      ? "load_bf16"
                   : type.isF16()       ? "load_f16"
                   : type.isInteger(32) ? "load_i32"
                   : type.isInteger(64) ? "load_i64"
                   : type.isInteger(8)  ? "load_bool"
                                        : "";
  if (load.empty())
    return fail(op, "of " + text(type) + " has no printed form; use f32, bf16, f16, i32, i64 or i8");
  declare(cast<OpResult>(op.getResult()), primitive(load, {globalAddress(view, indices)}));
}

template <typename Load> Expr Printer::steppedAddress(Load op) {
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

void Printer::printLoadMatrix(LoadMatrixOp op) {
  auto type = cast<TileType>(op.getFragment().getType());
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  if (!fragment || arrayElement(type) != "unsigned")
    return fail(op, "needs a fragment of 16-bit elements, got " + describe(type));
  SmallVector<int64_t> shape = fragment.laneShape(type);
  SmallVector<Expr> arguments;
  Expr i = integer(op.getI()), j = integer(op.getJ());
  auto next = [](const Expr &index, int64_t by) -> Expr {
    if (isNumber(index))
      return {std::to_string(std::stoll(index.text) + by)};
    return by ? infix(index, "+", {std::to_string(by)}, Sum) : index;
  };
  // Four registers in the order of the array: [i][j][0] on, then the next j, and past a row of one the next i.
  for (int64_t r = 0; r < 4; ++r) {
    int64_t step = r / shape[2];
    SmallVector<Expr> indices = {
        next(i, shape[1] == 1 ? step : 0), next(j, shape[1] == 1 ? 0 : step), {std::to_string(r % shape[2])}};
    for (int64_t axis : {0, 1})
      if (isNumber(indices[axis]) && std::stoll(indices[axis].text) >= shape[axis])
        return fail(op, "writes past the lane's array " + arrayShape(type) + " from [" + i.text + "][" + j.text + "]");
    arguments.push_back({element(op.getFragment(), indices)});
  }
  arguments.push_back(steppedAddress(op));
  statement(op, primitive(op.getTranspose() ? "load_matrix_transposed" : "load_matrix", arguments).text + ";");
}

void Printer::printMma(MmaOp op) {
  Type type = op.getA().getType().getElementType();
  StringRef name = type.isBF16() ? "mma_bf16" : type.isF16() ? "mma_f16" : type.isInteger(32) ? "mma_tf32" : "";
  if (name.empty())
    return fail(op,
                "on " + text(type) + " has no printed form; use bf16, f16, or i32 that hold tf32 (sched.split_tf32)");
  statement(op, primitive(name, {{element(op.getAcc(), {value(op.getI()), value(op.getJ())})},
                                 {element(op.getA(), {value(op.getAi()), value(op.getAj())})},
                                 {element(op.getB(), {value(op.getBi()), value(op.getBj())})}})
                        .text +
                    ";");
}

Expr Printer::barrier(Value ring, Value stage, bool full) {
  std::string text = rings[ring];
  if (!full)
    text += " + " + std::to_string(8 * cast<RingType>(ring.getType()).getStages());
  Expr at = integer(stage);
  if (isNumber(at) ? at.text != "0" : true)
    text += " + " + (isNumber(at) ? std::to_string(8 * std::stoll(at.text)) : ::at(at, Product) + " * 8");
  return {text, Sum};
}

Expr Printer::matrixDescriptor(Operation *op, Value shared, Value stage, Value row, Value column, bool transpose) {
  auto type = cast<TileType>(shared.getType());
  int64_t panel = cast<SwizzleAttr>(type.getLayout()).getPanel();
  // Stored with the contracted axis along rows of a panel, the panels of further columns lie a panel's rows apart.
  int64_t leading = transpose ? type.getShape()[1] * panel : 16;
  SharedPlace place = sharedPlace(op, shared, stage, row, column);
  return primitive("matrix_descriptor", "<" + Twine(panel) + ", " + Twine(leading) + ", " + Twine(8 * panel) + ">",
                   {place.base, place.offset});
}

void Printer::printMmaAsync(MmaAsyncOp op) {
  TileType acc = op.getAcc().getType(), a = op.getA().getType();
  bool leftShared = a.getSpace() == tile::MemorySpace::Shared;
  SmallVector<Value> at(op.getAIndices());
  Expr left = leftShared ? matrixDescriptor(op, op.getA(), at[0], at[1], at[2], false)
                         : Expr{element(op.getA(), {value(at[0]), value(at[1])})};
  Expr right = matrixDescriptor(op, op.getB(), op.getStage(), op.getRow(), op.getColumn(), op.getTranspose());
  std::string name = codegen::mmaAsyncName(elementName(a.getElementType()), int(acc.getShape()[1]), leftShared);
  statement(op, primitive(name, op.getTranspose() ? "<1>" : "<0>",
                          {{element(op.getAcc(), ArrayRef<Expr>{{"0"}})}, left, right, value(op.getAccumulate())})
                        .text +
                    ";");
}

/// One chain of branches: each warpgroup takes one of them.
void Printer::printRoles(RoleOp role) {
  const int64_t threads = kernel.getThreads(),
                atLaunch = std::min<int64_t>(255, 65536 / (threads * kernel.getBlocksPerSm())) / 8 * 8;
  for (bool first = true; role; role = dyn_cast_or_null<RoleOp>(role->getNextNode()), first = false) {
    unsigned end = firstThread + 32 * role.getWarps();
    bool last = !isa_and_nonnull<RoleOp>(role->getNextNode());
    std::string condition = "if (threadIdx.x < " + std::to_string(end) + ") {";
    std::string head = first ? condition : last ? "} else {" : "} else " + condition;
    if (!first)
      --depth;
    line(head + "  // " + codegen::commentText(role.getName()));
    ++depth;
    if (std::optional<uint64_t> registers = role.getRegisters())
      line(primitive(int64_t(*registers) < atLaunch ? "decrease_registers" : "increase_registers",
                     "<" + Twine(std::min<uint64_t>(*registers, 256)) + ">", {})
               .text +
           ";");
    printBlock(role.getBody().front());
    firstThread = end;
  }
  firstThread = 0;
  close();
}

void Printer::printPhilox(PhiloxOp op) {
  std::string name = nameFor(op, "random");
  SmallVector<Expr> arguments;
  for (Value operand : op->getOperands())
    arguments.push_back(value(operand));
  statement(op, "const uint4 " + name + " = " + primitive("philox", arguments).text + ";");
  for (auto [result, part] : llvm::zip(op->getResults(), StringRef("xyzw")))
    values[result] = {name + "." + part, Primary, true};
}

void Printer::printTouches(tile::TouchesOp op) {
  View view = views[op.getView()];
  SmallVector<Expr> indices;
  for (Value index : op.getIndices())
    indices.push_back(integer(index));
  size_t rank = view.strides.size();
  Expr pattern = globalAddress(view, ArrayRef(indices).drop_back(2));
  std::string sizes = ("<" + Twine(op.getTileRows()) + ", " + Twine(op.getTileColumns()) + ", " + Twine(op.getRows()) +
                       ", " + Twine(op.getColumns()) + ">")
                          .str();
  declare(cast<OpResult>(op.getResult()), primitive("touches_block", sizes,
                                                    {pattern,
                                                     {view.strides[rank - 2]},
                                                     {view.strides[rank - 1]},
                                                     {view.extents[rank - 2]},
                                                     {view.extents[rank - 1]},
                                                     indices[rank - 2],
                                                     indices[rank - 1]}));
}

/// The region is a function of the tile, called in place.
void Printer::printNextVisible(NextVisibleOp op) {
  Block &condition = op.getCondition().front();
  std::string name = nameFor(op, "n");
  SmallVector<Expr> arguments{integer(op.getFrom()), integer(op.getBound())};
  for (Value seen : op.getSeen())
    arguments.push_back(integer(seen));
  const size_t parts = op.getBegins().size();
  std::string begins, answerType = "TileAnswer";
  if (parts) {
    begins = names.take("part_begin");
    line("int " + begins + "[" + Twine(parts) + "];");
    arguments.push_back({begins});
    answerType = "PartsAnswer<" + std::to_string(parts) + ">";
  }
  size_t mark = names.open();
  std::string tile = names.take("n");
  arguments.push_back({"[&](int " + tile + ") -> " + answerType});
  std::string search = primitive(parts ? "next_visible_parts" : "next_visible", arguments).text;
  open(op, "const FoundTile " + name + " = " + StringRef(search).drop_back().str());
  values[condition.getArgument(0)] = natural({tile});
  printBlock(condition);
  if (error)
    return;
  auto answer = cast<VisibleOp>(condition.getTerminator());
  std::string ofParts;
  for (Value part : answer.getParts())
    ofParts += (ofParts.empty() ? ", {" : ", ") + value(part).text;
  line("return {" + value(answer.getVisible()).text + ", " + value(answer.getFull()).text + ofParts +
       (parts ? "}};" : "};"));
  close("});");
  names.close(mark);
  values[op.getTile()] = natural({name + ".tile"});
  values[op.getOrigin()] = natural({name + ".origin"});
  values[op.getVisible()] = {name + ".visible"};
  values[op.getFull()] = {name + ".full"};
  for (auto [i, begin] : llvm::enumerate(op.getBegins()))
    values[begin] = natural({begins + "[" + std::to_string(i) + "]"});
}

/// The kernel that makes the bounds of tensors.
void Printer::printBounds() {
  used.insert("write_bounds");
  std::string text = ("\nextern \"C\" __global__ void __launch_bounds__(" + Twine(boundsBlockThreads) + ")\n" +
                      codegen::kernelSymbol(kernel) + boundsEntrySuffix + "(const __grid_constant__ Params p) {\n")
                         .str();
  if (waitsForBounds)
    text += "  " + primitive("start_next_launch", {}).text + ";\n";
  text += "  long long entry = (long long)blockIdx.x * " + std::to_string(boundsBlockThreads / 32) +
          " + threadIdx.x / 32;\n";
  if (claimsWork(kernel))
    text += "  // The counter of the claims of work\n"
            "  if (entry == 0)\n"
            "    *static_cast<unsigned *>(p.workspace) = 0;\n";
  for (auto bounds : kernel.getBounds().getAsRange<tile::BoundsAttr>()) {
    std::string tensor = members[(tile::tensorPrefix + bounds.getTensor().getValue()).str()],
                table = members[bounds.getName().str()];
    bool ofKeys = bounds.getAxis().getValue() == "k";
    text += "  // Tiles of " + std::to_string(bounds.getRows()) + (ofKeys ? " keys\n" : " queries\n");
    std::string arguments;
    for (const std::string &name :
         {tensor, tensor + "_stride", tensor + "_extent", table, table + "_stride", table + "_extent"})
      arguments += ", p." + name;
    arguments += (!ofKeys && kernel.getQOffset() ? ", p.q_offset, " : ", 0, ") + extentOf(bounds.getAxis()).text;
    text += wrap("  if (write_bounds<" + std::to_string(tile::boundedTensor(kernel.getTensors(), bounds).getRank()) +
                     ", " + std::to_string(bounds.getDim()) + ", " + std::to_string(bounds.getRows()) + ">(entry" +
                     arguments + "))",
                 2);
    text += "\n    return;\n";
  }
  boundsKernel = text + "}\n";
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void Printer::printFor(scf::ForOp op) {
  if (op.getNumRegionIterArgs())
    return fail(op, "carries values; keep them in sched.registers");
  if (!op.getInductionVar().getType().isInteger(32))
    return fail(op, "counts in " + text(op.getInductionVar().getType()) + "; use i32");
  Expr begin = integer(op.getLowerBound()), end = integer(op.getUpperBound()), step = integer(op.getStep());
  comment(op);
  line(op->hasAttr(unrollAttr) ? "#pragma unroll" : "#pragma unroll 1");
  size_t mark = names.open();
  std::string name = nameFor(op, "i");
  std::string advance = step.text == "1" ? "++" + name : name + " += " + step.text;
  open(op, "for (int " + name + " = " + begin.text + "; " + name + " < " + at(end, Sum) + "; " + advance + ")");
  values[op.getInductionVar()] = natural({name}, begin.isNatural);
  printBlock(*op.getBody());
  close();
  names.close(mark);
}

void Printer::printIf(scf::IfOp op) {
  if (op.getNumResults())
    return fail(op, "gives values; use arith.select, or sched.registers written in both branches");
  comment(op);
  open(op, "if (" + value(op.getCondition()).text + ")");
  printBlock(*op.thenBlock());
  if (op.elseBlock() && !llvm::hasSingleElement(*op.elseBlock())) {
    close("} else {");
    ++depth;
    printBlock(*op.elseBlock());
  }
  close();
}

/// The tile of work that a persistent block takes in a round.
Expr Printer::workNumber(ForWorkOp op, Expr round) {
  return primitive("work_number", op.getLongestFirst() ? "<true>" : "<false>", {std::move(round), workTiles(op)});
}

/// How many tiles of work there are: a variable of persistent blocks.
Expr Printer::workTiles(ForWorkOp op) {
  if (auto total = workTotals.find(op); total != workTotals.end())
    return {total->second};
  return primitive("work_tiles", "<" + Twine(op.getTileQ()) + ">", {extentOf("q"), extentOf("h"), extentOf("b")});
}

/// Where the tile of work with this number is.
Expr Printer::gridTile(ForWorkOp op, Expr number) {
  StringRef order = !op.getLongestFirst()                    ? "first_first"
                    : op.getOrder() == WorkOrder::Persistent ? "both_ends"
                                                             : "last_first";
  if (op.getOrder() == WorkOrder::Claimed)
    return primitive("claimed_tile", "<" + Twine(op.getTileQ()) + ", " + order + ">",
                     {std::move(number), {claimedHeads}, extentOf("q"), extentOf("h"), extentOf("b")});
  if (op.getAcrossBatches()) {
    Expr ofBatch = primitive("work_tiles", "<" + Twine(op.getTileQ()) + ">", {extentOf("q"), extentOf("h"), {"1"}});
    number = primitive("across_batches", order == "both_ends" ? "<2>" : "<1>",
                       {std::move(number), std::move(ofBatch), extentOf("b")});
  }
  return primitive("grid_tile", "<" + Twine(op.getTileQ()) + ", " + order + ">",
                   {std::move(number), extentOf("q"), extentOf("h")});
}

void Printer::printForWork(ForWorkOp op) {
  const bool persistent = op.getOrder() == WorkOrder::Persistent, received = op.getOrder() == WorkOrder::Received,
             claimed = op.getOrder() == WorkOrder::Claimed;
  if (op.getOrder() == WorkOrder::Split)
    return fail(op, "in order 'split' has no printed form; use grid, persistent, claimed or received");
  size_t mark = names.open();
  auto arguments = op.getBody().getArguments();
  SmallVector<std::string> carried;
  std::string number = "blockIdx.x";
  comment(op);
  if (op.getOrder() != WorkOrder::Grid) {
    size_t first = cast<BlockArgument>(op.getCount()).getArgNumber();
    std::string count = nameFor(op, first, "count"), total, inits;
    values[op.getCount()] = natural({count});
    if (!received) {
      total = names.take("work_tiles"), number = names.take("number");
      line("const unsigned " + total + " = " + workTiles(op).text + ";");
    }
    if (claimed) {
      claimedHeads = names.take("heads_together");
      line("const unsigned " + claimedHeads + " = " +
           primitive("claimed_heads", "<" + Twine(op.getTileQ()) + ">", {extentOf("h"), extentOf("b")}).text + ";");
      carried.push_back(number);
      inits += ", " + number + " = int(blockIdx.x)";
      number = "(unsigned)" + number;
    }
    for (auto [i, init] : llvm::enumerate(op.getInits())) {
      carried.push_back(nameFor(op, first + 1 + i, "carried"));
      inits += ", " + carried.back() + " = " + integer(init).text;
      values[op.getCarried()[i]] = {carried.back()};
    }
    line("#pragma unroll 1");
    open(op, "for (int " + count + " = 0" + inits + ";" + (claimed ? " " + number + " < " + total : "") + "; ++" +
                 count + ")");
    if (!received)
      workTotals[op] = total;
    if (persistent) {
      line("const unsigned " + number + " = " + workNumber(op, {count}).text + ";");
      line("if (" + number + " >= " + total + ") {");
      line("  break;");
      line("}");
    }
  }
  // The way of a claim to memory and back is longer than what says where the tile is.
  for (auto claim : op.getBody().getOps<ClaimWorkOp>())
    declare(cast<OpResult>(claim.getResult()), primitive("claim_work", {{"p.workspace"}}));
  if (!received) {
    std::string tile = names.take("work");
    statement(op, "const GridTile " + tile + " = " + gridTile(op, {number}).text + ";");
    std::string position;
    for (auto [i, argument] : llvm::enumerate(arguments.take_front(3))) {
      if (argument.use_empty())
        continue;
      constexpr StringRef fallback[] = {"b", "h", "q0"}, member[] = {".batch", ".head", ".row"};
      std::string name = nameFor(op, i, fallback[i]);
      position += (position.empty() ? "const int " : ", ") + name + " = " + tile + member[i].str();
      values[argument] = natural({name});
    }
    if (!position.empty())
      line(position + ";");
  }
  printBlock(op.getBody().front(), [&] {
    if (received) {
      line("if (" + at(value(op.getNext().getValues().front()), Equality) + " == 0) {");
      line("  break;");
      line("}");
    }
    if (op.getNext())
      assignCarried(op.getNext(), claimed ? op.getNext().getValues() : op.getNextCarried(), carried);
  });
  if (error || op.getOrder() == WorkOrder::Grid)
    return;
  close();
  names.close(mark);
}

void Printer::printReadWork(ReadWorkOp op) {
  auto work = cast<ForWorkOp>(op->getParentOp());
  std::string tile = names.take("work");
  Expr number = work.getOrder() == WorkOrder::Grid
                    ? primitive("read_block_id", {})
                    : workNumber(work, primitive("read_again", {value(work.getBody().getArgument(3))}));
  statement(op, "const GridTile " + tile + " = " + gridTile(work, number).text + ";");
  constexpr StringRef member[] = {".batch", ".head", ".row"};
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    values[result] = natural({tile + member[i].str()});
}

/// Whether `name` occurs as an identifier in `text`, other than a member's.
static bool mentions(StringRef text, StringRef name) {
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = text.find(name); at != StringRef::npos; at = text.find(name, at + 1))
    if ((at == 0 || (!isWord(text[at - 1]) && text[at - 1] != '.')) &&
        (at + name.size() == text.size() || !isWord(text[at + name.size()])))
      return true;
  return false;
}

/// Gives the carried variables their next values, which are all taken before the first assignment: one that mentions a
/// variable assigned before gets a constant of its own.
void Printer::assignCarried(NextOp op, ValueRange next, ArrayRef<std::string> carried) {
  SmallVector<std::string> nexts;
  for (Value value : next)
    nexts.push_back(integer(value).text);
  for (size_t i = 1; i < nexts.size(); ++i)
    if (llvm::any_of(carried.take_front(i), [&](const std::string &name) { return mentions(nexts[i], name); })) {
      std::string name = names.take("next_" + carried[i]);
      line("const int " + name + " = " + nexts[i] + ";");
      nexts[i] = name;
    }
  for (auto [name, value] : llvm::zip(carried, nexts)) {
    StringRef rest = value;
    if (value == name)
      continue;
    if (rest.consume_front(name + " + ") && llvm::all_of(rest, llvm::isDigit))
      statement(op, rest == "1" ? "++" + name + ";" : name + " += " + rest.str() + ";");
    else
      statement(op, name + " = " + value + ";");
  }
}

void Printer::printForTiles(ForTilesOp op) {
  if (!op.getTiles().empty())
    return fail(op, "carries tiles; run the scheduling passes to their end before printing");
  size_t mark = names.open();
  SmallVector<std::string> carried;
  std::string inits;
  for (auto [i, init] : llvm::enumerate(op.getInits())) {
    carried.push_back(nameFor(op, i, i == 0 ? "tile" : "slot"));
    inits += (i ? ", " : "") + carried.back() + " = " + integer(init).text;
  }
  for (auto [argument, name] : llvm::zip(op.getBody().getArguments(), carried))
    values[argument] = {name};
  comment(op);
  if (op.getKeeps()) {
    line("int " + inits + ";");
    inits.clear();
    for (auto [result, name] : llvm::zip(op.getKept(), carried))
      values[result] = {name};
  } else {
    inits.insert(0, "int ");
  }
  line("#pragma unroll 1");
  open(op, "for (" + inits + "; " + carried[0] + " < " + at(integer(op.getBound()), Sum) + ";)");
  printBlock(op.getBody().front(), [&] { assignCarried(op.getNext(), op.getNext().getValues(), carried); });
  if (error)
    return;
  close();
  if (!op.getKeeps())
    names.close(mark);
}

//===----------------------------------------------------------------------===//
// The whole source
//===----------------------------------------------------------------------===//

/// Lines of a table as comments, each column as wide as its longest cell.
static std::string table(SmallVector<SmallVector<std::string>> rows) {
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

/// ", d 128, dv 64"
static std::string fixedExtents(const KernelSignature &signature) {
  std::string text;
  std::set<std::string> seen;
  for (const OperandParam &operand : signature.operands)
    for (const AxisParam &axis : operand.axes)
      if (axis.size && seen.insert(axis.name).second)
        text += ", " + axis.name + " " + std::to_string(axis.size);
  return text;
}

void Printer::printHeader(std::string &out) {
  tile::PlanAttr plan = kernel.getPlan();
  out += "// " + codegen::kernelSymbol(kernel) + ": attention forward for " + codegen::commentText(kernel.getArch()) +
         ", generated by attune\n//\n";
  if (!options.banner.empty()) {
    for (StringRef rest = options.banner; !rest.empty();) {
      auto [head, tail] = rest.split('\n');
      out += "// " + codegen::commentText(head.rtrim()) + "\n";
      rest = tail;
    }
    out += "//\n";
  }
  SmallVector<SmallVector<std::string>> facts;
  std::string traits;
  for (auto [has, name] : {std::pair(kernel.getDropout(), "dropout"), std::pair(kernel.getPrecise(), "precise"),
                           std::pair(kernel.getQOffset(), "q_offset")})
    if (has)
      traits += std::string(", ") + name;
  facts.push_back(
      {"variant", kernel.getSymName().str() + ", " + text(kernel.getDtype()) + fixedExtents(signature) + traits});
  facts.push_back(
      {"plan", "tiles " + std::to_string(plan.getTileQ()) + " x " + std::to_string(plan.getTileK()) + ", " +
                   std::to_string(plan.getWarps()) + " warps" +
                   (plan.getDvWarps() > 1 ? " (" + std::to_string(plan.getDvWarps()) + " split dv), " : ", ") +
                   std::to_string(plan.getStages()) + (plan.getStages() == 1 ? " stage" : " stages") +
                   (plan.getQRegisters() ? ", Q in registers" : ", Q in shared memory") +
                   (plan.getLongestFirst() ? ", last query tile first" : "")});
  facts.push_back({"block", std::to_string(kernel.getThreads()) + " threads, at least " +
                                std::to_string(kernel.getBlocksPerSm()) + " blocks on a multiprocessor, " +
                                std::to_string(kernel.getSharedBytes()) + " bytes of shared memory"});
  for (auto operand : kernel.getOperands().getAsRange<OperandAttr>())
    facts.push_back({"operand", operand.getName().str() + ", " + (operand.getOptional() ? "optional " : "") +
                                    stringifyOperandRole(operand.getRole()).str() + " " + axesText(operand) + " " +
                                    text(operand.getElementType())});
  if (auto pattern = kernel.getPattern())
    facts.push_back({"pattern", pattern->getName().str() + ", blocks of " + std::to_string(pattern->getRows()) + " x " +
                                    std::to_string(pattern->getColumns())});
  for (auto scalar : kernel.getScalars().getAsRange<RuntimeScalarAttr>())
    facts.push_back({"scalar", scalar.getName().str() + ", " + text(scalar.getType())});
  for (auto tensor : kernel.getTensors().getAsRange<CapturedTensorAttr>())
    facts.push_back({"tensor", tensor.getName().str() + ", " + text(tensor.getElementType()) + ", rank " +
                                   std::to_string(tensor.getRank())});
  for (auto bounds : kernel.getBounds().getAsRange<tile::BoundsAttr>())
    facts.push_back({"bounds", bounds.getTensor().getValue().str() + ", within tiles of " +
                                   std::to_string(bounds.getRows()) +
                                   (bounds.getAxis().getValue() == "k" ? " keys" : " queries")});
  out += table(facts);

  SmallVector<SmallVector<std::string>> shared = {{"shared", "offset", "bytes", "tile", "panels"}};
  SmallVector<SmallVector<std::string>> registers = {{"registers", "a lane's array", "tile", "fragment"}};
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
    out += "//\n" + table(shared);
  if (registers.size() > 1)
    out += "//\n" + table(registers);
  out += "\n";
}

/// sizeof(Params), as the launch packs it.
size_t Printer::paramsBytes() const {
  const size_t plain = signature.packedBytes();
  return maps.empty() ? plain : llvm::alignTo(plain, 64) + 128 * maps.size();
}

Expected<std::string> Printer::run() {
  declareParams();
  names.take(codegen::kernelSymbol(kernel));
  printBlock(kernel.getBody().front());
  if (error)
    return *error;
  if (!kernel.getBounds().empty())
    printBounds();

  std::string out;
  printHeader(out);
  auto uses = [&](StringRef alias) {
    return llvm::any_of(kernel.getOperands().getAsRange<OperandAttr>(),
                        [&](OperandAttr o) { return elementName(o.getElementType()) == alias; }) ||
           llvm::any_of(kernel.getTensors().getAsRange<CapturedTensorAttr>(),
                        [&](CapturedTensorAttr t) { return elementName(t.getElementType()) == alias; });
  };
  for (StringRef alias : {"bf16", "f16"})
    if (uses(alias))
      out += ("typedef unsigned short " + alias + "; // bits in memory\n\n").str();
  if (!maps.empty())
    out += codegen::primitives({"TensorMap"});
  out += "// Strides count elements; where the last axis has a fixed extent its stride is 1.\n"
         "struct Params {\n"
         "  long long seed, offset;\n"
         "  const long long *seed_pointer, *offset_pointer;\n"
         "  void *workspace;\n"
         "  int group, q_offset, drop_threshold;\n"
         "  float keep_scale;\n"
         "  int mapped;  // bit n: the copy engine can read by the n-th tensor map\n" +
         params + tensorMaps +
         "};\n"
         "static_assert(sizeof(Params) == " +
         std::to_string(paramsBytes()) + ", \"the launch parameters differ\");\n\n";
  bool hasShared = used.count("shared_address");
  out += codegen::primitives(used);
  out += ("extern \"C\" __global__ void __launch_bounds__(" + Twine(kernel.getThreads()) + ", " +
          Twine(kernel.getBlocksPerSm()) + ")\n" + codegen::kernelSymbol(kernel) +
          "(const __grid_constant__ Params p) {\n")
             .str();
  if (hasShared)
    out += "  extern __shared__ __align__(1024) unsigned char shared_memory[];\n"
           "  const unsigned shared_base = shared_address(shared_memory);\n";
  out += body + "}\n" + boundsKernel;
  return out;
}

} // namespace

std::string codegen::kernelSymbol(KernelOp kernel) {
  std::string name = identifier(kernel.getSymName());
  return isReserved(name) ? name + "_kernel" : name;
}

Expected<std::string> codegen::printCuda(KernelOp kernel, const PrintOptions &options) {
  return Printer(kernel, options).run();
}
