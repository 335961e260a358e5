#include "qm/admission/watch/observed_jobs.hpp"

#include "qm/kube/client.hpp"

namespace qm::admission {

void ObservedJobs::put(const Json& object) {
  Json slim = object;
  slim.set("metadata").erase("managedFields");
  Entry entry{kube::uid_of(object), slim.dump()};
  const std::lock_guard lock(mutex_);
  erase_locked(entry.uid);
  bytes_ += entry.text.size();
  oldest_first_.push_back(std::move(entry));
  by_uid_.emplace(oldest_first_.back().uid, std::prev(oldest_first_.end()));
  while (bytes_ > most_) erase_locked(std::string(oldest_first_.front().uid));
}

void ObservedJobs::erase(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  erase_locked(uid);
}

std::optional<Json> ObservedJobs::take(const std::string& uid) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_uid_.find(uid);
    if (known == by_uid_.end()) return std::nullopt;
    text = known->second->text;
    erase_locked(uid);
  }
  auto object = Json::parse(text);
  if (!object) return std::nullopt;
  return std::move(*object);
}

void ObservedJobs::erase_locked(const std::string& uid) {
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return;
  const auto entry = known->second;
  bytes_ -= entry->text.size();
  by_uid_.erase(known);  // before `uid` may end with the entry
  oldest_first_.erase(entry);
}

}  // namespace qm::admission
