// Sketch: every override becomes one pool per zone that it allows. Pools are sorted by the strategy and grouped by what
// the request wants to be single; the first group that holds the target is planned against a ledger of the free
// capacity, and only a plan that reaches the minimum is launched.
#include "aws_fleets.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace qm::fleet {
namespace {

constexpr std::size_t kMaxOverrides = 300;
constexpr int kMaxTarget = 10'000;
constexpr int kMaxMinimum = 1000;

std::optional<double> decimal(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' && value >= 0 ? std::optional(value) : std::nullopt;
}

/// One launch template with one override.
struct Override {
  const LaunchTemplate* from = nullptr;
  std::string type, zone, subnet, max_price, placement_group;  ///< as in the request
  double priority = std::numeric_limits<double>::max();
  int weight = 1;
};

/// An override in one zone.
struct Pool {
  const Override* from = nullptr;
  LaunchSpec spec;
  int left = 0;  ///< instances that could launch before the fleet
};

/// The part of the target in one market.
struct Part {
  Market market = Market::kOnDemand;
  std::string lifecycle, strategy;
  int target = 0, minimum = 0;  ///< in units
  bool one_type = false, one_zone = false;
};

struct FleetFault {
  const Override* from = nullptr;
  std::string lifecycle, code, message;
};

struct Planned {
  const Pool* pool = nullptr;
  int count = 0;
};

struct GroupPlan {
  std::vector<Planned> launches;
  std::vector<const Pool*> short_pools;  ///< had fewer instances than were wanted of them
  int units = 0;
};

/// What is left of each type, in a zone and in all, while a plan grows.
class Ledger {
 public:
  Ledger(const World& world, Market market) : world_(world), market_(market) {}
  [[nodiscard]] int left(const LaunchSpec& spec) const {
    const auto all = world_.capacity_left(spec.type, market_) - taken(spec.type, {});
    return std::max(0,
                    std::min(all, world_.capacity_left(spec.type, market_, spec.zone) - taken(spec.type, spec.zone)));
  }
  void take(const LaunchSpec& spec, int count) {
    taken_[{spec.type, {}}] += count;
    taken_[{spec.type, spec.zone}] += count;
  }

