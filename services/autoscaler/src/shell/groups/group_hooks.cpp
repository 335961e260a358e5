// Answers to lifecycle hooks of Auto Scaling groups, and the protection of their instances.
#include "qm/autoscaler/shell.hpp"

#include <algorithm>

namespace qm::autoscaler {

// A repetition is harmless: an instance that does not wait anymore is refused, which is the wanted state.
Result<service::Outcome> Executor::answer_hook(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string &group = want["group"].string(), &hook = want["hook"].string();
  const std::string& instance = want["instance"].string();
  const auto done = want["done"].boolean() ? aws_.complete_lifecycle_action(group, hook, instance)
                                           : aws_.record_lifecycle_heartbeat(group, hook, instance);
  if (done || done.error().code == Code::kInvalid || done.error().code == Code::kNotFound)
    return service::Outcome{"{}"};
  const bool again = done.error().retryable() || done.error().code == Code::kUnknown;
  return fail(Error{again ? Code::kUnavailable : done.error().code,
                    fmt::format("hook {} of {}: {}", hook, instance, done.error().message),
                    {},
                    {}});
}

// An instance that has left the group, or is in another state than InService, needs no protection.
Result<service::Outcome> Executor::protect(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string& group = want["group"].string();
  QM_ASSIGN(const auto groups, aws_.describe_groups({group}));
  std::vector<std::string> instances;
  for (const Json& instance : want["instances"].items()) {
    const auto is_member = [&](const auto& m) {
      return m.instance_id == instance.string() && m.lifecycle == "InService" &&
             m.protected_from_scale_in != want["protect"].boolean();
    };
    if (!groups.empty() && std::ranges::any_of(groups.front().instances, is_member))
      instances.push_back(instance.string());
  }
  if (instances.empty()) return service::Outcome{"{}"};
  const auto done = aws_.set_instance_protection(group, instances, want["protect"].boolean());
  if (done) return service::Outcome{"{}"};
  Error error = done.error().with_context("protect instances of " + group);
  if (error.code == Code::kUnknown || error.code == Code::kAborted) error.code = Code::kUnavailable;
  return fail(std::move(error));
}

}  // namespace qm::autoscaler
