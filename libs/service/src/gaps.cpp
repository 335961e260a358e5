// Recovery of a consumer from missing events: a broken history of a producer, messages that are missing on the bus,
// and the snapshots that replace them.
#include "host_impl.hpp"
#include "qm/base/log.hpp"
#include "qm/base/text.hpp"
#include "quartermaster/v1/envelope.pb.h"

#include <algorithm>

namespace qm::service {

namespace {
constexpr auto kSnapshotAgain = std::chrono::seconds(1);
constexpr auto kConfirmAgain = std::chrono::seconds(10);
}  // namespace

// An event of another term shows which events of earlier terms its producer's database still has. The lost ones may
// have been applied from any partition and topic of that producer. Of two diverging histories, that of the producer's
// snapshot is valid.
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
  for (const auto& topic : broken) take_break(topic, event);
  if (!broken.contains(at.topic)) return advance();
  if (is_paused(at.topic)) return true;
  how = store::succession(applied, event);
  if (how == store::Succession::kEarlier) return true;
  if (how == store::Succession::kSuccessor) return advance();
  abandoned.insert(event.term);  // bounded by the number of leaders
  return drop();
}

void Host::Impl::take_break(const std::string& topic, const store::HistoryPosition& event) {
  log::error("the history of a producer broke: its database lost events, taking a snapshot",
             {{"topic", topic}, {"term", event.term}, {"sequence", event.sequence}});
  {
    const std::lock_guard lock(mutex);
    ++counters.history_breaks;
  }
  (void)close_gap(topic, true);
}

// No position advances: no later term is a successor of a term without events. Of two histories only the owner knows
// which one is its own, because an announcement may be read late: the owner is queried before a break is assumed.
void Host::Impl::check_announced(const std::string& topic, const store::HistoryPosition& event) {
  const auto differs = [&](const store::HistoryPosition& other) {
    return std::ranges::any_of(positions, [&](const auto& item) {
      const auto& applied = item.second.history;
      return item.first.topic == topic && (store::lost(applied, other) || store::replaced(applied, other));
    });
  };
  if (!options.snapshot || !differs(event)) return;
  if (const auto owner = options.snapshot(topic, [this] { return stopping.load(); }); owner && !differs(owner->history))
    return;
  take_break(topic, event);
}

// Positions of partitions that the carrier has not assigned yet are the committed ones.
void Host::Impl::complete_positions(const std::string& topic) {
  const std::lock_guard lock(mutex);
  for (const auto& [at, read] : cursors) {
    if (at.topic == topic) positions.try_emplace(at, read);
  }
}

// Whether the owner's database lost events of the topic that were applied: its snapshot shows that as an event
// would.
bool Host::Impl::breaks_with(const std::string& topic, const store::HistoryPosition& owner) const {
  return std::ranges::any_of(positions, [&](const auto& item) {
    return item.first.topic == topic && store::succession(item.second.history, owner) == store::Succession::kBroken;
  });
}

