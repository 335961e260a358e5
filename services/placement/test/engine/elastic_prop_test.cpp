// Generated fleets whose nodes are added and removed, with elastic gangs and a controller that
// recreates lost pods. After every step: member counts are never below the minimum or above the
// count, no device is used twice (the audit), no pod is pending that fits, and an engine restored
// from the rows makes the same decisions.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>

namespace qm::placement::testing {
namespace elastic_prop_test {

constexpr int kNodes = 5, kGangs = 3;

Options in_zones() {
  Options options;
  options.topology = {"zone"};
  return options;
}

WorkloadUpdated gang_of(int number) {
  WorkloadUpdated out;
  out.spec.uid = WorkloadUid(fmt::format("w{}", number));
  out.spec.name = out.spec.uid.value();
  out.spec.ns = Namespace("ns");
  out.spec.priority = *rc::gen::inRange(0, 3);
  out.phase = WorkloadPhase::kAdmitted;
  auto set = pod_set(*rc::gen::inRange(2, 9), *rc::gen::inRange(1, 3));
  set.min_count = *rc::gen::inRange(1, set.count + 1);
  if (*rc::gen::inRange(0, 3) == 0) set.topology.required = "zone";
  out.spec.pod_sets = {set};
  if (*rc::gen::inRange(0, 3) == 0) {
    auto leader = pod_set(1, 1);
    leader.name = "leader";
    out.spec.pod_sets.push_back(leader);
  }
  return out;
}

/// Pods as their controllers have them, and an engine that restarts after each step.
class Cluster {
 public:
  void step(const std::vector<Command>& news) {
    auto batch = std::exchange(follow_, {});  // the binds of the step before have been executed
    batch.insert(batch.end(), news.begin(), news.end());
    script_.advance(std::chrono::seconds(1));
    const auto output = script_.step(batch);
    const auto same = again_->step(batch, script_.now());
    again_->commit();
    RC_ASSERT(render(same, true) == render(output, true));
    RC_ASSERT(again_->digest() == script_.engine().digest());
    auto fresh = std::make_unique<Engine>(in_zones());
    const auto copy = [](const auto& source, auto& target) {
      for (const auto& [key, row] : source) target.restore(key, row);
    };
    const Tables& from = again_->tables();
    Tables& to = fresh->mutable_tables();
    copy(from.nodes, to.nodes), copy(from.pods, to.pods), copy(from.workloads, to.workloads);
    copy(from.assignments, to.assignments), copy(from.meta, to.meta), copy(from.mix, to.mix);
    fresh->rebuild();
    again_ = std::move(fresh);
    receive(output);
    check_laws();
  }
  void submit(const WorkloadUpdated& gang) {
    specs_[gang.spec.uid] = gang.spec;
    step({gang});
  }
  void node(int n, int gpus) {
    auto facts = node_facts(gpus);
    facts.labels = {{"zone", n % 2 == 0 ? "x" : "y"}};
    step({NodeUpdated{NodeName(fmt::format("n{}", n)), facts}});
  }
  void lose(int n) {
    const NodeName gone(fmt::format("n{}", n));
    std::vector<Command> batch{NodeDeleted{gone}};
    std::erase_if(pods_, [&](const auto& one) {
      if (one.second.node != gone) return false;
      batch.push_back(PodDeleted{one.first});
      return true;
    });
    step(batch);
  }
  /// The controllers create the missing pods.
  void make_pods() {
    std::vector<Command> batch;
    for (const auto& [uid, spec] : specs_) {
      if (evicted_.contains(uid)) continue;
      for (const PodSet& set : spec.pod_sets) {
        for (std::int32_t rank = 0; rank < set.count; ++rank) {
          const bool there = std::ranges::any_of(pods_, [&, &owner = uid](const auto& one) {
            return one.second.owner == owner && one.second.pod_set == set.name && one.second.index == rank;
          });
          if (there) continue;
          PodFacts pod;
          pod.ns = "ns";
          pod.uid = pod.name = fmt::format("p{}", ++serial_);
          pod.owner = pod.controller = uid;
          pod.attempt = 1;
          pod.pod_set = set.name;
          pod.index = rank;
          pod.ours = true;
          pod.shape = set.shape;
          pods_[pod.uid] = pod;
          batch.push_back(PodUpdated{pod});
        }
      }
    }
    step(batch);
  }
  void sync() { step({NodesSynced{}, PodsSynced{}}); }
  int grown = 0, lost_and_runs = 0;

