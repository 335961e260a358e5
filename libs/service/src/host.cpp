#include "qm/service/host.hpp"

#include "host_impl.hpp"
#include "qm/base/log.hpp"
#include "qm/base/text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <set>

namespace qm::service {

namespace {
/// The longest time without an iteration of a loop; alive() allows 10 s.
constexpr SteadyDuration kIdle = std::chrono::seconds(1);
constexpr SteadyDuration kAgain = std::chrono::milliseconds(100);
/// Inputs whose share of the cost of a transaction is small: a batch does not wait for more.
constexpr std::size_t kEnough = 64;
/// While events follow one another, the rows that were sent are deleted together.
constexpr SteadyDuration kClearEvery = std::chrono::milliseconds(250);
}  // namespace

Host::Host(HostOptions options, std::unique_ptr<Shell> shell, std::unique_ptr<store::Store> store,
           std::shared_ptr<bus::Bus> bus, const DomainClock& clock, Executor* executor)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(shell), std::move(store), std::move(bus), clock,
                                   executor)) {}

Host::~Host() { stop(); }

Status Host::open(const std::function<bool()>& patient) {
  auto& m = *impl_;
  if (m.bus) {
    std::set<std::string> topics{bus::dead_letter(input_topic(m.options.service))};
    for (const auto* list : {&m.options.consumes, &m.options.produces}) {
      for (const auto& topic : *list) {
        topics.insert(topic);
        topics.insert(bus::dead_letter(topic));
      }
    }
    m.topics.assign(topics.begin(), topics.end());
    if (auto made = m.make_topics(); !made) {
      if (!patient || !made.error().retryable()) return fail(made.error().with_context("topics"));
      // Decisions need only the store: events wait in the outbox, and relay and consumer create the topics later.
      log::warn("the bus is not available, starting without it", {{"error", made.error().to_string()}});
    }
  }
  return m.open(patient);
}

void Host::start() {
  auto& m = *impl_;
  m.pool.start(m.options.executor_threads);
  m.threaded = true;
  m.engine_thread = std::jthread([&m](const std::stop_token& stop) { m.engine_loop(stop); });
  if (!m.bus) return;
  m.relay_thread = std::jthread([&m](const std::stop_token& stop) {
    SteadyInstant next_clear{};
    while (!stop.stop_requested()) {
      const std::uint64_t seen = m.written, led = m.term, cleared = m.cleared;
      const auto now = std::chrono::steady_clock::now();
      const bool sent = m.relay_once(now >= next_clear);
      if (m.cleared != cleared) next_clear = now + kClearEvery;
      if (sent) continue;
      // What could not be sent or deleted is tried again soon.
      const bool all = m.relayed >= seen && m.cleared >= m.relayed && m.announced == led && !m.store_away;
      std::unique_lock lock(m.mutex);
      m.grown.wait_for(lock, stop, all ? kIdle : kAgain, [&] { return m.written != seen || m.term != led; });
    }
  });
  if (!m.options.consumes.empty()) {
    m.consumer_thread = std::jthread([&m](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        // poll waits by itself; without a consumer or capacity in the mailbox the wait is here.
        if (m.consume_once() || m.consumer) continue;
        std::unique_lock lock(m.mutex);
        m.drained.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; });
      }
    });
  }
}

void Host::Impl::wait_for_work(const std::stop_token& stop) {
  SteadyDuration wait = kIdle;
  if (wake_at && !lost) wait = std::min(wait, std::min(clock.slice(), clock.until(*wake_at)));
  const bool retries_soon = !retry.empty();
  if (retries_soon) wait = std::min<SteadyDuration>(wait, std::chrono::milliseconds(10));
  std::unique_lock lock(mutex);
  arrived.wait_for(lock, stop, wait,
                   [&] { return !reads.empty() || (!retries_soon && (!mailbox.empty() || (prove_lead && !lost))); });
}

