#pragma once
#include <string>

namespace qm::bench {

/// The shapes of load on one decider: cycles, continuous or engine; false where there is none of that name.
[[nodiscard]] bool shapes(const std::string& decider, const std::string& only);

/// So many workloads pending in an engine: what they weigh, how long they take to load, and what one release costs.
void million(int pending);

/// The same rows in PostgreSQL: how long a service that starts needs until it has them.
void restart(const std::string& conninfo, int pending);

}  // namespace qm::bench
