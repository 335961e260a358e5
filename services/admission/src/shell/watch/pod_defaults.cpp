#include "qm/admission/watch/pod_defaults.hpp"

#include "qm/admission/translate/translate.hpp"
#include "qm/model/pod_resources.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

using Amounts = Limits::Amounts;

void keep_least(Amounts& into, const Amounts& more) {
  for (const auto& [name, amount] : more) {
    const auto [it, fresh] = into.emplace(name, amount);
    if (!fresh) it->second = std::min(it->second, amount);
  }
}
void keep_most(Amounts& into, const Amounts& more) {
  for (const auto& [name, amount] : more) {
    const auto [it, fresh] = into.emplace(name, amount);
    if (!fresh) it->second = std::max(it->second, amount);
  }
}

/// Resources as the API server stores them, before LimitRanger changes them.
PodResources with_defaults(const Json& pod_spec) {
  auto out = PodResources::read(pod_spec);
  out.set_defaults();
  return out;
}

std::vector<std::string> above(const Amounts& what, const Amounts& bound) {
  std::vector<std::string> out;
  for (const auto& [name, most] : bound) {
    if (const auto found = what.find(name); found != what.end() && found->second > most) out.push_back(name);
  }
  return out;
}
/// Names of the resources of which `what` has less than `bound`; an absent amount counts as zero.
std::vector<std::string> below(const Amounts& what, const Amounts& bound) {
  std::vector<std::string> out;
  for (const auto& [name, least] : bound) {
    const auto found = what.find(name);
    if ((found == what.end() ? Quantity() : found->second) < least) out.push_back(name);
  }
  return out;
}

void check_bounds(const PodResources::Container& what, const Limits::Item& bound, const std::string& path,
                  const char* type, std::vector<std::string>& out) {
  const auto add_violation = [&](const std::vector<std::string>& names, const char* text) {
    if (names.empty()) return;
    out.push_back(fmt::format("{}: Invalid value: [\"{}\"]: {}", path, fmt::join(names, "\",\""), text));
  };
  Amounts most = what.requests, least = what.requests;
  keep_most(most, what.limits);
  keep_least(least, what.limits);
  add_violation(above(most, bound.max), "requests must not be above the limitRange max");
  add_violation(below(least, bound.min), "requests must not be below the limitRange min");
  for (const auto& [name, ratio] : bound.most_ratio) {
    const auto request = what.requests.find(name), limit = what.limits.find(name);
    const bool both = request != what.requests.end() && limit != what.limits.end() && request->second > Quantity();
    if (!both) {
      out.push_back(fmt::format("{}: {} max limit to request ratio per {} is {}, but no request or limit is specified",
                                path, name, type, ratio.to_string()));
      continue;
    }
    const double provided = static_cast<double>(limit->second.milli()) / static_cast<double>(request->second.milli());
    if (provided <= static_cast<double>(ratio.milli()) / 1000) continue;
    out.push_back(fmt::format("{}: {} max limit to request ratio per {} is {}, but provided ratio is {:.6f}", path,
                              name, type, ratio.to_string(), provided));
  }
}

/// Writes the amounts that the object does not set.
void fill(Json& object, const char* list, const Amounts& amounts) {
  for (const auto& [name, amount] : amounts) {
    if (!object["resources"][list][name].is_null()) continue;
    object.set("resources").set(list).set(name, amount.to_string());
  }
}

void fill_containers(Json& pod_spec, const char* list, std::vector<PodResources::Container>& containers,
                     const Limits::Item& limits) {
  if (containers.empty()) return;
  auto& items = pod_spec.set(list).items_mut();
  for (std::size_t i = 0; i < containers.size(); ++i) {
    auto& [requests, most, sidecar] = containers[i];
    most.insert(limits.standard.begin(), limits.standard.end());
    requests.insert(limits.standard_request.begin(), limits.standard_request.end());
    fill(items[i], "limits", most);
    fill(items[i], "requests", requests);
  }
}

}  // namespace

Limits limits_of(const std::vector<Json>& ranges) {
  Limits out;
  for (const auto& range : ranges) {
    for (const auto& limit : range.path("spec.limits").items()) {
      const auto& type = limit["type"].string();
      auto& item = out.by_type[type];
      auto standard = PodResources::amounts(limit["default"]), request = PodResources::amounts(limit["defaultRequest"]);
      const auto max = PodResources::amounts(limit["max"]), min = PodResources::amounts(limit["min"]);
      if (type == "Container") {
        standard.insert(max.begin(), max.end());
        request.insert(standard.begin(), standard.end());
        request.insert(min.begin(), min.end());
      }
      keep_least(item.max, max);
      keep_most(item.min, min);
      item.standard.merge(std::move(standard));
      item.standard_request.merge(std::move(request));
      keep_least(item.most_ratio, PodResources::amounts(limit["maxLimitRequestRatio"]));
    }
  }
  return out;
}

