//===- Names.h - Identifiers of the generated source ----------------------===//
#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace attune::codegen::cuda {

/// Whether the source uses `name` itself: a word of C++, a function of Primitives.h or of CUDA.
bool isReserved(llvm::StringRef name);
/// Whether nothing at the source's outermost level can have this name, because `isReserved` or as CUDA declares it.
bool isReservedGlobal(llvm::StringRef name);

/// `name` with what an identifier does not take replaced by '_'.
std::string identifier(llvm::StringRef name);

/// Names in the nested scopes of the generated source: none hides another. A wish gets the least number that makes it
/// one. Each takes constant time, however many share a wish: the search goes on from the number that it ended with
/// last.
class Names {
public:
  /// A name that no open scope has: `wish`, with the least number that makes it one.
  std::string take(llvm::StringRef wish);
  /// Opens a scope.
  size_t open() const { return undo.size(); }
  /// Gives back the names taken since `open` returned `mark`.
  void close(size_t mark);

private:
  /// What a name changed.
  struct Taken {
    std::string base;
    unsigned next;
    std::string name;
  };
  llvm::StringSet<> taken;
  llvm::StringMap<unsigned> nexts; ///< by base: all numbers below are taken
  std::vector<Taken> undo;
};

} // namespace attune::codegen::cuda
