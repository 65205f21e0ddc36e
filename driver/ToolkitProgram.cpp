//===- ToolkitProgram.cpp - Finding and running programs of a CUDA toolkit ---===//

#include "driver/ToolkitProgram.h"

#include "runtime/Environment.h"
#include "runtime/SitePackages.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <fmt/format.h>

using namespace attune;

/// The folders `bin` of $CUDA_HOME, $CUDA_PATH, the toolkits in /usr/local, and Python packages with toolkit programs.
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
  for (const std::string &packages : sitePackages())
    for (const char *folder : {"/nvidia/cu13/bin", "/nvidia/cuda_nvdisasm/bin", "/triton/backends/nvidia/bin"})
      folders.push_back(packages + folder);
  return folders;
}

std::optional<std::string> attune::driver::findToolkitProgram(std::string_view program) {
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(program))
    return *found;
  const std::vector<std::string> folders = toolkitFolders();
  const std::vector<llvm::StringRef> references(folders.begin(), folders.end());
  if (!references.empty())
    if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(program, references))
      return *found;
  return std::nullopt;
}

Expected<std::string> attune::driver::outputOf(const std::vector<std::string> &command, std::string_view what) {
  llvm::SmallString<128> output, errors;
  llvm::scope_exit removeFiles([&] {
    for (llvm::StringRef file : {output, errors})
      if (!file.empty())
        llvm::sys::fs::remove(file);
  });
  std::error_code code;
  for (llvm::SmallString<128> *file : {&output, &errors})
    if (!code)
      code = llvm::sys::fs::createTemporaryFile("attune", "txt", *file);
  if (code)
    return Error{fmt::format("{} needs a temporary file: {}", what, code.message())};
  std::string message;
  const std::vector<llvm::StringRef> arguments(command.begin(), command.end());
  const int result = llvm::sys::ExecuteAndWait(command.front(), arguments, std::nullopt,
                                               {std::nullopt, output.str(), errors.str()}, 0, 0, &message);
  auto contentOf = [](llvm::StringRef file) {
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer = llvm::MemoryBuffer::getFile(file);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  };
  if (result != 0) {
    const std::string said = contentOf(errors) + contentOf(output) + message;
    return Error{fmt::format("{} fails with code {}: {}", command.front(), result, llvm::StringRef(said).trim().str())};
  }
  return contentOf(output);
}
