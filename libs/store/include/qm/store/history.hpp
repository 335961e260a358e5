#pragma once
#include "qm/base/result.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace qm::store {

/// The number of ancestor terms in an event. A consumer that is behind by more terms fetches a snapshot.
inline constexpr std::size_t kAncestors = 4;

/// A term is the time between two calls of Store::acquire. Its id is random, 0 = none. `end` is the outbox sequence
/// of the last event of the term that the database has: events of the term with a higher sequence were lost with the
/// database.
struct TermEnd {
  std::uint64_t term = 0;
  std::uint64_t end = 0;
  friend bool operator==(const TermEnd&, const TermEnd&) = default;
};

/// The earlier terms in which events were published, the newest first; unused entries have term 0.
using Ancestors = std::array<TermEnd, kAncestors>;

/// The position of an event in the history of its producer, and the position up to which a consumer applied that
/// history.
struct HistoryPosition {
  std::uint64_t term = 0;      ///< 0 = unknown: an event of a release without terms, or none applied yet
  std::uint64_t sequence = 0;  ///< in the producer's outbox
  Ancestors ancestors{};
  friend bool operator==(const HistoryPosition&, const HistoryPosition&) = default;
};

/// The ancestors of the next term: those of `last` after the term of `last`, if that published an event.
Ancestors ancestors_of_next(const HistoryPosition& last);

enum class Succession {
  kSuccessor,  ///< of the same term, or of one that continues the applied history: apply, the position advances
  kEarlier,    ///< of an earlier term of the same history, delivered late or repeatedly: apply, the position stays
  kAbandoned,  ///< the producer's database lost it, and it was not applied: drop
  kBroken,     ///< the producer's database lost applied events, or the histories may differ: fetch a snapshot
};

/// The relation of an event at `event` to the applied history of the same producer. An unknown term on either side
/// is kSuccessor.
///
/// Threads  any; a pure function.
/// Cost     at most 2 * kAncestors comparisons.
Succession succession(const HistoryPosition& applied, const HistoryPosition& event);

/// Whether the producer of `event` lost events that were applied at `applied`: certain, even across topics of one
/// producer.
bool lost(const HistoryPosition& applied, const HistoryPosition& event);

/// Whether the producer of `event` has another history than the applied one at `applied`: the applied sequence
/// belongs to another term, or was not assigned yet. Certain too, if the applied term was lost as a whole.
bool replaced(const HistoryPosition& applied, const HistoryPosition& event);

/// "TERM/END TERM/END ..." in decimal, and the inverse; kInvalid for any other text.
std::string to_text(const Ancestors& ancestors);
Result<Ancestors> ancestors_from_text(std::string_view text);
/// "TERM/SEQUENCE" and the ancestors; empty for an unknown term.
std::string to_text(const HistoryPosition& position);
Result<HistoryPosition> history_position(std::string_view text);

}  // namespace qm::store
