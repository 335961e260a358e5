// Each intent: executed, repeated, refused.
#include "little_kube.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/kube_refusals.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace executor_test {

using testing::make_node;
using testing::make_pod;
using testing::node_path;
using testing::pod_path;

struct Bench {
  testing::LittleKube kube;
  kube::Client client{{kube.origin()}};
  KubeExecutor executor{client};

  Result<service::Outcome> run(const std::string& kind, const Json& payload) {
    return executor.execute({"placement/1", kind, "k", 1, payload.dump()});
  }
  static Json bind_order(const std::string& pod, const std::string& node) {
    return Json::object({{"uid", "w"},
                         {"attempt", 2},
                         {"namespace", "team"},
                         {"pod", pod},
                         {"pod_uid", "uid-" + pod},
                         {"node", node},
                         {"devices", "0,3"}});
  }
  static Json delete_order(const std::string& pod, int grace) {
    return Json::object({{"namespace", "team"}, {"pod", pod}, {"pod_uid", "uid-" + pod}, {"grace_s", grace}});
  }
};

TEST(Executor, BindIsIdempotentAndWritesPlannedDevices) {
  Bench bench;
  bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  const auto done = bench.run("pod.bind", Bench::bind_order("p", "a"));
  ASSERT_TRUE(done) << done.error().to_string();
  const auto outcome = *Json::parse(done->bytes);
  EXPECT_EQ(outcome["uid"].string(), "w");
  EXPECT_EQ(outcome["attempt"].integer(), 2);
  EXPECT_EQ(outcome["pod_uid"].string(), "uid-p");
  EXPECT_EQ(outcome["code"].integer(-1), 0);
  EXPECT_EQ(bench.kube.get(pod_path("p")).path("spec.nodeName").string(), "a");
  EXPECT_EQ(kube::annotation(bench.kube.get(pod_path("p")), words::kDevices), "0,3");
  EXPECT_TRUE(bench.run("pod.bind", Bench::bind_order("p", "a")));
}

// A gang is bound as a whole, and a large one yields to small ones.
TEST(Executor, BindsOfAGangHaveOneTurn) {
  Bench bench;
  const auto turn = [&](const char* kind, std::int64_t pods) {
    store::IntentRow row;
    row.kind = kind;
    row.payload = Bench::bind_order("p", "a").set("unbound", pods).dump();
    return bench.executor.turn_of(row);
  };
  const auto gang = turn("pod.bind", 32);
  EXPECT_EQ(gang.group, "w/2");
  EXPECT_EQ(gang.yields, std::chrono::milliseconds(310));
  for (const auto& alone : {turn("pod.bind", 1), turn("pod.delete", 32)}) {
    EXPECT_EQ(alone.group, "");
    EXPECT_EQ(alone.yields, SteadyDuration{});
  }
}

// Its devices are free once it is to be deleted, and may be assigned to another pod.
TEST(Executor, ABindIsSupersededByTheDeletionOfItsPod) {
  Bench bench;
  const auto row = [](const char* kind, const Json& payload) {
    return store::IntentRow{"placement/1", kind, "pod/team/p", 1, payload.dump()};
  };
  const auto bind = row("pod.bind", Bench::bind_order("p", "a"));
  const auto outcome = bench.executor.superseded(bind, row("pod.delete", Bench::delete_order("p", 30)));
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->bytes, intent_outcome(Bench::bind_order("p", "a"), nullptr).dump());
  Json another = Bench::delete_order("p", 30);
  another.set("pod_uid", "uid-of-the-pod-before");
  EXPECT_FALSE(bench.executor.superseded(bind, row("pod.delete", another)));
  EXPECT_FALSE(bench.executor.superseded(bind, bind));
  EXPECT_FALSE(bench.executor.superseded(row("pod.unschedulable", Bench::bind_order("p", "a")),
                                         row("pod.delete", Bench::delete_order("p", 30))));
}

// The bind cannot remove annotations, so those that the pod was created with are overwritten, with
// an empty value if nothing is planned.
TEST(Executor, BindOverwritesAnnotationsOfThePod) {
  Bench bench;
  auto pod = make_pod("p", "w", 2, 0, 2);
  pod.set("metadata").set("annotations").set(words::kDevices, "6,7").set("quartermaster.dev/ring", "rank=0 of=9");
  bench.kube.put(pod_path("p"), pod);
  Json order = Bench::bind_order("p", "a");
  order.set("devices", "");
  ASSERT_TRUE(bench.run("pod.bind", order));
  const auto bound = bench.kube.get(pod_path("p"));
  EXPECT_EQ(bound.path("spec.nodeName").string(), "a");
  EXPECT_EQ(kube::annotation(bound, words::kDevices), "");
  EXPECT_EQ(kube::annotation(bound, "quartermaster.dev/ring"), "");
}

