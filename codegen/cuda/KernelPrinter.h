//===- KernelPrinter.h - One kernel on its way to CUDA C++ -----------------===//
//
// The printer of Printer.h while it prints a kernel. Its members are defined by topic:
//
//     KernelPrinter.cpp   blocks, statements, names
//     Expressions.cpp     values of ops, and which stand in their users
//     Arithmetic.cpp      arith and math ops
//     Memory.cpp          elements and tiles in global and shared memory, their addresses
//     Copies.cpp          copies between global and shared memory
//     Rings.cpp           full and empty barriers
//     Warps.cpp           barriers, shuffles, votes and messages
//     Fragments.cpp       lanes' registers and matrix instructions
//     DeviceFunctions.cpp loops as device functions
//     ControlFlow.cpp     roles, loops, branches
//     WorkLoops.cpp       loops over tiles of work
//     Params.cpp          struct Params
//     Frame.cpp           the whole source
//
// A member `bool printX(op)` prints `op` where it is of the kind X, and says whether it is.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/cuda/DeviceFunctions.h"
#include "codegen/cuda/Expr.h"
#include "codegen/cuda/Names.h"
#include "codegen/cuda/Printer.h"
#include "codegen/cuda/Source.h"
#include "codegen/cuda/TypeText.h"
#include "ir/sched/LaunchMaps.h"
#include "ir/tile/Signature.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <map>
#include <optional>
#include <set>

namespace attune::codegen::cuda {

/// A tensor in global memory: where it starts and what its dimensions are, as expressions.
struct View {
  std::string pointer;
  std::string root; ///< the address in the parameters, which is null for an output that is not wanted
  llvm::SmallVector<std::string> strides; ///< "" for 1
  llvm::SmallVector<std::string> extents;
  bool isWritten = false;
};

/// What the kernels of a source declare, each name once: the members of struct Params.
struct Declarations {
  explicit Declarations(llvm::ArrayRef<sched::KernelOp> kernels);

  KernelSignature signature;
  llvm::SmallVector<sched::OperandAttr> operands;
  llvm::SmallVector<sched::CapturedTensorAttr> tensors;
  llvm::SmallVector<sched::RuntimeScalarAttr> scalars;
};

/// Whether `name` occurs as an identifier in `text`, other than a member's.
bool mentions(llvm::StringRef text, llvm::StringRef name);

/// The members of struct Params for the tensor maps of a source's kernels.
struct MapMembers {
  explicit MapMembers(llvm::ArrayRef<sched::KernelOp> kernels) : all(kernels), names(all.params().size()) {}

  sched::LaunchMaps all;
  std::vector<std::string> names; ///< each given by the first kernel that has the map
  Names taken;
  std::string text;
};

class KernelPrinter {
  using KernelOp = sched::KernelOp;
  using Block = mlir::Block;
  using Operation = mlir::Operation;
  using OpResult = mlir::OpResult;
  using Type = mlir::Type;
  using Value = mlir::Value;
  using StringRef = llvm::StringRef;
  using Twine = llvm::Twine;
  template <typename T> using ArrayRef = llvm::ArrayRef<T>;

public:
  /// Adds to `maps` those that no kernel in front of this one in the source has.
  KernelPrinter(KernelOp kernel, const Declarations &declared, const PrintOptions &options, MapMembers &maps,
                DeviceFunctions &functions)
      : kernel(kernel), declared(declared), signature(declared.signature), options(options), maps(maps),
        functions(functions), isPrecise(kernel.getPrecise() || kernel.getDtype().isF32()),
        waitsForLaunch(sched::waitsForLaunch(kernel)) {}

  /// Prints the kernel, of which the source then takes the parts.
  Expected<void> run();
  /// What the source says of the kernel in front of all.
  void printHeader(std::string &out);
  /// The types that the parameters need, and struct Params, which ends in the tensor maps of all kernels.
  void printParams(std::string &out);
  const std::set<std::string, std::less<>> &usedPrimitives() const { return used; }
  /// The function.
  std::string function();

private:
  void printBuffers(std::string &out);

