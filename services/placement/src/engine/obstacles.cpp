// Every node is seen once: which conditions it fails, as a mask, and how many pods each resource would let it take. All questions
// after that are sums over nodes: how many pods fit if these conditions are dropped and that resource is not counted.
#include "qm/placement/obstacles.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

namespace qm::placement {
namespace {

constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMostConditions = 24;  // what is seen behind these counts as the last of them
constexpr std::size_t kMostWays = 8;

enum Resource : unsigned { kCpu = 1, kMemory = 2, kGpu = 4, kOther = 8, kPods = 16, kAll = 31 };
constexpr std::array<unsigned, 5> kResources{kGpu, kCpu, kMemory, kOther, kPods};
using Conditions = std::uint32_t;

std::int64_t times(std::int64_t free, std::int64_t each) {
  return each > 0 ? std::clamp<std::int64_t>(free / each, 0, kAnyNumber) : kAnyNumber;
}

/// A condition that a pod puts to nodes, and how it can be lifted.
struct Condition {
  std::string words;                    // of the demand
  std::string lifted;                   // of the change
  std::function<void(PodShape&)> lift;  // none: not the pod's to lift
};

class Survey {
 public:
  Survey(const PodSet& set, const Rooms& rooms) : set_(set), wanted_(counted(set.shape)) {
    for (const auto& [key, value] : set.shape.node_selector) {
      add("selector/" + key,
          {fmt::format("selector {}={}", key, value), fmt::format("without selector {}={}", key, value),
           [key = key](PodShape& shape) { shape.node_selector.erase(key); }});
    }
    for (const auto& [name, room] : rooms) look(room);
    for (const auto& seen : nodes_) {
      auto& sums = buckets_[seen.failed];
      for (unsigned counted = 0; counted <= kAll; ++counted) sums[counted] += pods_on(seen, counted);
    }
  }

  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] const std::vector<Condition>& conditions() const { return conditions_; }
  [[nodiscard]] bool asks(unsigned resource) const {
    switch (resource) {
      case kCpu:
        return set_.shape.cpu_milli > 0;
      case kMemory:
        return set_.shape.memory_bytes > 0;
      case kGpu:
        return set_.shape.gpu.whole > 0 || set_.shape.gpu.milli > 0;
      case kPods:
        return limited_;
      default:
        return !wanted_.empty();
    }
  }
  /// Pods that fit on nodes that fail none but the dropped conditions, by the resources that are counted.
  [[nodiscard]] std::int64_t pods(Conditions dropped, unsigned counted) const {
    std::int64_t sum = 0;
    for (const auto& [failed, sums] : buckets_) sum += (failed & ~dropped) == 0 ? sums[counted] : 0;
    return sum;
  }
  /// The largest amount, below what is asked, with which all pods fit; 0 where none does.
  [[nodiscard]] std::int64_t largest(unsigned resource) const {
    const GpuShape& gpu = set_.shape.gpu;
    const std::int64_t asked = resource == kCpu      ? set_.shape.cpu_milli
                               : resource == kMemory ? set_.shape.memory_bytes
                               : gpu.whole > 0       ? gpu.whole
                                                     : gpu.milli;
    std::int64_t fits = 0, too_much = asked;
    while (too_much - fits > 1) {
      const auto middle = fits + (too_much - fits) / 2;
      std::int64_t sum = 0;
      for (const auto& seen : nodes_) {
        if (seen.failed != 0) continue;
        sum += std::min(pods_on(seen, kAll & ~resource), pods_of(seen, resource, middle));
      }
      (sum >= set_.count ? fits : too_much) = middle;
    }
    return fits;
  }

 private:
  struct Seen {
    Conditions failed = 0;
    const Room* room = nullptr;
    std::array<std::int64_t, 5> by{};  // pods by CPU, memory, GPU, others, and how many it may run
  };

  Conditions add(const std::string& key, Condition condition) {
    const auto known = std::ranges::find(keys_, key);
    if (known == keys_.end() && keys_.size() < kMostConditions) {
      keys_.push_back(key);
      conditions_.push_back(std::move(condition));
      return Conditions{1} << (keys_.size() - 1);
    }
    return Conditions{1} << (known == keys_.end() ? kMostConditions - 1
                                                  : static_cast<std::size_t>(known - keys_.begin()));
  }

