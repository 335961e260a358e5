// Two replicas of each service: leaders are killed, stopped and replaced during work. Callers use any replica, retry
// only UNAVAILABLE answers, and observe no other effect.
#include "qm/rpc/channel.hpp"
#include "qm/testing/latencies.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"
#include "support.hpp"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

namespace qm::e2e {
namespace takeover_e2e_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTakeover = 5s;
constexpr double kFast = 60;
constexpr const char* kLost = "another replica is the leader now holder";

/// Reads from one service, alternating between its two replicas, each over its own connection; a read is retried only
/// after an UNAVAILABLE answer.
class Reader {
 public:
  Reader(std::string service, const std::vector<std::string>& addresses) : service_(std::move(service)) {
    for (const auto& address : addresses) channels_.push_back(rpc::channel_to(address));
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  void stop() { thread_ = {}; }
  [[nodiscard]] int calls() const { return calls_; }
  /// Longest duration of one read, including retries.
  [[nodiscard]] std::int64_t longest_ms() const { return longest_; }
  [[nodiscard]] std::vector<std::string> failures() const {
    const std::lock_guard lock(mutex_);
    return failures_;
  }

 private:
  template <class Service, class Request, class Response>
  static grpc::Status ask(const std::shared_ptr<grpc::Channel>& channel,
                          grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 10s);
    context.set_wait_for_ready(true);  // a blocking client connects only while a call waits for it
    Response response;
    return (Service::NewStub(channel).get()->*method)(&context, {}, &response);
  }
  grpc::Status once(const std::shared_ptr<grpc::Channel>& channel) const {
    if (service_ == "admission") return ask<pb::Admission>(channel, &pb::Admission::Stub::List);
    if (service_ == "placement") return ask<pb::Placement>(channel, &pb::Placement::Stub::ListNodes);
    if (service_ == "autoscaler") return ask<pb::Capacity>(channel, &pb::Capacity::Stub::ListClaims);
    if (service_ == "telemetry") return ask<pb::Telemetry>(channel, &pb::Telemetry::Stub::Query);
    return ask<pb::Cost>(channel, &pb::Cost::Stub::GetStatement);
  }
  void run(const std::stop_token& stop) {
    std::mutex idle;
    std::condition_variable_any wake;
    const auto pause = [&] {
      std::unique_lock lock(idle);
      wake.wait_for(lock, stop, 50ms, [] { return false; });
    };
    for (std::size_t i = 0; !stop.stop_requested(); ++i) {
      const auto begin = Clock::now();
      auto status = once(channels_[i % channels_.size()]);
      while (status.error_code() == grpc::StatusCode::UNAVAILABLE && Clock::now() - begin < 30s &&
             !stop.stop_requested()) {
        pause();
        status = once(channels_[i % channels_.size()]);
      }
      if (!status.ok() && !stop.stop_requested()) {
        const std::lock_guard lock(mutex_);
        failures_.push_back(
            fmt::format("{}: {} {}", service_, static_cast<int>(status.error_code()), status.error_message()));
      }
      ++calls_;
      longest_ = std::max<std::int64_t>(longest_, testing::ms_since(begin));
      pause();
    }
  }

  const std::string service_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::atomic<int> calls_ = 0;
  std::atomic<std::int64_t> longest_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> failures_;
  std::jthread thread_;
};

class Takeover : public SharedSuite<Takeover> {
 public:
  static std::vector<std::string> flags() {
    return {"--nodes", "4", "--replicas", "2", "--speed", std::to_string(static_cast<int>(kFast))};
  }

 protected:
  void start_readers() {
    for (const auto& service : Suite::services()) {
      std::vector<std::string> addresses;
      for (const auto& name : suite().replicas(service))
        addresses.push_back(suite().endpoints()["replicas"][service][name]["grpc"].string());
      ASSERT_EQ(addresses.size(), 2U);
      readers_.push_back(std::make_unique<Reader>(service, addresses));
    }
  }
  void expect_no_failed_reads(const std::string& what) {
    for (const auto& reader : readers_) {
      reader->stop();
      for (const auto& failure : reader->failures()) ADD_FAILURE() << failure;
      EXPECT_GT(reader->calls(), 10);
    }
    std::string longest;
    for (std::size_t i = 0; i < readers_.size(); ++i)
      longest += fmt::format(" {} {} of {}", Suite::services()[i], readers_[i]->longest_ms(), readers_[i]->calls());
    std::printf("[ figures  ] %s: longest read ms of reads:%s\n", what.c_str(), longest.c_str());
  }
  void submit(const std::string& name, int run_s = 60) {
    jobs_.push_back(name);
    // Only UNAVAILABLE is retried, with the same request id.
    Status done;
    EXPECT_TRUE(eventually([&] {
      done = suite().submit({.name = name, .run_s = run_s});
      return done || done.error().code != Code::kUnavailable;
    })) << name;
    EXPECT_TRUE(done) << name << ": " << done.error().to_string();
  }
  void expect_each_job_once() {
    for (const auto& name : jobs_) {
      EXPECT_TRUE(eventually([&] { return suite().finished(name); }, 90s)) << name << " is not finished";
      EXPECT_EQ(suite().count("job_create", name), 1) << name;
      EXPECT_EQ(suite().count("job_finish", name), 1) << name;
    }
    std::string who;
    EXPECT_TRUE(eventually([&] { return suite().quiet(&who); }, 60s)) << who;
    const auto books = suite().statement();
    ASSERT_TRUE(books) << books.error().to_string();
    EXPECT_EQ(books->imbalance_nano_usd(), 0);
    EXPECT_EQ(books->total_nano_usd(), books->provider_nano_usd());
  }
  std::string must_lead(const std::string& service) {
    std::string who;
    EXPECT_TRUE(eventually([&] { return !(who = suite().leader(service)).empty(); })) << service << " has no leader";
    return who;
  }
  /// Milliseconds until a replica other than `old` leads and serves.
  std::int64_t until_next(const std::string& service, const std::string& old, Clock::time_point begin) {
    std::string next;
    EXPECT_TRUE(testing::wait_until([&] {
      for (const auto& name : suite().replicas(service)) {
        if (name == old) continue;
        const auto state = suite().debug_state(name);
        if (state && (*state)["host"]["ready"].boolean()) next = name;
      }
      return !next.empty();
    })) << service;
    return testing::ms_since(begin);
  }

