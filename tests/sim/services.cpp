#include "services.hpp"

#include "qm/base/digest.hpp"
#include "quartermaster/v1/journal.pb.h"

#include <algorithm>
#include <set>
#include <utility>

namespace qm::sim {
namespace {

constexpr store::LeaseTiming kTiming;
/// Period of polls and renewals during a fault; as in production.
constexpr SteadyDuration kBeat = std::chrono::milliseconds(250);
/// Total time of small steps, 1 ms a second, that JumpGuard follows in a whole run.
constexpr Duration kFollowed = std::chrono::seconds(20);

Status away() { return fail(Code::kUnavailable, "the database cannot be reached"); }

}  // namespace

/// Faults between a host and its disk: partitions, values that the database rejects, and planted bugs.
class FaultyStore final : public store::Store {
 public:
  FaultyStore(std::unique_ptr<store::Store> inner, Service& service, Process& process)
      : inner_(std::move(inner)), service_(service), process_(process), bug_(service.parts_.bug) {}

  Result<store::Loaded> acquire(const std::string& holder) override {
    if (service_.cut_off(process_)) service_.parts_.blocked(service_, process_);
    auto out = inner_->acquire(holder);
    if (!out) return out;
    if (const auto leads = store::lease_holder(service_.disk()); leads != holder)
      service_.parts_.broken(fmt::format("{} raised the epoch without the lease, which {} holds", holder, leads));
    if (bug_ == Bug::kClockBack) out->last_now -= std::chrono::minutes(10);
    if (const auto now = server_now()) out->server_now = *now;
    at_ = {.journal = out->journal_sequence, .outbox = out->outbox_sequence, .intents = out->intent_sequence};
    shift_ = {};
    return out;
  }
  Result<store::CommitOutcome> commit(const store::Commit& batch) override {
    if (service_.cut_off(process_)) return fail(away().error());
    // Like a value that PostgreSQL rejects: an object name with a NUL, a key that is too long for an index.
    if (batch.journal.find(kUnwritable) != std::string::npos)
      return fail(bug_ == Bug::kRetriesForEver ? Code::kExhausted : Code::kInvalid, "the database rejects a value");
    check_time(batch);
    store::Commit copy = batch;
    Random& random = *service_.parts_.random;
    if (bug_ == Bug::kRowNotWritten && !copy.state.empty() && random.chance(20)) copy.state.pop_back();
    if (bug_ == Bug::kClockBack && random.chance(50)) copy.now -= std::chrono::minutes(10);
    if (bug_ == Bug::kRollbackUnseen) renumber(copy);
    const auto cut = std::exchange(service_.cut_at_commit_, {});
    auto out = inner_->commit(copy);
    if (cut != SteadyDuration::zero()) service_.cut(process_, cut, random.chance(500));
    if (bug_ == Bug::kRollbackUnseen && out && *out == store::CommitOutcome::kRolledBack) {
      // Only the epoch is compared: the batch is written at the database's current position.
      const auto found = inner_->acquire(process_.holder);
      if (!found) return store::CommitOutcome::kEpochLost;
      copy = batch;
      shift_ = {.journal = at_.journal - found->journal_sequence,
                .outbox = at_.outbox - found->outbox_sequence,
                .intents = at_.intents - found->intent_sequence};
      renumber(copy);
      out = inner_->commit(copy);
    }
    if (out && *out == store::CommitOutcome::kCommitted) {
      at_.journal += batch.journal_sequence == 0 ? 0 : 1;
      at_.outbox += batch.outbox.size();
      at_.intents += batch.intents.size();
    }
    return out;
  }
  [[nodiscard]] store::Term term() const override { return inner_->term(); }
  Result<std::vector<store::OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) override {
    if (service_.cut_off(process_)) return fail(away().error());
    return inner_->read_outbox(bug_ == Bug::kRelayAhead ? std::max(after, service_.sent_) : after, max);
  }
  Status published(std::uint64_t sequence, std::uint64_t term) override {
    service_.sent_ = std::max(service_.sent_, sequence);
    return service_.cut_off(process_) ? away() : inner_->published(sequence, term);
  }
  Result<std::vector<store::OutboxRow>> snapshot(const std::string& topic, const std::string& after, std::size_t max,
                                                 const std::string& only_key, bool ended) override {
    if (service_.cut_off(process_)) return fail(away().error());
    return inner_->snapshot(topic, after, max, only_key, ended);
  }
  Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) override {
    return inner_->read_journal(after, max);
  }
  Result<Instant> server_now() override {
    if (service_.cut_off(process_)) return fail(away().error());
    if (bug_ == Bug::kJumpAccepted) return fail(Code::kUnimplemented, "the clocks are not compared");
    return service_.truth_.now();
  }

 private:
  // A clock follows a step of up to 10 s, and its own rate.
  void check_time(const store::Commit& batch) const {
    const Instant now = service_.truth_.now();
    const Duration drift = (now - service_.since_) * HostClock::kFastest / 1'000'000;
    const Duration ahead = batch.now - now;
    if (ahead > SystemClock::kMaxJump + drift + kFollowed) {
      service_.parts_.broken(fmt::format("{}: batch {} is {} s ahead of the database's clock", process_.holder,
                                         batch.journal_sequence, ahead.count() / 1'000'000));
    }
  }

  struct Numbers {
    std::uint64_t journal = 0, outbox = 0, intents = 0;
  };
  void renumber(store::Commit& batch) const {
    if (batch.journal_sequence != 0) batch.journal_sequence -= shift_.journal;
    for (auto& row : batch.outbox) row.sequence -= shift_.outbox;
    for (auto& row : batch.intents) row.sequence -= shift_.intents;
  }

  std::unique_ptr<store::Store> inner_;
  Service& service_;
  Process& process_;
  const Bug bug_;
  Numbers at_, shift_;
};

