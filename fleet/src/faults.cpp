#include "faults.hpp"

#include "qm/base/log.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace qm::fleet {
namespace {

Duration seconds_of(const Json& value, std::int64_t fallback) {
  return Duration(static_cast<std::int64_t>(value.number(static_cast<double>(fallback)) * 1e6));
}

tl::unexpected<Error> wrong(std::string_view field, std::string message, std::string remedy) {
  return fail({Code::kInvalid, std::move(message), std::string(field), std::move(remedy)});
}

Status check_kind(const Json& fault) {
  static const std::set<std::string> kKinds = {"xid",          "node_lost", "heal",       "terminate", "spot_reclaim",
                                               "ice",          "capacity",  "throttle",   "api_5xx",   "watch_cut",
                                               "metrics_down", "mig",       "maintenance"};
  const std::string& kind = fault["kind"].string();
  if (kKinds.contains(kind)) return {};
  return wrong("kind", fmt::format("there is no fault \"{}\"", kind),
               fmt::format("use one of {}", fmt::join(kKinds, ", ")));
}

}  // namespace

Result<std::string> Faults::pick_node(const Json& fault) {
  if (const std::string& name = fault["node"].string(); !name.empty()) return name;
  if (!fault["random"].boolean()) return wrong("node", "the fault names no node", "give \"node\", or \"random\": true");
  std::vector<std::string> busy, live;
  for (const auto& [name, node] : cluster_.nodes()) {
    if (node.up) live.push_back(name);
    if (node.up && !node.pods.empty()) busy.push_back(name);
  }
  const auto& from = busy.empty() ? live : busy;
  if (from.empty()) return fail(Code::kNotFound, "there is no live node");
  return from[static_cast<std::size_t>(world_.random_between(0, static_cast<std::int64_t>(from.size()) - 1))];
}

Result<Json> Faults::spot_reclaim(const Json& fault) {
  std::vector<Instance> candidates;
  for (const auto& instance : world_.instances()) {
    const bool wanted = fault["node"].string().empty() || fault["node"].string() == instance.private_dns;
    if (wanted && instance.market == Market::kSpot && instance.alive() && !instance.spot_notice)
      candidates.push_back(instance);
  }
  std::ranges::shuffle(candidates, world_.random());
  // Nodes with running pods first: the loss of an empty node tests little.
  std::ranges::stable_partition(candidates, [&](const Instance& instance) {
    const NodeState* node = cluster_.node(instance.private_dns);
    return node != nullptr && !node->pods.empty();
  });
  Json struck = Json::array();
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, fault["count"].integer(1)));
  for (std::size_t i = 0; i < std::min(count, candidates.size()); ++i) {
    QM_TRY(world_.give_spot_notice(candidates[i].id, seconds_of(fault["notice_s"], 120)));
    struck.push_back(candidates[i].private_dns);
  }
  return Json::object({{"nodes", std::move(struck)}});
}

