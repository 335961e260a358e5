// Kueue's Workload objects, read and written.
#include "qm/admission/translate/workload_objects.hpp"

#include "job_server.hpp"
#include "qm/admission/kueue/topology_objects.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/kube/client.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace workload_objects_test {

Json json(const std::string& text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

Json alone() {
  return json(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"name":"alone","namespace":"team","uid":"u","creationTimestamp":"2026-11-21T10:00:00Z",
                "labels":{"quartermaster.dev/team":"payer"}},
    "spec":{"queueName":"q","priority":7,"priorityClassName":"ignored","maximumExecutionTimeSeconds":90,
      "podSets":[
        {"name":"leader","count":1,"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"2"}}}]}}},
        {"name":"none","count":0,"template":{"spec":{"containers":[{}]}}},
        {"name":"workers","count":4,"minCount":2,"template":{"spec":{"containers":[
          {"resources":{"limits":{"nvidia.com/gpu":"8"}}}]}}}]}})");
}

JobUpdated read(const Json& object) {
  auto seen = parse_workload_object(object);
  EXPECT_TRUE(seen) << seen.error().to_string();
  return seen ? *seen : JobUpdated{};
}

void say(Json& object, const char* type, const char* status, const char* reason = "Test") {
  object.set("status")
      .set("conditions")
      .push_back(Json::object(
          {{"type", type}, {"status", status}, {"reason", reason}, {"lastTransitionTime", "2026-11-21T11:00:00Z"}}));
}

TEST(WorkloadObjects, ParsesUnownedWorkload) {
  const auto seen = read(alone());
  const auto& spec = seen.spec;
  EXPECT_EQ(spec.uid.value(), "u");
  EXPECT_EQ(spec.ns.value(), "team");
  EXPECT_EQ(spec.kind, "Workload");
  EXPECT_EQ(spec.queue, "q");
  EXPECT_EQ(spec.priority, 7);
  EXPECT_EQ(spec.priority_class, "") << "the value counts";
  EXPECT_EQ(spec.team.value(), "payer");
  EXPECT_EQ(to_rfc3339(spec.submitted), "2026-11-21T10:00:00Z");
  EXPECT_EQ(seen.max_execution, std::chrono::seconds(90));
  ASSERT_EQ(spec.pod_sets.size(), 2U) << "a set without pods is ignored";
  EXPECT_EQ(spec.pod_sets[0].shape.cpu_milli, 2000);
  EXPECT_EQ(spec.pod_sets[1].name, "workers");
  EXPECT_EQ(spec.pod_sets[1].count, 4);
  EXPECT_EQ(spec.pod_sets[1].min_count, 2);
  EXPECT_EQ(spec.total_gpu_milli(), 32'000);
  EXPECT_TRUE(seen.suspended);
  EXPECT_EQ(seen.active, 0);
  EXPECT_TRUE(seen.external_scheduler);
  EXPECT_EQ(seen.spec_active, true) << "active by default";
  auto asks = alone();
  auto& request = asks.set("spec").set("podSets").items_mut()[0].set("topologyRequest");
  request.set("required", "rack").set("podSetSliceRequiredTopology", "host").set("podSetSliceSize", 2);
  EXPECT_EQ(read(asks).spec.pod_sets[0].topology, (PodSetTopology{"rack", "", "host", 2}));
}

TEST(WorkloadObjects, PriorityClassGivesMissingValue) {
  auto object = alone();
  object.set("spec").erase("priority");
  EXPECT_EQ(read(object).spec.priority_class, "ignored");
  object.set("spec").erase("priorityClassName");
  object.set("spec").set("priorityClassRef").set("name", "high");
  EXPECT_EQ(read(object).spec.priority_class, "high");
}

TEST(WorkloadObjects, OwnerReportsReleasedPodsAndResult) {
  auto object = alone();
  say(object, "QuotaReserved", "True");
  say(object, "Admitted", "True");
  EXPECT_FALSE(read(object).suspended);
  EXPECT_EQ(read(object).active, 5);
  say(object, "Evicted", "True");
  EXPECT_TRUE(read(object).suspended);
  EXPECT_EQ(read(object).active, 5) << "quota is held until it reports it";
  object.set("status").erase("conditions");
  say(object, "QuotaReserved", "False");
  EXPECT_EQ(read(object).active, 0);
  say(object, "Finished", "True", "Failed");
  EXPECT_TRUE(read(object).failed);
  EXPECT_FALSE(read(object).complete);
  object.set("status").erase("conditions");
  say(object, "Finished", "True", "Succeeded");
  EXPECT_TRUE(read(object).complete);
  object.set("spec").set("active", false);
  EXPECT_EQ(read(object).spec_active, false);
}

TEST(WorkloadObjects, ErrorsNameTheField) {
  const auto field = [](const char* path, Json value) {
    auto object = alone();
    object.set("spec").set(path, std::move(value));
    const auto seen = parse_workload_object(object);
    return seen ? std::string() : seen.error().field;
  };
  EXPECT_EQ(field("podSets", Json::array()), "spec.podSets");
  EXPECT_EQ(field("podSets", json(R"([{"name":"a","count":-1}])")), "spec.podSets[0].count");
  EXPECT_TRUE(field("podSets", json(R"([{"name":"a","count":1,"template":{"spec":{"containers":[
                        {"resources":{"requests":{"cpu":"x"}}}]}}}])"))
                  .starts_with("spec.podSets[0].template.spec."));
}

