#pragma once
#include "qm/base/json.hpp"
#include "qm/bus/bus.hpp"
#include "qm/clock/clock.hpp"
#include "qm/service/shell.hpp"
#include "qm/store/store.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::service {

/// The newest state of all keys of a topic, including deleted keys while they are retained.
struct Snapshot {
  std::vector<std::string> entries;  ///< serialized Envelopes
  store::HistoryPosition history{};  ///< of the owner, no newer than the entries; term 0 = of a release without terms
};
/// Fetches a snapshot from the service that owns the topic (its Snapshot call). Used if messages of the topic are
/// missing. Returns kCancelled soon after `give_up` returns true.
using SnapshotFetch = std::function<Result<Snapshot>(const std::string& topic, const std::function<bool()>& give_up)>;

/// Returns the payload of the tombstone for a key that a snapshot omits; nullopt if the consumer keeps its state. The
/// key was deleted or, with `rolled_back`, the database of its owner lost it.
using LastState =
    std::function<std::optional<std::string>(const std::string& topic, const std::string& key, bool rolled_back)>;

struct HostOptions {
  std::string service;                ///< "admission"
  std::string shard = "default";      ///< one cluster; messages of other shards on the same bus are skipped
  std::vector<std::string> consumes;  ///< topics
  std::vector<std::string> produces;
  std::size_t mailbox = 16384;  ///< inputs; a full mailbox refuses with kExhausted
  std::size_t mailbox_bytes = 64 << 20;
  std::size_t max_batch = 512;
  /// From this number of pending inputs the next batch is decided while one is written (Shell::most_open); 0 = always.
  std::size_t overlap_from = 64;
  int executor_threads = 4;
  /// While inputs follow one another closely, one transaction and one read of the bus in this time. A request never
  /// waits for it, and neither do the first inputs after a pause, nor a large batch.
  SteadyDuration gather = std::chrono::milliseconds(40);
  /// The longest time that an input of Urgency::kDeferred waits for others.
  SteadyDuration defer = std::chrono::milliseconds(250);
  /// The urgency of a message of the bus and of an outcome; a watch sets that of its inputs. Called by any thread.
  /// Empty = Urgency::kNow.
  Urgency (*urgency_of)(const Input&) = nullptr;
  std::size_t feed = 65536;          ///< recent events kept for watches
  std::size_t feed_bytes = 8 << 20;  ///< of their payloads
  SnapshotFetch snapshot;            ///< may be empty in tests: missing messages are then skipped
  LastState last_state;              ///< may be empty in tests: the payload is then empty
  /// Versions of deleted keys are removed this long after the deletion, by steady time. By then the bus has deleted
  /// every message of the key, so none can be read again; it is twice the bus's retention, because Kafka may keep a
  /// message for a day longer. A key that is created again gets versions greater than any removed version on its
  /// topic.
  SteadyDuration forget_after = 2 * bus::kRetention;
  /// After this time from a break of a producer's history, its owner is queried again for the keys that were kept
  /// (last_state): by then it has observed the cluster. Keys that it still omits are deleted.
  SteadyDuration confirm_after = std::chrono::minutes(5);
  SteadyDuration publish_timeout = std::chrono::seconds(10);  ///< then the relay sends the same events again
  /// The holder of the shard's lease; it is in the leader row. Empty = "<service>/<shard>/<pid>".
  std::string holder;
  /// While no message arrives, the log and the lag of the bus are looked at this often.
  SteadyDuration bus_look = std::chrono::seconds(30);
  /// Called once, from the engine thread, when another leader acquired the shard, the database lost commits, or the
  /// state cannot be read back: this host makes no further decisions.
  std::function<void()> on_lost;
  /// Called before on_lost if the database lost commits that it had acknowledged.
  std::function<void()> on_rollback;
  std::uint64_t rollbacks = 0;  ///< by earlier hosts of the process; the counter continues from there
  /// Whether the lead is proven now: called before each intent is executed, which waits if false. Empty = yes.
  std::function<bool()> may_act;
  /// Whether requests and reads may be served from the state of this process; otherwise they are refused as
  /// kUnavailable.
  std::function<bool()> may_answer;
  /// Whether may_answer would be true: for readiness, which needs no proof of the lead. Empty = ask may_answer.
  std::function<bool()> would_answer;
  /// Writes the digest into the journal after every batch (costs a pass over the state; on in tests and sim).
  bool digest_each_batch = false;
};