  // Parameters.
  void declareParams();
  void declareExtents(Names &member);
  void declareTensor(Names &member, StringRef key, StringRef wish, Type element, int64_t rank, bool written,
                     StringRef comment);
  View parameterView(tile::ParamOp op);
  /// Whether the kernel stores to an operand.
  bool writes(llvm::StringRef operand);
  Expr parameter(tile::ParamOp op);
  Expr extentOf(StringRef axis);

  // Statements.
  void printBlock(Block &block, llvm::function_ref<void()> atEnd = {});
  void printOp(Operation *op);
  void printStatement(Operation *op);
  bool printMemory(Operation *op);
  bool printCopy(Operation *op);
  bool printBox(Operation *op);
  bool printRing(Operation *op);
  bool printExchange(Operation *op);
  bool printFragment(Operation *op);
  bool printControl(Operation *op);
  bool printWork(Operation *op);

  // Memory.
  void printSlice(sched::SliceOp op);
  void printElement(tile::ElementOp op);
  llvm::SmallVector<Expr> integers(mlir::ValueRange values);
  /// The two results of `op`, as the members of a vector type's value.
  void declarePair(mlir::Operation *op, llvm::StringRef type, const Expr &pair);
  void printLoadElements(sched::LoadElementsOp op);
  void printInPairs(sched::InPairsOp op);
  /// Of the first of two elements that lie in pairs.
  Expr pairAddress(View view, mlir::ValueRange indices);
  void printStoreElement(sched::StoreElementOp op);
  void printStoreElements(sched::StoreElementsOp op);
  void printStoreEights(sched::StoreEightsOp op);
  void printLoadByte(sched::LoadByteOp op);
  void printStoreByte(sched::StoreByteOp op);
  void printAddElements(sched::AddElementsOp op);
  /// Where an element lies: its stage, and how many bytes after the stage's first; empty for the first.
  struct SharedPlace {
    Expr base, offset;
  };
  SharedPlace sharedPlace(Operation *op, Value shared, Value stage, Value row, Value column);
  /// Address of `shared[stage, row, column]`, each 0 where it is null.
  Expr sharedAddress(Operation *op, Value shared, Value stage, Value row, Value column);
  /// The swizzled place of a lane's (row, column), moved by the steps where there are any.
  template <typename Access> Expr steppedAddress(Access op);
  /// `view + offset` of an element given by all of its indices, or the expression of the element itself.
  Expr globalAddress(const View &view, ArrayRef<Expr> indices);
  std::string globalElement(const View &view, ArrayRef<Expr> indices);
  std::string offset(const View &view, ArrayRef<Expr> indices);

  // Rings.
  /// Address of a stage's full or empty barrier.
  Expr barrier(Value ring, Value stage, bool full);

  // Fragments.
  std::string element(Value buffer, mlir::OperandRange indices);
  std::string element(Value buffer, ArrayRef<Expr> indices);
  void printSet(sched::SetOp op);
  void printLoadMatrix(sched::LoadMatrixOp op);
  void printMma(sched::MmaOp op);
  void printMmaAsync(sched::MmaAsyncOp op);
  /// A shared tile as an operand of a warpgroup's product, from `column` of `row` on.
  Expr matrixDescriptor(Operation *op, Value shared, Value stage, Value row, Value column, bool transpose);

  // Device functions.
  /// A value from outside of a loop that is printed as a function.
  struct FunctionParameter {
    enum Kind { Written, Read, Shared, Pointer, Scalar, Local }; ///< `Local`: registers that the loop alone uses
    Value value;
    Kind kind = Scalar;
    std::string argument = {}; ///< what the call passes
  };
  /// Prints a loop that is marked `sched.function` as a call, or returns false where the loop uses what a parameter cannot pass.
  bool printFunction(mlir::scf::ForOp loop);
  bool collectParameters(mlir::scf::ForOp loop, llvm::SmallVector<FunctionParameter> &parameters);
  std::string declareParameter(FunctionParameter &parameter, StringRef wish);
  /// The marked loop that holds all users of the registers, or null.
  static mlir::scf::ForOp functionWithBuffer(sched::RegistersOp buffer);

