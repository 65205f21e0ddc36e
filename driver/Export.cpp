//===- Export.cpp - Kernels as C sources that need only the CUDA driver -----===//

#include "driver/Export.h"

#include "arch/ArchInfo.h"
#include "attune/Compile.h"
#include "runtime/Launch.h"
#include "runtime/LaunchTables.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace attune;

static constexpr std::string_view launcher =
#include "driver/Launcher.inc"
    ;

namespace {

//===----------------------------------------------------------------------===//
// C text
//===----------------------------------------------------------------------===//

bool isIdentifier(std::string_view text) {
  auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

/// Whether `text` is reserved: a keyword of C99 or C++17, or a macro that headers or compilers define.
bool isTaken(std::string_view text) {
  static const std::set<std::string_view> words = {"alignas",      "alignof",  "and",           "and_eq",
                                                   "asm",          "auto",     "bitand",        "bitor",
                                                   "bool",         "break",    "case",          "catch",
                                                   "char",         "char16_t", "char32_t",      "class",
                                                   "compl",        "const",    "const_cast",    "constexpr",
                                                   "continue",     "decltype", "default",       "delete",
                                                   "do",           "double",   "dynamic_cast",  "else",
                                                   "enum",         "explicit", "export",        "extern",
                                                   "false",        "float",    "for",           "friend",
                                                   "goto",         "if",       "inline",        "int",
                                                   "long",         "mutable",  "namespace",     "new",
                                                   "noexcept",     "not",      "not_eq",        "nullptr",
                                                   "operator",     "or",       "or_eq",         "private",
                                                   "protected",    "public",   "register",      "reinterpret_cast",
                                                   "restrict",     "return",   "short",         "signed",
                                                   "sizeof",       "static",   "static_assert", "static_cast",
                                                   "struct",       "switch",   "template",      "this",
                                                   "thread_local", "throw",    "true",          "try",
                                                   "typedef",      "typeid",   "typename",      "union",
                                                   "unsigned",     "using",    "virtual",       "void",
                                                   "volatile",     "wchar_t",  "while",         "xor",
                                                   "xor_eq",       "NULL",     "EOF",           "NAN",
                                                   "INFINITY",     "I",        "errno",         "stdin",
                                                   "stdout",       "stderr",   "offsetof",      "linux",
                                                   "unix"};
  return words.contains(text);
}

/// The name of an operand as a C identifier: "grads.slopes" becomes grads_slopes.
std::string withoutDots(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name;
}

/// The name of the struct member for the tensor, scalar or operand `name`.
std::string memberOf(const std::string &name) { return isTaken(name) ? name + "_" : withoutDots(name); }

/// `text` as a C string literal. Octal escapes have three digits, so that a following digit is not a part of the
/// escape.
std::string literal(std::string_view text) {
  std::string result = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', char(c)};
    else if (c < 32 || c > 126 || c == '?') // '?' is escaped to avoid trigraphs
      result += fmt::format("\\{:03o}", c);
    else
      result += char(c);
  }
  return result + "\"";
}

/// `text` for a C comment, without characters that could end the comment.
std::string commentText(std::string_view text) {
  std::string result;
  for (char c : text)
    result += c == '*' || c == '/' || std::iscntrl(static_cast<unsigned char>(c)) ? '_' : c;
  return result;
}

std::string_view elementType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "float";
  case DType::I32:
    return "int32_t";
  case DType::I64:
    return "int64_t";
  case DType::Bool:
    return "uint8_t";
  default:
    return "void"; // C has no 16-bit float type
  }
}

//===----------------------------------------------------------------------===//
// Members of the struct of arguments in the header
//===----------------------------------------------------------------------===//

/// Axes with fixed member names for their extents, in the order of the header.
constexpr std::pair<std::string_view, const char *> knownExtents[] = {
    {"b", "batch"}, {"h", "heads"}, {"hkv", "heads_kv"}, {"q", "query_length"}, {"k", "key_length"}};

/// The name of the member for the extent of an axis.
std::string extentMember(const std::string &axis) {
  for (auto [name, member] : knownExtents)
    if (axis == name)
      return member;
  return memberOf(axis);
}

/// The index of an axis among the axes of the launch, or -1.
int axisNumber(const std::vector<std::string> &axes, std::string_view name) {
  const auto found = std::find(axes.begin(), axes.end(), name);
  return found == axes.end() ? -1 : int(found - axes.begin());
}

