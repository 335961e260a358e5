#include "qm/philly/replay.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/pack/inventory.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <optional>
#include <queue>
#include <set>

namespace qm::philly {
namespace {

namespace pack = placement::pack;

constexpr std::int32_t kLarge = 8, kSmall = 2;

pack::PodClass pod_of(std::int32_t gpus) { return {0, 0, gpus, pack::kDevice, pack::kAnyModel}; }

pack::NodeState empty_node(std::int32_t gpus) {
  pack::NodeState node;
  node.gpus = static_cast<std::uint8_t>(gpus);
  node.pods = gpus;
  node.type = gpus == kLarge ? 0 : 1;
  std::fill_n(node.free.begin(), gpus, std::uint16_t{pack::kDevice});
  return node;
}

/// The number of GPUs of each pod of a job.
std::vector<std::int32_t> pods_of(const trace::Job& job) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(job.gpus / kLarge), kLarge);
  if (job.gpus % kLarge > 0) out.push_back(job.gpus % kLarge);
  return out;
}

class Cluster {
 public:
  struct Held {
    pack::NodeId node;
    std::int32_t gpus;
  };

  Cluster(const std::vector<trace::Job>& jobs, const Fleet& fleet, const std::string& policy)
      : all_(fleet.gpus()), policy_(pack::make_policy(policy, outlook(jobs, fleet))), nodes_(*policy_) {
    for (std::int64_t i = 0; i < fleet.eights; ++i) nodes_.add(empty_node(kLarge));
    for (std::int64_t i = 0; i < fleet.twos; ++i) nodes_.add(empty_node(kSmall));
  }

  /// Places all pods of the job, or none.
  std::optional<std::vector<Held>> place(const trace::Job& job) {
    std::vector<Held> held;
    for (const auto gpus : pods_of(job)) {
      const auto found = nodes_.place(pod_of(gpus));
      if (!found) {
        release(held);
        return std::nullopt;
      }
      held.push_back({found->node, gpus});
      used_ += gpus;
      QM_ASSERT(used_ <= all_, "{} of {} GPUs are allocated", used_, all_);
    }
    return held;
  }

  void release(const std::vector<Held>& held) {
    for (const auto& [node, gpus] : held) {
      pack::NodeState state = *nodes_.state_of(node);
      const auto idle = static_cast<std::size_t>(state.idle());
      QM_ASSERT(idle + static_cast<std::size_t>(gpus) <= state.gpus, "more GPUs of node {} are released than it has",
                node);
      std::fill_n(state.free.begin() + static_cast<std::ptrdiff_t>(idle), gpus, std::uint16_t{pack::kDevice});
      ++state.pods;
      nodes_.set(node, state);
      used_ -= gpus;
    }
  }
  [[nodiscard]] double share_used() const { return static_cast<double>(used_) / static_cast<double>(all_); }

 private:
  static pack::Outlook outlook(const std::vector<trace::Job>& jobs, const Fleet& fleet) {
    std::map<std::int32_t, std::int64_t> pods;
    for (const auto& job : jobs) {
      for (const auto gpus : pods_of(job)) ++pods[gpus];
    }
    pack::Outlook out;
    for (const auto& [gpus, count] : pods) out.mix.push_back({pod_of(gpus), count});
    for (std::int64_t i = 0; i < fleet.eights; ++i) out.capacity.push_back(empty_node(kLarge));
    for (std::int64_t i = 0; i < fleet.twos; ++i) out.capacity.push_back(empty_node(kSmall));
    return out;
  }

  std::int64_t all_, used_ = 0;
  std::unique_ptr<pack::Policy> policy_;
  pack::Inventory nodes_;
};

Waits waits_of(std::vector<std::int64_t> seconds) {
  Waits out;
  std::ranges::sort(seconds);
  out.jobs = std::ssize(seconds);
  if (seconds.empty()) return out;
  double sum = 0;
  for (const auto s : seconds) {
    sum += static_cast<double>(s);
    out.waited += s > 0 ? 1 : 0;
  }
  out.mean_s = sum / static_cast<double>(seconds.size());
  out.p99_s = seconds[seconds.size() * 99 / 100];
  out.longest_s = seconds.back();
  return out;
}

