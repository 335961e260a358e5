// The two connections to the bus: outbox rows out, messages in; and the outcomes of intents back into the mailbox.
#include "host_impl.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/base/text.hpp"
#include "qm/service/history.hpp"
#include "quartermaster/v1/envelope.pb.h"

namespace qm::service {

namespace {
constexpr std::size_t kPollBatch = 512;
constexpr std::size_t kLongestTrace = 128;
/// An announcement is sent again, and a process that ends does not wait longer for it.
constexpr auto kAnnounceTimeout = std::chrono::seconds(2);
/// Any offset is accepted as the next one, for this long after the snapshot.
constexpr std::int64_t kAny = -1;
constexpr auto kFresh = std::chrono::seconds(10);
/// After this number of polls the log of one partition is compared with what was read of it; with empty polls at most
/// once in HostOptions::bus_look.
constexpr std::uint64_t kPollsPerCheck = 10;
/// Of one poll. A poll ends early when the reader is to stop; a paused topic is looked at after it.
constexpr SteadyDuration kPollTime = std::chrono::seconds(1), kWhilePaused = std::chrono::milliseconds(100);
constexpr auto kCheckTimeout = std::chrono::milliseconds(500);
/// While messages arrive, the lag is read this often: it takes a request to the carrier.
constexpr auto kLagLook = std::chrono::seconds(2);

/// Whether the position `next` includes everything applied at `before`, and more.
bool continues(const store::HistoryPosition& before, const store::HistoryPosition& next) {
  return next.term != 0 && store::succession(before, next) == store::Succession::kSuccessor &&
         (next.term != before.term || next.sequence >= before.sequence);
}

/// Events and dead letters have this trace too, so a text longer than W3C defines is dropped.
std::string trace_of(const quartermaster::v1::Envelope& e) {
  return e.trace_parent().size() <= kLongestTrace && is_text(e.trace_parent()) ? e.trace_parent() : std::string();
}
}  // namespace

Status Host::Impl::make_topics() {
  const std::lock_guard lock(topics_mutex);
  if (topics.empty()) return {};
  if (stopping)
    return fail(Code::kUnavailable, "the service is stopping");  // querying an unavailable broker takes seconds
  QM_TRY(bus->ensure_topics(topics, bus::kDefaultPartitions));
  topics.clear();
  return {};
}

Status Host::Impl::open_producer() {
  if (producer) return {};
  QM_TRY(make_topics());
  QM_ASSIGN(producer, bus->producer(options.service + "-" + options.shard));
  return {};
}

// A producer whose database lost events may publish nothing for a long time. So each leader announces its term on
// each topic, by an envelope without a key, and consumers compare their applied history with its ancestors.
Status Host::Impl::announce() {
  if (options.produces.empty()) return {};
  QM_TRY(open_producer());
  quartermaster::v1::Envelope e;
  e.set_shard(options.shard);
  {
    const std::lock_guard lock(mutex);
    e.set_epoch(counters.epoch);
    put_history({history.term, written, history.ancestors}, e);
  }
  std::vector<bus::Record> records;
  for (const auto& topic : options.produces) {
    e.set_topic(topic);
    records.push_back({topic, {}, e.SerializeAsString()});
  }
  return producer->publish(records, std::min<SteadyDuration>(options.publish_timeout, kAnnounceTimeout));
}

void Host::Impl::clear_sent() {
  if (auto ok = store->published(relayed, relay_term); ok) {
    cleared = relayed;
    works(clearing);
  } else {
    log::warn("published rows are not deleted yet", {{"error", ok.error().to_string()}});
    failed(clearing, ok.error());
  }
}

bool Host::Impl::relay_once(bool clears) {
  if (lost) return false;  // the new leader sends the rest of the outbox
  // After a reload the previous rows are read again: a database that was rolled back assigns the same numbers to
  // others.
  if (const std::uint64_t now = term; relay_term != now) {
    relay_term = now;
    relayed = cleared = 0;
  }
  const std::uint64_t upto = written;
  auto rows = store->read_outbox(relayed, relay_most);
  // A process without commits detects here, ten times a second, that it could not commit.
  store_away = !rows;
  if (!rows) return false;
  if (rows->empty()) {
    if (announced != relay_term) {
      if (auto sent = announce(); !sent) {
        log::warn("the term is not announced yet", {{"bus", bus->name()}, {"error", sent.error().to_string()}});
        producer.reset();
        failed(sending, sent.error());
        return false;
      }
      announced = relay_term;
      works(sending);
    }
    // Rows written before this read and missing in it have been published, perhaps before this process started.
    relayed = std::max(relayed, upto);
    if (clears && cleared < relayed) clear_sent();
    set_backlog();
    return false;
  }
  if (auto there = open_producer(); !there) {
    log::warn("no producer yet", {{"bus", bus->name()}, {"error", there.error().to_string()}});
    failed(sending, there.error());
    return false;
  }
  std::vector<bus::Record> records;
  records.reserve(rows->size());
  for (const auto& row : *rows) records.push_back({row.topic, row.key, row.value});
  QM_CRASH_POINT("service.before_publish");
  if (auto sent = producer->publish(records, options.publish_timeout); !sent) {
    if (sent.error().code == Code::kOutOfRange) return too_long(*rows, sent.error());
    // Unknown or unavailable: the rows stay, and are sent again. Receivers drop duplicates by key version.
    log::warn("events wait for the bus", {{"rows", rows->size()}, {"error", sent.error().to_string()}});
    producer.reset();
    failed(sending, sent.error());
    const std::lock_guard lock(mutex);
    ++counters.send_failures;
    return false;
  }
  QM_CRASH_POINT("service.after_publish");
  works(sending);
  relayed = rows->back().sequence;
  relay_most = std::min(kRelayBatch, 2 * relay_most);
  if (clears) clear_sent();
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
  if (options.urgency_of != nullptr) p.input.urgency = options.urgency_of(p.input);
  std::vector<Pending> one;
  one.push_back(std::move(p));
  put(std::move(one));
}

Pending Host::Impl::pending_of(const std::string& topic, quartermaster::v1::Envelope& e, std::uint64_t after) const {
  Pending p;
  p.input.source = Source::kBus;
  p.input.name = topic;  // not the envelope's: dead letters need a topic that exists
  // Keys are unique within a shard only: another cluster on this bus has its own "demand" and nodes.
  p.skip = is_foreign(e);
  p.input.key = e.key();
  p.input.version = version_after(after, e.key_version());
  p.input.tombstone = e.tombstone();
  p.input.trace_parent = trace_of(e);
  p.input.bytes = std::move(*e.mutable_payload());
  if (options.urgency_of != nullptr) p.input.urgency = options.urgency_of(p.input);
  return p;
}

Pending Host::Impl::pending_of(bus::Message message) {
  Pending p;
  quartermaster::v1::Envelope e;
  auto& read = positions[message.at];
  read.next = message.offset + 1;
  read.mark = stable_hash(message.value);
  if (read.anchor.offset < 0) read.anchor = {message.offset, read.mark};
  auto good = e.ParseFromString(message.value)
                  ? check_key("the key", e.key())
                  : fail(Code::kInvalid, "{} bytes are not an Envelope", message.value.size());
  if (good && breaks_before(e.key_version()) != 0)
    good = fail(Code::kInvalid, "the version {} of the key is out of range", e.key_version());
  if (good && e.key_version() == 0 && e.key().empty()) {
    if (!is_foreign(e)) check_announced(message.at.topic, history_of(e));
    p.skip = true;
  } else if (good) {
    bool dropped = false;
    if (!is_foreign(e)) dropped = !follow_history(message.at, history_of(e));
    p = pending_of(message.at.topic, e, breaks_of(message.at.topic));
    p.skip = p.skip || dropped;
  } else {
    // It is sent to the dead-letter topic under a key of its own, so that the original key continues.
    p.unreadable = std::move(good).error();
    p.input.source = Source::kBus;
    p.input.name = message.at.topic;
    p.input.key = fmt::format("undecodable/{}/{}", message.at.partition, message.offset);
    p.input.bytes = std::move(message.value);
    p.input.version = 1;
    p.input.tombstone = true;  // the key has no further messages
  }
  p.at = message.at;
  p.read = read;
  p.term = consumer_term;
  return p;
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
    failed(reading, there.error());
    return false;
  }
  bus::ConsumerOptions c;
  c.group = options.service + "/" + options.shard;
  c.wake = &read_wake;
  c.instance = c.group;  // one member for all leaders: a new leader does not wait for the old one's session
  c.topics = options.consumes;
  c.gather = options.gather;
  // Called when the carrier seeks to the cursor. Reading begins with the last applied message, which identifies the
  // log.
  c.cursor = [this](const bus::TopicPartition& at) {
    std::lock_guard lock(mutex);
    const auto it = cursors.find(at);
    auto& read = positions[at] = it == cursors.end() ? ReadPosition{} : it->second;
    // The cursor that moves to the new log may not be committed yet, and by now that log may be as long as the
    // previous one.
    if (const auto left = left_logs.find(at); left != left_logs.end()) {
      if (left->second.next == read.next && left->second.mark == read.mark) {
        read = {.history = read.history};
      } else {
        left_logs.erase(left);
      }
    }
    // After a snapshot, until the first message arrives.
    const auto heals = healed.find(at.topic);
    const auto [next, fresh] = expected.try_emplace(at, kAny);
    const bool healing_now = heals != healed.end() && next->second == kAny;
    next->second = healing_now ? kAny : read.next;
    if (healing_now) read.anchor = {};
    // The snapshot precedes all further messages, even while the cursors that are stored with it are not committed.
    if (const auto known = adopted.find(at.topic); known != adopted.end() && !continues(known->second, read.history))
      read.history = known->second;
    if (it == cursors.end() || (healing_now && heals->second.other_log)) return std::int64_t{-1};
    if (healing_now || read.mark == 0) return read.next;
    unverified.insert(at);
    return read.next - 1;
  };
  expected.clear();
  positions.clear();
  unverified.clear();
  healed = healing;
  auto made = bus->consumer(std::move(c));
  if (!made) {
    log::warn("no consumer yet", {{"bus", bus->name()}, {"error", made.error().to_string()}});
    failed(reading, made.error());
    return false;
  }
  consumer = std::move(*made);
  healing.clear();
  return true;
}