/// `axes` in the order of the header: axes in knownExtents first, then the others in their given order.
std::vector<std::string> inHeaderOrder(const std::vector<std::string> &axes) {
  std::vector<std::string> ordered;
  for (auto [name, member] : knownExtents)
    if (axisNumber(axes, name) >= 0)
      ordered.emplace_back(name);
  for (const std::string &axis : axes)
    if (axisNumber(ordered, axis) < 0)
      ordered.push_back(axis);
  return ordered;
}

std::string stridesMember(const OperandParam &operand) { return withoutDots(operand.name) + "_strides"; }

/// The captured tensor whose shape an operand has, as a gradient of a captured tensor does; nullopt for other operands.
std::optional<std::string> shapedAs(const OperandParam &operand) {
  for (const AxisParam &axis : operand.axes)
    if (const std::optional<TensorDimension> of = tensorDimension(axis.name))
      return std::string(of->tensor);
  return std::nullopt;
}

/// The number of strides that the header has for an operand. The last stride of a tiled operand is always 1 and
/// omitted.
int strideCount(const OperandParam &operand) { return operand.rank() - int(operand.isTiled()); }

/// The extent of an axis for a comment: "query_length", or "head_dim" for a fixed extent.
std::string extentText(const KernelSignature &signature, const AxisParam &axis) {
  if (axis.size == 0)
    return axis.by == 1 ? extentMember(axis.name) : fmt::format("ceil({} / {})", extentMember(axis.name), axis.by);
  if (axis.name == "d" && axis.size == signature.headDim)
    return "head_dim";
  return axis.name == "dv" && axis.size == signature.headDimV ? "head_dim_v" : fmt::format("{}", axis.size);
}

/// The declaration of the member for an operand: "const void *q;".
std::string declarationOf(const OperandParam &operand) {
  return fmt::format("{}{} *{};", operand.role == OperandRole::In ? "const " : "",
                     operand.isTiled() ? "void" : elementType(operand.dtype), memberOf(operand.name));
}

/// The comment for an operand: "[batch, heads, query_length], natural logarithm; null where not wanted".
std::string contentOf(const KernelSignature &signature, const OperandParam &operand) {
  std::vector<std::string> extents;
  for (const AxisParam &axis : operand.axes)
    extents.push_back(extentText(signature, axis));
  const std::optional<std::string> tensor = shapedAs(operand);
  std::string text = tensor ? fmt::format("in the shape of tensors.{}; its strides are left to set", memberOf(*tensor))
                            : fmt::format("[{}]", fmt::join(extents, ", "));
  if (operand.dtype != signature.dtype && (operand.isTiled() || elementType(operand.dtype) == "void"))
    text += fmt::format(", {}", attune::name(operand.dtype));
  if (operand.name == "lse")
    text += ", natural logarithm";
  if (operand.role == OperandRole::Accumulate)
    text += ", added to";
  if (operand.name.starts_with(savedPrefix))
    text += operand.role == OperandRole::In ? "; as the forward launch left it" : "; for the backward pass";
  return text + (operand.optional ? "; null where not wanted" : "");
}

//===----------------------------------------------------------------------===//
// Tables of the launcher
//===----------------------------------------------------------------------===//

/// The cubin as an array of 64-bit words, which is shorter text than bytes and has the alignment that the driver
/// requires.
std::string cubinArray(const KernelImage &image) {
  std::string text = fmt::format("static const uint64_t cubin_{}[] = {{", image.arch);
  for (size_t at = 0; at < image.binary.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, image.binary.data() + at, std::min<size_t>(8, image.binary.size() - at));
    text += fmt::format("{}0x{:x}u,", at % 64 ? " " : "\n    ", word);
  }
  text.back() = '}';
  return text + ";\n";
}

/// Prints tables of runtime/Launcher.h as C. An array is printed after the arrays that its rows refer to.
class TablePrinter {
public:
  std::string text; ///< the arrays printed so far

