// The number of pods of a running Job that have finished for good.
#include "job_server.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace ended_pods_test {

std::int32_t ended(int at_once, int completions, int succeeded, bool suspended = false) {
  Json job = testing::make_job("team", "train", "q", 1, at_once);
  job.set("spec").set("suspend", suspended).set("completions", completions);
  job.set("status").set("succeeded", succeeded);
  const auto seen = parse_job(job);
  EXPECT_TRUE(seen);
  return seen->ended;
}

TEST(EndedPods, AreThoseBeyondRemainingWork) {
  EXPECT_EQ(ended(4, 4, 0), 0);
  EXPECT_EQ(ended(4, 4, 1), 1);
  EXPECT_EQ(ended(4, 4, 3), 3);
  EXPECT_EQ(ended(4, 10, 6), 0) << "four are left, for as many pods";
  EXPECT_EQ(ended(4, 10, 8), 2);
  EXPECT_EQ(ended(1, 1, 1), 0) << "the last one ends with its Job";
  EXPECT_EQ(ended(4, 4, 3, true), 0);
}

TEST(EndedPods, IncludeFailedIndexes) {
  const auto failed = [](const char* indexes, int succeeded) {
    Json job = testing::make_job("team", "train", "q", 1, 6);
    job.set("spec").set("suspend", false);
    job.set("status").set("failedIndexes", indexes).set("succeeded", succeeded);
    return parse_job(job)->ended;
  };
  EXPECT_EQ(failed("", 0), 0);
  EXPECT_EQ(failed("3", 0), 1);
  EXPECT_EQ(failed("0,2-4", 1), 5);
  EXPECT_EQ(failed("2-1", 0), 0) << "it cannot be read";
  EXPECT_EQ(failed("a", 0), 0);
}

TEST(EndedPods, JobWithFewerCompletionsThanParallelismCountsFromCompletions) {
  EXPECT_EQ(ended(4, 2, 1), 1) << "two run at once";
}

TEST(ElasticJobs, HaveKueuesAnnotation) {
  Json job = testing::make_job("team", "train", "q", 1, 4);
  EXPECT_FALSE(parse_job(job)->elastic);
  job.set("metadata").set("annotations").set("kueue.x-k8s.io/elastic-job", "true");
  job.set("status").set("ready", 3).set("succeeded", 1);
  EXPECT_TRUE(parse_job(job)->elastic);
  EXPECT_EQ(parse_job(job)->ready, 4);
  job.set("metadata").set("annotations").set("kueue.x-k8s.io/job-min-parallelism", "2");
  EXPECT_FALSE(parse_job(job)->elastic) << "one that may start with fewer is not elastic, as in Kueue";
}

// Not all pods of an elastic Job that scales up have to be ready.
TEST(ElasticJobs, EachReadyPodIsReportedWhereReadinessCounts) {
  Json job = testing::make_job("team", "train", "q", 1, 4);
  job.set("spec").set("suspend", false);
  job.set("metadata").set("annotations").set("kueue.x-k8s.io/elastic-job", "true");
  const auto before = job_print(job, true);
  job.set("status").set("ready", 2);
  EXPECT_NE(job_print(job, true), before);
  const auto without = job_print(job, false);
  job.set("status").set("ready", 1);
  EXPECT_EQ(job_print(job, false), without);
}

TEST(EndedPods, AreReportedToEngine) {
  Json job = testing::make_job("team", "train", "q", 1, 4);
  job.set("spec").set("suspend", false);
  const auto before = job_print(job);
  job.set("status").set("succeeded", 2);
  EXPECT_NE(job_print(job), before);
}

}  // namespace ended_pods_test
}  // namespace qm::admission
