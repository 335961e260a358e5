#include "gang_clock.hpp"

#include "text.hpp"

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
  members_[rank.uid] = {rank.gang, rank.index, std::chrono::seconds(rank.start_step)};
  gang.joined.insert(rank.uid);
  gang.running[rank.uid] = rank.index;
  gang.since = std::nullopt;
  settle(gang, now);
}

void GangClock::leave(const std::string& pod, bool succeeded, Instant now) {
  const auto* member = find_in(members_, pod);
  if (member == nullptr || !find(member->gang).running.contains(pod)) return;
  Gang& gang = gangs_.at(member->gang);
  settle(gang, now);
  gang.running.erase(pod);
  if (succeeded) gang.done.insert(member->index);
  gang.since = std::nullopt;
  settle(gang, now);
}

void GangClock::forget(const std::string& gang) {
  for (const auto& pod : find(gang).joined) members_.erase(pod);
  gangs_.erase(gang);
}

Duration GangClock::progress(const std::string& pod, Instant now) const {
  const auto* member = find_in(members_, pod);
  if (member == nullptr) return Duration(0);
  const Gang& gang = find(member->gang);
  const bool counts = gang.since && gang.running.contains(pod);
  return member->progress + (counts ? now - *gang.since : Duration(0));
}

std::int64_t GangClock::step(const std::string& pod, Instant now) const {
  return std::chrono::duration_cast<std::chrono::seconds>(progress(pod, now)).count();
}

std::optional<Instant> GangClock::reaches(const std::string& pod, std::int64_t wanted, Instant now) const {
  const auto* member = find_in(members_, pod);
  if (member == nullptr || !whole(member->gang)) return std::nullopt;
  return now + std::max(Duration(0), std::chrono::seconds(wanted) - progress(pod, now));
}

std::vector<std::string> GangClock::members(const std::string& gang) const {
  std::vector<std::string> pods;
  for (const auto& [pod, index] : find(gang).running) pods.push_back(pod);
  return pods;
}

const GangClock::Gang& GangClock::find(const std::string& gang) const {
  static const Gang kNoRank;
  const auto* found = find_in(gangs_, gang);
  return found == nullptr ? kNoRank : *found;
}

}  // namespace qm::fleet
