// Replay of a trace with free nodes, under constant and planned levels.
#include "qm/headroom/replay.hpp"

#include <algorithm>
#include <deque>
#include <queue>

namespace qm::headroom {
namespace {

namespace library = autoscaler::headroom;

constexpr std::int64_t kCheck = 300, kHour = 3600, kDay = 24 * kHour, kOne = 1'000'000, kMostNodes = 4096;
constexpr std::int64_t kNever = std::int64_t{1} << 60;

Instant at(std::int64_t s) { return Instant(std::chrono::seconds(s)); }

/// Nodes of one shape: free, starting and in use.
class Nodes {
 public:
  Nodes(const Terms& terms, std::int64_t from_s, std::int64_t until_s)
      : terms_(terms), from_s_(from_s), until_s_(until_s) {}

  [[nodiscard]] std::int64_t next() const { return ends_.empty() ? kNever : ends_.top().at; }
  [[nodiscard]] bool pending() const { return !queue_.empty(); }
  void advance(std::int64_t now) {
    const std::int64_t time = std::min(now, until_s_) - std::max(now_, from_s_);
    if (time > 0) node_seconds_ += (free_ + starting_) * time;
    now_ = now;
  }
  void end_one() {
    const End end = ends_.top();
    ends_.pop();
    free_ += end.nodes;
    if (end.boot) starting_ -= end.nodes;
  }
  void arrive(const trace::Job& job) {
    queue_.push_back(job);
    queued_ += job.gpus;
  }
  /// Starts jobs in order, then launches and terminates for the level.
  void settle(const ShapeReplay::Level& level, const ShapeReplay::Started& started, Outcome& out) {
    for (; !queue_.empty() && queue_.front().gpus <= free_; queue_.pop_front()) {
      const trace::Job& job = queue_.front();
      queued_ -= job.gpus, free_ -= job.gpus;
      ends_.push({now_ + std::max<std::int64_t>(1, job.duration_s), false, job.gpus});
      const std::int64_t wait = now_ - job.submit_s;
      if (job.submit_s >= from_s_ && job.submit_s < until_s_) ++out.jobs, out.in_time += wait <= terms_.wait_s ? 1 : 0;
      if (started) started(job.submit_s, wait);
    }
    const std::int64_t wanted = level(now_);
    if (const std::int64_t lacking = wanted - (free_ + starting_ - queued_); lacking > 0) {
      starting_ += lacking;
      ends_.push({now_ + terms_.boot_s, true, lacking});
    }
    free_ = std::min(free_, std::max(wanted, std::int64_t{0}));
  }
  [[nodiscard]] std::int64_t node_seconds() const { return node_seconds_; }

 private:
  struct End {
    std::int64_t at = 0;
    bool boot = false;  ///< else the end of a job
    std::int64_t nodes = 0;
    bool operator<(const End& other) const {  // the earliest first
      return std::tuple(other.at, other.boot, other.nodes) < std::tuple(at, boot, nodes);
    }
  };
  const Terms& terms_;
  const std::int64_t from_s_, until_s_;
  std::int64_t now_ = 0, free_ = 0, starting_ = 0, queued_ = 0, node_seconds_ = 0;
  std::priority_queue<End> ends_;
  std::deque<trace::Job> queue_;
};

/// Plans the levels of one shape, as the autoscaler does.
class Planner {
 public:
  Planner(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms)
      : terms_(terms), target_ppm_(terms.quantile_ppm) {
    shape_ = {std::to_string(gpus), gpus * terms.nano_usd_gpu_hour, std::chrono::seconds(terms.boot_s), kMostNodes, {}};
    for (const auto& job : jobs) {
      shape_.changes.push_back({at(job.submit_s), job.gpus});
      shape_.changes.push_back({at(job.submit_s + std::max<std::int64_t>(1, job.duration_s)), -job.gpus});
    }
    std::ranges::stable_sort(shape_.changes, {}, &library::Change::at);
    needs_ = library::needs_of(shape_, std::chrono::seconds(terms.wait_s));
  }

