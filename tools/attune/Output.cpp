//===- Output.cpp - Standard output, checked ----------------------------------===//

#include "tools/attune/Output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

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

Expected<void> attune::cli::writeFile(const std::string &path, std::string_view content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), std::streamsize(content.size()));
  file.close();
  if (!file)
    return Error{fmt::format("{} cannot be written: {}", path, std::strerror(errno ? errno : EIO))};
  return {};
}
