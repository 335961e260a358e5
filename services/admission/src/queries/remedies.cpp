// Finds what admits a pending workload. Candidates come from its current quota tree. Each is verified by what-if,
// with all workloads ahead of it.
#include "qm/admission/queries/remedies.hpp"

#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/admission/queue_order.hpp"
#include "qm/admission/scheduler/assignment.hpp"
#include "queries/simulation.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

using Kind = kueue::QuotaRemedy::Kind;

constexpr int kMostIncreases = 4;  ///< rounds in which a candidate is increased
constexpr int kMostAdded = 4;      ///< flavors that are tried for a queue
constexpr int kMostPairs = 6;      ///< first changes for which a second is searched
constexpr int kMostSeconds = 8;
constexpr std::size_t kMostPairsFound = 3;

std::string counted(std::size_t n) { return n == 1 ? "1 workload" : fmt::format("{} workloads", n); }

/// The quota to change; null if the spec of the queue does not have it.
Quota* quota_of(ClusterQueue& queue, const FlavorResource& at) {
  for (auto& group : queue.groups) {
    for (auto& flavor : group.flavors) {
      const auto quota = flavor.resources.find(at.resource);
      if (flavor.flavor == at.flavor && quota != flavor.resources.end()) return &quota->second;
    }
  }
  return nullptr;
}

/// The observed object of the workload, to be changed.
JobUpdated object_of(const Workload& w) {
  JobUpdated out;
  out.spec = w.spec;
  out.attempt = w.attempt;
  out.external_scheduler = w.external_scheduler;
  out.max_execution = w.max_execution;
  out.refused = w.refused();
  out.pods_expected = w.spec.pods_expected;
  out.waiting_time = w.waiting_time;
  return out;
}

JobUpdated finished(const Workload& w) {
  auto out = object_of(w);
  out.complete = true;
  return out;
}

class Search {
 public:
  Search(const Tables& rows, const Options& options, WorkloadUid uid, Instant now)
      : rows_(rows), options_(options), uid_(std::move(uid)), now_(now) {}

  /// Each single change that admits it; if there is none, pairs of changes.
  std::vector<Remedy> found() {
    single();
    if (out_.empty()) pairs();
    return std::move(out_);
  }

 private:
  void single() {
    before_ = played(rows_, options_, {}, now_).value_or(nullptr);
    const auto* w = before_ == nullptr ? nullptr : before_->find(uid_);
    if (w == nullptr || !explain(before_->state(), *w, now_).may_have_remedies) return;
    w_ = w;
    queue_ = before_->tables().cluster_queues.find(w->cluster_queue);
    const auto changes = quota_remedies(before_->state(), *w);
    more_quota(changes, Kind::kQuota);
    more_quota(changes, Kind::kBorrowingLimit);
    priority(changes);
    ends(changes);
    for (const auto& unlock : changes) {
      if (unlock.kind == Kind::kFlavor) other_nodes(unlock);
      if (unlock.kind == Kind::kFewerPods) fewer_pods(unlock);
    }
    missing_objects();
  }
  /// The second change of a pair is searched in the state after the first one alone, so it may be of any kind, also
  /// of the same object.
  void pairs() {
    std::set<std::string> known;
    auto firsts = std::exchange(not_enough_, {});  // trials of pairs add to it
    for (auto& first : firsts) {
      if (pairs_tried_++ == kMostPairs || out_.size() == kMostPairsFound) return;
      const auto after = played(rows_, options_, first.change, now_).value_or(nullptr);
      if (after == nullptr) continue;
      Search then(after->tables(), options_, uid_, now_);
      then.most_trials_ = kMostSeconds;
      then.single();
      for (auto& second : then.out_) {
        Remedy both{fmt::format("{}+{}", first.code, second.code),
                    fmt::format("{}; and {}", first.message, second.plain),
                    {},
                    both_of(first.change, second.change)};
        // Both orders of two changes are one remedy.
        if (!known.insert(std::min(first.code, second.code) + "+" + std::max(first.code, second.code)).second) continue;
        both.workloads = second.waits_for;
        both.waits_for = second.waits_for;
        const auto tried = played(rows_, options_, both.change, now_).value_or(nullptr);
        keep(std::move(both), tried.get());
        if (out_.size() == kMostPairsFound) return;
      }
    }
  }
  /// Objects of the second replace those of the first: they were built from the state with the first.
  static HypotheticalChange both_of(HypotheticalChange first, const HypotheticalChange& second) {
    const auto merge = [](auto& into, const auto& from, auto same) {
      for (const auto& one : from) {
        std::erase_if(into, [&](const auto& other) { return same(one, other); });
        into.push_back(one);
      }
    };
    const auto name = [](const auto& a, const auto& b) { return a.name == b.name; };
    merge(first.objects.cluster_queues, second.objects.cluster_queues, name);
    merge(first.objects.flavors, second.objects.flavors, name);
    merge(first.jobs, second.jobs, [](const JobUpdated& a, const JobUpdated& b) { return a.spec.uid == b.spec.uid; });
    return first;
  }

