#include "replay.hpp"

#include "qm/admission/kueue/forest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

namespace qm::admission::forecast {
namespace {

using kueue::Work;

/// The simulated cluster that runs the jobs, and what the forecasts learn from it.
class World {
 public:
  World(const std::vector<TraceJob>& jobs, const ReplaySettings& settings, double (*clock)())
      : jobs_(jobs),
        settings_(settings),
        clock_(clock),
        decider_(plant()),
        run_times_(settings.run_times),
        correction_(settings.correction) {}

  Replayed play() {
    Instant ask = from_micros(0) + settings_.begin;
    for (std::size_t next = 0;;) {
      const Instant arrival = next < jobs_.size() ? Instant(jobs_[next].submitted) : Instant::max();
      const Instant end = ends_.empty() ? Instant::max() : std::get<0>(ends_.top());
      const Instant asking = ask <= Instant(settings_.end) ? ask : Instant::max();
      const Instant now = std::min({arrival, end, asking});
      if (now == Instant::max() || (next == jobs_.size() && asked_.empty() && asking == Instant::max())) break;
      if (now == arrival || now == end) {
        for (; next < jobs_.size() && Instant(jobs_[next].submitted) == now; ++next)
          submit(static_cast<int>(next), now);
        finish(now);
        decide(now);
      } else {
        inquire(now);
        ask += settings_.every;
      }
    }
    out_.jobs = jobs_.size();
    return std::move(out_);
  }

 private:
  kueue::QuotaState plant() {
    std::map<std::string, double> used;
    double all = 0;
    for (const auto& job : jobs_) {
      const double work = static_cast<double>(job.gpus) * seconds(job.runs);
      used[job.team] += work;
      all += work;
    }
    kueue::Forest forest;
    for (const auto& [team, work] : used) {
      kueue::Forest::Queue queue;
      queue.cohort = "all";
      queue.rules.groups = {{{0}, {{0, {}}}}};
      queue.rules.strict = settings_.strict;
      if (settings_.reclaim) queue.rules.reclaim_within_cohort = kueue::PreemptPolicy::kAny;
      kueue::Quota quota;
      quota.nominal = static_cast<std::int64_t>(static_cast<double>(settings_.gpus) * work / all);
      queue.quotas = {{0, 0, quota}};
      forest.queues[team] = std::move(queue);
    }
    kueue::Quota rest;  // all queues share the remainder of rounding
    rest.nominal = settings_.gpus;
    for (const auto& [name, queue] : forest.queues) rest.nominal -= queue.quotas[0].quota.nominal;
    forest.cohorts["all"].quotas = {{0, 0, rest}};
    auto planted = forest.plant();
    for (const auto& [name, where] : planted.queues) nodes_[name] = where.second;
    return std::move(planted.fields.front());
  }

  [[nodiscard]] Work work_of(int id) {
    const auto& job = jobs_[static_cast<std::size_t>(id)];
    Work out;
    out.id = id;
    out.queue = nodes_.at(job.team);
    out.created = job.submitted.count();
    out.shape = static_cast<int>(job.gpus);
    out.pod_sets = {{"main", 1, {}, {{0, job.gpus}}, {}}};
    return out;
  }
  [[nodiscard]] static JobClass job_class_of(const TraceJob& job) {
    return {job.team, fmt::format("{} gpu", job.gpus), ""};
  }

  void submit(int id, Instant now) {
    const auto& job = jobs_[static_cast<std::size_t>(id)];
    const auto [of, fresh] = classes_.try_emplace({job.team, job.gpus}, static_cast<int>(classes_.size()));
    if (fresh) arrivals_.add_class({work_of(id), job_class_of(job), {}});
    arrivals_.came(of->second, now);
    decider_.enqueue(work_of(id));
    waiting_.insert(id);
    came_.push_back(id);
  }

  void finish(Instant now) {
    while (!ends_.empty() && std::get<0>(ends_.top()) == now) {
      const auto [at, id, times] = ends_.top();
      ends_.pop();
      const auto runs = running_.find(id);
      if (runs == running_.end() || times_[id] != times) continue;
      running_.erase(runs);
      run_times_.ended(id, LifeTable::End::kEnded, now);
      decider_.finish(id);
    }
  }