  std::int64_t level(std::int64_t now) {
    if (now >= next_) plan(now);
    // The needs until now do not depend on later changes.
    return library::level_at(levels_, needs_, at(now),
                             library::lead_time(shape_.boot, std::chrono::seconds(terms_.wait_s)));
  }
  void started(std::int64_t wait_s) { ++attained_.arrivals, attained_.covered += wait_s <= terms_.wait_s ? 1 : 0; }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  void plan(std::int64_t now) {
    const std::int64_t every = terms_.plan_every_hours * kHour;
    next_ = (now / every + 1) * every;
    library::Problem problem;
    problem.wait = std::chrono::seconds(terms_.wait_s);
    problem.from = at(std::max<std::int64_t>(0, now - terms_.memory_days * kDay));
    problem.until = at(now);
    if (problem.until <= problem.from) return;
    auto& shape = problem.shapes.emplace_back(shape_);
    std::erase_if(shape.changes,
                  [&](const library::Change& c) { return c.at >= problem.until || c.at < problem.from; });
    const auto known = std::ranges::count_if(shape.changes, [](const auto& c) { return c.nodes > 0; });
    target_ppm_ = library::next_target_ppm(target_ppm_, terms_.quantile_ppm, attained_, known);
    attained_ = {};
    problem.quantile_ppm = target_ppm_;
    auto result = library::plan(problem);
    if (result) {
      status_ = library::still_holds(problem, *result);
      levels_ = result->levels[0];
    } else {
      status_ = fail(result.error());
    }
  }

  const Terms& terms_;
  library::Shape shape_;
  std::vector<library::Need> needs_;
  library::Levels levels_{};
  library::Attained attained_;
  std::int64_t target_ppm_ = 0, next_ = 0;
  Status status_;
};

}  // namespace

std::vector<trace::Job> jobs_of(const std::vector<trace::Job>& jobs, std::int64_t gpus) {
  std::vector<trace::Job> out;
  for (const auto& job : jobs) {
    const auto* const shape = std::ranges::find_if(kShapeGpus, [&](std::int64_t each) { return job.gpus <= each; });
    const std::int64_t each = shape == std::end(kShapeGpus) ? std::end(kShapeGpus)[-1] : *shape;
    if (each != gpus) continue;
    out.push_back(job);
    out.back().gpus = static_cast<std::int32_t>((job.gpus + each - 1) / each);
  }
  return out;
}

Outcome ShapeReplay::run(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms,
                         std::int64_t from_s, std::int64_t until_s, const Level& level, const Started& started) {
  Outcome out;
  Nodes nodes(terms, from_s, until_s);
  std::size_t next = 0;
  for (std::int64_t check = 0; next < jobs.size() || nodes.pending();) {
    const std::int64_t arrival = next < jobs.size() ? jobs[next].submit_s : kNever;
    const std::int64_t now = std::min({arrival, nodes.next(), check});
    if (now >= until_s && !nodes.pending()) break;
    nodes.advance(now);
    if (now == check) {
      check += kCheck;
    } else if (now == nodes.next()) {
      nodes.end_one();
    } else {
      nodes.arrive(jobs[next++]);
    }
    nodes.settle(level, started, out);
  }
  nodes.advance(until_s);
  constexpr double kNano = 1e9;
  out.usd = static_cast<double>(nodes.node_seconds()) / static_cast<double>(kHour) * static_cast<double>(gpus) *
            static_cast<double>(terms.nano_usd_gpu_hour) / kNano;
  return out;
}

Result<Outcome> planned(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms, std::int64_t from_s,
                        std::int64_t until_s) {
  Planner planner(jobs, gpus, terms);
  const Outcome out = ShapeReplay::run(
      jobs, gpus, terms, from_s, until_s, [&](std::int64_t now) { return planner.level(now); },
      [&](std::int64_t, std::int64_t wait_s) { planner.started(wait_s); });
  QM_TRY(planner.status());
  return out;
}

Static smallest_static(const std::vector<trace::Job>& jobs, std::int64_t gpus, const Terms& terms, std::int64_t from_s,
                       std::int64_t until_s) {
  const auto with = [&](std::int64_t level) {
    return ShapeReplay::run(jobs, gpus, terms, from_s, until_s, [=](std::int64_t) { return level; });
  };
  std::int64_t low = 0, high = kMostNodes;
  while (low < high) {
    const std::int64_t level = (low + high) / 2;
    const Outcome out = with(level);
    if (out.in_time * kOne >= out.jobs * terms.quantile_ppm) {
      high = level;
    } else {
      low = level + 1;
    }
  }
  return {low, with(low)};
}

}  // namespace qm::headroom
