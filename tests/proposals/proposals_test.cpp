// A workload with quota but without a whole node: placement proposes victims, admission evicts them, and the workload
// runs, also if either service crashes in between.
#include "pair.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/base/crash_point.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <fmt/format.h>

#include <map>

namespace qm {
namespace proposals_test {

namespace pb = quartermaster::v1;
using std::chrono::seconds;
using testing::Crash;
using Process = testing::ServiceProcess;
using testing::Prompt;

constexpr const char* kQueues = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: low}
value: 10
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: any
      resources: [{name: "nvidia.com/gpu", nominalQuota: 64}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {namespace: team, name: q}
spec: {clusterQueue: research}
)";

/// The state of a job in both services.
struct Standing {
  admission::Phase phase = admission::Phase::kPending;
  int attempt = 0;
  std::string place;  ///< state and nodes
  friend bool operator==(const Standing&, const Standing&) = default;
};
std::ostream& operator<<(std::ostream& out, const Standing& s) {
  return out << admission::name_of(s.phase) << " " << s.attempt << " " << s.place;
}

class Town {
 public:
  enum class Killed { kNone, kAdmission, kPlacement };
  explicit Town(Killed killed = Killed::kNone, std::string at = {}, bool defrag = false)
      : killed_(killed), crash_at_(std::move(at)) {
    static int n = 0;
    bus_ = std::make_shared<Prompt>(*bus::make_bus("memory:proposals-" + std::to_string(++n)));
    placement::Options rules;
    rules.preemption.on = !defrag;
    rules.defrag.on = defrag;
    rules.defrag.every = seconds(60);
    admission_ = testing::make_admission(bus_, clock_);
    placement_ = testing::make_placement(bus_, clock_, rules);
    admission_->start();
    placement_->start();
    pb::ApplyRequest request;
    request.set_manifest(kQueues);
    service::Input input;
    input.source = service::Source::kRequest;
    input.name = "Apply";
    input.id = "apply";
    input.bytes = request.SerializeAsString();
    to(*admission_, input);
    for (const char* node : {"a", "b"}) watched("node", node_json(node));
    watched("node.synced", R"(["a","b"])");
    watched("pod.synced", "[]");
  }
  ~Town() { disarm_crash_points(); }

