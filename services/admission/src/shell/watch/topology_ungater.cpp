#include "qm/admission/watch/topology_ungater.hpp"

#include "qm/admission/codec.hpp"
#include "qm/base/log.hpp"
#include "translate/pods.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace qm::admission {
namespace {

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

TopologyPod pod_of(const Json& pod) {
  TopologyPod out{kube::namespace_of(pod),
                  kube::name_of(pod),
                  kube::uid_of(pod),
                  kube::resource_version_of(pod),
                  WorkloadUid(kube::annotation(pod, kWorkloadAnnotation)),
                  kube::label(pod, kPodSetLabel)};
  out.attempt = static_cast<std::int32_t>(number_of(kube::annotation(pod, words::kAttempt)).value_or(0));
  for (const auto key : {words::kJobIndex, std::string_view("training.kubeflow.org/replica-index")}) {
    if (!out.rank) out.rank = number_of(kube::label(pod, key));
  }
  for (const auto& [key, value] : pod.path("spec.nodeSelector").members()) out.node_selector[key] = value.string();
  for (const auto& gate : pod.path("spec.schedulingGates").items()) out.gates.push_back(gate["name"].string());
  return out;
}

Labels labels_of(const topology::Assignment& assignment, const topology::AssignedDomain& domain) {
  Labels out;
  for (std::size_t i = 0; i < assignment.levels.size(); ++i) out[assignment.levels[i]] = domain.values[i];
  return out;
}

/// Whether every pod has a rank below the number of assigned pods, and no two have the same.
bool have_ranks(const topology::Assignment& assignment, const std::vector<const TopologyPod*>& pods) {
  std::int64_t assigned = 0;
  for (const auto& domain : assignment.domains) assigned += domain.count;
  std::set<std::int64_t> ranks;
  return std::ranges::all_of(pods, [&](const TopologyPod* pod) {
    return pod->rank && *pod->rank < assigned && ranks.insert(*pod->rank).second;
  });
}

bool selects(const TopologyPod& pod, const Labels& domain) {
  return std::ranges::all_of(domain, [&](const auto& label) {
    const auto own = pod.node_selector.find(label.first);
    return own != pod.node_selector.end() && own->second == label.second;
  });
}

}  // namespace

bool TopologyPod::gated() const { return std::ranges::find(gates, kTopologyGate) != gates.end(); }

std::vector<std::pair<const TopologyPod*, Labels>> domains_of(const topology::Assignment& assignment,
                                                              const std::vector<const TopologyPod*>& pods) {
  std::vector<std::pair<const TopologyPod*, Labels>> out;
  std::vector<const TopologyPod*> gated;
  std::ranges::copy_if(pods, std::back_inserter(gated), &TopologyPod::gated);
  if (have_ranks(assignment, pods)) {
    std::ranges::sort(gated, {}, [](const TopologyPod* pod) { return *pod->rank; });
    std::int64_t end = 0;
    auto next = gated.begin();
    for (const auto& domain : assignment.domains) {
      end += domain.count;
      for (; next != gated.end() && *(*next)->rank < end; ++next)
        out.emplace_back(*next, labels_of(assignment, domain));
    }
    return out;
  }
  std::ranges::sort(gated, {}, [](const TopologyPod* pod) { return std::tie(pod->name, pod->uid); });
  auto next = gated.begin();
  for (const auto& domain : assignment.domains) {
    const auto labels = labels_of(assignment, domain);
    auto left = domain.count - std::ranges::count_if(pods, [&](const TopologyPod* pod) {
                  return !pod->gated() && selects(*pod, labels);
                });
    for (; left > 0 && next != gated.end(); --left, ++next) out.emplace_back(*next, labels);
  }
  return out;
}

