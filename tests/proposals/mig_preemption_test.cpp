// A job with quota requests a MIG instance that does not exist: placement proposes victims, admission evicts them,
// the GPUs are repartitioned as mig-manager does it, and the job runs, also if either service crashes in between.
#include "pair.hpp"
#include "qm/testing/queue_manifest.hpp"

namespace qm {
namespace mig_preemption_test {

using placement::relayout::Phase;
using std::chrono::seconds;
using Killed = testing::Pair::Killed;

constexpr const char* kSevens = "all-1g.10gb";

/// Two services and one node with an H100, which is partitioned into seven instances.
class Workshop {
 public:
  explicit Workshop(Killed killed = Killed::kNone, std::string at = {}) : pair_(rules(), killed, std::move(at)) {
    pair_.apply(testing::yaml_of({.queue_spec = "  preemption: {withinClusterQueue: LowerPriority}\n",
                                  .quota = {{"nvidia.com/mig-1g.10gb", 64}, {"nvidia.com/mig-3g.40gb", 64}},
                                  .more = testing::kPriorityClasses}));
    pair_.watched("node", node_json());
    pair_.watched("node.synced", R"(["a"])");
    pair_.watched("pod.synced", "[]");
  }

  void job(const std::string& name, const std::string& profile, const std::string& priority) {
    pair_.job(testing::json_of({.name = name, .priority = priority, .resource = "nvidia.com/mig-" + profile}));
  }
  void pass(Duration time) {
    pair_.pass(time, [this] {
      if (look_after_node()) pair_.watched("node", node_json());
    });
  }
  /// Phase and attempt for admission, state for placement, and the MIG part of `qmctl why`.
  [[nodiscard]] std::string look(const std::string& uid) {
    pair_.run_until_idle(false);
    std::string out;
    std::int32_t attempt = 0;
    pair_.with_admission([&](const admission::Engine& engine) {
      engine.check_laws();
      const auto* w = engine.find(WorkloadUid(uid));
      attempt = w->attempt;
      out = fmt::format("{} {}", admission::name_of(w->phase), attempt);
    });
    pair_.with_placement([&](const placement::Engine& engine) {
      engine.audit();
      const auto* row = engine.tables().assignments.find({WorkloadUid(uid), attempt});
      if (row != nullptr) out += fmt::format(" {}", placement::name_of(row->state));
    });
    return out;
  }
  [[nodiscard]] std::string words(const std::string& uid) {
    std::string out;
    pair_.with_placement([&](const placement::Engine& engine) { out = engine.repartition_status(WorkloadUid(uid)); });
    return out;
  }
  [[nodiscard]] const std::string& layout() const { return layout_; }
  [[nodiscard]] int kills() const { return pair_.kills(); }

 private:
  static placement::Options rules() {
    placement::Options out;
    out.preemption.on = out.mig_repartition.on = true;
    out.preemption.after = out.mig_repartition.after = seconds(20);
    return out;
  }
  [[nodiscard]] std::string node_json() const {
    std::string devices;
    const auto made = placement::mig::layout_named(layout_, {}, "NVIDIA-H100-80GB-HBM3", 1);
    for (const auto& [resource, amount] : placement::mig::capacity_of(*made))
      devices += fmt::format(R"(,"{}":"{}")", resource, amount);
    return fmt::format(
        R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"a","uid":"node-a","annotations":{{{0}}},"labels":{{
        "nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"1","nvidia.com/mig.config":"{1}",
        "nvidia.com/mig.config.state":"success"}}}},"spec":{{"unschedulable":{2}}},"status":{{"allocatable":{{"cpu":"64",
        "memory":"256Gi","pods":"110"{3}}},"conditions":[{{"type":"Ready","status":"True"}}]}}}})",
        cordoned_ ? R"("quartermaster.dev/cordoned-by":"layout")" : "", layout_, cordoned_ ? "true" : "false", devices);
  }
  /// The cluster executes the current step of an order. True if anything changed.
  bool look_after_node() {
    bool cordon = cordoned_;
    std::string cut = layout_;
    pair_.with_placement([&](const placement::Engine& engine) {
      const auto* row = engine.tables().repartitions.find(NodeName("a"));
      if (row == nullptr || !row->order) return;
      cordon = row->order->phase != Phase::kWaiting && !row->order->over();
      if (row->order->phase == Phase::kSwitching && !row->written_label.empty()) cut = row->written_label;
    });
    const bool changed = cordon != cordoned_ || cut != layout_;
    cordoned_ = cordon;
    layout_ = cut;
    return changed;
  }

  std::string layout_ = kSevens;
  bool cordoned_ = false;
  testing::Pair pair_;
};

/// Two jobs have one slice each, and one job requests three together.
void begin(Workshop& shop) {
  for (const char* name : {"s1", "s2"}) shop.job(name, "1g.10gb", "low");
  shop.pass(seconds(10));
  shop.job("big", "3g.40gb", "high");
}
void check_end(Workshop& shop) {
  EXPECT_EQ(shop.layout(), "all-3g.40gb");
  // The quota may be lost and reserved again during the repartition: the new layout is kept.
  const auto big = shop.look("big");
  EXPECT_TRUE(big == "Admitted 1 reserved" || big == "Admitted 2 reserved") << big;
  for (const char* gone : {"s1", "s2"}) EXPECT_FALSE(shop.look(gone).starts_with("Admitted 1")) << gone;
}

TEST(MigPreemptionEndToEnd, TwoSmallWorkloadsArePreemptedAndTheGpuIsRepartitioned) {
  Workshop shop;
  begin(shop);
  EXPECT_EQ(shop.look("s1"), "Admitted 1 reserved");
  EXPECT_EQ(shop.look("big"), "QuotaReserved 1 short");
  EXPECT_TRUE(shop.words("big").starts_with("GPUs may be repartitioned for it from ")) << shop.words("big");
  shop.pass(seconds(60));
  check_end(shop);
  EXPECT_EQ(shop.kills(), 0);
}

TEST(MigPreemptionEndToEnd, SurvivesACrashAtEachPoint) {
  for (const auto killed : {Killed::kAdmission, Killed::kPlacement}) {
    for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                              "service.after_publish", "store.in_commit"}) {
      SCOPED_TRACE(fmt::format("{} at {}", killed == Killed::kAdmission ? "admission" : "placement", point));
      Workshop shop(killed, point);
      begin(shop);
      shop.pass(seconds(90));
      check_end(shop);
      EXPECT_GT(shop.kills(), 3) << "it was killed during the run";
    }
  }
}

}  // namespace mig_preemption_test
}  // namespace qm