  void decide(Instant now) {
    for (;;) {
      const auto outcome = decider_.run(micros(now));
      for (const auto& [id, assignment] : outcome.admitted) start(id, now);
      for (const auto& victim : outcome.preempted) {  // victims leave at once and start over
        running_.erase(victim.id);
        run_times_.ended(victim.id, LifeTable::End::kCutOff, now);
        ++times_[victim.id];
        waiting_.insert(victim.id);
        decider_.evicted(victim.id);
      }
      if (outcome.preempted.empty()) return;
    }
  }

  void start(int id, Instant now) {
    const auto& job = jobs_[static_cast<std::size_t>(id)];
    waiting_.erase(id);
    running_[id] = now;
    ends_.push({now + job.runs, id, times_[id]});
    run_times_.started(id, job_class_of(job), {}, now);
    const Duration waited = now - Instant(job.submitted);
    if (waited > Duration::zero() && times_[id] == 0) {
      ++out_.waited;
      out_.longest = std::max(out_.longest, waited);
    }
    const auto asked = asked_.find(id);
    if (asked == asked_.end()) return;
    auto& estimate = out_.estimates[asked->second.index];
    estimate.truth = now - estimate.asked;
    estimate.known = true;
    learn_low(asked->second, estimate.truth < estimate.corrected.low);
    learn_high(asked->second, estimate.truth > estimate.corrected.high);
    asked_.erase(asked);
  }

  struct Question {
    std::size_t index = 0;
    bool low = false, high = false;  ///< whether the outcome of each end is known
  };
  [[nodiscard]] std::size_t group_of(const Question& question) const {
    return Correction::group_of(static_cast<double>(out_.estimates[question.index].gpus));
  }
  void learn_low(Question& question, bool missed) {
    if (!std::exchange(question.low, true))
      correction_.learn_low(out_.estimates[question.index].raw, group_of(question), missed);
  }
  void learn_high(Question& question, bool missed) {
    if (!std::exchange(question.high, true))
      correction_.learn_high(out_.estimates[question.index].raw, group_of(question), missed);
  }
  /// Learns from jobs that are still pending after an end of their estimate has passed.
  void learn_from_waiting(Instant now) {
    for (auto& [id, question] : asked_) {
      const auto& estimate = out_.estimates[question.index];
      if (now - estimate.asked >= estimate.corrected.low) learn_low(question, false);
      if (now - estimate.asked > estimate.corrected.high) learn_high(question, true);
    }
  }

  [[nodiscard]] Scene scene(Instant now) {
    Scene out{emptied(decider_.field()), {}, {}, {}};
    std::map<JobClass, Scene::Life> lives;
    const auto life = [&](const JobClass& job_class) {
      auto& found = lives[job_class];
      if (!found.span) {
        const auto number = kins_.try_emplace(job_class, static_cast<int>(kins_.size())).first->second;
        found = {std::make_shared<const Lifetime>(run_times_.of(job_class, {}, now)), number};
      }
      return found;
    };
    for (const auto& [id, began] : running_) {
      Work work = work_of(id);
      work.usage = decider_.holder(id).usage;
      work.reserved = micros(began);
      out.running.push_back({std::move(work), life(job_class_of(jobs_[static_cast<std::size_t>(id)])), began});
    }
    for (const int id : waiting_) {
      out.waiting.push_back({work_of(id), life(job_class_of(jobs_[static_cast<std::size_t>(id)])), {}, {}});
    }
    for (const auto& one : arrivals_.classes()) out.of_class.push_back(life(one.job_class));
    return out;
  }

  void inquire(Instant now) {
    learn_from_waiting(now);
    std::vector<int> newcomers;
    std::ranges::copy_if(came_, std::back_inserter(newcomers), [&](int id) { return waiting_.contains(id); });
    came_.clear();
    std::vector<int> ids;
    const auto n = std::min(newcomers.size(), static_cast<std::size_t>(settings_.most));
    for (std::size_t i = 0; i < n; ++i) ids.push_back(newcomers[i * newcomers.size() / n]);
    if (ids.empty()) return;
    const double begin = clock_();
    const auto from = scene(now);
    static const Arrivals kNone;
    Scene alone = from;
    if (!settings_.arrivals) alone.of_class.clear();
    const auto estimates = Eta(settings_.eta).ask(alone, ids, settings_.arrivals ? arrivals_ : kNone, now);
    out_.asking.push_back(clock_() - begin);
    for (const auto& one : estimates) {
      const auto wait = [&](const std::optional<Instant>& at) { return at ? *at - now : settings_.eta.horizon; };
      const Interval raw{wait(one.p10), wait(one.p50), wait(one.p90)};
      asked_[one.id] = {out_.estimates.size(), false, false};
      const auto gpus = jobs_[static_cast<std::size_t>(one.id)].gpus;
      const auto group = Correction::group_of(static_cast<double>(gpus));
      out_.estimates.push_back({now, raw, correction_.corrected(raw, group), {}, gpus, false});
    }
  }

