#pragma once
#include "qm/base/digest.hpp"
#include "qm/store/store.hpp"

#include <span>
#include <unordered_map>

namespace qm::service {

/// A digest of the rows of a state, updated at each commit: the sum of a hash of each row. So the order of writes
/// does not matter, and a state that is read back has the same digest as before.
///
/// Cost     one pass over the bytes of the rows that changed; two numbers in memory for each row.
class RowsDigest {
 public:
  /// Applies committed rows in their order: of two rows with one key the last counts.
  void apply(std::span<const store::StateRow> rows) {
    for (const auto& row : rows) {
      const auto key = Digest().add(row.kind).add(row.key).value();
      const auto found = hashes_.find(key);
      if (found != hashes_.end()) {
        sum_ -= found->second;
        if (!row.value) hashes_.erase(found);
      }
      if (!row.value) continue;
      const auto hash = Digest().add(row.kind).add(row.key).add(*row.value).value();
      hashes_.insert_or_assign(key, hash);
      sum_ += hash;
    }
  }
  [[nodiscard]] std::uint64_t value() const { return sum_; }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> hashes_;  ///< of the rows, by a hash of kind and key
  std::uint64_t sum_ = 0;
};

}  // namespace qm::service
