// Each service in turn is stopped or ended: the other four stay ready and do their own work. When the service is back
// it catches up and nothing is lost. The same for Redis, which may lose everything, and PostgreSQL, which may not.
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace qm::e2e {
namespace outage_e2e_test {

using namespace std::chrono_literals;

constexpr int kNodes = 4;
constexpr int kGpus = kNodes * 8;
constexpr double kSlow = 1, kFast = 60;  // domain seconds a second
constexpr int kUnreachable = 3;          // qmctl's exit code

class Outage : public SharedSuite<Outage> {
 public:
  static std::vector<std::string> flags() {
    return {"--nodes", std::to_string(kNodes), "--speed", std::to_string(static_cast<int>(kFast))};
  }

 protected:
  void set_clock(double factor) {
    const auto done = suite().clock(factor);
    ASSERT_TRUE(done) << done.error().to_string();
  }
  void submit(const JobAsk& ask) {
    const auto done = suite().submit(ask);
    ASSERT_TRUE(done) << ask.name << ": " << done.error().to_string();
  }
  /// Starts a job that keeps running until the test advances time.
  void run_job(const std::string& name) {
    set_clock(kSlow);
    ASSERT_NO_FATAL_FAILURE(submit({.name = name, .pods = 2, .gpus = 2, .run_s = 120}));
    ASSERT_TRUE(eventually([&] { return suite().count("pod_start", name) == 2; })) << name << " does not start";
  }
  void expect_rest() {
    std::string who;
    EXPECT_TRUE(eventually([&] { return suite().quiet(&who); }, 60s)) << who;
  }
  void expect_finished_once(const std::string& name) {
    EXPECT_TRUE(eventually([&] { return suite().finished(name); }, 60s)) << name << " is not finished for admission";
    EXPECT_EQ(suite().count("job_create", name), 1) << name;
    EXPECT_EQ(suite().count("job_finish", name), 1) << name;
  }
  void expect_balanced_books() {
    const auto books = suite().statement();
    ASSERT_TRUE(books) << books.error().to_string();
    EXPECT_EQ(books->imbalance_nano_usd(), 0);
    EXPECT_EQ(books->total_nano_usd(), books->provider_nano_usd());
  }
  void expect_readings_from(const std::string& source, std::chrono::milliseconds timeout = 30s) {
    std::string seen;
    EXPECT_TRUE(eventually(
        [&] {
          const auto answer = suite().readings();
          seen = answer ? fmt::format("{} from {}", answer->readings_size(), answer->source())
                        : answer.error().to_string();
          return answer && answer->source() == source && answer->readings_size() == kGpus;
        },
        timeout))
        << seen;
  }
  static std::vector<std::string> question_for(const std::string& service) {
    static const std::map<std::string, std::vector<std::string>> verb = {{"admission", {"list"}},
                                                                         {"placement", {"nodes"}},
                                                                         {"autoscaler", {"plan"}},
                                                                         {"telemetry", {"top"}},
                                                                         {"cost", {"report"}}};
    return verb.at(service);
  }
  void expect_answers(const std::string& service) {
    const auto ran = suite().qmctl(question_for(service));
    EXPECT_EQ(ran.code, 0) << service << ": " << ran.output;
  }
  void stop_all() {
    const auto ended = suite().stop_all();
    ASSERT_TRUE(ended) << ended.error().to_string();
  }
  void start_all() {
    for (const auto& service : Suite::services()) {
      const auto up = suite().start(service);
      ASSERT_TRUE(up) << up.error().to_string();
    }
  }
  // A user's call to the unavailable service: it is answered in time with the service's name and a remedy.
  void expect_qmctl_message(const std::string& service) {
    auto args = question_for(service);
    args.insert(args.end(), {"--timeout", "1s"});
    const auto ran = suite().qmctl(args, 10s);
    EXPECT_EQ(ran.code, kUnreachable) << ran.output;
    EXPECT_NE(ran.output.find(service), std::string::npos) << ran.output;
    EXPECT_NE(ran.output.find("remedy:"), std::string::npos) << ran.output;
  }

  void others_go_on_without(const std::string& service, int number);
};

void Outage::others_go_on_without(const std::string& service, int number) {
  const bool stopped = number == SIGTERM;
  const std::string tag = service + (stopped ? "-ends" : "-hangs");
  const std::string before = "before-" + tag, meanwhile = "meanwhile-" + tag, after = "after-" + tag;
  ASSERT_NO_FATAL_FAILURE(run_job(before));

  if (stopped) {
    const auto ended = suite().stop(service);
    ASSERT_TRUE(ended) << ended.error().to_string();
  } else {
    suite().signal(service, SIGSTOP);
  }
  ASSERT_NO_FATAL_FAILURE(set_clock(kFast));
  expect_qmctl_message(service);
  for (const auto& other : Suite::services()) {
    if (other == service) continue;
    EXPECT_TRUE(eventually([&] { return suite().ready(other); }, 10s)) << other << " is not ready";
  }
  // Running jobs finish, whichever service is down.
  EXPECT_TRUE(
      eventually([&] { return suite().count("pod_stop", before) == 2 && suite().count("job_finish", before) == 1; }));
  if (service == "admission") {
    EXPECT_FALSE(suite().submit({.name = meanwhile, .run_s = 30}, 500ms)) << "no service could have acknowledged it";
    // Placement releases the devices without the other service.
    std::string seen;
    EXPECT_TRUE(eventually([&] {
      const auto all = suite().assignments();
      seen = all ? "no assignment" : all.error().to_string();
      if (!all) return false;
      for (const auto& a : all->assignments()) {
        if (a.state().workload() != before) continue;
        const auto& members = a.state().members();
        if (std::all_of(members.begin(), members.end(), [](const auto& m) { return m.released_us() != 0; }))
          return true;
        seen = a.ShortDebugString();
      }
      return false;
    })) << "the devices are not free: "
        << seen;
  } else {
    submit({.name = meanwhile, .run_s = 30});
    if (service == "placement") {
      EXPECT_TRUE(eventually([&] { return suite().workload(meanwhile).has_value(); }));
      EXPECT_TRUE(eventually([&] { return suite().finished(before); })) << "admission did not see the end";
    } else {
      EXPECT_TRUE(eventually([&] { return suite().finished(meanwhile); }))
          << "it does not get through without " << service;
    }
  }

  if (stopped) {
    const auto back = suite().start(service);
    ASSERT_TRUE(back) << back.error().to_string();
  } else {
    suite().signal(service, SIGCONT);
    EXPECT_TRUE(eventually([&] { return suite().ready(service); }));
  }
  // A caller without an answer retries with the same request id.
  if (service == "admission") submit({.name = meanwhile, .run_s = 30});
  submit({.name = after, .run_s = 30});
  for (const auto& name : {before, meanwhile, after}) expect_finished_once(name);
  expect_rest();
  expect_balanced_books();
  expect_readings_from("redis");
}

TEST_F(Outage, AdmissionEnds) { others_go_on_without("admission", SIGTERM); }
TEST_F(Outage, AdmissionHangs) { others_go_on_without("admission", SIGSTOP); }
TEST_F(Outage, PlacementEnds) { others_go_on_without("placement", SIGTERM); }
TEST_F(Outage, PlacementHangs) { others_go_on_without("placement", SIGSTOP); }
TEST_F(Outage, AutoscalerEnds) { others_go_on_without("autoscaler", SIGTERM); }
TEST_F(Outage, AutoscalerHangs) { others_go_on_without("autoscaler", SIGSTOP); }
TEST_F(Outage, TelemetryEnds) { others_go_on_without("telemetry", SIGTERM); }
TEST_F(Outage, TelemetryHangs) { others_go_on_without("telemetry", SIGSTOP); }
TEST_F(Outage, CostEnds) { others_go_on_without("cost", SIGTERM); }
TEST_F(Outage, CostHangs) { others_go_on_without("cost", SIGSTOP); }

// No service needs another to start: not the other four, and not the bus.
TEST_F(Outage, EachStartsAlone) {
  ASSERT_NO_FATAL_FAILURE(run_job("before-alone"));
  ASSERT_NO_FATAL_FAILURE(stop_all());
  for (const auto& service : Suite::services()) {
    const auto up = suite().start(service);
    ASSERT_TRUE(up) << up.error().to_string();
    expect_answers(service);
    const auto ended = suite().stop(service);
    ASSERT_TRUE(ended) << ended.error().to_string();
  }
  ASSERT_NO_FATAL_FAILURE(start_all());
  ASSERT_NO_FATAL_FAILURE(set_clock(kFast));
  expect_finished_once("before-alone");
  expect_rest();
}

TEST_F(Outage, AllStartWithoutABusAndTheirEventsWaitForIt) {
  ASSERT_NO_FATAL_FAILURE(stop_all());
  const std::string no_bus = fmt::format("kafka:127.0.0.1:{}", testing::free_port());
  for (const auto& service : Suite::services()) {
    const auto launched = suite().launch(service, {{"--bus", no_bus}});
    ASSERT_TRUE(launched) << launched.error().to_string();
  }
  for (const auto& service : Suite::services()) {
    const auto up = suite().wait_ready(service);
    ASSERT_TRUE(up) << up.error().to_string();
    expect_answers(service);
  }
  ASSERT_NO_FATAL_FAILURE(submit({.name = "no-bus", .run_s = 30}));
  EXPECT_TRUE(eventually([] { return suite().workload("no-bus").has_value(); }));
  ASSERT_NO_FATAL_FAILURE(stop_all());
  ASSERT_NO_FATAL_FAILURE(start_all());
  expect_finished_once("no-bus");
  expect_rest();
  expect_balanced_books();
}

// Redis holds only copies: it may be empty or down, and readings then come from telemetry.

TEST_F(Outage, TopReadsFromRedisAndPrintsTheAge) {
  set_clock(kFast);
  expect_readings_from("redis");
  const auto ran = suite().qmctl({"top"});
  EXPECT_EQ(ran.code, 0);
  for (const std::string words : {"AGE", "32 GPUs", "source redis, as of ", "oldest reading "}) {
    EXPECT_NE(ran.output.find(words), std::string::npos) << words << " is not in\n" << ran.output;
  }
}

TEST_F(Outage, WhatIsFlushedFromRedisIsBackInFiveSeconds) {
  expect_readings_from("redis");
  const auto nodes_in_redis = [] { return suite().redis("SCARD qm:gpu:nodes").value_or(""); };
  ASSERT_TRUE(nodes_in_redis().starts_with(":4\r\n")) << nodes_in_redis();
  const auto flushed = suite().redis("FLUSHALL");
  ASSERT_TRUE(flushed && flushed->starts_with("+OK")) << flushed.value_or("no answer");
  const auto end = std::chrono::steady_clock::now() + 5s;
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  };
  EXPECT_TRUE(eventually([&] { return nodes_in_redis().starts_with(":4\r\n"); }, left()));
  expect_readings_from("redis", left());
}

TEST_F(Outage, WithoutRedisReadingsComeFromTheOwner) {
  expect_readings_from("redis");
  const auto killed = suite().kill_redis();
  ASSERT_TRUE(killed) << killed.error().to_string();
  expect_readings_from("owner", 5s);
  for (const auto& service : Suite::services()) EXPECT_TRUE(suite().ready(service)) << service;
  const auto ran = suite().qmctl({"top"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.output.find("source owner"), std::string::npos) << ran.output;

  const auto back = suite().restart_redis();
  ASSERT_TRUE(back) << back.error().to_string();
  expect_readings_from("redis", 10s);
}

// PostgreSQL is the source of truth for all five. Without it nothing is decided and nothing is acknowledged.
TEST_F(Outage, WithoutPostgresNothingIsReadyAndNothingIsLost) {
  ASSERT_NO_FATAL_FAILURE(run_job("before-crash"));
  ASSERT_NO_FATAL_FAILURE(submit({.name = "just-before-crash", .run_s = 30}));
  const auto killed = suite().kill_postgres();
  ASSERT_TRUE(killed) << killed.error().to_string();
  ASSERT_NO_FATAL_FAILURE(set_clock(kFast));
  for (const auto& service : Suite::services()) {
    EXPECT_TRUE(eventually([&] { return !suite().ready(service); }))
        << service << " claims to be ready without its database";
  }
  EXPECT_FALSE(suite().submit({.name = "during-crash", .run_s = 30}, 1s)) << "acknowledged without a database";
  const auto ran = suite().qmctl({"submit", "-n", Suite::kNamespace, "--name", "by-hand", "--queue", "jobs", "--gpus",
                                  "1", "--annotation", "fleet.quartermaster.dev/run-seconds=30", "--timeout", "1s"},
                                 10s);
  EXPECT_EQ(ran.code, kUnreachable) << ran.output;
  EXPECT_NE(ran.output.find("remedy:"), std::string::npos) << ran.output;
  EXPECT_TRUE(eventually([] { return suite().count("pod_stop", "before-crash") == 2; }));

  const auto back = suite().restart_postgres();
  ASSERT_TRUE(back) << back.error().to_string();
  for (const auto& service : Suite::services()) {
    EXPECT_TRUE(eventually([&] { return suite().ready(service); })) << service << " does not recover";
  }
  submit({.name = "during-crash", .run_s = 30});
  for (const char* name : {"before-crash", "just-before-crash", "during-crash"}) expect_finished_once(name);
  expect_rest();
  expect_balanced_books();
}

}  // namespace outage_e2e_test
}  // namespace qm::e2e
