#pragma once
#include "qm/base/result.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace qm::store {

/// Ancestor terms that an event names. A consumer that is behind by more terms takes a snapshot.
inline constexpr std::size_t kAncestors = 4;

/// A term is the time between two calls of Store::acquire. Its id is random, 0 = none. `end` is the outbox sequence of the last
/// event that the database keeps of it: events of the term with a higher sequence were lost with the database.
struct TermEnd {
  std::uint64_t term = 0;
  std::uint64_t end = 0;
  friend bool operator==(const TermEnd&, const TermEnd&) = default;
};

/// The earlier terms in which events were published, the newest first; unused entries have term 0.
using Ancestors = std::array<TermEnd, kAncestors>;

/// Where an event is in the history of its producer, and how far a consumer applied that history.
struct HistoryPosition {
  std::uint64_t term = 0;      ///< 0 = unknown: an event of a release without terms, or nothing applied yet
  std::uint64_t sequence = 0;  ///< in the producer's outbox
  Ancestors ancestors{};
  friend bool operator==(const HistoryPosition&, const HistoryPosition&) = default;
};

/// The ancestors of the next term: those of `last` behind the term of `last`, if that published an event.
Ancestors ancestors_of_next(const HistoryPosition& last);

enum class Succession {
  kSuccessor,  ///< of the same term, or of one that continues where `applied` is: apply, the position advances
  kEarlier,    ///< of an earlier term of the same history, delivered late or again: apply, the position stays
  kAbandoned,  ///< the producer's database lost it, and it was not applied: drop
  kBroken,  ///< the producer's database lost what was applied, or the histories are not known to be one: take a snapshot
};

/// How an event at `event` relates to what a consumer applied of the same producer. An unknown term on either side is kSuccessor.
///
/// Threads  any; a pure function.
/// Cost     at most 2 * kAncestors comparisons.
Succession succession(const HistoryPosition& applied, const HistoryPosition& event);

/// Whether the producer of `event` lost what was applied at `applied`: a certain proof, even across topics of one producer.
bool lost(const HistoryPosition& applied, const HistoryPosition& event);

/// Whether the producer of `event` has another history than what was applied at `applied` of the same producer: the sequence that was
/// applied belongs to another term, or was not given yet. A certain proof too, where the term that was applied was lost as a whole.
bool replaced(const HistoryPosition& applied, const HistoryPosition& event);

/// "TERM/END TERM/END ..." in decimal, and the inverse; kInvalid for any other text.
std::string to_text(const Ancestors& ancestors);
Result<Ancestors> ancestors_from_text(std::string_view text);
/// "TERM/SEQUENCE" and the ancestors; empty for an unknown term.
std::string to_text(const HistoryPosition& position);
Result<HistoryPosition> history_position(std::string_view text);

}  // namespace qm::store
