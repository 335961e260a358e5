#include "masks.hpp"

#include <algorithm>
#include <memory>

namespace qm::autoscaler::pack {
namespace {

constexpr std::size_t kFastMasks = 1024;

bool holds_load(const Load& room, const Load& load, std::size_t resources) {
  for (std::size_t r = 0; r < resources; ++r) {
    if (room[r] < load[r]) return false;
  }
  return true;
}

}  // namespace

std::size_t ShapeTable::cheapest(const Load& load, std::size_t resources, std::size_t from) const {
  std::size_t at = from;
  // Close to the current shape in most calls, so the first steps need no binary search.
  for (const std::size_t near = std::min(at + 4, cost.size()); at < near; ++at) {
    if (holds_load(room[at], load, resources)) return at;
  }
  for (std::size_t r = 0; r < resources; ++r) {
    const auto& most = reach[r];
    if (at < most.size() && most[at] >= load[r]) continue;
    at = static_cast<std::size_t>(
        std::lower_bound(most.begin() + static_cast<std::ptrdiff_t>(at), most.end(), load[r]) - most.begin());
    if (at == most.size()) return kNone;
  }
  for (; at < cost.size(); ++at) {
    if (holds_load(room[at], load, resources)) return at;
  }
  return kNone;
}

void Masks::build(const Offers& offers, std::vector<Load> room_of_type, std::vector<Family> families, double node_price,
                  std::size_t resources) {
  offers_ = &offers;
  room_of_type_ = std::move(room_of_type);
  families_ = std::move(families);
  node_price_ = node_price;
  resources_ = resources;
  (void)intern(Bits(families_.size() / 64 + 1, 0));
}

std::uint32_t Masks::intern(const Bits& bits) {
  const auto [found, fresh] = number_.emplace(bits, static_cast<std::uint32_t>(bits_.size()));
  if (fresh) {
    bits_.push_back(bits);
    tables_.emplace_back();
    if (bits_.size() <= kFastMasks) {
      for (auto& row : fast_) row.push_back(kUnknown);
      fast_.emplace_back(bits_.size(), kUnknown);
    }
  }
  return found->second;
}

std::uint32_t Masks::intersected(std::uint32_t a, std::uint32_t b) {
  const bool fast = a < fast_.size() && b < fast_.size();
  if (!fast) {
    if (const auto found = both_.find(std::minmax(a, b)); found != both_.end()) return found->second;
  }
  Bits out = bits_[a];
  for (std::size_t i = 0; i < out.size(); ++i) out[i] &= bits_[b][i];
  const auto number = intern(out);
  if (fast) {
    fast_[a][b] = fast_[b][a] = number;
  } else {
    both_[std::minmax(a, b)] = number;
  }
  return number;
}

std::vector<std::size_t> Masks::offers(std::uint32_t mask) const {
  std::vector<std::size_t> out;
  for (std::size_t family = 0; family < families_.size(); ++family) {
    if ((bits_[mask][family / 64] >> (family % 64) & 1) == 0) continue;
    out.insert(out.end(), families_[family].offers.begin(), families_[family].offers.end());
  }
  std::ranges::sort(out);
  return out;
}

ShapeTable Masks::make(std::uint32_t mask) const {
  // One offer of each type, the cheapest; then in ascending price, with more room first.
  std::map<std::size_t, double> cheapest;
  for (const auto number : offers(mask)) {
    const auto& offer = offers_->list[number];
    const auto [found, fresh] = cheapest.emplace(offer.type, offer.price);
    if (!fresh) found->second = std::min(found->second, offer.price);
  }
  std::vector<std::pair<double, std::size_t>> order;
  for (const auto& [type, price] : cheapest) order.emplace_back(price, type);
  std::ranges::sort(order, [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : room_of_type_[a.second] > room_of_type_[b.second];
  });
  ShapeTable out;
  out.reach.resize(resources_);
  for (const auto& [price, type] : order) {
    const auto& room = room_of_type_[type];
    const auto larger = [&](const Load& other) { return holds_load(other, room, resources_); };
    if (std::any_of(out.room.rbegin(), out.room.rend(), larger)) continue;
    out.cost.push_back(price + node_price_);
    out.room.push_back(room);
    for (std::size_t r = 0; r < resources_; ++r) {
      out.reach[r].push_back(out.reach[r].empty() ? room[r] : std::max(out.reach[r].back(), room[r]));
    }
  }
  return out;
}

}  // namespace qm::autoscaler::pack