 private:
  [[nodiscard]] int taken(const std::string& type, const std::string& zone) const {
    const auto* count = find_in(taken_, {type, zone});
    return count == nullptr ? 0 : *count;
  }
  const World& world_;
  Market market_;
  std::map<std::pair<std::string, std::string>, int> taken_;
};

int instances_for(int units, int weight) { return (units + weight - 1) / weight; }

Answered<Override> read_override(const AwsCall& call, const std::string& prefix, const LaunchTemplate* from) {
  Override out;
  out.from = from;
  out.type = call.param(prefix + "InstanceType");
  out.zone = call.param(prefix + "AvailabilityZone");
  out.subnet = call.param(prefix + "SubnetId");
  out.max_price = call.param(prefix + "MaxPrice");
  out.placement_group = call.param(prefix + "Placement.GroupId");
  if (const auto& text = call.param(prefix + "Priority"); !text.empty()) {
    const auto value = decimal(text);
    if (!value) return invalid_value(fmt::format("Value ({}) for parameter Priority is invalid.", text));
    out.priority = *value;
  }
  if (const auto& text = call.param(prefix + "WeightedCapacity"); !text.empty()) {
    const auto value = decimal(text);
    if (!value || *value < 1 || *value > 999)
      return invalid_value(fmt::format("Value ({}) for parameter WeightedCapacity is invalid.", text));
    out.weight = static_cast<int>(*value);
  }
  return out;
}

Answered<std::vector<Override>> read_overrides(const AwsCall& call, const AwsTemplates& templates) {
  std::vector<Override> out;
  for (int config = 1;; ++config) {
    const auto prefix = fmt::format("LaunchTemplateConfigs.{}.", config);
    const auto from = prefix + "LaunchTemplateSpecification.";
    if (call.param(from + "LaunchTemplateName").empty() && call.param(from + "LaunchTemplateId").empty()) break;
    FLEET_ASSIGN(const auto* const launch_template, templates.named(call, from));
    const auto before = out.size();
    for (int n = 1;; ++n) {
      const auto one = fmt::format("{}Overrides.{}.", prefix, n);
      const auto next = call.params.lower_bound(one);
      if (next == call.params.end() || !next->first.starts_with(one)) break;
      FLEET_ASSIGN(auto read, read_override(call, one, launch_template));
      out.push_back(std::move(read));
    }
    if (out.size() == before) {  // the template alone
      Override plain;
      plain.from = launch_template;
      out.push_back(std::move(plain));
    }
  }
  if (out.empty()) return missing_parameter("LaunchTemplateConfigs");
  if (out.size() > kMaxOverrides)
    return invalid_value(fmt::format("{} overrides are more than {}", out.size(), kMaxOverrides));
  return out;
}

Answered<Part> read_part(const AwsCall& call, Market market, const std::string& lifecycle, int target) {
  Part out{market, lifecycle, {}, target, 0, false, false};
  const std::string prefix = market == Market::kSpot ? "SpotOptions." : "OnDemandOptions.";
  static const std::set<std::string> kOnDemand = {"lowest-price", "prioritized"};
  static const std::set<std::string> kSpot = {"lowest-price", "diversified", "capacity-optimized",
                                              "capacity-optimized-prioritized", "price-capacity-optimized"};
  const auto& strategy = call.param(prefix + "AllocationStrategy");
  out.strategy = strategy.empty() ? "lowest-price" : strategy;
  if (!(market == Market::kSpot ? kSpot : kOnDemand).contains(out.strategy))
    return invalid_value(
        fmt::format("Value ({}) for parameter {}AllocationStrategy is invalid.", out.strategy, prefix));
  out.one_type = call.param(prefix + "SingleInstanceType") == "true";
  out.one_zone = call.param(prefix + "SingleAvailabilityZone") == "true";
  FLEET_ASSIGN(out.minimum, call.number(prefix + "MinTargetCapacity", 0, 1, kMaxMinimum));
  if (out.minimum > 0 && !out.one_type && !out.one_zone) {
    return refuse(400, "InvalidParameterCombination",
                  "MinTargetCapacity requires SingleInstanceType or SingleAvailabilityZone.");
  }
  if (out.minimum > target) return invalid_value("MinTargetCapacity is larger than the target capacity.");
  return out;
}

Answered<std::vector<Part>> read_parts(const AwsCall& call) {
  const std::string prefix = "TargetCapacitySpecification.";
  if (call.param(prefix + "TotalTargetCapacity").empty()) return missing_parameter(prefix + "TotalTargetCapacity");
  FLEET_ASSIGN(const int total, call.number(prefix + "TotalTargetCapacity", 0, 1, kMaxTarget));
  FLEET_ASSIGN(int on_demand, call.number(prefix + "OnDemandTargetCapacity", 0, 0, total));
  FLEET_ASSIGN(int spot, call.number(prefix + "SpotTargetCapacity", 0, 0, total - on_demand));
  const auto& named = call.param(prefix + "DefaultTargetCapacityType");
  const std::string usual = named.empty() ? "on-demand" : named;
  static const std::set<std::string> kTypes = {"on-demand", "spot", "capacity-block", "reserved-capacity"};
  if (!kTypes.contains(usual))
    return invalid_value(fmt::format("{}DefaultTargetCapacityType '{}' is invalid.", prefix, usual));
  (usual == "spot" ? spot : on_demand) = total - (usual == "spot" ? on_demand : spot);
  std::vector<Part> out;
  if (on_demand > 0) {
    FLEET_ASSIGN(auto part, read_part(call, Market::kOnDemand, usual == "spot" ? "on-demand" : usual, on_demand));
    out.push_back(std::move(part));
  }
  if (spot > 0) {
    FLEET_ASSIGN(auto part, read_part(call, Market::kSpot, "spot", spot));
    out.push_back(std::move(part));
  }
  return out;
}

/// One fleet while it is made.
class Making {
 public:
  Making(World& world, const AwsTemplates& templates, const AwsCall& call, std::string id)
      : world_(world), templates_(templates), call_(call), id_(std::move(id)) {}

  void launch(const Part& part, const std::vector<Override>& overrides) {
    auto pools = pools_of(part, overrides);
    sort(part, pools);
    const auto plan = plan_of(part, pools);
    std::vector<const Override*> reported;
    for (const Pool* pool : plan.short_pools) {
      if (std::ranges::find(reported, pool->from) != reported.end()) continue;
      reported.push_back(pool->from);
      no_capacity(part, *pool);
    }
    if (plan.units < std::max(part.minimum, 1)) return;
    for (const auto& [pool, count] : plan.launches) launch(part, *pool, count);
  }

