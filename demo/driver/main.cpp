// The main job: replays busy hours on the whole suite, injects faults, and checks what really happened.
#include "qm/base/log.hpp"
#include "src/cluster.hpp"
#include "src/faults.hpp"
#include "src/options.hpp"
#include "src/progress.hpp"
#include "src/real.hpp"
#include "src/replay.hpp"
#include "src/report.hpp"
#include "src/stack.hpp"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace qm::demo {
namespace {

constexpr const char* kStart = "2026-11-02T08:00:00Z";

std::string fleet_status(Stack& stack, const Submitter& submitter) {
  auto state = stack.fleet_get("/fleet/state");
  if (!state) return "the fleet does not answer";
  const Json& cluster = (*state)["cluster"];
  const Json& pods = (*state)["pods"];
  return fmt::format("{} x{:<4} submitted {:>5}  pods running {:>4} pending {:>4}  GPUs {:>4} of {:<4}",
                     (*state)["time"].string().substr(11, 8), (*state)["factor"].number(), submitter.submitted(),
                     pods["Running"].integer(), pods["Pending"].integer(), cluster["gpus_allocated"].integer(),
                     cluster["gpus"].integer());
}

struct Sizes {
  int nodes, spot;
  std::int64_t burst_gpus, quota_gpus;
};

// Fewer GPUs than the jobs request: the jobs that run at the start nearly fill them, so arriving jobs are pending.
Sizes size_fleet(const Options& o, const trace::Window& w) {
  if (o.nodes == 0) return {0, 0, 64, 64};
  if (o.kube != "fleet") {
    const int nodes = o.nodes > 0 ? o.nodes : 20;
    const int taken_back = std::min(o.spot_nodes, nodes / 2);
    return {nodes - taken_back, taken_back, 64, std::int64_t{nodes} * 8 + 64};
  }
  const int total = o.nodes > 0 ? o.nodes : std::max(2, static_cast<int>(w.running_gpus() * 105 / 100 / 8) + 1);
  const int reclaimed = (total * o.interrupt_percent + 99) / 100;
  const int spot = std::max(std::min(o.spot_nodes, o.up ? total : total / 2), reclaimed);
  const std::int64_t burst = std::max<std::int64_t>(2, total / 8) * 8;
  return {total - spot, spot, burst, std::int64_t{total} * 8 + burst};
}

Result<Outcome> replay(const Options& o, Stack& stack, const trace::Window& window, const Sizes& sizes,
                       Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  Submitter submitter(stack, window, "demo-" + std::to_string(::getpid()));
  // A job that cannot save starts again at zero: the rule spot-checkpoint of the webhook keeps it from spot capacity.
  if (o.interrupt_percent > 0) submitter.every_job_saves();
  QM_TRY(submitter.apply_queues(queue_manifests(window, sizes.quota_gpus)));
  progress.line(fmt::format("placing {} jobs that run when the hours begin ({} GPUs of {})", window.running.size(),
                            window.running_gpus(), (sizes.nodes + sizes.spot) * 8));
  QM_TRY(submitter.submit_running());
  QM_TRY(stack.fleet_post("/fleet/clock", Json::object({{"factor", 10}})));
  // The initial jobs run, or are pending because of fragmentation: in either case the hours begin after at most a
  // minute.
  (void)testing::wait_until(
      [&] {
        progress.status(fleet_status(stack, submitter));
        auto state = stack.fleet_get("/fleet/state");
        return state && (*state)["cluster"]["gpus_computing"].integer() >= window.running_gpus() * 95 / 100;
      },
      std::chrono::seconds(60));

  const Instant start = stack.clock().now();
  const Duration length = std::chrono::seconds(window.until_s - window.from_s);
  progress.line(fmt::format("{} jobs arrive in {} hours at {}x", window.arriving.size(), length / std::chrono::hours(1),
                            o.speed));
  QM_TRY(stack.fleet_post("/fleet/clock", Json::object({{"factor", o.speed}})));
  FaultPlan faults(stack, o, start, length);
  submitter.start(start);
  Outcome outcome;
  while (stack.clock().now() < start + length || !submitter.done() || !faults.done()) {
    QM_TRY(advance(stack, faults, progress));
    progress.status(fleet_status(stack, submitter));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  submitter.stop();
  progress.end();

  // Domain time is stopped during the evaluation, so that both sides are compared at the same instant.
  QM_TRY(stack.fleet_post("/fleet/clock", Json::object({{"factor", 0}})));
  const Instant end = stack.clock().now();
  if (auto quiet = wait_quiet(stack, std::chrono::seconds(30)); !quiet)
    outcome.troubles.push_back(quiet.error().message);
  QM_ASSIGN(outcome.suite, ask_suite(stack, end));

  QM_TRY(judge(stack, submitter.acked(), testing::read_file(stack.history_file()), {start, end}, outcome));
  note_faults(faults, outcome);
  if (o.interrupt_percent > 0) judge_interruption(outcome);
  outcome.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

std::string pid_file(const Options& o) { return o.dir + "/demo.pid"; }

/// A reader of the output of ./qm up must get its end, although the suite keeps running.
void let_go_of_terminal(const Options& o) {
  const std::string file = o.dir + "/logs/demo.log";
  const int log = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return;
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
}

void wait_for_end() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  int signal = 0;
  sigwait(&set, &signal);
}

/// `report` sends the exit code to the waiting parent, if there is one.
int run(const Options& o, const std::function<void(int)>& report) {
  Progress progress(::isatty(1) == 1);
  const auto begin = std::chrono::steady_clock::now();
  trace::Window window;
  if (!o.up) {
    auto chosen = o.kube == "fleet" ? choose_window(o) : short_jobs(o);
    if (!chosen) {
      std::fprintf(stderr, "qm demo: %s\n", chosen.error().to_string().c_str());
      return 2;
    }
    window = std::move(*chosen);
  }
  const Sizes sizes = o.up && o.nodes < 0 ? Sizes{6, 2, 16, 80} : size_fleet(o, window);
  Stack::Plan plan;
  plan.nodes = sizes.nodes;
  plan.spot_nodes = sizes.spot;
  plan.start = kStart;
  plan.pool_manifest = o.pools_file.empty() ? pool_manifest(sizes.burst_gpus) : testing::read_file(o.pools_file);
  Stack stack(o, plan);
  if (auto up = stack.start(); !up) {
    std::fprintf(stderr, "qm demo: %s\n", up.error().to_string().c_str());
    return 2;
  }
  std::ofstream(pid_file(o)) << ::getpid() << "\n";
  progress.line(fmt::format("the suite is up in {:.1f} s: {} processes on {} and {} spot nodes of {}, bus on {}",
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                            stack.processes().size(), sizes.nodes, sizes.spot,
                            o.kube == "fleet" ? "the simulated fleet" : "a real control plane", o.bus));
  int code = 0;
  // The tenants of examples/, so that its queues and jobs can be applied at once.
  for (const char* tenant : {"research", "vision", "speech", "production"}) {
    if (o.up) (void)stack.make_namespace(tenant);
  }
  if (!o.up) {
    auto outcome = stack.real() == nullptr ? replay(o, stack, window, sizes, progress)
                                           : replay_on_cluster(o, stack, window, progress);
    if (!outcome) {
      std::fprintf(stderr, "\nqm demo: %s\n", outcome.error().to_string().c_str());
      code = 2;
    } else {
      outcome->print();
      code = outcome->ok() ? 0 : 1;
      if (!o.json_file.empty()) std::ofstream(o.json_file) << outcome->to_json().pretty() << "\n";
    }
  }
  std::printf("\nlogs %s/logs, history %s, endpoints %s/endpoints.json\n", o.dir.c_str(), stack.history_file().c_str(),
              o.dir.c_str());
  for (const auto& s : Stack::services())
    std::printf("  %-10s gRPC %s  metrics http://127.0.0.1:%d/metrics\n", s.c_str(), stack.grpc(s).c_str(),
                stack.http_port(s));
  std::fflush(stdout);
  if (o.keep || o.up) {
    (void)stack.fleet_post("/fleet/clock", Json::object({{"factor", o.up ? o.speed : 1.0}}));
    std::printf(
        "left running: try  build/release/bin/qmctl --endpoints %s/endpoints.json list   and end with  ./qm down\n",
        o.dir.c_str());
    std::fflush(stdout);
    let_go_of_terminal(o);
    report(code);
    wait_for_end();
  }
  stack.stop();
  std::filesystem::remove(pid_file(o));
  return code;
}

int stop_kept(const Options& o) {
  std::ifstream in(pid_file(o));
  pid_t pid = 0;
  if (!(in >> pid) || ::kill(pid, SIGTERM) != 0) {
    std::fprintf(stderr, "qm down: nothing runs in %s\n", o.dir.c_str());
    return 1;
  }
  // In a cluster of its user the starter deletes the nodes that it created, each with a call.
  constexpr std::chrono::seconds kMost{300};
  if (!testing::wait_until([&] { return ::kill(pid, 0) != 0; }, kMost)) {
    std::fprintf(stderr, "qm down: process %d does not end within %ld s: see %s/logs, then end it with  kill -9 %d\n", pid,
                 static_cast<long>(kMost.count()), o.dir.c_str(), pid);
    return 1;
  }
  std::printf("stopped\n");
  return 0;
}

// The suite outlives the command that started it: a child runs it, and the parent waits only for its report.
int run_detached(const Options& o) {
  int channel[2];
  if (::pipe(channel) != 0) return 2;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    ::close(channel[0]);
    const auto tell = [&](int code) {
      (void)!::write(channel[1], &code, sizeof code);
      ::close(channel[1]);
    };
    const int code = run(o, tell);
    tell(code);
    ::_exit(code);
  }
  ::close(channel[1]);
  int code = 2;
  if (::read(channel[0], &code, sizeof code) != sizeof code) code = 2;
  return code;
}

}  // namespace
}  // namespace qm::demo

int main(int argc, char** argv) {
  const auto options = qm::demo::parse(argc, argv);
  if (options.down) return qm::demo::stop_kept(options);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (options.keep || options.up) return qm::demo::run_detached(options);
  // Our processes end with this one, except a control plane that this process started, which is stopped here.
  std::thread([set] {
    int signal = 0;
    sigwait(&set, &signal);
    qm::demo::RealCluster::end_own();
    ::_exit(128 + signal);
  }).detach();
  qm::log::init("demo", qm::log::Format::kText, qm::log::Level::kWarn);
  return qm::demo::run(options, [](int) {});
}
