#include "runtime/Log.h"

#include "runtime/Environment.h"

#include <cstdio>

using namespace attune;

static constexpr std::string_view names[] = {"off", "warning", "info", "debug"};

std::optional<LogLevel> attune::parseLogLevel(std::string_view text) {
  for (size_t i = 0; i < std::size(names); ++i)
    if (names[i] == text)
      return LogLevel(i);
  return std::nullopt;
}

LogLevel attune::logLevel() {
  static const LogLevel level = [] {
    const std::string text = valueOf(EnvironmentVariable::Log);
    std::optional<LogLevel> asked = parseLogLevel(text);
    if (!asked && !text.empty())
      writeLog(LogLevel::Warning, fmt::format("ATTUNE_LOG is '{}'; use off, warning, info or debug", text));
    return asked.value_or(LogLevel::Warning);
  }();
  return level;
}

void attune::writeLog(LogLevel level, std::string_view text) {
  const std::string line = fmt::format("attune: {}: {}\n", names[size_t(level)], text);
  (void)!std::fwrite(line.data(), 1, line.size(), stderr); // a failed write cannot be reported anywhere
}