TEST(WorkloadObjects, CheckStatesBelongToAttemptOnObject) {
  auto object = alone();
  object.set("status").set("admissionChecks", json(R"([{"name":"a","state":"Ready","message":"yes"},
    {"name":"b","state":"Pending"},{"name":"c","state":"Retry","requeueAfterSeconds":60},{"name":"d","state":"Odd"}])"));
  EXPECT_TRUE(words_of(object).empty()) << "it was never admitted";
  object.set("metadata").set("annotations").set(words::kAttempt, "2");
  const auto words = words_of(object);
  ASSERT_EQ(words.size(), 2U);
  const auto& first = std::get<AnswerCheck>(words[0]);
  EXPECT_EQ(first.uid.value(), "u");
  EXPECT_EQ(first.check, "a");
  EXPECT_EQ(first.verdict, Verdict::kReady);
  EXPECT_EQ(first.message, "yes");
  EXPECT_EQ(first.attempt, 2);
  EXPECT_EQ(std::get<AnswerCheck>(words[1]).retry_after, std::chrono::minutes(1));
}

Workload of_job() {
  Workload w;
  w.spec = parse_job(testing::make_job("team", "train", "q", 4, 2))->spec;
  w.cluster_queue = QueueName("research");
  return w;
}

TEST(WorkloadObjects, MirrorNamesAndIsOwnedByItsJob) {
  auto w = of_job();
  w.spec.priority = 5;
  w.max_execution = std::chrono::seconds(60);
  const auto job = testing::make_job("team", "train", "q", 4, 2);
  const auto mirror = mirror_of(w, job, "v1beta2");
  EXPECT_TRUE(is_mirror(mirror));
  EXPECT_EQ(kube::name_of(mirror), mirror_name(w.spec));
  EXPECT_TRUE(kube::name_of(mirror).starts_with("job-train-"));
  EXPECT_EQ(mirror.path("metadata.ownerReferences").at(0)["uid"].string(), "uid-train");
  EXPECT_EQ(mirror.path("spec.queueName").string(), "q");
  EXPECT_EQ(mirror.path("spec.priority").integer(), 5);
  EXPECT_EQ(mirror.path("spec.maximumExecutionTimeSeconds").integer(), 60);
  const auto& set = mirror.path("spec.podSets").at(0);
  EXPECT_EQ(set["count"].integer(), 2);
  EXPECT_EQ(set["template"], job.path("spec.template"));
  // Its field spec.active is handled as a request of its own.
  const auto words = words_of(mirror);
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(std::get<ActiveUpdated>(words[0]).uid.value(), "uid-train");
  EXPECT_TRUE(std::get<ActiveUpdated>(words[0]).active);
}

std::string value_of(const Json& status, const char* type) {
  for (const auto& c : status["conditions"].items()) {
    if (c["type"].string() == type) return c["status"].string() + "/" + c["reason"].string();
  }
  return {};
}

// v1beta1 lists the domains, and v1beta2 has a value per level and domain.
TEST(WorkloadObjects, NodesAreTopologyAssignment) {
  auto w = of_job();
  w.phase = Phase::kAdmitted;
  const topology::Assignment nodes{{"rack", "host"}, {{{"r1", "a"}, 2}, {{"r1", "b"}, 1}}};
  w.except([&](Exceptions& e) { e.nodes.edit()[w.spec.pod_sets.front().name] = nodes; });
  for (const auto& [version, form] : {std::pair("v1beta1", "domains"), std::pair("v1beta2", "slices")}) {
    const auto object = Json::object({{"apiVersion", std::string("kueue.x-k8s.io/") + version}});
    const auto status = workload_status(w, object, from_micros(1));
    const auto& written = status.path("admission.podSetAssignments").at(0)["topologyAssignment"];
    EXPECT_TRUE(written.contains(form)) << written.dump();
    EXPECT_EQ(kueue::topology_assignment(written), nodes) << written.dump();
  }
}

