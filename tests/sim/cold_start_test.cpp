// The time from a pending to a running pod if its node must boot for 2 to 5 minutes, and if a CapacityBuffer has a free one.
#include "faultless_sim.hpp"
#include "qm/autoscaler/capacity_objects.hpp"
#include "qm/autoscaler/metrics/headroom_metrics.hpp"

#include <algorithm>

namespace qm::sim {
namespace cold_start_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: gpu}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: ml}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: gpu
      resources: [{name: "nvidia.com/gpu", nominalQuota: "64"}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: ml}
spec: {clusterQueue: ml}
)";
constexpr Duration kStep = milliseconds(20);   ///< that each step of a service with work takes
constexpr Duration kSoon = milliseconds(100);  ///< from one look of idle services to the next, shortly after work
constexpr Duration kIdle = seconds(1);         ///< and later
constexpr int kLooksSoon = 20;

/// A pod of its own Job.
struct Start {
  Instant created{}, launched{}, ready{}, bound{}, running{};
  /// All time until the binding that is not the boot; so the Job controller's, too.
  [[nodiscard]] Duration control_plane() const { return (bound - created) - (ready - launched); }
};

/// A NodePool without nodes. Each node that it launches needs 2 to 5 minutes until it is ready.
class Pool {
 public:
  explicit Pool(std::uint64_t seed) : sim(seed) {
    sim.world.boot = {minutes(2), minutes(5)};
    sim.world.job_sync = milliseconds(200);
    sim.observed = [this](World::Kind kind, const std::string& key) { observe(kind, key); };
    sim.begin(kQueues);
    autoscaler::Pool pool;
    pool.name = "gpu";
    pool.instance_types = {CloudLooks::kType};
    pool.markets = {autoscaler::Market::kOnDemand};
    pool.zones = {CloudLooks::kZone};
    pool.consolidate_after = minutes(1);
    (void)sim.autoscaler().host().submit(autoscaler::pools_input({pool}));
  }

  /// Creates Jobs of one pod at once and returns their times when all run. They end after `run_s`.
  std::vector<Start> burst(int pods, int gpus, int run_s) {
    const int first = created_;
    PodSet set;
    set.shape.gpu.whole = gpus;
    for (; created_ < first + pods; ++created_) {
      const std::string name = fmt::format("replica-{}", created_);
      starts_[name].created = sim.clock.now();
      sim.create("ml", name, set, run_s);
    }
    const auto running = [&] {
      return std::ranges::all_of(starts_, [](const auto& s) { return s.second.running != Instant{}; });
    };
    const Instant limit = sim.clock.now() + hours(1);
    while (!running() && sim.clock.now() < limit) turn();
    EXPECT_TRUE(running());
    std::vector<Start> out;
    for (auto& [name, start] : starts_) {
      const std::string& node = nodes_.at(name);
      start.launched = std::max(start.created, launched_.at(node));
      start.ready = std::max(start.created, ready_.at(node));
      out.push_back(start);
    }
    starts_.clear();
    return out;
  }
  void pass(Duration time) {
    for (const Instant end = sim.clock.now() + time; sim.clock.now() < end;) turn();
  }
  [[nodiscard]] std::size_t nodes() const { return sim.world.nodes.size(); }

  FaultlessSim sim;

 private:
  void turn() {
    idle_ = sim.turn(kStep) ? 0 : idle_ + 1;
    if (idle_ > 0) sim.tick(idle_ > kLooksSoon ? kIdle : kSoon);
    for (const auto& [id, instance] : sim.world.instances) launched_.emplace(instance.node, sim.clock.now());
  }
  void observe(World::Kind kind, const std::string& key) {
    if (kind == World::Kind::kNode) ready_.emplace(key, sim.clock.now());
    const auto pod = sim.world.pods.find(key);
    if (kind != World::Kind::kPod || pod == sim.world.pods.end()) return;
    const auto job = sim.world.jobs.find(pod->second.job);
    const auto start = starts_.find(job->second.name);
    if (start == starts_.end() || pod->second.node.empty()) return;
    nodes_[start->first] = pod->second.node;
    if (start->second.bound == Instant{}) start->second.bound = sim.clock.now();
    const bool runs = pod->second.phase == World::Pod::Phase::kRunning;
    if (runs && start->second.running == Instant{}) start->second.running = sim.clock.now();
  }

