// A host's clock that jumps forward, and a database with a separate clock.
#include "sums.hpp"

namespace qm::service {
namespace jump_test {

using namespace std::chrono_literals;

struct Machine {
  std::int64_t system_us = 1'000'000'000'000, boot_us = 5'000'000;
  SystemClock clock{{[this] { return system_us; }, [this] { return boot_us; }}};
  void pass(Duration d) {
    system_us += d.count();
    boot_us += d.count();
  }
};

struct Clocks {
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  Machine machine;
  Sums* sums = nullptr;
  std::unique_ptr<Host> host;

  Clocks() { database_agrees(); }
  void database_agrees() { store::set_server_now(*disk, from_micros(machine.system_us)); }
  /// This host leads, or another one with a separate clock.
  void boot() { boot(machine); }
  void boot(Machine& on) {
    host.reset();
    auto shell = std::make_unique<Sums>();
    sums = shell.get();
    host = std::make_unique<Host>(HostOptions{.service = "test"}, std::move(shell), store::open_memory(disk), nullptr,
                                  on.clock, nullptr);
    const auto opened = host->open();
    ASSERT_TRUE(opened) << opened.error().to_string();
  }
  /// Time of the next batch.
  Instant decide() {
    Input in;
    in.source = Source::kRequest;
    in.bytes = "a=1";
    EXPECT_TRUE(host->submit(std::move(in)));
    EXPECT_TRUE(host->pump());
    return sums->nows.back();
  }
};

TEST(HostClock, AJumpOfTheHostClockAloneIsRejectedAndReported) {
  Clocks c;
  c.boot();
  const auto start = c.decide();
  EXPECT_EQ(micros(start), c.machine.system_us);
  c.machine.pass(1s);
  c.database_agrees();
  c.machine.system_us += std::int64_t{86'400} * 1'000'000;
  EXPECT_EQ(c.decide(), start + 1s) << "a day ahead would be there for ever";
  EXPECT_EQ(c.host->counters().clock_rejected_seconds, 86'400);
  const auto ready = c.host->readiness();
  EXPECT_TRUE(ready.ready) << ready.text;
  EXPECT_EQ(ready.text, "ok; the clock of the host is 86400 s ahead of that of the database and is not used");
  EXPECT_EQ(c.host->debug_state().path("host.clock_rejected_seconds"), Json(86'400.0));
  c.machine.pass(5s);
  EXPECT_EQ(c.decide(), start + 6s) << "at the pace of boot time";
  c.machine.system_us -= std::int64_t{86'400} * 1'000'000;
  EXPECT_EQ(c.decide(), start + 6s);
  EXPECT_EQ(c.host->counters().clock_rejected_seconds, 0);
  EXPECT_EQ(c.host->readiness().text, "ok");
}

TEST(HostClock, AJumpThatTheDatabaseConfirmsIsTime) {
  Clocks c;
  c.boot();
  const auto start = c.decide();
  c.machine.system_us += std::int64_t{3600} * 1'000'000;  // a VM that was resumed
  c.database_agrees();
  EXPECT_EQ(c.decide(), start + 1h);
  EXPECT_EQ(c.host->counters().clock_rejected_seconds, 0);
}

TEST(HostClock, ANewLeaderIsComparedWithTheDatabase) {
  Clocks c;
  c.boot();
  const auto start = c.decide();
  c.machine.pass(2s);
  c.database_agrees();
  Machine wrong;
  wrong.system_us = c.machine.system_us + std::int64_t{30} * 86'400 * 1'000'000;
  c.boot(wrong);
  EXPECT_EQ(c.decide(), start + 2s) << "the first time of a takeover is not that of the new host alone";
  EXPECT_EQ(c.host->counters().clock_rejected_seconds, 30 * 86'400);
  Machine behind;
  behind.system_us = c.machine.system_us - 3600LL * 1'000'000;
  c.boot(behind);
  EXPECT_EQ(c.decide(), start + 2s) << "and never goes back";
}

TEST(HostClock, WithoutAClockOfTheStoreTheHostClockIsUsed) {
  Clocks c;
  c.disk = store::make_memory_disk();
  c.boot();
  const auto start = c.decide();
  c.machine.system_us += std::int64_t{3600} * 1'000'000;
  EXPECT_EQ(c.decide(), start + 1h);
}

}  // namespace jump_test
}  // namespace qm::service