 private:
  void receive(const Output& output) {
    for (const Intent& intent : output.intents) {
      const auto* bind = std::get_if<BindPod>(&intent.what);
      if (bind == nullptr || !pods_.contains(bind->pod_uid)) continue;
      PodFacts& pod = pods_.at(bind->pod_uid);
      RC_ASSERT(pod.node.empty());  // exactly once
      pod.node = bind->node;
      pod.phase = PodPhase::kRunning;
      follow_.push_back(PodUpdated{pod});
    }
    for (const Event& event : output.events) {
      if (const auto* ask = std::get_if<EvictionRequested>(&event); ask != nullptr && !ask->forgotten)
        evicted_.insert(ask->id.uid);
      const auto* changed = std::get_if<AssignmentChanged>(&event);
      if (changed == nullptr) continue;
      const auto live = std::ranges::count_if(changed->state.members, [](const Member& m) { return m.live(); });
      auto& before = live_[changed->id.uid];
      grown += before > 0 && live > before ? 1 : 0;
      lost_and_runs += live < before && !changed->state.eviction ? 1 : 0;
      before = live;
    }
  }
  /// If one more pod of a set fits, no pod of that set is pending.
  void check_laws() {
    const Engine& engine = script_.engine();
    for (const auto& [id, row] : engine.tables().assignments) {
      if (!row.holds() || row.eviction) continue;
      for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
        std::set<std::int32_t> there;
        NodeName near;
        for (const Member& member : row.members) {
          if (static_cast<std::size_t>(member.set) != set || member.lost) continue;
          there.insert(member.index);
          near = member.node;
        }
        const PodSet& asked = row.pod_sets[set];
        RC_ASSERT(std::ssize(there) >= minimum_of(asked));
        RC_ASSERT(std::ssize(there) <= asked.count);
        const bool waits = std::ranges::any_of(pods_, [&, &uid = id.uid](const auto& one) {
          const PodFacts& pod = one.second;
          return pod.owner == uid && pod.pod_set == asked.name && pod.node.empty() && !there.contains(pod.index);
        });
        if (!waits) continue;
        PodSet one = asked;
        one.count = 1;
        one.min_count = 0;
        one.topology = {};
        if (!asked.topology.required.empty())
          one.shape.node_selector["zone"] = engine.tables().nodes.find(near)->facts.labels.at("zone");
        RC_ASSERT(!engine.dry_run({one}).plan);
      }
    }
  }

  Script script_{in_zones()};
  std::unique_ptr<Engine> again_ = std::make_unique<Engine>(in_zones());
  std::map<WorkloadUid, WorkloadSpec> specs_;
  std::map<std::string, PodFacts> pods_;
  std::vector<Command> follow_;
  std::set<WorkloadUid> evicted_;
  std::map<WorkloadUid, std::ptrdiff_t> live_;
  int serial_ = 0;
};

TEST(ElasticProp, StaysBetweenMinAndMaxAndUsesFreeCapacity) {
  int grown = 0, lost = 0;
  EXPECT_TRUE(rc::check("elastic", [&] {
    Cluster cluster;
    cluster.sync();
    for (int n = 0; n < kGangs; ++n) cluster.submit(gang_of(n));
    const int steps = *rc::gen::inRange(20, 60);
    for (int i = 0; i < steps; ++i) {
      const int what = *rc::gen::inRange(0, 10), n = *rc::gen::inRange(0, kNodes);
      if (what < 4) {
        cluster.node(n, *rc::gen::inRange(1, 9));
      } else if (what < 6) {
        cluster.lose(n);
      } else {
        cluster.make_pods();
      }
    }
    grown += cluster.grown;
    lost += cluster.lost_and_runs;
  }));
  EXPECT_GT(grown, 30) << "hardly any gang scales up";
  EXPECT_GT(lost, 5) << "hardly any gang loses a member and runs on";
}

}  // namespace elastic_prop_test
}  // namespace qm::placement::testing
