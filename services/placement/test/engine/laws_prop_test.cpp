// Generated histories: for any inputs in any order, the laws hold after every step, a restart
// changes nothing, and the order of facts inside a batch does not matter. Script::step adds the
// audit and the undo check to each step.
#include "qm/kube_rules/text.hpp"
#include "qm/testing/histories.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>

namespace qm::placement::testing {
namespace laws_prop_test {

constexpr int kNodes = 4, kGpus = 4, kShares = 2, kWorkloads = 4, kAttempts = 3, kMaxPods = 3, kPodsOfANode = 5;

using qm::testing::Choice, qm::testing::History;

Options in_zones() {
  Options options;
  options.topology = {"zone"};
  options.mig_repartition.on = true;
  options.mig_repartition.after = options.mig_repartition.every = std::chrono::seconds(1);
  options.mig_repartition.pause = std::chrono::seconds(300);
  options.layout_windows = {*relayout::weekly_of("Mon 13:50-14:20"), *relayout::weekly_of("Mon 15:00-15:10")};
  return options;
}

NodeName node_of(int n) { return NodeName(fmt::format("n{}", n % kNodes)); }
WorkloadUid uid_of(int n) { return WorkloadUid(fmt::format("w{}", n % kWorkloads)); }

/// Inter-pod constraints of several kinds; the first has none.
std::string rules_of(int n) {
  const auto app = [](const char* name) { return LabelSelector{{{"app", LabelRequirement::Op::kIn, {name}}}}; };
  rules::PodTemplate like{Namespace("ns"), {{"app", n % 2 == 0 ? "a" : "b"}}, {}};
  switch (n % 8) {
    case 0:
      return "";
    case 1:
      like.rules.anti_affinity = {{"host", app("a"), {}, LabelSelector{}}};
      break;
    case 2:
      like.rules.affinity = {{"zone", app("b"), {}, {}}};
      break;
    case 3: {
      rules::Spread even;
      even.topology_key = "zone";
      even.pods = app("b");
      like.rules.spread = {even};
      break;
    }
    case 4:
      like.rules.ports = {{80, "TCP", "0.0.0.0"}};
      break;
    case 5:
      like.rules.preferred_anti_affinity = {{7, {"zone", app("a"), {}, {}}}};
      break;
    case 6:
      like.rules.claims = {"data"};
      break;
    case 7:
      like.rules.own_claims = {{"own", std::nullopt}};
      break;
  }
  return rules::text_of(like);
}

WorkloadSpec spec_of(int n) {
  WorkloadSpec spec;
  spec.uid = uid_of(n);
  spec.name = spec.uid.value();
  spec.ns = Namespace("ns");
  spec.priority = n % 2;
  const int w = n % kWorkloads;
  spec.pod_sets = {w == 0 ? pod_set(3, 2) : w == 1 ? pod_set(2, 4) : w == 2 ? pod_set(3, 0, 400) : pod_set(1, 1)};
  if (n % 5 < 2) spec.pod_sets[0].min_count = 1;
  spec.pod_sets[0].rules = n % 3 == 0 ? rules_of(n / kWorkloads) : "";
  if (w <= 1) spec.pod_sets[0].topology = {"zone", "", "", 0, ""};
  if (w == 2) spec.pod_sets[0].topology.exclusive = n % 2 == 0;
  if (w == 3) spec.pod_sets[0].shape.gpu = {0, 0, "1g.10gb", 1, {}};
  return spec;
}

/// The part of the cluster that choices need: where the engine's binds put the pods.
struct World {
  std::map<std::string, PodFacts> pods;
  int serial = 0;
};

/// A claim that is created, bound and deleted, its volume in either zone, and lists of existing objects.
Command storage_of(const Choice& c) {
  rules::PodTemplate zone;
  zone.rules.volumes = {{"any", {{{{"zone", rules::Requirement::Op::kIn, {c.b % 2 == 0 ? "x" : "y"}}}, {}}}}};
  const std::array<std::string, 4> kinds{"claim", "volume", "class", "limits"};
  switch (c.a % 7) {
    case 0:
      return StorageUpdated{"claim/ns/data",
                            Claim{c.b % 3 == 0 ? "pv" : "", "later", c.c % 4 == 0 ? "n1" : "", c.c % 3 == 0}};
    case 1:
      return StorageUpdated{"volume/pv", Volume{rules::text_of(zone), c.c % 2 == 0 ? "d" : "", "v", "ns/data"}};
    case 2:
      return StorageUpdated{
          "class/later", StorageClass{c.b % 4 != 0, true, c.c % 2 == 0 ? "" : rules::text_of(zone), "d", c.c % 3 == 0}};
    case 3:
      return StorageDeleted{"claim/ns/data"};
    case 4:
      return StorageUpdated{fmt::format("limits/n{}", c.b % 3), AttachLimits{{{"d", c.c % 3}}}};
    case 5:
      return StorageUpdated{fmt::format("claim/ns/p{}-own", 1 + c.b % 40),
                            Claim{c.c % 3 == 0 ? "pv" : "", "later", "", true, fmt::format("p{}", 1 + c.b % 40)}};
    default:
      return StorageSynced{kinds[static_cast<std::size_t>(c.b % 4)],
                           {"claim/ns/data", "volume/pv", "class/later", "limits/n1"}};
  }
}

/// MIG-capable GPUs, in any state that mig-manager, the device plugin and administrators may produce.
void cut(NodeFacts& f, const Choice& c) {
  f.model = "NVIDIA-H100-80GB-HBM3";
  const std::array<const char*, 4> configs{"", "all-disabled", "all-1g.10gb", "half"};
  const std::array<const char*, 4> states{"success", "pending", "success", "failed"};
  const std::array<std::int32_t, 3> whole{4, 0, 2};
  if (c.c % 4 != 0) f.labels[std::string(kMigConfig)] = configs[static_cast<std::size_t>(c.c % 4)];
  if (c.c % 7 != 0) f.labels[std::string(kMigState)] = states[static_cast<std::size_t>(c.c / 4 % 4)];
  f.gpus = whole[static_cast<std::size_t>(c.b % 3)];
  f.extended["nvidia.com/mig-1g.10gb"] = 7 * (4 - f.gpus) - (c.c % 11 == 0 ? 1 : 0);
  f.unschedulable = c.a / kNodes % 3 == 0;
  if (f.unschedulable && c.b % 2 == 0) f.cordoned_by = "layout";
}

/// Layouts for a node or for all nodes, or a withdrawal; and the definition of a name.
OrderLayouts layouts_of(const Choice& c) {
  OrderLayouts order;
  const std::array<const char*, 4> names{"all-disabled", "all-1g.10gb", "half", "unknown"};
  const std::string name = names[static_cast<std::size_t>(c.b % 4)];
  order.dry_run = c.c % 5 == 0;
  if (c.c % 4 == 0) order.definitions["half"] = {{{0, 1}, true, {{"1g.10gb", 7}}}, {{2, 3}, false, {}}};
  if (c.c % 4 == 1) order.otherwise = DefaultLayout{name, c.a % 2 == 0};
  if (c.c % 4 == 2) order.withdraw = {node_of(c.a)};
  if (c.c % 4 != 1) order.nodes[node_of(c.a + c.c % 4)] = name;
  return order;
}

Command command_of(const Choice& c, World& world, const Instant now) {
  const auto facts = [&](bool ready) {
    auto f = node_facts(kGpus);
    f.labels = {{"host", node_of(c.a).value()}, {"zone", c.a % 2 == 0 ? "x" : "y"}};
    f.cpu_milli = 6000;
    f.pods = kPodsOfANode;
    f.extended["nvidia.com/mig-1g.10gb"] = 3;
    if (c.c % 3 == 0) f.labels["nvidia.com/gpu.replicas"] = std::to_string(kShares);
    f.ready = ready;
    if (c.b % 4 == 1) f.launched_for = {uid_of(c.c), uid_of(c.c + 1)};
    if (c.b % 8 == 1) f.labels[std::string(kInitializedLabel)] = "true";
    if (c.a % 3 == 0) cut(f, c);
    return f;
  };
  if (c.what == 20) return layouts_of(c);
  if (c.what < 18) return NodeUpdated{node_of(c.a), facts(c.b % 8 != 0)};
  if (c.what < 21) return NodeDeleted{node_of(c.a)};
  if (c.what < 45) {
    WorkloadUpdated latest;
    latest.spec = spec_of(c.a);
    latest.attempt = 1 + c.b % kAttempts;
    latest.phase = static_cast<WorkloadPhase>(std::array{1, 1, 1, 2, 2, 0, 3, 4, 5}[static_cast<std::size_t>(c.c % 9)]);
    latest.order_deadline = latest.phase == WorkloadPhase::kEvicting ? now + std::chrono::seconds(30) : Instant{};
    return latest;
  }
  if (c.what < 65) {
    PodFacts pod;
    pod.ns = c.b % 7 == 5 ? "forged" : "ns";
    pod.uid = pod.name = fmt::format("p{}", ++world.serial);
    pod.owner = pod.controller = uid_of(c.a);
    pod.attempt = 1 + c.b % kAttempts;
    pod.index = c.c % kMaxPods;
    pod.ours = true;
    pod.rules = rules_of(c.a);
    pod.shape = spec_of(c.a).pod_sets[0].shape;
    world.pods[pod.uid] = pod;
    return PodUpdated{pod};
  }
  if (c.what < 85 && !world.pods.empty()) {
    auto it = std::next(world.pods.begin(), c.a % static_cast<int>(world.pods.size()));
    PodFacts& pod = it->second;
    if (c.b % 4 == 0) {
      const std::string uid = it->first;
      world.pods.erase(it);
      return PodDeleted{uid};
    }
    if (!pod.node.empty() || c.b % 4 == 3) pod.phase = static_cast<PodPhase>(1 + c.c % 3);
    if (c.b % 4 == 1) pod.deleting = true;
    return PodUpdated{pod};
  }
  if (c.what < 88) {
    PodFacts pod;
    pod.ns = "other";
    pod.uid = pod.name = fmt::format("s{}", c.a % 3);
    pod.node = node_of(c.b);
    pod.phase = c.c % 3 == 0 ? PodPhase::kSucceeded : PodPhase::kRunning;
    pod.shape = pod_set(1, c.c % 3).shape;
    pod.rules = rules_of(c.c);
    return PodUpdated{pod};
  }
  if (c.what < 91) {
    HealthUpdated latest{node_of(c.a), std::nullopt};
    if (c.b % 2 == 0) latest.mark = HealthVerdict{c.c % 2 == 0, c.b % 5 - 1, 79, "XID 79"};
    return latest;
  }
  if (c.what < 93) {
    DrainUpdated latest{node_of(c.a), std::nullopt};
    if (c.b % 2 == 0) latest.mark = DrainRequest{"spot", now};
    return latest;
  }
  if (c.what < 96) {
    DevicesObserved latest{node_of(c.a), {now, {}}};
    for (const auto& [uid, pod] : world.pods) {
      if (pod.node != latest.node || (uid.size() + static_cast<std::size_t>(c.b)) % 2 == 0) continue;
      auto& devices = latest.seen.pods[pod.key()];
      for (int i = 0; i < std::max<int>(1, static_cast<int>(pod.shape.gpu.whole)); ++i) {
        if (pod.shape.gpu.mig_count > 0) {
          devices.push_back({latest.node, c.c % 4, DeviceUuid(fmt::format("MIG-{}", c.b % 2)), 142, "1g.10gb"});
        } else {
          devices.push_back({latest.node, (c.c + i) % 4, DeviceUuid(), 1000, ""});
        }
      }
    }
    return latest;
  }
  if (c.what < 97 && c.b % 4 == 0) {
    return NodeReportUpdated{node_of(c.a),
                             NodeReport{{{"gpu.nvidia.com/nvlink-enabled", c.c % 2 == 0 ? "true" : "false"}}, {}, {}}};
  }
  if (c.what < 97) return storage_of(c);
  if (c.what < 98) {
    PodsSynced synced;
    for (const auto& [uid, pod] : world.pods) synced.uids.insert(uid);
    return synced;
  }
  return NodesSynced{{node_of(0), node_of(1), node_of(2), node_of(3)}};
}

/// Binds arrive: the pod runs on its node from now on.
std::vector<Command> binds_of(const Output& output, World& world) {
  std::vector<Command> out;
  for (const Intent& intent : output.intents) {
    const auto* bind = std::get_if<BindPod>(&intent.what);
    if (bind == nullptr || !world.pods.contains(bind->pod_uid)) continue;
    PodFacts& pod = world.pods.at(bind->pod_uid);
    RC_ASSERT(pod.node.empty());  // no pod is bound twice
    RC_ASSERT(pod.ns == "ns");    // nor one that names a workload of another namespace
    pod.node = bind->node;
    out.push_back(PodUpdated{pod});
  }
  return out;
}

/// Checks published events only, as another service would.
class Observer {
 public:
  void observe(const Output& output) {
    for (const Event& event : output.events) {
      const auto* changed = std::get_if<AssignmentChanged>(&event);
      if (changed == nullptr) continue;
      if (changed->forgotten) {
        RC_ASSERT(!changed->state.holds());
        last_.erase(changed->id);
        continue;
      }
      const auto before = last_.find(changed->id);
      if (before != last_.end() && before->second.state == AssignmentState::kReleased) {
        RC_ASSERT(changed->state.state == AssignmentState::kReleased);
      }
      last_[changed->id] = changed->state;
    }
    std::map<std::pair<NodeName, std::int32_t>, std::int64_t> milli;
    std::map<NodeName, std::int64_t> cpu, pods_on;
    std::map<NodeName, std::set<AttemptId>> gangs_on;
    std::set<NodeName> alone;
    for (const auto& [id, state] : last_) {
      if (!state.holds()) continue;
      std::int64_t pods = 0;
      for (const PodSet& set : state.pod_sets) pods += set.count;
      std::set<std::pair<std::int32_t, std::int32_t>> ranks;
      for (const Member& member : state.members) ranks.emplace(member.set, member.index);
      RC_ASSERT(std::ssize(ranks) <= pods && !ranks.empty());
      RC_ASSERT(is_elastic(state.pod_sets) || std::ssize(state.members) == pods);
      for (const Member& member : state.members) {
        if (!member.live()) continue;
        ++pods_on[member.node];
        const PodSet& set = state.pod_sets.at(static_cast<std::size_t>(member.set));
        if (!set.shape.gpu.none()) gangs_on[member.node].insert(id);
        if (set.topology.exclusive) alone.insert(member.node);
        cpu[member.node] += state.pod_sets.at(static_cast<std::size_t>(member.set)).shape.cpu_milli;
        for (const DeviceRef& device : member.devices) milli[{device.node, device.index}] += device.milli;
      }
    }
    for (const auto& [device, used] : milli) {
      RC_ASSERT(used <= 1000);
      RC_ASSERT(device.second >= 0 && device.second < kGpus * kShares);
    }
    for (const auto& [node, used] : cpu) RC_ASSERT(used <= 6000);
    for (const auto& node : alone) RC_ASSERT(gangs_on[node].size() == 1);
    for (const auto& [node, pods] : pods_on) RC_ASSERT(pods <= kPodsOfANode);
  }
  [[nodiscard]] std::size_t held() const {
    return static_cast<std::size_t>(std::ranges::count_if(last_, [](const auto& e) { return e.second.holds(); }));
  }

