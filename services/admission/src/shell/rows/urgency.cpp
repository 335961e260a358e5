#include "qm/admission/codec.hpp"
#include "quartermaster/v1/events.pb.h"

namespace qm::admission {

namespace pb = quartermaster::v1;

service::Urgency urgency_of(const service::Input& input) {
  if (input.source == service::Source::kOutcome) return service::Urgency::kDeferred;
  if (input.source != service::Source::kBus) return service::Urgency::kNow;
  if (input.name != "qm.placement") return service::Urgency::kDeferred;
  pb::PlacementEvent event;
  if (!event.ParseFromString(input.bytes) || !event.has_assignment()) return service::Urgency::kNow;
  const auto state = event.assignment().state();
  return state == pb::BOUND || state == pb::RELEASED ? service::Urgency::kDeferred : service::Urgency::kNow;
}

}  // namespace qm::admission
