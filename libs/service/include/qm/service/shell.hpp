#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/service/state_dump.hpp"
#include "qm/store/store.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::service {

/// The source of an input. The codec of a service converts (source, name, bytes) to a command of its engine.
enum class Source : std::uint8_t {
  kBus,      ///< name = topic, bytes = the Envelope's payload
  kRequest,  ///< name = method, bytes = the request message
  kWatch,    ///< name = the watcher's name for it ("job", "pod", "node"), bytes = the watcher's own format
  kOutcome,  ///< name = intent kind, bytes = the executor's result
  kTimer,    ///< no bytes: wake_at is reached
};

/// How soon an input is decided. No decision depends on it, so it is not in the journal.
enum class Urgency : std::uint8_t {
  kNow,       ///< new work, or what such work waits for
  kDeferred,  ///< a status, or resources that become free: while nothing is pending, inputs that follow share its batch
};

/// One input, stored unchanged in the journal: a replay needs nothing else.
struct Input {
  Source source = Source::kTimer;
  std::string name;
  std::string bytes;
  std::string id;             ///< request id, or intent id; empty otherwise
  std::string key;            ///< bus key; of a watch or an outcome, the object
  std::uint64_t version = 0;  ///< bus key version
  bool tombstone = false;
  std::string trace_parent;  ///< W3C traceparent; passed on to the events about the same key
  // Of a request, for the audit trail only: no decision depends on it, so it is not in the journal.
  std::string caller = {};  ///< the caller; empty = not audited
  std::string roles = {};   ///< the roles of the caller
  std::string object = {};  ///< the object, as named in the request
  Urgency urgency = Urgency::kNow;
};

/// The input with each U+0000 in its JSON document replaced by U+FFFD; nullopt if it has none. An annotation of a
/// tenant must neither block a batch nor hide its object.
std::optional<Input> without_nul(const Input& input);

/// One event for a topic of this service. The host adds versions, epoch, decision id and time.
struct Publish {
  std::string topic;
  std::string key;
  std::string payload;     ///< serialized message of the topic, the complete state of the key
  bool tombstone = false;  ///< this is the last state of the key
};

/// The reply to one request of the batch.
struct Answer {
  std::size_t input = 0;      ///< index in the batch
  Result<std::string> reply;  ///< serialized response message, or the refusal
};

/// The effects of one step: all that the transaction must contain.
struct Effects {
  std::vector<store::StateRow> state;
  std::vector<Publish> events;
  std::vector<store::IntentRow> intents;  ///< the host sets the sequence
  std::vector<store::AppendRow> appends;
  std::vector<Answer> answers;
  std::optional<Instant> wake_at;  ///< next timer, absolute; none = no timer
  bool pending = true;             ///< work is pending that any input may help: none is deferred
};

/// The interface of a service to the host: its engine with a codec and a repository. EngineShell implements it for
/// an engine.
///
/// Threads  the host's engine thread only.
class Shell {
 public:
  virtual ~Shell() = default;
  /// Discards the state and rebuilds the engine from its rows.
  virtual Status load(std::span<const store::StateRow> rows) = 0;
  /// Decodes, steps the engine once for the whole batch, encodes. An input that cannot be decoded is refused in its
  /// reply (request) or reported in `poison` by its index (bus); the others are applied.
  virtual void step(std::span<const Input> batch, Instant now, Effects& out,
                    std::vector<std::pair<std::size_t, Error>>& poison) = 0;
  /// Steps that may be open, which means neither reverted nor durable: 1, or 2 where a batch may be decided while the
  /// one before it is written.
  [[nodiscard]] virtual std::size_t most_open() const { return 1; }
  /// Reverts the newest open step.
  virtual void undo() = 0;
  /// The oldest open step is durable: discards its undo log.
  virtual void commit() = 0;
  [[nodiscard]] virtual std::uint64_t digest() const = 0;
  /// Adds the next objects of the state; called until `out` is complete.
  virtual void debug_state(StateDump& out) const = 0;
};

/// The outcome of an executed intent, returned as an input of Source::kOutcome with the intent's id.
struct Outcome {
  std::string bytes;
};

/// Executes intents. Called from executor threads; intents with the same key are executed one after the other.
///
/// A retryable error is retried with back-off in steady time until it succeeds, a later intent supersedes it, or the host
/// stops; any other error is passed to the engine as an outcome whose bytes the executor generates.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Result<Outcome> execute(const store::IntentRow& intent) = 0;
  /// Returns the outcome message for a final failure, which the engine must also receive.
  virtual Outcome failed(const store::IntentRow& intent, const Error& error) = 0;
  /// The order of a backlog. Intents of one group are executed together, in the turn of its oldest one; those that yield
  /// after the ones that are added within this time after them.
  struct Turn {
    std::string group;  ///< empty = it is alone
    SteadyDuration yields{};
  };
  /// Intents that may be executed at once, where the first of the others has waited this long. Any thread.
  [[nodiscard]] virtual int most_at_once(SteadyDuration /*waited*/) const { return std::numeric_limits<int>::max(); }
  /// Called once for each intent, by any thread.
  [[nodiscard]] virtual Turn turn_of(const store::IntentRow& /*intent*/) const { return {}; }
  /// The outcome of an intent that need not be executed any more, because `later`, an open intent of the same key, makes
  /// it obsolete; nullopt = it is executed. Any thread.
  [[nodiscard]] virtual std::optional<Outcome> superseded(const store::IntentRow& /*intent*/,
                                                          const store::IntentRow& /*later*/) const {
    return std::nullopt;
  }
};

}  // namespace qm::service
