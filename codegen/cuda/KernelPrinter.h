//===- KernelPrinter.h - Prints one kernel as CUDA C++ ---------------------===//
//
// printCuda (Printer.h) makes one KernelPrinter for each kernel. The members are defined by topic:
//
//     KernelPrinter.cpp   IR blocks, statements, names
//     Expressions.cpp     values of ops, and which of them are inlined into their users
//     Arithmetic.cpp      arith and math ops
//     Memory.cpp          loads and stores of elements, addresses in global and shared memory
//     Copies.cpp          copies between global and shared memory
//     Rings.cpp           full and empty barriers
//     Warps.cpp           barriers, shuffles, votes and messages
//     Fragments.cpp       register fragments and matrix instructions
//     DerivedNames.cpp    names of values that no pass has named
//     DeviceFunctions.cpp loops that are printed as device functions
//     ControlFlow.cpp     roles, loops, branches
//     WorkLoops.cpp       loops over tiles of work
//     Params.cpp          struct Params
//     Frame.cpp           header comment, struct Params, the kernel's function
//
// A member `bool printX(op)` prints `op` if `op` belongs to the topic X, and returns whether it does.
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

/// The name of the kernel's parameter, which has type Params, and the prefix of accesses to its members.
inline constexpr llvm::StringLiteral paramsName = "params", paramsPrefix = "params.";

/// A tensor in global memory: address, strides and extents as C++ expressions.
struct View {
  std::string pointer;
  /// The tensor's pointer in struct Params; a slice has the root of the view that it slices. At run time the pointer is
  /// null if the launch omits an optional operand.
  std::string root;
  llvm::SmallVector<std::string> strides; ///< in elements; "" for a stride of 1
  llvm::SmallVector<std::string> extents;
  bool isWritten = false;
};

/// The parameters that the kernels of a source declare, each name once. The parameters become members of struct Params.
struct Declarations {
  explicit Declarations(llvm::ArrayRef<sched::KernelOp> kernels);

  KernelSignature signature;
  llvm::SmallVector<sched::OperandAttr> operands;
  llvm::SmallVector<sched::CapturedTensorAttr> tensors;
  llvm::SmallVector<sched::RuntimeScalarAttr> scalars;
};

/// Whether `name` occurs in `text` as an identifier that is not a member access (`.name`).
bool mentions(llvm::StringRef text, llvm::StringRef name);

/// The members of struct Params that hold the tensor maps of all kernels of a source.
struct MapMembers {
  explicit MapMembers(llvm::ArrayRef<sched::KernelOp> kernels) : all(kernels), names(all.params().size()) {}

  sched::LaunchMaps all;
  std::vector<std::string> names; ///< names of the members, one per map; the first kernel that uses a map names it
  Names taken;
  std::string text; ///< the declarations of the members
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
  /// Printing adds the kernel's tensor maps to `maps`, except maps that an earlier kernel of the source has added.
  KernelPrinter(KernelOp kernel, const Declarations &declared, const PrintOptions &options, MapMembers &maps,
                DeviceFunctions &functions)
      : kernel(kernel), declared(declared), signature(declared.signature), options(options), maps(maps),
        functions(functions), isPrecise(kernel.getPrecise() || kernel.getDtype().isF32()),
        waitsForLaunch(sched::waitsForLaunch(kernel)) {}

  /// Prints the kernel to members of this object. The functions below then give the parts of the printed text.
  Expected<void> run();
  /// Appends the comment that describes the kernel; the comments of all kernels begin the source.
  void printHeader(std::string &out);
  /// Appends the types that the parameters need, and struct Params. The last members of struct Params are the tensor
  /// maps of all kernels.
  void printParams(std::string &out);
  const std::set<std::string, std::less<>> &usedPrimitives() const { return used; }
  /// The kernel's `__global__` function.
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
  template <typename Op> llvm::SmallVector<Expr> boxPlace(Op op);
  bool printRing(Operation *op);
  bool printExchange(Operation *op);
  bool printFragment(Operation *op);
  bool printControl(Operation *op);
  bool printWork(Operation *op);

  // Memory.
  void printSlice(sched::SliceOp op);
  void printElement(tile::ElementOp op);
  llvm::SmallVector<Expr> integers(mlir::ValueRange values);
  llvm::SmallVector<Expr> floats(mlir::ValueRange values);
  /// Declares a constant of vector type `type` (float2, int2); its members are the two results of `op`.
  void declareAdjacent(mlir::Operation *op, llvm::StringRef type, const Expr &vector);
  void printLoadElements(sched::LoadElementsOp op);
  void printInPairs(sched::InPairsOp op);
  /// Address of the first of two consecutive elements; the last stride is taken to be 1.
  Expr pairAddress(View view, mlir::ValueRange indices);
  void printStoreElement(sched::StoreElementOp op);
  void printStoreElements(sched::StoreElementsOp op);
  void printStoreEights(sched::StoreEightsOp op);
  void printLoadByte(sched::LoadByteOp op);
  void printStoreByte(sched::StoreByteOp op);
  void printAddElements(sched::AddElementsOp op);
  /// Address of an element in shared memory: `base` is the address of the element's stage in the ring, `offset` the
  /// byte offset in that stage (empty for 0).
  struct SharedPlace {
    Expr base, offset;
  };
  SharedPlace sharedPlace(Operation *op, Value shared, Value stage, Value row, Value column);
  /// Address of `shared[stage, row, column]`; a null index is 0.
  Expr sharedAddress(Operation *op, Value shared, Value stage, Value row, Value column);
  /// Swizzled address of the (row, column) that `op` accesses, advanced by the row step and column step if `op` has
  /// them.
  template <typename Access> Expr steppedAddress(Access op);
  /// Address of the element at `indices`, printed as `pointer + offset`; globalElement prints `pointer[offset]`.
  Expr globalAddress(const View &view, ArrayRef<Expr> indices);
  std::string globalElement(const View &view, ArrayRef<Expr> indices);
  std::string offset(const View &view, ArrayRef<Expr> indices);

