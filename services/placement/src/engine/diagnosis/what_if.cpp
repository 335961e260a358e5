// Hypothetical placements: the result, the conflict, and the remedies.
#include "engine/diagnosis/what_if.hpp"

#include "engine/allocator/mounts.hpp"
#include "engine/allocator/volume_limits.hpp"
#include "engine/diagnosis/feasibility_counts.hpp"
#include "qm/kube_rules/node_rules.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

std::string words_of(const LabelSelector& selector) {
  using Op = LabelRequirement::Op;
  std::string out;
  for (const auto& request : selector.requirements) {
    const auto values = fmt::format("{}", fmt::join(request.values, ", "));
    out += out.empty() ? "" : " and ";
    if (request.op == Op::kIn)
      out += request.values.size() == 1 ? fmt::format("{}={}", request.key, values)
                                        : fmt::format("{} in ({})", request.key, values);
    if (request.op == Op::kNotIn) out += fmt::format("{} not in ({})", request.key, values);
    if (request.op == Op::kExists) out += request.key;
    if (request.op == Op::kDoesNotExist) out += "!" + request.key;
  }
  return out.empty() ? "any pod" : out;
}
std::string words_of(const std::optional<LabelSelector>& selector) {
  return selector ? words_of(*selector) : std::string("no pod");
}
std::string words_of(const std::vector<rules::PodTerm>& terms) {
  std::string out;
  for (const auto& term : terms)
    out += fmt::format("{}{} on {}", out.empty() ? "" : " and ", words_of(term.pods), term.topology_key);
  return out;
}

bool matches_own_pods(const rules::PodTerm& term, const rules::PodTemplate& like) {
  const auto& in = term.namespaces;
  const bool own = in.empty() ? !term.namespace_selector : std::ranges::find(in, like.ns.value()) != in.end();
  const bool any = term.namespace_selector && term.namespace_selector->requirements.empty();
  return (own || any) && term.pods && term.pods->matches(like.labels);
}

/// Whether required node affinity contains more than the labels and models that the shape has extracted from
/// it.
bool is_narrower(const rules::PodRules& rules, const PodShape& shape) {
  if (!rules.required) return false;
  if (rules.required->size() != 1 || !rules.required->front().fields.empty()) return true;
  return std::ranges::any_of(rules.required->front().labels, [&](const rules::Requirement& request) {
    if (request.op != rules::Requirement::Op::kIn) return true;
    if (request.key == words::kGpuProduct) return shape.gpu.models.empty();
    const auto taken = shape.node_selector.find(request.key);
    return taken == shape.node_selector.end() || request.values != std::vector<std::string>{taken->second};
  });
}

/// Drops a condition by editing the template at that position.
std::function<void(PlacementRequest&)> without(std::size_t position, void (*edit)(rules::PodRules&)) {
  return [position, edit](PlacementRequest& changed) {
    edit_rules(changed, position, [&](rules::PodTemplate& like) { edit(like.rules); });
  };
}

}  // namespace

WhatIf::WhatIf(const State& state, const Allocator& allocator, const Capacities& capacities,
               const Reservations& reservations)
    : state_(state), allocator_(allocator), capacities_(capacities), reservations_(reservations) {
  if (!state.index.preference.has_drifted()) return;
  own_ = state.index.preference.scored_by_known_mix();
}

WhatIf::~WhatIf() {
  for (const auto id : held_) state_.index.book->release(id);
}

rules::TemplateId WhatIf::hold(const rules::PodTemplate& like) const {
  state_.index.book->keep(like);
  return held_.emplace_back(state_.index.book->hold(like));
}

FreeCapacity& WhatIf::free_capacity(const WorkloadUid& uid, std::optional<FreeCapacity>& own) const {
  if (!state_.tables.workloads.contains(uid)) return state_.index.free_capacity;
  const auto [remedy, nodes] = reservations_.holds_available_to(uid, false);
  if (nodes.empty()) return state_.index.free_capacity;
  own = state_.index.free_capacity;
  for (const NodeName& name : nodes) own->at(name) = capacities_.capacity_of(name, remedy);
  return *own;
}

PlacementResult WhatIf::place(const PlacementRequest& request, FreeCapacity& free_capacity) const {
  return decide(request, free_capacity, ResultDetail::kReason);
}

bool WhatIf::fits(const PlacementRequest& request, FreeCapacity& free_capacity) const {
  return decide(request, free_capacity, ResultDetail::kWhether).plan.has_value();
}

PlacementResult WhatIf::decide(const PlacementRequest& request, FreeCapacity& free_capacity,
                               ResultDetail wanted) const {
  PlacementRequest effective_rules = request;
  effective_rules.rules = allocator_.effective_rules(request.pod_sets, request.rules);
  return allocator_.place(effective_rules, free_capacity, own_ ? *own_ : state_.index.preference, nullptr, wanted);
}

