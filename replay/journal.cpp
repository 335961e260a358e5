// The batches of a journal, from its table.
#include "journal.hpp"

#include "quartermaster/v1/journal.pb.h"

#include <fmt/format.h>

namespace qm::replay {
namespace {

constexpr std::int64_t kRowsAtOnce = 500;

Result<Batch> batch_of(const pg::Rows& rows, std::size_t row) {
  Batch out;
  out.sequence = rows.uint8(row, 0);
  out.now = from_micros(rows.int8(row, 1));
  out.digest = rows.uint8(row, 3);
  quartermaster::v1::JournalBatch batch;
  if (!batch.ParseFromString(rows.bytes(row, 2)))
    return fail(Code::kInternal, "batch {} of the journal cannot be read", out.sequence);
  for (const auto& input : batch.inputs()) {
    out.inputs.push_back({static_cast<service::Source>(input.source()), input.name(), input.bytes(), input.id(),
                          input.key(), input.version(), input.tombstone(), input.trace_parent()});
  }
  return out;
}

}  // namespace

Status for_each_batch(pg::Connection& session, const std::string& schema,
                      const std::function<Result<bool>(const Batch&)>& fn) {
  const auto select = fmt::format(
      "select sequence, now, bytes, digest from {}.journal where sequence > $1::bigint order by sequence limit {}",
      schema, kRowsAtOnce);
  for (std::int64_t last = 0;;) {
    QM_ASSIGN(const auto rows, session.query(select, pg::Params().int8(last)));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.int8(row, 0) != last + 1) {
        return fail(
            {Code::kFailedPrecondition,
             fmt::format("the journal of {} has no batch {}: the next one is {}", schema, last + 1, rows.int8(row, 0)),
             "--postgres", "use a copy of the database from before the journal was shortened"});
      }
      QM_ASSIGN(const auto batch, batch_of(rows, row));
      QM_ASSIGN(const bool goes_on, fn(batch));
      if (!goes_on) return {};
      ++last;
    }
    if (rows.size() < static_cast<std::size_t>(kRowsAtOnce)) return {};
  }
}

}  // namespace qm::replay
