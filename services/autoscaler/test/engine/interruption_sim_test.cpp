// A simulation of training jobs on spot capacity against the engine, in virtual time: gangs of two nodes, orders answered
// as trainers do, interruptions with and without a notice, and attempts that resume as admission resumes them.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace qm::autoscaler::testing {
namespace interruption_sim_test {

using std::chrono::seconds;

constexpr int kJobs = 20;
constexpr std::int64_t kSteps = 20'000;  // of a job, one a second
constexpr int kNodes = 2;                // of a gang, with 8 GPUs each
constexpr std::int64_t kSaveSeconds = 20, kRestartSeconds = 60, kMeanSeconds = 2000, kNoticeSeconds = 120;

struct Saved {
  std::pair<std::int32_t, std::int64_t> fence{0, 0};
  std::int64_t step = 0;
};

struct Job {
  WorkloadUid uid;
  std::int32_t attempt = 1, incarnation = 0;
  std::int64_t progress = 0;  ///< in this attempt, with the resumed steps
  std::int64_t restart_at = 0, taken_at = -1, finished_at = -1;
  bool running = false;
  Saved newest;            ///< as admission keeps it
  std::int64_t acked = 0;  ///< the highest acknowledged step of all attempts
  struct Answer {
    std::int64_t at = 0, step = 0;
    std::string order;
    checkpoint::Fence fence;
    std::vector<NodeName> nodes;
  };
  std::vector<Answer> answers;

  [[nodiscard]] NodeName node(int i) const { return NodeName(fmt::format("{}-{}-{}", uid, incarnation, i)); }
  [[nodiscard]] InstanceId instance(int i) const { return InstanceId("i-" + node(i).value()); }
};

struct Totals {
  std::int64_t interruptions = 0, without_notice = 0, lost_steps = 0, useful_steps = 0;
};

class Simulation {
 public:
  Simulation() {
    for (int i = 0; i < kJobs; ++i) {
      jobs_.push_back({});
      jobs_.back().uid = WorkloadUid(fmt::format("job-{:02}", i));
      WorkloadUpdated submitted{jobs_.back().uid, 1, true, false, "team", "Job", fmt::format("train-{}", i)};
      batch_.emplace_back(submitted);
    }
  }

  Totals run() {
    while (t_ < 40 * kSteps && !all_finished()) {
      for (Job& job : jobs_) advance(job);
      if (instances_changed_) batch_.emplace_back(InstancesListed{instances_});
      instances_changed_ = false;
      const Output out = engine_.step(batch_, now());
      engine_.commit();
      batch_.clear();
      handle(out);
      t_ += 1;
    }
    for (const Job& job : jobs_) {
      EXPECT_GE(job.finished_at, 0) << job.uid << " is lost at step " << job.progress;
      totals_.useful_steps += kSteps;
    }
    return totals_;
  }

 private:
  [[nodiscard]] Instant now() const { return from_micros(1'000'000'000'000) + seconds(t_); }
  [[nodiscard]] bool all_finished() const {
    return std::ranges::all_of(jobs_, [](const Job& job) { return job.finished_at >= 0; });
  }

  void advance(Job& job) {
    if (job.finished_at >= 0) return;
    if (!job.running) {
      if (t_ >= job.restart_at) start(job);
      return;
    }
    ++job.progress;
    std::erase_if(job.answers, [&](const Job::Answer& answer) {
      if (answer.at > t_) return false;
      for (const auto& node : answer.nodes) {
        StepSave save{answer.step,          0, 8, fmt::format("s3://{}/step={}", job.uid, answer.step), 0,
                      seconds(kSaveSeconds)};
        batch_.emplace_back(AckUpdated{answer.order, {node, answer.fence, 8, {save}, {}}});
      }
      return true;
    });
    if (job.progress >= kSteps) return finish(job);
    if (job.taken_at == t_) return lose(job);  // the eviction came too late
    if (job.taken_at < 0 && random_() % kMeanSeconds == 0) interrupt(job);
  }

  void start(Job& job) {
    job.running = true;
    job.taken_at = -1;
    ++job.incarnation;
    // The resumed step is never before an acknowledged one.
    EXPECT_GE(job.newest.step, job.acked) << job.uid;
    job.progress = job.newest.step;
    AssignmentUpdated placed{{job.uid, job.attempt}, true, {}};
    for (int i = 0; i < kNodes; ++i) {
      InstanceFact fact;
      fact.id = job.instance(i);
      fact.type = "h8", fact.zone = "z1", fact.market = Market::kSpot;
      fact.node = job.node(i);
      fact.launched = now();
      instances_.push_back(fact);
      batch_.emplace_back(NodeUpdated{job.node(i), true, false, false, 8, {}, job.instance(i)});
      placed.nodes.push_back(job.node(i));
    }
    instances_changed_ = true;
    batch_.emplace_back(placed);
  }

