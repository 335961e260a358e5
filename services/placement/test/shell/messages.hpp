#pragma once
#include "little_kube.hpp"
#include "qm/placement/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qm::placement::testing {

namespace pb = quartermaster::v1;
using service::Input;
using service::Source;

inline Input input_of(Source source, const std::string& name, std::string bytes) {
  Input input;
  input.source = source;
  input.name = name;
  input.bytes = std::move(bytes);
  return input;
}
inline Input watch_of(const std::string& name, const Json& json) { return input_of(Source::kWatch, name, json.dump()); }

template <class T>
T only(const Input& input) {
  const auto commands = Codec().decode(input);
  EXPECT_TRUE(commands) << (commands ? "" : commands.error().to_string());
  if (!commands || commands->size() != 1 || !std::holds_alternative<T>(commands->front())) {
    ADD_FAILURE() << "not the one command that was expected of " << input.name;
    return {};
  }
  return std::get<T>(commands->front());
}

inline pb::WorkloadEvent workload_event(const std::string& uid, int attempt, pb::WorkloadPhase phase, int pods,
                                        int gpus) {
  pb::WorkloadEvent event;
  auto* spec = event.mutable_spec();
  spec->set_uid(uid);
  spec->set_namespace_("team");
  spec->set_name("job-" + uid);
  spec->set_kind("Job");
  spec->set_team("vision");
  (*spec->mutable_labels())["product"] = "search";
  (*spec->mutable_labels())["app"] = "trainer";
  auto* set = spec->add_pod_sets();
  set->set_name("main");
  set->set_count(pods);
  set->mutable_shape()->set_cpu_milli(2000);
  set->mutable_shape()->set_memory_bytes(4LL << 30);
  set->mutable_shape()->mutable_gpu()->set_whole(gpus);
  auto* toleration = set->mutable_shape()->add_tolerations();
  toleration->set_key("nvidia.com/gpu");
  toleration->set_operator_("Exists");
  event.set_attempt(attempt);
  event.set_phase(phase);
  event.set_quota_reserved_us(900'000);
  return event;
}
inline Input latest(const pb::WorkloadEvent& event) {
  return input_of(Source::kBus, "qm.workload", event.SerializeAsString());
}

/// A shell that is stepped by hand, with its rows stored as a store would.
struct Stepped {
  Shell shell{std::make_unique<Engine>(), Codec()};
  std::map<std::pair<std::string, std::string>, std::string> rows;
  Instant now = from_micros(1'000'000);

  service::Effects step(const std::vector<Input>& batch) {
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell.step(batch, now, effects, poison);
    for (const auto& [input, error] : poison) ADD_FAILURE() << error.to_string();
    shell.commit();
    for (const auto& row : effects.state) {
      if (row.value) {
        rows[{row.kind, row.key}] = *row.value;
      } else {
        rows.erase({row.kind, row.key});
      }
    }
    return effects;
  }
  void open() {
    step({watch_of("node", make_node("a", 8)), watch_of("node", make_node("b", 8)),
          watch_of("node.synced", Json::array({"a", "b"})), watch_of("pod.synced", Json::array())});
  }
  [[nodiscard]] std::vector<store::StateRow> stored() const {
    std::vector<store::StateRow> out;
    for (const auto& [key, value] : rows) out.push_back({key.first, key.second, value});
    return out;
  }
};

}  // namespace qm::placement::testing
