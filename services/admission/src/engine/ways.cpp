// What would let a waiting workload in, in words.
#include "qm/admission/engine.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// The quota of the queue as it would be.
std::string raised(const Usage& more, const std::vector<ResourceGroup>& groups, bool borrowing) {
  std::string out;
  for (const auto& [at, amount] : more) {
    for (const auto& group : groups) {
      for (const auto& flavor : group.flavors) {
        const auto quota = flavor.resources.find(at.resource);
        if (flavor.flavor != at.flavor || quota == flavor.resources.end()) continue;
        const auto now = borrowing ? quota->second.borrowing_limit.value_or(0) : quota->second.nominal;
        out += fmt::format("{}{} of {} in flavor {} from {} to {}", out.empty() ? "" : ", ",
                           borrowing ? "borrowingLimit" : "nominalQuota", at.resource, at.flavor,
                           show_amount(at.resource, now), show_amount(at.resource, exact::plus(now, amount)));
      }
    }
  }
  return out;
}

std::string counted(std::size_t n) { return n == 1 ? "1 workload" : fmt::format("{} workloads", n); }

}  // namespace

std::vector<Way> Engine::ways_in(const Workload& w, const ClusterQueue& queue) const {
  using Kind = exact::Unlock::Kind;
  std::vector<Way> out;
  // Where order is strict its turn has to come first.
  if (queue.strategy == Strategy::kStrictFifo && position(w) > 1) return out;
  for (const auto& unlock : indexes_.decisions.unlocks(w)) {
    Way way;
    way.workloads = unlock.works;
    switch (unlock.kind) {
      case Kind::kQuota:
      case Kind::kBorrowingLimit: {
        const bool borrowing = unlock.kind == Kind::kBorrowingLimit;
        way.code = borrowing ? "RaiseBorrowingLimit" : "RaiseQuota";
        way.message =
            fmt::format("raise in ClusterQueue {} {}", queue.name, raised(unlock.more, groups(queue), borrowing));
        break;
      }
      case Kind::kPriority: {
        way.code = "RaisePriority";
        // The class that does it with least.
        const PriorityClass* least = nullptr;
        for (const auto& [key, one] : tables_.priority_classes) {
          if (one.value >= unlock.priority && (least == nullptr || one.value < least->value)) least = &one;
        }
        way.message = fmt::format("give it priority {} or more{}; {} then {} way", unlock.priority,
                                  least == nullptr ? "" : fmt::format(", as class {} does", least->name),
                                  counted(way.workloads.size()), way.workloads.size() == 1 ? "gives" : "give");
        break;
      }
      case Kind::kVictims:
        way.code = "End";
        way.message =
            fmt::format("wait until {} {}, or end {}", counted(way.workloads.size()),
                        way.workloads.size() == 1 ? "ends" : "end", way.workloads.size() == 1 ? "it" : "them");
        break;
      case Kind::kFlavor:
        way.code = unlock.taint.empty() ? "Relabel" : "Tolerate";
        way.message =
            unlock.taint.empty()
                ? fmt::format("leave {} out of the node selector: flavor {} has room", unlock.label, unlock.flavor)
                : fmt::format("tolerate the taint {}: flavor {} has room", unlock.taint, unlock.flavor);
        break;
      case Kind::kFewerPods:
        way.code = "FewerPods";
        way.message =
            fmt::format("ask for {} pod{} in pod set {}", unlock.pods, unlock.pods == 1 ? "" : "s", unlock.pod_set);
        break;
    }
    out.push_back(std::move(way));
  }
  return out;
}

}  // namespace qm::admission
