// Mirrors follow their workloads: pod sets, queue and priority of the present object.
#include "qm/admission/workload_mirror.hpp"

#include "admission_host.hpp"
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/translate/workload_objects.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <future>

namespace qm::admission {
namespace workload_mirror_test {

class MirrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    host_ = testing::start_admission(clock_);
    ASSERT_TRUE(host_);
    server_.serve("kueue.x-k8s.io", "v1beta2", "workloads");
    client_ = std::make_unique<kube::Client>(server_.client());
    for (const auto& object : testing::queue_objects()) Mailbox(*host_).send("object", object);
    mirror();
  }
  void TearDown() override {
    server_.close_watches();
    mirror_.reset();
    if (host_) host_->stop();
  }
  /// The test starts each round of writes itself.
  void mirror() {
    MirrorOptions options;
    options.mirrors = true;
    options.period = std::chrono::hours(1);
    mirror_ = std::make_unique<WorkloadMirror>(*client_, *host_, clock_, WatchOptions{}, options);
    mirror_->start();
    ASSERT_TRUE(qm::testing::wait_until([&] { return mirror_->synced(); }));
  }
  /// Puts this version of the object, waits until admission has handled it, and runs a round of writes.
  void seen(const Json& job) {
    server_.put(job);
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = "job";
    input.bytes = job.dump();
    input.key = "uid-train";
    std::promise<void> handled;
    ASSERT_TRUE(host_->submit(std::move(input), [&](const Result<std::string>&) { handled.set_value(); }));
    handled.get_future().wait();
    (void)mirror_->write();
  }
  Json object() {
    WorkloadSpec spec;
    spec.kind = "Job";
    spec.name = "train";
    spec.uid = WorkloadUid("uid-train");
    return server_.get("team/" + mirror_name(spec));
  }
  std::string quota_reserved() {
    const Json now = object();
    for (const auto& c : now.path("status.conditions").items()) {
      if (c["type"].string() == "QuotaReserved") return c["status"].string() + " " + c["reason"].string();
    }
    return "none";
  }
  testing::JobServer server_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<WorkloadMirror> mirror_;
};

TEST_F(MirrorTest, PodSetsAndQueueFollowTheObject) {
  seen(testing::make_job("team", "train", "typo", 16, 2));
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(), 2);
  EXPECT_EQ(quota_reserved(), "False QueueUnknown");
  Json job = testing::make_job("team", "train", "q", 16, 3);
  seen(job);
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(), 3);
  EXPECT_EQ(object().path("spec.queueName").string(), "q");
  EXPECT_EQ(quota_reserved(), "False Pending");
  // Only the template changes.
  job.set("spec").set("template").set("spec").set("nodeSelector").set("zone", "a");
  seen(job);
  EXPECT_EQ(object().path("spec.podSets").at(0).path("template.spec.nodeSelector.zone").string(), "a");
  job = testing::make_job("team", "train", "q", 4, 1);
  seen(job);
  EXPECT_EQ(quota_reserved(), "True QuotaReserved");
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(), 1);
  EXPECT_TRUE(object().path("spec.podSets").at(0).path("template.spec.nodeSelector.zone").is_null());
}

TEST_F(MirrorTest, PodSetsAreFixedWhileQuotaIsReserved) {
  seen(testing::make_job("team", "train", "q", 1, 2));
  ASSERT_EQ(quota_reserved(), "True QuotaReserved");
  const int writes = server_.writes();
  seen(testing::make_job("team", "train", "q", 1, 4));
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(), 4);
  EXPECT_EQ(object().path("status.admission.podSetAssignments").at(0)["count"].integer(), 4);
  EXPECT_EQ(quota_reserved(), "True QuotaReserved");
  EXPECT_EQ(kube::annotation(object(), words::kAttempt), "2");
  EXPECT_EQ(server_.writes() - writes, 4) << "without quota, the spec, with quota, the attempt";
}

TEST_F(MirrorTest, FirstListIsOrderedByAge) {
  server_.close_watches();
  mirror_.reset();
  // A list is ordered by name.
  for (int i = 0; i < 20; ++i) {
    Json workload = *Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{
        "namespace":"team"},"spec":{"queueName":"q","podSets":[{"name":"main","count":1,"template":{"spec":{
        "containers":[{"name":"main","resources":{"requests":{"nvidia.com/gpu":"8"}}}]}}}]}})");
    workload.set("metadata").set("name", fmt::format("w{:02}", i)).set("uid", fmt::format("uid-w{:02}", i));
    workload.set("metadata").set("creationTimestamp", fmt::format("2026-01-01T00:00:{:02}Z", 59 - i));
    server_.put(workload);
  }
  mirror();
  const auto is = [&](const char* uid, Phase phase) {
    return qm::testing::wait_until([&] {
      bool found = false;
      host_->read([&](const service::Shell& shell) {
        const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid));
        found = w != nullptr && w->phase == phase;
      });
      return found;
    });
  };
  EXPECT_TRUE(is("uid-w19", Phase::kAdmitted));
  EXPECT_TRUE(is("uid-w00", Phase::kPending));
}

TEST_F(MirrorTest, EmptyWorkloadHasConditionWithReasonOfList) {
  seen(testing::make_job("team", "train", "q", 1, 0));
  EXPECT_EQ(quota_reserved(), "False NoPods");
  EXPECT_EQ(object().path("spec.podSets").size(), 1U);
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(-1), 0);
  seen(testing::make_job("team", "train", "q", 1, 2));
  EXPECT_EQ(quota_reserved(), "True QuotaReserved");
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(), 2);
}

TEST_F(MirrorTest, RejectedWorkloadHasConditionWithReason) {
  Json job = testing::make_job("team", "train", "q", 1, 2);
  job.set("spec").set("parallelism", 200'000);
  seen(job);
  EXPECT_EQ(quota_reserved(), "False Rejected");
  server_.close_watches();
  mirror_.reset();
  mirror();
  seen(testing::make_job("team", "train", "q", 1, 2));
  EXPECT_EQ(quota_reserved(), "True QuotaReserved") << "also after a restart";
  EXPECT_EQ(object().path("spec.podSets").at(0)["count"].integer(), 2);
}

}  // namespace workload_mirror_test
}  // namespace qm::admission
