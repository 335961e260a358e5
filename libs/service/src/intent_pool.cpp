#include "intent_pool.hpp"

#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"

#include <algorithm>
#include <utility>

namespace qm::service {

namespace {
constexpr auto kPause = std::chrono::milliseconds(20);  ///< while due intents may not be started
}  // namespace

void IntentPool::line_up(const std::string& key, SteadyInstant due) {
  const Pending& first = queues_.at(key).intents.front();
  Turn turn{due + first.yields, next_turn_++};
  if (!first.group.empty()) {
    Group& group = groups_.at(first.group);
    if (group.turn == Turn{}) group.turn = turn;
    turn = group.turn;
  }
  ready_.emplace(std::pair(turn, next_turn_++), key);
}

void IntentPool::add(std::vector<store::IntentRow> intents) {
  if (intents.empty() || executor_ == nullptr) return;
  std::vector<Pending> added;
  for (auto& intent : intents) {
    auto [group, yields] = executor_->turn_of(intent);
    added.push_back({std::move(intent), std::move(group), yields});
  }
  {
    std::lock_guard lock(mutex_);
    open_ += added.size();
    const auto now = std::chrono::steady_clock::now();
    for (Pending& one : added) {
      const std::string key = one.intent.key;
      Queue& queue = queues_[key];
      if (!one.group.empty()) ++groups_[one.group].open;
      queue.intents.push_back(std::move(one));
      if (queue.intents.size() == 1 && !running_.contains(key)) line_up(key, now);
    }
  }
  changed_.notify_all();
}

void IntentPool::start(int threads) {
  if (executor_ == nullptr) return;
  threads_started_ = threads;
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
  ready_.clear();
  retries_.clear();
  groups_.clear();
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
      out = Retrying{out ? out->keys : 0, queue.since, queue.intents.front().intent.id + ": " + queue.error};
    ++out->keys;
  }
  return out;
}

int IntentPool::most_at_once() const {
  const std::lock_guard lock(mutex_);
  return executor_ == nullptr ? 0 : std::min(threads_started_.load(), limit());
}

int IntentPool::limit() const {
  SteadyDuration waited{};
  if (!ready_.empty()) waited = std::chrono::steady_clock::now() - ready_.begin()->first.first.first;
  return executor_->most_at_once(std::max(waited, SteadyDuration::zero()));
}

bool IntentPool::busy() const { return std::cmp_greater_equal(running_.size(), limit()); }

std::optional<IntentPool::Taken> IntentPool::take() {
  if (busy()) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  while (!retries_.empty() && retries_.begin()->first.first <= now) {
    line_up(retries_.begin()->second, retries_.begin()->first.first);
    retries_.erase(retries_.begin());
  }
  const auto first = ready_.begin();
  if (first == ready_.end()) return std::nullopt;
  const auto& intents = queues_.at(first->second).intents;
  ready_.erase(first);
  Taken out{intents.front().intent, std::nullopt};
  for (auto later = std::next(intents.begin()); later != intents.end() && !out.outcome; ++later) {
    out.outcome = executor_->superseded(out.intent, later->intent);
  }
  running_.insert(out.intent.key);
  return out;
}

bool IntentPool::due() const {
  const std::lock_guard lock(mutex_);
  const auto retried = [this] { return retries_.begin()->first.first <= std::chrono::steady_clock::now(); };
  return (!ready_.empty() || (!retries_.empty() && retried())) && !busy();
}

bool IntentPool::once() {
  if (!due() || (may_act_ && !may_act_())) return false;
  std::optional<Taken> taken;
  std::uint64_t generation = 0;
  {
    std::lock_guard lock(mutex_);
    taken = take();
    if (!taken) return false;
    generation = generation_;
  }
  const store::IntentRow& intent = taken->intent;
  if (taken->outcome) {
    finish(intent, generation, std::move(*taken->outcome), Executed::kNo);
    return true;
  }
  QM_CRASH_POINT("service.before_intent");
  // Checked last: a process that was suspended since the first check may have lost the lead meanwhile.
  if (may_act_ && !may_act_()) {
    give_back(intent, generation);
    return false;
  }
  auto result = executor_->execute(intent);
  QM_CRASH_POINT("service.after_intent");
  finish(intent, generation, std::move(result), Executed::kYes);
  return true;
}

void IntentPool::give_back(const store::IntentRow& intent, std::uint64_t generation) {
  std::lock_guard lock(mutex_);
  running_.erase(intent.key);
  if (generation == generation_ || queues_.contains(intent.key)) line_up(intent.key, std::chrono::steady_clock::now());
}

void IntentPool::finish(const store::IntentRow& intent, std::uint64_t generation, Result<Outcome> result,
                        Executed executed) {
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
      const auto until = std::chrono::steady_clock::now() + std::min<SteadyDuration>(backoff, std::chrono::seconds(5));
      retries_.emplace(Turn{until, next_turn_++}, intent.key);
    } else {
      if (executed == Executed::kYes) queue.failures = 0;  // else the next one is the next try
      const auto group = groups_.find(queue.intents.front().group);
      if (group != groups_.end() && --group->second.open == 0) groups_.erase(group);
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
    if (!changed_.wait(lock, stop, [this] { return !ready_.empty() || !retries_.empty(); })) continue;
    // The first one is in its back-off, or is due and may not be started: another replica may lead, or as many as may
    // be are executed.
    auto until = std::chrono::steady_clock::now() + kPause;
    if (ready_.empty()) until = std::max(until, retries_.begin()->first.first);
    changed_.wait_until(lock, stop, until, [&] { return next_turn_ != seen; });
  }
}

}  // namespace qm::service