  /// Plays a change; null if it is invalid, or if the limit of trials is reached.
  std::unique_ptr<Engine> tried(const HypotheticalChange& change) {
    if (trials_ == most_trials_) return nullptr;
    ++trials_;
    return played(rows_, options_, change, now_).value_or(nullptr);
  }
  [[nodiscard]] bool admits(const Engine* after) const {
    const auto* w = after == nullptr ? nullptr : after->find(uid_);
    return w != nullptr && (w->phase == Phase::kAdmitted || w->phase == Phase::kQuotaReserved);
  }
  /// Keeps the change if it admits the workload, and describes its effects on other workloads.
  bool keep(Remedy remedy, const Engine* after) {
    if (!admits(after)) {
      if (after != nullptr) not_enough_.push_back(std::move(remedy));
      return false;
    }
    remedy.plain = remedy.message;
    remedy.waits_for = remedy.workloads;
    std::vector<WorkloadUid> preempted;
    for (const auto& one : differences(*before_, *after, now_)) {
      if (one.what == Consequence::What::kPreempted) preempted.push_back(one.workload.spec.uid);
      if (one.what == Consequence::What::kAdmitted && one.workload.spec.uid != uid_) ++remedy.others;
    }
    remedy.preempted = static_cast<int>(preempted.size());
    if (remedy.others > 0) remedy.message += fmt::format("; it admits {} more", counted(std::size_t(remedy.others)));
    if (!preempted.empty()) {
      remedy.message +=
          fmt::format("; {} then {} preempted", counted(preempted.size()), preempted.size() == 1 ? "is" : "are");
    }
    remedy.workloads.insert(remedy.workloads.end(), preempted.begin(), preempted.end());
    out_.push_back(std::move(remedy));
    return true;
  }
  bool attempt(Remedy remedy) {
    const auto after = tried(remedy.change);
    return keep(std::move(remedy), after.get());
  }
  static const QuotaRemedy* of_kind(const std::vector<QuotaRemedy>& changes, Kind kind) {
    const auto found = std::ranges::find(changes, kind, &QuotaRemedy::kind);
    return found == changes.end() ? nullptr : &*found;
  }
  /// What the workload still lacks of that kind after an insufficient change.
  [[nodiscard]] std::optional<QuotaRemedy> still(const Engine* after, Kind kind) const {
    const auto* w = after == nullptr ? nullptr : after->find(uid_);
    if (w == nullptr || w->phase != Phase::kPending) return std::nullopt;
    const auto changes = quota_remedies(after->state(), *w);
    const auto* one = of_kind(changes, kind);
    return one == nullptr ? std::nullopt : std::optional(*one);
  }

  /// `more`, plus the requests of the workloads ahead of it in its queue.
  [[nodiscard]] Usage with_those_ahead(Usage more) const {
    std::map<std::string, std::int64_t> ahead;
    for (const auto& [uid, other] : before_->tables().workloads) {
      if (!other.ready() || other.cluster_queue != w_->cluster_queue) continue;
      if (QueueOrder::of(*w_) <= QueueOrder::of(other)) continue;
      for (const auto& [resource, amount] : requests_of(other.spec))
        ahead[resource] = kueue::plus(ahead[resource], amount);
    }
    for (auto& [at, amount] : more) amount = kueue::plus(amount, ahead[at.resource]);
    return more;
  }
  void more_quota(const std::vector<QuotaRemedy>& changes, Kind kind) {
    const auto* unlock = of_kind(changes, kind);
    if (unlock == nullptr) return;
    const bool borrowing = kind == Kind::kBorrowingLimit;
    Usage more = unlock->more;
    for (int round = 0; round < kMostIncreases; ++round) {
      ClusterQueue raised = *queue_;
      std::string what;
      for (const auto& [at, amount] : more) {
        auto* quota = quota_of(raised, at);
        if (quota == nullptr || (borrowing && !quota->borrowing_limit)) return;
        auto& value = borrowing ? *quota->borrowing_limit : quota->nominal;
        const auto to = kueue::plus(value, amount);
        what += fmt::format("{}{} of {} in flavor {} from {} to {}", what.empty() ? "" : ", ",
                            borrowing ? "borrowingLimit" : "nominalQuota", at.resource, at.flavor,
                            show_amount(at.resource, value), show_amount(at.resource, to));
        value = to;
      }
      Remedy remedy{borrowing ? "RaiseBorrowingLimit" : "RaiseQuota",
                    fmt::format("raise in ClusterQueue {} {}", queue_->name, what),
                    {},
                    {}};
      remedy.change.objects.cluster_queues.push_back(std::move(raised));
      const auto after = tried(remedy.change);
      if (keep(std::move(remedy), after.get()) || after == nullptr) return;
      // Workloads ahead of it got what was added.
      const auto lacks = still(after.get(), kind);
      if (round == 0) {
        more = with_those_ahead(std::move(more));
      } else if (lacks) {
        for (const auto& [at, amount] : lacks->more) more[at] = kueue::plus(more[at], amount);
      } else {
        return;
      }
    }
  }

