#pragma once
#include "feed.hpp"
#include "intent_pool.hpp"
#include "mailbox.hpp"
#include "qm/service/host.hpp"
#include "qm/service/pace.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "rows_digest.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace qm::service {

/// Outbox rows in one send.
inline constexpr std::size_t kRelayBatch = 1000;

using TopicKey = std::pair<std::string, std::string>;

struct Host::Impl {
  Impl(HostOptions o, std::unique_ptr<Shell> s, std::unique_ptr<store::Store> st, std::shared_ptr<bus::Bus> b,
       const DomainClock& c, Executor* e)
      : options(std::move(o)),
        shell(std::move(s)),
        store(std::move(st)),
        bus(std::move(b)),
        clock(c),
        feed(options.feed, options.feed_bytes),
        pool(
            e, [this](const store::IntentRow& i, Outcome out) { report_outcome(i, std::move(out)); }, options.may_act) {
    counters.rollbacks = options.rollbacks;
  }

  // ---- wiring ----
  HostOptions options;
  std::unique_ptr<Shell> shell;
  std::unique_ptr<store::Store> store;
  std::shared_ptr<bus::Bus> bus;
  const DomainClock& clock;
  Feed feed;
  IntentPool pool;

  // ---- the mailbox: any thread ----
  mutable std::mutex mutex;
  std::condition_variable_any arrived, drained, grown;  // grown: the outbox
  Mailbox mailbox{options.mailbox, options.mailbox_bytes};
  std::deque<std::function<void(const Shell&)>> reads;
  bool reads_wait = false;                              // the next batch waits for no further inputs
  std::map<bus::TopicPartition, ReadPosition> cursors;  // committed
  std::map<std::string, std::uint64_t> breaks;          // by topic, number of breaks of its producer's history
  std::set<std::string> unconfirmed;                    // topics with keys that were kept over a break
  Counters counters;
  /// A topic is not read while messages of it are missing and its snapshot is not available.
  struct Paused {
    SteadyInstant since, again;
    std::string why;
    bool replaces = false;  // the owner's database lost applied events
    bool other_log = false;
  };
  std::map<std::string, Paused> paused;
  /// An operation that is retried without success: since the first failure, with the last error.
  struct Failing {
    std::optional<SteadyInstant> since;
    std::string why;
    void again(const std::string& error) {
      if (!since) since = std::chrono::steady_clock::now();
      why = error;
    }
    void ended() { since.reset(); }
  };
  Failing saving, sending, clearing, reading;  // commits; events to the bus; their rows; messages of the bus

  struct Batch;

  // ---- used by the engine thread only ----
  std::uint64_t epoch = 0;
  std::uint64_t last_term = 0;  // of the leader before this load
  std::uint64_t journal_sequence = 0, outbox_sequence = 0, intent_sequence = 0;
  store::HistoryPosition history;  // of this leader, sequence unused; changed with `mutex` held
  Instant last_now{};
  SteadyInstant next_clock_look{};  // while a jump of the clock is rejected
  RowsDigest rows_digest;
  struct Seen {
    std::uint64_t version = 0;
    bool gone = false;
  };
  std::map<TopicKey, Seen> seen;                // newest applied version of consumed keys
  std::map<TopicKey, std::uint64_t> versions;   // newest version of own keys
  std::map<std::string, std::uint64_t> floors;  // by topic: greatest version of a removed own key
  struct Ended {
    SteadyInstant forget_at;
    bool ours = false;  // in `versions`, else in `seen`
    TopicKey key;
    std::uint64_t version = 0;
  };
  std::deque<Ended> ended;  // by forget_at
  std::map<std::string, store::RequestRow> requests;
  std::deque<std::pair<Instant, std::string>> by_age;  // ids of `requests` by age
  std::optional<Instant> wake_at;
  bool work_pending = true;  // Effects::pending of the last batch
  // Processed before the mailbox: a batch that is known not to be committed, or the parts of an oversized one. An
  // empty batch is the engine's own work alone.
  std::deque<std::vector<Pending>> retry;
  int retries = 0;
  SteadyInstant retry_at{};
  Pace pace{options.gather};  // of the loop
  // Until its outcome is known, the values above are those before this batch.
  std::unique_ptr<Batch> writing;
  bool threaded = false;  // written before the thread starts