  void look(const Room& room) {
    Seen seen;
    seen.room = &room;
    const auto& shape = set_.shape;
    if (!room.usable)
      seen.failed |= add("state", {"nodes in service", "with the nodes back in service that are not", {}});
    Conditions bit = 1;
    for (const auto& [key, value] : shape.node_selector) {
      const auto label = room.facts->labels.find(key);
      if (label == room.facts->labels.end() || label->second != value) seen.failed |= bit;
      bit <<= 1;
    }
    for (const Taint& taint : room.facts->taints) {
      if (untolerated({taint}, shape.tolerations) == nullptr) continue;
      const auto text = fmt::format("{}{}{}:{}", taint.key, taint.value.empty() ? "" : "=", taint.value, taint.effect);
      seen.failed |= add("taint/" + text,
                         {"no toleration of " + text, "with taint " + text + " tolerated", [taint](PodShape& pod) {
                            pod.tolerations.push_back({taint.key, "Equal", taint.value, taint.effect});
                          }});
    }
    const auto& models = shape.gpu.models;
    const auto& model = room.facts->model;
    if (!shape.gpu.none() && !models.empty() && std::ranges::find(models, model) == models.end()) {
      seen.failed |=
          add("model/" + model, {fmt::format("GPU model {}", fmt::join(models, " or ")),
                                 model.empty() ? "with any GPU model" : fmt::format("with GPU model {} too", model),
                                 [model](PodShape& pod) {
                                   if (model.empty()) return pod.gpu.models.clear();
                                   pod.gpu.models.push_back(model);
                                   std::ranges::sort(pod.gpu.models);
                                 }});
    }
    seen.by = {times(room.cpu_milli, shape.cpu_milli), times(room.memory_bytes, shape.memory_bytes), kAnyNumber,
               kAnyNumber, times(room.pods, 1)};
    limited_ = limited_ || room.facts->pods;
    if (shape.gpu.whole > 0) seen.by[2] = pods_of(seen, kGpu, shape.gpu.whole);
    if (shape.gpu.milli > 0) seen.by[2] = pods_of(seen, kGpu, shape.gpu.milli);
    for (const auto& [resource, amount] : wanted_) {
      const auto free = room.extended.find(resource);
      seen.by[3] = std::min(seen.by[3], times(free == room.extended.end() ? 0 : free->second, amount));
    }
    nodes_.push_back(seen);
  }
  [[nodiscard]] static std::int64_t pods_on(const Seen& seen, unsigned counted) {
    std::int64_t pods = kAnyNumber;
    for (std::size_t i = 0; i < seen.by.size(); ++i) {
      if ((counted >> i & 1) != 0) pods = std::min(pods, seen.by[i]);
    }
    return pods;
  }
  [[nodiscard]] std::int64_t pods_of(const Seen& seen, unsigned resource, std::int64_t each) const {
    if (resource == kCpu) return times(seen.room->cpu_milli, each);
    if (resource == kMemory) return times(seen.room->memory_bytes, each);
    if (set_.shape.gpu.whole > 0) return times(seen.room->idle_gpus(), each);
    std::int64_t shares = 0;
    for (const auto free : seen.room->free_milli) shares += free / each;
    return shares;
  }

