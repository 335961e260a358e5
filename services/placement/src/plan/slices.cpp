// Pod by pod: the cheapest device that has the instances, or can be cut so, where each instance in use costs what its gang's eviction costs.
// Tried on a copy of the scene: who is drained ends there, devices are cut there, and every pod takes its instances.
#include "slices.hpp"

#include "cover.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace qm::placement::plan {
namespace {

/// Of a step that is not allowed.
constexpr MicroUsd kNever = std::numeric_limits<MicroUsd>::max() / 1'000'000;

MicroUsd waits(const Scene& scene, GangId gang, const Terms& terms) {
  return static_cast<MicroUsd>(static_cast<Wide>(scene.gang(gang).waiting_per_s) * terms.requeue.count() / 1'000'000);
}

class Slicer {
 public:
  Slicer(const Scene& scene, const Wish& wish, const Terms& terms)
      : scene_(scene), wish_(wish), terms_(terms), table_(mig::StateTable::of(wish.family)) {
    if (!terms.reslice) costs_ = {kNever, kNever, kNever};
  }

  Plan run() const {
    if (auto plan = attempt({}); plan.placed()) return plan;
    std::set<GangId> may_go;
    for (GangId gang = 0; gang < scene_.gangs(); ++gang) {
      if (scene_.runs(gang) && may_evict(scene_, wish_, gang, terms_)) may_go.insert(gang);
    }
    auto best = attempt(may_go);
    // One pod's victim may have been enough for another one, too.
    for (bool again = best.placed(); again;) {
      again = false;
      for (const auto gang : best.displaced()) {
        const auto gone = best.displaced();
        std::set<GangId> others(gone.begin(), gone.end());
        others.erase(gang);
        if (auto fewer = attempt(others); fewer.placed()) {
          best = std::move(fewer);
          again = true;
          break;
        }
      }
    }
    if (best.placed() && wish_.otherwise &&
        static_cast<MicroUsd>(static_cast<Wide>(wish_.waiting_per_s) * wish_.otherwise->count() / 1'000'000) <
            best.cost.total()) {
      best.verdict = Plan::Verdict::kWait;
      best.steps.clear();
    }
    return best;
  }

 private:
  struct Device {
    NodeId node;
    std::int32_t index;
  };

  /// All pods one after the other, with these gangs to displace.
  [[nodiscard]] Plan attempt(const std::set<GangId>& may_go) const {
    Scene scene = scene_;
    Plan plan;
    Step wish;
    wish.what = Step::What::kPlace;
    const auto count = least_of(wish_.request).gang.sets[0].count;
    for (std::int32_t rank = 0; rank < count; ++rank) {
      if (!put(scene, rank, may_go, plan, wish)) return {};
    }
    for (const auto& step : plan.steps) {
      plan.cost.lost_work += step.cost.lost_work;
      plan.cost.waiting += step.cost.waiting;
      plan.cost.reslicing += step.cost.reslicing;
    }
    std::ranges::stable_sort(plan.steps, {}, &Step::what);
    wish.cost.topology = topology_cost(scene.tree(), wish.seats) * terms_.domain;
    plan.cost.topology += wish.cost.topology;
    plan.steps.push_back(std::move(wish));
    plan.verdict = Plan::Verdict::kPlaced;
    plan.exact = count == 1;
    return plan;
  }

  bool put(Scene& scene, std::int32_t rank, const std::set<GangId>& may_go, Plan& plan, Step& wish) const {
    std::vector<Device> devices;
    std::vector<mig::Sliced> sliced;
    for (NodeId node = 0; node < scene.nodes(); ++node) look_at(scene, node, may_go, devices, sliced);
    const auto found = mig::reslice(table_, sliced, wish_.slices, costs_, mig::FirstFit());
    if (!found || found->cost >= kNever) return false;
    const auto [node, device] = devices[found->gpu];
    const auto* cut = scene.cut_of(node, device);
    const auto before = cut == nullptr ? mig::kNoState : cut->layout;
    for (const auto spot : found->drain) {
      const auto gang = scene.holder({node, device, spot});
      if (!gang) continue;  // it has gone with another of its instances
      Step step;
      step.what = Step::What::kEvict;
      step.gang = *gang;
      step.from = scene.gang(*gang).seats;
      step.cost.lost_work = lost_by(scene, *gang, terms_);
      step.cost.waiting = waits(scene, *gang, terms_);
      plan.steps.push_back(std::move(step));
      scene.remove(*gang);
    }
    if (before != found->layout) recut(plan, {node, device, before, found->layout, found->destroy, found->create});
    scene.cut(node, device, wish_.family, found->layout);
    Gang own;
    own.request = wish_.request;
    own.seats = {{0, rank, node, 0}};
    for (const auto spot : found->serve) own.slices.push_back({node, device, spot});
    wish.seats.push_back(own.seats[0]);
    wish.slices.insert(wish.slices.end(), own.slices.begin(), own.slices.end());
    scene.add(std::move(own));
    return true;
  }