  [[nodiscard]] const PriorityClass* least_class(std::int64_t priority) const {
    const PriorityClass* least = nullptr;
    for (const auto& [key, one] : before_->tables().priority_classes) {
      if (one.value >= priority && (least == nullptr || one.value < least->value)) least = &one;
    }
    return least;
  }
  /// High enough to preempt, or to be the first of its queue, or both.
  void priority(const std::vector<QuotaRemedy>& changes) {
    std::set<std::int64_t> candidates;
    std::int64_t first = w_->spec.priority;
    for (const auto& [uid, other] : before_->tables().workloads) {
      if (other.ready() && other.cluster_queue == w_->cluster_queue)
        first = std::max<std::int64_t>(first, other.spec.priority);
    }
    if (queue_position(before_->state(), *w_) > 1) candidates.insert(first + 1);
    if (const auto* unlock = of_kind(changes, Kind::kPriority)) {
      candidates.insert(unlock->priority);
      if (queue_position(before_->state(), *w_) > 1)
        candidates.insert(std::max<std::int64_t>(unlock->priority, first + 1));
    }
    for (const auto value : candidates) {
      if (value > std::numeric_limits<std::int32_t>::max()) continue;
      const auto* least = least_class(value);
      auto object = object_of(*w_);
      object.spec.priority_class = least == nullptr ? "" : least->name;
      object.spec.priority = static_cast<std::int32_t>(value);
      Remedy remedy{"RaisePriority",
                    fmt::format("give it priority {} or more{}", value,
                                least == nullptr ? "" : fmt::format(", as class {} does", least->name)),
                    {},
                    {}};
      remedy.change.jobs.push_back(std::move(object));
      if (attempt(std::move(remedy))) return;
    }
  }

  void ends(const std::vector<QuotaRemedy>& changes) {
    const auto* unlock = of_kind(changes, Kind::kVictims);
    if (unlock == nullptr) return;
    auto works = unlock->works;
    for (int round = 0; round < kMostIncreases; ++round) {
      Remedy remedy{"End",
                    fmt::format("wait until {} {}, or end {}", counted(works.size()),
                                works.size() == 1 ? "ends" : "end", works.size() == 1 ? "it" : "them"),
                    works,
                    {}};
      for (const auto& uid : works) {
        const auto* other = before_->find(uid);
        if (other == nullptr || !other->holds_quota()) return;
        remedy.change.jobs.push_back(finished(*other));
      }
      const auto after = tried(remedy.change);
      if (keep(std::move(remedy), after.get())) return;
      const auto lacks = still(after.get(), Kind::kVictims);
      if (!lacks) return;
      for (const auto& uid : lacks->works) {
        if (std::ranges::find(works, uid) == works.end()) works.push_back(uid);
      }
    }
  }

  void other_nodes(const QuotaRemedy& unlock) {
    auto object = object_of(*w_);
    for (auto& set : object.spec.pod_sets) {
      if (unlock.taint.empty()) {
        set.shape.node_selector.erase(unlock.label);
      } else {
        set.shape.tolerations.push_back({unlock.taint, "Exists", "", ""});
      }
    }
    Remedy remedy =
        unlock.taint.empty()
            ? Remedy{"Relabel",
                     fmt::format("remove {} from the node selector: flavor {} has free quota", unlock.label,
                                 unlock.flavor),
                     {},
                     {}}
            : Remedy{"Tolerate",
                     fmt::format("tolerate the taint {}: flavor {} has free quota", unlock.taint, unlock.flavor),
                     {},
                     {}};
    remedy.change.jobs.push_back(std::move(object));
    attempt(std::move(remedy));
  }