TEST(Executor, WritesNodeReport) {
  Bench bench;
  auto node = make_node("a", 8);
  node.set("metadata").set("labels").set("cache.quartermaster.dev/old", "true");
  node.set("metadata").set("labels").set("cache.quartermaster.dev/bert", "true");
  bench.kube.put(node_path("a"), node);
  const auto order = Json::parse(R"({"node":"a","owned":["cache.quartermaster.dev/"],
    "labels":{"cache.quartermaster.dev/bert":"true","gpu.nvidia.com/nvlink-enabled":"true"},
    "annotations":{"quartermaster.dev/numa":"{}"}})")
                         .value();
  ASSERT_TRUE(bench.run("node.mark", order));
  const auto marked = bench.kube.get(node_path("a"));
  EXPECT_EQ(kube::label(marked, "gpu.nvidia.com/nvlink-enabled"), "true");
  EXPECT_EQ(kube::label(marked, "cache.quartermaster.dev/bert"), "true");
  EXPECT_EQ(kube::label(marked, "cache.quartermaster.dev/old"), "") << "no model that is gone";
  EXPECT_EQ(kube::label(marked, "nvidia.com/gpu.count"), "8") << "what is not the agent's stays";
  EXPECT_EQ(kube::annotation(marked, "quartermaster.dev/numa"), "{}");
  const int patches = bench.kube.calls("PATCH");
  ASSERT_TRUE(bench.run("node.mark", order));
  EXPECT_EQ(bench.kube.calls("PATCH"), patches) << "again: nothing is written";
  auto migration_target = order;
  migration_target.set("node", "gone");
  EXPECT_TRUE(bench.run("node.mark", migration_target));
}

TEST(Executor, WritesRingNeighborsOfAPod) {
  Bench bench;
  bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  Json order = Bench::bind_order("p", "a");
  order.set("ring", "rank=1 of=4 previous=a next=b");
  ASSERT_TRUE(bench.run("pod.bind", order));
  EXPECT_EQ(kube::annotation(bench.kube.get(pod_path("p")), "quartermaster.dev/ring"), "rank=1 of=4 previous=a next=b");
}

TEST(Executor, WritesSelectedNodeOnWaitingClaims) {
  Bench bench;
  const std::string claim = "/api/v1/namespaces/team/persistentvolumeclaims/data";
  bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  bench.kube.put(claim, Json::object({{"metadata", Json::object({{"name", "data"}, {"namespace", "team"}})}}));
  Json order = Bench::bind_order("p", "a");
  order.set("claims").push_back("data");
  order.set("claims").push_back("gone");  // the claim was deleted: its pod stays pending
  const auto done = bench.run("pod.bind", order);
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(kube::annotation(bench.kube.get(claim), "volume.kubernetes.io/selected-node"), "a");
  EXPECT_EQ(bench.kube.get(pod_path("p")).path("spec.nodeName").string(), "a");
}

TEST(Executor, BindWithLostAnswerIsLookedUp) {
  Bench bench;
  bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  bench.kube.fail_next("POST", 500, "InternalError", true);
  const auto first = bench.run("pod.bind", Bench::bind_order("p", "a"));
  ASSERT_FALSE(first);
  EXPECT_TRUE(first.error().retryable());
  EXPECT_TRUE(bench.run("pod.bind", Bench::bind_order("p", "a")));
}

TEST(Executor, EachIntentHandlesEachRefusal) {
  const Json node = Json::object({{"node", "a"}});
  struct Order {
    const char* kind;
    const char* method;
    Json payload;
    enum { kStarts, kReleases, kInforms } is;
  };
  const Order orders[] = {
      {"pod.bind", "POST", Bench::bind_order("p", "a"), Order::kStarts},
      {"pod.delete", "DELETE", Bench::delete_order("p", 5), Order::kReleases},
      {"node.cordon", "PATCH", Json(node).set("causes", "fault"), Order::kStarts},
      {"node.layout", "PATCH", Json(node).set("layout", "all-balanced"), Order::kStarts},
      {"node.mark", "PATCH", Json(node).set("labels", Json::object({{"a", "b"}})), Order::kInforms},
      {"pod.unschedulable", "PATCH", Bench::delete_order("p", 0).set("message", "no room"), Order::kInforms},
  };
  for (const auto& one : qm::testing::kKubeRefusals) {
    for (const auto& order : orders) {
      Bench bench;
      bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
      bench.kube.put(node_path("a"), make_node("a", 8));
      bench.kube.refuse_next(order.method, one.status, one.reason, one.message);
      const auto result = bench.run(order.kind, order.payload);
      ASSERT_FALSE(result) << order.kind << ", " << one.what;
      bool waits = order.is == Order::kReleases ? one.release_waits : one.start_waits;
      // Intents that only describe a pod or node are not retried until permissions are granted.
      if (order.is == Order::kInforms && (one.what == std::string("rights") || one.status == 410)) waits = false;
      EXPECT_EQ(result.error().retryable(), waits)
          << order.kind << ", " << one.what << ": " << result.error().to_string();
      EXPECT_NE(result.error().message.find(one.message), std::string::npos) << result.error().message;
      const auto again = bench.run(order.kind, order.payload);
      EXPECT_TRUE(again) << order.kind << ", " << one.what << ": " << again.error().to_string();
    }
  }
}

