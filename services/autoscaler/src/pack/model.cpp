// A problem becomes numbers in four steps: requests and node constraints of pods are interned as shapes; offers that
// the same shapes accept form families; the zones of pods with zone constraints are fixed; pods that are equal in
// everything that is left form classes.
#include "model.hpp"

#include "groups.hpp"
#include "resource_prices.hpp"
#include "zones.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace qm::autoscaler::pack {
namespace {

/// Pods with equal requests and node constraints.
struct PodShape {
  const Pod* example = nullptr;
  Load load{};
  std::uint32_t rule = 0;  // node constraints
  std::uint32_t mask = 0;
};

class ModelBuilder {
 public:
  ModelBuilder(const Problem& problem, Model& out) : problem_(problem), out_(out) {}

  Status run() {
    QM_TRY(check_topology());
    QM_TRY(read_resources());
    QM_ASSIGN(out_.offers, offers_of(problem_));
    if (out_.offers.zones.size() > kMostZones) {
      return fail(Code::kInvalid, "the instance types are offered in {} zones; up to {} are supported",
                  out_.offers.zones.size(), kMostZones);
    }
    intern_pods();
    make_families();
    fix_zones();
    make_classes();
    price_resources(out_);
    return {};
  }

 private:
  Status check_topology() const {
    for (const auto& pod : problem_.pods) {
      const auto refuse = [&](const std::string& what, const std::string& key) {
        return fail({Code::kInvalid, fmt::format("pod {} has a {} with topology key {}", pod.uid, what, key), "pods",
                     fmt::format("use {}{}", kZoneLabel,
                                 what == "pod affinity" ? std::string() : " or " + std::string(kHostLabel))});
      };
      for (const auto& one : pod.affinity) {
        if (one.topology_key != kZoneLabel) return refuse("pod affinity", one.topology_key);
      }
      for (const auto& one : pod.anti_affinity) {
        if (one.topology_key != kZoneLabel && one.topology_key != kHostLabel)
          return refuse("pod anti-affinity", one.topology_key);
      }
      for (const auto& one : pod.spread) {
        if (one.required && one.topology_key != kZoneLabel && one.topology_key != kHostLabel) {
          return refuse("topology spread", one.topology_key);
        }
      }
    }
    return {};
  }

  Status read_resources() {
    out_.names = {"cpu", "memory", "pods"};
    std::set<std::string> extended;
    for (const auto& pod : problem_.pods) {
      for (const auto& [name, amount] : pod.extended) extended.insert(name);
    }
    out_.names.insert(out_.names.end(), extended.begin(), extended.end());
    out_.resources = out_.names.size();
    if (out_.resources > kMostResources) {
      return fail(Code::kInvalid, "the pods request {} resources; up to {} are supported", out_.resources,
                  kMostResources);
    }
    return {};
  }

  [[nodiscard]] Load extended_of(const Amounts& amounts) const {
    Load out{};
    for (std::size_t r = 3; r < out_.resources; ++r) {
      const auto found = amounts.find(out_.names[r]);
      out[r] = found == amounts.end() ? 0 : found->second;
    }
    return out;
  }

  void intern_pods() {
    std::unordered_map<std::string, std::uint32_t> rules, shapes, labels;
    std::string key;
    for (const auto& pod : problem_.pods) {
      key.clear();
      append_rule_key(key, pod);
      const auto [rule, fresh_rule] = rules.emplace(key, static_cast<std::uint32_t>(rules.size()));
      if (fresh_rule) rule_example_.push_back(&pod);
      Load load = extended_of(pod.extended);
      load[0] = pod.cpu_milli, load[1] = pod.memory_bytes, load[2] = 1;
      key.assign(reinterpret_cast<const char*>(load.data()), out_.resources * sizeof(load[0]));
      key += std::to_string(rule->second);
      const auto [shape, fresh_shape] = shapes.emplace(key, static_cast<std::uint32_t>(shapes.size()));
      if (fresh_shape) shapes_.push_back({&pod, load, rule->second, 0});
      key.clear();
      append_key(key, pod.name_space);
      for (const auto& [name, value] : pod.labels) append_key(key, name), append_key(key, value);
      const auto found = labels.emplace(key, static_cast<std::uint32_t>(labels.size())).first;
      pods_.push_back({&pod, found->second, shape->second});
    }
    label_sets_ = labels.size();
  }

  static void append_rule_key(std::string& key, const Pod& pod) {
    for (const auto& [name, value] : pod.node_selector) append_key(key, name), append_key(key, value);
    key += '\3';
    for (const auto& term : pod.required) {
      for (const auto& one : term) {
        append_key(key, one.key);
        key += static_cast<char>('0' + static_cast<int>(one.op));
        for (const auto& value : one.values) append_key(key, value);
        key += '\1';
      }
      key += '\2';
    }
    for (const auto& one : pod.tolerations) {
      append_key(key, one.key), append_key(key, one.op), append_key(key, one.value), append_key(key, one.effect);
    }
  }