  [[nodiscard]] std::string answer() const {
    AwsXml xml;
    xml.leaf("fleetId", id_).open("errorSet");
    for (const FleetFault& fault : faults_) {
      write_origin(xml.open("item"), *fault.from);
      xml.leaf("lifecycle", fault.lifecycle).leaf("errorCode", fault.code).leaf("errorMessage", fault.message).close();
    }
    xml.close().open("fleetInstanceSet");
    for (const auto& [pool, part, ids] : launched_) {
      write_origin(xml.open("item"), *pool.from);
      xml.leaf("lifecycle", part.lifecycle).open("instanceIds");
      for (const auto& id : ids) xml.leaf("item", id);
      xml.close().leaf("instanceType", pool.spec.type).close();
    }
    xml.close();
    return xml.str();
  }

 private:
  struct Launched {
    Pool pool;
    Part part;
    std::vector<std::string> ids;
  };

  static void write_origin(AwsXml& xml, const Override& from) {
    const auto leaf = [&xml](std::string_view name, const std::string& text) {
      if (!text.empty()) xml.leaf(name, text);
    };
    xml.open("launchTemplateAndOverrides").open("launchTemplateSpecification");
    xml.leaf("launchTemplateId", from.from->id).leaf("version", 1).close().open("overrides");
    leaf("instanceType", from.type);
    leaf("maxPrice", from.max_price);
    leaf("subnetId", from.subnet);
    leaf("availabilityZone", from.zone);
    if (from.weight != 1) xml.leaf("weightedCapacity", from.weight);
    if (from.priority != std::numeric_limits<double>::max()) xml.leaf("priority", fmt::format("{}", from.priority));
    xml.close().close();
  }

  [[nodiscard]] std::map<std::string, std::string> parameters_of(const Override& from) const {
    auto out = from.from->data;
    const auto set = [&out](const std::string& name, const std::string& value) {
      if (!value.empty()) out[name] = value;
    };
    set("InstanceType", from.type);
    set("Placement.AvailabilityZone", from.zone);
    set("Placement.GroupId", from.placement_group);
    set(out.contains("NetworkInterface.1.DeviceIndex") ? "NetworkInterface.1.SubnetId" : "SubnetId", from.subnet);
    return out;
  }

  std::vector<Pool> pools_of(const Part& part, const std::vector<Override>& overrides) {
    std::vector<Pool> out;
    for (const Override& from : overrides) {
      auto spec = templates_.spec(parameters_of(from));
      if (!spec) {
        faults_.push_back({&from, part.lifecycle, spec.error().reason, spec.error().message});
        continue;
      }
      if (part.lifecycle != "spot" && part.lifecycle != "on-demand") {
        faults_.push_back({&from, part.lifecycle, "ReservationCapacityExceeded", "There is no such reservation."});
        continue;
      }
      spec->market = part.market;
      if (too_cheap(part, from, *spec)) continue;
      std::vector<std::string> zones{spec->zone};
      if (spec->zone.empty()) zones = world_.options().zones;
      for (const auto& zone : zones) {
        spec->zone = zone;
        out.push_back({&from, *spec, world_.capacity_left(spec->type, part.market, zone)});
      }
    }
    return out;
  }

  bool too_cheap(const Part& part, const Override& from, const LaunchSpec& spec) {
    if (part.market != Market::kSpot || from.max_price.empty()) return false;
    const auto most = parse_nano_usd(from.max_price);
    const auto price = world_.price_nano_hour(spec.type, part.market);
    if (most && *most >= price) return false;
    faults_.push_back({&from, part.lifecycle, most ? "SpotMaxPriceTooLow" : "InvalidParameterValue",
                       fmt::format("Your Spot request price of {} is lower than the minimum required Spot request "
                                   "fulfillment price of {}.{:09}.",
                                   from.max_price, price / 1'000'000'000, price % 1'000'000'000)});
    return true;
  }

  void sort(const Part& part, std::vector<Pool>& pools) const {
    const auto price = [&](const Pool& pool) {
      return static_cast<double>(world_.price_nano_hour(pool.spec.type, part.market)) / pool.from->weight;
    };
    const auto by = [&pools](auto key) {
      std::ranges::stable_sort(pools, [&](const Pool& a, const Pool& b) { return key(a) < key(b); });
    };
    if (part.strategy == "lowest-price") by(price);
    if (part.strategy == "prioritized") by([](const Pool& pool) { return pool.from->priority; });
    if (part.strategy == "capacity-optimized") by([](const Pool& pool) { return -pool.left; });
    if (part.strategy == "capacity-optimized-prioritized")
      by([](const Pool& pool) { return std::pair(-pool.left, pool.from->priority); });
    if (part.strategy == "price-capacity-optimized") {
      by([&](const Pool& pool) {
        return std::pair(pool.left < instances_for(part.target, pool.from->weight), price(pool));
      });
    }
  }