  /// Prints an array and returns its name, or "NULL" for no rows.
  template <typename Table>
  std::string array(std::string_view type, const std::string &name, const Table *rows, int count) {
    if (count == 0)
      return "NULL";
    std::string printed = fmt::format("static const {} {}[] = {{", type, name);
    for (int i = 0; i < count; ++i)
      printed += fmt::format("\n    {},", row(rows[i], fmt::format("{}_{}", name, i)));
    printed.back() = '}';
    text += printed + ";\n";
    return name;
  }

private:
  /// `name` begins the names of arrays that the row refers to.
  std::string row(const axis_table &axis, const std::string &) {
    return fmt::format("{{{}, {}, {}, {}}}", literal(extentMember(axis.name)), literal(axis.noun), axis.most,
                       literal(axis.remedy));
  }
  std::string row(const dimension_table &dimension, const std::string &) {
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}}}", dimension.axis, dimension.tensor, dimension.dim,
                       dimension.size, dimension.by, literal(dimension.extent), literal(dimension.stride));
  }
  std::string row(const operand_table &operand, const std::string &name) {
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}}}", literal(operand.name), operand.element_bytes,
                       operand.is_written, operand.is_optional, operand.is_tiled, operand.rank,
                       array("dimension_table", name + "_dimensions", operand.dimensions, operand.rank));
  }
  std::string row(const linear_index &index, const std::string & = {}) {
    return fmt::format("{{{}, {{{}}}, {{{}}}}}", index.constant, fmt::join(index.coordinates, ", "),
                       fmt::join(index.extents, ", "));
  }
  std::string row(const index_table &index, const std::string &name) {
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}}}", index.dim, row(index.index), index.guard_count,
                       array("linear_index", name + "_guards", index.guards, index.guard_count), index.broadcast,
                       literal(index.text), literal(index.element));
  }
  std::string row(const tensor_table &tensor, const std::string &name) {
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}}}", literal(tensor.name), tensor.element_bytes, tensor.rank,
                       tensor.pattern_rows, tensor.pattern_columns, tensor.index_count,
                       array("index_table", name + "_indices", tensor.indices, tensor.index_count));
  }
  std::string row(const bound_table &bound, const std::string &name) {
    return fmt::format("{{{}, {}}}", row(bound.axis, name), row(bound.most, name));
  }
  std::string row(const entry_table &entry, const std::string &name) {
    return fmt::format("{{{}, {}, {}, {}, {}u, {}, {}, {}, {}, {}, {}, {}, {}}}", literal(entry.name), entry.grid_count,
                       array("dimension_table", name + "_grid", entry.grid, entry.grid_count), entry.threads,
                       entry.shared_bytes, entry.persistent, entry.claims_work, entry.is_dependent,
                       entry.is_preparation, entry.bound_count,
                       array("bound_table", name + "_bounds", entry.bounds, entry.bound_count), entry.reads_maps,
                       entry.fallback_of_maps);
  }
  std::string row(const map_table &map, const std::string &) {
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}}", literal(map.name), map.is_optional, map.offset,
                       map.rank, map.element_bytes, map.type, map.rows, map.columns, map.swizzle, map.is_limited);
  }
  std::string row(const image_table &image, const std::string &name) {
    return fmt::format("{{{}, {}, {:#x}u, cubin_{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}}", literal(image.arch),
                       image.major, image.minors, image.arch, image.nvrtc, image.entry_count,
                       array("entry_table", name + "_entries", image.entries, image.entry_count), image.packed_bytes,
                       image.maps_at, image.workspace_count,
                       array("operand_table", name + "_workspaces", image.workspaces, image.workspace_count),
                       image.map_count, array("map_table", name + "_maps", image.maps, image.map_count));
  }
};

/// The arguments of a launch: the signature without workspace operands and tensor maps.
KernelSignature argumentSignature(KernelSignature signature) {
  std::erase_if(signature.operands, [](const OperandParam &operand) { return operand.role == OperandRole::Workspace; });
  signature.tensorMaps.clear();
  return signature;
}

//===----------------------------------------------------------------------===//
// One kernel's files
//===----------------------------------------------------------------------===//

class Exporter {
public:
  /// `images` are kernels of one variant, the most specific architecture first.
  Exporter(std::vector<const KernelImage *> images, std::string name, float dropout)
      : images(std::move(images)), signature(argumentSignature(this->images.front()->signature)),
        axes(signature.axes()), name(std::move(name)), dropout(dropout) {
    for (const KernelImage *image : this->images)
      tables.emplace_back(*image);
  }

  std::vector<ExportedFile> files() const {
    std::vector<ExportedFile> result = {
        {name + ".h", header()}, {name + ".c", source()}, {name + ".json", description()}};
    for (const KernelImage *image : images)
      result.push_back({cubinName(*image), std::string(image->binary.begin(), image->binary.end())});
    return result;
  }

private:
  std::string cubinName(const KernelImage &image) const { return fmt::format("{}.{}.cubin", name, image.arch); }

