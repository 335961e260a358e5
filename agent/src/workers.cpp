#include "workers.hpp"

#include "qm/base/digest.hpp"

#include <algorithm>

namespace qm::agent {

Workers::Workers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  wake_.notify_one();
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    wake_.notify_all();
  }
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

Pacer::Pacer(const DomainClock& clock, int threads)
    : clock_(clock), workers_(threads), timer_([this] { keep_time(); }) {}

Pacer::~Pacer() { stop(); }

void Pacer::add(const std::string& name, Duration period, Task task) {
  const std::lock_guard lock(mutex_);
  const auto spread = stable_hash(name) % static_cast<std::uint64_t>(period.count());
  Entry entry{std::move(task), period, Duration(static_cast<std::int64_t>(spread)), clock_.now(), next_id_++};
  if (const auto old = entries_.find(name); old != entries_.end()) queue_.erase({old->second.due, name});
  queue_.emplace(entry.due, name);
  entries_.insert_or_assign(name, std::move(entry));
  wake_.notify_all();
}

void Pacer::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return;
  queue_.erase({entry->second.due, name});
  entries_.erase(entry);
}

void Pacer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (timer_.joinable()) timer_.join();
  workers_.stop();
}

std::size_t Pacer::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t Pacer::idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

void Pacer::keep_time() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Instant now = clock_.now();
    while (!queue_.empty() && queue_.begin()->first <= now) {
      const std::string name = queue_.begin()->second;
      queue_.erase(queue_.begin());
      const Entry& entry = entries_.at(name);
      workers_.post([this, name, id = entry.id, task = entry.task] { finished(name, id, task()); });
    }
    if (queue_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, std::min(clock_.until(queue_.begin()->first), clock_.slice()));
    }
  }
}

void Pacer::finished(const std::string& name, std::uint64_t id, bool again) {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(name);
  if (at == entries_.end() || at->second.id != id) return;
  if (!again) {
    entries_.erase(at);
    return;
  }
  Entry& entry = at->second;
  const std::int64_t period = entry.period.count(), phase = entry.phase.count();
  const std::int64_t past = micros(clock_.now()) - phase;
  entry.due = from_micros((past / period + 1) * period + phase);
  queue_.emplace(entry.due, name);
  wake_.notify_all();
}

}  // namespace qm::agent
