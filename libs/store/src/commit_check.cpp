#include "commit_check.hpp"

#include "qm/base/text.hpp"

#include <string_view>

namespace qm::store {
namespace {

Status text(std::string_view what, std::string_view value) {
  if (is_text(value)) return {};
  return fail(Code::kInvalid, "{} contains a NUL byte, which a text column cannot store", what);
}

/// Checks a value of an indexed column.
Status key(std::string_view what, std::string_view value) {
  QM_TRY(text(what, value));
  if (value.size() <= kMaxRowKey) return {};
  return fail(Code::kInvalid, "{} has {} bytes, at most {} are allowed", what, value.size(), kMaxRowKey);
}

}  // namespace

Status CommitCheck::check(const Commit& batch) const {
  if (batch.journal_sequence != 0 && batch.journal_sequence != journal_ + 1)
    return fail(Code::kFailedPrecondition, "journal sequence {} does not follow {}", batch.journal_sequence, journal_);
  auto next = outbox_;
  for (const auto& row : batch.outbox) {
    if (row.sequence != ++next)
      return fail(Code::kFailedPrecondition, "outbox sequence {} does not follow {}", row.sequence, next - 1);
    QM_TRY(key("an outbox topic", row.topic));
    QM_TRY(key("an outbox key", row.key));
  }
  next = intent_;
  for (const auto& row : batch.intents) {
    if (row.sequence != ++next)
      return fail(Code::kFailedPrecondition, "intent sequence {} does not follow {}", row.sequence, next - 1);
    QM_TRY(key("an intent id", row.id));
    QM_TRY(key("an intent kind", row.kind));
    QM_TRY(key("an intent key", row.key));
  }
  for (const auto& row : batch.state) {
    QM_TRY(key("a state kind", row.kind));
    QM_TRY(key("a state key", row.key));
  }
  for (const auto* list : {&batch.forget_seen, &batch.forget_published})
    for (const auto& row : *list) QM_TRY(key("a forgotten key", row.key));
  for (const auto& row : batch.seen) QM_TRY(key("a seen key", row.key));
  for (const auto& row : batch.requests) QM_TRY(key("a request id", row.id));
  for (const auto& row : batch.appends) {
    if (row.names.size() != row.columns.size())
      return fail(Code::kInvalid, "a row for table {} has {} names and {} columns", row.table, row.names.size(),
                  row.columns.size());
    for (const auto& column : row.columns)
      if (column) QM_TRY(text("a column of table " + row.table, *column));
  }
  return {};
}

void CommitCheck::advance(const Commit& batch) {
  if (batch.journal_sequence != 0) journal_ = batch.journal_sequence;
  if (!batch.outbox.empty()) outbox_ = batch.outbox.back().sequence;
  if (!batch.intents.empty()) intent_ = batch.intents.back().sequence;
}

}  // namespace qm::store
