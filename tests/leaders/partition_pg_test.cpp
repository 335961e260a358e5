// Two replicas, each behind a proxy that partitions it from PostgreSQL at any message of the lease, of the commit or
// of the takeover: there is never a second active leader, never none for long, and nothing acknowledged is lost.
#include "qm/pg/connection.hpp"
#include "qm/replica/leadership.hpp"
#include "qm/testing/fault_proxy.hpp"
#include "qm/testing/testing.hpp"
#include "service/test/sums.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

namespace qm {
namespace partition_pg_test {

using namespace std::chrono_literals;
using store::boot_now;
using testing::FaultProxy;

constexpr int kPairs = 4;
constexpr int kPartitions = 200;  // of all pairs together
constexpr auto kMostWithoutLeader = 5s;
/// A fifth of the product's times, to have 200 partitions in a minute.
constexpr store::LeaseTiming kTiming{
    .lease = 600ms, .renew = 50ms, .renew_alone = 400ms, .look = 40ms, .proof = 300ms, .without_session = 350ms};
static_assert(kTiming.exclusive());

/// Observations of the leader of a shard, from all its replicas.
class Record {
 public:
  /// A replica that claimed as the `term`-th led at some moment between `before` and `after`.
  void led(std::uint64_t term, SteadyInstant before, SteadyInstant after) {
    const std::lock_guard lock(mutex_);
    if (term > newest_) {
      newest_ = term;
      newest_led_ = after;
    } else if (term < newest_ && before > newest_led_) {
      ++second_leaders_;
    }
    if (last_led_ && before > *last_led_) longest_without_ = std::max(longest_without_, before - *last_led_);
    last_led_ = std::max(last_led_.value_or(after), after);
  }
  [[nodiscard]] int second_leaders() const { return locked(second_leaders_); }
  [[nodiscard]] SteadyDuration longest_without() const { return locked(longest_without_); }
  [[nodiscard]] std::uint64_t terms() const { return locked(newest_); }

 private:
  template <class T>
  T locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  mutable std::mutex mutex_;
  std::uint64_t newest_ = 0;
  SteadyInstant newest_led_{};
  std::optional<SteadyInstant> last_led_;
  SteadyDuration longest_without_{};
  int second_leaders_ = 0;
};

/// Records which replica executes an intent.
class Actor final : public service::Executor {
 public:
  Actor(Record& record, const replica::Leadership& leadership) : record_(record), leadership_(leadership) {}
  Result<service::Outcome> execute(const store::IntentRow& /*intent*/) override {
    const auto before = boot_now();
    if (leadership_.leads()) record_.led(leadership_.view().terms, before, boot_now());
    return service::Outcome{};
  }
  service::Outcome failed(const store::IntentRow& /*intent*/, const Error& /*error*/) override { return {}; }

 private:
  Record& record_;
  const replica::Leadership& leadership_;
};

/// One replica: a standby, then the leader, and restarted when it loses the lead, as by Replica and main().
class Node {
 public:
  Node(std::string name, store::PgOptions options, int server_port, Record& record)
      : name_(std::move(name)), options_(std::move(options)), record_(record), proxy_(server_port) {
    options_.conninfo += " host=127.0.0.1 port=" + std::to_string(proxy_.port());
    options_.fenced = true;
    options_.in_doubt_lookup = 100ms;  // so that commits stay in doubt and the state is read back
    thread_ = std::jthread([this](const std::stop_token& stop) {
      // A restarting process takes some time.
      while (!testing::wait_until([&] { return stop.stop_requested(); }, 20ms)) live(stop);
    });
  }
  ~Node() {
    thread_.request_stop();
    proxy_.heal();
  }
  FaultProxy& proxy() { return proxy_; }
  /// kUnavailable if it does not lead.
  Result<std::string> add(const std::string& bytes, const std::string& id) {
    auto reply = std::make_shared<std::promise<Result<std::string>>>();
    auto answer = reply->get_future();
    {
      const std::lock_guard lock(mutex_);
      if (host_ == nullptr) return fail(Code::kUnavailable, "does not lead");
      service::Input in;
      in.source = service::Source::kRequest;
      in.name = "add";
      in.id = id;
      in.bytes = bytes;
      QM_TRY(host_->submit(std::move(in), [reply](Result<std::string> r) { reply->set_value(std::move(r)); }));
    }
    return answer.get();
  }
  [[nodiscard]] bool leads() const {
    const std::lock_guard lock(mutex_);
    return host_ != nullptr && leadership_->leads();
  }

