#include "engine/stage.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::placement {
Engine::Stage::Stage(const Engine& engine, const WorkloadUid& uid, std::set<AttemptId> candidates)
    : engine_(engine),
      uid_(uid),
      lift_(engine, std::move(candidates), {uid}),
      asked_(engine.asked_by(uid)),
      mounted_(engine.mounted(asked_)),
      gang_(mounted_.pod_sets, engine.options_.topology),
      scene_(engine.options_.topology, engine.index_.preference.policy()) {
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

void Engine::Stage::add_nodes() {
  std::optional<Beside> beside;
  if (!asked_.rules.empty()) beside.emplace(*engine_.index_.book, engine_.index_.rooms, mounted_.likes);
  for (const auto& [name, as_is] : engine_.index_.rooms) {
    Room here = lift_.room(name);
    if (asked_.type != 0 && (here.types & ~asked_.type) != 0) here.usable = false;
    if (asked_.pool == GpuPool::kWhole && in_slices(*here.facts)) here.usable = false;
    if (here.free_milli.size() > pack::kMaxDevices) continue;
    const auto number =
        scene_.add_node(gang_.path(name, here), name.value(), Lift::state_of(here, engine_.index_.preference));
    scene_.fleet().put_behind(number, gang_.gate(name, here, beside ? &*beside : nullptr));
    numbers_[name] = number;
  }
}

void Engine::Stage::add_gangs() {
  for (const AttemptId& id : lift_.attempts()) {
    gangs_.push_back(id);
    scene_.add(lift_.gang(id, numbers_));
  }
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
