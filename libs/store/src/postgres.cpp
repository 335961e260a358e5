// The store on PostgreSQL: one schema per service and shard, three sessions (engine, relay, reader).
//
// A commit is begin; the appends; write_batch(), which ends with the epoch check; the comparison of term and number
// of commits; commit. If the result of COMMIT is lost, the leader row shows whether it happened: every
// batch writes it, only the holder of its term writes it, and its lock is held until the old session is over. (The
// transaction's id would not be proof: after a server crash an id without a trace in the log is assigned again.)
#include "batch_params.hpp"
#include "commit_check.hpp"
#include "lead.hpp"
#include "names.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/json.hpp"
#include "qm/base/log.hpp"
#include "qm/store/store.hpp"
#include "recent.hpp"
#include "schema.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

namespace qm::store {
namespace {

constexpr int kTries = 5;
constexpr std::int64_t kTrimBite = 10'000;
constexpr auto kTrimEvery = std::chrono::seconds(60);
// Not now(), which is the time of the transaction's begin.
constexpr const char* kServerNow = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
constexpr auto kLookEvery = std::chrono::seconds(30);

bool worth_repeating(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
}

/// Full jitter: uniform between zero and 10, 20, 40, ... ms.
void back_off(int attempt) {
  thread_local std::minstd_rand random{std::random_device{}()};
  std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(1, 10 << attempt)(random)));
}

OutboxRow outbox_row(const pg::Rows& rows, std::size_t i) {
  return {rows.uint8(i, 0), rows.str(i, 1), rows.str(i, 2), rows.uint8(i, 3), rows.boolean(i, 4), rows.bytes(i, 5)};
}

class PgStore final : public Store {
 public:
  explicit PgStore(PgOptions options, std::string schema)
      : options_(std::move(options)), schema_(std::move(schema)), name_(pg::quote_name(schema_)) {}

  Status open() {
    QM_ASSIGN(auto session, connect("setup"));
    if (options_.migrate == PgOptions::Migrate::kCheck) {
      QM_TRY(pg::check_migrations(*session, schema_, "common", common_migrations()));
      return pg::check_migrations(*session, schema_, options_.service, options_.migrations);
    }
    QM_TRY(pg::migrate(*session, schema_, "common", common_migrations()));
    return pg::migrate(*session, schema_, options_.service, options_.migrations);
  }

  Result<Loaded> acquire(const std::string& holder) override {
    lead_.end();
    for (int attempt = 0;; ++attempt) {
      auto loaded = take_over(holder);
      if (!loaded && attempt + 1 < kTries && worth_repeating(loaded.error())) {
        back_off(attempt);
        continue;
      }
      if (!loaded) return fail(loaded.error().with_context("taking the lead of " + schema_));
      session_replaced_ = false;
      numbers_ = CommitCheck(*loaded);
      recent_.start_at(loaded->outbox_sequence);
      QM_CRASH_POINT("store.after_acquire");
      return loaded;
    }
  }

  Result<CommitOutcome> commit(const Commit& batch) override {
    QM_CRASH_POINT("store.before_commit");
    if (!lead_.leads()) return CommitOutcome::kEpochLost;
    QM_TRY(numbers_.check(batch));
    for (int attempt = 0;; ++attempt) {
      auto outcome = try_commit(batch);
      if (!outcome && attempt + 1 < kTries && worth_repeating(outcome.error())) {
        back_off(attempt);
        continue;
      }
      if (!outcome) return fail(outcome.error().with_context("writing a batch to " + schema_));
      if (*outcome == CommitOutcome::kCommitted) {
        QM_CRASH_POINT("store.after_commit");
        lead_.committed();
        numbers_.advance(batch);
        if (!batch.outbox.empty()) recent_.add(batch.outbox);
      } else if (*outcome != CommitOutcome::kTermEnded) {
        lead_.end();
      }
      return outcome;
    }
  }

