#include "gang_clock.hpp"

#include <algorithm>

namespace qm::fleet {

void GangClock::settle(Gang& gang, Instant now) {
  if (gang.since) {
    for (const auto& [pod, index] : gang.running) members_.at(pod).progress += now - *gang.since;
  }
  std::set<std::int64_t> present = gang.done;
  for (const auto& [pod, index] : gang.running) present.insert(index);
  const bool whole = static_cast<std::int64_t>(present.size()) >= gang.size;
  gang.since = whole ? std::optional(now) : std::nullopt;
  gang.was_whole = gang.was_whole || whole;
}

void GangClock::join(const Rank& rank, Instant now) {
  const auto [it, made] = gangs_.try_emplace(rank.gang, Gang{rank.size, {}, {}, rank.done_before, std::nullopt, false});
  Gang& gang = it->second;
  settle(gang, now);
  members_[rank.pod] = {rank.gang, rank.index, std::chrono::seconds(rank.start_step)};
  gang.joined.insert(rank.pod);
  gang.running[rank.pod] = rank.index;
  gang.since = std::nullopt;
  settle(gang, now);
}

void GangClock::leave(const std::string& pod, bool succeeded, Instant now) {
  const auto member = members_.find(pod);
  if (member == members_.end()) return;
  const auto it = gangs_.find(member->second.gang);
  if (it == gangs_.end() || !it->second.running.contains(pod)) return;
  Gang& gang = it->second;
  settle(gang, now);
  gang.running.erase(pod);
  if (succeeded) gang.done.insert(member->second.index);
  gang.since = std::nullopt;
  settle(gang, now);
}

void GangClock::forget(const std::string& gang) {
  const auto it = gangs_.find(gang);
  if (it == gangs_.end()) return;
  for (const auto& pod : it->second.joined) members_.erase(pod);
  gangs_.erase(it);
}

Duration GangClock::progress(const std::string& pod, Instant now) const {
  const auto member = members_.find(pod);
  if (member == members_.end()) return Duration(0);
  const auto it = gangs_.find(member->second.gang);
  const bool counts = it != gangs_.end() && it->second.since && it->second.running.contains(pod);
  return member->second.progress + (counts ? now - *it->second.since : Duration(0));
}

std::int64_t GangClock::step(const std::string& pod, Instant now) const {
  return std::chrono::duration_cast<std::chrono::seconds>(progress(pod, now)).count();
}

std::optional<Instant> GangClock::reaches(const std::string& pod, std::int64_t wanted, Instant now) const {
  const auto member = members_.find(pod);
  if (member == members_.end() || !whole(member->second.gang)) return std::nullopt;
  return now + std::max(Duration(0), std::chrono::seconds(wanted) - progress(pod, now));
}

bool GangClock::whole(const std::string& gang) const {
  const auto it = gangs_.find(gang);
  return it != gangs_.end() && it->second.since.has_value();
}

bool GangClock::ever_whole(const std::string& gang) const {
  const auto it = gangs_.find(gang);
  return it != gangs_.end() && it->second.was_whole;
}

std::size_t GangClock::running(const std::string& gang) const {
  const auto it = gangs_.find(gang);
  return it == gangs_.end() ? 0 : it->second.running.size();
}

std::vector<std::string> GangClock::members(const std::string& gang) const {
  std::vector<std::string> pods;
  if (const auto it = gangs_.find(gang); it != gangs_.end()) {
    for (const auto& [pod, index] : it->second.running) pods.push_back(pod);
  }
  return pods;
}

}  // namespace qm::fleet
