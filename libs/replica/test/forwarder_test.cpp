#include "qm/replica/forwarder.hpp"

#include "qm/rpc/channel.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

namespace qm::replica {
namespace forwarder_test {

using namespace std::chrono_literals;
namespace v1 = quartermaster::v1;

/// The leader's responses: Submit refuses with details, Get returns the metadata, List never responds.
class LeaderApi final : public v1::Admission::CallbackService {
 public:
  std::atomic<int> hanging = 0, cancelled = 0;
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context, const v1::SubmitRequest*,
                                   v1::SubmitResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(rpc::to_grpc({Code::kExhausted, "the queue is full", "spec.queue", "wait"}));
    return reactor;
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetWorkloadRequest* request,
                                v1::Workload* response) override {
    response->mutable_state()->mutable_spec()->set_queue(request->uid());
    response->mutable_state()->mutable_spec()->set_name(rpc::trace_parent(*context));
    const auto left = context->deadline() - std::chrono::system_clock::now();
    response->set_version(static_cast<std::uint64_t>(left / 1s));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext*, const v1::ListWorkloadsRequest*,
                                 v1::ListWorkloadsResponse*) override {
    struct Hanging final : grpc::ServerUnaryReactor {
      explicit Hanging(LeaderApi& owner) : api(owner) {}
      void OnCancel() override {
        ++api.cancelled;
        Finish(grpc::Status::CANCELLED);
      }
      void OnDone() override { delete this; }
      LeaderApi& api;
    };
    ++hanging;
    return new Hanging(*this);
  }
};

/// Responds to each message of a Push with an order that has its number, until the client is done.
class AgentApi final : public v1::Telemetry::CallbackService {
 public:
  grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentOrder>* Push(grpc::CallbackServerContext*) override {
    struct Echo final : grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentOrder> {
      Echo() { StartRead(&in); }
      void OnReadDone(bool ok) override {
        if (!ok) return Finish(grpc::Status::OK);
        out.set_fact_committed(std::to_string(++count));
        StartWrite(&out);
      }
      void OnWriteDone(bool ok) override {
        if (ok) StartRead(&in);
      }
      void OnDone() override { delete this; }
      v1::AgentMessage in;
      v1::AgentOrder out;
      int count = 0;
    };
    return new Echo;
  }
};

class Forwarding : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(standby_.start());
    ASSERT_TRUE(leader_->start());
    leads_ = "127.0.0.1:" + std::to_string(leader_->port());
  }
  void TearDown() override {
    forwarder_.stop();
    standby_.stop();
    leader_->stop();
  }
  std::string standby() { return "127.0.0.1:" + std::to_string(standby_.port()); }
  std::unique_ptr<v1::Admission::Stub> stub() { return v1::Admission::NewStub(rpc::channel_to(standby())); }
  grpc::Status get(v1::Workload* out, grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + 30s);
    v1::GetWorkloadRequest request;
    request.set_uid("u1");
    return stub()->Get(&context, request, out);
  }

  LeaderApi api_;
  AgentApi agents_;
  std::mutex mutex_;
  std::string leads_;
  Forwarder forwarder_{"admission", [this] {
                         const std::lock_guard lock(mutex_);
                         return leads_;
                       }};
  // The order of a real standby: its server has no reflection because no earlier server in the process had one.
  rpc::Server standby_{[this] {
                         rpc::ServerOptions options;
                         options.generic = &forwarder_;
                         options.drain = std::chrono::seconds(0);
                         return options;
                       }(),
                       {}};
  std::unique_ptr<rpc::Server> leader_ =
      std::make_unique<rpc::Server>(rpc::ServerOptions{}, std::vector<grpc::Service*>{&api_, &agents_});
};

