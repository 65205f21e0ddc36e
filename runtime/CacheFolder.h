//===- CacheFolder.h - A folder that nobody but the user writes to ----------===//
//
// What the cache holds is executed, so whoever writes to it runs code as the user. A folder is used only if
//
//     | of the open folder, by fstat | required                                           |
//     |------------------------------|----------------------------------------------------|
//     | owner                        | the process's effective user, or root              |
//     | mode                         | neither group nor others write (ACLs show as group)|
//
// and each of its files under the same two conditions. Files are opened by name in the open folder, and each is judged
// by its own descriptor, so nothing can be exchanged between check and use. The folders above need no check: who may
// exchange the folder itself cannot make the user the owner of another one.
//
// What is read are regular files of bounded size. Opening waits for nobody: a FIFO, a device or a symbolic link in the
// place of a file is a FileProblem.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune {

/// Why a folder or file is not used.
struct FileProblem {
  enum class Kind {
    Missing,   ///< there is none of this name
    Untrusted, ///< another user owns it or may write to it
    Unusable,
  };
  Kind kind = Kind::Unusable;
  std::string text = {}; ///< "it belongs to user 7, required is user 0"; of the system: "Permission denied"
};

/// A file descriptor, closed at the end.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor();

  bool valid() const { return number >= 0; }
  int get() const { return number; }
  /// The number; closing it is the caller's.
  int release() { return std::exchange(number, -1); }
  /// Closes it now; false, with errno, where that fails.
  bool close();

private:
  int number;
};

/// Writes all of `content`; false, with errno, where that fails.
bool writeWhole(int file, std::string_view content);

/// An open folder. Every failure fills `problem`; nothing here waits or throws.
class CacheFolder {
public:
  static std::optional<CacheFolder> open(const std::string &path, FileProblem &problem);
  /// As open; first makes the folders of `path` that are missing, with mode 0700 whatever the umask.
  static std::optional<CacheFolder> make(const std::string &path, FileProblem &problem);

  /// A file of at most `maxBytes`.
  std::optional<std::string> read(const std::string &name, size_t maxBytes, FileProblem &problem) const;
  /// Makes the file `name` with mode 0600 whatever the umask; leaves none behind when it fails, as it does where `name`
  /// exists.
  bool create(const std::string &name, std::string_view content, FileProblem &problem) const;
  /// Gives the file `from` the name `to`, in the place of what had it; removes `from` when that fails.
  bool rename(const std::string &from, const std::string &to, FileProblem &problem) const;
  /// Another process may be quicker: FileProblem::Kind::Missing.
  bool remove(const std::string &name, FileProblem &problem) const;
  /// A name to write to before `name`'s file is replaced, that no other file has. Contains temporaryMark.
  static std::string temporaryName(std::string_view name);
  static constexpr std::string_view temporaryMark = ".attune.tmp.";

  /// The names of everything in the folder, in no order.
  std::vector<std::string> names() const;
  struct Facts {
    size_t bytes = 0;
    int64_t written = 0; ///< seconds since 1970
  };
  Facts facts(const std::string &name) const;

private:
  explicit CacheFolder(Descriptor folder) : folder(std::move(folder)) {}

  Descriptor folder;
};

} // namespace attune
