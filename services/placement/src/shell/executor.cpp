// Executes intents against the API server. Each one reads the object before it treats a refusal as
// final, so that a repetition is harmless.
#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/errors.hpp"
#include "qm/placement/shell.hpp"
#include "shell/objects.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

using kube::resources::kNodes;
using kube::resources::kPods;
const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", true};

}  // namespace

Json intent_outcome(const Json& order, const Error* error) {
  return Json::object({{"uid", order["uid"]},
                       {"attempt", order["attempt"]},
                       {"pod_uid", order["pod_uid"]},
                       {"code", error == nullptr ? 0 : static_cast<int>(error->code)},
                       {"message", error == nullptr ? "" : error->message}});
}

Result<service::Outcome> KubeExecutor::execute(const store::IntentRow& intent) {
  QM_ASSIGN(const Json order, Json::parse(intent.payload));
  Status done = fail(Code::kUnimplemented, "there is no intent kind {}", intent.kind);
  if (intent.kind == "pod.bind") done = bind(order);
  if (intent.kind == "pod.delete") done = remove(order);
  if (intent.kind == "pod.unschedulable") done = set_unschedulable(order);
  if (intent.kind == "node.cordon") done = cordon(order);
  if (intent.kind == "node.layout") done = name_layout(order);
  if (intent.kind == "node.mark") done = mark(order);
  QM_CRASH_POINT("placement.after_intent");
  if (!done && intent.kind == "pod.delete") return fail(kube::for_release(done.error()));
  // Pod conditions and node labels are information only: these intents are not retried until permissions are granted.
  if (!done && (intent.kind == "pod.unschedulable" || intent.kind == "node.mark")) return fail(done.error());
  if (!done) return fail(kube::for_start(done.error()));
  return service::Outcome{intent_outcome(order, nullptr).dump()};
}

service::Outcome KubeExecutor::failed(const store::IntentRow& intent, const Error& error) {
  log::warn("intent failed permanently", {{"kind", intent.kind}, {"key", intent.key}, {"error", error.to_string()}});
  const auto order = Json::parse(intent.payload);
  return {intent_outcome(order ? *order : Json(), &error).dump()};
}

service::Executor::Turn KubeExecutor::turn_of(const store::IntentRow& intent) const {
  if (intent.kind != "pod.bind") return {};
  const auto order = Json::parse(intent.payload);
  const std::int64_t pods = order ? (*order)["unbound"].integer(1) : 1;
  if (pods <= 1) return {};
  return {fmt::format("{}/{}", (*order)["uid"].string(), (*order)["attempt"].integer()), (pods - 1) * kTimeOfABind};
}

std::optional<service::Outcome> superseded_bind(const store::IntentRow& intent, const store::IntentRow& later) {
  if (intent.kind != "pod.bind" || later.kind != "pod.delete") return std::nullopt;
  const auto order = Json::parse(intent.payload);
  const auto next = Json::parse(later.payload);
  if (!order || !next || (*order)["pod_uid"] != (*next)["pod_uid"]) return std::nullopt;
  return service::Outcome{intent_outcome(*order, nullptr).dump()};
}

Status KubeExecutor::bind(const Json& order) {
  const std::string& ns = order["namespace"].string();
  const std::string& name = order["pod"].string();
  const std::string& uid = order["pod_uid"].string();
  const std::string& node = order["node"].string();
  // Empty if no device is planned: a bind overwrites annotations and cannot remove those that the
  // pod was created with.
  const Json annotations = Json::object(
      {{std::string(words::kDevices), order["devices"].string()}, {std::string(kRing), order["ring"].string()}});
  // Volumes that wait for their first consumer are provisioned for the node that the claim names.
  for (const Json& claim : order["claims"].items()) {
    const Json patch = Json::object(
        {{"metadata", Json::object({{"annotations", Json::object({{std::string(kSelectedNode), node}})}})}});
    const auto chosen = client_.merge_patch(kClaims, ns, claim.string(), patch);
    if (!chosen && chosen.error().code != Code::kNotFound) return fail(chosen.error());
  }
  const Status bound = client_.bind(ns, name, uid, node, annotations);
  if (bound) return {};
  const Code code = bound.error().code;
  if (code != Code::kAborted && code != Code::kAlreadyExists && code != Code::kUnknown) return bound;
  // The bind was refused, or its result is unknown: the pod shows the actual state.
  QM_ASSIGN(const Json pod, client_.get(kPods, ns, name));
  if (kube::uid_of(pod) != uid) {
    return fail(Code::kFailedPrecondition, "pod {}/{} was deleted and created again", ns, name);
  }
  const std::string& where = pod.path("spec.nodeName").string();
  if (where == node) return {};
  if (!where.empty()) return fail(Code::kAlreadyExists, "pod {}/{} is bound to node {}", ns, name, where);
  return fail(Code::kUnavailable, "bind of pod {}/{} was refused and it is not bound: {}", ns, name,
              bound.error().message);
}

