//===- Names.h - Identifiers of the generated source ----------------------===//
#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace attune::codegen::cuda {

/// Whether `name` already has a meaning in the generated source: a C++ keyword, a function of Primitives.h or of CUDA.
bool isReserved(llvm::StringRef name);
/// Whether no kernel can have this name: `name` is reserved, may be the name of a device function, or is declared by
/// CUDA.
bool isReservedGlobal(llvm::StringRef name);

/// `name` with every character that is not allowed in an identifier replaced by '_'.
std::string identifier(llvm::StringRef name);

/// Whether `text` is an identifier as it stands.
bool isIdentifier(llvm::StringRef text);

/// `name` if `number` is 1, else `name` followed by `number`. An underscore separates them if `name` ends in a digit:
/// "tile" and 2 give "tile2", "x1" and 2 give "x1_2".
std::string numbered(llvm::StringRef name, unsigned number);

/// `name` without the number that made it unique in its scope: "tile" for "tile2".
llvm::StringRef withoutNumber(llvm::StringRef name);

/// Unique names in the nested scopes of the generated source: no name shadows another. Where a requested name is
/// taken, the least free number is appended. `take` runs in constant time however often one name is requested, because
/// the search for a free number continues from the number at which the previous search ended.
class Names {
public:
  /// A name that no open scope contains: `wish`, or `wish` and the least number that makes it unique.
  std::string take(llvm::StringRef wish);
  /// Opens a scope.
  size_t open() const { return undo.size(); }
  /// Closes the scope for which `open` returned `mark`: frees the names taken since that call of `open`.
  void close(size_t mark);

private:
  /// The changes of one call of `take`, for `close` to undo.
  struct Taken {
    std::string base;
    unsigned next;
    std::string name;
  };
  llvm::StringSet<> taken;
  llvm::StringMap<unsigned> nexts; ///< key: requested name; value: the next number to append, smaller ones are taken
  std::vector<Taken> undo;
};

} // namespace attune::codegen::cuda
