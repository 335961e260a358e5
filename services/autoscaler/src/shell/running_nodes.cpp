#include "running_nodes.hpp"

#include "observed.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/kube_rules/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace qm::autoscaler {
namespace {

/// Gangs whose room is searched for, the first by priority.
constexpr std::size_t kMostGangs = 32;

std::int64_t pods_of(const DemandUpdated::Item& item) {
  return std::accumulate(item.pod_sets.begin(), item.pod_sets.end(), std::int64_t{0},
                         [](auto sum, const PodSet& set) { return sum + set.count; });
}

std::int32_t total(const std::vector<std::int32_t>& pods) { return std::accumulate(pods.begin(), pods.end(), 0); }

}  // namespace

void RunningNodes::put_node(const Json& node, bool ready) {
  auto view = view_of_running_node(node);
  const std::string name = kube::name_of(node);
  if (!view) {
    log::warn("a node cannot be read; pending pods are planned without its room",
              {{"node", name}, {"error", view.error().to_string()}});
    return drop_node(name);
  }
  const auto zone = view->labels.find(std::string(words::kZone));
  zones_[name] = zone == view->labels.end() ? "" : zone->second;
  view->unschedulable |= !ready;
  book_.put_node(*view);
}

void RunningNodes::drop_node(const std::string& name) {
  if (zones_.erase(name) > 0) book_.drop_node(NodeName(name));
}

// A pod whose constraints cannot be read was not scheduled by them either: it counts with nothing.
void RunningNodes::put_pod(const Json& pod) {
  const auto like = kube_objects::template_from_pod(pod).value_or(kube_rules::PodTemplate{});
  const auto id = book_.hold(like);
  const bool ends = !pod.path("metadata.deletionTimestamp").is_null();
  book_.put_pod({kube::uid_of(pod), NodeName(pod["spec"]["nodeName"].string()), id, ends});
  book_.release(id);
}

void RunningNodes::drop_pod(const std::string& uid) { book_.drop_pod(uid); }

void RunningNodes::find_room(std::vector<DemandUpdated::Item>& items) {
  std::vector<DemandUpdated::Item*> gangs;
  for (auto& item : items) {
    if (pods_of(item) > 1) gangs.push_back(&item);
  }
  std::ranges::sort(gangs, [](const auto* a, const auto* b) {
    return std::tuple(-a->priority, a->since, a->id) < std::tuple(-b->priority, b->since, b->id);
  });
  gangs.resize(std::min(gangs.size(), kMostGangs));
  Planned planned;
  for (auto* item : gangs) find_room(*item, planned);
  for (const auto& uid : planned) book_.drop_pod(uid);
}

// A gang that fits whole is pending for a reason that is not known here: then nothing is known to fit.
void RunningNodes::find_room(DemandUpdated::Item& item, Planned& planned) {
  std::map<std::string, std::vector<std::int32_t>> by_zone;
  std::vector<std::size_t> order(item.pod_sets.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t set) { return item.pod_sets[set].shape.gpu.total_milli(); });
  for (const std::size_t i : order) {
    const auto id = book_.hold(kube_rules::template_of(item.pod_sets[i], Namespace(item.ns)));
    for (std::int32_t pod = 0; pod < item.pod_sets[i].count; ++pod) {
      const auto node = book_.feasible(id).first();
      if (!node) break;
      const NodeName name = book_.name_of(*node);
      planned.push_back(fmt::format("{}/{}/{}", item.id.uid, i, pod));
      book_.put_pod({planned.back(), name, id, false});
      auto& pods = by_zone[zones_[name.value()]];
      pods.resize(item.pod_sets.size());
      ++pods[i];
    }
    book_.release(id);
  }
  for (auto& [zone, pods] : by_zone) {
    if (total(pods) > total(item.room)) item.room = std::move(pods), item.room_zone = zone;
  }
  if (total(item.room) >= pods_of(item)) item.room.clear(), item.room_zone.clear();
}

}  // namespace qm::autoscaler
