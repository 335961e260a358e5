// Outbox rows and dead letters of a batch; and the search for the input of a batch that cannot be written, because an
// event is longer than the bus accepts or the database rejects a value.
//
// The batch does not show which input is the cause. So the step is rolled back and the batch bisected until one input
// is left. That input is refused: its caller gets the error, or it becomes a dead letter, and the other inputs are
// applied. An event that the engine publishes without an input (on a timer) is withheld instead: its topic gets a dead
// letter, its key keeps the last state that was published, and the next event of the key replaces it. The search ends:
// each batch has fewer inputs than the one before it, and one input is stepped four times at most.
#include "host_impl.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/base/text.hpp"
#include "qm/service/history.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/journal.pb.h"
#include "trace.hpp"

namespace qm::service {

namespace pb = quartermaster::v1;

namespace {

constexpr std::size_t kMaxLetter = 512 << 10;  // of the original bytes
constexpr std::size_t kMaxReason = 4 << 10;
constexpr std::size_t kMaxEventBytes = 256 << 20;  // per batch: a transaction contains all of it

Status check_event(const std::string& topic, const std::string& key, std::size_t size) {
  if (const auto good = check_key("the key of the event for topic " + topic, key); !good) {
    auto error = good.error();
    error.remedy = "give the object another name";
    return fail(std::move(error));
  }
  if (size > bus::kMaxValue) {
    return fail(Error{Code::kInvalid,
                      fmt::format("the event for topic {} about {} would have {} bytes, at most {} are allowed", topic,
                                  key, size, bus::kMaxValue),
                      {},
                      "shorten what the input carries (labels, annotations, lists), or split it into several"});
  }
  return {};
}

Error too_much(std::size_t bytes) {
  return {Code::kInvalid,
          fmt::format("events of {} bytes would follow from one input, {} are written at most", bytes, kMaxEventBytes),
          {},
          "split the input into several"};
}

/// A replacement for a key that is not valid.
std::string fitting(const std::string& key) {
  return check_key("it", key) ? key : fmt::format("unfit/{:016x}", stable_hash(key));
}

std::string letter_of(pb::Envelope message, const std::string& consumer, const Error& error) {
  pb::DeadLetter letter;
  *letter.mutable_message() = std::move(message);
  letter.set_consumer(consumer);
  letter.set_reason(error.to_string().substr(0, kMaxReason));
  return letter.SerializeAsString();
}

}  // namespace

Status Host::Impl::add_event(Batch& batch, const Publish& event, std::string_view trace) {
  const TopicKey tk{event.topic, event.key};
  const auto* known = find_first(tk, {&batch.versions, writing ? &writing->versions : nullptr, &versions});
  const auto floor = floors.find(event.topic);
  const std::uint64_t last = known != nullptr ? *known : floor != floors.end() ? floor->second : 0;
  pb::Envelope e;
  e.set_topic(event.topic);
  e.set_key(event.key);
  e.set_key_version(last + 1);
  e.set_epoch(epoch);
  e.set_shard(options.shard);
  e.set_decision_id(batch.decision_id);
  e.set_occurred_us(micros(batch.now));
  e.set_trace_parent(std::string(trace));
  e.set_tombstone(event.tombstone);
  e.set_payload(event.payload);
  const std::uint64_t sequence =
      outbox_sequence + (writing ? writing->commit.outbox.size() : 0) + batch.commit.outbox.size() + 1;
  put_history({history.term, sequence, history.ancestors}, e);
  QM_TRY(check_event(event.topic, event.key, e.ByteSizeLong()));
  batch.versions[tk] = last + 1;
  batch.commit.outbox.push_back({sequence, event.topic, event.key, last + 1, event.tombstone, e.SerializeAsString()});
  batch.feed.push_back({sequence, event.topic, event.key, last + 1, batch.now, event.payload, event.tombstone});
  return {};
}

// A dead letter has a version of its own and is a tombstone: its key does not live on.
void Host::Impl::add_letter(Batch& batch, const std::string& topic, const std::string& key, pb::Envelope message,
                            const Error& error, std::string_view trace) {
  const auto letter = letter_of(std::move(message), options.service + "/" + options.shard, error);
  const auto added = add_event(batch, {topic, fitting(key), letter, true}, trace);
  QM_ASSERT(added, "a dead letter does not fit: {}", added.error().to_string());
}

void Host::Impl::give_back(Batch& batch, const Input& in, const Error& error) {
  pb::Envelope message;
  message.set_topic(in.name);
  message.set_key(fitting(in.key));
  message.set_key_version(in.version);
  message.set_payload(in.bytes.substr(0, kMaxLetter));
  if (in.source == Source::kBus) {
    add_letter(batch, bus::dead_letter(in.name), in.key, std::move(message), error, in.trace_parent);
  } else {
    add_letter(batch, bus::dead_letter(input_topic(options.service)), fmt::format("{}/{}", in.name, in.key),
               std::move(message), error, in.trace_parent);
  }
}

void Host::Impl::add_events(Batch& batch) {
  const Traces traces(batch.inputs);
  std::size_t bytes = 0;
  for (const auto& event : batch.effects.events) {
    auto added = add_event(batch, event, traces.of(event.key));
    bytes += event.payload.size();
    if (added && bytes > kMaxEventBytes && !batch.withhold) added = fail(too_much(bytes));
    if (added) continue;
    if (!batch.withhold) {
      batch.unwritable = added.error();
      return;
    }
    ++batch.oversized;
    log::error("an event is larger than the bus accepts and is withheld: consumers keep the last state of its key",
               {{"topic", event.topic}, {"key", fitting(event.key)}, {"error", added.error().to_string()}});
    pb::Envelope message;
    message.set_topic(event.topic);
    message.set_key(fitting(event.key));
    message.set_decision_id(batch.decision_id);
    message.set_payload(event.payload.substr(0, kMaxLetter));
    add_letter(batch, bus::dead_letter(event.topic), event.key, std::move(message), added.error(),
               traces.of(event.key));
  }
  const auto poison = [&](const Input& in, const Error& error) {
    log::error("message cannot be applied and goes to the dead-letter topic",
               {{"topic", in.name},
                {"key", in.key},
                {"version", in.version},
                {"error", error.to_string()},
                {"trace_id", log::trace_id(in.trace_parent)}});
    give_back(batch, in, error);
  };
  for (const auto& [index, error] : batch.poison) poison(batch.inputs[index], error);
  for (const auto& p : batch.pending) {
    // A message that was read before a reload is read again from the current cursors.
    if (!p.unreadable || p.dropped || p.term != loaded_term) continue;
    ++batch.unreadable;
    poison(p.input, *p.unreadable);
  }
  for (const auto& p : batch.pending) {
    if (!p.refused) continue;
    ++batch.oversized;
    log::error("an input is refused: its result cannot be written",
               {{"input", p.input.name},
                {"key", p.input.key},
                {"id", p.input.id},
                {"error", p.refused->to_string()},
                {"trace_id", log::trace_id(p.input.trace_parent)}});
    if (p.input.source != Source::kRequest) give_back(batch, p.input, *p.refused);
  }
}

void Host::Impl::narrow(Batch& batch) {
  auto& all = batch.pending;
  // No input is the cause: the effects of the engine's own work cannot be written.
  if (all.empty() || all.front().dropped) return take_back(batch, batch.unwritable->to_string());
  shell->undo();
  if (all.size() > 1) {
    const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::vector<Pending> later(std::make_move_iterator(half), std::make_move_iterator(all.end()));
    all.erase(half, all.end());
    retry.push_front(std::move(later));
  } else if (!all.front().refused) {
    all.front().refused = batch.unwritable;
  } else if (!all.front().settled) {
    // Without the input the effects are also too large: own work was due. It is committed first, and then the input
    // is retried.
    all.front().refused.reset();
    all.front().settled = true;
    retry.push_front(std::move(all));
    all.clear();
  } else {
    // Its refusal cannot be written either.
    auto& p = all.front();
    log::error("an input is dropped: its refusal cannot be written",
               {{"input", p.input.name}, {"error", batch.unwritable->to_string()}});
    if (p.done) p.done(fail(*p.refused));
    p.done = {};
    p.refused.reset();
    p.dropped = true;
  }
  retry.push_front(std::move(all));
}

// For the relay: a broker may have a lower limit than kMaxValue, by a setting that could not be changed.
bool Host::Impl::too_long(const std::vector<store::OutboxRow>& rows, const Error& error) {
  if (rows.size() > 1) {
    relay_most = rows.size() / 2;
    return true;
  }
  if (auto parked = park(rows.front(), error); !parked) {
    log::warn("a dead letter waits for the bus", {{"error", parked.error().to_string()}});
    failed(sending, parked.error());
    return false;
  }
  return true;
}

Status Host::Impl::park(const store::OutboxRow& row, const Error& error) {
  pb::Envelope original;
  (void)original.ParseFromString(row.value);  // an envelope of this service
  pb::Envelope e = original;
  original.clear_payload();
  e.set_topic(bus::dead_letter(row.topic));
  e.set_tombstone(true);
  e.set_payload(letter_of(std::move(original), options.service + "/" + options.shard, error));
  const bus::Record letter{bus::dead_letter(row.topic), row.key, e.SerializeAsString()};
  if (auto sent = producer->publish({&letter, 1}, options.publish_timeout); !sent) {
    if (sent.error().code != Code::kOutOfRange) return sent;
    log::error("the dead letter is refused as well", {{"error", sent.error().to_string()}});
  }
  log::error(
      "an event is larger than the bus accepts: it has a dead letter, and consumers keep the last state "
      "of its key until its next event",
      {{"topic", row.topic},
       {"key", row.key},
       {"version", row.key_version},
       {"bytes", row.value.size()},
       {"error", error.to_string()}});
  relayed = row.sequence;
  if (store->published(relayed, relay_term)) cleared = relayed;
  set_backlog();
  const std::lock_guard lock(mutex);
  ++counters.parked;
  return {};
}

}  // namespace qm::service
