#include "compare.hpp"

#include "qm/model/resources.hpp"
#include "real.hpp"
#include "replay.hpp"

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <unistd.h>

namespace qm::demo {
namespace {

using namespace std::chrono_literals;
using kube::resources::kJobs;
using kube::resources::kPods;

struct Size {
  std::int32_t gpus;
  int weight;
};
constexpr Size kSizes[] = {{1, 40}, {2, 20}, {4, 20}, {8, 14}, {12, 2}, {16, 4}};
constexpr int kWeights = 100;
constexpr const char* kTeams[] = {"a", "b", "c"};
constexpr int kClients = 4;

Json job_of(const trace::Job& job, const std::string& ns, const std::string& name, bool ours) {
  const std::int32_t ranks = pods_of(job), each = job.gpus / ranks;
  const Json amounts = Json::object({{"cpu", std::to_string(each * 4)},
                                     {"memory", fmt::format("{}Gi", each * 16)},
                                     {std::string(words::kGpuResource), std::to_string(each)}});
  Json pod = Json::object(
      {{"restartPolicy", "Never"},
       {"containers",
        Json::array({Json::object({{"name", "main"},
                                   {"image", "example/none:1"},
                                   {"resources", Json::object({{"requests", amounts}, {"limits", amounts}})}})})}});
  if (ours) pod.set("schedulerName", std::string(words::kScheduler));
  const Json notes = Json::object({{"fleet.quartermaster.dev/run-seconds", std::to_string(job.duration_s)}});
  Json labels = Json::object();
  if (ours) labels.set(words::kQueueLabel, "jobs");
  return Json::object(
      {{"apiVersion", "batch/v1"},
       {"kind", "Job"},
       {"metadata", Json::object({{"name", name}, {"namespace", ns}, {"labels", labels}})},
       {"spec", Json::object({{"suspend", ours},
                              {"parallelism", ranks},
                              {"completions", ranks},
                              {"completionMode", "Indexed"},
                              {"backoffLimit", 0},
                              {"template",
                               Json::object({{"metadata", Json::object({{"labels", labels}, {"annotations", notes}})},
                                             {"spec", pod}})}})}});
}

/// Creates all Jobs, with a few concurrent clients.
Status make_jobs(kube::Client& client, const trace::Window& window, bool ours) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  Status first_failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < window.arriving.size(); i = next++) {
      const auto& job = window.arriving[i];
      const std::string ns = "team-" + job.team;
      const std::string name = fmt::format("{}-{}", ours ? "ours" : "stock", i);
      const auto made = client.create(kJobs, ns, job_of(job, ns, name, ours));
      if (made || made.error().code == Code::kAlreadyExists) continue;
      const std::lock_guard lock(mutex);
      if (first_failure) first_failure = fail(made.error().with_context(name));
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < kClients; ++i) threads.emplace_back(work);
  threads.clear();
  return first_failure;
}

Result<std::size_t> pods_left(kube::Client& client, const std::set<std::string>& namespaces) {
  std::size_t left = 0;
  for (const auto& ns : namespaces) {
    QM_ASSIGN(const auto pods, client.list_all(kPods, ns));
    left += pods.size();
  }
  return left;
}

/// The mean packing of pods on the nodes, sampled from time to time.
class Mean {
 public:
  void add(const witness::Packing& now) {
    if (now.pods == 0) return;
    ++n_;
    sum_.pods += now.pods;
    sum_.gpus += now.gpus;
    sum_.nodes_used += now.nodes_used;
    sum_.stranded += now.stranded;
    sum_.whole_free += now.whole_free;
  }
  [[nodiscard]] witness::Packing get() const {
    witness::Packing mean = sum_;
    for (auto* part : {&mean.pods, &mean.gpus, &mean.nodes_used, &mean.stranded, &mean.whole_free})
      *part /= std::max<std::int64_t>(1, n_);
    const auto capacity = sum_.gpus + sum_.stranded;
    if (capacity > 0) mean.share_of_used = static_cast<double>(sum_.gpus) / static_cast<double>(capacity);
    return mean;
  }

 private:
  witness::Packing sum_;
  std::int64_t n_ = 0;
};

Result<Contest::Side> run_side(Stack& stack, const trace::Window& window, bool ours, bool lasting, Progress& progress) {
  auto& client = stack.real()->client();
  auto& witness = stack.real()->witness();
  witness.forget();
  Contest::Side side;
  side.scheduler = ours ? "quartermaster" : "kube-scheduler";
  std::set<std::string> namespaces;
  for (const auto& job : window.arriving) {
    ++side.jobs;
    side.pods += pods_of(job);
    side.gpus += job.gpus;
    namespaces.insert("team-" + job.team);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  Status made;
  std::atomic<bool> all_made = false;
  std::jthread maker([&] {
    made = make_jobs(client, window, ours);
    side.made_s = since();
    all_made = true;
  });
  Mean mean;
  std::int64_t before = -1;
  auto moved = std::chrono::steady_clock::now(), looked = moved;
  while (witness.counts().bound < side.pods) {
    const auto bound = witness.counts().bound;
    const auto now = std::chrono::steady_clock::now();
    if (bound != before) moved = now;
    before = bound;
    if (now - moved > 60s && all_made) break;  // no more changes
    if (now - looked > 1s) {
      looked = now;
      mean.add(witness.packing());
    }
    progress.status(fmt::format("{}: {} of {} pods bound after {:.0f} s", side.scheduler, bound, side.pods, since()));
    std::this_thread::sleep_for(50ms);
  }
  maker.join();
  QM_TRY(made);
  side.all_s = witness.counts().bound < side.pods ? since() - 60 : since();
  side.bound = witness.bound();
  side.packing = lasting ? witness.packing() : mean.get();
  if (lasting) side.partial = witness.partial_gangs();
  progress.line(
      fmt::format("{}: {} of {} pods bound in {:.1f} s", side.scheduler, side.bound.n, side.pods, side.all_s));
  for (const auto& ns : namespaces) {
    QM_ASSIGN(const auto jobs, client.list_all(kJobs, ns));
    for (const auto& job : jobs) (void)client.remove(kJobs, ns, kube::name_of(job), {});
  }
  const bool gone = testing::wait_until(
      [&] {
        const auto left = pods_left(client, namespaces);
        if (left) progress.status(fmt::format("{} pods are going", *left));
        std::this_thread::sleep_for(500ms);
        return left && *left == 0;
      },
      600s);
  if (!gone) return fail(Code::kDeadlineExceeded, "the pods of {} are not deleted", side.scheduler);
  return side;
}

}  // namespace

