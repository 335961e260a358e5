#include "test/engine/script.hpp"

#include "qm/kube_rules/text.hpp"
#include "qm/testing/table.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sstream>

namespace qm::autoscaler::testing {
namespace {

using qm::testing::split;
using qm::testing::trimmed;

std::pair<std::string, std::string> key_value(const std::string& word) {
  const auto eq = word.find('=');
  return {word.substr(0, eq), eq == std::string::npos ? std::string() : word.substr(eq + 1)};
}

/// "k=a,b", "k!=a,b", "k" (must exist), "k>=2"
Requirement label_rule(const std::string& text) {
  const auto at = text.find_first_of("!>=");
  Expression out{text.substr(0, at), Operator::kExists, {}, {}};
  if (at != std::string::npos) {
    out.op = text[at] == '=' ? Operator::kIn : text[at] == '!' ? Operator::kNotIn : Operator::kGte;
    out.values = split(text.substr(text.find('=') + 1), ',');
  }
  return *requirement_of(out);
}

std::string text_of(kube_rules::PodRules rules, Labels labels) {
  return kube_rules::text_of({Namespace("research"), std::move(labels), std::move(rules)});
}

/// Required node affinity with one term for each alternative: "team=blue,red;tier" is team In (blue, red), or tier
/// Exists.
std::string affinity_rules(const std::string& text) {
  kube_rules::PodRules rules;
  rules.required.emplace();
  for (const auto& alternative : split(text, ';')) {
    const auto [key, values] = key_value(alternative);
    const auto op = values.empty() ? kube_rules::Requirement::Op::kExists : kube_rules::Requirement::Op::kIn;
    rules.required->push_back({{{key, op, split(values, ',')}}, {}});
  }
  return text_of(std::move(rules), {});
}

/// Pods with the label app=NAME that may not be on one host with one another.
std::string apart_rules(const std::string& name) {
  kube_rules::PodRules rules;
  kube_rules::PodTerm term;
  term.topology_key = "kubernetes.io/hostname";
  term.pods = LabelSelector{{{"app", LabelRequirement::Op::kIn, {name}}}};
  rules.anti_affinity = {term};
  return text_of(std::move(rules), {{"app", name}});
}

/// Pods with the label app=NAME, spread over zones with a skew of at most 1.
std::string spread_rules(const std::string& name) {
  kube_rules::PodRules rules;
  kube_rules::Spread spread;
  spread.topology_key = words::kZone;
  spread.pods = LabelSelector{{{"app", LabelRequirement::Op::kIn, {name}}}};
  rules.spread = {spread};
  return text_of(std::move(rules), {{"app", name}});
}

Duration secs(const std::string& n) { return std::chrono::seconds(std::stol(n)); }

NoticeKind kind_of(const std::string& word) {
  if (word == "rebalance") return NoticeKind::kRebalance;
  if (word == "maintenance") return NoticeKind::kMaintenance;
  return word == "lifecycle" ? NoticeKind::kLifecycle : NoticeKind::kSpot;
}

template <class List>
std::string joined(const List& list) {
  std::vector<std::string> words;
  for (const auto& item : list) words.push_back(item.value());
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::vector<InstanceType> small_catalog() {
  const auto type = [](const char* name, std::int64_t gpus, const char* product, std::int64_t usd) {
    return InstanceType{name, gpus, product, gpus * 16'000, gpus << 36, HourlyRate{Money::nano(usd * 1'000'000'000)}};
  };
  // Two types without GPUs, with the allocatable of two and four cores.
  const auto small = [](const char* name, std::int64_t milli, std::int64_t usd_milli) {
    InstanceType out{name, 0, "", milli, 4LL << 30, HourlyRate{Money::nano(usd_milli * 1'000'000)}};
    out.labels = Requirements(Labels{{"karpenter.k8s.aws/instance-family", "c"}});
    return out;
  };
  return {small("c2", 1930, 96),  small("c4", 3920, 192),    type("g1", 1, "L4", 1),
          type("g4", 4, "L4", 5), type("a8", 8, "A100", 40), type("h8", 8, "H100", 90)};
}

AttemptId attempt_id(const std::string& text) {
  const auto slash = text.find('/');
  return {WorkloadUid(text.substr(0, slash)), std::stoi(text.substr(slash + 1))};
}

PodSet pod_set(std::int32_t count, std::int64_t gpus) {
  PodSet set;
  set.count = count;
  set.shape.gpu.whole = gpus;
  return set;
}

Script::Script(Options options) : engine_(small_catalog(), options) {}

std::vector<Command> Script::parse(const std::string& line) {
  const auto words = split(line, ' ');
  const std::string& verb = words.at(0);
  const auto all_demand = [&] {
    DemandUpdated update;
    for (const auto& [uid, item] : demand_) update.items.push_back(item);
    return update;
  };
  const auto all_pools = [&] {
    PoolsApplied applied;
    for (const auto& [name, pool] : pools_) applied.pools.push_back(pool);
    return applied;
  };
  const auto description = [&] {
    InstancesListed seen;
    for (const auto& [id, fact] : cloud_) seen.instances.push_back(fact);
    return seen;
  };
  const auto rest = [&](std::size_t from) {
    return fmt::format("{}", fmt::join(words.begin() + static_cast<std::ptrdiff_t>(from), words.end(), " "));
  };

  if (verb == "pool") {
    Pool p;
    p.name = words.at(1);
    p.markets = {Market::kOnDemand};
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "types") p.instance_types = split(value, ',');
      if (key == "zones") p.zones = split(value, ',');
      if (key == "not-zones") p.not_zones = split(value, ',');
      if (key == "nodes") p.limit_nodes = std::stol(value);
      if (key == "replicas") p.replicas = std::stol(value);
      if (key == "unready") p.not_ready = value;
      if (key == "rule") p.rules.push_back(label_rule(value));
      if (key == "weight") p.weight = std::stoi(value);
      if (key == "gpus") p.limit_gpus = std::stol(value);
      if (key == "cpu") p.limit_cpu_milli = std::stol(value) * 1000;
      if (key == "mem") p.limit_memory_bytes = std::stol(value) << 30;
      if (key == "after") p.consolidate_after = secs(value);
      if (key == "priority") p.expander_priority = std::stol(value);
      if (key == "unready-after") p.unready_after = secs(value);
      if (key == "manual") p.manual = true;
      if (key == "has") p.node_resources[key_value(value).first] = std::stol(key_value(value).second);
      if (key == "never") p.consolidate_empty = false;
      if (key == "group") p.group = value;
      if (key == "taint") p.taints.push_back({value, "", "NoSchedule"});
      if (key == "limit") p.other_limits[key_value(value).first] = std::stol(key_value(value).second);
      if (key == "min-values") p.min_values[key_value(value).first] = std::stoi(key_value(value).second);
      if (key == "budget") {
        const auto parts = split(value, '/');  // nodes/reasons/seconds/schedule, with _ for blanks
        Budget budget{parts[0], {}, {}, {}};
        if (parts.size() > 1 && parts[1] != "all") budget.reasons = split(parts[1], ',');
        if (parts.size() > 3) {
          budget.duration = secs(parts[2]);
          budget.schedule = parts[3];
          std::ranges::replace(budget.schedule, '_', ' ');
        }
        p.budgets.push_back(budget);
      }
      if (key == "not-ready") p.not_ready = value;
      if (key == "expire") p.lifecycle.expire_after = secs(value);
      if (key == "grace") p.lifecycle.termination_grace = secs(value);
      if (key == "hash") p.lifecycle.template_hash = value;
      if (key == "images") p.lifecycle.images = split(value, ',');
      if (key == "subnets") p.lifecycle.subnets = split(value, ',');
      if (key == "groups") p.lifecycle.security_groups = split(value, ',');
      if (key == "startup") p.lifecycle.startup_taints.push_back({value, "", "NoExecute"});
      if (key == "label") p.labels.insert(key_value(value));
      if (key == "markets") {
        p.markets.clear();
        for (const auto& m : split(value, ',')) p.markets.push_back(m == "spot" ? Market::kSpot : Market::kOnDemand);
      }
    }
    pools_[p.name] = p;
    return {all_pools()};
  }
  if (verb == "pool-gone") {
    pools_.erase(words.at(1));
    return {all_pools()};
  }
  if (verb == "price") {
    return {SpotPricesUpdated{{{words.at(1), words.at(2), HourlyRate{*Money::parse_usd(words.at(3))}, now_}}}};
  }
  if (verb == "want") {
    DemandUpdated::Item item{attempt_id(words.at(1)), {}, 0, now_};
    if (const auto known = demand_.find(item.id.uid); known != demand_.end()) item.since = known->second.since;
    for (const auto& part : split(words.at(2), '+')) {
      const auto x = part.find('x');
      const std::string gpus = part.substr(x + 1);
      PodSet set = pod_set(std::stoi(part.substr(0, x)), 0);
      set.name = fmt::format("set{}", item.pod_sets.size());
      if (gpus == "mig") {
        set.shape.gpu.mig_profile = "1g.10gb";
        set.shape.gpu.mig_count = 1;
      } else {
        (gpus.back() == 'm' ? set.shape.gpu.milli : set.shape.gpu.whole) = std::stol(gpus);
      }
      for (std::size_t i = 3; i < words.size(); ++i) {
        const auto [key, value] = key_value(words[i]);
        if (key == "ns") item.ns = value;
        if (key == "type") item.type = value;
        if (key == "runs") item.runs = true;
        if (key == "room" && item.pod_sets.empty()) {
          for (const auto& pods : split(value, ',')) item.room.push_back(std::stoi(pods));
        }
        if (key == "roomzone") item.room_zone = value;
        if (key == "prio") item.priority = std::stoi(value);
        if (key == "cpu") set.shape.cpu_milli = std::stol(value) * 1000;
        if (key == "milli") set.shape.cpu_milli = std::stol(value);
        if (key == "ext") set.shape.extended[key_value(value).first] = std::stol(key_value(value).second);
        if (key == "affinity") set.rules = affinity_rules(value);
        if (key == "apart") set.rules = apart_rules(value);
        if (key == "spread") set.rules = spread_rules(value);
        if (key == "mem") set.shape.memory_bytes = std::stol(value) << 30;
        if (key == "select" || key == fmt::format("select{}", item.pod_sets.size()))
          set.shape.node_selector.insert(key_value(value));
        if (key == "tolerate") set.shape.tolerations.push_back({value, "Exists", "", ""});
        if (key == "model") set.shape.gpu.models = {value};
      }
      item.pod_sets.push_back(set);
    }
    demand_[item.id.uid] = item;
    return {all_demand()};
  }
  if (verb == "daemonset") {
    PodSet set;
    set.name = words.at(1);
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "milli") set.shape.cpu_milli = std::stol(value);
      if (key == "select") set.shape.node_selector.insert(key_value(value));
      if (key == "tolerate-all") set.shape.tolerations.push_back({"", "Exists", "", ""});
      if (key == "affinity") set.rules = affinity_rules(value);
    }
    daemon_sets_.push_back(set);
    return {DaemonSetsUpdated{daemon_sets_}};
  }
  if (verb == "unwant") {
    demand_.erase(WorkloadUid(words.at(1)));
    return {all_demand()};
  }
  if (verb == "cloud") {
    InstanceFact& fact = cloud_[InstanceId(words.at(1))];
    fact.id = InstanceId(words.at(1));
    if (fact.launched == Instant{}) fact.launched = now_;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "claim") fact.claim = ClaimName(value);
      if (key == "pool") fact.pool = value;
      if (key == "type") fact.type = value;
      if (key == "zone") fact.zone = value;
      if (key == "node") fact.node = NodeName(value);
      if (key == "spot") fact.market = Market::kSpot;
      if (key == "group") fact.group = value;
      if (key == "launch") fact.launch = value;
      if (key == "image") fact.image = value;
      if (key == "subnet") fact.subnet = value;
      if (key == "groups") fact.security_groups = split(value, ',');
      if (key == "stopped") fact.stopped = kStart + secs(value);
    }
    return {description()};
  }
  if (verb == "cloud-lost") {
    cloud_.erase(InstanceId(words.at(1)));
    return {description()};
  }
  if (verb == "up") {
    const Claim* c = engine_.tables().claims.find(ClaimName(words.at(1)));
    InstanceFact fact{InstanceId(words.at(2)),
                      ClaimName(words.at(1)),
                      c->pool,
                      c->type,
                      c->zone,
                      c->market,
                      NodeName(words.at(3)),
                      now_,
                      {}};
    cloud_[fact.id] = fact;
    return {LaunchEnded{fact.claim, fact.id, ""}, description(),
            NodeUpdated{fact.node, true, false, false, 0, now_, fact.id}};
  }
  if (verb == "launched") return {LaunchEnded{ClaimName(words.at(1)), InstanceId(words.at(2)), ""}};
  if (verb == "ice") return {LaunchEnded{ClaimName(words.at(1)), InstanceId(), "no capacity"}};
  if (verb == "refused") return {LaunchEnded{ClaimName(words.at(1)), InstanceId(), rest(2)}};
  if (verb == "quota") {
    static const std::map<std::string, Refusal> kScopes = {{"type", Refusal::kType},
                                                           {"zone", Refusal::kZone},
                                                           {"market", Refusal::kMarket},
                                                           {"account", Refusal::kAccount}};
    return {LaunchEnded{ClaimName(words.at(1)), InstanceId(), "no capacity", kScopes.at(words.at(2))}};
  }
  if (verb == "unknown") return {LaunchEnded{ClaimName(words.at(1)), InstanceId(), rest(2), Refusal::kLaunch}};
  if (verb == "group-seen") {
    ScalingGroup group;
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "desired") {
        group.desired = std::stol(value);
      } else if (key == "min") {
        group.min = std::stol(value);
      } else if (key == "warm") {
        group.warm = std::stol(value);
      } else if (key == "failed") {
        group.failed_at = now_;
        group.failure = value;
      } else if (key == "hook") {  // hook=launch:600 or hook=terminate:600
        const auto parts = split(value, ':');
        group.hooks.push_back({parts.at(0) + "-hook", parts.at(0) == "launch", secs(parts.at(1))});
      } else {
        group.members.push_back({InstanceId(key), value});
      }
    }
    std::ranges::sort(group.members);
    groups_[words.at(1)] = group;
    return {GroupsListed{groups_}};
  }
  if (verb == "group-refused") return {GroupRefused{words.at(1), rest(3), std::stol(words.at(2))}};
  if (verb == "terminate-busy") return {TerminateEnded{ClaimName(words.at(1)), "work landed", true}};
  if (verb == "owner") {  // owner NS OWNER ... : all of them; * = namespaces that name none
    OwnersUpdated update;
    for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
      update.owners.push_back({words[i] == "*" ? "" : words[i], words[i + 1] == "quartermaster", words[i + 1]});
    }
    return {update};
  }
  if (verb == "terminate-refused") return {TerminateEnded{ClaimName(words.at(1)), rest(2)}};
  if (verb == "node") {
    NodeUpdated update{NodeName(words.at(1)), true, false, false, 0, now_, InstanceId(words.at(2))};
    if (const NodeRow* known = engine_.tables().nodes.find(update.node); known != nullptr && known->empty_since) {
      update.empty_since = known->empty_since;
    }
    for (std::size_t i = 3; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "cordoned") update.cordoned = true;
      if (key == "notready") update.ready = false;
      if (key == "pods") update.pods = std::stoi(value);
    }
    if (update.pods > 0) update.empty_since.reset();
    return {update};
  }
  if (verb == "node-gone") return {NodeUpdated{NodeName(words.at(1)), false, false, true, 0, {}, InstanceId()}};
  if (verb == "health") return {HealthUpdated{NodeName(words.at(1)), words.at(2) == "broken"}};
  if (verb == "runs") {
    AssignmentUpdated update{attempt_id(words.at(1)), true, {}};
    for (std::size_t i = 2; i < words.size(); ++i) update.nodes.emplace_back(words[i]);
    return {update};
  }
  if (verb == "released") return {AssignmentUpdated{attempt_id(words.at(1)), false, {}}};
  if (verb == "workload") {
    WorkloadUpdated update{WorkloadUid(words.at(1)), 1, false, false};
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "saves") update.checkpoints = true;
      if (key == "type") update.type = value;
      if (key == "hours") update.expected = std::chrono::hours(std::stol(value));
      if (key == "interval") update.checkpoint.interval = secs(value);
      if (key == "expected") update.checkpoint.expected = secs(value);
      if (key == "quorum") update.checkpoint.quorum = static_cast<std::int32_t>(std::stol(value));
    }
    return {update};
  }
  if (verb == "ended") return {WorkloadUpdated{WorkloadUid(words.at(1)), 1, false, true}};
  if (verb == "notice") {
    const bool over = words.at(2) == "over";
    return {SpotNoticeUpdated{NodeName(words.at(1)), over ? Instant{} : now_ + secs(words.at(2)), over,
                              kind_of(words.size() > 3 ? words[3] : "")}};
  }
  if (verb == "instance-notice") {
    return {InstanceNoticeUpdated{InstanceId(words.at(1)), kind_of(words.size() > 3 ? words[3] : ""),
                                  now_ + secs(words.at(2))}};
  }
  if (verb == "save") {
    const bool over = words.at(3) == "over";
    return {SaveRequested{attempt_id(words.at(1)), NodeName(words.at(2)), "MigLayout",
                          over ? Instant{} : now_ + secs(words.at(3)), over}};
  }
  if (verb == "ack") {
    const auto& order = words.at(1);
    checkpoint::Answer answer{
        NodeName(words.at(2)), {attempt_id(order.substr(0, order.rfind('/'))).attempt, 0}, 1, {}, {}};
    StepSave save{0, 0, 1, "", 0, Duration{0}};
    for (std::size_t i = 3; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      if (key == "step") save.step = std::stol(value);
      if (key == "uri") save.uri = value;
      if (key == "took") save.took = secs(value);
      if (key == "attempt") answer.fence.attempt = static_cast<std::int32_t>(std::stol(value));
      if (key == "number") answer.fence.number = std::stol(value);
      if (key == "failed") answer.refusal = "refused";
    }
    if (answer.refusal.empty()) answer.saves.push_back(std::move(save));
    return {AckUpdated{order, std::move(answer)}};
  }
  if (verb == "tick") {
    now_ += secs(words.at(1));
    return {Tick{}};
  }
  if (verb == "show") {
    show_claims_ = true;
    return {};
  }
  if (auto commands = parse_lifecycle(words); !commands.empty()) return commands;
  broken_ = "no such command: " + line;
  return {};
}

