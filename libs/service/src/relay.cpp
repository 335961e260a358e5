// The two edges to the bus: outbox rows out, messages in; and the outcomes of intents back into the mailbox.
#include "host_impl.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"
#include "qm/base/text.hpp"
#include "quartermaster/v1/envelope.pb.h"

namespace qm::service {

namespace {
constexpr std::size_t kPollBatch = 512;
constexpr std::size_t kLongestTrace = 128;
constexpr auto kSnapshotAgain = std::chrono::seconds(1);
/// Any offset is the next one, for so long after the snapshot.
constexpr std::int64_t kAny = -1;
constexpr auto kFresh = std::chrono::seconds(10);

/// Events and dead letters that follow carry the trace on, so a longer one than W3C defines is dropped.
std::string trace_of(const quartermaster::v1::Envelope& e) {
  return e.trace_parent().size() <= kLongestTrace && is_text(e.trace_parent()) ? e.trace_parent() : std::string();
}
}  // namespace

Status Host::Impl::make_topics() {
  const std::lock_guard lock(topics_mutex);
  if (topics.empty()) return {};
  if (stopping)
    return fail(Code::kUnavailable, "the service is stopping");  // asking a broker that is away takes seconds
  QM_TRY(bus->ensure_topics(topics, bus::kDefaultPartitions));
  topics.clear();
  return {};
}

bool Host::Impl::relay_once() {
  if (lost) return false;  // what is left in the outbox is the new leader's to send
  // After a reload the rows of before are read again: a database that was rolled back numbers others alike.
  if (const std::uint64_t now = epoch; relay_epoch != now) {
    relay_epoch = now;
    relayed = cleared = 0;
  }
  const std::uint64_t upto = written;
  auto rows = store->read_outbox(relayed, relay_most);
  // Who has nothing to commit learns here, ten times a second, that he could not.
  store_away = !rows;
  if (!rows) return false;
  if (rows->empty()) {
    // What was written before we looked and is not there has been published, perhaps before this process began.
    relayed = std::max(relayed, upto);
    if (cleared < relayed && store->published(relayed, relay_epoch)) cleared = relayed;
    set_backlog();
    return false;
  }
  if (!producer) {
    if (auto there = make_topics(); !there) {
      log::warn("no topics yet", {{"bus", bus->name()}, {"error", there.error().to_string()}});
      return false;
    }
    auto made = bus->producer(options.service + "-" + options.shard);
    if (!made) {
      log::warn("no producer yet", {{"bus", bus->name()}, {"error", made.error().to_string()}});
      return false;
    }
    producer = std::move(*made);
  }
  std::vector<bus::Record> records;
  records.reserve(rows->size());
  for (const auto& row : *rows) records.push_back({row.topic, row.key, row.value});
  QM_CRASH_POINT("service.before_publish");
  if (auto sent = producer->publish(records, options.publish_timeout); !sent) {
    if (sent.error().code == Code::kOutOfRange) return too_long(*rows, sent.error());
    // Unknown or away: the rows stay, and go out again. Receivers drop what they have by key version.
    log::warn("events wait for the bus", {{"rows", rows->size()}, {"error", sent.error().to_string()}});
    producer.reset();
    const std::lock_guard lock(mutex);
    ++counters.send_failures;
    return false;
  }
  QM_CRASH_POINT("service.after_publish");
  relayed = rows->back().sequence;
  relay_most = std::min(kRelayBatch, 2 * relay_most);
  if (auto ok = store->published(relayed, relay_epoch); ok) {
    cleared = relayed;
  } else {
    log::warn("published rows are not deleted yet", {{"error", ok.error().to_string()}});
  }
  set_backlog();
  std::lock_guard lock(mutex);
  counters.published += rows->size();
  return true;
}

void Host::Impl::set_backlog() {
  const std::uint64_t newest = written;
  std::lock_guard lock(mutex);
  counters.outbox_backlog = newest > relayed ? newest - relayed : 0;
}

void Host::Impl::put(std::vector<Pending> pending) {
  {
    std::lock_guard lock(mutex);
    for (auto& p : pending) mailbox.push(std::move(p));
    counters.mailbox = mailbox.size();
  }
  arrived.notify_one();
}

void Host::Impl::report_outcome(const store::IntentRow& intent, Outcome outcome) {
  Pending p;
  p.input.source = Source::kOutcome;
  p.input.name = intent.kind;
  p.input.id = intent.id;
  p.input.key = intent.key;
  p.input.bytes = std::move(outcome.bytes);
  std::vector<Pending> one;
  one.push_back(std::move(p));
  put(std::move(one));
}

Pending Host::Impl::pending_of(const std::string& topic, quartermaster::v1::Envelope& e) const {
  Pending p;
  p.input.source = Source::kBus;
  p.input.name = topic;  // not the envelope's: dead letters need a topic that exists
  // Keys are unique within a shard only: another cluster on this bus has a "demand" and nodes of its own.
  p.foreign = !e.shard().empty() && e.shard() != options.shard;
  p.input.key = e.key();
  p.input.version = e.key_version();
  p.input.tombstone = e.tombstone();
  p.input.trace_parent = trace_of(e);
  p.input.bytes = std::move(*e.mutable_payload());
  return p;
}

Pending Host::Impl::pending_of(bus::Message message) const {
  Pending p;
  quartermaster::v1::Envelope e;
  if (e.ParseFromString(message.value) && check_key("the key", e.key())) {
    p = pending_of(message.at.topic, e);
  } else {
    // Not even an envelope, or none of ours. The codec refuses its bytes and it goes to the dead-letter topic under a key
    // of its own, so that the key it came with goes on.
    p.input.source = Source::kBus;
    p.input.name = message.at.topic;
    p.input.key = fmt::format("undecodable/{}/{}", message.at.partition, message.offset);
    p.input.bytes = std::move(message.value);
    p.input.version = 1;
    p.input.tombstone = true;  // nothing more is said of that key
  }
  p.at = message.at;
  p.offset = message.offset;
  p.epoch = consumer_epoch;
  return p;
}

bool Host::Impl::close_gap(const std::string& topic) {
  if (!options.snapshot) return true;
  const auto begin = std::chrono::steady_clock::now();
  auto entries = options.snapshot(topic, [this] { return stopping.load(); });
  const auto now = std::chrono::steady_clock::now();
  const auto again = now + kSnapshotAgain + 3 * (now - begin);  // the other topics are read meanwhile
  {
    const std::lock_guard lock(mutex);
    const auto known = paused.find(topic);
    if (!entries) {
      const auto why = entries.error().to_string();
      if (known == paused.end()) {
        log::error("the topic is not read on until its snapshot can be had", {{"topic", topic}, {"error", why}});
        paused[topic] = {now, again, why};
      } else {
        known->second.again = again;
        known->second.why = why;
      }
    } else if (known != paused.end()) {
      paused.erase(known);
    }
    counters.paused_topics = paused.size();
  }
  if (!entries) return false;
  log::info("snapshot taken", {{"topic", topic}, {"keys", entries->size()}});
  for (auto& bytes : *entries) {
    quartermaster::v1::Envelope e;
    if (e.ParseFromString(bytes) && check_key("the key", e.key())) arrived_inputs.push_back(pending_of(topic, e));
    bytes = {};
  }
  return true;
}

bool Host::Impl::close_gaps() {
  std::vector<std::string> due;
  {
    const std::lock_guard lock(mutex);
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [topic, state] : paused)
      if (state.again <= now) due.push_back(topic);
  }
  bool any = false;
  for (const auto& topic : due) {
    if (stopping || !close_gap(topic)) continue;
    // What came of the topic meanwhile was passed over: it is read again from the committed cursors.
    healing[topic] = std::chrono::steady_clock::now();
    consumer.reset();
    any = true;
  }
  return any;
}

