// Generated histories of a cloud that loses responses, lacks capacity, and reclaims instances, with events in any
// order and repeated: the laws hold after every step, a restart changes nothing, and facts of different kinds may be
// reordered. Script::step adds to each step the undo check, and the check that a step without inputs has no output.
#include "qm/testing/histories.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>

namespace qm::autoscaler::testing {
namespace laws_prop_test {

constexpr int kWorkloads = 4, kAttempts = 3;
constexpr std::int64_t kLimit = 24;
constexpr std::int64_t kMostNodes = 4;  // of the pool with a number of instances

using qm::testing::Choice, qm::testing::History;

/// The actual state of the cloud and the cluster, independent of the events to the engine.
struct World {
  std::map<ClaimName, LaunchIntent> asked;  ///< launches without a response so far
  std::map<InstanceId, InstanceFact> instances;
  std::map<NodeName, NodeUpdated> nodes;  ///< as last published
  std::map<NodeName, Instant> taken;      ///< first published notice
  std::map<WorkloadUid, DemandUpdated::Item> demand;
  std::vector<std::pair<std::string, std::vector<NodeName>>> orders;
  std::vector<Command> published;
  int serial = 0;

  template <class Map>
  static auto pick(Map& map, int n) {
    return map.empty() ? map.end() : std::next(map.begin(), n % static_cast<int>(map.size()));
  }
  InstanceId start(const LaunchIntent& l, Instant now) {
    const std::string n = std::to_string(++serial);
    InstanceFact fact{InstanceId("i-" + n), l.claim,           l.row.pool, l.row.type, l.row.zone,
                      l.row.market,         NodeName("n" + n), now,        {}};
    instances[fact.id] = fact;
    return fact.id;
  }
  InstancesListed described(int without) const {
    InstancesListed seen;
    int n = 0;
    for (const auto& [id, fact] : instances) {
      if (++n != without) seen.instances.push_back(fact);
    }
    return seen;
  }
};

Pool pool_of(int n) {
  Pool p;
  p.name = n == 0 ? "a" : "b";
  p.instance_types = n == 0 ? std::vector<std::string>{"a8", "h8"} : std::vector<std::string>{"g1", "g4"};
  p.markets = {Market::kSpot, Market::kOnDemand};
  p.zones = {"z1", "z2"};
  p.limit_gpus = kLimit;
  p.consolidate_after = std::chrono::seconds(60 * n);
  p.lifecycle.template_hash = "1";
  if (n == 0) p.lifecycle.expire_after = std::chrono::seconds(4000);
  if (n == 1) p.lifecycle.termination_grace = std::chrono::seconds(300);
  return p;
}

/// With a number of instances, a limit on them, and open requirements.
Pool fixed_pool(int n) {
  Pool p = pool_of(1);
  p.name = "s";
  p.zones.clear();
  p.not_zones = {"z1"};
  p.rules = {Requirement{"team", false, {"blue", "red"}, {}, {}, {}}};
  p.limit_nodes = kMostNodes;
  p.replicas = n % 6;
  p.lifecycle.template_hash = n % 2 == 0 ? "1" : "2";
  return p;
}

Command command_of(const Choice& c, World& world, Instant now) {
  if (c.what < 18) {
    const WorkloadUid uid(fmt::format("w{}", c.a % kWorkloads));
    if (c.b % 4 == 0) {
      world.demand.erase(uid);
    } else {
      const auto n = static_cast<std::int32_t>(1 + c.c % 3);
      world.demand[uid] = {{uid, 1 + c.b % kAttempts}, {pod_set(n, c.a % 2 == 0 ? 8 : 1)}, c.b % 2, from_micros(0)};
      if (c.c % 5 == 0) world.demand[uid].pod_sets.push_back(pod_set(1, 0));
    }
    DemandUpdated update;
    for (const auto& [id, item] : world.demand) update.items.push_back(item);
    return update;
  }
  if (c.what < 34) {
    const auto it = World::pick(world.asked, c.a);
    if (it == world.asked.end()) return Tick{};
    const LaunchIntent intent = it->second;
    world.asked.erase(it);
    if (c.b % 4 == 0) return LaunchEnded{intent.claim, InstanceId(), "no capacity"};
    const InstanceId id = world.start(intent, now);
    if (c.b % 4 == 1) return Tick{};              // the response is lost
    if (c.b % 16 == 2) world.start(intent, now);  // the cloud launches two instances
    return LaunchEnded{intent.claim, id, ""};
  }
  if (c.what < 50) return world.described(c.a % 7);
  if (c.what < 66) {
    const auto it = World::pick(world.instances, c.a);
    if (it == world.instances.end()) return Tick{};
    const InstanceFact& fact = it->second;
    NodeUpdated update{
        fact.node, c.b % 5 != 0, c.b % 3 == 0, fact.stopped.has_value() || c.b % 11 == 0, c.c % 3 == 0 ? c.c % 4 : 0,
        {},        fact.id};
    if (update.pods == 0) update.empty_since = now - std::chrono::seconds(c.c % 100);
    if (update.gone) {
      world.nodes.erase(update.node);
      world.taken.erase(update.node);
    } else {
      world.nodes[update.node] = update;
    }
    return update;
  }
  if (c.what < 70) {
    const auto it = World::pick(world.instances, c.a);
    if (it == world.instances.end()) return Tick{};
    if (!it->second.stopped) it->second.stopped = now;
    return world.described(0);
  }
  if (c.what < 76) {
    AssignmentUpdated update{
        {WorkloadUid(fmt::format("w{}", c.a % kWorkloads)), 1 + c.b % kAttempts}, c.c % 3 != 0, {}};
    for (const auto& [name, node] : world.nodes) {
      if (update.live && update.nodes.size() < 2) update.nodes.push_back(name);
    }
    return update;
  }
  if (c.what < 80) {
    return WorkloadUpdated{WorkloadUid(fmt::format("w{}", c.a % kWorkloads)), 1 + c.b % kAttempts, c.c % 2 == 0,
                           c.c % 7 == 0};
  }
  if (c.what < 85) {
    const auto it = World::pick(world.nodes, c.a);
    const NodeName node = it == world.nodes.end() || c.c % 9 == 0 ? NodeName("nowhere") : it->first;
    const Instant at = now + std::chrono::seconds(c.b % 150);
    world.taken.emplace(node, at);
    return SpotNoticeUpdated{node, at};
  }
  if (c.what < 86) {
    return SaveRequested{{WorkloadUid(fmt::format("w{}", c.a % kWorkloads)), 1 + c.b % kAttempts},
                         NodeName(fmt::format("n{}", c.c % 3)),
                         "MigLayout",
                         now + std::chrono::seconds(c.b % 150),
                         c.c % 4 == 0};
  }
  if (c.what < 92) {
    const auto answer = [&](const NodeName& node, checkpoint::Fence fence) {
      checkpoint::Answer out{node, fence, 1, {}, {}};
      if (c.c % 8 == 0) out.refusal = "refused";
      if (c.c % 8 != 0) out.saves.push_back({c.c % 3, 0, 1, fmt::format("s3://{}", c.c % 3), 0, Duration{0}});
      return out;
    };
    if (world.orders.empty()) return AckUpdated{"w0/1/nowhere", answer(NodeName("n1"), {1, 1})};
    const auto& [id, nodes] = world.orders[static_cast<std::size_t>(c.a) % world.orders.size()];
    const auto slash = id.rfind('/');
    return AckUpdated{id, answer(nodes[static_cast<std::size_t>(c.b) % nodes.size()],
                                 {attempt_id(id.substr(0, slash)).attempt, c.c % 16 == 1 ? 9999 : 0})};
  }
  if (c.what < 94) {
    const auto it = World::pick(world.nodes, c.a);
    return it == world.nodes.end() ? Command(Tick{}) : Command(HealthUpdated{it->first, c.b % 2 == 0});
  }
  if (c.what < 95) {
    const auto it = World::pick(world.nodes, c.a);
    if (it == world.nodes.end()) return Tick{};
    NodeDetailsUpdated update{it->first, c.b % 9 == 0, {}};
    update.details.instance = it->second.instance;
    update.details.serves = c.c % 2 == 0;
    if (c.b % 4 == 1) update.details.unhealthy = "Ready is False", update.details.repair_at = now;
    if (c.b % 4 == 2) update.details.holding = {{"a/b", std::chrono::seconds(c.c % 900), now, ""}};
    if (c.b % 4 == 3) update.details.holding = {{"a/b", Duration::max(), now, c.c % 3 == 0 ? "a/guard" : ""}};
    return update;
  }
  if (c.what < 96) {
    return SpotPricesUpdated{{{c.a % 2 == 0 ? "a8" : "g4", c.b % 2 == 0 ? "z1" : "z2",
                               HourlyRate{Money::nano(1'000'000'000LL * (c.c % 50))}, now}}};
  }
  if (c.what < 97) {
    Pool changed = pool_of(1);
    if (c.c % 2 == 0) changed.lifecycle.template_hash = "2";
    return PoolsApplied{c.a % 3 == 0   ? std::vector{pool_of(0)}
                        : c.a % 3 == 1 ? std::vector{pool_of(0), changed}
                                       : std::vector{pool_of(0), changed, fixed_pool(c.b)}};
  }
  // Repeats the last state of all published objects, as after a restart of a producer.
  if (world.published.empty()) return Tick{};
  const Command& again =
      world.published[world.published.size() - 1 -
                      static_cast<std::size_t>(c.a) % std::min<std::size_t>(world.published.size(), 5)];
  const bool level = std::holds_alternative<AckUpdated>(again) || std::holds_alternative<LaunchEnded>(again) ||
                     std::holds_alternative<SpotPricesUpdated>(again);
  return level ? again : Command(Tick{});
}

/// Checks the outputs, from the view of the other services and the cloud.
class Observer {
 public:
  void see(const World& world, const Output& out, Instant now) {
    for (const auto& e : out.instances) {
      if (e.over) {
        RC_ASSERT(e.row.state == ClaimState::kGone || e.row.state == ClaimState::kFailed);
        claims_.erase(e.claim);
      } else {
        claims_[e.claim] = e.row;
      }
    }
    std::map<std::string, std::int64_t> gpus, nodes;
    std::map<InstanceId, int> stands;
    for (const auto& [name, row] : claims_) {
      if (row.state == ClaimState::kGone || row.state == ClaimState::kFailed) continue;
      ++nodes[row.pool];
      gpus[row.pool] += row.type == "g1" ? 1 : row.type == "g4" ? 4 : 8;
      if (!row.instance.empty()) RC_ASSERT(++stands[row.instance] == 1);
    }
    for (const auto& l : out.launches) {
      RC_ASSERT(launched_.insert(l.claim).second);
      RC_ASSERT(gpus[l.row.pool] <= kLimit);
      RC_ASSERT(l.row.pool != "s" || (nodes["s"] <= kMostNodes && l.row.zone != "z1" && l.row.labels.contains("team")));
    }
    for (const auto& t : out.terminations) {
      const auto node = world.nodes.find(claims_.at(t.claim).node);
      const bool this_one = node != world.nodes.end() && node->second.instance == t.instance;
      if (!this_one || node->second.pods == 0) continue;
      const auto& deadline = claims_.at(t.claim).life.deadline;
      if (deadline && *deadline <= now) continue;  // of its drain
      const auto taken = world.taken.find(node->first);
      RC_ASSERT(taken != world.taken.end() && taken->second <= now);
    }
    for (const auto& p : out.promises) {
      RC_ASSERT(!p.withdrawn || promised_.contains(p.id.uid));
      if (p.withdrawn) {
        promised_.erase(p.id.uid);
      } else {
        RC_ASSERT(p.ready_by > now && !p.claims.empty());
        promised_.insert(p.id.uid);
      }
    }
    for (const auto& o : out.orders) {
      if (o.row.outcome.empty()) {
        RC_ASSERT(open_.insert(o.id).second);
      } else {
        RC_ASSERT(open_.erase(o.id) == 1U);
        RC_ASSERT(o.row.outcome != "Acked" || o.row.save.answers.size() == o.row.save.nodes.size());
        for (const auto& a : o.row.save.answers)
          RC_ASSERT(a.fence.number != 9999 && a.fence.attempt == o.row.id.attempt);
      }
    }
    for (const auto& e : out.evictions) {
      const auto key = std::pair(e.id, e.node);
      if (e.over) {
        RC_ASSERT(evicted_.erase(key) == 1U);
      } else {
        RC_ASSERT(evicted_.insert(key).second);
      }
    }
  }
  [[nodiscard]] std::size_t work() const { return launched_.size() + evicted_.size(); }

 private:
  std::map<ClaimName, Claim> claims_;
  std::set<ClaimName> launched_;
  std::set<WorkloadUid> promised_;
  std::set<std::string> open_;
  std::set<std::pair<AttemptId, NodeName>> evicted_;
};

template <class AfterStep>
void play(const History& history, AfterStep after) {
  Script script;
  World world;
  std::vector<Command> batch{PoolsApplied{{pool_of(0), pool_of(1), fixed_pool(2)}}};
  for (const auto& choices : history) {
    int idle = 0;
    for (const Choice& choice : choices) {
      Command command = command_of(choice, world, script.now());
      world.published.push_back(command);
      batch.push_back(std::move(command));
      idle += choice.c;
    }
    // Notices are dated before the time advances, so some are late.
    script.advance(std::chrono::seconds(idle % 97 == 0 ? 1000 : idle % 31));
    const Output out = script.step(batch);
    for (const auto& l : out.launches) world.asked.emplace(l.claim, l);
    for (const auto& o : out.orders) world.orders.emplace_back(o.id, o.row.save.nodes);
    after(script, world, batch, out);
    batch.clear();
  }
}

TEST(Laws, HoldInGeneratedHistories) {
  std::size_t work = 0;
  EXPECT_TRUE(rc::check("laws", [&work] {
    const auto history = *qm::testing::histories(5);
    Observer observer;
    play(history, [&](Script& script, const World& world, const std::vector<Command>&, const Output& out) {
      observer.see(world, out, script.now());
      RC_ASSERT(script.complaint() == "");
    });
    work += observer.work();
  }));
  EXPECT_GT(work, 500U) << "the generated histories hardly decide anything";
}

TEST(Laws, ARestartChangesNothing) {
  EXPECT_TRUE(rc::check("restart", [] {
    const auto history = *qm::testing::histories(5);
    auto other = std::make_unique<Engine>(small_catalog());
    play(history, [&](Script& script, const World&, const std::vector<Command>& batch, const Output& out) {
      const auto same = other->step(batch, script.now());
      other->commit();
      RC_ASSERT(script.render(same) == script.render(out));
      RC_ASSERT(same.wake_at == out.wake_at);
      RC_ASSERT(other->digest() == script.engine().digest());
      auto fresh = std::make_unique<Engine>(small_catalog());
      const Tables& from = other->tables();
      Tables& to = fresh->mutable_tables();
      const auto copy = [](const auto& source, auto& target) {
        for (const auto& [key, row] : source) target.restore(key, row);
      };
      copy(from.pools, to.pools), copy(from.claims, to.claims), copy(from.nodes, to.nodes);
      copy(from.attempts, to.attempts), copy(from.workloads, to.workloads), copy(from.demand, to.demand);
      copy(from.plans, to.plans), copy(from.orders, to.orders), copy(from.saves, to.saves),
          copy(from.spot_prices, to.spot_prices);
      copy(from.blocked, to.blocked), copy(from.counters, to.counters), copy(from.unclaimed, to.unclaimed);
      copy(from.checkpoints, to.checkpoints), copy(from.schedules, to.schedules);
      copy(from.hazards, to.hazards), copy(from.instance_notices, to.instance_notices);
      copy(from.node_details, to.node_details);
      copy(from.launch_faults, to.launch_faults), copy(from.drift_back_offs, to.drift_back_offs);
      copy(from.buffers, to.buffers), copy(from.overlays, to.overlays);
      other = std::move(fresh);
    });
  }));
}

TEST(Laws, FactsOfDifferentKindsMayChangePlaces) {
  EXPECT_TRUE(rc::check("order", [] {
    const auto history = *qm::testing::histories(5);
    std::mt19937 random(*rc::gen::arbitrary<unsigned>());
    Engine other(small_catalog());
    play(history, [&](Script& script, const World&, const std::vector<Command>& batch, const Output&) {
      // Facts of one key keep their order, as on their carrier: only batches with one fact of each kind are reordered.
      auto shuffled = batch;
      std::set<std::size_t> kinds;
      const bool distinct =
          std::ranges::all_of(batch, [&](const Command& c) { return kinds.insert(c.index()).second; });
      // Marks of a node, and its end, have the same key here; and a poll is older or newer than a response.
      const bool ends = std::ranges::any_of(batch, [](const Command& c) {
        const auto* node = std::get_if<NodeUpdated>(&c);
        return (node != nullptr && node->gone) || std::holds_alternative<InstancesListed>(c);
      });
      if (distinct && !ends) std::ranges::shuffle(shuffled, random);
      (void)other.step(shuffled, script.now());
      other.commit();
      RC_ASSERT(other.digest() == script.engine().digest());
    });
  }));
}

}  // namespace laws_prop_test
}  // namespace qm::autoscaler::testing
