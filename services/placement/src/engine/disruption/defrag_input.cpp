// All workloads with devices become gangs of the scene; most of them may move.
#include "qm/placement/defrag_input.hpp"

#include "engine/disruption/hypothetical_evictions.hpp"
#include "qm/model/moves.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

/// Excludes nodes whose pods are of a workload type that must not share nodes with the set.
class UnmanagedPods final : public InterPodConstraints {
 public:
  UnmanagedPods(const FreeCapacity& free_capacity, const std::vector<std::uint32_t>& types)
      : free_capacity_(free_capacity), types_(types) {}
  [[nodiscard]] bool one_by_one(std::size_t) const override { return false; }
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const NodeCapacity&) const override {
    return types_[set] == 0 || (free_capacity_.at(node).types & ~types_[set]) == 0;
  }
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t) const override { return nullptr; }
  [[nodiscard]] std::string rejects(std::size_t, const NodeName&, const NodeCapacity&) const override { return {}; }
  [[nodiscard]] bool has_data(std::size_t, const NodeCapacity&) const override { return false; }
  void take(std::size_t, const NodeName&) override {}

 private:
  const FreeCapacity& free_capacity_;
  const std::vector<std::uint32_t>& types_;
};

}  // namespace

bool Engine::may_defrag(const AttemptId& id, const Assignment& row) const {
  const Workload* workload = tables_.workloads.find(id.uid);
  if (workload == nullptr || workload->attempt != id.attempt || workload->phase != WorkloadPhase::kAdmitted)
    return false;
  if (row.eviction || workload->spec.labels.contains(kUnadmitted)) return false;
  if (stays_where_it_is(workload->spec.kind, workload->spec.labels)) return false;
  if (!std::ranges::all_of(row.members, [](const Member& m) { return m.live(); })) return false;
  if (is_elastic(row.pod_sets)) return false;  // it might run with fewer pods afterwards
  return effective_rules(row.pod_sets, rules_of(id, row.pod_sets)).empty();
}

DefragInput Engine::defrag_input(const std::set<WorkloadUid>& movers) const {
  DefragInput out{index_.preference, nullptr, {}, {}, {}};
  out.preference.prepare(index_.free_capacity);
  out.scene = std::make_unique<plan::ClusterModel>(options_.topology, out.preference.policy());
  out.terms.now = last_now_;
  out.terms.gpu_second = options_.preemption.micro_usd_gpu_second;

  std::set<AttemptId> running;
  for (const auto& [id, row] : tables_.assignments) {
    if (row.holds()) running.insert(id);
  }
  const HypotheticalEvictions lift(*this, std::move(running), movers);

  // Distinct pod sets of the gangs that may move.
  std::vector<PodSet> asked;
  std::vector<std::uint32_t> types;
  std::map<AttemptId, std::vector<std::size_t>> asks;  // by pod set: index in `asked`
  for (const AttemptId& id : lift.attempts()) {
    const Assignment& row = *tables_.assignments.find(id);
    if (!may_defrag(id, row)) continue;
    const auto type = request_for(id.uid).type;
    for (PodSet set : row.pod_sets) {
      set.name.clear();
      set.count = 1;
      set.rules.clear();
      std::size_t known = 0;
      while (known < asked.size() && (asked[known] != set || types[known] != type)) ++known;
      asks[id].push_back(known);
      if (known < asked.size()) continue;
      asked.push_back(std::move(set));
      types.push_back(type);
    }
  }
  GangRequestBuilder everything(asked, options_.topology);
  const UnmanagedPods non_member_pods(index_.free_capacity, types);
  std::map<NodeName, plan::NodeId> numbers;
  std::vector<plan::NodeId> closed;
  for (const auto& [name, as_is] : index_.free_capacity) {
    const NodeCapacity capacity = lift.capacity(name);
    if (capacity.free_milli.size() > pack::kMaxDevices) continue;
    const auto number = out.scene->add_node(everything.path(name, capacity), name.value(),
                                            HypotheticalEvictions::state_of(capacity, out.preference));
    out.scene->fleet().set_gate(number, everything.gate(name, capacity, &non_member_pods));
    numbers[name] = number;
    out.nodes.push_back(name);
    if (!capacity.usable || capacity.slices || capacity.idle_gpus() != std::ssize(capacity.free_milli))
      closed.push_back(number);
  }
  for (const AttemptId& id : lift.attempts()) {
    const Assignment& row = *tables_.assignments.find(id);
    auto gang = lift.gang(id, numbers);
    const auto known = asks.find(id);
    gang.preemptible = gang.movable = known != asks.end();
    std::vector<std::int32_t> positions;
    if (gang.movable) {
      GangRequestBuilder own(row.pod_sets, options_.topology);
      if (own.read(out.scene->tree(),
                   [&](std::size_t position) { return everything.gates_of(known->second[position]); })) {
        // Seats use positions; the gang library numbers sets by their groups.
        for (auto& seat : gang.placements) seat.set = own.number(static_cast<std::size_t>(seat.set));
        std::ranges::sort(gang.placements);
        gang.request = own.request();
        for (std::int32_t set = 0; set < std::ssize(row.pod_sets); ++set)
          positions.push_back(static_cast<std::int32_t>(own.position(set)));
      } else {
        gang.movable = gang.preemptible = false;
      }
    }
    gang.request.exclusive = is_exclusive(row.pod_sets);
    out.gangs.push_back({id, row.ns, row.workload, std::move(positions)});
    out.scene->add(std::move(gang));
  }
  for (const auto number : closed) out.scene->close(number);
  return out;
}

plan::DefragPlan defrag_nodes(const DefragInput& question, const plan::Budget& budget) {
  return plan::consolidate(*question.scene, question.terms, budget);
}

}  // namespace qm::placement
