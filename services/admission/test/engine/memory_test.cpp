// Memory of one pending workload, as counted by the allocator.
#include "qm/admission/engine.hpp"
#include "qm/admission/queries/queues.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

namespace qm::admission {
namespace memory_test {

constexpr int kQueues = 100;
constexpr int kWorkloads = 50'000;
constexpr std::int64_t kMostBytes = 1088;  // 64 of them are the checkpoint terms

std::string queue_of(int i) { return fmt::format("team-{:03}-queue", i % kQueues); }

/// The spec of a typical Job: eight shapes, two classes, a team and labels.
WorkloadSpec spec_of(int i) {
  static const std::int64_t kShapes[] = {1, 2, 4, 5, 6, 8, 16, 32};
  WorkloadSpec spec;
  spec.uid = WorkloadUid(fmt::format("{:08x}-5bd1-4e2c-9c1f-{:012x}", static_cast<unsigned>(i) * 2654435761U, i));
  spec.ns = Namespace(fmt::format("team-{:03}", i % kQueues));
  spec.name = fmt::format("train-resnet-{:07}", i);
  spec.queue = queue_of(i);
  spec.priority_class = i % 5 == 0 ? "high" : "batch";
  spec.team = Team(spec.ns.value());
  spec.submitted = from_micros(1'000'000 + i);
  spec.labels = {{std::string(words::kQueueLabel), spec.queue},
                 {std::string(words::kPriorityClassLabel), spec.priority_class},
                 {std::string(words::kTeamLabel), spec.team.value()},
                 {"cost-center", fmt::format("cc-{}", i % 40)}};
  const auto gpus = kShapes[i / kQueues % 8];
  auto& set = spec.pod_sets.emplace_back();
  set.count = static_cast<std::int32_t>(std::max<std::int64_t>(1, gpus / 8));
  set.shape.gpu.whole = std::min<std::int64_t>(gpus, 8);
  set.shape.cpu_milli = 8000 * set.shape.gpu.whole;
  set.shape.memory_bytes = (std::int64_t{64} << 30) * set.shape.gpu.whole;
  return spec;
}

ApplyObjects objects() {
  ApplyObjects out;
  out.flavors.push_back({FlavorName("h100"), {}, {}, {}, {}});
  for (const auto& [name, value] : {std::pair("high", 100), std::pair("batch", 0)}) {
    auto& made = out.priority_classes.emplace_back();
    made.name = name;
    made.value = value;
    made.workload_only = true;
  }
  for (int i = 0; i < kQueues; ++i) {
    auto& queue = out.cluster_queues.emplace_back();
    queue.name = QueueName(queue_of(i));
    queue.cohort = fmt::format("cohort-{}", i % 10);
    queue.within_cluster_queue = PreemptPolicy::kLowerPriority;
    const Quota none{0, {}, {}};
    queue.groups = {
        {{"cpu", "memory", std::string(words::kGpuResource)},
         {{FlavorName("h100"), {{"cpu", none}, {"memory", none}, {std::string(words::kGpuResource), none}}}}}};
    out.local_queues.push_back(
        {Namespace(fmt::format("team-{:03}", i)), queue.name.value(), queue.name, StopPolicy::kNone, {}});
  }
  return out;
}

std::int64_t allocated() { return static_cast<std::int64_t>(mallinfo2().uordblks); }
bool counts() {
  const auto before = allocated();
  const std::vector<char> some(10'000);
  return allocated() >= before + static_cast<std::int64_t>(some.size());
}

std::int64_t waiting(const Engine& engine) {
  std::int64_t out = 0;
  for (const auto& [name, queue] : engine.tables().cluster_queues)
    out += queue_view(engine.state(), queue).pending_ready;
  return out;
}

TEST(Memory, OfSubmittedWorkloads) {
  if (!counts()) GTEST_SKIP() << "this allocator keeps no count";
  Engine engine;
  (void)engine.step(std::vector<Command>{objects()}, from_micros(1));
  engine.commit();
  const auto before = allocated();
  for (int i = 0; i < kWorkloads;) {
    std::vector<Command> batch;
    for (int end = i + 500; i < end; ++i) {
      JobUpdated seen;
      seen.spec = spec_of(i);
      batch.emplace_back(std::move(seen));
    }
    (void)engine.step(batch, from_micros(10'000'000 + i));
    engine.commit();
  }
  const auto each = (allocated() - before) / kWorkloads;
  RecordProperty("bytes_each", static_cast<int>(each));
  EXPECT_EQ(waiting(engine), kWorkloads);
  EXPECT_LE(each, kMostBytes);
}

TEST(Memory, OfWorkloadsReadFromRows) {
  if (!counts()) GTEST_SKIP() << "this allocator keeps no count";
  Engine engine;
  auto& tables = engine.tables_for_load();
  for (const auto& one : objects().flavors) tables.flavors.restore(one.name, one);
  for (const auto& one : objects().cluster_queues) tables.cluster_queues.restore(one.name, one);
  for (const auto& one : objects().local_queues) tables.local_queues.restore({one.ns, one.name}, one);
  const auto before = allocated();
  for (int i = 0; i < kWorkloads; ++i) {
    Workload row;
    row.spec = spec_of(i);
    row.spec.priority = i % 5 == 0 ? 100 : 0;
    row.cluster_queue = QueueName(queue_of(i));
    row.queued = row.spec.submitted;
    row.version = 1;
    row.reason = std::string("Queued");
    tables.workloads.restore(row.spec.uid, row);
  }
  engine.loaded();
  const auto each = (allocated() - before) / kWorkloads;
  RecordProperty("bytes_each", static_cast<int>(each));
  EXPECT_EQ(waiting(engine), kWorkloads);
  EXPECT_LE(each, kMostBytes);
}

}  // namespace memory_test
}  // namespace qm::admission
