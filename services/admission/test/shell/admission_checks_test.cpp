// Conditions in addition to quota, as they are received and as they are stored.
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/kueue_configuration.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "src/shell/api/objects_api.hpp"
#include "src/shell/rows/rows.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace terms_test {

namespace pb = quartermaster::v1;

template <class Message>
Result<std::vector<Command>> decode(const std::string& name, const Message& message) {
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = name;
  input.bytes = message.SerializeAsString();
  return Codec{}.decode(input);
}

TEST(AdmissionChecks, AreKeptInRow) {
  Workload w;
  w.spec.uid = WorkloadUid("w");
  w.max_execution = std::chrono::seconds(90);
  w.phase = Phase::kEvicting;
  w.checks.edit()["budget"] = {Verdict::kRetry, "later", from_micros(5)};
  w.checks.edit()["room"] = {};
  w.gated = true;
  w.inactive = "by hand";
  w.ran = std::chrono::seconds(7);
  w.pods_ready = from_micros(11);
  w.pods_lost = from_micros(12);
  w.requeues = 3;
  w.requeued = from_micros(13);
  w.patient = true;
  w.spec_active = false;
  w.spec.pods_expected = true;
  w.waiting_time = WholeSeconds(90);
  w.eviction = Eviction{"PodsReadyTimeout", "late", from_micros(1), from_micros(2), true, from_micros(3)};
  const auto kept = from_row(to_row(w));
  EXPECT_EQ(kept.max_execution, w.max_execution);
  EXPECT_EQ(kept.checks, w.checks);
  EXPECT_EQ(kept.gated, w.gated);
  EXPECT_EQ(kept.inactive, w.inactive);
  EXPECT_EQ(kept.ran, w.ran);
  EXPECT_EQ(kept.pods_ready, w.pods_ready);
  EXPECT_EQ(kept.pods_lost, w.pods_lost);
  EXPECT_EQ(kept.requeues, w.requeues);
  EXPECT_EQ(kept.requeued, w.requeued);
  EXPECT_EQ(kept.patient, w.patient);
  EXPECT_EQ(kept.spec_active, w.spec_active);
  EXPECT_TRUE(kept.spec.pods_expected);
  EXPECT_EQ(kept.waiting_time, w.waiting_time);
  EXPECT_EQ(kept.eviction, w.eviction);
  w.spec_active.reset();
  EXPECT_EQ(from_row(to_row(w)).spec_active, std::nullopt);
}

TEST(AdmissionChecks, LabelLimitsExecutionTime) {
  auto job = testing::make_job("team", "train", "q", 1);
  const auto limit = [&](const char* text) {
    job.set("metadata").set("labels").set(kMaxExecution, text);
    const auto seen = parse_job(job);
    EXPECT_TRUE(seen);
    return seen ? seen->max_execution : Duration{-1};
  };
  EXPECT_EQ(limit("90"), std::chrono::seconds(90));
  EXPECT_EQ(limit("0"), Duration{0});
  EXPECT_EQ(limit("soon"), Duration{0});
  EXPECT_EQ(limit("90s"), Duration{0});
}

TEST(AdmissionChecks, JobPodsAreReadyWhenAllAre) {
  auto job = testing::make_job("team", "train", "q", 1, 3);
  const auto ready = [&](int up, int succeeded) {
    job.set("status").set("ready", up).set("succeeded", succeeded);
    return parse_job(job)->pods_ready;
  };
  EXPECT_FALSE(ready(0, 0));
  EXPECT_FALSE(ready(2, 0));
  EXPECT_TRUE(ready(3, 0));
  EXPECT_TRUE(ready(1, 2)) << "succeeded pods count";
  EXPECT_NE(job_print(job, true).find("/ready"), std::string::npos);
  EXPECT_EQ(job_print(job).find("/ready"), std::string::npos) << "not required";
}

TEST(AdmissionChecks, AnswerNamesCheckAndState) {
  pb::AnswerCheckRequest request;
  request.set_name("train");
  const auto field = [&] {
    const auto read = decode("AnswerCheck", request);
    return read ? std::string() : read.error().field;
  };
  EXPECT_EQ(field(), "check");
  request.set_check("budget");
  EXPECT_EQ(field(), "state");
  request.set_state(pb::CHECK_RETRY);
  request.set_retry_after_us(-1);
  EXPECT_EQ(field(), "retry_after_us");
  request.set_retry_after_us(1);
  const auto read = decode("AnswerCheck", request);
  ASSERT_TRUE(read);
  const auto& answer = std::get<AnswerCheck>(read->at(0));
  EXPECT_EQ(answer.ns.value(), "default");
  EXPECT_EQ(answer.verdict, Verdict::kRetry);
  EXPECT_EQ(answer.retry_after, Duration(1));
  request.clear_name();
  EXPECT_EQ(field(), "uid");
}

