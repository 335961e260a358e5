#include "qm/base/assert.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/id.hpp"
#include "qm/base/log.hpp"
#include "qm/base/result.hpp"
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm {
namespace base_test {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Error{Code::kInvalid, fmt::format("{} is odd", n), "n", "give an even number"});
  return n / 2;
}

Result<int> quarter(int n) {
  QM_ASSIGN(const int h, half(n));
  QM_ASSIGN(const int q, half(h));
  return q;
}

Status check(int n) {
  QM_TRY(half(n));
  return {};
}

TEST(Result, PassesValuesAndErrorsThrough) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(check(4));
  EXPECT_EQ(check(5).error().to_string(), "INVALID_ARGUMENT: 5 is odd (field n); give an even number");
  EXPECT_EQ(check(5).error().with_context("sizing").message, "sizing: 5 is odd");
}

TEST(Result, AnErrorHasNoRepetition) {
  const Error error{Code::kInvalid, "job.yaml:4: KEY is not set; set it", "KEY", "set it"};
  EXPECT_EQ(error.to_string(), "INVALID_ARGUMENT: job.yaml:4: KEY is not set; set it");
  EXPECT_EQ(error.with_context("job.yaml").message, error.message);
  EXPECT_EQ(error.with_context("reading").with_context("reading").message, "reading: " + error.message);
  EXPECT_EQ((Error{Code::kInvalid, "Job team/train is refused", {}, {}}).with_context("team/train").message,
            "Job team/train is refused");
  // A part of another word, or a word that occurs by chance, does not count.
  EXPECT_EQ((Error{Code::kInvalid, "Job team/train-2 is refused", "job", {}}).with_context("team/train").to_string(),
            "INVALID_ARGUMENT: team/train: Job team/train-2 is refused (field job)");
  EXPECT_EQ((Error{Code::kInvalid, "the list is empty", {}, {}}).with_context("list").message,
            "list: the list is empty");
}

TEST(Result, OnlyTransientErrorsAreRetryable) {
  for (const Code code : {Code::kUnavailable, Code::kAborted, Code::kExhausted, Code::kDeadlineExceeded}) {
    EXPECT_TRUE((Error{code, "", "", ""}.retryable())) << name_of(code);
  }
  for (const Code code :
       {Code::kInvalid, Code::kNotFound, Code::kUnknown, Code::kInternal, Code::kFailedPrecondition}) {
    EXPECT_FALSE((Error{code, "", "", ""}.retryable())) << name_of(code);
  }
}

TEST(AssertDeath, PrintsConditionAndValues) {
  EXPECT_DEATH(QM_ASSERT(1 > 2, "used {} of {}", 3, 2), "broken law .* 1 > 2 - used 3 of 2");
}

TEST(AssertDeath, CallsTheDumpHookOnce) {
  EXPECT_DEATH(
      {
        set_assertion_hook([](std::string_view) {
          fmt::print(stderr, "dumped\n");
          QM_ASSERT(false, "inside the hook");
        });
        QM_ASSERT(false, "first");
      },
      "first[^$]*dumped[^$]*inside the hook");
}

TEST(Id, DoesNotMixTypesAndFormats) {
  using A = Named<struct TagA>;
  using B = Named<struct TagB>;
  static_assert(!std::is_convertible_v<A, B>);
  static_assert(!std::is_convertible_v<std::string, A>);
  EXPECT_EQ(fmt::format("{}", A("x")), "x");
  EXPECT_LT(A("a"), A("b"));
}