  [[nodiscard]] GroupPlan plan_group(const Part& part, const std::vector<const Pool*>& pools) const {
    GroupPlan out;
    Ledger ledger(world_, part.market);
    // "diversified" takes one instance of each pool in turn, the other strategies all that they can.
    const bool in_turn = part.strategy == "diversified";
    for (bool more = true; more && out.units < part.target;) {
      more = false;
      for (const Pool* pool : pools) {
        if (out.units >= part.target) break;
        const int wanted = in_turn ? 1 : instances_for(part.target - out.units, pool->from->weight);
        const int count = std::min(wanted, ledger.left(pool->spec));
        if (count < wanted) out.short_pools.push_back(pool);
        if (count == 0) continue;
        ledger.take(pool->spec, count);
        out.units += count * pool->from->weight;
        more = in_turn;
        const auto same = std::ranges::find(out.launches, pool, &Planned::pool);
        if (same != out.launches.end()) {
          same->count += count;
        } else {
          out.launches.push_back({pool, count});
        }
      }
    }
    return out;
  }

  [[nodiscard]] GroupPlan plan_of(const Part& part, const std::vector<Pool>& pools) const {
    std::vector<std::pair<std::string, std::vector<const Pool*>>> groups;
    for (const Pool& pool : pools) {
      const auto key = fmt::format("{}/{}", part.one_type ? pool.spec.type : "", part.one_zone ? pool.spec.zone : "");
      auto it = std::ranges::find(groups, key, [](const auto& group) { return group.first; });
      if (it == groups.end()) it = groups.insert(it, {key, {}});
      it->second.push_back(&pool);
    }
    GroupPlan best;
    std::vector<const Pool*> short_pools;
    for (const auto& [key, members] : groups) {
      auto plan = plan_group(part, members);
      short_pools.insert(short_pools.end(), plan.short_pools.begin(), plan.short_pools.end());
      if (plan.units > best.units) best = std::move(plan);
      if (best.units >= part.target) break;
    }
    best.short_pools = std::move(short_pools);
    return best;
  }

  void no_capacity(const Part& part, const Pool& pool) {
    faults_.push_back({pool.from, part.lifecycle, "InsufficientInstanceCapacity",
                       fmt::format("We currently do not have sufficient {} capacity in the Availability Zone you "
                                   "requested ({}).",
                                   pool.spec.type, pool.spec.zone)});
    world_.signal("insufficient_capacity", {{"type", pool.spec.type},
                                            {"market", name_of(part.market)},
                                            {"zone", pool.spec.zone},
                                            {"token", call_.param("ClientToken")}});
  }

  void launch(const Part& part, const Pool& pool, int count) {
    Launched done{pool, part, {}};
    LaunchSpec spec = pool.spec;
    for (int n = 0;; ++n) {
      const auto prefix = fmt::format("TagSpecification.{}.", n + 1);
      const auto& type = call_.param(prefix + "ResourceType");
      if (type.empty()) break;
      if (type != "instance") continue;
      for (const auto& [key, value] : call_.tags(prefix + "Tag")) spec.tags[key] = value;
    }
    spec.tags["aws:ec2:fleet-id"] = id_;
    spec.tags["aws:ec2launchtemplate:id"] = pool.from->from->id;
    for (int n = 0; n < count; ++n) {
      spec.client_token = fmt::format("{}-{}", id_, serial_++);
      const auto instance = world_.launch_instance(spec);
      if (!instance) return no_capacity(part, pool);  // a plan is made of free capacity under the same lock
      done.ids.push_back(instance->id);
    }
    launched_.push_back(std::move(done));
  }

  World& world_;
  const AwsTemplates& templates_;
  const AwsCall& call_;
  std::string id_;
  int serial_ = 0;
  std::vector<FleetFault> faults_;
  std::vector<Launched> launched_;
};

}  // namespace

AwsReply AwsFleets::create(const AwsCall& call) {
  if (call.param("Type") != "instant") return invalid_value("The fleet launches Type=instant only.");
  FLEET_ASSIGN(const auto overrides, read_overrides(call, templates_));
  FLEET_ASSIGN(const auto parts, read_parts(call));
  FLEET_ASSIGN(const auto* const known, tokens_.known(call, world_.now()));
  if (known != nullptr) return *known;
  const auto hex = world_.random_hex(32);
  Making fleet(world_, templates_, call, "fleet-" + dashed(hex));
  for (const Part& part : parts) fleet.launch(part, overrides);
  auto answer = fleet.answer();
  tokens_.keep(call, answer, world_.now());
  return answer;
}

}  // namespace qm::fleet
