// Simulates one future after the other, each with its own scheduler.
#include "qm/admission/forecast/eta.hpp"

#include "qm/admission/forecast/chance.hpp"
#include "qm/admission/forecast/reservations.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

namespace qm::admission::forecast {
namespace {

using kueue::Work;

/// Removes node assignments: topology belongs to the live state and is not simulated.
Work without_nodes(Work work) {
  work.on_nodes.clear();
  for (auto& set : work.pod_sets) set.nodes.reset();
  return work;
}

struct Start {
  Instant at;
  int after = -1;  ///< the workload that freed the quota, -1 if none
};

class Future {
 public:
  Future(const Scene& scene, const Arrivals& arrivals, const Eta::Settings& settings, int number, Instant now)
      : settings_(settings),
        arrivals_(arrivals),
        scene_(scene),
        number_(static_cast<std::uint64_t>(number)),
        now_(now),
        coming_(arrivals.after(now, chance(settings.seed, number_, ~std::uint64_t{0}))),
        decider_(scene.field) {
    decider_.set_backfill(std::make_unique<Reservations>());
    for (const auto& one : scene.running) next_id_ = std::max(next_id_, one.work.id + 1);
    for (const auto& one : scene.waiting) next_id_ = std::max(next_id_, one.work.id + 1);
    newcomers_from_ = next_id_;
    for (const auto& one : scene.running) {
      members_[one.work.id] = {one.life};
      decider_.hold(without_nodes(one.work));
      const Duration left = one.life.span->remaining(drawn(one.work.id), now - one.began);
      one.work.evicted ? leaves(one.work.id) : ends_after(one.work.id, left);
    }
    for (const auto& one : scene.waiting) {
      members_[one.work.id] = {one.life};
      if (one.claimed.empty()) {
        decider_.enqueue(without_nodes(one.work));
      } else {
        decider_.claim(without_nodes(one.work), one.claimed, {}, one.victims);
      }
    }
  }

  /// Plays this future: the simulated start of each workload of `ids`. A workload that does not start within
  /// it is missing.
  std::map<int, Start> play(std::span<const int> ids) {
    asked_ = {ids.begin(), ids.end()};
    decide();
    for (int events = 0; !asked_.empty() && events < settings_.events; ++events) {
      if (!step()) break;
    }
    return std::move(started_);
  }

 private:
  struct Member {
    Scene::Life life;
    std::uint64_t times = 0;  ///< number of its admissions and evictions in this future
  };
  struct End {
    Instant at;
    int id = -1;
    std::uint64_t times = 0;  ///< Member::times when the event was scheduled
    bool gone = false;        ///< it leaves because it was preempted
    [[nodiscard]] auto order() const { return std::tuple(at, id, times, gone); }
    friend bool operator>(const End& a, const End& b) { return a.order() > b.order(); }
  };

  [[nodiscard]] double drawn(int id) const {
    const Member& member = members_.at(id);
    const auto own = static_cast<std::uint64_t>(id) << 8U | (member.times & 0xffU);
    const auto job_class = static_cast<std::uint64_t>(member.life.job_class);
    if (chance(settings_.seed + 1, number_, own) < settings_.alike)
      return chance(settings_.seed + 2, number_, job_class);
    return chance(settings_.seed, number_, own);
  }
  void ends_after(int id, Duration run) {
    if (run < settings_.horizon) ends_.push({now_ + run, id, members_.at(id).times, false});
  }
  void leaves(int id) { ends_.push({now_ + settings_.leaving, id, members_.at(id).times, true}); }

  /// Advances to the next event and handles all events of that instant. Returns false where there is none
  /// before the horizon.
  bool step() {
    const auto arrival = coming_.peek();
    if (ends_.empty() && !arrival) return false;
    const Instant begin = now_;
    Instant next = Instant::max();
    if (!ends_.empty()) next = ends_.top().at;
    if (arrival) next = std::min(next, arrival->at);
    if (next - started_at_ > settings_.horizon) return false;
    now_ = std::max(begin, next);
    while (!ends_.empty() && ends_.top().at <= now_) {
      const End end = ends_.top();
      ends_.pop();
      if (!decider_.holds(end.id)) continue;  // it finished before its eviction was complete
      Member& member = members_.at(end.id);
      if (member.times != end.times) continue;
      gave(end.id);
      if (end.gone) {
        ++member.times;
        decider_.evicted(end.id);
      } else {
        decider_.finish(end.id);
        members_.erase(end.id);
      }
    }
    for (auto more = arrival; more && more->at <= now_; more = coming_.peek()) {
      arrive(more->of);
      coming_.pop();
    }
    decide();
    return true;
  }