TEST(AdmissionChecks, ActiveStateIsSetPerWorkload) {
  pb::SetActiveRequest request;
  EXPECT_FALSE(decode("SetActive", request));
  request.set_uid("w");
  request.set_reason("holiday");
  const auto read = decode("SetActive", request);
  ASSERT_TRUE(read);
  EXPECT_FALSE(std::get<SetActive>(read->at(0)).active);
  EXPECT_EQ(std::get<SetActive>(read->at(0)).reason, "holiday");
}

std::string configuration(const std::string& wait) {
  return "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nnamespace: kueue-system\n" + wait;
}

TEST(KueueConfiguration, WaitForPodsReadyIsApplied) {
  const auto read = kueue_configuration_from(
      configuration("waitForPodsReady: {enable: true, timeout: 10m, recoveryTimeout: 3m, blockAdmission: true, "
                    "requeuingStrategy: {timestamp: Creation, backoffLimitCount: 5, backoffBaseSeconds: 10, "
                    "backoffMaxSeconds: 600}}"),
      "kueue.yaml");
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_TRUE(read->pods_ready);
  EXPECT_EQ(read->pods_ready->timeout, std::chrono::minutes(10));
  EXPECT_EQ(read->pods_ready->recovery_timeout, std::chrono::minutes(3));
  EXPECT_TRUE(read->pods_ready->block_admission);
  EXPECT_TRUE(read->pods_ready->keeps_age);
  EXPECT_EQ(read->pods_ready->most_requeues, 5);
  EXPECT_EQ(read->pods_ready->backoff, std::chrono::seconds(10));
  EXPECT_EQ(read->pods_ready->backoff_most, std::chrono::minutes(10));
  EXPECT_EQ(read->left, std::vector<std::string>{"namespace"});
}

TEST(KueueConfiguration, DefaultsAreKueues) {
  const auto read = kueue_configuration_from(configuration("waitForPodsReady: {timeout: 10m}"), "kueue.yaml");
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_TRUE(read->pods_ready);
  EXPECT_EQ(read->pods_ready->recovery_timeout, std::chrono::minutes(10)) << "as long as the timeout";
  EXPECT_FALSE(read->pods_ready->block_admission);
  EXPECT_FALSE(read->pods_ready->keeps_age);
  EXPECT_FALSE(read->pods_ready->most_requeues);
  EXPECT_EQ(read->pods_ready->backoff, std::chrono::seconds(60));
  EXPECT_EQ(read->pods_ready->backoff_most, std::chrono::hours(1));
}

TEST(KueueConfiguration, DisabledIsOff) {
  EXPECT_FALSE(kueue_configuration_from(configuration("waitForPodsReady: {enable: false}"), "a")->pods_ready);
  EXPECT_FALSE(kueue_configuration_from(configuration(""), "a")->pods_ready);
}

TEST(KueueConfiguration, ErrorsNameTheField) {
  const auto field = [](const std::string& text) {
    const auto read = kueue_configuration_from(text, "kueue.yaml");
    return read ? std::string() : read.error().field;
  };
  EXPECT_EQ(field("apiVersion: v1\nkind: ConfigMap\n"), "kueue-configuration");
  EXPECT_EQ(field(configuration("waitForPodsReady: {timeout: soon}")), "waitForPodsReady.timeout");
  EXPECT_EQ(field(configuration("waitForPodsReady: {timeout: 0s}")), "waitForPodsReady.timeout");
  EXPECT_EQ(field(configuration("waitForPodsReady: {requeuingStrategy: {timestamp: Now}}")),
            "waitForPodsReady.requeuingStrategy.timestamp");
  EXPECT_EQ(field(configuration("waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1}}")),
            "waitForPodsReady.requeuingStrategy.backoffLimitCount");
  EXPECT_EQ(field(configuration("waitForPodsReady: {requeuingStrategy: {backoffMaxSeconds: x}}")),
            "waitForPodsReady.requeuingStrategy.backoffMaxSeconds");
  EXPECT_EQ(read_kueue_configuration("/nowhere").error().code, Code::kNotFound);
}

/// An engine with the objects of `text`.
Engine with_objects(const std::string& text) {
  Engine engine;
  auto objects = objects_from_manifest(text, "a.yaml");
  EXPECT_TRUE(objects) << objects.error().to_string();
  (void)engine.step(std::vector<Command>{*objects}, from_micros(1));
  engine.commit();
  return engine;
}