TEST(Executor, ReportsWhyAPodCannotBeBound) {
  Bench bench;
  EXPECT_EQ(bench.run("pod.bind", Bench::bind_order("p", "a")).error().code, Code::kNotFound);
  auto other = make_pod("p", "w", 2, 0, 2);
  other.set("metadata").set("uid", "another");
  bench.kube.put(pod_path("p"), other);
  EXPECT_EQ(bench.run("pod.bind", Bench::bind_order("p", "a")).error().code, Code::kFailedPrecondition);
  auto migration_target = make_pod("p", "w", 2, 0, 2);
  migration_target.set("spec").set("nodeName", "b");
  bench.kube.put(pod_path("p"), migration_target);
  const auto refused = bench.run("pod.bind", Bench::bind_order("p", "a"));
  EXPECT_EQ(refused.error().code, Code::kAlreadyExists);
  EXPECT_FALSE(refused.error().retryable());
  EXPECT_NE(refused.error().message.find("bound to node b"), std::string::npos);
}

TEST(Executor, ConflictThatLeavesThePodUnboundIsRetried) {
  Bench bench;
  bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  bench.kube.fail_next("POST", 409, "Conflict");
  const auto refused = bench.run("pod.bind", Bench::bind_order("p", "a"));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().retryable());
}

TEST(Executor, DeletesByUidOnly) {
  Bench bench;
  bench.kube.linger = true;
  bench.kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  ASSERT_TRUE(bench.run("pod.delete", Bench::delete_order("p", 45)));
  EXPECT_EQ(bench.kube.get(pod_path("p")).path("metadata.deletionGracePeriodSeconds").integer(), 45);
  bench.kube.linger = false;
  ASSERT_TRUE(bench.run("pod.delete", Bench::delete_order("p", -1)));
  EXPECT_TRUE(bench.kube.get(pod_path("p")).is_null());
  EXPECT_TRUE(bench.run("pod.delete", Bench::delete_order("p", -1)));  // a pod that does not exist counts as deleted
  auto successor = make_pod("p", "w", 2, 0, 2);
  successor.set("metadata").set("uid", "successor");
  bench.kube.put(pod_path("p"), successor);
  EXPECT_TRUE(bench.run("pod.delete", Bench::delete_order("p", -1)));
  EXPECT_FALSE(bench.kube.get(pod_path("p")).is_null()) << "the successor is not meant";
  bench.kube.fail_next("DELETE", 503, "ServiceUnavailable");
  EXPECT_TRUE(bench.run("pod.delete", Bench::delete_order("p", -1)).error().retryable());
}

