#include "qm/admission_policy/policy_file.hpp"

#include "pod.hpp"
#include "qm/config/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace qm::admission_policy {
namespace {

constexpr const char* kPolicyVersion = "policy.quartermaster.dev/v1alpha1";
constexpr const char* kKind = "WebhookPolicy";

/// One value of the document, with its path. All values share one list of errors.
class At {
 public:
  At(const config::Document& document, std::vector<std::string>& wrong, const Json& value, std::string path)
      : document_(document), wrong_(wrong), value_(value), path_(std::move(path)) {}

  void complain(const std::string& what, const std::string& remedy) const {
    // A missing field has no line of its own; use that of the closest parent.
    auto near = path_;
    while (!near.empty() && !document_.lines.contains(near))
      near.erase(std::min(near.find_last_of(".["), near.size() - 1));
    const int line = near.empty() ? document_.line : document_.lines.at(near);
    wrong_.push_back(fmt::format("{}:{}: {}: {}; {}", document_.file, line, path_, what, remedy));
  }
  [[nodiscard]] const Json& value() const { return value_; }
  [[nodiscard]] bool given() const { return !value_.is_null(); }
  [[nodiscard]] At operator[](const std::string& key) const {
    return {document_, wrong_, value_[key], path_.empty() ? key : path_ + "." + key};
  }

  /// Whether it is an object, which may only have these keys; false where it is absent or not an object.
  bool object(const std::vector<std::string>& keys) const {
    if (!given()) return false;
    if (!value_.is_object()) {
      complain("is not an object", fmt::format("its fields are {}", fmt::join(keys, ", ")));
      return false;
    }
    for (const auto& [key, value] : value_.members()) {
      if (std::ranges::find(keys, key) != keys.end()) continue;
      (*this)[key].complain("is not known here", fmt::format("fields are {}", fmt::join(keys, ", ")));
    }
    return true;
  }
  template <class Fn>
  void each(Fn&& fn) const {
    if (given() && !value_.is_array()) complain("is not a list", "begin each entry with -");
    for (std::size_t i = 0; i < value_.size() && value_.is_array(); ++i) {
      fn(At{document_, wrong_, value_.at(i), fmt::format("{}[{}]", path_, i)});
    }
  }
  template <class Fn>
  void each_member(Fn&& fn) const {
    if (given() && !value_.is_object()) complain("is not an object", "write KEY: VALUE");
    for (const auto& [key, value] : value_.members()) fn(key, (*this)[key]);
  }
  void text(std::string& out) const {
    if (!given()) return;
    if (value_.is_string()) {
      out = value_.string();
    } else if (value_.is_bool() || value_.is_number()) {
      complain("is not a string", fmt::format("put it in quotes: \"{}\"", value_.dump()));
    } else {
      complain("is not a string", "write a word");
    }
  }
  void name(std::string& out) const {
    if (!given() || value_ == Json("")) return complain("is missing", "give it");
    text(out);
  }
  void number(std::int64_t& out, std::int64_t least) const {
    if (!given()) return;
    if (!value_.is_int() || value_.integer() < least)
      return complain("is not a number in the range", fmt::format("write {} or more", least));
    out = value_.integer();
  }
  void boolean(bool& out) const {
    if (!given()) return;
    if (!value_.is_bool()) return complain("is neither true nor false", "write one of them");
    out = value_.boolean();
  }
  void amount(Quantity& out) const {
    if (!given()) return;
    const auto read = quantity(value_);
    if (!read || read->negative()) return complain("is not a quantity", "write one such as 8 or 64Gi");
    out = *read;
  }
  void labels(Labels& out) const {
    each_member([&](const std::string& key, const At& at) { at.text(out[key]); });
  }
  void names(std::set<std::string>& out) const {
    each([&](const At& at) {
      std::string one;
      at.name(one);
      out.insert(one);
    });
  }
  void mode(Mode& out) const {
    if (!given()) return;
    // YAML parses "off" as a boolean.
    const auto word = value_.is_bool() && !value_.boolean() ? std::string("off") : value_.string();
    const auto read = mode_of(word);
    if (!read) return complain(fmt::format("{} is not a mode", value_.dump()), "use enforce, warn, mutate or off");
    out = *read;
  }

