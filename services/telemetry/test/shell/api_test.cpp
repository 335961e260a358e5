// The API over the whole service in memory, with real gRPC in between.
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace qm::telemetry::testing {
namespace api_test {

using qm::testing::wait_until;

std::vector<std::string> names(const pb::QueryResponse& response) {
  std::vector<std::string> out;
  for (const auto& r : response.readings()) out.push_back(fmt::format("{}/{}", r.node(), r.sample().gpu_index()));
  return out;
}

TEST(Push, AFrameIsSeenInQuery) {
  LittleService service;
  AgentStream agent(service, {"a"});
  agent.send(frame("a", 1'000'000, 1, {sample(0, 0.5, "p"), sample(1, 0)}));
  ASSERT_TRUE(wait_until([&] { return service.query().readings_size() == 2; }));
  const auto seen = service.query();
  EXPECT_EQ(seen.source(), "owner") << "there is no Redis";
  EXPECT_EQ(seen.as_of_us(), micros(service.clock.now()));
  EXPECT_EQ(seen.readings(0).sample().pod(), "p");
  EXPECT_EQ(seen.readings(0).sample().utilization(), 0.5);
  EXPECT_EQ(seen.readings(0).at_us(), 1'000'000'000'000);
  EXPECT_EQ(seen.next_page_token(), "");
}

TEST(Push, AFactIsConfirmedWhenItIsCommittedAndNotBefore) {
  LittleService service({.threads = false});
  AgentStream agent(service, {"a"});
  agent.send(xid_fact("a/1/1", "a", 79));
  ASSERT_TRUE(wait_until([&] { return service.host->counters().mailbox == 1; }));
  store::plant_outcome(*service.disk, store::CommitOutcome::kNotCommitted);
  EXPECT_TRUE(service.host->pump());
  // Messages on the stream keep their order: when the order arrives, an early confirmation would have arrived too.
  pb::AgentOrder order;
  order.mutable_checkpoint()->set_id("o");
  ASSERT_TRUE(wait_until([&] { return service.hub.send("a", order); }));
  ASSERT_TRUE(wait_until([&] { return agent.ordered("o") == 1; }));
  EXPECT_EQ(agent.confirmed("a/1/1"), 0U);
  EXPECT_EQ(service.verdicts(), 0U) << "taken back";
  ASSERT_TRUE(wait_until([&] {
    service.host->pump();
    return agent.confirmed("a/1/1") == 1;
  }));
  EXPECT_EQ(service.verdicts(), 1U);
}

TEST(Push, ARepeatedFactIsConfirmedAgainAndPublishedOnce) {
  LittleService service;
  AgentStream agent(service, {"a"});
  agent.send(xid_fact("a/1/1", "a", 79));
  ASSERT_TRUE(wait_until([&] { return agent.confirmed("a/1/1") == 1; }));
  agent.send(xid_fact("a/1/1", "a", 79));
  ASSERT_TRUE(wait_until([&] { return agent.confirmed("a/1/1") == 2; }));
  pb::AgentFact unknown;
  unknown.set_id("a/1/2");
  agent.send(unknown);
  ASSERT_TRUE(wait_until([&] { return agent.confirmed("a/1/2") == 1; })) << "of a kind that a newer agent knows";
  const auto rows = service.host->snapshot("qm.gpu", "", 10, "health/a");
  ASSERT_TRUE(rows && rows->size() == 1);
  EXPECT_EQ(rows->at(0).key_version, 1U);
}

TEST(Push, OpenOrdersAreSentToAConnectingAgent) {
  LittleService service;
  service.order("o", {"a", "b"});
  ASSERT_TRUE(wait_until([&] { return service.host->counters().outcomes == 2; }))
      << "no agent is connected, which is not a failure";
  AgentStream first(service, {"a"});
  ASSERT_TRUE(wait_until([&] { return first.ordered("o") == 1; }));
  // An order that is created while the agent is connected is sent at once.
  service.order("p", {"a"});
  ASSERT_TRUE(wait_until([&] { return first.ordered("p") == 1; }));
  pb::AgentFact fact;
  fact.set_id("a/1/1");
  fact.mutable_ack()->set_order_id("o");
  fact.mutable_ack()->set_uid("w");
  fact.mutable_ack()->set_attempt(1);
  fact.mutable_ack()->set_namespace_("team");
  fact.mutable_ack()->set_node("a");
  fact.mutable_ack()->set_ok(true);
  first.send(fact);
  ASSERT_TRUE(wait_until([&] { return first.confirmed("a/1/1") == 1; }));
  EXPECT_TRUE(first.end().ok());
  AgentStream again(service, {"a"}), other(service, {"b"});
  ASSERT_TRUE(wait_until([&] { return again.ordered("p") == 1 && other.ordered("o") == 1; }));
  EXPECT_EQ(again.ordered("o"), 0U) << "it has answered";
}

TEST(Push, AnAgentWhoseOrdersCannotBeSentIsDisconnected) {
  LittleService service;
  service.host->stop();
  AgentStream agent(service, {"a"});
  ASSERT_TRUE(wait_until([&] { return service.hub.agents() == 0; }));
  EXPECT_EQ(agent.end().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Push, AGoneNodeIsForgotten) {
  LittleService service;
  AgentStream agent(service, {"a"});
  agent.send(frame("a", 1, 1, {sample(0, 0.5)}));
  agent.send(frame("b", 1, 1, {sample(0, 0.5)}));
  ASSERT_TRUE(wait_until([&] { return service.query().readings_size() == 2; }));
  pb::NodeEvent gone;
  gone.set_node("a");
  gone.set_state(pb::NODE_GONE);
  service.publish("qm.node", "a", gone.SerializeAsString(), true);
  ASSERT_TRUE(wait_until([&] { return service.query().readings_size() == 1; }));
  EXPECT_EQ(names(service.query()), std::vector<std::string>{"b/0"});
}

TEST(Push, AClosedIntervalIsPublished) {
  LittleService service;
  AgentStream agent(service, {"a"});
  agent.send(frame("a", 60, 1, {sample(0, 0.25, "p")}));
  agent.send(frame("a", 120, 2, {sample(0, 0.75, "q")}));
  pb::Envelope envelope;
  ASSERT_TRUE(wait_until([&] {
    const auto rows = service.host->snapshot("qm.gpu", "", 10, "usage/a/0");
    return rows && rows->size() == 1 && envelope.ParseFromString(rows->at(0).value);
  }));
  pb::GpuEvent event;
  ASSERT_TRUE(event.ParseFromString(envelope.payload()));
  EXPECT_EQ(event.usage().pod(), "p");
  EXPECT_EQ(event.usage().utilization(), 0.25);
}

TEST(Query, PagesInOrderOfNodeAndIndex) {
  LittleService service;
  // In text order "a-b/0" precedes "a/0", and "a/10" precedes "a/9".
  service.samples.take(frame("a", 1, 1, {sample(9, 0), sample(10, 0)}));
  service.samples.take(frame("a-b", 1, 1, {sample(0, 0)}));
  service.samples.take(frame("a.b", 1, 1, {sample(0, 0)}));
  service.samples.take(frame("b", 1, 1, {sample(0, 0)}));
  const std::vector<std::string> all = {"a/9", "a/10", "a-b/0", "a.b/0", "b/0"};
  EXPECT_EQ(names(service.query()), all);
  for (const int size : {1, 2, 3, 5, 6}) {
    std::vector<std::string> got;
    pb::QueryRequest request;
    request.set_page_size(size);
    for (int pages = 0; pages < 10; ++pages) {
      const auto page = service.query(request);
      EXPECT_LE(page.readings_size(), size);
      for (const auto& name : names(page)) got.push_back(name);
      request.set_page_token(page.next_page_token());
      if (page.next_page_token().empty()) break;
    }
    EXPECT_EQ(got, all) << "pages of " << size;
  }
}

TEST(Query, Filters) {
  LittleService service;
  auto other = sample(2, 0.1, "p");
  other.set_namespace_("elsewhere");
  service.samples.take(frame("a", 1, 1, {sample(0, 0.1, "p"), sample(1, 0.1, "q"), other, sample(3, 0.1)}));
  service.samples.take(frame("b", 1, 1, {sample(0, 0.1, "p")}));
  const auto asked = [&](const std::string& node, const std::string& ns, const std::string& pod) {
    pb::QueryRequest request;
    request.set_node(node);
    request.set_namespace_(ns);
    request.set_pod(pod);
    return names(service.query(request));
  };
  EXPECT_EQ(asked("a", "", "").size(), 4U);
  EXPECT_EQ(asked("unknown", "", "").size(), 0U);
  EXPECT_EQ(asked("", "team", ""), (std::vector<std::string>{"a/0", "a/1", "b/0"}));
  EXPECT_EQ(asked("", "", "p"), (std::vector<std::string>{"a/0", "a/2", "b/0"}));
  EXPECT_EQ(asked("a", "team", "p"), (std::vector<std::string>{"a/0"}));
}

TEST(Query, ATenantSeesTheGpusOfTheirPods) {
  qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/roles.yaml")
      << "apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  tenants:\n"
         "  - {name: team, users: [ursula], namespaces: [team]}\n"
         "  - {name: other, users: [otto], namespaces: [other]}\n";
  rpc::AccessOptions access;
  access.review = [](const std::string& token) -> Result<rpc::Identity> { return rpc::Identity{token, {}}; };
  access.roles = *rpc::RoleMap::open(dir.path() + "/roles.yaml");
  LittleService service({{}, true, store::make_memory_disk(), std::make_shared<rpc::Access>(std::move(access))});
  service.samples.take(frame("a", 1'000'000, 1, {sample(0, 0.5, "train-0"), sample(1, 0)}));
  const auto seen_by = [&](const std::string& who) {
    Call call;
    call.AddMetadata("authorization", "Bearer " + who);
    pb::QueryResponse response;
    const auto status = service.stub->Query(&call, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return names(response);
  };
  EXPECT_EQ(seen_by("ursula").size(), 1U);
  EXPECT_EQ(seen_by("otto").size(), 0U);
}

TEST(Query, RefusesWhatIsOutOfBounds) {
  LittleService service;
  grpc::Status status;
  pb::QueryRequest request;
  for (const int size : {-1, 2001}) {
    request.set_page_size(size);
    (void)service.query(request, &status);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << size;
    EXPECT_EQ(rpc::from_grpc(status, "Query").field, "page_size");
  }
  request.set_page_size(2000);
  for (const std::string token : {"a", "a/", "a/x", "a/1x", "a/99999999999"}) {
    request.set_page_token(token);
    (void)service.query(request, &status);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << token;
    EXPECT_EQ(rpc::from_grpc(status, "Query").field, "page_token");
  }
}

struct Watch {
  Watch(LittleService& service, std::uint64_t after) {
    pb::WatchHealthRequest request;
    request.set_resume_version(after);
    reader = service.stub->WatchHealth(&call, request);
    reader->WaitForInitialMetadata();
  }
  ~Watch() { call.TryCancel(); }
  std::string next() {
    if (!reader->Read(&update)) return "over";
    return fmt::format("{} {}", update.verdict().node(), pb::HealthAction_Name(update.verdict().action()));
  }
  Call call;
  std::unique_ptr<grpc::ClientReader<pb::HealthUpdate>> reader;
  pb::HealthUpdate update;
};

TEST(WatchHealth, ResumesWhereItWas) {
  LittleService service;
  AgentStream agent(service, {"a"});
  const auto observed = [&](const std::string& id, const pb::AgentFact& fact) {
    agent.send(fact);
    ASSERT_TRUE(wait_until([&] { return agent.confirmed(id) == 1; }));
  };
  observed("1", xid_fact("1", "a", 13));
  std::uint64_t after = 0;
  {
    Watch watch(service, 0);
    observed("2", xid_fact("2", "b", 13));
    EXPECT_EQ(watch.next(), "b HEALTH_WATCH") << "what was before the watch is for Snapshot";
    after = watch.update.resume_version();
    EXPECT_GT(after, 0U);
  }
  observed("3", xid_fact("3", "a", 79));
  pb::AgentFact devices;
  devices.set_id("4");
  devices.mutable_devices()->set_node("a");
  devices.mutable_devices()->add_pods()->set_pod("p");
  observed("4", devices);
  Watch again(service, after);
  EXPECT_EQ(again.next(), "a HEALTH_CORDON");
  EXPECT_GT(again.update.resume_version(), after);
  pb::NodeEvent gone;
  gone.set_node("a");
  gone.set_state(pb::NODE_GONE);
  service.publish("qm.node", "a", gone.SerializeAsString());
  EXPECT_EQ(again.next(), "a HEALTH_NONE") << "devices are not a verdict; the end of one is";
}

TEST(WatchHealth, AVersionThatIsNotKeptIsRefused) {
  LittleService service;
  Watch watch(service, 1'000'000);
  EXPECT_EQ(watch.next(), "over");
  const auto error = rpc::from_grpc(watch.reader->Finish(), "WatchHealth");
  EXPECT_EQ(error.code, Code::kOutOfRange);
  EXPECT_EQ(error.field, "resume_version");
}

struct Follow {
  Follow(LittleService& service, const std::string& topic, const std::string& key) {
    pb::FollowEventsRequest request;
    request.set_topic(topic);
    request.set_key(key);
    reader = service.stub->FollowEvents(&call, request);
    reader->WaitForInitialMetadata();
  }
  ~Follow() { call.TryCancel(); }
  std::string next() {
    pb::EventLine line;
    if (!reader->Read(&line)) return "over";
    return fmt::format("{} {} {} {}", line.source(), line.topic(), line.key(), line.key_version());
  }
  Call call;
  std::unique_ptr<grpc::ClientReader<pb::EventLine>> reader;
};

TEST(FollowEvents, FiltersAndNamesTheSource) {
  LittleService service;
  ASSERT_TRUE(wait_until([&] { return service.observer->caught_up(); }));
  Follow all(service, "", ""), costs(service, "qm.cost", ""), one(service, "", "k2");
  service.publish("qm.workload", "k1", "");
  EXPECT_EQ(all.next(), "owner qm.workload k1 1");
  service.publish("qm.cost", "k1", "");
  EXPECT_EQ(all.next(), "owner qm.cost k1 1");
  service.publish("qm.workload", "k2", "");
  EXPECT_EQ(costs.next(), "owner qm.cost k1 1");
  EXPECT_EQ(one.next(), "owner qm.workload k2 1");
  EXPECT_EQ(all.next(), "owner qm.workload k2 1");
  // The service's own events are lines too.
  AgentStream agent(service, {"a"});
  agent.send(xid_fact("1", "a", 79));
  EXPECT_EQ(all.next(), "owner qm.gpu health/a 1");
}

TEST(FollowEvents, AReaderThatIsTooSlowIsSentAway) {
  LittleService service;
  ASSERT_TRUE(wait_until([&] { return service.observer->caught_up(); }));
  Follow slow(service, "qm.cost", "");
  Follow quick(service, "qm.workload", "");
  // Far more than the queue and the windows of HTTP/2 can hold together.
  constexpr std::size_t kLines = 3 * kLongestQueue;
  const std::string key(2048, 'k');
  std::vector<bus::Record> records;
  for (std::size_t i = 0; i < kLines; ++i) {
    pb::Envelope envelope;
    envelope.set_topic("qm.cost");
    envelope.set_key(key);
    envelope.set_key_version(i + 1);
    records.push_back({"qm.cost", key, envelope.SerializeAsString()});
  }
  auto producer = *service.bus->producer("test");
  ASSERT_TRUE(producer->publish(records, std::chrono::seconds(5)));
  service.publish("qm.workload", "w", "");
  EXPECT_EQ(quick.next(), "owner qm.workload w 1") << "one slow reader delays no other";
  ASSERT_TRUE(wait_until([&] { return service.observer->observed() > kLines; }));
  std::size_t got = 0;
  while (slow.next() != "over") ++got;
  EXPECT_LT(got, kLines);
  const auto status = slow.reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find("messages behind"), std::string::npos) << status.error_message();
}

TEST(Snapshot, GivesTheNewestOfEachKey) {
  LittleService service;
  AgentStream agent(service, {"a"});
  for (const std::string node : {"a", "b", "c"}) {
    agent.send(xid_fact(node, node, 79));
    ASSERT_TRUE(wait_until([&] { return agent.confirmed(node) == 1; }));
  }
  pb::NodeEvent gone;
  gone.set_node("b");
  gone.set_state(pb::NODE_GONE);
  service.publish("qm.node", "b", gone.SerializeAsString());
  ASSERT_TRUE(wait_until([&] { return service.verdicts() == 2; }));
  pb::SnapshotRequest request;
  request.set_topic("qm.gpu");
  request.set_page_size(1);
  std::vector<std::string> keys;
  for (;;) {
    Call call;
    pb::SnapshotResponse page;
    ASSERT_TRUE(service.stub->Snapshot(&call, request, &page).ok());
    for (const auto& e : page.entries()) keys.push_back(e.key());
    if (page.next_page_token().empty()) break;
    request.set_page_token(page.next_page_token());
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"health/a", "health/c"}));
  request.set_page_size(-1);
  Call call;
  pb::SnapshotResponse page;
  EXPECT_EQ(service.stub->Snapshot(&call, request, &page).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace api_test
}  // namespace qm::telemetry::testing
