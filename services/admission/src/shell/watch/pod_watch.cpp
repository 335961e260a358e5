// Groups pods with the scheduling gate of Quartermaster into workloads. A group is one workload from the moment all
// of its pods exist until the last ungated pod is gone. Later pods of the same group name are a new workload.
#include "qm/admission/translate/translate.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/config/workload_kinds.hpp"
#include "translate/pods.hpp"
#include "watch/owners.hpp"

#include <algorithm>
#include <chrono>

namespace qm::admission {
namespace {

/// The key of a pod without a group has its uid, as a later pod may have the same name; a group has only its name.
std::string key_of(const Json& pod) {
  const auto group = group_of(pod);
  const auto ns = kube::namespace_of(pod);
  return group.empty() ? fmt::format("{}/{}/{}", ns, kube::name_of(pod), kube::uid_of(pod)) : ns + "/" + group;
}

/// Pause between rounds of writing.
constexpr std::chrono::milliseconds kPeriod{500};
/// Number of runs that are kept; far more than can be active at once.
constexpr std::size_t kMostRuns = 10'000;

std::string print_of(const std::vector<const Json*>& pods, bool readiness) {
  std::string print;
  const auto& kind = *config::workload_kind("Pod");
  for (const auto* pod : pods) {
    print += fmt::format("{}:{}:{}:{};", kube::uid_of(*pod), gated(*pod) ? "gated" : "free",
                         kube::annotation(*pod, words::kAttempt), (*pod)["status"]["phase"].string());
    if (readiness && config::are_pods_ready(*pod, kind)) print += "ready;";
    if (!gated(*pod)) continue;
    // Its author may change it until it is ungated; each update is parsed again.
    const auto& metadata = (*pod)["metadata"];
    print += fmt::format(
        "{:x};",
        Digest().add(metadata["labels"].dump()).add(metadata["annotations"].dump()).add((*pod)["spec"].dump()).value());
  }
  return print;
}

}  // namespace

PodWatch::PodWatch(kube::Client& client, service::Host& host, WatchOptions options)
    : options_(options),
      mailbox_(host),
      owners_(options.quota, options.binding),
      client_(client),
      writer_(kPeriod, [this] { write(); }),
      volcano_informer_(client, [&client] { return client.locate("scheduling.volcano.sh", "podgroups", {"v1beta1"}); },
                        "",
                        {[this](const Json& group, bool deleted) { group_changed(group, deleted); },
                         [this] {
                           {
                             const std::lock_guard lock(mutex_);
                             groups_listed_ = true;
                           }
                           look_again();
                         },
                         {}}),
      informer_(
          client, kube::resources::kPods, "",
          {[this](const Json& pod, bool deleted) { changed(pod, deleted); }, [this] { synced_list(); }, is_our_pod}) {}

PodWatch::~PodWatch() { stop(); }

void PodWatch::start() {
  volcano_informer_.start();
  informer_.start();
  writer_.start();
}

void PodWatch::stop() {
  mailbox_.stop();
  writer_.stop();
  informer_.stop();
  volcano_informer_.stop();
}

void PodWatch::changed(const Json& pod, bool deleted) {
  const std::lock_guard lock(mutex_);
  const auto key = key_of(pod);
  auto& group = groups_[key];
  if (deleted) {
    group.pods.erase(kube::uid_of(pod));
  } else {
    if (auto run = config::run_of_pod(pod); !run.empty()) {
      auto [first, fresh] = runs_.emplace(kube::namespace_of(pod) + "/" + run, kube::created_of(pod));
      if (!fresh) first->second = std::min(first->second, kube::created_of(pod));
      // The oldest run is dropped; its pods then count by their own age.
      if (runs_.size() > kMostRuns) {
        runs_.erase(std::ranges::min_element(runs_, {}, [](const auto& one) { return one.second; }));
      }
    }
    Json slim = pod;
    slim.set("metadata").erase("managedFields");
    group.pods.insert_or_assign(kube::uid_of(pod), std::move(slim));
  }
  update_group(key, group);
}

void PodWatch::group_changed(const Json& group, bool deleted) {
  const std::lock_guard lock(mutex_);
  const auto key = kube::namespace_of(group) + "/" + kube::name_of(group);
  if (deleted) {
    volcano_.erase(key);
  } else {
    auto& gang = volcano_[key];
    if (gang.uid != kube::uid_of(group)) gang = {};
    gang.uid = kube::uid_of(group);
    gang.phase = group["status"]["phase"].string();
    gang.conditions = group["status"]["conditions"];
    gang.whole = std::ranges::any_of(group["metadata"]["ownerReferences"].items(), [](const Json& owner) {
      return owner["controller"].boolean() && suspending_kind(owner) != nullptr;
    });
    Json metadata = Json::object({{"namespace", kube::namespace_of(group)}, {"name", kube::name_of(group)}});
    for (const char* part : {"uid", "creationTimestamp", "labels", "annotations"}) {
      if (const auto* has = group["metadata"].find(part)) metadata.set(part, *has);
    }
    gang.object = Json::object({{"metadata", std::move(metadata)}, {"spec", group["spec"]}});
  }
  update_group(key, groups_[key]);
}

void PodWatch::forget(Group& group, Gang* gang) {
  if (group.uid.empty()) return;
  if (gang != nullptr && gang->uid == group.uid) gang->over = true;
  mailbox_.send("pods", Json::object({{"deleted", true}, {"metadata", Json::object({{"uid", group.uid}})}}).dump(),
                group.uid);
  group.uid.clear();
  group.print.clear();
  group.expected = false;
}

void PodWatch::update_group(const std::string& key, Group& group) {
  // Ungated pods belong to the workload that their annotation names; otherwise the oldest pod gives the uid.
  std::vector<const Json*> pods;
  for (const auto& [uid, pod] : group.pods) pods.push_back(&pod);
  std::sort(pods.begin(), pods.end(), [](const Json* a, const Json* b) {
    const auto rank = [](const Json& pod) {
      return std::tuple(kube::created_of(pod), kube::name_of(pod), kube::uid_of(pod));
    };
    return rank(*a) < rank(*b);
  });
  // A tenant could write the annotation of the workload of another tenant.
  const auto was_ungated = [&](const Json* pod) {
    const auto uid = kube::annotation(*pod, kWorkloadAnnotation);
    if (uid.empty() || uid == group.uid) return !uid.empty();
    if (!is_of_other_namespace(mailbox_.host(), uid, kube::namespace_of(*pod))) return true;
    log::warn("a pod names the workload of another namespace and does not count for it",
              {{"pod", kube::namespace_of(*pod) + "/" + kube::name_of(*pod)},
               {"workload", uid},
               {"remedy", "remove the annotation quartermaster.dev/workload"}});
    return false;
  };
  const auto written = std::find_if(pods.begin(), pods.end(), was_ungated);
  const bool ungated = written != pods.end();
  Gang* gang = gang_of(key, pods);
  const bool gone = pods.empty() || (group.ungated && !ungated) || (group.expected && gang == nullptr);
  if (gone && !(gang != nullptr && stays(group, *gang))) forget(group, gang);
  group.ungated = ungated;
  if (pods.empty()) {
    if (gang == nullptr || !update_without_pods(*gang, group)) groups_.erase(key);
    return;
  }
  if (group.uid.empty() || group.expected) {
    // Its uid may depend on the PodGroup, so wait until PodGroups are listed.
    const bool named = group_of(*pods.front()) != kube::label(*pods.front(), kGroupLabel);
    if (!pods_listed_) return;
    if (named && !ungated && !groups_known()) return;
    auto total = total_count(*pods.front());
    if (total == 0 && gang != nullptr) {
      total = std::max<std::int64_t>(gang->object["spec"]["minMember"].integer(), 1);
      const auto there = static_cast<std::int64_t>(pods.size());
      const auto went = std::count_if(pods.begin(), pods.end(), was_ungated);
      group.total = ungated ? went : std::max(there, total);
    }
    if (!ungated && (total == 0 || static_cast<std::int64_t>(pods.size()) < total)) {  // not all pods exist yet
      if (gang != nullptr) update_without_pods(*gang, group);
      return;
    }
    const auto uid = ungated             ? kube::annotation(**written, kWorkloadAnnotation)
                     : group.uid.empty() ? uid_for(gang, *pods.front())
                                         : group.uid;
    const auto ns = kube::namespace_of(*pods.front());
    if (!owners_.known()) return;
    if (!owners_.acts(ns, "pod " + kube::name_of(*pods.front())) && !engine_follows(mailbox_.host(), uid)) return;
    group.uid = uid;
    group.expected = false;
  }
  auto print = print_of(pods, options_.pods_ready);
  if (gang != nullptr && gang->uid == group.uid && !ungated) print += print_of_gang(*gang);
  if (group.print == print) return;
  group.print = std::move(print);
  const Json& first = *pods.front();
  const auto name = group_of(first);
  Json out = Json::object({{"kind", name.empty() ? "Pod" : "PodGroup"},
                           {"metadata", Json::object({{"namespace", kube::namespace_of(first)},
                                                      {"name", name.empty() ? kube::name_of(first) : name},
                                                      {"uid", group.uid}})}});
  Json list = Json::array();
  for (const auto* pod : pods) {
    list.push_back(*pod);
    if (options_.checkpoints != nullptr) options_.checkpoints->mark_pod(list.items_mut().back());
    if (group.total == 0) continue;
    list.items_mut().back().set("metadata").set("annotations").set(kGroupCount, std::to_string(group.total));
  }
  out.set("pods", std::move(list));
  if (gang != nullptr) out.set(kPodGroup, gang->object);
  if (const auto run = runs_.find(kube::namespace_of(first) + "/" + config::run_of_pod(first)); run != runs_.end()) {
    out.set(kWaitsSince, run->second);
  }
  if (external_scheduler(options_, kube::namespace_of(first), first["spec"]["schedulerName"].string())) {
    out.set(kExternalScheduler, true);
  }
  mailbox_.send("pods", out.dump(), group.uid, trace_of(first));
}

void PodWatch::owners_changed() {
  const std::lock_guard lock(mutex_);
  owners_.renew();
  std::vector<std::string> keys;
  for (const auto& [key, group] : groups_) keys.push_back(key);
  update_oldest_first(std::move(keys));
}

void PodWatch::synced_list() {
  {
    const std::lock_guard lock(mutex_);
    pods_listed_ = list_due_ = true;
  }
  look_again();
}

void PodWatch::list_uids() {
  Json uids = Json::array();
  for (const auto& [key, group] : groups_) {
    if (!group.uid.empty()) {
      uids.push_back(group.uid);
      continue;
    }
    // The group is incomplete or not managed by Quartermaster: a workload may still be known by the uid of one
    // of its pods.
    for (const auto& [uid, pod] : group.pods) uids.push_back(uid);
  }
  for (const auto& [key, gang] : volcano_) {
    if (!gang.over) uids.push_back(gang.uid);
  }
  mailbox_.send("pods.synced", Json::object({{"uids", std::move(uids)}}).dump());
}

}  // namespace qm::admission
