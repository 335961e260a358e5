// The data of admission for dashboards, on a real PostgreSQL: one row for each start, and the result of each job.
#include "qm/admission/report.hpp"

#include "qm/admission/codec.hpp"
#include "qm/pg/connection.hpp"
#include "qm/testing/postgres_test.hpp"
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission {
namespace report_pg_test {

class Report : public qm::testing::PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    for (const char* shard : {"default", "east"}) {
      auto opened = store::open_postgres({conninfo_, "admission", shard, migrations()});
      ASSERT_TRUE(opened) << opened.error().to_string();
      auto loaded = (*opened)->acquire("test");
      ASSERT_TRUE(loaded) << loaded.error().to_string();
      stores_[shard] = std::move(*opened);
    }
    auto connected = pg::Connection::open(conninfo_, {.application_name = "test"});
    ASSERT_TRUE(connected) << connected.error().to_string();
    sql_ = std::move(*connected);
  }

  static Instant at(int seconds) { return from_micros(1'795'000'000'000'000) + std::chrono::seconds(seconds); }

  void say(const std::string& shard, Event::What what, const Workload& workload, Instant when = {}) {
    auto row = transition_row({what, workload, when});
    ASSERT_TRUE(row) << name_of(what);
    store::Commit commit;
    commit.now = at(1000);
    commit.appends.push_back(std::move(*row));
    const auto done = stores_.at(shard)->commit(commit);
    ASSERT_TRUE(done) << done.error().to_string();
    ASSERT_EQ(*done, store::CommitOutcome::kCommitted);
  }
  std::string value(const std::string& query) {
    const auto rows = sql_->exec(query);
    EXPECT_TRUE(rows) << rows.error().to_string();
    return rows && rows->size() == 1 ? rows->str(0, 0) : fmt::format("{} rows", rows ? rows->size() : 0);
  }

  static Workload job(const std::string& uid) {
    Workload w;
    w.spec.uid = WorkloadUid(uid);
    w.spec.ns = Namespace("lab");
    w.spec.name = "nightly";
    w.spec.team = Team("research");
    w.spec.submitted = at(0);
    PodSet set;
    set.count = 2;
    set.shape.gpu.whole = 8;
    w.spec.pod_sets.edit().push_back(set);
    w.cluster_queue = QueueName("h100");
    w.queued = at(0);
    return w;
  }

  std::map<std::string, std::unique_ptr<store::Store>> stores_;
  std::unique_ptr<pg::Connection> sql_;
};

TEST_F(Report, OneRowPerStartAndPerJob) {
  Workload w = job("u1");
  w.admitted = at(90);
  say("default", Event::What::kAdmitted, w);
  w.eviction = Eviction{.reason = "Preempted", .message = {}, .deadline = {}, .ordered = at(200)};
  say("default", Event::What::kEvicting, w);
  w.attempt = 2;
  w.queued = at(210);
  w.admitted = at(240);
  say("default", Event::What::kAdmitted, w);
  w.finished = at(500);
  w.succeeded = true;
  say("default", Event::What::kFinished, w);
  Workload other = job("u2");
  other.admitted = at(5);
  say("east", Event::What::kAdmitted, other);

  EXPECT_EQ(value("select string_agg(wait_seconds::int::text, ',' order by attempt) from report.queue_waits "
                  "where shard = 'default'"),
            "90,30");
  EXPECT_EQ(value("select gpus::int from report.queue_waits where uid = 'u2'"), "16");
  EXPECT_EQ(value("select format('%s %s %s %s', starts, evictions, succeeded, wait_seconds::int) from report.jobs "
                  "where uid = 'u1'"),
            "2 1 t 90");
  EXPECT_EQ(value("select extract(epoch from ended - first_start)::int from report.jobs where uid = 'u1'"), "410");
  EXPECT_EQ(value("select count(*) from report.jobs where ended is null"), "1");
}

// S-076: Queued, QuotaReserved, Admitted, Bound, in that order and stored.
TEST_F(Report, EachStateOfStartHasOrderedLine) {
  Engine engine;
  const auto step = [&](int seconds, std::vector<Command> batch) {
    const auto out = engine.step(batch, at(seconds));
    engine.commit();
    for (const auto& event : out.events) {
      if (transition_row(event)) say("default", event.what, event.workload, event.at);
    }
  };
  ApplyObjects objects;
  objects.flavors.push_back({FlavorName("any"), {}, {}, {}, {}});
  ResourceGroup group{{"nvidia.com/gpu"}, {{FlavorName("any"), {{"nvidia.com/gpu", Quota{16'000, {}, {}}}}}}};
  ClusterQueue queue;
  queue.name = QueueName("h100");
  queue.groups.push_back(group);
  objects.local_queues.push_back({Namespace("lab"), "q", QueueName("h100"), StopPolicy::kNone, {}});
  JobUpdated seen;
  seen.spec = job("u1").spec;
  step(1, {objects, seen});
  ApplyObjects late;
  late.cluster_queues.push_back(queue);
  step(2, {late});
  step(3, {PlacementUpdated{WorkloadUid("u1"), 1, Answer::kReserved, "r", {}, {}}});
  step(4, {PlacementUpdated{WorkloadUid("u1"), 1, Answer::kBound, "r", {}, {}}});
  step(5, {PlacementUpdated{WorkloadUid("u1"), 1, Answer::kBound, "r", {}, {}}});
  seen.complete = true;
  step(6, {seen});
  EXPECT_EQ(value("select string_agg(format('%s@%s', state, extract(epoch from time)::bigint - 1795000000), ' ' "
                  "order by time, step) from report.workload_log where uid = 'u1'"),
            "Queued@1 QuotaReserved@2 Admitted@3 Bound@4 Finished@6");
}

TEST_F(Report, NothingElseIsRow) {
  for (const auto what : {Event::What::kQueued, Event::What::kQuotaReserved, Event::What::kRequeued,
                          Event::What::kRepeated, Event::What::kForgotten}) {
    EXPECT_FALSE(transition_row({what, job("u"), {}})) << name_of(what);
  }
}

}  // namespace report_pg_test
}  // namespace qm::admission
