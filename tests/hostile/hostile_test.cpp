// Random and malicious inputs from the bus, agents, watches and requests: no service crashes or stalls, and the next input commits.
#include "qm/admission/codec.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/text.hpp"
#include "qm/cost/shell.hpp"
#include "qm/placement/shell.hpp"
#include "qm/service/host.hpp"
#include "qm/telemetry/shell.hpp"
#include "quartermaster/v1/events.pb.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace qm {
namespace hostile_test {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using service::Source;
using namespace std::string_literals;

/// Generates messages of any type with random fields: some known names, and values outside the range of every field.
class Attacker {
 public:
  explicit Attacker(std::uint64_t seed) : random_(seed) {}

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

  std::string text() {
    static const std::vector<std::string> known{"a",          "b",       "a/1", "node-1", "ns/pod-1", "p5.48xlarge",
                                                "us-east-1a", "1g.10gb", "",    "0",      "-1",       "nvidia.com/gpu"};
    switch (pick(10)) {
      case 0:
        return "a\0b"s;
      case 1:
        return std::string(pick(40) == 0 ? 1 << 20 : 1 << 11, 'm');
      case 2:
        return "\x1b[2J\r\n\t"s;
      case 3:
        return "'; drop table state; --\xe2\x80\xae"s;
      default:
        return known[pick(known.size())];
    }
  }
  std::int64_t number() {
    constexpr std::int64_t kEdges[] = {0,
                                       1,
                                       -1,
                                       std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min(),
                                       1LL << 31,
                                       -(1LL << 31),
                                       1000};
    return pick(2) == 0 ? kEdges[pick(std::size(kEdges))] : static_cast<std::int64_t>(pick(10));
  }
  double real() {
    constexpr double kEdges[] = {
        0, -1, 1e308, -1e308, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0.5};
    return kEdges[pick(std::size(kEdges))];
  }

  void fill(Message& message, int depth = 0) {
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const auto* field = type->field(i);
      if (pick(3) == 0 || (depth > 4 && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)) continue;
      const auto count = field->is_repeated() ? pick(4) : 1;
      for (std::size_t n = 0; n < count; ++n) set(message, field, depth);
    }
  }
  std::string bytes(const std::string& type) {
    const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type);
    EXPECT_NE(descriptor, nullptr) << type;
    const std::unique_ptr<Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
    fill(*message);
    auto out = message->SerializePartialAsString();
    if (pick(20) == 0 && !out.empty()) out[pick(out.size())] = static_cast<char>(pick(256));
    if (pick(40) == 0) out.resize(pick(out.size() + 1));
    return out;
  }
  Json json(int depth = 0) {
    switch (pick(depth > 4 ? 4 : 6)) {
      case 0:
        return Json(number());
      case 1:
        return Json(pick(2) == 0);
      case 2:
        return Json();
      case 3:
        return Json(text());
      case 4: {
        Json out = Json::array();
        for (auto n = pick(3); n > 0; --n) out.push_back(json(depth + 1));
        return out;
      }
      default:
        return object(depth);
    }
  }
  /// An object with member names of the Kubernetes API and values of random types.
  Json object(int depth = 0) {
    static const std::vector<std::string> names{
        "metadata",    "spec",        "status",   "name",       "namespace",  "uid",       "labels", "kind",
        "annotations", "phase",       "nodeName", "template",   "containers", "resources", "limits", "nvidia.com/gpu",
        "parallelism", "completions", "suspend",  "apiVersion", "conditions", "attempt"};
    Json out = Json::object();
    for (auto n = pick(8); n > 0; --n) out.set(names[pick(names.size())], json(depth + 1));
    return out;
  }

 private:
  void set(Message& message, const FieldDescriptor* field, int depth) {
    const auto* r = message.GetReflection();
    const bool many = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return fill(many ? *r->AddMessage(&message, field) : *r->MutableMessage(&message, field), depth + 1);
      case FieldDescriptor::CPPTYPE_STRING:
        return many ? r->AddString(&message, field, text()) : r->SetString(&message, field, text());
      case FieldDescriptor::CPPTYPE_BOOL:
        return many ? r->AddBool(&message, field, pick(2) == 0) : r->SetBool(&message, field, pick(2) == 0);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return many ? r->AddDouble(&message, field, real()) : r->SetDouble(&message, field, real());
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto value = static_cast<float>(pick(3));
        return many ? r->AddFloat(&message, field, value) : r->SetFloat(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto value = static_cast<int>(pick(12)) - 1;
        return many ? r->AddEnumValue(&message, field, value) : r->SetEnumValue(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto value = static_cast<std::int32_t>(number());
        return many ? r->AddInt32(&message, field, value) : r->SetInt32(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto value = static_cast<std::uint32_t>(number());
        return many ? r->AddUInt32(&message, field, value) : r->SetUInt32(&message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        return many ? r->AddInt64(&message, field, number()) : r->SetInt64(&message, field, number());
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto value = static_cast<std::uint64_t>(number());
        return many ? r->AddUInt64(&message, field, value) : r->SetUInt64(&message, field, value);
      }
    }
  }

  std::mt19937_64 random_;
};

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

std::string v1(const std::string& type) { return "quartermaster.v1." + type; }

class HostileInputs : public ::testing::TestWithParam<Case> {};

TEST_P(HostileInputs, NoneEndsOrStallsTheService) {
  const auto& c = GetParam();
  ManualClock clock{from_micros(1'800'000'000'000'000)};
  service::HostOptions options;
  options.service = c.service;
  service::Host host(options, c.shell(), store::open_memory(store::make_memory_disk()), nullptr, clock, nullptr);
  ASSERT_TRUE(host.open());
  Attacker attacker(20261126);
  std::uint64_t version = 0;
  constexpr int kRounds = 10'000;
  int refused = 0;
  for (int i = 0; i < kRounds; ++i) {
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
    // Followed by one without effect.
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
  EXPECT_GT(dead, kRounds / 20U) << "most are malicious";
  EXPECT_LT(dead, 2U * kRounds - kRounds / 20U) << "some are accepted";
}

// An annotation of a tenant must not hide its object.
TEST(Nul, InAJsonDocumentIsReplacedAndTheDocumentTaken) {
  ManualClock clock{from_micros(1'800'000'000'000'000)};
  service::HostOptions options;
  options.service = "cost";
  service::Host host(options, std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(), cost::Codec{}),
                     store::open_memory(store::make_memory_disk()), nullptr, clock, nullptr);
  ASSERT_TRUE(host.open());
  service::Input in;
  in.source = Source::kWatch;
  in.name = "prices";
  in.bytes = R"({"name":"a\u0000b","entries":[{"nanoUsdHour":1,"instanceType":"p5.48xlarge"}]})";
  ASSERT_TRUE(host.submit(in));
  while (host.pump()) {
  }
  EXPECT_EQ(host.counters().poison, 0U);
  EXPECT_EQ(host.debug_state()["engine"]["pricePlans"].integer(), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Services, HostileInputs,
    ::testing::Values(
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
             [] {
               return std::make_unique<telemetry::Shell>(std::make_unique<telemetry::Engine>(), telemetry::Codec{});
             },
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
              {Source::kWatch, "observed.pod", ""}}}),
    [](const auto& one) { return one.param.service; });

}  // namespace hostile_test
}  // namespace qm