/// The external calls of one process: only the leader makes them, and calls for one key do not overlap.
class GuardedCalls final : public service::Executor {
 public:
  GuardedCalls(Service& service, Process& process) : service_(service), process_(process) {}

  Result<service::Outcome> execute(const store::IntentRow& intent) override {
    const auto now = std::chrono::steady_clock::now();
    for (const auto& other : service_.processes_) {
      if (other->number != process_.number && other->leads(now))
        service_.parts_.broken(fmt::format("{} acts while {} leads", process_.holder, other->holder));
    }
    if (!under_way_.insert(intent.key).second)
      service_.parts_.broken(fmt::format("two calls for {} of {} at once", intent.key, service_.name()));
    const auto reloads = process_.host->counters().reloads;
    auto out = service_.parts_.executor->execute(intent);
    if (under_way_.size() == 1) service_.parts_.in_call(service_);
    if (process_.host->counters().reloads != reloads) {
      ++service_.counts_.overlaps;
      // Like an executor pool that loses its calls in progress on a reload.
      if (service_.parts_.bug == Bug::kCallsOverlap && process_.host->counters().open_intents > 0)
        (void)execute(intent);
    }
    under_way_.erase(intent.key);
    return out;
  }
  [[nodiscard]] std::optional<service::Outcome> superseded(const store::IntentRow& intent,
                                                           const store::IntentRow& later) const override {
    return service_.parts_.executor->superseded(intent, later);
  }
  service::Outcome failed(const store::IntentRow& intent, const Error& error) override {
    return service_.parts_.executor->failed(intent, error);
  }

 private:
  Service& service_;
  Process& process_;
  std::set<std::string> under_way_;
};

namespace {

class ForgetfulShell final : public service::Shell {
 public:
  explicit ForgetfulShell(std::unique_ptr<service::Shell> inner) : inner_(std::move(inner)) {}
  Status load(std::span<const store::StateRow> rows) override { return inner_->load(rows); }
  void step(std::span<const service::Input> batch, Instant now, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>& poison) override {
    inner_->step(batch, now, out, poison);
  }
  void undo() override { inner_->commit(); }
  void commit() override { inner_->commit(); }
  [[nodiscard]] std::uint64_t digest() const override { return inner_->digest(); }
  void debug_state(service::StateDump& out) const override { inner_->debug_state(out); }
  [[nodiscard]] const service::Shell& inner() const { return *inner_; }

