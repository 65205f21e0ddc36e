//===- attune.h - The whole public interface --------------------------------===//
#pragma once

#include "attune/Builtins.h"
#include "attune/Compile.h"
#include "attune/DType.h"
#include "attune/Error.h"
#include "attune/Expr.h"
#include "attune/Indices.h"
#include "attune/Kernel.h"
#include "attune/LocationScope.h"
#include "attune/Normaliser.h"
#include "attune/ProblemSizes.h"
#include "attune/Simulate.h"
#include "attune/Target.h"
#include "attune/Tensor.h"
#include "attune/TileMap.h"
#include "attune/Tune.h"
#include "attune/Variant.h"
