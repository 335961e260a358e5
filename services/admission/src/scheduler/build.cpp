// Builds the quota trees from the objects.
#include "qm/admission/kueue/forest.hpp"
#include "scheduler/continuous_scheduler.hpp"
#include "scheduler/cycle_scheduler.hpp"
#include "scheduler/decisions.hpp"
#include "scheduler/pool_scheduler.hpp"

#include <algorithm>

namespace qm::admission {

void Decisions::build(const std::map<QueueName, ClusterQueue>& queues, const std::map<std::string, Cohort>& cohorts,
                      const std::map<FlavorName, Flavor>& flavors, const std::map<LocalName, LocalQueue>& locals,
                      const std::set<QueueName>& idle, Instant now, TopologyNodes nodes) {
  *this = Decisions(rules_);
  nodes_ = std::move(nodes);
  nodes_.build(flavors, names_.flavors);
  ages_ = Ages(now);
  for (const auto& [key, local] : locals) {
    const auto [it, fresh] = only_local_.try_emplace(key.first, key.second);
    if (!fresh) it->second.clear();
  }
  patterns_ = Patterns(flavors);
  std::vector<const Cohort*> pools;
  for (const auto& [name, cohort] : cohorts) {
    if (cohort.sharing) pools.push_back(&cohort);
  }
  kueue::Forest forest;
  for (const auto& [name, cohort] : cohorts) {
    forest.cohorts[name] = {cohort.parent, static_cast<double>(cohort.weight_milli) / 1000,
                            offers_of(cohort.groups, nullptr)};
  }
  for (const auto& [name, queue] : queues) {
    if (queue.volcano && pools.size() != 1) {
      pool_errors_[name] = pools.empty() ? "no Cohort is a pool of Volcano queues"
                                         : fmt::format("several Cohorts are pools of Volcano queues: {} and {}",
                                                       pools[0]->name, pools[1]->name);
      continue;
    }
    auto& out = forest.queues[name.value()];
    if (queue.volcano) {  // no quota of its own; it uses that of the pool
      out.cohort = pools[0]->name;
      (void)offers_of(pools[0]->groups, &out.rules.groups);
      continue;
    }
    add_queue(queue, idle.contains(name), now, out);
  }
  auto planted = forest.plant();
  for (const auto& [name, queue] : queues) {
    const auto at = planted.queues.find(name.value());
    if (pool_errors_.contains(name)) continue;
    if (at == planted.queues.end()) {
      cohort_cycles_.insert(name);
    } else {
      queues_[name] = {static_cast<int>(at->second.first), at->second.second};
    }
  }
  for (std::size_t i = 0; i < planted.fields.size(); ++i) {
    auto& quota = planted.fields[i];
    names_.add_tree(planted.cells[i]);
    quota.fair_sharing = rules_.fair_sharing;
    quota.cheaper_plan_searches = rules_.kueue_cycles ? 0 : rules_.cheaper_plan_searches;
    quota.pods = names_.resources.find("pods");
    const auto root = std::ranges::find_if(pools, [&](const Cohort* pool) { return pool->name == quota.tree.name(0); });
    if (root == pools.end()) quota.topologies = nodes_.rules();
    if (root != pools.end()) {
      trees_.push_back(make_pool(static_cast<int>(i), queues, **root, std::move(quota)));
    } else if (rules_.kueue_cycles) {
      trees_.push_back(std::make_unique<CycleScheduler>(std::move(quota), shares()));
    } else {
      trees_.push_back(std::make_unique<ContinuousScheduler>(std::move(quota), shares()));
    }
  }
}

std::vector<kueue::Forest::Offer> Decisions::offers_of(const std::vector<ResourceGroup>& groups,
                                                       std::vector<kueue::QueueRules::Group>* rules) {
  std::vector<kueue::Forest::Offer> offers;
  for (const auto& group : groups) {
    kueue::QueueRules::Group made;
    for (const auto& resource : group.covered) made.resources.push_back(names_.resources.of(resource));
    for (const auto& flavor : group.flavors) {
      const auto id = names_.flavors.of(flavor.flavor.value());
      made.options.push_back({id, {}});
      for (const auto& [resource, quota] : flavor.resources)
        offers.push_back({id, names_.resources.of(resource), quota});
    }
    if (rules != nullptr) rules->push_back(std::move(made));
  }
  return offers;
}

void Decisions::add_queue(const ClusterQueue& queue, bool idle, Instant now, kueue::Forest::Queue& out) {
  out.cohort = queue.cohort;
  out.weight = static_cast<double>(queue.weight_milli) / 1000;
  out.quotas = offers_of(groups_at(queue, now), &out.rules.groups);
  out.rules.inactive = idle;
  out.rules.topology_only = nodes_.covers(out.rules);
  out.rules.backfill = queue.backfill && !rules_.kueue_cycles;
  out.rules.strict = queue.strategy == Strategy::kStrictFifo || out.rules.backfill;
  if (queue.aging && !rules_.kueue_cycles) ages_.add_rule(queue.name, *queue.aging);
  out.rules.by_usage = queue.by_usage && rules_.usage.half_life > Duration{0};
  if (out.rules.by_usage) by_usage_.insert(queue.name);
  out.rules.within_cluster_queue = queue.within_cluster_queue;
  out.rules.reclaim_within_cohort = queue.reclaim_within_cohort;
  out.rules.preempts_while_borrowing = queue.preempts_while_borrowing;
  out.rules.borrow_max_threshold = queue.borrow_max_threshold;
  out.rules.stops_at_borrowing = queue.stops_at_borrowing;
  out.rules.stops_at_preemption = queue.stops_at_preemption;
  out.rules.prefers_borrowing = queue.prefers_borrowing;
}

/// The pool of a cohort. Queues that do not belong in it get an error; without valid queues of Volcano there is no pool.
std::unique_ptr<Scheduler> Decisions::make_pool(int tree, const std::map<QueueName, ClusterQueue>& queues,
                                                const Cohort& cohort, kueue::QuotaState quota) {
  const auto& names = names_.names_of(tree);
  volcano::Resources total;
  for (kueue::Cell c = 0; c < quota.tree.cells(); ++c) total.push_back(quota.tree.quota(0, c).nominal);
  const auto amounts = [&](const volcano::Named& named, std::int64_t otherwise) {
    volcano::Resources out;
    for (const auto& name : names) {
      const auto found = named.find(name.resource);
      const std::int64_t unit = name.resource == words::kGpuResource ? 1000 : 1;
      out.push_back(found == named.end() ? otherwise : std::min(found->second, kUnlimited / unit) * unit);
    }
    return out;
  };
  std::vector<volcano::Queue> rules;
  for (const auto& [name, queue] : queues) {
    if (!queue.volcano) continue;
    auto& made = rules.emplace_back(queue.volcano->rules);
    if (queue.closing) made.state = volcano::QueueState::kClosed;
    made.capability = amounts(queue.volcano->capability, kUnlimited);
    made.guarantee = amounts(queue.volcano->guarantee, 0);
    made.deserved = amounts(queue.volcano->deserved, 0);
  }
  auto planted = volcano::Queues::plant(std::move(rules), std::move(total));
  for (auto it = queues_.begin(); it != queues_.end();) {
    const auto [name, at] = *it;
    const bool here = at.tree == tree, of_volcano = queues.at(name).volcano.has_value();
    if (here && (!of_volcano || !planted)) {
      pool_errors_[name] =
          of_volcano ? planted.error().message : fmt::format("Cohort {} is a pool of Volcano queues only", cohort.name);
      it = queues_.erase(it);
    } else {
      ++it;
    }
  }
  if (!planted) return std::make_unique<ContinuousScheduler>(std::move(quota), shares());
  std::vector<volcano::QueueId> at(static_cast<std::size_t>(quota.tree.size()), -1);
  for (kueue::Node n = 0; n < quota.tree.size(); ++n) {
    if (const auto found = planted->find(quota.tree.name(n)); found && quota.tree.is_queue(n)) {
      at[static_cast<std::size_t>(n)] = *found;
    }
  }
  auto pool = std::make_unique<PoolScheduler>(cohort.name, std::move(quota),
                                              volcano::Pool(*std::move(planted), *cohort.sharing), std::move(at),
                                              cohort.waiting_time);
  pools_[tree] = pool.get();
  return pool;
}

}  // namespace qm::admission
