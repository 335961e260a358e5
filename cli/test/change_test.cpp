// Verbs that change objects, as the services receive them.
#include "fake_suite.hpp"
#include "qm/base/text.hpp"
#include "qm/config/manifest.hpp"
#include "qm/wire/model.hpp"

#include <gtest/gtest.h>

#include <set>

namespace qm::cli {
namespace change_test {

using ::testing::Test;

constexpr auto kJob = R"(apiVersion: batch/v1
kind: Job
metadata: {name: finetune, namespace: vision}
spec: {template: {spec: {containers: [{name: t, image: i}]}}}
)";
constexpr auto kQueue = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: research}
spec: {cohort: all}
)";

struct Changes : Test {
  Changes() { populate(suite.state); }
  FakeSuite suite;
};

TEST_F(Changes, SubmitFromFlagsSetsEveryField) {
  const auto ran = qmctl(suite, {"submit",
                                 "--name",
                                 "t1",
                                 "-n",
                                 "nlp",
                                 "--queue",
                                 "research",
                                 "--team",
                                 "lang",
                                 "--pods",
                                 "4",
                                 "--gpus",
                                 "8",
                                 "--priority-class",
                                 "high",
                                 "--gpu-model",
                                 "H100",
                                 "--gpu-model",
                                 "A100",
                                 "--cpu",
                                 "1500m",
                                 "--memory",
                                 "2Gi",
                                 "--runtime",
                                 "1h30m",
                                 "--annotation",
                                 "fleet.quartermaster.dev/run-seconds=60",
                                 "--node-selector",
                                 "zone=a",
                                 "--checkpoints"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_EQ(ran.out, "Job nlp/t1 submitted\n");
  ASSERT_EQ(suite.state.submitted.size(), 1U);
  const auto& r = suite.state.submitted[0];
  EXPECT_EQ(r.manifest(), "");
  EXPECT_EQ(r.spec().queue(), "research");
  EXPECT_EQ(r.spec().team(), "lang");
  EXPECT_EQ(r.spec().priority_class(), "high");
  EXPECT_EQ(r.spec().expected_runtime_us(), std::int64_t{5400} * kSecond);
  EXPECT_TRUE(r.spec().checkpoints());
  ASSERT_EQ(r.spec().pod_sets_size(), 1);
  EXPECT_EQ(r.spec().pod_sets(0).count(), 4);
  const auto& shape = r.spec().pod_sets(0).shape();
  EXPECT_EQ(shape.gpu().whole(), 8);
  EXPECT_EQ(shape.gpu().models(0), "A100");
  EXPECT_EQ(shape.gpu().models(1), "H100");
  EXPECT_EQ(shape.cpu_milli(), 1500);
  EXPECT_EQ(shape.memory_bytes(), std::int64_t{2} << 30);
  EXPECT_EQ(r.pod_annotations().at("fleet.quartermaster.dev/run-seconds"), "60");
  EXPECT_EQ(shape.node_selector().at("zone"), "a");
  ASSERT_EQ(shape.tolerations_size(), 1) << "nodes with GPUs are commonly tainted";
  EXPECT_EQ(shape.tolerations(0).key(), "nvidia.com/gpu");
}

// A Job made from flags satisfies the webhook's rules for GPU pods.
TEST_F(Changes, AJobFromFlagsPassesTheWebhooksRules) {
  const auto ran = qmctl(suite, {"submit", "--name", "t1", "--queue", "q", "--gpus", "8", "--gpu-model", "H100",
                                 "--cpu", "8", "--memory", "64Gi"});
  ASSERT_EQ(ran.code, kDone) << ran.err;
  const auto job = config::job_from_workload(wire::from_pb(suite.state.submitted.at(0).spec()), {});
  const auto file = suite.file("from-flags.yaml", job.dump());
  const auto judged = qmctl(suite, {"admit", "-f", file});
  EXPECT_EQ(judged.code, kDone) << judged.out << judged.err;
}

TEST_F(Changes, SubmitSendsAFileAsItIs) {
  EXPECT_EQ(qmctl(suite, {"submit", "-f", suite.file("job.yaml", kJob), "-o", "json"}).code, kDone);
  const auto piped = qmctl(suite, {"submit", "-f", "-"}, kJob);
  EXPECT_EQ(piped.out, "Job vision/finetune submitted\n");
  ASSERT_EQ(suite.state.submitted.size(), 2U);
  EXPECT_EQ(suite.state.submitted[0].manifest(), kJob);
  EXPECT_EQ(suite.state.submitted[1].manifest(), kJob);
  EXPECT_NE(suite.state.submitted[0].request_id(), suite.state.submitted[1].request_id());
}

TEST_F(Changes, ARequestIdIsKeptAcrossTheRetriesOfOneInvocation) {
  suite.state.away = 2;
  const auto ran = qmctl(suite, {"submit", "--name", "t1", "--queue", "q"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_NE(ran.err.find("admission at 127.0.0.1:"), std::string::npos) << ran.err;
  ASSERT_EQ(suite.state.submitted.size(), 3U);
  const auto id = suite.state.submitted[0].request_id();
  EXPECT_GE(id.size(), 32U);
  EXPECT_EQ(suite.state.submitted[1].request_id(), id);
  EXPECT_EQ(suite.state.submitted[2].request_id(), id);
}

TEST_F(Changes, RetriesEndWithTheTimeoutAndPrintTheRequestId) {
  suite.state.away = 1'000'000;
  const auto ran = qmctl(suite, {"cancel", "nlp/pretrain", "--timeout", "300ms"});
  EXPECT_EQ(ran.code, kUnreachable);
  const std::string option = "--request-id ";
  const auto at = ran.err.find(option);
  ASSERT_NE(at, std::string::npos) << ran.err;
  const auto named = ran.err.substr(at + option.size());
  EXPECT_GE(named.size(), 32U) << ran.err;
  const std::scoped_lock lock(suite.state.mutex);
  for (const auto& request : suite.state.cancelled) EXPECT_TRUE(named.starts_with(request.request_id())) << ran.err;
}

TEST_F(Changes, AnIdFromBeforeIsUsed) {
  EXPECT_EQ(qmctl(suite, {"cancel", "nlp/pretrain", "--request-id", "abc", "--reason", "mistake"}).out,
            "nlp/pretrain is Evicting\n");
  EXPECT_EQ(suite.state.cancelled.at(0).request_id(), "abc");
  EXPECT_EQ(suite.state.cancelled.at(0).reason(), "mistake");
}

TEST_F(Changes, AWorkloadIsStoppedAndResumed) {
  EXPECT_EQ(qmctl(suite, {"stop", "nlp/pretrain", "--reason", "holiday"}).out,
            "nlp/pretrain is not active and Admitted\n");
  EXPECT_EQ(qmctl(suite, {"resume", "nlp/pretrain"}).out, "nlp/pretrain is active and Admitted\n");
  ASSERT_EQ(suite.state.activated.size(), 2U);
  EXPECT_FALSE(suite.state.activated[0].active());
  EXPECT_EQ(suite.state.activated[0].reason(), "holiday");
  EXPECT_TRUE(suite.state.activated[1].active());
}

TEST_F(Changes, ACheckIsAnswered) {
  EXPECT_EQ(qmctl(suite, {"check", "answer", "nlp/pretrain", "--check", "budget", "--state", "retry", "--message",
                          "later", "--retry-after", "5m"})
                .out,
            "check budget of nlp/pretrain is Retry; it is Admitted\n");
  ASSERT_EQ(suite.state.answered.size(), 1U);
  EXPECT_EQ(suite.state.answered[0].check(), "budget");
  EXPECT_EQ(suite.state.answered[0].state(), pb::CHECK_RETRY);
  EXPECT_EQ(suite.state.answered[0].retry_after_us(), 300'000'000);
  EXPECT_NE(qmctl(suite, {"check", "answer", "nlp/pretrain", "--check", "budget", "--state", "maybe"})
                .err.find("is not one of Pending, Ready, Retry, Rejected"),
            std::string::npos);
}

TEST_F(Changes, ARefusalIsNotTriedAgain) {
  const auto ran = qmctl(suite, {"cancel", "nlp/unknown"});
  EXPECT_EQ(ran.code, kNotFound);
  EXPECT_EQ(suite.state.cancelled.size(), 1U);
  EXPECT_EQ(ran.err,
            "qmctl: cancel: workload nlp/unknown is not known\n"
            "  field:  name\n"
            "  remedy: list the workloads of the namespace\n");
}

TEST_F(Changes, ApplySendsEachFileWithItsNameAndAnIdOfItsOwn) {
  const auto one = suite.file("1.yaml", kQueue), two = suite.file("2.yaml", kQueue);
  const auto ran = qmctl(suite, {"apply", "-f", one, "-f", two, "--dry-run", "--request-id", "r"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_EQ(ran.out, "ClusterQueue/research would be applied\nClusterQueue/research would be applied\n");
  ASSERT_EQ(suite.state.applied.size(), 2U);
  EXPECT_EQ(suite.state.applied[0].source(), one);
  EXPECT_EQ(suite.state.applied[1].source(), two);
  EXPECT_EQ(suite.state.applied[0].request_id(), "r");
  EXPECT_EQ(suite.state.applied[1].request_id(), "r/1");
  EXPECT_TRUE(suite.state.applied[0].dry_run());
}

// S-214: an object of the same name with other content is shown as a difference, and needs --replace.
TEST_F(Changes, ApplyReplacesOnlyWithConsent) {
  auto& kept = suite.state.objects.emplace_back();
  kept.set_kind("ClusterQueue");
  kept.set_name("research");
  Json content = config::load_text(kQueue, "queue.yaml").objects.at(0).document.content;
  content.set("metadata").set("uid", "u").set("resourceVersion", "7");
  kept.set_manifest(content.dump());
  const auto file = suite.file("queue.yaml", kQueue);
  EXPECT_EQ(qmctl(suite, {"apply", "-f", file}).code, kDone) << "equal but for what an API server adds";
  content.set("spec").set("stopPolicy", "Hold");
  kept.set_manifest(content.dump());
  suite.state.applied.clear();
  const auto refused = qmctl(suite, {"apply", "-f", file});
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_TRUE(suite.state.applied.empty()) << "nothing was sent";
  EXPECT_EQ(refused.err, file + ":1: ClusterQueue research exists with other content\n" +
                             "  -   stopPolicy: Hold\n"
                             "qmctl: 1 of 1 objects would be replaced; nothing was applied\n"
                             "  remedy: compare the lines above, then pass --replace, or use another name\n");
  const auto shown = qmctl(suite, {"apply", "-f", file, "--dry-run"});
  EXPECT_EQ(shown.code, kDone);
  EXPECT_NE(shown.err.find("  -   stopPolicy: Hold\n"), std::string::npos) << shown.err;
  EXPECT_EQ(suite.state.applied.size(), 1U);
  const auto replaced = qmctl(suite, {"apply", "-f", file, "--replace"});
  EXPECT_EQ(replaced.code, kDone) << replaced.err;
  EXPECT_EQ(replaced.out, "ClusterQueue/research applied\n");
  EXPECT_EQ(suite.state.applied.size(), 2U);
}

// S-214: two files of one call with the same name are such a case too.
TEST_F(Changes, ApplyOfOneNameTwiceNeedsConsent) {
  std::string other = kQueue;
  other.insert(other.find("}\n", other.find("spec:")), ", stopPolicy: Hold");
  const auto one = suite.file("1.yaml", kQueue), two = suite.file("2.yaml", other);
  const auto refused = qmctl(suite, {"apply", "-f", one, "-f", two});
  EXPECT_EQ(refused.code, kFailed) << refused.err;
  EXPECT_NE(refused.err.find(two + ":1: ClusterQueue research exists with other content\n  +   stopPolicy: Hold\n"),
            std::string::npos)
      << refused.err;
  EXPECT_TRUE(suite.state.applied.empty());
}

TEST_F(Changes, EveryFileHasAnIdThatTheServiceTakesHoweverLongTheCallsIs) {
  const auto one = suite.file("1.yaml", kQueue), two = suite.file("2.yaml", kQueue),
             three = suite.file("3.yaml", kQueue);
  const std::string id(kMaxRequestId, 'r');
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(qmctl(suite, {"apply", "-f", one, "-f", two, "-f", three, "--request-id", id}).code, kDone);
  }
  ASSERT_EQ(suite.state.applied.size(), 6U);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& sent = suite.state.applied[i].request_id();
    EXPECT_TRUE(check_request_id(sent)) << sent;
    EXPECT_EQ(suite.state.applied[i + 3].request_id(), sent) << "the same when the call is repeated";
    ids.insert(sent);
  }
  EXPECT_EQ(ids.size(), 3U);
}

TEST_F(Changes, ApplyTakesAFolderInNameOrder) {
  const auto b = suite.file("b.yaml", kQueue), a = suite.file("a.yml", kQueue);
  (void)suite.file("notes.txt", "no YAML: [");
  const auto folder = a.substr(0, a.rfind('/'));
  const auto ran = qmctl(suite, {"apply", "-f", folder});
  ASSERT_EQ(suite.state.applied.size(), 3U) << ran.err;  // the endpoints file is JSON too
  EXPECT_EQ(suite.state.applied[0].source(), a);
  EXPECT_EQ(suite.state.applied[1].source(), b);
  EXPECT_FALSE(suite.state.applied[0].dry_run());
}

TEST_F(Changes, ApplyRefusesWorkloadsBeforeAnythingIsSent) {
  const auto queue = suite.file("1.yaml", kQueue), job = suite.file("2.yaml", kJob);
  for (const auto* format : {"table", "json"}) {
    const auto ran = qmctl(suite, {"apply", "-f", queue, "-f", job, "-o", format});
    EXPECT_EQ(ran.code, kFailed);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("finetune is a workload, and apply takes configuration only"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("submit the Job: qmctl submit -f " + job), std::string::npos) << ran.err;
  }
  EXPECT_TRUE(suite.state.applied.empty());
  const auto pod = suite.file(
      "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: a, image: b}]}\n");
  EXPECT_NE(qmctl(suite, {"apply", "-f", pod}).err.find("create the Pod: kubectl create -f " + pod), std::string::npos);
  EXPECT_EQ(qmctl(suite, {"submit", "-f", job}).code, kDone) << "by the remedy";
}

TEST_F(Changes, ApplyOfNothingThatIsReadFails) {
  const auto map = suite.file("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n");
  for (const auto* format : {"table", "json"}) {
    const auto ran = qmctl(suite, {"apply", "-f", map, "-o", format});
    EXPECT_EQ(ran.code, kFailed) << ran.out;
    EXPECT_NE(ran.err.find("nothing was applied"), std::string::npos) << ran.err;
  }
  const auto queue = suite.file("queue.yaml", kQueue);
  const auto ran = qmctl(suite, {"apply", "-f", queue, "-f", map});
  EXPECT_EQ(ran.code, kDone) << "a warning, and the queue is applied";
  EXPECT_NE(ran.err.find("warning: "), std::string::npos) << ran.err;
}

TEST_F(Changes, ABadFileIsRefusedWithItsLine) {
  const auto good = suite.file("good.yaml", kQueue);
  const auto bad = suite.file("bad.yaml", "kind: ClusterQueue\n  metadata: [\n");
  const auto ran = qmctl(suite, {"apply", "-f", good, "-f", bad});
  EXPECT_EQ(ran.code, kFailed);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("bad.yaml:2"), std::string::npos) << ran.err;
  EXPECT_TRUE(suite.state.applied.empty()) << "nothing is half applied";
  EXPECT_NE(ran.err.find("remedy:"), std::string::npos) << ran.err;
}

}  // namespace change_test
}  // namespace qm::cli