// Messages are missing: retention; or the log is another one: a restore, a recreated topic.
bool Host::Impl::is_gap(const bus::Message& message) {
  auto& next = expected.try_emplace(message.at, 0).first->second;
  if (next == kAny && std::chrono::steady_clock::now() - healed[message.at.topic].since < kFresh) next = message.offset;
  const bool verifies = unverified.erase(message.at) > 0, last_applied = verifies && message.offset == next - 1;
  if (verifies ? last_applied && positions[message.at].mark == stable_hash(message.value) : message.offset == next)
    return false;
  log::warn("messages are missing on the bus, taking a snapshot",
            {{"topic", message.at.topic},
             {"partition", message.at.partition},
             {"expected", next},
             {"found", message.offset},
             {"why", last_applied ? "the last message that was applied is another one"
                     : verifies   ? "the last applied message is missing, so the log may be another one"
                                  : "offset"}});
  return true;
}

// A log that was recreated may have grown past the position of its reader, which then reads on without an error.
// While the anchor is in the log, everything read before this moment is of the same log, and the newest message is
// the next anchor. If retention has deleted the anchor, it is unknown whether the log is the same: for such a quiet
// partition a snapshot is fetched.
bool Host::Impl::is_same_log(bool any) {
  if (++polls % kPollsPerCheck != 0 || positions.empty()) return true;
  const auto now = std::chrono::steady_clock::now();
  if (!any && now < next_idle_check) return true;
  next_idle_check = now + options.bus_look;
  auto next = positions.upper_bound(checked);
  if (next == positions.end()) next = positions.begin();
  auto& [at, read] = *next;
  checked = at;
  if (read.anchor.offset < 0 || is_paused(at.topic)) return true;
  const auto value = consumer->value_at(at, read.anchor.offset, kCheckTimeout);
  // Without a result it is checked again the next time. If polls fail too, they report the error.
  if (!value && value.error().code != Code::kOutOfRange) return true;
  if (value && *value && stable_hash(**value) == read.anchor.hash) {
    if (read.mark != 0) read.anchor = {read.next - 1, read.mark};
    return true;
  }
  log::warn("the log of a topic is not known to be the one that was read, taking a snapshot",
            {{"topic", at.topic},
             {"partition", at.partition},
             {"offset", read.anchor.offset},
             {"why", !value   ? value.error().message
                     : *value ? "the message is another one"
                              : "the message is missing, so the log may be another one"}});
  other_logs.insert(at);
  return !leave_log(std::string(at.topic));
}

