#include "qm/autoscaler/cluster.hpp"
#include "qm/config/typed.hpp"

#include <algorithm>

namespace qm::autoscaler {

PoolWatch::PoolWatch(kube::Client& client, Options options)
    : options_(std::move(options)),
      feed_(client, "qm-autoscaler", {{"karpenter.sh", "nodepools", "NodePool", {"v1", "v1beta1"}}},
            {[this](const auto&, const Json& object) { return take(object); },
             [this](const auto&, const auto& at) {
               const std::scoped_lock lock(mutex_);
               seen_.erase(at.second);
             }}) {}

Status PoolWatch::take(const Json& object) {
  QM_ASSIGN(const auto read, config::typed_object<config::NodePool>(object, "NodePool"));
  Pool pool = pool_from(read);
  pool.manual = is_sized_manually(object);
  read_headroom(object, pool);
  if (!pool.group.empty() && !options_.groups) {
    return fail(
        Error{Code::kInvalid, fmt::format("it names the Auto Scaling group {}, and no AWS keys are set", pool.group),
              fmt::format("metadata.annotations[{}]", words::kScalingGroup), "set AWS keys for the autoscaler"});
  }
  const std::scoped_lock lock(mutex_);
  auto all = merged();
  all.insert_or_assign(pool.name, pool);
  std::vector<Pool> list;
  for (auto& [name, each] : all) list.push_back(std::move(each));
  QM_TRY(one_pool_for_each_group(list));
  seen_.insert_or_assign(pool.name, std::move(pool));
  return {};
}

std::map<std::string, Pool> PoolWatch::merged() const {
  std::map<std::string, Pool> all = seen_;
  for (const auto& pool : options_.files) all.emplace(pool.name, pool);
  return all;
}

std::optional<std::vector<Pool>> PoolWatch::pools() const {
  if (!feed_.synced()) return std::nullopt;
  std::vector<Pool> out;
  const std::scoped_lock lock(mutex_);
  for (auto& [name, pool] : merged()) out.push_back(pool);
  return out;
}

bool PoolWatch::is_object(const std::string& pool) const {
  const std::scoped_lock lock(mutex_);
  return seen_.contains(pool);
}

}  // namespace qm::autoscaler
