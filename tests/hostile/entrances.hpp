#pragma once
#include "attacker.hpp"
#include "qm/admission/codec.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/cost/shell.hpp"
#include "qm/placement/shell.hpp"
#include "qm/service/host.hpp"
#include "qm/telemetry/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::hostile {

using service::Source;

/// An input of a service: its source, name and message type; empty type = a JSON document.
struct Entrance {
  Source source;
  std::string name, type;
};

struct Case {
  std::string service;
  std::function<std::unique_ptr<service::Shell>()> shell;
  std::vector<Entrance> entrances;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.service; }
};

inline std::string v1(const std::string& type) { return "quartermaster.v1." + type; }

/// The five services and their external inputs.
inline std::vector<Case> services() {
  return {
      Case{"admission",
           [] {
             return std::make_unique<admission::AdmissionShell>(
                 std::make_unique<admission::Engine>(admission::Options{}), admission::Codec{});
           },
           {{Source::kBus, "qm.placement", v1("PlacementEvent")},
            {Source::kBus, "qm.capacity", v1("CapacityEvent")},
            {Source::kBus, "qm.cost", v1("CostEvent")},
            {Source::kRequest, "Submit", v1("SubmitRequest")},
            {Source::kRequest, "Cancel", v1("CancelRequest")},
            {Source::kRequest, "SetActive", v1("SetActiveRequest")},
            {Source::kRequest, "AnswerCheck", v1("AnswerCheckRequest")},
            {Source::kRequest, "Apply", v1("ApplyRequest")},
            {Source::kWatch, "job", ""},
            {Source::kWatch, "workload", ""},
            {Source::kWatch, "pods", ""},
            {Source::kWatch, "object", ""}}},
      Case{"placement",
           [] {
             return std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(placement::Options{}),
                                                       placement::Codec{});
           },
           {{Source::kBus, "qm.workload", v1("WorkloadEvent")},
            {Source::kBus, "qm.gpu", v1("GpuEvent")},
            {Source::kBus, "qm.capacity", v1("CapacityEvent")},
            {Source::kRequest, "OrderLayouts", v1("OrderLayoutsRequest")},
            {Source::kWatch, "node", ""},
            {Source::kWatch, "pod", ""},
            {Source::kWatch, "claim", ""},
            {Source::kWatch, "volume", ""},
            {Source::kWatch, "limits", ""}}},
      Case{"autoscaler",
           [] {
             return std::make_unique<autoscaler::Shell>(
                 std::make_unique<autoscaler::Engine>(autoscaler::catalog_types()), autoscaler::Codec{});
           },
           {{Source::kBus, "qm.placement", v1("PlacementEvent")},
            {Source::kBus, "qm.node", v1("NodeEvent")},
            {Source::kBus, "qm.workload", v1("WorkloadEvent")},
            {Source::kBus, "qm.spot", v1("SpotEvent")},
            {Source::kBus, "qm.gpu", v1("GpuEvent")},
            {Source::kWatch, "instances", ""},
            {Source::kWatch, "pools", ""},
            {Source::kWatch, "pods.waiting", ""},
            {Source::kWatch, "node", ""},
            {Source::kWatch, "owners", ""},
            {Source::kWatch, "spot_prices", ""}}},
      Case{"telemetry",
           [] { return std::make_unique<telemetry::Shell>(std::make_unique<telemetry::Engine>(), telemetry::Codec{}); },
           {{Source::kBus, "qm.capacity", v1("CapacityEvent")},
            {Source::kBus, "qm.node", v1("NodeEvent")},
            {Source::kWatch, "fact", v1("AgentFact")},
            {Source::kWatch, "usage", v1("UsageInterval")}}},
      Case{"cost",
           [] { return std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(), cost::Codec{}); },
           {{Source::kBus, "qm.placement", v1("PlacementEvent")},
            {Source::kBus, "qm.node", v1("NodeEvent")},
            {Source::kBus, "qm.capacity", v1("CapacityEvent")},
            {Source::kWatch, "prices", ""},
            {Source::kWatch, "budgets", ""},
            {Source::kWatch, "observed.node", ""},
            {Source::kWatch, "observed.pod", ""}}}};
}

/// Random inputs, each followed by one without effect: none may stall the service, and each following one commits.
inline void attack(service::Host& host, ManualClock& clock, const Case& c, int rounds) {
  Attacker attacker(20261126);
  std::uint64_t version = 0;
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto& at = c.entrances[attacker.pick(c.entrances.size())];
    service::Input in;
    in.source = at.source;
    in.name = at.name;
    in.id = at.source == Source::kBus ? "" : attacker.pick(2) == 0 ? fmt::format("id-{}", i) : attacker.text();
    in.key = attacker.text();
    in.version = ++version;
    in.tombstone = attacker.pick(5) == 0;
    in.bytes = at.type.empty() ? attacker.json().dump() : attacker.bytes(at.type);
    std::string answer = "none";
    const auto taken = host.submit(in, [&](const Result<std::string>& r) {
      answer.clear();
      refused += r ? 0 : 1;
    });
    refused += taken ? 0 : 1;
    ASSERT_TRUE(taken || taken.error().code == Code::kInvalid) << taken.error().to_string();
    service::Input next;
    next.source = Source::kBus;
    next.name = c.entrances.front().name;
    next.key = "next";
    next.version = ++version;
    bool committed = false;
    ASSERT_TRUE(host.submit(next, [&](const Result<std::string>& r) { committed = r.has_value(); }));
    int turns = 0;
    while (!committed) {
      host.pump();
      ASSERT_LT(++turns, 50) << i << " " << at.name << ": " << host.readiness().text;
    }
    ASSERT_TRUE(!taken || answer.empty()) << "every accepted input is answered";
    ASSERT_TRUE(host.readiness().ready) << host.readiness().text;
    clock.advance(std::chrono::milliseconds(attacker.pick(3) == 0 ? 60'000 : 10));
  }
  const auto counters = host.counters();
  const auto dead = counters.poison + counters.too_large + static_cast<std::uint64_t>(refused);
  const auto all = static_cast<std::uint64_t>(rounds);
  EXPECT_GT(dead, all / 20) << "most are malicious";
  EXPECT_LT(dead, 2 * all - all / 20) << "some are accepted";
}

}  // namespace qm::hostile
