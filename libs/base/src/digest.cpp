#include "qm/base/digest.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

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

Digest& Digest::add(std::string_view bytes) {
  for (const unsigned char c : bytes) hash_ = (hash_ ^ c) * kPrime;
  return add(static_cast<std::int64_t>(bytes.size()));
}

Digest& Digest::add(std::int64_t value) {
  hash_ = mix(hash_ ^ static_cast<std::uint64_t>(value)) * kPrime;
  return *this;
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
