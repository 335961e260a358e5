#include "qm/admission/kueue/forest.hpp"

#include <functional>
#include <set>

namespace qm::admission::kueue {
namespace {

struct Branches {
  std::map<std::string, std::vector<std::string>> cohorts, queues;  ///< by parent
  std::vector<std::string> roots;
};

Branches branches_of(const Forest& forest) {
  Branches out;
  std::map<std::string, std::string> parent;
  for (const auto& [name, cohort] : forest.cohorts) {
    parent[name] = cohort.parent;
    if (!cohort.parent.empty()) parent.try_emplace(cohort.parent);
  }
  for (const auto& [name, queue] : forest.queues) {
    if (queue.cohort.empty()) continue;
    parent.try_emplace(queue.cohort);
    out.queues[queue.cohort].push_back(name);
  }
  for (const auto& [name, above] : parent) {
    if (above.empty()) {
      out.roots.push_back(name);
    } else {
      out.cohorts[above].push_back(name);
    }
  }
  return out;
}

}  // namespace

Forest::Planted Forest::plant() const {
  Planted out;
  const auto branches = branches_of(*this);
  const auto children = [](const auto& by_parent, const std::string& name) {
    const auto found = by_parent.find(name);
    return found == by_parent.end() ? std::vector<std::string>{} : found->second;
  };
  const auto grow = [&](const std::string& root, bool root_is_queue) {
    const auto field = out.fields.size();
    std::map<std::pair<Flavor, Resource>, Cell> cells;
    std::vector<Resource> resource_of;
    std::vector<Tree::NodeSpec> nodes;
    std::vector<QueueRules> rules;
    const auto take = [&](const std::vector<Offer>& offers) {
      for (const auto& offer : offers) {
        const auto [it, fresh] =
            cells.emplace(std::pair(offer.flavor, offer.resource), static_cast<Cell>(cells.size()));
        if (fresh) resource_of.push_back(offer.resource);
        nodes.back().quotas.emplace_back(it->second, offer.quota);
      }
    };
    const auto add_queue = [&](const std::string& name, Node parent) {
      const auto& queue = queues.at(name);
      out.queues[name] = {field, static_cast<Node>(nodes.size())};
      nodes.push_back({name, parent, true, queue.weight, {}});
      take(queue.quotas);
      rules.push_back(queue.rules);
      for (auto& group : rules.back().groups) {
        for (auto& option : group.options) {
          option.cells.clear();
          for (const Resource r : group.resources) option.cells.push_back(cells.at({option.flavor, r}));
        }
      }
    };
    const std::function<void(const std::string&, Node)> add_cohort = [&](const std::string& name, Node parent) {
      const auto own = static_cast<Node>(nodes.size());
      out.cohorts[name] = {field, own};
      const auto found = cohorts.find(name);
      nodes.push_back({name, parent, false, found == cohorts.end() ? 1 : found->second.weight, {}});
      rules.emplace_back();
      if (found != cohorts.end()) take(found->second.quotas);
      for (const auto& queue : children(branches.queues, name)) add_queue(queue, own);
      for (const auto& cohort : children(branches.cohorts, name)) add_cohort(cohort, own);
    };
    root_is_queue ? add_queue(root, -1) : add_cohort(root, -1);
    const auto size = nodes.size();
    out.fields.push_back({Tree(std::move(nodes), std::move(resource_of)), std::move(rules),
                          std::vector<std::vector<const Work*>>(size)});
    out.cells.push_back(std::move(cells));
  };
  for (const auto& root : branches.roots) grow(root, false);
  for (const auto& [name, queue] : queues) {
    if (queue.cohort.empty()) grow(name, true);
  }
  return out;
}

}  // namespace qm::admission::kueue
