#pragma once
#include "qm/pg/connection.hpp"
#include "qm/store/store.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace qm::store {

/// The leader row of a schema after the last commit of this store, and the term that this store writes in.
///
/// Threads  commits() by any, all others by the engine thread.
class Lead {
 public:
  struct Position {
    std::uint64_t epoch = 0;
    std::uint64_t term = 0;  ///< an epoch number that a restored database assigns again has another term
    std::uint64_t commits = 0;
    std::uint64_t outbox = 0;    ///< the last sequence
    std::string ancestors = {};  ///< of the term, in the format of to_text()
  };
  /// `schema` is quoted; `lock`: "", " for share", " for update".
  static Result<Position> read(pg::Connection& session, const std::string& schema, const std::string& lock);

  struct Begun {
    Term term;
    std::uint64_t last_term = 0;
  };
  /// Writes a random term after the one in the row, in the caller's transaction, which has locked the row. (The
  /// epoch alone is restored with the database, so two histories could have the same one.)
  Result<Begun> begin(pg::Connection& session, const std::string& schema, HistoryPosition last,
                      const std::string& ancestors);
  /// The transaction of begin() is committed: this store leads at that position.
  void take(std::uint64_t epoch, std::uint64_t commits, Begun begun);
  void committed() { ++commits_; }
  void end() { term_ = {}; }

  /// Why this store cannot write its next batch at `position`, if so.
  [[nodiscard]] std::optional<CommitOutcome> left_by(const Position& position) const;
  /// The row counts one commit of this store more than it knows.
  [[nodiscard]] bool is_next(const Position& position) const {
    return position.term == term_.id && position.commits == commits_ + 1;
  }
  [[nodiscard]] bool leads() const { return term_.id != 0; }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const Term& term() const { return term_; }
  [[nodiscard]] std::uint64_t commits() const { return commits_; }

 private:
  struct Tried {
    std::uint64_t term = 0;
    std::uint64_t last_term = 0;
  };
  Tried tried_;  ///< the last begin(), until take(): its commit may have happened
  std::uint64_t epoch_ = 0;
  Term term_;  ///< id 0 = not the leader
  std::atomic<std::uint64_t> commits_{0};
};

}  // namespace qm::store
