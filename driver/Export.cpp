//===- Export.cpp - Kernels as C sources that need only the CUDA driver -----===//

#include "driver/Export.h"

#include "attune/Compile.h"
#include "runtime/ArchInfo.h"
#include "runtime/Launch.h"
#include "runtime/TensorMaps.h"

#include <algorithm>
#include <cctype>
#include <cstring>
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

/// Keywords of C99 and C++17 that isIdentifier allows, and macros that headers or compilers define.
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

/// A member's name for what the variant calls `name`.
std::string memberOf(const std::string &name) { return isTaken(name) ? name + "_" : name; }

/// A string literal. Octal escapes end after three digits, so that no digit that follows joins one.
std::string literal(std::string_view text) {
  std::string result = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', char(c)};
    else if (c < 32 || c > 126 || c == '?') // no trigraphs
      result += fmt::format("\\{:03o}", c);
    else
      result += char(c);
  }
  return result + "\"";
}

/// For a comment: nothing of it ends the comment.
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
    return "void"; // C has no type of 16-bit floats
  }
}

//===----------------------------------------------------------------------===//
// The tables
//===----------------------------------------------------------------------===//

std::string tableOf(const LinearIndex &index) {
  return fmt::format("{{{}, {{{}}}, {{{}}}}}", index.constant, fmt::join(index.coordinates, ", "),
                     fmt::join(index.extents, ", "));
}

/// "tensor_3_indices", or "NULL" for an empty table.
std::string reference(bool any, std::string name) { return any ? std::move(name) : "NULL"; }

/// The captured tensors, and before them the indices and guards that they refer to.
std::string tensorTables(const KernelSignature &signature) {
  std::string before, rows;
  for (size_t t = 0; t < signature.tensors.size(); ++t) {
    const TensorParam &tensor = signature.tensors[t];
    std::string indices;
    for (size_t i = 0; i < tensor.indices.size(); ++i) {
      const IndexParam &index = tensor.indices[i];
      const std::string guards = fmt::format("tensor_{}_guards_{}", t, i);
      if (!index.guards.empty()) {
        before += fmt::format("static const linear_index {}[] = {{", guards);
        for (const LinearIndex &guard : index.guards)
          before += fmt::format("\n    {},", tableOf(guard));
        before.back() = '}';
        before += ";\n";
      }
      indices += fmt::format("\n    {{{}, {}, {}, {}, {}, {}, {}}},", index.dim, tableOf(index.index),
                             index.guards.size(), reference(!index.guards.empty(), guards), int(index.broadcast),
                             literal(index.text), literal(index.element));
    }
    if (!indices.empty()) {
      indices.back() = '}';
      before += fmt::format("static const index_table tensor_{}_indices[] = {{{};\n", t, indices);
    }
    rows += fmt::format("\n    {{{}, {}, {}, {}, {}}},", literal(tensor.name), byteSize(tensor.dtype), tensor.rank,
                        tensor.indices.size(), reference(!tensor.indices.empty(), fmt::format("tensor_{}_indices", t)));
  }
  if (rows.empty())
    return "";
  rows.back() = '}';
  return before + "static const tensor_table tensors[] = {" + rows + ";\n";
}

int numberOf(const KernelSignature &signature, std::string_view tensor) {
  for (size_t i = 0; i < signature.tensors.size(); ++i)
    if (signature.tensors[i].name == tensor)
      return int(i);
  return -1;
}

/// CUtensorMapDataType and CUtensorMapSwizzle of cuda.h.
int mapType(DType dtype) { return dtype == DType::F32 ? 7 : dtype == DType::BF16 ? 9 : 6; }
int mapSwizzle(int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : 1; }

/// The cubin as words: shorter than bytes, and aligned as the driver wants it.
std::string cubinTable(const KernelImage &image) {
  std::string text = fmt::format("static const uint64_t cubin_{}[] = {{", image.arch);
  for (size_t at = 0; at < image.binary.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, image.binary.data() + at, std::min<size_t>(8, image.binary.size() - at));
    text += fmt::format("{}0x{:x}u,", at % 64 ? " " : "\n    ", word);
  }
  text.back() = '}';
  return text + ";\n";
}