/// One committed event, as delivered to watches. `sequence` is the outbox sequence: the resume version of a watch.
struct FeedEvent {
  std::uint64_t sequence = 0;
  std::string topic;
  std::string key;
  std::uint64_t key_version = 0;
  Instant occurred{};
  std::string payload;
  bool tombstone = false;
};

/// The topic of a service's own inputs (watches, outcomes); only its dead-letter topic exists.
[[nodiscard]] inline std::string input_topic(const std::string& service) { return "qm.inputs." + service; }

/// The result of /readyz.
struct Readiness {
  bool ready = true;
  std::string text = "ok";  ///< the reason if not ready; if ready, also the operations that are retried without success
  /// Not ready for reason `why` if it was ready and `condition` is false.
  [[nodiscard]] Readiness unless(bool condition, const std::string& why) const {
    return ready && !condition ? Readiness{false, "not ready: " + why} : *this;
  }
};

/// The loop of every service, once: mailbox -> batch -> step -> one transaction -> replies, relay, executor.
///
/// Run with threads (`start`), or single-stepped (`pump`, `relay_once`, `execute_once`, `consume_once`) on a manual
/// clock with bus and store in memory: the same code, no second wiring.
///
/// Laws     `now` given to the engine never goes back, also across failover. Inputs leave the mailbox only with a
///          commit. A batch that is known not to be committed is undone and retried; after one in doubt the engine
///          is reloaded, if this process still holds the lease; after a lost epoch it makes no further decisions.
/// Time     a clock that follows the host's clock is compared with the database's when the shard is taken, and when
///          it jumps forward (SystemClock::kMaxJump). A jump that the database's clock does not confirm is rejected:
///          batches continue with bounded time, an error is logged, /readyz and the counter report it.
/// Rollback a commit that finds the database behind an acknowledged one (a restore, an asynchronous standby that was
///          promoted) is not written: it is logged and counted. This host makes no further decisions, because inputs
///          of watches are lost with the commits. The next host continues from the state in the database.
/// Size     in addition to the engine's own: two numbers for each row of the state; a number for each live key on a
///          consumed or produced topic, and for those deleted within `forget_after`; the replies of 24 h; mailbox and
///          feed as configured. Events that the bus has not accepted yet are on disk.
/// Gaps     a gap is an offset that is not the next one (retention, a truncated or recreated topic, a restore). A
///          first start on a log that does not begin at 0 is one too. The owner's snapshot is applied before the topic
///          is read further. While it is not available, the topic is not read and its cursor stays; it is requested
///          again every second, and /readyz reports it.
/// Hostile  the database may reject the effects of an input as kInvalid (a NUL, a key that is too long). Such an input
///          is refused like one that leads to an oversized event, see Limits; the other inputs of its batch are
///          applied.
/// Poison   an input that the codec cannot decode is sent to the dead-letter topic of its topic, in the transaction
///          that skips it. If it did not come from the bus, the topic is that of the service's inputs (input_topic).
/// Limits   an event is at most bus::kMaxValue long. An input that would lead to a longer one is refused, before any
///          of its effects is written: a request gets kInvalid, any other input becomes a dead letter as a poison
///          input does. An event that the engine publishes without an input is withheld: a dead letter of its topic
///          has its beginning. If a broker has a lower limit, the relay publishes a dead letter without the payload
///          in the event's place. In both cases consumers keep the last state of the key until its next event, and no
///          other event waits.
/// Threads  submit, read, feed: any. The step functions: one thread, and only where start() was not called.
class Host {
 public:
  Host(HostOptions options, std::unique_ptr<Shell> shell, std::unique_ptr<store::Store> store,
       std::shared_ptr<bus::Bus> bus, const DomainClock& clock, Executor* executor);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Becomes leader and loads the state. Call once, before anything else. With `patient` it waits for an unavailable
  /// store while `patient` returns true; it never waits for an unavailable bus: events stay in the outbox until the
  /// bus is available.
  Status open(const std::function<bool()>& patient = {});
  void start();
  /// Processes the mailbox, flushes the relay, joins. Safe to call twice.
  void stop();
  [[nodiscard]] bool ready() const;  ///< loaded, able to commit, and allowed to respond
  /// ready() with its reason, and with all operations that are retried without success: intents, paused topics,
  /// sending to the bus and reading from it, each with its number, duration and last error. Cost: a pass over the
  /// keys with open intents.
  [[nodiscard]] Readiness readiness() const;
  [[nodiscard]] bool alive() const;  ///< the loop made progress within 10 s

