#include "gangs.hpp"

#include "qm/placement/gang/request.hpp"
#include "report.hpp"

#include <fmt/format.h>

#include <functional>
#include <random>

namespace qm::bench {
namespace {

using namespace placement::gang;  // NOLINT: the whole file is about it
namespace pack = placement::pack;

constexpr Level kBlock = 1, kRack = 2;
constexpr std::int32_t kGpus = 8;

pack::NodeState empty_node() {
  pack::NodeState node;
  node.cpu_milli = 12'000 * kGpus;
  node.memory_bytes = std::int64_t{1} << 40;
  node.pods = 110;
  node.gpus = kGpus;
  std::fill_n(node.free.begin(), kGpus, std::uint16_t{pack::kDevice});
  return node;
}

pack::PodClass pod_of(std::int32_t gpus, std::int64_t cores) {
  return {std::max(1, gpus) * cores * 1000, std::int64_t{cores} << 32, gpus, pack::kDevice, pack::kAnyModel};
}

PodSet set_of(const pack::PodClass& pod, std::int32_t count) {
  PodSet set;
  set.pod = pod;
  set.count = count;
  return set;
}

/// Gangs that start and end.
class Site {
 public:
  Site(const std::string& policy, std::size_t nodes)
      : policy_(make(policy)),
        fleet_({"block", "rack"}, *policy_),
        capacity_(kGpus * static_cast<std::int64_t>(nodes)) {
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::vector<std::string> path{fmt::format("b{}", i / 512), fmt::format("r{}", i / 32)};
      fleet_.add(path, fmt::format("n{}", i), empty_node());
    }
  }
  Fleet& fleet() { return fleet_; }
  [[nodiscard]] double used() const { return static_cast<double>(used_) / static_cast<double>(capacity_); }
  [[nodiscard]] std::size_t gangs() const { return running_.size(); }

  /// Four pods of a drawn class: half of the gangs require one rack, the others prefer one.
  Request four() {
    const auto die = random_() % 10;
    Request request;
    request.gang.preferred = kRack;
    request.gang.required = die % 2 == 0 ? kRack : kFleet;
    const auto gpus = die < 4 ? 1 : die < 7 ? 2 : die < 9 ? 4 : 8;
    request.gang.sets.push_back(set_of(pod_of(gpus, 6 + static_cast<std::int64_t>(random_() % 2) * 4), 4));
    return request;
  }
  bool start(const Request& request) {
    auto answer = must(place(fleet_, request));
    if (!answer.placed()) return false;
    book(fleet_, request, answer);
    Running one{request.gang.sets[0].pod, {}};
    for (const auto& member : answer.members) one.nodes.push_back(member.node);
    used_ += one.pod.gpus * static_cast<std::int64_t>(one.nodes.size());
    running_.push_back(std::move(one));
    return true;
  }
  void end_one() {
    const auto i = random_() % running_.size();
    const Running one = std::move(running_[i]);
    running_[i] = std::move(running_.back());
    running_.pop_back();
    for (const NodeId node : one.nodes) {
      auto state = fleet_.state(node);
      state.cpu_milli += one.pod.cpu_milli;
      state.memory_bytes += one.pod.memory_bytes;
      ++state.pods;
      const auto idle = state.idle();
      std::fill_n(state.free.begin() + idle, one.pod.gpus, std::uint16_t{pack::kDevice});
      fleet_.set(node, state);
    }
    used_ -= one.pod.gpus * static_cast<std::int64_t>(one.nodes.size());
  }
  /// Fills up to a share of the fleet, and then ends and starts about as many gangs as there are.
  void fill(double share) {
    const auto up = [&] {
      for (int missed = 0; used() < share && missed < 100;) missed += start(four()) ? 0 : 1;
    };
    up();
    for (auto left = running_.size(); left > 0; --left) {
      end_one();
      up();
    }
  }
  /// Pods of one GPU on every node, a random number of them.
  void scatter(std::size_t nodes) {
    const auto pod = pod_of(1, 6);
    for (NodeId node = 0; node < nodes; ++node) {
      Running one{pod, std::vector<NodeId>(random_() % (kGpus + 1), node)};
      auto state = fleet_.state(node);
      for (std::size_t i = 0; i < one.nodes.size(); ++i) state = pack::with(state, pod, pack::kDevice);
      fleet_.set(node, state);
      used_ += static_cast<std::int64_t>(one.nodes.size());
      running_.push_back(std::move(one));
    }
  }

