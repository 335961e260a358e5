#include "qm/admission/executor.hpp"

#include "job_server.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/model/resources.hpp"
#include "qm/testing/kube_refusals.hpp"
#include "state/admission_state.pb.h"

#include <gtest/gtest.h>

namespace qm::admission {
namespace executor_test {

namespace state = quartermaster::admission;

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() : client_(server_.client()), executor_(client_) {
    intent_.set_namespace_("team");
    intent_.set_name("train");
    intent_.set_uid("uid-train");
    intent_.set_attempt(2);
    intent_.set_reservation("r-7");
    intent_.set_resume_uri("fleet://team/train?step=7");
    (*intent_.mutable_node_selector())["model"] = "h100";
    intent_.add_tolerations()->set_key("gpu");
    intent_.mutable_tolerations(0)->set_operator_("Exists");
  }
  Result<service::Outcome> run(const std::string& kind) {
    return executor_.execute({kind + "/1", kind, "uid-train", 1, intent_.SerializeAsString()});
  }
  state::JobOutcome outcome(const Result<service::Outcome>& result) {
    state::JobOutcome out;
    EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
    EXPECT_TRUE(!result || out.ParseFromString(result->bytes));
    return out;
  }
  Json job() { return server_.get("team/train"); }

  testing::JobServer server_;
  kube::Client client_;
  JobExecutor executor_;
  state::JobIntent intent_;
};

// S-078: additions of the flavor are written into the template of the job.
TEST_F(ExecutorTest, UnsuspendWritesTemplateAndIsIdempotent) {
  Json old = testing::make_job("team", "train", "q", 8);
  old.set("spec").set("template").set("spec").set("nodeSelector").set("model", "a100");
  old.set("spec").set("template").set("spec").set("nodeSelector").set("of-an-old-flavor", "x");
  server_.put(old);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  const Json now = job();
  EXPECT_FALSE(now["spec"]["suspend"].boolean(true));
  const auto& annotations = now.path("spec.template.metadata.annotations");
  EXPECT_EQ(annotations[words::kAttempt].string(), "2");
  EXPECT_EQ(annotations[words::kReservation].string(), "r-7");
  EXPECT_EQ(annotations[words::kResume].string(), "fleet://team/train?step=7");
  EXPECT_EQ(now.path("spec.template.spec.nodeSelector").dump(), R"({"model":"h100"})");
  EXPECT_EQ(now.path("spec.template.spec.tolerations").dump(), R"([{"key":"gpu","operator":"Exists"}])");
  const int writes = server_.writes();
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(server_.writes(), writes);
}

/// With objects that the watch delivered.
class ObservedTest : public ExecutorTest {
 protected:
  ObservedTest() { executor_.start_from(observed_); }
  Json put() { return server_.put(testing::make_job("team", "train", "q", 8)); }