/// What one image's row refers to.
std::string imageTables(const KernelImage &image) {
  const KernelSignature &signature = image.signature;
  std::string text = cubinTable(image), bounds, maps;
  for (const BoundsParam &param : signature.bounds)
    bounds += fmt::format("\n    {{{}, {}, {}, {}}},", numberOf(signature, param.tensor), param.dim, int(param.ofKeys),
                          param.rows);
  if (!bounds.empty()) {
    bounds.back() = '}';
    text += fmt::format("static const bounds_table bounds_{}[] = {{{};\n", image.arch, bounds);
  }
  for (size_t i = 0; i < signature.tensorMaps.size(); ++i) {
    const TensorMapParam &map = signature.tensorMaps[i];
    maps += fmt::format("\n    {{{}, {}, {}, {}, {}, {}}},", literal(map.tensor), numberOf(signature, map.tensor),
                        mapType(elementOf(signature, i)), map.rows, map.columns, mapSwizzle(map.swizzle));
  }
  if (!maps.empty()) {
    maps.back() = '}';
    text += fmt::format("static const map_table maps_{}[] = {{{};\n", image.arch, maps);
  }
  return text;
}

std::string imageRow(const KernelImage &image) {
  const KernelSignature &signature = image.signature;
  const ArchInfo &arch = *findArch(image.arch);
  unsigned minors = 0;
  for (int minor = 0; minor < 10; ++minor)
    minors |= unsigned(runsOn(arch, arch.computeMajor, minor)) << minor;
  const std::string boundsEntry = signature.bounds.empty() ? "NULL" : literal(image.entry + boundsEntrySuffix);
  const std::optional<BlockPatternParam> &pattern = signature.blockPattern;
  return fmt::format(
      "\n    {{{}, {}, {:#x}u, cubin_{}, {}, {}, {}, {}, {}, {}u, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},",
      literal(image.arch), arch.computeMajor, minors, image.arch, literal(image.entry), boundsEntry, image.nvrtcVersion,
      image.tileQ, image.threads, image.sharedBytes, int(image.persistent), int(signature.claimsWork),
      int(signature.waitsForBounds), signature.packedBytes(), signature.tensorMapOffset(), signature.bounds.size(),
      reference(!signature.bounds.empty(), "bounds_" + image.arch), signature.tensorMaps.size(),
      reference(!signature.tensorMaps.empty(), "maps_" + image.arch),
      pattern ? numberOf(signature, pattern->tensor) : -1, pattern ? pattern->rows : 1, pattern ? pattern->columns : 1);
}

//===----------------------------------------------------------------------===//
// One kernel's files
//===----------------------------------------------------------------------===//

class Exporter {
public:
  /// `images` are those of one variant, the most specific architecture first.
  Exporter(std::vector<const KernelImage *> images, std::string name, float dropout)
      : images(std::move(images)), signature(this->images.front()->signature), name(std::move(name)), dropout(dropout) {
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
    return fmt::format("{}: attention forward, {}, head_dim {} x {}, for {}; exported by attune {}",
                       commentText(images.front()->name), attune::name(signature.dtype), signature.headDim,
                       signature.headDimV, fmt::join(archs, ", "), versionText());
  }

  /// Members of NAME_args that not every kernel has.
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
      text +=
          "  /* Captured tensors: device memory; strides count elements, NAME_contiguous fills them. */\n  struct {\n";
      for (const TensorParam &tensor : signature.tensors) {
        const std::string extents = tensor.rank ? fmt::format(" int64_t shape[{0}], strides[{0}];", tensor.rank) : "";
        text += fmt::format("    struct {{ const {} *data;{} }} {}; /* {} */\n", elementType(tensor.dtype), extents,
                            memberOf(tensor.name), attune::name(tensor.dtype));
      }
      text += "  } tensors;\n";
    }
    return text;
  }

  /// `text` with this kernel's name for NAME.
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
    std::string text = fmt::format("/* {} */\n", summary());
    text += named(R"(/*
 * Compile NAME.c as C99 or C++17 and link it. It opens the CUDA driver (libcuda.so.1) at the first call, so that nothing of CUDA is linked;
 * with a C library before glibc 2.34 add -ldl -lpthread, and on any -lm. The cubins are in NAME.c; the files beside it are for tools.
 *
 *     NAME_args args;
 *     NAME_defaults(&args, B, H, Hkv, Sq, Sk);    // sizes, strides of contiguous [B, H, S, D] memory, the rest 0
 *     args.q = q; args.k = k; args.v = v; args.o = o;
 *     args.workspace_bytes = NAME_workspace_bytes(&args);
 *     args.workspace = ...;                       // so many bytes of device memory, where there are any
 *     args.stream = stream;                       // a CUstream or cudaStream_t
 *     if (NAME_launch(&args) != NAME_ok)
 *       puts(NAME_error());
 *
 * A launch checks its arguments, enqueues on the stream and does not wait. Each CUDA context loads the cubin for its device once: at
 * NAME_load, or at its first launch. A context has to be current (cudaSetDevice or cuCtxSetCurrent). Any number of threads may call every
 * function at once. A launch may be captured in a CUDA graph.
 */
)");
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
    text += fmt::format("  /* Device memory of {}, 16-byte aligned. Strides (batch, head, row) count elements and are "
                        "multiples of 16 bytes; the elements of\n"
                        "   * a row lie side by side. */\n",
                        attune::name(signature.dtype));
    text +=
        R"(  const void *q; /* [batch, heads, query_length, head_dim] */
  const void *k; /* [batch, heads_kv, key_length, head_dim] */
  const void *v; /* [batch, heads_kv, key_length, head_dim_v] */
  void *o;       /* [batch, heads, query_length, head_dim_v] */
  float *lse;    /* [batch, heads, query_length], natural logarithm; null where not wanted */
  int64_t q_strides[3], k_strides[3], v_strides[3], o_strides[3], lse_strides[3];
  int64_t batch, heads, heads_kv, query_length, key_length; /* heads is a multiple of heads_kv */
)" + named(ownMembers()) +
        named(
            R"(  void *workspace;                /* device memory, 16-byte aligned; launches that follow each other in a stream may share it */
  size_t workspace_bytes;
  void *stream;
} NAME_args;

