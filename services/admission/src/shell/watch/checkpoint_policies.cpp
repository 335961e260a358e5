#include "qm/admission/watch/checkpoint_policies.hpp"

#include "qm/admission/translate/translate.hpp"
#include "qm/config/manifest.hpp"

namespace qm::admission {

CheckpointPolicies::CheckpointPolicies(kube::Client& client)
    : feed_(client, "qm-admission", {{"quartermaster.dev", "checkpointpolicies", "CheckpointPolicy", {"v1alpha1"}}},
            {[this](const auto&, const Json& object) { return take(object); },
             [this](const auto&, const auto& at) {
               const std::scoped_lock lock(mutex_);
               policies_.erase(at.second);
             }}) {}

Status CheckpointPolicies::take(const Json& object) {
  const auto name = kube::name_of(object);
  const auto loaded = config::load_text(object.dump(), "CheckpointPolicy/" + name);
  for (const auto& d : loaded.diagnostics) {
    if (d.severity == config::Diagnostic::Severity::kError)
      return fail(Error{Code::kInvalid, d.field + ": " + d.message, d.field, d.remedy});
  }
  const auto* read =
      loaded.objects.empty() ? nullptr : std::get_if<config::CheckpointPolicy>(&loaded.objects.front().typed);
  if (read == nullptr) return fail(Code::kInvalid, "it is not a CheckpointPolicy of a supported version");
  const std::scoped_lock lock(mutex_);
  policies_.insert_or_assign(name, Policy{read->selector, read->port});
  return {};
}

std::string CheckpointPolicies::url_for(const Json& object) const {
  Labels labels;
  for (const auto& [key, value] : object["metadata"]["labels"].members()) labels.emplace(key, value.string());
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, policy] : policies_) {
    if (policy.selector.matches(labels)) return fmt::format("http://{{podIP}}:{}/v1/checkpoint", policy.port);
  }
  return {};
}

void CheckpointPolicies::mark_job(Json& job) const {
  const auto* kind = suspending_kind(job);
  const auto url = url_for(job);
  if (kind == nullptr || url.empty()) return;
  for (const auto& place : kind->places(job)) {
    Json* pods = config::find_template(job, place);
    if (pods == nullptr || !kube::annotation(*pods, words::kCheckpoint).empty()) continue;
    pods->set("metadata").set("annotations").set(words::kCheckpoint, url);
  }
}

void CheckpointPolicies::mark_pod(Json& pod) const {
  if (!kube::annotation(pod, words::kCheckpoint).empty()) return;
  if (auto url = url_for(pod); !url.empty()) {
    pod.set("metadata").set("annotations").set(words::kCheckpoint, std::move(url));
  }
}

}  // namespace qm::admission
