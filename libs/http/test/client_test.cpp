#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "scripted_peer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace qm::http {
namespace client_test {

using namespace std::chrono_literals;
using testing::wait_until;
constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

Request request_of(const std::string& method) {
  Request request;
  request.method = method;
  return request;
}

TEST(Client, ReusesItsConnection) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    while (!wire.read_request().empty()) wire.send(kOk);
  });
  Client client(peer.origin());
  for (int i = 0; i < 5; ++i) {
    const auto answer = client.send({});
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(answer->body, "ok");
  }
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, LetsAClosingConnectionGo) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end");
  });
  Client client(peer.origin());
  EXPECT_EQ(client.send({})->body, "until the end");
  EXPECT_EQ(client.send({})->body, "until the end");
  EXPECT_EQ(peer.connections(), 2);
}

/// Connection 1 responds once and fails at the second request; the others respond once.
void dies_when_reused(ScriptedPeer::Wire& wire, int connection) {
  wire.read_request();
  wire.send(kOk);
  if (connection == 1) wire.read_request();
}

TEST(Client, RepeatsAnIdempotentRequestOnceAfterAStaleConnection) {
  ScriptedPeer peer(dies_when_reused);
  Client client(peer.origin());
  ASSERT_TRUE(client.send({}));
  const auto answer = client.send(request_of("PUT"));
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(peer.connections(), 2);
}

TEST(Client, NeverRepeatsAPost) {
  ScriptedPeer peer(dies_when_reused);
  Client client(peer.origin());
  ASSERT_TRUE(client.send({}));
  const auto answer = client.send(request_of("POST"));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnknown);
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, SeesThatAnIdleConnectionWasClosed) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send(kOk);
  });
  Client client(peer.origin());
  ASSERT_TRUE(client.send({}));
  ASSERT_TRUE(wait_until([&] { return peer.closed() == 1; }));
  const auto answer = client.send(request_of("POST"));  // would be kUnknown if it were sent
  EXPECT_TRUE(answer) << answer.error().to_string();
}

TEST(Client, AFreshConnectionThatBreaksIsNotRepeated) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) { wire.read_request(); });
  Client client(peer.origin());
  const auto answer = client.send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, ATruncatedAnswerIsUnavailable) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  });
  const auto answer = Client(peer.origin()).send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

TEST(Client, NoServerIsUnavailable) {
  const auto origin = "http://127.0.0.1:" + std::to_string(testing::free_port());
  const auto answer = Client(origin).send(request_of("POST"));
  ASSERT_FALSE(answer);
  // Nothing was sent, so that even a POST is safe to retry.
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_NE(answer.error().message.find(origin), std::string::npos) << answer.error().message;
}

TEST(Client, ASilentPeerIsDeadlineExceeded) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) { wire.hang(); });
  ClientOptions options;
  options.timeout = 50ms;
  const auto answer = Client(peer.origin(), options).send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kDeadlineExceeded);
}

TEST(Client, GarbageIsNoAnswer) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("220 smtp ready\r\n\r\n");
  });
  EXPECT_EQ(Client(peer.origin()).send({}).error().code, Code::kUnavailable);
}

TEST(Client, AnAnswerIsBounded) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + std::string(1000, 'x'));
  });
  ClientOptions options;
  options.max_body = 999;
  const auto answer = Client(peer.origin(), options).send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kInvalid);
  EXPECT_EQ(answer.error().field, "max_body");
}

TEST(Client, SkipsContinueAndReadsHead) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx");
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n");
    wire.read_request();
    wire.send("HTTP/1.1 204 No Content\r\n\r\n");
    wire.hang();
  });
  Client client(peer.origin());
  EXPECT_EQ(client.send(request_of("POST"))->status, 201);
  EXPECT_EQ(client.send(request_of("HEAD"))->status, 200);
  EXPECT_EQ(client.send(request_of("DELETE"))->status, 204);
  EXPECT_EQ(peer.connections(), 1);
}

