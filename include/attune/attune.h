//===- attune.h - The whole public interface --------------------------------===//
#pragma once

#include "attune/Builtins.h"
#include "attune/DType.h"
#include "attune/Error.h"
#include "attune/Expr.h"
#include "attune/Variant.h"
