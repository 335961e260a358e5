// The reason of a pending workload: list has it, and it is the first cause of explain().
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/explanation.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace reasons_test {

ApplyObjects objects() {
  ApplyObjects out;
  out.flavors.push_back({FlavorName("h100"), {}, {}, {}, {}});
  auto& queue = out.cluster_queues.emplace_back();
  queue.name = QueueName("a");
  queue.groups = {{{std::string(words::kGpuResource)},
                   {{FlavorName("h100"), {{std::string(words::kGpuResource), Quota{0, {}, {}}}}}}}};
  out.local_queues.push_back({Namespace("team"), "q", QueueName("a"), StopPolicy::kNone, {}});
  return out;
}

JobUpdated job() {
  JobUpdated out;
  out.spec.uid = WorkloadUid("one");
  out.spec.ns = Namespace("team");
  out.spec.name = "one";
  out.spec.queue = "q";
  out.spec.submitted = from_micros(5);
  out.spec.pod_sets.resize(1);
  out.spec.pod_sets[0].shape.gpu.whole = 1;
  return out;
}

class Reasons : public ::testing::Test {
 protected:
  Reasons() { step(objects()); }
  void step(Command command) {
    now_ += std::chrono::seconds(1);
    const std::vector<Command> batch{std::move(command)};
    (void)engine_.step(batch, now_);
    engine_.commit();
    engine_.check_laws();
  }
  /// The reason, after checking that explain() returns the same.
  std::string reason() {
    const auto& w = *engine_.find(WorkloadUid("one"));
    const auto causes = explain(engine_.state(), w, now_).causes;
    EXPECT_EQ(*w.reason == "Queued" ? "Queued" : causes.at(0).code, *w.reason);
    return *w.reason;
  }
  Engine engine_;
  Instant now_ = from_micros(1'000'000);
};

TEST_F(Reasons, AreFirstCauseOfEachNewWorkload) {
  const auto is = [&](const char* expected, const std::function<void(JobUpdated&)>& change) {
    JobUpdated seen = job();
    change(seen);
    step(seen);
    EXPECT_EQ(reason(), expected);
    // After a correction it is Queued, and with the fault again it has the reason again.
    step(job());
    EXPECT_EQ(reason(), "Queued") << "after " << expected;
    step(seen);
    EXPECT_EQ(reason(), expected) << "as an update";
    step(JobDeleted{seen.spec.uid});
    now_ += std::chrono::hours(48);
    step(Reconsider{});
    ASSERT_EQ(engine_.find(WorkloadUid("one")), nullptr);
  };
  is("NoPods", [](JobUpdated& seen) { seen.spec.pod_sets.clear(); });
  is("Misconfigured", [](JobUpdated& seen) { seen.refused = "maximum cpu usage per Pod is 1, but limit is 2"; });
  is("QueueUnknown", [](JobUpdated& seen) { seen.spec.queue = "typo"; });
  is("PriorityClassUnknown", [](JobUpdated& seen) { seen.spec.priority_class = "typo"; });
}

TEST_F(Reasons, DeactivatedWorkloadKeepsItsReasonUntilActivated) {
  JobUpdated seen = job();
  step(seen);
  seen.spec_active = false;
  step(seen);
  EXPECT_EQ(reason(), "Deactivated");
  seen.spec_active = true;
  step(seen);
  EXPECT_EQ(reason(), "Queued");
}

}  // namespace reasons_test
}  // namespace qm::admission
