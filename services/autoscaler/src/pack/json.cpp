#include "qm/autoscaler/pack/json.hpp"

#include "qm/base/parse.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>
#include <utility>

namespace qm::autoscaler::pack {
namespace {

constexpr std::int64_t kMostAmount = std::int64_t{1} << 60;

tl::unexpected<Error> invalid(const std::string& path, const std::string& what, const std::string& remedy) {
  return fail({Code::kInvalid, path + " " + what, path, remedy});
}

Result<std::int64_t> amount_of(const Json& object, std::string_view key, const std::string& path) {
  const Json& value = object[key];
  if (value.is_null()) return 0;
  if (!value.is_int() || value.integer() < 0 || value.integer() > kMostAmount) {
    return invalid(path + "." + std::string(key), "is not a whole number from 0 to 2^60", "write a whole number");
  }
  return value.integer();
}

Result<Labels> labels_of(const Json& object, const std::string& path) {
  Labels out;
  for (const auto& [key, value] : object.members()) {
    if (!value.is_string()) return invalid(path + "." + key, "is not text", "quote the value");
    out[key] = value.string();
  }
  return out;
}

Result<Amounts> amounts_of(const Json& object, const std::string& path) {
  Amounts out;
  for (const auto& [key, value] : object.members()) {
    QM_ASSIGN(const auto amount, amount_of(object, key, path));
    if (amount > 0) out[key] = amount;
  }
  return out;
}

/// The operator of an expression: "op" in this format, "operator" in Kubernetes.
const Json& operator_text(const Json& expression) {
  return expression.contains("op") ? expression["op"] : expression["operator"];
}

std::vector<std::string> texts_of(const Json& array) {
  std::vector<std::string> out;
  for (const auto& item : array.items()) out.push_back(item.string());
  return out;
}

Result<NodeTerm> term_of(const Json& expressions, const std::string& path) {
  NodeTerm out;
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const Json& expression = expressions.at(i);
    const std::string at = fmt::format("{}[{}]", path, i);
    const auto op = operator_of(operator_text(expression).string());
    if (!op) return invalid(at + ".op", "is no operator", "use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte");
    NodeRequirement requirement{expression["key"].string(), *op, texts_of(expression["values"])};
    const bool bound = *op >= Operator::kGt;
    if (bound && (requirement.values.size() != 1 || !whole_number(requirement.values.front()))) {
      return invalid(at + ".values", "is not one whole number", "Gt, Lt, Gte and Lte compare with one whole number");
    }
    out.push_back(std::move(requirement));
  }
  return out;
}

Result<LabelSelector> selector_of(const Json& json, const std::string& path) {
  using Op = LabelRequirement::Op;
  static constexpr std::array<std::pair<std::string_view, Op>, 4> kSelectorOps{
      {{"In", Op::kIn}, {"NotIn", Op::kNotIn}, {"Exists", Op::kExists}, {"DoesNotExist", Op::kDoesNotExist}}};
  LabelSelector out;
  for (const auto& [key, value] : json["match_labels"].members()) {
    out.requirements.push_back({key, Op::kIn, {value.string()}});
  }
  const Json& expressions = json["match_expressions"];
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const auto& name = operator_text(expressions.at(i)).string();
    const auto* const found = std::ranges::find(kSelectorOps, name, [](const auto& pair) { return pair.first; });
    if (found == kSelectorOps.end()) {
      return invalid(fmt::format("{}.match_expressions[{}].op", path, i), "is no operator of a label selector",
                     "use In, NotIn, Exists or DoesNotExist");
    }
    out.requirements.push_back(
        {expressions.at(i)["key"].string(), found->second, texts_of(expressions.at(i)["values"])});
  }
  return out;
}

Result<std::vector<PodTerm>> pod_terms_of(const Json& array, const std::string& path) {
  std::vector<PodTerm> out;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    QM_ASSIGN(auto selector, selector_of(array.at(i)["selector"], at + ".selector"));
    out.push_back({array.at(i)["key"].string(), std::move(selector)});
  }
  return out;
}