  void job(const std::string& name, int gpus, const std::string& priority, const std::string& node = {},
           bool complete = false) {
    const auto limits = fmt::format(R"({{"nvidia.com/gpu":"{}"}})", gpus);
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = "job";
    input.bytes = fmt::format(
        R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"namespace":"team","name":"{0}","uid":"{0}",
        "labels":{{"kueue.x-k8s.io/queue-name":"q","kueue.x-k8s.io/priority-class":"{1}"}}}},"spec":{{"suspend":true,
        "parallelism":1,"completions":1,"template":{{"spec":{{"schedulerName":"quartermaster",{2}"containers":[{{"name":
        "main","image":"x","resources":{{"requests":{3},"limits":{3}}}}}]}}}}}},"status":{4}}})",
        name, priority, node.empty() ? "" : fmt::format(R"("nodeSelector":{{"host":"{}"}},)", node), limits,
        complete ? R"({"conditions":[{"type":"Complete","status":"True"}]})" : "{}");
    to(*admission_, input);
  }
  void pass(Duration time) {
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(seconds(1));
      run_until_idle();
    }
  }
  [[nodiscard]] Standing look(const std::string& uid) {
    run_until_idle(false);
    Standing out;
    admission_->host->read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const admission::AdmissionShell&>(shell).engine();
      engine.check_laws();
      const auto* w = engine.find(WorkloadUid(uid));
      out.phase = w->phase;
      out.attempt = w->attempt;
    });
    placement_->host->read([&](const service::Shell& shell) {
      const auto& engine = placement::engine_of(shell);
      engine.audit();
      const auto* row = engine.tables().assignments.find({WorkloadUid(uid), out.attempt});
      if (row == nullptr) return;
      out.place = placement::name_of(row->state);
      for (const auto& member : row->members) out.place += " " + member.node.value();
    });
    return out;
  }
  [[nodiscard]] std::string why(const std::string& uid) {
    run_until_idle();
    std::string out;
    admission_->host->read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const admission::AdmissionShell&>(shell).engine();
      out = admission::explain(engine.state(), *engine.find(WorkloadUid(uid)), clock_.now()).causes.at(0).message;
    });
    return out;
  }
  /// Advances until placement has published a proposal; placement then pauses while admission handles it.
  [[nodiscard]] bool pass_until_proposed(Duration most) {
    for (const Instant end = clock_.now() + most; clock_.now() < end;) {
      clock_.advance(seconds(1));
      while (admission_->turn()) {
      }
      while (placement_->turn()) {
        placement_->host->read([&](const service::Shell& shell) {
          for (const auto& [uid, row] : placement::engine_of(shell).tables().proposals)
            paused_ = paused_ || row.is_active();
        });
        if (!paused_) continue;
        run_until_idle();
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] placement::DefragRun defrag_run() {
    placement::DefragRun out;
    placement_->host->read([&](const service::Shell& shell) {
      if (const auto* row = placement::engine_of(shell).tables().defrag_run.find(0)) out = *row;
    });
    return out;
  }
  void resume() {
    paused_ = false;
    run_until_idle();
  }
  [[nodiscard]] int kills() const { return admission_->lives + placement_->lives - 2; }

 private:
  static std::string node_json(const std::string& name) {
    return fmt::format(
        R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","uid":"node-{0}","labels":{{"host":"{0}"}}}},
        "status":{{"allocatable":{{"cpu":"64","memory":"256Gi","pods":"110","nvidia.com/gpu":"8"}},
        "conditions":[{{"type":"Ready","status":"True"}}]}}}})",
        name);
  }
  void watched(const std::string& name, std::string bytes) {
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = name;
    input.bytes = std::move(bytes);
    to(*placement_, input);
  }
  /// At least once: after a crash the input is submitted again.
  void to(Process& process, const service::Input& input) {
    const int lives = process.lives;
    ASSERT_TRUE(process.host->submit(service::Input(input)));
    run_until_idle();
    if (process.lives == lives) return;
    ASSERT_TRUE(process.host->submit(service::Input(input)));
    run_until_idle(false);
  }
  void run_until_idle(bool may_be_killed = true) {
    auto& victim_process = killed_ == Killed::kAdmission ? *admission_ : *placement_;
    const int lives = victim_process.lives;
    for (bool busy = true; busy;) {
      busy = false;
      for (auto* process : {admission_.get(), placement_.get()}) {
        if (paused_ && process == placement_.get()) continue;
        if (may_be_killed && killed_ != Killed::kNone && process == &victim_process && victim_process.lives == lives)
          arm_crash_point(crash_at_, 1, [](std::string_view) { throw Crash{}; });
        busy = process->turn() || busy;
        disarm_crash_points();
      }
    }
  }

  Killed killed_;
  std::string crash_at_;
  bool paused_ = false;
  ManualClock clock_{*from_rfc3339("2026-11-21T08:00:00Z")};
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<Process> admission_, placement_;
};

using admission::Phase;

/// Two small jobs on each of two nodes, and one that requests a whole node.
void begin(Town& town) {
  for (const char* name : {"a1", "a2"}) town.job(name, 2, "low", "a");
  town.pass(seconds(60));
  for (const char* name : {"b1", "b2"}) town.job(name, 2, "low", "b");
  town.pass(seconds(10));
  town.job("big", 8, "high");
}
void check_end(Town& town) {
  EXPECT_EQ(town.look("a1"), (Standing{Phase::kAdmitted, 1, "reserved a"}));
  EXPECT_EQ(town.look("a2"), (Standing{Phase::kAdmitted, 1, "reserved a"}));
  const auto big = town.look("big");
  EXPECT_EQ(big.phase, Phase::kAdmitted);
  EXPECT_EQ(big.place, "reserved b");
  for (const char* gone : {"b1", "b2"}) EXPECT_GE(town.look(gone).attempt, 2) << gone;
}

TEST(Proposals, CheapestVictimsArePreemptedAndTheJobGetsItsNode) {
  Town town;
  begin(town);
  EXPECT_EQ(town.look("big").place, "short");
  town.pass(seconds(60));
  check_end(town);
  EXPECT_EQ(town.kills(), 0);
}