std::vector<Command> Script::parse_lifecycle(const std::vector<std::string>& words) {
  const std::string& verb = words.at(0);
  if (verb == "details") {
    NodeDetailsUpdated update{NodeName(words.at(1)), false, {}};
    update.details.instance = InstanceId(words.at(2));
    for (std::size_t i = 3; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      const auto colon = value.find(':');
      const std::string pod = value.substr(0, colon), until = colon == std::string::npos ? "" : value.substr(colon + 1);
      if (key == "hold")
        update.details.holding.push_back({pod, until == "ever" ? Duration::max() : secs(until), now_, ""});
      if (key == "pdb") update.details.holding.push_back({value, {}, {}, "guard"});
      if (key == "dnd") update.details.do_not_disrupt = true;
      if (key == "serves") update.details.serves = true;
      if (key == "taint") update.details.taints.push_back({value, "", "NoExecute"});
      if (key == "gpus") update.details.allocatable["nvidia.com/gpu"] = std::stol(value);
      if (key == "unhealthy")
        update.details.unhealthy = "Ready is False", update.details.repair_at = now_ + secs(value);
    }
    return {update};
  }
  if (verb == "buffer" || verb == "buffer-gone") {
    if (verb == "buffer") {
      const auto x = words.at(2).find('x');
      Buffer& buffer = buffers_[words.at(1)];
      buffer.name = words.at(1);
      buffer.pods = pod_set(std::stoi(words.at(2).substr(0, x)), std::stol(words.at(2).substr(x + 1)));
    } else {
      buffers_.erase(words.at(1));
    }
    BuffersApplied all;
    for (const auto& [name, buffer] : buffers_) all.buffers.push_back(buffer);
    return {all};
  }
  if (verb == "overlay" || verb == "overlay-gone") {
    overlays_.erase(words.at(1));
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto [key, value] = key_value(words[i]);
      Overlay& overlay = overlays_[words.at(1)];
      overlay.name = words.at(1);
      if (key == "adjust") {
        overlay.adjustment = *price_adjustment_of(value);
      } else if (key == "price") {
        overlay.price = *Money::parse_usd(value);
      } else if (key == "weight") {
        overlay.weight = std::stoi(value);
      } else if (key == "cap") {
        overlay.capacity[value.substr(0, value.rfind('/'))] = std::stol(value.substr(value.rfind('/') + 1));
      } else {
        overlay.requirements.add(label_rule(words[i]));
      }
    }
    OverlaysApplied all;
    for (const auto& [name, overlay] : overlays_) all.overlays.push_back(overlay);
    return {all};
  }
  return {};
}

