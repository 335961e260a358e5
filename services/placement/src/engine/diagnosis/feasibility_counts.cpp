#include "engine/diagnosis/feasibility_counts.hpp"

#include "qm/base/lookup.hpp"
#include "qm/kube_rules/text.hpp"
#include "qm/placement/numa.hpp"
#include "qm/placement/topology_placement.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace qm::placement {
namespace {

constexpr std::size_t kMaxConditions = 24;  // further conditions are merged into the last one
constexpr std::size_t kMaxDomains = 2000;   // with more domains, the limit by domain is not counted

std::int64_t times(std::int64_t free, std::int64_t each) {
  return each > 0 ? std::clamp<std::int64_t>(free / each, 0, kAnyNumber) : kAnyNumber;
}

/// Removes a required node label, from all places in the rules that require it.
void drop_label(rules::PodTemplate& like, const std::string& key) {
  like.rules.node_selector.erase(key);
  if (!like.rules.required) return;
  for (auto& term : *like.rules.required) {
    std::erase_if(term.labels, [&](const rules::Requirement& request) { return request.key == key; });
    if (!term.labels.empty() || !term.fields.empty()) continue;
    like.rules.required.reset();  // one of the terms requires nothing else
    return;
  }
}

}  // namespace

void edit_rules(PlacementRequest& request, std::size_t position, const std::function<void(rules::PodTemplate&)>& edit) {
  if (position >= request.rules.size()) return;
  auto like = rules::template_of(request.rules[position]);
  if (!like) return;
  edit(*like);
  request.rules[position] = rules::text_of(*like);
}

FeasibilityCounts::FeasibilityCounts(const PlacementRequest& request, std::size_t position,
                                     const FreeCapacity& free_capacity, const Demands& demands)
    : set_(request.pod_sets[position]), position_(position), wanted_(counted(set_.shape)) {
  for (const auto& [key, value] : set_.shape.node_selector) {
    add("selector/" + key, [&, key = key, value = value]() -> Condition {
      return {fmt::format("selector {}={}", key, value), fmt::format("without selector {}={}", key, value),
              [key, position](PlacementRequest& changed) {
                changed.pod_sets[position].shape.node_selector.erase(key);
                edit_rules(changed, position, [&](rules::PodTemplate& like) { drop_label(like, key); });
              }};
    });
  }
  const std::size_t own = conditions_.size();
  for (const Demand& demand : demands.all) {
    const auto bit = add(fmt::format("demand/{}", keys_.size()), [&]() -> Condition {
      return {demand.words, demand.remedy, demand.relax, demand.moves, demand.one_by};
    });
    if (demand.one_by == kHostname) one_each_ |= bit;
  }
  weighs_ = demands.weighs;
  const auto& gpu = set_.shape.gpu;
  if (set_.shape.cpu_milli > 0) asked_ |= kCpu;
  if (set_.shape.memory_bytes > 0) asked_ |= kMemory;
  if (gpu.whole > 0 || gpu.milli > 0) asked_ |= kGpu;
  if (!wanted_.empty()) asked_ |= kOther;
  if (one_each_ != 0) asked_ |= kOneEach;
  nodes_.reserve(free_capacity.size());
  for (const auto& [name, capacity] : free_capacity) {
    look(name, capacity);
    if (!demands.failed) continue;
    for (auto failed = demands.failed(name, capacity); failed != 0; failed &= failed - 1) {
      const auto at = std::min(own + static_cast<std::size_t>(std::countr_zero(failed)), kMaxConditions - 1);
      nodes_.back().failed |= Conditions{1} << at;
    }
  }
  for (const Observed& seen : nodes_) {
    for (auto failed = seen.failed; failed != 0; failed &= failed - 1)
      conditions_[static_cast<std::size_t>(std::countr_zero(failed))].fails = true;
  }
  fill_buckets();
}

bool FeasibilityCounts::moves(Conditions dropped) const {
  for (std::size_t i = 0; i < conditions_.size(); ++i) {
    const bool in_force = (dropped >> i & 1) == 0;
    if (in_force && (conditions_[i].moves || !conditions_[i].one_by.empty())) return true;
  }
  return false;
}

std::int64_t FeasibilityCounts::sum_of(const Buckets& buckets, Conditions dropped, unsigned counted) {
  std::int64_t sum = 0;
  for (const auto& [failed, sums] : buckets) sum += (failed & ~dropped) == 0 ? sums[counted] : 0;
  return sum;
}

std::int64_t FeasibilityCounts::pods(Conditions dropped, unsigned counted) const {
  counted &= asked_;
  if ((one_each_ & ~dropped) == 0) counted &= ~static_cast<unsigned>(kOneEach);
  auto most = sum_of(buckets_, dropped, counted);
  for (const Domains& domains : domains_) {
    if ((domains.condition & ~dropped) == 0) continue;
    auto sum = sum_of(domains.unlabeled, dropped, counted);
    for (const auto& [kinds, values] : domains.values) {
      const bool takes = std::ranges::any_of(kinds, [&](const Domains::Kind& kind) {
        return (kind.first & ~dropped) == 0 && (kind.second & counted) == 0;
      });
      sum += takes ? values : 0;
    }
    most = std::min(most, sum);
  }
  return most;
}

