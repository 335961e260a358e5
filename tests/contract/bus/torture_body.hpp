#pragma once
// No loss and no duplicate effect if the sending or reading process, or the server of the carrier, crashes at any named
// crash point of the program. Included by carriers with a server.
#include "bus_contract_body.hpp"
#include "qm/pg/connection.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace qm::bus {

/// Two processes on their own topic: the first moves the keys, the second follows.
///
///   produce, consume    the carrier alone; their durable state is in files
///   serve, apply        hosts of services over PostgreSQL, with outbox, cursors and intents
struct Pair {
  std::string first, second;
  std::string topic, shard;
};

class BusTorture : public BusContract {
 protected:
  static constexpr int kKeys = 5;
  static constexpr int kVersions = 10;
  using Passages = std::map<std::string, int>;

  void SetUp() override {
    BusContract::SetUp();
    if (IsSkipped()) return;
    std::string why_not;
    auto* server = testing::Postgres::shared(&why_not);
    if (server == nullptr) GTEST_SKIP() << why_not;
    conninfo_ = server->fresh_database();
  }

  Pair pair(const std::string& first, const std::string& second) {
    static int number = 0;
    Pair out{first, second, fresh_name("topic"), "p" + std::to_string(++number)};
    const std::vector<std::string> topics{out.topic, dead_letter(out.topic)};
    EXPECT_TRUE(bus_->ensure_topics(topics, kPartitions));
    return out;
  }
  std::vector<Pair> pairs() { return {pair("produce", "consume"), pair("serve", "apply")}; }

  std::string file(const Pair& p, const std::string& verb) const { return dir_.path() + "/" + p.shard + "." + verb; }
  std::string reported(const Pair& p, const std::string& verb) const {
    return testing::read_file(file(p, verb) + ".out");
  }

  std::unique_ptr<testing::Process> start(const Pair& p, const std::string& verb, const std::string& crash_at,
                                          bool trace = false) {
    std::map<std::string, std::string> env{{"QM_CRASH_AT", crash_at}};
    if (trace) env["QM_TORTURE_TRACE"] = "1";
    auto child = testing::Process::start(
        {.argv = {std::string(QM_BIN_DIR) + "/bus_torture", verb, place_.setting, p.topic, file(p, verb),
                  std::to_string(kKeys), std::to_string(kVersions), conninfo_, p.shard},
         .env = std::move(env),
         .output = file(p, verb) + ".out"});
    EXPECT_TRUE(child.has_value());
    return child ? std::move(*child) : nullptr;
  }
  int run(const Pair& p, const std::string& verb, const std::string& crash_at, bool trace = false) {
    return start(p, verb, crash_at, trace)->wait(60s).value_or(-1);
  }

  /// The crash points that one undisturbed run of each verb passes, and their counts.
  const std::map<std::string, Passages>& passages() {
    static std::map<std::string, std::map<std::string, Passages>> of_carrier;
    auto& out = of_carrier[bus_->name()];
    if (!out.empty()) return out;
    for (const auto& p : pairs()) {
      for (const auto& verb : {p.first, p.second}) {
        EXPECT_EQ(run(p, verb, "", true), 0) << verb << ": " << reported(p, verb);
        std::istringstream lines(reported(p, verb));
        for (std::string line; std::getline(lines, line);) {
          std::istringstream words(line);
          std::string word, name;
          if (words >> word >> name && word == "passed") words >> out[verb][name];
        }
      }
      check(p);
    }
    return out;
  }

  /// The final state of both: every step of every key took effect once, and no work is open.
  void check(const Pair& p) {
    if (p.first != "serve") return;  // "consume" checks itself: it ends with 0 only if no version is missing
    auto session = pg::Connection::open(conninfo_, {"judge"});
    ASSERT_TRUE(session.has_value()) << session.error().to_string();
    const auto number = [&](const std::string& sql) {
      const auto rows = (*session)->exec("select " + sql);
      EXPECT_TRUE(rows.has_value()) << rows.error().to_string();
      return rows ? rows->int8(0, 0) : -1;
    };
    for (const auto& verb : {p.first, p.second}) {
      const auto schema = pg::quote_name(verb + "_" + p.shard);
      EXPECT_EQ(number("count(*) from " + schema + ".applied"), kKeys * kVersions) << verb << ": lost or doubled";
      EXPECT_EQ(number("count(distinct (key, version)) from " + schema + ".applied"), kKeys * kVersions) << verb;
      EXPECT_EQ(number("count(*) from " + schema + ".intent"), 0) << verb;
      EXPECT_EQ(number("count(*) from " + schema + ".outbox"), 0) << verb;
      std::set<std::string> notes;
      std::ifstream lines(file(p, verb));
      for (std::string line; std::getline(lines, line);) notes.insert(line);
      EXPECT_EQ(notes.size(), static_cast<std::size_t>(kKeys * kVersions)) << verb << ": an intent was not executed";
    }
  }

  testing::TempDir dir_;
  std::string conninfo_;
};

