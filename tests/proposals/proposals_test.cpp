// A workload with quota but without a whole node: placement proposes victims, admission evicts them, and the workload
// runs, also if either service crashes in between.
#include "pair.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/testing/queue_manifest.hpp"

namespace qm {
namespace proposals_test {

using std::chrono::seconds;
using Killed = testing::Pair::Killed;

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

/// Two nodes with eight GPUs each.
class Town {
 public:
  explicit Town(Killed killed = Killed::kNone, std::string at = {}, bool defrag = false)
      : pair_(rules(defrag), killed, std::move(at)) {
    pair_.apply(testing::yaml_of(
        {.queue_spec = "  preemption: {withinClusterQueue: LowerPriority}\n", .more = testing::kPriorityClasses}));
    for (const char* node : {"a", "b"}) pair_.watched("node", node_json(node));
    pair_.watched("node.synced", R"(["a","b"])");
    pair_.watched("pod.synced", "[]");
  }

  void job(const std::string& name, int gpus, const std::string& priority, const std::string& node = {},
           bool complete = false) {
    pair_.job(
        testing::json_of({.name = name, .priority = priority, .amount = gpus, .node = node, .complete = complete}));
  }
  void pass(Duration time) { pair_.pass(time); }
  [[nodiscard]] Standing look(const std::string& uid) {
    pair_.run_until_idle(false);
    Standing out;
    pair_.with_admission([&](const admission::Engine& engine) {
      engine.check_laws();
      const auto* w = engine.find(WorkloadUid(uid));
      out.phase = w->phase;
      out.attempt = w->attempt;
    });
    pair_.with_placement([&](const placement::Engine& engine) {
      engine.audit();
      const auto* row = engine.tables().assignments.find({WorkloadUid(uid), out.attempt});
      if (row == nullptr) return;
      out.place = placement::name_of(row->state);
      for (const auto& member : row->members) out.place += " " + member.node.value();
    });
    return out;
  }
  [[nodiscard]] std::string why(const std::string& uid) {
    pair_.run_until_idle();
    std::string out;
    pair_.with_admission([&](const admission::Engine& engine) {
      out = admission::explain(engine.state(), *engine.find(WorkloadUid(uid)), pair_.now()).causes.at(0).message;
    });
    return out;
  }
  /// Advances until placement has published a proposal; placement then pauses while admission handles it.
  [[nodiscard]] bool pass_until_proposed(Duration most) {
    return pair_.pass_until(
        [](const placement::Engine& engine) {
          const auto& all = engine.tables().proposals;
          return std::any_of(all.begin(), all.end(), [](const auto& one) { return one.second.is_active(); });
        },
        most);
  }
  [[nodiscard]] placement::DefragRun defrag_run() {
    placement::DefragRun out;
    pair_.with_placement([&](const placement::Engine& engine) {
      if (const auto* row = engine.tables().defrag_run.find(0)) out = *row;
    });
    return out;
  }
  void resume() { pair_.resume(); }
  [[nodiscard]] int kills() const { return pair_.kills(); }

 private:
  static placement::Options rules(bool defrag) {
    placement::Options out;
    out.preemption.on = !defrag;
    out.defrag.on = defrag;
    out.defrag.every = seconds(60);
    return out;
  }
  static std::string node_json(const std::string& name) {
    return fmt::format(
        R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","uid":"node-{0}","labels":{{"host":"{0}"}}}},
        "status":{{"allocatable":{{"cpu":"64","memory":"256Gi","pods":"110","nvidia.com/gpu":"8"}},
        "conditions":[{{"type":"Ready","status":"True"}}]}}}})",
        name);
  }

  testing::Pair pair_;
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
  for (const auto killed : {Killed::kAdmission, Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Killed::kAdmission ? "admission" : "placement", point));
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
  Town town(Killed::kNone, {}, true);
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
  for (const auto killed : {Killed::kAdmission, Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Killed::kAdmission ? "admission" : "placement", point));
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
  for (const auto killed : {Killed::kAdmission, Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Killed::kAdmission ? "admission" : "placement", point));
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
