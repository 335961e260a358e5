// A day in which batch jobs request more than the capacity: do online inference jobs wait for it?
#include "faultless_sim.hpp"
#include "quartermaster/v1/events.pb.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace qm::sim {
namespace contention_test {

namespace pb = quartermaster::v1;
using std::chrono::hours;
using std::chrono::seconds;

enum class Pools { kSeparate, kShared };

/// A flavor is a pool: its labels are those of the pool's nodes.
std::string flavor(const std::string& name, const std::string& labels) {
  return fmt::format(
      "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {{name: {}}}\nspec: {{nodeLabels: {{{}}}}}\n",
      name, labels);
}

std::string queue(const std::string& name, const std::string& of, int gpus, const std::string& cohort) {
  return fmt::format(R"(---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {{name: {0}}}
spec:
  namespaceSelector: {{}}{3}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors:
    - name: {1}
      resources: [{{name: "nvidia.com/gpu", nominalQuota: "{2}"}}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {{name: main, namespace: {0}}}
spec: {{clusterQueue: {0}}}
)",
                     name, of, gpus, cohort.empty() ? "" : "\n  cohort: " + cohort);
}

std::string queues(Pools pools) {
  if (pools == Pools::kSeparate) {
    return flavor("inference", "pool: inference") + flavor("batch", "pool: batch") +
           queue("inference", "inference", 24, "") + queue("batch", "batch", 16, "");
  }
  return flavor("gpu", "") + queue("inference", "gpu", 24, "all") + queue("batch", "gpu", 16, "all");
}

struct Ask {
  std::string ns, name;
  Instant at;
  int pods = 1, gpus = 1, run_s = 60;
};

/// Exponential times between arrivals, in the order of arrival.
std::vector<Ask> asks(const std::string& ns, Instant from, Duration mean_gap, std::uint64_t seed,
                      const std::function<void(Ask&, Random&)>& draw) {
  Random random(seed);
  std::vector<Ask> out;
  Instant at = from;
  while (true) {
    const double unit = static_cast<double>(random.between(1, 1'000'000)) / 1e6;
    at += Duration(static_cast<Duration::rep>(-std::log(unit) * static_cast<double>(mean_gap.count())));
    if (at >= from + hours(24)) return out;
    Ask ask{ns, fmt::format("{}-{}", ns, out.size()), at};
    draw(ask, random);
    out.push_back(ask);
  }
}

/// A world of five nodes.
class Day {
 public:
  explicit Day(Pools pools) {
    for (int i = 0; i < 5; ++i)
      (void)sim_.world.launch("", "", CloudLooks::kType, CloudLooks::kZone, false,
                              {{"pool", i < 3 ? "inference" : "batch"}});
    sim_.begin(queues(pools));
    (void)sim_.placement().host().follow(0, [this](const service::FeedEvent& event) { hear(event); });
  }

  [[nodiscard]] Instant began() const { return sim_.clock.now(); }

  /// The time that each of these jobs was pending for quota and a node, by name. The jobs of others only arrive, and
  /// are deleted when they have finished.
  std::map<std::string, Duration> waits(const std::vector<Ask>& theirs, const std::vector<Ask>& others) {
    std::vector<Ask> all(theirs);
    all.insert(all.end(), others.begin(), others.end());
    std::ranges::stable_sort(all, {}, &Ask::at);
    const Instant end = sim_.clock.now() + hours(30);
    for (std::size_t next = 0; sim_.clock.now() < end;) {
      const bool came = next < all.size() && all[next].at <= sim_.clock.now() + seconds(10);
      sim_.tick(came ? std::max(Duration(1), all[next].at - sim_.clock.now()) : Duration(seconds(10)));
      for (; next < all.size() && all[next].at <= sim_.clock.now(); ++next) create(all[next]);
      // Decisions take no simulated time, so the measured times are pure waiting.
      sim_.settle();
    }
    std::map<std::string, Duration> out;
    for (const Ask& ask : theirs) {
      const auto at = placed_.find(ask.name);
      out[ask.name] = at == placed_.end() ? end - ask.at : at->second - created_.at(ask.name);
    }
    return out;
  }

 private:
  void create(const Ask& ask) {
    PodSet set;
    set.count = ask.pods;
    set.shape.gpu.whole = ask.gpus;
    sim_.create(ask.ns, ask.name, set, ask.run_s);
    created_[ask.name] = sim_.clock.now();
  }
  void hear(const service::FeedEvent& event) {
    pb::PlacementEvent reported;
    if (event.topic != "qm.placement" || !reported.ParseFromString(event.payload)) return;
    if (reported.assignment().state() != pb::RESERVED) return;
    const auto job = sim_.world.jobs.find(reported.assignment().uid());
    if (job != sim_.world.jobs.end()) placed_.emplace(job->second.name, sim_.clock.now());
  }

  FaultlessSim sim_{1};
  std::map<std::string, Instant> created_, placed_;
};

double in_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

struct Waits {
  std::size_t jobs = 0;
  Duration sum{}, longest{};
};

Waits of_inference(Pools pools, bool batch) {
  Day day(pools);
  const auto inference = asks("inference", day.began(), seconds(150), 1, [](Ask& ask, Random& random) {
    ask.gpus = static_cast<int>(random.between(1, 2));
    ask.run_s = static_cast<int>(random.between(60, 600));
  });
  const auto others = asks("batch", day.began(), seconds(900), 2, [](Ask& ask, Random& random) {
    ask.pods = static_cast<int>(random.between(1, 2));
    ask.gpus = static_cast<int>(random.between(4, 8));
    ask.run_s = static_cast<int>(random.between(1800, 7200));
  });
  Waits out;
  for (const auto& [name, wait] : day.waits(inference, batch ? others : std::vector<Ask>{})) {
    ++out.jobs;
    out.sum += wait;
    out.longest = std::max(out.longest, wait);
  }
  return out;
}

// S-419: with separate pools for inference and batch.
// S-493: batch requests twice its pool all day, and no inference job waits for it. In one shared pool, they do wait.
TEST(Contention, BatchInAPoolOfItsOwnMakesNoInferenceWait) {
  const Waits alone = of_inference(Pools::kSeparate, false), with_batch = of_inference(Pools::kSeparate, true);
  const Waits shared = of_inference(Pools::kShared, true);
  std::printf(
      "%zu inference jobs of a day: wait %.0f s in sum alone, %.0f s together with batch, %.0f s in one pool with it\n",
      alone.jobs, std::chrono::duration<double>(alone.sum).count(), in_seconds(with_batch.sum), in_seconds(shared.sum));
  EXPECT_GT(alone.jobs, 400U);
  EXPECT_EQ(alone.longest, Duration::zero());
  EXPECT_EQ(with_batch.longest, Duration::zero());
  EXPECT_GT(shared.longest, std::chrono::minutes(5)) << "or there was no contention to be kept from";
}

}  // namespace contention_test
}  // namespace qm::sim