 private:
  std::unique_ptr<service::Shell> inner_;
};

}  // namespace

Service::Service(Parts parts, const DomainClock& clock)
    : truth_(clock), since_(clock.now()), parts_(std::move(parts)), disk_(store::make_memory_disk()) {
  for (int i = 0; i < 2; ++i) {
    processes_[static_cast<std::size_t>(i)] = std::make_unique<Process>(i, clock);
    begin(*processes_[static_cast<std::size_t>(i)]);
  }
}

Service::~Service() {
  for (auto& process : processes_) process->host.reset();
}

const service::Shell& Service::unwrapped(const service::Shell& shell) {
  const auto* forgetful = dynamic_cast<const ForgetfulShell*>(&shell);
  return forgetful == nullptr ? shell : forgetful->inner();
}

bool Service::up() const {
  const Process& p = *processes_[leader_];
  return p.host != nullptr && p.stopped_for == 0 && !p.lost;
}

bool Service::has_leader() const { return processes_[leader_]->host != nullptr; }

bool Service::cut_off(const Process& process) const { return std::chrono::steady_clock::now() < process.cut_until; }

// ---- processes and their leases ----

void Service::begin(Process& p) {
  ++p.lives;
  p.holder = fmt::format("{}-{}.{}", name(), p.number, p.lives);
  p.state = std::make_unique<store::LeaseState>(kTiming);
  p.lease = store::open_memory_lease(disk_);
  p.claimed = p.lost = p.rolled_back = false;
  p.clock.restart_process();
}

namespace {
void add(Counts& to, const service::Host::Counters& c) {
  to.batches += c.batches;
  to.undone += c.undone;
  to.reloads += c.reloads;
  to.duplicates += c.duplicates;
  to.rollbacks += c.rollbacks;
  to.breaks += c.history_breaks;
  to.abandoned += c.abandoned;
}
}  // namespace

Counts Service::counts() const {
  Counts out = counts_;
  for (const auto& p : processes_) {
    if (p->host) add(out, p->host->counters());
    out.rejections += p->clock.rejections();
  }
  return out;
}

void Service::end(Process& p) {
  if (p.host) add(counts_, p.host->counters());
  p.host.reset();
  p.executor.reset();
  p.state.reset();
  p.lease.reset();
}

void Service::kill(Process& p, int turns) {
  if (!p.running() || p.in_host > 0) return;
  if (p.host) ++counts_.crashes;
  parts_.note(fmt::format("{} is killed", p.holder));
  end(p);
  p.down_for = turns;
  p.stopped_for = 0;
}

void Service::turn() {
  for (auto& p : processes_) {
    if (p->stopped_for > 0) --p->stopped_for;
    if (!p->running() && p->down_for-- <= 0) begin(*p);
  }
}

bool Service::quiet() const {
  const auto now = std::chrono::steady_clock::now();
  const bool sound = std::ranges::all_of(processes_, [&](const auto& p) {
    return p->running() && p->stopped_for == 0 && !p->lost && now - p->cut_until > std::chrono::seconds(10);
  });
  return sound && processes_[leader_]->host != nullptr && processes_[leader_]->leads(passed_);
}

void Service::pass() {
  const auto now = std::chrono::steady_clock::now();
  const auto step = quiet() ? now - passed_ : kBeat;
  do {
    passed_ = std::min(now, passed_ + step);
    const auto at = passed_;
    for (auto& p : processes_) beat(*p, at);
    check_leaders(at);
  } while (passed_ < now);
}

void Service::check_leaders(SteadyInstant at) {
  if (processes_[0]->leads(at) && processes_[1]->leads(at))
    parts_.broken(fmt::format("{} and {} lead at once", processes_[0]->holder, processes_[1]->holder));
}

