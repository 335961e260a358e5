#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/pg/migration.hpp"
#include "qm/store/history.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::store {

/// One entity of a service's state: protobuf bytes under (kind, key). No value = the row is deleted.
struct StateRow {
  std::string kind;
  std::string key;
  std::optional<std::string> value;
};

/// One event in the outbox. `sequence` is dense per shard and assigned by the host, so the relay needs no watermark;
/// `key_version` is dense per (topic, key). `value` is the serialized Envelope.
struct OutboxRow {
  std::uint64_t sequence = 0;
  std::string topic;
  std::string key;
  std::uint64_t key_version = 0;
  bool tombstone = false;
  std::string value;
};

/// An effect on the external world. It is stored before it is executed, and its id makes a repetition harmless.
struct IntentRow {
  std::string id;    ///< unique for ever: "<service>/<shard>/<n>" or derived from its effect
  std::string kind;  ///< "job.unsuspend", "pod.bind", "instance.launch", ...
  std::string key;   ///< intents of one key are executed one after the other, in order of sequence
  std::uint64_t sequence = 0;
  std::string payload;  ///< protobuf or JSON bytes of the executor's own message
};

/// A message that identifies the log that contains it.
struct LogAnchor {
  std::int64_t offset = -1;  ///< -1 = none
  std::uint64_t hash = 0;    ///< stable_hash of the message
  friend bool operator==(const LogAnchor&, const LogAnchor&) = default;
};

/// The position up to which a topic partition is applied.
struct CursorRow {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t next_offset = 0;
  std::uint64_t mark = 0;     ///< stable_hash of the message before next_offset, which identifies the log; 0 = unknown
  HistoryPosition history{};  ///< of the applied events of this service's shard
  /// All applied messages are of the log with this message. In a write: unset = unchanged.
  std::optional<LogAnchor> anchor = {};
};

/// Newest applied version of a key of a consumed topic. `gone` = its tombstone was applied.
struct SeenRow {
  std::string topic;
  std::string key;
  std::uint64_t version = 0;
  bool gone = false;
  std::chrono::seconds age{0};  ///< in a load: time since it was written, by the server's clock
  std::uint64_t epoch = 0;      ///< of a consumed topic: of the leader that published the version; 0 = unknown
};

/// The greatest version among the removed keys of an own topic: new keys begin above it, so that no key ever
/// has a version twice.
struct FloorRow {
  std::string topic;
  std::uint64_t version = 0;
};

/// A key of a topic.
struct KeyRow {
  std::string topic;
  std::string key;
};

/// The stored reply to a request id, so that a retry within 24 h gets the same reply.
struct RequestRow {
  std::string id;
  std::string reply;
  Instant at{};
};

/// A row of a service's own append-only table (the cost ledger). `columns` are text that the server casts to the
/// column's type (any but json); null = NULL; omitted columns get their default.
struct AppendRow {
  std::string table;  ///< without schema; the migrations create it
  std::vector<std::string> names;
  std::vector<std::optional<std::string>> columns;
};

/// Everything that one batch writes: all of it, or nothing. If a list has a key twice, its last row counts.
/// Keys and ids are text without NUL bytes; values, payloads, replies and the journal are any bytes.
struct Commit {
  std::vector<StateRow> state;
  std::uint64_t journal_sequence = 0;  ///< dense; 0 = no journal row
  Instant now{};
  std::string journal;       ///< the unchanged inputs of the batch
  std::uint64_t digest = 0;  ///< of the state after the batch; 0 = not taken
  std::vector<OutboxRow> outbox;
  std::vector<IntentRow> intents;
  std::vector<std::string> intents_done;  ///< intents whose outcome this batch applied
  std::vector<CursorRow> cursors;
  std::vector<SeenRow> seen;
  std::vector<RequestRow> requests;
  std::vector<AppendRow> appends;
  /// Keys whose versions are no longer needed: their rows are deleted if the keys were deleted and this batch does
  /// not write them; the greatest version among the published ones becomes their topic's floor.
  std::vector<KeyRow> forget_seen;
  std::vector<KeyRow> forget_published;
};

