// All workloads with devices become gangs of the scene; most of them may move.
#include "qm/placement/tidy.hpp"

#include "engine/lift.hpp"
#include "qm/model/moves.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

/// Excludes nodes whose pods are of a workload type that must not share nodes with the set.
class Strangers final : public Neighbourhood {
 public:
  Strangers(const Rooms& rooms, const std::vector<std::uint32_t>& types) : rooms_(rooms), types_(types) {}
  [[nodiscard]] bool one_by_one(std::size_t) const override { return false; }
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const Room&) const override {
    return types_[set] == 0 || (rooms_.at(node).types & ~types_[set]) == 0;
  }
  [[nodiscard]] const Shifting* shifting(std::size_t) const override { return nullptr; }
  [[nodiscard]] std::string rejects(std::size_t, const NodeName&, const Room&) const override { return {}; }
  [[nodiscard]] bool has_data(std::size_t, const Room&) const override { return false; }
  void take(std::size_t, const NodeName&) override {}

 private:
  const Rooms& rooms_;
  const std::vector<std::uint32_t>& types_;
};

}  // namespace

bool Engine::may_move(const AttemptId& id, const Assignment& row) const {
  const Workload* workload = tables_.workloads.find(id.uid);
  if (workload == nullptr || workload->attempt != id.attempt || workload->phase != WorkloadPhase::kAdmitted)
    return false;
  if (row.eviction || workload->spec.labels.contains(kUnadmitted)) return false;
  if (stays_where_it_is(workload->spec.kind, workload->spec.labels)) return false;
  if (!std::ranges::all_of(row.members, [](const Member& m) { return m.live(); })) return false;
  if (is_elastic(row.pod_sets)) return false;  // it might run with fewer pods afterwards
  return heeded(row.pod_sets, rules_of(id, row.pod_sets)).empty();
}

TidyQuestion Engine::tidy_question(const std::set<WorkloadUid>& movers) const {
  TidyQuestion out{index_.preference, nullptr, {}, {}, {}};
  out.preference.prepare(index_.rooms);
  out.scene = std::make_unique<plan::Scene>(options_.topology, out.preference.policy());
  out.terms.now = last_now_;
  out.terms.gpu_second = options_.proposing.micro_usd_gpu_second;

  std::set<AttemptId> running;
  for (const auto& [id, row] : tables_.assignments) {
    if (row.holds()) running.insert(id);
  }
  const Lift lift(*this, std::move(running), movers);

  // Distinct pod sets of the gangs that may move.
  std::vector<PodSet> asked;
  std::vector<std::uint32_t> types;
  std::map<AttemptId, std::vector<std::size_t>> asks;  // by pod set: index in `asked`
  for (const AttemptId& id : lift.attempts()) {
    const Assignment& row = *tables_.assignments.find(id);
    if (!may_move(id, row)) continue;
    const auto type = asked_by(id.uid).type;
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
  AskedGang everything(asked, options_.topology);
  const Strangers strangers(index_.rooms, types);
  std::map<NodeName, plan::NodeId> numbers;
  std::vector<plan::NodeId> closed;
  for (const auto& [name, as_is] : index_.rooms) {
    const Room room = lift.room(name);
    if (room.free_milli.size() > pack::kMaxDevices) continue;
    const auto number =
        out.scene->add_node(everything.path(name, room), name.value(), Lift::state_of(room, out.preference));
    out.scene->fleet().put_behind(number, everything.gate(name, room, &strangers));
    numbers[name] = number;
    out.nodes.push_back(name);
    if (!room.usable || room.slices || room.idle_gpus() != std::ssize(room.free_milli)) closed.push_back(number);
  }
  for (const AttemptId& id : lift.attempts()) {
    const Assignment& row = *tables_.assignments.find(id);
    auto gang = lift.gang(id, numbers);
    const auto known = asks.find(id);
    gang.touchable = gang.movable = known != asks.end();
    std::vector<std::int32_t> positions;
    if (gang.movable) {
      AskedGang own(row.pod_sets, options_.topology);
      if (own.read(out.scene->tree(),
                   [&](std::size_t position) { return everything.gates_of(known->second[position]); })) {
        // Seats use positions; the gang library numbers sets by their groups.
        for (auto& seat : gang.seats) seat.set = own.number(static_cast<std::size_t>(seat.set));
        std::ranges::sort(gang.seats);
        gang.request = own.request();
        for (std::int32_t set = 0; set < std::ssize(row.pod_sets); ++set)
          positions.push_back(static_cast<std::int32_t>(own.position(set)));
      } else {
        gang.movable = gang.touchable = false;
      }
    }
    gang.request.exclusive = wants_to_be_alone(row.pod_sets);
    out.gangs.push_back({id, row.ns, row.workload, std::move(positions)});
    out.scene->add(std::move(gang));
  }
  for (const auto number : closed) out.scene->lose(number);
  return out;
}

plan::Tidy tidied(const TidyQuestion& question, const plan::Budget& budget) {
  return plan::consolidate(*question.scene, question.terms, budget);
}

}  // namespace qm::placement