TEST(Client, RefusesWhatWouldSmuggleARequest) {
  Client client("http://127.0.0.1:1");
  Request request;
  request.target = "/a b";
  EXPECT_EQ(client.send(request).error().code, Code::kInvalid);
  request.target = "/a\r\nX: y";
  EXPECT_EQ(client.send(request).error().code, Code::kInvalid);
  request.target = "/";
  request.headers.set("X", "a\nb");
  EXPECT_EQ(client.send(request).error().code, Code::kInvalid);
}

TEST(Client, NamesAWrongOrigin) {
  for (const auto* wrong : {"127.0.0.1:80", "http://", "http://a/b", "http://a:b", "ftp://a", "http://[::1"}) {
    const auto answer = Client(wrong).send({});
    ASSERT_FALSE(answer) << wrong;
    EXPECT_EQ(answer.error().code, Code::kInvalid) << wrong;
    EXPECT_EQ(answer.error().field, "origin");
  }
}

TEST(ClientStream, ABrokenConnectionIsUnavailable) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n8\r\nef");
  });
  std::string got;
  const auto ended = Client(peer.origin())
                         .stream({}, {},
                                 [&](std::string_view chunk) {
                                   got += chunk;
                                   return true;
                                 },
                                 {});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kUnavailable);
  EXPECT_EQ(got, "abcdef");
}

TEST(ClientStream, ALengthInsteadOfChunksIsFine) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno such");
  });
  int status = 0;
  std::string got;
  const auto ended = Client(peer.origin())
                         .stream(
                             {},
                             [&](const Response& head) {
                               status = head.status;
                               return true;
                             },
                             [&](std::string_view chunk) {
                               got += chunk;
                               return true;
                             },
                             {});
  EXPECT_TRUE(ended) << ended.error().to_string();
  EXPECT_EQ(status, 404);
  EXPECT_EQ(got, "no such");
}

TEST(ClientStream, EachOfTheThreeStops) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n");
    wire.hang();
  });
  Client client(peer.origin());
  const auto head = client.stream({}, [](const Response&) { return false; }, {}, {});
  EXPECT_EQ(head.error().code, Code::kCancelled);
  const auto chunk = client.stream({}, {}, [](std::string_view) { return false; }, {});
  EXPECT_EQ(chunk.error().code, Code::kCancelled);
  std::atomic<bool> stop = false;
  const auto asked = client.stream(
      {}, {},
      [&](std::string_view) {
        stop = true;
        return true;
      },
      [&] { return stop.load(); });
  EXPECT_EQ(asked.error().code, Code::kCancelled);
}

TEST(ClientStream, StopIsAskedWhileNothingComes) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) { wire.hang(); });
  int asked = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto ended = Client(peer.origin()).stream({}, {}, {}, [&] { return ++asked > 4; });
  EXPECT_EQ(ended.error().code, Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(ClientStream, WithAWakeStopIsAskedWhenItIsNotified) {
  std::atomic<int> requests = 0;
  ScriptedPeer peer([&](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    ++requests;
    wire.hang();
  });
  std::atomic<int> asked = 0;
  std::atomic<bool> stop = false;
  const Wake wake;
  std::thread streaming([&] {
    const auto ended = Client(peer.origin())
                           .stream(
                               {}, {}, {},
                               [&] {
                                 ++asked;
                                 return stop.load();
                               },
                               &wake);
    EXPECT_EQ(ended.error().code, Code::kCancelled);
  });
  EXPECT_TRUE(testing::wait_until([&] { return requests == 1; }));
  EXPECT_LT(asked, 20) << "not ten times a second";
  const auto start = std::chrono::steady_clock::now();
  stop = true;
  wake.notify();
  streaming.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(ClientStream, SilenceIsDeadlineExceeded) {
  ScriptedPeer peer([](ScriptedPeer::Wire& wire, int) {
    wire.read_request();
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n");
    wire.hang();
  });
  ClientOptions options;
  options.timeout = 50ms;
  const auto ended = Client(peer.origin(), options).stream({}, {}, {}, {});
  EXPECT_EQ(ended.error().code, Code::kDeadlineExceeded);
}

}  // namespace client_test
}  // namespace qm::http