bool Host::Impl::hand_over() {
  if (arrived_inputs.empty()) return false;
  {
    std::unique_lock lock(mutex);
    if (mailbox.full()) drained.wait_for(lock, std::chrono::milliseconds(100));
    if (mailbox.full()) return false;
    for (; !arrived_inputs.empty() && !mailbox.full(); arrived_inputs.pop_front())
      mailbox.push(std::move(arrived_inputs.front()));
    counters.mailbox = mailbox.size();
  }
  arrived.notify_one();
  return true;
}

bool Host::Impl::open_consumer() {
  if (auto there = make_topics(); !there) {
    log::warn("no topics yet", {{"bus", bus->name()}, {"error", there.error().to_string()}});
    return false;
  }
  bus::ConsumerOptions c;
  c.group = options.service + "/" + options.shard;
  c.instance = c.group;  // one member for every leader: a new leader does not wait for the old one's session
  c.topics = options.consumes;
  c.cursor = [this](const bus::TopicPartition& at) {
    std::lock_guard lock(mutex);
    auto it = cursors.find(at);
    // Whenever the carrier seeks to the cursor, this is the next offset.
    expected[at] = healed.contains(at.topic) ? kAny : it == cursors.end() ? 0 : it->second;
    return it == cursors.end() ? std::int64_t{-1} : it->second;
  };
  consumer_epoch = epoch;
  expected.clear();
  healed = healing;
  auto made = bus->consumer(std::move(c));
  if (!made) {
    log::warn("no consumer yet", {{"bus", bus->name()}, {"error", made.error().to_string()}});
    return false;
  }
  consumer = std::move(*made);
  healing.clear();
  return true;
}