constexpr const char* kObjects = R"(
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: a}, spec: {namespaceSelector: {}}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: b}, spec: {namespaceSelector: {}}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: b}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: high}, value: 10}
)";

std::vector<std::string> names_of(const pb::ListObjectsResponse& answer) {
  std::vector<std::string> out;
  for (const auto& object : answer.objects()) out.push_back(object.kind() + "/" + object.name());
  return out;
}

TEST(ListObjects, ReturnsByKindAndNameInPages) {
  const auto engine = with_objects(kObjects);
  rpc::Caller all_objects;
  all_objects.everything = true;
  pb::ListObjectsRequest request;
  request.set_page_size(2);
  std::vector<std::string> all;
  for (int pages = 0; pages < 5; ++pages) {
    pb::ListObjectsResponse page;
    ASSERT_TRUE(list_objects(engine, request, all_objects, page));
    for (auto& name : names_of(page)) all.push_back(std::move(name));
    if (page.next_page_token().empty()) break;
    request.set_page_token(page.next_page_token());
  }
  EXPECT_EQ(all, (std::vector<std::string>{"ClusterQueue/a", "ClusterQueue/b", "LocalQueue/q",
                                           "WorkloadPriorityClass/high"}));
}

TEST(ListObjects, TenantSeesQueuesOfItsLocalQueues) {
  const auto engine = with_objects(kObjects);
  rpc::Caller tenant;
  tenant.everything = false;
  tenant.namespaces = {"team"};
  pb::ListObjectsResponse answer;
  ASSERT_TRUE(list_objects(engine, {}, tenant, answer));
  EXPECT_EQ(names_of(answer),
            (std::vector<std::string>{"ClusterQueue/b", "LocalQueue/q", "WorkloadPriorityClass/high"}));
}

TEST(ListBudgets, ShowsStateOfEachBudgetInPages) {
  auto engine = with_objects(kObjects);
  BudgetGranted granted{"hours", 1, {QueueName("b"), {}, {}}, {}};
  const Instant begin = from_micros(3'600'000'000);
  granted.allotments = {{{begin, begin + std::chrono::hours(4)}, 7'200'000, 0},
                        {{begin + std::chrono::hours(4), begin + std::chrono::hours(8)}, 7'200'000, 0}};
  BudgetGranted other{"others", 1, {{}, Namespace("elsewhere"), {}, true}, {}};
  BudgetGranted team{"team", 1, {{}, {}, Team("red")}, {}};
  (void)engine.step(std::vector<Command>{granted, other, team}, begin);
  const auto list = [&](const rpc::Caller& caller, int size = 0, const std::string& after = {}) {
    pb::ListBudgetsRequest request;
    request.set_page_size(size);
    request.set_page_token(after);
    pb::ListBudgetsResponse answer;
    EXPECT_TRUE(list_budgets(engine, request, caller, begin + std::chrono::hours(1), answer));
    return answer;
  };
  const auto first = list(rpc::Caller::anyone(), 2);
  ASSERT_EQ(first.budgets_size(), 2);
  EXPECT_EQ(first.next_page_token(), "others");
  const auto& hours = first.budgets(0);
  EXPECT_EQ(hours.cluster_queue(), "b");
  EXPECT_EQ(hours.unit(), pb::BUDGET_GPU_MILLISECONDS);
  EXPECT_EQ(hours.granted(), 7'200'000);
  EXPECT_EQ(hours.free(), 7'200'000);
  EXPECT_EQ(hours.spent() + hours.held() + hours.owed() + hours.projected(), 0);
  EXPECT_EQ(hours.to_us(), hours.next_us());
  EXPECT_EQ(first.budgets(1).unit(), pb::BUDGET_NANO_USD);
  EXPECT_EQ(first.budgets(1).to_us(), 0) << "nothing is granted";
  EXPECT_EQ(list(rpc::Caller::anyone(), 2, "others").budgets(0).team(), "red");

  rpc::Caller tenant;
  tenant.namespaces = {"team"};
  EXPECT_EQ(list(tenant).budgets_size(), 1);
  EXPECT_EQ(list(tenant).budgets(0).name(), "hours") << "of the queue that its own leads to";
  tenant.namespaces = {"elsewhere"};
  tenant.teams = {"red"};
  EXPECT_EQ(list(tenant).budgets_size(), 2);
}

}  // namespace terms_test
}  // namespace qm::admission
