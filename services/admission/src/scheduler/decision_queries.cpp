// Queries: what blocks a workload, and what would admit it.
#include "qm/admission/kueue/any_fit.hpp"
#include "scheduler/decisions.hpp"
#include "scheduler/pool_scheduler.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

bool concerns_topology(const kueue::Why& why) {
  using Kind = kueue::Why::Kind;
  using Refused = kueue::Refusal::Why;
  switch (why.kind) {
    case Kind::kTopologyPlacementFailed:
    case Kind::kNoTopology:
    case Kind::kNoTopologies:
    case Kind::kSeveralTopologies:
      return true;
    case Kind::kRefused:
      return why.refusal.why == Refused::kNoTopology || why.refusal.why == Refused::kUnknownTopology ||
             why.refusal.why == Refused::kNoLevel || why.refusal.why == Refused::kOnlyTopology;
    default:
      return false;
  }
}

}  // namespace

std::optional<std::pair<kueue::QuotaState*, kueue::Work>> Decisions::seen(const Workload& w) const {
  const auto where = queues_.find(w.cluster_queue);
  if (where == queues_.end()) return std::nullopt;
  const WorkloadEntry* found = entries_.find(*w.spec.uid);
  WorkloadEntry entry = found == nullptr ? WorkloadEntry{} : *found;
  if (entry.pattern == nullptr) entry.pattern = patterns_.of(w.spec, names_, nodes_);
  entry.node = where->second.node;
  return std::pair(&scheduler(where->second.tree).quota(), work_of(w, entry));
}

bool Decisions::refuses(const Spec& spec, const Flavors& flavors) const {
  for (const auto& set : patterns_.of(spec, names_, nodes_)->pod_sets) {
    const auto chosen = flavors.find(set.name);
    if (chosen == flavors.end()) continue;
    for (const auto& no : set.refused) {
      const FlavorName name(names_.flavors[no.flavor]);
      if (std::ranges::any_of(chosen->second, [&](const auto& one) { return one.second == name; })) return true;
    }
  }
  return false;
}

std::vector<QuotaShortfall> Decisions::shortfalls(const Workload& w) const {
  std::vector<QuotaShortfall> out;
  // Whether the amount would be available without the borrowing limit of the queue.
  const auto without_limit = [&](const auto& seen_as, const QuotaShortfall& s) {
    const auto& tree = seen_as.first->tree;
    const auto node = seen_as.second.queue;
    const auto& cells = names_.cells_of(queues_.at(w.cluster_queue).tree);
    const auto cell = cells.find({s.flavor, s.resource});
    if (node == 0 || cell == cells.end() || !tree.quota(node, cell->second).borrowing_limit) return false;
    const auto there =
        kueue::plus(tree.local_available(node, cell->second), tree.left(tree.parent(node), cell->second));
    return s.requested <= there;
  };
  // The available amount is negative if quota was lowered below usage.
  const auto left_of = [&](const auto& seen_as, const QuotaShortfall& s) {
    const auto& cells = names_.cells_of(queues_.at(w.cluster_queue).tree);
    const auto cell = cells.find({s.flavor, s.resource});
    return cell == cells.end() ? kueue::kUnlimited : seen_as.first->tree.left(seen_as.second.queue, cell->second);
  };
  const auto as_seen = seen(w);
  if (!as_seen) return out;
  auto& [at, work] = *as_seen;
  if (const auto* pool = pool_of(w.cluster_queue))
    return pool_shortfalls(queues_.at(w.cluster_queue).tree, *pool, work);
  auto& field = *at;
  if (kueue::any_fit(field, work)) return out;
  const auto made = kueue::explain(field, work);
  for (std::size_t i = 0; i < made.sets.size(); ++i) {
    for (const auto& why : made.sets[i].whys) {
      QuotaShortfall s;
      s.pod_set = work.pod_sets[i].name;
      s.flavor = FlavorName(why.kind == kueue::Why::Kind::kNotCovered ? "" : names_.flavors[why.flavor]);
      if (concerns_topology(why)) {
        s.kind = QuotaShortfall::Kind::kTopology;
        s.detail = kueue::to_string(why, names_.flavors, names_.resources);
        out.push_back(std::move(s));
        continue;
      }
      const auto asked_of = [&](kueue::Resource resource) {
        const auto& each = work.pod_sets[i].each;
        const auto one = std::ranges::find(each, resource, [](const auto& request) { return request.first; });
        return one == each.end() ? work.pod_sets[i].count : one->second * work.pod_sets[i].count;
      };
      if (why.kind != kueue::Why::Kind::kRefused) s.resource = names_.resources[why.resource];
      switch (why.kind) {
        case kueue::Why::Kind::kRefused:
          s.kind = why.refusal.why == kueue::Refusal::Why::kNotFound ? QuotaShortfall::Kind::kFlavorMissing
                   : why.refusal.why == kueue::Refusal::Why::kTaint  ? QuotaShortfall::Kind::kTaint
                                                                     : QuotaShortfall::Kind::kSelector;
          s.detail = why.refusal.detail;
          break;
        case kueue::Why::Kind::kNotCovered:
          s.kind = QuotaShortfall::Kind::kNotCovered;
          s.requested = asked_of(why.resource);
          break;
        case kueue::Why::Kind::kExceedsMax:
          s.kind = QuotaShortfall::Kind::kNeverFits;
          s.requested = why.earlier + why.asked;
          s.available = why.most;
          break;
        case kueue::Why::Kind::kInsufficient:
          s.requested = why.earlier + asked_of(why.resource);
          s.available = std::min(s.requested - why.asked, left_of(*as_seen, s));
          if (without_limit(*as_seen, s)) s.kind = QuotaShortfall::Kind::kBorrowingLimit;
          break;
        default:
          continue;
      }
      out.push_back(std::move(s));
    }
  }
  // Pod sets that do not fit by waiting come first.
  const auto helpless = [&](const QuotaShortfall& s) {
    return std::ranges::none_of(out, [&](const QuotaShortfall& other) {
      return other.pod_set == s.pod_set &&
             (other.kind == QuotaShortfall::Kind::kQuota || other.kind == QuotaShortfall::Kind::kBorrowingLimit);
    });
  };
  auto sorted = out;
  std::ranges::stable_partition(sorted, helpless);
  return sorted;
}

