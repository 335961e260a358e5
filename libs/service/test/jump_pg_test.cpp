// The clock of PostgreSQL against that of a host which is a day ahead.
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"
#include "sums.hpp"

namespace qm::service {
namespace jump_pg_test {

using namespace std::chrono_literals;

class HostClockOnPostgres : public testing::PostgresTest {};

TEST_F(HostClockOnPostgres, TheFirstTimeOfATakeoverIsTheDatabases) {
  Duration ahead = 24h;
  const SystemClock machine;
  const SystemClock clock({[&] { return micros(machine.now() + ahead); },
                           [] {
                             const auto since = std::chrono::steady_clock::now().time_since_epoch();
                             return std::chrono::duration_cast<Duration>(since).count();
                           }});
  auto shell = std::make_unique<Sums>();
  auto* sums = shell.get();
  auto store = store::open_postgres({.conninfo = conninfo_, .service = "test"});
  ASSERT_TRUE(store) << store.error().to_string();
  Host host({.service = "test"}, std::move(shell), std::move(*store), nullptr, clock, nullptr);
  ASSERT_TRUE(host.open());
  const auto decide = [&] {
    Input in;
    in.source = Source::kRequest;
    in.bytes = "a=1";
    EXPECT_TRUE(host.submit(std::move(in)));
    EXPECT_TRUE(host.pump());
    return sums->nows.back();
  };
  const auto first = decide();
  EXPECT_LE(first, machine.now() + 1s);
  EXPECT_GE(first, machine.now() - 1h);
  EXPECT_GT(host.counters().clock_rejected_seconds, 86'000);
  ahead = {};
  EXPECT_GE(decide(), first);
  EXPECT_EQ(host.counters().clock_rejected_seconds, 0);
  // A second day ahead, at run time.
  ahead = 48h;
  EXPECT_LE(decide(), machine.now() + 1s);
  EXPECT_GT(host.counters().clock_rejected_seconds, 86'000);
}

}  // namespace jump_pg_test
}  // namespace qm::service