/// The state that the new leader loads.
struct Loaded {
  std::uint64_t epoch = 0;      ///< increases with each acquire; a restored database assigns a number again
  std::uint64_t term = 0;       ///< random, and so unique to this acquire: commit() and published() compare it
  std::uint64_t last_term = 0;  ///< of the previous acquire, by any replica; 0 = none
  Ancestors ancestors{};        ///< of that term
  std::vector<StateRow> state;
  std::uint64_t journal_sequence = 0;  ///< last written
  std::uint64_t outbox_sequence = 0;   ///< last written
  Instant last_now{};
  std::vector<IntentRow> open_intents;  ///< in order of sequence
  std::uint64_t intent_sequence = 0;
  std::vector<CursorRow> cursors;
  std::vector<SeenRow> seen;
  std::vector<SeenRow> published;     ///< newest version per (topic, key) of own topics
  std::vector<FloorRow> floors;       ///< of own topics, if keys were removed
  std::vector<RequestRow> requests;   ///< of the last 24 h
  std::optional<Instant> server_now;  ///< by the clock of the database's host; none without such a clock
};

/// The term that this store writes in: see history.hpp. Id 0 = it does not lead.
struct Term {
  std::uint64_t id = 0;
  Ancestors ancestors{};
};

enum class CommitOutcome {
  kCommitted,
  kNotCommitted,  ///< known not to have happened: undo and retry
  kTermEnded,     ///< not committed, the database session was lost: retry in a new term(), with its events
  kEpochLost,     ///< another leader took over: stop writing, reload
  kRolledBack,    ///< the database is behind commits that it acknowledged, as after a restore: alert, reload
  kInDoubt,       ///< could not be looked up in time: reload
};

/// The limit of the values in one read of the outbox, or one page of a snapshot: it ends with the row that reaches
/// this.
inline constexpr std::size_t kReadBytes = 16 << 20;

/// A service's durable state in one shard. Carriers: PostgreSQL and memory, one contract suite.
///
/// Threads  acquire/commit by the engine thread; read_outbox/published by the relay; snapshot by any. A PostgreSQL
///          store keeps a connection for each of the three and reconnects by itself, never silently inside a commit.
/// Numbers  outbox, intent and journal sequences must follow the last written ones without a gap; a batch that
///          violates this is refused with kFailedPrecondition and not written.
/// Size     state and intents are as many as the engine has; `published` and `seen` have a row for each live key and
///          for those that were deleted and not removed yet; requests are kept for 24 h, journal rows for
///          `journal_keep`; an outbox row is deleted as soon as the bus has it, and autovacuum is configured to reuse
///          its space for the next ones.
class Store {
 public:
  virtual ~Store() = default;
  /// Becomes the leader: raises the epoch, begins a term, terminates the previous holder's backends, reads
  /// everything. kFailedPrecondition if the store is fenced (PgOptions::fenced) and `holder` does not hold the lease
  /// of the shard: nothing is changed.
  virtual Result<Loaded> acquire(const std::string& holder) = 0;
  /// Writes one batch; checks the term and the number of commits last. Serialization failures are retried inside,
  /// with a bound; an in-doubt COMMIT is looked up before the call returns. An error is kNotCommitted with its
  /// reason: retryable() if the database is unavailable, otherwise this batch can never be written; kInvalid: the
  /// database rejects a value, or it violates a constraint of the schema. After kEpochLost, kRolledBack or kInDoubt
  /// every commit returns kEpochLost until acquire() is called again.
  virtual Result<CommitOutcome> commit(const Commit& batch) = 0;
  /// Started by acquire(), or by a commit() that returned kTermEnded; by the engine thread.
  [[nodiscard]] virtual Term term() const = 0;

