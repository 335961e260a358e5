#pragma once
#include <string>

namespace qm::bench {

/// Runs the load shapes on one decider: cycles, continuous or engine; false if there is none of that name.
[[nodiscard]] bool shapes(const std::string& decider, const std::string& only);

/// `pending` workloads in an engine: their memory, their load time, and the cost of one release.
void million(int pending);

/// The same rows in PostgreSQL: the time that a starting service needs to load them.
void restart(const std::string& conninfo, int pending);

}  // namespace qm::bench
