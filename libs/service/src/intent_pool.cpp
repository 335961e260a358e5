#include "intent_pool.hpp"

#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"

namespace qm::service {

namespace {
constexpr auto kPause = std::chrono::milliseconds(20);  ///< while due intents may not be started
}  // namespace

void IntentPool::add(std::vector<store::IntentRow> intents) {
  if (intents.empty() || executor_ == nullptr) return;
  {
    std::lock_guard lock(mutex_);
    open_ += intents.size();
    const auto now = std::chrono::steady_clock::now();
    for (auto& intent : intents) {
      Queue& queue = queues_[intent.key];
      if (queue.intents.empty() && !running_.contains(intent.key)) line_up(intent.key, now);
      queue.intents.push_back(std::move(intent));
    }
  }
  changed_.notify_all();
}

void IntentPool::start(int threads) {
  if (executor_ == nullptr) return;
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { loop(stop); });
  }
}

void IntentPool::stop() {
  for (auto& t : threads_) t.request_stop();
  changed_.notify_all();
  threads_.clear();
}

void IntentPool::clear() {
  std::lock_guard lock(mutex_);
  queues_.clear();
  waiting_.clear();
  open_ = 0;
  ++generation_;
}

std::size_t IntentPool::open() const {
  std::lock_guard lock(mutex_);
  return open_;
}

std::optional<IntentPool::Retrying> IntentPool::retrying() const {
  std::lock_guard lock(mutex_);
  std::optional<Retrying> out;
  for (const auto& [key, queue] : queues_) {
    if (queue.failures == 0) continue;
    if (!out || queue.since < out->since)
      out = Retrying{out ? out->keys : 0, queue.since, queue.intents.front().id + ": " + queue.error};
    ++out->keys;
  }
  return out;
}

bool IntentPool::take(store::IntentRow& out) {
  const auto first = waiting_.begin();
  if (first == waiting_.end() || first->first.first > std::chrono::steady_clock::now()) return false;
  Queue& queue = queues_.at(first->second);
  waiting_.erase(first);
  out = queue.intents.front();
  running_.insert(out.key);
  return true;
}

bool IntentPool::due() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() && waiting_.begin()->first.first <= std::chrono::steady_clock::now();
}

bool IntentPool::once() {
  if (!due() || (may_act_ && !may_act_())) return false;
  store::IntentRow intent;
  std::uint64_t generation = 0;
  {
    std::lock_guard lock(mutex_);
    if (!take(intent)) return false;
    generation = generation_;
  }
  QM_CRASH_POINT("service.before_intent");
  // Checked last: a process that was suspended since the first check may have lost the lead meanwhile.
  if (may_act_ && !may_act_()) {
    give_back(intent, generation);
    return false;
  }
  auto result = executor_->execute(intent);
  QM_CRASH_POINT("service.after_intent");
  finish(intent, generation, std::move(result));
  return true;
}

void IntentPool::give_back(const store::IntentRow& intent, std::uint64_t generation) {
  std::lock_guard lock(mutex_);
  running_.erase(intent.key);
  if (generation == generation_ || queues_.contains(intent.key)) line_up(intent.key, std::chrono::steady_clock::now());
}

void IntentPool::finish(const store::IntentRow& intent, std::uint64_t generation, Result<Outcome> result) {
  const bool again = !result && result.error().retryable();
  {
    std::lock_guard lock(mutex_);
    running_.erase(intent.key);
    if (generation != generation_) {  // the engine was reloaded and has a new list, which includes this intent
      if (queues_.contains(intent.key)) line_up(intent.key, std::chrono::steady_clock::now());
      return;
    }
    auto& queue = queues_[intent.key];
    if (again) {
      const auto backoff = std::chrono::milliseconds(50LL << std::min(queue.failures, 7));
      if (queue.failures == 0) queue.since = std::chrono::steady_clock::now();
      queue.error = result.error().to_string();
      if (++queue.failures % 8 == 1) {
        log::warn("intent failed and is retried",
                  {{"id", intent.id}, {"kind", intent.kind}, {"error", result.error().to_string()}});
      }
      line_up(intent.key,
              std::chrono::steady_clock::now() + std::min<SteadyDuration>(backoff, std::chrono::seconds(5)));
    } else {
      queue.failures = 0;
      queue.intents.pop_front();
      if (queue.intents.empty()) {
        queues_.erase(intent.key);
      } else {
        line_up(intent.key, std::chrono::steady_clock::now());
      }
      --open_;
    }
  }
  changed_.notify_all();
  if (!again) report_(intent, result ? std::move(*result) : executor_->failed(intent, result.error()));
}

void IntentPool::loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    const auto seen = next_turn_;
    lock.unlock();
    if (once()) continue;
    lock.lock();
    if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) continue;
    // The first one is in its back-off, or is due and may not be started.
    const auto until = std::max(waiting_.begin()->first.first, std::chrono::steady_clock::now() + kPause);
    changed_.wait_until(lock, stop, until, [&] { return next_turn_ != seen; });
  }
}

}  // namespace qm::service
