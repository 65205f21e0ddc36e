//===- Search.h - tile.search, which searches a captured vector -----------===//
#pragma once

#include "ir/tile/Tile.h"

#define GET_OP_CLASSES
#include "ir/tile/TileSearch.h.inc"
