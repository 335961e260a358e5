#pragma once
// A cluster around an engine, in virtual time: pods that a scheduler binds, nodes that boot, drains that evict pods within
// a PodDisruptionBudget, gangs that save. Every step is undone and executed again, as by Script.
#include "qm/kube_rules/text.hpp"
#include "test/engine/script.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler::testing {

struct ClusterSim {
  struct Pod {
    std::string app;
    PodSet like;
    bool serves = true;
    std::string node;  ///< empty = pending
    Instant started{};
    bool must_stay = false;  ///< do-not-disrupt
    bool readable = true;    ///< its constraints
    int moves = 0;
  };
  struct Node {
    ClaimName claim;
    std::string type;
    bool cordoned = false;
    bool consolidates = true;  ///< launched by the test, not by a consolidation
  };

  explicit ClusterSim(Options options = with_details()) : script(std::move(options)) {
    for (const auto& type : small_catalog()) types.emplace(type.name, type);
    pool.name = "p";
    pool.markets = {Market::kOnDemand};
    pool.consolidate_underutilized = true;
    pool.consolidate_after = std::chrono::seconds(30);
    pool.zones = {"z1"};
  }
  static Options with_details() {
    Options out;
    out.node_details = true;
    return out;
  }

  Script script;
  Pool pool;
  std::map<std::string, InstanceType> types;
  std::map<std::string, Pod> pods;
  std::map<std::string, Node> nodes;
  std::map<InstanceId, InstanceFact> cloud;
  std::map<ClaimName, Instant> booting;
  std::map<std::string, std::int64_t> least_ready;  ///< minAvailable of the PodDisruptionBudget of an app
  Duration boot = std::chrono::minutes(2);
  bool saves = true;             ///< a gang that is ordered to save does
  std::vector<std::string> log;  ///< "ready NODE", "drain NODE", "terminate NODE", ...
  int launches = 0, fewest_ready = 1'000'000;
  std::string watched;  ///< app of fewest_ready

