// The result of Submit depends on the access of its caller in Kubernetes.
#include "caller.hpp"
#include "job_server.hpp"
#include "qm/admission/api.hpp"
#include "qm/admission/codec.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

namespace qm::admission {
namespace submit_access_test {

namespace pb = quartermaster::v1;

// Our account creates the Job, so the caller must be allowed to do that too.
TEST(SubmitAccess, ChecksPermissionsOfCaller) {
  service::HostOptions host_options;
  host_options.service = "admission";
  host_options.consumes = {"qm.placement", "qm.capacity", "qm.cost"};
  host_options.produces = {kTopic};
  auto bus = bus::make_bus("memory:admission-submit");
  ASSERT_TRUE(bus);
  const ManualClock clock{from_micros(1'800'000'000'000'000)};
  service::Host host(host_options, std::make_unique<AdmissionShell>(std::make_unique<Engine>(), Codec{}),
                     store::open_memory(store::make_memory_disk()), *bus, clock, nullptr);
  ASSERT_TRUE(host.open());
  host.start();
  const qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/roles.yaml")
      << "apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  operators: {users: [olga]}\n  tenants:\n"
         "  - {name: team, users: [ursula, tom], namespaces: [team], teams: [blue]}\n";
  rpc::AccessOptions access;
  access.review = [](const std::string& token) -> Result<rpc::Identity> { return rpc::Identity{token, {"people"}}; };
  access.roles = *rpc::RoleMap::open(dir.path() + "/roles.yaml");
  rpc::ServerOptions options;
  options.access = std::make_shared<rpc::Access>(std::move(access));

  // ursula may create Jobs and run them as "trainer"; the access of tom cannot be determined.
  std::mutex mutex;
  std::condition_variable changed;
  bool held = false, asked = false;
  std::vector<std::string> reviewed;
  const auto reviews = std::make_shared<kube::AccessReviews>([&](const Json& review) -> Result<Json> {
    const auto& spec = review["spec"];
    const auto& attributes = spec["resourceAttributes"];
    std::unique_lock lock(mutex);
    reviewed.push_back(fmt::format("{} {} {} {}/{} {}", spec["user"].string(), spec["groups"].dump(),
                                   attributes["verb"].string(), attributes["namespace"].string(),
                                   attributes["resource"].string(), attributes["name"].string()));
    asked = true;
    changed.notify_all();
    changed.wait(lock, [&] { return !held; });
    if (spec["user"].string() == "tom") return fail(Code::kUnavailable, "connection refused");
    const auto& name = attributes["name"].string();
    const bool allowed = spec["user"].string() == "ursula" && (name.empty() || name == "trainer");
    return Json::object({{"status", Json::object({{"allowed", allowed}})}});
  });
  const auto api = make_service(host, clock, {reviews});
  rpc::Server guarded(options, {api.get()});
  ASSERT_TRUE(guarded.start());
  const testing::Caller as(guarded.port());
  const auto submit = [&](const std::string& who, const std::string& name, const std::string& account = {}) {
    pb::SubmitRequest request;
    auto job = testing::make_job("team", name, "q", 1);
    if (!account.empty()) job.set("spec").set("template").set("spec").set("serviceAccountName", account);
    request.set_manifest(job.dump());
    pb::SubmitResponse response;
    return as(who, &pb::Admission::Stub::Submit, request, response);
  };
  const auto submitted = [&](const std::string& name) {
    bool found = false;
    host.read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const AdmissionShell&>(shell).engine();
      found = engine.tables().submissions.find({Namespace("team"), name}) != nullptr;
    });
    return found;
  };
  constexpr auto kOk = static_cast<Code>(0);
  pb::ApplyRequest queues;
  queues.set_manifest(testing::kQueues);
  pb::ApplyResponse applied;
  ASSERT_EQ(as("olga", &pb::Admission::Stub::Apply, queues, applied).code, kOk);

  EXPECT_EQ(submit("ursula", "a").code, kOk);
  EXPECT_TRUE(submitted("a"));
  EXPECT_EQ(submit("ursula", "b", "trainer").code, kOk);
  EXPECT_EQ(submit("ursula", "c", "default").code, kOk);
  EXPECT_EQ(reviewed, (std::vector<std::string>{R"(ursula ["people"] create team/jobs )",
                                                R"(ursula ["people"] impersonate team/serviceaccounts trainer)"}));

  auto error = submit("ursula", "d", "admin");
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_EQ(error.field, "spec.template.spec.serviceAccountName");
  EXPECT_NE(error.message.find("ursula may not impersonate serviceaccounts/admin in namespace team"), std::string::npos)
      << error.to_string();
  EXPECT_FALSE(submitted("d"));
  // A role in Quartermaster gives no right in the cluster, not even that of an operator, by manifest or by spec.
  error = submit("olga", "e");
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_NE(error.message.find("olga may not create jobs.batch in namespace team"), std::string::npos)
      << error.to_string();
  EXPECT_NE(error.remedy.find("bind a Role with verb create on jobs.batch in namespace team to olga"),
            std::string::npos);
  pb::SubmitRequest by_spec;
  by_spec.mutable_spec()->set_namespace_("team");
  by_spec.mutable_spec()->set_name("f");
  by_spec.mutable_spec()->add_pod_sets()->set_count(1);
  pb::SubmitResponse response;
  EXPECT_EQ(as("olga", &pb::Admission::Stub::Submit, by_spec, response).code, Code::kPermissionDenied);
  EXPECT_FALSE(submitted("e") || submitted("f"));
  EXPECT_EQ(submit("tom", "g").code, Code::kUnavailable);
  EXPECT_FALSE(submitted("g"));

  // While the API server has not responded, every other call is handled.
  {
    const std::scoped_lock lock(mutex);
    held = true;
    asked = false;
  }
  Error late;
  std::jthread waits([&] { late = submit("ursula", "h", "slow"); });
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return asked; }));
  }
  for (int i = 0; i < 50; ++i) {
    pb::ListQueuesResponse listed;
    EXPECT_EQ(as("ursula", &pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), listed).code, kOk);
  }
  {
    const std::scoped_lock lock(mutex);
    held = false;
  }
  changed.notify_all();
  waits.join();
  EXPECT_EQ(late.code, Code::kPermissionDenied);
  guarded.stop();
  host.stop();
}

}  // namespace submit_access_test
}  // namespace qm::admission
