#include "bound/patterns.hpp"

#include "qm/simplex/simplex.hpp"

#include <algorithm>
#include <map>

namespace qm::autoscaler::pack {
namespace {

constexpr double kAbove = 1 + 1e-10;  // of a shape's cost: what a pattern must be worth to be a new column
constexpr std::size_t kNoCap = ~std::size_t{0};
constexpr std::size_t kMostKnown = 24;        // multipliers
constexpr std::size_t kMostRelaxations = 48;  // linear programs for one set of prices

struct Item {
  std::size_t number;  // class
  double worth;
  std::int64_t most;  // on one node
  double loss;        // what the resources and the cap are charged above the worth
  std::size_t cap;    // kNoCap: none
};

/// The room of one shape at the prices of pods.
class PatternSearch {
 public:
  PatternSearch(const BoundProblem& problem, const BoundShape& shape, const std::vector<double>& price,
                std::size_t nodes)
      : problem_(problem), shape_(shape), nodes_(nodes), cap_left_(problem.caps) {
    for (std::size_t i = 0; i < problem.classes.size(); ++i) {
      const BoundClass& one = problem.classes[i];
      if (price[i] <= 0 || !shape.accepts[problem.mask_index[i]]) continue;
      const std::int64_t most = most_of(one, shape.room, problem.caps);
      if (most > 0) items_.push_back({i, price[i], most, 0, one.caps.empty() ? kNoCap : one.caps.front()});
    }
  }

  /// The least that any of these multipliers charges for the room.
  [[nodiscard]] double most(const std::vector<std::vector<double>>& known) const {
    double out = items_.empty() ? 0 : kNever;
    for (const auto& unit : known) out = std::min(out, charged(unit).most);
    return out;
  }

  /// `known` are multipliers that suited other shapes; new ones are added while `relaxations` allows.
  Pattern run(std::vector<std::vector<double>>& known, std::size_t& relaxations) {
    Pattern out;
    if (items_.empty()) return out;
    best_ = shape_.cost * kAbove;
    for (const auto& unit : known) (void)consider(unit);
    if (by_.most > best_ && relaxations > 0) {
      --relaxations;
      auto unit = relaxed();
      if (consider(unit)) {
        if (known.size() >= kMostKnown) known.erase(known.begin());
        known.push_back(std::move(unit));
      }
    }
    out.most = by_.most;
    if (out.most <= best_ || fractions_.empty()) return out;
    order_items();
    round_down();
    branch(0, 0, shape_.room);
    out.worth = found_.empty() ? 0 : best_;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (found_[i] > 0) out.pods.emplace_back(items_[i].number, found_[i]);
    }
    out.most = std::min(out.most, std::max(best_, open_) * kAbove);
    return out;
  }

 private:
  /// Multipliers of resources and caps; what they charge for the whole room, plus what the items are worth above the
  /// charge, is at least the worth of any pattern.
  struct Multipliers {
    std::vector<double> unit, cap;
    double most = kNever;
  };

  static std::int64_t most_of(const BoundClass& one, const Load& room, const std::vector<std::int64_t>& caps) {
    std::int64_t most = one.count;
    for (std::size_t r = 0; r < kMostResources; ++r) {
      if (one.load[r] > 0) most = std::min(most, std::max<std::int64_t>(room[r], 0) / one.load[r]);
    }
    for (const auto cap : one.caps) most = std::min(most, caps[cap]);
    return most;
  }

  /// Uses the multipliers if they charge less for the room than those so far.
  bool consider(const std::vector<double>& unit) {
    Multipliers own = charged(unit);
    if (own.most >= by_.most) return false;
    by_ = std::move(own);
    return true;
  }

  [[nodiscard]] Multipliers charged(const std::vector<double>& unit) const {
    Multipliers out{unit, std::vector<double>(problem_.caps.size(), 0), 0};
    for (std::size_t r = 0; r < problem_.resources; ++r) out.most += unit[r] * static_cast<double>(shape_.room[r]);
    for (const auto& item : items_) {
      const double above = item.worth - charge(unit, item.number);
      if (above <= 0) continue;
      if (item.cap == kNoCap) {
        out.most += above * static_cast<double>(item.most);
      } else {
        out.cap[item.cap] = std::max(out.cap[item.cap], above);
      }
    }
    for (std::size_t cap = 0; cap < out.cap.size(); ++cap) {
      out.most += out.cap[cap] * static_cast<double>(problem_.caps[cap]);
    }
    out.most *= kAbove;
    return out;
  }

