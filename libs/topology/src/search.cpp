// The frame of a search: the request, the capacity, and the message if it does not fit. choose.cpp selects
// the domains.
#include "qm/topology/search.hpp"

#include "need.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::topology {
namespace {

/// The sizes of the slices inside slices, by level; levels between two layers use runs of the inner one.
Result<std::vector<Pods>> inner_sizes(const Tree& tree, const std::vector<SliceLayer>& layers, int level) {
  std::vector<Pods> out(static_cast<std::size_t>(tree.depth()), 0);
  Pods size = layers.empty() ? 1 : layers.front().size;
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const auto inner = tree.level_of(layers[i].level);
    if (!inner)
      return fail(Code::kInvalid, "no requested topology level for additional slice layer: {}", layers[i].level);
    if (*inner <= level) {
      return fail(Code::kInvalid, "additional slice layer topology {} must be at a lower level than {}",
                  layers[i].level, tree.level_key(level));
    }
    if (layers[i].size <= 0 || size % layers[i].size != 0) {
      return fail(Code::kInvalid, "additional slice layer size {} must evenly divide parent layer size {}",
                  layers[i].size, size);
    }
    size = layers[i].size;
    for (++level; level < *inner; ++level) out[static_cast<std::size_t>(level)] = size;
    out[static_cast<std::size_t>(level)] = size;
  }
  return out;
}

}  // namespace

std::string Exclusions::text(const ResourceNames& names) const {
  std::vector<std::string> reasons;
  if (selector > 0) reasons.push_back(fmt::format("nodeSelector: {}", selector));
  if (affinity > 0) reasons.push_back(fmt::format("affinity: {}", affinity));
  if (elsewhere > 0) reasons.push_back(fmt::format("topologyDomain: {}", elsewhere));
  for (const auto& [taint, n] : taints) reasons.push_back(fmt::format("taint \"{}\": {}", taint, n));
  for (const auto& [resource, n] : resources)
    reasons.push_back(fmt::format("resource \"{}\": {}", names.name(resource), n));
  if (reasons.empty()) return "";
  std::ranges::sort(reasons);
  return fmt::format(". Total nodes: {}; excluded: {}", total, fmt::join(reasons, ", "));
}

Result<GangPlacement> Search::place(const PodSetRequest& workers, const PodSetRequest* leader,
                                    const SearchOptions& options) {
  QM_ASSIGN(const Need need, resolve(workers, leader));
  count(workers, leader, options, need);
  QM_ASSIGN(Chosen chosen, choose(need));
  const bool balanced = chosen.balanced;
  GangPlacement out = descend(need, std::move(chosen));
  if (!whole(need, out) && balanced) {
    count(workers, leader, options, need);
    QM_ASSIGN(chosen, choose_level(need, need.level));
    out = descend(need, std::move(chosen));
  }
  if (!whole(need, out)) return no_fit(need, need.level, pods_of(out.workers) / need.slices.size);
  return out;
}

bool Search::whole(const Need& need, const GangPlacement& placed) {
  return pods_of(placed.workers) == need.slice_count() * need.slices.size && pods_of(placed.leader) == need.leaders;
}

Result<Search::Need> Search::resolve(const PodSetRequest& workers, const PodSetRequest* leader) const {
  const TopologyRequest request = workers.topology.value_or(TopologyRequest{});
  const auto& layers = request.slices;
  Need out;
  out.pods = workers.count;
  out.leaders = leader == nullptr ? 0 : 1;  // a leader is one pod
  if (!layers.empty()) {
    if (layers.front().size <= 0) return fail(Code::kInvalid, "slice topology requested, but slice size not provided");
    out.slices.size = layers.front().size;
  }
  out.required = request.required.has_value();
  const bool slices_only = !request.required && !request.preferred && !layers.empty();
  out.unconstrained = request.unconstrained || workers.implied || slices_only;

  auto key = level_key(tree_, workers.topology);
  if (!key && workers.implied) key = tree_.level_key(tree_.lowest());
  if (!key) return fail(Code::kInvalid, "topology level not specified");
  const auto level = tree_.level_of(*key);
  if (!level) return fail(Code::kInvalid, "no requested topology level: {}", *key);
  out.level = *level;

  const auto& slice_key = layers.empty() ? tree_.level_key(tree_.lowest()) : layers.front().level;
  const auto slice_level = tree_.level_of(slice_key);
  if (!slice_level) return fail(Code::kInvalid, "no requested topology level for slices: {}", slice_key);
  out.slices.level = *slice_level;
  if (out.level > out.slices.level) {
    return fail(Code::kInvalid, "podset slice topology {} is above the podset topology {}", slice_key, *key);
  }
  QM_ASSIGN(out.slices.inner, inner_sizes(tree_, layers, out.slices.level));
  if (layers.size() > 1) out.layers = layers;
  return out;
}

