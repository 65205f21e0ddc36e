//===- Lookups.cpp - What a walk of Python functions looked up, again --------===//
//
// A walk (Reads of attune/torch/functions.py) goes from functions to what they read. Each step says how its value is
// reached from that of an earlier step, and what it was:
//
//     def score(s, b, h, q, k):           | step | of | by              | is                                  |
//         return s * CAP + slopes[h]      |    0 |    | "root" 0        | "function" with this code           |
//                                         |    1 |  0 | "global" CAP    | "number", a float32                 |
//                                         |    2 |  0 | "cell" 0        | "tensor", float32 of rank 1, a leaf |
//
// Where each step finds again what it found, the walk would go the same way and give the same key, and the leaves and
// numbers are those of this call. Whatever else it finds, the walk itself has to tell. Objects with attributes have no steps.
//
//===----------------------------------------------------------------------===//

#include "Lookups.h"

#include "Exchange.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// The view of an array whose library gives them at once.
std::optional<nb::dlpack::dltensor> viewOf(nb::handle array) {
  nb::dlpack::dltensor view;
  const ExchangeTable *table = exchangeTable(array);
  if (!table)
    return std::nullopt;
  if (table->viewOf(array.ptr(), &view) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return view;
}

/// None, or bytes that are equal where dtypes, devices, extents and strides of all arrays are. Of `others` some may be None.
nb::object layouts(nb::handle a, nb::handle b, nb::handle c, nb::tuple others) {
  std::string bytes;
  bytes.reserve(512); // of five arrays of rank 4 at most 360 are used
  const auto append = [&](const auto *values, size_t count) {
    bytes.append(reinterpret_cast<const char *>(values), count * sizeof *values);
  };
  const auto add = [&](nb::handle array) {
    if (array.is_none()) {
      bytes.push_back('-');
      return true;
    }
    const std::optional<nb::dlpack::dltensor> view = viewOf(array);
    if (!view)
      return false;
    append(&view->dtype, 1);
    append(&view->device, 1);
    append(&view->ndim, 1);
    append(view->shape, size_t(view->ndim));
    append(view->strides, size_t(view->ndim));
    return true;
  };
  for (nb::handle array : {a, b, c})
    if (!add(array))
      return nb::none();
  for (nb::handle array : others)
    if (!add(array))
      return nb::none();
  return nb::bytes(bytes.data(), bytes.size());
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// How a number is passed to kernels, as kind_of of attune/torch/numbers.py; nothing of what is no such number.
enum class NumberKind { Count, Offset, I64, F32 };

std::optional<NumberKind> kindOf(nb::handle value) {
  constexpr int64_t small = int64_t(1) << 28;
  if (PyFloat_CheckExact(value.ptr())) {
    const double number = PyFloat_AsDouble(value.ptr());
    const bool fits = !std::isfinite(number) || std::fabs(number) <= std::numeric_limits<float>::max();
    return fits ? std::optional(NumberKind::F32) : std::nullopt;
  }
  if (!PyLong_CheckExact(value.ptr()))
    return std::nullopt;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow)
    return std::nullopt;
  if (number >= 0 && number <= small)
    return NumberKind::Count;
  return number < 0 && number >= -small ? NumberKind::Offset : NumberKind::I64;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

enum class By { Root, Cell, Global, Default, Item, Member };
enum class Is {
  Function,        ///< with this code, cells and defaults, without attributes; not met before
  LibraryFunction, ///< this one; not met before
  Sequence,        ///< a tuple or list of this length, not met before
  Seen,            ///< the n-th that was met: a function or sequence
  Same,            ///< this object
  Equal,           ///< of this type and value
  Number,          ///< an int or float of this kind
  Constant,        ///< an int or float of this type, value and sign, which a kernel is compiled for
  Module,          ///< this one; not met before
  Tensor,          ///< of this type, dtype, rank and kind of device, not met before
  Leaf,            ///< the n-th tensor that was met
  Missing,         ///< no global and no module
};

template <typename Enum, size_t count> Enum parse(const char *const (&names)[count], const std::string &text) {
  const auto *found = std::find_if(std::begin(names), std::end(names), [&](const char *name) { return text == name; });
  if (found == std::end(names))
    throw nb::value_error(text.c_str());
  return Enum(found - std::begin(names));
}

By byNamed(const std::string &text) {
  static constexpr const char *names[] = {"root", "cell", "global", "default", "item", "member"};
  return parse<By>(names, text);
}

Is isNamed(const std::string &text) {
  static constexpr const char *names[] = {"function", "library function", "sequence", "seen",   "same", "equal",
                                          "number",   "constant",         "module",   "tensor", "leaf", "missing"};
  return parse<Is>(names, text);
}

/// Attributes of functions, interned.
struct Names {
  PyObject *code = PyUnicode_InternFromString("__code__");
  PyObject *globals = PyUnicode_InternFromString("__globals__");
  PyObject *closure = PyUnicode_InternFromString("__closure__");
  PyObject *defaults = PyUnicode_InternFromString("__defaults__");
  PyObject *keywords = PyUnicode_InternFromString("__kwdefaults__");
  PyObject *attributes = PyUnicode_InternFromString("__dict__");
  PyObject *contents = PyUnicode_InternFromString("cell_contents");
};
const Names &names() {
  static const Names all;
  return all;
}

/// The attribute; null where there is none.
nb::object attribute(nb::handle object, PyObject *name) {
  nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!found.is_valid())
    PyErr_Clear();
  return found;
}

/// A value that a step reached, and what the steps after it need of a function.
struct Reached {
  nb::object value, globals, closure, defaults;
};

/// What the steps of a walk have met so far.
struct Met {
  std::vector<Reached> values; ///< of each step
  std::vector<PyObject *> seen;
  nb::list leaves, numbers;
  std::vector<PyObject *> tensors;         ///< the leaves
  std::vector<nb::dlpack::device> devices; ///< of those that are no scalars

  static bool isNew(std::vector<PyObject *> &known, nb::handle value) {
    if (std::find(known.begin(), known.end(), value.ptr()) != known.end())
      return false;
    known.push_back(value.ptr());
    return true;
  }
};

/// The number of items; 0 for null and None, -1 for what is no tuple or list.
Py_ssize_t length(nb::handle items) {
  if (!items.is_valid() || items.is_none())
    return 0;
  return PyTuple_Check(items.ptr()) || PyList_Check(items.ptr()) ? PySequence_Size(items.ptr()) : -1;
}

nb::object itemOf(nb::handle items, Py_ssize_t index) {
  if (index >= length(items))
    return {};
  return nb::borrow(PyTuple_Check(items.ptr()) ? PyTuple_GetItem(items.ptr(), index)
                                               : PyList_GetItem(items.ptr(), index));
}

/// Of a global variable, or of a module that the function itself may import.
nb::object globalOf(nb::handle globals, nb::handle name) {
  PyObject *found = PyDict_GetItemWithError(globals.ptr(), name.ptr());
  if (!found)
    found = PyDict_GetItemWithError(PyImport_GetModuleDict(), name.ptr());
  if (!found)
    PyErr_Clear();
  return found ? nb::borrow(found) : nb::object();
}

class Step {
public:
  /// `found` is what the walk found: the value, or the index where `is` says the n-th.
  Step(const std::string &by, int from, nb::object name, const std::string &is, nb::object found)
      : by(byNamed(by)), from(from), is(isNamed(is)) {
    if (this->by == By::Global || this->by == By::Member)
      this->name = name;
    else
      index = nb::cast<Py_ssize_t>(name);
    describe(found);
  }

  /// False of a tensor that gives no views.
  bool canHold = true;

  /// Whether a walk finds here what it found; adds to `met`.
  bool holds(const nb::object (&roots)[2], Met &met) const {
    Reached reached;
    reached.value = value(roots, met);
    const bool does = reached.value.is_valid() ? matches(reached, met) : is == Is::Missing;
    met.values.push_back(std::move(reached));
    return does;
  }

private:
  void describe(nb::object found) {
    type = nb::borrow(found.type());
    switch (is) {
    case Is::Function:
      expected = attribute(found, names().code);
      cells = length(attribute(found, names().closure));
      count = length(attribute(found, names().defaults));
      break;
    case Is::Sequence:
      count = length(found);
      break;
    case Is::Seen:
    case Is::Leaf:
      count = nb::cast<Py_ssize_t>(found);
      break;
    case Is::Number:
      number = kindOf(found);
      canHold = number.has_value();
      break;
    case Is::Tensor:
      if (std::optional<nb::dlpack::dltensor> view = viewOf(found))
        layout = *view;
      else
        canHold = false;
      break;
    default:
      expected = std::move(found);
    }
  }

  nb::object value(const nb::object (&roots)[2], const Met &met) const {
    if (by == By::Root)
      return roots[index];
    const Reached &of = met.values[size_t(from)];
    switch (by) {
    case By::Cell: {
      nb::object cell = itemOf(of.closure, index);
      return cell.is_valid() ? attribute(cell, names().contents) : nb::object();
    }
    case By::Global:
      return globalOf(of.globals, name);
    case By::Default:
      return itemOf(of.defaults, index);
    case By::Member:
      return nb::borrow(PyDict_GetItemWithError(PyModule_GetDict(of.value.ptr()), name.ptr()));
    default:
      return itemOf(of.value, index);
    }
  }

  bool matches(Reached &reached, Met &met) const {
    const nb::object &value = reached.value;
    switch (is) {
    case Is::Same:
      return value.is(expected);
    case Is::LibraryFunction:
    case Is::Module:
      return value.is(expected) && Met::isNew(met.seen, value);
    case Is::Number:
      if (kindOf(value) != number)
        return false;
      met.numbers.append(value);
      return true;
    case Is::Seen:
      return size_t(count) < met.seen.size() && met.seen[size_t(count)] == value.ptr();
    case Is::Leaf:
      return size_t(count) < met.tensors.size() && met.tensors[size_t(count)] == value.ptr();
    case Is::Missing:
      return false;
    default:
      break;
    }
    if (!type.is(value.type()))
      return false;
    switch (is) {
    case Is::Function:
      return isFunction(reached) && Met::isNew(met.seen, value);
    case Is::Sequence:
      return length(value) == count && Met::isNew(met.seen, value);
    case Is::Tensor:
      return isTensor(value, met) && Met::isNew(met.tensors, value);
    case Is::Constant:
      met.numbers.append(value);
      return isEqual(value) && (!PyFloat_Check(value.ptr()) || std::signbit(PyFloat_AsDouble(value.ptr())) ==
                                                                   std::signbit(PyFloat_AsDouble(expected.ptr())));
    default:
      return isEqual(value);
    }
  }

  bool isEqual(nb::handle value) const {
    const int equal = PyObject_RichCompareBool(value.ptr(), expected.ptr(), Py_EQ);
    PyErr_Clear();
    return equal == 1;
  }

  bool isFunction(Reached &reached) const {
    // Walks are found by the code of their roots.
    if (by != By::Root && !attribute(reached.value, names().code).is(expected))
      return false;
    reached.globals = attribute(reached.value, names().globals);
    reached.closure = attribute(reached.value, names().closure);
    reached.defaults = attribute(reached.value, names().defaults);
    nb::object attributes = attribute(reached.value, names().attributes);
    return length(reached.closure) == cells && length(reached.defaults) == count &&
           attribute(reached.value, names().keywords).is_none() && PyDict_Size(attributes.ptr()) == 0;
  }

  bool isTensor(nb::handle value, Met &met) const {
    const std::optional<nb::dlpack::dltensor> view = viewOf(value);
    if (!view || view->dtype.code != layout.dtype.code || view->dtype.bits != layout.dtype.bits ||
        view->ndim != layout.ndim || view->device.device_type != layout.device.device_type)
      return false;
    met.leaves.append(value);
    if (view->ndim > 0)
      met.devices.push_back(view->device);
    return true;
  }

  By by;
  int from;
  Py_ssize_t index = 0; ///< of a root, cell, default or item
  nb::object name;      ///< of a global or a module's member
  Is is;
  nb::object type;
  nb::object expected;
  Py_ssize_t cells = 0, count = 0; ///< closure; defaults, items, or the n of "seen" and "leaf"
  nb::dlpack::dltensor layout = {};
  std::optional<NumberKind> number;
};

//===----------------------------------------------------------------------===//
// Walks
//===----------------------------------------------------------------------===//

struct Walk {
  std::vector<Step> steps;
  nb::dict cases; ///< by (layouts, options): what is kept for functions from which a walk goes this way
};

/// Walks by the code of their two roots. The oldest go.
class Walks {
public:
  /// (case, leaves, numbers) of a call of these roots with these options and arrays. None where the case is not known, or a leaf
  /// lies on another device than the query: but for scalars.
  nb::object find(nb::object score, nb::object mask, nb::handle options, nb::handle query, nb::handle key,
                  nb::handle value, nb::tuple others) const {
    const nb::object roots[2] = {std::move(score), std::move(mask)};
    const auto found = byCode.find(codesOf(roots));
    if (found == byCode.end())
      return nb::none();
    for (const Walk &walk : found->second) {
      Met met;
      met.values.reserve(walk.steps.size());
      const auto holds = [&](const Step &step) { return step.holds(roots, met); };
      if (std::all_of(walk.steps.begin(), walk.steps.end(), holds))
        return caseOf(walk.cases, met, nb::make_tuple(layouts(query, key, value, others), options), query);
    }
    return nb::none();
  }

  void add(nb::object score, nb::object mask,
           const std::vector<std::tuple<std::string, int, nb::object, std::string, nb::object>> &steps,
           nb::dict cases) {
    Walk walk;
    walk.cases = std::move(cases);
    for (const auto &[by, from, name, is, found] : steps)
      if (!walk.steps.emplace_back(by, from, name, is, found).canHold)
        return;
    if (byCode.size() >= mostCodes)
      byCode.clear();
    std::deque<Walk> &walks = byCode[codesOf({std::move(score), std::move(mask)})];
    if (walks.size() >= mostWalks)
      walks.pop_back();
    walks.push_front(std::move(walk));
  }

private:
  static nb::object caseOf(nb::dict cases, const Met &met, nb::object call, nb::handle query) {
    nb::object known = nb::borrow(PyDict_GetItemWithError(cases.ptr(), call.ptr()));
    if (PyErr_Occurred())
      throw nb::python_error();
    if (!known.is_valid())
      return nb::none();
    if (!met.devices.empty()) {
      const std::optional<nb::dlpack::dltensor> view = viewOf(query);
      for (const nb::dlpack::device &device : met.devices)
        if (!view || device.device_type != view->device.device_type || device.device_id != view->device.device_id)
          return nb::none();
    }
    return nb::make_tuple(known, met.leaves, met.numbers);
  }

  static constexpr size_t mostCodes = 4096; ///< pairs of them
  static constexpr size_t mostWalks = 8;    ///< of one pair, which differ by what the functions read

  using Codes = std::pair<const void *, const void *>; ///< which the steps keep; null of what has none
  struct Hash {
    size_t operator()(const Codes &codes) const {
      return std::hash<const void *>()(codes.first) * 31 + std::hash<const void *>()(codes.second);
    }
  };

  static Codes codesOf(const nb::object (&roots)[2]) {
    const auto code = [](const nb::object &root) -> const void * {
      return root.is_none() ? nullptr : attribute(root, names().code).ptr();
    };
    return {code(roots[0]), code(roots[1])};
  }

  std::unordered_map<Codes, std::deque<Walk>, Hash> byCode;
};

} // namespace

void bindLookups(nb::module_ &m) {
  nb::class_<Walks>(m, "Walks")
      .def(nb::init<>())
      .def("find", &Walks::find, "score_mod"_a.none(), "mask_mod"_a.none(), "options"_a, "query"_a, "key"_a, "value"_a,
           "others"_a)
      .def("add", &Walks::add, "score_mod"_a.none(), "mask_mod"_a.none(), "steps"_a, "cases"_a);
  m.def("layouts", &layouts, nb::arg(), nb::arg(), nb::arg(), nb::arg() = nb::tuple());
}
