#pragma once
// The cases of StoreContract. One file per carrier includes and instantiates them.
#include "qm/base/text.hpp"
#include "store_contract.hpp"

#include <fmt/format.h>

#include <chrono>

namespace qm::store {

inline const std::string kBytes("\0\x01\xff\\x00'\"\n", 9);

inline OutboxRow event(std::uint64_t sequence, std::string key, std::uint64_t version, bool tombstone = false) {
  return {sequence, "qm.test", std::move(key), version, tombstone, fmt::format("value {}", sequence)};
}

TEST_P(StoreContract, AFreshPlaceIsEmpty) {
  EXPECT_EQ(loaded_.epoch, 1U);
  EXPECT_TRUE(loaded_.state.empty() && loaded_.open_intents.empty() && loaded_.cursors.empty());
  EXPECT_EQ(loaded_.journal_sequence + loaded_.outbox_sequence + loaded_.intent_sequence, 0U);
  EXPECT_TRUE(store_->read_outbox(0, 10).value().empty());
}

TEST_P(StoreContract, EachLeaderBeginsATermAndKnowsThoseThatPublished) {
  EXPECT_NE(loaded_.term, 0U);
  EXPECT_EQ(loaded_.ancestors, Ancestors{});
  const auto silent = loaded_.term;
  const auto first = reload();
  EXPECT_NE(first.term, silent);
  EXPECT_EQ(first.ancestors, Ancestors{}) << "nothing was published before";
  Commit batch;
  batch.outbox = {event(1, "a", 1), event(2, "b", 1)};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  const auto second = reload();
  EXPECT_EQ(second.ancestors, (Ancestors{{{first.term, 2}}}));
  const auto third = reload();
  EXPECT_NE(third.term, second.term);
  EXPECT_EQ(third.ancestors, second.ancestors);
  batch.outbox = {event(3, "a", 2)};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  EXPECT_EQ(reload().ancestors, (Ancestors{{{third.term, 3}, {first.term, 2}}}));
}

TEST_P(StoreContract, TheNextLeaderFindsAllOfACommit) {
  Commit batch;
  batch.state = {{"job", "a", kBytes}, {"job", "empty", ""}, {"queue", "a", "q"}};
  batch.journal_sequence = 1;
  batch.now = from_micros(1'000'000);
  batch.journal = kBytes;
  batch.outbox = {{1, "qm.test", "a", 7, false, kBytes}};
  batch.intents = {{"i/1", "pod.bind", "a", 1, kBytes}};
  const HistoryPosition history{(std::uint64_t{1} << 63) - 1, 20, {{{7, 9}, {5, 4}}}};
  batch.cursors = {{"qm.other", 3, 42, ~std::uint64_t{0}, history, LogAnchor{40, ~std::uint64_t{1}}}};
  batch.seen = {{"qm.other", "k", 9, true}};
  batch.requests = {{"r1", kBytes, batch.now}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);

  const auto found = reload();
  EXPECT_EQ(found.epoch, 2U);
  ASSERT_EQ(found.state.size(), 3U);
  EXPECT_EQ(found.state[0].value, kBytes);
  EXPECT_EQ(found.state[1].value, "");
  EXPECT_EQ(found.state[2].kind, "queue");
  EXPECT_EQ(found.journal_sequence, 1U);
  EXPECT_EQ(found.outbox_sequence, 1U);
  EXPECT_EQ(found.intent_sequence, 1U);
  EXPECT_EQ(found.last_now, batch.now);
  ASSERT_EQ(found.open_intents.size(), 1U);
  EXPECT_EQ(found.open_intents[0].id, "i/1");
  EXPECT_EQ(found.open_intents[0].kind, "pod.bind");
  EXPECT_EQ(found.open_intents[0].payload, kBytes);
  ASSERT_EQ(found.cursors.size(), 1U);
  EXPECT_EQ(found.cursors[0].next_offset, 42);
  EXPECT_EQ(found.cursors[0].partition, 3);
  EXPECT_EQ(found.cursors[0].mark, ~std::uint64_t{0});
  EXPECT_EQ(found.cursors[0].history, history);
  EXPECT_EQ(found.cursors[0].anchor, (LogAnchor{40, ~std::uint64_t{1}}));
  ASSERT_EQ(found.seen.size(), 1U);
  EXPECT_EQ(found.seen[0].version, 9U);
  EXPECT_TRUE(found.seen[0].gone);
  ASSERT_EQ(found.published.size(), 1U);
  EXPECT_EQ(found.published[0].version, 7U);
  ASSERT_EQ(found.requests.size(), 1U);
  EXPECT_EQ(found.requests[0].reply, kBytes);
  const auto outbox = store_->read_outbox(0, 10).value();
  ASSERT_EQ(outbox.size(), 1U);
  EXPECT_EQ(outbox[0].value, kBytes);
}

TEST_P(StoreContract, ARefusedBatchLeavesNothing) {
  const auto refused = [&](const Commit& batch, Code code) {
    const auto outcome = store_->commit(batch);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code, code) << outcome.error().to_string();
    EXPECT_FALSE(outcome.error().retryable());
  };
  Commit batch;
  batch.state = {{"job", "a", "1"}};
  batch.outbox = {event(2, "a", 1)};
  refused(batch, Code::kFailedPrecondition);
  batch.outbox = {event(1, "a", 1), event(3, "a", 2)};
  refused(batch, Code::kFailedPrecondition);
  batch.outbox.clear();
  batch.journal_sequence = 2;
  refused(batch, Code::kFailedPrecondition);
  batch.journal_sequence = 1;
  batch.intents = {{"i", "k", "a", 5, ""}};
  refused(batch, Code::kFailedPrecondition);
  batch.intents.clear();
  batch.requests = {{std::string("r\0", 2), "", {}}};
  refused(batch, Code::kInvalid);
  batch.requests = {{std::string(kMaxRowKey + 1, 'r'), "", {}}};
  refused(batch, Code::kInvalid);
  batch.requests.clear();
  batch.appends = {{"ledger", {"one", "two"}, {"1"}}};
  refused(batch, Code::kInvalid);
  batch.appends.clear();
  EXPECT_TRUE(reload().state.empty());
  EXPECT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
}

