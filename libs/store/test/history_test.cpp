#include "qm/store/history.hpp"

#include <gtest/gtest.h>

namespace qm::store {
namespace history_test {

constexpr HistoryPosition kFirst{11, 10, {}};
constexpr HistoryPosition kSecond{22, 15, {{{11, 10}}}};
constexpr HistoryPosition kThird{33, 18, {{{22, 15}, {11, 10}}}};

TEST(History, ATermThatPublishedNothingIsNotAnAncestor) {
  EXPECT_EQ(ancestors_of_next({}), Ancestors{});
  EXPECT_EQ(ancestors_of_next({11, 0, {}}), Ancestors{});
  EXPECT_EQ(ancestors_of_next(kFirst), kSecond.ancestors);
  EXPECT_EQ(ancestors_of_next({22, 10, kSecond.ancestors}), kSecond.ancestors) << "it wrote nothing after term 11";
  EXPECT_EQ(ancestors_of_next(kSecond), kThird.ancestors);
}

TEST(History, KeepsTheNewestAncestors) {
  HistoryPosition last{};
  for (std::uint64_t term = 1; term <= 9; ++term) last = {term, term * 10, ancestors_of_next(last)};
  EXPECT_EQ(last.ancestors, (Ancestors{{{8, 80}, {7, 70}, {6, 60}, {5, 50}}}));
}

TEST(History, Succession) {
  struct Row {
    const char* what;
    HistoryPosition applied, event;
    Succession expected;
  };
  const Row rows[] = {
      {"nothing applied yet", {}, kThird, Succession::kSuccessor},
      {"a release without terms", kFirst, {}, Succession::kSuccessor},
      {"the same term", kFirst, {11, 12, {}}, Succession::kSuccessor},
      {"delivered again", kFirst, {11, 2, {}}, Succession::kSuccessor},
      {"the next term", kFirst, {22, 11, kSecond.ancestors}, Succession::kSuccessor},
      {"a term after the next", kFirst, kThird, Succession::kSuccessor},
      {"the previous term was read in part", {11, 4, {}}, kSecond, Succession::kSuccessor},
      {"an event of the previous term, late", kSecond, {11, 9, {}}, Succession::kEarlier},
      {"an event that the database lost", kSecond, {11, 12, {}}, Succession::kAbandoned},
      {"what was applied is lost", {11, 12, {}}, kSecond, Succession::kBroken},
      {"a leader that published nothing, and the next one",
       {22, 10, kSecond.ancestors},
       {33, 11, kSecond.ancestors},
       Succession::kSuccessor},
      {"a leader that published nothing, and a loss before it",
       {22, 10, kSecond.ancestors},
       {33, 8, {{{11, 7}}}},
       Succession::kBroken},
      {"a leader that published nothing, and an event of the one before",
       {22, 10, kSecond.ancestors},
       {11, 10, {}},
       Succession::kEarlier},
      {"a leader that published nothing, and an event that the database lost",
       {22, 10, kSecond.ancestors},
       {11, 11, {}},
       Succession::kAbandoned},
      {"a leader of a new database that published nothing", {22, 0, {}}, {33, 1, {}}, Succession::kSuccessor},
      {"a copy from before the term that was applied", kSecond, {44, 11, {{{11, 10}}}}, Succession::kBroken},
      {"more terms than an event names",
       kFirst,
       {99, 80, {{{98, 70}, {97, 60}, {96, 50}, {95, 40}}}},
       Succession::kBroken},
  };
  for (const auto& row : rows) EXPECT_EQ(succession(row.applied, row.event), row.expected) << row.what;
}

TEST(History, LostIsAProof) {
  EXPECT_TRUE(lost({11, 12, {}}, kSecond));
  EXPECT_FALSE(lost(kFirst, kSecond));
  EXPECT_FALSE(lost({44, 12, {}}, kSecond)) << "perhaps another producer";
  EXPECT_FALSE(lost({}, kSecond));
}

TEST(History, Text) {
  EXPECT_EQ(to_text(HistoryPosition{}), "");
  EXPECT_EQ(to_text(kThird), "33/18 22/15 11/10");
  for (const auto& position : {HistoryPosition{}, kFirst, kSecond, kThird}) {
    const auto read = history_position(to_text(position));
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(*read, position);
  }
  for (const auto* text : {"x", "1", "1/", "0/1", "1/2x", "1/2  3/4", "1/2 2/3 3/4 4/5 5/6 6/7", "-1/2"}) {
    EXPECT_FALSE(history_position(text)) << text;
  }
}

}  // namespace history_test
}  // namespace qm::store