std::int64_t FeasibilityCounts::largest(unsigned resource) const {
  const GpuShape& gpu = set_.shape.gpu;
  const std::int64_t request = resource == kCpu      ? set_.shape.cpu_milli
                               : resource == kMemory ? set_.shape.memory_bytes
                               : gpu.whole > 0       ? gpu.whole
                                                     : gpu.milli;
  std::int64_t fits = 0, too_much = request;
  while (too_much - fits > 1) {
    const auto middle = fits + (too_much - fits) / 2;
    std::int64_t sum = 0;
    for (const auto& seen : nodes_) {
      if (seen.failed != 0) continue;
      sum += std::min(pods_on(seen, asked_ & ~resource & ~static_cast<unsigned>(kAligned)),
                      pods_of(seen, resource, middle));
    }
    (sum >= set_.count ? fits : too_much) = middle;
  }
  return fits;
}

NodeCapacity FeasibilityCounts::without(const NodeCapacity& capacity, Conditions dropped, unsigned uncounted) const {
  NodeCapacity out = capacity;
  if ((dropped & out_) != 0) out.usable = true;
  if ((dropped & alone_) != 0) out.alone = false;
  if ((uncounted & kPods) != 0) out.pods = kAnyNumber;
  if ((uncounted & kAligned) != 0) out.zones.clear();
  return out;
}

FreeCapacity FeasibilityCounts::free_capacity(Conditions dropped, unsigned uncounted, const PodShape& shape,
                                              std::optional<std::int64_t> enough) const {
  std::vector<const Observed*> some;
  std::int64_t sum = 0;
  for (const Observed& seen : nodes_) {
    if ((seen.failed & ~dropped) != 0) continue;
    const bool as_it_is = (uncounted & (kPods | kAligned)) == 0;
    const auto fits = pods_that_fit(as_it_is ? *seen.capacity : without(*seen.capacity, dropped, uncounted), shape);
    if (fits == 0) continue;
    some.push_back(&seen);
    sum += fits;
    if (enough && sum >= *enough) break;
  }
  FreeCapacity out;
  const auto left_out = enough ? 1 : (some.size() + kMaxTried - 1) / kMaxTried;
  for (std::size_t i = 0; i < some.size(); i += std::max<std::size_t>(left_out, 1))
    out.emplace_hint(out.end(), *some[i]->name, without(*some[i]->capacity, dropped, uncounted));
  return out;
}

template <class Make>
Conditions FeasibilityCounts::add(const std::string& key, Make&& make) {
  const auto known = std::ranges::find(keys_, key);
  if (known == keys_.end() && keys_.size() < kMaxConditions) {
    keys_.push_back(key);
    conditions_.push_back(make());
    return Conditions{1} << (keys_.size() - 1);
  }
  return Conditions{1} << (known == keys_.end() ? kMaxConditions - 1 : static_cast<std::size_t>(known - keys_.begin()));
}

Conditions FeasibilityCounts::untolerated_by(const Taint& taint) {
  const auto [known, fresh] = taints_.try_emplace(taint);
  if (!fresh || untolerated({taint}, set_.shape.tolerations) == nullptr) return known->second;
  const auto text = text_of(taint);
  return known->second = add("taint/" + text, [&, position = position_]() -> Condition {
           return {"no toleration of " + text, "with taint " + text + " tolerated",
                   [taint, position](PlacementRequest& changed) {
                     const Toleration more{taint.key, "Equal", taint.value, taint.effect};
                     changed.pod_sets[position].shape.tolerations.push_back(more);
                     edit_rules(changed, position,
                                [&](rules::PodTemplate& like) { like.rules.tolerations.push_back(more); });
                   }};
         });
}

Conditions FeasibilityCounts::not_of_model(const std::string& model) {
  const auto [known, fresh] = models_.try_emplace(model);
  const auto& models = set_.shape.gpu.models;
  if (!fresh || std::ranges::find(models, model) != models.end()) return known->second;
  return known->second = add("model/" + model, [&, position = position_]() -> Condition {
           return {fmt::format("GPU model {}", fmt::join(models, " or ")),
                   model.empty() ? "with any GPU model" : fmt::format("with GPU model {} too", model),
                   [model, position](PlacementRequest& changed) {
                     auto& gpu = changed.pod_sets[position].shape.gpu;
                     edit_rules(changed, position,
                                [](rules::PodTemplate& like) { drop_label(like, std::string(words::kGpuProduct)); });
                     if (model.empty()) return gpu.models.clear();
                     gpu.models.push_back(model);
                     std::ranges::sort(gpu.models);
                   }};
         });
}