TEST(Executor, EvictionRespectsTheBudgetUntilItsDeadline) {
  testing::LittleKube kube;
  kube::Client client{{kube.origin()}};
  ManualClock clock{from_micros(1'000'000'000)};
  KubeExecutor executor{client, &clock};
  auto order = Bench::delete_order("p", 120);
  order.set("evict_until_us", micros(clock.now() + std::chrono::seconds(120)));
  const auto run = [&] { return executor.execute({"placement/1", "pod.delete", "k", 1, order.dump()}); };

  kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  kube.budget = true;
  const auto forbidden = run();
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().code, Code::kExhausted);
  EXPECT_TRUE(forbidden.error().retryable());
  EXPECT_FALSE(kube.get(pod_path("p")).is_null());
  EXPECT_EQ(kube.calls("DELETE"), 0);
  for (const auto& one : qm::testing::kKubeRefusals) {
    kube.refuse_next("POST", one.status, one.reason, one.message);
    const auto refused = run();
    ASSERT_FALSE(refused) << one.what;
    EXPECT_TRUE(refused.error().retryable()) << one.what << ": " << refused.error().to_string();
    EXPECT_EQ(kube.calls("DELETE"), 0) << one.what << ": a deletion would pass over the budget";
  }
  // After the deadline the pod is deleted, even if the budget forbids an eviction.
  clock.advance(std::chrono::seconds(120));
  ASSERT_TRUE(run());
  EXPECT_TRUE(kube.get(pod_path("p")).is_null());
  EXPECT_EQ(kube.calls("DELETE"), 1);
  EXPECT_TRUE(run());

  // If the budget allows it, the pod is evicted, not deleted.
  order.set("evict_until_us", micros(clock.now() + std::chrono::seconds(120)));
  kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
  kube.budget = false;
  ASSERT_TRUE(run());
  EXPECT_TRUE(kube.get(pod_path("p")).is_null());
  EXPECT_EQ(kube.calls("DELETE"), 2) << "those of above";
  // Another pod with the same name is not affected.
  auto successor = make_pod("p", "w", 2, 0, 2);
  successor.set("metadata").set("uid", "successor");
  kube.put(pod_path("p"), successor);
  EXPECT_TRUE(run());
  EXPECT_FALSE(kube.get(pod_path("p")).is_null());
}

TEST(Executor, WritesPodScheduledCondition) {
  Bench bench;
  auto pod = make_pod("p", "w", 2, 0, 2);
  pod.set("status").set("conditions", Json::array({Json::object({{"type", "Initialized"}, {"status", "True"}})}));
  bench.kube.put(pod_path("p"), pod);
  const auto order = Json::object(
      {{"namespace", "team"}, {"pod", "p"}, {"pod_uid", "uid-p"}, {"message", "2 eligible nodes have 0 free GPUs"}});
  ASSERT_TRUE(bench.run("pod.unschedulable", order));
  ASSERT_TRUE(bench.run("pod.unschedulable", order));
  EXPECT_EQ(bench.kube.calls("PATCH"), 1) << "said once";
  const auto conditions = bench.kube.get(pod_path("p")).path("status.conditions");
  ASSERT_EQ(conditions.size(), 2U);
  EXPECT_EQ(conditions.at(0)["type"].string(), "Initialized");
  EXPECT_EQ(conditions.at(1)["reason"].string(), "Unschedulable");
  EXPECT_EQ(conditions.at(1)["message"].string(), "2 eligible nodes have 0 free GPUs");
}

Json cordon_order(const std::string& causes) { return Json::object({{"node", "a"}, {"causes", causes}}); }

TEST(Executor, CordonsAndUncordons) {
  Bench bench;
  bench.kube.put(node_path("a"), make_node("a", 8));
  ASSERT_TRUE(bench.run("node.cordon", cordon_order("drain")));
  ASSERT_TRUE(bench.run("node.cordon", cordon_order("drain")));
  EXPECT_EQ(bench.kube.calls("PATCH"), 1);
  const auto facts = node_from_json(bench.kube.get(node_path("a")));
  EXPECT_TRUE(facts.unschedulable);
  EXPECT_EQ(facts.cordoned_by, "drain");
  ASSERT_TRUE(bench.run("node.cordon", cordon_order("")));
  ASSERT_TRUE(bench.run("node.cordon", cordon_order("")));
  EXPECT_EQ(node_from_json(bench.kube.get(node_path("a"))), node_from_json(make_node("a", 8)));
}

TEST(Executor, KeepsTheCordonOfAnotherController) {
  Bench bench;
  auto node = make_node("a", 8);
  node.set("spec").set("unschedulable", true);
  bench.kube.put(node_path("a"), node);
  EXPECT_TRUE(bench.run("node.cordon", cordon_order("health")));
  EXPECT_TRUE(bench.run("node.cordon", cordon_order("")));
  EXPECT_TRUE(bench.kube.get(node_path("a")).path("spec.unschedulable").boolean());
  EXPECT_EQ(bench.kube.calls("PATCH"), 0);
}

TEST(Executor, CordonOfDeletedNodeSucceeds) {
  Bench bench;
  EXPECT_TRUE(bench.run("node.cordon", cordon_order("health")));
  bench.kube.put(node_path("a"), make_node("a", 8));
  bench.kube.fail_next("PATCH", 409, "Conflict");
  EXPECT_TRUE(bench.run("node.cordon", cordon_order("health")).error().retryable());
}

TEST(Executor, UnknownKindFailsPermanently) {
  Bench bench;
  const auto done = bench.run("pod.paint", Json::object());
  ASSERT_FALSE(done);
  EXPECT_FALSE(done.error().retryable());
  const auto outcome = bench.executor.failed({"placement/1", "pod.bind", "k", 1, Bench::bind_order("p", "a").dump()},
                                             {Code::kNotFound, "no pod", {}, {}});
  service::Input input;
  input.source = service::Source::kOutcome;
  input.name = "pod.bind";
  input.bytes = outcome.bytes;
  const auto commands = Codec().decode(input);
  ASSERT_TRUE(commands);
  ASSERT_EQ(commands->size(), 1U);
  const auto& ended = std::get<BindFinished>(commands->front());
  EXPECT_EQ(ended.attempt, (AttemptId{WorkloadUid("w"), 2}));
  EXPECT_EQ(ended.pod_uid, "uid-p");
  ASSERT_TRUE(ended.error);
  EXPECT_EQ(ended.error->code, Code::kNotFound);
}

}  // namespace executor_test
}  // namespace qm::placement