  ObservedJobs observed_;
};

TEST_F(ObservedTest, UnsuspendReadsNothingWhereTheObjectIsKnown) {
  observed_.put(put());
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_FALSE(job()["spec"]["suspend"].boolean(true));
  EXPECT_EQ(job().path("spec.template.metadata.annotations")[words::kAttempt].string(), "2");
  EXPECT_EQ(server_.reads(), 0);
  EXPECT_EQ(server_.writes(), 1);
  // The object that was used is not used again: it is older than the own write.
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(server_.reads(), 1);
  EXPECT_EQ(server_.writes(), 1);
}

TEST_F(ObservedTest, FewerIntentsAtOnceWhileTheServerRespondsLater) {
  EXPECT_GT(executor_.most_at_once({}), 8);
  executor_.limit_calls(8);
  const auto start_job = [&] {
    observed_.put(put());
    EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  };
  start_job();
  EXPECT_EQ(executor_.most_at_once({}), 8);
  server_.respond_after(std::chrono::milliseconds(40));
  for (int i = 0; i < 8; ++i) start_job();
  EXPECT_EQ(executor_.most_at_once({}), 2);
  EXPECT_EQ(executor_.most_at_once(service::CallLimit::kPatience), 8);
  // Nothing is left to write, and no call is made: it says nothing about the server.
  server_.respond_after({});
  for (int i = 0; i < 100; ++i) {
    observed_.put(job());
    EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  }
  EXPECT_EQ(executor_.most_at_once({}), 2);
}

TEST_F(ObservedTest, AnObjectThatChangedSinceIsRead) {
  observed_.put(put());
  Json changed = job();
  changed.set("metadata").set("labels").set("by", "author");
  server_.put(changed);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(server_.reads(), 1);
  EXPECT_FALSE(job()["spec"]["suspend"].boolean(true));
  EXPECT_EQ(kube::label(job(), "by"), "author");
}

TEST_F(ObservedTest, AnObjectThatWasDeletedSinceCountsAsDone) {
  observed_.put(put());
  server_.remove("team/train");
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(server_.writes(), 0);
}

TEST_F(ObservedTest, AnotherObjectOfTheSameNameIsNotChanged) {
  observed_.put(put());
  server_.remove("team/train");
  Json other = testing::make_job("team", "train", "q", 8);
  other.set("metadata").set("uid", "uid-other");
  server_.put(other);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_TRUE(job()["spec"]["suspend"].boolean());
}

TEST_F(ObservedTest, AnUnavailableServerIsRetriedWithARead) {
  observed_.put(put());
  server_.fail_next(503);
  EXPECT_FALSE(run("job.unsuspend"));
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(server_.reads(), 1);
  EXPECT_FALSE(job()["spec"]["suspend"].boolean(true));
}

TEST(ObservedJobs, TheOldestAreRemovedWhenTheTextsAreTooLong) {
  const auto job = [](int i) { return testing::make_job("team", fmt::format("j{}", i), "q", 8); };
  ObservedJobs jobs(4 * job(0).dump().size());
  for (int i = 0; i < 4; ++i) jobs.put(job(i));
  jobs.put(job(0));  // the newest again
  jobs.put(job(4));
  EXPECT_FALSE(jobs.take("uid-j1"));
  ASSERT_TRUE(jobs.take("uid-j0"));
  EXPECT_FALSE(jobs.take("uid-j0")) << "it was taken";
  jobs.erase("uid-j2");
  EXPECT_FALSE(jobs.take("uid-j2"));
  ASSERT_TRUE(jobs.take("uid-j3"));
  EXPECT_EQ(jobs.take("uid-j4"), job(4));
}

TEST_F(ExecutorTest, AdditionsOfAttemptAreNotReadAsSubmitted) {
  Json submitted = testing::make_job("team", "train", "q", 8);
  submitted.set("spec").set("template").set("spec").set("nodeSelector").set("zone", "a");
  server_.put(submitted);
  const auto before = parse_job(job());
  ASSERT_TRUE(before);
  (*intent_.mutable_node_selector())["zone"] = "a";
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(job().path("spec.template.spec.nodeSelector.model").string(), "h100");
  const auto after = parse_job(job());
  ASSERT_TRUE(after);
  EXPECT_TRUE(after->as_submitted);
  EXPECT_EQ(after->spec.pod_sets, before->spec.pod_sets);
  // An earlier release did not record what it added.
  Json old = job();
  old.set("metadata").set("annotations").erase(kAdded);
  const auto unknown = parse_job(old);
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->as_submitted);
}

TEST_F(ExecutorTest, UnsuspendsOnlyTheAdmittedSpec) {
  const auto& kind = *config::workload_kind("Job");
  Json submitted = testing::make_job("team", "train", "q", 1, 2);
  server_.put(submitted);
  const auto print = spec_print(job(), kind);
  intent_.set_spec_print(print);
  for (const auto& [path, value] : {std::pair("parallelism", Json(4)), std::pair("completions", Json(4))}) {
    Json grown = submitted;
    grown.set("spec").set(path, value);
    server_.put(grown);
    const auto out = outcome(run("job.unsuspend"));
    EXPECT_FALSE(out.ok());
    EXPECT_NE(out.error().find("Job team/train changed after it got quota"), std::string::npos) << out.error();
    EXPECT_TRUE(job()["spec"]["suspend"].boolean());
  }
  // Changes that do not affect quota do not stop it, and additions of attempts do not count as changes of the author.
  submitted.set("metadata").set("labels").set("note", "x");
  server_.put(submitted);
  intent_.set_parallelism(1);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(job().path("spec.parallelism").integer(), 1);
  EXPECT_EQ(spec_print(job(), kind), print);
  EXPECT_TRUE(outcome(run("job.suspend")).ok());
  EXPECT_EQ(spec_print(job(), kind), print);
}

