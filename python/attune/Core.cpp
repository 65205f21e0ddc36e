//===- Core.cpp - attune's C++ interface as a Python module ------------------===//
//
// attune._core, which the Python files beside it are written on: expressions, variants, compiling and launching, an error
// an exception of attune.errors. It holds no meaning of its own.
//
//===----------------------------------------------------------------------===//

#include "Exchange.h"
#include "Lookups.h"

#include "attune/attune.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <new>
#include <set>

extern "C" int attune_main(int argc, char **argv); // the command line, in libattune.so

namespace nb = nanobind;
using namespace nb::literals;
using namespace attune;

namespace {

//===----------------------------------------------------------------------===//
// Errors and places
//===----------------------------------------------------------------------===//

[[noreturn]] void raise(const Error &error) {
  nb::object type = nb::module_::import_("attune.errors").attr("Error");
  nb::object raised = type(error.message, error.where.file, error.where.line, error.where.column, error.excerpt);
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw nb::python_error();
}

template <typename T> T valueOf(Expected<T> result) {
  if (!result)
    raise(result.error());
  return std::move(*result);
}

void require(const Expected<void> &done) {
  if (!done)
    raise(done.error());
}

/// File, line and column of the user's Python; line 0 means unknown.
using Where = std::tuple<std::string, unsigned, unsigned>;

SourceLocation locationOf(const Where &where) { return {std::get<0>(where), std::get<1>(where), std::get<2>(where)}; }

/// What `build` makes, placed at `where`.
template <typename Build> Expr placed(const Where &where, Build &&build) {
  LocationScope scope(locationOf(where));
  Expr result = build();
  if (result.error())
    raise(*result.error());
  return result;
}

DType dtypeOf(const std::string &text) {
  for (DType dtype : {f32, f16, bf16, i32, i64, boolean})
    if (name(dtype) == text)
      return dtype;
  raise({"dtype \"" + text + "\" is none of f32, f16, bf16, i32, i64 and bool"});
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

using Unary = Expr (*)(Operand);
using Binary = Expr (*)(Operand, Operand);

const std::map<std::string_view, Unary> &unaries() {
  static const std::map<std::string_view, Unary> table = {
      {"-", [](Operand x) { return -x; }}, {"!", [](Operand x) { return !x; }},
      {"~", [](Operand x) { return ~x; }}, {"abs", &attune::abs},
#define ATTUNE_FUNCTION1(op, name, ...) {#name, &attune::name},
#define ATTUNE_EXPANDED1(op, name, ...) {#name, &attune::name},
#define ATTUNE_COMPOSITE1(name, ...) {#name, &attune::name},
#include "attune/Functions.def"
      {"clamped", &attune::clamped},       {"broadcast", &attune::broadcast},
  };
  return table;
}

const std::map<std::string_view, Binary> &binaries() {
  static const std::map<std::string_view, Binary> table = {
      {"+", [](Operand a, Operand b) { return a + b; }},
      {"-", [](Operand a, Operand b) { return a - b; }},
      {"*", [](Operand a, Operand b) { return a * b; }},
      {"/", [](Operand a, Operand b) { return a / b; }},
      {"%", [](Operand a, Operand b) { return a % b; }},
      {"<", [](Operand a, Operand b) { return a < b; }},
      {"<=", [](Operand a, Operand b) { return a <= b; }},
      {">", [](Operand a, Operand b) { return a > b; }},
      {">=", [](Operand a, Operand b) { return a >= b; }},
      {"==", [](Operand a, Operand b) { return a == b; }},
      {"!=", [](Operand a, Operand b) { return a != b; }},
      {"&", [](Operand a, Operand b) { return a & b; }},
      {"|", [](Operand a, Operand b) { return a | b; }},
      {"^", [](Operand a, Operand b) { return a ^ b; }},
      {"<<", [](Operand a, Operand b) { return a << b; }},
      {">>", [](Operand a, Operand b) { return a >> b; }},
      {"min", &attune::min},
      {"max", &attune::max},
#define ATTUNE_FUNCTION2(op, name, ...) {#name, &attune::name},
#define ATTUNE_COMPOSITE2(name, ...) {#name, &attune::name},
#include "attune/Functions.def"
  };
  return table;
}

using Ternary = Expr (*)(Operand, Operand, Operand);

const std::map<std::string_view, Ternary> &ternaries() {
  static const std::map<std::string_view, Ternary> table = {
#define ATTUNE_COMPOSITE3(name, ...) {#name, &attune::name},
#include "attune/Functions.def"
  };
  return table;
}

Expr loaded(const std::string &name, const std::string &dtype, int rank, const std::vector<Expr> &indices,
            const Where &where) {
  return placed(where, [&] { return captured(name, dtypeOf(dtype), Rank{rank}).at(indices); });
}

Expr searched(const std::string &name, const std::string &dtype, int rank, const Expr &x, bool right,
              const Where &where) {
  return placed(where, [&] {
    return searchsorted(captured(name, dtypeOf(dtype), Rank{rank}), x, right ? SearchSide::Right : SearchSide::Left);
  });
}

/// Constants take the types that the C++ literals of their values have.
Expr integerConstant(int64_t value, const Where &where) {
  return placed(where, [&] { return value == int32_t(value) ? Expr(int32_t(value)) : Expr(value); });
}

Index coordinateNamed(std::string_view text) {
  for (Coordinate which : {Coordinate::B, Coordinate::H, Coordinate::Q, Coordinate::K})
    if (name(which) == text)
      return coordinate(which);
  return inputScore();
}

Expr extentNamed(std::string_view text, const Where &where) {
  return placed(where, [&] {
    for (Extent which : {Extent::B, Extent::H, Extent::Sq})
      if (name(which) == text)
        return extent(which);
    return extent(Extent::Sk);
  });
}

/// A tensor that a built-in reads, as attune.Tensor holds it.
struct Declared {
  std::string name, dtype;
  int rank = 0;
  Captured captured() const { return attune::captured(name, dtypeOf(dtype), Rank{rank}); }
};

/// The built-ins of Builtins.h and Patterns.h, of four coordinates or of the score and four coordinates.
Expr builtinMask(const std::string &which, const std::vector<Expr> &arguments, const std::vector<Declared> &tensors,
                 const std::vector<Expr> &at, const Where &where) {
  return placed(where, [&] {
    const auto mask = [&]() -> Mask {
      if (which == "causal")
        return causal();
      if (which == "causal_bottom_right")
        return causalBottomRight();
      if (which == "sliding_window")
        return slidingWindow(arguments.at(0), arguments.at(1));
      if (which == "chunked")
        return chunked(arguments.at(0));
      if (which == "local_global")
        return localGlobal(arguments.at(0), arguments.at(1), arguments.at(2));
      if (which == "strided")
        return strided(arguments.at(0));
      if (which == "fixed")
        return fixed(arguments.at(0), arguments.at(1));
      if (which == "butterfly")
        return butterfly(arguments.at(0));
      if (which == "bigbird")
        return bigbird(arguments.at(0), arguments.at(1), arguments.at(2), arguments.at(3), arguments.at(4));
      if (which == "natten")
        return natten(arguments.at(0), arguments.at(1), arguments.at(2));
      if (which == "sta")
        return sta(arguments.at(0), {arguments.at(1), arguments.at(2), arguments.at(3)},
                   {arguments.at(4), arguments.at(5), arguments.at(6)});
      if (which == "documents")
        return documents(tensors.at(0).captured());
      if (which == "key_padding")
        return keyPadding(tensors.at(0).captured());
      return tensors.empty() ? prefixLm(arguments.at(0)) : prefixLm(tensors.at(0).captured());
    }();
    return mask(at.at(0), at.at(1), at.at(2), at.at(3));
  });
}

Expr builtinScore(const std::string &which, const Declared &tensor, const std::vector<Expr> &at, const Where &where) {
  return placed(where, [&] {
    const ScoreModifier modifier = which == "alibi"           ? alibi(tensor.captured())
                                   : which == "relative_bias" ? relativeBias(tensor.captured())
                                                              : bias(tensor.captured());
    return modifier(at.at(0), at.at(1), at.at(2), at.at(3), at.at(4));
  });
}

void bindExpressions(nb::module_ &m) {
  nb::class_<Expr>(m, "Expr")
      .def_prop_ro("type", [](const Expr &expr) { return std::string(name(expr.type())); })
      .def("text", [](const Expr &expr) { return text(expr); });
  nb::class_<Declared>(m, "Declared").def(nb::init<std::string, std::string, int>());
  m.def("unary", [](const std::string &op, const Expr &x, const Where &where) {
    return placed(where, [&] { return unaries().at(op)(x); });
  });
  m.def("binary", [](const std::string &op, const Expr &a, const Expr &b, const Where &where) {
    return placed(where, [&] { return binaries().at(op)(a, b); });
  });
  m.def("ternary", [](const std::string &op, const Expr &a, const Expr &b, const Expr &c, const Where &where) {
    return placed(where, [&] { return ternaries().at(op)(a, b, c); });
  });
  m.def("functions", [] {
    nb::list all;
    for (const FunctionInfo &function : functions())
      all.append(nb::make_tuple(std::string(function.name), function.parameters, std::string(function.definition),
                                std::string(function.summary)));
    return all;
  });
  m.def("select", [](const Expr &condition, const Expr &a, const Expr &b, const Where &where) {
    return placed(where, [&] { return select(condition, a, b); });
  });
  m.def("cast", [](const Expr &x, const std::string &dtype, const Where &where) {
    return placed(where, [&] { return cast(x, dtypeOf(dtype)); });
  });
  m.def("scalar", [](const std::string &name, const std::string &dtype, const Where &where) {
    return placed(where, [&] { return scalar(name, dtypeOf(dtype)); });
  });
  m.def("constant", &integerConstant);
  m.def("constant_f32", [](double value, const Where &where) { return placed(where, [&] { return Expr(value); }); });
  m.def("constant_bool", [](bool value, const Where &where) { return placed(where, [&] { return Expr(value); }); });
  m.def("searchsorted", &searched);
  m.def("load", &loaded);
  m.def("is_tensor_name", [](const std::string &name) { return !captured(name, f32, Rank{1}).at({Expr(0)}).error(); });
  m.def("argument", [](const std::string &name) { return coordinateNamed(name); });
  m.def("extent", [](const std::string &name, const Where &where) { return extentNamed(name, where); });
  m.def("builtin_mask", &builtinMask);
  m.def("builtin_score", &builtinScore);
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

/// Changes a variant under a scope; a mistake is raised.
template <typename Change> void changed(Variant &variant, const Where &where, Change &&change) {
  LocationScope scope(locationOf(where));
  change(variant);
  if (variant.error())
    raise(*variant.error());
}

Normaliser normaliserFrom(const std::string &json) {
  // The form of a definition in JSON is read by Variant::fromJson alone.
  return valueOf(Variant::fromJson("{\"name\": \"definition\", \"normaliser\": " + json + "}")).normaliser();
}

/// Whether an index into a captured tensor depends on q or k, in the score or in the mask.
class RowReads {
public:
  RowReads(const Variant &variant, std::string_view tensor) : tensor(tensor) {
    for (const std::optional<Expr> *root : {&variant.scoreExpr(), &variant.maskExpr()})
      if (*root)
        visit((*root)->node(), false);
  }

  bool found = false;

private:
  void visit(const Node &node, bool isIndex) {
    if (!visited.emplace(&node, isIndex).second)
      return;
    found |=
        isIndex && node.op == Op::Coordinate && (node.coordinate == Coordinate::Q || node.coordinate == Coordinate::K);
    const bool reads = node.op == Op::Load && node.name == tensor;
    for (const NodeRef &operand : node.operands)
      visit(*operand, isIndex || reads);
  }

  std::string_view tensor;
  std::set<std::pair<const Node *, bool>> visited;
};

/// What a variant tells of itself, and its JSON.
void bindFacts(nb::class_<Variant> &variant) {
  variant.def_prop_ro("has_lse", &Variant::hasLse)
      .def("reads_rows", [](const Variant &v, const std::string &tensor) { return RowReads(v, tensor).found; })
      .def_prop_ro("tensors",
                   [](const Variant &v) {
                     nb::list list;
                     for (const TensorDecl &tensor : v.tensors())
                       list.append(nb::make_tuple(tensor.name, std::string(name(tensor.dtype)), tensor.rank));
                     return list;
                   })
      .def_prop_ro("scalars",
                   [](const Variant &v) {
                     nb::list list;
                     for (const ScalarDecl &scalar : v.scalars())
                       list.append(nb::make_tuple(scalar.name, std::string(name(scalar.dtype))));
                     return list;
                   })
      .def("json", &Variant::toJson)
      .def_static("from_json", [](const std::string &json) { return valueOf(Variant::fromJson(json)); });
}

void bindVariants(nb::module_ &m) {
  nb::class_<Variant> variant(m, "Variant");
  variant
      .def(
          "__init__",
          [](Variant *place, const std::string &name, const Where &where) {
            LocationScope scope(locationOf(where));
            Variant variant(name);
            if (variant.error())
              raise(*variant.error());
            new (place) Variant(std::move(variant));
          },
          "name"_a, "where"_a)
      .def("score",
           [](Variant &v, const Expr &score, const Where &where) {
             changed(v, where,
                     [&](Variant &to) { to.score([&](Score, Index, Index, Index, Index) { return score; }); });
           })
      .def("mask",
           [](Variant &v, const Expr &mask, const Where &where) {
             changed(v, where, [&](Variant &to) { to.mask([&](Index, Index, Index, Index) { return mask; }); });
           })
      .def("scale", [](Variant &v, float scale,
                       const Where &where) { changed(v, where, [&](Variant &to) { to.scale(scale); }); })
      .def("dropout",
           [](Variant &v, float p, const Where &where) { changed(v, where, [&](Variant &to) { to.dropout(p); }); })
      .def("normaliser",
           [](Variant &v, const std::string &name, const std::string &sinks, const Where &where) {
             changed(v, where, [&](Variant &to) { to.normaliser(valueOf(normalisers::named(name, sinks))); });
           })
      .def("definition",
           [](Variant &v, const std::string &json, const Where &where) {
             changed(v, where, [&](Variant &to) { to.normaliser(normaliserFrom(json)); });
           })
      .def("blocks",
           [](Variant &v, const Declared &pattern, int rows, int columns, const Where &where) {
             changed(v, where, [&](Variant &to) { to.blocks(pattern.captured(), rows, columns); });
           })
      .def("key_lengths",
           [](Variant &v, const Declared &lengths, const Where &where) {
             changed(v, where, [&](Variant &to) { to.keyLengths(lengths.captured()); });
           })
      .def("query_lengths",
           [](Variant &v, const Declared &lengths, const Where &where) {
             changed(v, where, [&](Variant &to) { to.queryLengths(lengths.captured()); });
           })
      .def("sequences",
           [](Variant &v, const Declared &queries, const Declared &keys, const Where &where) {
             changed(v, where, [&](Variant &to) { to.sequences(queries.captured(), keys.captured()); });
           })
      .def("sequences",
           [](Variant &v, const Declared &queries, const Where &where) {
             changed(v, where, [&](Variant &to) { to.sequences(queries.captured()); });
           })
      .def("key_pages",
           [](Variant &v, const Declared &pages, int size, const Where &where) {
             changed(v, where, [&](Variant &to) { to.keyPages(pages.captured(), size); });
           })
      .def("precise", [](Variant &v) { v.precise(); })
      .def("q_offset", [](Variant &v) { v.qOffset(); });
  bindFacts(variant);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// NumPy has no bf16, whose bits it holds as uint16.
std::optional<DType> dtypeOf(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  static constexpr std::tuple<Code, int, DType> known[] = {
      {Code::Float, 32, f32}, {Code::Float, 16, f16}, {Code::Bfloat, 16, bf16}, {Code::UInt, 16, bf16},
      {Code::Int, 32, i32},   {Code::Int, 64, i64},   {Code::Bool, 8, boolean}};
  for (const auto &[code, bits, result] : known)
    if (dtype.lanes == 1 && dtype.code == uint8_t(code) && dtype.bits == bits)
      return result;
  return std::nullopt;
}

std::string textOf(nb::dlpack::dtype dtype) {
  static constexpr std::pair<int, const char *> codes[] = {{0, "int"},    {1, "uint"},    {2, "float"},
                                                           {4, "bfloat"}, {5, "complex"}, {6, "bool"}};
  for (const auto &[code, text] : codes)
    if (code == dtype.code)
      return text + std::to_string(dtype.bits);
  return "of another type";
}

/// Whether arrays of the value's type are known to hold their values in their memory.
bool isOfPlainType(nb::handle value, bool remember = false) {
  static constexpr size_t most = 64;
  static std::vector<nb::object> plain; // holds the types, so that no other type has their addresses
  nb::handle type = value.type();
  if (std::any_of(plain.begin(), plain.end(), [&](const nb::object &known) { return known.is(type); }))
    return true;
  if (remember && plain.size() == most)
    plain.clear();
  if (remember)
    plain.push_back(nb::borrow(type));
  return false;
}

/// The values, in memory of their own, of a tensor of PyTorch whose elements are the negatives of what its memory holds;
/// null for every other array.
nb::object resolved(nb::handle array) {
  static PyObject *const isNegated = PyUnicode_InternFromString("is_neg");
  nb::object negated = nb::steal(PyObject_CallMethodObjArgs(array.ptr(), isNegated, nullptr));
  PyErr_Clear(); // of an array of another library
  return negated.is(nb::handle(Py_True)) ? nb::object(array.attr("resolve_neg")()) : nb::object();
}

/// The values of an array that gives no view of memory, in memory; raises its error where there are none.
nb::object withMemory(nb::handle array, const std::string &what) {
  return nb::module_::import_("attune.arrays").attr("with_memory")(array, what);
}

/// Whether an array gives a view, which of a tensor that holds zeros alone PyTorch may do at no address.
bool givesView(const ExchangeTable &table, nb::handle array, nb::dlpack::dltensor &view) {
  const bool gives = table.viewOf(array.ptr(), &view) == 0;
  PyErr_Clear();
  return gives &&
         (view.data || std::any_of(view.shape, view.shape + view.ndim, [](int64_t extent) { return extent == 0; }));
}

/// Views of Python's arrays, whose memory is kept meanwhile.
class Views {
public:
  explicit Views(size_t count) { kept.reserve(count); }

  /// Whether the view that of() gave last is of a copy of the array.
  bool isOfCopy = false;

  /// `what` says whose view it is, where it is refused.
  template <typename What> Tensor of(nb::handle value, What &&what) {
    if (!isOfPlainType(value)) {
      nb::module_::import_("attune.arrays").attr("check_type")(value, std::string(what()));
      isOfPlainType(value, true);
    }
    isOfCopy = false;
    if (!exchangeTable(value))
      return memory(value, what);
    nb::object copy = resolved(value);
    isOfCopy = copy.is_valid();
    return memory(isOfCopy ? copies.emplace_back(std::move(copy)) : value, what);
  }

private:
  template <typename What> Tensor memory(nb::handle value, What &&what) {
    if (const ExchangeTable *table = exchangeTable(value)) {
      nb::dlpack::dltensor view;
      if (!givesView(*table, value, view)) {
        isOfCopy = true;
        copies.push_back(withMemory(value, std::string(what())));
        if (table->viewOf(copies.back().ptr(), &view) != 0)
          throw nb::python_error();
      }
      return tensor(view, what);
    }
    nb::ndarray<nb::ro> array;
    if (!nb::try_cast(value, array))
      array = nb::cast<nb::ndarray<nb::ro>>(withMemory(value, std::string(what())));
    nb::dlpack::dltensor view;
    view.data = const_cast<void *>(array.data());
    view.device = {array.device_type(), array.device_id()};
    view.ndim = int32_t(array.ndim());
    view.dtype = array.dtype();
    view.shape = const_cast<int64_t *>(array.shape_ptr());
    view.strides = const_cast<int64_t *>(array.stride_ptr());
    view.byte_offset = 0;
    kept.push_back(std::move(array));
    return tensor(view, what);
  }

  template <typename What> static Tensor tensor(const nb::dlpack::dltensor &view, What &&what) {
    const std::optional<DType> dtype = dtypeOf(view.dtype);
    if (!dtype)
      raise({std::string(what()) + " is " + textOf(view.dtype) +
             ", but arrays are float32, float16, bfloat16, int32, int64 or bool; convert it"});
    const bool cpu = view.device.device_type == nb::device::cpu::value;
    if (!cpu && view.device.device_type != nb::device::cuda::value)
      raise({std::string(what()) + " lies on a device that is neither the CPU nor CUDA; copy it there"});
    if (view.ndim > Tensor::maxRank)
      raise({std::string(what()) + " has " + std::to_string(view.ndim) + " dimensions, but at most " +
             std::to_string(Tensor::maxRank) + " are possible"});
    return Tensor::strided(static_cast<char *>(view.data) + view.byte_offset, *dtype,
                           std::span(view.shape, size_t(view.ndim)), std::span(view.strides, size_t(view.ndim)),
                           cpu ? Device::cpu() : Device::cuda(view.device.device_id));
  }

  std::vector<nb::ndarray<nb::ro>> kept;
  std::vector<nb::object> copies;
};

/// The items of a dict as named views. Names are the dict's own strings.
template <typename Each> void eachArray(nb::dict items, Views &views, std::string_view what, Each &&each) {
  for (auto [key, value] : items) {
    Py_ssize_t length = 0;
    const char *text = PyUnicode_AsUTF8AndSize(key.ptr(), &length);
    if (!text)
      throw nb::python_error();
    const std::string_view name(text, size_t(length));
    each(name, value, views.of(value, [&] {
      return what.empty() ? std::string(name) : std::string(what) + " '" + std::string(name) + "'";
    }));
  }
}

[[noreturn]] void refuseScalar(const std::string &name, const std::string &value, const char *required) {
  raise({"scalar '" + name + "' is " + value + ", but must be " + required});
}

ScalarValue scalarOf(const ScalarParam &declared, nb::handle value) {
  const auto refuse = [&](const char *required) {
    refuseScalar(declared.name, nb::cast<std::string>(nb::repr(value)), required);
  };
  if (declared.dtype == f32) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred()) {
      PyErr_Clear();
      refuse("a number");
    }
    return ScalarValue(float(number));
  }
  if (declared.dtype == boolean) {
    const int truth = PyObject_IsTrue(value.ptr());
    if (truth < 0)
      throw nb::python_error();
    return ScalarValue(truth != 0);
  }
  nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  int overflow = 0;
  const int64_t number = whole.is_valid() ? PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow) : 0;
  PyErr_Clear();
  if (!whole.is_valid())
    refuse("an integer");
  const bool narrow = declared.dtype == i32;
  if (overflow || (narrow && number != int32_t(number)))
    refuse(narrow ? "an integer of 32 bits" : "an integer of 64 bits");
  return narrow ? ScalarValue(int32_t(number)) : ScalarValue(number);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// What a launch is told beside its arrays. Where the stream is unset it is the current one of the library whose array q is.
struct LaunchValues {
  std::optional<float> dropout;
  uint64_t seed = 0, offset = 0;
  std::optional<int32_t> qOffset;
  std::optional<uintptr_t> stream;
};

void addScalars(const Kernel &kernel, nb::dict scalars, LaunchArgs &args) {
  for (auto [key, value] : scalars) {
    const std::string_view name(nb::cast<const char *>(key));
    for (const ScalarParam &declared : kernel.image().signature.scalars)
      if (declared.name == name)
        args.scalars.push_back({declared.name, scalarOf(declared, value)});
  }
}

/// Whether the rows of what is read by tiles are where a launch wants them.
bool hasAlignedRows(const Tensor &view) {
  uintptr_t offsets = reinterpret_cast<uintptr_t>(view.data);
  for (int i = 0; i + 1 < view.rank; ++i)
    if (view.shape[i] > 1)
      offsets |= uintptr_t(view.strides[i]) * byteSize(view.dtype);
  return offsets % 16 == 0 && (view.rank == 0 || view.strides[view.rank - 1] == 1 || view.shape[view.rank - 1] <= 1);
}

/// A launch, and what it keeps until it is started.
class Launch {
public:
  Launch(const Kernel &kernel, size_t arrays) : kernel(kernel), views(arrays + 1) {}

  void add(std::string_view name, nb::handle array, const Tensor &view) {
    if (views.isOfCopy && isWritten(name))
      raise({std::string(name) + " is written, but is a tensor whose values are not in its memory; pass a plain one"});
    if (name == "q")
      args.q = view, q = array;
    else if (name == "k")
      args.k = view;
    else if (name == "v")
      args.v = view;
    else if (name == "o")
      args.o = view;
    else if (name == "lse")
      args.lse = view;
    else
      args.operands.push_back({name, view});
  }

  /// Rows that the kernel cannot read are copied by `contiguous(array)`.
  void addOperands(nb::dict operands, nb::handle contiguous) {
    eachArray(operands, views, "", [&](std::string_view name, nb::handle array, const Tensor &view) {
      if (hasAlignedRows(view) || !isReadByTiles(name))
        return add(name, array, view);
      nb::handle copy = copies.emplace_back(contiguous(array));
      add(name, copy, views.of(copy, [&] { return name; }));
    });
  }

  void addTensors(nb::dict tensors) {
    eachArray(tensors, views, "captured tensor",
              [&](std::string_view name, nb::handle, const Tensor &view) { args.tensors.push_back({name, view}); });
  }

  Tensor addTensor(std::string_view name, nb::handle array) {
    const Tensor view = views.of(array, [&] { return "captured tensor '" + std::string(name) + "'"; });
    args.tensors.push_back({name, view});
    return view;
  }

  /// `allocate(bytes)` gives memory for a workspace on CUDA. Where the stream is unset it is the current one of the
  /// library whose array q is.
  void start(std::optional<uintptr_t> stream, nb::handle allocate) {
    std::unique_ptr<void, void (*)(void *)> memory(nullptr,
                                                   [](void *p) { ::operator delete(p, std::align_val_t(64)); });
    nb::object workspace;
    args.workspaceBytes = kernel.workspaceBytes(args);
    if (args.workspaceBytes && kernel.device() == Device::cpu()) {
      memory.reset(::operator new(args.workspaceBytes, std::align_val_t(64)));
      args.workspace = memory.get();
    } else if (args.workspaceBytes) {
      workspace = allocate(args.workspaceBytes);
      args.workspace = const_cast<void *>(views.of(workspace, [] { return "the workspace"; }).data);
    }
    const Stream on = stream ? reinterpret_cast<Stream>(*stream) : currentStream();
    Expected<void> done = [&] {
      nb::gil_scoped_release released;
      return kernel.launch(on, args);
    }();
    require(done);
  }

  LaunchArgs args;

private:
  bool isWritten(std::string_view name) const {
    for (const OperandParam &operand : kernel.image().signature.operands)
      if (operand.name == name)
        return operand.role != OperandRole::In;
    return false;
  }

  bool isReadByTiles(std::string_view name) const {
    for (const OperandParam &operand : kernel.image().signature.operands)
      if (operand.name == name)
        return operand.role == OperandRole::In && operand.isTiled();
    return false;
  }

  Stream currentStream() const {
    void *stream = nullptr;
    if (const ExchangeTable *table = kernel.device() == Device::cpu() ? nullptr : exchangeTable(q))
      if (table->currentStream(nb::device::cuda::value, args.q.device.ordinal, &stream) != 0)
        throw nb::python_error();
    return static_cast<Stream>(stream);
  }

  const Kernel &kernel;
  Views views;
  std::vector<nb::object> copies;
  nb::handle q;
};

/// `operands` are those of the table in attune/Kernel.h, q to lse among them.
void launchKernel(const Kernel &kernel, nb::dict operands, nb::dict tensors, nb::dict scalars,
                  const LaunchValues &values, nb::object allocate, nb::object contiguous) {
  Launch launch(kernel, operands.size() + tensors.size());
  launch.addOperands(operands, contiguous);
  launch.addTensors(tensors);
  addScalars(kernel, scalars, launch.args);
  launch.args.dropout = values.dropout;
  launch.args.seed = values.seed;
  launch.args.offset = values.offset;
  launch.args.qOffset = values.qOffset;
  launch.start(values.stream, allocate);
}

/// A kernel for arrays of one library. Of its scalars some are extents of captured tensors.
class Launcher {
public:
  /// A scalar, and the captured tensor and dimension whose extent it is.
  using Size = std::tuple<std::string, size_t, int>;

  /// `names` are those of the captured tensors, `scalars` those of which a launch gives the values, `allocate(bytes)` gives
  /// memory for a workspace on CUDA, and `contiguous(array)` a copy of an operand whose rows the kernel cannot read.
  Launcher(const Kernel &kernel, std::vector<std::string> names, std::vector<Size> sizes,
           const std::vector<std::string> &scalars, nb::object allocate, nb::object contiguous)
      : kernel(kernel), names(std::move(names)), allocate(std::move(allocate)), contiguous(std::move(contiguous)) {
    for (Size &size : sizes)
      if (declaredScalar(std::get<0>(size)))
        this->sizes.push_back(std::move(size));
    for (const std::string &name : scalars)
      this->scalars.push_back(declaredScalar(name));
  }

  /// `captured` are as many as names, and `values` as scalars. `seeds` is the address of the seed and the offset of
  /// dropout, on the kernel's device; 0 without dropout.
  void launch(nb::dict operands, nb::sequence captured, float dropout, uintptr_t seeds, nb::sequence values) const {
    Launch launch(kernel, operands.size() + names.size());
    launch.addOperands(operands, contiguous);
    auto scalar = scalars.begin();
    for (nb::handle value : values) {
      if (scalar == scalars.end())
        throw nb::index_error("more values than scalars");
      if (const std::optional<ScalarParam> &declared = *scalar++)
        launch.args.scalars.push_back({declared->name, scalarOf(*declared, value)});
    }
    size_t index = 0;
    for (nb::handle array : captured) {
      addSizes(index, launch.addTensor(names.at(index), array), launch.args);
      ++index;
    }
    if (seeds) {
      launch.args.dropout = dropout;
      launch.args.seedPointer = reinterpret_cast<const uint64_t *>(seeds);
      launch.args.offsetPointer = launch.args.seedPointer + 1;
    }
    launch.start(std::nullopt, allocate);
  }

private:
  /// Nothing where this kernel does not read it, as a backward pass some of the forward pass's.
  std::optional<ScalarParam> declaredScalar(const std::string &name) const {
    for (const ScalarParam &declared : kernel.image().signature.scalars)
      if (declared.name == name)
        return declared;
    return std::nullopt;
  }

  void addSizes(size_t index, const Tensor &view, LaunchArgs &args) const {
    for (const auto &[name, tensor, dim] : sizes) {
      if (tensor != index)
        continue;
      const int64_t extent = view.shape[dim];
      if (extent != int32_t(extent))
        refuseScalar(name, std::to_string(extent), "an integer of 32 bits");
      args.scalars.push_back({name, ScalarValue(int32_t(extent))});
    }
  }

  Kernel kernel;
  std::vector<std::string> names;
  std::vector<Size> sizes;
  std::vector<std::optional<ScalarParam>> scalars;
  nb::object allocate, contiguous;
};

void bindKernels(nb::module_ &m) {
  nb::class_<LaunchValues>(m, "LaunchValues")
      .def(nb::init<std::optional<float>, uint64_t, uint64_t, std::optional<int32_t>, std::optional<uintptr_t>>(),
           "dropout"_a.none(), "seed"_a, "offset"_a, "q_offset"_a.none(), "stream"_a.none());
  nb::class_<Kernel>(m, "Kernel")
      .def("launch", &launchKernel)
      .def("backward", &Kernel::backward)
      .def_prop_ro("valid", &Kernel::valid)
      .def_prop_ro("name", [](const Kernel &kernel) { return kernel.image().name; })
      .def_prop_ro("arch", [](const Kernel &kernel) { return kernel.image().arch; })
      .def_prop_ro("device", [](const Kernel &kernel) { return kernel.device().text(); })
      .def_prop_ro("cache_hit", &Kernel::cacheHit)
      .def_prop_ro("cuda", [](const Kernel &kernel) { return kernel.image().cudaSource; })
      .def_prop_ro("plan", [](const Kernel &kernel) { return kernel.image().planJson; })
      .def_prop_ro("metadata", [](const Kernel &kernel) { return kernel.image().metadata(); })
      .def_prop_ro("has_q_offset", [](const Kernel &kernel) { return kernel.image().signature.qOffset; })
      .def_prop_ro("operands", [](const Kernel &kernel) {
        nb::list names;
        for (const OperandParam &operand : kernel.image().signature.operands)
          if (operand.role != OperandRole::Workspace)
            names.append(operand.name);
        return names;
      });
  nb::class_<Launcher>(m, "Launcher")
      .def(nb::init<const Kernel &, std::vector<std::string>, std::vector<Launcher::Size>,
                    const std::vector<std::string> &, nb::object, nb::object>(),
           "kernel"_a, "names"_a, "sizes"_a, "scalars"_a, "allocate"_a, "contiguous"_a)
      .def("launch", &Launcher::launch, "operands"_a, "captured"_a, "dropout"_a = 0, "seeds"_a = 0,
           "values"_a = nb::tuple());
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

Target targetOf(const std::optional<std::string> &text) {
  return text ? valueOf(Target::parse(*text)) : Target::detect();
}

template <typename Result, typename Work> Result unlocked(Work &&work) {
  Expected<Result> result = [&] {
    nb::gil_scoped_release released;
    return work();
  }();
  return valueOf(std::move(result));
}

std::string tuningText(const CompileOptions &options) { return std::string(name(options.tuning)); }
void setTuning(CompileOptions &options, const std::string &text) {
  const std::optional<Tuning> tuning = parseTuning(text);
  if (!tuning)
    raise({"tuning \"" + text + "\" is none of off, cached and measure"});
  options.tuning = *tuning;
}

void bindOptions(nb::module_ &m) {
  nb::class_<Gradients>(m, "Gradients")
      .def(nb::init<>())
      .def_rw("tensors", &Gradients::tensors)
      .def_rw("lse", &Gradients::lse)
      .def_rw("deterministic", &Gradients::deterministic);
  nb::class_<ProblemSizes>(m, "ProblemSizes")
      .def("__init__", [](ProblemSizes *place, int64_t batch, int64_t heads, int64_t headsKv, int64_t queries,
                          int64_t keys) { new (place) ProblemSizes{batch, heads, headsKv, queries, keys}; });
  nb::class_<CompileOptions>(m, "CompileOptions")
      .def(nb::init<>())
      .def_prop_rw(
          "dtype", [](const CompileOptions &options) { return std::string(name(options.dtype)); },
          [](CompileOptions &options, const std::string &text) { options.dtype = dtypeOf(text); })
      .def_prop_rw("tuning", &tuningText, &setTuning)
      .def_rw("head_dim", &CompileOptions::headDim)
      .def_rw("head_dim_v", &CompileOptions::headDimV)
      .def_rw("sram_budget", &CompileOptions::sramBudget)
      .def_rw("tile_q", &CompileOptions::tileQ)
      .def_rw("tile_k", &CompileOptions::tileK)
      .def_rw("warps", &CompileOptions::warps)
      .def_rw("stages", &CompileOptions::stages)
      .def_rw("q_registers", &CompileOptions::qRegisters)
      .def_rw("dv_warps", &CompileOptions::dvWarps)
      .def_rw("blocks_per_sm", &CompileOptions::blocksPerSm)
      .def_rw("longest_first", &CompileOptions::longestFirst)
      .def_rw("persistent", &CompileOptions::persistent)
      .def_rw("query_stages", &CompileOptions::queryStages)
      .def_rw("ping_pong", &CompileOptions::pingPong)
      .def_rw("overlap", &CompileOptions::overlap)
      .def_rw("stage_biases", &CompileOptions::stageBiases)
      .def_rw("pack_gqa", &CompileOptions::packGqa)
      .def_rw("split_keys", &CompileOptions::splitKeys)
      .def_rw("shapes", &CompileOptions::shapes)
      .def_rw("gradients", &CompileOptions::gradients)
      .def_rw("cache_dir", &CompileOptions::cacheDir)
      .def_rw("use_cache", &CompileOptions::useCache);
}

void bindCompiling(nb::module_ &m) {
  bindOptions(m);
  m.def(
      "compile",
      [](const Variant &variant, const CompileOptions &options, const std::optional<std::string> &text) {
        const Target target = targetOf(text);
        return unlocked<Kernel>([&] { return compile(variant, options, target); });
      },
      "variant"_a, "options"_a, "target"_a.none());
  m.def(
      "emit",
      [](const Variant &variant, const CompileOptions &options, const std::optional<std::string> &text,
         const std::string &stage) {
        const Target target = targetOf(text);
        const std::optional<Stage> asked = parseStage(stage);
        if (!asked)
          raise({"stage \"" + stage + "\" is none of dsl, attn, tile, sched, llvm, cuda, ptx, cubin and sass"});
        const std::string emitted = unlocked<std::string>([&] { return emit(variant, options, target, *asked); });
        return nb::bytes(emitted.data(), emitted.size());
      },
      "variant"_a, "options"_a, "target"_a.none(), "stage"_a);
  m.def(
      "explain",
      [](const Variant &variant, const CompileOptions &options, const std::optional<std::string> &text) {
        const Target target = targetOf(text);
        return unlocked<std::string>([&] { return explain(variant, options, target); });
      },
      "variant"_a, "options"_a, "target"_a.none());
  m.def("main", [](std::vector<std::string> arguments) {
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    argv.push_back(nullptr);
    nb::gil_scoped_release released;
    return attune_main(int(arguments.size()), argv.data());
  });
  m.def("version", [] { return std::string(versionText()); });
}

} // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // kernels that Python modules keep live until the process ends
  bindExpressions(m);
  bindVariants(m);
  bindKernels(m);
  bindCompiling(m);
  bindLookups(m);
}