  Result<std::vector<OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) override {
    if (auto known = recent_.after(after, max)) {
      // No row newer than this store's own can exist; but the caller must detect an unavailable store. The end of the
      // session is seen without a statement, the silence of a server only by one.
      if (!known->empty()) return std::move(*known);
      const bool open = relay_ && relay_->wait_notification(SteadyDuration::zero());
      if (open && std::chrono::steady_clock::now() < next_look_) return std::move(*known);
    }
    next_look_ = std::chrono::steady_clock::now() + kLookEvery;
    QM_ASSIGN(const auto rows,
              ask(relay_, "relay",
                  "select sequence, topic, key, key_version, tombstone, value from (select *, "
                  "sum(octet_length(value)) over (order by sequence) - octet_length(value) as before from " +
                      name_ +
                      ".outbox where sequence > $1::bigint order by sequence limit $2::bigint) o "
                      "where before < $3::bigint order by sequence",
                  pg::Params()
                      .int8(static_cast<std::int64_t>(after))
                      .int8(static_cast<std::int64_t>(max))
                      .int8(static_cast<std::int64_t>(kReadBytes))));
    if (sent_ > 0 && swept_session_ != relay_sessions_) QM_TRY(sweep());
    std::vector<OutboxRow> out;
    for (std::size_t i = 0; i < rows.size(); ++i) out.push_back(outbox_row(rows, i));
    return out;
  }

  Status published(std::uint64_t sequence, std::uint64_t term) override {
    if (term != sent_term_) sent_ = deleted_ = swept_session_ = 0;
    sent_term_ = term;
    sent_commits_ = lead_.commits();
    sent_ = std::max(sent_, sequence);
    QM_TRY(sweep());
    recent_.drop(sequence);
    QM_CRASH_POINT("store.after_published");
    trim_sometimes();
    return {};
  }

  Result<std::vector<OutboxRow>> snapshot(const std::string& topic, const std::string& after_key, std::size_t max,
                                          const std::string& only_key, bool ended) override {
    const std::lock_guard lock(reader_mutex_);
    const std::string columns = "select sequence, topic, key, key_version, tombstone, value from ";
    auto rows =
        only_key.empty()
            ? ask(reader_, "reader",
                  columns +
                      "(select *, sum(octet_length(value)) over (order by key) - octet_length(value) as before from " +
                      name_ +
                      ".published where topic = $1::text and key > $2::text and (not tombstone or $4::bigint = 1) "
                      "order by key limit $3::bigint) p where before < $5::bigint order by key",
                  pg::Params()
                      .text(topic)
                      .text(after_key)
                      .int8(static_cast<std::int64_t>(max))
                      .int8(ended ? 1 : 0)
                      .int8(static_cast<std::int64_t>(kReadBytes)))
            : ask(reader_, "reader", columns + name_ + ".published where topic = $1::text and key = $2::text",
                  pg::Params().text(topic).text(only_key));
    if (!rows) return fail(rows.error());
    std::vector<OutboxRow> out;
    for (std::size_t i = 0; i < rows->size(); ++i) out.push_back(outbox_row(*rows, i));
    return out;
  }

  Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) override {
    const std::lock_guard lock(reader_mutex_);
    QM_ASSIGN(const auto rows,
              ask(reader_, "reader",
                  "select sequence, now, bytes, digest from " + name_ +
                      ".journal where sequence > $1::bigint order by sequence limit $2::bigint",
                  pg::Params().int8(static_cast<std::int64_t>(after)).int8(static_cast<std::int64_t>(max))));
    std::vector<JournalRow> out;
    for (std::size_t i = 0; i < rows.size(); ++i)
      out.push_back({rows.uint8(i, 0), from_micros(rows.int8(i, 1)), rows.bytes(i, 2), rows.uint8(i, 3)});
    return out;
  }

  Term term() const override { return lead_.term(); }

  Result<Instant> server_now() override {
    if (!engine_ || engine_->broken()) return fail(Code::kUnavailable, "the session of the engine is lost");
    QM_ASSIGN(const auto rows, engine_->query(kServerNow, {}));
    return from_micros(rows.int8(0, 0));
  }

 private:
  using Session = std::unique_ptr<pg::Connection>;

  Result<Session> connect(const std::string& role) const {
    QM_ASSIGN(auto session, pg::Connection::open(options_.conninfo, {application_name(role)}));
    // The relay only deletes rows that may be deleted at any time: it does not wait for the disk.
    if (role == "relay") {
      QM_TRY(session->exec("set synchronous_commit = off"));
      ++relay_sessions_;
    }
    return session;
  }

  /// Deletes sent rows, starting where the last deletion ended: otherwise the scan would pass all previous dead rows
  /// first. On a new session from the beginning: a server that crashed may have reverted deletions.
  Status sweep() {
    while (true) {
      const auto session = relay_sessions_;
      const auto from = session == swept_session_ ? deleted_ : 0;
      QM_TRY(ask(relay_, "relay",
                 "delete from " + name_ +
                     ".outbox where sequence > $1::bigint and sequence <= $2::bigint and exists (select from " + name_ +
                     ".leader where term = $3::bigint and commits >= $4::bigint)",
                 pg::Params()
                     .int8(static_cast<std::int64_t>(from))
                     .int8(static_cast<std::int64_t>(sent_))
                     .int8(static_cast<std::int64_t>(sent_term_))
                     .int8(static_cast<std::int64_t>(sent_commits_))));
      if (from != 0 && session != relay_sessions_) continue;
      swept_session_ = relay_sessions_;
      deleted_ = sent_;
      return {};
    }
  }
  [[nodiscard]] std::string application_name(const std::string& role) const { return "qm " + role + " " + schema_; }

  /// A read, or a write that may be repeated: one retry on a new session if the old one was lost.
  Result<pg::Rows> ask(Session& session, const std::string& role, const std::string& sql, const pg::Params& params) {
    for (int attempt = 0;; ++attempt) {
      if (!session || session->broken()) {
        QM_ASSIGN(session, connect(role));
      }
      auto rows = session->query(sql, params);
      if (rows || attempt > 0 || !worth_repeating(rows.error())) return rows;
    }
  }

  /// Terminates engine sessions other than this one, and waits until they are gone: none of them can commit after
  /// this. `only_pid` = 0 means all of them, whichever holder they have.
  Status end_engines(pg::Connection& session, int only_pid) const {
    QM_TRY(
        session.query("select pg_terminate_backend(pid, 2000) from pg_stat_activity where datname = "
                      "current_database() and application_name = $1::text and pid <> pg_backend_pid() "
                      "and $2::bigint in (0, pid)",
                      pg::Params().text(application_name("engine")).int8(only_pid)));
    return {};
  }

  /// kFailedPrecondition: another process holds the lease. With " for share" none can claim it before the end of the
  /// transaction.
  Status holds_lease(const std::string& holder, const std::string& lock) {
    if (!options_.fenced) return {};
    QM_ASSIGN(const auto lease, engine_->query("select holder, released from " + name_ + ".lease" + lock));
    if (lease.size() == 1 && lease.str(0, 0) == holder && !lease.boolean(0, 1)) return {};
    return fail(Code::kFailedPrecondition, "{} does not have the lease of {}, \"{}\" has it", holder, schema_,
                lease.size() == 1 ? lease.str(0, 0) : std::string());
  }

  Result<Loaded> take_over(const std::string& holder) {
    QM_ASSIGN(engine_, connect("engine"));
    QM_TRY(holds_lease(holder, ""));
    QM_TRY(end_engines(*engine_, 0));
    QM_ASSIGN(auto transaction, pg::Transaction::begin(*engine_));
    QM_ASSIGN(const auto leader,
              engine_->query("update " + name_ +
                                 ".leader set epoch = epoch + 1, holder = $1::text, taken_at = now() "
                                 "returning epoch, commits, journal_sequence, outbox_sequence, "
                                 "intent_sequence, last_now, term, ancestors",
                             pg::Params().text(holder)));
    if (leader.size() != 1)
      return fail(Code::kInternal, "table {}.leader has {} rows, not one", schema_, leader.size());
    // Reading everything may take longer than any batch.
    QM_TRY(
        engine_->exec("set local statement_timeout = '10min'; set local idle_in_transaction_session_timeout = '2min'"));
    Loaded out;
    out.epoch = leader.uint8(0, 0);
    out.journal_sequence = leader.uint8(0, 2);
    out.outbox_sequence = leader.uint8(0, 3);
    out.intent_sequence = leader.uint8(0, 4);
    out.last_now = from_micros(leader.int8(0, 5));
    QM_ASSIGN(auto begun,
              lead_.begin(*engine_, name_, {leader.uint8(0, 6), out.outbox_sequence, {}}, leader.str(0, 7)));
    out.term = begun.term.id;
    out.ancestors = begun.term.ancestors;
    out.last_term = begun.last_term;
    QM_TRY(load(out));
    QM_CRASH_POINT("store.in_acquire");
    // The lease cannot be claimed before the commit. Without a commit the server ends this session after a second.
    QM_TRY(engine_->exec("set local idle_in_transaction_session_timeout = '1s'"));
    QM_TRY(holds_lease(holder, " for share"));
    QM_TRY(transaction.commit());
    // Last: it is compared with the clock of this host.
    QM_ASSIGN(out.server_now, server_now());
    lead_.take(out.epoch, leader.uint8(0, 1), std::move(begun));
    return out;
  }

  template <class Fn>
  Status each(const std::string& columns, const std::string& rest, const pg::Params& params, Fn&& fn) {
    QM_ASSIGN(const auto rows, engine_->query("select " + columns + " from " + name_ + "." + rest, params));
    for (std::size_t i = 0; i < rows.size(); ++i) fn(rows, i);
    return {};
  }

  Status load(Loaded& out) {
    QM_TRY(each("kind, key, value", "state order by kind, key", {}, [&](const pg::Rows& r, std::size_t i) {
      out.state.push_back({r.str(i, 0), r.str(i, 1), r.bytes(i, 2)});
    }));
    QM_TRY(
        each("id, kind, key, sequence, payload", "intent order by sequence", {}, [&](const pg::Rows& r, std::size_t i) {
          out.open_intents.push_back({r.str(i, 0), r.str(i, 1), r.str(i, 2), r.uint8(i, 3), r.bytes(i, 4)});
        }));
    QM_ASSIGN(const auto cursors, engine_->query("select topic, partition, next_offset, mark, history, anchor_offset, "
                                                 "anchor_hash from " +
                                                 name_ + ".cursor order by 1, 2"));
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      QM_ASSIGN(const auto history, history_position(cursors.str(i, 4)));
      out.cursors.push_back({cursors.str(i, 0), static_cast<std::int32_t>(cursors.int8(i, 1)), cursors.int8(i, 2),
                             cursors.uint8(i, 3), history, LogAnchor{cursors.int8(i, 5), cursors.uint8(i, 6)}});
    }
    const auto with_age = [](const pg::Rows& r, std::size_t i) {
      return SeenRow{r.str(i, 0), r.str(i, 1), r.uint8(i, 2), r.boolean(i, 3), std::chrono::seconds(r.int8(i, 4))};
    };
    const std::string age = ", greatest(0, extract(epoch from now() - at))::bigint";
    QM_TRY(each("topic, key, version, gone" + age, "seen order by 1, 2", {},
                [&](const pg::Rows& r, std::size_t i) { out.seen.push_back(with_age(r, i)); }));
    QM_TRY(each("topic, key, key_version, tombstone" + age, "published order by 1, 2", {},
                [&](const pg::Rows& r, std::size_t i) { out.published.push_back(with_age(r, i)); }));
    QM_TRY(each("topic, version", "floor order by 1", {}, [&](const pg::Rows& r, std::size_t i) {
      out.floors.push_back({r.str(i, 0), r.uint8(i, 1)});
    }));
    return each("id, reply, at", "request where at >= $1::bigint order by id",
                pg::Params().int8(micros(out.last_now - kRequestLife)), [&](const pg::Rows& r, std::size_t i) {
                  out.requests.push_back({r.str(i, 0), r.bytes(i, 1), from_micros(r.int8(i, 2))});
                });
  }

  /// One attempt. An error means that nothing was written.
  Result<CommitOutcome> try_commit(const Commit& batch) {
    if (!engine_ || engine_->broken()) {
      session_replaced_ = true;
      QM_ASSIGN(engine_, connect("engine"));
    }
    if (session_replaced_) return begin_term();
    QM_ASSIGN(auto transaction, pg::Transaction::begin(*engine_));
    auto leading = write(batch);
    if (!leading) {
      // A batch of a former leader may conflict with the new leader's rows before it reaches the check.
      if (worth_repeating(leading.error())) return fail(leading.error());
      { const auto rolled_back = std::move(transaction); }
      QM_ASSIGN(const auto position, Lead::read(*engine_, name_, ""));
      if (const auto left = lead_.left_by(position)) return *left;
      return fail(for_batch(leading.error()));
    }
    if (const auto left = lead_.left_by(leading->before)) return *left;
    if (!leading->written) return CommitOutcome::kEpochLost;  // another store acquired while the batch was written
    QM_CRASH_POINT("store.in_commit");
    auto done = transaction.commit();
    if (done) return CommitOutcome::kCommitted;
    if (!engine_->broken()) return fail(for_batch(done.error()));
    return look_up(done.error());
  }

  /// A row that a constraint of the schema rejects comes from an input, like one that no column accepts.
  static Error for_batch(Error error) {
    if (error.code == Code::kAlreadyExists || error.code == Code::kFailedPrecondition) error.code = Code::kInvalid;
    return error;
  }

  struct Written {
    bool written;
    Lead::Position before;
  };
  Result<Written> write(const Commit& batch) {
    QM_TRY(append(batch));
    QM_TRY(forget(batch));
    QM_TRY(put_anchors(*engine_, name_, batch));
    QM_ASSIGN(const auto rows, engine_->query(write_batch_, batch_params(batch, lead_.epoch())));
    return Written{rows.boolean(0, 0),
                   {.epoch = rows.uint8(0, 2), .term = rows.uint8(0, 3), .commits = rows.uint8(0, 1)}};
  }

  /// Rows with the same table and columns are sent as one JSON array: the server casts the texts to the columns'
  /// types.
  Status append(const Commit& batch) {
    for (std::size_t begin = 0, end = 0; begin < batch.appends.size(); begin = end) {
      const auto& first = batch.appends[begin];
      std::string names;
      for (const auto& name : first.names) names += (names.empty() ? "" : ", ") + pg::quote_name(name);
      std::string rows = "[";
      for (end = begin; end < batch.appends.size() && batch.appends[end].table == first.table &&
                        batch.appends[end].names == first.names;
           ++end) {
        if (end != begin) rows += ',';
        Json::Object row;
        for (std::size_t i = 0; i < first.names.size(); ++i)
          row.emplace_back(first.names[i],
                           batch.appends[end].columns[i] ? Json(*batch.appends[end].columns[i]) : Json());
        Json(std::move(row)).append_to(rows);
      }
      rows += ']';
      const auto table = name_ + "." + pg::quote_name(first.table);
      QM_TRY(engine_->query("insert into " + table + " (" + names + ") select " + names +
                                " from jsonb_populate_recordset(null::" + table + ", $1::text::jsonb)",
                            pg::Params().text(rows)));
    }
    return {};
  }

  Status forget(const Commit& batch) {
    if (!batch.forget_seen.empty())
      QM_TRY(engine_->query("delete from " + name_ +
                                ".seen s using unnest($1::text[], $2::text[]) as f(topic, key) "
                                "where s.topic = f.topic and s.key = f.key and s.gone",
                            key_params(batch.forget_seen)));
    if (!batch.forget_published.empty())
      QM_TRY(engine_->query("with gone as (delete from " + name_ +
                                ".published p using unnest($1::text[], $2::text[]) "
                                "as f(topic, key) where p.topic = f.topic and p.key = f.key and p.tombstone "
                                "returning p.topic, p.key_version) "
                                "insert into " +
                                name_ +
                                ".floor as f (topic, version) select topic, max(key_version) from "
                                "gone group by topic on conflict (topic) do update set "
                                "version = greatest(f.version, excluded.version)",
                            key_params(batch.forget_published)));
    return {};
  }

  /// The session ends when another replica takes over or the server is restarted. So the database may have been
  /// restored to a copy from before another replica led and published: further writes of this store are of a later
  /// term.
  Result<CommitOutcome> begin_term() {
    QM_ASSIGN(auto transaction, pg::Transaction::begin(*engine_));
    QM_ASSIGN(const auto position, Lead::read(*engine_, name_, " for update"));
    if (const auto left = lead_.left_by(position)) return *left;
    QM_ASSIGN(auto begun, lead_.begin(*engine_, name_, {position.term, position.outbox, {}}, position.ancestors));
    QM_TRY(transaction.commit());
    lead_.take(position.epoch, position.commits, std::move(begun));
    session_replaced_ = false;
    return CommitOutcome::kTermEnded;
  }

  /// The COMMIT was sent and its result lost. Waits until the old session is over, then reads the outcome.
  Result<CommitOutcome> look_up(const Error& lost) {
    log::warn("the answer to a commit is lost, checking the outcome", {{"schema", schema_}, {"error", lost.message}});
    const auto until = std::chrono::steady_clock::now() + options_.in_doubt_lookup;
    const int old_pid = engine_->backend_pid();
    for (int attempt = 0; std::chrono::steady_clock::now() < until; attempt = std::min(attempt + 1, 5)) {
      if (attempt > 0) back_off(attempt);
      auto session = connect("engine");
      if (!session) continue;
      engine_ = std::move(*session);
      session_replaced_ = true;
      if (!end_engines(*engine_, old_pid)) continue;
      const auto position = Lead::read(*engine_, name_, " for share");
      if (!position) continue;
      log::warn("outcome of the lost commit", {{"schema", schema_}, {"commits", position->commits}});
      if (lead_.is_next(*position)) return CommitOutcome::kCommitted;
      if (const auto left = lead_.left_by(*position)) return *left;
      return fail(Error{Code::kUnavailable, "the commit did not happen: " + lost.message, "", ""});
    }
    return CommitOutcome::kInDoubt;
  }

  /// Deletes old journal rows in bounded batches, on the relay's session; a failure is retried with the next batch.
  void trim_sometimes() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_trim_) return;
    const auto gone = ask(relay_, "relay",
                          "delete from " + name_ +
                              ".journal where sequence in (select sequence from (select sequence, "
                              "committed_at from " +
                              name_ +
                              ".journal order by sequence limit $2::bigint) oldest "
                              "where committed_at < now() - $1::bigint * interval '1 second')",
                          pg::Params().int8(options_.journal_keep.count()).int8(kTrimBite));
    const bool more = gone && gone->affected() == static_cast<std::uint64_t>(kTrimBite);
    next_trim_ = now + (more ? std::chrono::seconds(1) : kTrimEvery);
    if (!gone)
      log::warn("old journal rows could not be deleted", {{"schema", schema_}, {"error", gone.error().message}});
  }

  PgOptions options_;
  std::string schema_;
  std::string name_;  ///< quoted
  /// The other columns are unchanged by the function: a statement sees the rows as they were when it began.
  std::string write_batch_ =
      "select " + name_ +
      ".write_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, "
      "$18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36), "
      "(select commits from " +
      name_ + ".leader), (select epoch from " + name_ + ".leader), (select term from " + name_ + ".leader)";
  Session engine_;
  Session relay_;
  Session reader_;
  std::mutex reader_mutex_;
  std::chrono::steady_clock::time_point next_trim_{};
  std::chrono::steady_clock::time_point next_look_{};
  std::uint64_t sent_term_ = 0;     ///< term of the next outbox rows
  std::uint64_t sent_commits_ = 0;  ///< at least: a database that is behind has other rows under these numbers
  std::uint64_t sent_ = 0;          ///< the bus has the outbox rows up to here
  std::uint64_t deleted_ = 0;       ///< outbox rows up to here were deleted on the session with this number
  std::uint64_t swept_session_ = 0;
  mutable std::uint64_t relay_sessions_ = 0;
  Recent recent_;
  Lead lead_;
  bool session_replaced_ = false;  ///< since the term began
  CommitCheck numbers_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_postgres(PgOptions options) {
  QM_ASSIGN(auto schema, schema_of(options));
  auto store = std::make_unique<PgStore>(std::move(options), std::move(schema));
  QM_TRY(store->open());
  return store;
}

}  // namespace qm::store