  std::string summary() const {
    std::vector<std::string> archs;
    for (const KernelImage *image : images)
      archs.push_back(image->arch);
    return fmt::format(
        "{}: attention{}, {}, head_dim {} x {}, for {}; exported by attune {}", commentText(images.front()->name),
        isForward()    ? " forward"
        : isBackward() ? " backward"
                       : "",
        attune::name(signature.dtype), signature.headDim, signature.headDimV, fmt::join(archs, ", "), versionText());
  }

  bool isForward() const {
    std::vector<OperandParam> operands = signature.operands;
    std::erase_if(operands, [](const OperandParam &operand) { return operand.name.starts_with(savedPrefix); });
    return std::ranges::any_of(std::array{true, false}, [&](bool lse) {
      return operands == forwardOperands(signature.dtype, signature.headDim, signature.headDimV, lse);
    });
  }

  bool isBackward() const {
    return std::ranges::all_of(std::array{"q", "k", "v", "do", "dq", "dk", "dv"}, [&](std::string_view name) {
      return std::ranges::find(signature.operands, name, &OperandParam::name) != signature.operands.end();
    });
  }

  /// The results of `text(axis)` for each axis, in the order of the header, separated by commas.
  template <typename Text> std::string listOfAxes(Text text) const {
    std::vector<std::string> list;
    for (const std::string &axis : inHeaderOrder(axes))
      list.push_back(text(axis));
    return fmt::format("{}", fmt::join(list, ", "));
  }

  /// The example program in the header's first comment.
  std::string usage() const {
    constexpr size_t mostPerLine = 6;
    std::string operands;
    size_t count = 0;
    for (const OperandParam &operand : signature.operands)
      if (!operand.optional)
        operands +=
            fmt::format("{0}args.{1} = {1};", count++ % mostPerLine ? " " : "\n *     ", memberOf(operand.name));
    const bool hasHeads = axisNumber(axes, "b") >= 0 && axisNumber(axes, "h") >= 0;
    return fmt::format(" *     {0}_args args;\n"
                       " *     {0}_defaults(&args, {1});    // sizes, strides of contiguous {2}memory, the rest 0{3}\n",
                       name, listOfAxes([](const std::string &axis) -> std::string { return wordsFor({axis}).extent; }),
                       hasHeads ? "[B, H, S, D] " : "", operands);
  }

  /// The comments at the start of the header.
  std::string introduction() const {
    return fmt::format("/* {} */\n", summary()) + named(R"(/*
 * Compile NAME.c as C99 or C++17 and link it. It opens the CUDA driver (libcuda.so.1) at the first call, so that nothing of CUDA is linked;
 * with a C library before glibc 2.34 add -ldl -lpthread, and on any -lm. The cubins are in NAME.c; the files beside it are for tools.
 *
)") + usage() +
           named(R"( *     args.workspace_bytes = NAME_workspace_bytes(&args);
 *     args.workspace = ...;                       // so many bytes of device memory, where there are any
 *     args.stream = stream;                       // a CUstream or cudaStream_t
 *     if (NAME_launch(&args) != NAME_ok)
 *       puts(NAME_error());
 *
 * A launch checks its arguments, enqueues on the stream and does not wait. Each CUDA context loads the cubin for its device once: at
 * NAME_load, or at its first launch. A context has to be current (cudaSetDevice or cuCtxSetCurrent). Any number of threads may call every
 * function at once. A launch may be captured in a CUDA graph.
)") +
           (isBackward() ? " * What a launch reads beside the gradients that come in is what the forward launch took "
                           "or left, of "
                           "the same scalars, seed and\n * offset.\n"
                         : "") +
           " */\n";
  }

  /// The comment on the members for operands.
  std::string operandComment() const {
    const auto tiled = std::ranges::find_if(signature.operands, &OperandParam::isTiled);
    if (tiled == signature.operands.end())
      return "  /* Device memory. Strides count elements. */\n";
    std::vector<std::string> words;
    for (const AxisParam &axis : tiled->axes)
      words.push_back(wordsFor(axis).stride);
    words.pop_back();
    return fmt::format("  /* Device memory of {}, 16-byte aligned. Strides ({}) count elements and are "
                       "multiples of 16 bytes; the elements of\n"
                       "   * a row lie side by side. */\n",
                       attune::name(signature.dtype), commentText(fmt::format("{}", fmt::join(words, ", "))));
  }

