// ProvisioningRequests of the API server.
#include "qm/autoscaler/provisioning_watch.hpp"

#include "qm/base/log.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_objects/rules.hpp"

#include <charconv>
#include <set>

namespace qm::autoscaler {
namespace {

constexpr std::string_view kCheckCapacity = "check-capacity.autoscaling.x-k8s.io";
constexpr std::string_view kBestEffortAtomic = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
constexpr std::int64_t kMostPods = 16'384;  // of a pod set, as the CRD has it

tl::unexpected<Error> refused(std::string field, std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(message), std::move(field), std::move(remedy)});
}

}  // namespace

bool is_open_request(const Json& object) {
  const std::string& name = object["spec"]["provisioningClassName"].string();
  if (name != kCheckCapacity && name != kBestEffortAtomic) return false;
  for (const Json& c : object["status"]["conditions"].items()) {
    const std::string& type = c["type"].string();
    const bool final = type == "Failed" || type == "BookingExpired" || type == "CapacityRevoked";
    if (final && c["status"].string() == "True") return false;
  }
  return true;
}

Result<ProvisioningRequest> provisioning_request_from(const Json& object,
                                                      const std::map<std::string, Json>& templates) {
  const Json& spec = object["spec"];
  ProvisioningRequest out;
  out.uid = WorkloadUid(kube::uid_of(object));
  out.ns = kube::namespace_of(object);
  out.name = kube::name_of(object);
  out.created = from_rfc3339(object["metadata"]["creationTimestamp"].string()).value_or(Instant{});
  if (spec["provisioningClassName"].string() == kCheckCapacity)
    out.provisioning_class = ProvisioningClass::kCheckCapacity;
  if (const Json& seconds = spec["parameters"]["ValidUntilSeconds"]; !seconds.is_null()) {
    const std::string& text = seconds.string();
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 1)
      return refused("spec.parameters[ValidUntilSeconds]", fmt::format("\"{}\" is not a number of seconds", text),
                     "write a whole number above 0");
    out.valid_for = std::chrono::seconds(value);
  }
  std::size_t i = 0;
  for (const Json& item : spec["podSets"].items()) {
    const std::string field = fmt::format("spec.podSets[{}]", i);
    const std::string& name = item["podTemplateRef"]["name"].string();
    const auto found = templates.find(name);
    if (found == templates.end())
      return refused(field + ".podTemplateRef", fmt::format("PodTemplate {}/{} does not exist", out.ns, name),
                     "create it before the ProvisioningRequest");
    const std::int64_t count = item["count"].integer();
    if (count < 1 || count > kMostPods)
      return refused(field + ".count", fmt::format("{} pods", count), fmt::format("use 1 to {}", kMostPods));
    PodSet set;
    set.name = fmt::format("set{}", i++);
    set.count = static_cast<std::int32_t>(count);
    Json pod = found->second;
    QM_ASSIGN(set.shape, config::shape_held_by(pod));
    pod.set("metadata").set("namespace", out.ns);
    QM_ASSIGN(set.rules, kube_objects::rules_text_of_pod(pod));
    out.pod_sets.push_back(std::move(set));
  }
  if (out.pod_sets.empty()) return refused("spec.podSets", "it has no pod set", "add one");
  return out;
}

ProvisioningWatch::ProvisioningWatch(kube::Client& client, const DomainClock& clock)
    : client_(client),
      feed_(client, "qm-autoscaler",
            {{"autoscaling.x-k8s.io", "provisioningrequests", "ProvisioningRequest", {"v1", "v1beta1"}}},
            {[this](const auto&, const Json& object) {
               const std::scoped_lock lock(mutex_);
               objects_[kube::uid_of(object)] = object;
               return Status{};
             },
             [this](const auto&, const auto& at) {
               const std::scoped_lock lock(mutex_);
               std::erase_if(objects_, [&](const auto& entry) {
                 return kube::namespace_of(entry.second) == at.first && kube::name_of(entry.second) == at.second;
               });
             }}),
      status_(
          client, [this] { return feed_.resource("ProvisioningRequest"); }, clock) {}

std::optional<std::vector<ProvisioningRequest>> ProvisioningWatch::requests() {
  if (!feed_.synced()) return std::nullopt;
  std::map<std::string, Json> open;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [uid, object] : objects_) {
      if (is_open_request(object)) open.emplace(uid, object);
    }
  }
  std::erase_if(read_, [&](const auto& entry) { return !open.contains(entry.first); });
  std::vector<ProvisioningRequest> out;
  for (const auto& [uid, object] : open) {
    if (const auto known = read_.find(uid); known != read_.end()) {
      out.push_back(known->second);
      continue;
    }
    std::map<std::string, Json> templates;
    bool later = false;
    for (const Json& item : object["spec"]["podSets"].items()) {
      const std::string& name = item["podTemplateRef"]["name"].string();
      const auto found = client_.get({"", "v1", "podtemplates", true}, kube::namespace_of(object), name);
      if (found) templates[name] = (*found)["template"];
      later |= !found && found.error().code != Code::kNotFound;
    }
    if (later) continue;
    auto request = provisioning_request_from(object, templates);
    if (!request) {
      ProvisioningRequest invalid;
      invalid.uid = WorkloadUid(uid);
      invalid.ns = kube::namespace_of(object);
      invalid.name = kube::name_of(object);
      invalid.invalid = request.error().to_string();
      request = std::move(invalid);
    }
    out.push_back(read_.emplace(uid, std::move(*request)).first->second);
  }
  return out;
}

void ProvisioningWatch::write_status(const std::map<WorkloadUid, std::vector<Condition>>& conditions) {
  std::set<ConditionWriter::Key> keys;
  for (const auto& [uid, request] : read_) {
    const auto found = conditions.find(WorkloadUid(uid));
    if (found == conditions.end()) continue;
    const ConditionWriter::Key key{request.ns, request.name};
    keys.insert(key);
    status_.write(key, found->second);
  }
  status_.forget_others(keys);
}

}  // namespace qm::autoscaler
