//===- Log.h - Log lines on standard error -----------------------------------===//
//
//     $ ATTUNE_LOG=info attune run causal
//     attune: info: not in the cache: /root/.cache/attune/1f0c....attune
//     attune: info: NVRTC 13.0 compiled causal for sm_90 in 517.0 ms: 48216 bytes
//
// Each line is one write, so lines of different threads do not mix. A line of a disabled level costs a load and a
// comparison.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace attune {

/// Each level includes the levels before it.
enum class LogLevel : uint8_t { Off, Warning, Info, Debug };

/// Parses "off", "warning", "info" or "debug"; nullopt for any other text.
std::optional<LogLevel> parseLogLevel(std::string_view text);

/// $ATTUNE_LOG as it was at the first call. The level is Warning where the variable is not set, and where the variable
/// has an unknown value, which is also warned about.
LogLevel logLevel();
inline bool logs(LogLevel level) { return level <= logLevel(); }

/// Writes "attune: LEVEL: TEXT" and a line break, whatever logLevel() is.
void writeLog(LogLevel level, std::string_view text);

template <typename... Arguments>
void logLine(LogLevel level, fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  if (logs(level))
    writeLog(level, fmt::format(format, std::forward<Arguments>(arguments)...));
}

} // namespace attune
