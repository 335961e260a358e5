// Reads only the problem and the plan, none of the structures that the search uses.
#include "groups.hpp"
#include "offers.hpp"
#include "qm/autoscaler/pack/plan.hpp"
#include "zones.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qm::autoscaler::pack {
namespace {

constexpr double kMoneyError = 1e-6;

tl::unexpected<Error> broken(std::string what) {
  return fail(Error{Code::kFailedPrecondition, std::move(what), {}, {}});
}

class PlanCheck {
 public:
  PlanCheck(const Problem& problem, const Plan& plan, double node_price)
      : problem_(problem), plan_(plan), node_price_(node_price), node_of_(problem.pods.size(), kNowhere) {}

  Status run() {
    QM_TRY(each_pod_once());
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      QM_TRY(launch(i));
      QM_TRY(room(i));
    }
    QM_TRY(read_groups());
    QM_TRY(replay());
    return sums();
  }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  using Counts = std::map<std::string, std::int64_t>;  // pods by value of a topology key

  Status each_pod_once() {
    std::vector<bool> seen(problem_.pods.size(), false);
    const auto see = [&](std::size_t pod) -> Status {
      if (pod >= seen.size()) return broken(fmt::format("pod number {} does not exist", pod));
      if (seen[pod]) return broken(fmt::format("pod {} is in the plan twice", problem_.pods[pod].uid));
      seen[pod] = true;
      return {};
    };
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
      if (plan_.nodes[i].pods.empty()) return broken(fmt::format("node {} has no pods", i));
      for (const auto pod : plan_.nodes[i].pods) {
        QM_TRY(see(pod));
        node_of_[pod] = i;
      }
    }
    for (const auto& one : plan_.unplaced) {
      QM_TRY(see(one.pod));
      if (one.reason.empty()) return broken(fmt::format("pod {} has no reason", problem_.pods[one.pod].uid));
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i]) return broken(fmt::format("pod {} is neither on a node nor refused", problem_.pods[i].uid));
    }
    return {};
  }

  Status launch(std::size_t number) {
    const PlannedNode& node = plan_.nodes[number];
    if (node.type >= problem_.types.size() || node.offering >= problem_.types[node.type].offerings.size()) {
      return broken(fmt::format("node {} has no such instance type or offering", number));
    }
    const InstanceType& type = problem_.types[node.type];
    const Offering& offering = type.offerings[node.offering];
    if (!offering.available)
      return broken(fmt::format("node {}: {} is not available in {}", number, type.name, offering.zone));
    Labels labels;
    for (const auto& one : node.requirements) {
      if (one.op != Operator::kIn || one.values.size() != 1) {
        return broken(fmt::format("node {}: the label {} has not one value", number, one.key));
      }
      labels[one.key] = one.values.front();
    }
    Labels fixed = problem_.pool.labels;
    fixed[std::string(kZoneLabel)] = offering.zone;
    fixed[std::string(kCapacityTypeLabel)] = offering.capacity_type;
    fixed[std::string(kTypeLabel)] = type.name;
    for (const auto& [key, value] : fixed) {
      const auto* own = value_of(labels, key);
      if (own == nullptr || *own != value) return broken(fmt::format("node {}: {} is not {}", number, key, value));
    }
    for (const auto* all : {&type.requirements, &problem_.pool.requirements}) {
      for (const auto& one : *all) {
        if (!holds(one, value_of(labels, one.key))) {
          return broken(fmt::format("node {}: {} violates a requirement of {}", number, one.key,
                                    all == &type.requirements ? type.name : std::string("the NodePool")));
        }
      }
    }
    for (const auto pod : node.pods) {
      if (!admits(problem_.pods[pod], labels)) {
        return broken(fmt::format("pod {} does not admit node {}", problem_.pods[pod].uid, number));
      }
      if (const auto* taint = untolerated(problem_.pool.taints, problem_.pods[pod].tolerations)) {
        return broken(fmt::format("pod {} does not tolerate {}", problem_.pods[pod].uid, taint->key));
      }
    }
    return {};
  }

  Status room(std::size_t number) {
    const PlannedNode& node = plan_.nodes[number];
    const InstanceType& type = problem_.types[node.type];
    std::int64_t cpu = type.overhead_cpu_milli, memory = type.overhead_memory_bytes;
    Amounts extended;
    for (const auto pod : node.pods) {
      cpu += problem_.pods[pod].cpu_milli;
      memory += problem_.pods[pod].memory_bytes;
      for (const auto& [name, amount] : problem_.pods[pod].extended) extended[name] += amount;
    }
    const auto full = [&](std::string_view name, std::int64_t used, std::int64_t has) -> Status {
      if (used <= has) return {};
      return broken(fmt::format("node {} ({}) has {} of {}, and {} are requested", number, type.name, has, name, used));
    };
    QM_TRY(full("cpu", cpu, type.cpu_milli));
    QM_TRY(full("memory", memory, type.memory_bytes));
    QM_TRY(full("pods", static_cast<std::int64_t>(node.pods.size()), type.pods));
    for (const auto& [name, used] : extended) {
      const auto has = type.extended.find(name);
      QM_TRY(full(name, used, has == type.extended.end() ? 0 : has->second));
    }
    return {};
  }

  /// Each group that a required constraint selects, with the pods of the group so far, by zone and by node.
  Status read_groups() {
    for (const auto& pod : problem_.pods) {
      for (const auto& one : pod.spread) {
        if (one.required) (void)groups_.add(pod.name_space, one.pods);
      }
      for (const auto* terms : {&pod.affinity, &pod.anti_affinity}) {
        for (const auto& one : *terms) (void)groups_.add(pod.name_space, one.pods);
      }
    }
    for (const std::string_view key : {kZoneLabel, kHostLabel}) {
      counts_[std::string(key)].resize(groups_.size());
      repelling_[std::string(key)].resize(groups_.size());
    }
    std::map<std::pair<std::string, Labels>, std::vector<std::uint32_t>> known;
    for (const auto& pod : problem_.pods) {
      const auto [found, fresh] = known.try_emplace(std::pair(pod.name_space, pod.labels));
      if (fresh) found->second = groups_.of(pod);
      members_.push_back(found->second);
    }
    totals_.resize(groups_.size());
    for (std::size_t i = 0; i < problem_.pods.size(); ++i) {
      if (node_of_[i] == kNowhere) continue;
      for (const auto group : members_[i]) ++totals_[group][value(kZoneLabel, i)];
    }
    return {};
  }

  [[nodiscard]] std::string value(std::string_view key, std::size_t pod) const {
    const PlannedNode& node = plan_.nodes[node_of_[pod]];
    return key == kZoneLabel ? problem_.types[node.type].offerings[node.offering].zone : std::to_string(node_of_[pod]);
  }

  [[nodiscard]] bool member(std::size_t pod, std::uint32_t group) const {
    return std::ranges::binary_search(members_[pod], group);
  }

  Status replay() {
    // Zones in which the NodePool can launch a node: no others have nodes that a spread constraint could count.
    QM_ASSIGN(const auto offers, offers_of(problem_));
    zones_ = offers.zones;
    for (std::size_t i = 0; i < problem_.pods.size(); ++i) {
      if (node_of_[i] == kNowhere) continue;
      QM_TRY(affinities(i));
      for (const auto& one : problem_.pods[i].spread) {
        if (one.required) QM_TRY(spread(i, one));
      }
      for (const auto group : members_[i]) {
        ++counts_[std::string(kZoneLabel)][group][value(kZoneLabel, i)];
        ++counts_[std::string(kHostLabel)][group][value(kHostLabel, i)];
      }
      for (const auto& one : problem_.pods[i].anti_affinity) {
        ++repelling_[one.topology_key][groups_.add(problem_.pods[i].name_space, one.pods)][value(one.topology_key, i)];
      }
    }
    return {};
  }

  Status affinities(std::size_t i) {
    const Pod& pod = problem_.pods[i];
    for (const auto& one : pod.anti_affinity) {
      const auto group = groups_.add(pod.name_space, one.pods);
      const Counts& counts = counts_[one.topology_key][group];
      const auto here = counts.find(value(one.topology_key, i));
      if (here != counts.end())
        return broken(fmt::format("pod {} repels a pod of the same {}", pod.uid, one.topology_key));
    }
    for (auto& [key, groups] : repelling_) {
      for (const auto group : members_[i]) {
        if (groups[group].contains(value(key, i)))
          return broken(fmt::format("pod {} is repelled by a pod of the same {}", pod.uid, key));
      }
    }
    for (const auto& one : pod.affinity) {
      const auto group = groups_.add(pod.name_space, one.pods);
      const auto here = totals_[group].find(value(kZoneLabel, i));
      const std::int64_t others = here == totals_[group].end() ? 0 : here->second - (member(i, group) ? 1 : 0);
      std::int64_t all = member(i, group) ? -1 : 0;
      for (const auto& [zone, count] : totals_[group]) all += count;
      if (others == 0 && (all > 0 || !member(i, group))) {
        return broken(fmt::format("pod {} has no pod of its pod affinity in its zone", pod.uid));
      }
    }
    return {};
  }

  Status spread(std::size_t i, const Spread& one) {
    const Pod& pod = problem_.pods[i];
    const auto group = groups_.add(pod.name_space, one.pods);
    const Counts& counts = counts_[one.topology_key][group];
    const auto count = [&](const std::string& where) {
      const auto found = counts.find(where);
      return found == counts.end() ? std::int64_t{0} : found->second;
    };
    std::int64_t least = 0;  // another node is always possible
    if (one.topology_key == kZoneLabel) {
      least = std::numeric_limits<std::int64_t>::max();
      const auto admitted = admitted_zones(pod, zones_);
      for (std::size_t z = 0; z < zones_.size(); ++z) {
        if ((admitted >> z & 1) != 0) least = std::min(least, count(zones_[z]));
      }
    }
    const std::int64_t own = count(value(one.topology_key, i)) + (member(i, group) ? 1 : 0);
    if (own - least <= one.max_skew) return {};
    return broken(fmt::format("pod {} makes a skew of {} over {}, and maxSkew is {}", pod.uid, own - least,
                              one.topology_key, one.max_skew));
  }

  Status sums() const {
    double price = 0;
    for (const auto& node : plan_.nodes) price += problem_.types[node.type].offerings[node.offering].price;
    const double cost = price + node_price_ * static_cast<double>(plan_.nodes.size());
    const auto differ = [](double a, double b) { return std::abs(a - b) > kMoneyError * std::max(1.0, std::abs(a)); };
    if (differ(price, plan_.price)) return broken(fmt::format("the price is {}, not {}", price, plan_.price));
    if (differ(cost, plan_.cost)) return broken(fmt::format("the cost is {}, not {}", cost, plan_.cost));
    if (plan_.bound > plan_.cost)
      return broken(fmt::format("the bound {} is above the cost {}", plan_.bound, plan_.cost));
    return {};
  }

  const Problem& problem_;
  const Plan& plan_;
  double node_price_;
  std::vector<std::size_t> node_of_;
  SelectorGroups groups_;
  std::vector<std::vector<std::uint32_t>> members_;                // groups of each pod
  std::map<std::string, std::vector<Counts>> counts_, repelling_;  // by topology key and group
  std::vector<Counts> totals_;                                     // by group and zone, at the end
  std::vector<std::string> zones_;
};

}  // namespace

Status still_holds(const Problem& problem, const Plan& plan, double node_price) {
  return PlanCheck(problem, plan, node_price).run();
}

}  // namespace qm::autoscaler::pack
