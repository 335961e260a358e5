#include "qm/apiserver/validation.hpp"

#include "qm/apiserver/names.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace qm::apiserver {
namespace {

constexpr std::string_view kRequired = "Required value";

void add(Causes& out, const std::string& field, const std::string& value, const Faults& faults) {
  for (const auto& fault : faults) out.push_back({field, fmt::format("Invalid value: \"{}\": {}", value, fault)});
}

void check_labels(const Json& labels, const std::string& at, Causes& out) {
  for (const auto& [key, value] : labels.members()) {
    add(out, at, key, key_faults(key));
    add(out, at, value.string(), value_faults(value.string()));
  }
}

/// Checks one value of an enumeration. Defaults for absent values are set elsewhere.
void check_word(const Json& value, const std::string& field, const std::vector<std::string>& allowed, Causes& out) {
  if (value.is_null() || std::ranges::find(allowed, value.string()) != allowed.end()) return;
  out.push_back({field, fmt::format("Unsupported value: \"{}\": supported values: \"{}\"", value.string(),
                                    fmt::join(allowed, "\", \""))});
}

void check_counts(const Json& object, const std::vector<const char*>& names, const std::string& at, Causes& out) {
  for (const auto* name : names) {
    if (object[name].integer() >= 0) continue;
    out.push_back({at + "." + name,
                   fmt::format("Invalid value: {}: must be greater than or equal to 0", object[name].integer())});
  }
}

Quantity amount_of(const Json& value) {
  return Quantity::parse(value.is_string() ? value.string() : value.dump()).value_or(Quantity());
}

/// The request may be lower than the limit only for these resources.
bool may_overcommit(std::string_view resource) {
  const bool native = resource.find('/') == std::string_view::npos || resource.find("kubernetes.io/") != resource.npos;
  return native && !resource.starts_with("hugepages-");
}

void check_resources(const Json& resources, const std::string& at, Causes& out) {
  const auto &requests = resources["requests"], &limits = resources["limits"];
  for (const auto* side : {"limits", "requests"}) {
    for (const auto& [name, value] : resources[side].members()) {
      const auto field = fmt::format("{}.{}[{}]", at, side, name), text = value.string();
      const auto amount = amount_of(value);
      add(out, field, name, key_faults(name));
      if (amount.negative()) add(out, field, text, {"must be greater than or equal to 0"});
      const bool extended = name.find('/') != std::string::npos;
      if (extended && amount != Quantity::of(amount.units())) add(out, field, text, {"must be an integer"});
    }
  }
  for (const auto& [name, value] : requests.members()) {
    const auto& limit = limits[name];
    if (limit.is_null()) {
      if (!may_overcommit(name))
        out.push_back({at + ".limits", "Required value: Limit must be set for non overcommitable resources"});
      continue;
    }
    const auto asked = amount_of(value), most = amount_of(limit);
    if (!may_overcommit(name) && asked != most) {
      add(out, at + ".requests", asked.to_string(),
          {fmt::format("must be equal to {} limit of {}", name, most.to_string())});
    } else if (asked > most) {
      add(out, at + ".requests", asked.to_string(),
          {fmt::format("must be less than or equal to {} limit of {}", name, most.to_string())});
    }
  }
}

void check_containers(const Json& containers, const std::string& at, std::set<std::string>& names, Causes& out) {
  std::size_t i = 0;
  for (const auto& container : containers.items()) {
    const auto here = fmt::format("{}[{}]", at, i++);
    const auto& name = container["name"].string();
    if (name.empty()) {
      out.push_back({here + ".name", std::string(kRequired)});
    } else {
      add(out, here + ".name", name, label_faults(name));
      if (!names.insert(name).second) out.push_back({here + ".name", fmt::format("Duplicate value: \"{}\"", name)});
    }
    if (container["image"].string().empty()) out.push_back({here + ".image", std::string(kRequired)});
    check_resources(container["resources"], here + ".resources", out);
  }
}

void set_default(Json& object, std::string_view key, Json value) {
  if (!object.contains(key)) object.set(key, std::move(value));
}

void set_pod_defaults(Json& spec) {
  set_default(spec, "terminationGracePeriodSeconds", 30);
  set_default(spec, "schedulerName", "default-scheduler");
}

void set_job_defaults(Json& job) {
  Json& spec = job.set("spec");
  set_pod_defaults(spec.set("template").set("spec"));
  // With parallelism and without completions it is a work-queue Job: its pods determine when it is complete.
  if (!spec.contains("parallelism")) set_default(spec, "completions", 1);
  set_default(spec, "parallelism", 1);
  set_default(spec, "completionMode", "NonIndexed");
  set_default(spec, "backoffLimit", 6);
  set_default(spec, "suspend", false);
  job.set("status", Json::object());
}

/// The pod template without its scheduling directives.
Json without_directives(Json pod_template) {
  pod_template.erase("metadata");
  Json& spec = pod_template.set("spec");
  for (const char* field : {"nodeSelector", "affinity", "tolerations", "schedulingGates"}) spec.erase(field);
  return pod_template;
}

/// Adds the tolerations of the API server's admission plugin DefaultTolerationSeconds.
void tolerate_for_a_while(Json& spec) {
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const auto covers = [key](const Json& toleration) {
      const std::string &of = toleration["key"].string(), &effect = toleration["effect"].string();
      return (of.empty() || of == key) && (effect.empty() || effect == "NoExecute");
    };
    if (std::ranges::any_of(spec["tolerations"].items(), covers)) continue;
    spec.set("tolerations")
        .push_back(
            Json::object({{"key", key}, {"operator", "Exists"}, {"effect", "NoExecute"}, {"tolerationSeconds", 300}}));
  }
}

}  // namespace

