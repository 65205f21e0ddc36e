//===- Output.cpp - Standard output, checked ----------------------------------===//

#include "tools/attune/Output.h"

#include "runtime/CacheFolder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace attune;

namespace {
int firstFailure = 0; ///< an errno

void note(bool good) {
  if (!good && firstFailure == 0)
    firstFailure = errno ? errno : EIO;
}
} // namespace

void attune::cli::write(std::string_view text) {
  errno = 0;
  note(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

Expected<void> attune::cli::closeOutput() {
  errno = 0;
  note(bool(std::cout.flush())); // CLI11 prints its help there
  errno = 0;
  note(std::fflush(stdout) == 0 && !std::ferror(stdout));
  errno = 0;
  note(std::fclose(stdout) == 0 || errno == EBADF); // started without a standard output
  if (firstFailure)
    return Error{fmt::format("standard output cannot be written: {}", std::strerror(firstFailure))};
  return {};
}

std::string attune::cli::xmlText(std::string_view text) {
  std::string result;
  for (char letter : text)
    result += letter == '<' ? "&lt;" : letter == '>' ? "&gt;" : letter == '&' ? "&amp;" : std::string(1, letter);
  return result;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {

/// A file whose content stands in a temporary file until commit.
class PendingFile {
public:
  explicit PendingFile(std::string path) : path(std::move(path)) {}
  PendingFile(PendingFile &&other) noexcept
      : path(std::move(other.path)), target(std::move(other.target)), temporary(std::exchange(other.temporary, {})) {}
  ~PendingFile() {
    if (!temporary.empty())
      ::unlink(temporary.c_str());
  }

  Expected<void> write(std::string_view content) {
    struct stat before = {};
    const bool exists = ::stat(path.c_str(), &before) == 0;
    const bool isOwn = exists && S_ISREG(before.st_mode) && before.st_nlink == 1 && before.st_uid == ::geteuid();
    if (exists && !isOwn)
      return fill(Descriptor(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC)), content);
    target = linked(path);
    const std::string name =
        (target.parent_path() / fmt::format(".attune.tmp.{:08x}{:08x}", std::random_device()(), std::random_device()()))
            .string();
    Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.valid())
      temporary = name;
    if (file.valid() && exists && ::fchmod(file.get(), before.st_mode & 07777) != 0)
      return unwritable();
    return fill(std::move(file), content);
  }

  Expected<void> commit() {
    if (temporary.empty())
      return {};
    if (::rename(temporary.c_str(), target.c_str()) != 0)
      return unwritable();
    temporary.clear();
    return {};
  }

private:
  Expected<void> fill(Descriptor file, std::string_view content) {
    if (!file.valid() || !writeWhole(file.get(), content) || !file.close())
      return unwritable();
    return {};
  }

  Error unwritable() const {
    return Error{fmt::format("{} cannot be written: {}", path, std::strerror(errno ? errno : EIO))};
  }

  /// What a chain of symbolic links ends at, which need not be there.
  static std::filesystem::path linked(std::filesystem::path path) {
    std::error_code code;
    for (int links = 0; links < 40 && std::filesystem::is_symlink(path, code); ++links)
      path = path.parent_path() / std::filesystem::read_symlink(path, code);
    return path;
  }

  std::string path;
  std::filesystem::path target;
  std::string temporary; ///< "" where there is none
};

} // namespace

Expected<void> attune::cli::writeFiles(std::span<const OutputFile> files) {
  std::vector<PendingFile> pending;
  for (const OutputFile &file : files)
    if (Expected<void> written = pending.emplace_back(file.path).write(file.content); !written)
      return written;
  for (PendingFile &file : pending)
    if (Expected<void> committed = file.commit(); !committed)
      return committed;
  return {};
}

Expected<void> attune::cli::writeFile(const std::string &path, std::string_view content) {
  const OutputFile file{path, content};
  return writeFiles({&file, 1});
}