  /// A node that has run for an hour.
  std::string add_node(const std::string& type, Market market = Market::kOnDemand) {
    const std::string name = fmt::format("n{}", ++counter_);
    const InstanceId id("i-" + name);
    const ClaimName claim("p-" + name);
    cloud[id] = {id, claim, "p", type, "z1", market, NodeName(name), script.now() - std::chrono::hours(1), {}};
    nodes[name] = {claim, type};
    return name;
  }
  void add_pod(const std::string& name, const std::string& node, std::int64_t milli, std::int64_t gpus = 0,
               const std::string& app = "web") {
    Pod pod;
    pod.app = app;
    pod.like = pod_set(1, gpus);
    pod.like.shape.cpu_milli = milli;
    pod.node = node;
    pod.started = script.now();
    pods[name] = pod;
  }
  void start() {
    step({PoolsApplied{{pool}}, DemandUpdated{}, description()});
    publish();
  }
  /// One second for each step of `every` until `d` has passed.
  void run(Duration d, Duration every = std::chrono::seconds(5)) {
    for (Duration left = d; left > Duration{0}; left -= every) {
      script.advance(every);
      tick();
    }
  }
  void tick() {
    boot_nodes();
    evict();
    schedule();
    publish();
    step({Tick{}});
    if (!watched.empty()) fewest_ready = std::min(fewest_ready, ready_of(watched));
  }
  [[nodiscard]] int ready_of(const std::string& app) const {
    int out = 0;
    for (const auto& [name, pod] : pods)
      out += pod.app == app && !pod.node.empty() && pod.started + std::chrono::seconds(10) <= script.now() ? 1 : 0;
    return out;
  }
  [[nodiscard]] double price() const {
    double out = 0;
    for (const auto& [name, node] : nodes)
      out += static_cast<double>(types.at(node.type).on_demand.per_hour.nano()) / 1e9;
    return out;
  }
  [[nodiscard]] std::ptrdiff_t at(const std::string& line) const {
    const auto found = std::ranges::find(log, line);
    return found == log.end() ? -1 : found - log.begin();
  }
  [[nodiscard]] int count(const std::string& prefix) const {
    return static_cast<int>(std::ranges::count_if(log, [&](const auto& line) { return line.starts_with(prefix); }));
  }
  Output step(const std::vector<Command>& batch) {
    Output out = script.step(batch);
    EXPECT_EQ(script.complaint(), "");
    apply(out);
    return out;
  }
  [[nodiscard]] const Tables& tables() { return script.engine().tables(); }
  /// Publishes what has changed of nodes, pods and demand.
  void publish() {
    std::vector<Command> batch;
    for (const auto& [name, node] : nodes) {
      NodeUpdated update{NodeName(name), true, node.cordoned, false, 0, {}, InstanceId("i-" + name)};
      NodeDetailsUpdated details{NodeName(name), false, {}};
      NodePodsUpdated on_node{NodeName(name), false, {}};
      NodePods& shown = on_node.pods;
      const InstanceType& type = types.at(node.type);
      details.details.instance = update.instance;
      shown.labels = {{std::string(words::kZone), "z1"}, {"kubernetes.io/hostname", name}};
      shown.allocatable = {{"cpu", type.cpu_milli}, {"memory", type.memory_bytes}, {"pods", type.pods}};
      if (type.gpus > 0) shown.allocatable[std::string(words::kGpuResource)] = type.gpus;
      details.details.allocatable = shown.allocatable;
      for (const auto& [uid, pod] : pods) {
        if (pod.node != name) continue;
        ++update.pods;
        details.details.serves |= pod.serves;
        NodePod one;
        one.name = "team/" + uid;
        if (pod.readable) one.rules = kube_rules::text_of(kube_rules::template_of(pod.like, Namespace("team")));
        one.gpu = pod.like.shape.gpu;
        one.controller = pod.serves ? "ReplicaSet" : "Job";
        one.started = pod.started;
        if (least_ready.contains(pod.app)) one.budget = pod.app, one.budget_allows = allowed(pod.app);
        HoldingPod hold{one.name, {}, pod.started, ""};
        if (pod.must_stay) hold.do_not_disrupt = Duration::max();
        if (!one.budget.empty() && one.budget_allows <= 0) hold.blocked_by = one.budget;
        one.blocked_by = hold.blocked_by;
        if (pod.must_stay || !hold.blocked_by.empty()) details.details.holding.push_back(hold);
        shown.pods.push_back(std::move(one));
      }
      if (update.pods == 0) update.empty_since = empty_since_.try_emplace(name, script.now()).first->second;
      if (update.pods > 0) empty_since_.erase(name);
      batch.emplace_back(std::move(update));
      batch.emplace_back(std::move(details));
      batch.emplace_back(std::move(on_node));
    }
    DemandUpdated demand;
    for (const auto& [uid, pod] : pods) {
      if (pod.node.empty()) demand.items.push_back({{WorkloadUid(uid), 1}, {pod.like}, 0, script.now(), "team"});
    }
    batch.emplace_back(std::move(demand));
    for (int passes = 0; passes < 3; ++passes) {  // a drain of this step is confirmed in the next one
      step(batch);
      if (!std::exchange(cordons_, false)) break;
      for (auto& command : batch) {
        if (auto* update = std::get_if<NodeUpdated>(&command); update != nullptr)
          update->cordoned = nodes.contains(update->node.value()) && nodes.at(update->node.value()).cordoned;
      }
      std::erase_if(batch, [&](const Command& command) {
        const auto* update = std::get_if<NodeUpdated>(&command);
        const auto* details = std::get_if<NodeDetailsUpdated>(&command);
        const auto* on_node = std::get_if<NodePodsUpdated>(&command);
        return (update != nullptr && !nodes.contains(update->node.value())) ||
               (details != nullptr && !nodes.contains(details->node.value())) ||
               (on_node != nullptr && !nodes.contains(on_node->node.value()));
      });
    }
  }

