#include "real.hpp"

#include "faults.hpp"
#include "replay.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>
#include <unistd.h>

namespace qm::demo {
namespace {

struct Size {
  std::int32_t gpus;
  int weight;
};
// Like Philly: most jobs are small, but most GPUs are used by the large ones.
constexpr Size kSizes[] = {{1, 30}, {2, 14}, {4, 14}, {8, 17}, {12, 9}, {16, 8}, {32, 6}, {64, 2}};
constexpr const char* kTeams[] = {"a", "b", "c", "d", "e", "f"};
constexpr std::int64_t kLeastSeconds = 20, kMostSeconds = 70;

std::string cluster_status(Stack& stack, const Submitter& submitter) {
  const auto c = stack.real()->witness().counts();
  return fmt::format(
      "{} submitted {:>5} jobs, ended {:>5}; pods admitted {:>5} bound {:>5} ended {:>5}; GPUs {:>5} of {}",
      to_rfc3339(stack.clock().now()).substr(11, 8), submitter.submitted(), c.ended, c.admitted, c.bound, c.stopped,
      c.gpus_held, c.gpus);
}

// Lines about the cloud are from the fleet, all others from the cluster; in time order.
std::string merged(const std::string& fleet, const std::string& cluster) {
  std::vector<std::pair<std::int64_t, std::string>> lines;
  const auto take = [&](const std::string& text, bool of_the_cloud) {
    std::stringstream in(text);
    for (std::string line; std::getline(in, line);) {
      const auto parsed = Json::parse(line);
      if (!parsed) continue;
      const std::string& event = (*parsed)["e"].string();
      if (of_the_cloud && !event.starts_with("instance_") && event != "signal") continue;
      lines.emplace_back((*parsed)["t"].integer(), line);
    }
  };
  take(fleet, true);
  take(cluster, false);
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (const auto& [t, line] : lines) text += line + "\n";
  return text;
}

}  // namespace

std::int32_t pods_of(const trace::Job& job) {
  const std::int32_t each = job.gpus % 8 == 0 ? 8 : job.gpus < 8 ? job.gpus : 4;
  return std::max(1, (job.gpus + each - 1) / each);
}

Result<trace::Window> short_jobs(const Options& o) {
  std::mt19937_64 random(o.seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const int weights = std::accumulate(std::begin(kSizes), std::end(kSizes), 0,
                                      [](int sum, const Size& size) { return sum + size.weight; });
  // No gang may request more than a quarter of the fleet: the small form runs on few nodes.
  const std::int32_t largest = std::max(1, (o.nodes > 0 ? o.nodes : 20) * 8 / 4);
  trace::Window window;
  for (int pods = 0; pods < o.pods;) {
    trace::Job job;
    auto draw = below(static_cast<std::uint64_t>(weights));
    for (const Size& size : kSizes) {
      job.gpus = size.gpus;
      if ((draw -= size.weight) < 0) break;
    }
    if (job.gpus > largest) continue;
    job.duration_s = kLeastSeconds + below(kMostSeconds - kLeastSeconds);
    job.team = fmt::format("{}-{}", kTeams[below(std::size(kTeams))], ::getpid());
    pods += pods_of(job);
    window.arriving.push_back(job);
  }
  window.until_s = o.spread_s > 0 ? o.spread_s : std::max(20, o.pods / 30);
  for (std::size_t i = 0; i < window.arriving.size(); ++i) {
    window.arriving[i].submit_s =
        static_cast<std::int64_t>(i) * window.until_s / static_cast<std::int64_t>(window.arriving.size());
  }
  return window;
}

Result<Outcome> replay_on_cluster(const Options& o, Stack& stack, const trace::Window& window, Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  auto& witness = stack.real()->witness();
  Submitter submitter(stack, window, "cluster-" + std::to_string(::getpid()));
  QM_TRY(submitter.apply_queues(queue_manifests(window, witness.counts().gpus)));
  const Instant start = stack.clock().now();
  const Duration length = std::chrono::seconds(window.until_s);
  progress.line(fmt::format("{} jobs arrive in {} s", window.arriving.size(), window.until_s));
  FaultPlan faults(stack, o, start, length);
  submitter.start(start);
  Outcome outcome;
  const Instant limit = start + length + std::chrono::seconds(o.limit_s);
  const auto over = [&] {
    return submitter.done() && faults.done() &&
           witness.counts().ended >= static_cast<std::int64_t>(submitter.acked().size());
  };
  while (!over() && stack.clock().now() < limit) {
    QM_TRY(advance(stack, faults, progress));
    progress.status(cluster_status(stack, submitter));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  submitter.stop();
  progress.end();
  progress.line(cluster_status(stack, submitter));
  if (!over()) outcome.troubles.push_back(fmt::format("not all had ended {} s after the last arrival", o.limit_s));

  // Time is not stopped here, so the evaluation ends at an instant until which all events were published and handled.
  if (auto quiet = wait_quiet(stack, std::chrono::seconds(120)); !quiet)
    outcome.troubles.push_back(quiet.error().message);
  const Instant end = stack.clock().now();
  QM_ASSIGN(outcome.suite, ask_suite(stack, end));
  const std::string history = merged(testing::read_file(stack.history_file()), stack.real()->history());
  std::ofstream(o.dir + "/fleet/merged.jsonl") << history;
  QM_TRY(judge(stack, submitter.acked(), history, {start, end}, outcome));
  note_faults(faults, outcome);
  outcome.admitted = witness.admitted();
  outcome.bound = witness.bound();
  outcome.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

}  // namespace qm::demo
