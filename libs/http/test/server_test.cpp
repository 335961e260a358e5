#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "raw_socket.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace qm::http {
namespace server_test {

using namespace std::chrono_literals;
using testing::wait_until;

Answer echo(const Request& request) {
  auto answer = text(200, request.method + " " + request.target + " " + request.body);
  answer.headers.set("X-Seen", std::string(request.headers.get("x-ask")));
  return answer;
}

std::string origin(const Server& server) { return "http://127.0.0.1:" + std::to_string(server.port()); }

TEST(Server, AnswersAndKeepsTheConnection) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  RawSocket raw(server.port());
  for (int i = 0; i < 3; ++i) {
    raw.send("POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-Ask: yes\r\nContent-Length: 4\r\n\r\nbody");
    const auto head = raw.read_until("\r\n\r\n");
    EXPECT_NE(head.find("HTTP/1.1 200 OK\r\n"), std::string::npos) << head;
    EXPECT_NE(head.find("X-Seen: yes\r\n"), std::string::npos) << head;
    EXPECT_NE(head.find("Connection: keep-alive\r\n"), std::string::npos) << head;
    EXPECT_EQ(raw.read_exactly(16), "POST /a?b=c body");
  }
}

TEST(Server, TakesPipelinedRequestsInOrder) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  RawSocket raw(server.port());
  raw.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const auto all = raw.read_all();
  EXPECT_LT(all.find("GET /1 "), all.find("GET /2 "));
  EXPECT_NE(all.find("GET /2 "), std::string::npos);
}

TEST(Server, APinnedConnectionStaysWithItsThreadAndOthersGoOn) {
  std::mutex mutex;
  std::map<std::string, std::set<std::thread::id>> answered;  // path -> responding threads
  std::promise<void> go;
  const auto gone = go.get_future().share();
  ServerOptions options;
  options.threads = 3;
  options.pinned = true;
  Server server(options, [&](const Request& request) -> Answer {
    if (request.path() == "/waits") gone.wait();
    const std::scoped_lock lock(mutex);
    answered[request.path()].insert(std::this_thread::get_id());
    return text(200, "ok");
  });
  ASSERT_TRUE(server.start());
  RawSocket waits(server.port()), one(server.port()), two(server.port());
  waits.send("GET /waits HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 20; ++i) {
    for (auto* socket : {&one, &two}) {
      socket->send(std::string("GET ") + (socket == &one ? "/one" : "/two") + " HTTP/1.1\r\nHost: x\r\n\r\n");
      EXPECT_NE(socket->read_until("\r\n\r\n").find("200 OK"), std::string::npos);
      EXPECT_EQ(socket->read_exactly(2), "ok");
    }
  }
  go.set_value();
  EXPECT_NE(waits.read_until("\r\n\r\n").find("200 OK"), std::string::npos);
  server.stop();
  std::set<std::thread::id> all;
  for (const auto& [path, by] : answered) {
    EXPECT_EQ(by.size(), 1u) << path;
    all.insert(by.begin(), by.end());
  }
  EXPECT_EQ(all.size(), 3u) << "one of three each";
}

