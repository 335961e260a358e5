#include "torture_body.hpp"

namespace qm::bus {
namespace postgres_bus_pg_test {

/// Holds a lock that every send requires, in a separate session.
struct Blocker {
  std::unique_ptr<pg::Connection> session;
};

Place postgres_place() {
  std::string why_not;
  auto* server = testing::Postgres::shared(&why_not);
  if (server == nullptr) return {.setting = "", .why_not = why_not};
  static const auto conninfo = server->fresh_database();
  const auto blocker = std::make_shared<Blocker>();
  return {.setting = "postgres:" + conninfo,
          .why_not = "",
          .crash = [server] { server->kill9(); },
          .restore = [server] { ASSERT_TRUE(server->restart()); },
          .freeze =
              [blocker] {
                blocker->session = pg::Connection::open(conninfo, {"blocker"}).value();
                ASSERT_TRUE(blocker->session->exec("begin; lock table bus.message in exclusive mode"));
              },
          .thaw = [blocker] { ASSERT_TRUE(blocker->session->exec("rollback")); },
          .recreate =
              [](Bus& bus, const std::string& topic, int partitions) {
                const auto session = pg::Connection::open(conninfo, {"recreate"}).value();
                const auto name = pg::Params().text(topic);
                for (const char* part : {"message", "partition"}) {
                  ASSERT_TRUE(session->query(fmt::format("delete from bus.{} where topic = (select id from bus.topic "
                                                         "where name = $1::text)",
                                                         part),
                                             name));
                }
                ASSERT_TRUE(session->query("delete from bus.topic where name = $1::text", name));
                const std::vector<std::string> topics{topic};
                ASSERT_TRUE(bus.ensure_topics(topics, partitions));
              }};
}

INSTANTIATE_TEST_SUITE_P(Postgres, BusContract, ::testing::Values(Carrier{"postgres", &postgres_place}));
INSTANTIATE_TEST_SUITE_P(Postgres, BusTorture, ::testing::Values(Carrier{"postgres", &postgres_place}));

class PostgresBus : public BusContract {};
INSTANTIATE_TEST_SUITE_P(Only, PostgresBus, ::testing::Values(Carrier{"postgres", &postgres_place}));

TEST_P(PostgresBus, TrimKeepsOffsetsAndForgetsMessages) {
  publish({record("a", 1), record("a", 2)});
  ASSERT_TRUE(trim(*bus_, std::chrono::hours(1)));
  Reader before;
  before.open(*bus_, group_, {topic_});
  ASSERT_TRUE(read(before, 2));
  ASSERT_TRUE(trim(*bus_, std::chrono::seconds(0)));
  publish({record("a", 3)});
  Reader after;
  after.cursors()[before.log()[0].at] = 0;
  after.open(*bus_, group_ + ".after", {topic_});
  ASSERT_TRUE(read(after, 1));
  EXPECT_EQ(after.log()[0].value, "3");
  EXPECT_EQ(after.log()[0].offset, before.log()[1].offset + 1);
}

/// Producers of the same partitions at once: offsets stay dense and become visible in order.
TEST_P(PostgresBus, OffsetsAreDenseUnderManyProducers) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto producer = bus_->producer("p" + std::to_string(t)).value();
      for (std::int64_t version = 1; version <= 50; ++version) {
        std::vector<Record> batch;
        for (int key = 0; key < 5; ++key) batch.push_back(record(fmt::format("{}/{}", t, key), version));
        EXPECT_TRUE(producer->publish(batch, 20s));
      }
    });
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  EXPECT_TRUE(read(reader, 1000));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(reader.log().size(), 1000U);
  std::map<TopicPartition, std::int64_t> next;
  for (const auto& message : reader.log()) EXPECT_EQ(message.offset, next[message.at]++);
  apply(reader.log());
}

/// With a session timeout of an hour: the crash of a process is detected by the end of its session.
TEST_P(PostgresBus, TheDeathOfAMemberIsSeenWithinTwoSeconds) {
  const testing::TempDir dir;
  const auto sitter =
      testing::Process::start({.argv = {std::string(QM_BIN_DIR) + "/bus_torture", "sit", place_.setting, topic_},
                               .env = {},
                               .output = dir.path() + "/out"});
  ASSERT_TRUE(sitter.has_value());
  ASSERT_TRUE(
      testing::wait_until([&] { return testing::read_file(dir.path() + "/out").find("sits") != std::string::npos; }));
  Reader survivor;
  survivor.open(*bus_, "sit/" + topic_, {topic_}, "", std::chrono::hours(1));
  ASSERT_TRUE(testing::wait_until([&] {
    survivor.turn();
    return survivor.consumer().assignment().size() == 2;
  }));
  std::vector<Record> batch;
  for (int key = 0; key < 20; ++key) batch.push_back(record("k" + std::to_string(key), 1));
  (*sitter)->signal(SIGKILL);
  ASSERT_TRUE((*sitter)->wait(10s).has_value());
  const auto start = std::chrono::steady_clock::now();
  publish(batch);
  ASSERT_TRUE(read(survivor, 20));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(survivor.consumer().assignment().size(), 4U);
  EXPECT_LE(took.count(), 2.0);
  RecordProperty("seconds", std::to_string(took.count()));
}