class Replay {
 public:
  Replay(const std::vector<trace::Job>& jobs, const Fleet& fleet, const Discipline& discipline)
      : jobs_(jobs),
        fleet_(fleet),
        discipline_(discipline),
        cluster_(jobs, fleet, discipline.policy),
        start_(jobs.size(), -1) {}

  Outcome run() {
    Outcome out;
    for (std::size_t next = 0; next < jobs_.size() || !running_.empty();) {
      const bool comes = next < jobs_.size() && (running_.empty() || jobs_[next].submit_s < running_.top().end_s);
      now_ = comes ? jobs_[next].submit_s : running_.top().end_s;
      for (; !running_.empty() && running_.top().end_s <= now_; running_.pop()) {
        cluster_.release(running_.top().held);
      }
      for (; next < jobs_.size() && jobs_[next].submit_s <= now_; ++next) {
        if (fits_empty(jobs_[next])) queue_.push_back(next);
      }
      let_in();
      out.busiest = std::max(out.busiest, cluster_.share_used());
    }
    QM_ASSERT(queue_.empty(), "{} jobs are pending in an empty cluster", queue_.size());
    sum_up(out);
    return out;
  }

 private:
  struct Running {
    std::int64_t end_s;
    std::size_t job;
    std::vector<Cluster::Held> held;
    friend bool operator<(const Running& a, const Running& b) {
      return std::tie(a.end_s, a.job) > std::tie(b.end_s, b.job);
    }
  };

  bool fits_empty(const trace::Job& job) {
    const auto [known, fresh] = fits_empty_.try_emplace(job.gpus, false);
    if (fresh) {
      Cluster empty(jobs_, fleet_, discipline_.policy);
      known->second = empty.place(job).has_value();
    }
    return known->second;
  }

  void let_in() {
    std::set<std::int32_t> too_large;  // sizes that did not fit since the last end of a job
    for (auto it = queue_.begin(); it != queue_.end();) {
      const trace::Job& job = jobs_[*it];
      if (!too_large.contains(job.gpus)) {
        if (auto held = cluster_.place(job)) {
          start_[*it] = now_;
          running_.push({now_ + job.duration_s, *it, std::move(*held)});
          it = queue_.erase(it);
          continue;
        }
        too_large.insert(job.gpus);
      }
      const bool impatient = discipline_.patience_s > 0 && now_ - job.submit_s > discipline_.patience_s;
      if (!discipline_.passing || impatient) return;
      if (too_large.contains(1)) return;  // no device is idle
      ++it;
    }
  }

  void sum_up(Outcome& out) const {
    std::vector<std::int64_t> all;
    std::map<std::string, std::vector<std::int64_t>> by_team;
    std::map<std::int32_t, std::vector<std::int64_t>> by_gpus;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (start_[i] < 0) {
        ++out.impossible;
        continue;
      }
      const auto wait = start_[i] - jobs_[i].submit_s;
      all.push_back(wait);
      by_team[jobs_[i].team].push_back(wait);
      by_gpus[jobs_[i].gpus].push_back(wait);
    }
    out.all = waits_of(std::move(all));
    for (auto& [team, waits] : by_team) out.by_team[team] = waits_of(std::move(waits));
    for (auto& [gpus, waits] : by_gpus) out.by_gpus[gpus] = waits_of(std::move(waits));
  }

  const std::vector<trace::Job>& jobs_;
  const Fleet& fleet_;
  const Discipline& discipline_;
  Cluster cluster_;
  std::int64_t now_ = 0;
  std::list<std::size_t> queue_;  // in arrival order
  std::priority_queue<Running> running_;
  std::vector<std::int64_t> start_;
  std::map<std::int32_t, bool> fits_empty_;
};

}  // namespace

Fleet fleet_of(std::int64_t gpus, double in_eights) {
  Fleet out;
  out.eights = static_cast<std::int64_t>(std::floor(static_cast<double>(gpus) * in_eights / kLarge));
  out.twos = (gpus - out.eights * kLarge) / kSmall;
  return out;
}

Outcome replay(const std::vector<trace::Job>& jobs, const Fleet& fleet, const Discipline& discipline) {
  return Replay(jobs, fleet, discipline).run();
}

}  // namespace qm::philly
