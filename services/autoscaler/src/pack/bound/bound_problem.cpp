#include "bound/patterns.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace qm::autoscaler::pack {
namespace {

std::vector<std::uint32_t> caps_of(const PodClass& one,
                                   std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t>& number,
                                   bool with_spread) {
  std::vector<std::uint32_t> out;
  const auto add = [&](std::uint32_t group, std::int64_t limit) {
    out.push_back(number.emplace(std::pair(group, limit), static_cast<std::uint32_t>(number.size())).first->second);
  };
  for (const auto group : one.anti) {
    if (std::ranges::binary_search(one.member, group)) add(group, 1);
  }
  for (const auto& spread : one.spread) {
    if (spread.self && with_spread) add(spread.group, spread.limit);
  }
  std::ranges::sort(out);
  return out;
}

std::int64_t rounded_down(std::int64_t amount, int bits) {
  if (amount <= 0) return amount;
  const int width = 64 - __builtin_clzll(static_cast<unsigned long long>(amount));
  return width <= bits ? amount : (amount >> (width - bits)) << (width - bits);
}

/// Classes with requests of at most `bits` significant bits.
BoundProblem classes_of(const Model& model, int bits, bool with_spread) {
  BoundProblem out;
  out.resources = model.resources;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> caps;
  std::map<std::tuple<Load, std::uint32_t, std::vector<std::uint32_t>>, std::size_t> number;
  for (const auto& one : model.classes) {
    Load load = one.load;
    for (std::size_t r = 0; r < model.resources; ++r) {
      if (r != 2) load[r] = rounded_down(load[r], bits);
    }
    auto own = caps_of(one, caps, with_spread);
    const auto [found, fresh] = number.emplace(std::tuple(load, one.any_zone, own), out.classes.size());
    if (fresh) out.classes.push_back({load, one.any_zone, std::move(own), 0});
    out.classes[found->second].count += static_cast<std::int64_t>(one.pods.size());
    out.class_of.push_back(found->second);
  }
  out.caps.resize(caps.size());
  for (const auto& [key, cap] : caps) out.caps[cap] = key.second;
  return out;
}

void add_shapes(Model& model, BoundProblem& problem) {
  std::map<std::uint32_t, std::uint32_t> index;
  for (const auto& one : problem.classes) {
    problem.mask_index.push_back(index.emplace(one.mask, static_cast<std::uint32_t>(index.size())).first->second);
  }
  std::vector<std::vector<bool>> accepts(model.offers.list.size(), std::vector<bool>(index.size()));
  for (const auto& [mask, at] : index) {
    for (const auto offer : model.masks.offers(mask)) accepts[offer][at] = true;
  }
  std::vector<std::size_t> order(model.offers.list.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const Offer &x = model.offers.list[a], &y = model.offers.list[b];
    if (x.price != y.price) return x.price < y.price;
    return model.masks.room_of(a) != model.masks.room_of(b) ? model.masks.room_of(a) > model.masks.room_of(b) : a < b;
  });
  for (const auto number : order) {
    const Load& room = model.masks.room_of(number);
    const bool dominated = std::ranges::any_of(problem.shapes, [&](const BoundShape& other) {
      for (std::size_t r = 0; r < problem.resources; ++r) {
        if (other.room[r] < room[r]) return false;
      }
      for (std::size_t m = 0; m < index.size(); ++m) {
        if (accepts[number][m] && !other.accepts[m]) return false;
      }
      return true;
    });
    if (!dominated) {
      problem.shapes.push_back({room, model.offers.list[number].price + model.node_price, accepts[number]});
    }
  }
}

}  // namespace

BoundProblem bound_problem(Model& model, std::size_t most) {
  BoundProblem out = classes_of(model, 64, true);
  if (out.classes.size() > most) out = classes_of(model, 64, false);
  for (int bits = 10; bits > 0 && out.classes.size() > most; --bits) out = classes_of(model, bits, false);
  add_shapes(model, out);
  return out;
}

}  // namespace qm::autoscaler::pack