  /// Members of NAME_args for operands and extents.
  std::string operandMembers() const {
    std::string members = operandComment();
    std::vector<std::string> strides;
    size_t width = 0;
    for (const OperandParam &operand : signature.operands)
      width = std::max(width, declarationOf(operand).size());
    for (const OperandParam &operand : signature.operands) {
      members += fmt::format("  {:{}} /* {} */\n", declarationOf(operand), width, contentOf(signature, operand));
      if (strideCount(operand))
        strides.push_back(fmt::format("{}[{}]", stridesMember(operand), strideCount(operand)));
    }
    if (!strides.empty())
      members += fmt::format("  int64_t {};\n", fmt::join(strides, ", "));
    members += fmt::format(
        "  int64_t {};{}\n", listOfAxes(extentMember),
        axisNumber(axes, "h") >= 0 && axisNumber(axes, "hkv") >= 0 ? " /* heads is a multiple of heads_kv */" : "");
    return members;
  }

  /// Members of NAME_args that only some kernels have.
  std::string ownMembers() const {
    std::string text;
    if (signature.dropout)
      text += "  float dropout;                  /* probability in [0, 1) */\n"
              "  uint64_t seed, offset;          /* of the dropout pattern */\n"
              "  const uint64_t *seed_pointer;   /* device memory, read in place of seed where not null */\n"
              "  const uint64_t *offset_pointer; /* the same of offset */\n";
    if (signature.qOffset)
      text += "  int32_t q_offset;               /* added to q in the score and the mask */\n";
    if (!signature.scalars.empty()) {
      text += "  struct {\n";
      for (const ScalarParam &scalar : signature.scalars)
        text += fmt::format("    {} {};\n", elementType(scalar.dtype), memberOf(scalar.name));
      text += "  } scalars;\n";
    }
    if (!signature.tensors.empty()) {
      text += fmt::format("  /* Captured tensors: device memory; strides count elements, {}_contiguous fills them. */\n"
                          "  struct {{\n",
                          name);
      for (const TensorParam &tensor : signature.tensors) {
        const std::string extents = tensor.rank ? fmt::format(" int64_t shape[{0}], strides[{0}];", tensor.rank) : "";
        text += fmt::format("    struct {{ const {} *data;{} }} {}; /* {} */\n", elementType(tensor.dtype), extents,
                            memberOf(tensor.name), attune::name(tensor.dtype));
      }
      text += "  } tensors;\n";
    }
    return text;
  }

  /// `text` with NAME replaced by the kernel's name.
  std::string named(std::string_view text) const {
    std::string result;
    for (size_t at = 0;;) {
      const size_t found = text.find("NAME", at);
      result += text.substr(at, found - at);
      if (found == std::string_view::npos)
        return result;
      result += name;
      at = found + 4;
    }
  }

  std::string header() const {
    std::string guard = name + "_ATTUNE_H";
    std::transform(guard.begin(), guard.end(), guard.begin(), [](unsigned char c) { return char(std::toupper(c)); });
    std::string text = introduction();
    text += fmt::format("#ifndef {0}\n#define {0}\n\n#include <stddef.h>\n#include <stdint.h>\n\n#ifdef "
                        "__cplusplus\nextern \"C\" {{\n#endif\n\n",
                        guard);
    text += fmt::format("enum {{ {0}_head_dim = {1}, {0}_head_dim_v = {2} }};\n\n", name, signature.headDim,
                        signature.headDimV);
    text += named(R"(enum {
  NAME_ok,
  NAME_invalid,      /* arguments that the kernel cannot take */
  NAME_no_driver,    /* none, or too old */
  NAME_no_kernel,    /* none of the cubins runs on the device */
  NAME_driver_error
};

typedef struct NAME_args {
)");
    text +=
        operandMembers() + ownMembers() +
        named(
            R"(  void *workspace;                /* device memory, 16-byte aligned; launches that follow each other in a stream may share it */
  size_t workspace_bytes;
  void *stream;
} NAME_args;

/* Sizes, strides of contiguous memory, the variant's dropout probability; everything else 0. */
void NAME_defaults(NAME_args *args, )") +
        listOfAxes([](const std::string &axis) { return "int64_t " + extentMember(axis); }) + named(R"();
/* Strides of contiguous memory of `rank` dimensions. */
void NAME_contiguous(int rank, const int64_t *shape, int64_t *strides);
/* Bytes of workspace that a launch with these sizes needs, on any of the architectures. */
size_t NAME_workspace_bytes(const NAME_args *args);
/* Loads the cubin into the current context now. NAME_ok, or why not. */
int NAME_load(void);
/* NAME_ok, or why nothing was launched. */
int NAME_launch(const NAME_args *args);
/* The text of this thread's last error. */
const char *NAME_error(void);
)");
    return text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  }

