// Laws of shares over random queues; and Volcano's own rounds for comparison.
#include "qm/admission/volcano/proportion.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace qm::admission::volcano {
namespace laws_prop_test {

std::int64_t upto(std::int64_t most) { return *rc::gen::inRange<std::int64_t>(0, most + 1); }
bool one_in(int n) { return *rc::gen::inRange(0, n) == 0; }

struct Line {
  Queue queue;
  Resources request;
};

/// Up to six queues over two resources; capability is never below the guarantee, which the parser of objects ensures.
std::vector<Line> some_lines(const Resources& total, bool guarantees) {
  std::vector<Line> out;
  for (auto n = 1 + upto(5); n > 0; --n) {
    Line line;
    line.queue.name = fmt::format("q{}", n);
    line.queue.weight = static_cast<std::int32_t>(1 + upto(one_in(4) ? 1000 : 9));
    for (const auto there : total) {
      line.queue.guarantee.push_back(guarantees && one_in(3) ? upto(there / 2) : 0);
      line.queue.capability.push_back(one_in(3) ? line.queue.guarantee.back() + upto(there) : kUnlimited);
      line.request.push_back(upto(there + there / 4));
    }
    out.push_back(std::move(line));
  }
  return out;
}

Resources some_total() { return {upto(60), upto(1'000'000'000'000)}; }

Queues plant(const std::vector<Line>& lines, const Resources& total) {
  std::vector<Queue> queues;
  for (const auto& line : lines) queues.push_back(line.queue);
  auto out = *Queues::plant(std::move(queues), total);
  for (const auto& line : lines) out.ask(*out.find(line.queue.name), line.request);
  return out;
}

std::vector<Resources> deserved(const std::vector<Line>& lines, const Resources& total) {
  const auto queues = plant(lines, total);
  const Proportion rule(queues);
  std::vector<Resources> out;
  for (const auto& line : lines) out.push_back(rule.deserved(*queues.find(line.queue.name)));
  return out;
}

RC_GTEST_PROP(ProportionLaws, NeverExceedCapacityOrDemandAndKeepGuarantees, ()) {
  const auto total = some_total();
  const auto lines = some_lines(total, true);
  const auto queues = plant(lines, total);
  const Proportion rule(queues);
  Resources given(total.size()), promised(total.size());
  for (const auto q : queues.leaves()) {
    add(given, rule.deserved(q));
    add(promised, queues[q].guarantee);
    const auto limit = least(queues.use(q).request, rule.real_capability(q));
    RC_ASSERT(within(rule.deserved(q), most(limit, queues[q].guarantee)));
    RC_ASSERT(within(rule.deserved(q), most(queues[q].capability, queues[q].guarantee)));
    RC_ASSERT(within(queues[q].guarantee, rule.deserved(q)));
  }
  RC_ASSERT(within(given, most(total, promised)));
}

RC_GTEST_PROP(ProportionLaws, AllCapacityIsGivenWhileDemanded, ()) {
  const auto total = some_total();
  const auto lines = some_lines(total, one_in(2));
  const auto queues = plant(lines, total);
  const Proportion rule(queues);
  for (std::size_t r = 0; r < total.size(); ++r) {
    std::int64_t left = total[r];
    bool wanted = false;
    for (const auto q : queues.leaves()) {
      left -= rule.deserved(q)[r];
      wanted = wanted || rule.deserved(q)[r] < std::min(queues.use(q).request[r], rule.real_capability(q)[r]);
    }
    RC_ASSERT(left <= 0 || !wanted);
  }
}

RC_GTEST_PROP(ProportionLaws, InputOrderDoesNotMatter, ()) {
  const auto total = some_total();
  auto lines = some_lines(total, one_in(2));
  const auto before = deserved(lines, total);
  std::ranges::rotate(lines, lines.begin() + upto(static_cast<std::int64_t>(lines.size()) - 1));
  const auto after = deserved(lines, total);
  std::vector<Resources> sorted_before = before, sorted_after = after;
  std::ranges::sort(sorted_before);
  std::ranges::sort(sorted_after);
  RC_ASSERT(sorted_before == sorted_after);
  const auto again = plant(lines, total);
  const Proportion rule(again);
  for (std::size_t i = 0; i < lines.size(); ++i) RC_ASSERT(rule.deserved(*again.find(lines[i].queue.name)) == after[i]);
}

RC_GTEST_PROP(ProportionLaws, MoreWeightNeverGivesLess, ()) {
  const auto total = some_total();
  const bool guarantees = one_in(2);
  auto lines = some_lines(total, guarantees);
  const auto which = static_cast<std::size_t>(upto(static_cast<std::int64_t>(lines.size()) - 1));
  const auto before = deserved(lines, total)[which];
  lines[which].queue.weight += static_cast<std::int32_t>(1 + upto(20));
  const auto after = deserved(lines, total)[which];
  // With a guarantee, the first round and the rest are rounded separately.
  const std::int64_t slack = guarantees ? static_cast<std::int64_t>(lines.size()) : 0;
  for (std::size_t r = 0; r < total.size(); ++r) RC_ASSERT(after[r] + slack >= before[r]);
}

/// The rounds as Volcano computes them, in floating point. Nothing where they give out more than the total.
std::optional<std::vector<double>> rounds(const Queues& queues, const Proportion& rule, std::size_t r) {
  const auto leaves = queues.leaves();
  std::vector<double> out(leaves.size());
  std::vector<char> met(leaves.size(), 0);
  auto remaining = static_cast<double>(queues.total()[r]);
  for (int round = 0; round < 100'000; ++round) {
    double weights = 0, change = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i) weights += met[i] == 0 ? queues[leaves[i]].weight : 0;
    if (weights == 0) break;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (met[i] != 0) continue;
      const auto& queue = queues[leaves[i]];
      const auto request = static_cast<double>(queues.use(leaves[i]).request[r]);
      const auto old = out[i];
      out[i] = std::min(
          {old + remaining * queue.weight / weights, static_cast<double>(rule.real_capability(leaves[i])[r]), request});
      met[i] = request <= out[i] || out[i] == old ? 1 : 0;
      out[i] = std::max(out[i], static_cast<double>(queue.guarantee[r]));
      change += out[i] - old;
    }
    const auto before = remaining;
    remaining -= change;
    if (remaining < -0.5) return std::nullopt;
    if (remaining <= 0 || remaining == before) break;
  }
  return out;
}

RC_GTEST_PROP(ProportionLaws, MatchVolcanosRounds, ()) {
  const auto total = some_total();
  const auto lines = some_lines(total, one_in(2));
  const auto queues = plant(lines, total);
  const Proportion rule(queues);
  const auto leaves = queues.leaves();
  for (std::size_t r = 0; r < total.size(); ++r) {
    const auto expected = rounds(queues, rule, r);
    if (!expected) continue;
    const auto slack = static_cast<double>(leaves.size()) + 1e-6 * static_cast<double>(total[r]);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      RC_ASSERT(std::abs(static_cast<double>(rule.deserved(leaves[i])[r]) - (*expected)[i]) <= slack);
    }
  }
}

TEST(ProportionLaws, MostCasesAreComparable) {
  int compared = 0, all = 0;
  EXPECT_TRUE(rc::check([&] {
    const auto total = some_total();
    const auto queues = plant(some_lines(total, one_in(2)), total);
    const Proportion rule(queues);
    ++all;
    compared += rounds(queues, rule, 0).has_value() ? 1 : 0;
  }));
  EXPECT_GT(compared * 2, all);
}

}  // namespace laws_prop_test
}  // namespace qm::admission::volcano
