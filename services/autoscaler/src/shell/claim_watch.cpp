#include "qm/autoscaler/cluster.hpp"

namespace qm::autoscaler {
namespace {

/// The value of a label of the NodeClaim's node: Karpenter sets it on the claim after the launch; before that, the
/// requirement with exactly one value has it.
std::string label_of(const Json& claim, std::string_view key) {
  if (auto value = kube::label(claim, key); !value.empty()) return value;
  for (const auto& r : claim["spec"]["requirements"].items()) {
    if (r["key"].string() == key && r["operator"].string() == "In" && r["values"].size() == 1)
      return r["values"].at(0).string();
  }
  return {};
}

std::int64_t launched_at(const Json& claim) {
  std::string at = claim["metadata"]["creationTimestamp"].string();
  for (const auto& c : claim["status"]["conditions"].items()) {
    const bool launched = c["type"].string() == "Launched" && c["status"].string() == "True";
    if (launched && !c["lastTransitionTime"].string().empty()) at = c["lastTransitionTime"].string();
  }
  const auto read = from_rfc3339(at);
  return read ? micros(*read) : 0;
}

}  // namespace

ClaimWatch::ClaimWatch(kube::Client& client, const DomainClock& clock, std::string shard,
                       std::function<void()> on_change)
    : clock_(clock),
      shard_(std::move(shard)),
      on_change_(std::move(on_change)),
      informer_(client, [&client] { return client.locate("karpenter.sh", "nodeclaims", {"v1"}); }, "",
                {[this](const Json& claim, bool deleted) { changed(claim, deleted); },
                 [this] {
                   if (on_change_) on_change_();
                 },
                 {}}) {}

void ClaimWatch::changed(const Json& claim, bool deleted) {
  const bool ours = kube::label(claim, kOwnerTag) == shard_;
  const auto name = kube::name_of(claim);
  const auto& provider = claim["status"]["providerID"].string();
  const std::string id = provider.substr(provider.rfind('/') + 1);
  {
    const std::scoped_lock lock(mutex_);
    if (provider.empty()) {
      if (deleted && ours) lost_.push_back(name);
    } else {
      const auto now = micros(clock_.now());
      node_claims_[id] = Json::object({{"id", id},
                                       {"claim", ours ? name : std::string()},
                                       {"pool", ours ? kube::label(claim, words::kNodePool) : std::string()},
                                       {"type", label_of(claim, words::kInstanceType)},
                                       {"zone", label_of(claim, words::kZone)},
                                       {"spot", label_of(claim, words::kCapacityType) == "spot"},
                                       {"node", claim["status"]["nodeName"].string()},
                                       {"launched_us", launched_at(claim)},
                                       {"stopped_us", deleted ? now : 0},
                                       {"group", ""}});
      // For as long as the engine keeps claims that are gone.
      const auto old = now - micros(Instant{} + Options{}.gone_memory);
      std::erase_if(node_claims_, [&](const auto& entry) {
        const auto stopped = entry.second["stopped_us"].integer();
        return stopped != 0 && stopped < old;
      });
    }
  }
  if (on_change_) on_change_();
}

std::optional<std::vector<Json>> ClaimWatch::listed_instances() {
  if (!synced()) return std::nullopt;
  std::vector<Json> out;
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, machine] : node_claims_) out.push_back(machine);
  return out;
}

std::vector<std::string> ClaimWatch::lost() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(lost_, {});
}

}  // namespace qm::autoscaler