 private:
  [[nodiscard]] InstancesListed description() const {
    InstancesListed out;
    for (const auto& [id, fact] : cloud) out.instances.push_back(fact);
    return out;
  }
  [[nodiscard]] std::int64_t allowed(const std::string& app) const {
    return std::max<std::int64_t>(ready_of(app) - least_ready.at(app), 0);
  }
  void apply(const Output& out) {
    for (const auto& l : out.launches) {
      ++launches;
      booting[l.claim] = script.now() + boot;
      log.push_back(fmt::format("launch {} {}", l.row.type, l.row.life.consolidated ? "consolidated" : "demand"));
    }
    for (const auto& o : out.orders) {
      log.push_back(fmt::format("order {}{}", o.row.id.uid, o.row.outcome.empty() ? "" : " " + o.row.outcome));
      if (o.row.outcome.empty()) ordered_.push_back(o);
    }
    for (const auto& d : out.drains) {
      if (!nodes.contains(d.node.value())) continue;
      nodes[d.node.value()].cordoned = !d.lifted;
      cordons_ = true;
      log.push_back(fmt::format("{} {}", d.lifted ? "lifted" : "drain", d.node));
    }
    for (const auto& e : out.evictions) {
      if (e.over) continue;
      log.push_back(fmt::format("evict {} step={}", e.id.uid, e.step));
      if (const auto pod = pods.find(e.id.uid.value()); pod != pods.end()) pod->second.node.clear();
      released_.push_back(e.id);
    }
    std::vector<Command> batch;
    for (const auto& t : out.terminations) {
      const auto node = std::ranges::find_if(nodes, [&](const auto& one) { return one.second.claim == t.claim; });
      if (node == nodes.end()) continue;
      log.push_back("terminate " + node->first);
      cloud.at(t.instance).stopped = script.now();
      batch.emplace_back(NodeUpdated{NodeName(node->first), false, false, true, 0, {}, {}});
      batch.emplace_back(NodeDetailsUpdated{NodeName(node->first), true, {}});
      batch.emplace_back(NodePodsUpdated{NodeName(node->first), true, {}});
      nodes.erase(node);
    }
    if (!batch.empty()) {
      batch.emplace_back(description());
      step(batch);
    }
    for (const auto& id : std::exchange(released_, {})) step({AssignmentUpdated{id, false, {}}});
    for (const auto& o : std::exchange(ordered_, {})) {
      for (const auto& node : o.row.save.nodes) {
        checkpoint::Answer answer{node, o.row.save.fence, 1, {}, saves ? "" : "disk full"};
        if (saves) answer.saves.push_back({7, 0, 1, "s3://7", 0, std::chrono::seconds(5)});
        step({AckUpdated{o.id, answer}});
      }
    }
  }
  void boot_nodes() {
    for (auto at = booting.begin(); at != booting.end();) {
      if (at->second > script.now()) {
        ++at;
        continue;
      }
      const Claim c = *tables().claims.find(at->first);
      const std::string name = fmt::format("n{}", ++counter_);
      const InstanceId id("i-" + name);
      nodes[name] = {at->first, c.type, false, !c.life.consolidated};
      cloud[id] = {id, at->first, "p", c.type, c.zone, c.market, NodeName(name), script.now(), {}};
      log.push_back("ready " + name);
      const ClaimName claim = at->first;
      at = booting.erase(at);
      step({LaunchEnded{claim, id, ""}, description()});
    }
  }
  // The first node with room, in the order of names.
  void schedule() {
    for (auto& [uid, pod] : pods) {
      if (!pod.node.empty()) continue;
      for (const auto& [name, node] : nodes) {
        const InstanceType& type = types.at(node.type);
        std::int64_t cpu = type.cpu_milli - pod.like.shape.cpu_milli, gpus = type.gpus - pod.like.shape.gpu.whole;
        for (const auto& [other, there] : pods) {
          if (there.node == name) cpu -= there.like.shape.cpu_milli, gpus -= there.like.shape.gpu.whole;
        }
        const Claim* c = tables().claims.find(node.claim);
        if (cpu < 0 || gpus < 0 || node.cordoned || c == nullptr || !c->life.disruption.empty()) continue;
        pod.node = name;
        pod.started = script.now();
        break;
      }
    }
  }
  // The Eviction API: a pod of a service leaves if its budget allows it.
  void evict() {
    for (auto& [uid, pod] : pods) {
      if (pod.node.empty() || tables().attempts.contains({WorkloadUid(uid), 1})) continue;
      const Claim* c = tables().claims.find(nodes.at(pod.node).claim);
      if (c == nullptr || !c->evicts_pods() || pod.must_stay) continue;
      if (least_ready.contains(pod.app) && allowed(pod.app) <= 0) continue;
      log.push_back(fmt::format("moved {} from {}", uid, pod.node));
      pod.node.clear();
      ++pod.moves;
    }
  }

  int counter_ = 0;
  bool cordons_ = false;
  std::vector<AttemptId> released_;
  std::vector<OrderEvent> ordered_;
  std::map<std::string, Instant> empty_since_;
};

}  // namespace qm::autoscaler::testing