  std::vector<std::unique_ptr<Reader>> readers_;
  std::vector<std::string> jobs_;
};

TEST_F(Takeover, BothReplicasAreReadyAndOneLeads) {
  for (const auto& service : Suite::services()) {
    const auto names = suite().replicas(service);
    ASSERT_EQ(names.size(), 2U);
    int leading = 0;
    for (const auto& name : names) {
      EXPECT_TRUE(eventually([&] { return suite().ready(name); })) << name;
      const auto state = suite().debug_state(name);
      ASSERT_TRUE(state) << state.error().to_string();
      if (!(*state)["host"].is_null()) ++leading;
    }
    EXPECT_EQ(leading, 1) << service;
  }
}

TEST_F(Takeover, TwentyKilledLeadersAreFollowedWithinFiveSeconds) {
  ASSERT_NO_FATAL_FAILURE(start_readers());
  std::vector<std::int64_t> took;
  for (int round = 0; round < 4; ++round) {
    for (const auto& service : Suite::services()) {
      submit(fmt::format("kill-{}-{}", service, round));
      const auto old = must_lead(service);
      const auto begin = Clock::now();
      const auto killed = suite().stop(old, SIGKILL);
      ASSERT_TRUE(killed) << killed.error().to_string();
      took.push_back(until_next(service, old, begin));
      const auto back = suite().start(old);
      ASSERT_TRUE(back) << back.error().to_string();
    }
  }
  std::printf("[ figures  ] takeover after SIGKILL: %s\n", testing::latencies(took).c_str());
  EXPECT_LE(std::chrono::milliseconds(*std::ranges::max_element(took)), kTakeover);
  expect_no_failed_reads("twenty kills");
  expect_each_job_once();
}

TEST_F(Takeover, ARollingUpgradeFailsNoCall) {
  ASSERT_NO_FATAL_FAILURE(start_readers());
  std::vector<std::int64_t> took;
  for (const auto& service : Suite::services()) {
    submit("roll-" + service);
    // The standby first, then the leader: like a Deployment, one replica at a time.
    const auto leader = must_lead(service);
    auto names = suite().replicas(service);
    std::ranges::sort(names, {}, [&](const auto& name) { return name == leader; });
    for (const auto& name : names) {
      const auto begin = Clock::now();
      const auto ended = suite().stop(name, SIGTERM);
      ASSERT_TRUE(ended) << ended.error().to_string();
      if (name == leader) took.push_back(until_next(service, name, begin));
      const auto back = suite().start(name);
      ASSERT_TRUE(back) << back.error().to_string();
    }
  }
  std::printf("[ figures  ] handover after SIGTERM: %s\n", testing::latencies(took).c_str());
  expect_no_failed_reads("rolling upgrade");
  expect_each_job_once();
}

TEST_F(Takeover, LeadersThatStandStillForHalfAMinuteComeBackAsStandbys) {
  ASSERT_NO_FATAL_FAILURE(start_readers());
  for (int i = 0; i < 4; ++i) submit(fmt::format("before-pause-{}", i), 900);
  std::map<std::string, std::string> old;
  std::map<std::string, std::size_t> reported;  // lost leads in its log so far
  std::vector<std::int64_t> took;
  const auto begin = Clock::now();
  for (const auto& service : Suite::services()) {
    old[service] = must_lead(service);
    reported[service] = suite().log_lines(old[service], {kLost}).size();
    suite().signal(old[service], SIGSTOP);
  }
  for (const auto& service : Suite::services()) took.push_back(until_next(service, old[service], begin));
  for (int i = 0; i < 4; ++i) submit(fmt::format("while-paused-{}", i), 60);
  EXPECT_TRUE(testing::wait_until([&] { return Clock::now() - begin > 30s; }, 60s));
  for (const auto& [service, name] : old) suite().signal(name, SIGCONT);
  for (const auto& [service, name] : old) {
    EXPECT_TRUE(eventually([&] {
      const auto state = suite().debug_state(name);
      return state && (*state)["role"].string() == "standby" && suite().ready(name);
    })) << name
        << " does not step down\n"
        << suite().account_of(name);
    EXPECT_EQ(suite().log_lines(name, {kLost}).size(), reported[service] + 1) << name << " has no reason";
  }
  std::printf("[ figures  ] takeover after SIGSTOP, all five at once: %s\n", testing::latencies(took).c_str());
  EXPECT_LE(std::chrono::milliseconds(*std::ranges::max_element(took)), 2 * kTakeover) << "five at once on a busy host";
  for (const auto& reader : readers_) reader->stop();  // a call to a stopped process does not end as UNAVAILABLE
  expect_each_job_once();
}

}  // namespace takeover_e2e_test
}  // namespace qm::e2e
