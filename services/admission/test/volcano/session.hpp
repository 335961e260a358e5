#pragma once
#include "qm/admission/volcano/capacity.hpp"
#include "qm/admission/volcano/drf.hpp"
#include "qm/admission/volcano/enqueue.hpp"
#include "qm/admission/volcano/gang.hpp"
#include "qm/admission/volcano/proportion.hpp"
#include "qm/admission/volcano/reclaim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace qm::admission::volcano {

/// A gang in the simulated cluster: it runs as a whole or waits.
struct SimJob {
  std::string name, queue;
  Resources needs;
  std::int32_t priority = 0;
  Duration runs = std::chrono::hours(1000);
  Instant created{};
  std::optional<Duration> waiting_time = {};
  bool preemptable = true;

  bool inqueue = false, running = false, done = false;
  Instant started{};
  std::vector<std::size_t> short_of = {};  ///< what its last attempt found too little of
};

/// Sessions as Volcano holds them, over one pool of resources in virtual time: enqueue, allocate, reclaim, preempt.
///
/// Victims are gone at once and wait again from the start; what they held is the needy job's in the same session.
/// Order    queues by the rule; in a queue whose time is over, priority, creation, name.
template <class Rule>
class Session {
 public:
  std::vector<Queue> queues;
  Resources total;
  Sla sla = {};
  std::optional<Overcommit> overcommit =
      {};  ///< none: with it, who waits of a full queue keeps a starved one's jobs out
  bool preempts = false;

  std::vector<SimJob> jobs = {};
  std::vector<std::string> victims = {};  ///< all of them, in order
  Instant now{};

  SimJob& add(SimJob job) {
    job.created = now;
    return jobs.emplace_back(std::move(job));
  }

  /// One session at `now`.
  void hold() {
    for (auto& job : jobs) {
      if (job.running && now >= job.started + job.runs) job.running = false, job.done = true;
    }
    auto state = snapshot();
    const Rule rule(state);
    enqueue(state, rule);
    allocate(state, rule);
    reclaim_for(state, rule);
    if (preempts) preempt_for(state, rule);
    EXPECT_TRUE(within(state.use(0).allocated, total)) << "more is used than there is";
  }
  /// Sessions each `step` until so much time has passed; `before` may add jobs.
  template <class Before>
  void pass(Duration time, Duration step, Before before) {
    for (const auto end = now + time; now < end; now += step) {
      before();
      hold();
    }
  }
  void pass(Duration time, Duration step) {
    pass(time, step, [] {});
  }

  [[nodiscard]] Resources used(const std::string& queue) const {
    Resources out(total.size());
    for (const auto& job : jobs) {
      if (job.running && job.queue == queue) volcano::add(out, job.needs);
    }
    return out;
  }
  [[nodiscard]] int waiting(const std::string& queue) const {
    return static_cast<int>(std::ranges::count_if(
        jobs, [&](const SimJob& job) { return job.queue == queue && !job.running && !job.done; }));
  }

 private:
  [[nodiscard]] Queues snapshot() const {
    auto out = *Queues::plant(queues, total);
    for (const auto& job : jobs) {
      if (job.done) continue;
      const auto queue = *out.find(job.queue);
      out.ask(queue, job.needs);
      if (job.running) {
        out.allocate(queue, job.needs);
      } else if (job.inqueue) {
        out.let_in(queue, job.needs);
      }
    }
    return out;
  }

  void enqueue(Queues& state, const Rule& rule) {
    auto order = state.leaves();
    std::ranges::sort(order, [&](QueueId a, QueueId b) { return rule.before(state, a, b); });
    for (const auto queue : order) {
      for (auto& job : jobs) {
        if (job.queue != state[queue].name || job.done || job.running || job.inqueue) continue;
        auto room = state[queue].state == QueueState::kOpen ? Vote::kPermit : Vote::kReject;
        if constexpr (std::is_same_v<Rule, Capacity>) {
          job.short_of = rule.no_room(state, queue, job.needs);
          if (!job.short_of.empty()) room = Vote::kReject;
        }
        const auto& used = state.use(0);
        const auto over =
            overcommit ? overcommit->vote(job.needs, total, used.allocated, used.inqueue) : Vote::kAbstain;
        if (!let_in({{sla.vote({job.created, job.waiting_time}, now)}, {over, room}})) continue;
        job.inqueue = true;
        state.let_in(queue, job.needs);
      }
    }
  }

