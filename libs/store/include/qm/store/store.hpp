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

/// One event on its way out. `sequence` is dense per shard and given by the host, so the relay needs no watermark;
/// `key_version` is dense per (topic, key). `value` is the serialized Envelope.
struct OutboxRow {
  std::uint64_t sequence = 0;
  std::string topic;
  std::string key;
  std::uint64_t key_version = 0;
  bool tombstone = false;
  std::string value;
};

/// Something to do to the outside world. It exists before it is done, and its id makes a repeat harmless.
struct IntentRow {
  std::string id;    ///< unique for ever: "<service>/<shard>/<n>" or derived from what it does
  std::string kind;  ///< "job.unsuspend", "pod.bind", "instance.launch", ...
  std::string key;   ///< intents of one key are executed one after the other, in order of sequence
  std::uint64_t sequence = 0;
  std::string payload;  ///< protobuf or JSON bytes of the executor's own message
};

/// A message that identifies the log it is of.
struct LogAnchor {
  std::int64_t offset = -1;  ///< -1 = none
  std::uint64_t hash = 0;    ///< stable_hash of the message
  friend bool operator==(const LogAnchor&, const LogAnchor&) = default;
};

/// How far a topic partition is applied.
struct CursorRow {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t next_offset = 0;
  std::uint64_t mark = 0;     ///< stable_hash of the message before next_offset, which identifies the log; 0 = unknown
  HistoryPosition history{};  ///< of what is applied of this service's shard
  /// All that was applied is of the log with this message. As written: unset = as before.
  std::optional<LogAnchor> anchor = {};
};

/// Newest applied version of a key of a consumed topic. `gone` = its tombstone was applied.
struct SeenRow {
  std::string topic;
  std::string key;
  std::uint64_t version = 0;
  bool gone = false;
  std::chrono::seconds age{0};  ///< as loaded: since it was written, by the server's clock
  std::uint64_t epoch = 0;      ///< of a consumed topic: of the leader that published the version; 0 = not known
};

/// The greatest version among the keys of an own topic that were forgotten: new keys begin above it, so that no key ever
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

/// The stored answer to a request id, so that a repeat within 24 h gets the same.
struct RequestRow {
  std::string id;
  std::string reply;
  Instant at{};
};

/// A row of a service's own append-only table (the cost ledger). `columns` are text that the server casts to the column's
/// type (any but json); null = NULL; a column that is not named gets its default.
struct AppendRow {
  std::string table;  ///< without schema; known to the migrations
  std::vector<std::string> names;
  std::vector<std::optional<std::string>> columns;
};

/// Everything that one batch writes: all of it, or nothing. Where a list names a key twice, its last row counts.
/// Keys and ids are text without NUL bytes; values, payloads, replies and the journal are any bytes.
struct Commit {
  std::vector<StateRow> state;
  std::uint64_t journal_sequence = 0;  ///< dense; 0 = no journal row
  Instant now{};
  std::string journal;       ///< the batch's inputs, byte for byte
  std::uint64_t digest = 0;  ///< of the state after the batch; 0 = not taken
  std::vector<OutboxRow> outbox;
  std::vector<IntentRow> intents;
  std::vector<std::string> intents_done;  ///< outcome applied in this batch
  std::vector<CursorRow> cursors;
  std::vector<SeenRow> seen;
  std::vector<RequestRow> requests;
  std::vector<AppendRow> appends;
  /// Keys whose versions are no longer needed: their rows go if they have ended and this batch does not write them; the
  /// greatest version of those published becomes their topic's floor.
  std::vector<KeyRow> forget_seen;
  std::vector<KeyRow> forget_published;
};

/// What the new leader finds.
struct Loaded {
  std::uint64_t epoch = 0;      ///< increases with each acquire; a restored database gives a number again
  std::uint64_t term = 0;       ///< random, and so unique to this acquire: what commit() and published() compare
  std::uint64_t last_term = 0;  ///< of the acquire before, by whichever replica; 0 = none
  Ancestors ancestors{};        ///< of that term
  std::vector<StateRow> state;
  std::uint64_t journal_sequence = 0;  ///< last written
  std::uint64_t outbox_sequence = 0;   ///< last written
  Instant last_now{};
  std::vector<IntentRow> open_intents;  ///< in order of sequence
  std::uint64_t intent_sequence = 0;
  std::vector<CursorRow> cursors;
  std::vector<SeenRow> seen;
  std::vector<SeenRow> published;     ///< newest version per (topic, key) of our own topics
  std::vector<FloorRow> floors;       ///< of our own topics, where keys were forgotten
  std::vector<RequestRow> requests;   ///< of the last 24 h
  std::optional<Instant> server_now;  ///< by the clock of the database's machine; none where it has none of its own
};

/// What this store writes in: see history.hpp. Id 0 = it does not lead.
struct Term {
  std::uint64_t id = 0;
  Ancestors ancestors{};
};

enum class CommitOutcome {
  kCommitted,
  kNotCommitted,  ///< known not to have happened: undo and try again
  kTermEnded,  ///< the same; the session with the database was lost, so the next try is of a new term(): its events must name it
  kEpochLost,   ///< another leader took over: stop writing, reload
  kRolledBack,  ///< the database is behind what it acknowledged, as after a restore: alert, reload
  kInDoubt,     ///< could not be looked up in time: reload
};

