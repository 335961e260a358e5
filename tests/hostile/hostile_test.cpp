// Random and malicious inputs from the bus, agents, watches, requests and the API server: no service crashes or
// stalls, and the next input is applied.
#include "entrances.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/testing/testing.hpp"
#include "test/shell/little_service.hpp"

namespace qm {
namespace hostile_test {

using hostile::Attacker;
using hostile::Case;
using service::Source;

class HostileInputs : public ::testing::TestWithParam<Case> {};

TEST_P(HostileInputs, NoneEndsOrStallsTheService) {
  const auto& c = GetParam();
  ManualClock clock{from_micros(1'800'000'000'000'000)};
  service::HostOptions options;
  options.service = c.service;
  service::Host host(options, c.shell(), store::open_memory(store::make_memory_disk()), nullptr, clock, nullptr);
  ASSERT_TRUE(host.open());
  hostile::attack(host, clock, c, 10'000);
}

INSTANTIATE_TEST_SUITE_P(Services, HostileInputs, ::testing::ValuesIn(hostile::services()),
                         [](const auto& one) { return one.param.service; });

TEST(HostileAgent, TheNextFactOfItsStreamIsCommitted) {
  telemetry::testing::LittleService service;
  telemetry::testing::Call call;
  auto stream = service.stub->Push(&call);
  Attacker attacker(20261127);
  for (int i = 0; i < 2000; ++i) {
    telemetry::pb::AgentMessage hostile;
    attacker.fill(hostile);
    // Orders and confirmations for the attacker's names may arrive in between.
    ASSERT_TRUE(stream->Write(hostile)) << i;
    telemetry::pb::AgentMessage valid;
    *valid.mutable_fact() = telemetry::testing::xid_fact(fmt::format("next/{}", i), "node-1", 79);
    ASSERT_TRUE(stream->Write(valid)) << i;
    telemetry::pb::AgentOrder order;
    do {
      ASSERT_TRUE(stream->Read(&order)) << i << ": " << stream->Finish().error_message();
    } while (order.fact_committed() != valid.fact().id());
    ASSERT_TRUE(service.host->readiness().ready) << service.host->readiness().text;
  }
  EXPECT_GT(service.verdicts(), 0U);
  stream->WritesDone();
}

TEST(HostileWebhook, TheNextReviewIsAnswered) {
  Attacker attacker(20261128);
  const admission_policy::Settings settings;
  const admission_policy::View view;
  const auto post = [&](const char* target, std::string body) {
    http::Request request;
    request.method = "POST";
    request.target = target;
    request.body = std::move(body);
    return admission::webhook::respond(request, settings, view);
  };
  const auto review = [](const char* kind, const Json& object, const Json& old) {
    return Json::object({{"apiVersion", "admission.k8s.io/v1"},
                         {"kind", "AdmissionReview"},
                         {"request", Json::object({{"uid", "u"},
                                                   {"operation", old.is_null() ? "CREATE" : "UPDATE"},
                                                   {"kind", Json::object({{"kind", kind}})},
                                                   {"namespace", "team"},
                                                   {"object", object},
                                                   {"oldObject", old}})}})
        .dump();
  };
  const auto plain =
      review("Pod", *Json::parse(R"({"metadata":{"name":"a"},"spec":{"containers":[{"name":"a"}]}})"), {});
  constexpr const char* kKinds[] = {"Pod",           "Job",       "ReplicaSet", "ResourceQuota",
                                    "NetworkPolicy", "Namespace", "Binding"};
  int bad = 0, judged = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto* target = attacker.pick(2) == 0 ? "/validate" : "/mutate";
    std::string body = attacker.pick(4) == 0 ? attacker.json().dump()
                                             : review(kKinds[attacker.pick(std::size(kKinds))], attacker.object(),
                                                      attacker.pick(3) == 0 ? attacker.object() : Json());
    if (attacker.pick(10) == 0) body.resize(attacker.pick(body.size() + 1));
    const auto answer = post(target, body);
    ASSERT_TRUE(answer.status == 200 || answer.status == 400) << answer.status << ": " << body;
    (answer.status == 200 ? judged : bad) += 1;
    const auto next = post(target, plain);
    ASSERT_EQ(next.status, 200) << next.body;
    ASSERT_TRUE(Json::parse(next.body)->path("response.allowed").boolean()) << next.body;
  }
  EXPECT_GT(bad, 150);
  EXPECT_GT(judged, 150);
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

}  // namespace hostile_test
}  // namespace qm