  void arrive(int of) {
    const auto index = static_cast<std::size_t>(of);
    Work work = without_nodes(arrivals_.classes()[index].pattern);
    work.id = next_id_++;
    work.created = micros(now_);
    members_[work.id] = {scene_.of_class[index]};
    decider_.enqueue(std::move(work));
  }

  void gave(int id) {
    if (id >= newcomers_from_) return;  // a simulated arrival: its id means nothing outside this future
    for (const auto& [cell, amount] : decider_.holder(id).usage) gave_[cell] = id;
  }

  void decide() {
    const auto outcome = decider_.run(micros(now_));
    for (const auto& [id, assignment] : outcome.admitted) {
      Member& member = members_.at(id);
      if (asked_.erase(id) > 0) {
        Start start{now_, -1};
        for (const auto& [cell, amount] : assignment.usage) {
          if (const auto from = gave_.find(cell); from != gave_.end()) start.after = from->second;
        }
        started_.emplace(id, start);
      }
      ++member.times;
      ends_after(id, member.life.span->quantile(drawn(id)));
    }
    for (const auto& victim : outcome.preempted) leaves(victim.id);
  }

  const Eta::Settings& settings_;
  const Arrivals& arrivals_;
  const Scene& scene_;
  std::uint64_t number_;
  Instant now_, started_at_ = now_;
  Arrivals::Stream coming_;
  kueue::Continuous decider_;
  std::map<int, Member> members_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::map<kueue::Cell, int> gave_;
  std::set<int> asked_;
  std::map<int, Start> started_;
  int next_id_ = 0, newcomers_from_ = 0;
};

/// The start that `percent` percent of the futures do not exceed; a future without a start counts as the latest.
std::optional<Instant> quantile(const std::vector<Start>& sorted, int futures, int percent) {
  const auto index = static_cast<std::size_t>((futures - 1) * percent / 100);
  if (index >= sorted.size()) return {};
  return sorted[index].at;
}

Estimate summed_up(int id, std::vector<Start> starts, int futures) {
  std::ranges::sort(starts, {}, &Start::at);
  Estimate out{id,
               quantile(starts, futures, 10),
               quantile(starts, futures, 50),
               quantile(starts, futures, 90),
               futures,
               static_cast<int>(starts.size()),
               {}};
  std::map<int, int> causes;
  for (const auto& start : starts) {
    if (start.after >= 0) ++causes[start.after];
  }
  for (const auto& [cause, count] : causes) out.waits_for.push_back({cause, count});
  std::ranges::stable_sort(out.waits_for, std::greater<>(), &Estimate::Cause::futures);
  if (out.waits_for.size() > 3) out.waits_for.resize(3);
  return out;
}

}  // namespace

kueue::QuotaState emptied(const kueue::QuotaState& field) {
  kueue::QuotaState out = field;
  out.preemptions = nullptr;
  out.topologies = nullptr;
  for (auto& of : out.holders) of.clear();
  for (kueue::Node n = 0; n < out.tree.size(); ++n) {
    if (!out.tree.is_queue(n)) continue;
    for (kueue::Cell c = 0; c < out.tree.cells(); ++c) out.tree.remove(n, c, field.tree.used(n, c));
  }
  return out;
}

std::vector<Estimate> Eta::ask(const Scene& scene, std::span<const int> ids, const Arrivals& arrivals,
                               Instant now) const {
  QM_ASSERT(settings_.futures > 0, "an estimate needs at least one simulated future");
  QM_ASSERT(scene.of_class.size() == arrivals.classes().size(), "lifetimes of {} classes of {}", scene.of_class.size(),
            arrivals.classes().size());
  std::set<int> waiting;
  for (const auto& one : scene.waiting) waiting.insert(one.work.id);
  std::vector<int> asked;
  std::ranges::copy_if(ids, std::back_inserter(asked), [&](int id) { return waiting.contains(id); });

  std::map<int, std::vector<Start>> starts;
  for (int number = 0; number < settings_.futures; ++number) {
    for (const auto& [id, start] : Future(scene, arrivals, settings_, number, now).play(asked)) {
      starts[id].push_back(start);
    }
  }
  std::vector<Estimate> out;
  for (const int id : asked) out.push_back(summed_up(id, std::move(starts[id]), settings_.futures));
  return out;
}

}  // namespace qm::admission::forecast
