#include "qm/placement/shell.hpp"
#include "quartermaster/v1/events.pb.h"

namespace qm::placement {

namespace pb = quartermaster::v1;

service::Urgency urgency_of(const service::Input& input) {
  if (input.source == service::Source::kOutcome) return service::Urgency::kDeferred;
  if (input.source != service::Source::kBus) return service::Urgency::kNow;
  if (input.name == "qm.gpu") return service::Urgency::kDeferred;
  if (input.name != "qm.workload") return service::Urgency::kNow;
  pb::WorkloadEvent event;
  if (!event.ParseFromString(input.bytes)) return service::Urgency::kNow;
  const auto phase = event.phase();
  const bool requests_nodes = phase != pb::ADMITTED && phase != pb::FINISHED && phase != pb::CANCELLED;
  return requests_nodes ? service::Urgency::kNow : service::Urgency::kDeferred;
}

service::Urgency urgency_of_pod(const Json& pod) {
  const auto& phase = pod["status"]["phase"].string();
  const bool to_bind = pod["spec"]["nodeName"].string().empty() && !pod["deleted"].boolean() && phase != "Succeeded" &&
                       phase != "Failed";
  return to_bind ? service::Urgency::kNow : service::Urgency::kDeferred;
}

}  // namespace qm::placement
