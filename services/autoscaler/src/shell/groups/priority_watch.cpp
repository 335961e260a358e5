// The priorities of node groups, from their ConfigMap.
#include "qm/autoscaler/node_groups.hpp"
#include "qm/base/log.hpp"

namespace qm::autoscaler {
namespace {

const kube::Resource kConfigMaps{"", "v1", "configmaps", true};

kube::Scope config_map_of(const std::string& name) {
  const auto slash = name.find('/');
  return {name.substr(0, slash), "metadata.name=" + name.substr(slash + 1)};
}

}  // namespace

PriorityWatch::PriorityWatch(kube::Client& client, const NodeGroupSettings& settings)
    : order_(settings.priority_order),
      events_(client, "qm-autoscaler"),
      informer_(client, kConfigMaps, config_map_of(settings.priorities),
                {[this](const Json& object, bool deleted) { take(object, deleted); }, [] {},
                 [name = settings.priorities](const Json& object) {
                   return kube::namespace_of(object) + "/" + kube::name_of(object) == name;
                 }}) {}

void PriorityWatch::take(const Json& object, bool deleted) {
  Result<node_groups::Priorities> read = node_groups::Priorities();
  if (!deleted) read = node_groups::Priorities::parse(object["data"][node_groups::kPriorities].string());
  if (!read) {
    log::warn("the priorities of node groups cannot be read; the previous ones remain",
              {{"configmap", kube::name_of(object)}, {"error", read.error().to_string()}});
    (void)events_.record({"v1", "ConfigMap", kube::namespace_of(object), kube::name_of(object), kube::uid_of(object)},
                         {true, "NotAccepted", read.error().to_string()});
    return;
  }
  for (const auto& warning : read->lint(order_)) log::warn("priorities of node groups", {{"remark", warning}});
  const std::scoped_lock lock(mutex_);
  priorities_ = std::move(*read);
}

void PriorityWatch::rank(std::vector<Pool>& pools) const {
  const std::scoped_lock lock(mutex_);
  for (Pool& pool : pools) {
    const auto number = priorities_.number_of(pool.group.empty() ? pool.name : pool.group, order_);
    pool.expander_priority = number;
    if (number && order_ == node_groups::PriorityOrder::kLowestWins) pool.expander_priority = -*number;
  }
}

}  // namespace qm::autoscaler
