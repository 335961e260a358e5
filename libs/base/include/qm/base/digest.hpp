#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace qm {

/// An order-dependent 64-bit digest of a state, for "same inputs, same state" checks. Not cryptographic.
class Digest {
 public:
  Digest& add(std::string_view bytes);
  Digest& add(std::int64_t value) {  // one multiplication: for a large state this is the innermost loop
    hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdULL;
    hash_ ^= hash_ >> 32;
    return *this;
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }
  [[nodiscard]] std::string hex() const;

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

/// The stable hash that selects a partition or shard by key; the same on every host and release.
[[nodiscard]] std::uint64_t stable_hash(std::string_view key);

/// Lower-case hexadecimal SHA-256.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace qm
