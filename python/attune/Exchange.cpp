//===- Exchange.cpp - Views of arrays that are no buffers of Python's --------===//

#include "Exchange.h"

const ExchangeTable *exchangeTable(nanobind::handle value) {
  // Nearly all arrays of a process are of one type, which is kept so that its address is no other's.
  static PyObject *lastType = nullptr;
  static const ExchangeTable *lastTable = nullptr;
  PyObject *type = value.type().ptr();
  if (type == lastType)
    return lastTable;
  static PyObject *const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  PyObject *capsule = PyObject_GetAttr(type, name);
  if (!capsule) {
    PyErr_Clear();
    return nullptr;
  }
  // The table is the library's, for as long as the process lives.
  auto *table = static_cast<const ExchangeTable *>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  Py_DECREF(capsule);
  PyErr_Clear();
  while (table && table->version.major > 1)
    table = table->older;
  if (!table || !table->viewOf)
    return nullptr;
  Py_INCREF(type);
  Py_XDECREF(lastType);
  lastType = type;
  lastTable = table;
  return table;
}
