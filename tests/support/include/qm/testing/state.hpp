#pragma once
#include "qm/base/json.hpp"

#include <cstdint>

namespace qm::testing {

/// The whole state in a single dump (service::StateDump): of a service::Shell, or of a codec and its engine.
template <class Dump, class Of, class... Engine>
Json whole_state(const Of& of, const Engine&... engine) {
  Dump dump(SIZE_MAX);
  of.debug_state(engine..., dump);
  return dump.take();
}

}  // namespace qm::testing
