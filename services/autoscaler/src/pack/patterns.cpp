#include "patterns.hpp"

#include "qm/simplex/simplex.hpp"

#include <algorithm>
#include <map>

namespace qm::autoscaler::pack {
namespace {

constexpr double kAbove = 1 + 1e-10;  // of a shape's cost: what a pattern must be worth to be a new column
constexpr std::size_t kNoCap = ~std::size_t{0};

struct Item {
  std::size_t number;  // class
  double worth;
  double loss;      // what the resources and the cap are priced above the worth
  std::size_t cap;  // kNoCap: none
};

/// The room of one shape at the prices of pods.
class PatternSearch {
 public:
  PatternSearch(const BoundProblem& problem, const BoundShape& shape, const std::vector<double>& price,
                std::size_t nodes)
      : problem_(problem), shape_(shape), nodes_(nodes), cap_left_(problem.caps), cap_price_(problem.caps.size(), 0) {
    for (std::size_t i = 0; i < problem.classes.size(); ++i) {
      const BoundClass& one = problem.classes[i];
      if (price[i] <= 0 || !shape.accepts[problem.mask_index[i]]) continue;
      bool fits = true;
      for (std::size_t r = 0; r < problem.resources; ++r) fits = fits && one.load[r] <= shape.room[r];
      if (fits) items_.push_back({i, price[i], 0, one.caps.empty() ? kNoCap : one.caps.front()});
    }
  }

  Pattern run() {
    Pattern out;
    if (items_.empty()) return out;
    relax();
    double most = 0;
    for (std::size_t r = 0; r < problem_.resources; ++r) most += unit_[r] * static_cast<double>(shape_.room[r]);
    for (std::size_t cap = 0; cap < cap_price_.size(); ++cap) {
      most += cap_price_[cap] * static_cast<double>(problem_.caps[cap]);
    }
    out.most = most * kAbove;
    best_ = shape_.cost * kAbove;
    if (out.most <= best_) return out;
    std::ranges::sort(
        items_, [](const Item& a, const Item& b) { return a.loss != b.loss ? a.loss < b.loss : a.number < b.number; });
    last_of_cap_.assign(problem_.caps.size(), 0);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].cap != kNoCap) last_of_cap_[items_[i].cap] = i;
    }
    chosen_.assign(items_.size(), 0);
    Load room = shape_.room;
    branch(0, 0, room);
    out.worth = found_.empty() ? 0 : best_;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (found_[i] > 0) out.pods.emplace_back(items_[i].number, found_[i]);
    }
    out.most = std::min(out.most, std::max(best_, open_) * kAbove);
    return out;
  }

 private:
  /// Multipliers of the resources and of the caps, such that no item is worth more than they charge for it.
  void relax() {
    Simplex program;
    std::vector<std::size_t> row(problem_.resources, 0);
    for (std::size_t r = 0; r < problem_.resources; ++r) row[r] = program.add_at_most(1);
    std::map<std::size_t, std::size_t> cap_row;
    for (const auto& item : items_) {
      if (item.cap != kNoCap && !cap_row.contains(item.cap)) {
        cap_row[item.cap] = program.add_at_most(static_cast<double>(problem_.caps[item.cap]));
      }
    }
    for (const auto& item : items_) {
      Simplex::Entries entries;
      const Load& load = problem_.classes[item.number].load;
      for (std::size_t r = 0; r < problem_.resources; ++r) {
        if (load[r] > 0)
          entries.emplace_back(row[r], static_cast<double>(load[r]) / static_cast<double>(shape_.room[r]));
      }
      if (item.cap != kNoCap) entries.emplace_back(cap_row[item.cap], 1.0);
      program.add_column(item.worth, std::move(entries));
    }
    const bool solved = program.solve({});
    unit_.assign(problem_.resources, 0);
    for (std::size_t r = 0; r < problem_.resources && solved; ++r) {
      if (shape_.room[r] > 0) unit_[r] = std::max(0.0, program.dual(row[r])) / static_cast<double>(shape_.room[r]);
    }
    // The program may be inexact, so the multipliers are raised until they cover each item without a cap.
    double factor = 1;
    for (const auto& item : items_) {
      if (item.cap != kNoCap) continue;
      const double charged = charge(item.number);
      if (charged <= item.worth * 1e-6) {
        const Load& load = problem_.classes[item.number].load;
        unit_[2] = std::max(unit_[2], item.worth / static_cast<double>(std::max<std::int64_t>(load[2], 1)));
      } else {
        factor = std::max(factor, item.worth / charged);
      }
    }
    for (auto& one : unit_) one *= factor;
    for (auto& item : items_) {
      const double above = item.worth - charge(item.number);
      if (item.cap != kNoCap) cap_price_[item.cap] = std::max(cap_price_[item.cap], above);
    }
    for (auto& item : items_) {
      item.loss = charge(item.number) - item.worth + (item.cap == kNoCap ? 0 : cap_price_[item.cap]);
    }
  }

  [[nodiscard]] double charge(std::size_t number) const {
    double sum = 0;
    for (std::size_t r = 0; r < problem_.resources; ++r) {
      sum += unit_[r] * static_cast<double>(problem_.classes[number].load[r]);
    }
    return sum;
  }

  [[nodiscard]] double most_of_rest(std::size_t next, const Load& room) const {
    double sum = 0;
    for (std::size_t r = 0; r < problem_.resources; ++r) sum += unit_[r] * static_cast<double>(room[r]);
    for (std::size_t cap = 0; cap < cap_left_.size(); ++cap) {
      if (cap_price_[cap] > 0 && last_of_cap_[cap] >= next)
        sum += cap_price_[cap] * static_cast<double>(cap_left_[cap]);
    }
    return sum;
  }

  void branch(std::size_t next, double worth, const Load& room) {
    if (worth > best_) best_ = worth, found_ = chosen_;
    if (next == items_.size()) return;
    const double most = worth + most_of_rest(next, room);
    if (most <= best_) return;
    if (used_++ >= nodes_) {
      open_ = std::max(open_, most);
      return;
    }
    const Item& item = items_[next];
    const BoundClass& one = problem_.classes[item.number];
    std::int64_t count = one.count;
    for (std::size_t r = 0; r < problem_.resources; ++r) {
      if (one.load[r] > 0) count = std::min(count, room[r] / one.load[r]);
    }
    for (const auto cap : one.caps) count = std::min(count, cap_left_[cap]);
    for (; count >= 0; --count) {
      Load rest = room;
      for (std::size_t r = 0; r < problem_.resources; ++r) rest[r] -= count * one.load[r];
      for (const auto cap : one.caps) cap_left_[cap] -= count;
      chosen_[next] = count;
      branch(next + 1, worth + static_cast<double>(count) * item.worth, rest);
      for (const auto cap : one.caps) cap_left_[cap] += count;
      chosen_[next] = 0;
    }
  }

  const BoundProblem& problem_;
  const BoundShape& shape_;
  std::size_t nodes_, used_ = 0;
  std::vector<std::int64_t> cap_left_;
  std::vector<double> cap_price_, unit_;
  std::vector<Item> items_;
  std::vector<std::size_t> last_of_cap_;
  std::vector<std::int64_t> chosen_, found_;
  double best_ = 0, open_ = 0;
};

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

Pattern best_pattern(const BoundProblem& problem, const BoundShape& shape, const std::vector<double>& price,
                     std::size_t nodes) {
  return PatternSearch(problem, shape, price, nodes).run();
}

}  // namespace qm::autoscaler::pack