  /// Outbox rows after `sequence`, in order; fewer than `max` if they are long, but at least one.
  virtual Result<std::vector<OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) = 0;
  /// Deletes outbox rows up to and including `sequence`, which were read while this store led with `term`: they are
  /// durable on the bus. With another term nothing is deleted, because after a rollback the same number is another
  /// row. A crash of the server may revert the deletion, and they are sent again.
  virtual Status published(std::uint64_t sequence, std::uint64_t term) = 0;

  /// One page of the newest Envelope per live key of own topics, in key order (bytes) after `after_key`; or that of
  /// `only_key`, which is returned even if it is a tombstone. With `ended` the pages include the tombstones of keys
  /// that are not removed yet. So a reader with a gap gets the deletions in it. Fewer than `max` at the end, or if the
  /// page reaches kReadBytes.
  virtual Result<std::vector<OutboxRow>> snapshot(const std::string& topic, const std::string& after_key,
                                                  std::size_t max, const std::string& only_key = {},
                                                  bool ended = false) = 0;
  /// Journal rows after `sequence`, for replay: (sequence, now, bytes, digest).
  struct JournalRow {
    std::uint64_t sequence = 0;
    Instant now{};
    std::string bytes;
    std::uint64_t digest = 0;
  };
  virtual Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) = 0;

  /// The current reading of the clock of the database's host; by the engine thread. kUnimplemented without such a
  /// clock.
  virtual Result<Instant> server_now() { return fail(Code::kUnimplemented, "this store has no clock of its own"); }
};

using Migration = pg::Migration;

struct PgOptions {
  std::string conninfo;
  std::string service;                ///< "admission": the schema's name in the default shard
  std::string shard = "default";      ///< any other shard has the schema <service>_<shard>
  std::vector<Migration> migrations;  ///< the service's own, applied after the common ones
  std::chrono::seconds journal_keep = std::chrono::hours(24 * 7);  ///< older journal rows are deleted, by wall time
  SteadyDuration in_doubt_lookup = std::chrono::seconds(10);       ///< time limit to look up a lost COMMIT
  enum class Migrate {
    kApply,
    kCheck,  ///< changes nothing: a schema that is older or newer than the program's is refused
  };
  Migrate migrate = Migrate::kApply;
  /// Only the holder of the shard's lease (lease.hpp) can acquire: a leader that lost its lease while it could not
  /// reach the database does not take the shard back from its successor.
  bool fenced = false;
};
/// Connects, applies or checks the migrations, and returns the store. kUnavailable: the database is
/// unavailable; kFailedPrecondition: this program does not support the schema.
Result<std::unique_ptr<Store>> open_postgres(PgOptions options);

/// A store in memory that survives its Store object: the handle is the "disk". Faults can be injected.
struct MemoryDisk;
std::shared_ptr<MemoryDisk> make_memory_disk();
/// `fenced` as in PgOptions; the lease of the disk, its positions and views are in memory.hpp.
std::unique_ptr<Store> open_memory(std::shared_ptr<MemoryDisk> disk, bool fenced = false);
/// The next commit on this disk returns this outcome; for kInDoubt `really_committed` decides.
void plant_outcome(MemoryDisk& disk, CommitOutcome outcome, bool really_committed = false);
/// Copies the disk and returns the number of the copy; restore_disk replaces the disk by it.
std::size_t copy_disk(MemoryDisk& disk);
void restore_disk(MemoryDisk& disk, std::size_t copy);
/// Restores it at the next acquire.
void plant_rollback(MemoryDisk& disk, std::size_t copy);
/// Gives the disk a clock that reads `now`.
void set_server_now(MemoryDisk& disk, Instant now);
/// The rows appended to the service's own tables so far, in order.
std::vector<AppendRow> appended(MemoryDisk& disk);

}  // namespace qm::store