void add_defaults(Json& pod_spec, const Limits& limits) {
  const auto item = limits.by_type.find("Container");
  if (item == limits.by_type.end()) return;
  // LimitRanger runs after the defaulting of the API server: a limit that is set, not the default of a LimitRange,
  // becomes the request.
  auto resources = with_defaults(pod_spec);
  fill(pod_spec, "limits", resources.limits);
  fill(pod_spec, "requests", resources.requests);
  fill_containers(pod_spec, "initContainers", resources.init_containers, item->second);
  fill_containers(pod_spec, "containers", resources.containers, item->second);
}

std::vector<std::string> violations(const Json& pod_spec, const Limits& limits, const std::string& path) {
  std::vector<std::string> out;
  auto pod = with_defaults(pod_spec);
  if (const auto item = limits.by_type.find("Container"); item != limits.by_type.end()) {
    const auto each = [&](const char* list, const std::vector<PodResources::Container>& containers) {
      for (std::size_t i = 0; i < containers.size(); ++i) {
        check_bounds(containers[i], item->second, fmt::format("{}.{}[{}]", path, list, i), "Container", out);
      }
    };
    each("initContainers", pod.init_containers);
    each("containers", pod.containers);
  }
  if (const auto item = limits.by_type.find("Pod"); item != limits.by_type.end()) {
    pod.overhead.clear();  // LimitRanger does not count it
    check_bounds({pod.total_requests(), pod.total_limits()}, item->second, path, "Pod", out);
  }
  return out;
}

PodDefaults::PodDefaults(kube::Client& client)
    : feed_(client, "qm-admission",
            {{"", "limitranges", "LimitRange", {"v1"}}, {"node.k8s.io", "runtimeclasses", "RuntimeClass", {"v1"}}},
            {[this](const auto& kind, const Json& object) { return take(kind, object); },
             [this](const auto& kind, const auto& at) { on_deleted(kind, at); }}) {}

Status PodDefaults::take(const kube::ConfigFeed::Kind& kind, const Json& object) {
  {
    const std::scoped_lock lock(mutex_);
    if (kind.kind == "RuntimeClass") {
      classes_.insert_or_assign(kube::name_of(object), object);
    } else {
      ranges_[kube::namespace_of(object)].insert_or_assign(kube::name_of(object), object);
    }
  }
  notify();
  return {};
}

void PodDefaults::on_deleted(const kube::ConfigFeed::Kind& kind, const kube::ConfigFeed::Key& at) {
  {
    const std::scoped_lock lock(mutex_);
    if (kind.kind == "RuntimeClass") {
      classes_.erase(at.second);
    } else if (const auto found = ranges_.find(at.first); found != ranges_.end()) {
      found->second.erase(at.second);
      if (found->second.empty()) ranges_.erase(found);
    }
  }
  notify();
}

void PodDefaults::notify() const {
  for (const auto& listener : listeners_) listener();
}

std::string PodDefaults::apply(Json& job, const config::WorkloadKind& kind) const {
  const std::scoped_lock lock(mutex_);
  Limits limits;
  if (const auto found = ranges_.find(kube::namespace_of(job)); found != ranges_.end()) {
    std::vector<Json> ranges;
    for (const auto& [name, range] : found->second) ranges.push_back(range);
    limits = limits_of(ranges);
  }
  if (limits.by_type.empty() && classes_.empty()) return {};
  std::vector<std::string> wrong;
  const auto places = kind.places(job);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Json* pods = config::find_template(job, places[i]);
    if (pods == nullptr || !(*pods)["spec"].is_object()) continue;
    auto& spec = pods->set("spec");
    if (const auto runtime = classes_.find(spec["runtimeClassName"].string()); runtime != classes_.end()) {
      const auto& overhead = runtime->second.path("overhead.podFixed");
      if (overhead.is_object() && spec["overhead"].size() == 0) spec.set("overhead", overhead);
      const auto& scheduling = runtime->second["scheduling"];
      if (scheduling.is_object()) job.set(kRuntimeClasses).set(runtime->first, scheduling);
    }
    add_defaults(spec, limits);
    for (auto& one : violations(spec, limits, fmt::format("spec.podSets[{}].template.spec", i))) {
      wrong.push_back(std::move(one));
    }
  }
  if (wrong.empty()) return {};
  const auto text = fmt::format("{}", fmt::join(wrong, ", "));
  return fmt::format("resources didn't satisfy LimitRange constraints: {}",
                     wrong.size() == 1 ? text : fmt::format("[{}]", text));
}

}  // namespace qm::admission
