#pragma once
#include "qm/admission/node_fit.hpp"
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

/// Whether the fleet rules let a Job in, before it is created. Asked on a thread that may wait. kFailedPrecondition names each rule.
using SubmitRules = std::function<Status(const Json& job, const rpc::Caller& caller, bool from_manifest)>;

/// The gRPC service quartermaster.v1.Admission over a host that runs an AdmissionShell.
///
/// Mutations go through the mailbox and answer after the commit; reads run between batches; a watch follows committed
/// events and is cut with RESOURCE_EXHAUSTED where its reader falls more than 10,000 updates behind.
/// The host must outlive the service, and the server that runs it must be stopped first.
///
/// A Job of Submit is created by our account, so `reviews` are asked before whether its caller may create it (docs/security.md), on a
/// thread of their own. Null where callers are not authenticated by Kubernetes. `rules` are asked on that thread too; null = there are none.
/// `jobs` then makes a dry run of the creation, so that the caller reads a refusal in the answer to Submit; null = it is not asked.
/// `nodes` and `plan` are asked by Explain; null = it says nothing of nodes, or of those that are launched.
struct ApiOptions {
  std::shared_ptr<kube::AccessReviews> reviews = nullptr;
  SubmitRules rules = nullptr;
  std::shared_ptr<kube::Client> jobs = nullptr;
  AskNodes nodes = nullptr;
  AskPlan plan = nullptr;
  bool autoscaled = false;  ///< nodes that are missing are launched, as far as NodePools allow
};
[[nodiscard]] std::shared_ptr<grpc::Service> make_service(service::Host& host, const DomainClock& clock,
                                                          ApiOptions options = {});

/// Applies a manifest file as the Apply call would, and waits for the answer. For --config at start.
[[nodiscard]] Status apply_file(service::Host& host, const std::string& path);

/// The explanation of one workload as JSON, for /debug/explain, with the same causes and remedies as Explain. `authorization`: the header of
/// the request. kNotFound where the uid is not known.
[[nodiscard]] Result<Json> explain_json(service::Host& host, const DomainClock& clock, const std::string& uid,
                                        const ApiOptions& options = {}, const std::string& authorization = {});

}  // namespace qm::admission
