#pragma once
#include "qm/model/resources.hpp"
#include "quartermaster/v1/model.pb.h"

namespace qm::wire {

/// Converts values of libs/model to messages and back, field by field.
namespace pb = quartermaster::v1;

pb::Taint to_pb(const Taint& taint);
pb::Toleration to_pb(const Toleration& toleration);
pb::DeviceRef to_pb(const DeviceRef& device);
pb::PodShape to_pb(const PodShape& shape);
pb::PodSet to_pb(const PodSet& set);
pb::CheckpointTerms to_pb(const CheckpointTerms& terms);
pb::StepSave to_pb(const StepSave& save);
pb::WorkloadSpec to_pb(const WorkloadSpec& spec);
pb::NodeReport to_pb(const NodeName& node, const NodeReport& report, Instant at);

Taint from_pb(const pb::Taint& taint);
Toleration from_pb(const pb::Toleration& toleration);
DeviceRef from_pb(const pb::DeviceRef& device);
PodShape from_pb(const pb::PodShape& shape);
PodSet from_pb(const pb::PodSet& set);
CheckpointTerms from_pb(const pb::CheckpointTerms& terms);
StepSave from_pb(const pb::StepSave& save);
WorkloadSpec from_pb(const pb::WorkloadSpec& spec);
NodeReport from_pb(const pb::NodeReport& report);

}  // namespace qm::wire
