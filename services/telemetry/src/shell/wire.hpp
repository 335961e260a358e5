#pragma once
#include "qm/telemetry/engine.hpp"
#include "quartermaster/v1/events.pb.h"

namespace qm::telemetry {

/// Converts the engine's values to event messages and back.
quartermaster::v1::HealthVerdict to_pb(const NodeName& node, const Health& row);
quartermaster::v1::SpotNotice to_pb(const NodeName& node, const Notice& row);
quartermaster::v1::DeviceObservation to_pb(const DevicesUpdated& seen);
quartermaster::v1::CheckpointAck to_pb(const AckUpdated& ack);
quartermaster::v1::UsageInterval to_pb(const UsageUpdated& usage);
Health from_pb(const quartermaster::v1::HealthVerdict& message);
Notice from_pb(const quartermaster::v1::SpotNotice& message);
DevicesUpdated from_pb(const quartermaster::v1::DeviceObservation& message);
AckUpdated from_pb(const quartermaster::v1::CheckpointAck& message);
UsageUpdated from_pb(const quartermaster::v1::UsageInterval& message);

}  // namespace qm::telemetry
