//===- Exchange.h - Views of arrays that are no buffers of Python's ----------===//
//
// How a library gives views of its arrays at once: the table of functions of DLPack 1.2 and later, which a type has as
// __dlpack_c_exchange_api__. It waits for no stream.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

struct ExchangeTable {
  struct {
    uint32_t major, minor;
  } version;
  ExchangeTable *older;
  void *allocate, *managedFrom, *managedTo;
  int (*viewOf)(void *object, nanobind::dlpack::dltensor *view); ///< owns nothing; may be null
  int (*currentStream)(int deviceType, int32_t device, void **stream);
};

/// The table of a value's type, whose viewOf is not null; null where there is none.
const ExchangeTable *exchangeTable(nanobind::handle value);