 private:
  void live(const std::stop_token& stop) {
    auto lease = store::open_lease(options_);
    if (!lease) return;
    replica::Leadership leadership(std::move(*lease), kTiming, fmt::format("{}/{}", name_, ++lives_));
    auto store = store::open_postgres(options_);
    if (!store || !leadership.wait([&] { return stop.stop_requested(); })) return;
    std::atomic<bool> lost = false;
    Actor actor(record_, leadership);
    const auto clock = make_clock("system").value();
    service::HostOptions options;
    options.service = options_.service;
    options.may_act = [&] { return leadership.leads(); };
    options.may_answer = [&] { return leadership.may_answer(); };
    options.holder = leadership.holder();
    options.on_lost = [&] { lost = true; };
    service::Host host(options, std::make_unique<service::Sums>(), std::move(*store), nullptr, *clock, &actor);
    const auto over = [&] { return stop.stop_requested() || lost || leadership.lost(); };
    if (!host.open([&] { return !over(); })) return;
    host.start();
    show(&host, &leadership);
    testing::wait_until(
        [&] {
          const auto before = boot_now();
          if (leadership.leads()) record_.led(leadership.view().terms, before, boot_now());
          return over();
        },
        1h);
    show(nullptr, nullptr);
    host.stop();
  }
  void show(service::Host* host, replica::Leadership* leadership) {
    const std::lock_guard lock(mutex_);
    host_ = host;
    leadership_ = leadership;
  }

  const std::string name_;
  store::PgOptions options_;
  Record& record_;
  FaultProxy proxy_;
  int lives_ = 0;
  mutable std::mutex mutex_;
  service::Host* host_ = nullptr;  ///< while it leads
  replica::Leadership* leadership_ = nullptr;
  std::jthread thread_;
};

/// A shard with its two replicas and a client that writes without a pause.
struct Pair {
  Pair(int number, const std::string& conninfo, int server_port, unsigned seed)
      : options{.conninfo = conninfo, .service = "test"}, random(seed) {
    EXPECT_TRUE(store::open_postgres(options));
    // Records for each new epoch the replica that raised it and the holder of the lease at that moment.
    const auto noted = pg::Connection::open(conninfo, {"test"}).value()->exec(R"sql(
      create table test.raised (epoch bigint, holder text, lease text);
      create function test.note() returns trigger language plpgsql as $body$ begin
        insert into test.raised select new.epoch, new.holder, l.holder from test.lease l; return new; end $body$;
      create trigger note after update on test.leader for each row when (new.epoch > old.epoch)
        execute function test.note())sql");
    EXPECT_TRUE(noted) << noted.error().to_string();
    nodes[0] = std::make_unique<Node>(fmt::format("{}a", number), options, server_port, record);
    nodes[1] = std::make_unique<Node>(fmt::format("{}b", number), options, server_port, record);
  }
  int any(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }
  [[nodiscard]] Node* leader() const {
    for (const auto& node : nodes)
      if (node->leads()) return node.get();
    return nullptr;
  }
  /// One of two clients. A call to a partitioned node is answered late, so each client starts with a different node.
  void write(const std::stop_token& stop, std::size_t client) {
    for (std::size_t i = 0; !stop.stop_requested(); ++i) {
      const auto id = fmt::format("{}/{}", client, i);
      // Retried with the same id until it is answered, on both nodes in turn.
      std::size_t turn = client;
      bool answered = false;
      testing::wait_until(
          [&] {
            answered = nodes[turn++ % 2]->add("a=1", id).has_value();
            return answered || stop.stop_requested();
          },
          1h);
      if (answered) ++acknowledged;
    }
  }
  void partition() {
    ASSERT_TRUE(testing::wait_until([&] { return leader() != nullptr; }));
    Node* victim = leader();
    if (victim == nullptr || any(0, 4) == 0) victim = nodes[static_cast<std::size_t>(any(0, 1))].get();
    FaultProxy::Fault fault;
    fault.side = any(0, 1) == 0 ? FaultProxy::Side::kBeforeRequest : FaultProxy::Side::kBeforeAnswer;
    constexpr std::array effects{FaultProxy::Effect::kCut, FaultProxy::Effect::kStall, FaultProxy::Effect::kStallCut};
    fault.effect = effects[static_cast<std::size_t>(any(0, 2))];
    // Half of the faults are in a commit, the others anywhere: lease checks, renewals, reading the state.
    if (any(0, 1) == 0 && victim->leads()) fault.mark = "commit";
    fault.skip = static_cast<std::size_t>(any(0, 40));
    victim->proxy().arm(fault);
    // In some rounds the other node is partitioned too, in the middle of its takeover.
    Node* other = nodes[victim == nodes[0].get() ? 1 : 0].get();
    if (any(0, 3) == 0)
      other->proxy().arm({any(0, 1) == 0 ? FaultProxy::Side::kBeforeRequest : FaultProxy::Side::kBeforeAnswer,
                          fault.effect, any(0, 1) == 0 ? "leader" : "", static_cast<std::size_t>(any(0, 20))});
    if (testing::wait_until([&] { return victim->proxy().has_struck(); }, 2s)) ++struck;
    // Shorter than a standby waits before it claims, or longer.
    const auto longest = std::chrono::milliseconds(any(0, 1) == 0 ? any(10, 400) : any(400, 1500));
    testing::wait_until([] { return false; }, longest);
    victim->proxy().heal();
    other->proxy().heal();
  }

