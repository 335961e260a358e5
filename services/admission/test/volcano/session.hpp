#pragma once
#include "qm/admission/volcano/pool.hpp"
#include "qm/base/time.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace qm::admission::volcano {

/// A gang in the simulated cluster: it runs as a whole or is pending.
struct SimJob {
  std::string name, queue;
  Resources needs;
  std::int32_t priority = 0;
  Duration runs = std::chrono::hours(1000);
  Instant created{};
  std::optional<Duration> waiting_time = {};
  bool preemptable = true;

  bool running = false, done = false;
  Instant started{};
  std::vector<std::size_t> short_of = {};  ///< resources that were insufficient at the last attempt
};

/// A pool in virtual time with periodic decisions: jobs arrive and end; victims are gone at once and start over as
/// pending jobs.
template <Sharing by>
class Session {
 public:
  Session(std::vector<Queue> all, Resources there) : queues(std::move(all)), total(std::move(there)) {}
  std::vector<Queue> queues;
  Resources total;

  std::vector<SimJob> jobs = {};
  std::vector<std::string> victims = {};  ///< all of them, in order
  std::map<std::string, std::vector<std::string>> victims_of = {};
  Instant now{};

  SimJob& add(SimJob job) {
    job.created = now;
    return jobs.emplace_back(std::move(job));
  }

  /// Ends the jobs that are due by `now`, and decides until nothing changes.
  void hold() {
    if (!pool_) pool_.emplace(*Queues::plant(queues, total), by);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      auto& job = jobs[i];
      if (job.running && now >= job.started + job.runs) {
        job.running = false;
        job.done = true;
        pool_->remove(static_cast<int>(i));
      } else if (i >= known_) {
        pool_->wait(pool_job(i));
      }
    }
    known_ = jobs.size();
    for (bool moves = true; moves;) {
      const auto outcome = pool_->run(micros(now));
      for (const int id : outcome.admitted) {
        jobs[static_cast<std::size_t>(id)].running = true;
        jobs[static_cast<std::size_t>(id)].started = now;
      }
      for (const auto& one : outcome.displaced) {
        jobs[static_cast<std::size_t>(one.victim)].running = false;
        victims.push_back(jobs[static_cast<std::size_t>(one.victim)].name);
        victims_of[jobs[static_cast<std::size_t>(one.by)].name].push_back(victims.back());
        pool_->remove(one.victim);
        pool_->wait(pool_job(static_cast<std::size_t>(one.victim)));
      }
      moves = !outcome.admitted.empty() || !outcome.displaced.empty();
    }
    Resources all(total.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      auto& job = jobs[i];
      if (job.running) volcano::add(all, job.needs);
      job.short_of.clear();
      if (job.running || job.done) continue;
      for (const auto& one : pool_->obstacles(pool_job(i))) job.short_of.push_back(one.resource);
    }
    EXPECT_TRUE(within(all, total)) << "usage exceeds capacity";
  }
  /// Advances by `step` until `time` has passed; `before` may add jobs.
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
  [[nodiscard]] Pool::Job pool_job(std::size_t i) const {
    const auto& job = jobs[i];
    Pool::Job out{
        static_cast<int>(i), *pool_->queues().find(job.queue), job.needs, job.priority, micros(job.created), job.name,
        job.preemptable};
    if (job.waiting_time) out.deadline = micros(job.created + *job.waiting_time);
    return out;
  }
  std::optional<Pool> pool_;
  std::size_t known_ = 0;
};

}  // namespace qm::admission::volcano