std::vector<std::string> Script::render(const Output& out) const {
  std::vector<std::string> lines;
  const auto at = [](Instant t) { return std::to_string((t - kStart) / std::chrono::seconds(1)); };
  const auto mark_changed = [&](std::string line) { lines.push_back(std::move(line)); };
  for (const auto& p : out.prices)
    mark_changed(fmt::format("price {} {} {}", p.type, p.zone, p.row.rate.per_hour.to_usd(2)));
  for (const auto& e : out.instances) {
    const bool last_field = e.over || e.row.state == ClaimState::kGone || e.row.state == ClaimState::kFailed;
    if (!show_claims_ && !last_field) continue;
    mark_changed(fmt::format("claim {} {}{}{}{}", e.claim, name_of(e.row.state),
                             e.row.instance.empty() ? "" : " " + e.row.instance.value(),
                             e.row.stopped ? " stopped=" + at(*e.row.stopped) : "", e.over ? " over" : ""));
  }
  for (const auto& l : out.launches) {
    mark_changed(fmt::format("launch {} {} {}{}", l.claim, l.row.type, name_of(l.row.market),
                             l.row.zone.empty() ? "" : " " + l.row.zone) +
                 [&] {
                   std::string labels;
                   for (const auto& [label, value] : l.row.labels) labels += fmt::format(" {}={}", label, value);
                   return labels;
                 }());
  }
  for (const auto& p : out.promises) {
    mark_changed(p.withdrawn ? fmt::format("withdrawn {}", p.id.to_string())
                             : fmt::format("promise {} by={} {}", p.id.to_string(), at(p.ready_by), joined(p.claims)));
  }
  for (const auto& o : out.orders) {
    mark_changed(
        o.row.outcome.empty()
            ? fmt::format("order {} to {} by={}", o.id, joined(o.row.save.nodes), at(o.row.save.deadline))
            : fmt::format("order {} {} step={} uri={}", o.id, o.row.outcome, o.row.saved.step, o.row.saved.uri));
  }
  for (const auto& s : out.stale_answers) mark_changed(fmt::format("stale {} {}", s.order, s.answer.node));
  for (const auto& e : out.evictions) {
    mark_changed(e.over ? fmt::format("evict-over {}", e.id.to_string())
                        : fmt::format("evict {} from {} by={} step={} uri={}", e.id.to_string(), e.node, at(e.deadline),
                                      e.step, e.resume_uri));
  }
  for (const auto& d : out.drains)
    mark_changed(d.lifted ? fmt::format("lifted {}", d.node) : fmt::format("drain {} {}", d.node, d.reason));
  for (const auto& t : out.terminations) {
    mark_changed(fmt::format("terminate {} {}{}", t.claim, t.instance, t.group.empty() ? "" : " in " + t.group));
  }
  for (const auto& g : out.groups) mark_changed(fmt::format("group {} {}", g.group, g.size));
  for (const auto& p : out.protections)
    mark_changed(fmt::format("{} {} in {}", p.protect ? "protect" : "unprotect", joined(p.instances), p.group));
  for (const auto& h : out.hooks)
    mark_changed(fmt::format("{} {} {}", h.done ? "continue" : "heartbeat", h.instance, h.hook));
  for (auto& line : lines) line = trimmed(line);
  return lines;
}