TEST_P(StoreContract, TheLastRowOfAKeyCounts) {
  Commit batch;
  batch.state = {{"job", "a", "1"}, {"job", "b", "1"}, {"job", "a", std::nullopt}, {"job", "b", "2"}};
  batch.outbox = {event(1, "a", 1), event(2, "a", 2), event(3, "b", 1)};
  batch.cursors = {{"t", 0, 1}, {"t", 0, 2}};
  batch.seen = {{"t", "k", 1, false}, {"t", "k", 2, false}};
  batch.requests = {{"r", "old", {}}, {"r", "new", {}}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  const auto found = reload();
  ASSERT_EQ(found.state.size(), 1U);
  EXPECT_EQ(found.state[0].key, "b");
  EXPECT_EQ(found.state[0].value, "2");
  ASSERT_EQ(found.published.size(), 2U);
  EXPECT_EQ(found.published[0].version, 2U);
  EXPECT_EQ(found.cursors.at(0).next_offset, 2);
  EXPECT_EQ(found.seen.at(0).version, 2U);
  EXPECT_EQ(found.requests.at(0).reply, "new");
  Commit gone;
  gone.state = {{"job", "b", std::nullopt}, {"job", "never", std::nullopt}};
  ASSERT_EQ(write(*store_, gone), CommitOutcome::kCommitted);
  EXPECT_TRUE(reload().state.empty());
}

TEST_P(StoreContract, OnlyTheNewestLeaderWrites) {
  const auto old = std::move(store_);
  const auto first = loaded_;
  EXPECT_EQ(first.last_term, 0U);
  const auto second = reload();
  EXPECT_EQ(second.epoch, 2U);
  EXPECT_EQ(second.last_term, first.term);
  Commit batch;
  batch.journal_sequence = 1;
  batch.state = {{"job", "a", "new"}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  batch.state = {{"job", "a", "old"}, {"job", "b", "old"}};
  EXPECT_EQ(write(*old, batch), CommitOutcome::kEpochLost);
  EXPECT_EQ(write(*old, batch), CommitOutcome::kEpochLost);
  Commit empty;
  EXPECT_EQ(write(*store_, empty), CommitOutcome::kCommitted);
  const auto found = lead(*old);
  EXPECT_EQ(found.epoch, 3U);
  ASSERT_EQ(found.state.size(), 1U);
  EXPECT_EQ(found.state[0].value, "new");
  EXPECT_EQ(write(*store_, empty), CommitOutcome::kEpochLost);
}

TEST_P(StoreContract, NoReplicaWritesBeforeItLeads) {
  const auto other = open_();
  EXPECT_EQ(write(*other, {}), CommitOutcome::kEpochLost);
}

TEST_P(StoreContract, TheOutboxKeepsItsOrderAndItsNumbers) {
  for (std::uint64_t i = 1; i <= 9; i += 3) {
    Commit batch;
    for (std::uint64_t j = 0; j < 3; ++j) batch.outbox.push_back(event(i + j, "k", i + j));
    ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  }
  auto rows = store_->read_outbox(0, 4).value();
  ASSERT_EQ(rows.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(rows[i].sequence, i + 1);
  rows = store_->read_outbox(4, 100).value();
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows.front().sequence, 5U);
  EXPECT_EQ(rows.back().key_version, 9U);
  ASSERT_TRUE(store_->published(7, loaded_.term));
  ASSERT_TRUE(store_->published(7, loaded_.term));
  ASSERT_TRUE(store_->published(9, loaded_.term - 1)) << "rows that an earlier leader read";
  rows = store_->read_outbox(0, 100).value();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows.front().sequence, 8U);
  ASSERT_TRUE(store_->published(9, loaded_.term));
  EXPECT_EQ(reload().outbox_sequence, 9U);
}

TEST_P(StoreContract, LongOutboxRowsComeInPiecesOneAtLeast) {
  constexpr std::size_t kLong = 10 << 20;  // two exceed the limit of one read from PostgreSQL
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Commit batch;
    batch.outbox.push_back(event(i, "k", i));
    batch.outbox.back().value = std::string(kLong, static_cast<char>('a' + i));
    ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  }
  reload();  // further reads come from the disk
  std::uint64_t last = 0;
  while (last < 3) {
    const auto rows = store_->read_outbox(last, 100).value();
    ASSERT_FALSE(rows.empty());
    for (const auto& row : rows) {
      EXPECT_EQ(row.sequence, ++last);
      EXPECT_EQ(row.value.size(), kLong);
    }
  }
  EXPECT_TRUE(store_->read_outbox(last, 100).value().empty());
}