  // ---- used by relay and consumer threads only ----
  std::mutex topics_mutex;
  std::vector<std::string> topics;  // not known to exist
  std::uint64_t relay_term = 0;     // term of `relayed` and `cleared`
  std::uint64_t relayed = 0;
  std::size_t relay_most = kRelayBatch;  // rows in one send; fewer while the bus refuses one of them as too long
  std::uint64_t cleared = 0;             // outbox rows up to here are deleted
  std::uint64_t announced = 0;           // the last term that was announced
  std::atomic<std::uint64_t> term{0};    // term of the commits
  std::atomic<std::uint64_t> loaded_term{
      0};                                 // term at the load of the state: earlier messages from the bus are read again
  std::atomic<std::uint64_t> written{0};  // newest committed outbox sequence
  std::atomic<std::uint64_t> cursor_moves{0};  // commits with cursors
  Wake read_wake;                              // ends a poll; outlives the consumer
  std::unique_ptr<bus::Producer> producer;
  std::unique_ptr<bus::Consumer> consumer;
  std::uint64_t consumer_term = 0;                        // term of the cursors that the consumer started at
  std::map<bus::TopicPartition, std::int64_t> expected;   // next expected offset of the consumer; kAny after a snapshot
  std::map<bus::TopicPartition, ReadPosition> positions;  // the committed cursors, advanced by later reads
  std::set<bus::TopicPartition> unverified;               // partitions whose log is not compared with the cursor yet
  std::set<bus::TopicPartition> other_logs;  // logs that are not those of the cursors; until a snapshot is applied
  std::map<bus::TopicPartition, ReadPosition> left_logs;  // cursors of before the move to the new log
  std::uint64_t polls = 0;
  bus::TopicPartition checked;                            // the last partition whose log was compared with its anchor
  std::set<std::uint64_t> abandoned;                      // terms that are in no history of their producer
  std::map<std::string, store::HistoryPosition> adopted;  // by topic: the history of its newest snapshot
  std::deque<Pending> arrived_inputs;                     // read, and not in the mailbox yet
  std::map<std::string, SteadyInstant> confirm_at;        // by topic in `unconfirmed`: when its owner is queried again
  /// Topics after a snapshot. Of another log the oldest message is the first to read: messages published after the
  /// snapshot may have offsets that the old log also had.
  struct Healing {
    SteadyInstant since;  // time of the snapshot
    bool other_log = false;
  };
  std::map<std::string, Healing> healing, healed;  // for the next consumer, for this one
  SteadyInstant next_lag{}, next_idle_lag{};       // when the lag is read again
  SteadyInstant next_idle_check{};                 // when a log without new messages is compared with its anchor again
  std::uint64_t reported_moves = 0;                // `cursor_moves` at the last look at the lag

  std::atomic<bool> loaded{false}, lost{false}, store_away{false};
  std::atomic<bool> prove_lead{false};  // write a batch, even an empty one, to verify the lead
  std::atomic<std::int64_t> turned{0};  // steady milliseconds of the last iteration of the loop
  std::jthread engine_thread, relay_thread, consumer_thread;
  std::atomic<bool> stopping{false};

  // batch.cpp
  Status open(const std::function<bool()>& patient);
  Status adopt(const store::Loaded& state);
  void follow_term();
  /// The inputs of one iteration of the loop: all of the mailbox; all unless they are deferred; or none unless a batch is
  /// due by now: reads are answered.
  enum class Turn { kAll, kDue, kReads };
  bool pump(Turn turn);
  Instant time();                                          // of the next batch
  [[nodiscard]] std::optional<Instant> next_wake() const;  // `wake_at` after the batch that is being written
  bool take(Batch& batch, Turn turn);                      // its inputs; false: what was undone is not due yet
  bool collect(Batch& batch);
  void postpone_repeats(Batch& batch);
  void decide(Batch& batch);
  [[nodiscard]] bool overlaps() const;  // whether the next batch is decided while one is written
  void write(std::unique_ptr<Batch> batch);
  // Waits for the batch that is being written, if there is one. False: it is not durable; it is undone and retried, and
  // so is `next`, the batch after it.
  bool settle(Batch* next = nullptr);
  void finish(Batch& batch, const Result<store::CommitOutcome>& outcome);
  void committed(Batch& batch);
  void forget(Batch& batch);  // adds the deleted keys that are due for removal to the batch
  void note_ended(const store::Commit& commit);
  void log_decided(const Batch& batch);
  void take_back(Batch& batch, const std::string& why);
  [[nodiscard]] std::string not_ready() const;
  void failed(Failing& what, const Error& error);
  void works(Failing& what);
  void reload(Batch& batch);
  void rolled_back(Batch& batch);
  void step_down(const char* why);  // no further input is accepted, and pending calls finish with `why`
  bool answer_reads();

  // audit.cpp
  void audit(Batch& batch) const;

  // events.cpp
  void add_events(Batch& batch);
  Status add_event(Batch& batch, const Publish& event, std::string_view trace);
  void add_letter(Batch& batch, const std::string& topic, const std::string& key, quartermaster::v1::Envelope message,
                  const Error& error, std::string_view trace);
  void give_back(Batch& batch, const Input& in, const Error& error);  // as a dead letter
  void narrow(Batch& batch);
  bool too_long(const std::vector<store::OutboxRow>& rows, const Error& error);
  Status park(const store::OutboxRow& row, const Error& error);

