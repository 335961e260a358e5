#pragma once
#include "qm/admission/workload.hpp"

#include <array>
#include <cstdint>
#include <map>

namespace qm::admission {

/// The uids of numbered workloads, in pages. No number is used twice, and workloads that arrive together mostly end
/// together, so pages are full or gone.
///
/// Cost     O(log pages).
class Uids {
 public:
  void put(int id, const Uid& uid);
  /// The number must be known.
  void erase(int id);
  /// Null if the number is not in use.
  [[nodiscard]] const Uid* find(int id) const;

 private:
  static constexpr int kPage = 64;
  struct Page {
    std::array<Uid, kPage> uids;
    std::uint64_t used = 0;  ///< one bit for each
  };
  std::map<int, Page> pages_;
};

}  // namespace qm::admission