TEST_F(ExecutorTest, EventAboutPodsIsShownOnExistingObject) {
  intent_.set_kind("PodGroup");
  intent_.set_object("spec.networkTopology is not supported; remove it");
  Json pod = *Json::parse(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"team","name":"train-0","uid":"uid-p0",
      "labels":{"kueue.x-k8s.io/pod-group-name":"train"}},"spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}]}})");
  server_.put(pod);
  EXPECT_TRUE(outcome(run("event.create")).ok());
  ASSERT_EQ(server_.events().size(), 1U);
  EXPECT_EQ(server_.events()[0]["involvedObject"]["kind"].string(), "Pod");
  EXPECT_EQ(server_.events()[0]["involvedObject"]["name"].string(), "train-0");
  EXPECT_EQ(server_.events()[0]["involvedObject"]["uid"].string(), "uid-p0");
  server_.serve("scheduling.volcano.sh", "v1beta1", "podgroups");
  server_.put(*Json::parse(R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup",
      "metadata":{"namespace":"team","name":"train","uid":"uid-train"}})"));
  EXPECT_TRUE(outcome(run("event.create")).ok());
  ASSERT_EQ(server_.events().size(), 2U);
  EXPECT_EQ(server_.events()[1]["involvedObject"]["apiVersion"].string(), "scheduling.volcano.sh/v1beta1");
  EXPECT_EQ(server_.events()[1]["involvedObject"]["kind"].string(), "PodGroup");
  EXPECT_EQ(server_.events()[1]["involvedObject"]["uid"].string(), "uid-train");
}

TEST_F(ExecutorTest, EventHasItsReason) {
  server_.put(testing::make_job("team", "train", "q", 8));
  intent_.set_object("spec.parallelism 200000 is out of range; write a whole number from 0 to 100000");
  intent_.set_reason("Rejected");
  EXPECT_TRUE(outcome(run("event.create")).ok());
  ASSERT_EQ(server_.events().size(), 1U);
  EXPECT_EQ(server_.events()[0]["reason"].string(), "Rejected");
  EXPECT_EQ(server_.events()[0]["message"].string(), intent_.object());
}

TEST_F(ExecutorTest, JobStartsWithFewerPodsAndRequestsAllWhenSuspended) {
  server_.put(testing::make_job("team", "train", "q", 1, 8));
  ASSERT_EQ(job().path("spec.parallelism").integer(), 8);
  intent_.set_parallelism(5);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(job().path("spec.parallelism").integer(), 5);
  EXPECT_EQ(kube::annotation(job(), config::kParallelism), "8");
  const auto read = config::workload_from_job(job());
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->pod_sets.at(0).count, 8) << "a new observer counts its full request";
  EXPECT_TRUE(outcome(run("job.suspend")).ok());
  EXPECT_EQ(job().path("spec.parallelism").integer(), 8);
  EXPECT_EQ(kube::annotation(job(), config::kParallelism), "");
  intent_.set_parallelism(0);
  intent_.set_attempt(3);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(job().path("spec.parallelism").integer(), 8);
  EXPECT_FALSE(job()["metadata"]["annotations"].contains(config::kParallelism));
}

TEST_F(ExecutorTest, StatusOfRestartedJobIsReset) {
  Json old = testing::make_job("team", "train", "q", 8);
  old.set("status").set("startTime", "2026-01-01T00:00:00Z");
  server_.put(old);
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_FALSE(job()["spec"]["suspend"].boolean(true));
}

TEST_F(ExecutorTest, UnadmittedRunningJobIsSuspendedFirst) {
  Json old = testing::make_job("team", "train", "q", 8);
  old.set("spec").set("suspend", false);
  server_.put(old);
  const auto first = run("job.unsuspend");
  ASSERT_FALSE(first);
  EXPECT_TRUE(first.error().retryable());
  EXPECT_TRUE(job()["spec"]["suspend"].boolean());
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
}

TEST_F(ExecutorTest, LaterAttemptIsLeftUnchanged) {
  Json old = testing::make_job("team", "train", "q", 8);
  old.set("spec").set("template").set("metadata").set("annotations").set(words::kAttempt, "3");
  old.set("spec").set("suspend", false);
  server_.put(old);
  EXPECT_TRUE(outcome(run("job.suspend")).ok());
  EXPECT_TRUE(outcome(run("job.unsuspend")).ok());
  EXPECT_EQ(server_.writes(), 0);
}