trace::Window lasting_jobs(const Options& o) {
  std::mt19937_64 random(o.seed);
  const std::int64_t capacity = std::int64_t{o.nodes > 0 ? o.nodes : 20} * 8 * 3 / 4;
  trace::Window window;
  for (std::int64_t asked = 0; asked < capacity;) {
    trace::Job job;
    auto draw = static_cast<int>(random() % kWeights);
    for (const Size& size : kSizes) {
      job.gpus = size.gpus;
      if ((draw -= size.weight) < 0) break;
    }
    job.team = fmt::format("{}-{}", kTeams[random() % std::size(kTeams)], ::getpid());
    job.duration_s = 86'400;
    asked += job.gpus;
    window.arriving.push_back(job);
  }
  return window;
}

Result<Contest> compare(const Options& o, Stack& stack, const trace::Window& window, Progress& progress) {
  Contest contest;
  contest.lasting = !o.main_jobs;
  const auto gpus = stack.real()->witness().counts().gpus;
  contest.nodes = gpus / 8;
  Submitter submitter(stack, window, "compare-" + std::to_string(::getpid()));
  QM_TRY(submitter.apply_queues(queue_manifests(window, gpus)));
  QM_ASSIGN(auto ours, run_side(stack, window, true, contest.lasting, progress));
  contest.sides.push_back(std::move(ours));
  // The stock scheduler has the host to itself.
  stack.stop_services();
  QM_ASSIGN(auto stock, run_side(stack, window, false, contest.lasting, progress));
  contest.sides.push_back(std::move(stock));
  return contest;
}

Json Contest::to_json() const {
  Json list = Json::array();
  for (const auto& s : sides) {
    list.push_back(Json::object({{"who", s.scheduler},
                                 {"jobs", s.jobs},
                                 {"pods", s.pods},
                                 {"gpus", s.gpus},
                                 {"bound", s.bound.n},
                                 {"jobs_made_s", s.made_s},
                                 {"all_s", s.all_s},
                                 {"pods_per_s", s.all_s > 0 ? static_cast<double>(s.bound.n) / s.all_s : 0},
                                 {"middle_pods_per_s", s.bound.middle},
                                 {"best_10s_pods_per_s", s.bound.best},
                                 {"nodes_used", s.packing.nodes_used},
                                 {"gpu_share_of_used_nodes", s.packing.share_of_used},
                                 {"stranded_gpus", s.packing.stranded},
                                 {"whole_nodes_free", s.packing.whole_free},
                                 {"partial_gangs", s.partial ? Json(*s.partial) : Json()}}));
  }
  return Json::object({{"nodes", nodes}, {"lasting", lasting}, {"sides", std::move(list)}});
}

void Contest::print() const {
  std::printf("\n%ld nodes of 8 GPUs, %ld Jobs with %ld pods that request %ld GPUs\n\n%-28s", nodes, sides[0].jobs,
              sides[0].pods, sides[0].gpus, "");
  for (const auto& s : sides) std::printf("%16s", s.scheduler.c_str());
  const auto row = [&](const char* what, int digits, const std::function<double(const Side&)>& value) {
    std::printf("\n%-28s", what);
    for (const auto& s : sides) std::printf("%16.*f", digits, value(s));
  };
  row("pods bound", 0, [](const Side& s) { return static_cast<double>(s.bound.n); });
  row("seconds to create the Jobs", 1, [](const Side& s) { return s.made_s; });
  row("seconds until all bound", 1, [](const Side& s) { return s.all_s; });
  row("pods/s, whole", 1, [](const Side& s) { return s.all_s > 0 ? static_cast<double>(s.bound.n) / s.all_s : 0; });
  row("pods/s, middle 80 %", 1, [](const Side& s) { return s.bound.middle; });
  row("pods/s, best ten seconds", 1, [](const Side& s) { return s.bound.best; });
  if (!lasting) std::printf("\nin the mean until the last pod was bound:");
  row("nodes used", 0, [](const Side& s) { return static_cast<double>(s.packing.nodes_used); });
  row("GPU share of used nodes, %", 1, [](const Side& s) { return 100 * s.packing.share_of_used; });
  row("stranded GPUs", 0, [](const Side& s) { return static_cast<double>(s.packing.stranded); });
  row("nodes wholly free", 0, [](const Side& s) { return static_cast<double>(s.packing.whole_free); });
  if (lasting) row("gangs bound in part", 0, [](const Side& s) { return static_cast<double>(*s.partial); });
  std::printf("\n");
}

}  // namespace qm::demo