void Search::count(const PodSetRequest& workers, const PodSetRequest* leader, const SearchOptions& options,
                   const Need& need) {
  state_.assign(static_cast<std::size_t>(tree_.size()), Counts{});
  excluded_ = Exclusions{};
  const LeafMatcher matcher(topology_, workers.rules);
  const Requests worker = usage_of(workers.per_pod, 1);
  const Requests lead = leader == nullptr ? Requests{} : usage_of(leader->per_pod, 1);
  const DomainRange leaves = tree_.leaves();
  // Kueue compares the path of a leaf with the name of the domain, and a host's name is not its path: a host of a
  // deeper tree contains nothing.
  DomainRange within = options.within == kNoDomain ? leaves : tree_.leaves_of(options.within);
  if (leaves.contains(options.within) && tree_.leaves_are_hosts() && tree_.depth() > 1) within = {};
  static const AssumedUsage kNothing;
  const AssumedUsage& assumed = options.assumed == nullptr ? kNothing : *options.assumed;
  auto next = assumed.begin();

  excluded_.total = leaves.size();
  for (DomainId leaf = leaves.begin; leaf < leaves.end; ++leaf) {
    switch (matcher.of(leaf)) {
      case LeafMatcher::Verdict::kTaint:
        ++excluded_.taints[matcher.taint_in_the_way(leaf)];
        continue;
      case LeafMatcher::Verdict::kSelector:
        ++excluded_.selector;
        continue;
      case LeafMatcher::Verdict::kAffinity:
        ++excluded_.affinity;
        continue;
      case LeafMatcher::Verdict::kMatches:
        break;
    }
    if (gates_.preferred_affinity) at(leaf).affinity = matcher.preference(leaf);
    if (!within.contains(leaf)) {
      ++excluded_.elsewhere;
      continue;
    }
    auto free_amounts = options.simulate_empty ? topology_.free_when_empty(leaf) : topology_.free(leaf);
    while (next != assumed.end() && next->first < leaf) ++next;
    if (next != assumed.end() && next->first == leaf) {
      free_.assign(free_amounts.begin(), free_amounts.end());
      for (const Amount& a : next->second) {
        if (static_cast<std::size_t>(a.resource) >= free_.size())
          free_.resize(static_cast<std::size_t>(a.resource) + 1);
        free_[static_cast<std::size_t>(a.resource)] -= a.amount;
      }
      free_amounts = free_;
    }
    count_leaf(leaf, free_amounts, worker, leader == nullptr ? nullptr : &lead);
  }
  roll_up(tree_, state_, tree_.at(0), need.slices, need.leaders > 0);
}

void Search::count_leaf(DomainId leaf, std::span<const std::int64_t> free_amounts, const Requests& worker,
                        const Requests* leader) {
  Counts& c = at(leaf);
  c.pods = c.pods_with_leader = pods_in(worker, free_amounts);
  if (c.pods == 0) ++excluded_.resources[scarcest(topology_.names(), worker, free_amounts)];
  if (leader == nullptr || pods_in(*leader, free_amounts) == 0) return;
  c.leaders = 1;
  if (free_.data() != free_amounts.data()) free_.assign(free_amounts.begin(), free_amounts.end());
  for (const Amount& a : *leader) {
    // The leader requests none of the missing resources, or it would not fit.
    if (static_cast<std::size_t>(a.resource) < free_.size()) free_[static_cast<std::size_t>(a.resource)] -= a.amount;
  }
  c.pods_with_leader = pods_in(worker, free_);
}

Pods Search::slices_in(DomainId domain, int level, Pods size) const {
  Pods out = 0;
  DomainRange range{domain, domain + 1};
  for (int l = tree_.level(domain); l < level; ++l) range = tree_.children(range);
  for (DomainId d = range.begin; d < range.end; ++d) out += at(d).pods / size;
  return out;
}

tl::unexpected<Error> Search::no_fit(const Need& need, int level, Pods fit) const {
  const auto& topology = topology_.flavor().topology;
  const auto why = excluded_.text(topology_.names());
  if (need.layers.empty()) {
    const auto unit = need.slices.size == 1 ? "pod" : "slice";
    if (fit == 0) {
      return fail(Code::kExhausted, "topology \"{}\" doesn't allow to fit any of {} {}(s){}", topology,
                  need.slice_count(), unit, why);
    }
    return fail(Code::kExhausted, "topology \"{}\" allows to fit only {} out of {} {}(s){}", topology, fit,
                need.slice_count(), unit, why);
  }
  // Of the domain that fits most slices; for hosts the name alone breaks a tie.
  const DomainRange range = tree_.at(level);
  DomainId best = range.begin;
  const bool by_name = level == tree_.lowest() && tree_.leaves_are_hosts();
  for (DomainId d = range.begin; d < range.end; ++d) {
    const bool before = at(d).slices == at(best).slices && by_name && tree_.value(d) < tree_.value(best);
    if (at(d).slices > at(best).slices || before) best = d;
  }
  auto text = fmt::format("topology \"{}\" doesn't allow to fit", topology);
  for (const auto& layer : need.layers) {
    const int at_level = tree_.level_of(layer.level).value_or(tree_.lowest());
    text += fmt::format("; {}/{} slice(s) fit on level {}", slices_in(best, at_level, layer.size),
                        need.pods / layer.size, layer.level);
  }
  return fail(Code::kExhausted, "{}{}", text, why);
}

}  // namespace qm::topology
