// The project's trace: the paper's simple policies compared with a second implementation of them and of its
// protocol. It scans every node for every pod and shares only the random number generator with the product.
#include "go_random.hpp"
#include "qm/testing/testing.hpp"
#include "replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::placement::openb {
namespace openb_naive_test {

struct Node {
  std::int64_t cpu = 0, memory = 0;
  int model = 0, installed = 0;
  std::vector<int> free;  ///< of each device, unsorted
  std::set<int> kinds;    ///< of GPU pods that run here: 0 = shares, otherwise the number of devices
  [[nodiscard]] int free_sum() const { return std::accumulate(free.begin(), free.end(), 0); }
};

int kind(const pack::PodClass& pod) { return pod.gpu_milli < 1000 ? 0 : pod.gpus; }

bool fits(const Node& node, const pack::PodClass& pod) {
  if (node.cpu < pod.cpu_milli || node.memory < pod.memory_bytes) return false;
  if (pod.gpus == 0) return true;
  if ((pod.models >> node.model & 1) == 0) return false;
  return std::ranges::count_if(node.free, [&](int free) { return free >= pod.gpu_milli; }) >= pod.gpus;
}

/// The fullest device with enough free capacity; -1 if the pod does not request a share.
int device_for(const Node& node, const pack::PodClass& pod) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(node.free.size()); ++i) {
    const int free = node.free[static_cast<std::size_t>(i)];
    if (free >= pod.gpu_milli && (best < 0 || free < node.free[static_cast<std::size_t>(best)])) best = i;
  }
  return best;
}

void place(Node& node, const pack::PodClass& pod) {
  node.cpu -= pod.cpu_milli;
  node.memory -= pod.memory_bytes;
  if (pod.gpus == 0) return;
  node.kinds.insert(kind(pod));
  if (pod.gpu_milli < 1000) {
    node.free[static_cast<std::size_t>(device_for(node, pod))] -= pod.gpu_milli;
    return;
  }
  int left = pod.gpus;
  for (int& free : node.free) {
    if (left == 0) break;
    if (free != 1000) continue;
    free = 0;
    --left;
  }
}

/// Scores are integers from 0 to 100; a larger score is better. CPU counts relative to 128 cores, GPUs relative to 8.
using Score = std::int64_t (*)(const Node&, const pack::PodClass&);

std::int64_t bestfit(const Node& node, const pack::PodClass& pod) {
  const double cpu = static_cast<double>(node.cpu - pod.cpu_milli) / 128'000;
  const double gpu = static_cast<double>(node.free_sum() - pod.total_milli()) / 8'000;
  return static_cast<std::int64_t>((1 - (cpu + gpu) / 2) * 100);
}

std::int64_t dotprod(const Node& node, const pack::PodClass& pod) {
  const double cpu = static_cast<double>(node.cpu) / 128'000 * static_cast<double>(pod.cpu_milli) / 128'000;
  const double gpu = static_cast<double>(node.free_sum()) / 8'000 * static_cast<double>(pod.total_milli()) / 8'000;
  return static_cast<std::int64_t>(100 * (1 - (cpu + gpu) / 2));
}

