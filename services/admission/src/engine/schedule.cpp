// One quota tree: reserve whatever fits, the best first, and make room for whom the policies allow to displace others.
//
// Each queue nominates the first of its ready workloads that fits; of the nominees the one that does not borrow wins,
// then priority, then age. A shape that found no quota is not looked at again in this pass: quota only shrinks while
// it lasts. A workload that waits for victims to go holds their quota for the rest of the pass, so that nobody behind
// it takes what is being freed for it, and once they are gone it goes before the nominees of other queues: those could
// be displaced in turn by others whom it displaces, round and round. One whose victims had no pods yet is reserved on the spot, and those victims sit
// out the rest of the pass: each eviction of a pass therefore serves somebody, and the pass ends.
#include "qm/base/assert.hpp"
#include "update.hpp"

#include <algorithm>
#include <tuple>

namespace qm::admission {

struct Engine::Lane {
  const ClusterQueue* queue = nullptr;
  std::set<std::string> failed;  ///< shapes
  bool blocked = false;          ///< strict order: its head waits, and so do all
};

struct Engine::Pass {
  std::vector<std::pair<QueueName, Usage>> holds;  ///< in the tree, beside what is really held
  std::set<WorkloadUid> sitting_out;
};

std::vector<Holder> Engine::holders_in(int root) const {
  std::vector<Holder> holders;
  for (const auto& queue : indexes_.tree.queues_of(root)) {
    auto it = indexes_.holders.find(queue);
    if (it == indexes_.holders.end()) continue;
    for (const auto& uid : it->second) holders.push_back({tables_.workloads.find(uid), queue});
  }
  return holders;
}

bool Engine::make_room(const ClusterQueue& queue, const Workload& workload, const Demand& demand, Pass& pass) {
  auto& tree = indexes_.tree;
  const FirstFitFlavors flavors{tree, tables_.flavors.rows()};
  std::size_t most_flavors = 0;
  for (const auto& group : queue.groups) most_flavors = std::max(most_flavors, group.flavors.size());
  const auto holders = holders_in(tree.root_of(queue.name));
  for (std::size_t first = 0; first < most_flavors; ++first) {
    const auto choice = flavors.choose(queue, demand, FirstFitFlavors::Mode::kWithVictims, first);
    if (!choice.complete) continue;
    const auto plan = ClassicPreemption{tree}.plan(queue, workload, choice.assignment.usage, holders);
    if (!plan.possible) continue;
    const std::string who = fmt::format("{}/{} in {}", workload.spec.ns, workload.spec.name, queue.name);
    for (const auto& victim : plan.victims) {
      pass.sitting_out.insert(victim);
      evict(victim, "Preempted", fmt::format("{} by {}", plan.reasons.at(victim), who), now_ + options_.eviction_grace);
    }
    if (tree.fits(queue.name, choice.assignment.usage)) return true;
    // No index knows it, so there is no pass to be made for it.
    if (!plan.victims.empty()) tables_.workloads.edit(workload.spec.uid).room_made = true;
    tree.add(queue.name, choice.assignment.usage);
    pass.holds.emplace_back(queue.name, choice.assignment.usage);
    return false;
  }
  // Somebody of its own queue took what was made for it, and there is nothing to be made any more: it waits like others.
  if (workload.room_made) tables_.workloads.edit(workload.spec.uid).room_made = false;
  return false;
}

std::optional<Engine::Nominee> Engine::nominate(Lane& lane, Pass& pass) {
  const ClusterQueue& queue = *lane.queue;
  while (!lane.blocked) {
    auto ready = indexes_.ready.find(queue.name);
    if (ready == indexes_.ready.end()) return std::nullopt;
    const QueueOrder* head = nullptr;
    const std::string* shape = nullptr;
    for (const auto& [text, orders] : ready->second) {
      if (lane.failed.contains(text)) continue;
      const auto first = std::find_if(orders.begin(), orders.end(),
                                      [&](const QueueOrder& order) { return !pass.sitting_out.contains(order.uid); });
      if (first == orders.end()) continue;
      if (head == nullptr || *first < *head) {
        head = &*first;
        shape = &text;
      }
    }
    if (head == nullptr) return std::nullopt;
    const WorkloadUid uid = head->uid;
    const std::string tried = *shape;
    const Demand& demand = indexes_.demands.at(uid);
    const FirstFitFlavors flavors{indexes_.tree, tables_.flavors.rows()};
    auto choice = flavors.choose(queue, demand, FirstFitFlavors::Mode::kFit);
    bool made_room = false;
    if (!choice.complete && make_room(queue, *tables_.workloads.find(uid), demand, pass)) {
      choice = flavors.choose(queue, demand, FirstFitFlavors::Mode::kFit);
      made_room = choice.complete;
    }
    if (choice.complete) {
      const bool borrows = indexes_.tree.borrows_with(queue.name, choice.assignment.usage);
      const Workload& w = *tables_.workloads.find(uid);
      return Nominee{uid, std::move(choice.assignment), borrows, made_room, w.room_made, QueueOrder::of(w)};
    }
    lane.failed.insert(tried);
    lane.blocked = queue.strategy == Strategy::kStrictFifo;
  }
  return std::nullopt;
}

void Engine::schedule(int root) {
  std::vector<Lane> lanes;
  for (const auto& name : indexes_.tree.queues_of(root)) {
    const ClusterQueue* queue = tables_.cluster_queues.find(name);
    if (queue == nullptr || queue->stop != StopPolicy::kNone || queue->closing || indexes_.tree.in_cycle(name))
      continue;
    lanes.push_back({queue, {}, false});
  }
  Pass pass;
  for (;;) {
    std::optional<Nominee> best;
    for (auto& lane : lanes) {
      auto nominee = nominate(lane, pass);
      if (!nominee) continue;
      if (nominee->made_room) {
        best = std::move(nominee);
        break;
      }
      const auto rank = [](const Nominee& n) { return std::tuple(!n.awaited, n.borrows, n.order); };
      if (!best || rank(*nominee) < rank(*best)) best = std::move(nominee);
    }
    if (!best) break;
    const Workload& w = *tables_.workloads.find(best->uid);
    // A later queue may hold what it counted on; then the round is nominated anew.
    if (!indexes_.tree.fits(w.cluster_queue, best->assignment.usage)) continue;
    reserve(best->uid, best->assignment);
  }
  for (const auto& [queue, usage] : pass.holds) indexes_.tree.remove(queue, usage);
}

}  // namespace qm::admission
