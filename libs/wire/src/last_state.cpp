#include "qm/wire/last_state.hpp"

#include "qm/base/parse.hpp"
#include "quartermaster/v1/events.pb.h"

#include <string_view>

namespace qm::wire {
namespace {

namespace pb = quartermaster::v1;
using Payload = std::optional<std::string>;

/// The text after the prefix; nullopt if the key is not of this form.
std::optional<std::string> after(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix) || key.size() == prefix.size()) return std::nullopt;
  return std::string(key.substr(prefix.size()));
}

struct Attempt {
  std::string uid;
  std::int32_t number = 0;
};
/// "uid/attempt"
std::optional<Attempt> attempt_of(std::string_view text) {
  const auto slash = text.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const auto attempt = whole_number<std::int32_t>(text.substr(slash + 1));
  if (!attempt) return std::nullopt;
  return Attempt{std::string(text.substr(0, slash)), *attempt};
}

Payload of_placement(const std::string& key, bool rolled_back) {
  pb::PlacementEvent event;
  if (const auto rest = after("evict/", key)) {
    const auto attempt = attempt_of(*rest);
    if (!attempt) return std::nullopt;
    event.mutable_eviction()->set_uid(attempt->uid);
    event.mutable_eviction()->set_attempt(attempt->number);
  } else if (const auto proposal = after("propose/", key)) {
    const auto which = whole_number<std::int64_t>(*proposal);
    if (!which) return std::nullopt;
    event.mutable_proposal()->set_number(*which);
    event.mutable_proposal()->set_withdrawn(true);
  } else {
    const auto attempt = attempt_of(key);
    if (!attempt || rolled_back) return std::nullopt;
    event.mutable_assignment()->set_uid(attempt->uid);
    event.mutable_assignment()->set_attempt(attempt->number);
    event.mutable_assignment()->set_state(pb::RELEASED);
  }
  return event.SerializeAsString();
}

Payload of_capacity(const std::string& key, bool rolled_back) {
  pb::CapacityEvent event;
  if (const auto claim = after("instance/", key)) {
    if (rolled_back) return std::nullopt;
    event.mutable_instance()->set_claim(*claim);
    event.mutable_instance()->set_state(pb::INSTANCE_STOPPED);
  } else if (const auto uid = after("promise/", key)) {
    event.mutable_promise()->set_uid(*uid);
    event.mutable_promise()->set_withdrawn(true);
  } else if (const auto node = after("drain/", key)) {
    event.mutable_drain()->set_node(*node);
    event.mutable_drain()->set_lifted(true);
  } else if (const auto order = after("checkpoint/", key)) {
    event.mutable_checkpoint()->set_id(*order);
    event.mutable_checkpoint()->set_outcome("Withdrawn");
  } else {
    return std::nullopt;
  }
  return event.SerializeAsString();
}

Payload of_cost(const std::string& key) {
  pb::CostEvent event;
  if (const auto budget = after("budget/", key)) {
    event.mutable_grant()->set_budget(*budget);
    event.mutable_grant()->set_withdrawn(true);
  } else if (const auto spent = after("spent/", key)) {
    const auto attempt = attempt_of(*spent);
    if (!attempt) return std::nullopt;
    event.mutable_spent()->set_uid(attempt->uid);
    event.mutable_spent()->set_attempt(attempt->number);
    event.mutable_spent()->set_final(true);
  } else {
    return std::nullopt;
  }
  return event.SerializeAsString();
}

Payload of_gpu(const std::string& key) {
  pb::GpuEvent event;
  if (const auto node = after("health/", key)) {
    event.mutable_health()->set_node(*node);
  } else if (const auto reporting = after("node-report/", key)) {
    event.mutable_node_report()->set_node(*reporting);
  } else {
    return std::nullopt;
  }
  return event.SerializeAsString();
}

}  // namespace

Payload last_state(const std::string& topic, const std::string& key, bool rolled_back) {
  if (topic == "qm.placement") return of_placement(key, rolled_back);
  if (topic == "qm.capacity") return of_capacity(key, rolled_back);
  if (rolled_back) return std::nullopt;
  if (topic == "qm.workload") {
    pb::WorkloadEvent event;
    event.mutable_spec()->set_uid(key);
    event.set_phase(pb::CANCELLED);
    return event.SerializeAsString();
  }
  if (topic == "qm.node") {
    pb::NodeEvent event;
    event.set_node(key);
    event.set_state(pb::NODE_GONE);
    return event.SerializeAsString();
  }
  if (topic == "qm.gpu") return of_gpu(key);
  if (topic == "qm.cost") return of_cost(key);
  if (const auto node = after("notice/", key); topic == "qm.spot" && node) {
    pb::SpotEvent event;
    event.mutable_notice()->set_node(*node);
    return event.SerializeAsString();
  }
  return std::nullopt;
}

}  // namespace qm::wire
