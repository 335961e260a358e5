// Manifests of users for which status and remedies were wrong.
#include "qm/admission/api/what_if_api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/queries/remedies.hpp"
#include "qm/admission/status.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace queue_field_cases_test {

struct QueueFieldCases : ::testing::Test {
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared) GTEST_SKIP() << qm::testing::no_shared();
    dir = *shared + "/field/";
    ApplyObjects flavors;
    for (const char* name : {"fx"}) {
      flavors.flavors.push_back({FlavorName(name), {}, {}, {{"nvidia.com/gpu", "Exists", "", "NoSchedule"}}, {}});
    }
    step({flavors});
  }
  void step(std::vector<Command> batch) {
    (void)engine.step(batch, now);
    engine.commit();
  }
  /// Applies the objects and Jobs of a file, as what-if reads it; queues as if the API server had them.
  void apply(const std::string& file) {
    quartermaster::v1::WhatIfRequest request;
    request.set_manifest(qm::testing::read_file(dir + file));
    request.set_source(file);
    auto read = supposed_from(request);
    ASSERT_TRUE(read) << read.error().to_string();
    for (auto& queue : read->objects.cluster_queues) queue.from_cluster = true;
    std::vector<Command> batch{read->objects};
    for (auto& job : read->jobs) batch.emplace_back(job);
    step(batch);
  }
  const Workload& workload(const std::string& name) { return *engine.find(Namespace("default"), name); }
  void admit(const std::string& name) {
    const auto& w = workload(name);
    step({PlacementUpdated{w.spec.uid, w.attempt, Answer::kReserved, "r", {}, {}}});
    ASSERT_EQ(workload(name).phase, Phase::kAdmitted);
  }
  Explanation why(const std::string& name) { return explain(engine.state(), workload(name), now); }
  std::map<std::string, std::string> remedies_of(const std::string& name) {
    std::map<std::string, std::string> out;
    for (const auto& remedy : remedies(engine.tables(), {}, workload(name).spec.uid, now))
      out[remedy.code] = remedy.message;
    return out;
  }
  const ClusterQueue& queue(const std::string& name) { return *engine.tables().cluster_queues.find(QueueName(name)); }
  Json condition(const std::string& name) { return cluster_queue_status(engine, queue(name), {})["conditions"].at(0); }
  Json local_condition(const std::string& name) {
    const auto* local = engine.tables().local_queues.find({Namespace("default"), name});
    return local_queue_status(engine, *local, {}, "v1beta2")["conditions"].at(0);
  }

  std::string dir;
  Engine engine;
  Instant now = from_micros(1'700'000'000'000'000);
};

TEST_F(QueueFieldCases, QuotaLoweredBelowUsageIsNotBorrowed) {
  apply("f05-quota-lowered/queue.yaml");
  apply("f05-quota-lowered/jobs.yaml");
  admit("f05-run");
  apply("f05-quota-lowered/queue-low.yaml");
  EXPECT_EQ(workload("f05-run").phase, Phase::kAdmitted);
  QueueCounts counts;
  counts.reserved = counts.used = workload("f05-run").usage;
  const auto status = cluster_queue_status(engine, queue("f05"), counts);
  int seen = 0;
  for (const char* part : {"flavorsUsage", "flavorsReservation"}) {
    for (const auto& resource : status[part].at(0)["resources"].items()) {
      EXPECT_EQ(resource["total"].string(), resource["name"].string() == "nvidia.com/gpu" ? "8"
                                            : resource["name"].string() == "cpu"          ? "2"
                                                                                          : "8Gi");
      EXPECT_EQ(resource["borrowed"].string(), "0");
      ++seen;
    }
  }
  EXPECT_EQ(seen, 6);
  EXPECT_EQ(queue_view(engine.state(), queue("f05")).borrowed.at("nvidia.com/gpu"), 0);

  const auto e = why("f05-wait");
  ASSERT_EQ(e.causes.size(), 1U);
  EXPECT_EQ(e.causes[0].message,
            "2 of nvidia.com/gpu wanted in flavor fx, 0 left for ClusterQueue f05, where usage exceeds quota by 4");
  EXPECT_EQ(e.causes[0].remedy, "wait until workloads of the queue release 6");
  const auto found = remedies_of("f05-wait");
  EXPECT_EQ(found.at("RaiseQuota"),
            "raise in ClusterQueue f05 nominalQuota of nvidia.com/gpu in flavor fx from 4 to 10");
  EXPECT_EQ(found.at("End"), "wait until 1 workload ends, or end it");
}