void Host::Impl::take_message(bus::Message message) {
  const auto at = message.at;
  const auto next = expected.try_emplace(at, 0).first;
  {
    const std::lock_guard lock(mutex);
    if (paused.contains(at.topic)) return;
  }
  if (next->second == kAny && std::chrono::steady_clock::now() - healed[at.topic] < kFresh)
    next->second = message.offset;
  // Messages are missing: retention; or the log is another one: a restore, a recreated topic.
  if (message.offset != next->second) {
    log::warn(
        "messages are missing on the bus, taking a snapshot",
        {{"topic", at.topic}, {"partition", at.partition}, {"expected", next->second}, {"found", message.offset}});
    if (!close_gap(at.topic)) return;
  }
  next->second = message.offset + 1;
  arrived_inputs.push_back(pending_of(std::move(message)));
}

bool Host::Impl::consume_once() {
  if (options.consumes.empty()) return false;
  if (lost) consumer.reset();
  // Who was driven out of his place reads again only after a commit has shown that he leads.
  if (lost || prove_lead) return false;
  if (consumer && consumer_epoch != epoch) {
    consumer.reset();
    arrived_inputs.clear();
    healing.clear();
  }
  if (!arrived_inputs.empty()) return hand_over();
  if (close_gaps()) return true;
  if (!consumer) {
    if (!open_consumer()) return false;
  }
  {
    std::unique_lock lock(mutex);
    if (mailbox.full()) drained.wait_for(lock, std::chrono::milliseconds(100));
    if (mailbox.full()) return false;
  }
  auto messages = consumer->poll(kPollBatch, stopping ? std::chrono::milliseconds(0) : std::chrono::milliseconds(100));
  if (!messages) {
    const bool displaced = messages.error().code == Code::kAborted;
    log::warn(displaced ? "another reader has our place" : "the bus is away",
              {{"bus", bus->name()}, {"error", messages.error().to_string()}});
    consumer.reset();
    if (displaced) {
      prove_lead = true;
      arrived.notify_one();
    }
    return false;
  }
  for (auto& m : *messages) take_message(std::move(m));
  const bool any = !arrived_inputs.empty();
  if (any) (void)hand_over();
  look_at_lag(any);
  return any;
}

void Host::Impl::look_at_lag(bool any) {
  // Asking for the lag costs a look at the carrier: between messages that come thick it may be half a second old.
  const auto now = std::chrono::steady_clock::now();
  const bool look = !any || now >= next_lag;
  if (look) next_lag = now + std::chrono::milliseconds(500);
  const std::int64_t lag = look ? consumer->lag() : 0;
  std::map<bus::TopicPartition, std::int64_t> done;
  {
    std::lock_guard lock(mutex);
    counters.bus_lag = look ? lag : std::max<std::int64_t>(counters.bus_lag, 1);
    done = cursors;
  }
  if (look) {
    for (const auto& [at, next] : done) consumer->report(at, next);
  }
}

}  // namespace qm::service
