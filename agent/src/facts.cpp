#include "facts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::agent {
namespace {

bool replaces(const pb::AgentFact& next, const pb::AgentFact& old) {
  if (next.has_devices()) return old.has_devices() && old.devices().node() == next.devices().node();
  if (next.has_node_report()) return old.has_node_report() && old.node_report().node() == next.node_report().node();
  return next.has_ack() && old.has_ack() && old.ack().order_id() == next.ack().order_id() &&
         old.ack().node() == next.ack().node();
}

}  // namespace

bool Facts::add(const std::string& node, pb::AgentFact fact) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const Entry& e) { return replaces(fact, e.fact); });
    if (entries_.size() >= capacity_) return false;
    fact.set_id(fmt::format("{}/{}/{}", node, boot_, next_++));
    entries_.push_back({std::move(fact), false, {}});
  }
  if (added_) added_();
  return true;
}

void Facts::confirm(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& e) { return e.fact.id() == id; });
}

std::vector<pb::AgentFact> Facts::due(SteadyInstant now, std::size_t max) {
  const std::lock_guard lock(mutex_);
  std::vector<pb::AgentFact> out;
  for (Entry& entry : entries_) {
    if (out.size() == max) break;
    if (entry.sent && now - entry.at < kRepeat) continue;
    entry.sent = true;
    entry.at = now;
    out.push_back(entry.fact);
  }
  return out;
}

void Facts::renew() {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) entry.sent = false;
}

std::size_t Facts::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace qm::agent