 private:
  std::map<AttemptId, Assignment> last_;
};

std::vector<Command> opening() {
  std::vector<Command> batch;
  for (int n = 0; n < kNodes; ++n) {
    auto facts = node_facts(kGpus);
    facts.cpu_milli = 6000;
    facts.pods = kPodsOfANode;
    batch.push_back(NodeUpdated{node_of(n), facts});
  }
  batch.push_back(NodesSynced{{node_of(0), node_of(1), node_of(2), node_of(3)}});
  batch.push_back(PodsSynced{});
  return batch;
}

template <class AfterStep>
void play(const History& history, AfterStep after) {
  Script script(in_zones());
  World world;
  std::vector<Command> follow = opening();
  for (const auto& choices : history) {
    auto batch = std::exchange(follow, {});
    int idle = 0;
    for (const Choice& choice : choices) {
      batch.push_back(command_of(choice, world, script.now()));
      idle += choice.c;
    }
    script.advance(std::chrono::seconds(idle % 97 == 0 ? 400 : idle % 13));
    const Output output = script.step(batch);
    follow = binds_of(output, world);
    after(script, batch, output);
  }
}

TEST(Laws, HoldInGeneratedHistories) {
  std::size_t held = 0;
  EXPECT_TRUE(rc::check("laws", [&held] {
    const auto history = *qm::testing::histories(4);
    Observer observer;
    play(history, [&](Script& script, const std::vector<Command>&, const Output& output) {
      observer.observe(output);
      held += observer.held();
      RC_ASSERT(!output.wake_at || *output.wake_at > script.now());
      const auto& tables = script.engine().tables();
      const bool is_short =
          std::ranges::any_of(tables.workloads, [](const auto& row) { return row.second.short_since != Instant{}; });
      RC_ASSERT(output.pending || (!is_short && script.engine().synced()));
      RC_ASSERT(!output.pending || tables.workloads.size() > 0 || !script.engine().synced());
    });
  }));
  EXPECT_GT(held, 100U) << "the generated histories hardly reserve anything";
}

TEST(Laws, ARestartChangesNothing) {
  EXPECT_TRUE(rc::check("restart", [] {
    const auto history = *qm::testing::histories(4);
    auto other = std::make_unique<Engine>(in_zones());
    play(history, [&](Script& script, const std::vector<Command>& batch, const Output& output) {
      const auto same = other->step(batch, script.now());
      other->commit();
      RC_ASSERT(render(same, true) == render(output, true));
      RC_ASSERT(same.wake_at == output.wake_at);
      RC_ASSERT(other->digest() == script.engine().digest());
      // The other engine restarts after each step, from its rows alone.
      auto fresh = std::make_unique<Engine>(in_zones());
      const Tables& from = other->tables();
      Tables& to = fresh->mutable_tables();
      const auto copy = [](const auto& source, auto& target) {
        for (const auto& [key, row] : source) target.restore(key, row);
      };
      copy(from.nodes, to.nodes), copy(from.cordon_causes, to.cordon_causes), copy(from.observations, to.observations);
      copy(from.pods, to.pods), copy(from.storage, to.storage), copy(from.report, to.report),
          copy(from.workloads, to.workloads), copy(from.assignments, to.assignments);
      copy(from.repartitions, to.repartitions), copy(from.layouts, to.layouts), copy(from.meta, to.meta),
          copy(from.mix, to.mix), copy(from.proposals, to.proposals);
      fresh->rebuild();
      fresh->audit();
      other = std::move(fresh);
    });
  }));
}

// S-057: in any order, no node is given more GPUs than it has: the audit after each step counts them.
TEST(Laws, OrderWithinABatchDoesNotMatter) {
  EXPECT_TRUE(rc::check("order", [] {
    const auto history = *qm::testing::histories(4);
    const auto seed = *rc::gen::arbitrary<unsigned>();
    std::mt19937 random(seed);
    Engine other(in_zones());
    play(history, [&](Script& script, const std::vector<Command>& batch, const Output&) {
      // Facts of one key keep their order, as the bus and the watch do: only batches with one fact
      // of each kind are shuffled.
      auto shuffled = batch;
      std::set<std::size_t> kinds;
      const bool distinct =
          std::ranges::all_of(batch, [&](const Command& c) { return kinds.insert(c.index()).second; });
      if (distinct) std::ranges::shuffle(shuffled, random);
      // A complete list refers to what came before it, and so does the end of a key; an order is
      // decided by the known state.
      const bool lists = std::ranges::any_of(batch, [](const Command& c) {
        return std::holds_alternative<NodesSynced>(c) || std::holds_alternative<PodsSynced>(c) ||
               std::holds_alternative<NodeDeleted>(c) || std::holds_alternative<PodDeleted>(c) ||
               std::holds_alternative<StorageDeleted>(c) || std::holds_alternative<StorageSynced>(c) ||
               std::holds_alternative<OrderLayouts>(c);
      });
      // The node report is written to the node when the node is observed and when the report
      // changes: once or twice, depending on the order.
      const bool written =
          std::ranges::any_of(batch, [](const Command& c) { return std::holds_alternative<NodeUpdated>(c); }) &&
          std::ranges::any_of(batch, [](const Command& c) { return std::holds_alternative<NodeReportUpdated>(c); });
      (void)other.step(lists || written ? batch : shuffled, script.now());
      other.commit();
      RC_ASSERT(other.digest() == script.engine().digest());
    });
  }));
}

}  // namespace laws_prop_test
}  // namespace qm::placement::testing