/* Sizes, strides of contiguous memory, the variant's dropout probability; everything else 0. */
void NAME_defaults(NAME_args *args, int64_t batch, int64_t heads, int64_t heads_kv, int64_t query_length, int64_t key_length);
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
    std::string text = fmt::format("/* {} */\n#include \"{}.h\"\n\n", summary(), name);
    text += fmt::format("static const int bounds_block_threads = {}, work_counter_bytes = {};\nstatic const char "
                        "bounds_suffix[] = {};\n\n",
                        boundsBlockThreads, workCounterBytes, literal(boundsEntrySuffix));
    text += launcher;
    text += "\n/*===----------------------------------------------------------------------===*/\n"
            "/* This kernel                                                                */\n"
            "/*===----------------------------------------------------------------------===*/\n\n";
    text += tensorTables(signature);
    std::string rows;
    for (const KernelImage *image : images) {
      text += imageTables(*image);
      rows += imageRow(*image);
    }
    rows.back() = '}';
    text += "static const image_table images[] = {" + rows + ";\n";
    text += fmt::format("static const kernel_table kernel = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, images}};\n\n",
                        literal(name), byteSize(signature.dtype), signature.headDim, signature.headDimV,
                        int(signature.dropout), signature.scalars.size(), signature.tensors.size(),
                        reference(!signature.tensors.empty(), "tensors"), images.size());
    return text + adapter() + functions();
  }

  /// From NAME_args to what Launcher.c takes.
  std::string adapter() const {
    const size_t scalars = std::max<size_t>(signature.scalars.size(), 1),
                 tensors = std::max<size_t>(signature.tensors.size(), 1);
    std::string text = named("static problem problem_of(const NAME_args *args, uint64_t *scalars, tensor_view *views) "
                             "{\n  problem p;\n  memset(&p, 0, sizeof p);\n");
    text += fmt::format("  memset(scalars, 0, {} * sizeof *scalars);\n  memset(views, 0, {} * sizeof *views);\n",
                        scalars, tensors);
    for (const char *member :
         {"q", "k", "v", "o", "lse", "q_strides", "k_strides", "v_strides", "o_strides", "lse_strides", "batch",
          "heads", "heads_kv", "query_length", "key_length", "workspace", "workspace_bytes", "stream"})
      text += fmt::format("  p.{0} = args->{0};\n", member);
    if (signature.dropout)
      for (const char *member : {"dropout", "seed", "offset", "seed_pointer", "offset_pointer"})
        text += fmt::format("  p.{0} = args->{0};\n", member);
    if (signature.qOffset)
      text += "  p.q_offset = args->q_offset;\n";
    for (size_t i = 0; i < signature.scalars.size(); ++i)
      text += signature.scalars[i].dtype == DType::Bool
                  ? fmt::format("  scalars[{}] = args->scalars.{} != 0;\n", i, memberOf(signature.scalars[i].name))
                  : fmt::format("  memcpy(&scalars[{0}], &args->scalars.{1}, sizeof args->scalars.{1});\n", i,
                                memberOf(signature.scalars[i].name));
    for (size_t i = 0; i < signature.tensors.size(); ++i) {
      const std::string member = memberOf(signature.tensors[i].name);
      text += fmt::format("  views[{}].data = args->tensors.{}.data;\n", i, member);
      if (signature.tensors[i].rank)
        for (const char *part : {"shape", "strides"})
          text += fmt::format("  memcpy(views[{0}].{1}, args->tensors.{2}.{1}, sizeof args->tensors.{2}.{1});\n", i,
                              part, member);
    }
    return text + "  p.scalars = scalars;\n  p.tensors = views;\n  return p;\n}\n\n";
  }

  std::string functions() const {
    const size_t scalars = std::max<size_t>(signature.scalars.size(), 1),
                 tensors = std::max<size_t>(signature.tensors.size(), 1);
    const std::string locals = fmt::format("  uint64_t scalars[{}];\n  tensor_view views[{}];\n", scalars, tensors);
    std::string text = named(
        R"(void NAME_defaults(NAME_args *args, int64_t batch, int64_t heads, int64_t heads_kv, int64_t query_length, int64_t key_length) {
  const int64_t queries[] = {batch, heads, query_length}, keys[] = {batch, heads_kv, key_length};
  memset(args, 0, sizeof *args);
  args->batch = batch;
  args->heads = heads;
  args->heads_kv = heads_kv;
  args->query_length = query_length;
  args->key_length = key_length;
  dense_strides(3, queries, NAME_head_dim, args->q_strides);
  dense_strides(3, keys, NAME_head_dim, args->k_strides);
  dense_strides(3, keys, NAME_head_dim_v, args->v_strides);
  dense_strides(3, queries, NAME_head_dim_v, args->o_strides);
  dense_strides(3, queries, 1, args->lse_strides);
)");
    if (signature.dropout)
      text += fmt::format("  args->dropout = (float){};\n", double(dropout));
    text += named("}\n\nvoid NAME_contiguous(int rank, const int64_t *shape, int64_t *strides) { dense_strides(rank, "
                  "shape, 1, strides); }\n\n");
    text += named("size_t NAME_workspace_bytes(const NAME_args *args) {\n") + locals +
            "  const problem p = problem_of(args, scalars, views);\n  return most_workspace_of(&kernel, &p);\n}\n\n";
    text += named("int NAME_load(void) { return load_for_context(&kernel); }\n\n");
    text += named("int NAME_launch(const NAME_args *args) {\n") + locals +
            "  const problem p = problem_of(args, scalars, views);\n  return check_and_enqueue(&kernel, &p);\n}\n\n";
    return text + named("const char *NAME_error(void) { return last_text; }\n");
  }

  std::string description() const {
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (const KernelImage *image : images)
      kernels.push_back({{"arch", image->arch},
                         {"cubin", cubinName(*image)},
                         {"entry", image->entry},
                         {"registers", image->registers},
                         {"spillBytes", image->spillBytes},
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
  const KernelSignature &signature; ///< of what all have in common
  std::string name;
  float dropout;
};

/// The arguments that a launch takes, without what the schedule adds.
KernelSignature argumentsOf(KernelSignature signature) {
  signature.bounds.clear();
  signature.tensorMaps.clear();
  signature.claimsWork = signature.waitsForBounds = false;
  return signature;
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
    for (size_t j = 0; j < i; ++j)
      if (images[j].arch == images[i].arch)
        return Error{fmt::format("there are two kernels for {}; name each architecture once", images[i].arch)};
    if (argumentsOf(images[i].signature) != argumentsOf(images[0].signature))
      return Error{fmt::format("the kernels for {} and {} take different arguments; export them under two names",
                               images[0].arch, images[i].arch)};
    if (Expected<void> good = checkSignature(images[i]); !good)
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
  if (!isIdentifier(name) || isTaken(name))
    return Error{fmt::format("'{}' is not a name in C; use letters, digits and _, and no keyword or macro", name)};
  std::vector<const KernelImage *> sorted;
  for (const KernelImage &image : images)
    sorted.push_back(&image);
  auto rank = [](const KernelImage *image) {
    const ArchInfo &arch = *findArch(image->arch);
    return std::tuple(arch.computeMajor, arch.computeMinor, arch.warpgroups);
  };
  std::sort(sorted.begin(), sorted.end(),
            [&](const KernelImage *a, const KernelImage *b) { return rank(a) > rank(b); });
  return Exporter(std::move(sorted), std::move(name), options.dropout).files();
}
