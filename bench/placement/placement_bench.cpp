// placement_bench singles POLICY NODES: single pods in a fleet that is filled to nine tenths and then turns over: one
// pod ends, one starts. Classes, shares and shapes of nodes are drawn in the proportions of the openb trace: an
// eighth of the pods request no GPU, two fifths a share of one, nearly all others one; eight in ten nodes have eight
// GPUs and 12 cores for each.
#include "gangs.hpp"
#include "plans.hpp"
#include "qm/placement/pack/inventory.hpp"
#include "report.hpp"

#include <fmt/format.h>

#include <iostream>
#include <random>
#include <sys/resource.h>

namespace qm::bench {
namespace {

using placement::pack::NodeId;
using placement::pack::NodeState;
using placement::pack::PodClass;

/// A node with its devices by number, as their owner tracks them.
struct Node {
  NodeState empty;
  std::int64_t cpu_milli, memory_bytes;
  std::int32_t pods;
  std::array<std::uint16_t, 8> free{};
  [[nodiscard]] NodeState state() const {
    NodeState out = empty;
    out.cpu_milli = cpu_milli;
    out.memory_bytes = memory_bytes;
    out.pods = pods;
    std::ranges::copy(free, out.free.begin());
    std::ranges::sort(out.free.begin(), out.free.begin() + out.gpus, std::greater<>());
    return out;
  }
};

struct Running {
  NodeId node;
  std::uint32_t cls;
  std::uint16_t devices;  ///< bit i = device i
};

class Fleet {
 public:
  Fleet(const std::string& policy, std::size_t nodes) : random_(1) {
    make_classes();
    for (std::size_t i = 0; i < nodes; ++i) make_node();
    placement::pack::Outlook outlook;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      auto pod = classes_[i];
      pod.memory_bytes = 0;
      outlook.mix.push_back({pod, weights_[i]});
    }
    for (const auto& node : nodes_) outlook.capacity.push_back(node.state());
    policy_ = placement::pack::make_policy(policy, outlook);
    if (!policy_) must(Status(fail(Code::kInvalid, "no policy {}", policy)));
    inventory_ = std::make_unique<placement::pack::Inventory>(*policy_);
    for (const auto& node : nodes_) inventory_->add(node.state());
  }
  void fill(double share) {
    while (static_cast<double>(used_) < share * static_cast<double>(capacity_)) (void)place();
  }
  /// Places a pod of a class that is drawn by its weight; false if it fits no node.
  bool place() {
    const auto cls = draw_(random_);
    const auto& pod = classes_[cls];
    const auto found = inventory_->best(pod);
    if (!found) return false;
    Node& node = nodes_[found->node];
    node.cpu_milli -= pod.cpu_milli;
    node.memory_bytes -= pod.memory_bytes;
    --node.pods;
    Running running{found->node, static_cast<std::uint32_t>(cls), 0};
    std::int32_t left = pod.gpus;
    for (std::size_t i = 0; i < node.empty.gpus && left > 0; ++i) {
      if (pod.shares() ? node.free[i] != found->choice.device_milli : node.free[i] != placement::pack::kDevice)
        continue;
      node.free[i] = static_cast<std::uint16_t>(node.free[i] - pod.gpu_milli);
      running.devices = static_cast<std::uint16_t>(running.devices | 1U << i);
      --left;
    }
    used_ += pod.total_milli();
    running_.push_back(running);
    inventory_->set(found->node, node.state());
    return true;
  }
  void end_one() {
    const auto i = random_() % running_.size();
    const Running one = running_[i];
    running_[i] = running_.back();
    running_.pop_back();
    const auto& pod = classes_[one.cls];
    Node& node = nodes_[one.node];
    node.cpu_milli += pod.cpu_milli;
    node.memory_bytes += pod.memory_bytes;
    ++node.pods;
    for (std::size_t d = 0; d < node.empty.gpus; ++d) {
      if ((one.devices >> d & 1) != 0) node.free[d] = static_cast<std::uint16_t>(node.free[d] + pod.gpu_milli);
    }
    used_ -= pod.total_milli();
    inventory_->set(one.node, node.state());
  }
  [[nodiscard]] double used() const { return static_cast<double>(used_) / static_cast<double>(capacity_); }
  [[nodiscard]] std::size_t states() const { return inventory_->distinct_states(); }

