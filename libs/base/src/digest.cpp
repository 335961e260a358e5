#include "qm/base/digest.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

namespace qm {
namespace {
constexpr std::uint64_t kPrime = 0x100000001b3ULL;

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}
}  // namespace

// Eight bytes at a time. The last word is padded with zeros; the size distinguishes padding from zeros in the data.
Digest& Digest::add(std::string_view bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), sizeof(std::int64_t)))) {
    std::int64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    add(word);
  }
  return add(size);
}

std::string Digest::hex() const { return fmt::format("{:016x}", hash_); }

std::uint64_t stable_hash(std::string_view key) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const unsigned char c : key) h = (h ^ c) * kPrime;
  return mix(h);
}

std::string sha256_hex(std::string_view bytes) {
  unsigned char out[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out);
  std::string text;
  for (const unsigned char c : out) text += fmt::format("{:02x}", c);
  return text;
}

}  // namespace qm
