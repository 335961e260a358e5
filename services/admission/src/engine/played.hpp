#pragma once
#include "qm/admission/what_if.hpp"

#include <memory>

namespace qm::admission {

/// An engine of the rows in which the change was made and everything that follows was decided, as what_if() assumes it.
[[nodiscard]] Result<std::unique_ptr<Engine>> played(const Engine::Tables& rows, const Options& options,
                                                     const Supposed& supposed, Instant now);
/// What became of workloads by the change, in the order of what_if().
[[nodiscard]] std::vector<Consequence> differences(const Engine& without, const Engine& with, Instant now);

}  // namespace qm::admission
