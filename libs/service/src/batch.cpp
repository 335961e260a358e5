// One batch, from the mailbox to the replies.
//
//   take     consumes inputs
//   collect  drops bus duplicates, replies to repeated requests from the stored replies
//   decide   one step of the engine at a `now` that never goes back; add_events (events.cpp) converts its events to rows
//   narrow   bisects a batch that cannot be written, to find the input that causes it (events.cpp)
//   write    one transaction: state, journal, outbox, intents, cursors; the store checks the term last
//   settle   the reaction to the outcome of the transaction (outcome.cpp)
//
// All changes of the batch to the host itself stay in Batch until the commit is known.
//
// While many inputs are pending, a batch is decided during the transaction of the one before it. It starts from that
// one's values (Impl::writing), and is undone with it. So a batch is written only once the one before it is durable, and
// reads are answered only while no batch is being written.
#include "host_impl.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/journal.pb.h"
#include "trace.hpp"

#include <algorithm>
#include <set>
#include <unistd.h>

namespace qm::service {

namespace pb = quartermaster::v1;

namespace {
constexpr std::size_t kMaxBatchBytes = 32 << 20;      // of inputs: the journal stores them in one value
constexpr auto kClockLook = std::chrono::seconds(1);  // between two reads of the database's clock
constexpr std::size_t kForgetAtOnce = 256;            // deleted keys that one batch removes in addition to its inputs
}  // namespace

Status Host::Impl::open(const std::function<bool()>& patient) {
  for (;;) {
    auto state = store->acquire(
        options.holder.empty() ? fmt::format("{}/{}/{}", options.service, options.shard, ::getpid()) : options.holder);
    if (state) return adopt(*state);
    if (state.error().code == Code::kFailedPrecondition) {
      return fail(
          Error{Code::kAborted, state.error().message, options.shard, "wait as standby until its lease is free"});
    }
    if (!patient || !state.error().retryable() || !patient()) {
      return fail(
          state.error().with_context(fmt::format("{} cannot acquire its shard {}", options.service, options.shard)));
    }
    log::warn("the store is not available, waiting for it", {{"error", state.error().to_string()}});
    std::unique_lock lock(mutex);
    saving.again(state.error().to_string());
    arrived.wait_for(lock, std::chrono::milliseconds(500));
  }
}

Status Host::Impl::adopt(const store::Loaded& state) {
  // First: reading the state may take longer than the allowed difference of the clocks.
  if (state.server_now) clock.confirm(*state.server_now);
  if (auto ok = shell->load(state.state); !ok) {
    return fail(ok.error().with_context(fmt::format("{} cannot read its own state", options.service)));
  }
  rows_digest = {};
  rows_digest.apply(state.state);
  journal_sequence = state.journal_sequence;
  written = outbox_sequence = state.outbox_sequence;
  intent_sequence = state.intent_sequence;
  last_now = std::max(last_now, state.last_now);
  seen.clear();
  for (const auto& row : state.seen) seen[{row.topic, row.key}] = {row.version, row.gone};
  versions.clear();
  for (const auto& row : state.published) versions[{row.topic, row.key}] = row.version;
  floors.clear();
  for (const auto& row : state.floors) floors[row.topic] = row.version;
  ended.clear();
  const auto steady = std::chrono::steady_clock::now();
  for (const auto* rows : {&state.seen, &state.published}) {
    for (const auto& row : *rows) {
      if (row.gone)
        ended.push_back(
            {steady + options.forget_after - row.age, rows == &state.published, {row.topic, row.key}, row.version});
    }
  }
  std::ranges::stable_sort(ended, {}, &Ended::forget_at);
  requests.clear();
  by_age.clear();
  for (const auto& row : state.requests) {
    requests[row.id] = row;
    by_age.emplace_back(row.at, row.id);
  }
  std::ranges::stable_sort(by_age, {}, [](const auto& item) { return item.first; });
  {
    std::lock_guard lock(mutex);
    saving.ended();
    cursors.clear();
    // Not lower than before: older snapshots may still be in the mailbox.
    for (const auto& [key, newest] : seen)
      breaks[key.first] = std::max(breaks[key.first], breaks_before(newest.version));
    for (const auto& [key, newest] : seen) {
      if (!newest.gone && is_kept(newest.version, breaks[key.first])) unconfirmed.insert(key.first);
    }
    for (const auto& row : state.cursors)
      cursors[{row.topic, row.partition}] = {row.next_offset, row.mark, row.history,
                                             row.anchor.value_or(store::LogAnchor{})};
    counters.epoch = state.epoch;
  }
  wake_at = last_now;  // at its first step the engine returns its wake-up time
  work_pending = true;
  feed.start_at(outbox_sequence);
  pool.clear();
  pool.add(state.open_intents);
  epoch = state.epoch;
  last_term = state.last_term;
  follow_term();
  loaded_term = state.term;  // last: relay and consumer restart from the values set above
  read_wake.notify();
  loaded = true;
  log::info("shard acquired", {{"shard", options.shard},
                               {"epoch", state.epoch},
                               {"rows", state.state.size()},
                               {"open_intents", state.open_intents.size()},
                               {"journal", journal_sequence}});
  return {};
}

void Host::Impl::follow_term() {
  const auto now = store->term();
  const std::lock_guard lock(mutex);
  history = {now.id, 0, now.ancestors};
  term = now.id;
  grown.notify_all();
}

bool Host::Impl::answer_reads() {
  std::deque<std::function<void(const Shell&)>> todo;
  {
    std::lock_guard lock(mutex);
    todo.swap(reads);
  }
  if (!todo.empty()) settle();  // a read shows what is durable
  for (const auto& fn : todo) fn(*shell);
  return !todo.empty();
}

bool Host::Impl::pump(Turn turn) {
  turned = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
               .count();
  const bool wrote = writing != nullptr;
  const bool read = answer_reads();
  if (lost || !loaded) return read || wrote;
  if (turn == Turn::kReads) {
    const std::lock_guard lock(mutex);
    if (!is_due()) return read;
  }
  auto batch = std::make_unique<Batch>();
  const bool taken = take(*batch, turn);
  // What a snapshot omits follows from all that is applied.
  const auto ends = [](const Pending& p) { return p.snapshot_end != nullptr; };
  if (taken && std::ranges::any_of(batch->pending, ends) && !settle(batch.get())) return true;
  const bool writes = taken && collect(*batch);
  const bool worked = wrote || read || writes || !batch->pending.empty();  // nothing is written for duplicates
  if (writes) decide(*batch);
  if (settle(batch.get()) && writes) {
    if (batch->unwritable) {
      narrow(*batch);
    } else {
      write(std::move(batch));
    }
  }
  std::uint64_t again = 0;
  for (const auto& pending : retry) again += pending.size();
  const std::lock_guard lock(mutex);
  counters.to_retry = again;
  return worked;
}

// Also called without work, so that a rejected jump is reported at once.
Instant Host::Impl::time() {
  Instant now = clock.now();
  const bool rejected = clock.rejected() != Duration::zero();
  if (const auto steady = std::chrono::steady_clock::now(); rejected && steady >= next_clock_look && !writing) {
    next_clock_look = steady + kClockLook;
    if (const auto reference = store->server_now()) {
      clock.confirm(*reference);
      now = clock.now();
    }
  }
  const double ahead = std::chrono::duration<double>(clock.rejected()).count();
  bool changed = false;
  {
    const std::lock_guard lock(mutex);
    changed = (counters.clock_rejected_seconds > 0) != (ahead > 0);
    counters.clock_rejected_seconds = ahead;
  }
  if (changed && ahead > 0) {
    log::error(
        "the clock of the host jumped forward and that of the database did not; domain time continues without the jump: correct the "
        "clock (chronyc tracking)",
        {{"shard", options.shard}, {"ahead_seconds", ahead}});
  } else if (changed) {
    log::info("the clock of the host is accepted again", {{"shard", options.shard}});
  }
  return std::max(now, last_now);
}

bool Host::Impl::take(Batch& batch, Turn turn) {
  batch.now = time();
  if (!retry.empty()) {
    if (std::chrono::steady_clock::now() < retry_at) return false;
    batch.pending.swap(retry.front());
    batch.own_work = batch.pending.empty();
    retry.pop_front();
  } else {
    std::lock_guard lock(mutex);
    const bool timer = next_wake() && *next_wake() <= batch.now;
    if (turn == Turn::kAll || timer || !defers(std::chrono::steady_clock::now())) {
      batch.pending = mailbox.take(options.max_batch, kMaxBatchBytes);
      reads_wait = false;
    }
    counters.mailbox = mailbox.size();
  }
  drained.notify_all();
  return true;
}

std::optional<Instant> Host::Impl::next_wake() const { return writing ? writing->effects.wake_at : wake_at; }

// The reply to a request of the batch that is being written is not known to be durable yet.
void Host::Impl::postpone_repeats(Batch& batch) {
  if (!writing || writing->repeats.empty()) return;
  auto& all = batch.pending;
  const auto repeats = std::ranges::stable_partition(all, [&](const Pending& p) {
    return p.input.source != Source::kRequest || !writing->repeats.contains(p.input.id);
  });
  if (repeats.empty()) return;
  retry.emplace_back(std::make_move_iterator(repeats.begin()), std::make_move_iterator(repeats.end()));
  all.erase(repeats.begin(), repeats.end());
}

bool Host::Impl::collect(Batch& batch) {
  end_omitted(batch);
  postpone_repeats(batch);
  batch.withhold = true;
  for (std::size_t i = 0; i < batch.pending.size(); ++i) {
    auto& p = batch.pending[i];
    if (p.term != 0 && p.term != loaded_term)
      continue;  // read before a reload: it is read again from the current cursors
    if (p.at) {
      batch.cursors[*p.at] = p.read;
    }
    if (p.skip || p.denied || p.dropped || p.unreadable) continue;
    if (p.kept) {
      batch.seen[{p.input.name, p.input.key}] = {p.input.version, p.input.tombstone};
      continue;
    }
    if (p.refused) {
      if (p.input.source == Source::kBus)
        batch.seen[{p.input.name, p.input.key}] = {p.input.version, p.input.tombstone};
      batch.withhold = p.settled;
      continue;
    }
    if (p.input.source == Source::kBus) {
      const TopicKey key{p.input.name, p.input.key};
      const Seen* known = find_first(key, {&batch.seen, writing ? &writing->seen : nullptr, &seen});
      const std::uint64_t last = known != nullptr ? known->version : 0;
      if (p.input.version <= last && !p.omitted) {
        ++batch.duplicates;
        continue;
      }
      // An event has the complete state of its key, so the newest version replaces any missing ones.
      // A snapshot has no position, and jumps in it are expected.
      if (p.at && last != 0 && p.input.version > last + 1 && version_after(1, last) > p.input.version) ++batch.gaps;
      batch.seen[key] = {p.input.version, p.input.tombstone};
    } else if (p.input.source == Source::kRequest && !p.input.id.empty()) {
      if (auto old = requests.find(p.input.id); old != requests.end()) {
        if (p.done) p.done(old->second.reply);
        p.done = {};
        continue;
      }
      auto [first, is_new] = batch.repeats.try_emplace(p.input.id);
      if (!is_new) {
        first->second.push_back(i);
        continue;
      }
    }
    batch.inputs.push_back(p.input);
    batch.origin.push_back(i);
  }
  if (!batch.origin.empty()) batch.withhold = false;
  if (next_wake() && *next_wake() <= batch.now) batch.inputs.push_back(Input{});
  const bool refusal = std::ranges::any_of(batch.pending, [](const Pending& p) { return p.refused || p.denied; });
  return !batch.inputs.empty() || !batch.cursors.empty() || !batch.seen.empty() || prove_lead || batch.own_work ||
         refusal;
}

void Host::Impl::decide(Batch& batch) {
  shell->step(batch.inputs, batch.now, batch.effects, batch.poison);
  batch.decided = true;
  auto& c = batch.commit;
  c.now = batch.now;
  c.journal_sequence = (writing ? writing->commit.journal_sequence : journal_sequence) + 1;
  c.state = std::move(batch.effects.state);
  c.appends = std::move(batch.effects.appends);
  if (options.digest_each_batch) c.digest = shell->digest();

  pb::JournalBatch journal;
  for (const auto& in : batch.inputs) {
    auto* row = journal.add_inputs();
    row->set_source(static_cast<std::uint32_t>(in.source));
    row->set_name(in.name);
    row->set_bytes(in.bytes);
    row->set_id(in.id);
    row->set_key(in.key);
    row->set_version(in.version);
    row->set_tombstone(in.tombstone);
    row->set_trace_parent(in.trace_parent);
    if (in.source == Source::kOutcome) c.intents_done.push_back(in.id);
  }
  c.journal = journal.SerializeAsString();

  batch.decision_id = fmt::format("{}/{}/{}", options.service, options.shard, c.journal_sequence);
  add_events(batch);
  if (batch.unwritable) return;

  c.intents = std::move(batch.effects.intents);
  std::uint64_t last_intent = intent_sequence + (writing ? writing->commit.intents.size() : 0);
  for (auto& intent : c.intents) intent.sequence = ++last_intent;
  for (const auto& [at, read] : batch.cursors) {
    c.cursors.push_back({at.topic, at.partition, read.next, read.mark, read.history});
    const auto* known =
        find_first(at, {writing ? &writing->cursors : nullptr, &cursors});  // only this thread writes them
    if (known == nullptr || known->anchor != read.anchor) c.cursors.back().anchor = read.anchor;
  }
  for (const auto& [key, newest] : batch.seen) c.seen.push_back({key.first, key.second, newest.version, newest.gone});
  for (const auto& p : batch.pending) {
    if (!p.refused) continue;
    const auto& in = p.input;
    if (in.source == Source::kOutcome) c.intents_done.push_back(in.id);
  }
  for (const auto& a : batch.effects.answers) {
    QM_ASSERT(a.input < batch.inputs.size(), "answer to input {} of {}", a.input, batch.inputs.size());
    const auto& in = batch.inputs[a.input];
    if (a.reply && !in.id.empty()) c.requests.push_back({in.id, *a.reply, batch.now});
  }
  audit(batch);
  forget(batch);
}

// An entry without the newest version of its key is stale: the key was created again, and its next deletion has its
// own entry.
void Host::Impl::forget(Batch& batch) {
  const auto steady = std::chrono::steady_clock::now();
  const std::size_t first = writing ? writing->forgotten : 0;
  for (std::size_t i = first; i < ended.size() && i < first + kForgetAtOnce && ended[i].forget_at <= steady; ++i) {
    const Ended& e = ended[i];
    ++batch.forgotten;
    if (e.ours) {
      const auto* known = find_first(e.key, {&batch.versions, writing ? &writing->versions : nullptr, &versions});
      if (known == nullptr || *known != e.version) continue;
    } else {
      const auto* known = find_first(e.key, {&batch.seen, writing ? &writing->seen : nullptr, &seen});
      if (known == nullptr || known->version != e.version) continue;
    }
    (e.ours ? batch.commit.forget_published : batch.commit.forget_seen).push_back({e.key.first, e.key.second});
  }
}

void Host::Impl::note_ended(const store::Commit& commit) {
  for (const auto& row : commit.forget_seen) seen.erase({row.topic, row.key});
  for (const auto& row : commit.forget_published) {
    const auto known = versions.find({row.topic, row.key});
    floors[row.topic] = std::max(floors[row.topic], known->second);
    versions.erase(known);
  }
  const auto forget_at = std::chrono::steady_clock::now() + options.forget_after;
  for (const auto& row : commit.seen) {
    if (row.gone) ended.push_back({forget_at, false, {row.topic, row.key}, row.version});
  }
  for (const auto& row : commit.outbox) {
    if (row.tombstone) ended.push_back({forget_at, true, {row.topic, row.key}, row.key_version});
  }
}

bool Host::Impl::overlaps() const {
  if (shell->most_open() < 2 || !retry.empty()) return false;
  const std::lock_guard lock(mutex);
  return mailbox.size() >= options.overlap_from && reads.empty();
}

void Host::Impl::write(std::unique_ptr<Batch> batch) {
  const bool later = overlaps();
  const auto commit = [this, &commit = batch->commit] {
    const auto start = std::chrono::steady_clock::now();
    QM_CRASH_POINT("service.before_commit");
    auto outcome = store->commit(commit);
    QM_CRASH_POINT("service.after_commit");
    const std::lock_guard lock(mutex);
    counters.commit_seconds_sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  };
  // Without its thread the host is driven step by step: the transaction then takes place in settle().
  batch->outcome = std::async(later && threaded ? std::launch::async : std::launch::deferred, commit);
  writing = std::move(batch);
  if (!later) settle();
}

}  // namespace qm::service