void set_defaults(std::string_view kind, Json& object) {
  if (kind == "Job") return set_job_defaults(object);
  if (kind == "Namespace") {
    object.set("status", Json::object({{"phase", "Active"}}));
    object.set("metadata").set("labels").set("kubernetes.io/metadata.name", object["metadata"]["name"]);
  } else if (kind == "Pod") {
    set_pod_defaults(object.set("spec"));
    set_default(object.set("spec"), "restartPolicy", "Always");
    tolerate_for_a_while(object.set("spec"));
    object.set("status", Json::object({{"phase", "Pending"}, {"qosClass", "Burstable"}}));
  }
}

void check_metadata(std::string_view kind, const Json& metadata, Causes& out) {
  const bool is_label = kind == "Namespace" || kind == "Service";
  const auto check = [&](const char* field, const std::string& value, std::string_view name) {
    add(out, std::string("metadata.") + field, value, is_label ? label_faults(name) : subdomain_faults(name));
  };
  const auto &name = metadata["name"].string(), &stem = metadata["generateName"].string();
  if (!stem.empty()) check("generateName", stem, stem.ends_with('-') ? stem.substr(0, stem.size() - 1) + "a" : stem);
  if (name.empty()) {
    out.push_back({"metadata.name", "Required value: name or generateName is required"});
  } else {
    check("name", name, name);
  }
  check_labels(metadata["labels"], "metadata.labels", out);
  for (const auto& [key, value] : metadata["annotations"].members()) {
    std::string lower = key;
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    add(out, "metadata.annotations", key, key_faults(lower));
  }
}

void check_pod_spec(const Json& spec, const std::string& at, Causes& out) {
  std::set<std::string> names;
  if (spec["containers"].size() == 0) out.push_back({at + ".containers", std::string(kRequired)});
  check_containers(spec["containers"], at + ".containers", names, out);
  check_containers(spec["initContainers"], at + ".initContainers", names, out);
  check_resources(spec["resources"], at + ".resources", out);
  check_word(spec["restartPolicy"], at + ".restartPolicy", {"Always", "OnFailure", "Never"}, out);
  check_labels(spec["nodeSelector"], at + ".nodeSelector", out);
}

void check_job(const Json& job, Causes& out) {
  const Json& spec = job["spec"];
  const Json& pods = spec["template"];
  const auto& name = job["metadata"]["name"].string();
  check_counts(spec, {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"},
               "spec", out);
  check_word(spec["completionMode"], "spec.completionMode", {"NonIndexed", "Indexed"}, out);
  const bool indexed = spec["completionMode"].string() == "Indexed";
  if (indexed && spec["completions"].is_null()) {
    out.push_back({"spec.completions", "Required value: when completion mode is Indexed"});
  }
  // The API server labels the pods with the name of their Job.
  add(out, "spec.template.labels", name, value_faults(name));
  check_labels(pods["metadata"]["labels"], "spec.template.labels", out);
  check_pod_spec(pods["spec"], "spec.template.spec", out);
  const auto& restart = pods["spec"]["restartPolicy"].string();
  const std::string field = "spec.template.spec.restartPolicy";
  if (restart.empty() || restart == "Always") {
    out.push_back({field, R"(Required value: valid values: "OnFailure", "Never")"});
  } else {
    check_word(pods["spec"]["restartPolicy"], field, {"OnFailure", "Never"}, out);
  }
  const auto last = fmt::format("{}-{}", name, spec["completions"].integer() - 1);
  if (indexed && spec["completions"].integer() > 0 && !label_faults(last).empty()) {
    add(out, "metadata.name", name, {"will not able to create pod with invalid DNS label: " + last});
  }
}

void check_object(std::string_view kind, const Json& object, Causes& out) {
  check_metadata(kind, object["metadata"], out);
  if (kind == "Pod") check_pod_spec(object["spec"], "spec", out);
  if (kind == "Job") check_job(object, out);
}

void check_update(std::string_view kind, const Json& before, const Json& after, Causes& out) {
  const std::string why = "Forbidden: field is immutable";
  std::vector<const char*> immutable = {"metadata.name", "metadata.namespace"};
  if (kind == "Pod") immutable.insert(immutable.end(), {"spec.nodeName", "spec.containers", "spec.schedulerName"});
  check_metadata(kind, after["metadata"], out);
  if (kind == "Job") {
    immutable.insert(immutable.end(), {"spec.completionMode", "spec.selector"});
    // Until the Job starts, a queueing controller may change the scheduling directives of its pods, but no other
    // field.
    const bool may_direct = before.path("spec.suspend").boolean() && before.path("status.startTime").is_null();
    const Json &was = before.path("spec.template"), &is = after.path("spec.template");
    if (may_direct ? without_directives(was) != without_directives(is) : was != is)
      out.push_back({"spec.template", why});
    check_job(after, out);
  }
  for (const auto* path : immutable) {
    if (before.path(path) != after.path(path)) out.push_back({path, why});
  }
}

std::string_view reason_of(const Cause& cause) {
  static const std::vector<std::pair<std::string_view, std::string_view>> kReasons = {
      {"Required", "FieldValueRequired"},
      {"Unsupported", "FieldValueNotSupported"},
      {"Duplicate", "FieldValueDuplicate"},
      {"Forbidden", "FieldValueForbidden"}};
  for (const auto& [begin, reason] : kReasons) {
    if (cause.message.starts_with(begin)) return reason;
  }
  return "FieldValueInvalid";
}

std::string text_of(const Causes& causes) {
  std::vector<std::string> texts;
  for (const auto& cause : causes) {
    auto text = fmt::format("{}: {}", cause.field, cause.message);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts.size() == 1 ? texts[0] : fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace qm::apiserver