  std::string source() const {
    std::string text = fmt::format("/* {} */\n#include \"{}.h\"\n\n#define LAUNCHER_API static\n\n", summary(), name);
    text += launcher;
    text += "\n/*===----------------------------------------------------------------------===*/\n"
            "/* This kernel                                                                */\n"
            "/*===----------------------------------------------------------------------===*/\n\n";
    const kernel_table &kernel = tables.front().kernel;
    std::vector<image_table> rows;
    for (const LaunchTables &of : tables) {
      text += cubinArray(of.source);
      rows.push_back(of.image);
    }
    TablePrinter printer;
    const std::string arrays[] = {printer.array("axis_table", "axes", kernel.axes, kernel.axis_count),
                                  printer.array("operand_table", "operands", kernel.operands, kernel.operand_count),
                                  printer.array("tensor_table", "tensors", kernel.tensors, kernel.tensor_count),
                                  printer.array("image_table", "images", rows.data(), int(rows.size()))};
    text += printer.text;
    text +=
        fmt::format("static const kernel_table kernel = {{{}, &exported_wording, {}, {}, {}, {}, {}, {}, {}, {}, {}, "
                    "{}, {}, {}, {}, {}, {}}};\n\n",
                    literal(name), kernel.has_dropout, kernel.axis_count, arrays[0], kernel.batch, kernel.heads,
                    kernel.kv_heads, kernel.query_length, kernel.key_length, kernel.operand_count, arrays[1],
                    kernel.scalar_count, kernel.tensor_count, arrays[2], rows.size(), arrays[3]);
    return text + adapter() + functions();
  }

  /// The C code that converts NAME_args to the launcher's arguments.
  std::string adapter() const {
    std::string text =
        fmt::format("/* What a problem points to. */\n"
                    "typedef struct {{\n"
                    "  int64_t extents[{0}], shapes[{1}][most_rank], strides[{1}][most_rank];\n"
                    "  tensor_view operands[{1}], tensors[{2}];\n"
                    "  uint64_t scalars[{3}];\n"
                    "}} problem_lists;\n\n"
                    "static launch_problem problem_of(const {4}_args *args, problem_lists *lists) {{\n"
                    "  launch_problem p;\n"
                    "  memset(&p, 0, sizeof p);\n"
                    "  memset(lists, 0, sizeof *lists);\n",
                    axes.size(), signature.operands.size(), std::max<size_t>(signature.tensors.size(), 1),
                    std::max<size_t>(signature.scalars.size(), 1), name);
    for (const char *list : {"extents", "operands", "scalars", "tensors"})
      text += fmt::format("  p.{0} = lists->{0};\n", list);
    for (size_t i = 0; i < axes.size(); ++i)
      text += fmt::format("  lists->extents[{}] = args->{};\n", i, extentMember(axes[i]));
    text += otherArguments();
    for (size_t i = 0; i < signature.operands.size(); ++i) {
      const OperandParam &operand = signature.operands[i];
      if (strideCount(operand))
        text += fmt::format("  memcpy(lists->strides[{0}], args->{1}, sizeof args->{1});\n", i, stridesMember(operand));
      text += fmt::format("  lists->operands[{0}] = operand_view(&operands[{0}], &p, args->{1}, lists->shapes[{0}], "
                          "lists->strides[{0}]);\n",
                          i, memberOf(operand.name));
    }
    return text + "  return p;\n}\n\n";
  }

