#include "qm/placement/plan/repair.hpp"

#include "resettle.hpp"

#include <algorithm>

namespace qm::placement::plan {
namespace {

/// Others leave the domain that the pods are bound to, for a wish of these pods alone.
Result<Repair> by_force(Scene& scene, GangId gang, NodeId lost, const Cramped& cramped, const Terms& terms,
                        const RepairOptions& options) {
  const auto& one = scene.gang(gang);
  const auto set = sets_of(one.request)[static_cast<std::size_t>(cramped.set)];
  std::vector<Seat> leaving;
  std::ranges::copy_if(one.seats, std::back_inserter(leaving), [&](const Seat& seat) { return seat.node == lost; });
  if (leaving.size() != static_cast<std::size_t>(cramped.pods) || set.spread.most > 0)
    return fail(Code::kExhausted, "{} has no room for what it has lost", one.name);
  Wish wish{one.name, {}, one.priority};
  wish.request.exclusive = one.request.exclusive;
  auto& asked = wish.request.gang.sets.emplace_back();
  asked.pod = set.pod;
  asked.gates = set.gates;
  asked.count = cramped.pods;
  wish.victims = options.victims;
  std::vector<NodeId> barred;
  for (NodeId node = 0; node < scene.nodes(); ++node) {
    const bool outside = !scene.tree().within({scene.tree().depth(), node}, cramped.domain);
    if ((outside || node == lost) && scene.bar(node, true)) barred.push_back(node);
  }
  auto found = plan(scene, wish, terms);
  for (const auto node : barred) scene.bar(node, false);
  if (!found) return fail(found.error());
  if (!found->placed())
    return fail(Code::kExhausted, "{} has no room for what it has lost, nor would it if others left", one.name);
  Repair out;
  out.cost = found->cost;
  out.steps = std::move(found->steps);
  auto& own = out.steps.back();
  for (std::size_t i = 0; i < own.seats.size(); ++i) {
    own.seats[i].set = cramped.set;
    own.seats[i].rank = leaving[i].rank;
  }
  std::ranges::copy_if(one.seats, std::back_inserter(own.seats), [&](const Seat& seat) { return seat.node != lost; });
  std::ranges::sort(own.seats);
  return out;
}

}  // namespace

Result<Repair> repair(Scene& scene, GangId gang, NodeId lost, const Terms& terms, const RepairOptions& options) {
  if (!scene.runs(gang)) return fail(Code::kNotFound, "gang {} does not run", gang);
  const auto& one = scene.gang(gang);
  if (std::ranges::none_of(one.seats, [&](const Seat& seat) { return seat.node == lost; }))
    return fail(Code::kNotFound, "{} has no pods on node {}", one.name, lost);
  if (!one.slices.empty()) return fail(Code::kInvalid, "{} has MIG instances: let it ask for others", one.name);
  Targets targets;
  targets.spares = true;
  std::optional<Cramped> why;
  auto seats = resettle(scene, gang, lost, targets, &why);
  Repair out;
  if (seats) {
    out.steps.push_back({Step::What::kMigrate, gang, one.seats, std::move(*seats), {}, {}, {}});
  } else if (options.displace && why) {
    QM_ASSIGN(out, by_force(scene, gang, lost, *why, terms, options));
    auto& own = out.steps.back();
    own.what = Step::What::kMigrate;
    own.gang = gang;
    own.from = one.seats;
  } else {
    return fail(Code::kExhausted, "{} has no room for what it has lost", one.name);
  }
  for (const auto& seat : out.steps.back().seats) {
    if (scene.spare(seat.node) && !std::ranges::binary_search(out.spares, seat.node)) {
      out.spares.push_back(seat.node);
      std::ranges::sort(out.spares);
    }
  }
  return out;
}

Status still_holds(Scene& scene, const Repair& repair) {
  for (const auto node : repair.spares) {
    if (!scene.spare(node)) return fail(Code::kAborted, "node {} is kept no longer", node);
  }
  return moves_hold(scene, repair.steps, true);
}

void carry_out(Scene& scene, const Repair& repair, const Terms& terms) {
  for (const auto node : repair.spares) scene.keep_spare(node, false);
  carry_out(scene, repair.steps, terms);
}

std::vector<NodeId> reserve(Scene& scene, Level level, std::int32_t count) {
  const auto& tree = scene.tree();
  std::vector<std::vector<NodeId>> candidates(tree.size(level));
  std::vector<std::int32_t> kept(tree.size(level), 0);
  for (NodeId node = 0; node < scene.nodes(); ++node) {
    const auto domain = tree.above({tree.depth(), node}, level).index;
    if (scene.lost(node)) continue;
    if (scene.spare(node)) {
      ++kept[domain];
    } else if (scene.on(node).empty()) {
      candidates[domain].push_back(node);
    }
  }
  std::vector<NodeId> out;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto& here = candidates[i];
    std::ranges::sort(here, [&](NodeId a, NodeId b) {
      const auto more = scene.empty(a).gpus, fewer = scene.empty(b).gpus;
      return more != fewer ? more > fewer : a > b;
    });
    const auto missing = std::clamp<std::int64_t>(count - kept[i], 0, static_cast<std::int64_t>(here.size()));
    for (std::int64_t k = 0; k < missing; ++k) out.push_back(here[static_cast<std::size_t>(k)]);
  }
  for (const auto node : out) scene.keep_spare(node, true);
  return out;
}

}  // namespace qm::placement::plan