TEST(WorkloadObjects, StatusShowsPhase) {
  const auto now = from_micros(1'800'000'000'000'000);
  auto w = of_job();
  auto status = workload_status(w, Json::object(), now);
  EXPECT_EQ(value_of(status, "QuotaReserved"), "False/Pending");
  EXPECT_EQ(value_of(status, "Admitted"), "");
  EXPECT_TRUE(status["admission"].is_null());

  w.phase = Phase::kQuotaReserved;
  w.flavors.edit()["main"][std::string(words::kGpuResource)] = FlavorName("h100");
  w.checks.edit()["room"] = {};
  w.gated = true;
  status = workload_status(w, Json::object(), now);
  EXPECT_EQ(value_of(status, "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(value_of(status, "Admitted"), "False/UnsatisfiedChecks");
  const auto& set = status.path("admission.podSetAssignments").at(0);
  EXPECT_EQ(set["flavors"][words::kGpuResource].string(), "h100");
  EXPECT_EQ(set["resourceUsage"][words::kGpuResource].string(), "8");
  EXPECT_EQ(status["admissionChecks"].at(0)["state"].string(), "Pending");

  w.phase = Phase::kEvicting;
  w.inactive = "by hand";
  w.eviction = Eviction{"MaximumExecutionTimeExceeded", "too long", {}, {}, false, {}};
  status = workload_status(w, Json::object(), now);
  EXPECT_EQ(value_of(status, "Admitted"), "True/Admitted");
  EXPECT_EQ(value_of(status, "Evicted"), "True/DeactivatedDueToMaximumExecutionTimeExceeded");

  Json object = Json::object();
  object.set("status", status);
  w.phase = Phase::kPending;
  w.checks.clear();
  status = workload_status(w, object, now);
  EXPECT_EQ(value_of(status, "Admitted"), "False/NoReservation");
  EXPECT_EQ(value_of(status, "Evicted"), "True/DeactivatedDueToMaximumExecutionTimeExceeded")
      << "until it is admitted again";
  w.phase = Phase::kFinished;
  w.succeeded = true;
  EXPECT_EQ(value_of(workload_status(w, object, now), "Finished"), "True/Succeeded");
}

TEST(WorkloadObjects, ScaleUpPendingQuotaIsCondition) {
  const auto now = from_micros(1'800'000'000'000'000);
  auto w = of_job();
  w.phase = Phase::kAdmitted;
  w.except([&](Exceptions& e) { e.scale_up_to = 6; });
  auto status = workload_status(w, Json::object(), now);
  EXPECT_EQ(value_of(status, "UpdateFollowed"), "False/ScaleUpPending");
  Json object = Json::object();
  object.set("status", status);
  w.except([](Exceptions& e) { e.scale_up_to = 0; });
  EXPECT_EQ(value_of(workload_status(w, object, now), "UpdateFollowed"), "True/Followed");
}

TEST(WorkloadObjects, PendingAnswerIsKeptAndNewAttemptAsksAgain) {
  const auto now = from_micros(1'800'000'000'000'000);
  auto w = of_job();
  w.phase = Phase::kQuotaReserved;
  w.checks.edit()["room"] = {};
  auto object = json(R"({"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}},"status":{"admissionChecks":[
    {"name":"room","state":"Ready","message":"yes","lastTransitionTime":"2026-11-21T11:00:00Z"}]}})");
  EXPECT_EQ(workload_status(w, object, now)["admissionChecks"].at(0)["state"].string(), "Ready");
  w.attempt = 2;
  EXPECT_EQ(workload_status(w, object, now)["admissionChecks"].at(0)["state"].string(), "Pending");
}

TEST(WorkloadObjects, ConditionKeepsTransitionTimeAndOthersAreKept) {
  auto w = of_job();
  Json object = Json::object();
  say(object, "QuotaReserved", "False");
  say(object, "Requeued", "True");
  const auto status = workload_status(w, object, from_micros(1'800'000'000'000'000));
  ASSERT_EQ(status["conditions"].size(), 2U);
  EXPECT_EQ(status["conditions"].at(0)["lastTransitionTime"].string(), "2026-11-21T11:00:00Z");
  EXPECT_EQ(value_of(status, "Requeued"), "True/Test");
}

}  // namespace workload_objects_test
}  // namespace qm::admission