  // Control flow.
  void printRoles(sched::RoleOp first);
  void printFor(mlir::scf::ForOp op);
  void printIf(mlir::scf::IfOp op);
  void printForTiles(sched::ForTilesOp op);
  void assignCarried(mlir::Operation *op, mlir::ValueRange next, ArrayRef<std::string> carried, size_t numbers = 0);

  // Work.
  void printForWork(sched::ForWorkOp op);

  // Expressions.
  /// The expression of a scalar op without regions or effects; nothing where `op` is not such an op.
  std::optional<Expr> expression(Operation *op);
  std::optional<Expr> arithmetic(Operation *op);
  std::optional<Expr> integerArithmetic(Operation *op);
  std::optional<Expr> bitArithmetic(Operation *op);
  std::optional<Expr> choice(Operation *op);
  std::optional<Expr> conversion(Operation *op);
  std::optional<Expr> floatArithmetic(Operation *op);
  std::optional<Expr> mathFunction(Operation *op);
  Expr overflowing(Operation *op, StringRef sign, Level level, StringRef wrapping);
  Expr bitwise(Operation *op, StringRef sign, Level level, StringRef logical, Level logicalLevel);
  Expr constant(mlir::arith::ConstantOp op);
  Expr compare(mlir::arith::CmpIOp op);
  Expr compare(mlir::arith::CmpFOp op);
  /// Whether the expression of `op` may stand in its only user in place of a statement of its own.
  bool canInline(Operation *op);
  /// Whether the block combines so many conditions that `&` and `|` join them: `&&` and `||` are branches to NVRTC, in
  /// each of the elements that it unrolls, and their control flow takes it many times as long as the arithmetic does.
  bool hasManyTerms(Block *block);
  void printPhilox(sched::PhiloxOp op);
  Expr value(Value value);
  Expr integer(Value value) { return asSigned(this->value(value)); }
  /// `const T name = expr;`
  void declare(OpResult result, const Expr &expr);
  /// The call of a function of Primitives.h, which the source then holds.
  Expr primitive(StringRef name, ArrayRef<Expr> arguments) { return primitive(name, "", arguments); }
  Expr primitive(StringRef name, const Twine &templateArguments, ArrayRef<Expr> arguments);

  // Names and lines.
  std::string nameFor(Operation *op, StringRef fallback);
  std::string nameFor(Operation *op, unsigned i, StringRef fallback);
  /// "p.k_map"
  std::string mapMember(Value map) {
    return "p." + maps.names[maps.all.numberOf(map.getDefiningOp<sched::TensorMapOp>())];
  }
  void statement(Operation *op, const Twine &text);
  void open(Operation *op, const Twine &text);
  void close(const Twine &text = "}");
  void comment(Operation *op);
  void line(const Twine &text) { source.line(text); }
  void fail(Operation *op, const Twine &message);

  KernelOp kernel;
  const Declarations &declared;
  const KernelSignature &signature;
  PrintOptions options;
  MapMembers &maps;
  DeviceFunctions &functions;
  bool inFunction = false; ///< a device function is printed, in which no loop becomes another one
  bool isPrecise;
  bool waitsForLaunch; ///< the kernel may start while the one before it runs
  Source source;
  Names names;
  std::set<std::string, std::less<>> used;
  std::string params;                         ///< members of Params after the fixed ones
  std::map<std::string, std::string> members; ///< member of Params by name of parameter
  llvm::DenseMap<Value, Expr> values;
  llvm::DenseMap<Value, View> views;
  llvm::DenseMap<Value, std::string> buffers;
  llvm::DenseMap<Value, std::string> rings; ///< names of barriers
  unsigned firstThread = 0;                 ///< of the role that is printed
  /// How many ops that write stand before an op in its block.
  llvm::DenseMap<Operation *, unsigned> writesBefore;
  llvm::DenseMap<Block *, bool> manyTerms; ///< hasManyTerms
  std::optional<Error> error;
};

} // namespace attune::codegen::cuda