  /// A device that is cut a second time is cut once, to what it is at last.
  void recut(Plan& plan, Recut recut) const {
    for (auto& step : plan.steps) {
      if (!step.recut || step.recut->node != recut.node || step.recut->device != recut.device) continue;
      recut.before = step.recut->before;
      plan.steps.erase(plan.steps.begin() + (&step - plan.steps.data()));
      break;
    }
    const auto before = recut.before == mig::kNoState ? mig::SpotMask{0} : table_.mask(recut.before);
    const auto after = table_.mask(recut.after);
    recut.destroy.clear();
    std::erase_if(recut.create, [&](mig::SpotId spot) { return (before >> spot & 1U) != 0; });
    for (mig::SpotId spot = 0; spot < table_.spots().size(); ++spot) {
      const bool was = (before >> spot & 1U) != 0, will = (after >> spot & 1U) != 0;
      if (was && !will) recut.destroy.push_back(spot);
      if (!was && will && std::ranges::find(recut.create, spot) == recut.create.end()) recut.create.push_back(spot);
    }
    Step step;
    step.what = Step::What::kReslice;
    step.cost.reslicing = (recut.before == mig::kNoState ? terms_.reslicing.enable : 0) +
                          terms_.reslicing.destroy * static_cast<MicroUsd>(recut.destroy.size()) +
                          terms_.reslicing.create * static_cast<MicroUsd>(recut.create.size());
    step.recut = std::move(recut);
    plan.steps.push_back(std::move(step));
  }

  void look_at(const Scene& scene, NodeId node, const std::set<GangId>& may_go, std::vector<Device>& devices,
               std::vector<mig::Sliced>& sliced) const {
    if (scene.family(node) != wish_.family) return;
    const auto& set = wish_.request.gang.sets[0];
    if (scene.takes(node, {.pod = set.pod, .gates = set.gates, .exclusive = wish_.request.exclusive}) == 0) return;
    for (std::int32_t device = 0; device < scene.empty(node).gpus; ++device) {
      mig::Sliced one;
      if (const auto* cut = scene.cut_of(node, device); cut != nullptr) {
        one.layout = cut->layout;
        for (mig::SpotId spot = 0; spot < table_.spots().size(); ++spot) {
          if (table_.has(cut->used, spot)) one.used[spot] = drain(scene, {node, device, spot}, may_go);
        }
      } else {
        one.mig = false;
        one.whole = scene.devices(node)[static_cast<std::size_t>(device)] != pack::kDevice;
      }
      devices.push_back({node, device});
      sliced.push_back(std::move(one));
    }
  }
  [[nodiscard]] std::optional<MicroUsd> drain(const Scene& scene, const Slice& slice,
                                              const std::set<GangId>& may_go) const {
    const auto gang = scene.holder(slice);
    if (!gang || !may_go.contains(*gang)) return std::nullopt;
    return lost_by(scene, *gang, terms_) + waits(scene, *gang, terms_);
  }

  const Scene& scene_;
  const Wish& wish_;
  const Terms& terms_;
  const mig::StateTable& table_;
  mig::StepCosts costs_ = terms_.reslicing;
};

}  // namespace

Result<Plan> plan_slices(const Scene& scene, const Wish& wish, const Terms& terms) {
  const auto& group = wish.request.gang;
  if (group.sets.size() != 1 || !group.children.empty() || group.sets[0].pod.gpus > 0 ||
      group.required != gang::kFleet || group.sets[0].slices.size > 1 || group.sets[0].spread.most > 0)
    return fail(Code::kInvalid, "{} asks for MIG instances: one set of pods without devices and topology", wish.name);
  const auto profiles = mig::geometry_of(wish.family).profiles.size();
  if (std::ranges::any_of(wish.slices, [&](mig::ProfileId profile) { return profile >= profiles; }))
    return fail(Code::kInvalid, "{} asks for an instance that its family of GPUs does not have", wish.name);
  return Slicer(scene, wish, terms).run();
}

}  // namespace qm::placement::plan