bool Host::Impl::gather(const std::stop_token& stop) {
  if (!retry.empty() || writing) return true;
  std::unique_lock lock(mutex);
  if (arrived.wait_until(lock, stop, pace.next(), [&] { return is_due() || !reads.empty(); })) return is_due();
  if (work_pending || mailbox.empty()) return true;
  auto until = mailbox.since() + deferral();
  if (wake_at) until = std::min(until, std::chrono::steady_clock::now() + clock.until(*wake_at));
  arrived.wait_until(lock, stop, until, [&] { return is_due() || !mailbox.deferred() || !reads.empty(); });
  return true;  // collect() leaves inputs that are still deferred
}

bool Host::Impl::defers(SteadyInstant now) const {
  return !work_pending && !is_due() && mailbox.deferred() && now < mailbox.since() + deferral();
}

SteadyDuration Host::Impl::deferral() const {
  const auto domain = std::chrono::duration_cast<Duration>(options.defer);
  return std::min(options.defer, clock.until(clock.now() + domain));
}

bool Host::Impl::is_due() const {
  return reads_wait || mailbox.has_request() || mailbox.size() >= kEnough || mailbox.full() || (prove_lead && !lost);
}

void Host::Impl::engine_loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const bool due = gather(stop);
    const auto before = journal_sequence;
    const bool worked = pump(due ? Turn::kDue : Turn::kReads);
    if (journal_sequence != before) pace.written(std::chrono::steady_clock::now());
    if (!worked) wait_for_work(stop);
  }
  // Inputs accepted before the stop are still decided; an unavailable store ends the attempt.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  for (;;) {
    {
      std::lock_guard lock(mutex);
      if (mailbox.empty() && reads.empty() && retry.empty()) break;
    }
    if (lost || std::chrono::steady_clock::now() > deadline) break;
    if (!pump(Turn::kAll)) wait_for_work({});
  }
  settle();
}

void Host::stop() {
  auto& m = *impl_;
  if (m.stopping.exchange(true)) return;
  m.read_wake.notify();
  m.consumer_thread = {};
  m.pool.stop();
  if (m.engine_thread.joinable()) {
    m.engine_thread.request_stop();
    m.arrived.notify_all();
    m.engine_thread.join();
  }
  if (m.relay_thread.joinable()) {
    m.relay_thread.request_stop();
    m.relay_thread.join();
    while (m.relay_once(true)) {
    }
  }
  std::vector<Pending> left;
  {
    std::lock_guard lock(m.mutex);
    left = m.mailbox.take_all();
  }
  // Without its thread the host was driven step by step, and the transaction of this batch has not begun.
  if (m.writing) m.retry.push_front(std::move(std::exchange(m.writing, nullptr)->pending));
  for (auto& batch : m.retry) std::move(batch.begin(), batch.end(), std::back_inserter(left));
  m.retry.clear();
  for (auto& p : left) {
    if (p.done) p.done(fail(Error{Code::kUnavailable, "the service is stopping", {}, "send the call again"}));
  }
}

namespace {
std::int64_t seconds_since(SteadyInstant since) {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - since).count();
}
}  // namespace

/// Empty if ready.
std::string Host::Impl::not_ready() const {
  if (lost) return "another leader acquired the shard";
  {
    const std::lock_guard lock(mutex);
    if (saving.since) {
      return fmt::format("nothing could be saved to PostgreSQL for {} s: {}", seconds_since(*saving.since), saving.why);
    }
  }
  if (!loaded) return "the state is not loaded";
  if (store_away) return "the database is unavailable";
  const auto& answers = options.would_answer ? options.would_answer : options.may_answer;
  if (answers && !answers()) return "this replica could not renew its lease, another may lead";
  return {};
}

bool Host::ready() const { return impl_->not_ready().empty(); }

