// A job with quota requests a MIG instance that does not exist: placement proposes victims, admission evicts them,
// the GPUs are repartitioned as mig-manager does it, and the job runs, also if either service crashes in between.
#include "pair.hpp"
#include "qm/base/crash_point.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <fmt/format.h>

#include <map>

namespace qm {
namespace mig_preemption_test {

namespace pb = quartermaster::v1;
using placement::relayout::Phase;
using std::chrono::seconds;
using testing::Crash;
using Process = testing::ServiceProcess;
using testing::Prompt;

constexpr const char* kSevens = "all-1g.10gb";
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
  - coveredResources: ["nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"]
    flavors:
    - name: any
      resources:
      - {name: "nvidia.com/mig-1g.10gb", nominalQuota: 64}
      - {name: "nvidia.com/mig-3g.40gb", nominalQuota: 64}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {namespace: team, name: q}
spec: {clusterQueue: research}
)";

enum class Killed { kNone, kAdmission, kPlacement };

/// Two services and one node with an H100, which is partitioned into seven instances.
class Workshop {
 public:
  explicit Workshop(Killed killed = Killed::kNone, std::string at = {}) : killed_(killed), crash_at_(std::move(at)) {
    static int n = 0;
    bus_ = std::make_shared<Prompt>(*bus::make_bus("memory:drains-" + std::to_string(++n)));
    placement::Options rules;
    rules.preemption.on = rules.mig_repartition.on = true;
    rules.preemption.after = rules.mig_repartition.after = seconds(20);
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
    watched("node", node_json());
    watched("node.synced", R"(["a"])");
    watched("pod.synced", "[]");
  }
  ~Workshop() { disarm_crash_points(); }

  void job(const std::string& name, const std::string& profile, const std::string& priority) {
    const auto limits = fmt::format(R"({{"nvidia.com/mig-{}":"1"}})", profile);
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = "job";
    input.bytes = fmt::format(
        R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"namespace":"team","name":"{0}","uid":"{0}",
        "labels":{{"kueue.x-k8s.io/queue-name":"q","kueue.x-k8s.io/priority-class":"{1}"}}}},"spec":{{"suspend":true,
        "parallelism":1,"completions":1,"template":{{"spec":{{"schedulerName":"quartermaster","containers":[{{"name":
        "main","image":"x","resources":{{"requests":{2},"limits":{2}}}}}]}}}}}},"status":{{}}}})",
        name, priority, limits);
    to(*admission_, input);
  }
  void pass(Duration time) {
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(seconds(1));
      run_until_idle();
      if (look_after_node()) watched("node", node_json());
    }
  }
  /// Phase and attempt for admission, state for placement, and the MIG part of `qmctl why`.
  [[nodiscard]] std::string look(const std::string& uid) {
    run_until_idle(false);
    std::string out;
    std::int32_t attempt = 0;
    admission_->host->read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const admission::AdmissionShell&>(shell).engine();
      engine.check_laws();
      const auto* w = engine.find(WorkloadUid(uid));
      attempt = w->attempt;
      out = fmt::format("{} {}", admission::name_of(w->phase), attempt);
    });
    placement_->host->read([&](const service::Shell& shell) {
      const auto& engine = placement::engine_of(shell);
      engine.audit();
      const auto* row = engine.tables().assignments.find({WorkloadUid(uid), attempt});
      if (row != nullptr) out += fmt::format(" {}", placement::name_of(row->state));
    });
    return out;
  }
  [[nodiscard]] std::string words(const std::string& uid) {
    std::string out;
    placement_->host->read(
        [&](const service::Shell& shell) { out = placement::engine_of(shell).repartition_status(WorkloadUid(uid)); });
    return out;
  }
  [[nodiscard]] const std::string& layout() const { return layout_; }
  [[nodiscard]] int kills() const { return admission_->lives + placement_->lives - 2; }

 private:
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
    placement_->host->read([&](const service::Shell& shell) {
      const auto* row = placement::engine_of(shell).tables().repartitions.find(NodeName("a"));
      if (row == nullptr || !row->order) return;
      cordon = row->order->phase != Phase::kWaiting && !row->order->over();
      if (row->order->phase == Phase::kSwitching && !row->written_label.empty()) cut = row->written_label;
    });
    const bool changed = cordon != cordoned_ || cut != layout_;
    cordoned_ = cordon;
    layout_ = cut;
    return changed;
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
        if (may_be_killed && killed_ != Killed::kNone && process == &victim_process && victim_process.lives == lives)
          arm_crash_point(crash_at_, 1, [](std::string_view) { throw Crash{}; });
        busy = process->turn() || busy;
        disarm_crash_points();
      }
    }
  }

  Killed killed_;
  std::string crash_at_;
  std::string layout_ = kSevens;
  bool cordoned_ = false;
  ManualClock clock_{*from_rfc3339("2026-11-21T08:00:00Z")};
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<Process> admission_, placement_;
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