TEST_F(Forwarding, ACallGoesThroughWithItsDeadlineAndMetadata) {
  grpc::ClientContext context;
  context.AddMetadata("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  v1::Workload got;
  const auto status = get(&got, context);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(got.state().spec().queue(), "u1");
  EXPECT_EQ(got.state().spec().name(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_GE(got.version(), 20U);
  EXPECT_LE(got.version(), 30U);
}

TEST_F(Forwarding, ARefusalComesBackWithItsDetails) {
  grpc::ClientContext context;
  v1::SubmitResponse response;
  const auto error = rpc::from_grpc(stub()->Submit(&context, {}, &response), "Submit");
  EXPECT_EQ(error.code, Code::kExhausted);
  EXPECT_EQ(error.field, "spec.queue");
  EXPECT_EQ(error.remedy, "wait");
}

TEST_F(Forwarding, AStreamGoesBothWaysAndEndsWithItsClient) {
  const auto agent = v1::Telemetry::NewStub(rpc::channel_to(standby()));
  grpc::ClientContext context;
  const auto stream = agent->Push(&context);
  for (int i = 1; i <= 200; ++i) {
    ASSERT_TRUE(stream->Write({}));
    v1::AgentOrder order;
    ASSERT_TRUE(stream->Read(&order));
    ASSERT_EQ(order.fact_committed(), std::to_string(i));
  }
  stream->WritesDone();
  v1::AgentOrder order;
  EXPECT_FALSE(stream->Read(&order));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(Forwarding, ACanceledCallIsCanceledAtTheLeader) {
  grpc::ClientContext context;
  std::thread caller([&] {
    v1::ListWorkloadsResponse response;
    EXPECT_EQ(stub()->List(&context, {}, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(testing::wait_until([&] { return api_.hanging == 1; }));
  context.TryCancel();
  caller.join();
  EXPECT_TRUE(testing::wait_until([&] { return api_.cancelled == 1; }));
}

// A replica ends its standby when it takes the lead. Callers retry UNAVAILABLE, so the end must look like that to
// all of them, also to those whose call arrives during it.
TEST_F(Forwarding, ACallThatMeetsTheEndOfTheStandbyIsToBeSentAgain) {
  for (int round = 0; round < 20; ++round) {
    Forwarder forwarder("admission", [this] { return leads_; });
    rpc::ServerOptions options;
    options.generic = &forwarder;
    rpc::Server standby(options, {});
    ASSERT_TRUE(standby.start());
    std::atomic<bool> ended = false;
    std::atomic<int> answered = 0;
    std::mutex mutex;
    std::map<std::string, int> other;
    std::vector<std::jthread> callers;
    for (int i = 0; i < 2; ++i) {
      callers.emplace_back([&] {
        grpc::ChannelArguments args;
        // A client that was connected for seconds reconnects at once.
        args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 1);
        args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1);
        args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        const auto stub = v1::Admission::NewStub(grpc::CreateCustomChannel(
            "127.0.0.1:" + std::to_string(standby.port()), grpc::InsecureChannelCredentials(), args));
        for (int after = 0; after < 3; after += ended ? 1 : 0) {
          grpc::ClientContext context;
          context.set_deadline(std::chrono::system_clock::now() + 30s);
          v1::SubmitResponse response;
          const auto status = stub->Submit(&context, {}, &response);
          if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
            ++answered;  // the leader's response
          } else if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
            const std::lock_guard lock(mutex);
            ++other[std::to_string(status.error_code()) + " " + status.error_message()];
          }
        }
      });
    }
    EXPECT_TRUE(testing::wait_until([&] { return answered > 20; }));
    forwarder.stop();
    standby.stop();
    ended = true;
    callers.clear();
    EXPECT_EQ(other, (std::map<std::string, int>{})) << "round " << round;
  }
}

TEST_F(Forwarding, WithoutALeaderACallIsToBeSentAgain) {
  {
    const std::lock_guard lock(mutex_);
    leads_.clear();
  }
  grpc::ClientContext context;
  v1::Workload got;
  const auto error = rpc::from_grpc(get(&got, context), "Get");
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_FALSE(error.remedy.empty());
}

TEST_F(Forwarding, ALeaderThatIsGoneIsUnavailable) {
  leader_->stop();
  grpc::ClientContext context;
  v1::Workload got;
  EXPECT_EQ(get(&got, context).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Forwarding, ACallDoesNotGoInCircles) {
  {
    const std::lock_guard lock(mutex_);
    leads_ = standby();  // as after an address was reassigned
  }
  grpc::ClientContext context;
  v1::Workload got;
  EXPECT_EQ(get(&got, context).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(Forwarding, CallsUnderWayWhenItTakesTheLeadAreToBeSentAgain) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      grpc::ClientContext context;
      v1::ListWorkloadsResponse response;
      EXPECT_EQ(stub()->List(&context, {}, &response).error_code(), grpc::StatusCode::UNAVAILABLE);
    });
  }
  EXPECT_TRUE(testing::wait_until([&] { return api_.hanging == 4; }));
  forwarder_.stop();
  for (auto& caller : callers) caller.join();
  EXPECT_TRUE(testing::wait_until([&] { return api_.cancelled == 4; }));
}

// A channel to several replicas uses one that is available.
TEST_F(Forwarding, AClientWithTwoAddressesReachesTheOneThatIsThere) {
  const auto both = fmt::format("127.0.0.1:{},{}", testing::free_port(), standby());
  const auto stub = v1::Admission::NewStub(rpc::channel_to(both));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 30s);
  v1::Workload got;
  const auto status = stub->Get(&context, {}, &got);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace forwarder_test
}  // namespace qm::replica