/// After an outage of the API server only the last command about a job is wanted: a start for quota that was released
/// would take GPUs of others.
TEST_F(ExecutorTest, OnlyTheLastCommandAboutAJobIsExecuted) {
  const auto row = [&](const char* kind, int attempt, const char* uid = "uid-train") {
    intent_.set_attempt(attempt);
    intent_.set_uid(uid);
    return store::IntentRow{kind, kind, "team/train", 1, intent_.SerializeAsString()};
  };
  const auto start = row("job.unsuspend", 2), stop = row("job.suspend", 2);
  const auto superseded = [&](const store::IntentRow& intent, const store::IntentRow& later) {
    return executor_.superseded(intent, later).has_value();
  };
  for (const auto& later : {row("job.unsuspend", 2), row("job.suspend", 2), row("job.unsuspend", 3),
                            row("job.suspend", 3), row("job.delete", 3)}) {
    EXPECT_TRUE(superseded(start, later)) << later.kind;
  }
  const auto result = outcome(*executor_.superseded(start, stop));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.subject(), "uid-train");
  EXPECT_EQ(result.attempt(), 2);
  EXPECT_FALSE(superseded(start, row("event.create", 2)));
  EXPECT_FALSE(superseded(start, row("job.suspend", 2, "uid-of-a-job-created-since")));
  EXPECT_TRUE(superseded(stop, row("job.suspend", 2)));
  EXPECT_FALSE(superseded(stop, row("job.suspend", 3))) << "the pods of attempt 2 must end";
  EXPECT_FALSE(superseded(stop, row("job.unsuspend", 3))) << "the pods of attempt 2 must end";
  EXPECT_FALSE(superseded(stop, row("job.delete", 2))) << "an eviction respects disruption budgets";
  for (const char* kind : {"job.create", "job.delete", "event.create"}) {
    EXPECT_FALSE(superseded(row(kind, 2), row(kind, 2))) << kind;
  }
}

TEST_F(ExecutorTest, SuspendIsIdempotent) {
  EXPECT_TRUE(outcome(run("job.suspend")).ok());  // the object is gone
  Json old = testing::make_job("team", "train", "q", 8);
  old.set("spec").set("suspend", false);
  server_.put(old);
  EXPECT_TRUE(outcome(run("job.suspend")).ok());
  EXPECT_TRUE(job()["spec"]["suspend"].boolean());
  EXPECT_TRUE(outcome(run("job.suspend")).ok());
  EXPECT_EQ(server_.writes(), 1);
  old.set("metadata").set("uid", "another");
  server_.put(old);
  EXPECT_TRUE(outcome(run("job.suspend")).ok());
  EXPECT_FALSE(job()["spec"]["suspend"].boolean(true));
}

TEST_F(ExecutorTest, FinishedJobIsReported) {
  Json old = testing::make_job("team", "train", "q", 8);
  old.set("status").set("conditions", *Json::parse(R"([{"type":"Complete","status":"True"}])"));
  server_.put(old);
  EXPECT_TRUE(outcome(run("job.unsuspend")).complete());
  EXPECT_EQ(server_.writes(), 0);
}

TEST_F(ExecutorTest, DeletesOnlyJobWithUid) {
  server_.put(testing::make_job("team", "train", "q", 8));
  EXPECT_TRUE(outcome(run("job.delete")).ok());
  EXPECT_TRUE(job().is_null());
  EXPECT_TRUE(outcome(run("job.delete")).ok());
  Json other = testing::make_job("team", "train", "q", 8);
  other.set("metadata").set("uid", "another");
  server_.put(other);
  EXPECT_TRUE(outcome(run("job.delete")).ok());
  EXPECT_FALSE(job().is_null());
}

TEST_F(ExecutorTest, CreateRecognizesItsOwnJob) {
  intent_.set_uid("");
  intent_.set_object(testing::make_job("team", "train", "q", 8).dump());
  EXPECT_TRUE(outcome(run("job.create")).ok());
  const auto again = outcome(run("job.create"));
  EXPECT_TRUE(again.ok());
  EXPECT_EQ(again.subject(), "team/train");
  EXPECT_EQ(server_.writes(), 1);
  const store::IntentRow other{"another", "job.create", "team/train", 2, intent_.SerializeAsString()};
  const auto refused = executor_.execute(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kAlreadyExists);
  state::JobOutcome out;
  ASSERT_TRUE(out.ParseFromString(executor_.failed(other, refused.error()).bytes));
  EXPECT_FALSE(out.ok());
  EXPECT_FALSE(out.error().empty());
}

