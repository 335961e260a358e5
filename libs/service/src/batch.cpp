// One batch, from the mailbox to the replies.
//
//   collect  consumes inputs, drops bus duplicates, replies to repeated requests from the stored replies
//   decide   one step of the engine at a `now` that never goes back; add_events (events.cpp) converts its events to rows
//   narrow   bisects a batch that cannot be written, to find the input that causes it (events.cpp)
//   write    one transaction: state, journal, outbox, intents, cursors; the store checks the term last
//   committed / take_back / reload   the reaction to the outcome of the transaction
//
// All changes of the batch to the host itself stay in Batch until the commit is known.
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

/// The reply to inputs without a reply of the engine: a watch or an outcome is confirmed once it is durable, dropped
/// or not.
Result<std::string> confirmation(const Pending& p) {
  if (p.refused && p.input.source == Source::kRequest) return fail(*p.refused);
  return std::string{};
}
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
  for (const auto& fn : todo) fn(*shell);
  return !todo.empty();
}

bool Host::Impl::pump(Turn turn) {
  turned = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
               .count();
  const bool read = answer_reads();
  if (lost || !loaded) return read;
  if (turn == Turn::kReads) {
    const std::lock_guard lock(mutex);
    if (!is_due()) return read;
  }
  Batch batch;
  const bool writes = collect(batch, turn);
  if (writes) decide(batch);
  if (writes && batch.unwritable) {
    narrow(batch);
  } else if (writes) {
    write(batch);
  }
  std::uint64_t again = 0;
  for (const auto& pending : retry) again += pending.size();
  const std::lock_guard lock(mutex);
  counters.to_retry = again;
  return writes || read || !batch.pending.empty();  // nothing is written for duplicates
}