/// When the session of the group's member last began a statement.
std::string last_statement(const std::string& setting, const std::string& group) {
  const auto session = pg::Connection::open(setting.substr(setting.find(':') + 1), {"watcher"}).value();
  const auto rows = session->query("select query_start from pg_stat_activity where application_name = $1::text",
                                   pg::Params().text("qm bus " + group));
  return rows && rows->size() == 1 ? rows->str(0, 0) : std::string();
}

TEST_P(PostgresBus, AReaderWithoutMessagesWaitsForANotification) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  publish({record("a", 1)});
  ASSERT_TRUE(read(reader, 1));
  const auto before = last_statement(place_.setting, group_);
  EXPECT_NE(before, "");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(reader.turn(), 0U);
  EXPECT_EQ(last_statement(place_.setting, group_), before)
      << "twenty polls after the one that had the message, and no statement";
}

TEST_P(PostgresBus, AWakeEndsAPoll) {
  const Wake wake;
  const auto consumer = bus_->consumer({.group = group_,
                                        .topics = {topic_},
                                        .cursor = [](const TopicPartition&) { return std::int64_t{-1}; },
                                        .wake = &wake})
                            .value();
  ASSERT_TRUE(testing::wait_until([&] { return consumer->poll(1, 10ms) && consumer->assignment().size() == 4; }));
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::thread other([&] { wake.notify(); });
    const auto got = consumer->poll(1, 25s);
    other.join();
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  }
}

/// The notification arrives with the answer to another statement of the session.
TEST_P(PostgresBus, ANotificationIsNotLostBetweenPolls) {
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  for (std::int64_t version = 1; version <= 10; ++version) {
    EXPECT_EQ(reader.turn(), 0U) << "the reader waits for a notification";
    publish({record("a", version)});
    ASSERT_TRUE(testing::wait_until([&] { return reader.consumer().lag() == 1; }));
    EXPECT_EQ(reader.turn(100, 10s), 1U) << "before the read that needs no notification";
  }
}

/// Each read costs a statement, so a burst is read in few of them.
TEST_P(PostgresBus, MessagesThatFollowOneAnotherCloselyAreReadTogether) {
  constexpr std::size_t kMessages = 300;
  Reader reader;
  reader.open(*bus_, group_, {topic_});
  EXPECT_EQ(reader.turn(), 0U);
  std::jthread writer([&] {
    for (std::size_t i = 1; i <= kMessages; ++i) publish({record("a", static_cast<std::int64_t>(i))});
  });
  const auto start = std::chrono::steady_clock::now();
  std::int64_t reads = 0;
  for (std::size_t got = 0; got < kMessages; ++reads) {
    const auto now = reader.turn(1000, 10s);
    ASSERT_GT(now, 0U);
    got += now;
  }
  EXPECT_LE(reads, (std::chrono::steady_clock::now() - start) / ConsumerOptions().gather + 1);
}

/// A member without others beats rarely. Its timeout still counts from the moment at which another one joins.
TEST_P(PostgresBus, AMemberThatWasAloneAndHangsIsRemoved) {
  Reader hung, other;
  other.share(hung);
  hung.open(*bus_, group_, {topic_});
  ASSERT_TRUE(testing::wait_until([&] {
    hung.turn();
    return hung.consumer().assignment().size() == 4;
  }));
  other.open(*bus_, group_, {topic_});
  publish({record("a", 1), record("b", 1)});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(read(other, 2));
  EXPECT_EQ(other.consumer().assignment().size(), 4U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s) << "and not after the time of a member without others";
}

/// A member that was silent for too long joins again and continues from the stored cursor.
TEST_P(PostgresBus, ASilentMemberIsRemovedAndComesBack) {
  Reader silent, other;
  other.share(silent);
  silent.open(*bus_, group_, {topic_});
  ASSERT_TRUE(testing::wait_until([&] {
    silent.turn();
    return silent.consumer().assignment().size() == 4;
  }));
  other.open(*bus_, group_, {topic_});
  ASSERT_TRUE(testing::wait_until([&] {
    other.turn();
    return other.consumer().assignment().size() == 4;
  }));
  publish({record("a", 1), record("b", 1)});
  ASSERT_TRUE(read(other, 2));
  ASSERT_TRUE(testing::wait_until([&] {
    silent.turn();
    other.turn();
    return silent.consumer().assignment().size() == 2 && other.consumer().assignment().size() == 2;
  }));
  EXPECT_EQ(silent.log().size(), 2U);
}

}  // namespace postgres_bus_pg_test
}  // namespace qm::bus