Readiness Host::readiness() const {
  if (const auto why = impl_->not_ready(); !why.empty()) return Readiness().unless(false, why);
  std::string text = "ok";
  if (const auto retrying = impl_->pool.retrying()) {
    text += fmt::format("; retrying calls to Kubernetes or the cloud for {} objects, the oldest for {} s: {}",
                        retrying->keys, seconds_since(retrying->since), retrying->error);
  }
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [what, failing] : {std::pair("events could not be sent to the bus", &impl_->sending),
                                      std::pair("sent events could not be deleted from the outbox", &impl_->clearing),
                                      std::pair("the bus could not be read", &impl_->reading)}) {
    if (failing->since) text += fmt::format("; {} for {} s: {}", what, seconds_since(*failing->since), failing->why);
  }
  if (const auto ahead = impl_->counters.clock_rejected_seconds; ahead > 0) {
    text += fmt::format("; the clock of the host is {:.0f} s ahead of that of the database and is not used", ahead);
  }
  for (const auto& [topic, paused] : impl_->paused) {
    text += fmt::format("; {} is not read for {} s, because messages are missing and its snapshot is not available: {}",
                        topic, seconds_since(paused.since), paused.why);
  }
  return {true, text};
}

bool Host::alive() const {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  return !impl_->lost && (impl_->turned == 0 || now - impl_->turned < 10'000);
}

namespace {
/// A request id without the name of its caller (rpc::input_of).
std::string_view own_part(const Input& input) {
  std::string_view id = input.id;
  if (!input.caller.empty() && id.starts_with(input.caller + "/")) id.remove_prefix(input.caller.size() + 1);
  return id;
}

Status unproven() { return fail(Error{Code::kUnavailable, "another replica may lead", {}, "send the call again"}); }
}  // namespace

Status Host::submit(Input input, ReplyFn done) {
  auto& m = *impl_;
  if (input.source == Source::kRequest) {
    QM_TRY(check_request_id(own_part(input)));
    if (m.options.may_answer && !m.options.may_answer()) return unproven();
  }
  {
    std::lock_guard lock(m.mutex);
    if (m.stopping) return fail(Error{Code::kUnavailable, "the service is stopping", {}, "send the call again"});
    if (m.lost) return fail(Error{Code::kUnavailable, "another replica is the leader now", {}, "send the call again"});
    if (m.mailbox.full()) {
      ++m.counters.refused;
      return fail(Error{
          Code::kExhausted,
          fmt::format("{} has {} inputs waiting, {} bytes", m.options.service, m.mailbox.size(), m.mailbox.bytes()),
          {},
          "try again in a second"});
    }
    m.mailbox.push({std::move(input), std::move(done), std::nullopt, 0});
    m.counters.mailbox = m.mailbox.size();
  }
  m.arrived.notify_one();
  return {};
}

Status Host::can_answer() const {
  const auto& m = *impl_;
  if (m.options.may_answer && !m.options.may_answer()) return unproven();
  if (m.stopping || m.lost || !m.loaded)
    return fail(Error{Code::kUnavailable, "the service is not serving", {}, "try again in a second"});
  return {};
}

Status Host::read_async(std::function<void(const Shell&)> fn) {
  auto& m = *impl_;
  QM_TRY(can_answer());
  {
    std::lock_guard lock(m.mutex);
    if (m.reads.size() >= m.options.mailbox) {
      ++m.counters.refused;
      return fail(Error{Code::kExhausted, "too many reads are queued", {}, "try again in a second"});
    }
    m.reads.push_back(std::move(fn));
    m.reads_wait = true;
  }
  m.arrived.notify_one();
  return {};
}

void Host::read(const std::function<void(const Shell&)>& fn) { impl_->read(fn, true); }
void Host::peek(const std::function<void(const Shell&)>& fn) { impl_->read(fn, false); }

void Host::Impl::read(const std::function<void(const Shell&)>& fn, bool waits) {
  if (!engine_thread.joinable()) {  // after the last step, which may not be written yet
    fn(*shell);
    return;
  }
  std::promise<void> ran;
  // Exceeds the bound, in any state: the caller waits, so there is at most one per caller.
  {
    std::lock_guard lock(mutex);
    reads.push_back([&](const Shell& state) {
      fn(state);
      ran.set_value();
    });
    reads_wait = reads_wait || waits;
  }
  arrived.notify_one();
  ran.get_future().wait();
}

Result<std::uint64_t> Host::follow(std::uint64_t after, std::function<void(const FeedEvent&)> fn) {
  return impl_->feed.follow(after, std::move(fn));
}
void Host::unfollow(std::uint64_t handle) { impl_->feed.unfollow(handle); }
std::uint64_t Host::feed_position() const { return impl_->feed.position(); }

store::HistoryPosition Host::history() const {
  const std::lock_guard lock(impl_->mutex);
  auto out = impl_->history;
  out.sequence = impl_->written;
  return out;
}

Result<std::vector<store::OutboxRow>> Host::snapshot(const std::string& topic, const std::string& after_key,
                                                     std::size_t max, const std::string& only_key, bool ended) {
  // An empty response would mean "no live key" if the wrong service was called.
  const auto& own = impl_->options.produces;
  if (std::find(own.begin(), own.end(), topic) == own.end()) {
    return fail(Error{Code::kInvalid, fmt::format("topic \"{}\" is not one of {}", topic, impl_->options.service),
                      "topic", fmt::format("ask for {}", fmt::join(own, " or "))});
  }
  return impl_->store->snapshot(topic, after_key, max, only_key, ended);
}

bool Host::consume_once() { return impl_->consume_once(); }
bool Host::pump() { return impl_->pump(Impl::Turn::kAll); }
bool Host::relay_once() { return impl_->relay_once(true); }
bool Host::execute_once() { return impl_->pool.once(); }

Host::Counters Host::counters() const {
  Counters c;
  {
    std::lock_guard lock(impl_->mutex);
    c = impl_->counters;
  }
  c.open_intents = impl_->pool.open();
  c.intents_at_once = static_cast<std::uint64_t>(impl_->pool.most_at_once());
  return c;
}

Json Host::debug_state() {
  const Counters c = counters();
  Json host = Json::object({{"service", impl_->options.service},
                            {"shard", impl_->options.shard},
                            {"epoch", c.epoch},
                            {"ready", ready()},
                            {"batches", c.batches},
                            {"inputs", c.inputs},
                            {"events", c.events},
                            {"intents", c.intents},
                            {"open_intents", c.open_intents},
                            {"intents_at_once", c.intents_at_once},
                            {"outcomes", c.outcomes},
                            {"duplicates", c.duplicates},
                            {"gaps", c.gaps},
                            {"history_breaks", c.history_breaks},
                            {"abandoned", c.abandoned},
                            {"poison", c.poison},
                            {"undone", c.undone},
                            {"reloads", c.reloads},
                            {"rollbacks", c.rollbacks},
                            {"too_large", c.too_large},
                            {"parked", c.parked},
                            {"published", c.published},
                            {"send_failures", c.send_failures},
                            {"outbox_backlog", c.outbox_backlog},
                            {"mailbox", c.mailbox},
                            {"to_retry", c.to_retry},
                            {"paused_topics", c.paused_topics},
                            {"refused", c.refused},
                            {"clock_rejected_seconds", c.clock_rejected_seconds},
                            {"bus_lag", c.bus_lag}});
  StateDump dump(kDumpObjects);
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  std::string digest;
  do {
    read([&](const Shell& shell) {
      last = impl_->journal_sequence;
      if (!first) first = last;
      digest = fmt::format("{:016x}", impl_->rows_digest.value());
      dump.begin_turn();
      shell.debug_state(dump);
    });
  } while (!dump.complete());
  return Json::object({{"host", std::move(host)},
                       {"journal", Json::object({{"first", *first}, {"last", last}})},
                       {"digest", digest},
                       {"engine", dump.take()}});
}

}  // namespace qm::service