// A snapshot is applied up to the position of its owner, whichever partitions its keys are in: if the owner's
// database loses part of it later, that is a break, as with events. If it replaces the applied state, the versions of
// the topic become greater than all before.
void Host::Impl::adopt_history(const std::string& topic, const store::HistoryPosition& owner, bool replaces) {
  if (replaces) {
    const std::lock_guard lock(mutex);
    ++breaks[topic];
    unconfirmed.insert(topic);
    confirm_at.erase(topic);
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

// Committed after the snapshot, so that its history is known after a restart too. The cursor of a short log moves to
// the beginning of the new one: otherwise each consumer that is opened for the gap of another topic would find the
// same short log again.
void Host::Impl::commit_positions(const std::string& topic) {
  for (auto& [at, read] : positions) {
    if (at.topic != topic) continue;
    if (other_logs.erase(at) > 0) {
      left_logs[at] = read;
      read = {.history = read.history};
    }
    commit_position(at, read);
  }
}

// Committed before the keys of a snapshot that continues the applied state. These may be committed without the
// inputs after them, and their owner's database may then lose them: only the history shows that. The rest of each
// cursor stays, so a restart finds the gap again. A snapshot that replaces the applied state needs no such commit: by
// the previous history, its owner's is broken until all of it is applied.
void Host::Impl::commit_history(const std::string& topic) {
  for (const auto& [at, read] : positions) {
    if (at.topic == topic && read.history.term != 0) commit_position(at, read);
  }
}

void Host::Impl::commit_position(const bus::TopicPartition& at, const ReadPosition& read) {
  arrived_inputs.emplace_back();
  auto& p = arrived_inputs.back();
  p.input.name = at.topic;
  p.skip = true;
  p.at = at;
  p.read = read;
  p.term = consumer_term;
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
        log::error("the topic is not read until its snapshot is available", {{"topic", topic}, {"error", why}});
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
  log::info("snapshot applied", {{"topic", topic}, {"keys", snapshot->entries.size()}});
  complete_positions(topic);
  replaces = replaces || breaks_with(topic, snapshot->history);
  adopt_history(topic, snapshot->history, replaces);
  if (!replaces) commit_history(topic);
  put_snapshot(topic, std::move(*snapshot), replaces ? SnapshotUse::kReplaces : SnapshotUse::kGap);
  commit_positions(topic);
  return true;
}

void Host::Impl::put_snapshot(const std::string& topic, Snapshot snapshot, SnapshotUse use) {
  auto end = std::make_shared<SnapshotEnd>();
  end->use = use;
  end->breaks = breaks_of(topic);
  for (auto& bytes : snapshot.entries) {
    quartermaster::v1::Envelope e;
    if (e.ParseFromString(bytes) && check_key("the key", e.key())) {
      end->keys.insert(e.key());
      arrived_inputs.push_back(pending_of(topic, e, end->breaks));
      arrived_inputs.back().term = consumer_term;
    }
    bytes = {};
  }
  arrived_inputs.emplace_back();
  arrived_inputs.back().input.name = topic;
  arrived_inputs.back().term = consumer_term;
  arrived_inputs.back().snapshot_end = std::move(end);
}

// A batch ends before the end of a snapshot: the omitted keys are known once the inputs before it are applied.
void Host::Impl::end_omitted(Batch& batch) {
  std::erase_if(batch.pending, [&](const Pending& p) { return p.snapshot_end != nullptr && p.term != loaded_term; });
  const auto end = std::ranges::find_if(batch.pending, [](const Pending& p) { return p.snapshot_end != nullptr; });
  if (end == batch.pending.end()) return;
  if (end != batch.pending.begin()) {
    retry.emplace_front(std::make_move_iterator(end), std::make_move_iterator(batch.pending.end()));
    batch.pending.erase(end, batch.pending.end());
    return;
  }
  const auto snapshot = std::exchange(end->snapshot_end, nullptr);
  const auto topic = end->input.name;
  std::vector<Pending> omitted;
  std::size_t ends = 0;
  const bool replaces = snapshot->use == SnapshotUse::kReplaces, confirms = snapshot->use == SnapshotUse::kConfirms;
  for (auto it = seen.lower_bound({topic, {}}); it != seen.end() && it->first.first == topic; ++it) {
    if (snapshot->keys.contains(it->first.second)) continue;
    // The break is counted in the stored versions. If the snapshot is empty, a deleted key stores it.
    const bool counts = it->second.gone && replaces && snapshot->keys.empty() && omitted.empty();
    if (it->second.gone && !counts) continue;
    if (confirms && !is_kept(it->second.version, snapshot->breaks)) continue;
    std::optional<std::string> payload;
    if (!counts) payload = options.last_state ? options.last_state(topic, it->first.second, replaces) : std::string();
    if (!payload && !replaces) continue;
    Pending p;
    p.input.source = Source::kBus;
    p.input.name = topic;
    p.input.key = it->first.second;
    p.kept = !payload;
    ends += payload ? 1 : 0;
    if (payload) p.input.bytes = std::move(*payload);
    // Greater than the version of the deleted state. If the owner creates the key again, its versions count the
    // tombstone too.
    p.input.version = replaces || is_kept(it->second.version, snapshot->breaks) ? version_after(snapshot->breaks, 0)
                                                                                : it->second.version + 1;
    p.input.tombstone = payload || counts;
    p.omitted = true;
    omitted.push_back(std::move(p));
  }
  if (ends != 0) log::warn("keys that the snapshot of a topic omits end", {{"topic", topic}, {"keys", ends}});
  std::vector<Pending> rest(std::make_move_iterator(end + 1), std::make_move_iterator(batch.pending.end()));
  if (!rest.empty()) retry.push_front(std::move(rest));
  while (omitted.size() > options.max_batch) {
    const auto tail = omitted.end() - static_cast<std::ptrdiff_t>(options.max_batch);
    retry.emplace_front(std::make_move_iterator(tail), std::make_move_iterator(omitted.end()));
    omitted.erase(tail, omitted.end());
  }
  batch.pending = std::move(omitted);
  if (!batch.pending.empty() || retry.empty()) return;
  batch.pending.swap(retry.front());
  retry.pop_front();
  end_omitted(batch);  // of another snapshot
}

// Keys that were kept over a break are deleted if their owner, which has observed the cluster since, has not
// published them again.
bool Host::Impl::confirm_kept() {
  std::set<std::string> kept;
  {
    const std::lock_guard lock(mutex);
    kept = unconfirmed;
  }
  const auto now = std::chrono::steady_clock::now();
  for (const auto& topic : kept) {
    const auto [at, fresh] = confirm_at.try_emplace(topic, now + options.confirm_after);
    if (now < at->second || is_paused(topic) || !options.snapshot) continue;
    auto snapshot = options.snapshot(topic, [this] { return stopping.load(); });
    if (!snapshot) {
      log::warn("keys that were kept over a history break are not confirmed yet",
                {{"topic", topic}, {"error", snapshot.error().to_string()}});
      at->second = std::chrono::steady_clock::now() + kConfirmAgain;
      continue;
    }
    complete_positions(topic);
    if (breaks_with(topic, snapshot->history)) {
      take_break(topic, snapshot->history);
      return true;
    }
    confirm_at.erase(at);
    {
      const std::lock_guard lock(mutex);
      unconfirmed.erase(topic);
    }
    adopt_history(topic, snapshot->history, false);
    commit_history(topic);
    put_snapshot(topic, std::move(*snapshot), SnapshotUse::kConfirms);
    return true;
  }
  return false;
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
    // Messages of the topic were skipped meanwhile: they are read again from the committed cursors.
    healing[topic] = {std::chrono::steady_clock::now(), state.other_log};
    consumer.reset();
    any = true;
  }
  return any;
}

bool Host::Impl::is_paused(const std::string& topic) const {
  const std::lock_guard lock(mutex);
  return paused.contains(topic);
}

// The topic has another log than before: it is read from its beginning after a snapshot. False: the snapshot is not
// available yet.
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

}  // namespace qm::service
