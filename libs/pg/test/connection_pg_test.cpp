#include "qm/pg/connection.hpp"

#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace qm::pg {
namespace connection_pg_test {

using namespace std::chrono_literals;

class ConnectionTest : public testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    session_ = open();
  }
  std::unique_ptr<Connection> open(ConnectOptions options = {"test"}) {
    auto session = Connection::open(conninfo_, options);
    EXPECT_TRUE(session.has_value()) << session.error().to_string();
    return session ? std::move(*session) : nullptr;
  }
  Code refusal(const std::string& sql) {
    const auto rows = session_->exec(sql);
    EXPECT_FALSE(rows.has_value()) << sql;
    return rows ? Code::kUnknown : rows.error().code;
  }

  std::unique_ptr<Connection> session_;
};

TEST_F(ConnectionTest, EveryTypeGoesThereAndBack) {
  const std::string bytes("\0\xff'\\", 4);
  const std::array<std::string_view, 3> texts{"", "é\"{},\\", "NULL"};
  const std::array<std::optional<std::string_view>, 3> blobs{bytes, std::nullopt, ""};
  const std::array<std::int64_t, 3> numbers{INT64_MIN, -1, INT64_MAX};
  const auto rows = session_->query(
      "select t, b, n, f, $5::text, $6::bytea, $7::bigint from unnest($1::text[], $2::bytea[], $3::bigint[], "
      "$4::boolean[]) as x(t, b, n, f)",
      Params().texts(texts).bytes(blobs).int8s(numbers).bools({true, false, true}).text("one").bytes(bytes).int8(-7));
  ASSERT_TRUE(rows.has_value()) << rows.error().to_string();
  ASSERT_EQ(rows->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows->text(i, 0), texts[i]);
    EXPECT_EQ(rows->null(i, 1), !blobs[i]);
    EXPECT_EQ(blobs[i] ? rows->bytes(i, 1) : "", blobs[i].value_or(""));
    EXPECT_EQ(rows->int8(i, 2), numbers[i]);
    EXPECT_EQ(rows->boolean(i, 3), i != 1);
    EXPECT_EQ(rows->str(i, 4), "one");
    EXPECT_EQ(rows->bytes(i, 5), bytes);
    EXPECT_EQ(rows->int8(i, 6), -7);
  }
}

TEST_F(ConnectionTest, EmptyArraysAreArrays) {
  const auto rows = session_->query(
      "select cardinality($1::text[]) + cardinality($2::bytea[]) + cardinality($3::bigint[]) + "
      "cardinality($4::boolean[])",
      Params().texts({}).bytes(std::span<const std::optional<std::string_view>>()).int8s({}).bools({}));
  ASSERT_TRUE(rows.has_value()) << rows.error().to_string();
  EXPECT_EQ(rows->int8(0, 0), 0);
}

TEST_F(ConnectionTest, RefusalsHaveCodes) {
  ASSERT_TRUE(session_->exec("create table t (a int primary key check (a > 0)); insert into t values (1)"));
  EXPECT_EQ(refusal("insert into t values (1)"), Code::kAlreadyExists);
  EXPECT_EQ(refusal("insert into t values (-1)"), Code::kFailedPrecondition);
  EXPECT_EQ(refusal("select 1 / 0"), Code::kInvalid);
  EXPECT_EQ(refusal("selct 1"), Code::kInternal);
  EXPECT_EQ(refusal("do $$ begin raise exception 'x' using errcode = '40001'; end $$"), Code::kAborted);
  EXPECT_EQ(refusal("do $$ begin raise exception 'x' using errcode = '53100'; end $$"), Code::kExhausted);
  EXPECT_EQ(refusal("do $$ begin raise exception 'x' using errcode = '54000'; end $$"), Code::kExhausted);
  ASSERT_TRUE(session_->exec("create table u (a text primary key)"));
  EXPECT_EQ(refusal("insert into u select string_agg(md5(i::text), '') from generate_series(1, 200) i"),
            Code::kInvalid);
  EXPECT_EQ(refusal("do $$ begin raise exception 'x' using errcode = '42501'; end $$"), Code::kPermissionDenied);
  EXPECT_EQ(refusal("set statement_timeout = 20; select pg_sleep(60)"), Code::kDeadlineExceeded);
  EXPECT_FALSE(session_->broken());
}

