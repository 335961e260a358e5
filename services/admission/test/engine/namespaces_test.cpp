// A change of the namespaces that a queue selects affects the workloads of those namespaces; others stay as they are.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/workloads.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace namespaces_test {

class Namespaces : public ::testing::Test {
 protected:
  Namespaces() {
    ApplyObjects objects;
    objects.flavors.push_back({FlavorName("f"), {}, {}, {}, {}});
    ClusterQueue queue;
    queue.name = QueueName("q");
    queue.strategy = Strategy::kStrictFifo;
    queue.namespaces = "env=prod";
    queue.groups = {{{"nvidia.com/gpu"}, {{FlavorName("f"), {{"nvidia.com/gpu", Quota{8000, {}, {}}}}}}}};
    objects.cluster_queues.push_back(queue);
    for (const char* ns : {"a", "b", "c"}) {
      objects.local_queues.push_back({Namespace(ns), "l", queue.name, StopPolicy::kNone, {}});
    }
    objects.namespaces = {labelled("a", "prod"), labelled("c", "prod")};
    step(objects);
  }

  static NamespaceLabels labelled(const char* ns, const char* env) {
    NamespaceLabels out{Namespace(ns), {{"env", env}}, {}};
    out.from_cluster = true;
    return out;
  }
  Output step(Command command) {
    auto out = engine_.step(std::vector<Command>{std::move(command)}, now_ += std::chrono::seconds(1));
    engine_.check_laws();
    engine_.commit();
    return out;
  }
  Output label(const char* ns, const char* env) {
    ApplyObjects objects;
    objects.namespaces = {labelled(ns, env)};
    return step(objects);
  }
  const Workload& submit(const char* ns, const char* name, int gpus, int priority = 0) {
    JobUpdated seen;
    seen.spec.uid = WorkloadUid(name);
    seen.spec.ns = Namespace(ns);
    seen.spec.name = name;
    seen.spec.queue = "l";
    seen.spec.submitted = now_;
    seen.spec.priority = priority;
    PodSet pods;
    pods.shape.gpu.whole = gpus;
    seen.spec.pod_sets = {pods};
    step(seen);
    return *engine_.find(WorkloadUid(name));
  }

  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

TEST_F(Namespaces, DeselectedHeadLetsNextIn) {
  const auto& head = submit("a", "head", 16);
  const auto& next = submit("c", "next", 8);
  EXPECT_EQ(queue_position(engine_.state(), head), 1);
  EXPECT_EQ(next.phase, Phase::kPending) << "the queue is strict";
  const auto out = label("a", "dev");
  EXPECT_TRUE(head.cluster_queue.empty());
  EXPECT_EQ(head.reason, "NamespaceNotSelected");
  EXPECT_EQ(next.phase, Phase::kQuotaReserved);
  ASSERT_EQ(out.events.size(), 2U);
  EXPECT_EQ(out.events[0].workload.spec.name, "head");
  EXPECT_EQ(out.events[1].workload.spec.name, "next");
}

TEST_F(Namespaces, LateNamespaceAdmitsItsWorkloads) {
  const auto& early = submit("b", "early", 8);
  EXPECT_TRUE(early.cluster_queue.empty());
  label("b", "prod");
  EXPECT_EQ(early.phase, Phase::kQuotaReserved);
}

TEST_F(Namespaces, WorkloadsThatGetQuotaInOneStepAreOrdered) {
  const auto& second = submit("b", "a-second", 2);
  const auto& first = submit("b", "z-first", 2, 10);
  label("b", "prod");
  EXPECT_EQ(first.quota_reserved, second.quota_reserved);
  EXPECT_EQ(first.quota_position, 1) << "the higher priority is decided first";
  EXPECT_EQ(second.quota_position, 2);
  EXPECT_EQ(submit("a", "later", 2).quota_position, 1) << "each step counts from one";
}

TEST_F(Namespaces, DeletedNamespaceHasNoLabels) {
  submit("c", "holds", 8);
  const auto& waits = submit("a", "waits", 8);
  EXPECT_EQ(queue_position(engine_.state(), waits), 1);
  step(ObjectDeleted{"Namespace", {}, "a"});
  EXPECT_TRUE(waits.cluster_queue.empty());
}

TEST_F(Namespaces, RepeatedLabelsChangeNothing) {
  submit("a", "head", 16);
  EXPECT_TRUE(label("a", "prod").events.empty());
  EXPECT_TRUE(label("c", "dev").events.empty());
}

}  // namespace namespaces_test
}  // namespace qm::admission