 private:
  const config::Document& document_;
  std::vector<std::string>& wrong_;
  const Json& value_;
  std::string path_;
};

void read_rules(const At& at, Settings& out) {
  at.each_member([&](const std::string& name, const At& mode) {
    if (std::ranges::find(rule_names(), name) == rule_names().end()) {
      return mode.complain("is not a rule", fmt::format("rules are {}", fmt::join(rule_names(), ", ")));
    }
    mode.mode(out.rules[name]);
  });
}

void read_labels(const At& at, Settings& out) {
  if (at.given()) out.required_labels.clear();
  at.each([&](const At& one) {
    RequiredLabel label;
    if (!one.object({"key", "values"}))
      return one.complain("is not a label", "write {key: KEY} or {key: KEY, values: [A, B]}");
    one["key"].name(label.key);
    one["values"].each([&](const At& value) { value.name(label.values.emplace_back()); });
    out.required_labels.push_back(std::move(label));
  });
}

void read_taint(const At& at, Settings& out) {
  if (!at.object({"key", "values"})) return;
  at["key"].name(out.gpu_taint);
  if (!at["values"].given()) return;
  out.gpu_taint_values.clear();
  at["values"].each([&](const At& value) { value.text(out.gpu_taint_values.emplace_back()); });
}

void read_node(const At& at, std::optional<NodeShape>& out) {
  if (!at.object({"gpus", "cpu", "memory"})) return;
  out.emplace();
  if (!at["gpus"].given()) at["gpus"].complain("is missing", "set the number of GPUs of a node");
  at["gpus"].number(out->gpus, 1);
  at["cpu"].amount(out->cpu);
  at["memory"].amount(out->memory);
}

void read_pool(const At& at, Facts& out) {
  if (!at.object({"name", "nodeSelector", "taint", "node", "serves", "sharing", "replicas",
                  "failRequestsGreaterThanOne", "namespaces"}))
    return;
  Pool pool;
  at["name"].name(pool.name);
  at["nodeSelector"].labels(pool.selector);
  if (pool.selector.empty()) at["nodeSelector"].complain("is missing", "set the labels by which pods select the pool");
  at["taint"].text(pool.taint);
  read_node(at["node"], pool.node);
  at["serves"].names(pool.serves);
  std::string sharing = "none";
  at["sharing"].text(sharing);
  if (sharing == "time-slicing") pool.sharing = Sharing::kTimeSlicing;
  if (sharing == "mps") pool.sharing = Sharing::kMps;
  if (sharing != "none" && pool.sharing == Sharing::kNone) {
    at["sharing"].complain(fmt::format("{} is not a sharing method", sharing), "use none, time-slicing or mps");
  }
  at["replicas"].number(pool.replicas, 1);
  at["failRequestsGreaterThanOne"].boolean(pool.one_each);
  at["namespaces"].names(pool.namespaces);
  out.pools.push_back(std::move(pool));
}

void read_gangs(const At& at, Facts& out) {
  if (!at.object({"environment", "topologyMap", "topology"})) return;
  GangDefaults gangs;
  gangs.environment = gang_environment();
  if (const auto environment = at["environment"]; environment.given()) {
    gangs.environment.clear();
    environment.each_member([&](const std::string& name, const At& value) {
      if (std::ranges::find(kOperatorsOwn, name) != kOperatorsOwn.end()) {
        return value.complain("is set by the training operator", "leave it out");
      }
      value.text(gangs.environment.emplace_back(name, std::string()).second);
    });
  }
  at["topologyMap"].text(gangs.topology_map);
  at["topology"].text(gangs.topology);
  out.gangs = std::move(gangs);
}

void read_priorities(const At& at, Facts& out) {
  if (!at.object({"classes", "defaults"})) return;
  at["classes"].each([&](const At& one) {
    if (!one.object({"name", "namespaces", "workloadTypes"})) return;
    PriorityUse use;
    one["name"].name(use.name);
    one["namespaces"].names(use.namespaces);
    one["workloadTypes"].names(use.workload_types);
    out.priorities.push_back(std::move(use));
  });
  at["defaults"].labels(out.default_priority);
}

void read_spec(const At& at, Settings& out) {
  if (!at.given()) return at.complain("is missing", "give it");
  if (!at.object({"mode", "rules", "requiredLabels", "taint", "pools", "gangs", "priorities", "namespaces",
                  "compliance", "sloLabels"}))
    return;
  auto& facts = out.facts;
  at["mode"].mode(out.mode);
  read_rules(at["rules"], out);
  read_labels(at["requiredLabels"], out);
  read_taint(at["taint"], out);
  at["pools"].each([&](const At& pool) { read_pool(pool, facts); });
  read_gangs(at["gangs"], facts);
  read_priorities(at["priorities"], facts);
  if (const auto namespaces = at["namespaces"]; namespaces.object({"refused", "labels"})) {
    namespaces["refused"].names(facts.refused_namespaces);
    namespaces["labels"].labels(facts.namespace_labels);
  }
  if (const auto compliance = at["compliance"]; compliance.object({"label", "noSpot"})) {
    compliance["label"].text(facts.compliance_label);
    if (compliance["noSpot"].given()) facts.no_spot.clear();
    compliance["noSpot"].names(facts.no_spot);
  }
  if (at["sloLabels"].given()) facts.slo_labels.clear();
  at["sloLabels"].names(facts.slo_labels);
}

tl::unexpected<Error> refused(std::string what, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(what), "webhook-policy-file", std::move(remedy)});
}

}  // namespace

Status read_policy(const std::string& text, const std::string& file, Settings& settings) {
  const auto loaded = config::load_text(text, file);
  for (const auto& diagnostic : loaded.diagnostics) {
    if (diagnostic.severity == config::Diagnostic::Severity::kError)
      return refused(diagnostic.to_string(), "see docs/policies.md");
  }
  if (loaded.objects.size() != 1 || loaded.objects[0].document.kind != kKind ||
      loaded.objects[0].document.api_version != kPolicyVersion) {
    return refused(fmt::format("{} is not a {}", file, kKind),
                   fmt::format("write one document of {}, kind {}, as docs/policies.md shows", kPolicyVersion, kKind));
  }
  const auto& document = loaded.objects[0].document;
  std::vector<std::string> wrong;
  const At whole(document, wrong, document.content, "");
  auto next = settings;
  whole.object({"apiVersion", "kind", "metadata", "spec"});
  read_spec(whole["spec"], next);
  if (!wrong.empty()) return refused(fmt::format("{}", fmt::join(wrong, "\n")), "see docs/policies.md");
  settings = std::move(next);
  return {};
}

Status read_policy_file(const std::string& path, Settings& settings) {
  std::ifstream in(path);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in) return refused(fmt::format("{} cannot be read", path), "name a file that exists");
  return read_policy(text.str(), path, settings);
}

}  // namespace qm::admission_policy