  void fewer_pods(const QuotaRemedy& unlock) {
    auto object = object_of(*w_);
    const auto set = std::ranges::find(object.spec.pod_sets, unlock.pod_set, &PodSet::name);
    if (set == object.spec.pod_sets.end()) return;
    set->count = unlock.pods;
    set->min_count = 0;
    Remedy remedy{
        "FewerPods",
        fmt::format("request {} pod{} in pod set {}", unlock.pods, unlock.pods == 1 ? "" : "s", unlock.pod_set),
        {},
        {}};
    remedy.change.jobs.push_back(std::move(object));
    attempt(std::move(remedy));
  }

  /// Flavors and resources that its queue lacks, or references although they do not exist.
  void missing_objects() {
    if (queue_->volcano) return;
    std::set<std::string> uncovered;
    std::set<FlavorName> unknown;
    bool short_of_quota = false;
    for (const auto& s : shortfalls(before_->state(), *w_)) {
      if (s.kind == QuotaShortfall::Kind::kNotCovered) uncovered.insert(s.resource);
      // A resource with too little quota is reported first, and others may not be covered at all: checks all requests.
      if (s.kind == QuotaShortfall::Kind::kNeverFits || s.kind == QuotaShortfall::Kind::kQuota) short_of_quota = true;
      if (s.kind == QuotaShortfall::Kind::kFlavorMissing) unknown.insert(s.flavor);
    }
    for (const auto& [resource, amount] : requests_of(w_->spec)) {
      const bool covered = std::ranges::any_of(queue_->groups, [&](const ResourceGroup& group) {
        return std::ranges::find(group.covered, resource) != group.covered.end();
      });
      if (short_of_quota && !covered && amount > 0) uncovered.insert(resource);
    }
    for (const auto& name : unknown) {
      Remedy remedy{"CreateFlavor", fmt::format("apply ResourceFlavor {}", name), {}, {}};
      remedy.change.objects.flavors.push_back({name, {}, {}, {}, {}});
      attempt(std::move(remedy));
    }
    if (!uncovered.empty()) return cover(uncovered);
    if (queue_->cohort.empty() || queue_->groups.empty()) return;
    int added = 0;
    for (const auto& [name, flavor] : before_->tables().flavors) {
      const bool own = std::ranges::any_of(queue_->groups, [&](const ResourceGroup& group) {
        return std::ranges::find(group.flavors, name, &FlavorQuotas::flavor) != group.flavors.end();
      });
      if (own || added++ == kMostAdded) continue;
      ClusterQueue more = *queue_;
      auto& group = more.groups.front();
      auto& quotas = group.flavors.emplace_back(FlavorQuotas{name, {}});
      for (const auto& resource : group.covered) quotas.resources[resource] = Quota{};
      Remedy remedy{"AddFlavor",
                    fmt::format("add flavor {} with nominalQuota 0 to ClusterQueue {}: Cohort {} lends it", name,
                                queue_->name, queue_->cohort),
                    {},
                    {}};
      remedy.change.objects.cluster_queues.push_back(std::move(more));
      if (attempt(std::move(remedy))) return;
    }
  }
  /// Adds resources that the queue does not cover, with the amounts that the workload requests.
  void cover(const std::set<std::string>& resources) {
    if (queue_->groups.empty() || queue_->groups.front().flavors.empty()) return;
    const auto asked = requests_of(w_->spec);
    ClusterQueue more = *queue_;
    auto& group = more.groups.front();
    std::string what;
    for (const auto& resource : resources) {
      const auto found = asked.find(resource);
      const auto amount = found == asked.end() ? std::int64_t{w_->spec.total_pods()} : found->second;
      group.covered.push_back(resource);
      for (auto& flavor : group.flavors) flavor.resources[resource] = Quota{amount, {}, {}};
      what +=
          fmt::format("{}{} with nominalQuota {}", what.empty() ? "" : ", ", resource, show_amount(resource, amount));
    }
    Remedy remedy{
        "CoverResource", fmt::format("add to a resource group of ClusterQueue {}: {}", queue_->name, what), {}, {}};
    remedy.change.objects.cluster_queues.push_back(std::move(more));
    attempt(std::move(remedy));
  }

  const Tables& rows_;
  const Options& options_;
  const WorkloadUid uid_;
  const Instant now_;
  std::unique_ptr<Engine> before_;
  const Workload* w_ = nullptr;
  const ClusterQueue* queue_ = nullptr;
  int trials_ = 0, most_trials_ = kMostTrials;
  int pairs_tried_ = 0;
  std::vector<Remedy> not_enough_;  ///< changes that were tried and do not admit it alone
  std::vector<Remedy> out_;
};

}  // namespace

std::vector<Remedy> remedies(const Tables& rows, const Options& options, const WorkloadUid& uid, Instant now) {
  return Search(rows, options, uid, now).found();
}

}  // namespace qm::admission
