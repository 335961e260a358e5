#pragma once
#include "qm/admission/engine.hpp"
#include "state/admission_state.pb.h"

namespace qm::admission {

[[nodiscard]] quartermaster::admission::WorkloadRow to_row(const Workload& w);
[[nodiscard]] Workload from_row(const quartermaster::admission::WorkloadRow& row);
[[nodiscard]] quartermaster::admission::SubmissionRow to_row(const Submission& s);
[[nodiscard]] quartermaster::admission::LocalUsageRow to_row(const LocalName& local, const LocalUsage& usage);
[[nodiscard]] std::pair<LocalName, LocalUsage> from_row(const quartermaster::admission::LocalUsageRow& row);
[[nodiscard]] Submission from_row(const quartermaster::admission::SubmissionRow& row);

}  // namespace qm::admission
