#include "qm/admission/pod_defaults.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

using Amounts = Limits::Amounts;

Amounts amounts_in(const Json& list) {
  Amounts out;
  for (const auto& [name, value] : list.members()) {
    const auto read = Quantity::parse(value.is_string() ? value.string() : value.dump());
    if (read) out.emplace(name, *read);
  }
  return out;
}

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

Amounts sum(Amounts a, const Amounts& b) {
  for (const auto& [name, amount] : b) a[name] = a[name] + amount;
  return a;
}

struct Container {
  Amounts requests, limits;
};

/// As the API server defaults it: a limit stands for a request that is not given.
Container read_container(const Json& container) {
  Container out{amounts_in(container.path("resources.requests")), amounts_in(container.path("resources.limits"))};
  out.requests.insert(out.limits.begin(), out.limits.end());
  return out;
}

/// Of a pod: what runs together is summed, an init container runs before.
Container read_pod(const Json& pod_spec) {
  Container sidecars, peak, running;
  for (const auto& container : pod_spec["initContainers"].items()) {
    auto one = read_container(container);
    const Container with{sum(sidecars.requests, one.requests), sum(sidecars.limits, one.limits)};
    if (container["restartPolicy"].string() == "Always") sidecars = with;
    keep_most(peak.requests, with.requests);
    keep_most(peak.limits, with.limits);
  }
  running = sidecars;
  for (const auto& container : pod_spec["containers"].items()) {
    const auto one = read_container(container);
    running = {sum(running.requests, one.requests), sum(running.limits, one.limits)};
  }
  keep_most(running.requests, peak.requests);
  keep_most(running.limits, peak.limits);
  running.requests = sum(running.requests, amounts_in(pod_spec["overhead"]));
  return running;
}

std::vector<std::string> above(const Amounts& what, const Amounts& bound) {
  std::vector<std::string> out;
  for (const auto& [name, most] : bound) {
    if (const auto found = what.find(name); found != what.end() && found->second > most) out.push_back(name);
  }
  return out;
}
/// What is not given counts as none.
std::vector<std::string> below(const Amounts& what, const Amounts& bound) {
  std::vector<std::string> out;
  for (const auto& [name, least] : bound) {
    const auto found = what.find(name);
    if ((found == what.end() ? Quantity() : found->second) < least) out.push_back(name);
  }
  return out;
}

void judge(const Container& what, const Limits::Item& bound, const std::string& path, const char* type,
           std::vector<std::string>& out) {
  const auto say = [&](const std::vector<std::string>& names, const char* text) {
    if (names.empty()) return;
    out.push_back(fmt::format("{}: Invalid value: [\"{}\"]: {}", path, fmt::join(names, "\",\""), text));
  };
  Amounts most = what.requests, least = what.requests;
  keep_most(most, what.limits);
  keep_least(least, what.limits);
  say(above(most, bound.max), "requests must not be above the limitRange max");
  say(below(least, bound.min), "requests must not be below the limitRange min");
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

void fill(Json& container, const char* list, const Amounts& standard) {
  for (const auto& [name, amount] : standard) {
    if (!container["resources"][list][name].is_null()) continue;
    container.set("resources").set(list).set(name, amount.to_string());
  }
}

}  // namespace

Limits limits_of(const std::vector<Json>& ranges) {
  Limits out;
  for (const auto& range : ranges) {
    for (const auto& limit : range.path("spec.limits").items()) {
      auto& item = out.by_type[limit["type"].string()];
      keep_least(item.max, amounts_in(limit["max"]));
      keep_most(item.min, amounts_in(limit["min"]));
      item.standard.merge(amounts_in(limit["default"]));
      item.standard_request.merge(amounts_in(limit["defaultRequest"]));
      keep_least(item.most_ratio, amounts_in(limit["maxLimitRequestRatio"]));
    }
  }
  return out;
}

void add_defaults(Json& pod_spec, const Limits& limits) {
  const auto item = limits.by_type.find("Container");
  if (item == limits.by_type.end()) return;
  for (const char* list : {"initContainers", "containers"}) {
    if (pod_spec[list].size() == 0) continue;
    for (auto& container : pod_spec.set(list).items_mut()) {
      fill(container, "limits", item->second.standard);
      fill(container, "requests", item->second.standard_request);
    }
  }
}

std::vector<std::string> violations(const Json& pod_spec, const Limits& limits, const std::string& path) {
  std::vector<std::string> out;
  if (const auto item = limits.by_type.find("Container"); item != limits.by_type.end()) {
    for (const char* list : {"initContainers", "containers"}) {
      const auto& containers = pod_spec[list].items();
      for (std::size_t i = 0; i < containers.size(); ++i) {
        judge(read_container(containers[i]), item->second, fmt::format("{}.{}[{}]", path, list, i), "Container", out);
      }
    }
  }
  if (const auto item = limits.by_type.find("Pod"); item != limits.by_type.end()) {
    judge(read_pod(pod_spec), item->second, path, "Pod", out);
  }
  return out;
}

PodDefaults::PodDefaults(kube::Client& client)
    : feed_(client, "qm-admission",
            {{"", "limitranges", "LimitRange", {"v1"}}, {"node.k8s.io", "runtimeclasses", "RuntimeClass", {"v1"}}},
            {[this](const auto& kind, const Json& object) { return take(kind, object); },
             [this](const auto& kind, const auto& at) { gone(kind, at); }}) {}

Status PodDefaults::take(const kube::ConfigFeed::Kind& kind, const Json& object) {
  {
    const std::scoped_lock lock(mutex_);
    if (kind.kind == "RuntimeClass") {
      overheads_.insert_or_assign(kube::name_of(object), object.path("overhead.podFixed"));
    } else {
      ranges_[kube::namespace_of(object)].insert_or_assign(kube::name_of(object), object);
    }
  }
  tell();
  return {};
}

void PodDefaults::gone(const kube::ConfigFeed::Kind& kind, const kube::ConfigFeed::Key& at) {
  {
    const std::scoped_lock lock(mutex_);
    if (kind.kind == "RuntimeClass") {
      overheads_.erase(at.second);
    } else if (const auto found = ranges_.find(at.first); found != ranges_.end()) {
      found->second.erase(at.second);
      if (found->second.empty()) ranges_.erase(found);
    }
  }
  tell();
}

void PodDefaults::tell() const {
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
  if (limits.by_type.empty() && overheads_.empty()) return {};
  std::vector<std::string> wrong;
  const auto places = kind.places(job);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Json* pods = config::find_template(job, places[i]);
    if (pods == nullptr || !(*pods)["spec"].is_object()) continue;
    auto& spec = pods->set("spec");
    const auto runtime = overheads_.find(spec["runtimeClassName"].string());
    if (runtime != overheads_.end() && runtime->second.is_object() && spec["overhead"].size() == 0) {
      spec.set("overhead", runtime->second);
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
