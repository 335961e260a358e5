#include "pods.hpp"

#include "qm/kube/client.hpp"
#include "qm/model/resources.hpp"

#include <charconv>

namespace qm::agent {
namespace {

bool is_device(std::string_view resource) {
  return resource == words::kGpuResource || resource.starts_with(words::kMigPrefix);
}

bool asks_for_gpus(const Json& pod) {
  for (const Json& container : pod["spec"]["containers"].items()) {
    for (const char* side : {"limits", "requests"}) {
      for (const auto& [name, amount] : container["resources"][side].members()) {
        if (is_device(name)) return true;
      }
    }
  }
  return false;
}

std::int32_t number_of(std::string_view text) {
  std::int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

// Devices have limits equal to their requests, so limits are read; a count is a number or a string.
std::map<std::string, std::vector<std::int32_t>> asks_of(const Json& pod) {
  std::map<std::string, std::vector<std::int32_t>> out;
  for (const Json& container : pod["spec"]["containers"].items()) {
    for (const auto& [name, amount] : container["resources"]["limits"].members()) {
      const auto count = amount.is_int() ? static_cast<std::int32_t>(amount.integer()) : number_of(amount.string());
      if (is_device(name) && count > 0) out[name].push_back(count);
    }
  }
  return out;
}

std::vector<std::int32_t> gpus_of(std::string_view text) {
  std::vector<std::int32_t> out;
  while (!text.empty()) {
    const auto comma = text.find(',');
    if (const auto index = number_of(text.substr(0, comma)); index >= 0) out.push_back(index);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return out;
}

}  // namespace

Rank rank_of(const Json& pod) {
  Rank rank;
  rank.uid = kube::uid_of(pod);
  rank.ns = kube::namespace_of(pod);
  rank.name = kube::name_of(pod);
  rank.node = pod["spec"]["nodeName"].string();
  rank.scheduler = pod["spec"]["schedulerName"].string();
  const Json& status = pod["status"];
  for (const Json& ip : status["podIPs"].items()) rank.ips.push_back(ip["ip"].string());
  if (const auto& ip = status["podIP"].string(); rank.ips.empty() && !ip.empty()) rank.ips.push_back(ip);
  rank.host_network =
      pod["spec"]["hostNetwork"].boolean() || (!rank.ips.empty() && rank.ips.front() == status["hostIP"].string());
  rank.workload = kube::annotation(pod, words::kWorkload);
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    if (!owner["controller"].boolean()) continue;
    rank.controller = owner["uid"].string();
    rank.controller_kind = owner["kind"].string();
  }
  const std::string attempt = kube::annotation(pod, words::kAttempt);
  std::from_chars(attempt.data(), attempt.data() + attempt.size(), rank.attempt);
  rank.checkpoint = kube::annotation(pod, words::kCheckpoint);
  rank.answer = kube::annotation(pod, kCheckpointAnswer);
  rank.uses_gpus = asks_for_gpus(pod);
  rank.running = pod["status"]["phase"].string() == "Running";
  rank.created = pod["metadata"]["creationTimestamp"].string();
  rank.gpus = gpus_of(kube::annotation(pod, words::kDevices));
  rank.asks = asks_of(pod);
  return rank;
}

void Pods::apply(const Json& pod, bool deleted) {
  Rank rank = rank_of(pod);
  const std::string& phase = pod["status"]["phase"].string();
  const bool counts = !deleted && !rank.node.empty() && phase != "Succeeded" && phase != "Failed";
  const std::lock_guard lock(mutex_);
  if (const auto known = node_of_.find(rank.uid); known != node_of_.end()) {
    auto& pods = by_node_[known->second];
    pods.erase(rank.uid);
    if (pods.empty()) by_node_.erase(known->second);
    node_of_.erase(known);
  }
  ended_.erase(rank.uid);
  if (!deleted && !counts && !rank.node.empty()) ended_[rank.uid] = {rank.node, rank.ns + "/" + rank.name};
  ++changes_;
  wake_.notify_all();
  if (!counts) return;
  node_of_[rank.uid] = rank.node;
  auto& pods = by_node_[rank.node];
  pods.insert_or_assign(rank.uid, std::move(rank));
}

void Pods::synced(const std::string& node) {
  const std::lock_guard lock(mutex_);
  synced_.insert(node);
  wake_.notify_all();
}

bool Pods::wait_synced(const std::string& node, SteadyDuration timeout) const {
  std::unique_lock lock(mutex_);
  const auto listed = [&] { return synced_.contains(node) || synced_.contains({}); };
  wake_.wait_for(lock, timeout, [&] { return listed() || closed_; });
  return listed() && !closed_;
}

void Pods::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_.notify_all();
}

Pods::Ranks Pods::ranks(const std::string& node, const WorkloadIdentity& workload, std::int32_t attempt) const {
  const std::lock_guard lock(mutex_);
  Ranks out;
  const auto pods = by_node_.find(node);
  if (pods == by_node_.end()) return out;
  for (const auto& [uid, rank] : pods->second) {
    const auto ownership =
        ownership_of({rank.ns, rank.uid, rank.workload, rank.controller, rank.controller_kind}, workload);
    if (ownership == PodOwnership::kOwned && rank.attempt == attempt) out.own.push_back(rank);
    if (ownership == PodOwnership::kOtherNamespace || ownership == PodOwnership::kOtherController)
      out.foreign.push_back(rank.ns + "/" + rank.name);
  }
  return out;
}

std::string Pods::checkpoint_answer(const std::string& node, const std::string& uid) const {
  const std::lock_guard lock(mutex_);
  const auto pods = by_node_.find(node);
  if (pods == by_node_.end()) return {};
  const auto rank = pods->second.find(uid);
  return rank == pods->second.end() ? std::string() : rank->second.answer;
}

bool Pods::gpu_pods(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  const auto pods = by_node_.find(node);
  if (pods == by_node_.end()) return false;
  for (const auto& [uid, rank] : pods->second) {
    if (rank.uses_gpus && rank.running) return true;
  }
  return false;
}

KnownPods Pods::known(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  KnownPods out;
  if (const auto pods = by_node_.find(node); pods != by_node_.end()) {
    for (const auto& [uid, rank] : pods->second) out.created[rank.ns + "/" + rank.name] = rank.created;
  }
  // A pod of a StatefulSet is created again under the same name.
  for (const auto& [uid, pod] : ended_) {
    if (pod.first == node && !out.created.contains(pod.second)) out.ended.insert(pod.second);
  }
  return out;
}

std::vector<Claim> Pods::claims(const std::string& node, const std::string& resource) const {
  const std::lock_guard lock(mutex_);
  std::vector<Claim> out;
  const auto pods = by_node_.find(node);
  if (pods == by_node_.end()) return out;
  for (const auto& [uid, rank] : pods->second) {
    const auto asks = rank.asks.find(resource);
    if (rank.running || asks == rank.asks.end()) continue;
    out.push_back({uid, rank.ns + "/" + rank.name, rank.created, rank.scheduler, rank.gpus, asks->second, {}});
  }
  return out;
}

std::uint64_t Pods::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

bool Pods::wait_past(std::uint64_t changes, SteadyInstant until) const {
  std::unique_lock lock(mutex_);
  wake_.wait_until(lock, until, [&] { return changes_ > changes || closed_; });
  return changes_ > changes && !closed_;
}

std::size_t Pods::size() const {
  const std::lock_guard lock(mutex_);
  return node_of_.size();
}

}  // namespace qm::agent