Output Script::step(const std::vector<Command>& batch) {
  const auto before = engine_.digest();
  const Output first = engine_.step(batch, now_);
  const auto after = engine_.digest();
  engine_.undo();
  if (engine_.digest() != before) broken_ = "undo does not restore the state";
  Output second = engine_.step(batch, now_);
  if (engine_.digest() != after) broken_ = "the same step gives another state";
  if (render(first) != render(second) || first.wake_at != second.wake_at)
    broken_ = "the same step gives another output";
  if (second.wake_at && *second.wake_at <= now_) broken_ = "the timer is not ahead";
  engine_.commit();
  // No output may be left: a second step at the same time has none, and writes nothing.
  const Output again = engine_.step({}, now_);
  bool quiet = render(again).empty() && again.wake_at == second.wake_at && engine_.digest() == after;
  if (!quiet) broken_ = fmt::format("a step without news says: {}", fmt::join(render(again), "; "));
  engine_.commit();
  return second;
}

std::string Script::run(const std::string& text) {
  return qm::testing::run_table(text, [this](const std::string& line) {
    std::vector<Command> batch;
    for (const auto& part : split(line, '|')) {
      for (auto& command : parse(trimmed(part))) batch.push_back(std::move(command));
    }
    auto got = render(step(batch));
    if (!broken_.empty()) got.push_back("BROKEN " + std::exchange(broken_, {}));
    return got;
  });
}

void expect(const std::string& table) { EXPECT_EQ(Script().run(table), ""); }

std::string why(const std::string& table) {
  Script script;
  EXPECT_EQ(script.run(table), "");
  const auto lines = script.engine().explain(script.now());
  return lines.empty() ? "" : lines.front();
}

namespace {

TEST(Script, ReportsTheActualResult) {
  Script script;
  EXPECT_NE(script.run("pool p types=g1\n=> launch nothing"), "");
  EXPECT_NE(script.run("nonsense"), "");
}

}  // namespace
}  // namespace qm::autoscaler::testing
