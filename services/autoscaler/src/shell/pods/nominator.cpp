#include "pods/nominator.hpp"

#include "observed.hpp"
#include "pods/parallel.hpp"
#include "qm/base/log.hpp"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <atomic>

namespace qm::autoscaler {
namespace {

constexpr auto kPause = std::chrono::seconds(5);

/// Errors after which other pods can be nominated.
bool is_of_pod(Code code) {
  return code == Code::kNotFound || code == Code::kAborted || code == Code::kInvalid ||
         code == Code::kFailedPrecondition;
}

}  // namespace

bool Nominator::Pod::uses(const NodeName& at) const {
  if (node == at.value() || nominated == at.value()) return true;
  const auto before = written.find(at);
  return before != written.end() && before->second >= kMostTries;
}

void Nominator::put_pod(const Json& pod, const std::string& group) {
  const auto uid = kube::uid_of(pod);
  const bool bound = !pod.path("spec.nodeName").string().empty();
  if (bound && group.empty()) return drop_pod(uid);
  const std::scoped_lock lock(mutex_);
  Pod& p = pods_[uid];
  if (p.group != group) leave_gang(uid, p.group);
  if (!group.empty()) gangs_[group].insert(uid);
  p.ns = kube::namespace_of(pod);
  p.name = kube::name_of(pod);
  p.version = pod.path("metadata.resourceVersion").string();
  p.group = group;
  p.node = pod.path("spec.nodeName").string();
  p.nominated = pod.path("status.nominatedNodeName").string();
  p.pending = waits_for_capacity(pod) && pod.path("spec.schedulerName").string() != words::kScheduler;
}

void Nominator::leave_gang(const std::string& uid, const std::string& group) {
  const auto gang = gangs_.find(group);
  if (gang == gangs_.end()) return;
  gang->second.erase(uid);
  if (gang->second.empty()) gangs_.erase(gang);
}

void Nominator::drop_pod(const std::string& uid) {
  const std::scoped_lock lock(mutex_);
  const auto known = pods_.find(uid);
  if (known == pods_.end()) return;
  leave_gang(uid, known->second.group);
  pods_.erase(known);
}

std::vector<Nominator::Write> Nominator::due(const std::vector<Nomination>& planned) const {
  std::vector<Write> out;
  std::set<std::string> chosen;
  for (const auto& [uid, node, pods] : planned) {
    const auto gang = gangs_.find(uid.value());
    const auto members = gang == gangs_.end() ? std::set<std::string>{uid.value()} : gang->second;
    auto open = pods - std::ranges::count_if(members, [&](const auto& member) {
                  const auto known = pods_.find(member);
                  return known != pods_.end() && known->second.uses(node);
                });
    for (const auto& member : members) {
      const auto known = pods_.find(member);
      if (open <= 0 || out.size() == kMostWrites) break;
      if (known == pods_.end() || chosen.contains(member)) continue;
      const Pod& p = known->second;
      if (!p.pending || !p.nominated.empty() || p.uses(node) || p.refused == p.version) continue;
      out.push_back({member, p.ns, p.name, p.version, node});
      chosen.insert(member);
      --open;
    }
  }
  return out;
}

// False: the following calls would fail as well.
bool Nominator::ended(const Write& write, const Error* error) {
  const std::scoped_lock lock(mutex_);
  const auto known = pods_.find(write.uid);
  if (error == nullptr) {
    logged_.clear();
    if (known == pods_.end()) return true;
    ++known->second.written[write.node];
    if (known->second.version == write.version) known->second.nominated = write.node.value();
    return true;
  }
  const bool of_pod = is_of_pod(error->code);
  if (of_pod && known != pods_.end()) known->second.refused = write.version;
  if (!of_pod) not_before_ = SteadyInstant::clock::now() + kPause;
  const bool race = error->code == Code::kNotFound || error->code == Code::kAborted;
  if (!race && std::exchange(logged_, error->to_string()) != error->to_string()) {
    log::warn("a pod is not nominated for its planned node",
              {{"namespace", write.ns}, {"pod", write.name}, {"node", write.node.value()}, {"error", logged_}});
  }
  return of_pod;
}

Nominator::Outcome Nominator::nominate(const std::vector<Nomination>& planned) {
  const auto read_due = [&] {
    const std::scoped_lock lock(mutex_);
    return due(planned);
  };
  const std::vector<Write> writes = read_due();
  if (writes.empty()) return {};
  std::vector<char> written(writes.size(), 0);
  std::atomic<bool> goes_on = SteadyInstant::clock::now() >= not_before_;
  in_parallel(writes.size(), [&](std::size_t at) {
    if (!goes_on) return;
    const Write& write = writes[at];
    const Json seen = Json::object({{"uid", write.uid}, {"resourceVersion", write.version}});
    const Json status = Json::object({{"nominatedNodeName", write.node.value()}});
    const auto done = client_.merge_patch(kube::resources::kPods, write.ns, write.name,
                                          Json::object({{"metadata", seen}, {"status", status}}), "status");
    written[at] = done ? 1 : 0;
    if (!ended(write, done ? nullptr : &done.error())) goes_on = false;
  });
  Outcome out;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    (written[i] != 0 ? out.written : out.open).insert(writes[i].node);
  }
  for (const Write& write : read_due()) out.open.insert(write.node);  // more than kMostWrites
  return out;
}

}  // namespace qm::autoscaler
