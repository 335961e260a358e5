// The reaction to the outcome of a transaction: a batch is committed, or undone and retried, or the state is reloaded, or
// the process stops because another one leads.
#include "host_impl.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/log.hpp"
#include "trace.hpp"

#include <algorithm>

namespace qm::service {

namespace {
/// The reply to inputs without a reply of the engine: a watch or an outcome is confirmed once it is durable, dropped
/// or not.
Result<std::string> confirmation(const Pending& p) {
  if (p.refused && p.input.source == Source::kRequest) return fail(*p.refused);
  return std::string{};
}
}  // namespace

bool Host::Impl::settle(Batch* next) {
  if (!writing) return true;
  const auto batch = std::exchange(writing, nullptr);
  const auto outcome = batch->outcome.get();
  const bool durable = outcome && *outcome == store::CommitOutcome::kCommitted;
  if (!durable && next != nullptr) {
    if (next->decided) shell->undo();
    if (!next->pending.empty()) retry.push_front(std::exchange(next->pending, {}));
  }
  finish(*batch, outcome);
  return durable;
}

void Host::Impl::finish(Batch& batch, const Result<store::CommitOutcome>& outcome) {
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

  for (auto& a : batch.effects.answers) {
    if (a.input >= batch.origin.size()) continue;
    auto& p = batch.pending[batch.origin[a.input]];
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
