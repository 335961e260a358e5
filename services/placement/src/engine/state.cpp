#include "engine/state.hpp"

#include <algorithm>

namespace qm::placement {

const Meta& State::meta() const {
  static const Meta none;
  const Meta* row = tables.meta.find(0);
  return row == nullptr ? none : *row;
}

const DefragRun& State::defrag_run() const {
  static const DefragRun none;
  const DefragRun* row = tables.defrag_run.find(0);
  return row == nullptr ? none : *row;
}

bool State::is_migrating(const WorkloadUid& uid) const {
  const Proposal* row = tables.proposals.find(uid);
  return row != nullptr && row->move && row->is_active();
}

void State::send(Effect what) {
  Meta& meta = tables.meta.edit(0);
  scratch.out.intents.push_back({meta.next_intent++, std::move(what)});
}

std::uint32_t type_of(const Options& options, std::string_view workload_type) {
  const auto found = std::ranges::find(options.apart, workload_type);
  return found == options.apart.end() ? 0 : std::uint32_t{1} << (found - options.apart.begin());
}

}  // namespace qm::placement
