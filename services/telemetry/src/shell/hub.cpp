#include "qm/telemetry/shell.hpp"

namespace qm::telemetry {

std::uint64_t AgentHub::connect(Send send) {
  const std::lock_guard lock(mutex_);
  agents_.emplace(next_, std::make_shared<Send>(std::move(send)));
  return next_++;
}

void AgentHub::serve(std::uint64_t agent, const std::vector<std::string>& nodes) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_node_, [&](const auto& entry) { return entry.second == agent; });
  for (const auto& node : nodes) by_node_[node] = agent;   // the newest agent of a node speaks for it
}

void AgentHub::disconnect(std::uint64_t agent) {
  const std::lock_guard lock(mutex_);
  agents_.erase(agent);
  std::erase_if(by_node_, [&](const auto& entry) { return entry.second == agent; });
}

bool AgentHub::send(const std::string& node, const pb::AgentOrder& order) {
  std::shared_ptr<Send> send;
  {
    const std::lock_guard lock(mutex_);
    auto at = by_node_.find(node);
    if (at == by_node_.end()) return false;
    send = agents_.at(at->second);
  }
  return (*send)(order);
}

std::size_t AgentHub::agents() const {
  const std::lock_guard lock(mutex_);
  return agents_.size();
}

Result<service::Outcome> AgentHub::execute(const store::IntentRow& intent) {
  pb::AgentOrder order;
  if (!order.ParseFromString(intent.payload)) return fail(Code::kInternal, "order {} cannot be read", intent.id);
  // Without an agent there is nothing to wait for here: one that connects is told its open orders at once.
  return service::Outcome{send(intent.key, order) ? "sent" : "no agent"};
}

service::Outcome AgentHub::failed(const store::IntentRow&, const Error& error) { return {error.to_string()}; }

}  // namespace qm::telemetry
