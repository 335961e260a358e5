#pragma once
#include "qm/telemetry/engine.hpp"
#include "quartermaster/v1/events.pb.h"

namespace qm::telemetry {

/// Converts the engine's values to event messages and back.
quartermaster::v1::HealthVerdict to_pb(const NodeName& node, const Health& row);
quartermaster::v1::SpotNotice to_pb(const NodeName& node, const Notice& row);
quartermaster::v1::DeviceObservation to_pb(const DevicesSeen& seen);
quartermaster::v1::CheckpointAck to_pb(const AckSeen& ack);
quartermaster::v1::UsageInterval to_pb(const UsageSeen& usage);
Health from_pb(const quartermaster::v1::HealthVerdict& message);
Notice from_pb(const quartermaster::v1::SpotNotice& message);
DevicesSeen from_pb(const quartermaster::v1::DeviceObservation& message);
AckSeen from_pb(const quartermaster::v1::CheckpointAck& message);
UsageSeen from_pb(const quartermaster::v1::UsageInterval& message);

}  // namespace qm::telemetry