std::int64_t clustering(const Node& node, const pack::PodClass& pod) {
  if (pod.gpus == 0) return 0;
  const std::int64_t used = 25 * (8'000 - node.free_sum()) / 8'000;
  if (node.kinds == std::set<int>{kind(pod)}) return 75 + used;
  if (node.kinds.contains(kind(pod))) return 50 + used;
  return node.kinds.empty() ? 25 + used : used;
}

std::int64_t packing(const Node& node, const pack::PodClass& pod) {
  if (pod.gpus == 0) return 0;
  const std::int64_t idle = std::ranges::count(node.free, 1000);
  if (idle == node.installed) return std::max<std::int64_t>(33 - idle, idle);
  const int device = pod.gpu_milli < 1000 ? node.free[static_cast<std::size_t>(device_for(node, pod))] : 1000;
  if (device == 1000) return std::max<std::int64_t>(50 - pod.gpus, 33);
  return std::max<std::int64_t>(100 - device * 100 / 1000 / 10, 50);
}

/// The paper's protocol: with one seed the pods are shuffled and drawn again until they request
/// `arrivals` times the GPUs; ties are decided by one order of the nodes.
std::map<int, double> replayed(const Trace& trace, Score score, std::uint64_t seed, double arrivals) {
  std::int64_t capacity = 0;
  for (const auto& node : trace.nodes) capacity += node.gpus * 1000;
  const double wanted = arrivals * static_cast<double>(capacity);
  GoRandom draw(static_cast<std::int64_t>(seed));
  draw.next();  // for the log of the paper's program
  auto pods = trace.pods;
  draw.shuffle(pods);
  std::int64_t asked = 0;
  for (const auto& pod : pods) asked += pod.total_milli();
  for (;;) {
    const auto& pod = trace.pods[static_cast<std::size_t>(draw.below(static_cast<std::int32_t>(trace.pods.size())))];
    if (static_cast<double>(asked + (pod.gpus > 0 ? pod.gpu_milli : 0)) > wanted) break;
    asked += pod.total_milli();
    pods.push_back(pod);
  }
  for (int i = 0; i < 10; ++i) draw.next();  // for its watches
  const auto order = draw.permutation(trace.nodes.size());
  std::vector<Node> nodes(trace.nodes.size());
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) {
    const auto& node = trace.nodes[i];
    nodes[order[i]] = {node.cpu_milli, node.memory_bytes, node.model, node.gpus, std::vector<int>(node.gpus, 1000), {}};
  }

  std::map<int, std::pair<double, int>> bins;
  std::int64_t arrived = 0, used = 0;
  for (const auto& pod : pods) {
    arrived += pod.total_milli();
    Node* best = nullptr;
    std::int64_t most = 0;
    for (auto& node : nodes) {
      if (!fits(node, pod)) continue;
      const auto value = score(node, pod);
      if (best != nullptr && value <= most) continue;
      best = &node;
      most = value;
    }
    if (best != nullptr) {
      place(*best, pod);
      used += pod.total_milli();
    }
    auto& [sum, n] =
        bins[static_cast<int>(std::lround(100.0 * static_cast<double>(arrived) / static_cast<double>(capacity)))];
    sum += 100.0 * static_cast<double>(used) / static_cast<double>(capacity);
    ++n;
  }
  std::map<int, double> out;
  for (const auto& [percent, bin] : bins) out[percent] = bin.first / bin.second;
  return out;
}

TEST(OpenbReplay, SimplePoliciesMatchASecondImplementation) {
  const std::pair<const char*, Score> policies[] = {
      {"bestfit", bestfit}, {"dotprod", dotprod}, {"clustering", clustering}, {"packing", packing}};
  const auto folder = testing::data_dir() + "/traces/openb";
  for (const std::string workload : {"openb_pod_list_mixed.csv", "pods/openb_pod_list_pinned.csv.gz",
                                     "pods/openb_pod_list_gangs.csv.gz", "pods/openb_pod_list_shares.csv.gz"}) {
    const auto trace = read_trace(folder + "/openb_node_list_gpu_node.csv", folder + "/" + workload);
    ASSERT_TRUE(trace) << trace.error().to_string();
    for (const auto& [name, score] : policies) {
      const auto wanted = replayed(*trace, score, 42, 1.30);
      const auto found = replay(*trace, name, 42, 1.30);
      ASSERT_EQ(found.size(), wanted.size());
      for (const auto& [percent, allocated] : wanted) {
        ASSERT_NEAR(found.at(percent).allocated, allocated, 1e-6) << workload << ' ' << name << " at " << percent;
      }
    }
  }
}

}  // namespace openb_naive_test
}  // namespace qm::placement::openb