Status KubeExecutor::remove(const Json& order) {
  const std::string& ns = order["namespace"].string();
  const std::string& name = order["pod"].string();
  kube::Client::DeleteOptions options;
  options.uid = order["pod_uid"].string();
  options.grace_seconds = static_cast<int>(std::min<std::int64_t>(order["grace_s"].integer(-1), 86'400));
  // Before its deadline an eviction respects disruption budgets, which may delay it; after it the pod is deleted.
  const Instant until = from_micros(order["evict_until_us"].integer());
  if (clock_ != nullptr && until != Instant{}) {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(until - clock_->now()).count();
    options.grace_seconds = static_cast<int>(std::clamp<std::int64_t>(left, 0, std::max(options.grace_seconds, 0)));
    if (left > 0) {
      const Status evicted = client_.evict(ns, name, options.grace_seconds, options.uid);
      if (evicted || evicted.error().code == Code::kNotFound) return {};
      // Before the deadline, errors other than a conflict are retried: an error that may change
      // does not justify bypassing a disruption budget.
      if (evicted.error().code != Code::kAborted) return evicted;
    } else {
      options.grace_seconds = -1;  // the intent's time is over; the pod's own grace period applies
    }
  }
  const Status removed = client_.remove(kPods, ns, name, options);
  if (removed || removed.error().code == Code::kNotFound) return {};
  if (removed.error().code != Code::kAborted && removed.error().code != Code::kFailedPrecondition) return removed;
  const auto pod = client_.get(kPods, ns, name);
  if (!pod && pod.error().code != Code::kNotFound) return fail(pod.error());
  if (!pod || kube::uid_of(*pod) != options.uid) return {};  // a pod with the same name but another uid is not affected
  return fail(Code::kUnavailable, "pod {}/{} could not be deleted: {}", ns, name, removed.error().message);
}

Status KubeExecutor::set_unschedulable(const Json& order) {
  const std::string& ns = order["namespace"].string();
  const std::string& name = order["pod"].string();
  const auto pod = client_.get(kPods, ns, name);
  if (!pod) return pod.error().code == Code::kNotFound ? Status() : fail(pod.error());
  if (kube::uid_of(*pod) != order["pod_uid"].string() || !pod->path("spec.nodeName").string().empty()) return {};
  const std::string& message = order["message"].string();
  Json conditions = Json::array();
  for (const Json& condition : (*pod)["status"]["conditions"].items()) {
    if (condition["type"].string() != "PodScheduled") {
      conditions.push_back(condition);
    } else if (condition["status"].string() == "False" && condition["message"].string() == message) {
      return {};
    }
  }
  Json published_at =
      Json::object({{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}, {"message", message}});
  if (clock_ != nullptr)
    published_at.set("lastTransitionTime", to_rfc3339(from_micros(micros(clock_->now()) / 1'000'000 * 1'000'000)));
  conditions.push_back(std::move(published_at));
  const Json patch = Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*pod)}})},
                                   {"status", Json::object({{"conditions", std::move(conditions)}})}});
  const auto patched = client_.merge_patch(kPods, ns, name, patch, "status");
  if (patched || patched.error().code == Code::kNotFound) return {};
  return fail(patched.error());
}

Status KubeExecutor::cordon(const Json& order) {
  const std::string& name = order["node"].string();
  const std::string& causes = order["causes"].string();
  const auto node = client_.get(kNodes, {}, name);
  if (!node) return node.error().code == Code::kNotFound ? Status() : fail(node.error());
  const std::string ours = kube::annotation(*node, kCordonedBy);
  const bool cordoned = node->path("spec.unschedulable").boolean();
  if (causes.empty() ? ours.empty() : (cordoned && (ours == causes || ours.empty()))) return {};
  Json annotation = Json::object({{std::string(kCordonedBy), causes.empty() ? Json() : Json(causes)}});
  // With the version, a concurrent change between the read and the write becomes a conflict, which is retried.
  const Json patch = Json::object(
      {{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*node)}, {"annotations", annotation}})},
       {"spec", Json::object({{"unschedulable", causes.empty() ? Json() : Json(true)}})}});
  const auto patched = client_.merge_patch(kNodes, {}, name, patch);
  if (patched || patched.error().code == Code::kNotFound) return {};
  return fail(patched.error());
}

Status KubeExecutor::name_layout(const Json& order) {
  const std::string& name = order["node"].string();
  const std::string& layout = order["layout"].string();
  const auto node = client_.get(kNodes, {}, name);
  if (!node) return node.error().code == Code::kNotFound ? Status() : fail(node.error());
  if (kube::label(*node, kMigConfig) == layout) return {};
  // The state label of mig-manager describes the previous layout. The same write removes it, so
  // that it is not taken for the state of this layout.
  const Json patch =
      Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(*node)},
                                               {"labels", Json::object({{std::string(kMigConfig), layout},
                                                                        {std::string(kMigState), Json()}})}})}});
  const auto patched = client_.merge_patch(kNodes, {}, name, patch);
  if (patched || patched.error().code == Code::kNotFound) return {};
  return fail(patched.error());
}

Status KubeExecutor::mark(const Json& order) {
  const std::string& name = order["node"].string();
  const auto node = client_.get(kNodes, {}, name);
  if (!node) return node.error().code == Code::kNotFound ? Status() : fail(node.error());
  const Json& labels = order["labels"];
  Json changed = Json::object(), annotations = Json::object();
  for (const auto& [key, value] : labels.members()) {
    if (kube::label(*node, key) != value.string()) changed.set(key, value);
  }
  for (const Json& prefix : order["owned"].items()) {
    for (const auto& [key, value] : node->path("metadata.labels").members()) {
      if (key.starts_with(prefix.string()) && !labels.contains(key)) changed.set(key, Json());
    }
  }
  for (const auto& [key, value] : order["annotations"].members()) {
    if (kube::annotation(*node, key) != value.string()) annotations.set(key, value);
  }
  if (changed.size() == 0 && annotations.size() == 0) return {};
  const Json patch = Json::object(
      {{"metadata", Json::object({{"labels", std::move(changed)}, {"annotations", std::move(annotations)}})}});
  const auto patched = client_.merge_patch(kNodes, {}, name, patch);
  if (patched || patched.error().code == Code::kNotFound) return {};
  return fail(patched.error());
}

}  // namespace qm::placement
