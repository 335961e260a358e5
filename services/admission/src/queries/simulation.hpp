#pragma once
#include "qm/admission/queries/what_if.hpp"

#include <memory>

namespace qm::admission {

/// An engine of these rows after the change and all decisions that follow, under the assumptions of what_if().
[[nodiscard]] Result<std::unique_ptr<Engine>> played(const Tables& rows, const Options& options,
                                                     const HypotheticalChange& supposed, Instant now);
/// The effects of the change on workloads, in the order of what_if().
[[nodiscard]] std::vector<Consequence> differences(const Engine& without, const Engine& with, Instant now);

}  // namespace qm::admission