  /// The statements of the adapter for all members other than extents and operands.
  std::string otherArguments() const {
    std::string text = "  p.workspace = args->workspace;\n  p.workspace_bytes = args->workspace_bytes;\n";
    if (signature.dropout)
      for (const char *member : {"dropout", "seed", "offset", "seed_pointer", "offset_pointer"})
        text += fmt::format("  p.{0} = args->{0};\n", member);
    if (signature.qOffset)
      text += "  p.q_offset = args->q_offset;\n";
    for (size_t i = 0; i < signature.scalars.size(); ++i)
      text +=
          signature.scalars[i].dtype == DType::Bool
              ? fmt::format("  lists->scalars[{}] = args->scalars.{} != 0;\n", i, memberOf(signature.scalars[i].name))
              : fmt::format("  memcpy(&lists->scalars[{0}], &args->scalars.{1}, sizeof args->scalars.{1});\n", i,
                            memberOf(signature.scalars[i].name));
    for (size_t i = 0; i < signature.tensors.size(); ++i)
      text += fmt::format(fmt::runtime(signature.tensors[i].rank
                                           ? "  lists->tensors[{0}] = view_of(args->tensors.{1}.data, "
                                             "args->tensors.{1}.shape, args->tensors.{1}.strides);\n"
                                           : "  lists->tensors[{0}] = view_of(args->tensors.{1}.data, NULL, NULL);\n"),
                          i, memberOf(signature.tensors[i].name));
    return text;
  }

  std::string functions() const {
    const std::string problem = "  problem_lists lists;\n  const launch_problem p = problem_of(args, &lists);\n";
    // Parameters have numbers instead of names of axes, which could equal other names in this function.
    auto parameter = [&](const std::string &axis) { return fmt::format("int64_t extent_{}", axisNumber(axes, axis)); };
    std::string text = fmt::format("void {0}_defaults({0}_args *args, {1}) {{\n  int64_t extents[{2}];\n"
                                   "  memset(args, 0, sizeof *args);\n",
                                   name, listOfAxes(parameter), axes.size());
    for (size_t i = 0; i < axes.size(); ++i)
      text += fmt::format("  args->{0} = extents[{1}] = extent_{1};\n", extentMember(axes[i]), i);
    for (size_t i = 0; i < signature.operands.size(); ++i)
      if (strideCount(signature.operands[i]))
        text += fmt::format("  dense_operand(&operands[{}], extents, args->{});\n", i,
                            stridesMember(signature.operands[i]));
    if (signature.dropout)
      text += fmt::format("  args->dropout = (float){};\n", double(dropout));
    text += named("}\n\nvoid NAME_contiguous(int rank, const int64_t *shape, int64_t *strides) { dense_strides(rank, "
                  "shape, strides); }\n\n");
    text += named("size_t NAME_workspace_bytes(const NAME_args *args) {\n") + problem +
            "  return most_workspace(&kernel, &p);\n}\n\n";
    text += named("int NAME_load(void) { return load_for_context(&kernel); }\n\n");
    text += named("int NAME_launch(const NAME_args *args) {\n") + problem +
            "  return check_and_enqueue(&kernel, &p, args->stream);\n}\n\n";
    return text + named("const char *NAME_error(void) { return launcher_text(); }\n");
  }

  std::string description() const {
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (const KernelImage *image : images)
      kernels.push_back({{"arch", image->arch},
                         {"cubin", cubinName(*image)},
                         {"entry", image->main().symbol},
                         {"registers", image->main().registers},
                         {"spillBytes", image->main().spillBytes},
                         {"plan", nlohmann::ordered_json::parse(image->planJson, nullptr, false)}});
    const nlohmann::ordered_json result = {{"name", name},
                                           {"variant", images.front()->name},
                                           {"dtype", attune::name(signature.dtype)},
                                           {"headDim", signature.headDim},
                                           {"headDimV", signature.headDimV},
                                           {"attune", versionText()},
                                           {"kernels", kernels}};
    return result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }

  std::vector<const KernelImage *> images;
  std::deque<LaunchTables> tables; ///< one for each image
  KernelSignature signature;       ///< the arguments that all images share
  std::vector<std::string> axes;
  std::string name;
  float dropout;
};

