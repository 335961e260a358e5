// A checkpoint order collects one answer a node. Ranks are counted by step; the order is Acked with the highest step
// that enough of them have saved.
#include "qm/autoscaler/checkpoint/order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace qm::autoscaler::checkpoint {
namespace {

struct Count {
  std::int64_t ranks = 0, refused = 0;
  const Answer* first_refusal = nullptr;
  std::map<std::int64_t, StepSave> by_step;
};

Count count(const GangSave& order) {
  std::vector<const Answer*> sorted;
  for (const auto& answer : order.answers) sorted.push_back(&answer);
  std::ranges::sort(sorted, {}, [](const Answer* a) { return a->node; });
  Count out;
  for (const Answer* answer : sorted) {
    out.ranks += answer->ranks;
    if (!answer->refusal.empty()) {
      ++out.refused;
      if (out.first_refusal == nullptr) out.first_refusal = answer;
    }
    for (const auto& save : answer->saves) {
      StepSave& sum = out.by_step[save.step];
      sum.step = save.step;
      sum.ranks += save.ranks;
      sum.bytes += save.bytes;
      sum.epoch = std::max(sum.epoch, save.epoch);
      sum.took = std::max(sum.took, save.took);
      if (sum.uri.empty()) sum.uri = save.uri;
    }
  }
  return out;
}

std::string steps_of(const Count& count) {
  std::string text;
  for (const auto& [step, save] : count.by_step)
    text += fmt::format("{}{} by {} rank{}", text.empty() ? "" : ", ", step, save.ranks, save.ranks == 1 ? "" : "s");
  return text.empty() ? "none" : text;
}

}  // namespace

std::string_view name_of(State state) {
  constexpr std::string_view names[] = {"Signaled", "Saving", "Acked", "Late", "Failed", "Released"};
  return names[static_cast<int>(state)];
}

Reception receive(GangSave& order, Answer answer) {
  const bool other_number = answer.fence.number != 0 && answer.fence.number != order.fence.number;
  if (answer.fence.attempt != order.fence.attempt || other_number) return Reception::kStale;
  if (std::ranges::find(order.nodes, answer.node) == order.nodes.end()) return Reception::kForeign;
  if (std::ranges::find(order.answers, answer.node, &Answer::node) != order.answers.end()) return Reception::kDuplicate;
  answer.fence = order.fence;
  order.answers.push_back(std::move(answer));
  return Reception::kAccepted;
}

Verdict judge(const GangSave& order, Instant now, bool attempt_over) {
  const Count counted = count(order);
  const bool complete = order.answers.size() == order.nodes.size();
  const std::int64_t needed = order.quorum > 0 ? order.quorum : counted.ranks;
  const bool countable = order.quorum > 0 || (complete && counted.refused == 0);
  for (auto at = counted.by_step.rbegin(); countable && at != counted.by_step.rend(); ++at) {
    if (at->second.ranks >= std::max<std::int64_t>(needed, 1)) return {State::kAcked, at->second, {}};
  }
  if (attempt_over) {
    return {
        State::kReleased,
        {},
        fmt::format("the attempt ended after {} of {} nodes had answered", order.answers.size(), order.nodes.size())};
  }
  if (counted.refused > 0 && (order.quorum == 0 || complete)) {
    return {State::kFailed, {}, fmt::format("{}: {}", counted.first_refusal->node, counted.first_refusal->refusal)};
  }
  if (complete) {
    return {State::kFailed,
            {},
            fmt::format("{} ranks have to save the same step, and they saved step {}", needed, steps_of(counted))};
  }
  if (now >= order.deadline) {
    return {State::kLate,
            {},
            fmt::format("{} of {} nodes answered before the deadline", order.answers.size(), order.nodes.size())};
  }
  return {order.answers.empty() ? State::kSignaled : State::kSaving, {}, {}};
}

}  // namespace qm::autoscaler::checkpoint