TEST_F(ConnectionTest, ALostSessionStaysLost) {
  const int pid = session_->backend_pid();
  ASSERT_GT(pid, 0);
  ASSERT_TRUE(open()->exec("select pg_terminate_backend(" + std::to_string(pid) + ", 5000)"));
  EXPECT_EQ(refusal("select 1"), Code::kUnavailable);
  EXPECT_TRUE(session_->broken());
  EXPECT_EQ(refusal("select 1"), Code::kUnavailable);
  EXPECT_EQ(session_->backend_pid(), pid);
}

TEST_F(ConnectionTest, ATransactionThatIsLeftOpenIsEnded) {
  session_ = open({"test", 10s, 50ms});
  ASSERT_TRUE(session_->exec("begin"));
  const auto watcher = open();
  const auto look = "select 1 from pg_stat_activity where pid = " + std::to_string(session_->backend_pid());
  EXPECT_TRUE(testing::wait_until([&] { return watcher->exec(look).value().empty(); }));
  EXPECT_EQ(refusal("commit"), Code::kUnavailable);
}

TEST_F(ConnectionTest, ATransactionRollsBackUnlessCommitted) {
  ASSERT_TRUE(session_->exec("create table t (a int)"));
  {
    auto transaction = Transaction::begin(*session_);
    ASSERT_TRUE(transaction && session_->exec("insert into t values (1)"));
  }
  auto transaction = Transaction::begin(*session_);
  ASSERT_TRUE(transaction && session_->exec("insert into t values (2)") && transaction->commit());
  EXPECT_EQ(session_->exec("select sum(a) from t").value().int8(0, 0), 2);
}

TEST_F(ConnectionTest, NotificationsWakeAndTimeOut) {
  ASSERT_TRUE(session_->exec("listen test"));
  EXPECT_FALSE(session_->wait_notification(1ms).value());
  ASSERT_TRUE(open()->exec("notify test"));
  EXPECT_TRUE(session_->wait_notification(20s).value());
}

TEST_F(ConnectionTest, ANotificationThatArrivesDuringAQueryIsKept) {
  ASSERT_TRUE(session_->exec("listen test"));
  ASSERT_TRUE(open()->exec("notify test"));
  ASSERT_TRUE(session_->query("select 1"));
  ASSERT_TRUE(session_->exec("select 1"));
  EXPECT_TRUE(session_->wait_notification(20s).value());
  EXPECT_FALSE(session_->wait_notification(0s).value()) << "it is taken once";
}

/// A wait that ends before its time is repeated at once, until the rest of the time is over.
TEST_F(ConnectionTest, AWaitIsNotCutToWholeMilliseconds) {
  ASSERT_TRUE(session_->exec("listen test"));
  for (const auto timeout : {1us, 900us, 1900us}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(session_->wait_notification(timeout).value());
    EXPECT_GE(std::chrono::steady_clock::now() - start, timeout);
  }
}

TEST_F(ConnectionTest, AWakeEndsAWait) {
  const Wake wake;
  const auto start = std::chrono::steady_clock::now();
  std::thread other([&] { wake.notify(); });
  EXPECT_FALSE(session_->wait_notification(60s, &wake).value());
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
  EXPECT_TRUE(wake.take()) << "by the owner of the wait";
}

TEST_F(ConnectionTest, UriFormsAreTaken) {
  const auto rows = session_->exec("show port");
  conninfo_ = "postgresql://postgres@127.0.0.1:" + rows.value().str(0, 0) + "/postgres?connect_timeout=9";
  EXPECT_TRUE(open()->exec("select 1"));
}

TEST_F(ConnectionTest, NamesAreQuoted) { EXPECT_EQ(quote_name("a\"b"), "\"a\"\"b\""); }

TEST(ConnectionWithoutServer, ReportsThatItIsUnavailable) {
  const auto session = Connection::open("host=127.0.0.1 port=1", {"test"});
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, Code::kUnavailable);
}

}  // namespace connection_pg_test
}  // namespace qm::pg