  /// The multipliers of the resources in the linear relaxation; keeps its solution for round_down().
  std::vector<double> relaxed() {
    Simplex program;
    std::vector<std::size_t> row(problem_.resources, 0);
    for (std::size_t r = 0; r < problem_.resources; ++r) row[r] = program.add_at_most(1);
    std::map<std::size_t, std::size_t> cap_row;
    std::vector<std::size_t> own_row;
    for (const auto& item : items_) {
      if (item.cap != kNoCap && !cap_row.contains(item.cap)) {
        cap_row[item.cap] = program.add_at_most(static_cast<double>(problem_.caps[item.cap]));
      }
      own_row.push_back(program.add_at_most(static_cast<double>(item.most)));
    }
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Simplex::Entries entries;
      const Load& load = problem_.classes[items_[i].number].load;
      for (std::size_t r = 0; r < problem_.resources; ++r) {
        if (load[r] > 0)
          entries.emplace_back(row[r], static_cast<double>(load[r]) / static_cast<double>(shape_.room[r]));
      }
      if (items_[i].cap != kNoCap) entries.emplace_back(cap_row[items_[i].cap], 1.0);
      entries.emplace_back(own_row[i], 1.0);
      columns.push_back(program.add_column(items_[i].worth, std::move(entries)));
    }
    (void)program.solve({});
    for (std::size_t i = 0; i < items_.size(); ++i)
      fractions_.emplace_back(items_[i].number, program.amount(columns[i]));
    std::vector<double> unit(problem_.resources, 0);
    for (std::size_t r = 0; r < problem_.resources; ++r) {
      if (shape_.room[r] > 0) unit[r] = std::max(0.0, program.dual(row[r])) / static_cast<double>(shape_.room[r]);
    }
    return unit;
  }

  [[nodiscard]] double charge(const std::vector<double>& unit, std::size_t number) const {
    double sum = 0;
    for (std::size_t r = 0; r < problem_.resources; ++r) {
      sum += unit[r] * static_cast<double>(problem_.classes[number].load[r]);
    }
    return sum;
  }

  void order_items() {
    for (auto& item : items_) {
      item.loss = charge(by_.unit, item.number) - item.worth + (item.cap == kNoCap ? 0 : by_.cap[item.cap]);
    }
    // Capped items first: once they are chosen, what is left of the caps is worth nothing, and the bound is tight.
    std::ranges::sort(items_, [](const Item& a, const Item& b) {
      if (a.cap != b.cap) return a.cap < b.cap;
      return a.loss != b.loss ? a.loss < b.loss : a.number < b.number;
    });
    last_of_cap_.assign(problem_.caps.size(), 0);
    above_.assign(items_.size() + 1, 0);
    for (std::size_t i = items_.size(); i-- > 0;) {
      const Item& item = items_[i];
      above_[i] = above_[i + 1];
      if (item.cap == kNoCap) {
        above_[i] += std::max(0.0, -item.loss) * static_cast<double>(item.most);
      } else {
        last_of_cap_[item.cap] = std::max(last_of_cap_[item.cap], i);
      }
    }
    chosen_.assign(items_.size(), 0);
  }

  /// The solution of the linear relaxation rounded down, and filled up in the order of the items.
  void round_down() {
    std::map<std::size_t, double> fraction(fractions_.begin(), fractions_.end());
    Load room = shape_.room;
    std::vector<std::int64_t> left = problem_.caps, counts(items_.size(), 0);
    double worth = 0;
    for (const bool fill : {false, true}) {
      for (std::size_t i = 0; i < items_.size(); ++i) {
        const BoundClass& one = problem_.classes[items_[i].number];
        std::int64_t count = std::min(most_of(one, room, left), items_[i].most - counts[i]);
        if (!fill) count = std::min(count, static_cast<std::int64_t>(fraction[items_[i].number] + 1e-6));
        if (count <= 0) continue;
        for (std::size_t r = 0; r < problem_.resources; ++r) room[r] -= count * one.load[r];
        for (const auto cap : one.caps) left[cap] -= count;
        counts[i] += count;
        worth += static_cast<double>(count) * items_[i].worth;
      }
    }
    if (worth > best_) best_ = worth, found_ = counts;
  }

  [[nodiscard]] double most_of_rest(std::size_t next, const Load& room) const {
    double sum = above_[next];
    for (std::size_t r = 0; r < problem_.resources; ++r) sum += by_.unit[r] * static_cast<double>(room[r]);
    for (std::size_t cap = 0; cap < cap_left_.size(); ++cap) {
      if (by_.cap[cap] > 0 && last_of_cap_[cap] >= next) sum += by_.cap[cap] * static_cast<double>(cap_left_[cap]);
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
    std::int64_t count = most_of(one, room, cap_left_);
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
  Multipliers by_;
  std::vector<Item> items_;
  std::vector<std::pair<std::size_t, double>> fractions_;  // of the linear relaxation, by class
  std::vector<std::size_t> last_of_cap_;
  std::vector<double> above_;  // what the items from here on are worth above the charge
  std::vector<std::int64_t> chosen_, found_;
  double best_ = 0, open_ = 0;
};

}  // namespace

void Pricing::set(const std::vector<double>& price) {
  price_ = price;
  relaxations_ = kMostRelaxations;
}

double Pricing::most(const BoundShape& shape) const { return PatternSearch(problem_, shape, price_, 0).most(known_); }

Pattern Pricing::best(const BoundShape& shape, std::size_t nodes) {
  return PatternSearch(problem_, shape, price_, nodes).run(known_, relaxations_);
}

}  // namespace qm::autoscaler::pack