TEST_F(QueueFieldCases, DeletedClusterQueueInUseIsTerminating) {
  apply("f06-clusterqueue-deleted-in-use/queue.yaml");
  apply("f06-clusterqueue-deleted-in-use/jobs.yaml");
  admit("f06-run");
  step({ObjectDeleted{"ClusterQueue", {}, "f06"}});
  const std::string text =
      "ClusterQueue f06 is terminating: it was deleted while 1 workload holds its quota, and admits no more workloads";
  EXPECT_EQ(inactive_condition(engine, queue("f06"))->code, "Terminating");
  EXPECT_EQ(local_condition("f06")["reason"].string(), "ClusterQueueIsInactive");
  EXPECT_EQ(local_condition("f06")["message"].string(), text);
  EXPECT_EQ(why("f06-wait").causes.at(0).message, text);
  EXPECT_EQ(*workload("f06-wait").reason, "QueueTerminating");
  // With its last workload the queue is gone, and workloads that are pending in it report that.
  step({JobDeleted{workload("f06-run").spec.uid}});
  step({PlacementUpdated{workload("f06-run").spec.uid, 1, Answer::kReleased, {}, {}, {}}});
  EXPECT_EQ(local_condition("f06")["reason"].string(), "ClusterQueueDoesNotExist");
  EXPECT_EQ(*workload("f06-wait").reason, "QueueUnknown");
  apply("f06-clusterqueue-deleted-in-use/queue.yaml");
  EXPECT_EQ(local_condition("f06")["status"].string(), "True");
  EXPECT_EQ(workload("f06-wait").phase, Phase::kQuotaReserved);
}

TEST_F(QueueFieldCases, OrphanedPodsKeepTheirQuotaAndAreReported) {
  apply("f21-orphan-delete/queue.yaml");
  apply("f21-orphan-delete/job.yaml");
  admit("f21-run");
  step({JobDeleted{workload("f21-run").spec.uid}});
  now += std::chrono::hours(1);
  step({Tick{}});
  EXPECT_EQ(workload("f21-run").phase, Phase::kEvicting);
  EXPECT_EQ(workload("f21-wait").phase, Phase::kPending);
  const auto e = why("f21-run");
  EXPECT_EQ(e.causes.at(0).message,
            "its job was deleted; waiting for 1 pod to terminate, its quota is held as long as it runs");
  EXPECT_NE(e.causes.at(0).remedy.find("Orphan"), std::string::npos);
  EXPECT_EQ(e.summary.find("20"), std::string::npos) << "no instant: " << e.summary;
}

TEST_F(QueueFieldCases, SlowPodsShowNoInstantInThePast) {
  apply("f21-orphan-delete/queue.yaml");
  apply("f21-orphan-delete/job.yaml");
  admit("f21-run");
  step({EvictionRequested{
      workload("f21-run").spec.uid, 1, "Maintenance", "node a", now + std::chrono::seconds(30), {}, "placement"}});
  EXPECT_NE(why("f21-run").causes.at(0).message.find(to_rfc3339(now + std::chrono::seconds(30))), std::string::npos);
  now += std::chrono::minutes(5);
  EXPECT_EQ(why("f21-run").causes.at(0).message,
            "node a; waiting for 1 pod to terminate, which takes longer than its grace period");
}

TEST_F(QueueFieldCases, FlavorThatOnlyAnotherQueueOfCohortHas) {
  apply("f27-other-flavor-of-cohort/queue.yaml");
  apply("f27-other-flavor-of-cohort/job.yaml");
  const auto e = why("f27-big");
  ASSERT_FALSE(e.causes.empty());
  EXPECT_EQ(e.causes[0].code, "ExceedsMaxQuota");
  EXPECT_NE(e.causes[0].message.find("waiting does not help"), std::string::npos);
  EXPECT_EQ(e.causes[0].remedy, "");
  const auto found = remedies_of("f27-big");
  EXPECT_FALSE(found.contains("RaiseBorrowingLimit"));
  EXPECT_EQ(found.at("RaiseQuota"),
            "raise in ClusterQueue f27-base nominalQuota of nvidia.com/gpu in flavor f27-a from 2 to 4");
}

TEST_F(QueueFieldCases, CohortCycleIsNamedAndQueueIsInactive) {
  apply("f30-cohort-cycle/queue.yaml");
  apply("f30-cohort-cycle/job.yaml");
  EXPECT_EQ(condition("f30")["status"].string(), "False");
  EXPECT_EQ(condition("f30")["reason"].string(), "CohortCycle");
  EXPECT_EQ(condition("f30")["message"].string(),
            "the Cohorts above ClusterQueue f30 form a cycle: f30-x -> f30-y -> f30-x");
  EXPECT_EQ(local_condition("f30")["reason"].string(), "ClusterQueueIsInactive");
  EXPECT_TRUE(remedies_of("f30-j").empty());
  apply("f30-cohort-cycle/mend.yaml");
  EXPECT_EQ(condition("f30")["status"].string(), "True");
  EXPECT_EQ(workload("f30-j").phase, Phase::kQuotaReserved);
}

}  // namespace queue_field_cases_test
}  // namespace qm::admission