Result<InstanceType> type_of(const Json& json, const std::string& path) {
  InstanceType out;
  out.name = json["name"].string();
  if (out.name.empty()) return invalid(path + ".name", "is empty", "name the instance type");
  QM_ASSIGN(out.cpu_milli, amount_of(json, "cpu_m", path));
  QM_ASSIGN(out.memory_bytes, amount_of(json, "mem_bytes", path));
  QM_ASSIGN(out.pods, amount_of(json, "pods", path));
  QM_ASSIGN(out.overhead_cpu_milli, amount_of(json, "overhead_cpu_m", path));
  QM_ASSIGN(out.overhead_memory_bytes, amount_of(json, "overhead_mem_bytes", path));
  QM_ASSIGN(out.extended, amounts_of(json["extended"], path + ".extended"));
  QM_ASSIGN(out.requirements, term_of(json["requirements"], path + ".requirements"));
  const Json& offerings = json["offerings"];
  for (std::size_t i = 0; i < offerings.size(); ++i) {
    const Json& one = offerings.at(i);
    if (!one["price"].is_number() || !(one["price"].number() >= 0) || !std::isfinite(one["price"].number())) {
      return invalid(fmt::format("{}.offerings[{}].price", path, i), "is not a price", "write a number of 0 or more");
    }
    out.offerings.push_back(
        {one["zone"].string(), one["capacity_type"].string(), one["price"].number(), one["available"].boolean(true)});
  }
  return out;
}

Status read_topology(const Json& json, const std::string& path, Pod& out) {
  const Json& spread = json["topology_spread"];
  for (std::size_t i = 0; i < spread.size(); ++i) {
    const std::string at = fmt::format("{}.topology_spread[{}]", path, i);
    QM_ASSIGN(auto selector, selector_of(spread.at(i)["selector"], at + ".selector"));
    const auto skew = spread.at(i)["max_skew"].integer(1);
    if (skew < 1) return invalid(at + ".max_skew", "is less than 1", "write 1 or more");
    out.spread.push_back({spread.at(i)["key"].string(), skew, std::move(selector),
                          spread.at(i)["when_unsatisfiable"].string() != "ScheduleAnyway"});
  }
  QM_ASSIGN(out.affinity, pod_terms_of(json["pod_affinity"], path + ".pod_affinity"));
  QM_ASSIGN(out.anti_affinity, pod_terms_of(json["pod_anti_affinity"], path + ".pod_anti_affinity"));
  return {};
}

Result<Pod> pod_of(const Json& json, const std::string& path) {
  Pod out;
  out.uid = json["uid"].string();
  if (out.uid.empty()) return invalid(path + ".uid", "is empty", "give each pod a uid of its own");
  out.name_space = json["namespace"].string();
  QM_ASSIGN(out.cpu_milli, amount_of(json, "cpu_m", path));
  QM_ASSIGN(out.memory_bytes, amount_of(json, "mem_bytes", path));
  QM_ASSIGN(out.extended, amounts_of(json["extended"], path + ".extended"));
  QM_ASSIGN(out.labels, labels_of(json["labels"], path + ".labels"));
  QM_ASSIGN(out.node_selector, labels_of(json["node_selector"], path + ".node_selector"));
  const Json& required = json["required_terms"];
  for (std::size_t i = 0; i < required.size(); ++i) {
    QM_ASSIGN(auto term, term_of(required.at(i)["match_expressions"], fmt::format("{}.required_terms[{}]", path, i)));
    out.required.push_back(std::move(term));
  }
  const Json& preferred = json["preferred_terms"];
  for (std::size_t i = 0; i < preferred.size(); ++i) {
    QM_ASSIGN(auto term, term_of(preferred.at(i)["match_expressions"], fmt::format("{}.preferred_terms[{}]", path, i)));
    out.preferred.push_back({preferred.at(i)["weight"].integer(1), std::move(term)});
  }
  for (const auto& one : json["tolerations"].items()) {
    out.tolerations.push_back(
        {one["key"].string(), one["operator"].string(), one["value"].string(), one["effect"].string()});
  }
  QM_TRY(read_topology(json, path, out));
  return out;
}