void Host::Impl::take_message(bus::Message message) {
  const auto at = message.at;
  if (is_paused(at.topic)) return;
  const bool gap = is_gap(message);
  if (gap && message.offset < expected[at] && expected[at] != kAny) {
    other_logs.insert(at);
    return (void)leave_log(at.topic);
  }
  if (gap && !close_gap(at.topic, false)) return;
  if (gap) positions[at].anchor = {};  // earlier messages are in the snapshot
  auto& next = expected[at];
  if (!gap && message.offset < next) return;  // it was applied, and shows that this is the same log
  next = message.offset + 1;
  auto pending = pending_of(std::move(message));
  if (!is_paused(at.topic)) arrived_inputs.push_back(std::move(pending));
}

bool Host::Impl::consume_once() {
  if (options.consumes.empty()) return false;
  if (lost) consumer.reset();
  // A consumer that was fenced reads again only after a commit has shown that its process leads.
  if (lost || prove_lead) return false;
  // Messages read before a reload are read again from the current cursors, and snapshots are fetched again: also
  // without an open consumer.
  if (const std::uint64_t now_led = loaded_term; consumer_term != now_led) {
    consumer_term = now_led;
    consumer.reset();
    arrived_inputs.clear();
    healing.clear();
    left_logs.clear();
    adopted.clear();
  }
  if (!arrived_inputs.empty()) return hand_over();
  if (!consumer && !open_consumer()) return false;
  if (close_gaps() || confirm_kept()) return true;
  {
    std::unique_lock lock(mutex);
    if (mailbox.full()) drained.wait_for(lock, std::chrono::milliseconds(100));
    if (mailbox.full()) return false;
  }
  SteadyDuration wait = stopping ? SteadyDuration::zero() : kPollTime;
  {
    const std::lock_guard lock(mutex);
    if (!paused.empty()) wait = std::min(wait, kWhilePaused);
  }
  auto messages = consumer->poll(kPollBatch, wait);
  if (!messages) {
    const bool displaced = messages.error().code == Code::kAborted;
    log::warn(displaced ? "another reader has our place" : "the bus is not available",
              {{"bus", bus->name()}, {"error", messages.error().to_string()}});
    failed(reading, messages.error());
    consumer.reset();
    if (displaced) {
      prove_lead = true;
      arrived.notify_one();
    }
    return false;
  }
  works(reading);
  if (!is_same_log(!messages->empty())) return true;
  for (auto& m : *messages) {
    take_message(std::move(m));
    if (!consumer) return true;  // the log is another one: all uncommitted messages are read again
  }
  const bool any = !arrived_inputs.empty();
  if (any) (void)hand_over();
  if (look_at_lag(any) && close_short_logs()) return true;
  return any;
}