/// Checks that operands and extents can be members of a C struct: valid, distinct names.
Expected<void> checkOperands(const KernelImage &image) {
  const KernelSignature arguments = argumentSignature(image.signature);
  const std::vector<std::string> axes = arguments.axes();
  if (image.signature.axes() != axes)
    return Error{
        fmt::format("a workspace operand of kernel '{}' has an axis whose extent no other operand gives", image.name)};
  if (axes.empty())
    return Error{fmt::format("kernel '{}' has no operand whose extents a launch passes; compile it again", image.name)};
  std::set<std::string> members = {"args",     "dropout", "seed",    "offset",    "seed_pointer",    "offset_pointer",
                                   "q_offset", "scalars", "tensors", "workspace", "workspace_bytes", "stream"};
  auto add = [&](const char *kind, const std::string &name, const std::string &member) -> Expected<void> {
    if (!isIdentifier(withoutDots(name)))
      return Error{fmt::format("{} '{}' of kernel '{}' is not a name in C; rename it with letters, digits and _", kind,
                               name, image.name)};
    if (!members.insert(member).second)
      return Error{fmt::format("{} '{}' of kernel '{}' would be member '{}' of the header's arguments, which another "
                               "one is; rename it",
                               kind, name, image.name, member)};
    return {};
  };
  for (const std::string &axis : axes)
    if (Expected<void> good = add("axis", axis, extentMember(axis)); !good)
      return good;
  for (const OperandParam &operand : arguments.operands) {
    if (Expected<void> good = add("operand", operand.name, memberOf(operand.name)); !good)
      return good;
    if (Expected<void> good = add("operand", operand.name, stridesMember(operand)); !good)
      return good;
    if (operand.rank() > most_rank)
      return Error{fmt::format("operand '{}' of kernel '{}' has rank {}, the most is {}; join dimensions of it",
                               operand.name, image.name, operand.rank(), int(most_rank))};
  }
  return {};
}

Expected<void> checkImages(std::span<const KernelImage> images) {
  if (images.empty())
    return Error{"there is no kernel to export; name at least one architecture"};
  for (size_t i = 0; i < images.size(); ++i) {
    const ArchInfo *arch = findArch(images[i].arch);
    if (!arch || arch->isCpu())
      return Error{fmt::format(
          "kernel '{}' is for {}, but only CUDA kernels can be exported; name architectures such as sm_80 and sm_90a",
          images[i].name, images[i].arch)};
    if (std::ranges::find(images[i].signature.derived, DerivedAxis::Rule::Pages, &DerivedAxis::rule) !=
        images[i].signature.derived.end())
      return Error{fmt::format("kernel '{}' has keys in pages, whose number an exported launcher does not compute; "
                               "launch it through the library",
                               images[i].name)};
    if (std::ranges::find(images[i].signature.derived, DerivedAxis::Rule::Sequences, &DerivedAxis::rule) !=
        images[i].signature.derived.end())
      return Error{fmt::format("kernel '{}' has packed sequences, whose number an exported launcher does not compute; "
                               "launch it through the library",
                               images[i].name)};
    if (!images[i].signature.derived.empty())
      return Error{
          fmt::format("kernel '{}' packs groups or splits keys, and its grid follows from what the runtime computes "
                      "of a launch, which exported launchers do not; compile it with pack-gqa and split-keys "
                      "false, or launch it through the library",
                      images[i].name)};
    for (size_t j = 0; j < i; ++j)
      if (images[j].arch == images[i].arch)
        return Error{fmt::format("there are two kernels for {}; name each architecture once", images[i].arch)};
    if (argumentSignature(images[i].signature) != argumentSignature(images[0].signature))
      return Error{fmt::format("the kernels for {} and {} take different arguments; export them under two names",
                               images[0].arch, images[i].arch)};
    if (Expected<void> good = checkSignature(images[i]); !good)
      return good;
    if (Expected<void> good = checkOperands(images[i]); !good)
      return good;
  }
  return {};
}

} // namespace

Expected<std::vector<ExportedFile>> attune::exportKernel(std::span<const KernelImage> images,
                                                         const ExportOptions &options) {
  if (Expected<void> good = checkImages(images); !good)
    return good.error();
  std::string name = options.name;
  if (name.empty()) {
    name = images.front().name;
    std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    if (std::isdigit(static_cast<unsigned char>(name[0])))
      name.insert(0, "_");
  }
  name += options.suffix;
  if (!isIdentifier(name) || isTaken(name))
    return Error{fmt::format("'{}' is not a name in C; use letters, digits and _, and no keyword or macro", name)};
  std::vector<const KernelImage *> sorted;
  for (const KernelImage &image : images)
    sorted.push_back(&image);
  auto rank = [](const KernelImage *image) {
    const ArchInfo &arch = *findArch(image->arch);
    return std::tuple(arch.computeMajor, arch.computeMinor, arch.ownCubins);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const KernelImage *a, const KernelImage *b) { return rank(a) > rank(b); });
  return Exporter(std::move(sorted), std::move(name), options.dropout).files();
}
