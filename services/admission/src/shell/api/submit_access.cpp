#include "api/submit_access.hpp"

namespace qm::admission {

Status may_submit(const rpc::Caller& caller, const Submit& submit, const Json& job, kube::AccessReviews& reviews) {
  QM_TRY(reviews.check({caller.name, caller.groups, "create", "batch", "jobs", submit.ns.value()}));
  const auto& spec = job.path("spec.template.spec");
  for (const auto* field : {"serviceAccountName", "serviceAccount"}) {
    const auto& account = spec[field].string();
    if (account.empty() || account == "default") continue;
    auto allowed =
        reviews.check({caller.name, caller.groups, "impersonate", "", "serviceaccounts", submit.ns.value(), account});
    if (allowed) continue;
    auto error = allowed.error();
    error.field = fmt::format("spec.template.spec.{}", field);
    if (error.code == Code::kPermissionDenied) error.remedy = "remove it; or " + error.remedy;
    return fail(std::move(error));
  }
  return {};
}

Status would_create(const Submit& submit, const Json& job, kube::Client& client) {
  const auto created = client.dry_create(kube::resources::kJobs, submit.ns.value(), job,
                                         fmt::format("the API server refuses Job {}/{}", submit.ns, submit.name));
  if (created) return {};
  auto error = created.error();
  switch (error.code) {
    case Code::kNotFound:
      error.field = "metadata.namespace";
      error.remedy = "create the namespace, or name another";
      return fail(std::move(error));
    case Code::kInvalid:
    case Code::kPermissionDenied:
    case Code::kFailedPrecondition:
      return fail(std::move(error));
    default:
      return {};
  }
}

}  // namespace qm::admission