Result<Json> Faults::inject(const Json& fault) {
  QM_TRY(check_kind(fault));
  const auto held = world_.lock();
  const std::string& kind = fault["kind"].string();
  if (kind == "spot_reclaim") return spot_reclaim(fault);
  if (kind == "watch_cut") {
    const auto count = static_cast<std::int64_t>(api_.cut_watches(fault["compact"].boolean()));
    world_.signal(kind, {{"watches", count}});
    return Json::object({{"watches", count}});
  }
  const Instant until = world_.now() + seconds_of(fault.contains("for_s") ? fault["for_s"] : fault["until_s"], 60);
  if (kind == "throttle" || kind == "api_5xx") {
    const double share = fault["share"].number(0.1);
    if (share < 0 || share > 1) return wrong("share", fmt::format("{} is not a valid share", share), "use 0 to 1");
    const std::string& api = fault["api"].string();
    if (kind == "throttle") world_.disturb(World::ApiFault::kThrottled, api, 1, until);
    if (kind == "api_5xx") world_.disturb(World::ApiFault::kServerError, api, share, until);
    world_.signal(kind, {{"api", api}, {"until", micros(until)}});
    return Json::object({{"until", to_rfc3339(until)}});
  }
  if (kind == "ice" || kind == "capacity") {
    const std::string& type = fault["type"].string();
    if (world_.prices().find(type) == nullptr) {
      return wrong("type", fmt::format("there is no instance type \"{}\"", type), "use a type of the price table");
    }
    const std::string name = fault["market"].string_or("spot");
    const Market market = name == name_of(Market::kSpot) ? Market::kSpot : Market::kOnDemand;
    if (name != name_of(market)) {
      return wrong("market", fmt::format("there is no market \"{}\"", name), "use spot or on-demand");
    }
    const std::string& zone = fault["zone"].string();
    if (!zone.empty() && std::ranges::find(world_.options().zones, zone) == world_.options().zones.end()) {
      return wrong("zone", fmt::format("there is no zone \"{}\"", zone),
                   fmt::format("use one of {}, or none for all", fmt::join(world_.options().zones, ", ")));
    }
    if (kind == "ice") world_.block_capacity(type, market, until, zone);
    if (kind == "capacity") world_.limit_capacity(type, market, static_cast<int>(fault["limit"].integer(-1)), zone);
    const Json::Object target = {{"type", type}, {"market", name}, {"zone", zone}};
    world_.signal(kind, target);
    return Json(target);
  }
  QM_ASSIGN(const std::string name, pick_node(fault));
  if (kind == "xid") {
    const auto gpu = fault["gpu"].is_int() ? std::optional(static_cast<int>(fault["gpu"].integer())) : std::nullopt;
    QM_TRY(cluster_.xid(name, static_cast<int>(fault["xid"].integer(79)), gpu));
  } else if (kind == "node_lost") {
    QM_TRY(cluster_.lose_node(name));
  } else {
    NodeState* node = cluster_.node(name);
    if (node == nullptr) return fail(Code::kNotFound, "there is no node {}", name);
    if (kind == "heal") QM_TRY(cluster_.heal_node(name));
    if (kind != "maintenance") world_.signal(kind, {{"node", name}});
    if (kind == "metrics_down") node->metrics_down_until = until;
    if (kind == "mig") node->layout_fails = true;
    if (kind == "maintenance") {
      static const std::set<std::string> kCodes = {"instance-reboot", "instance-retirement", "instance-stop",
                                                   "system-maintenance", "system-reboot"};
      const auto code = fault["code"].string_or("instance-retirement");
      if (!kCodes.contains(code)) {
        return wrong("code", fmt::format("there is no scheduled event \"{}\"", code),
                     fmt::format("use one of {}", fmt::join(kCodes, ", ")));
      }
      QM_TRY(world_.schedule_maintenance(node->instance, code, seconds_of(fault["notice_s"], 3600)));
    }
    if (kind == "terminate") QM_TRY(world_.terminate_instance(node->instance, "Server.InternalError"));
  }
  return Json::object({{"node", name}});
}

Status Faults::plan(std::string_view script) {
  QM_ASSIGN(const Json list, Json::parse(script));
  if (!list.is_array())
    return wrong("faults", "the script is not a JSON array", R"(write [{"at_s": 60, "kind": "xid", ...}])");
  for (const Json& fault : list.items()) {
    QM_TRY(check_kind(fault));
    if (!fault["at_s"].is_number())
      return wrong("at_s", "a fault of the script has no time", "give \"at_s\" in domain seconds");
  }
  for (const Json& fault : list.items()) {
    world_.after(seconds_of(fault["at_s"], 0), [this, fault] {
      const auto done = inject(fault);
      if (done) {
        log::info("fault injected", {{"fault", fault.dump()}, {"struck", done->dump()}});
      } else {
        log::warn("fault could not be injected", {{"fault", fault.dump()}, {"why", done.error().to_string()}});
      }
    });
  }
  return {};
}

}  // namespace qm::fleet
