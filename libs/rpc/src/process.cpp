#include "qm/rpc/process.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/json.hpp"

#include <chrono>
#include <cstdlib>
#include <pthread.h>
#include <signal.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace qm::rpc {

void export_host(metrics::Registry& registry, service::Host& host, const std::string& service) {
  using Counters = service::Host::Counters;
  struct Total {
    metrics::Counter handle;
    std::uint64_t Counters::*field;
    std::uint64_t last = 0;
  };
  const metrics::Labels labels{{"service", service}};
  auto totals = std::make_shared<std::vector<Total>>();
  const auto total = [&](const char* name, const char* help, std::uint64_t Counters::*field) {
    totals->push_back({registry.counter(name, help, labels), field});
  };
  total("qm_host_batches_total", "Committed batches.", &Counters::batches);
  total("qm_host_inputs_total", "Inputs applied.", &Counters::inputs);
  total("qm_host_events_total", "Events written to the outbox.", &Counters::events);
  total("qm_host_intents_total", "Intents written.", &Counters::intents);
  total("qm_host_duplicates_total", "Bus messages dropped as already applied.", &Counters::duplicates);
  total("qm_host_gaps_total", "Versions that were never received: the newest state of the key was applied over them.",
        &Counters::gaps);
  total("qm_host_history_breaks_total", "Topics replaced by a snapshot because their producer's database lost events.",
        &Counters::history_breaks);
  total("qm_host_abandoned_total", "Bus messages dropped because the database of their producer lost them.",
        &Counters::abandoned);
  total("qm_host_poison_total", "Inputs sent to the dead-letter topic.", &Counters::poison);
  total("qm_host_undone_total", "Batches rolled back because they were not committed.", &Counters::undone);
  total("qm_host_reloads_total", "Reloads of the engine from its rows.", &Counters::reloads);
  total("qm_host_rollbacks_total", "Times that the database was found behind commits that it had acknowledged.",
        &Counters::rollbacks);
  total("qm_host_published_total", "Outbox rows sent to the bus.", &Counters::published);
  total("qm_host_send_failures_total", "Sends to the bus that failed or whose answer was lost; the rows stay.",
        &Counters::send_failures);
  total("qm_host_too_large_total", "Inputs refused and events withheld because an event would be too long for the bus.",
        &Counters::too_large);
  total("qm_host_parked_total", "Events that the bus refused as too long; each has a dead letter.", &Counters::parked);
  total("qm_host_outcomes_total", "Outcomes of intents applied.", &Counters::outcomes);
  total("qm_host_refused_total", "Inputs refused because the mailbox was full.", &Counters::refused);

  struct Level {
    metrics::Gauge handle;
    std::uint64_t Counters::*field;
  };
  auto levels = std::make_shared<std::vector<Level>>();
  const auto gauge = [&](const char* name, const char* help, std::uint64_t Counters::*field) {
    levels->push_back({registry.gauge(name, help, labels), field});
  };
  gauge("qm_host_mailbox", "Inputs waiting in the mailbox.", &Counters::mailbox);
  gauge("qm_host_paused_topics", "Topics that are not read: messages are missing and the snapshot is not available.",
        &Counters::paused_topics);
  gauge("qm_host_outbox_backlog", "Outbox rows not yet on the bus.", &Counters::outbox_backlog);
  gauge("qm_host_open_intents", "Intents without an outcome.", &Counters::open_intents);
  gauge("qm_host_intents_at_once", "Intents that may be executed at once.", &Counters::intents_at_once);
  gauge("qm_host_epoch", "The leader's epoch.", &Counters::epoch);
  auto clock =
      registry.gauge("qm_host_clock_rejected_seconds",
                     "By how much the clock of the host is ahead of domain time, because a jump was rejected.", labels);
  auto lag = registry.gauge("qm_host_bus_lag", "Bus messages not yet applied.", labels);
  auto ready = registry.gauge("qm_host_ready", "1 while loaded and committing.", labels);
  auto seconds = registry.counter("qm_host_commit_seconds_total", "Time spent in commits.", labels);
  auto parsed = registry.counter("qm_json_parsed_bytes_total", "Bytes of JSON that the process parsed.", labels);

  registry.on_scrape([&host, totals, levels, clock, lag, ready, seconds, parsed, last_seconds = 0.0,
                      last_parsed = std::uint64_t{0}]() mutable {
    const auto now = host.counters();
    for (auto& one : *totals) {
      one.handle.add(static_cast<double>(now.*one.field - one.last));
      one.last = now.*one.field;
    }
    for (auto& one : *levels) one.handle.set(static_cast<double>(now.*one.field));
    clock.set(now.clock_rejected_seconds);
    lag.set(static_cast<double>(now.bus_lag));
    ready.set(host.ready() ? 1 : 0);
    seconds.add(now.commit_seconds_sum - last_seconds);
    last_seconds = now.commit_seconds_sum;
    const std::uint64_t bytes = Json::parsed_bytes();
    parsed.add(static_cast<double>(bytes - last_parsed));
    last_parsed = bytes;
  });
}

namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

std::atomic<bool> shutting_down{false}, signal_taken{false};

/// Never destroyed: the thread of limit_shutdown() waits while the process exits.
struct Limit {
  std::mutex mutex;
  std::condition_variable changed;
  bool waiting = false;  ///< a thread is in wait_for_signal(), which reports the signal
};
Limit& limit() {
  static auto* one = new Limit;
  return *one;
}

void set_waiting(bool waiting) {
  const std::lock_guard lock(limit().mutex);
  limit().waiting = waiting;
  limit().changed.notify_all();
}

}  // namespace

void block_signals() {
  const auto set = ending_signals();
  const int rc = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  QM_ASSERT(rc == 0, "pthread_sigmask: {}", rc);
  // A peer that closes its socket is an error of that call, not the end of the process.
  signal(SIGPIPE, SIG_IGN);
}

bool signal_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

bool signal_received() { return signal_taken || signal_pending(); }

void wait_for_signal(const std::function<bool()>& also) {
  const auto set = ending_signals();
  const timespec slice{0, 500'000'000};  // for `also`: a signal ends the wait
  int number = -1;
  set_waiting(true);
  while (number < 0) {
    if (also && also()) return set_waiting(false);
    number = sigtimedwait(&set, nullptr, &slice);
  }
  signal_taken = true;
  shutdown_started();
  log::info("signal received, draining", {{"signal", number}});
  // The next signal finds this thread unblocked and the default action: termination.
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void shutdown_started() {
  const std::lock_guard lock(limit().mutex);
  shutting_down = true;
  limit().changed.notify_all();
}

void limit_shutdown(SteadyDuration timeout, int code) {
  std::thread([timeout, code] {
    constexpr auto kLook = std::chrono::milliseconds(500);
    // A pending signal is seen here only while no thread waits for it.
    for (std::unique_lock lock(limit().mutex); !shutting_down && !signal_pending();) {
      if (limit().waiting) {
        limit().changed.wait(lock);
      } else {
        limit().changed.wait_for(lock, kLook);
      }
    }
    std::this_thread::sleep_for(timeout);
    ::alarm(1);  // in case the log itself blocks
    log::error("shutdown exceeded its timeout, the process exits",
               {{"ms", std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()}});
    std::_Exit(code);
  }).detach();
}

}  // namespace qm::rpc
