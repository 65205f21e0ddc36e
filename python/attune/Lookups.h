//===- Lookups.h - What a walk of Python functions looked up, again ----------===//
//
// attune/torch/functions.py walks through what a function depends on, and gives a key of it. The classes that this binds
// answer, in less than a microsecond, whether a walk would find what an earlier one found.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <nanobind/nanobind.h>

void bindLookups(nanobind::module_ &m);
