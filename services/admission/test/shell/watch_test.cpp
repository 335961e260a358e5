#include "qm/admission/watch.hpp"

#include "admission_host.hpp"
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace watch_test {

class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    service::HostOptions options;
    options.mailbox = 4;  // small, so that a burst has to wait
    host_ = testing::start_admission(clock_, nullptr, options);
    ASSERT_TRUE(host_);
    client_ = std::make_unique<kube::Client>(jobs_.client());
    watch_ = std::make_unique<JobWatch>(*client_, *host_);
  }
  void TearDown() override {
    jobs_.close_watches();
    watch_.reset();
    if (host_) host_->stop();
  }
  std::optional<Phase> phase(const std::string& uid) {
    std::optional<Phase> found;
    host_->read([&](const service::Shell& shell) {
      if (const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid))) found = w->phase;
    });
    return found;
  }

  testing::JobServer jobs_;
  ManualClock clock_{from_micros(1'800'000'000'000'000)};
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<JobWatch> watch_;
};

TEST_F(WatchTest, ReportsCreatedAndDeletedJobs) {
  for (int i = 0; i < 50; ++i) jobs_.put(testing::make_job("team", fmt::format("j{}", i), "q", 1));
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-j49").has_value(); }));
  jobs_.put(testing::make_job("team", "later", "q", 1));
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-later") == Phase::kPending; }));
  jobs_.remove("team/later");
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-later") == Phase::kCancelled; }));
  EXPECT_EQ(phase("uid-j0"), Phase::kPending);
}

TEST_F(WatchTest, KeepsSuspendedObjectsForTheExecutor) {
  ObservedJobs observed;
  WatchOptions options;
  options.observed = &observed;
  watch_ = std::make_unique<JobWatch>(*client_, *host_, options);
  for (const char* name : {"pending", "deleted", "started"}) jobs_.put(testing::make_job("team", name, "q", 1));
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-started").has_value(); }));
  Json labelled = jobs_.get("team/pending");
  labelled.set("metadata").set("annotations").set("by", "author");
  jobs_.put(labelled);
  jobs_.remove("team/deleted");
  Json started = jobs_.get("team/started");
  started.set("spec").set("suspend", false);
  jobs_.put(started);
  jobs_.put(testing::make_job("team", "last", "q", 1));
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-last").has_value(); }));
  EXPECT_EQ(observed.take("uid-pending"), jobs_.get("team/pending"));
  EXPECT_FALSE(observed.take("uid-deleted"));
  EXPECT_FALSE(observed.take("uid-started"));
}

TEST_F(WatchTest, DeletionBetweenListsIsReported) {
  jobs_.put(testing::make_job("team", "a", "q", 1));
  jobs_.put(testing::make_job("team", "b", "q", 1));
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-b").has_value(); }));
  watch_.reset();  // the watch is down
  jobs_.remove_silently("team/a");
  watch_ = std::make_unique<JobWatch>(*client_, *host_);
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-a") == Phase::kCancelled; }));
  EXPECT_EQ(phase("uid-b"), Phase::kPending);
}

TEST_F(WatchTest, FirstListIsOrderedByAge) {
  for (const auto& object : testing::queue_objects()) {
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = "object";
    input.bytes = object;
    ASSERT_TRUE(host_->submit(std::move(input)));
  }
  // A list is ordered by name; the mailbox is small, so that the first ones are decided before the last ones
  // are in it.
  for (int i = 0; i < 20; ++i) {
    Json job = testing::make_job("team", fmt::format("j{:02}", i), "q", 8);
    job.set("metadata").set("creationTimestamp", fmt::format("2026-01-01T00:00:{:02}Z", 59 - i));
    jobs_.put(job);
  }
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-j00").has_value() && phase("uid-j19").has_value(); }));
  EXPECT_TRUE(qm::testing::wait_until([&] { return phase("uid-j19") == Phase::kQuotaReserved; }));
  EXPECT_EQ(phase("uid-j00"), Phase::kPending);
}

TEST_F(WatchTest, AYoungerJobIsNotSentBeforeAnOlderOneThatWasHeldBack) {
  for (const auto& object : testing::queue_objects()) Mailbox(*host_).send("object", object);  // eight GPUs
  kube::Ownership owners(*client_, {"quota", "auto", {}});
  watch_ = std::make_unique<JobWatch>(*client_, *host_, WatchOptions{&owners, &owners});
  Json older = testing::make_job("team", "z-older", "q", 8);
  jobs_.put(older);
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return watch_->synced() && jobs_.watched("jobs"); }));
  owners.start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return owners.known(); }));
  // The owners are known, and the watch has not been notified yet.
  Json younger = testing::make_job("team", "a-younger", "q", 8);
  younger.set("metadata").set("creationTimestamp", "2026-01-01T00:00:09Z");
  jobs_.put(younger);
  EXPECT_FALSE(qm::testing::wait_until([&] { return phase("uid-a-younger").has_value(); }, std::chrono::seconds(1)));
  watch_->owners_changed();
  EXPECT_TRUE(qm::testing::wait_until([&] { return phase("uid-z-older") == Phase::kQuotaReserved; }));
  EXPECT_TRUE(qm::testing::wait_until([&] { return phase("uid-a-younger") == Phase::kPending; }));
}