/// What one read of the outbox, or one page of a snapshot, gives of values: it ends with the row that reaches this.
inline constexpr std::size_t kReadBytes = 16 << 20;

/// A service's durable state in one shard. Carriers: PostgreSQL and memory, one contract suite.
///
/// Threads  acquire/commit by the engine thread; read_outbox/published by the relay; snapshot by any. A PostgreSQL
///          store keeps a connection for each of the three and reconnects by itself, never silently inside a commit.
/// Numbers  outbox, intent and journal sequences must follow the last written ones without a gap; a batch that breaks
///          this is refused with kFailedPrecondition and not written.
/// Size     state and intents are as many as the engine keeps; `published` and `seen` have a row for each live key and
///          for those that ended and are not forgotten yet; requests live 24 h, journal rows `journal_keep`; an outbox
///          row goes as soon as the bus has it, and autovacuum is set to give its room to the next ones.
class Store {
 public:
  virtual ~Store() = default;
  /// Becomes the leader: raises the epoch, begins a term, ends the old holder's backends, reads everything. kFailedPrecondition where the store
  /// is fenced (PgOptions::fenced) and `holder` does not hold the lease of the shard: nothing is changed.
  virtual Result<Loaded> acquire(const std::string& holder) = 0;
  /// Writes one batch; checks the term and the number of commits last. Serialization failures are retried inside, with a bound; an in-doubt
  /// COMMIT is looked up before an answer is given. An error is kNotCommitted with its reason: retryable() where the
  /// database is away, anything else means that this batch can never be written; kInvalid: a value of it is not taken, or violates a
  /// constraint of the schema. After kEpochLost, kRolledBack or kInDoubt
  /// every commit answers kEpochLost until acquire() is called again.
  virtual Result<CommitOutcome> commit(const Commit& batch) = 0;
  /// Begun by acquire(), or by a commit() that answered kTermEnded; by the engine thread.
  [[nodiscard]] virtual Term term() const = 0;

  /// Outbox rows after `sequence`, in order; fewer than `max` where they are long, but one at least.
  virtual Result<std::vector<OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) = 0;
  /// Deletes outbox rows up to and including `sequence`, which were read while this store led with `term`: they are durable on
  /// the bus. With another term nothing is deleted, because after a rollback the same number is another row. A crash of the
  /// server may revert the deletion, and they are sent again.
  virtual Status published(std::uint64_t sequence, std::uint64_t term) = 0;
  /// Blocks until a commit may have added outbox rows, or the timeout.
  virtual void wait_outbox(SteadyDuration timeout) = 0;

  /// One page of the newest Envelope per live key of our own topic, in key order (bytes) after `after_key`; or that of
  /// `only_key`, which is given even if it is a tombstone. With `ended` the tombstones of keys that are not forgotten are in the
  /// pages too, so that a reader with a gap learns what ended in it. Fewer than `max` at the end, or where the page reaches kReadBytes.
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

  /// What the clock of the database's machine reads now; by the engine thread. kUnimplemented where it has none of its own.
  virtual Result<Instant> server_now() { return fail(Code::kUnimplemented, "this store has no clock of its own"); }
};

using Migration = pg::Migration;

struct PgOptions {
  std::string conninfo;
  std::string service;                ///< "admission": the schema's name in the default shard
  std::string shard = "default";      ///< any other shard has the schema <service>_<shard>
  std::vector<Migration> migrations;  ///< the service's own, applied after the common ones
  std::chrono::seconds journal_keep = std::chrono::hours(24 * 7);  ///< older journal rows are deleted, by wall time
  SteadyDuration in_doubt_lookup = std::chrono::seconds(10);       ///< how long a lost COMMIT is looked up
  enum class Migrate {
    kApply,
    kCheck,  ///< changes nothing: a schema that is older or newer than the program is refused
  };
  Migrate migrate = Migrate::kApply;
  /// Only the holder of the shard's lease (lease.hpp) can acquire: a leader that lost its lease while it could not reach the
  /// database does not take the shard back from its successor.
  bool fenced = false;
};
/// Connects, applies the migrations (or looks whether they are), and returns the store. kUnavailable: the database is
/// away; kFailedPrecondition: the schema is not the one that this program knows.
Result<std::unique_ptr<Store>> open_postgres(PgOptions options);

/// A store in memory that survives its Store object: the handle is the "disk". Faults can be planted.
struct MemoryDisk;
std::shared_ptr<MemoryDisk> make_memory_disk();
/// `fenced` as in PgOptions; the lease of the disk, its positions and views are in memory.hpp.
std::unique_ptr<Store> open_memory(std::shared_ptr<MemoryDisk> disk, bool fenced = false);
/// The next commit on this disk answers so; kInDoubt is decided by `really_committed`.
void plant_outcome(MemoryDisk& disk, CommitOutcome outcome, bool really_committed = false);
/// Takes a copy of the disk and returns its number; restore_disk puts it in the place of what was written since.
std::size_t copy_disk(MemoryDisk& disk);
void restore_disk(MemoryDisk& disk, std::size_t copy);
/// Does so at the next acquire.
void plant_rollback(MemoryDisk& disk, std::size_t copy);
/// Gives the disk a clock of its own that reads `now`.
void set_server_now(MemoryDisk& disk, Instant now);
/// The rows appended to the service's own tables so far, in order.
std::vector<AppendRow> appended(MemoryDisk& disk);

}  // namespace qm::store