  const PodSet& set_;
  const std::map<std::string, std::int64_t> wanted_;
  std::vector<std::string> keys_;
  std::vector<Condition> conditions_;
  std::vector<Seen> nodes_;
  bool limited_ = false;  // some node says how many pods it may run
  std::map<Conditions, std::array<std::int64_t, kAll + 1>> buckets_;
};

std::string cpus(std::int64_t milli) {
  return milli % 1000 == 0 ? fmt::format("{} CPUs", milli / 1000) : fmt::format("{}m CPU", milli);
}
std::string gpus(const GpuShape& gpu, std::int64_t amount) {
  if (gpu.milli > 0) return fmt::format("{} milli of a GPU", amount);
  return fmt::format("{} GPU{}", amount, amount == 1 ? "" : "s");
}
std::string amount_of(const PodShape& shape, unsigned resource, std::int64_t amount) {
  switch (resource) {
    case kCpu:
      return cpus(amount);
    case kMemory:
      return fmt::format("{} MiB of memory", amount >> 20);
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

/// The smallest set of demands that no node set here meets, tried by size.
std::vector<std::string> conflict_in(const Survey& survey, const PodSet& set) {
  if (survey.nodes() == 0) return {"there are no nodes"};
  std::vector<std::pair<Conditions, unsigned>> demands;
  std::vector<std::string> words;
  for (const unsigned resource : kResources) {
    if (!survey.asks(resource)) continue;
    const auto& gpu = set.shape.gpu;
    const auto amount = resource == kCpu      ? set.shape.cpu_milli
                        : resource == kMemory ? set.shape.memory_bytes
                        : gpu.milli > 0       ? gpu.milli
                                              : gpu.whole;
    demands.emplace_back(0, resource);
    words.push_back(resource == kPods
                        ? fmt::format("{} pods beside those that nodes run", set.count)
                        : fmt::format("{} for each of {} pods", amount_of(set.shape, resource, amount), set.count));
  }
  Conditions conditions = 0;
  for (std::size_t i = 0; i < survey.conditions().size(); ++i) {
    const auto& text = survey.conditions()[i].words;
    // Models that are not allowed are one demand, however many there are.
    if (const auto same = std::ranges::find(words, text); same != words.end()) {
      demands[static_cast<std::size_t>(same - words.begin())].first |= Conditions{1} << i;
    } else {
      demands.emplace_back(Conditions{1} << i, 0U);
      words.push_back(text);
    }
    conditions |= Conditions{1} << i;
  }
  const auto met = [&](std::uint32_t chosen) {
    Conditions kept = 0;
    unsigned counted = 0;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      kept |= demands[i].first;
      counted |= demands[i].second;
    }
    return survey.pods(conditions & ~kept, counted) >= set.count;
  };
  const auto all = (std::uint32_t{1} << demands.size()) - 1;
  std::uint32_t least = all;
  if (demands.size() <= 12) {
    for (std::uint32_t chosen = 1; chosen < all; ++chosen) {
      if (std::popcount(chosen) < std::popcount(least) && !met(chosen)) least = chosen;
    }
  } else {
    // Too many to try them all: one after the other is left out where the rest is still too much.
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

std::vector<Way> ways_for(const Survey& survey, const PodSet& set) {
  std::vector<Way> out;
  if (const auto fitting = survey.pods(0, kAll); fitting > 0) {
    out.push_back({fmt::format("with {} pod{} instead of {}", fitting, fitting == 1 ? "" : "s", set.count),
                   [fitting](PodSet& changed) { changed.count = static_cast<std::int32_t>(fitting); }});
  }
  for (const unsigned resource : {kGpu, kCpu, kMemory}) {
    if (!survey.asks(resource) || survey.pods(0, kAll & ~resource) < set.count) continue;
    const auto amount = survey.largest(resource);
    if (amount < 1) continue;
    out.push_back({fmt::format("with at most {} a pod", amount_of(set.shape, resource, amount)),
                   [resource, amount](PodSet& changed) {
                     auto& gpu = changed.shape.gpu;
                     (resource == kCpu      ? changed.shape.cpu_milli
                      : resource == kMemory ? changed.shape.memory_bytes
                      : gpu.milli > 0       ? gpu.milli
                                            : gpu.whole) = amount;
                   }});
  }
  const auto& conditions = survey.conditions();
  const auto lifted = [&](std::size_t i) { return Conditions{1} << i; };
  std::vector<Way> single, twice;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    if (survey.pods(lifted(i), kAll) < set.count) continue;
    const auto& lift = conditions[i].lift;
    single.push_back({conditions[i].lifted,
                      !lift ? std::function<void(PodSet&)>() : [lift](PodSet& changed) { lift(changed.shape); }});
  }
  for (std::size_t i = 0; single.empty() && i < conditions.size(); ++i) {
    for (std::size_t j = i + 1; j < conditions.size(); ++j) {
      if (survey.pods(lifted(i) | lifted(j), kAll) < set.count) continue;
      const auto& a = conditions[i].lift;
      const auto& b = conditions[j].lift;
      twice.push_back({conditions[i].lifted + " and " + conditions[j].lifted,
                       !a || !b ? std::function<void(PodSet&)>() : [a, b](PodSet& changed) {
                         a(changed.shape);
                         b(changed.shape);
                       }});
    }
  }
  for (auto* more : {&single, &twice}) std::ranges::move(*more, std::back_inserter(out));
  // A smaller gang elsewhere is better than nothing.
  for (std::size_t i = 0, none = out.size(); none == 0 && i < conditions.size(); ++i) {
    const auto fitting = survey.pods(lifted(i), kAll);
    if (fitting < 1) continue;
    const auto& lift = conditions[i].lift;
    out.push_back({fmt::format("with {} pod{} instead of {} and {}", fitting, fitting == 1 ? "" : "s", set.count,
                               conditions[i].lifted),
                   !lift ? std::function<void(PodSet&)>() : [lift, fitting](PodSet& changed) {
                     lift(changed.shape);
                     changed.count = static_cast<std::int32_t>(fitting);
                   }});
  }
  return out;
}

std::vector<Way> first_of(std::vector<Way> ways) {
  if (ways.size() > kMostWays) ways.resize(kMostWays);
  return ways;
}

}  // namespace

Obstacles obstacles_of(const std::vector<PodSet>& pod_sets, const Rooms& rooms, const Preference& preference) {
  Obstacles out;
  // One pod set fits if and only if enough of its pods do: no search, and nothing to copy.
  if (pod_sets.size() == 1) {
    const Survey survey(pod_sets[0], rooms);
    if (survey.pods(0, kAll) >= pod_sets[0].count) return out;
    return {pod_sets[0].name, conflict_in(survey, pod_sets[0]), first_of(ways_for(survey, pod_sets[0]))};
  }
  Rooms left = rooms;
  std::vector<const PodSet*> order;
  for (const auto& set : pod_sets) order.push_back(&set);
  std::ranges::stable_sort(order, std::greater<>(), [](const PodSet* set) { return set->shape.gpu.total_milli(); });
  const auto stuck =
      std::ranges::find_if(order, [&](const PodSet* set) { return !place_gang({*set}, left, preference).plan; });
  if (stuck == order.end()) return out;
  const PodSet& set = **stuck;
  out.pod_set = set.name;
  const Survey survey(set, left);
  out.conflict = conflict_in(survey, set);
  for (const auto& way : ways_for(survey, set)) {
    if (out.ways.size() == kMostWays) break;
    if (!way.change) continue;  // it cannot be tried
    auto changed = pod_sets;
    way.change(changed[static_cast<std::size_t>(*stuck - pod_sets.data())]);
    Rooms tried = rooms;
    if (place_gang(changed, tried, preference).plan) out.ways.push_back(way);
  }
  return out;
}

}  // namespace qm::placement
