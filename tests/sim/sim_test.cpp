#include "sim.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/log.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace qm::sim {
namespace sim_test {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void print_steps(std::uint64_t seed, const std::string& failure, const std::vector<std::string>& steps) {
  std::fprintf(stderr, "seed %llu: %s\nthe last steps:\n", static_cast<unsigned long long>(seed), failure.c_str());
  for (const auto& step : steps) std::fprintf(stderr, "  %s\n", step.c_str());
  std::fprintf(stderr, "run it alone: QM_SIM_FIRST=%llu QM_SIM_SEEDS=1 sim_test\n",
               static_cast<unsigned long long>(seed));
}

struct Simulation : ::testing::Test {
  static void SetUpTestSuite() {
    log::set_level(std::getenv("QM_SIM_LOG") != nullptr ? log::Level::kDebug : log::Level::kOff);
    set_assertion_hook(
        [](std::string_view text) { print_steps(seed_in_progress(), std::string(text), steps_so_far()); });
  }
  static void TearDownTestSuite() { set_assertion_hook(nullptr); }
};

void print(const Counts& r) {
  fmt::print(
      "{} batches, {} pods started, {} instances, {} crashes, {} batches undone, {} reloads, {} duplicates\n"
      "leases: {} claims, {} leaders deposed; databases: {} restores, {} found by a running process, {} events lost, {} histories broke, {} events abandoned; clocks: {} changes, {} of hours, rejected {} times\n"
      "topics: {} truncated, {} created again, {} lost all messages, {} snapshots; {} reloads during a call; {} unwritable calls refused\n",
      r.batches, r.starts, r.instances, r.crashes, r.undone, r.reloads, r.duplicates, r.claims, r.deposed, r.restores,
      r.rollbacks, r.lost_events, r.breaks, r.abandoned, r.jumps, r.leaps, r.rejections, r.truncations, r.recreations,
      r.emptied, r.snapshots, r.overlaps, r.refused);
  fmt::print(
      "{} MIG instances on a GPU with instances of another tenant; {} pods joined a running gang; {} MIG repartitions\n"
      "preemption proposals: {} published, {} withdrawn; events of workloads: {} preempted, {} migrated, {} migrated for another; "
      "{} gangs in recovery\n",
      r.meetings, r.grown, r.layouts, r.proposed, r.withdrawn, r.preempted, r.moved, r.moved_for, r.returning);
  std::fflush(stdout);
}

// In every seventh seed jobs may run with fewer pods than they request, and quota is sufficient.
// S-148: in every fifth seed two tenants have pods on a node with GPUs partitioned by MIG. The world checks after
// each step that they share a GPU only in distinct instances. In every tenth seed the GPUs are partitioned only when
// a workload is pending for instances.
TEST_F(Simulation, EverySeedKeepsTheLawsAndComesToAnEnd) {  // S-012
  const auto first = setting("QM_SIM_FIRST", 1), count = setting("QM_SIM_SEEDS", 300);
  std::uint64_t failures = 0, ran = 0;
  Counts sum;
  const char* file = std::getenv("QM_SIM_DECISIONS");
  std::ofstream digests(file == nullptr ? "" : file);
  for (std::uint64_t seed = first; seed < first + count && failures < 5; ++seed, ++ran) {
    const auto report = run_seed(seed);
    if (file != nullptr) digests << seed << ' ' << report.decisions << '\n';
    if (!report.failure.empty()) {
      ++failures;
      ADD_FAILURE() << "seed " << seed << ": " << report.failure;
      print_steps(seed, report.failure, report.last_steps);
    }
    sum += report;
  }
  fmt::print("{} seeds, {} failed: ", ran, failures);
  print(sum);
  if (count < 200) return;
  // A schedule that never has its faults tests nothing.
  const std::pair<const char*, std::uint64_t> wanted[] = {{"meetings of tenants on a GPU", sum.meetings},
                                                          {"gangs that grew", sum.grown},
                                                          {"deposed leaders", sum.deposed},
                                                          {"restored databases", sum.restores},
                                                          {"restores that a running process found", sum.rollbacks},
                                                          {"events that a database lost", sum.lost_events},
                                                          {"broken histories", sum.breaks},
                                                          {"truncated topics", sum.truncations},
                                                          {"topics that were created again", sum.recreations},
                                                          {"topics that lost all messages", sum.emptied},
                                                          {"snapshots", sum.snapshots},
                                                          {"changes of clocks", sum.jumps},
                                                          {"changes of clocks by hours", sum.leaps},
                                                          {"rejected jumps of clocks", sum.rejections},
                                                          {"reloads during a call", sum.overlaps},
                                                          {"refused calls", sum.refused}};
  for (const auto& [what, times] : wanted) EXPECT_GT(times, 10U) << what;
  EXPECT_GT(sum.returning, 0U) << "no gang ever recovered";
  EXPECT_GT(sum.layouts, 0U) << "no GPU was ever repartitioned";
  EXPECT_GT(sum.proposed, 0U) << "no preemption was ever proposed";
  EXPECT_GT(sum.moved, 0U) << "no pod ever migrated: nothing is shown of defragmentation";
}

/// Seeds that failed in the past. A change of the simulation gives a seed another schedule, so each fault also has a
/// test next to the code.
struct Past {
  std::uint64_t seed;
  const char* what;
  const char* fixed_by;
};
constexpr Past kPast[] = {
    {53, "placement waited in every later attempt for a rank that had succeeded", "6e7f77ab"},
    {218, "the same", "6e7f77ab"},
    {228, "the same", "6e7f77ab"},
    {323, "the same", "6e7f77ab"},
    {219, "three workloads preempted each other in a cycle", "5d048fba"},
    {1200, "a job whose creation was answered late was created again after its deletion", "5d048fba"},
    {19, "a later attempt waited for pods of a work-queue Job that had succeeded", "910000a3"},
    {555, "the success of a rank was not observed", "910000a3"},
    {499, "a reservation that expired before admission accepted it was requested for ever in the same attempt",
     "admission: an expired reservation is requested as the next attempt"},
    {545, "a call that cannot be written was repeated every 5 s, and admission did nothing else",
     "tests/sim: calls are repeated at growing intervals, and past seeds"},
    {963, "three workloads preempted each other in a cycle: placement did not follow the order in which they got quota",
     "admission, placement: workloads that get quota at once get their nodes in that order"},
    {578, "versions that a snapshot skipped were counted as missed",
     "service: versions that a snapshot skips are not counted as missed"},
    {424, "placement did not answer a drain that an autoscaler requested again whose database lost the first request",
     "placement: a drain that is requested again is answered again"},
    {429, "a replay of cost's journal reached another state",
     "cost: when an attempt is final depends on its rows alone"},
    {513, "a rebalance moved the history of a partition back, and a version that was issued again was dropped",
     "service: a rebalance does not move the history of a partition back to a snapshot"},
    {1479, "the same", "service: a rebalance does not move the history of a partition back to a snapshot"},
    {13368, "a paused leader committed in a restored database whose next leader had the same epoch number",
     "store, service: a commit compares its term, and a lost session begins a new one"},
    {4855, "the same", "store, service: a commit compares its term, and a lost session begins a new one"},
    {9804, "a snapshot of a leader whose takeover was lost ended the term of the leader that went on",
     "store, service: a commit compares its term, and a lost session begins a new one"},
    {10010, "messages of a recreated log were skipped whose last applied message retention had deleted",
     "service: at a start, a log without its last applied message is a gap"},
    {1413, "the place of a rank that had succeeded was not offered in the step that freed it",
     "placement: capacity that a decision frees is offered in the same step"},
    {11140, "an elastic gang of which no pod ran waited for nodes that nothing asked for",
     "placement: an elastic gang without a running pod or a place for one ends its attempt"},
    {15860, "a requeue list was lost with all messages of its topic, which no consumer can notice",
     "tests/sim: a list that is lost with its whole topic is not held against admission"},
    {17688, "the keys of a snapshot were committed without its history, and the owner's database lost what it had",
     "service: the history of a snapshot is committed ahead of its keys"},
    {19047, "free capacity was offered to one pending workload after the other",
     "placement/engine: free capacity is offered to all pending workloads within a second"},
    {4179, "a topic was created again and lost all messages before its anchor was compared",
     "service: an anchor that retention deleted may be that of another log"},
    {17095, "inputs to try again were counted that were settled",
     "service: a snapshot of before a reload is not applied, and work that is left is counted at once"},
    {18074, "a victim that ended while it was not active kept its displacers, in memory only",
     "admission/engine: what binds a victim ends with it, also while it does not compete for quota"},
    {8716, "a snapshot of before a reload was left out, and its topic was read on behind it",
     "service: after a reload snapshots are taken again also where no consumer is open"},
    {6795, "a budget was raised while cost was stopped, and it never read that", "tests/sim: budgets are listed again"},
};

TEST_F(Simulation, SeedsOfPastFailuresPass) {
  for (const auto& past : kPast) {
    const auto report = run_seed(past.seed);
    EXPECT_EQ(report.failure, "") << "seed " << past.seed << ": " << past.what << "; fixed by " << past.fixed_by;
  }
}

TEST_F(Simulation, ASeedIsASchedule) {
  for (std::uint64_t seed = 7001; seed < 7004; ++seed) {
    const auto once = run_seed(seed), again = run_seed(seed);
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
  }
}

/// The result of a seed with a planted bug, run in a child because it may end in a failed assertion: the broken law,
/// or empty if none broke.
std::string verdict(std::uint64_t seed, Bug bug) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    static const int to = ends[1];
    constexpr auto tell = [](std::string_view text) {
      (void)!write(to, text.data(), std::min<std::size_t>(text.size(), 2000));
    };
    (void)!std::freopen("/dev/null", "w", stderr);
    // A world with a planted bug may never become idle; a run takes a second or two of processor time.
    const rlimit processor{60, 60};
    (void)setrlimit(RLIMIT_CPU, &processor);
    set_assertion_hook(tell);
    tell(run_seed(seed, bug).failure);
    std::_Exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended_well || !text.empty() ? text : "the process died without output";
}

