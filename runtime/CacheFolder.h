//===- CacheFolder.h - A folder that only the user or root can write to -----===//
//
// Files of the cache are executed, so anyone who can write to the folder can run code as the user. A folder is used
// only if
//
//     | fstat of the open folder     | required                                           |
//     |------------------------------|----------------------------------------------------|
//     | owner                        | the process's effective user, or root              |
//     | mode                         | neither group nor others may write                 |
//
// Write permission that an ACL gives appears in the group bits of the mode, so the check also covers ACLs.
//
// A file in the folder is used only under the same two conditions. Files are opened relative to the open folder
// (openat), and the check reads the open descriptor, so no file can be exchanged between check and use. Parent folders
// need no check: somebody who can replace the folder cannot make the user the owner of the replacement.
//
// Only regular files of bounded size are read. Opening a file never blocks. Where a FIFO, a device or a symbolic link
// has the name of a file, reading fails with a FileProblem.
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
    Missing,   ///< there is no file or folder of this name
    Untrusted, ///< another user owns the file or folder or may write to it
    Unusable,  ///< any other failure
  };
  Kind kind = Kind::Unusable;
  std::string text = {}; ///< "it belongs to user 7, required is user 0", or strerror's text: "Permission denied"
};

/// An owned file descriptor; the destructor closes it.
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
  /// Gives up ownership: the caller has to close the returned descriptor.
  int release() { return std::exchange(number, -1); }
  /// Closes the descriptor now; on failure returns false and sets errno.
  bool close();

private:
  int number;
};

/// Writes all of `content`; on failure returns false and sets errno.
bool writeWhole(int file, std::string_view content);

/// An open folder. Every failure fills `problem`; no member blocks or throws.
class CacheFolder {
public:
  static std::optional<CacheFolder> open(const std::string &path, FileProblem &problem);
  /// Creates the missing folders of `path` with mode 0700, whatever the umask, then opens the folder.
  static std::optional<CacheFolder> make(const std::string &path, FileProblem &problem);

  /// Reads a whole file; fails for a file larger than `maxBytes`.
  std::optional<std::string> read(const std::string &name, size_t maxBytes, FileProblem &problem) const;
  /// Creates the file `name` with mode 0600, whatever the umask. Fails where `name` exists. A failed write leaves no
  /// file.
  bool create(const std::string &name, std::string_view content, FileProblem &problem) const;
  /// Renames the file `from` to `to`, replacing an existing `to`; removes `from` on failure.
  bool rename(const std::string &from, const std::string &to, FileProblem &problem) const;
  /// Removes a file. Where another process has already removed the file, the problem is FileProblem::Kind::Missing.
  bool remove(const std::string &name, FileProblem &problem) const;
  /// A unique name for the temporary file that is written and then renamed to `name`. Contains temporaryMark.
  static std::string temporaryName(std::string_view name);
  static constexpr std::string_view temporaryMark = ".attune.tmp.";

  /// The names of all entries of the folder, in no particular order.
  std::vector<std::string> names() const;
  struct Facts {
    size_t bytes = 0;
    int64_t written = 0; ///< time of the last write, in seconds since 1970
  };
  Facts facts(const std::string &name) const;

private:
  explicit CacheFolder(Descriptor folder) : folder(std::move(folder)) {}

  Descriptor folder;
};

} // namespace attune