Result<Quantity> limit_of(const Json& limits, std::string_view key) {
  auto read = Quantity::parse(limits[key].is_string() ? limits[key].string() : limits[key].dump());
  if (!read) return fail(read.error().with_context("nodepool.limits." + std::string(key)));
  return read;
}

Result<NodePool> pool_of(const Json& json) {
  NodePool out;
  QM_ASSIGN(out.labels, labels_of(json["labels"], "nodepool.labels"));
  QM_ASSIGN(out.requirements, term_of(json["requirements"], "nodepool.requirements"));
  for (const auto& one : json["taints"].items()) {
    out.taints.push_back({one["key"].string(), one["value"].string(), one["effect"].string()});
  }
  if (json["limits"].contains("cpu")) {
    QM_ASSIGN(const auto limit, limit_of(json["limits"], "cpu"));
    out.cpu_limit_milli = limit.milli();
  }
  if (json["limits"].contains("memory")) {
    QM_ASSIGN(const auto limit, limit_of(json["limits"], "memory"));
    out.memory_limit_bytes = limit.units();
  }
  return out;
}

}  // namespace

Result<Problem> problem_of(const Json& json) {
  Problem out;
  if (!json["types"].is_array() || !json["pods"].is_array()) {
    return fail({Code::kInvalid, "the input has no list \"types\" or no list \"pods\"", "types, pods",
                 "write the format of docs/features/packing.md"});
  }
  QM_ASSIGN(out.pool, pool_of(json["nodepool"]));
  for (std::size_t i = 0; i < json["types"].size(); ++i) {
    QM_ASSIGN(auto type, type_of(json["types"].at(i), fmt::format("types[{}]", i)));
    out.types.push_back(std::move(type));
  }
  out.pods.reserve(json["pods"].size());
  std::unordered_set<std::string> uids;
  for (std::size_t i = 0; i < json["pods"].size(); ++i) {
    QM_ASSIGN(auto pod, pod_of(json["pods"].at(i), fmt::format("pods[{}]", i)));
    if (!uids.insert(pod.uid).second) {
      return invalid(fmt::format("pods[{}].uid", i), "is that of an earlier pod", "give each pod a uid of its own");
    }
    out.pods.push_back(std::move(pod));
  }
  return out;
}

Json answer_of(const Problem& problem, const Plan& plan) {
  Json::Array nodes;
  for (const auto& node : plan.nodes) {
    const auto& type = problem.types[node.type];
    const auto& offering = type.offerings[node.offering];
    Json::Array pods, requirements;
    for (const auto pod : node.pods) pods.emplace_back(problem.pods[pod].uid);
    for (const auto& one : node.requirements) {
      Json::Array values;
      for (const auto& value : one.values) values.emplace_back(value);
      requirements.push_back(
          Json::object({{"key", one.key}, {"op", std::string(name_of(one.op))}, {"values", Json(std::move(values))}}));
    }
    nodes.push_back(
        Json::object({{"pods", Json(std::move(pods))},
                      {"instance_type_options_count", 1},
                      {"instance_type_options_cheapest", Json::object({{"name", type.name},
                                                                       {"price", offering.price},
                                                                       {"zone", offering.zone},
                                                                       {"capacity_type", offering.capacity_type}})},
                      {"requirements", Json(std::move(requirements))}}));
  }
  Json errors = Json::object();
  for (const auto& one : plan.unplaced) errors.set(problem.pods[one.pod].uid, one.reason);
  Json out = Json::object({{"policy", "price"},
                           {"total_price", plan.price},
                           {"cost", plan.cost},
                           {"bound", plan.bound},
                           {"errors", std::move(errors)},
                           {"nodes", Json(std::move(nodes))}});
  if (plan.stock) {
    out.set("stock_scheduler", Json::object({{"share", plan.stock->share},
                                             {"nominated_price", plan.stock->nominated_price},
                                             {"nominated_share", plan.stock->nominated_share}}));
  }
  return out;
}

}  // namespace qm::autoscaler::pack