std::optional<Diagnosis> WhatIf::near(const PlacementRequest& request, const FreeCapacity& free_capacity) const {
  const auto pod_sets = allocator_.mounted(request).pod_sets;
  if (!has_topology(pod_sets)) return std::nullopt;
  return diagnose_topology(pod_sets, free_capacity, own_ ? *own_ : state_.index.preference, state_.options.topology);
}

Demands WhatIf::demands(const PlacementRequest& request, std::size_t position) const {
  Demands out;
  std::vector<rules::NodeSet> met;  // nodes that meet the demands of the rule book, from `first` on
  std::size_t first = 0;
  const auto& shared = state_.options.apart;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    if ((request.type >> i & 1) == 0) others.push_back(shared[i]);
  }
  if (request.type != 0) {
    out.all.push_back({fmt::format("no pods for {} on the node", fmt::join(others, " or ")),
                       fmt::format("on a node with pods for {}", fmt::join(others, " or ")),
                       [](PlacementRequest& changed) { changed.type = 0; }});
  }
  if (request.pool == GpuPool::kWhole) {
    out.all.push_back({"whole GPUs, the default for its type", "with GPUs in slices too",
                       [](PlacementRequest& changed) { changed.pool = GpuPool::kAny; }});
  }
  first = out.all.size();
  const auto like = position < request.rules.size() ? rules::template_of(request.rules[position]) : std::nullopt;
  const auto& book = *state_.index.book;
  const auto put = [&](Demand demand, rules::NodeSet nodes) {
    if (out.all.size() == kMaxDemands) return;
    out.all.push_back(std::move(demand));
    met.push_back(std::move(nodes));
  };
  if (like) {
    const rules::PodRules& r = like->rules;
    const auto id = hold(*like);
    out.weighs = !book.indifferent(id) || !r.affinity.empty() || !r.preferred_affinity.empty() ||
                 !r.preferred_anti_affinity.empty();
    for (const std::string& claim : r.claims) {
      Demand demand{"claim " + claim, "without claim " + claim, [claim, position](PlacementRequest& changed) {
                      edit_rules(changed, position,
                                 [&](rules::PodTemplate& edited) { std::erase(edited.rules.claims, claim); });
                    }};
      rules::PodTemplate alone{like->ns, {}, {}};
      alone.rules.claims = {claim};
      const auto mounts = mounts_of(state_.tables, alone);
      if (!mounts.blocked.empty()) {
        demand.words = mounts.blocked;
        put(std::move(demand), {});
        continue;
      }
      std::string where;
      for (const auto& reach : mounts.reach) {
        where += fmt::format("{}{}", where.empty() ? "" : " and ", rules::words_of(reach.nodes));
        if (reach.name != claim) demand.words = fmt::format("claim {} with volume {}", claim, reach.name);
      }
      if (!where.empty()) demand.words += fmt::format(", in reach where {}", where);
      if (!mounts.one_node.empty() && request.pod_sets[position].count > 1) {
        demand.words += ", used on one node at a time";
        demand.moves = true;
      }
      if (where.empty() && !demand.moves) continue;
      alone.rules.claims.clear();
      alone.rules.volumes = mounts.reach;
      put(std::move(demand), book.admitted(hold(alone), "volumes"));
    }
    for (const auto& own : r.own_claims) {
      Demand demand{"volume " + own.volume, "without volume " + own.volume, [own, position](PlacementRequest& changed) {
                      edit_rules(changed, position,
                                 [&](rules::PodTemplate& edited) { std::erase(edited.rules.own_claims, own); });
                      if (position >= changed.own_claims.size()) return;
                      std::erase_if(changed.own_claims[position],
                                    [&](const PodClaim& claim) { return claim.volume == own.volume; });
                    }};
      rules::PodTemplate alone{like->ns, {}, {}};
      alone.rules.own_claims = {own};
      std::vector<PodClaim> there;
      if (position < request.own_claims.size()) there = request.own_claims[position];
      std::erase_if(there, [&](const PodClaim& claim) { return claim.volume != own.volume; });
      auto mounts = mounts_of(state_.tables, alone, there);
      std::string where;
      for (const auto& reach : mounts.reach)
        where += fmt::format("{}{}", where.empty() ? "" : " and ", rules::words_of(reach.nodes));
      if (mounts.blocked.empty() && where.empty()) continue;
      demand.words =
          mounts.blocked.empty() ? fmt::format("volume {} provisioned where {}", own.volume, where) : mounts.blocked;
      alone.rules.own_claims.clear();
      alone.rules.volumes = std::move(mounts.reach);
      put(std::move(demand), mounts.blocked.empty() ? book.admitted(hold(alone), "volumes") : rules::NodeSet());
    }
    std::vector<std::optional<rules::PodTemplate>> likes(position + 1);
    likes[position] = like;
    if (const VolumeLimits attaching(state_.tables, state_.index.claims, likes, request.pod_sets, nullptr, nullptr);
        attaching.matters()) {
      rules::NodeSet nodes;
      std::set<std::string> drivers;
      const PodSet& set = request.pod_sets[position];
      for (const auto& [name, capacity] : state_.index.free_capacity) {
        const auto [pods, driver] = attaching.bound(position, name);
        if (pods > 0) nodes.insert(book.index_of(name).value());
        if (pods < std::clamp<std::int64_t>(pods_that_fit(capacity, set.shape), 1, set.count)) drivers.insert(*driver);
      }
      const auto words = fmt::format("volumes of {}", fmt::join(drivers, " and "));
      std::vector<std::string> claims;
      std::vector<rules::OwnClaim> own_claims;
      std::ranges::copy_if(r.claims, std::back_inserter(claims), [&](const auto& claim) {
        const auto volume = attached_by(state_.tables, {fmt::format("{}/{}", like->ns, claim), std::string()});
        return volume && drivers.contains(volume->driver);
      });
      std::ranges::copy_if(r.own_claims, std::back_inserter(own_claims), [&](const auto& own) {
        const auto* made_by = class_of(state_.tables, own.storage_class);
        return made_by != nullptr && drivers.contains(made_by->driver);
      });
      const auto relax = [position, claims, own_claims](PlacementRequest& changed) {
        edit_rules(changed, position, [&](rules::PodTemplate& edited) {
          for (const auto& claim : claims) std::erase(edited.rules.claims, claim);
          for (const auto& own : own_claims) std::erase(edited.rules.own_claims, own);
        });
        if (position >= changed.own_claims.size()) return;
        std::erase_if(changed.own_claims[position], [&](const PodClaim& claim) {
          return std::ranges::find(own_claims, claim.volume, &rules::OwnClaim::volume) != own_claims.end();
        });
      };
      if (!drivers.empty()) put({words + " in addition to those attached", "without its " + words, relax, true}, nodes);
    }
    if (is_narrower(r, request.pod_sets[position].shape)) {
      put({fmt::format("node affinity ({})", rules::words_of(*r.required)), "without its node affinity",
           without(position, [](rules::PodRules& rules) { rules.required.reset(); })},
          book.admitted(id, "affinity"));
    }
    if (!r.ports.empty()) {
      std::string ports;
      for (const auto& port : r.ports)
        ports += fmt::format("{}{}/{}", ports.empty() ? "" : " and ", port.port, port.protocol);
      put({"host port " + ports, "without host port " + ports,
           without(position, [](rules::PodRules& rules) { rules.ports.clear(); }), false, std::string(kHostname)},
          book.admitted(id, "host ports"));
    }
    for (const auto& spread : r.spread) {
      if (!spread.required) continue;
      // A node with too many matching pods may admit one after other nodes have got more.
      put({fmt::format("topology spread of {} over {}", words_of(spread.pods), spread.topology_key),
           "without its topology spread", without(position, [](rules::PodRules& rules) { rules.spread.clear(); }),
           true},
          book.nodes());
      break;
    }
    if (!r.affinity.empty()) {
      const bool own = std::ranges::any_of(r.affinity, [&](const auto& term) { return matches_own_pods(term, *like); });
      const bool grows = own || request.pod_sets.size() > 1;
      const auto text = words_of(r.affinity);
      put({"pod affinity to " + text, "without pod affinity to " + text,
           without(position, [](rules::PodRules& rules) { rules.affinity.clear(); }), grows},
          grows ? book.nodes() : book.admitted(id, "pod affinity"));
    }
    if (!r.anti_affinity.empty()) {
      const auto text = words_of(r.anti_affinity);
      Demand demand{"pod anti-affinity to " + text, "without pod anti-affinity to " + text,
                    without(position, [](rules::PodRules& rules) { rules.anti_affinity.clear(); })};
      for (const auto& term : r.anti_affinity) {
        if (matches_own_pods(term, *like) && demand.one_by != kHostname) demand.one_by = term.topology_key;
      }
      demand.moves = !demand.one_by.empty() || request.pod_sets.size() > 1;
      put(std::move(demand), book.admitted(id, "pod anti-affinity"));
    }
    if (book.repelled(id)) {
      put({"pods whose anti-affinity matches its labels", "with labels that no pod anti-affinity matches",
           [position](PlacementRequest& changed) {
             edit_rules(changed, position, [](rules::PodTemplate& edited) { edited.labels.clear(); });
           }},
          book.admitted(id, "anti-affinity of others"));
    }
  }
  if (out.all.empty()) return out;
  out.failed = [&book, met = std::move(met), first, type = request.type, pool = request.pool](
                   const NodeName& name, const NodeCapacity& capacity) {
    std::uint32_t failed = 0;
    if (type != 0 && (capacity.types & ~type) != 0) failed |= 1U;
    if (pool == GpuPool::kWhole && capacity.slices) failed |= type != 0 ? 2U : 1U;
    if (met.empty()) return failed;
    const auto index = capacity.number ? capacity.number : book.index_of(name);
    for (std::size_t i = 0; i < met.size(); ++i) {
      if (!index || !met[i].contains(*index)) failed |= 1U << (first + i);
    }
    return failed;
  };
  return out;
}

}  // namespace qm::placement
