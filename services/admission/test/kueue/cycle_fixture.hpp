#pragma once
// Cycles by hand: queues of one resource, and workloads that are numbered in the order of their creation.
#include "qm/admission/kueue/cycle.hpp"
#include "qm/admission/kueue/objects.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

namespace qm::admission::kueue {

inline Json parsed(const std::string& text) { return *Json::parse(text); }

/// Queues of one resource, "cpu" in whole units, over flavors that only have a name.
class KueueCycle : public ::testing::Test {
 protected:
  void queue(const std::string& name, const std::string& cohort, const std::string& quotas,
             const std::string& more = "{}") {
    auto object = parsed(fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"cohortName":"{}","resourceGroups":[
        {{"coveredResources":["cpu"],"flavors":{}}}],"preemption":{{"withinClusterQueue":"LowerPriority",
        "reclaimWithinCohort":"Any"}}}}}})",
                                     name, cohort, quotas));
    object.set("spec").merge_patch(parsed(more));
    if (cohort.empty()) object.set("spec").erase("cohortName");
    objects_.add_queue(object);
  }
  std::string flavor(const std::string& name, int nominal, const std::string& more = "") {
    objects_.add_flavor(parsed(R"({"metadata":{"name":")" + name + R"("}})"));
    return fmt::format(R"({{"name":"{}","resources":[{{"name":"cpu","nominalQuota":{}{}}}]}})", name, nominal, more);
  }
  Cycle& start(bool fair = false) {
    planted_ = objects_.forest.plant();
    EXPECT_EQ(planted_.fields.size(), 1U);
    planted_.fields[0].fair_sharing = fair;
    cycle_ = std::make_unique<Cycle>(std::move(planted_.fields[0]));
    return *cycle_;
  }
  using Change = std::function<void(Work&)>;
  int add(const std::string& queue, int cpus, int priority = 0, int pods = 1, int least = 0,
          const Change& change = nullptr, bool backs_off = false) {
    auto object = parsed(fmt::format(R"({{"metadata":{{"name":"w","uid":"{0}"}},"spec":{{"priority":{1},"podSets":[
        {{"name":"main","count":{2},"template":{{"spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"{3}"}}}}}}]}}}}}}
        ]}}}})",
                                     next_, priority, pods, cpus));
    if (least > 0) object.set("spec").set("podSets").items_mut()[0].set("minCount", least);
    Work work = objects_.work(object);
    work.id = next_;
    work.created = next_++;
    work.queue = planted_.queues.at(queue).second;
    if (change) change(work);
    cycle_->enqueue(std::move(work), backs_off);
    return next_ - 1;
  }
  /// "+1 +2 -3/5": 1 and 2 were admitted, 3 was preempted by 5; victims leave at once.
  std::string run() {
    ++k_;
    const auto outcome = cycle_->run(k_, k_);
    std::string out;
    for (const auto& one : outcome.admitted) {
      const auto& set = one.assignment.sets.at(0);
      out += fmt::format("+{}@{}x{} ", one.id, objects_.flavors[set.flavors.at(0).flavor], set.count);
    }
    for (const auto& one : outcome.preempted) {
      out += fmt::format("-{}/{} ", one.id, one.by);
      cycle_->evicted(one.id);
    }
    if (!outcome.preempted.empty()) cycle_->requeue();
    if (!out.empty()) out.pop_back();
    return out;
  }

  Objects objects_;
  Forest::Planted planted_;
  std::unique_ptr<Cycle> cycle_;
  int next_ = 1;
  std::int64_t k_ = 0;
};

}  // namespace qm::admission::kueue