void Service::beat(Process& p, SteadyInstant at) {
  if (!p.running() || p.stopped_for > 0) return;
  const bool away = at < p.cut_until;
  if (!p.claimed) return look(p, at);
  if (p.state->lost() || p.lost) {
    if (p.in_host > 0) return;
    const bool overtaken = p.state->lost();
    if (parts_.bug == Bug::kNotObservedAgain && p.rolled_back && !overtaken) {
      // The state is read back, and the reports of watches and agents are considered known.
      add(counts_, p.host->counters());
      p.host.reset();
      p.lost = p.rolled_back = false;
      return open_host(p, false);
    }
    parts_.note(fmt::format("{} {}", p.holder, overtaken ? "was deposed" : "lost its shard"));
    counts_.deposed += overtaken ? 1 : 0;
    if (!away && p.state->release()) (void)store::open_memory_lease(disk_)->release(p.holder);
    end(p);
    begin(p);
    return;
  }
  if (!away && !p.lease) p.lease = store::open_memory_lease(disk_);
  const auto own = p.clock.steady(at);
  p.state->renewed(away ? Result<store::Renewal>(fail(sim::away().error())) : p.lease->renew(p.holder, p.holder), own,
                   own);
  // A restored database names an earlier leader, which is still running.
  if (!away && !p.state->lost() && p.host && !p.lost && !processes_[leader_]->host) {
    leader_ = static_cast<std::size_t>(p.number);
    parts_.opened(*this);
  }
}

void Service::look(Process& p, SteadyInstant at) {
  if (!p.lease && at >= p.cut_until) p.lease = store::open_memory_lease(disk_);
  auto view = at < p.cut_until ? Result<store::LeaseView>(fail(sim::away().error())) : p.lease->look();
  const auto own = p.clock.steady(at);
  // Like a replica that treats the end of a session as a release.
  if (parts_.bug == Bug::kClaimsEarly && view && !view->session) view->released = true;
  if (!p.state->looked(view, own)) return;
  const auto claimed = p.lease->claim(view->beat, p.holder);
  if (!claimed || !*claimed) return;
  p.state->claimed(p.holder, own, own);
  p.claimed = true;
  ++counts_.claims;
  parts_.note(fmt::format("{} claims the lease of {}", p.holder, view->holder.empty() ? "none" : view->holder));
  open_host(p);
}

void Service::open_host(Process& p, bool begins) {
  auto shell = parts_.shell();
  if (parts_.bug == Bug::kUndoForgotten) shell = std::make_unique<ForgetfulShell>(std::move(shell));
  auto options = parts_.options;
  options.holder = p.holder;
  options.may_act = [&p] { return p.leads(std::chrono::steady_clock::now()); };
  options.may_answer = [&p] { return p.state->may_answer(p.clock.steady(std::chrono::steady_clock::now())); };
  options.on_lost = [&p] { p.lost = true; };
  options.on_rollback = [&p] { p.rolled_back = true; };
  if (parts_.executor != nullptr) p.executor = std::make_unique<GuardedCalls>(*this, p);
  const bool fenced = parts_.bug != Bug::kUnfenced;
  p.host = std::make_unique<service::Host>(std::move(options), std::move(shell),
                                           std::make_unique<FaultyStore>(store::open_memory(disk_, fenced), *this, p),
                                           parts_.bus, p.clock, p.executor.get());
  if (const auto opened = p.host->open(); !opened)
    return parts_.broken(fmt::format("{} cannot start: {}", p.holder, opened.error().to_string()));
  leader_ = static_cast<std::size_t>(p.number);
  const auto last = store::look_at(*disk_).journal_sequence;
  const auto journal = store::open_memory(disk_)->read_journal(last == 0 ? 0 : last - 1, 1);
  std::uint64_t digest = 0;
  read([&](const service::Shell& of) { digest = of.digest(); });
  if (!journal->empty() && journal->back().digest != digest) {
    parts_.broken(
        fmt::format("{} reads another state back than batch {} had: {}", name(), journal->back().sequence, digest));
  }
  if (begins) parts_.opened(*this);
}

// ---- steps ----

bool Service::guarded(Process& p, const std::function<bool(service::Host&)>& fn) {
  ++p.in_host;
  try {
    const bool any = fn(*p.host);
    --p.in_host;
    return any;
  } catch (const Crash&) {
    // Within nested calls: only the state on the disk survives.
    if (--p.in_host > 0) throw;
    parts_.note(fmt::format("{} dies", p.holder));
    ++counts_.crashes;
    end(p);
    p.down_for = static_cast<int>(parts_.random->between(0, 15));
    return true;
  }
}