  /// Offers of one zone that the same rules accept. Zones count separately if any pod has a zone constraint.
  void make_families() {
    const bool by_zone = std::ranges::any_of(problem_.pods, [](const Pod& pod) {
      const auto in_zone = [](const auto& one) { return one.topology_key == kZoneLabel; };
      return std::ranges::any_of(pod.spread, in_zone) || std::ranges::any_of(pod.affinity, in_zone) ||
             std::ranges::any_of(pod.anti_affinity, in_zone);
    });
    std::vector<bool> tolerated;
    for (const auto* pod : rule_example_)
      tolerated.push_back(untolerated(problem_.pool.taints, pod->tolerations) == nullptr);
    std::map<std::pair<std::vector<bool>, std::size_t>, std::size_t> number;
    std::vector<Masks::Family> families;
    std::vector<std::vector<bool>> accepted;
    for (std::size_t i = 0; i < out_.offers.list.size(); ++i) {
      const Offer& offer = out_.offers.list[i];
      std::vector<bool> accepts(rule_example_.size());
      for (std::size_t r = 0; r < rule_example_.size(); ++r) {
        accepts[r] = tolerated[r] && admits(*rule_example_[r], offer.labels);
      }
      const auto [found, fresh] = number.emplace(std::pair(accepts, by_zone ? offer.zone : 0), families.size());
      if (fresh) {
        families.emplace_back();
        accepted.push_back(accepts);
        zone_of_family_.push_back(by_zone ? offer.zone : 0);
      }
      families[found->second].offers.push_back(i);
    }
    std::vector<Load> rooms;
    for (const auto& type : problem_.types) {
      Load room = extended_of(type.extended);
      room[0] = type.cpu_milli - type.overhead_cpu_milli;
      room[1] = type.memory_bytes - type.overhead_memory_bytes;
      room[2] = type.pods;
      rooms.push_back(room);
    }
    for (std::size_t r = 0; r < rule_example_.size(); ++r) {
      Masks::Bits bits(families.size() / 64 + 1, 0);
      for (std::size_t f = 0; f < families.size(); ++f) {
        if (accepted[f][r]) bits[f / 64] |= std::uint64_t{1} << f % 64;
      }
      bits_of_rule_.push_back(std::move(bits));
    }
    out_.masks.build(out_.offers, std::move(rooms), std::move(families), out_.node_price, out_.resources);
    tolerated_ = std::move(tolerated);
  }

  void fix_zones() {
    std::vector<ZonedShape> zoned;
    std::vector<ZoneSet> admitted;
    for (const auto* pod : rule_example_) admitted.push_back(admitted_zones(*pod, out_.offers.zones));
    const std::size_t zones = std::max<std::size_t>(out_.offers.zones.size(), 1);
    for (auto& shape : shapes_) {
      shape.mask = out_.masks.intern(bits_of_rule_[shape.rule]);
      ZonedShape one{0, admitted[shape.rule], std::vector<double>(zones, kNever)};
      for (std::size_t z = 0; z < zones; ++z) {
        const auto mask = masked(shape, static_cast<std::int32_t>(z));
        const auto& table = out_.masks.table(mask);
        const auto at = table.cheapest(shape.load, out_.resources);
        if (at == ShapeTable::kNone) continue;
        one.homes |= ZoneSet{1} << z;
        one.price[z] = table.cost[at];
      }
      zoned.push_back(std::move(one));
    }
    choices_ = choose_zones(pods_, zoned, zones);
  }

  /// The offers of the shape in the zone.
  std::uint32_t masked(const PodShape& shape, std::int32_t zone) {
    const auto key = std::pair(shape.rule, zone);
    if (const auto found = masked_.find(key); found != masked_.end()) return found->second;
    Masks::Bits bits = bits_of_rule_[shape.rule];
    for (std::size_t f = 0; f < zone_of_family_.size(); ++f) {
      if (zone_of_family_[f] != static_cast<std::size_t>(zone)) bits[f / 64] &= ~(std::uint64_t{1} << f % 64);
    }
    return masked_[key] = out_.masks.intern(bits);
  }

  [[nodiscard]] std::string homeless(const PodShape& shape) const {
    const auto excluded = std::ranges::count_if(
        problem_.types, [&](const InstanceType& type) { return above_limit(problem_.pool, type); });
    if (excluded == 0) return refusal(shape);
    return fmt::format("{}; the limits of the NodePool exclude {} instance types", refusal(shape), excluded);
  }

  [[nodiscard]] std::string refusal(const PodShape& shape) const {
    const Pod& pod = *shape.example;
    if (!tolerated_[shape.rule]) {
      const Taint* taint = untolerated(problem_.pool.taints, pod.tolerations);
      return fmt::format("the pod does not tolerate the taint {}={}:{} of the NodePool", taint->key, taint->value,
                         taint->effect);
    }
    const auto& all = out_.masks.table(shape.mask);
    if (all.cost.empty()) return "no available offering meets the pod's node selector and required node affinity";
    for (std::size_t r = 0; r < out_.resources; ++r) {
      if (all.reach[r].back() < shape.load[r]) {
        return fmt::format(
            "the pod requests {} of {}, and the largest instance type that it accepts has {} allocatable",
            shape.load[r], out_.names[r], all.reach[r].back());
      }
    }
    return "no instance type that the pod accepts has enough of all requested resources at once";
  }

