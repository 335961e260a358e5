// Workload types that must not share a node: training and online inference.
#include "script.hpp"

#include <gtest/gtest.h>

#include <random>

namespace qm::placement {
namespace workload_types_test {

using testing::node_facts;
using testing::pod_set;
using testing::Script;

WorkloadUpdated asks(const std::string& uid, const std::string& type, std::int32_t pods, std::int64_t gpus) {
  WorkloadUpdated latest;
  latest.spec.uid = WorkloadUid(uid);
  latest.spec.name = uid;
  latest.spec.pod_sets = {pod_set(pods, gpus)};
  if (!type.empty()) latest.spec.labels[std::string(kWorkloadType)] = type;
  latest.phase = WorkloadPhase::kQuotaReserved;
  return latest;
}

/// The types of the workloads that have members on each node.
std::map<NodeName, std::set<std::string>> types_on(const Engine& engine,
                                                   const std::vector<WorkloadUpdated>& workloads) {
  std::map<NodeName, std::set<std::string>> out;
  for (const auto& latest : workloads) {
    const auto* row = engine.tables().assignments.find({latest.spec.uid, latest.attempt});
    const auto type = latest.spec.labels.find(std::string(kWorkloadType));
    if (row == nullptr || !row->holds() || type == latest.spec.labels.end()) continue;
    for (const auto& member : row->members) {
      if (member.live()) out[member.node].insert(type->second);
    }
  }
  return out;
}

TEST(WorkloadTypeIsolation, ReasonNamesTheOtherType) {
  Script script;
  ASSERT_EQ(script.run("node a gpus=8\nsynced\n"), "");
  (void)script.step({asks("t", "training", 1, 2)});
  (void)script.step({asks("o", "inference", 1, 2)});
  const Assignment& row = *script.engine().tables().assignments.find({WorkloadUid("o"), 1});
  EXPECT_EQ(row.state, AssignmentState::kShort);
  EXPECT_NE(row.short_reason.find("1 with pods for training"), std::string::npos) << row.short_reason;
  (void)script.step({asks("b", "batch", 1, 2), asks("n", "", 1, 2)});
  for (const char* uid : {"b", "n"})
    EXPECT_EQ(script.engine().tables().assignments.find({WorkloadUid(uid), 1})->state, AssignmentState::kReserved);
  // After training has left, inference is placed.
  auto gone = asks("t", "training", 1, 2);
  gone.phase = WorkloadPhase::kCancelled;
  (void)script.step({gone});
  EXPECT_EQ(script.engine().tables().assignments.find({WorkloadUid("o"), 1})->state, AssignmentState::kReserved);
}

/// The node of the workload's only pod; empty if it is pending.
std::string node_of_type(Script& script, const char* uid) {
  const auto* row = script.engine().tables().assignments.find({WorkloadUid(uid), 1});
  return row == nullptr || row->members.empty() ? std::string() : row->members[0].node.value();
}

// S-051: training is never placed in the pool of slices.
// S-146 S-494: by default, inference is placed in the pool of slices and training on whole GPUs.
TEST(Pools, InferenceGetsSlicesAndTrainingGetsWholeGpus) {
  const std::string nodes = R"(
    node full gpus=1 model=NVIDIA-H100-80GB-HBM3
    node sliced gpus=2 model=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb label=nvidia.com/mig.strategy=single
    synced
  )";
  Script script;
  ASSERT_EQ(script.run(nodes), "");
  (void)script.step({asks("t", "training", 1, 1)});
  EXPECT_EQ(node_of_type(script, "t"), "full");
  (void)script.step({asks("u", "training", 1, 1)});
  EXPECT_EQ(node_of_type(script, "u"), "") << "training does not use slices";
  EXPECT_NE(
      script.engine().tables().assignments.find({WorkloadUid("u"), 1})->short_reason.find("1 with GPUs in slices"),
      std::string::npos);
  (void)script.step({asks("o", "inference", 1, 1)});
  EXPECT_EQ(node_of_type(script, "o"), "sliced");
  // The selectors of the pods themselves override the defaults.
  auto chosen = asks("c", "training", 1, 1);
  chosen.spec.pod_sets[0].shape.node_selector["nvidia.com/mig.strategy"] = "single";
  Script other;
  ASSERT_EQ(other.run(nodes), "");
  (void)other.step({chosen});
  EXPECT_EQ(node_of_type(other, "c"), "sliced");
  // Without slices, inference uses the GPUs that exist; a site may configure this differently.
  Script bare;
  ASSERT_EQ(bare.run("node full gpus=1\nsynced\n"), "");
  (void)bare.step({asks("o", "inference", 1, 1)});
  EXPECT_EQ(node_of_type(bare, "o"), "full");
  Options any;
  any.pools.clear();
  Script open(any);
  ASSERT_EQ(open.run("node sliced gpus=4 label=nvidia.com/gpu.replicas=4\nsynced\n"), "");
  (void)open.step({asks("t", "training", 1, 1)});
  EXPECT_EQ(node_of_type(open, "t"), "sliced");
}

TEST(WorkloadTypeIsolation, UnmanagedPodsCount) {
  Script script;
  ASSERT_EQ(script.run("node a gpus=8\nnode b gpus=8\nsynced\n"), "");
  PodFacts pod;
  pod.uid = pod.name = "s";
  pod.ns = "other";
  pod.node = NodeName("a");
  pod.phase = PodPhase::kRunning;
  pod.workload_type = "inference";
  (void)script.step({PodUpdated{pod}});
  (void)script.step({asks("t", "training", 1, 2)});
  EXPECT_EQ(script.engine().tables().assignments.find({WorkloadUid("t"), 1})->members[0].node, NodeName("b"));
}

TEST(WorkloadTypeIsolation, IsOffWithoutTypes) {
  Options all_mix;
  all_mix.apart.clear();
  Script script(all_mix);
  ASSERT_EQ(script.run("node a gpus=8\nsynced\n"), "");
  const auto training = asks("t", "training", 1, 2), online = asks("o", "inference", 1, 2);
  (void)script.step({training, online});
  EXPECT_EQ(types_on(script.engine(), {training, online}).at(NodeName("a")).size(), 2U);
}

// S-007: ten thousand placements of training, inference and batch that start and finish: no node
// ever has training and inference together.
TEST(WorkloadTypeIsolationLaws, TrainingAndInferenceNeverShareANode) {
  std::mt19937 random(7);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Options options;
  options.keep_ended = std::chrono::seconds(20);  // finished workloads are not relevant here
  Engine engine(options);
  std::vector<Command> batch;
  for (int i = 0; i < 12; ++i) batch.emplace_back(NodeUpdated{NodeName(fmt::format("n{}", i)), node_facts(8)});
  NodesSynced all;
  for (int i = 0; i < 12; ++i) all.nodes.emplace(fmt::format("n{}", i));
  batch.emplace_back(all);
  batch.emplace_back(PodsSynced{});
  Instant now = from_micros(1'000'000'000);
  (void)engine.step(batch, now);
  engine.commit();
  const std::array types{"training", "inference", "batch", ""};
  std::vector<WorkloadUpdated> there;
  int placed = 0, waited = 0, constraints = 0;
  for (int next = 0; placed < 10'000; ++next) {
    batch.clear();
    now += std::chrono::seconds(1);
    // Some 12 to 48 workloads exist at a time, so that most of a step is a decision of its own and
    // not a repeated refusal.
    for (int leave = there.size() > 48 ? 3 : upto(3); leave > 0 && there.size() > 12; --leave) {
      const auto at = static_cast<std::size_t>(upto(static_cast<int>(there.size())));
      there[at].phase = WorkloadPhase::kCancelled;
      batch.emplace_back(there[at]);
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(at));
    }
    there.push_back(asks(fmt::format("w{}", next), types[static_cast<std::size_t>(upto(4))], 1 + upto(3), 1 + upto(4)));
    if (upto(5) == 0) there.back().spec.pod_sets[0].topology.required = kHostname;
    batch.emplace_back(there.back());
    for (const auto& event : engine.step(batch, now).events) {
      const auto* changed = std::get_if<AssignmentChanged>(&event);
      if (changed == nullptr || changed->forgotten) continue;
      placed += changed->state.state == AssignmentState::kReserved ? 1 : 0;
      waited += changed->state.state == AssignmentState::kShort ? 1 : 0;
    }
    engine.commit();
    for (const auto& [node, on] : types_on(engine, there)) {
      ASSERT_FALSE(on.contains("training") && on.contains("inference")) << node << " after " << next;
      constraints += on.size() > 1 ? 1 : 0;
    }
    if (next % 500 == 0) engine.audit();
  }
  EXPECT_GT(waited, 100);
  EXPECT_GT(constraints, 100) << "batch shares nodes with both";
}

}  // namespace workload_types_test
}  // namespace qm::placement
