#include "qm/admission/volcano/reclaim.hpp"

#include <algorithm>

namespace qm::admission::volcano {
namespace {

/// Reclaim candidates, with their positions in the list of running jobs.
struct Offer {
  std::vector<std::size_t> places;
  std::vector<Candidate> pieces;
  void add(std::size_t place, const Candidate& piece) {
    places.push_back(place);
    pieces.push_back(piece);
  }
};

/// Victims among the candidates by the policy. All of them where they do not suffice: the rest is reclaimed from
/// other queues.
Reclaimed named_by(VictimPolicy policy, const Offer& offer, const Resources& missing) {
  auto wanted = missing;
  Resources all(missing.size());
  for (const auto& piece : offer.pieces) add(all, piece.frees);
  const auto victims = choose(policy, offer.pieces, least(std::move(wanted), all));
  Reclaimed out;
  for (const auto i : victims.chosen) out.push_back(offer.places[i]);
  return out;
}

/// Removes, from the end of the list, the victims that are not needed.
void spare(const std::vector<Running>& running, const Resources& missing, Reclaimed& taken) {
  Resources freed(missing.size());
  for (const auto i : taken) add(freed, running[i].piece.frees);
  for (auto i = taken.size(); i-- > 0;) {
    const auto without = rest(freed, running[taken[i]].piece.frees);
    if (!within(missing, without)) continue;
    freed = without;
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

template <class Rule>
Reclaimed reclaim_by(const Rule& rule, Queues now, const std::vector<Running>& running, QueueId to,
                     const Resources& need, const Resources& idle) {
  const auto needed = rest(need, idle);
  if (nothing(needed) || !rule.may_reclaim(now, to, need)) return {};

  std::vector<QueueId> reclaim_candidates;
  for (const auto q : now.leaves()) {
    if (q != to && now[q].reclaimable && now[q].preemptable) reclaim_candidates.push_back(q);
  }
  const Queues before = now;
  std::ranges::sort(reclaim_candidates, [&](QueueId a, QueueId b) {
    const int near_a = before.common(a, to), near_b = before.common(b, to);
    return near_a != near_b ? near_a > near_b : rule.before(before, b, a);
  });

  auto missing = needed;
  Reclaimed taken;
  for (const auto candidate_node : reclaim_candidates) {
    for (bool more = true; more && !nothing(missing);) {
      more = false;
      Offer offer;
      for (std::size_t i = 0; i < running.size(); ++i) {
        const auto& r = running[i];
        if (r.queue != candidate_node || !r.preemptable || std::ranges::find(taken, i) != taken.end()) continue;
        if (in_common(r.piece.frees, missing) && rule.gives(now, candidate_node, r.piece.frees, to, need))
          offer.add(i, r.piece);
      }
      for (const auto i : named_by(before[candidate_node].victims, offer, missing)) {
        const auto& frees = running[i].piece.frees;
        if (!rule.gives(now, candidate_node, frees, to, need)) continue;
        now.release(candidate_node, frees);
        missing = rest(std::move(missing), frees);
        taken.push_back(i);
        more = true;
      }
    }
  }
  if (!nothing(missing)) return {};
  spare(running, needed, taken);
  return taken;
}

}  // namespace

Reclaimed reclaim(const Proportion& rule, Queues now, const std::vector<Running>& running, QueueId to,
                  const Resources& need, const Resources& idle) {
  return reclaim_by(rule, std::move(now), running, to, need, idle);
}

Reclaimed reclaim(const Capacity& rule, Queues now, const std::vector<Running>& running, QueueId to,
                  const Resources& need, const Resources& idle) {
  return reclaim_by(rule, std::move(now), running, to, need, idle);
}

Reclaimed preempt(const Queues& now, const std::vector<Running>& running, QueueId queue, std::int32_t priority,
                  const Resources& need, const Resources& idle) {
  const auto missing = rest(need, idle);
  if (nothing(missing) || !now[queue].preemptable) return {};
  Offer offer;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const auto& r = running[i];
    if (r.queue == queue && r.preemptable && r.piece.priority < priority) offer.add(i, r.piece);
  }
  Reclaimed out;
  for (const auto i : choose(now[queue].victims, offer.pieces, missing).chosen) out.push_back(offer.places[i]);
  return out;
}

}  // namespace qm::admission::volcano
