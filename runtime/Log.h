//===- Log.h - What the library tells on standard error ----------------------===//
//
//     $ ATTUNE_LOG=info attune run causal
//     attune: info: no cache entry /root/.cache/attune/1f0c....attune
//     attune: info: NVRTC 13.0 compiled causal for sm_90 in 517 ms: 48216 bytes
//
// A line is one write, so those of threads do not mix. A level that is not asked for costs a load and a comparison.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace attune {

/// Each includes those before it.
enum class LogLevel : uint8_t { Off, Warning, Info, Debug };

/// "off", "warning", "info" or "debug".
std::optional<LogLevel> parseLogLevel(std::string_view text);

/// $ATTUNE_LOG as it was at the first call; Warning where it is not set, or, with a warning, where it is none of the
/// four.
LogLevel logLevel();
inline bool logs(LogLevel level) { return level <= logLevel(); }

/// "attune: LEVEL: TEXT" and a line break, whatever logLevel() is.
void writeLog(LogLevel level, std::string_view text);

template <typename... Arguments>
void logLine(LogLevel level, fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  if (logs(level))
    writeLog(level, fmt::format(format, std::forward<Arguments>(arguments)...));
}

} // namespace attune