TopologyUngater::TopologyUngater(kube::Client& client, service::Host& host, UngaterOptions options)
    : client_(client),
      host_(host),
      options_(options),
      informer_(client, kube::resources::kPods, "",
                {[this](const Json& pod, bool deleted) { changed(pod, deleted); }, [] {},
                 [](const Json& pod) {
                   return kube::label(pod, kTopologyLabel) == "true" && !ended(pod) &&
                          !kube::annotation(pod, kWorkloadAnnotation).empty();
                 }}) {}

TopologyUngater::~TopologyUngater() { stop(); }

void TopologyUngater::start() {
  informer_.start();
  thread_ = std::thread([this] { run(); });
}

void TopologyUngater::stop() {
  {
    const std::scoped_lock lock(sleep_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  informer_.stop();
}

void TopologyUngater::changed(const Json& pod, bool deleted) {
  const std::scoped_lock lock(mutex_);
  if (deleted) {
    pods_.erase(kube::uid_of(pod));
  } else {
    pods_.insert_or_assign(kube::uid_of(pod), pod_of(pod));
  }
}

int TopologyUngater::write() {
  if (!host_.ready() || !informer_.synced()) return 0;
  std::vector<TopologyPod> pods;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [uid, pod] : pods_) pods.push_back(pod);
  }
  std::map<std::tuple<std::string, WorkloadUid, std::int32_t, std::string>, std::vector<const TopologyPod*>> sets;
  for (const auto& pod : pods) sets[{pod.ns, pod.workload, pod.attempt, pod.pod_set}].push_back(&pod);
  std::erase_if(sets, [](const auto& set) { return std::ranges::none_of(set.second, &TopologyPod::gated); });
  std::vector<std::pair<const TopologyPod*, Labels>> due;
  host_.read([&](const service::Shell& shell) {
    const Engine& engine = static_cast<const AdmissionShell&>(shell).engine();
    for (const auto& [key, members] : sets) {
      const auto& [ns, uid, attempt, pod_set] = key;
      const auto* w = engine.find(uid);
      if (w == nullptr || w->phase != Phase::kAdmitted || w->attempt != attempt) continue;
      if (w->spec.ns->value() != ns) continue;  // its annotation is forged
      const auto nodes = w->nodes().find(pod_set);
      if (nodes == w->nodes().end()) continue;
      std::ranges::move(domains_of(nodes->second, members), std::back_inserter(due));
    }
  });
  int count = 0;
  for (const auto& [pod, domain] : due) {
    if (count == options_.most) break;
    count += ungate(*pod, domain) ? 1 : 0;
  }
  return count;
}

bool TopologyUngater::ungate(const TopologyPod& pod, const Labels& domain) {
  Json selector = Json::object(), gates = Json::array();
  for (const auto& [key, value] : domain) selector.set(key, value);
  for (const auto& gate : pod.gates) {
    if (gate != kTopologyGate) gates.push_back(Json::object({{"name", gate}}));
  }
  const Json patch =
      Json::object({{"metadata", Json::object({{"resourceVersion", pod.version}, {"uid", pod.uid}})},
                    {"spec", Json::object({{"nodeSelector", std::move(selector)},
                                           {"schedulingGates", gates.size() > 0 ? std::move(gates) : Json()}})}});
  const auto written = client_.merge_patch(kube::resources::kPods, pod.ns, pod.name, patch);
  if (written) {
    changed(*written, false);  // before the watch reports it: the next round counts the pod in its domain
    return true;
  }
  // It changed or is gone: the watch reports that, and the next round tries again.
  if (written.error().code == Code::kAborted || written.error().code == Code::kNotFound) return false;
  if (std::exchange(complained_, written.error().message) != written.error().message) {
    log::warn("pod not assigned to its nodes",
              {{"pod", fmt::format("{}/{}", pod.ns, pod.name)}, {"error", written.error().to_string()}});
  }
  return false;
}

void TopologyUngater::run() {
  std::unique_lock lock(sleep_);
  while (!wake_.wait_for(lock, options_.period, [this] { return stopping_; })) {
    lock.unlock();
    write();
    lock.lock();
  }
}

}  // namespace qm::admission
