// The two edges to the bus: outbox rows out, messages in; and the outcomes of intents back into the mailbox.
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
constexpr auto kSnapshotAgain = std::chrono::seconds(1);
/// Any offset is the next one, for so long after the snapshot.
constexpr std::int64_t kAny = -1;
constexpr auto kFresh = std::chrono::seconds(10);
/// Every so many polls the log of one partition is compared with what was read of it: with polls that find nothing, one a second.
constexpr std::uint64_t kPollsPerCheck = 10;
constexpr auto kCheckTimeout = std::chrono::milliseconds(500);

/// Whether what was applied at `next` is all that was at `before`, and more.
bool continues(const store::HistoryPosition& before, const store::HistoryPosition& next) {
  return next.term != 0 && store::succession(before, next) == store::Succession::kSuccessor &&
         (next.term != before.term || next.sequence >= before.sequence);
}

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
    if (cleared < relayed) {
      if (auto ok = store->published(relayed, relay_epoch); ok) {
        cleared = relayed;
        works(clearing);
      } else {
        failed(clearing, ok.error());
      }
    }
    set_backlog();
    return false;
  }
  if (!producer) {
    if (auto there = make_topics(); !there) {
      log::warn("no topics yet", {{"bus", bus->name()}, {"error", there.error().to_string()}});
      failed(sending, there.error());
      return false;
    }
    auto made = bus->producer(options.service + "-" + options.shard);
    if (!made) {
      log::warn("no producer yet", {{"bus", bus->name()}, {"error", made.error().to_string()}});
      failed(sending, made.error());
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
    failed(sending, sent.error());
    const std::lock_guard lock(mutex);
    ++counters.send_failures;
    return false;
  }
  QM_CRASH_POINT("service.after_publish");
  works(sending);
  relayed = rows->back().sequence;
  relay_most = std::min(kRelayBatch, 2 * relay_most);
  if (auto ok = store->published(relayed, relay_epoch); ok) {
    cleared = relayed;
    works(clearing);
  } else {
    log::warn("published rows are not deleted yet", {{"error", ok.error().to_string()}});
    failed(clearing, ok.error());
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

Pending Host::Impl::pending_of(const std::string& topic, quartermaster::v1::Envelope& e, std::uint64_t after) const {
  Pending p;
  p.input.source = Source::kBus;
  p.input.name = topic;  // not the envelope's: dead letters need a topic that exists
  // Keys are unique within a shard only: another cluster on this bus has a "demand" and nodes of its own.
  p.skip = is_foreign(e);
  p.input.key = e.key();
  p.input.version = version_after(after, e.key_version());
  p.input.tombstone = e.tombstone();
  p.input.trace_parent = trace_of(e);
  p.input.bytes = std::move(*e.mutable_payload());
  return p;
}

Pending Host::Impl::pending_of(bus::Message message) {
  Pending p;
  quartermaster::v1::Envelope e;
  auto& read = positions[message.at];
  read.next = message.offset + 1;
  read.mark = stable_hash(message.value);
  if (read.anchor.offset < 0) read.anchor = {message.offset, read.mark};
  auto good = e.ParseFromString(message.value) ? check_key("the key", e.key())
                                               : fail(Code::kInvalid, "{} bytes are no Envelope", message.value.size());
  if (good && breaks_before(e.key_version()) != 0)
    good = fail(Code::kInvalid, "the version {} of the key is out of range", e.key_version());
  if (good) {
    bool dropped = false;
    if (!is_foreign(e)) dropped = !follow_history(message.at, history_of(e));
    p = pending_of(message.at.topic, e, breaks_of(message.at.topic));
    p.skip = p.skip || dropped;
  } else {
    // It goes to the dead-letter topic under a key of its own, so that the key it came with goes on.
    p.unreadable = std::move(good).error();
    p.input.source = Source::kBus;
    p.input.name = message.at.topic;
    p.input.key = fmt::format("undecodable/{}/{}", message.at.partition, message.offset);
    p.input.bytes = std::move(message.value);
    p.input.version = 1;
    p.input.tombstone = true;  // nothing more is said of that key
  }
  p.at = message.at;
  p.read = read;
  p.epoch = consumer_epoch;
  return p;
}

// An event of another term shows what the database of its producer kept of the terms before. What it lost may have been
// applied from any partition and topic of that producer. Of two histories that are not one, that of the producer's snapshot counts.
bool Host::Impl::follow_history(const bus::TopicPartition& at, const store::HistoryPosition& event) {
  auto& applied = positions[at].history;
  const auto drop = [&] {
    const std::lock_guard lock(mutex);
    ++counters.abandoned;
    return false;
  };
  const auto advance = [&] {
    const auto before = event.term == applied.term ? applied.sequence : 0;
    applied = event;
    applied.sequence = std::max(before, event.sequence);
    return true;
  };
  auto how = store::succession(applied, event);
  if (how == store::Succession::kAbandoned || abandoned.contains(event.term)) return drop();
  if (how == store::Succession::kEarlier || event.term == 0) return true;
  if (event.term == applied.term) return advance();
  std::set<std::string> broken;
  if (how == store::Succession::kBroken) broken.insert(at.topic);
  for (const auto& [other, read] : positions) {
    if (store::lost(read.history, event)) broken.insert(other.topic);
  }
  bool closed = true;
  for (const auto& topic : broken) {
    log::error("the history of a producer broke: its database lost events, taking a snapshot",
               {{"topic", topic}, {"term", event.term}, {"sequence", event.sequence}});
    {
      const std::lock_guard lock(mutex);
      ++counters.history_breaks;
    }
    if (!close_gap(topic, true) && topic == at.topic) closed = false;
  }
  if (!broken.contains(at.topic)) return advance();
  if (!closed) return true;  // the topic is paused
  how = store::succession(applied, event);
  if (how == store::Succession::kEarlier) return true;
  if (how == store::Succession::kSuccessor) return advance();
  abandoned.insert(event.term);  // bounded by the leaders that there were
  return drop();
}

// Whether the owner's database lost what was applied of the topic: its snapshot shows that as an event would.
bool Host::Impl::breaks_with(const std::string& topic, const store::HistoryPosition& owner) const {
  return std::ranges::any_of(positions, [&](const auto& item) {
    return item.first.topic == topic && store::succession(item.second.history, owner) == store::Succession::kBroken;
  });
}

// A snapshot is applied up to the position of its owner, whichever partitions its keys are in: what the owner's database loses of it later
// is a break, as with events. If it replaces what was applied, the versions of the topic are greater than all before.
void Host::Impl::adopt_history(const std::string& topic, const store::HistoryPosition& owner, bool replaces) {
  if (replaces) {
    const std::lock_guard lock(mutex);
    ++breaks[topic];
  } else if (owner.term == 0) {
    adopted.erase(topic);
    return;
  }
  for (auto& [at, read] : positions) {
    if (at.topic == topic && (replaces || store::succession(read.history, owner) == store::Succession::kSuccessor))
      read.history = owner;
  }
  adopted[topic] = owner;
}

// Behind the snapshot, so that its history is known after a restart too. The cursor of a short log moves to the beginning of the new one:
// otherwise each consumer that is opened for the gap of another topic would find the same short log again.
void Host::Impl::commit_positions(const std::string& topic) {
  for (auto& [at, read] : positions) {
    if (at.topic != topic) continue;
    if (other_logs.erase(at) > 0) {
      left_logs[at] = read;
      read = {.history = read.history};
    }
    arrived_inputs.emplace_back();
    auto& p = arrived_inputs.back();
    p.input.name = topic;
    p.skip = true;
    p.at = at;
    p.read = read;
    p.epoch = consumer_epoch;
  }
}

std::uint64_t Host::Impl::breaks_of(const std::string& topic) const {
  const std::lock_guard lock(mutex);
  const auto found = breaks.find(topic);
  return found == breaks.end() ? 0 : found->second;
}

bool Host::Impl::close_gap(const std::string& topic, bool replaces) {
  if (!options.snapshot) {
    if (replaces) adopt_history(topic, {}, true);
    return true;
  }
  const auto begin = std::chrono::steady_clock::now();
  auto snapshot = options.snapshot(topic, [this] { return stopping.load(); });
  const auto now = std::chrono::steady_clock::now();
  const auto again = now + kSnapshotAgain + 3 * (now - begin);  // the other topics are read meanwhile
  {
    const std::lock_guard lock(mutex);
    const auto known = paused.find(topic);
    if (!snapshot) {
      const auto why = snapshot.error().to_string();
      if (known == paused.end()) {
        log::error("the topic is not read on until its snapshot can be had", {{"topic", topic}, {"error", why}});
        paused[topic] = {now, again, why, replaces};
      } else {
        known->second.again = again;
        known->second.why = why;
        known->second.replaces = known->second.replaces || replaces;
      }
    } else if (known != paused.end()) {
      paused.erase(known);
    }
    counters.paused_topics = paused.size();
  }
  if (!snapshot) return false;
  log::info("snapshot taken", {{"topic", topic}, {"keys", snapshot->entries.size()}});
  replaces = replaces || breaks_with(topic, snapshot->history);
  adopt_history(topic, snapshot->history, replaces);
  // What came before the snapshot is in it, whatever log it was in.
  for (auto& [at, read] : positions) {
    if (at.topic == topic) read.anchor = {};
  }
  std::erase_if(unverified, [&](const bus::TopicPartition& at) { return at.topic == topic; });
  auto end = std::make_shared<SnapshotEnd>();
  end->replaces = replaces;
  end->breaks = breaks_of(topic);
  for (auto& bytes : snapshot->entries) {
    quartermaster::v1::Envelope e;
    if (e.ParseFromString(bytes) && check_key("the key", e.key())) {
      end->keys.insert(e.key());
      arrived_inputs.push_back(pending_of(topic, e, end->breaks));
    }
    bytes = {};
  }
  arrived_inputs.emplace_back();
  arrived_inputs.back().input.name = topic;
  arrived_inputs.back().snapshot_end = std::move(end);
  commit_positions(topic);
  return true;
}

bool Host::Impl::close_gaps() {
  std::vector<std::pair<std::string, Paused>> due;
  {
    const std::lock_guard lock(mutex);
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [topic, state] : paused)
      if (state.again <= now) due.emplace_back(topic, state);
  }
  bool any = false;
  for (const auto& [topic, state] : due) {
    if (stopping || !close_gap(topic, state.replaces)) continue;
    // What came of the topic meanwhile was passed over: it is read again from the committed cursors.
    healing[topic] = {std::chrono::steady_clock::now(), state.other_log};
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
    failed(reading, there.error());
    return false;
  }
  bus::ConsumerOptions c;
  c.group = options.service + "/" + options.shard;
  c.instance = c.group;  // one member for every leader: a new leader does not wait for the old one's session
  c.topics = options.consumes;
  // Whenever the carrier seeks to the cursor. Reading begins with the last message that was applied, which identifies the log.
  c.cursor = [this](const bus::TopicPartition& at) {
    std::lock_guard lock(mutex);
    const auto it = cursors.find(at);
    auto& read = positions[at] = it == cursors.end() ? ReadPosition{} : it->second;
    // The cursor that moves to the new log may not be committed yet, and by now that log may have grown to the one of before.
    if (const auto left = left_logs.find(at); left != left_logs.end()) {
      if (left->second.next == read.next && left->second.mark == read.mark) {
        read = {.history = read.history};
      } else {
        left_logs.erase(left);
      }
    }
    // Behind a snapshot, until the first message comes.
    const auto heals = healed.find(at.topic);
    const auto [next, fresh] = expected.try_emplace(at, kAny);
    const bool healing_now = heals != healed.end() && next->second == kAny;
    next->second = healing_now ? kAny : read.next;
    if (healing_now) {
      read.anchor = {};
      if (const auto known = adopted.find(at.topic); known != adopted.end() && !continues(known->second, read.history))
        read.history = known->second;
    }
    if (it == cursors.end() || (healing_now && heals->second.other_log)) return std::int64_t{-1};
    if (healing_now || read.mark == 0) return read.next;
    unverified.insert(at);
    return read.next - 1;
  };
  consumer_epoch = epoch;
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
  const bool last_applied = unverified.erase(message.at) > 0 && message.offset == next - 1;
  if (last_applied ? positions[message.at].mark == stable_hash(message.value) : message.offset == next) return false;
  log::warn("messages are missing on the bus, taking a snapshot",
            {{"topic", message.at.topic},
             {"partition", message.at.partition},
             {"expected", next},
             {"found", message.offset},
             {"why", last_applied ? "the last message that was applied is another one" : "offset"}});
  return true;
}

// A log that was recreated may have grown past the position of its reader, which then reads on without an error. While the anchor is in
// the log, all that was read before this moment is of the same log, and the newest of it is the next anchor.
bool Host::Impl::is_same_log() {
  if (++polls % kPollsPerCheck != 0 || positions.empty()) return true;
  auto next = positions.upper_bound(checked);
  if (next == positions.end()) next = positions.begin();
  auto& [at, read] = *next;
  checked = at;
  if (read.anchor.offset < 0 || is_paused(at.topic)) return true;
  const auto value = consumer->value_at(at, read.anchor.offset, kCheckTimeout);
  // Without an answer it is asked again the next time. Where polls fail too, they say so.
  if (!value && value.error().code != Code::kOutOfRange) return true;
  if (value && (!*value || stable_hash(**value) == read.anchor.hash)) {
    if (read.mark != 0) read.anchor = {read.next - 1, read.mark};
    return true;
  }
  log::warn("the log of a topic is another one than was read, taking a snapshot",
            {{"topic", at.topic},
             {"partition", at.partition},
             {"offset", read.anchor.offset},
             {"why", value ? "the message is another one" : value.error().message}});
  other_logs.insert(at);
  return !leave_log(std::string(at.topic));
}

// The topic has another log than was read: it is read from its beginning behind a snapshot. False: the snapshot cannot be had yet.
bool Host::Impl::leave_log(const std::string& topic) {
  if (!close_gap(topic, false)) {
    const std::lock_guard lock(mutex);
    paused[topic].other_log = true;
    return false;
  }
  healing[topic] = {std::chrono::steady_clock::now(), true};
  consumer.reset();
  return true;
}

bool Host::Impl::is_paused(const std::string& topic) const {
  const std::lock_guard lock(mutex);
  return paused.contains(topic);
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
  auto& next = expected[at];
  if (!gap && message.offset < next) return;  // it was applied, and shows that this is the same log
  next = message.offset + 1;
  auto pending = pending_of(std::move(message));
  if (!is_paused(at.topic)) arrived_inputs.push_back(std::move(pending));
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
    left_logs.clear();
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
    failed(reading, messages.error());
    consumer.reset();
    if (displaced) {
      prove_lead = true;
      arrived.notify_one();
    }
    return false;
  }
  works(reading);
  if (!is_same_log()) return true;
  for (auto& m : *messages) {
    take_message(std::move(m));
    if (!consumer) return true;  // the log is another one: all that is not committed is read again
  }
  const bool any = !arrived_inputs.empty();
  if (any) (void)hand_over();
  if (look_at_lag(any) && close_short_logs()) return true;
  return any;
}

bool Host::Impl::look_at_lag(bool any) {
  // Asking for the lag costs a look at the carrier: between messages that come thick it may be half a second old.
  const auto now = std::chrono::steady_clock::now();
  const bool look = !any || now >= next_lag;
  if (look) next_lag = now + std::chrono::milliseconds(500);
  const std::int64_t lag = look ? consumer->lag() : 0;
  std::map<bus::TopicPartition, ReadPosition> done;
  {
    std::lock_guard lock(mutex);
    counters.bus_lag = look ? lag : std::max<std::int64_t>(counters.bus_lag, 1);
    done = cursors;
  }
  if (look) {
    for (const auto& [at, read] : done) consumer->report(at, read.next);
  }
  return look;
}

// A log that ends before the cursor is another one, even if no message ever comes.
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