 private:
  void make_classes() {
    const auto add = [&](std::int64_t weight, std::int32_t gpus, std::int32_t milli, std::int64_t cores) {
      const std::int64_t memory = (cores * (2 + static_cast<std::int64_t>(random_() % 5))) << 30;
      classes_.push_back({cores * 1000, memory, gpus, milli, placement::pack::kAnyModel});
      weights_.push_back(weight);
    };
    for (std::int64_t i = 1; i <= 10; ++i) add(130, 0, placement::pack::kDevice, 4 * i);
    for (std::int32_t i = 1; i <= 19; ++i) {
      add(i == 16 ? 1000 : 80, 1, 50 * i, 3 + i % 8);
      add(60, 1, 50 * i, 6 + i % 5);
    }
    for (std::int64_t i = 1; i <= 32; ++i) add(150, 1, placement::pack::kDevice, 3 + i % 14);
    for (const std::int32_t gpus : {2, 4, 8}) {
      for (std::int64_t i = 1; i <= 4; ++i) add(gpus == 8 ? 11 : 4, gpus, placement::pack::kDevice, gpus * (6 + i));
    }
    draw_ = std::discrete_distribution<std::size_t>(weights_.begin(), weights_.end());
  }
  void make_node() {
    Node node{};
    const auto die = random_() % 10;
    auto& made = node.empty;
    made.gpus = die < 8 ? 8 : die < 9 ? 4 : 2;
    made.model = static_cast<std::uint8_t>(die < 8 ? 0 : die < 9 ? 1 : 2);
    made.type = made.model;
    node.cpu_milli = made.gpus * (die < 8 ? 12'000 : die < 9 ? 24'000 : 48'000);
    node.memory_bytes = node.cpu_milli / 1000 * 8 << 30;
    node.pods = 110;
    std::fill_n(node.free.begin(), made.gpus, std::uint16_t{placement::pack::kDevice});
    capacity_ += made.gpus * placement::pack::kDevice;
    nodes_.push_back(node);
  }

  std::mt19937_64 random_;
  std::vector<PodClass> classes_;
  std::vector<std::int64_t> weights_;
  std::discrete_distribution<std::size_t> draw_;
  std::vector<Node> nodes_;
  std::vector<Running> running_;
  std::unique_ptr<placement::pack::Policy> policy_;
  std::unique_ptr<placement::pack::Inventory> inventory_;
  std::int64_t capacity_ = 0, used_ = 0;
};

void singles(const std::string& policy, std::size_t nodes) {
  constexpr int kDecisions = 50'000;
  Report report(
      "placement.singles",
      {{"policy", policy}, {"nodes", static_cast<std::int64_t>(nodes)}, {"decisions", std::int64_t{kDecisions}}});
  Fleet fleet(policy, nodes);
  const auto begun = Clock::now();
  fleet.fill(0.9);
  report.add("fill_s", since(begun));
  std::vector<double> us(kDecisions);
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    double spent = 0;
    int missed = 0;
    for (auto& one : us) {
      fleet.end_one();
      const auto start = Clock::now();
      missed += fleet.place() ? 0 : 1;
      one = since(start) * 1e6;
      spent += one;
      if (fleet.used() < 0.9) (void)fleet.place();
    }
    if (repeat < 0) continue;
    report.add("decisions_per_s", kDecisions / spent * 1e6);
    report.add("p50_us", at_share(us, 0.5));
    report.add("p99_us", at_share(us, 0.99));
    report.add("longest_us", at_share(us, 1));
    report.add("unplaced_pct", 100.0 * missed / kDecisions);
  }
  report.add("distinct_states", static_cast<double>(fleet.states()));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  report.add("resident_mib", static_cast<double>(used.ru_maxrss) / 1024);
  report.print();
}

}  // namespace
}  // namespace qm::bench

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "singles" && argc == 4) {
    qm::bench::singles(argv[2], std::stoul(argv[3]));
    return 0;
  }
  if (verb == "gangs" && argc == 4) {
    qm::bench::gangs(argv[2], std::stoul(argv[3]));
    return 0;
  }
  if (verb == "preempt" && argc == 3) {
    qm::bench::preempt(std::stoul(argv[2]));
    return 0;
  }
  if (verb == "consolidate" && argc == 3) {
    qm::bench::consolidate(std::stoul(argv[2]));
    return 0;
  }
  std::cerr << "placement_bench singles|gangs POLICY NODES, or preempt|consolidate NODES\n";
  return 2;
}
