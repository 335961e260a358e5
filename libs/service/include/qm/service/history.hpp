#pragma once
#include "qm/store/history.hpp"
#include "quartermaster/v1/envelope.pb.h"

#include <concepts>

namespace qm::service {

/// The term and ancestors of an Envelope or a SnapshotResponse; of an Envelope the sequence too.
template <class Message>
void put_history(const store::HistoryPosition& position, Message& out) {
  out.set_term(position.term);
  if constexpr (std::same_as<Message, quartermaster::v1::Envelope>) out.set_sequence(position.sequence);
  for (const auto& ancestor : position.ancestors) {
    if (ancestor.term == 0) continue;
    auto* added = out.add_ancestors();
    added->set_term(ancestor.term);
    added->set_end(ancestor.end);
  }
}

/// The inverse. Ancestors beyond those of this release are ignored.
template <class Message>
store::HistoryPosition history_of(const Message& in) {
  store::HistoryPosition out{in.term(), 0, {}};
  if constexpr (std::same_as<Message, quartermaster::v1::Envelope>) out.sequence = in.sequence();
  for (int i = 0; i < in.ancestors_size() && i < static_cast<int>(store::kAncestors); ++i)
    out.ancestors[static_cast<std::size_t>(i)] = {in.ancestors(i).term(), in.ancestors(i).end()};
  return out;
}

}  // namespace qm::service
