#pragma once
#include "qm/store/history.hpp"
#include "quartermaster/v1/envelope.pb.h"

namespace qm::service {

/// Sets the history of an Envelope or a SnapshotResponse.
template <class Message>
void put_history(const store::HistoryPosition& position, Message& out) {
  out.set_term(position.term);
  out.set_sequence(position.sequence);
  for (const auto& ancestor : position.ancestors) {
    if (ancestor.term == 0) continue;
    auto* added = out.add_ancestors();
    added->set_term(ancestor.term);
    added->set_end(ancestor.end);
  }
}

/// Reads the history. Ancestors beyond the number of this release are ignored.
template <class Message>
store::HistoryPosition history_of(const Message& in) {
  store::HistoryPosition out{in.term(), in.sequence(), {}};
  for (int i = 0; i < in.ancestors_size() && i < static_cast<int>(store::kAncestors); ++i)
    out.ancestors[static_cast<std::size_t>(i)] = {in.ancestors(i).term(), in.ancestors(i).end()};
  return out;
}

}  // namespace qm::service
