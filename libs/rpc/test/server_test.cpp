#include "qm/rpc/server.hpp"

#include "qm/base/text.hpp"
#include "qm/rpc/process.hpp"
#include "qm/testing/testing.hpp"
#include "tiny_service.hpp"

#include <fmt/format.h>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace qm::rpc {
namespace server_test {

using namespace std::chrono_literals;
using qm::testing::wait_until;

void deadline(grpc::ClientContext& context, std::chrono::milliseconds after = 20s) {
  context.set_deadline(std::chrono::system_clock::now() + after);
}

struct Running {
  explicit Running(ServerOptions options = {}, service::Host* host = nullptr)
      : service(host), server(std::move(options), {&service}) {
    const auto started = server.start();
    EXPECT_TRUE(started) << started.error().to_string();
    stub = stub_of(server.port());
  }
  TinyService service;
  Server server;
  std::unique_ptr<v1::Admission::Stub> stub;
};

TEST(RpcStatus, EveryCodeFieldAndRemedyComesBack) {
  for (int code = 1; code <= 16; ++code) {
    if (code == grpc::StatusCode::DATA_LOSS) continue;
    const Error error{static_cast<Code>(code), "what happened", "spec.count", "what to do"};
    const auto back = from_grpc(to_grpc(error), "Submit");
    EXPECT_EQ(back.code, error.code);
    EXPECT_EQ(back.message, "Submit: what happened");
    EXPECT_EQ(back.field, "spec.count");
    EXPECT_EQ(back.remedy, "what to do");
  }
}

/// The retry delay of a status; nothing if it has none.
std::optional<std::int64_t> retry_seconds(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  for (const auto& any : details.details()) {
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&retry)) return retry.retry_delay().seconds();
  }
  return std::nullopt;
}

TEST(RpcStatus, AnExhaustedCallHasARetryTime) {
  EXPECT_EQ(retry_seconds(to_grpc({Code::kExhausted, "full", {}, {}})), 1);
  EXPECT_EQ(retry_seconds(to_grpc({Code::kInvalid, "wrong", {}, {}})), std::nullopt);
}

TEST(RpcStatus, OthersStatusesAreRead) {
  const auto plain = from_grpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"), "Get");
  EXPECT_EQ(plain.code, Code::kUnavailable);
  EXPECT_EQ(plain.field, "");
  EXPECT_EQ(from_grpc(grpc::Status(grpc::StatusCode::DATA_LOSS, ""), "Get").code, Code::kInternal);
  const grpc::Status odd(grpc::StatusCode::INTERNAL, "x", "\x01 no protobuf \xff");
  EXPECT_EQ(from_grpc(odd, "Get").message, "Get: x");
}

TEST(RpcStatus, LongTextsStayInsideTheTrailers) {
  Error error{Code::kInvalid, std::string(1999, 'm') + "\xe2\x82\xac\xe2\x82\xac", std::string(5000, 'f'),
              std::string(5000, 'r')};
  const auto status = to_grpc(error);
  EXPECT_LE(status.error_message().size() + status.error_details().size() * 4 / 3, 7000U);
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));  // no character was split
  EXPECT_TRUE(from_grpc(status, "Get").message.ends_with("..."));
}

TEST(RpcServer, ErrorDetailsCrossTheWire) {
  Running running;
  grpc::ClientContext context;
  deadline(context);
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  context.AddMetadata("traceparent", trace);
  v1::SubmitResponse response;
  const auto error = from_grpc(running.stub->Submit(&context, {}, &response), "Submit");
  EXPECT_EQ(error.code, Code::kExhausted);
  EXPECT_EQ(error.field, running.service.error.field);
  EXPECT_EQ(error.remedy, running.service.error.remedy);
  EXPECT_EQ(running.service.seen_trace, trace);
}

TEST(RpcServer, ATraceParentThatIsNotHexadecimalIsDropped) {
  for (const auto& trace : {std::string(55, 'x'), std::string(54, 'a'), std::string(55, 'A')}) {
    Running running;
    running.service.seen_trace = "unset";
    grpc::ClientContext context;
    deadline(context);
    context.AddMetadata("traceparent", trace);
    v1::SubmitResponse response;
    (void)running.stub->Submit(&context, {}, &response);
    EXPECT_EQ(running.service.seen_trace, "") << trace;
  }
}

TEST(RpcServer, EvenTheLongestErrorArrives) {
  Running running;
  running.service.error = {Code::kInvalid, std::string(100000, 'm'), std::string(100000, 'f'),
                           std::string(100000, 'r')};
  grpc::ClientContext context;
  deadline(context);
  v1::SubmitResponse response;
  EXPECT_EQ(from_grpc(running.stub->Submit(&context, {}, &response), "Submit").code, Code::kInvalid);
}