namespace {
bool one_step(service::Host& host, Service::Step what) {
  switch (what) {
    case Service::Step::kConsume:
      return host.consume_once();
    case Service::Step::kPump:
      return host.pump();
    case Service::Step::kRelay:
      return host.relay_once();
    case Service::Step::kExecute:
      return host.execute_once();
  }
  return false;
}
}  // namespace

bool Service::step(Step what) {
  if (!up()) return false;
  return guarded(leader(), [&](service::Host& host) { return one_step(host, what); });
}

void Service::step_deposed(Step what) {
  Process& p = other();
  if (p.host == nullptr || p.stopped_for > 0 || p.in_host > 0) return;
  (void)guarded(p, [&](service::Host& host) { return one_step(host, what); });
}

bool Service::idle() {
  if (!up()) return false;
  const auto c = host().counters();
  return c.mailbox == 0 && c.to_retry == 0 && c.open_intents == 0 && c.bus_lag <= 0 && c.outbox_backlog == 0 &&
         c.paused_topics == 0;
}

// ---- faults ----

void Service::cut(Process& p, SteadyDuration for_how_long, bool session_ends) {
  if (!p.running()) return;
  parts_.note(fmt::format("{} cannot reach its database for {} ms", p.holder,
                          std::chrono::duration_cast<std::chrono::milliseconds>(for_how_long).count()));
  p.cut_until = std::chrono::steady_clock::now() + for_how_long;
  if (session_ends) p.lease.reset();
}

void Service::cut_in_commit(SteadyDuration for_how_long, bool really_committed) {
  store::plant_outcome(*disk_, store::CommitOutcome::kInDoubt, really_committed);
  cut_at_commit_ = for_how_long;
}

void Service::restore(std::size_t copy) {
  const auto now = store::position(*disk_), then = store::position(*disk_, copy);
  parts_.note(fmt::format("the database of {} is restored to {} commits before", name(), now.commits - then.commits));
  counts_.lost_events += now.outbox - then.outbox;
  ++counts_.restores;
  store::restore_disk(*disk_, copy);
}

std::vector<store::Store::JournalRow> Service::journal() const {
  return *store::open_memory(disk_)->read_journal(0, SIZE_MAX);
}

void Service::replay(std::uint64_t* hash) {
  auto shell = parts_.shell();
  Digest total;
  Instant last{};
  for (const auto& row : journal()) {
    if (row.now < last) {
      parts_.broken(fmt::format("{}: batch {} is {} us earlier than the one before", name(), row.sequence,
                                (last - row.now).count()));
    }
    last = row.now;
    quartermaster::v1::JournalBatch batch;
    if (!batch.ParseFromString(row.bytes)) return parts_.broken(name() + ": a journal row cannot be read");
    std::vector<service::Input> inputs;
    for (const auto& in : batch.inputs()) {
      service::Input input;
      input.source = static_cast<service::Source>(in.source());
      input.name = in.name();
      input.bytes = in.bytes();
      input.id = in.id();
      input.key = in.key();
      input.version = in.version();
      input.tombstone = in.tombstone();
      input.trace_parent = in.trace_parent();
      inputs.push_back(std::move(input));
    }
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell->step(inputs, row.now, effects, poison);
    if (shell->digest() != row.digest) {
      std::string inputs_seen;
      for (const auto& in : inputs) inputs_seen += fmt::format(" {}/{}/{}", in.name, in.key, in.id);
      return parts_.broken(
          fmt::format("{}: a replay of batch {} reaches another state, with{}", name(), row.sequence, inputs_seen));
    }
    shell->commit();
    total.add(static_cast<std::int64_t>(row.digest)).add(micros(row.now));
  }
  if (hash != nullptr) *hash ^= total.value() * 0x9e3779b97f4a7c15ULL + (*hash << 6);
}

}  // namespace qm::sim
