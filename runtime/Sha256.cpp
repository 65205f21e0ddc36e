#include "runtime/Cache.h"

#include <fmt/format.h>
#include <sha2.h> // libmd

std::array<uint8_t, 32> attune::sha256(std::string_view text) {
  SHA2_CTX state;
  std::array<uint8_t, 32> digest;
  SHA256Init(&state);
  SHA256Update(&state, reinterpret_cast<const uint8_t *>(text.data()), text.size());
  SHA256Final(digest.data(), &state);
  return digest;
}

std::string attune::sha256Hex(std::string_view text) {
  std::string hex;
  for (uint8_t byte : sha256(text))
    hex += fmt::format("{:02x}", byte);
  return hex;
}
