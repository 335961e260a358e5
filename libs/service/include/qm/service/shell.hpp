#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/service/state_dump.hpp"
#include "qm/store/store.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::service {

/// Where an input came from. The codec of a service turns (source, name, bytes) into a command of its engine.
enum class Source : std::uint8_t {
  kBus,      ///< name = topic, bytes = the Envelope's payload
  kRequest,  ///< name = method, bytes = the request message
  kWatch,    ///< name = what the watcher calls it ("job", "pod", "node"), bytes = the watcher's own form
  kOutcome,  ///< name = intent kind, bytes = the executor's answer
  kTimer,    ///< no bytes: wake_at has come
};

/// One input, kept byte for byte in the journal: a replay needs nothing else.
struct Input {
  Source source = Source::kTimer;
  std::string name;
  std::string bytes;
  std::string id;             ///< request id, or intent id; empty otherwise
  std::string key;            ///< bus key; of a watch or an outcome, what it is about
  std::uint64_t version = 0;  ///< bus key version
  bool tombstone = false;
  std::string trace_parent;  ///< W3C traceparent; goes on with the events about the same key
  // Of a request, for the audit trail alone: no decision depends on it, so the journal does not have it.
  std::string caller = {};  ///< who asked; empty = there is nothing to account for
  std::string roles = {};   ///< what they were
  std::string object = {};  ///< what it is about, as the request names it
};

/// The input with each U+0000 in its JSON document replaced by U+FFFD; nullopt if it has none. An annotation of a tenant must
/// neither block a batch nor hide its object.
std::optional<Input> without_nul(const Input& input);

/// One event for a topic of this service. The host adds versions, epoch, decision id and time.
struct Publish {
  std::string topic;
  std::string key;
  std::string payload;     ///< serialized message of the topic, the key's whole state
  bool tombstone = false;  ///< the key ends with this state
};

/// The answer to one request of the batch.
struct Answer {
  std::size_t input = 0;      ///< index in the batch
  Result<std::string> reply;  ///< serialized response message, or the refusal
};

/// What one step did: everything that the transaction must hold.
struct Effects {
  std::vector<store::StateRow> state;
  std::vector<Publish> events;
  std::vector<store::IntentRow> intents;  ///< sequence is given by the host
  std::vector<store::AppendRow> appends;
  std::vector<Answer> answers;
  std::optional<Instant> wake_at;  ///< next timer, absolute; none = no timer
};

/// What a service supplies: its engine behind a codec and a repository. EngineShell makes one from an engine.
///
/// Threads  the host's engine thread only.
class Shell {
 public:
  virtual ~Shell() = default;
  /// Forgets everything and rebuilds the engine from its rows.
  virtual Status load(std::span<const store::StateRow> rows) = 0;
  /// Decodes, steps the engine once for the whole batch, encodes. An input that cannot be decoded is refused in its
  /// answer (request) or reported in `poison` by its index (bus); the others are applied.
  virtual void step(std::span<const Input> batch, Instant now, Effects& out,
                    std::vector<std::pair<std::size_t, Error>>& poison) = 0;
  /// Takes the last step back, as if it had not been.
  virtual void undo() = 0;
  /// The last step is durable: the undo log may go.
  virtual void commit() = 0;
  [[nodiscard]] virtual std::uint64_t digest() const = 0;
  /// Adds the next objects of the state; called until `out` is complete.
  virtual void debug_state(StateDump& out) const = 0;
};

/// The outcome of an executed intent, fed back as an input of Source::kOutcome with the intent's id.
struct Outcome {
  std::string bytes;
};

/// Does intents. Called from executor threads; intents of one key come one after the other.
///
/// A retryable error is tried again with back-off in steady time until it works, `give_up` says so, or the host stops;
/// any other error comes back to the engine as an outcome whose bytes the executor makes from it.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Result<Outcome> execute(const store::IntentRow& intent) = 0;
  /// The engine must learn of a final failure too: its outcome message for this error.
  virtual Outcome failed(const store::IntentRow& intent, const Error& error) = 0;
};

}  // namespace qm::service