  void make_classes() {
    HostGroups hosts = host_groups();
    std::unordered_map<std::string, std::size_t> number;
    std::string key;
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      const PodShape& shape = shapes_[pods_[i].shape];
      if (out_.masks.table(shape.mask).cheapest(shape.load, out_.resources) == ShapeTable::kNone) {
        out_.unplaced.push_back({i, homeless(shape)});
        continue;
      }
      if (choices_[i].zone == ZoneChoice::kNoZone) {
        out_.unplaced.push_back({i, choices_[i].reason});
        continue;
      }
      const auto& member = hosts.member[pods_[i].labels];
      key.assign(reinterpret_cast<const char*>(shape.load.data()), out_.resources * sizeof(shape.load[0]));
      append_key(key, std::to_string(shape.mask));
      append_key(key, std::to_string(choices_[i].zone));
      append_key(key, std::to_string(hosts.rules_of[i]));
      for (const auto one : member) append_key(key, std::to_string(one));
      const auto [found, fresh] = number.emplace(key, out_.classes.size());
      if (fresh) out_.classes.push_back(made_class(shape, choices_[i].zone, hosts, i));
      out_.classes[found->second].pods.push_back(i);
      ++out_.pods;
    }
  }

  struct HostRules {
    std::vector<std::pair<std::uint32_t, std::int64_t>> spread;
    std::vector<std::uint32_t> anti;
  };
  struct HostGroups {
    SelectorGroups groups;
    std::vector<HostRules> rules;
    std::vector<std::uint32_t> rules_of;             // by pod
    std::vector<std::vector<std::uint32_t>> member;  // by label set
  };

  [[nodiscard]] HostGroups host_groups() const {
    HostGroups out;
    out.rules.emplace_back();
    std::unordered_map<std::string, std::uint32_t> known{{"", 0}};
    const auto on_host = [](const auto& one) { return one.topology_key == kHostLabel; };
    for (const auto& one : pods_) {
      std::string key;
      for (const auto& spread : one.pod->spread) {
        if (on_host(spread) && spread.required)
          append_key(key += 's', spread.pods), append_key(key, std::to_string(spread.max_skew));
      }
      for (const auto& term : one.pod->anti_affinity) {
        if (on_host(term)) append_key(key += 'n', term.pods);
      }
      if (!key.empty()) append_key(key, one.pod->name_space);
      const auto [found, fresh] = known.emplace(std::move(key), static_cast<std::uint32_t>(out.rules.size()));
      out.rules_of.push_back(found->second);
      if (!fresh) continue;
      HostRules rules;
      for (const auto& spread : one.pod->spread) {
        if (on_host(spread) && spread.required)
          rules.spread.emplace_back(out.groups.add(one.pod->name_space, spread.pods), spread.max_skew);
      }
      for (const auto& term : one.pod->anti_affinity) {
        if (on_host(term)) rules.anti.push_back(out.groups.add(one.pod->name_space, term.pods));
      }
      std::ranges::sort(rules.anti);
      out.rules.push_back(std::move(rules));
    }
    out.member.resize(label_sets_);
    std::vector<bool> done(label_sets_, false);
    for (const auto& one : pods_) {
      if (!done[one.labels]) out.member[one.labels] = out.groups.of(*one.pod);
      done[one.labels] = true;
    }
    return out;
  }

  PodClass made_class(const PodShape& shape, std::int32_t zone, const HostGroups& hosts, std::size_t pod) {
    PodClass out;
    out.load = shape.load;
    out.any_zone = shape.mask;
    out.mask = zone == ZoneChoice::kAnyZone ? shape.mask : masked(shape, zone);
    out.member = hosts.member[pods_[pod].labels];
    const HostRules& rules = hosts.rules[hosts.rules_of[pod]];
    out.anti = rules.anti;
    for (const auto& [group, limit] : rules.spread) {
      out.spread.push_back({group, limit, std::ranges::binary_search(out.member, group)});
    }
    out.coupled = !out.member.empty() || !out.anti.empty() || !out.spread.empty();
    const auto& table = out_.masks.table(out.mask);
    out.alone = table.cost[table.cheapest(out.load, out_.resources)];
    return out;
  }

  const Problem& problem_;
  Model& out_;
  std::vector<ZonedPod> pods_;
  std::vector<PodShape> shapes_;
  std::vector<const Pod*> rule_example_;
  std::vector<bool> tolerated_;
  std::vector<Masks::Bits> bits_of_rule_;
  std::vector<std::size_t> zone_of_family_;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> masked_;
  std::vector<ZoneChoice> choices_;
  std::size_t label_sets_ = 0;
};

}  // namespace

bool meet(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) return true;
    *i < *j ? ++i : ++j;
  }
  return false;
}

Status build(const Problem& problem, double node_price, Model& out) {
  out.node_price = node_price;
  return ModelBuilder(problem, out).run();
}

}  // namespace qm::autoscaler::pack
