// The mirror against a real Redis that is flushed, killed and started again.
#include "qm/testing/testing.hpp"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace qm::telemetry::testing {
namespace mirror_redis_test {

using namespace std::chrono_literals;
using qm::testing::wait_until;

/// Commands over one connection; responses of one line.
class RedisLine {
 public:
  explicit RedisLine(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval wait{5, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~RedisLine() { ::close(fd_); }
  RedisLine(const RedisLine&) = delete;
  RedisLine& operator=(const RedisLine&) = delete;

  /// The first line of the response, without its type; of a bulk string, the string.
  std::string call(const std::string& command) {
    const std::string text = command + "\r\n";
    EXPECT_EQ(::write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    const std::string first = line();
    if (first.empty() || first[0] != '$' || first == "$-1") return first.empty() ? first : first.substr(1);
    return bytes(std::stoul(first.substr(1)) + 2);
  }
  long number(const std::string& command) { return std::stol(call(command)); }

 private:
  std::string bytes(std::size_t n) {
    std::string out;
    while (out.size() < n) {
      char c = 0;
      if (::read(fd_, &c, 1) != 1) break;
      out += c;
    }
    return out;
  }
  std::string line() {
    std::string out;
    while (!out.ends_with("\r\n")) {
      const auto c = bytes(1);
      if (c.empty()) return {};
      out += c;
    }
    return out.substr(0, out.size() - 2);
  }
  int fd_;
};

class Mirror : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    redis_ = qm::testing::Redis::start(&why_not);
    if (!redis_) GTEST_SKIP() << why_not;
    address_ = fmt::format("127.0.0.1:{}", redis_->port());
  }
  static bool from(LittleService& service, const std::string& source, int readings) {
    const auto seen = service.query();
    return seen.source() == source && seen.readings_size() == readings;
  }
  std::unique_ptr<qm::testing::Redis> redis_;
  std::string address_;
};

TEST_F(Mirror, QueriesAreAnsweredFromRedis) {
  LittleService service({.redis = address_});
  service.samples.take(frame("a", 1, 1, {sample(1, 0.25, "p"), sample(0, 0.5)}));
  service.samples.take(frame("b", 1, 1, {sample(0, 0.75)}));
  ASSERT_TRUE(wait_until([&] { return from(service, "redis", 3); }));
  const auto seen = service.query();
  EXPECT_EQ(seen.readings(1).node(), "a");
  EXPECT_EQ(seen.readings(1).sample().SerializeAsString(), sample(1, 0.25, "p").SerializeAsString());
  EXPECT_EQ(seen.readings(1).at_us(), 1'000'000);
  pb::QueryRequest of;
  of.set_node("b");
  EXPECT_EQ(service.query(of).readings_size(), 1);
  EXPECT_EQ(service.query(of).source(), "redis");
  of.set_node("unknown");
  EXPECT_EQ(service.query(of).source(), "owner") << "what Redis does not hold, the owner is asked for";
  EXPECT_NE(service.registry.text().find("qm_telemetry_redis_up 1\n"), std::string::npos);
}

TEST_F(Mirror, KeysLiveThreePeriodsAndSixSecondsAtLeast) {
  LittleService service({.redis = address_});
  const auto now = std::chrono::steady_clock::now();
  service.samples.take(frame("slow", 1, 1, {sample(0, 0)}), now - 10s);
  service.samples.take(frame("slow", 61, 2, {sample(0, 0)}), now);
  service.samples.take(frame("fast", 1, 1, {sample(0, 0)}), now - 100ms);
  service.samples.take(frame("fast", 61, 2, {sample(0, 0)}), now);
  service.samples.take(frame("new", 61, 1, {sample(0, 0)}), now);
  RedisLine redis(redis_->port());
  ASSERT_TRUE(wait_until([&] { return redis.number("SCARD qm:gpu:nodes") == 3; }));
  const auto lives = [&](const std::string& key, std::chrono::milliseconds longest) {
    const long left = redis.number("PTTL " + key);
    EXPECT_LE(left, longest.count()) << key;
    EXPECT_GT(left, longest.count() - 4000) << key << ": it is written again every two seconds";
  };
  lives("qm:gpu:slow", 30s);
  lives("qm:gpu:fast", 6s);
  lives("qm:gpu:new", 180s);
  lives("qm:gpu:nodes", 180s);
}

TEST_F(Mirror, WhatIsGoneGoes) {
  LittleService service({.redis = address_});
  service.samples.take(frame("a", 1, 1, {sample(0, 0), sample(1, 0)}));
  service.samples.take(frame("b", 1, 1, {sample(0, 0)}));
  ASSERT_TRUE(wait_until([&] { return from(service, "redis", 3); }));
  service.samples.forget("b");
  RedisLine redis(redis_->port());
  EXPECT_TRUE(wait_until([&] { return redis.number("EXISTS qm:gpu:b") == 0; }, 5s));
  EXPECT_EQ(redis.number("SISMEMBER qm:gpu:nodes b"), 0);
  EXPECT_TRUE(from(service, "redis", 2));
  service.samples.forget("a");
  EXPECT_TRUE(wait_until([&] { return redis.number("DBSIZE") == 0; }, 5s));
  EXPECT_TRUE(from(service, "owner", 0));
}

TEST_F(Mirror, AFlushIsRepairedInFiveSecondsAndNeverGivesHalfAnAnswer) {
  LittleService service({.redis = address_});
  for (int i = 0; i < 200; ++i)
    service.samples.take(frame(fmt::format("n{:03}", i), 1, 1, {sample(0, 0), sample(1, 0)}));
  ASSERT_TRUE(wait_until([&] { return from(service, "redis", 200); })) << "one page";
  RedisLine redis(redis_->port());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(redis.call("FLUSHALL"), "OK");
    const auto begin = std::chrono::steady_clock::now();
    pb::QueryRequest all;
    all.set_page_size(2000);
    EXPECT_TRUE(wait_until(
        [&] {
          const auto seen = service.query(all);
          EXPECT_EQ(seen.readings_size(), 400) << seen.source();
          return seen.source() == "redis";
        },
        5s));
    EXPECT_LE(std::chrono::steady_clock::now() - begin, 5s);
  }
  // One node's value is missing: the owner responds for all.
  EXPECT_EQ(redis.number("DEL qm:gpu:n007"), 1);
  pb::QueryRequest all;
  all.set_page_size(2000);
  EXPECT_EQ(service.query(all).readings_size(), 400);
}

TEST_F(Mirror, WithoutRedisTheOwnerAnswersAndNamesTheSource) {
  LittleService service({.redis = address_});
  service.samples.take(frame("a", 1, 1, {sample(0, 0)}));
  ASSERT_TRUE(wait_until([&] { return from(service, "redis", 1); }));
  redis_->kill9();
  EXPECT_TRUE(from(service, "owner", 1)) << "the very next question";
  EXPECT_TRUE(wait_until([&] { return !service.redis->connected() && !service.redis->subscribed(); }));
  EXPECT_NE(service.registry.text().find("qm_telemetry_redis_up 0\n"), std::string::npos);
  ASSERT_TRUE(redis_->restart());
  EXPECT_TRUE(wait_until([&] { return from(service, "redis", 1); }, 10s));
  EXPECT_TRUE(wait_until([&] { return service.redis->subscribed(); }));
}

TEST_F(Mirror, ARedisThatRefusesLeavesTheOwner) {
  LittleService service({.redis = address_});
  RedisLine redis(redis_->port());
  EXPECT_EQ(redis.call("CONFIG SET maxmemory 1"), "OK");
  service.samples.take(frame("a", 1, 1, {sample(0, 0)}));
  const auto writes = [&] {
    const auto info = redis.call("INFO errorstats");
    return info.find("errorstat_OOM") != std::string::npos;
  };
  ASSERT_TRUE(wait_until(writes));
  EXPECT_TRUE(from(service, "owner", 1));
  EXPECT_EQ(redis.call("CONFIG SET maxmemory 0"), "OK");
  EXPECT_TRUE(wait_until([&] { return from(service, "redis", 1); }, 5s));
}

/// A follower whose lines are collected.
struct Follower {
  explicit Follower(LittleService& service) {
    service.observer->follow([this](const pb::EventLine& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(fmt::format("{} {}", line.source(), line.key()));
    });
  }
  std::size_t count(const std::string& line) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::ranges::count(lines, line));
  }
  std::size_t size() {
    const std::lock_guard lock(mutex);
    return lines.size();
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

TEST_F(Mirror, LinesGoThroughRedisToTheFollowersOfEveryProcess) {
  LittleService one({.redis = address_}), two({.redis = address_});
  ASSERT_TRUE(wait_until([&] {
    return one.redis->subscribed() && two.redis->subscribed() && one.observer->caught_up() && two.observer->caught_up();
  }));
  Follower here(one), there(two);
  one.publish("qm.cost", "k", "");
  EXPECT_TRUE(wait_until([&] { return here.count("redis k") == 1 && there.count("redis k") == 1; }));
  EXPECT_EQ(here.size(), 1U) << "once";
}

TEST_F(Mirror, LinesGoDirectlyWhileRedisIsAway) {
  LittleService service({.redis = address_});
  ASSERT_TRUE(wait_until([&] { return service.redis->subscribed() && service.observer->caught_up(); }));
  Follower follower(service);
  service.publish("qm.cost", "before", "");
  ASSERT_TRUE(wait_until([&] { return follower.count("redis before") == 1; }));
  redis_->kill9();
  service.publish("qm.cost", "away", "");
  ASSERT_TRUE(wait_until([&] { return follower.count("owner away") == 1; }));
  ASSERT_TRUE(redis_->restart());
  const auto whole = [&] { return service.redis->subscribed() && service.redis->connected(); };
  ASSERT_TRUE(wait_until(whole));
  // The command connection may detect only now that its server was replaced: then this line is sent directly.
  service.publish("qm.cost", "back", "");
  ASSERT_TRUE(wait_until([&] { return follower.count("redis back") + follower.count("owner back") == 1; }));
  ASSERT_TRUE(wait_until(whole));
  service.publish("qm.cost", "later", "");
  EXPECT_TRUE(wait_until([&] { return follower.count("redis later") == 1; }));
  EXPECT_EQ(follower.size(), 4U) << "each once";
}

TEST_F(Mirror, TheSubscriberStaysThroughSilence) {
  LittleService service({.redis = address_});
  service.samples.take(frame("a", 1, 1, {sample(0, 0)}));
  ASSERT_TRUE(wait_until([&] { return service.redis->subscribed() && from(service, "redis", 1); }));
  RedisLine redis(redis_->port());
  const auto connections = [&] {
    const auto info = redis.call("INFO stats");
    const std::string name = "total_connections_received:";
    return std::stol(info.substr(info.find(name) + name.size()));
  };
  const long before = connections();
  // Two refreshes are more than two seconds without a line.
  for (int i = 0; i < 2; ++i) {
    (void)redis.number("DEL qm:gpu:nodes");
    ASSERT_TRUE(wait_until([&] { return redis.number("EXISTS qm:gpu:nodes") == 1; }));
  }
  EXPECT_EQ(connections(), before) << "each new connection would be a moment in which lines are lost";
  EXPECT_EQ(redis.number("PUBLISH qm:events x"), 1);
}

TEST(NoRedis, NothingIsMirroredWithoutAnAddressOrWithABadOne) {
  for (const std::string address : {"", "nowhere", "127.0.0.1:1"}) {
    LittleService service({.redis = address});
    EXPECT_FALSE(service.redis->publish({})) << address;
    const auto none = service.redis->readings("");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::kUnavailable);
    EXPECT_FALSE(service.redis->connected());
  }
}

}  // namespace mirror_redis_test
}  // namespace qm::telemetry::testing
