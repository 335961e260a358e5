#include "lead.hpp"

#include "qm/base/log.hpp"
#include "qm/store/history.hpp"

#include <random>
#include <utility>

namespace qm::store {

Result<Lead::Position> Lead::read(pg::Connection& session, const std::string& schema, const std::string& lock) {
  QM_ASSIGN(const auto rows,
            session.query("select epoch, term, commits, outbox_sequence, ancestors from " + schema + ".leader" + lock));
  if (rows.size() != 1) return fail(Code::kInternal, "table {}.leader has {} rows, not one", schema, rows.size());
  return Position{rows.uint8(0, 0), rows.uint8(0, 1), rows.uint8(0, 2), rows.uint8(0, 3), rows.str(0, 4)};
}

Result<Lead::Begun> Lead::begin(pg::Connection& session, const std::string& schema, HistoryPosition last,
                                const std::string& ancestors) {
  QM_ASSIGN(last.ancestors, ancestors_from_text(ancestors));
  Begun out;
  out.term.ancestors = ancestors_of_next(last);
  std::random_device random;
  out.term.id = ((std::uint64_t{random()} << 32 | random()) >> 1) | 1;  // a bigint, and not 0
  // A transaction whose result was lost may have started a term of this store, in which nothing was written.
  out.last_term = tried_.term != 0 && last.term == tried_.term ? tried_.last_term : last.term;
  tried_ = {out.term.id, out.last_term};
  QM_TRY(session.query("update " + schema + ".leader set term = $1::bigint, ancestors = $2::text",
                       pg::Params().int8(static_cast<std::int64_t>(out.term.id)).text(to_text(out.term.ancestors))));
  return out;
}

void Lead::take(std::uint64_t epoch, std::uint64_t commits, Begun begun) {
  tried_ = {};
  epoch_ = epoch;
  term_ = std::move(begun.term);
  commits_ = commits;
}

std::optional<CommitOutcome> Lead::left_by(const Position& position) const {
  const bool ours = position.term == term_.id || (position.term == tried_.term && tried_.last_term == term_.id);
  if (ours && position.commits == commits_) return std::nullopt;
  if (position.epoch > epoch_) return CommitOutcome::kEpochLost;
  log::error("the database lost commits that it acknowledged", {{"epoch", epoch_},
                                                                {"commits", commits_.load()},
                                                                {"found_epoch", position.epoch},
                                                                {"found_commits", position.commits}});
  return CommitOutcome::kRolledBack;
}

}  // namespace qm::store