  int created_ = 0, idle_ = 0;
  std::map<std::string, Start> starts_;              // by Job
  std::map<std::string, std::string> nodes_;         // by Job
  std::map<std::string, Instant> launched_, ready_;  // by node
};

double in_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

// S-215
TEST(ColdStart, FromZeroIsUnderFiveMinutesAndTheControlPlanesShareUnderTwoSeconds) {
  Pool pool(215);
  Random random(215);
  std::vector<Duration> waits;
  Duration largest_share{}, longest_boot{}, shortest_boot = hours(1);
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(pool.nodes(), 0U) << "round " << round << " does not start from zero";
    for (const Start& start : pool.burst(static_cast<int>(random.between(1, 8)), 8, 600)) {
      waits.push_back(start.running - start.created);
      largest_share = std::max(largest_share, start.control_plane());
      longest_boot = std::max(longest_boot, start.ready - start.launched);
      shortest_boot = std::min(shortest_boot, start.ready - start.launched);
    }
    pool.pass(minutes(15));
  }
  std::ranges::sort(waits);
  const Duration p95 = waits[(waits.size() * 95 + 99) / 100 - 1];
  std::printf("%zu pods from zero: p50 %.1f s, p95 %.1f s, boot %.1f to %.1f s, at most %.2f s of the control plane\n",
              waits.size(), in_seconds(waits[waits.size() / 2]), in_seconds(p95), in_seconds(shortest_boot),
              in_seconds(longest_boot), in_seconds(largest_share));
  EXPECT_LT(shortest_boot, seconds(125));
  EXPECT_GT(longest_boot, seconds(295)) << "or the boot is not drawn from 2 to 5 minutes";
  EXPECT_LT(p95, minutes(5));
  EXPECT_LT(largest_share, seconds(2));
}

/// The nodes and USD per hour of the CapacityBuffer in the metrics, and whether it has capacity for all its pods.
struct Shown {
  double nodes = 0, usd = 0;
  std::int64_t free = 0;
};
Shown shown(Pool& pool) {
  Shown out;
  pool.sim.autoscaler().read([&](const service::Shell& shell) {
    const auto& engine = autoscaler::engine_of(shell);
    for (const auto& family : autoscaler::headroom_families(engine)) {
      for (const auto& series : family.series) {
        if (family.name == "qm_autoscaler_headroom_nodes") out.nodes += series.value;
        if (family.name == "qm_autoscaler_headroom_usd_per_hour") out.usd += series.value;
      }
    }
    for (const auto& [name, row] : engine.tables().nodes) out.free += row.ready && row.pods == 0 ? 1 : 0;
  });
  return out;
}

// S-216
TEST(ColdStart, AWarmNodeHidesTheBootOfABurstAndIsRefilledAndPriced) {
  Pool cold(216);
  for (const Start& start : cold.burst(8, 1, 60)) EXPECT_GE(start.running - start.created, minutes(2));

  const auto buffer = autoscaler::buffer_from(
      *Json::parse(R"({"metadata":{"namespace":"ml","name":"warm"},"spec":{"replicas":1}})"),
      {*Json::parse(R"({"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"8"}}}]}})"),
       std::nullopt});
  ASSERT_TRUE(buffer) << buffer.error().to_string();
  Pool warm(216);
  (void)warm.sim.autoscaler().host().submit(autoscaler::buffers_input({*buffer}));
  warm.pass(minutes(6));
  Duration longest{};
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const Shown before = shown(warm);
    ASSERT_EQ(before.free, 1);
    EXPECT_EQ(before.nodes, 1);
    EXPECT_EQ(before.usd, 55.04) << "the price of p5.48xlarge";
    const std::size_t launched = warm.sim.world.instances.size();
    for (const Start& start : warm.burst(8, 1, 60)) longest = std::max(longest, start.running - start.created);
    EXPECT_EQ(shown(warm).free, 0) << "the burst uses the node";
    EXPECT_EQ(warm.sim.world.instances.size(), launched + 1) << "the buffer is refilled at once";
    EXPECT_EQ(shown(warm).usd, 55.04) << "and the starting node has its price";
    warm.pass(minutes(15));
  }
  std::printf("20 bursts of 8 pods on a warm node: the last pod runs after at most %.2f s\n", in_seconds(longest));
  EXPECT_LT(longest, seconds(10));
}

}  // namespace cold_start_test
}  // namespace qm::sim
