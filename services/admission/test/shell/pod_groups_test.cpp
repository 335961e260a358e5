// Volcano PodGroups before their pods exist: they are pending, get enqueued, and their pods belong to
// the same workload.
#include "admission_host.hpp"
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/scheduler/assignment.hpp"
#include "qm/admission/watch.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "src/shell/translate/pods.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace pod_groups_test {

/// A pool of 16 GPUs and 128 CPUs for one Volcano queue.
constexpr const char* kPool = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: h100}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: cluster, annotations: {quartermaster.dev/queue-rules: capacity}}
spec:
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", cpu]
    flavors:
    - name: h100
      resources: [{name: "nvidia.com/gpu", nominalQuota: 16}, {name: cpu, nominalQuota: 128}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research-queue}
spec: {weight: 1}
)";

Json pod_group(const std::string& name, const std::string& spec) {
  Json out = Json::object({{"apiVersion", "scheduling.volcano.sh/v1beta1"}, {"kind", "PodGroup"}});
  out.set("metadata")
      .set("namespace", "team")
      .set("name", name)
      .set("uid", "uid-" + name)
      .set("creationTimestamp", "2026-01-01T00:00:00Z");
  out.set("spec", *Json::parse(spec));
  return out;
}

/// A pod as a controller creates it: with the gate of the webhook, and the name of the group.
Json member(const std::string& name, const std::string& group, int gpus, int cpus) {
  Json out = *Json::parse(
      R"({"apiVersion":"v1","kind":"Pod","spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}],
      "containers":[{"name":"main"}]},"status":{"phase":"Pending"}})");
  out.set("metadata").set("namespace", "team").set("name", name).set("uid", "uid-" + name);
  out.set("metadata").set("creationTimestamp", "2026-01-01T00:01:00Z");
  if (!group.empty()) out.set("metadata").set("annotations").set(kVolcanoGroup, group);
  if (group.empty()) out.set("metadata").set("labels").set("kueue.x-k8s.io/queue-name", "research-queue");
  out.set("spec")
      .set("containers")
      .items_mut()[0]
      .set("resources")
      .set("requests")
      .set("nvidia.com/gpu", gpus)
      .set("cpu", cpus);
  return out;
}

constexpr const char* kRing =
    R"({"minMember":8,"queue":"research-queue","minResources":{"nvidia.com/gpu":8,"cpu":"64","pods":"8","count/pods":8,
    "requests.cpu":"64","limits.cpu":"64"}})";

class VolcanoPodGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    host_ = testing::start_admission(clock_);
    ASSERT_TRUE(host_);
    server_.serve("scheduling.volcano.sh", "v1beta1", "podgroups");
    client_ = std::make_unique<kube::Client>(server_.client());
    watch();
  }
  void TearDown() override {
    server_.close_watches();
    watch_.reset();
    if (host_) host_->stop();
  }
  void watch() {
    WatchOptions without_placement;
    without_placement.placement = false;
    watch_ = std::make_unique<PodWatch>(*client_, *host_, without_placement);
    watch_->start();
    ASSERT_TRUE(qm::testing::wait_until([&] { return server_.watched("pods") && server_.watched("podgroups"); }));
  }
  void stop_watching() {
    server_.close_watches();
    watch_.reset();
  }
  void pool() {
    for (const auto& object : config::load_text(kPool, "pool.yaml").objects) {
      Mailbox(*host_).send("object", object.document.content.dump());
    }
  }
  std::optional<Workload> workload(const std::string& name) {
    std::optional<Workload> found;
    host_->read([&](const service::Shell& shell) {
      const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid("uid-" + name));
      if (w != nullptr) found = *w;
    });
    return found;
  }
  Explanation why(const std::string& name) {
    Explanation out;
    host_->read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const AdmissionShell&>(shell).engine();
      out = explain(engine.state(), *engine.find(WorkloadUid("uid-" + name)), clock_.now());
    });
    return out;
  }
  bool is(const std::string& name, Phase phase) {
    return qm::testing::wait_until([&] {
      const auto w = workload(name);
      return w && w->phase == phase;
    });
  }
  bool shows(const std::string& name, const std::string& phase) {
    return qm::testing::wait_until([&] { return server_.get("team/" + name)["status"]["phase"].string() == phase; });
  }
  void members(const std::string& group) {
    for (int i = 0; i < 8; ++i) server_.put(member(fmt::format("{}-{}", group, i), group, 1, 8));
  }
  /// Does what the executor does when they are admitted.
  void admit_pods(const std::string& group) {
    for (int i = 0; i < 8; ++i) {
      Json now = server_.get(fmt::format("team/{}-{}", group, i));
      now.set("spec").erase("schedulingGates");
      now.set("metadata").set("annotations").set(kWorkloadAnnotation, "uid-" + group);
      now.set("metadata").set("annotations").set(kIndexAnnotation, std::to_string(i)).set(words::kAttempt, "1");
      server_.put(now);
    }
  }
  void set_active(const std::string& name, bool active) {
    quartermaster::v1::SetActiveRequest request;
    request.set_uid("uid-" + name);
    request.set_active(active);
    service::Input input;
    input.source = service::Source::kRequest;
    input.name = "SetActive";
    input.bytes = request.SerializeAsString();
    ASSERT_TRUE(host_->submit(input));
  }

  testing::JobServer server_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<PodWatch> watch_;
};

