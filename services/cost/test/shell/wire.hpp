#pragma once
#include "qm/cost/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <string>

/// Bus messages in the form of their producers, for the tests of the shell. Times are seconds.
namespace qm::cost::test {

namespace pb = quartermaster::v1;
inline constexpr std::int64_t kSecond = 1'000'000;
inline const std::int64_t kBase = micros(*period_start("2026-11"));
inline std::int64_t us(std::int64_t second) { return kBase + second * kSecond; }

inline service::Input bus_input(const std::string& topic, const std::string& key, std::uint64_t version,
                                const std::string& bytes) {
  service::Input input;
  input.source = service::Source::kBus;
  input.name = topic;
  input.key = key;
  input.version = version;
  input.bytes = bytes;
  return input;
}

inline service::Input instance(const std::string& id, std::int64_t launched, std::int64_t stopped = 0,
                               std::uint64_t version = 1, int gpus = 8) {
  pb::CapacityEvent event;
  auto* i = event.mutable_instance();
  i->set_claim("claim-" + id);
  i->set_instance_id(id);
  i->set_instance_type("p5.48xlarge");
  i->set_zone("us-east-1a");
  i->set_capacity_type("on-demand");
  i->set_state(stopped == 0 ? pb::INSTANCE_RUNNING : pb::INSTANCE_STOPPED);
  i->set_launched_us(us(launched));
  i->set_stopped_us(stopped == 0 ? 0 : us(stopped));
  i->set_gpus(gpus);
  return bus_input("qm.capacity", "instance/claim-" + id, version, event.SerializeAsString());
}

inline service::Input node(const std::string& name, const std::string& id, pb::NodeState state, std::int64_t since,
                           const std::string& reason = {}, std::uint64_t version = 1) {
  pb::NodeEvent event;
  event.set_node(name);
  event.set_state(state);
  event.set_provider_id("aws:///us-east-1a/" + id);
  event.set_gpus(8);
  event.set_since_us(us(since));
  event.set_reason(reason);
  return bus_input("qm.node", name, version, event.SerializeAsString());
}

inline service::Input stay(const std::string& uid, const std::string& team, const std::string& ns,
                           const std::string& on, int devices, std::int64_t bound, std::int64_t released = 0,
                           std::uint64_t version = 1) {
  pb::PlacementEvent event;
  auto* a = event.mutable_assignment();
  a->set_uid(uid);
  a->set_attempt(1);
  a->set_state(released == 0 ? pb::BOUND : pb::RELEASED);
  a->set_team(team);
  a->set_namespace_(ns);
  a->set_workload("job-" + uid);
  auto* m = a->add_members();
  m->set_node(on);
  m->set_bound_us(us(bound));
  m->set_released_us(released == 0 ? 0 : us(released));
  for (int i = 0; i < devices; ++i) {
    auto* d = m->add_devices();
    d->set_node(on);
    d->set_index(i);
    d->set_milli(1000);
  }
  return bus_input("qm.placement", uid + "/1", version, event.SerializeAsString());
}

}  // namespace qm::cost::test
