#include "engine/stage.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

plan::Devices mask_of(const std::vector<DeviceRef>& devices) {
  plan::Devices out = 0;
  for (const DeviceRef& device : devices) out = static_cast<plan::Devices>(out | 1U << device.index);
  return out;
}

}  // namespace

Engine::Stage::Stage(const Engine& engine, const WorkloadUid& uid, std::set<AttemptId> candidates)
    : engine_(engine),
      uid_(uid),
      lifted_{std::move(candidates), {uid}},
      asked_(engine.asked_by(uid)),
      mounted_(engine.mounted(asked_)),
      gang_(mounted_.pod_sets, engine.options_.topology),
      scene_(engine.options_.topology, engine.index_.preference.policy()) {
  for (const AttemptId& id : lifted_.attempts) {
    const Assignment& row = *engine.tables_.assignments.find(id);
    for (std::size_t i = 0; i < row.members.size(); ++i) {
      if (row.members[i].live()) there_[row.members[i].node].emplace_back(id, i);
    }
  }
  drop_misfits();
  add_nodes();
  add_gangs();
  const auto read = gang_.read(scene_.tree());
  valid_ = read.has_value() && mounted_.blocked.empty();
  wish_.name = uid.value();
  wish_.request = gang_.request();
  wish_.request.exclusive = wants_to_be_alone(mounted_.pod_sets);
  wish_.priority = engine.tables_.workloads.find(uid)->spec.priority;
  terms_.now = engine.scratch_.now;
  terms_.gpu_second = engine.options_.proposing.micro_usd_gpu_second;
  terms_.migrate = terms_.reslice = false;
  terms_.effort = engine.options_.proposing.effort;
}

Room Engine::Stage::room(const NodeName& name) const {
  if (there_.contains(name) || engine_.index_.held.contains(name)) return engine_.room_of(name, lifted_);
  return engine_.index_.rooms.at(name);
}

/// Nobody may be on more devices, or have more, than the scene can give back. Where somebody stays who was to be lifted, there is less for the others.
void Engine::Stage::drop_misfits() {
  for (std::set<AttemptId> misfits{AttemptId()}; !misfits.empty();) {
    misfits.clear();
    for (const auto& [name, members] : there_) {
      Room left = engine_.tables_.nodes.contains(name) ? room(name) : Room{};
      for (const auto& [id, position] : members) {
        const Assignment& row = *engine_.tables_.assignments.find(id);
        const Member& member = row.members[position];
        const auto pod = class_of(row.pod_sets[static_cast<std::size_t>(member.set)].shape);
        left.cpu_milli -= pod.cpu_milli;
        left.memory_bytes -= pod.memory_bytes;
        bool fits = --left.pods >= 0 && left.cpu_milli >= 0 && left.memory_bytes >= 0 &&
                    left.free_milli.size() <= pack::kMaxDevices && std::ssize(member.devices) == pod.gpus;
        for (const DeviceRef& device : member.devices) {
          const auto index = static_cast<std::size_t>(device.index);
          fits = fits && index < left.free_milli.size() && device.milli == pod.gpu_milli &&
                 (left.free_milli[index] -= device.milli) >= 0;
        }
        if (!fits) misfits.insert(id);
      }
    }
    for (const AttemptId& id : misfits) lifted_.attempts.erase(id);
    for (auto& [name, members] : there_) {
      std::erase_if(members, [&](const MemberRef& ref) { return misfits.contains(ref.first); });
    }
  }
}

void Engine::Stage::add_nodes() {
  std::optional<Beside> beside;
  if (!asked_.rules.empty()) beside.emplace(*engine_.index_.book, engine_.index_.rooms, mounted_.likes);
  for (const auto& [name, as_is] : engine_.index_.rooms) {
    Room here = room(name);
    if (asked_.type != 0 && (here.types & ~asked_.type) != 0) here.usable = false;
    if (asked_.pool == GpuPool::kWhole && in_slices(*here.facts)) here.usable = false;
    if (here.free_milli.size() > pack::kMaxDevices) continue;
    auto state = engine_.index_.preference.state_of(here);
    for (std::size_t i = 0; i < here.free_milli.size(); ++i)
      state.free[i] = static_cast<std::uint16_t>(here.free_milli[i]);
    const auto number = scene_.add_node(gang_.path(name, here), name.value(), state);
    scene_.fleet().put_behind(number, gang_.gate(name, here, beside ? &*beside : nullptr));
    numbers_[name] = number;
  }
}

