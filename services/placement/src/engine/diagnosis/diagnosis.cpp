// Diagnosis of a gang without a placement, and remedies: first by counts (feasibility_counts.hpp), then by placements.
#include "qm/placement/diagnosis.hpp"

#include "engine/diagnosis/feasibility_counts.hpp"

#include <algorithm>
#include <bit>

namespace qm::placement {
namespace {

constexpr std::size_t kMaxRemedies = 8;
constexpr int kMaxTries = 24;
constexpr std::int64_t kMaxEvaluations = 200'000;  // node evaluations of one diagnosis, which blocks the engine
constexpr std::int64_t kEvaluationsOfAPod = 8;     // cost of a pod that changes where the next one may go
constexpr std::array<unsigned, 6> kResources{kGpu, kCpu, kMemory, kOther, kPods, kAligned};

std::string cpus(std::int64_t milli) {
  return milli % 1000 == 0 ? fmt::format("{} CPUs", milli / 1000) : fmt::format("{}m CPU", milli);
}
std::string gpus(const GpuShape& gpu, std::int64_t amount) {
  if (gpu.milli > 0) return fmt::format("{} milli of a GPU", amount);
  return fmt::format("{} GPU{}", amount, amount == 1 ? "" : "s");
}
/// In the largest unit that is exact in MiB.
std::string memory(std::int64_t bytes) {
  const auto mib = bytes >> 20;
  return mib % 1024 == 0 ? fmt::format("{} GiB of memory", mib / 1024) : fmt::format("{} MiB of memory", mib);
}
std::string amount_of(const PodShape& shape, unsigned resource, std::int64_t amount) {
  switch (resource) {
    case kCpu:
      return cpus(amount);
    case kMemory:
      return memory(amount);
    case kGpu:
      return gpus(shape.gpu, amount);
    default: {
      std::string text;
      for (const auto& [name, count] : counted(shape))
        text += fmt::format("{}{} of {}", text.empty() ? "" : " and ", count, name);
      return text;
    }
  }
}

std::string words_of(const PodSet& set, unsigned resource) {
  if (resource == kPods) return fmt::format("pod slots on nodes for {} pods", set.count);
  if (resource == kAligned) return fmt::format("one NUMA node, as the nodes require, for each of {} pods", set.count);
  const auto& gpu = set.shape.gpu;
  const auto amount = resource == kCpu      ? set.shape.cpu_milli
                      : resource == kMemory ? set.shape.memory_bytes
                      : gpu.milli > 0       ? gpu.milli
                                            : gpu.whole;
  return fmt::format("{} for each of {} pods", amount_of(set.shape, resource, amount), set.count);
}

void set_amount(PodShape& shape, unsigned resource, std::int64_t amount) {
  (resource == kCpu      ? shape.cpu_milli
   : resource == kMemory ? shape.memory_bytes
   : shape.gpu.milli > 0 ? shape.gpu.milli
                         : shape.gpu.whole) = amount;
}

/// Drops the request for this resource.
void leave_out(PodShape& shape, unsigned resource) {
  if (resource == kCpu || resource == kMemory) set_amount(shape, resource, 0);
  if (resource == kGpu) shape.gpu.whole = shape.gpu.milli = 0;
  if (resource == kOther) shape.extended.clear(), shape.gpu.mig_count = 0;
}

/// The smallest set of demands that the nodes cannot meet by the count; empty if the count finds none.
std::vector<std::string> conflict_in(const FeasibilityCounts& survey) {
  const PodSet& set = survey.set();
  if (survey.nodes() == 0) return {"there are no nodes"};
  std::vector<std::pair<Conditions, unsigned>> demands;
  std::vector<std::string> words;
  for (const unsigned resource : kResources) {
    if (!survey.asks(resource)) continue;
    demands.emplace_back(0, resource);
    words.push_back(words_of(set, resource));
  }
  Conditions conditions = 0;
  for (std::size_t i = 0; i < survey.conditions().size(); ++i) {
    const Condition& condition = survey.conditions()[i];
    conditions |= Conditions{1} << i;
    if (!condition.counts()) continue;
    // All excluded models are one demand.
    if (const auto same = std::ranges::find(words, condition.words); same != words.end()) {
      demands[static_cast<std::size_t>(same - words.begin())].first |= Conditions{1} << i;
    } else {
      demands.emplace_back(Conditions{1} << i, 0U);
      words.push_back(condition.words);
    }
  }
  const auto met = [&](std::uint32_t chosen) {
    Conditions kept = 0;
    unsigned counted = kOneEach;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      kept |= demands[i].first;
      counted |= demands[i].second;
    }
    return survey.pods(conditions & ~kept, counted) >= set.count;
  };
  const auto all = (std::uint32_t{1} << demands.size()) - 1;
  if (met(all)) return {};
  std::uint32_t least = all;
  if (demands.size() <= 12) {
    for (std::uint32_t chosen = 1; chosen < all; ++chosen) {
      if (std::popcount(chosen) < std::popcount(least) && !met(chosen)) least = chosen;
    }
  } else {
    // Too many subsets: drop demands one by one if the rest still cannot be met.
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (!met(least & ~(std::uint32_t{1} << i))) least &= ~(std::uint32_t{1} << i);
    }
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if ((least >> i & 1) != 0) out.push_back(words[i]);
  }
  return out;
}