  void interrupt(Job& job) {
    ++totals_.interruptions;
    if (random_() % 10 == 0) {
      ++totals_.without_notice;
      return lose(job);
    }
    job.taken_at = t_ + kNoticeSeconds;
    batch_.emplace_back(SpotNoticeUpdated{job.node(0), now() + seconds(kNoticeSeconds)});
  }

  /// The attempt ends; work after the newest checkpoint is done again.
  void lose(Job& job) {
    totals_.lost_steps += job.progress - job.newest.step;
    stop(job);
    ++job.attempt;
    job.restart_at = t_ + kRestartSeconds;
    batch_.emplace_back(WorkloadUpdated{job.uid, job.attempt, true, false, "team", "Job", "train"});
  }

  void finish(Job& job) {
    job.finished_at = t_;
    stop(job);
    batch_.emplace_back(WorkloadUpdated{job.uid, job.attempt, true, true});
  }

  void stop(Job& job) {
    job.running = false;
    job.answers.clear();
    batch_.emplace_back(AssignmentUpdated{{job.uid, job.attempt}, false, {}});
    for (int i = 0; i < kNodes; ++i) {
      batch_.emplace_back(NodeUpdated{job.node(i), false, false, true, 0, {}, job.instance(i)});
      std::erase_if(instances_, [&](const InstanceFact& fact) { return fact.id == job.instance(i); });
    }
    instances_changed_ = true;
  }

  void handle(const Output& out) {
    for (const auto& order : out.orders) {
      Job& job = *std::ranges::find(jobs_, order.row.id.uid, &Job::uid);
      if (order.row.outcome == "Acked") keep(job, order.row.save.fence, order.row.saved.step);
      // Another incarnation of the gang gets no order of the last one.
      if (!order.row.outcome.empty() || !job.running || job.attempt != order.row.id.attempt) continue;
      job.answers.push_back({t_ + kSaveSeconds, job.progress, order.id, order.row.save.fence, order.row.save.nodes});
    }
    for (const auto& eviction : out.evictions) {
      Job& job = *std::ranges::find(jobs_, eviction.id.uid, &Job::uid);
      if (eviction.over || !job.running || job.attempt != eviction.id.attempt) continue;
      keep(job, {eviction.id.attempt, eviction.checkpoint_number}, eviction.step);
      lose(job);
    }
  }

  void keep(Job& job, checkpoint::Fence fence, std::int64_t step) {
    const std::pair of{fence.attempt, fence.number};
    if (of >= job.newest.fence && step > 0) job.newest = {of, step};
    job.acked = std::max(job.acked, step);
  }

  Engine engine_{small_catalog()};
  std::vector<Job> jobs_;
  std::vector<InstanceFact> instances_;
  std::vector<Command> batch_;
  bool instances_changed_ = false;
  std::int64_t t_ = 0;
  std::mt19937_64 random_{20261127};
  Totals totals_;
};

// S-243: no interruption loses a job or acknowledged progress. S-246: less than five percent of the work is lost.
TEST(InterruptionSim, TwoHundredInterruptionsLoseNoJobAndLittleWork) {
  const Totals totals = Simulation().run();
  const double lost = static_cast<double>(totals.lost_steps) / static_cast<double>(totals.useful_steps);
  RecordProperty("interruptions", static_cast<int>(totals.interruptions));
  RecordProperty("without_notice", static_cast<int>(totals.without_notice));
  RecordProperty("lost_percent_thousandths", static_cast<int>(lost * 100'000));
  RecordProperty("lost_gpu_hours", static_cast<int>(totals.lost_steps * kNodes * 8 / 3600));
  EXPECT_GE(totals.interruptions, 200);
  EXPECT_GT(totals.without_notice, 10);
  EXPECT_LT(lost, 0.05) << totals.lost_steps << " of " << totals.useful_steps << " steps";
  std::printf("%ld interruptions, %ld without a notice: %ld of %ld steps lost (%.2f %%), %ld GPU-hours\n",
              totals.interruptions, totals.without_notice, totals.lost_steps, totals.useful_steps, 100 * lost,
              totals.lost_steps * kNodes * 8 / 3600);
}

}  // namespace interruption_sim_test
}  // namespace qm::autoscaler::testing