TEST_F(WatchTest, UnreadableJobDoesNotStopOthers) {
  Json bad = testing::make_job("team", "bad", "q", 1);
  bad.set("spec")
      .set("template")
      .set("spec")
      .set("containers")
      .items_mut()[0]
      .set("resources")
      .set("requests")
      .set("cpu", "much");
  jobs_.put(bad);
  jobs_.put(testing::make_job("team", "good", "q", 1));
  watch_->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-good").has_value(); }));
  EXPECT_EQ(phase("uid-bad"), Phase::kRejected);
  // A correction is enough.
  jobs_.put(testing::make_job("team", "bad", "q", 1));
  EXPECT_TRUE(qm::testing::wait_until([&] { return phase("uid-bad") == Phase::kPending; }));
}

/// Nothing is pending: the workload has quota.
TEST(WatchUrgency, AnUpdateOfAJobSharesTheBatchOfTheNextJob) {
  const ManualClock clock(from_micros(1'800'000'000'000'000));
  service::HostOptions options;
  options.gather = {};
  options.defer = std::chrono::hours(1);
  const auto host = testing::start_admission(clock, nullptr, options);
  ASSERT_TRUE(host);
  for (const auto& object : config::load_text(qm::testing::yaml_of({}), "queue.yaml").objects)
    Mailbox(*host).send("object", object.document.content.dump());
  testing::JobServer jobs;
  kube::Client client(jobs.client());
  JobWatch watch(client, *host);
  const auto phase = [&](const std::string& uid) {
    std::optional<Phase> found;
    host->peek([&](const service::Shell& shell) {
      if (const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid))) found = w->phase;
    });
    return found;
  };
  watch.start();
  Json job = testing::make_job("team", "a", "q", 1);
  jobs.put(job);
  ASSERT_TRUE(qm::testing::wait_until([&] { return phase("uid-a") == Phase::kQuotaReserved; }));
  const auto batches = host->counters().batches;
  job.set("metadata").set("annotations").set(words::kExpectedRuntime, "1h");
  jobs.put(job);
  EXPECT_TRUE(qm::testing::wait_until([&] { return host->counters().mailbox == 1; })) << "the update waits";
  EXPECT_EQ(host->counters().batches, batches);
  jobs.put(testing::make_job("team", "b", "q", 1));
  EXPECT_TRUE(qm::testing::wait_until([&] { return phase("uid-b").has_value(); }));
  EXPECT_EQ(host->counters().mailbox, 0U);
  jobs.close_watches();
  watch.stop();
  host->stop();
}

TEST_F(WatchTest, EachUserEditableFieldIsSent) {
  const Json job = testing::make_job("team", "a", "q", 1);
  const auto differs = [&](auto&& change) {
    Json changed = job;
    change(changed);
    return job_print(changed) != job_print(job);
  };
  EXPECT_TRUE(differs([](Json& j) { j.set("metadata").set("labels").set(words::kQueueLabel, "r"); }));
  EXPECT_TRUE(differs([](Json& j) { j.set("metadata").set("labels").set(words::kPriorityClassLabel, "high"); }));
  EXPECT_TRUE(differs([](Json& j) { j.set("metadata").set("annotations").set(words::kExpectedRuntime, "1h"); }));
  EXPECT_TRUE(differs([](Json& j) { j.set("spec").set("parallelism", 7); }));
  EXPECT_TRUE(differs([](Json& j) { j.set("spec").set("template").set("spec").set("priorityClassName", "high"); }));
  EXPECT_FALSE(differs([](Json& j) { j.set("metadata").set("resourceVersion", "77"); }));
}

}  // namespace watch_test
}  // namespace qm::admission