/// A bug, its name, and the message of a law that detects it. Another law may detect it first, but not on every seed.
struct Plant {
  Bug bug;
  const char* name;
  const char* law;
};
struct Planted : Simulation, ::testing::WithParamInterface<Plant> {};

TEST_P(Planted, IsFound) {
  std::string broken;
  const auto most = setting("QM_SIM_PLANTED", 200);
  for (std::uint64_t seed = 1; seed <= most; ++seed) {
    broken = verdict(seed, GetParam().bug);
    if (broken.find(GetParam().law) == std::string::npos) continue;
    std::printf("seed %llu: %.160s\n", static_cast<unsigned long long>(seed), broken.c_str());
    return;
  }
  ADD_FAILURE() << "no law reports \"" << GetParam().law << "\" in " << most
                << " seeds, the last of which reports: " << broken;
}

INSTANTIATE_TEST_SUITE_P(Bugs, Planted,
                         ::testing::Values(Plant{Bug::kLaunchTwice, "LaunchTwice", "has instances"},
                                           Plant{Bug::kCreateTwice, "CreateTwice", "jobs exist for the submission"},
                                           Plant{Bug::kSkipMessages, "SkipMessages", "missed a version"},
                                           Plant{Bug::kOldAttemptRuns, "OldAttemptRuns", "at once"},
                                           Plant{Bug::kWrongDevices, "WrongDevices", " serves "},
                                           Plant{Bug::kCostLosesStops, "CostLosesStops", "and the bill"},
                                           Plant{Bug::kHalfGang, "HalfGang", "has not ended"},
                                           Plant{Bug::kRowNotWritten, "RowNotWritten", "reads another state back"},
                                           Plant{Bug::kUndoForgotten, "UndoForgotten", "another state"},
                                           Plant{Bug::kOneInstance, "OneInstance", " of GPU "},  // S-148
                                           Plant{Bug::kClockBack, "ClockBack", "earlier than the one before"},
                                           Plant{Bug::kJumpAccepted, "JumpAccepted", "ahead of the database's clock"},
                                           Plant{Bug::kRetriesForEver, "RetriesForEver", "a call is not answered"},
                                           Plant{Bug::kRollbackUnseen, "RollbackUnseen", "another state"},
                                           Plant{Bug::kNotObservedAgain, "NotObservedAgain", "has not ended"},
                                           Plant{Bug::kUnfenced, "Unfenced", "without the lease"},
                                           Plant{Bug::kClaimsEarly, "ClaimsEarly", "lead at once"},
                                           Plant{Bug::kCallsOverlap, "CallsOverlap", "two calls for"},
                                           Plant{Bug::kNoTombstones, "NoTombstones", "its owner published"},
                                           Plant{Bug::kSnapshotSkipped, "SnapshotSkipped", "its owner published"},
                                           Plant{Bug::kGapUnseen, "GapUnseen", "its owner published"},
                                           Plant{Bug::kHistoryUnseen, "HistoryUnseen", "its owner published"},
                                           Plant{Bug::kForgedPod, "ForgedPod", "is bound as a rank"},
                                           Plant{Bug::kGivesUp, "GivesUp", "has not ended"},
                                           Plant{Bug::kRelayAhead, "RelayAhead", "its owner published"},
                                           Plant{Bug::kRequeueUnheard, "RequeueUnheard", "although its pods fit"}),
                         [](const auto& plant) { return std::string(plant.param.name); });

// The detection must not report a bug if none is planted, in the same child and with the same messages.
TEST_F(Simulation, NothingIsFoundWhereNothingIsPlanted) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(verdict(seed, Bug::kNone), "") << "seed " << seed;
}

}  // namespace sim_test
}  // namespace qm::sim