TEST(RpcServer, AnOversizedMessageIsRefused) {
  ServerOptions options;
  options.max_receive_bytes = 1000;
  Running running(options);
  grpc::ClientContext context;
  deadline(context);
  v1::SubmitRequest request;
  request.set_manifest(std::string(2000, 'x'));
  v1::SubmitResponse response;
  const auto status = running.stub->Submit(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(status.error_details().empty());  // from the server's own limit, before the service
}

TEST(RpcServer, ADeadlineEndsTheCallOnBothSides) {
  Running running;
  // The first deadline may expire before there is a connection.
  EXPECT_TRUE(wait_until([&] {
    grpc::ClientContext context;
    deadline(context, 100ms);
    v1::ListWorkloadsResponse response;
    const auto status = running.stub->List(&context, {}, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    return running.service.cancelled >= 1;
  }));
}

TEST(RpcServer, ATakenAddressIsNamed) {
  Running running;
  ServerOptions options;
  options.address = "127.0.0.1:" + std::to_string(running.server.port());
  TinyService service;
  const auto started = Server(options, {&service}).start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kAlreadyExists);
  EXPECT_NE(started.error().message.find(options.address), std::string::npos);
}

/// grpc.health.v1.Health/Check by its wire format: field 1 of the response is the status, 1 = SERVING.
std::string health(int port) {
  const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  deadline(context);
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer empty(nullptr, 0);
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", empty, &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return "error: " + status.error_message();
  grpc::Slice slice;
  (void)answer.DumpToSingleSlice(&slice);
  const std::string bytes(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes == "\x08\x01" ? "SERVING" : bytes == "\x08\x02" ? "NOT_SERVING" : "other";
}

TEST(RpcServer, DrainLetsRunningCallsEnd) {
  ServerOptions options;
  options.drain = 60s;
  Running running(options);
  grpc::Status status(grpc::StatusCode::UNKNOWN, "not run");
  std::thread caller([&] {
    grpc::ClientContext context;
    deadline(context, 60s);
    v1::Explanation response;
    status = running.stub->Explain(&context, {}, &response);
  });
  ASSERT_TRUE(wait_until([&] { return running.service.waiting() == 1; }));
  std::thread stopper([&] { running.server.stop(); });
  // Other calls are served while the old one still runs: callers do not notice a handover.
  EXPECT_TRUE(wait_until([&] { return health(running.server.port()) == "NOT_SERVING"; })) << "it reports that it ends";
  {
    grpc::ClientContext context;
    deadline(context);
    v1::SubmitResponse response;
    EXPECT_EQ(stub_of(running.server.port())->Submit(&context, {}, &response).error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(running.service.waiting(), 1U);
  running.service.let_go();
  caller.join();
  stopper.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

/// An HTTP/2 client that completes the handshake, and then keeps its connection whatever it receives.
class Deaf {
 public:
  explicit Deaf(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9);
    EXPECT_EQ(::send(fd_, hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
    char byte = 0;
    EXPECT_EQ(::recv(fd_, &byte, 1, 0), 1);
  }
  ~Deaf() { ::close(fd_); }
  Deaf(const Deaf&) = delete;
  Deaf& operator=(const Deaf&) = delete;

 private:
  int fd_;
};

TEST(RpcServer, AnIdleConnectionIsNotWaitedFor) {
  ServerOptions options;
  options.drain = 60s;
  Running running(options);
  {
    grpc::ClientContext context;
    deadline(context);
    v1::SubmitResponse response;
    EXPECT_EQ(running.stub->Submit(&context, {}, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  const Deaf deaf(running.server.port());
  const auto before = std::chrono::steady_clock::now();
  running.server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
}

// Callers retry UNAVAILABLE, so a planned end must return that, also to calls that arrive during it.
TEST(RpcServer, ACallThatMeetsTheEndIsUnavailable) {
  std::atomic<int> cancelled = 0;
  for (int round = 0; round < 20; ++round) {
    Running running;
    std::atomic<bool> ended = false;
    std::atomic<int> answered = 0, other = 0;
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i) {
      callers.emplace_back([&] {
        for (int after = 0; after < 3;) {
          grpc::ClientContext context;
          deadline(context);
          v1::SubmitResponse response;
          const auto code = running.stub->Submit(&context, {}, &response).error_code();
          if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) {
            ++answered;
          } else if (code == grpc::StatusCode::CANCELLED) {
            ++cancelled;
          } else if (code != grpc::StatusCode::UNAVAILABLE) {
            ++other;
          }
          if (ended) ++after;
        }
      });
    }
    EXPECT_TRUE(wait_until([&] { return answered > 20; }));
    running.server.stop();
    ended = true;
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(other, 0) << "round " << round;
  }
  EXPECT_EQ(cancelled, 0) << "of some forty calls that met an end";
}

TEST(RpcServer, DrainCancelsWhatDoesNotEnd) {
  ServerOptions options;
  options.drain = 1s;
  Running running(options);
  grpc::Status status;
  std::thread caller([&] {
    grpc::ClientContext context;
    deadline(context, 60s);
    v1::ListWorkloadsResponse response;
    status = running.stub->List(&context, {}, &response);
  });
  ASSERT_TRUE(wait_until([&] { return running.service.hanging == 1; }));
  running.server.stop();
  caller.join();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(running.service.cancelled, 1);
}

TEST(RpcServer, HealthFlips) {
  Running running;
  EXPECT_EQ(health(running.server.port()), "SERVING");
  running.server.set_serving(false);
  EXPECT_EQ(health(running.server.port()), "NOT_SERVING");
  running.server.set_serving(true);
  EXPECT_EQ(health(running.server.port()), "SERVING");
}

/// A host in memory with its threads running, behind the tiny service.
struct Hosted {
  explicit Hosted(const std::string& name, service::HostOptions options = {}) {
    options.service = "tiny";
    options.produces = {"qm.workload"};
    host = std::make_unique<service::Host>(options, std::make_unique<CountingShell>(),
                                           store::open_memory(store::make_memory_disk()),
                                           *bus::make_bus("memory:" + name), clock, nullptr);
    const auto opened = host->open();
    EXPECT_TRUE(opened) << opened.error().to_string();
    host->start();
    running = std::make_unique<Running>(ServerOptions{}, host.get());
  }
  ~Hosted() {
    running.reset();
    host->stop();
  }
  grpc::Status cancel(const std::string& request_id, const std::string& uid, v1::CancelResponse* response) {
    grpc::ClientContext context;
    deadline(context);
    v1::CancelRequest request;
    request.set_request_id(request_id);
    request.set_uid(uid);
    return running->stub->Cancel(&context, request, response);
  }
  Result<std::uint64_t> count(const std::string& uid) {
    grpc::ClientContext context;
    deadline(context);
    v1::GetWorkloadRequest request;
    request.set_uid(uid);
    v1::Workload response;
    const auto status = running->stub->Get(&context, request, &response);
    if (!status.ok()) return fail(from_grpc(status, "Get"));
    return response.version();
  }
  SystemClock clock;
  std::unique_ptr<service::Host> host;
  std::unique_ptr<Running> running;
};

TEST(RpcHost, MutationsAreCommittedOnceAndReadBack) {
  Hosted hosted("rpc-mutate");
  v1::CancelResponse response;
  ASSERT_TRUE(hosted.cancel("r1", "u", &response).ok());
  EXPECT_EQ(response.phase(), v1::CANCELLED);
  ASSERT_TRUE(hosted.cancel("r1", "u", &response).ok());  // the same request again
  EXPECT_EQ(hosted.count("u"), 1U);
  ASSERT_TRUE(hosted.cancel("r2", "u", &response).ok());
  EXPECT_EQ(hosted.count("u"), 2U);
}

TEST(RpcHost, AFullMailboxIsExhaustedWithARetryTime) {
  service::HostOptions options;
  options.mailbox = 0;
  Hosted hosted("rpc-full", options);
  v1::CancelResponse response;
  const auto status = hosted.cancel("r1", "u", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(retry_seconds(status), 1);
  EXPECT_EQ(from_grpc(status, "Cancel").remedy, "try again in a second");
  EXPECT_EQ(hosted.host->counters().refused, 1U);
}

TEST(RpcHost, RefusalsCarryTheirField) {
  Hosted hosted("rpc-refuse");
  v1::CancelResponse response;
  const auto error = from_grpc(hosted.cancel("r1", "", &response), "Cancel");
  EXPECT_EQ(error.code, Code::kInvalid);
  EXPECT_EQ(error.field, "uid");
  const auto absent = hosted.count("unknown");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
}

TEST(RpcHost, TextsOfAReadAreBounded) {
  Hosted hosted("rpc-read");
  const auto refused = hosted.count(std::string(kMaxName + 1, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_NE(refused.error().message.find("GetWorkloadRequest.uid"), std::string::npos) << refused.error().message;
  EXPECT_EQ(hosted.count(std::string(kMaxName, 'x')).error().code, Code::kNotFound);
}

TEST(RpcHost, CountersAreExported) {
  Hosted hosted("rpc-export");
  metrics::Registry registry;
  export_host(registry, *hosted.host, "tiny");
  v1::CancelResponse response;
  ASSERT_TRUE(hosted.cancel("r1", "u", &response).ok());
  // The loop may count after it responded, and handles a timer now and then.
  const auto agrees = [&] {
    const auto inputs = hosted.host->counters().inputs;
    return inputs >= 1 && registry.text().find(fmt::format("qm_host_inputs_total{{service=\"tiny\"}} {}\n", inputs)) !=
                              std::string::npos;
  };
  EXPECT_TRUE(wait_until(agrees)) << registry.text();
  // A further scrape adds nothing.
  EXPECT_TRUE(wait_until(agrees)) << registry.text();
  EXPECT_NE(registry.text().find("qm_host_ready{service=\"tiny\"} 1\n"), std::string::npos);
}

bool wanted() { return false; }

TEST(RpcSnapshot, PagesThroughTheOwner) {
  Running running;
  const auto fetch = snapshot_over_grpc({{"admission", "127.0.0.1:" + std::to_string(running.server.port())}});
  const auto all = fetch("qm.workload", wanted);
  ASSERT_TRUE(all) << all.error().to_string();
  std::vector<std::string> keys;
  for (const auto& bytes : all->entries) {
    v1::Envelope envelope;
    ASSERT_TRUE(envelope.ParseFromString(bytes));
    keys.push_back(envelope.key());
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"k", "k1", "k2", "ended"}));
  EXPECT_EQ(running.service.pages, 4);
  running.service.stuck = true;
  const auto stuck = fetch("qm.workload", wanted);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().code, Code::kInternal);
  const int before = running.service.pages;
  EXPECT_EQ(fetch("qm.workload", [] { return true; }).error().code, Code::kCancelled);
  EXPECT_EQ(running.service.pages, before);
}

TEST(RpcPages, SizeIsAskedDefaultOrRefused) {
  EXPECT_EQ(*page_size(0, 100, 1000), 100U);
  EXPECT_EQ(*page_size(1, 100, 1000), 1U);
  EXPECT_EQ(*page_size(1000, 100, 1000), 1000U);
  for (const int wrong : {-1, 1001}) {
    const auto refused = page_size(wrong, 100, 1000);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_EQ(refused.error().field, "page_size");
    EXPECT_EQ(refused.error().remedy, "use 1 to 1000, or 0 for 100");
  }
}

TEST(RpcSnapshot, PagesThroughTheOwnTopic) {
  Hosted hosted("rpc-snapshot");
  v1::CancelResponse cancelled;
  for (const char* uid : {"a", "b", "c", "b"}) {
    ASSERT_TRUE(hosted.cancel("", uid, &cancelled).ok());
  }
  v1::SnapshotRequest request;
  request.set_topic("qm.workload");
  request.set_page_size(2);
  v1::SnapshotResponse first, second, one, refused;
  ASSERT_TRUE(fill_snapshot(*hosted.host, request, first));
  ASSERT_EQ(first.entries_size(), 2);
  EXPECT_EQ(first.entries(1).key(), "b");
  EXPECT_EQ(first.entries(1).payload(), "2");
  EXPECT_EQ(first.next_page_token(), "b");
  EXPECT_NE(first.term(), 0U);
  EXPECT_EQ(first.term(), first.entries(0).term()) << "the history of the owner";
  request.set_page_token(first.next_page_token());
  ASSERT_TRUE(fill_snapshot(*hosted.host, request, second));
  ASSERT_EQ(second.entries_size(), 1);
  EXPECT_EQ(second.entries(0).key(), "c");
  EXPECT_EQ(second.next_page_token(), "");
  request.set_page_token("");
  request.set_key("a");
  request.set_page_size(1);
  ASSERT_TRUE(fill_snapshot(*hosted.host, request, one));
  EXPECT_EQ(one.entries_size(), 1);
  EXPECT_EQ(one.next_page_token(), "");  // one key is one page
  request.set_page_size(5001);
  EXPECT_EQ(fill_snapshot(*hosted.host, request, refused).error().code, Code::kInvalid);
  request.set_page_size(1);
  request.set_topic("qm.cost");
  EXPECT_EQ(fill_snapshot(*hosted.host, request, refused).error().field, "topic");
}

TEST(RpcSnapshot, NamesTheMissingService) {
  const auto fetch = snapshot_over_grpc({{"cost", "127.0.0.1:" + std::to_string(qm::testing::free_port())}});
  const auto unknown = fetch("qm.node", wanted);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kFailedPrecondition);
  EXPECT_NE(unknown.error().remedy.find("--peer placement="), std::string::npos);
  EXPECT_EQ(fetch("qm.cost", wanted).error().code, Code::kUnavailable);
  EXPECT_EQ(fetch("other", wanted).error().code, Code::kInvalid);
}

}  // namespace server_test
}  // namespace qm::rpc