TEST(Proposals, WhyNamesVictimsAndCost) {
  Town town;
  begin(town);
  ASSERT_TRUE(town.pass_until_proposed(seconds(90)));
  const auto why = town.why("big");
  EXPECT_TRUE(why.starts_with("quota is reserved; preempting 2 workloads: team/b1, team/b2 (cost $")) << why;
  town.resume();
  check_end(town);
}

TEST(Proposals, SurviveACrashAtEachPoint) {
  for (const auto killed : {Town::Killed::kAdmission, Town::Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Town::Killed::kAdmission ? "admission" : "placement", point));
      Town town(killed, point);
      begin(town);
      town.pass(seconds(90));
      check_end(town);
      EXPECT_GT(town.kills(), 5) << "it was killed during the run";
    }
  }
}

/// Half of each of two nodes is used by jobs that fit any node.
void half_empty(Town& town) {
  for (const char* name : {"a1", "a2", "b1"}) town.job(name, 4, "low");
  town.pass(seconds(5));
  town.job("a2", 4, "low", {}, true);
}

TEST(DefragEndToEnd, NodeIsReclaimedAndWorkloadsAreOnTheirTargets) {
  Town town(Town::Killed::kNone, {}, true);
  half_empty(town);
  EXPECT_EQ(town.look("a1"), (Standing{Phase::kAdmitted, 1, "reserved a"}));
  EXPECT_EQ(town.look("b1"), (Standing{Phase::kAdmitted, 1, "reserved b"}));
  town.pass(seconds(90));
  EXPECT_EQ(town.look("a1").place + ", " + town.look("b1").place, "reserved b, reserved b");
  EXPECT_EQ(town.look("a1").attempt + town.look("b1").attempt, 3) << "one of them moved, and once";
  EXPECT_EQ(town.look("b1").phase, Phase::kAdmitted);
  const auto run = town.defrag_run();
  EXPECT_EQ(run.last, "Done");
  EXPECT_EQ(run.reclaimed, run.nodes);
}

TEST(DefragEndToEnd, SurvivesACrashAtEachPoint) {
  for (const auto killed : {Town::Killed::kAdmission, Town::Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Town::Killed::kAdmission ? "admission" : "placement", point));
      Town town(killed, point, true);
      half_empty(town);
      town.pass(seconds(120));
      EXPECT_EQ(town.look("a1").place, town.look("b1").place) << "both are on one node";
      EXPECT_EQ(town.look("a1").attempt + town.look("b1").attempt, 3) << "one of them moved, and once";
      EXPECT_EQ(town.look("b1").phase, Phase::kAdmitted);
      EXPECT_EQ(town.defrag_run().reclaimed, 1);
      EXPECT_GT(town.kills(), 3) << "it was killed during the run";
    }
  }
}

/// The expected end: half of each of two nodes was used by jobs of the same priority as a job that requests a whole
/// node.
void check_moved(Town& town) {
  const auto big = town.look("big");
  EXPECT_EQ(big.phase, Phase::kAdmitted);
  EXPECT_TRUE(big.place.starts_with("reserved ")) << big.place;
  const auto a1 = town.look("a1"), b1 = town.look("b1");
  EXPECT_EQ(a1.place, b1.place) << "both are on one node";
  EXPECT_NE(a1.place, big.place);
  EXPECT_EQ(a1.attempt + b1.attempt, 3) << "one of them moved, and once";
  EXPECT_EQ(a1.phase, Phase::kAdmitted);
  EXPECT_EQ(b1.phase, Phase::kAdmitted);
}

TEST(MigrationEndToEnd, EqualPriorityIsMigratedAndKeepsItsPlace) {
  Town town;
  half_empty(town);
  town.job("big", 8, "low");
  EXPECT_EQ(town.look("big").place, "short");
  town.pass(seconds(90));
  check_moved(town);
  EXPECT_EQ(town.kills(), 0);
}

TEST(MigrationEndToEnd, SurvivesACrashAtEachPoint) {
  for (const auto killed : {Town::Killed::kAdmission, Town::Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Town::Killed::kAdmission ? "admission" : "placement", point));
      Town town(killed, point);
      half_empty(town);
      town.job("big", 8, "low");
      town.pass(seconds(120));
      check_moved(town);
      EXPECT_GT(town.kills(), 3) << "it was killed during the run";
    }
  }
}

}  // namespace proposals_test
}  // namespace qm
