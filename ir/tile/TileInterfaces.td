//===- TileInterfaces.td - The interface of shared-memory layouts --*- tablegen -*-===//
#ifndef ATTUNE_TILE_INTERFACES
#define ATTUNE_TILE_INTERFACES

include "mlir/IR/OpBase.td"

def SharedLayoutInterface : AttrInterface<"SharedLayoutInterface"> {
  let cppNamespace = "::attune::tile";
  let description = "A layout of tiles in shared memory, which may pad each row.";
  let methods = [InterfaceMethod<"Bytes that a row of `bytes` bytes occupies, including padding.", "int64_t", "paddedRow", (ins "int64_t":$bytes)>];
}

#endif