  store::PgOptions options;
  std::mt19937 random;
  Record record;
  std::array<std::unique_ptr<Node>, 2> nodes;
  std::atomic<std::int64_t> acknowledged{0};
  int struck = 0;
};

TEST(Leaders, TwoHundredPartitionsAndNeverTwoActive) {
  std::string why_not;
  auto* server = testing::Postgres::shared(&why_not);
  if (server == nullptr) GTEST_SKIP() << why_not;
  const auto port = [&](const std::string& conninfo) {
    return static_cast<int>(pg::Connection::open(conninfo, {"test"}).value()->query("show port")->int8(0, 0));
  };
  std::vector<std::thread> threads;
  std::atomic<int> struck = 0;
  std::atomic<std::uint64_t> terms = 0;
  for (int number = 0; number < kPairs; ++number) {
    const auto conninfo = server->fresh_database();
    threads.emplace_back([&, number, conninfo] {
      Pair pair(number, conninfo, port(conninfo), static_cast<unsigned>(number));
      std::array clients{std::jthread([&](const std::stop_token& stop) { pair.write(stop, 0); }),
                         std::jthread([&](const std::stop_token& stop) { pair.write(stop, 1); })};
      for (int i = 0; i < kPartitions / kPairs && !::testing::Test::HasFailure(); ++i) pair.partition();
      EXPECT_TRUE(testing::wait_until([&] { return pair.leader() != nullptr; }));
      // No acknowledged write is lost, and none is applied twice.
      const auto before = pair.acknowledged.load();
      EXPECT_TRUE(testing::wait_until([&] { return pair.acknowledged > before; })) << "the shard is written to again";
      for (auto& client : clients) client.request_stop();
      for (auto& client : clients) client.join();
      EXPECT_EQ(pair.record.second_leaders(), 0);
      EXPECT_LT(pair.record.longest_without(), kMostWithoutLeader);
      struck += pair.struck;
      terms += pair.record.terms();
      pair.nodes = {};
      const auto session = pg::Connection::open(conninfo, {"test"}).value();
      const auto sum = session->query("select convert_from(value, 'UTF8')::bigint from test.state where key = 'a'");
      ASSERT_TRUE(sum) << sum.error().to_string();
      EXPECT_GE(sum->int8(0, 0), pair.acknowledged);
      EXPECT_LE(sum->int8(0, 0), pair.acknowledged + 2) << "the last ones may be applied and not answered";
      const auto back = session->query(
          "select count(*) from (select epoch, lag(epoch) over (order by sequence) as last, sequence, "
          "lag(sequence) over (order by sequence) as before from test.journal) j where epoch < last or sequence <> before + 1");
      ASSERT_TRUE(back) << back.error().to_string();
      EXPECT_EQ(back->int8(0, 0), 0) << "epochs never go back, and the journal is dense";
      const auto raised = session->query("select count(*), count(*) filter (where holder <> lease) from test.raised");
      ASSERT_TRUE(raised) << raised.error().to_string();
      EXPECT_GT(raised->int8(0, 0), 2);
      EXPECT_EQ(raised->int8(0, 1), 0) << "epochs that another replica than the holder of the lease raised";
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(struck, kPartitions * 9 / 10) << "a run whose faults do not strike proves nothing";
  EXPECT_GT(terms, 40U) << "nor one without takeovers";
  RecordProperty("partitions", struck);
  RecordProperty("terms", std::to_string(terms));
}

}  // namespace partition_pg_test
}  // namespace qm
