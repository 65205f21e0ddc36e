//===- Disassemble.cpp - The instructions of a cubin ------------------------===//

#include "driver/Disassemble.h"

#include "runtime/Environment.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

using namespace attune;

static constexpr llvm::StringLiteral program = "nvdisasm";

/// bin of $CUDA_HOME, $CUDA_PATH and the toolkits in /usr/local.
static std::vector<std::string> toolkitFolders() {
  std::vector<std::string> folders, local;
  for (EnvironmentVariable variable : {EnvironmentVariable::CudaHome, EnvironmentVariable::CudaPath})
    if (const std::string home = valueOf(variable); !home.empty())
      folders.push_back(home + "/bin");
  std::error_code code;
  for (llvm::sys::fs::directory_iterator entry("/usr/local", code), end; entry != end && !code; entry.increment(code))
    if (llvm::sys::path::filename(entry->path()).starts_with("cuda"))
      local.push_back(entry->path() + "/bin");
  std::sort(local.rbegin(), local.rend());
  folders.insert(folders.end(), local.begin(), local.end());
  return folders;
}

static Expected<std::string> findProgram() {
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(program))
    return *found;
  const std::vector<std::string> folders = toolkitFolders();
  const std::vector<llvm::StringRef> references(folders.begin(), folders.end());
  if (!references.empty())
    if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(program, references))
      return *found;
  return Error{"stage sass needs nvdisasm, which is neither on PATH nor in a CUDA toolkit ($CUDA_HOME, $CUDA_PATH, "
               "/usr/local/cuda); install the toolkit's "
               "package cuda-nvdisasm, or emit ptx"};
}

Expected<std::string> attune::driver::disassemble(std::span<const char> cubin) {
  Expected<std::string> path = findProgram();
  if (!path)
    return path;
  llvm::SmallString<128> input, output, errors;
  llvm::scope_exit removeFiles([&] {
    for (llvm::StringRef file : {input, output, errors})
      if (!file.empty())
        llvm::sys::fs::remove(file);
  });
  int descriptor = -1;
  std::error_code code = llvm::sys::fs::createTemporaryFile("attune", "cubin", descriptor, input);
  for (llvm::SmallString<128> *file : {&output, &errors})
    if (!code)
      code = llvm::sys::fs::createTemporaryFile("attune", "txt", *file);
  if (code)
    return Error{fmt::format("stage sass needs a temporary file: {}", code.message())};
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream.write(cubin.data(), cubin.size());
  stream.close();
  if (stream.has_error()) {
    code = stream.error();
    stream.clear_error();
    return Error{fmt::format("{} cannot be written: {}", input.str().str(), code.message())};
  }
  std::string message;
  const int result = llvm::sys::ExecuteAndWait(*path, {*path, "--print-code", input}, std::nullopt,
                                               {std::nullopt, output.str(), errors.str()}, 0, 0, &message);
  auto contentOf = [](llvm::StringRef file) {
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer = llvm::MemoryBuffer::getFile(file);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  };
  if (result != 0) {
    const std::string said = contentOf(errors) + contentOf(output) + message;
    return Error{fmt::format("{} fails with code {}: {}", *path, result, llvm::StringRef(said).trim().str())};
  }
  return contentOf(output);
}