/// What has the devices, and what its going would cost; where it might else be is not asked.
void Engine::Stage::add_gangs() {
  for (const AttemptId& id : lifted_.attempts) {
    const Assignment& row = *engine_.tables_.assignments.find(id);
    plan::Gang gang;
    gang.name = id.to_string();
    gang.priority = engine_.tables_.workloads.find(id.uid)->spec.priority;
    for (const PodSet& set : row.pod_sets) gang.request.gang.sets.push_back({class_of(set.shape), set.count});
    for (const Member& member : row.members) {
      if (member.live())
        gang.seats.push_back({member.set, member.index, numbers_.at(member.node), mask_of(member.devices)});
    }
    std::ranges::sort(gang.seats);
    gang.checkpoint = work_since(id);
    gang.restart = engine_.options_.proposing.restart;
    gangs_.push_back(id);
    scene_.add(std::move(gang));
  }
}

Instant Engine::Stage::work_since(const AttemptId& id) const {
  const QuotaStanding& told = engine_.tables_.workloads.find(id.uid)->standing;
  const Instant since = std::max(told.admitted, told.saved);
  return since == Instant{} ? engine_.tables_.assignments.find(id)->decided : since;
}

std::optional<plan::Plan> Engine::Stage::plan() {
  if (!valid_) return std::nullopt;
  auto found = plan::plan(scene_, wish_, terms_);
  if (!found) return std::nullopt;
  return std::move(*found);
}

std::vector<Engine::Stage::Victim> Engine::Stage::leaving(const plan::Plan& found) const {
  std::vector<Victim> out;
  for (const plan::GangId gang : found.displaced()) {
    const auto time = std::max(Duration{}, terms_.now - scene_.gang(gang).checkpoint) + scene_.gang(gang).restart;
    out.push_back(
        {gangs_[gang], scene_.gpu_milli(gang) * time.count() / 1'000'000, plan::lost_by(scene_, gang, terms_)});
  }
  return out;
}

std::set<AttemptId> Engine::Stage::ids(const std::vector<Victim>& victims) {
  std::set<AttemptId> out;
  for (const Victim& victim : victims) out.insert(victim.id);
  return out;
}

bool Engine::Stage::still_holds(const Proposal& row) {
  if (!valid_ || gangs_.size() != row.victims.size()) return false;
  plan::Plan made;
  made.verdict = plan::Plan::Verdict::kPlaced;
  made.cost.lost_work = row.lost_micro_usd;
  made.cost.topology = row.micro_usd - row.lost_micro_usd;
  for (plan::GangId gang = 0; gang < gangs_.size(); ++gang) {
    plan::Step step;
    step.what = plan::Step::What::kEvict;
    step.gang = gang;
    step.from = scene_.gang(gang).seats;
    made.steps.push_back(std::move(step));
  }
  plan::Step comes;
  const auto sets = plan::sets_of(wish_.request);
  for (std::int32_t set = 0; set < std::ssize(sets); ++set) {
    for (const HeldPlace& place : row.places) {
      if (gang_.position(set) != static_cast<std::size_t>(place.set)) continue;
      const auto node = numbers_.find(place.node);
      if (node == numbers_.end()) return false;
      comes.seats.push_back({set, place.index, node->second, mask_of(place.devices)});
    }
  }
  std::ranges::sort(comes.seats);
  made.steps.push_back(std::move(comes));
  return plan::still_holds(scene_, wish_, made, terms_).has_value();
}

}  // namespace qm::placement
