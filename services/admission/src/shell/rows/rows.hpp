#pragma once
#include "qm/admission/engine.hpp"
#include "state/admission_state.pb.h"

namespace qm::admission {

[[nodiscard]] quartermaster::admission::WorkloadRow to_row(const Workload& w);
[[nodiscard]] Workload from_row(const quartermaster::admission::WorkloadRow& row);
[[nodiscard]] quartermaster::admission::SubmissionRow to_row(const Submission& s);
[[nodiscard]] quartermaster::admission::LocalUsageRow to_row(const LocalName& local, const LocalUsage& usage);
[[nodiscard]] std::pair<LocalName, LocalUsage> from_row(const quartermaster::admission::LocalUsageRow& row);
/// Conversions from events, and to and from rows.
[[nodiscard]] BudgetGranted from_event(const quartermaster::v1::BudgetGrant& grant);
[[nodiscard]] quartermaster::admission::BudgetRow to_row(const std::string& name, const BudgetRow& budget);
[[nodiscard]] std::pair<std::string, BudgetRow> from_row(const quartermaster::admission::BudgetRow& row);
[[nodiscard]] quartermaster::admission::HoldRow to_row(const HoldKey& key, const Hold& hold);
[[nodiscard]] std::pair<HoldKey, Hold> from_row(const quartermaster::admission::HoldRow& row);
[[nodiscard]] quartermaster::admission::RunTimesRow to_row(const forecast::JobClass& job_class,
                                                           const forecast::LifeTable& table);
[[nodiscard]] std::pair<forecast::JobClass, forecast::LifeTable> from_row(
    const quartermaster::admission::RunTimesRow& row);
[[nodiscard]] quartermaster::admission::EstimateRow to_row(const StartEstimate& estimate);
[[nodiscard]] StartEstimate from_row(const quartermaster::admission::EstimateRow& row);
[[nodiscard]] quartermaster::admission::CorrectionRow to_row(const forecast::Correction& correction);
[[nodiscard]] forecast::Correction from_row(const quartermaster::admission::CorrectionRow& row);
[[nodiscard]] quartermaster::v1::ProposalAnswer answer_of(const ProposalDecision& decision);
[[nodiscard]] quartermaster::admission::ProposalRow to_row(const ProposalDecision& decision);
[[nodiscard]] ProposalDecision from_row(const quartermaster::admission::ProposalRow& row);
[[nodiscard]] quartermaster::admission::PreemptionBudgetRow to_row(const PreemptionBudget& count);
[[nodiscard]] Submission from_row(const quartermaster::admission::SubmissionRow& row);
// node_rows.cpp
using TopologyAssignmentRows = google::protobuf::RepeatedPtrField<quartermaster::admission::TopologyAssignmentRow>;
void add_nodes(const TopologyAssignments& nodes, TopologyAssignmentRows& rows);
[[nodiscard]] TopologyAssignments nodes_from(const TopologyAssignmentRows& rows);
[[nodiscard]] quartermaster::admission::NodeRow to_row(const NodeState& node);
[[nodiscard]] NodeState from_row(const quartermaster::admission::NodeRow& row);
[[nodiscard]] quartermaster::admission::NodesInput to_input(const NodesUpdated& updated);
[[nodiscard]] NodesUpdated from_input(const quartermaster::admission::NodesInput& input);

}  // namespace qm::admission
