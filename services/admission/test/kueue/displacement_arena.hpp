#pragma once
// One tree in which any workload may be considered at any time. Victims leave at once. Displacements must terminate
// for every order of consideration, so tests choose the worst one.
#include "qm/admission/kueue/outcome.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace qm::admission::kueue {

/// The measure that each plan and each admission decreases, in lexicographic order. First, the number of pairs of
/// workloads of which neither is above the other. Then, from the top of the relation down, what each workload lacks:
/// nothing if it holds quota, else one for each workload that it has not displaced since it became pending.
/// Source   docs/adr/0019-loop-free-preemption.md.
struct Potential {
  int free_pairs = 0;
  std::vector<int> lacks;
  friend auto operator<=>(const Potential&, const Potential&) = default;
};

/// `holds`: for each workload, whether it holds quota.
inline Potential potential_of(const PreemptionGraph& preemptions, const std::map<int, bool>& holds) {
  const int n = static_cast<int>(holds.size());
  Potential out{n * n, {}};
  std::vector<std::pair<int, int>> order;  // number of workloads above it, id: a workload above another has fewer
  for (const auto& [id, held] : holds) {
    int above = 0;
    for (const auto& [other, other_held] : holds) above += preemptions.above(other, id) ? 1 : 0;
    out.free_pairs -= above;
    order.emplace_back(above, id);
  }
  std::ranges::sort(order);
  for (const auto& [above, id] : order) {
    int lacks = holds.at(id) ? 0 : n;
    if (lacks > 0) {
      for (const auto& [victim, pairs] : preemptions.all()) {
        const auto pair = pairs.find(id);
        if (pair != pairs.end() && !pair->second.settled) --lacks;
      }
    }
    out.lacks.push_back(lacks);
  }
  return out;
}

class Arena {
 public:
  Arena(QuotaState field, bool loop_free) : field_(std::move(field)) {
    if (loop_free) field_.preemptions = &preemptions;
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void add(Work work) {
    const int id = work.id;
    works_.emplace(id, std::move(work));
  }
  /// The workload holds this quota from now on.
  void hold(Work work, Amounts usage) {
    const int id = work.id;
    works_.emplace(id, std::move(work));
    admit(works_.at(id), std::move(usage));
  }

  struct Happened {
    int id = -1;
    std::vector<std::pair<int, Reason>> displaced;  ///< empty: it was admitted
  };
  /// Admits it, or displaces others for it; nothing where neither is possible.
  std::optional<Happened> look(int id) {
    Work& work = works_.at(id);
    if (holds(id)) return {};
    auto found = nominate(field_, work);
    if (!found.good()) return {};
    ++field_.now;
    Happened out{id, {}};
    if (found.fits()) {
      if (!field_.tree.fits(work.queue, found.assignment.usage)) return {};  // fits by name only, see ADR 0018
      admit(work, std::move(found.assignment.usage));
      return out;
    }
    field_.record(work, found.targets);
    for (const auto& target : found.targets) {
      out.displaced.emplace_back(target.work->id, target.reason);
      Work& victim = works_.at(target.work->id);
      field_.release(victim);
      victim.usage.clear();
    }
    return out;
  }
  [[nodiscard]] bool holds(int id) const { return !works_.at(id).usage.empty(); }
  [[nodiscard]] std::vector<int> ids() const {
    std::vector<int> out;
    for (const auto& [id, work] : works_) out.push_back(id);
    return out;
  }
  [[nodiscard]] Potential potential() const {
    std::map<int, bool> held;
    for (const auto& [id, work] : works_) held[id] = holds(id);
    return potential_of(preemptions, held);
  }
  [[nodiscard]] QuotaState& field() { return field_; }
  [[nodiscard]] Work& work(int id) { return works_.at(id); }

  PreemptionGraph preemptions;

 private:
  void admit(Work& work, Amounts usage) {
    work.usage = std::move(usage);
    work.reserved = field_.now;
    preemptions.admitted(work.id);
    field_.hold(work);
  }

  QuotaState field_;
  std::map<int, Work> works_;
};

}  // namespace qm::admission::kueue
