#include "qm/telemetry/shell.hpp"

#include <algorithm>

namespace qm::telemetry {

std::uint64_t AgentHub::connect(Send send) {
  const std::lock_guard lock(mutex_);
  agents_.emplace(next_, std::make_shared<Send>(std::move(send)));
  return next_++;
}

void AgentHub::leave(std::uint64_t agent) {
  for (auto at = by_node_.begin(); at != by_node_.end();) {
    at->second.erase(agent);
    at = at->second.empty() ? by_node_.erase(at) : std::next(at);
  }
}

void AgentHub::serve(std::uint64_t agent, const std::vector<std::string>& nodes) {
  const std::lock_guard lock(mutex_);
  if (!agents_.contains(agent)) return;
  leave(agent);
  for (const auto& node : nodes) by_node_[node].insert(agent);
}

void AgentHub::disconnect(std::uint64_t agent) {
  const std::lock_guard lock(mutex_);
  agents_.erase(agent);
  leave(agent);
}

bool AgentHub::send(const std::string& node, const pb::AgentOrder& order) {
  std::vector<std::shared_ptr<Send>> newest_first;
  {
    const std::lock_guard lock(mutex_);
    const auto at = by_node_.find(node);
    if (at == by_node_.end()) return false;
    for (auto id = at->second.rbegin(); id != at->second.rend(); ++id) newest_first.push_back(agents_.at(*id));
  }
  // Outside the lock: a stream that ends meanwhile disconnects itself. If a stream has ended, the next one gets the
  // order.
  return std::any_of(newest_first.begin(), newest_first.end(), [&](const auto& send) { return (*send)(order); });
}

std::size_t AgentHub::agents() const {
  const std::lock_guard lock(mutex_);
  return agents_.size();
}

Result<service::Outcome> AgentHub::execute(const store::IntentRow& intent) {
  pb::AgentOrder order;
  if (!order.ParseFromString(intent.payload)) return fail(Code::kInternal, "order {} cannot be read", intent.id);
  // Without an agent there is no need to wait here: an agent that connects gets its open orders at once.
  return service::Outcome{send(intent.key, order) ? "sent" : "no agent"};
}

service::Outcome AgentHub::failed(const store::IntentRow&, const Error& error) { return {error.to_string()}; }

}  // namespace qm::telemetry