bool Host::Impl::look_at_lag(bool any) {
  // At rest the lag changes rarely.
  const auto now = std::chrono::steady_clock::now();
  const std::uint64_t moves = cursor_moves;
  const bool look = any ? now >= next_lag : moves != reported_moves || !unverified.empty() || now >= next_idle_lag;
  if (look) {
    next_lag = now + kLagLook;
    next_idle_lag = now + options.bus_look;
    reported_moves = moves;
  }
  const std::int64_t lag = look ? consumer->lag() : 0;
  std::map<bus::TopicPartition, ReadPosition> done;
  {
    std::lock_guard lock(mutex);
    if (look || any) counters.bus_lag = look ? lag : std::max<std::int64_t>(counters.bus_lag, 1);
    done = cursors;
  }
  if (look) {
    for (const auto& [at, read] : done) consumer->report(at, read.next);
  }
  return look;
}

// A log that ends before the cursor is another one, even if it gets no further message.
bool Host::Impl::close_short_logs() {
  if (unverified.empty()) return false;
  std::set<std::string> short_ones;
  for (const auto& [at, end] : consumer->ends()) {
    if (!unverified.contains(at) || end >= expected[at]) continue;
    log::warn("the log of a topic is shorter than it was, taking a snapshot",
              {{"topic", at.topic}, {"partition", at.partition}, {"expected", expected[at]}, {"end", end}});
    unverified.erase(at);
    other_logs.insert(at);
    short_ones.insert(at.topic);
  }
  for (const auto& topic : short_ones) (void)leave_log(topic);
  return !short_ones.empty();
}

}  // namespace qm::service