TEST_P(StoreContract, SnapshotsGoByPagesInTheOrderOfBytes) {
  Commit batch;
  batch.outbox = {event(1, "a", 1),          event(2, "B", 1), event(3, "c", 1),
                  event(4, "dead", 2, true), event(5, "é", 1), event(6, "a", 2)};
  batch.outbox.push_back({7, "qm.zzz", "other", 1, false, ""});
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  std::vector<std::string> keys;
  std::string after;
  while (true) {
    const auto page = store_->snapshot("qm.test", after, 2).value();
    EXPECT_LE(page.size(), 2U);
    if (page.empty()) break;
    for (const auto& row : page) keys.push_back(row.key);
    after = page.back().key;
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"B", "a", "c", "é"}));
  keys.clear();
  const auto all = store_->snapshot("qm.test", "", 10, {}, true).value();
  for (const auto& row : all) keys.push_back(row.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"B", "a", "c", "dead", "é"})) << "with those that ended";
  const auto newest = store_->snapshot("qm.test", "", 1, "a").value();
  ASSERT_EQ(newest.size(), 1U);
  EXPECT_EQ(newest[0].key_version, 2U);
  EXPECT_EQ(newest[0].value, "value 6");
  const auto dead = store_->snapshot("qm.test", "", 1, "dead").value();
  ASSERT_EQ(dead.size(), 1U);
  EXPECT_TRUE(dead[0].tombstone);
  EXPECT_TRUE(store_->snapshot("qm.test", "", 1, "never").value().empty());
}