// Also called without work, so that a rejected jump is reported at once.
Instant Host::Impl::time() {
  Instant now = clock.now();
  const bool rejected = clock.rejected() != Duration::zero();
  if (const auto steady = std::chrono::steady_clock::now(); rejected && steady >= next_clock_look) {
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

bool Host::Impl::collect(Batch& batch, Turn turn) {
  batch.now = time();
  if (!retry.empty()) {
    if (std::chrono::steady_clock::now() < retry_at) return false;
    batch.pending.swap(retry.front());
    batch.own_work = batch.pending.empty();
    retry.pop_front();
  } else {
    std::lock_guard lock(mutex);
    const bool timer = wake_at && *wake_at <= batch.now;
    if (turn == Turn::kAll || timer || !defers(std::chrono::steady_clock::now())) {
      batch.pending = mailbox.take(options.max_batch, kMaxBatchBytes);
      reads_wait = false;
    }
    counters.mailbox = mailbox.size();
  }
  drained.notify_all();
  end_omitted(batch);

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
      auto known = batch.seen.find(key);
      const std::uint64_t last = known != batch.seen.end() ? known->second.version
                                 : seen.contains(key)      ? seen[key].version
                                                           : 0;
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
  if (wake_at && *wake_at <= batch.now) batch.inputs.push_back(Input{});
  const bool refusal = std::ranges::any_of(batch.pending, [](const Pending& p) { return p.refused || p.denied; });
  return !batch.inputs.empty() || !batch.cursors.empty() || !batch.seen.empty() || prove_lead || batch.own_work ||
         refusal;
}

void Host::Impl::decide(Batch& batch) {
  shell->step(batch.inputs, batch.now, batch.effects, batch.poison);
  auto& c = batch.commit;
  c.now = batch.now;
  c.journal_sequence = journal_sequence + 1;
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
  for (std::size_t i = 0; i < c.intents.size(); ++i) c.intents[i].sequence = intent_sequence + i + 1;
  for (const auto& [at, read] : batch.cursors) {
    c.cursors.push_back({at.topic, at.partition, read.next, read.mark, read.history});
    const auto known = cursors.find(at);  // only this thread writes them
    if (known == cursors.end() || known->second.anchor != read.anchor) c.cursors.back().anchor = read.anchor;
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
  for (std::size_t i = 0; i < ended.size() && i < kForgetAtOnce && ended[i].forget_at <= steady; ++i) {
    const Ended& e = ended[i];
    ++batch.forgotten;
    if (e.ours) {
      const auto known = versions.find(e.key);
      if (known == versions.end() || known->second != e.version || batch.versions.contains(e.key)) continue;
    } else {
      const auto known = seen.find(e.key);
      if (known == seen.end() || known->second.version != e.version || batch.seen.contains(e.key)) continue;
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

void Host::Impl::write(Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  QM_CRASH_POINT("service.before_commit");
  auto outcome = store->commit(batch.commit);
  QM_CRASH_POINT("service.after_commit");
  {
    std::lock_guard lock(mutex);
    counters.commit_seconds_sum += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (!outcome) {
    // An error means not committed. kInvalid: a value that the database rejects, or that violates a constraint,
    // comes from an input, which is refused. kFailedPrecondition: numbers that are not dense, a violated law, end the
    // process. Any other error is a database that is unavailable, full or denies access: the batch is retried, and
    // /readyz reports the duration and the error.
    const Error& error = outcome.error();
    QM_ASSERT(error.code != Code::kFailedPrecondition, "batch {}: {}", batch.commit.journal_sequence,
              error.to_string());
    if (error.code == Code::kInvalid) {
      batch.unwritable = error;
      narrow(batch);
    } else {
      take_back(batch, error.to_string());
    }
    return;
  }
  switch (*outcome) {
    case store::CommitOutcome::kCommitted:
      committed(batch);
      break;
    case store::CommitOutcome::kNotCommitted:
      take_back(batch, "not committed");
      break;
    case store::CommitOutcome::kTermEnded:
      take_back(batch, "the session with the database was lost");
      follow_term();
      break;
    case store::CommitOutcome::kEpochLost:
      shell->undo();
      loaded = false;
      log::error("another leader acquired this shard; this process stops", {{"epoch", epoch}});
      retry.push_back(std::move(batch.pending));
      step_down("another replica is the leader now");
      break;
    case store::CommitOutcome::kRolledBack:
      shell->undo();
      rolled_back(batch);
      break;
    case store::CommitOutcome::kInDoubt:
      reload(batch);
      break;
  }
}

// Pending calls are finished now: a server stops only after its last call, and this host decides none of them.
void Host::Impl::step_down(const char* why) {
  {
    const std::lock_guard lock(mutex);
    lost = true;  // from here on no input is accepted
    read_wake.notify();
    retry.push_back(mailbox.take_all());
    counters.mailbox = 0;
  }
  for (auto& pending : std::exchange(retry, {})) {
    for (auto& p : pending) {
      if (p.done) p.done(fail(Error{Code::kUnavailable, why, {}, "send the call again"}));
    }
  }
  if (options.on_lost) options.on_lost();
}

void Host::Impl::committed(Batch& batch) {
  shell->commit();
  log_decided(batch);
  prove_lead = false;
  retries = 0;
  last_now = batch.now;
  wake_at = batch.effects.wake_at;
  work_pending = batch.effects.pending;
  journal_sequence = batch.commit.journal_sequence;
  rows_digest.apply(batch.commit.state);
  written = outbox_sequence += batch.commit.outbox.size();
  intent_sequence += batch.commit.intents.size();
  for (const auto& [key, newest] : batch.seen) seen[key] = newest;
  for (const auto& [key, version] : batch.versions) versions[key] = version;
  ended.erase(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(batch.forgotten));
  note_ended(batch.commit);
  for (const auto& row : batch.commit.requests) {
    requests[row.id] = row;
    by_age.emplace_back(row.at, row.id);
  }
  while (!by_age.empty() && by_age.front().first + std::chrono::hours(24) < batch.now) {
    const auto old = requests.find(by_age.front().second);
    if (old != requests.end() && old->second.at <= by_age.front().first) requests.erase(old);
    by_age.pop_front();
  }
  {
    std::lock_guard lock(mutex);
    saving.ended();
    for (const auto& [at, read] : batch.cursors) cursors[at] = read;
    if (!batch.cursors.empty()) ++cursor_moves;
    grown.notify_all();
    ++counters.batches;
    counters.inputs += batch.inputs.size();
    counters.events += batch.effects.events.size();
    counters.intents += batch.commit.intents.size();
    counters.outcomes += batch.commit.intents_done.size();
    counters.duplicates += batch.duplicates;
    counters.gaps += batch.gaps;
    counters.poison += batch.poison.size() + batch.unreadable;
    counters.too_large += batch.oversized;
    counters.outbox_backlog += batch.commit.outbox.size();
  }
  std::vector<store::IntentRow> intents = std::move(batch.commit.intents);
  feed.push(std::move(batch.feed));
  pool.add(std::move(intents));

  std::set<std::size_t> answered;
  for (auto& a : batch.effects.answers) {
    if (a.input >= batch.origin.size()) continue;
    auto& p = batch.pending[batch.origin[a.input]];
    answered.insert(batch.origin[a.input]);
    if (auto again = batch.repeats.find(p.input.id); again != batch.repeats.end()) {
      for (const std::size_t i : again->second) {
        if (batch.pending[i].done) batch.pending[i].done(a.reply);
        batch.pending[i].done = {};
      }
    }
    if (p.done) p.done(std::move(a.reply));
    p.done = {};
  }
  for (auto& p : batch.pending) {
    if (p.done) p.done(confirmation(p));
  }
}

// A client that sent a trace finds the resulting decisions in the log of each service; other decisions are logged
// only at level debug.
void Host::Impl::log_decided(const Batch& batch) {
  const auto write = [&](log::Level level, std::string_view trace) {
    log::write(level, "decided",
               {{"decision_id", batch.decision_id},
                {"trace_id", trace},
                {"inputs", batch.inputs.size()},
                {"events", batch.effects.events.size()},
                {"intents", batch.commit.intents.size()}});
  };
  const Traces traces(batch.inputs);
  for (const auto id : traces.ids()) write(log::Level::kInfo, id);
  if (traces.ids().empty() && log::level() <= log::Level::kDebug) write(log::Level::kDebug, "");
}

void Host::Impl::take_back(Batch& batch, const std::string& why) {
  shell->undo();
  if (retries++ % 16 == 0)
    log::warn("batch rolled back, will be retried", {{"why", why}, {"inputs", batch.pending.size()}});
  retry.push_front(std::move(batch.pending));
  retry_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::min(1000, 10 << std::min(retries, 7)));
  for (auto& p : retry.front()) p.settled = false;
  std::lock_guard lock(mutex);
  saving.again(why);
  ++counters.undone;
}

void Host::Impl::failed(Failing& what, const Error& error) {
  const std::lock_guard lock(mutex);
  what.again(error.to_string());
}

void Host::Impl::works(Failing& what) {
  const std::lock_guard lock(mutex);
  what.ended();
}

// Inputs of the lost commits that did not come from the bus are lost with them: watches, agents and cloud polls do
// not report an observation twice. So the process restarts and observes everything again.
void Host::Impl::rolled_back(Batch& batch) {
  log::error(
      "the database is behind commits that it acknowledged, as after a restore; this process restarts from the current state",
      {{"shard", options.shard}});
  {
    const std::lock_guard lock(mutex);
    ++counters.rollbacks;
  }
  loaded = false;
  if (options.on_rollback) options.on_rollback();
  retry.push_back(std::move(batch.pending));
  step_down("the database lost commits");
}

void Host::Impl::reload(Batch& batch) {
  const std::uint64_t attempted = batch.commit.journal_sequence, acknowledged = journal_sequence, led = term;
  log::warn("the outcome of a commit is not known; reloading the state", {{"journal", attempted}});
  {
    std::lock_guard lock(mutex);
    ++counters.reloads;
  }
  shell->undo();
  loaded = false;
  if (auto ok = open([this] { return !stopping; }); !ok) {
    log::error("cannot reload the state; this process stops", {{"error", ok.error().to_string()}});
    for (auto& p : batch.pending) {
      if (p.done)
        p.done(fail(Error{Code::kUnknown,
                          "it is not known whether the call was applied",
                          {},
                          "read the object's state, or repeat with the same request id"}));
    }
    step_down("another replica is the leader now");
    return;
  }
  // The numbers of another history do not concern this batch.
  if (journal_sequence < acknowledged || last_term != led) return rolled_back(batch);
  if (journal_sequence < attempted) {
    retry.push_front(std::move(batch.pending));
    return;
  }
  for (auto& p : batch.pending) {
    if (!p.done) continue;
    if (auto stored = requests.find(p.input.id); !p.input.id.empty() && stored != requests.end()) {
      p.done(stored->second.reply);
    } else if (p.input.source == Source::kRequest && !p.refused) {
      p.done(fail(Error{Code::kUnknown,
                        "the call was applied but its answer is lost",
                        {},
                        "read the object's state, or repeat with the same request id"}));
    } else {
      p.done(confirmation(p));
    }
  }
}

}  // namespace qm::service