TEST(Server, ADrainingServerAnswersOnceMoreOnEachConnection) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  RawSocket kept(server.port()), silent(server.port());
  kept.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(kept.read_until("\r\n\r\n").find("Connection: keep-alive\r\n"), std::string::npos);
  EXPECT_EQ(kept.read_exactly(7), "GET /1 ");
  std::atomic<bool> drained = false;
  std::jthread drain([&] {
    server.drain(20s);
    drained = true;
  });
  std::string late;
  EXPECT_TRUE(wait_until([&] {  // a new connection is accepted too
    RawSocket fresh(server.port());
    fresh.send("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
    late = fresh.read_until("\r\n\r\n");
    return late.find("Connection: close\r\n") != std::string::npos;
  }));
  EXPECT_NE(late.find("200 OK"), std::string::npos);
  EXPECT_FALSE(drained) << "two connections are open";
  kept.send("GET /3 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(kept.read_all().ends_with("GET /3 ")) << "answered, then closed";
  kept.close();
  silent.close();
  drain.join();
  EXPECT_TRUE(drained);
}

TEST(Server, ADrainWaitsForWhatWasBegunAndNoLongerForTheSilent) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  std::atomic<int> asked = 0;
  Server server({}, [&](const Request& request) {
    ++asked;
    if (request.target == "/slow") gate.wait();
    return echo(request);
  });
  ASSERT_TRUE(server.start());
  RawSocket silent(server.port()), slow(server.port());
  slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(wait_until([&] { return asked == 1; }));
  std::jthread drain([&] {
    server.drain(1ms);
    server.stop();
  });
  EXPECT_TRUE(wait_until([&] {  // the server drains
    RawSocket fresh(server.port());
    fresh.send("GET /quick HTTP/1.1\r\nHost: x\r\n\r\n");
    return fresh.read_until("\r\n\r\n").find("Connection: close\r\n") != std::string::npos;
  }));
  go.set_value();
  EXPECT_TRUE(slow.read_all().ends_with("GET /slow "));
  EXPECT_EQ(silent.read_all(), "");
}

TEST(Server, ADrainEndsIdleConnectionsBeforeTheServerStops) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  RawSocket idle(server.port()), used(server.port());
  used.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(used.read_until("\r\n\r\n").find("Connection: keep-alive\r\n"), std::string::npos);
  EXPECT_EQ(used.read_exactly(7), "GET /1 ");
  ASSERT_TRUE(wait_until([&] {  // both are accepted
    RawSocket third(server.port());
    third.send("GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return third.read_all().ends_with("GET /2 ");
  }));
  server.drain(100ms);
  // The end of the stream, not a reset, and without a request.
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(used.read_all(), "");
}

TEST(Server, ADrainLastsWhileConnectionsArrive) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  const auto last_response = [&] {
    RawSocket fresh(server.port());
    fresh.send("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
    return fresh.read_until("\r\n\r\n").find("Connection: close\r\n") != std::string::npos;
  };
  ASSERT_FALSE(last_response());
  std::atomic<bool> drained = false;
  std::jthread drain([&] {
    server.drain(20s);
    drained = true;
  });
  ASSERT_TRUE(wait_until(last_response));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(last_response());
  EXPECT_FALSE(drained) << "no connection is open, and the last one was accepted a moment ago";
  server.stop();
}

// Sessions that end at the same time are not touched.
TEST(Server, ADrainMeetsConnectionsThatEnd) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  std::atomic<int> answered = 0;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        RawSocket fresh(server.port());
        fresh.send("GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        if (fresh.read_all().ends_with("GET /2 ")) ++answered;
      }
    });
  }
  while (answered < 5000) server.drain(0ms);
}

TEST(Server, ADrainEndsAlthoughConnectionsArrive) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  std::atomic<int> answered = 0;
  std::jthread clients([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      RawSocket fresh(server.port());
      fresh.send("GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
      if (fresh.read_all().ends_with("GET /2 ")) ++answered;
    }
  });
  ASSERT_TRUE(wait_until([&] { return answered > 0; }));
  server.drain(100ms);
  const int before = answered;
  EXPECT_TRUE(wait_until([&] { return answered > before; })) << "they still arrive";
}

TEST(Server, HeadHasNoBody) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  RawSocket raw(server.port());
  raw.send("HEAD /abc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const auto all = raw.read_all();
  EXPECT_NE(all.find("Content-Length: 10\r\n"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
}

TEST(Server, AHandlersLineBreaksAddNoHeader) {
  Server server({}, [](const Request&) {
    auto answer = text(200, "x");
    answer.headers.set("X-Name", "a\r\nX-Evil: yes");
    return answer;
  });
  ASSERT_TRUE(server.start());
  Client client(origin(server));
  const auto answer = client.send({});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->headers.get("X-Evil"), "");
}

TEST(Server, OversizedBodyIs413) {
  ServerOptions options;
  options.max_body = 1000;
  Server server(options, echo);
  ASSERT_TRUE(server.start());
  Request request;
  request.method = "POST";
  request.body = std::string(1001, 'x');
  Client client(origin(server));
  auto answer = client.send(request);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->status, 413);
  request.body.resize(1000);
  answer = client.send(request);
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->status, 200);
  // Chunked bodies have no size in advance.
  RawSocket raw(server.port());
  raw.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + std::string(0x800, 'x') +
           "\r\n0\r\n\r\n");
  EXPECT_NE(raw.read_all().find(" 413 "), std::string::npos);
}