void FeasibilityCounts::look(const NodeName& name, const NodeCapacity& capacity) {
  Observed seen;
  seen.name = &name;
  seen.capacity = &capacity;
  const auto& shape = set_.shape;
  if (!capacity.usable) {
    if (out_ == 0) {
      out_ = add("state", []() -> Condition { return {"nodes in service", "with all nodes back in service", {}}; });
    }
    seen.failed |= out_;
  }
  if (capacity.alone && !shape.gpu.none()) {
    if (alone_ == 0) {
      alone_ = add("alone", []() -> Condition {
        return {
            "nodes that are not exclusive to another gang", "with the nodes that are exclusive to another gang", {}};
      });
    }
    seen.failed |= alone_;
  }
  Conditions bit = 1;
  for (const auto& [key, value] : shape.node_selector) {
    const auto label = capacity.facts->labels.find(key);
    if (label == capacity.facts->labels.end() || label->second != value) seen.failed |= bit;
    bit <<= 1;
  }
  for (const Taint& taint : capacity.facts->taints) seen.failed |= untolerated_by(taint);
  if (!shape.gpu.none() && !shape.gpu.models.empty()) seen.failed |= not_of_model(capacity.facts->model);
  seen.by = {times(capacity.cpu_milli, shape.cpu_milli),
             times(capacity.memory_bytes, shape.memory_bytes),
             kAnyNumber,
             kAnyNumber,
             times(capacity.pods, 1),
             kAnyNumber,
             1};
  if (capacity.facts->pods) asked_ |= kPods;
  if (shape.gpu.whole > 0) seen.by[2] = pods_of(seen, kGpu, shape.gpu.whole);
  if (shape.gpu.milli > 0) seen.by[2] = pods_of(seen, kGpu, shape.gpu.milli);
  for (const auto& [resource, amount] : wanted_) {
    const auto free = capacity.extended.find(resource);
    seen.by[3] = std::min(seen.by[3], times(free == capacity.extended.end() ? 0 : free->second, amount));
  }
  if (!capacity.zones.empty()) {
    asked_ |= kAligned;
    // Limit by zones alone: how many of the pods that fit otherwise also fit the zones.
    const auto most = pods_on(seen, kAll & ~static_cast<unsigned>(kAligned | kOneEach));
    if (most > 0 && most < kAnyNumber) {
      const auto aligned = pods_that_align(capacity, shape, most);
      if (aligned < most) seen.by[5] = aligned;
    }
  }
  nodes_.push_back(seen);
}

void FeasibilityCounts::fill_buckets() {
  Sums most{};
  const auto add_to = [this, &most](Buckets& buckets, const Observed& seen) {
    auto& sums = buckets[seen.failed];
    for (unsigned counted = 0;; counted = ((counted | ~asked_) + 1) & asked_) {  // all subsets in ascending order
      const auto rest = counted & (counted - 1);
      const auto last = static_cast<std::size_t>(std::countr_zero(counted));
      most[counted] = counted == 0 ? kAnyNumber : std::min(most[rest], seen.by[last]);
      sums[counted] += most[counted];
      if (counted == asked_) break;
    }
  };
  for (const Observed& seen : nodes_) add_to(buckets_, seen);
  for (std::size_t i = 0; i < conditions_.size(); ++i) {
    const std::string& key = conditions_[i].one_by;
    if (key.empty() || key == kHostname) continue;
    Domains domains;
    domains.condition = Conditions{1} << i;
    Lookup<std::string, std::size_t> known;
    std::vector<std::vector<Domains::Kind>> kinds;  // by value
    for (const Observed& seen : nodes_) {
      const auto label = seen.capacity->facts->labels.find(key);
      if (label == seen.capacity->facts->labels.end()) {
        add_to(domains.unlabeled, seen);
        continue;
      }
      Domains::Kind kind{seen.failed, 0};
      for (std::size_t r = 0; r < seen.by.size(); ++r) kind.second |= seen.by[r] < 1 ? 1U << r : 0U;
      const auto value = known.emplace(label->second, kinds.size());
      if (value == kinds.size()) kinds.emplace_back();
      if (kinds.size() > kMaxDomains) break;
      if (std::ranges::find(kinds[value], kind) == kinds[value].end()) kinds[value].push_back(kind);
    }
    if (kinds.size() > kMaxDomains) continue;
    for (auto& of_value : kinds) {
      std::ranges::sort(of_value);
      ++domains.values[std::move(of_value)];
    }
    domains_.push_back(std::move(domains));
  }
}

std::int64_t FeasibilityCounts::pods_on(const Observed& seen, unsigned counted) {
  std::int64_t pods = kAnyNumber;
  for (std::size_t i = 0; i < seen.by.size(); ++i) {
    if ((counted >> i & 1) != 0) pods = std::min(pods, seen.by[i]);
  }
  return pods;
}

std::int64_t FeasibilityCounts::pods_of(const Observed& seen, unsigned resource, std::int64_t each) const {
  if (resource == kCpu) return times(seen.capacity->cpu_milli, each);
  if (resource == kMemory) return times(seen.capacity->memory_bytes, each);
  if (set_.shape.gpu.whole > 0) return times(seen.capacity->idle_gpus(), each);
  std::int64_t shares = 0;
  for (const auto free : seen.capacity->free_milli) shares += free / each;
  return shares;
}

}  // namespace qm::placement