  // Rings.
  /// Address of the full or the empty barrier of a ring's stage.
  Expr barrier(Value ring, Value stage, bool full);

  // Fragments.
  std::string element(Value buffer, mlir::OperandRange indices);
  std::string element(Value buffer, ArrayRef<Expr> indices);
  void printSet(sched::SetOp op);
  void printLoadMatrix(sched::LoadMatrixOp op);
  void printMma(sched::MmaOp op);
  void printMmaAsync(sched::MmaAsyncOp op);
  /// The wgmma matrix descriptor of a shared tile from (row, column) on; with `transpose`, of an MN-major operand.
  Expr matrixDescriptor(Operation *op, Value shared, Value stage, Value row, Value column, bool transpose);

  // Device functions.
  /// A parameter of a loop that is printed as a device function: a value that the loop uses and that is defined outside
  /// of the loop.
  struct FunctionParameter {
    /// `Local` is a register buffer that only the loop uses: the device function declares it, and no argument is
    /// passed.
    enum Kind { Written, Read, Shared, Pointer, Scalar, Local };
    Value value;
    Kind kind = Scalar;
    Expr outer = {};           ///< the expression of a scalar outside of the function
    std::string argument = {}; ///< the argument of the call
  };
  /// Prints a loop that is marked `sched.function` as a device function and a call. Returns false where the loop uses a
  /// value that cannot be a parameter.
  bool printFunction(mlir::scf::ForOp loop);
  bool collectParameters(mlir::scf::ForOp loop, llvm::SmallVector<FunctionParameter> &parameters);
  std::string declareParameter(FunctionParameter &parameter, StringRef wish);
  /// Restores the name or expression that the parameter's value has outside of the function.
  void restore(const FunctionParameter &parameter);
  /// The loop marked `sched.function` that contains all users of the register buffer, or null.
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
  /// The expression of a scalar op without regions or effects; nullopt for any other op.
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
  /// Whether the expression of `op` may be inlined into the op's only user.
  bool canInline(Operation *op);
  /// Whether the IR block combines so many conditions that they are joined by `&` and `|` instead of `&&` and `||`.
  /// NVRTC compiles `&&` and `||` as branches in each unrolled element, and then takes many times as long.
  bool hasManyTerms(Block *block);
  void printPhilox(sched::PhiloxOp op);
  Expr value(Value value);
  Expr integer(Value value) { return asSigned(this->value(value)); }
  /// Prints `const T name = expr;` and uses `name` for `result` from then on.
  void declare(OpResult result, const Expr &expr);
  /// A call of the device function `name` of Primitives.h; also adds that function to the source.
  Expr primitive(StringRef name, ArrayRef<Expr> arguments) { return primitive(name, "", arguments); }
  Expr primitive(StringRef name, const Twine &templateArguments, ArrayRef<Expr> arguments);

  // Names and lines.
  /// A name for the result of `op` from the op and its operands, such as tile_plus_1; "" if no short name results.
  std::string derivedName(Operation *op, int depth);
  /// The part that the operand `value` contributes to a derived name: a number, the name of its variable, or a name
  /// derived from the op that defines the operand.
  std::string wordFor(Value value, int depth);
  std::string nameFor(Operation *op, StringRef fallback);
  std::string nameFor(Operation *op, unsigned i, StringRef fallback);
  /// The tensor map's member of struct Params, such as "params.k_map".
  std::string mapMember(Value map) {
    return paramsPrefix.str() + maps.names[maps.all.numberOf(map.getDefiningOp<sched::TensorMapOp>())];
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
  bool inFunction = false; ///< true while a device function is printed; loops inside it do not become functions
  bool isPrecise;
  bool waitsForLaunch; ///< the kernel may start while the previous kernel of the launch runs
  Source source;
  Names names;
  std::set<std::string, std::less<>> used;
  std::string params;                         ///< text of the members of struct Params after the fixed members
  std::map<std::string, std::string> members; ///< key: parameter's name in the IR; value: member of struct Params
  llvm::DenseMap<Value, Expr> values;
  llvm::DenseMap<Value, View> views;
  llvm::DenseMap<Value, std::string> buffers;
  llvm::DenseMap<Value, std::string> rings; ///< variable with the address of the ring's barriers
  unsigned firstThread = 0;                 ///< first thread of the role that is being printed
  /// For each op: how many earlier ops of its IR block write to memory or registers.
  llvm::DenseMap<Operation *, unsigned> writesBefore;
  llvm::DenseMap<Block *, bool> manyTerms; ///< results of hasManyTerms
  std::optional<Error> error;
};

} // namespace attune::codegen::cuda