  using ReplyFn = std::function<void(Result<std::string>)>;
  /// Submits one input to the mailbox. `done` is called once, from the engine thread, after the commit (or with the
  /// refusal). kExhausted at once if the mailbox is full. A request id of the last 24 h gets its stored reply.
  Status submit(Input input, ReplyFn done = {});
  /// Records in the audit trail that a request was denied, in a separate transaction. If the mailbox is full the
  /// record is omitted: the caller also writes it to the log.
  void note_denied(Input input, const Error& error);
  /// kUnavailable if another process may lead, or no state is loaded: reads of callers are refused then.
  [[nodiscard]] Status can_answer() const;
  /// Runs fn on the engine thread between batches: reads see a committed state. Blocks the caller until fn has run,
  /// so gRPC handlers use read_async. What was submitted before is decided right after it, without a wait for others.
  void read(const std::function<void(const Shell&)>& fn);
  /// The same, for readers that come often: a batch that waits for further inputs still does.
  void peek(const std::function<void(const Shell&)>& fn);
  Status read_async(std::function<void(const Shell&)> fn);

  /// Follows committed events from `after` on: first the stored ones, then live, in order, from the engine thread;
  /// the callback must not block. kOutOfRange if `after` is older than the feed: fetch a Snapshot and start there.
  Result<std::uint64_t> follow(std::uint64_t after, std::function<void(const FeedEvent&)> fn);
  void unfollow(std::uint64_t handle);
  [[nodiscard]] std::uint64_t feed_position() const;

  /// The newest envelope per live key of an own topic, for the Snapshot call.
  /// With `ended` also deleted keys, while they are retained.
  [[nodiscard]] store::HistoryPosition history() const;  ///< of this leader, up to the last commit; any thread
  Result<std::vector<store::OutboxRow>> snapshot(const std::string& topic, const std::string& after_key,
                                                 std::size_t max, const std::string& only_key, bool ended = false);

  // Single-stepped use. Each function returns whether it had work.
  bool consume_once();
  bool pump();
  bool relay_once();
  bool execute_once();

  /// Counters, the engine's state, and the digest of its stored rows: the same before and after a restart. The state
  /// is read in chunks of at most kDumpObjects objects, between which the engine decides batches; `journal` has the
  /// number of the batch before the first turn and before the last one: if both are equal, the state is consistent.
  /// Threads:
  /// any but the engine's; the caller waits.
  [[nodiscard]] Json debug_state();
  static constexpr std::size_t kDumpObjects = 256;
  struct Counters {
    std::uint64_t batches = 0, inputs = 0, events = 0, intents = 0, duplicates = 0, gaps = 0, poison = 0, undone = 0;
    std::uint64_t history_breaks = 0;  ///< topics whose producer lost events that were applied
    std::uint64_t abandoned = 0;       ///< events dropped because their producer's database lost them
    std::uint64_t reloads = 0, rollbacks = 0, published = 0, outcomes = 0, refused = 0, send_failures = 0;
    std::uint64_t too_large = 0;  ///< inputs refused and events withheld, see Limits
    std::uint64_t parked = 0;     ///< events that the bus refused as too long
    std::uint64_t mailbox = 0, paused_topics = 0, outbox_backlog = 0, open_intents = 0, intents_at_once = 0, epoch = 0;
    std::uint64_t to_retry = 0;  ///< inputs of undone batches, which are not in the mailbox
    std::int64_t bus_lag = 0;
    double commit_seconds_sum = 0;
    double clock_rejected_seconds = 0;  ///< lead of the host's clock over domain time, see Time
  };
  [[nodiscard]] Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::service
