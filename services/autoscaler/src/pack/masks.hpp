#pragma once
#include "offers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace qm::autoscaler::pack {

inline constexpr std::size_t kMostResources = 12;
using Load = std::array<std::int64_t, kMostResources>;  ///< cpu, memory, pods, then extended resources
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a node can be launched as, cheapest first. No shape has at most the room of an earlier one.
struct ShapeTable {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<double> cost;
  std::vector<Load> room;
  std::vector<std::vector<std::int64_t>> reach;  ///< by resource: the most room of any shape up to this one

  /// The cheapest shape that holds the load, not before `from`; kNone if there is none.
  [[nodiscard]] std::size_t cheapest(const Load& load, std::size_t resources, std::size_t from = 0) const;
};

/// Sets of offers. Offers that the same pods accept form a family; a set is a set of families.
///
/// Sets are interned: equal numbers are equal sets, and number 0 is the empty set.
class Masks {
 public:
  using Bits = std::vector<std::uint64_t>;
  struct Family {
    std::vector<std::size_t> offers;
  };

  void build(const Offers& offers, std::vector<Load> room_of_type, std::vector<Family> families, double node_price,
             std::size_t resources);
  [[nodiscard]] std::uint32_t intern(const Bits& bits);
  [[nodiscard]] std::uint32_t both(std::uint32_t a, std::uint32_t b) {
    if (a == b) return a;
    if (a < fast_.size() && b < fast_.size() && fast_[a][b] != kUnknown) return fast_[a][b];
    return intersected(a, b);
  }
  /// The table of a set; it stays valid.
  [[nodiscard]] const ShapeTable& table(std::uint32_t mask) {
    if (tables_[mask] == nullptr) tables_[mask] = std::make_unique<ShapeTable>(make(mask));
    return *tables_[mask];
  }
  /// The offers of a set, ascending.
  [[nodiscard]] std::vector<std::size_t> offers(std::uint32_t mask) const;
  [[nodiscard]] std::size_t families() const { return families_.size(); }
  [[nodiscard]] const Load& room_of(std::size_t offer) const { return room_of_type_[offers_->list[offer].type]; }

 private:
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t intersected(std::uint32_t a, std::uint32_t b);
  [[nodiscard]] ShapeTable make(std::uint32_t mask) const;

  const Offers* offers_ = nullptr;
  std::vector<Load> room_of_type_;
  std::vector<Family> families_;
  double node_price_ = 0;
  std::size_t resources_ = 0;
  std::vector<Bits> bits_;
  std::map<Bits, std::uint32_t> number_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> both_;
  std::vector<std::vector<std::uint32_t>> fast_;  // intersections of the first masks; kUnknown = not computed yet
  std::vector<std::unique_ptr<ShapeTable>> tables_;
};

}  // namespace qm::autoscaler::pack