std::vector<QuotaShortfall> Decisions::scale_up_shortfalls(const Workload& w, const Usage& more) const {
  std::vector<QuotaShortfall> out;
  const auto where = queues_.find(w.cluster_queue);
  if (where == queues_.end()) return out;
  const auto [tree_at, node] = where->second;
  const auto& tree = scheduler(tree_at).quota().tree;
  const auto& cells = names_.cells_of(tree_at);
  for (const auto& [at, amount] : more) {
    QuotaShortfall s;
    s.pod_set = w.spec.pod_sets[0].name;
    s.flavor = at.flavor;
    s.resource = at.resource;
    s.requested = amount;
    const auto cell = cells.find(at);
    if (cell == cells.end()) {  // the queue no longer has that quota
      s.kind = QuotaShortfall::Kind::kNotCovered;
      out.push_back(std::move(s));
      continue;
    }
    s.available = tree.left(node, cell->second);
    if (amount <= s.available) continue;
    const auto held = w.usage.find(at);
    const auto in_all = kueue::plus(amount, held == w.usage.end() ? 0 : held->second);
    if (in_all > tree.potential(node, cell->second)) {
      s.kind = QuotaShortfall::Kind::kNeverFits;
      s.requested = in_all;
      s.available = tree.potential(node, cell->second);
    } else if (node != 0 && tree.quota(node, cell->second).borrowing_limit &&
               amount <=
                   kueue::plus(tree.local_available(node, cell->second), tree.left(tree.parent(node), cell->second))) {
      s.kind = QuotaShortfall::Kind::kBorrowingLimit;
    }
    out.push_back(std::move(s));
  }
  return out;
}

std::vector<QuotaRemedy> Decisions::quota_remedies(const Workload& w) const {
  std::vector<QuotaRemedy> out;
  const auto as_seen = seen(w);
  if (!as_seen) return out;
  const auto& [field, work] = *as_seen;
  const int tree = queues_.at(w.cluster_queue).tree;
  if (const auto* pool = pool_of(w.cluster_queue)) {
    const auto job = pool->job_of(work);
    auto ends = job ? pool->pool().holders_to_finish(*job) : std::vector<int>();
    if (ends.empty()) return out;
    auto& end = out.emplace_back();
    end.kind = kueue::QuotaRemedy::Kind::kVictims;
    for (const int id : ends) end.works.push_back(uid_of(id));
    return out;
  }
  for (const auto& one : kueue::quota_remedies(*field, work)) {
    auto& named = out.emplace_back();
    named.kind = one.kind;
    named.more = names_.usage_of(tree, one.more);
    named.priority = one.priority;
    for (const int id : one.works) named.works.push_back(uid_of(id));
    switch (one.kind) {
      case kueue::QuotaRemedy::Kind::kFlavor:
        named.flavor = FlavorName(names_.flavors[one.refusal.flavor]);
        (one.refusal.why == kueue::Refusal::Why::kTaint ? named.taint : named.label) = one.refusal.detail;
        break;
      case kueue::QuotaRemedy::Kind::kFewerPods:
        named.pod_set = work.pod_sets[one.set].name;
        named.pods = one.count;
        break;
      default:
        break;
    }
  }
  return out;
}

std::vector<WorkloadUid> Decisions::awaited(const Workload& w) const {
  std::vector<WorkloadUid> out;
  const WorkloadEntry* entry = entries_.find(*w.spec.uid);
  if (entry == nullptr || entry->tree < 0) return out;
  if (w.claim && !w.claim->victims.empty()) return w.claim->victims;
  if (const auto* pool = pool_of(w.cluster_queue)) {
    if (!w.claim) return out;
    for (const int id : pool->pool().leaving()) out.push_back(uid_of(id));
    return out;
  }
  if (w.claim) return out;
  auto& field = scheduler(entry->tree).quota();
  if (!kueue::fits_once_they_left(field, work_of(w, *entry))) return out;
  for (const auto& holders : field.holders) {
    for (const auto* one : holders) {
      if (one->evicted) out.push_back(uid_of(one->id));
    }
  }
  return out;
}

}  // namespace qm::admission