TEST(Time, WritesAndReadsRfc3339) {
  const Instant t = from_micros(1'795'252'469'000'000);
  EXPECT_EQ(to_rfc3339(t), "2026-11-21T09:14:29Z");
  EXPECT_EQ(*from_rfc3339("2026-11-21T09:14:29Z"), t);
  EXPECT_EQ(*from_rfc3339("2026-11-21T10:14:29+01:00"), t);
  EXPECT_EQ(to_rfc3339(from_micros(-1)), "1969-12-31T23:59:59.999999Z");
  for (const char* bad : {"", "2026-11-21", "2026-13-21T09:14:29Z", "2026-02-30T09:14:29Z", "2026-11-21T09:14:29",
                          "2026-11-21T24:14:29Z", "2026-11-21T09:14:29.Z", "2026-11-21T09:14:29Zx"}) {
    EXPECT_EQ(from_rfc3339(bad).error().code, Code::kInvalid) << bad;
  }
}

RC_GTEST_PROP(TimeProp, ReadsWhatItWrites, ()) {
  const auto us = *rc::gen::inRange<std::int64_t>(-60'000'000'000'000'000, 200'000'000'000'000'000);
  RC_ASSERT(*from_rfc3339(to_rfc3339(from_micros(us))) == from_micros(us));
}

TEST(Digest, DependsOnOrderAndBoundaries) {
  EXPECT_EQ(Digest().add("ab").add("c").value(), Digest().add("ab").add("c").value());
  EXPECT_NE(Digest().add("ab").add("c").value(), Digest().add("a").add("bc").value());
  EXPECT_NE(Digest().add("a").add("b").value(), Digest().add("b").add("a").value());
  EXPECT_NE(Digest().add("12345678a").value(), Digest().add("12345678b").value());
  EXPECT_NE(Digest().add(std::string_view("a\0", 2)).value(), Digest().add("a").value());
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(stable_hash("workload-1"), stable_hash("workload-1"));
}

RC_GTEST_PROP(TableProp, RollbackRestoresWhatCommitLeft,
              (const std::vector<std::pair<int, int>>& before, const std::vector<std::pair<int, int>>& batch)) {
  Table<int, int> table;
  for (const auto& [k, v] : before) table.insert(k % 8, v);
  table.commit();
  const auto kept = table.rows();
  for (const auto& [k, v] : batch) {
    if (v % 3 == 0) {
      table.erase(k % 8);
    } else if (v % 3 == 1) {
      table.edit(k % 8) ^= v;
    } else {
      table.insert(k % 8, v);
    }
  }
  // The changes that a repository stores for the batch, applied to the old rows, give the new rows.
  auto written = kept;
  table.changed([&](int key, const int* row) {
    if (row == nullptr) {
      written.erase(key);
    } else {
      written[key] = *row;
    }
  });
  RC_ASSERT(written == table.rows());
  table.rollback();
  RC_ASSERT(table.rows() == kept);
  RC_ASSERT(!table.dirty());
}

int hits = 0;
TEST(CrashPoint, FiresAtTheArmedPassageOnly) {
  hits = 0;
  arm_crash_point("base.test_point", 2, [](std::string_view) { ++hits; });
  const auto pass = [] { QM_CRASH_POINT("base.test_point"); };
  pass();
  EXPECT_EQ(hits, 0);
  pass();
  EXPECT_EQ(hits, 1);
  pass();
  EXPECT_EQ(hits, 1);
  disarm_crash_points();
}

[[maybe_unused]] void never_reached() { QM_CRASH_POINT("base.never_passed"); }

TEST(CrashPoint, IsListedOnceWhetherItWasPassedOrNot) {
  const auto again = [] { QM_CRASH_POINT("base.test_point"); };
  again();
  const auto names = crash_points();
  for (const std::string_view name : {"base.kill", "base.never_passed", "base.test_point"})
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(CrashPointDeath, KillsWithoutUnwinding) {
  EXPECT_EXIT(
      {
        arm_crash_point("base.kill", 1);
        QM_CRASH_POINT("base.kill");
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(Log, WritesOneLineInBothForms) {
  ::testing::internal::CaptureStderr();
  log::init("base", log::Format::kJson, log::Level::kInfo);
  log::info("reservation made", {{"uid", "a b"}, {"nodes", 3}});
  log::debug("hidden");
  log::init("base", log::Format::kText, log::Level::kInfo);
  log::warn("slow commit", {{"queue", "a b"}, {"ms", 12}});
  const std::string out = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find(R"("level":"info","process":"base","msg":"reservation made","uid":"a b","nodes":"3"})"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("warn  base: slow commit queue=\"a b\" ms=12"), std::string::npos) << out;
  EXPECT_EQ(out.find("hidden"), std::string::npos);
  EXPECT_EQ(log::parse_level("loud").error().field, "log-level");
}

TEST(Log, TakesTheTraceIdOutOfATraceparent) {
  EXPECT_EQ(log::trace_id("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(log::trace_id(""), "");
  EXPECT_EQ(log::trace_id("something else"), "something else");
}

}  // namespace base_test
}  // namespace qm