// S-099: 8 GPUs are free and 63 of the 64 CPUs; no member exists.
TEST_F(VolcanoPodGroups, GroupIsPendingForMinMemberBeforeAnyPodExists) {
  pool();
  server_.put(member("other", "", 8, 65));
  ASSERT_TRUE(is("other", Phase::kAdmitted));
  server_.put(pod_group("ring", kRing));
  ASSERT_TRUE(is("ring", Phase::kPending));
  EXPECT_TRUE(shows("ring", "Pending")) << "controllers create no pods in this phase";
  const auto waiting = *workload("ring");
  EXPECT_TRUE(waiting.spec.pods_expected);
  EXPECT_EQ(waiting.spec.total_pods(), 8);
  EXPECT_EQ(waiting.spec.total_gpu_milli(), 8000);
  EXPECT_EQ(requests_of(waiting.spec).at("cpu"), 64'000);
  const auto why_it_waits = why("ring");
  ASSERT_EQ(why_it_waits.causes.size(), 1U);
  EXPECT_EQ(why_it_waits.causes[0].resource, "cpu");
  EXPECT_EQ(why_it_waits.causes[0].requested - why_it_waits.causes[0].available, 1000);
  EXPECT_NE(why_it_waits.summary.find("minResources.cpu"), std::string::npos) << why_it_waits.summary;

  server_.remove("team/other");
  ASSERT_TRUE(is("ring", Phase::kQuotaReserved));
  EXPECT_TRUE(shows("ring", "Inqueue"));
  EXPECT_EQ(why("ring").causes.at(0).code, "PodsPending");
  // Its minimum resources are reserved for it.
  server_.put(member("late", "", 10, 1));
  ASSERT_TRUE(is("late", Phase::kPending));
  members("ring");
  ASSERT_TRUE(is("ring", Phase::kAdmitted)) << why("ring").summary;
  const auto started = *workload("ring");
  EXPECT_EQ(started.attempt, 1);
  EXPECT_FALSE(started.spec.pods_expected);
  ASSERT_EQ(started.spec.pod_sets.size(), 1U);
  EXPECT_EQ(started.spec.pod_sets[0].count, 8);
  EXPECT_EQ(started.spec.pod_sets[0].shape.cpu_milli, 8000);
  EXPECT_TRUE(shows("ring", "Running"));
  EXPECT_FALSE(workload("ring-0")) << "its pods are not another workload";
  EXPECT_EQ(workload("late")->phase, Phase::kPending);
}

TEST_F(VolcanoPodGroups, EvictedGroupIsSameWorkloadWithoutPods) {
  pool();
  server_.put(pod_group("ring", kRing));
  ASSERT_TRUE(is("ring", Phase::kQuotaReserved));
  members("ring");
  ASSERT_TRUE(is("ring", Phase::kAdmitted));
  admit_pods("ring");
  ASSERT_TRUE(shows("ring", "Running"));
  set_active("ring", false);
  ASSERT_TRUE(is("ring", Phase::kEvicting));
  for (int i = 0; i < 8; ++i) server_.remove(fmt::format("team/ring-{}", i));
  ASSERT_TRUE(is("ring", Phase::kPending));
  EXPECT_EQ(workload("ring")->attempt, 2);
  EXPECT_TRUE(shows("ring", "Pending"));
  set_active("ring", true);
  ASSERT_TRUE(is("ring", Phase::kQuotaReserved));
  EXPECT_TRUE(shows("ring", "Inqueue"));
  members("ring");
  EXPECT_TRUE(is("ring", Phase::kAdmitted));
  // A group is gone when its pods are deleted without an eviction; later pods of its name are another workload.
  admit_pods("ring");
  for (int i = 0; i < 8; ++i) server_.remove(fmt::format("team/ring-{}", i));
  ASSERT_TRUE(is("ring", Phase::kCancelled));
  members("ring");
  EXPECT_TRUE(is("ring-0", Phase::kAdmitted));
}

TEST_F(VolcanoPodGroups, AnotherProcessAdoptsGroups) {
  pool();
  server_.put(pod_group("ring", kRing));
  server_.put(pod_group("second", kRing));
  ASSERT_TRUE(is("ring", Phase::kQuotaReserved));
  ASSERT_TRUE(is("second", Phase::kQuotaReserved));
  members("ring");
  ASSERT_TRUE(is("ring", Phase::kAdmitted));
  admit_pods("ring");
  ASSERT_TRUE(shows("second", "Inqueue"));
  stop_watching();
  for (int i = 0; i < 8; ++i) server_.remove_silently(fmt::format("team/ring-{}", i));
  members("second");
  server_.put(pod_group("third", kRing));
  watch();
  EXPECT_TRUE(is("second", Phase::kAdmitted)) << "its pods were created meanwhile";
  EXPECT_TRUE(is("ring", Phase::kCancelled)) << "its pods were deleted meanwhile";
  EXPECT_TRUE(is("third", Phase::kQuotaReserved));
  stop_watching();
  server_.remove_silently("team/third");
  watch();
  EXPECT_TRUE(is("third", Phase::kCancelled)) << "it was deleted meanwhile";
  EXPECT_EQ(workload("second")->phase, Phase::kAdmitted);
}

TEST_F(VolcanoPodGroups, OnlyGroupsOfOurQueuesAreManaged) {
  auto of_a_job = pod_group("of-a-job", kRing);
  of_a_job.set("metadata")
      .set("ownerReferences",
           Json::array({Json::object(
               {{"apiVersion", "kubeflow.org/v1"}, {"kind", "PyTorchJob"}, {"name", "train"}, {"controller", true}})}));
  server_.put(of_a_job);
  server_.put(pod_group("ring", kRing));
  server_.put(pod_group("elsewhere", R"({"minMember":1,"queue":"theirs","minResources":{"cpu":1}})"));
  server_.put(pod_group("unsized", R"({"minMember":1,"queue":"research-queue"})"));
  auto begun = pod_group("begun", kRing);
  begun.set("status").set("phase", "Running");
  server_.put(begun);
  ASSERT_TRUE(qm::testing::wait_until([&] { return watch_->synced(); }));
  EXPECT_EQ(watch_->write(), 0) << "there is no pool yet";
  EXPECT_FALSE(workload("ring"));
  pool();
  ASSERT_TRUE(is("ring", Phase::kQuotaReserved)) << "its queue was created later";
  EXPECT_TRUE(shows("unsized", "Inqueue")) << "it has nothing to be pending for";
  for (const char* name : {"of-a-job", "elsewhere", "unsized", "begun"}) EXPECT_FALSE(workload(name)) << name;
  EXPECT_TRUE(server_.get("team/elsewhere")["status"]["phase"].string().empty());
  EXPECT_TRUE(server_.get("team/of-a-job")["status"]["phase"].string().empty());
  // It requests less, and then nothing.
  server_.put(pod_group("ring", R"({"minMember":1,"queue":"research-queue","minResources":{"nvidia.com/gpu":2}})"));
  EXPECT_TRUE(qm::testing::wait_until([&] {
    const auto w = workload("ring");
    return w->spec.total_gpu_milli() == 2000 && w->spec.total_pods() == 1 && w->phase == Phase::kQuotaReserved;
  }));
  server_.remove("team/ring");
  EXPECT_TRUE(is("ring", Phase::kCancelled));
}

TEST_F(VolcanoPodGroups, GroupSetsItsWaitingTime) {
  pool();
  server_.put(member("other", "", 16, 8));
  ASSERT_TRUE(is("other", Phase::kAdmitted));
  auto ring = pod_group("ring", kRing);
  ring.set("metadata").set("annotations").set("sla-waiting-time", "90m");
  server_.put(ring);
  ASSERT_TRUE(is("ring", Phase::kPending));
  EXPECT_EQ(workload("ring")->waiting_time, std::chrono::minutes(90));
  ring.set("metadata").set("annotations").set("sla-waiting-time", "2h");
  server_.put(ring);
  EXPECT_TRUE(qm::testing::wait_until([&] { return workload("ring")->waiting_time == std::chrono::hours(2); }));
}

TEST_F(VolcanoPodGroups, UnsupportedFieldRejectsUntilCorrected) {
  pool();
  const auto condition = [&] {
    const Json now = server_.get("team/ring");
    for (const auto& c : now.path("status.conditions").items()) {
      if (c["type"].string() == "Unschedulable") return c;
    }
    return Json();
  };
  const auto says_so = [&](const char* status) {
    return qm::testing::wait_until([&] { return condition()["status"].string() == status; });
  };
  auto ring = pod_group("ring", kRing);
  ring.set("spec").set("networkTopology").set("mode", "hard").set("highestTierAllowed", 2);
  ring.set("status").set("conditions").push_back(Json::object({{"type", "Other"}, {"status", "True"}}));
  server_.put(ring);
  ASSERT_TRUE(is("ring", Phase::kRejected));
  for (const char* part :
       {"PodGroup ring: spec.networkTopology is {", "highestTierAllowed", "mode hard", "; request a topology"}) {
    EXPECT_NE(why("ring").summary.find(part), std::string::npos) << why("ring").summary;
  }
  EXPECT_EQ(workload("ring")->reason, "Rejected");
  EXPECT_TRUE(shows("ring", "Pending"));
  ASSERT_TRUE(says_so("True"));
  EXPECT_EQ(condition()["reason"].string(), "Rejected");
  EXPECT_EQ(condition()["message"].string(), workload("ring")->rejected());
  EXPECT_EQ(server_.get("team/ring").path("status.conditions").size(), 2U) << "fields of other writers are kept";
  // After a correction it competes for quota.
  Json corrected = server_.get("team/ring");
  corrected.set("spec").erase("networkTopology");
  server_.put(corrected);
  ASSERT_TRUE(is("ring", Phase::kQuotaReserved));
  EXPECT_TRUE(says_so("False"));
  EXPECT_EQ(workload("ring")->spec.total_gpu_milli(), 8000);
  members("ring");
  ASSERT_TRUE(is("ring", Phase::kAdmitted)) << why("ring").summary;
}

TEST(PodGroups, GroupWithoutPodsHasOnePodSetOfMinResources) {
  Json group = Json::object({{"kind", "PodGroup"},
                             {"metadata", Json::object({{"namespace", "team"}, {"name", "ring"}, {"uid", "u"}})},
                             {"pods", Json::array()},
                             {"podGroup", pod_group("ring", R"({"minMember":3,"priorityClassName":"high",
                                 "minResources":{"nvidia.com/gpu":"5","memory":"7Gi","limits.cpu":"9"}})")}});
  auto seen = parse_pods(group);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_TRUE(seen->pods_expected);
  EXPECT_TRUE(seen->suspended);
  EXPECT_EQ(seen->spec.queue, "default");
  EXPECT_EQ(seen->spec.priority_class, "high");
  EXPECT_EQ(seen->spec.submitted, *from_rfc3339("2026-01-01T00:00:00Z"));
  ASSERT_EQ(seen->spec.pod_sets.size(), 2U);
  EXPECT_EQ(seen->spec.pod_sets[0].name, "minResources");
  EXPECT_EQ(seen->spec.pod_sets[0].shape.gpu.whole, 5);
  EXPECT_EQ(seen->spec.pod_sets[0].shape.memory_bytes, 7LL << 30);
  EXPECT_EQ(seen->spec.pod_sets[0].shape.cpu_milli, 0);
  EXPECT_EQ(seen->spec.total_pods(), 3);
  EXPECT_EQ(seen->spec.total_gpu_milli(), 5000);
  group.set("podGroup").set("spec").erase("minResources");
  EXPECT_FALSE(parse_pods(group));
}

}  // namespace pod_groups_test
}  // namespace qm::admission