  using End = std::tuple<Instant, int, int>;
  const std::vector<TraceJob>& jobs_;
  const ReplaySettings& settings_;
  double (*clock_)();
  std::map<std::string, kueue::Node> nodes_;
  kueue::Continuous decider_;
  RunTimes run_times_;
  Correction correction_;
  Arrivals arrivals_;
  std::map<std::pair<std::string, std::int64_t>, int> classes_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::map<int, Instant> running_;
  std::map<int, int> times_;  ///< number of preemptions
  std::set<int> waiting_;
  std::vector<int> came_;
  std::map<int, Question> asked_;
  std::map<JobClass, int> kins_;
  Replayed out_;
};

double hours(Duration d) { return seconds(d) / 3600; }

/// Source   Koenker and Bassett 1978.
double pinball(Duration reported, Duration truth, double p) {
  const double over = hours(truth - reported);
  return over >= 0 ? p * over : (p - 1) * over;
}
double pinball(const Interval& reported, Duration truth) {
  return (pinball(reported.low, truth, 0.1) + pinball(reported.middle, truth, 0.5) +
          pinball(reported.high, truth, 0.9)) /
         3;
}

}  // namespace

Result<std::vector<TraceJob>> read_jobs(const std::string& path) {
  std::ifstream in(path);
  if (!in) return fail(Code::kNotFound, "{} cannot be read", path);
  std::vector<TraceJob> out;
  std::string line;
  std::getline(in, line);
  for (int number = 2; std::getline(in, line); ++number) {
    std::array<std::int64_t, 3> values{};
    const char* at = line.data();
    const char* const end = at + line.size();
    for (auto& value : values) {
      const auto [stop, error] = std::from_chars(at, end, value);
      if (error != std::errc() || stop == end || *stop != ',') {
        return fail(Code::kInvalid, "{} line {}: three numbers and a team are expected", path, number);
      }
      at = stop + 1;
    }
    out.push_back({std::chrono::seconds(values[0]), std::chrono::seconds(values[1]), values[2], std::string(at, end)});
  }
  return out;
}

Replayed replay(const std::vector<TraceJob>& jobs, const ReplaySettings& settings, double (*clock)()) {
  return World(jobs, settings, clock).play();
}

Score score(const std::vector<TracedEstimate>& estimates, bool corrected) {
  Score out;
  std::vector<double> widths;
  std::vector<Duration> before;
  std::multimap<Instant, Duration> expected;  // actual waits, by the instant at which they become known
  for (const auto& one : estimates) {
    if (!one.known) continue;
    const auto& reported = corrected ? one.corrected : one.raw;
    ++out.n;
    out.below += one.truth < reported.low ? 1 : 0;
    out.above += one.truth > reported.high ? 1 : 0;
    out.pinball_hours += pinball(reported, one.truth);
    widths.push_back(hours(reported.high - reported.low));
    while (!expected.empty() && expected.begin()->first <= one.asked) {
      const auto truth = expected.extract(expected.begin()).mapped();
      before.insert(std::ranges::upper_bound(before, truth), truth);
    }
    expected.emplace(one.asked + one.truth, one.truth);
    const auto at = [&](double p) {
      return before.empty() ? Duration::zero()
                            : before[static_cast<std::size_t>(p * static_cast<double>(before.size() - 1))];
    };
    out.naive_pinball_hours += pinball({at(0.1), at(0.5), at(0.9)}, one.truth);
  }
  if (out.n == 0) return out;
  const auto n = static_cast<double>(out.n);
  out.below /= n;
  out.above /= n;
  out.held = 1 - out.below - out.above;
  out.pinball_hours /= n;
  out.naive_pinball_hours /= n;
  std::ranges::nth_element(widths, widths.begin() + static_cast<std::ptrdiff_t>(widths.size() / 2));
  out.median_width_hours = widths[widths.size() / 2];
  return out;
}

}  // namespace qm::admission::forecast