  // relay.cpp
  [[nodiscard]] bool is_foreign(const quartermaster::v1::Envelope& e) const {
    return !e.shard().empty() && e.shard() != options.shard;
  }
  Status make_topics();  // creates missing own topics; no effect once they exist
  Status open_producer();
  Status announce();             // publishes the term on each topic
  bool relay_once(bool clears);  // `clears`: also deletes rows that were sent
  void clear_sent();
  void set_backlog();
  bool consume_once();
  [[nodiscard]] Pending pending_of(bus::Message message);
  [[nodiscard]] Pending pending_of(const std::string& topic, quartermaster::v1::Envelope& envelope,
                                   std::uint64_t after) const;  // number of breaks
  bool hand_over();                                             // moves messages to the mailbox within its capacity
  void take_message(bus::Message message);
  bool open_consumer();
  [[nodiscard]] bool is_gap(const bus::Message& message);  // by its offset or the log's identity
  // Of one partition; false: it is another log, and is read after a snapshot. `any`: this poll had messages.
  bool is_same_log(bool any);
  bool look_at_lag(bool any);  // whether the carrier was queried
  bool close_short_logs();
  void report_outcome(const store::IntentRow& intent, Outcome outcome);
  void put(std::vector<Pending> pending);  // may exceed the bound: for inputs that must not be refused

  // gaps.cpp
  // By a snapshot; false: the topic is paused. `replaces`: the snapshot is of another history.
  bool close_gap(const std::string& topic, bool replaces);
  bool close_gaps();                         // those that are due
  bool leave_log(const std::string& topic);  // for another log of the topic; false: it is paused
  bool confirm_kept();                       // whether a snapshot was applied
  void put_snapshot(const std::string& topic, Snapshot snapshot, SnapshotUse use);
  void end_omitted(Batch& batch);                   // inputs for the keys that a snapshot omits
  void commit_positions(const std::string& topic);  // after the snapshot of the topic
  void commit_history(const std::string& topic);    // before it
  void commit_position(const bus::TopicPartition& at, const ReadPosition& read);
  [[nodiscard]] bool is_paused(const std::string& topic) const;
  [[nodiscard]] std::uint64_t breaks_of(const std::string& topic) const;
  // False: the database of the producer lost the event.
  [[nodiscard]] bool follow_history(const bus::TopicPartition& at, const store::HistoryPosition& event);
  void check_announced(const std::string& topic, const store::HistoryPosition& event);
  void take_break(const std::string& topic, const store::HistoryPosition& event);
  void complete_positions(const std::string& topic);
  [[nodiscard]] bool breaks_with(const std::string& topic, const store::HistoryPosition& owner) const;
  void adopt_history(const std::string& topic, const store::HistoryPosition& owner, bool replaces);

  void engine_loop(const std::stop_token& stop);
  void wait_for_work(const std::stop_token& stop);
  // Waits until the next batch may be written, unless it is large or a caller waits; and while all of its inputs are
  // deferred. False: reads have come before the pace allows a batch.
  bool gather(const std::stop_token& stop);
  [[nodiscard]] bool is_due() const;                   // whatever the pace; with `mutex` held
  [[nodiscard]] SteadyDuration deferral() const;       // shorter where domain time is faster than steady time
  [[nodiscard]] bool defers(SteadyInstant now) const;  // with `mutex` held
  void read(const std::function<void(const Shell&)>& fn, bool waits);
};

/// All changes of one batch to the host, kept here until the commit is known.
struct Host::Impl::Batch {
  std::vector<Pending> pending;                             // all inputs, including duplicates: their cursors advance
  std::vector<Input> inputs;                                // the inputs of the engine
  std::vector<std::size_t> origin;                          // inputs[i] came from pending[origin[i]]
  std::map<std::string, std::vector<std::size_t>> repeats;  // id of each request -> further entries of it in `pending`
  Instant now{};
  Effects effects;
  std::vector<std::pair<std::size_t, Error>> poison;
  std::string decision_id;
  store::Commit commit;
  std::vector<FeedEvent> feed;
  std::map<TopicKey, Seen> seen;
  std::map<TopicKey, std::uint64_t> versions;
  std::map<bus::TopicPartition, ReadPosition> cursors;
  std::uint64_t duplicates = 0, gaps = 0;
  std::size_t forgotten = 0;  // entries at the front of `ended` that this batch handles
  bool own_work = false;      // is written even without inputs
  // If an event is longer than the bus accepts: the step is undone, to find the input that leads to
  // it; or, if no input is the cause, the event is withheld.
  bool withhold = false;
  std::optional<Error> unwritable;
  std::uint64_t unreadable = 0;                       // messages of the bus that were not passed to a codec
  std::uint64_t oversized = 0;                        // inputs refused and events withheld
  bool decided = false;                               // the engine made its step
  std::future<Result<store::CommitOutcome>> outcome;  // while it is written
};

/// The value of a key in the first of the maps that has it; null maps are skipped.
template <class Key, class Value>
const Value* find_first(const Key& key, std::initializer_list<const std::map<Key, Value>*> maps) {
  for (const auto* map : maps) {
    if (map == nullptr) continue;
    if (const auto found = map->find(key); found != map->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace qm::service