/// Every crash point of the list is tested below: each is passed by one of the programs, except those of other
/// carriers.
TEST_P(BusTorture, EveryCrashPointOfTheListIsPassed) {
  std::set<std::string> passed;
  for (const auto& [verb, points] : passages())
    for (const auto& [name, count] : points) passed.insert(name);
  const auto child = testing::Process::start(
      {.argv = {std::string(QM_BIN_DIR) + "/bus_torture", "points"}, .env = {}, .output = dir_.path() + "/points"});
  ASSERT_TRUE(child.has_value());
  ASSERT_EQ((*child)->wait(20s), 0);
  std::ifstream lines(dir_.path() + "/points");
  std::size_t seen = 0;
  for (std::string name; std::getline(lines, name); ++seen) {
    if (name.starts_with("kafka.") && bus_->name() != "kafka") continue;
    EXPECT_TRUE(passed.contains(name)) << name << " is passed by none of the programs: add what comes by";
  }
  EXPECT_GE(seen, 16U);
}

/// kill -9 at each crash point in the middle of the work, again at the first passage after the restart, and then to
/// the end.
TEST_P(BusTorture, TheProcessMayDieAtEveryPoint) {
  std::set<std::string> points;
  for (const auto& [verb, passed] : passages())
    for (const auto& [name, count] : passed) points.insert(name);
  for (const auto& point : points) {
    for (const auto& p : pairs()) {
      bool on_the_way = false;
      for (const auto& verb : {p.first, p.second}) on_the_way = on_the_way || passages().at(verb).contains(point);
      if (!on_the_way) continue;
      for (const auto& verb : {p.first, p.second}) {
        if (const auto& passed = passages().at(verb); passed.contains(point)) {
          const int middle = (passed.at(point) + 1) / 2;
          int status = run(p, verb, fmt::format("{}:{}", point, middle));
          // Batches differ from run to run: a run with fewer passages has ended well, and the first passage covers
          // the point.
          if (status == 0 && middle > 1) continue;
          ASSERT_EQ(status, 128 + SIGKILL) << verb << " at " << point << ": " << reported(p, verb);
          status = run(p, verb, point + ":1");
          ASSERT_TRUE(status == 0 || status == 128 + SIGKILL)
              << status << " " << verb << " at " << point << ": " << reported(p, verb);
        }
        ASSERT_EQ(run(p, verb, ""), 0) << verb << " after " << point << ": " << reported(p, verb);
      }
      check(p);
      ASSERT_FALSE(HasFailure()) << point;
    }
  }
}

/// kill -9 of the server while processes are stopped at each crash point: all at once, so that one restart serves for
/// all.
TEST_P(BusTorture, TheServerMayDieAtEveryPoint) {
  if (!place_.crash) GTEST_SKIP() << "the server of the " << bus_->name() << " bus cannot be ended from here";
  struct Stopped {
    Pair pair;
    std::string verb, point;
    std::unique_ptr<testing::Process> process;
  };
  std::vector<Stopped> all;
  for (const auto& [verb, passed] : passages()) {
    for (const auto& [point, count] : passed) {
      const bool bare = verb == "produce" || verb == "consume";
      auto p = bare ? pair("produce", "consume") : pair("serve", "apply");
      ASSERT_TRUE(verb == p.first || run(p, p.first, "") == 0) << reported(p, p.first);
      auto process = start(p, verb, fmt::format("{}:{}:stop", point, (count + 1) / 2));
      all.push_back({std::move(p), verb, point, std::move(process)});
    }
  }
  const auto stands = [](const Stopped& one) {
    const auto stat = testing::read_file(fmt::format("/proc/{}/stat", one.process->pid()));
    const auto end = stat.rfind(')');
    return !one.process->running() || (end != std::string::npos && stat.substr(end + 2, 1) == "T");
  };
  std::size_t standing = 0;
  ASSERT_TRUE(testing::wait_until([&] { return std::ranges::all_of(all, stands); }, 120s));
  for (const auto& one : all) standing += one.process->running() ? 1 : 0;
  // Runs with fewer passages than the traced one have ended; they must be few for this test to be meaningful.
  EXPECT_GE(standing * 10, all.size() * 8) << standing << " of " << all.size();
  place_.crash();
  // Half of the processes observe the outage, the others continue after the restart.
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].process->signal(SIGCONT);
  place_.restore();
  for (auto& one : all) one.process->signal(SIGCONT);
  for (auto& one : all) {
    auto status = one.process->wait(120s).value_or(-1);
    // A host that cannot open its store reports it and exits, to be started again by its supervisor.
    for (int again = 0; status == 3 && again < 5; ++again) status = run(one.pair, one.verb, "");
    ASSERT_EQ(status, 0) << one.verb << " at " << one.point << ": " << reported(one.pair, one.verb);
    // Work whose result could not be stored during the outage is left to the next start.
    ASSERT_EQ(run(one.pair, one.verb, ""), 0)
        << one.verb << " after " << one.point << ": " << reported(one.pair, one.verb);
    ASSERT_TRUE(one.verb == one.pair.second || run(one.pair, one.pair.second, "") == 0)
        << one.point << ": " << reported(one.pair, one.pair.second);
    check(one.pair);
    ASSERT_FALSE(HasFailure()) << one.verb << " at " << one.point;
  }
}

}  // namespace qm::bus
