//===- TileInterfaces.td - What layouts say of tiles -------------*- tablegen -*-===//
#ifndef ATTUNE_TILE_INTERFACES
#define ATTUNE_TILE_INTERFACES

include "mlir/IR/OpBase.td"

def SharedLayoutInterface : AttrInterface<"SharedLayoutInterface"> {
  let cppNamespace = "::attune::tile";
  let description = "A layout of tiles in shared memory, which may leave room behind each row.";
  let methods = [InterfaceMethod<"Bytes that a row of `bytes` bytes takes.", "int64_t", "paddedRow", (ins "int64_t":$bytes)>];
}

#endif
