//===- Disassemble.cpp - Disassembly of a cubin by nvdisasm ------------------===//

#include "driver/Disassemble.h"

#include "driver/ToolkitProgram.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

using namespace attune;

Expected<std::string> attune::driver::findDisassembler() {
  if (std::optional<std::string> path = findToolkitProgram("nvdisasm"))
    return *path;
  return Error{"stage sass needs nvdisasm, which is neither on PATH nor in a CUDA toolkit ($CUDA_HOME, $CUDA_PATH, "
               "/usr/local/cuda) or a Python package; pip install nvidia-cuda-nvdisasm, or emit ptx"};
}

Expected<std::string> attune::driver::disassemble(const std::string &disassembler, std::span<const char> cubin) {
  llvm::SmallString<128> input;
  llvm::scope_exit removeFile([&] {
    if (!input.empty())
      llvm::sys::fs::remove(input);
  });
  int descriptor = -1;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("attune", "cubin", descriptor, input))
    return Error{fmt::format("stage sass needs a temporary file: {}", code.message())};
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream.write(cubin.data(), cubin.size());
  stream.close();
  if (stream.has_error()) {
    const std::error_code code = stream.error();
    stream.clear_error();
    return Error{fmt::format("{} cannot be written: {}", input.str().str(), code.message())};
  }
  return outputOf({disassembler, "--print-code", input.str().str()}, "stage sass");
}
