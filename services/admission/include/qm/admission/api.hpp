#pragma once
#include "qm/admission/watch/node_fit.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/kube/access_review.hpp"
#include "qm/kube/client.hpp"
#include "qm/rpc/access.hpp"
#include "qm/service/host.hpp"

#include <functional>
#include <memory>
#include <string>

namespace grpc {
class Service;
}

namespace qm::admission {

/// Checks a Job against the fleet rules before it is created. Called on a thread that may block. kFailedPrecondition
/// names each rule.
using SubmitRules = std::function<Status(const Json& job, const rpc::Caller& caller, bool from_manifest)>;

/// The gRPC service quartermaster.v1.Admission of a host that runs an AdmissionShell.
///
/// Mutations go through the mailbox and reply after the commit. Reads run between batches. A watch follows committed
/// events; it ends with RESOURCE_EXHAUSTED when its reader is more than 10,000 updates behind.
/// The host must outlive the service. Stop the server that runs the service first.
///
/// A Job of Submit is created by the account of this service. `reviews` therefore checks first, on a thread of its own,
/// that the caller may create the Job (docs/security.md). Null if Kubernetes does not authenticate callers. `rules` is
/// called on the same thread; null = no rules. `jobs` then makes a dry run of the creation, so that the reply to Submit
/// has any refusal; null = no dry run. Explain calls `nodes` and `plan`; null = it reports nothing about nodes, or
/// about nodes to be launched.
struct ApiOptions {
  std::shared_ptr<kube::AccessReviews> reviews = nullptr;
  SubmitRules rules = nullptr;
  std::shared_ptr<kube::Client> jobs = nullptr;
  PlacementQuery nodes = nullptr;
  PlanQuery plan = nullptr;
  bool autoscaled = false;  ///< missing nodes are launched, as far as NodePools allow
};
[[nodiscard]] std::shared_ptr<grpc::Service> make_service(service::Host& host, const DomainClock& clock,
                                                          ApiOptions options = {});

/// Applies a manifest file like the Apply call, and waits for the result. For --config at start.
[[nodiscard]] Status apply_file(service::Host& host, const std::string& path);

/// The explanation of one workload as JSON, for /debug/explain, with the same causes and remedies as Explain.
/// `authorization`: the header of the request. kNotFound if the uid is unknown.
[[nodiscard]] Result<Json> explain_json(service::Host& host, const DomainClock& clock, const std::string& uid,
                                        const ApiOptions& options = {}, const std::string& authorization = {});

}  // namespace qm::admission