class Search {
 public:
  Search(const PlacementRequest& request, FreeCapacity& free_capacity, const Trial& trial)
      : asked_(request), free_capacity_(free_capacity), trial_(trial) {}

  [[nodiscard]] Diagnosis found() {
    // A single pod set fails if too few of its pods fit: no search, and no copy.
    FreeCapacity left;
    if (alone()) {
      survey(0, free_capacity_);
      if (auto counted = by_count(surveys_[0]); !counted.pod_set.empty()) return counted;
    } else {
      left = free_capacity_;
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < asked_.pod_sets.size(); ++i) order.push_back(i);
      std::ranges::stable_sort(order, std::greater<>(),
                               [&](std::size_t i) { return asked_.pod_sets[i].shape.gpu.total_milli(); });
      for (const std::size_t i : order) {
        if (trial_.place(one_of(i), left).plan) continue;
        survey(i, left);
        auto counted = by_count(surveys_[0]);
        if (!counted.pod_set.empty()) return counted;
        surveys_.clear();
        break;
      }
    }
    if (fits(asked_, 0, 0)) return {};
    // A sample of the nodes may fail where all nodes fit.
    if (alone() && std::ssize(free_capacity_) > std::int64_t{kMaxTried} && trial_.fits(asked_, free_capacity_))
      return {};
    if (!alone()) {
      for (std::size_t i = 0; i < asked_.pod_sets.size(); ++i) survey(i, free_capacity_);
    }
    return by_decisions();
  }

 private:
  [[nodiscard]] bool alone() const { return asked_.pod_sets.size() == 1; }
  void survey(std::size_t position, const FreeCapacity& free_capacity) {
    surveys_.emplace_back(asked_, position, free_capacity, trial_.demands(asked_, position));
  }
  /// The set by itself, without topology.
  [[nodiscard]] PlacementRequest one_of(std::size_t position) const {
    PlacementRequest out{{asked_.pod_sets[position]}, {}, asked_.type, asked_.pool};
    if (!asked_.rules.empty()) out.rules = {asked_.rules[position]};
    if (!asked_.own_claims.empty()) out.own_claims = {asked_.own_claims[position]};
    out.pod_sets[0].topology = {};
    return out;
  }

  /// Number of nodes that a placement evaluates: for one set at most kMaxTried, for several sets all nodes
  /// for each. Each pod that changes where the next one may go adds some more, or all nodes if soft rules
  /// give nodes different scores.
  [[nodiscard]] std::int64_t price() const {
    const auto free_capacity = std::ssize(free_capacity_);
    std::int64_t evaluations =
        alone() ? std::min<std::int64_t>(free_capacity, kMaxTried) : free_capacity * std::ssize(asked_.pod_sets);
    for (const FeasibilityCounts& survey : surveys_)
      evaluations += survey.moves(0) ? survey.set().count * (survey.weighs() ? free_capacity : kEvaluationsOfAPod) : 0;
    return evaluations;
  }
  [[nodiscard]] bool is_over_budget() const { return evaluations_ + price() > kMaxEvaluations; }
  /// Nodes for a placement of the only set: few, if more do not matter.
  [[nodiscard]] FreeCapacity tried(const PlacementRequest& changed, Conditions dropped, unsigned uncounted) const {
    const PodSet& set = changed.pod_sets[0];
    const bool any_do = set.min_count == 0 && set.topology.none() && !surveys_[0].moves(dropped);
    return surveys_[0].free_capacity(dropped, uncounted, set.shape,
                                     any_do ? std::optional<std::int64_t>(set.count) : std::nullopt);
  }
  /// Whether the placement succeeds. With several sets all resources count, and only conditions of the gang
  /// can be dropped. `among`: nodes to try if known.
  [[nodiscard]] bool fits(const PlacementRequest& changed, Conditions dropped, unsigned uncounted,
                          FreeCapacity* among = nullptr) const {
    evaluations_ += price();
    if (!alone()) return trial_.fits(changed, free_capacity_);
    if (among != nullptr) return trial_.fits(changed, *among);
    FreeCapacity some = tried(changed, dropped, uncounted);
    return trial_.fits(changed, some);
  }

  [[nodiscard]] Diagnosis by_count(const FeasibilityCounts& survey) {
    Diagnosis out;
    out.conflict = conflict_in(survey);
    if (out.conflict.empty()) return {};
    out.pod_set = survey.set().name;
    fewer(survey, 0, "");
    smaller(survey);
    remedy(survey);
    out.remedies = std::move(remedies_);
    return out;
  }

  /// The pod set of a remedy, if there are several sets.
  [[nodiscard]] std::string named(const FeasibilityCounts& survey) const {
    return surveys_.size() > 1 ? fmt::format("{}: ", survey.set().name) : std::string();
  }
  /// Adds the remedy if it helps.
  bool add(Remedy remedy, Conditions dropped, FreeCapacity* among = nullptr) {
    if (remedies_.size() == kMaxRemedies || tries_++ == kMaxTries || is_over_budget()) return false;
    if (!remedy.change && !alone()) return false;  // it cannot be tried
    PlacementRequest changed = asked_;
    if (remedy.change) remedy.change(changed);
    if (!fits(changed, dropped, 0, among)) return false;
    remedies_.push_back(std::move(remedy));
    return true;
  }
  void fewer(const FeasibilityCounts& survey, Conditions dropped, const std::string& and_so,
             const std::function<void(PlacementRequest&)>& relax = {}) {
    const std::size_t at = survey.position();
    const PodSet& set = survey.set();
    auto fitting = survey.pods(dropped, kAll);
    if (fitting < 1) return;
    FreeCapacity among;
    const bool again = alone() && survey.moves(dropped);               // all tries use the same sample of the nodes
    if (alone() && (survey.moves(dropped) || fitting >= set.count)) {  // only a placement finds the number
      if (is_over_budget()) return;
      PlacementRequest some = asked_;
      if (relax) relax(some);
      some.pod_sets[at].min_count = 1;
      evaluations_ += price();
      among = tried(some, dropped, 0);
      const auto placed = trial_.place(some, among);
      fitting = placed.plan ? std::ssize(placed.plan->members) : 0;
      for (std::int64_t i = 0; again && i < fitting; ++i) {
        const NodeName& node = placed.plan->members[static_cast<std::size_t>(i)].node;
        among.at(node) = survey.without(free_capacity_.at(node), dropped, 0);
      }
    }
    if (fitting < 1 || fitting >= set.count) return;
    add({fmt::format("{}with {} pod{} instead of {}{}", named(survey), fitting, fitting == 1 ? "" : "s", set.count,
                     and_so),
         [at, fitting, relax](PlacementRequest& changed) {
           if (relax) relax(changed);
           changed.pod_sets[at].count = static_cast<std::int32_t>(fitting);
         }},
        dropped, again ? &among : nullptr);
  }
  void smaller(const FeasibilityCounts& survey) {
    const std::size_t at = survey.position();
    for (const unsigned resource : {kGpu, kCpu, kMemory}) {
      if (!survey.asks(resource) || survey.pods(0, kAll & ~resource) < survey.set().count) continue;
      const auto amount = survey.largest(resource);
      if (amount < 1) continue;
      add({fmt::format("with at most {} a pod", amount_of(survey.set().shape, resource, amount)),
           [at, resource, amount](PlacementRequest& changed) {
             set_amount(changed.pod_sets[at].shape, resource, amount);
           }},
          0);
    }
  }
  /// Drops one condition, or two if none helps, or reduces the gang and drops one.
  void remedy(const FeasibilityCounts& survey) {
    const auto& conditions = survey.conditions();
    const auto bit = [](std::size_t i) { return Conditions{1} << i; };
    bool helped = false;
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      if (!conditions[i].counts() || survey.pods(bit(i), kAll) < survey.set().count) continue;
      helped = add({named(survey) + conditions[i].remedy, conditions[i].relax}, bit(i)) || helped;
    }
    for (std::size_t i = 0; !helped && i < conditions.size(); ++i) {
      for (std::size_t j = i + 1; j < conditions.size(); ++j) {
        if (!conditions[i].counts() || !conditions[j].counts()) continue;
        if (survey.pods(bit(i) | bit(j), kAll) < survey.set().count) continue;
        const auto& a = conditions[i].relax;
        const auto& b = conditions[j].relax;
        add({named(survey) + conditions[i].remedy + " and " + conditions[j].remedy,
             !a || !b ? std::function<void(PlacementRequest&)>() : [a, b](PlacementRequest& changed) {
               a(changed);
               b(changed);
             }},
            bit(i) | bit(j));
      }
    }
    // A smaller gang with a dropped condition is better than no remedy.
    const bool none = remedies_.empty();
    for (std::size_t i = 0; none && i < conditions.size(); ++i) {
      if (conditions[i].relax && conditions[i].counts())
        fewer(survey, bit(i), " and " + conditions[i].remedy, conditions[i].relax);
    }
  }

  /// A demand that can be dropped: a condition of a set, or a resource.
  struct Piece {
    const FeasibilityCounts* survey = nullptr;
    std::size_t condition = 0;
    unsigned resource = 0;
    [[nodiscard]] std::string words() const {
      return resource != 0 ? words_of(survey->set(), resource) : survey->conditions()[condition].words;
    }
  };

  /// Whether the gang still does not fit without these.
  [[nodiscard]] bool fails_without(const std::vector<Piece>& pieces) const {
    PlacementRequest changed = asked_;
    Conditions dropped = 0;
    unsigned uncounted = 0;
    for (const Piece& piece : pieces) {
      uncounted |= piece.resource;
      if (piece.resource != 0) {
        leave_out(changed.pod_sets[piece.survey->position()].shape, piece.resource);
        continue;
      }
      const auto& relax = piece.survey->conditions()[piece.condition].relax;
      dropped |= Conditions{1} << piece.condition;
      if (relax) relax(changed);
    }
    return !fits(changed, dropped, uncounted);
  }

  [[nodiscard]] Diagnosis by_decisions() {
    const auto near = trial_.near(asked_, free_capacity_);
    if (near && near->pod_set.empty() && !near->conflict.empty()) return *near;
    std::vector<Piece> needed;
    for (const FeasibilityCounts& survey : surveys_) {
      for (const unsigned resource : kResources) {
        if (!near && alone() && survey.asks(resource)) needed.push_back({&survey, 0, resource});
      }
    }
    for (const FeasibilityCounts& survey : surveys_) {
      for (std::size_t i = 0; i < survey.conditions().size(); ++i) {
        const Condition& condition = survey.conditions()[i];
        if (condition.counts() && (condition.relax || alone())) needed.push_back({&survey, i, 0});
      }
    }
    // If that would take too long, only the reason of the placement is returned.
    if (evaluations_ + price() * std::ssize(needed) > kMaxEvaluations) needed.clear();
    // A demand that can be dropped together with all earlier dropped ones is not part of the conflict.
    std::vector<Piece> without;
    std::erase_if(needed, [&](const Piece& piece) {
      without.push_back(piece);
      if (fails_without(without)) return true;
      without.pop_back();
      return false;
    });
    Diagnosis out;
    out.pod_set = near ? near->pod_set : asked_.pod_sets.front().name;
    if (!needed.empty()) out.pod_set = needed.front().survey->set().name;
    for (const Piece& piece : needed) out.conflict.push_back(named(*piece.survey) + piece.words());
    const bool requests_topology =
        std::ranges::any_of(asked_.pod_sets, [](const PodSet& set) { return !set.topology.none(); });
    if (near && (requests_topology || out.conflict.empty()))
      out.conflict.insert(out.conflict.end(), near->conflict.begin(), near->conflict.end());
    if (out.conflict.empty()) {
      out.conflict = {
          trial_.place(asked_, free_capacity_).shortfall.reason};  // no plan, so `free_capacity` is unchanged
    }
    if (near) {
      for (const Remedy& remedy : near->remedies) add(remedy, 0);
    }
    for (const FeasibilityCounts& survey : surveys_) {
      if (!near) fewer(survey, 0, "");
      remedy(survey);
    }
    out.remedies = std::move(remedies_);
    return out;
  }

  const PlacementRequest& asked_;
  FreeCapacity& free_capacity_;
  const Trial& trial_;
  std::vector<FeasibilityCounts> surveys_;
  std::vector<Remedy> remedies_;
  int tries_ = 0;
  mutable std::int64_t evaluations_ = 0;
};

}  // namespace

Diagnosis diagnose_request(const PlacementRequest& request, FreeCapacity& free_capacity, const Trial& trial) {
  return Search(request, free_capacity, trial).found();
}

}  // namespace qm::placement