  /// Who waits in a queue, in order.
  [[nodiscard]] std::vector<SimJob*> line(const std::string& queue) {
    std::vector<SimJob*> out;
    for (auto& job : jobs) {
      if (job.queue == queue && job.inqueue && !job.running && !job.done) out.push_back(&job);
    }
    std::ranges::sort(out, [&](const SimJob* a, const SimJob* b) {
      if (overdue(*a) != overdue(*b)) return overdue(*a);
      if (a->priority != b->priority) return a->priority > b->priority;
      return std::tie(a->created, a->name) < std::tie(b->created, b->name);
    });
    return out;
  }
  [[nodiscard]] bool overdue(const SimJob& job) const {
    return sla.vote({job.created, job.waiting_time}, now) == Vote::kPermit;
  }
  /// What is idle for this job: what is kept for overdue ones is not, unless it is one.
  [[nodiscard]] Resources idle_for(const Queues& state, const SimJob& job) const {
    const auto idle = rest(total, state.use(0).allocated);
    if (overdue(job)) return idle;
    std::vector<Resources> kept;
    for (const auto& other : jobs) {
      if (other.inqueue && !other.running && !other.done && overdue(other)) kept.push_back(other.needs);
    }
    return Sla::keep(idle, kept);
  }
  bool start(Queues& state, SimJob& job) {
    state.allocate(*state.find(job.queue), job.needs);
    job.running = true;
    job.started = now;
    return true;
  }
  bool try_start(Queues& state, const Rule& rule, SimJob& job) {
    if (!rule.allocatable(state, *state.find(job.queue), job.needs)) return false;
    job.short_of = Gang{1, {}, job.needs}.short_of(idle_for(state, job));
    return job.short_of.empty() && start(state, job);
  }

  /// As long as anything starts: the queue that is served first, its first job that can.
  void allocate(Queues& state, const Rule& rule) {
    for (bool any = true; any;) {
      any = false;
      auto order = state.leaves();
      std::ranges::sort(order, [&](QueueId a, QueueId b) { return rule.before(state, a, b); });
      for (const auto queue : order) {
        for (auto* job : line(state[queue].name)) {
          any = try_start(state, rule, *job);
          if (any || state[queue].strict) break;
        }
        if (any) break;
      }
    }
  }

  void evict(Queues& state, const std::vector<SimJob*>& who, const Takings& taken) {
    for (const auto i : taken) {
      state.release(*state.find(who[i]->queue), who[i]->needs);
      who[i]->running = false;
      victims.push_back(who[i]->name);
    }
  }
  [[nodiscard]] std::vector<Running> all_running(const Queues& state, std::vector<SimJob*>& who) {
    std::vector<Running> out;
    for (auto& job : jobs) {
      if (!job.running) continue;
      who.push_back(&job);
      out.push_back(
          {*state.find(job.queue), {job.name, job.priority, micros(job.started), job.needs}, job.preemptable});
    }
    return out;
  }

  void reclaim_for(Queues& state, const Rule& rule) {
    auto order = state.leaves();
    std::ranges::sort(order, [&](QueueId a, QueueId b) { return rule.before(state, a, b); });
    for (const auto queue : order) {
      for (auto* job : line(state[queue].name)) {
        std::vector<SimJob*> who;
        const auto running = all_running(state, who);
        const auto taken = reclaim(rule, state, running, queue, job->needs, rest(total, state.use(0).allocated));
        if (taken.empty()) break;
        evict(state, who, taken);
        start(state, *job);
      }
    }
  }
  void preempt_for(Queues& state, const Rule& rule) {
    for (const auto queue : state.leaves()) {
      for (auto* job : line(state[queue].name)) {
        std::vector<SimJob*> who;
        const auto running = all_running(state, who);
        const auto taken =
            preempt(state, running, queue, job->priority, job->needs, rest(total, state.use(0).allocated));
        evict(state, who, taken);
        if (!taken.empty()) (void)try_start(state, rule, *job);
      }
    }
  }
};

}  // namespace qm::admission::volcano