TEST(Server, OversizedHeaderIs431AndGarbageIs400) {
  Server server({}, echo);
  ASSERT_TRUE(server.start());
  RawSocket big(server.port());
  big.send("GET / HTTP/1.1\r\nX-Big: " + std::string(40000, 'x') + "\r\n\r\n");
  EXPECT_NE(big.read_all().find(" 431 "), std::string::npos);
  RawSocket garbage(server.port());
  garbage.send("this is not http\r\n\r\n");
  EXPECT_NE(garbage.read_all().find(" 400 "), std::string::npos);
}

TEST(Server, ASlowRequestLosesItsConnection) {
  ServerOptions options;
  options.read_timeout = 1s;
  Server server(options, echo);
  ASSERT_TRUE(server.start());
  RawSocket raw(server.port());
  const auto start = std::chrono::steady_clock::now();
  raw.send("GET / HTTP/1.1\r\nHost: x\r\n");  // and never the empty line
  EXPECT_EQ(raw.read_all(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(Server, AnIdleConnectionIsClosed) {
  ServerOptions options;
  options.idle_timeout = 1s;
  Server server(options, echo);
  ASSERT_TRUE(server.start());
  RawSocket raw(server.port());
  EXPECT_EQ(raw.read_all(), "");
}

TEST(Server, ATakenPortIsNamed) {
  Server first({}, echo);
  ASSERT_TRUE(first.start());
  ServerOptions options;
  options.port = first.port();
  Server second(options, echo);
  const auto status = second.start();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kAlreadyExists);
  EXPECT_NE(status.error().message.find(std::to_string(first.port())), std::string::npos);
  ServerOptions wrong;
  wrong.address = "nowhere";
  EXPECT_EQ(Server(wrong, echo).start().error().code, Code::kInvalid);
}

TEST(Server, ConnectionsAreBounded) {
  ServerOptions options;
  options.max_connections = 2;
  Server server(options, echo);
  ASSERT_TRUE(server.start());
  RawSocket a(server.port()), b(server.port());
  a.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  b.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  a.read_until("\r\n\r\n");
  b.read_until("\r\n\r\n");
  RawSocket c(server.port());
  EXPECT_NE(c.read_all().find(" 503 "), std::string::npos);
  a.close();
  EXPECT_TRUE(wait_until([&] {
    RawSocket d(server.port());
    d.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return d.read_all().find(" 200 ") != std::string::npos;
  }));
}

TEST(Server, AThrowingHandlerIs500) {
  Server server({}, [](const Request&) -> Answer { throw std::runtime_error("planted"); });
  ASSERT_TRUE(server.start());
  Client client(origin(server));
  const auto answer = client.send({});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 500);
  EXPECT_EQ(answer->body.find("planted"), std::string::npos);
}

/// Passes its streams to the test.
struct StreamServer {
  explicit StreamServer(ServerOptions options = {})
      : server(options, [this](const Request&) {
          return Answer(json(200, ""), [this](std::shared_ptr<Stream> stream) {
            const std::scoped_lock lock(mutex);
            streams.push_back(std::move(stream));
          });
        }) {}
  std::shared_ptr<Stream> at(std::size_t i) {
    EXPECT_TRUE(wait_until([&] {
      const std::scoped_lock lock(mutex);
      return streams.size() > i;
    }));
    const std::scoped_lock lock(mutex);
    return streams.at(i);
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<Stream>> streams;
  Server server;
};

TEST(Stream, ChunksArriveInOrderAndEndCleanly) {
  StreamServer fixture;
  ASSERT_TRUE(fixture.server.start());
  Client client(origin(fixture.server));
  std::string got;
  Status ended = fail(Code::kInternal, "not run");
  std::thread reader([&] {
    ended = client.stream(
        {}, [](const Response& head) { return head.status == 200; },
        [&](std::string_view chunk) {
          got += chunk;
          return true;
        },
        {});
  });
  auto stream = fixture.at(0);
  std::string want;
  for (int i = 0; i < 1000; ++i) {
    const auto line = "line " + std::to_string(i) + "\n";
    want += line;
    EXPECT_TRUE(stream->write(line));
  }
  EXPECT_TRUE(stream->write(""));  // not the end of the body
  stream->close();
  EXPECT_TRUE(stream->closed());
  EXPECT_FALSE(stream->write("late"));
  reader.join();
  EXPECT_TRUE(ended) << ended.error().to_string();
  EXPECT_EQ(got, want);
}

TEST(Stream, ASlowReaderIsClosedAtTheBacklog) {
  ServerOptions options;
  options.max_stream_backlog = 1 << 20;
  StreamServer fixture(options);
  ASSERT_TRUE(fixture.server.start());
  RawSocket raw(fixture.server.port());
  raw.send("GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
  auto stream = fixture.at(0);
  // In addition to the backlog only the socket buffers accept bytes, and those are bounded too.
  int written = 0;
  while (written < 1000 && stream->write(std::string(64 << 10, 'x'))) ++written;
  EXPECT_LT(written, 1000);
  EXPECT_GE(written, 15);
  EXPECT_TRUE(stream->closed());
  // The reader sees a broken stream, not a clean end.
  const auto all = raw.read_all();
  EXPECT_FALSE(all.ends_with("0\r\n\r\n"));
}

TEST(Stream, AClientThatLeavesIsNoticed) {
  StreamServer fixture;
  ASSERT_TRUE(fixture.server.start());
  {
    RawSocket raw(fixture.server.port());
    raw.send("GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
    raw.read_until("\r\n\r\n");
    EXPECT_FALSE(fixture.at(0)->closed());
  }
  EXPECT_TRUE(wait_until([&] { return fixture.at(0)->closed(); }));
  EXPECT_FALSE(fixture.at(0)->write("x"));
}

TEST(Stream, StopClosesStreamsAndAHeldOneStaysHarmless) {
  std::shared_ptr<Stream> held;
  {
    StreamServer fixture;
    ASSERT_TRUE(fixture.server.start());
    RawSocket raw(fixture.server.port());
    raw.send("GET /watch HTTP/1.1\r\nHost: x\r\n\r\n");
    held = fixture.at(0);
    raw.read_until("\r\n\r\n");
    fixture.server.stop();
    EXPECT_EQ(raw.read_all(), "");
  }
  EXPECT_TRUE(held->closed());
  EXPECT_FALSE(held->write("x"));
  held->close();
}

void many_streams(const ServerOptions& options) {
  constexpr int kStreams = 64, kLines = 50;
  StreamServer fixture(options);
  ASSERT_TRUE(fixture.server.start());
  Client client(origin(fixture.server));
  std::atomic<int> lines = 0, clean = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < kStreams; ++i) {
    readers.emplace_back([&] {
      const auto ended = client.stream({}, {},
                                       [&](std::string_view chunk) {
                                         lines += static_cast<int>(std::ranges::count(chunk, '\n'));
                                         return true;
                                       },
                                       {});
      if (ended) ++clean;
    });
  }
  fixture.at(kStreams - 1);
  std::vector<std::jthread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int n = 0; n < kLines; ++n) {
        for (int i = w; i < kStreams; i += 4) fixture.streams[static_cast<std::size_t>(i)]->write("x\n");
      }
    });
  }
  writers.clear();
  for (auto& stream : fixture.streams) stream->close();
  readers.clear();
  EXPECT_EQ(lines, kStreams * kLines);
  EXPECT_EQ(clean, kStreams);
}

TEST(Stream, ManyAtOnce) { many_streams({}); }

TEST(Stream, ManyAtOnceOnThreadsOfTheirOwn) {
  ServerOptions options;
  options.threads = 3;
  options.pinned = true;
  many_streams(options);
}

}  // namespace server_test
}  // namespace qm::http