 private:
  struct Running {
    pack::PodClass pod;
    std::vector<NodeId> nodes;
  };
  static std::unique_ptr<pack::Policy> make(const std::string& name) {
    pack::Outlook outlook;
    for (const std::int32_t gpus : {1, 2, 4, 8}) outlook.mix.push_back({pod_of(gpus, 8), gpus == 8 ? 1 : 3});
    outlook.capacity.push_back(empty_node());
    auto policy = pack::make_policy(name, outlook);
    if (!policy) must(Status(fail(Code::kInvalid, "no policy {}", name)));
    return policy;
  }

  std::mt19937_64 random_{1};
  std::unique_ptr<pack::Policy> policy_;
  Fleet fleet_;
  std::int64_t capacity_, used_ = 0;
  std::vector<Running> running_;
};

Report report_of(const std::string& what, const std::string& policy, std::size_t nodes, double used) {
  return Report("placement." + what, {{"policy", policy},
                                      {"nodes", static_cast<std::int64_t>(nodes)},
                                      {"used_pct", static_cast<std::int64_t>(used * 100)}});
}

/// One gang ends, one starts: the measured time includes the placement search, its booking, and the end of the other
/// gang.
void fours(const std::string& policy, std::size_t nodes) {
  constexpr int kGangs = 10'000;
  Site site(policy, nodes);
  site.fill(0.85);
  Report report = report_of("gangs_of_4", policy, nodes, site.used());
  std::vector<double> us;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    us.clear();
    double spent = 0;
    int tried = 0;
    while (us.size() < kGangs) {
      const auto request = site.four();
      const auto start = Clock::now();
      if (site.used() > 0.85) site.end_one();
      const bool placed = site.start(request);
      const auto took = since(start) * 1e6;
      spent += took;
      ++tried;
      if (placed) us.push_back(took);
    }
    if (repeat < 0) continue;
    report.add("pods_per_s", 4.0 * kGangs / spent * 1e6);
    report.add("p50_us", at_share(us, 0.5));
    report.add("p99_us", at_share(us, 0.99));
    report.add("longest_us", at_share(us, 1));
    report.add("unplaced_pct", 100.0 * (tried - kGangs) / tried);
  }
  report.print();
}

/// The same placement request repeatedly, each time after one gang has ended and one has started. `used` 0: pods are
/// scattered.
void question(const std::string& what, const std::string& policy, std::size_t nodes, double used,
              const Request& request, bool placed) {
  constexpr int kQuestions = 500;
  Site site(policy, nodes);
  used > 0 ? site.fill(used) : site.scatter(nodes);
  Report report = report_of(what, policy, nodes, site.used());
  for (int i = -1; i < kQuestions; ++i) {
    site.end_one();
    (void)site.start(site.four());
    const auto start = Clock::now();
    const auto answer = must(place(site.fleet(), request));
    const auto took = since(start) * 1e6;
    if (answer.placed() != placed)
      must(Status(fail(Code::kInternal, "{}: {}", what, explain(site.fleet().tree(), answer))));
    if (i >= 0) {
      report.add("us", took);
      report.add("exact", answer.exact ? 1 : 0);
      if (placed) report.add("cost", static_cast<double>(answer.cost));
    }
  }
  report.print();
}

}  // namespace

void gangs(const std::string& policy, std::size_t nodes) {
  fours(policy, nodes);
  Request request;
  request.gang.preferred = kRack;
  request.gang.sets.push_back(set_of(pod_of(1, 6), 512));
  for (const double used : {0.5, 0.8, 0.95}) question("gang_of_512", policy, nodes, used, request, true);
  question("gang_of_512_scattered", policy, nodes, 0, request, true);
  request.gang.sets.insert(request.gang.sets.begin(), set_of(pod_of(0, 4), 1));
  question("leader_and_512", policy, nodes, 0.5, request, true);
  request.gang.sets = {set_of(pod_of(0, 4), 1), set_of(pod_of(8, 6), 8)};
  question("leader_and_8", policy, nodes, 0.8, request, true);
  Request teams;
  teams.gang.required = kBlock;
  for (int team = 0; team < 4; ++team) teams.gang.children.push_back({kRack, kRack, {set_of(pod_of(8, 6), 16)}, {}});
  question("teams_4_of_16_nodes", policy, nodes, 0.5, teams, true);
  request.gang.required = kRack;
  request.gang.sets = {set_of(pod_of(8, 6), 33)};
  question("no_place", policy, nodes, 0.8, request, false);
  request.gang.sets = {set_of(pod_of(0, 4), 1), set_of(pod_of(8, 6), 33)};
  question("no_place_of_two_sets", policy, nodes, 0.8, request, false);
}

}  // namespace qm::bench