TEST_P(StoreContract, APageOfASnapshotEndsAtItsBound) {
  constexpr std::size_t kLong = kReadBytes / 2 + 1;
  Commit batch;
  for (std::uint64_t i = 1; i <= 3; ++i)
    batch.outbox.push_back({i, "qm.test", fmt::format("k{}", i), 1, false, std::string(kLong, 'v')});
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  const auto first = store_->snapshot("qm.test", "", 10).value();
  ASSERT_EQ(first.size(), 2U) << "it ends with the row that reaches the bound";
  const auto second = store_->snapshot("qm.test", first.back().key, 10).value();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].key, "k3");
}

TEST_P(StoreContract, IntentsStayUntilTheyAreDone) {
  Commit batch;
  batch.intents = {{"z", "k", "a", 1, "first"}, {"b", "k", "a", 2, ""}, {"c", "k", "a", 3, ""}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  Commit next;
  next.intents = {{"z", "k", "a", 4, "again"}};
  next.intents_done = {"b", "unknown"};
  ASSERT_EQ(write(*store_, next), CommitOutcome::kCommitted);
  const auto found = reload();
  ASSERT_EQ(found.open_intents.size(), 2U);
  EXPECT_EQ(found.open_intents[0].id, "z");
  EXPECT_EQ(found.open_intents[0].payload, "first");
  EXPECT_EQ(found.open_intents[1].id, "c");
  EXPECT_EQ(found.intent_sequence, 4U);
}

TEST_P(StoreContract, AnswersAreForgottenAfterADay) {
  using std::chrono::hours;
  const auto day = from_micros(0) + hours(48);
  Commit batch;
  batch.now = day;
  batch.requests = {{"old", "1", day}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  batch.now = day + hours(24);
  batch.requests = {{"new", "2", batch.now}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  EXPECT_EQ(reload().requests.size(), 2U);
  batch.now += Duration(1);
  batch.requests.clear();
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  const auto found = reload().requests;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "new");
}

TEST_P(StoreContract, TheJournalIsReadBackByteForByte) {
  for (std::uint64_t i = 1; i <= 5; ++i) {
    Commit batch;
    batch.journal_sequence = i;
    batch.now = from_micros(static_cast<std::int64_t>(i) * 10);
    batch.journal = kBytes + std::to_string(i);
    batch.digest = 0xffff'ffff'0000'0000ULL + i;
    ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  }
  const auto rows = store_->read_journal(2, 2).value();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].sequence, 3U);
  EXPECT_EQ(rows[1].now, from_micros(40));
  EXPECT_EQ(rows[1].bytes, kBytes + "4");
  EXPECT_EQ(rows[1].digest, 0xffff'ffff'0000'0004ULL);
}

TEST_P(StoreContract, TimeNeverGoesBack) {
  Commit batch;
  batch.now = from_micros(500);
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  batch.now = from_micros(100);
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  EXPECT_EQ(reload().last_now, from_micros(500));
}

TEST_P(StoreContract, KeysThatEndedAreForgottenAndTheirVersionsStayUsed) {
  Commit batch;
  batch.outbox = {event(1, "ended", 7, true), event(2, "lives", 9), event(3, "ended too", 3, true)};
  batch.seen = {{"t", "ended", 4, true}, {"t", "lives", 5, false}};
  ASSERT_EQ(write(*store_, batch), CommitOutcome::kCommitted);
  EXPECT_TRUE(reload().floors.empty());
  Commit forget;
  forget.forget_seen = {{"t", "ended"}, {"t", "lives"}, {"t", "never"}};
  forget.forget_published = {{"qm.test", "ended"}, {"qm.test", "lives"}, {"qm.test", "ended too"}};
  ASSERT_EQ(write(*store_, forget), CommitOutcome::kCommitted);
  const auto found = reload();
  ASSERT_EQ(found.seen.size(), 1U) << "a key that lives is not forgotten";
  EXPECT_EQ(found.seen[0].key, "lives");
  ASSERT_EQ(found.published.size(), 1U);
  EXPECT_EQ(found.published[0].key, "lives");
  ASSERT_EQ(found.floors.size(), 1U);
  EXPECT_EQ(found.floors[0].topic, "qm.test");
  EXPECT_EQ(found.floors[0].version, 7U);
  forget.forget_published = {{"qm.test", "ended"}};
  ASSERT_EQ(write(*store_, forget), CommitOutcome::kCommitted);
  EXPECT_EQ(reload().floors.at(0).version, 7U) << "a floor never sinks";
}

}  // namespace qm::store