TEST_F(ExecutorTest, KnownJobIsNotCreatedAgain) {
  intent_.set_object(testing::make_job("team", "train", "q", 8).dump());
  bool awaited = false;
  std::string asked;
  executor_.authorize_first([&](const std::string& ns, const std::string& name, const std::string& intent) {
    asked = ns + "/" + name + " " + intent;
    return awaited;
  });
  // The response was lost, the job was observed, and a user has deleted it: the repeated intent succeeds and does not
  // create it again.
  EXPECT_TRUE(outcome(run("job.create")).ok());
  EXPECT_EQ(asked, "team/train job.create/1");
  EXPECT_TRUE(job().is_null());
  awaited = true;
  EXPECT_TRUE(outcome(run("job.create")).ok());
  EXPECT_FALSE(job().is_null());
}

TEST_F(ExecutorTest, ServerErrorsAreRetried) {
  server_.put(testing::make_job("team", "train", "q", 8));
  server_.fail_next(503);
  const auto result = run("job.unsuspend");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().retryable());
}

TEST_F(ExecutorTest, EachIntentHandlesEachErrorByLifecycle) {
  for (const auto& one : qm::testing::kKubeRefusals) {
    for (const auto* kind : {"job.create", "job.unsuspend", "job.suspend", "job.delete"}) {
      const std::string order = kind;
      const bool creates = order == "job.create";
      Json train = testing::make_job("team", creates ? "other" : "train", "q", 8);
      if (order == "job.suspend") train.set("spec").set("suspend", false);
      server_.put(train);
      intent_.set_object(testing::make_job("team", "train", "q", 8).dump());
      server_.refuse_writes(one.status, one.reason, one.message);
      const auto result = run(kind);
      ASSERT_FALSE(result) << kind << ", " << one.what;
      const bool releases = order == "job.suspend" || order == "job.delete";
      // A submitter gets an error about missing rights at once.
      const bool waits = releases                                       ? one.release_waits
                         : creates && one.what == std::string("rights") ? false
                                                                        : one.start_waits;
      EXPECT_EQ(result.error().retryable(), waits) << kind << ", " << one.what << ": " << result.error().to_string();
      EXPECT_NE(result.error().message.find(one.message), std::string::npos) << result.error().message;
      if (!waits) {
        const auto failed = outcome(executor_.failed({"x", kind, "k", 1, intent_.SerializeAsString()}, result.error()));
        EXPECT_FALSE(failed.ok());
        EXPECT_NE(failed.error().find(result.error().remedy), std::string::npos) << failed.error();
        EXPECT_FALSE(result.error().remedy.empty()) << kind << ", " << one.what;
      }
      server_.refuse_writes(0);
      EXPECT_TRUE(outcome(run(kind)).ok()) << kind << ", " << one.what << ": the next try";
      server_.remove("team/train");
    }
  }
}

TEST_F(ExecutorTest, NameOfTerminatingObjectIsRetried) {
  intent_.set_object(testing::make_job("team", "train", "q", 8).dump());
  server_.refuse_writes(409, "AlreadyExists", "object is being deleted: jobs.batch \"train\" already exists");
  EXPECT_TRUE(run("job.create").error().retryable());
}

TEST_F(ExecutorTest, FailedEventDoesNotBlockIntents) {
  for (const auto& one : qm::testing::kKubeRefusals) {
    server_.refuse_writes(one.status, one.reason, one.message);
    const bool away = one.status == 401 || one.status >= 500;
    EXPECT_EQ(!run("event.create"), away) << one.what;
  }
}

TEST_F(ExecutorTest, WarningIsEventOfJob) {
  intent_.set_object("queue research is a ClusterQueue");
  EXPECT_TRUE(outcome(run("event.create")).ok());
  ASSERT_EQ(server_.events().size(), 1U);
  EXPECT_EQ(server_.events()[0].path("involvedObject.uid").string(), "uid-train");
  EXPECT_EQ(server_.events()[0]["type"].string(), "Warning");
}

}  // namespace executor_test
}  // namespace qm::admission
