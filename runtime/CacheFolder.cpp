#include "runtime/CacheFolder.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace attune;

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

bool Descriptor::close() { return ::close(std::exchange(number, -1)) == 0; }

static FileProblem systemProblem(int code) {
  return {code == ENOENT ? FileProblem::Kind::Missing : FileProblem::Kind::Unusable, std::strerror(code)};
}

static bool isTrustedOwner(uid_t owner) { return owner == geteuid() || owner == 0; }

static FileProblem ownerProblem(uid_t owner) {
  return {FileProblem::Kind::Untrusted, fmt::format("it belongs to user {}, required is user {}{}", owner, geteuid(),
                                                    geteuid() == 0 ? "" : " or root")};
}

/// The problem of a file or folder that somebody other than the user and root could have written; nullopt if nobody
/// else could have written it.
static std::optional<FileProblem> trustProblem(const struct stat &info) {
  constexpr mode_t writtenByOthers = S_IWGRP | S_IWOTH, permissions = 07777;
  if (!isTrustedOwner(info.st_uid))
    return ownerProblem(info.st_uid);
  if (info.st_mode & writtenByOthers)
    return FileProblem{FileProblem::Kind::Untrusted,
                       fmt::format("its mode {:04o} lets others write to it, required is {:04o}",
                                   info.st_mode & permissions, info.st_mode & permissions & ~writtenByOthers)};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Opening and creating the folder
//===----------------------------------------------------------------------===//

/// Opens a folder. A symbolic link is followed only if the user or root owns the link: another user's link could lead
/// to any folder where that user wants files to be written.
static Descriptor openDirectory(std::string path, FileProblem &problem) {
  while (path.size() > 1 && path.ends_with('/')) // with a trailing slash, open() would follow any link
    path.pop_back();
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  Descriptor folder(::open(path.c_str(), flags | O_NOFOLLOW));
  int code = errno;
  struct stat link = {};
  if (!folder.valid() && (code == ENOTDIR || code == ELOOP) && ::lstat(path.c_str(), &link) == 0 &&
      S_ISLNK(link.st_mode)) {
    if (!isTrustedOwner(link.st_uid)) {
      problem = ownerProblem(link.st_uid);
      return Descriptor();
    }
    folder = Descriptor(::open(path.c_str(), flags));
    code = errno;
  }
  if (!folder.valid())
    problem = systemProblem(code);
  return folder;
}

std::optional<CacheFolder> CacheFolder::open(const std::string &path, FileProblem &problem) {
  Descriptor folder = openDirectory(path, problem);
  if (!folder.valid())
    return std::nullopt;
  struct stat info = {};
  if (::fstat(folder.get(), &info) != 0) {
    problem = systemProblem(errno);
    return std::nullopt;
  }
  if (std::optional<FileProblem> found = trustProblem(info)) {
    problem = std::move(*found);
    return std::nullopt;
  }
  return CacheFolder(std::move(folder));
}

std::optional<CacheFolder> CacheFolder::make(const std::string &path, FileProblem &problem) {
  std::optional<CacheFolder> folder = open(path, problem);
  if (folder || problem.kind != FileProblem::Kind::Missing)
    return folder;
  int failure = ENOENT;
  std::filesystem::path part;
  for (const std::filesystem::path &name : std::filesystem::path(path)) {
    part /= name;
    if (::mkdir(part.c_str(), S_IRWXU) == 0) // the umask may have cleared the user's own bits
      ::fchmodat(AT_FDCWD, part.c_str(), S_IRWXU, AT_SYMLINK_NOFOLLOW);
    else if (errno != EEXIST)
      failure = errno;
  }
  folder = open(path, problem);
  if (!folder && problem.kind == FileProblem::Kind::Missing)
    problem = {FileProblem::Kind::Unusable, std::strerror(failure)};
  return folder;
}

std::vector<std::string> CacheFolder::names() const {
  std::vector<std::string> result;
  Descriptor own(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); // has a separate read position
  std::unique_ptr<DIR, int (*)(DIR *)> stream(own.valid() ? ::fdopendir(own.get()) : nullptr, &::closedir);
  if (!stream)
    return result;
  own.release();
  while (const dirent *entry = ::readdir(stream.get()))
    if (std::string_view name = entry->d_name; name != "." && name != "..")
      result.emplace_back(name);
  return result;
}

CacheFolder::Facts CacheFolder::facts(const std::string &name) const {
  struct stat info = {};
  if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return {};
  return {size_t(info.st_size), info.st_mtime};
}

//===----------------------------------------------------------------------===//
// Reading and writing files in the folder
//===----------------------------------------------------------------------===//

/// Reads content.size() bytes into `content`; shortens `content` if the file has become shorter.
static bool readWhole(int file, std::string &content) {
  size_t done = 0;
  while (done < content.size()) {
    ssize_t got = ::read(file, content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return false;
    if (got == 0)
      break;
    done += size_t(got);
  }
  content.resize(done);
  return true;
}

bool attune::writeWhole(int file, std::string_view content) {
  // A write past RLIMIT_FSIZE would kill the process by SIGXFSZ; fail with EFBIG instead.
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && content.size() > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  while (!content.empty()) {
    ssize_t put = ::write(file, content.data(), content.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    content.remove_prefix(size_t(put));
  }
  return true;
}

std::optional<std::string> CacheFolder::read(const std::string &name, size_t maxBytes, FileProblem &problem) const {
  constexpr int flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  const Descriptor file(::openat(folder.get(), name.c_str(), flags));
  struct stat info = {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    const bool special =
        errno == ELOOP || errno == ENXIO || errno == ENODEV; // a symbolic link; a socket, or a device without a driver
    problem = systemProblem(errno);
    problem.text = special ? "it is not a regular file" : "it cannot be read: " + problem.text;
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) {
    problem = {FileProblem::Kind::Unusable, "it is not a regular file"};
    return std::nullopt;
  }
  if (std::optional<FileProblem> found = trustProblem(info)) {
    problem = std::move(*found);
    return std::nullopt;
  }
  if (size_t(info.st_size) > maxBytes) {
    problem = {FileProblem::Kind::Unusable, fmt::format("it has {} bytes, the most is {}", info.st_size, maxBytes)};
    return std::nullopt;
  }
  std::string content(size_t(info.st_size), '\0');
  if (!readWhole(file.get(), content)) {
    problem = {FileProblem::Kind::Unusable, fmt::format("it cannot be read: {}", std::strerror(errno))};
    return std::nullopt;
  }
  return content;
}

bool CacheFolder::create(const std::string &name, std::string_view content, FileProblem &problem) const {
  constexpr mode_t mode = S_IRUSR | S_IWUSR;
  Descriptor file(::openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file.valid()) {
    problem = systemProblem(errno);
    return false;
  }
  // No fsync: a crash of the machine may leave an empty file, which the entry's checksum detects.
  if (::fchmod(file.get(), mode) == 0 && writeWhole(file.get(), content) && file.close())
    return true;
  problem = systemProblem(errno);
  ::unlinkat(folder.get(), name.c_str(), 0);
  return false;
}

bool CacheFolder::rename(const std::string &from, const std::string &to, FileProblem &problem) const {
  if (::renameat(folder.get(), from.c_str(), folder.get(), to.c_str()) == 0)
    return true;
  problem = systemProblem(errno);
  ::unlinkat(folder.get(), from.c_str(), 0);
  return false;
}

bool CacheFolder::remove(const std::string &name, FileProblem &problem) const {
  if (::unlinkat(folder.get(), name.c_str(), 0) == 0)
    return true;
  problem = systemProblem(errno);
  return false;
}

std::string CacheFolder::temporaryName(std::string_view name) {
  // A process id would not be unique: ids are reused, and containers that share the folder have equal ids.
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    random = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  return fmt::format("{}{}{:016x}", name.substr(0, 16), temporaryMark, random);
}
