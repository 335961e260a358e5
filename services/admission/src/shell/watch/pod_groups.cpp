// Volcano PodGroups whose pods do not exist yet: which of them are pending workloads, with which pod sets, and which
// phase makes their controllers create pods.
#include "qm/admission/codec.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/base/log.hpp"
#include "translate/pods.hpp"
#include "watch/owners.hpp"

#include <algorithm>
#include <chrono>

namespace qm::admission {
namespace {

/// Volcano's condition type, with the reason of Quartermaster.
constexpr const char *kCondition = "Unschedulable", *kRejected = "Rejected";
constexpr int kMostWrites = 50;  // writes in one round; the rest follows in the next round

bool is_new(const std::string& phase) { return phase.empty() || phase == "Pending"; }

}  // namespace

/// The state of the workload of one uid in the engine.
struct PodWatch::Row {
  Phase phase = Phase::kPending;
  std::int32_t attempt = 0;
  bool alive = false, succeeded = false, checked = false;
  std::string rejected;
};

/// The PodGroup of these pods; null where the label of Kueue groups them.
PodWatch::Gang* PodWatch::gang_of(const std::string& key, const std::vector<const Json*>& pods) {
  if (!pods.empty() && kube::annotation(*pods.front(), kVolcanoGroup) != group_of(*pods.front())) return nullptr;
  const auto found = volcano_.find(key);
  return found == volcano_.end() ? nullptr : &found->second;
}

std::optional<PodWatch::Row> PodWatch::row_of(const std::string& uid) {
  std::optional<Row> out;
  mailbox_.host().read([&](const service::Shell& shell) {
    const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid));
    if (w == nullptr) return;
    const auto ready = [](const auto& check) { return check.second.verdict == Verdict::kReady; };
    out = Row{w->phase,
              w->attempt,
              !w->ended() && !w->job_deleted,
              w->succeeded,
              std::ranges::all_of(w->checks, ready),
              w->ended() ? std::string() : w->rejected()};
  });
  return out;
}

/// Whether Quartermaster manages its queue; false for a queue that Volcano itself schedules.
bool PodWatch::leads(const Gang& gang) {
  auto queue = kube::label(gang.object, words::kQueueLabel);
  if (queue.empty()) queue = gang.object["spec"]["queue"].string_or("default");
  const Namespace ns(kube::namespace_of(gang.object));
  bool known = false;
  mailbox_.host().read([&](const service::Shell& shell) {
    const auto& t = static_cast<const AdmissionShell&>(shell).engine().tables();
    const auto* direct = t.cluster_queues.find(QueueName(queue));
    const auto shared = [](const auto& cohort) { return cohort.second.sharing.has_value(); };
    known = t.local_queues.contains({ns, queue}) ||
            (direct != nullptr && (!direct->volcano || std::ranges::any_of(t.cohorts, shared)));
  });
  return known;
}

/// Whether it is still the same workload although its pods are gone or replaced: none was ungated, or it was evicted
/// and is pending again.
bool PodWatch::stays(const Group& group, const Gang& gang) {
  if (group.uid != gang.uid || needs_of(gang.object).is_null()) return false;
  const auto row = row_of(gang.uid);
  return row && row->alive && (!group.ungated || row->phase != Phase::kAdmitted);
}

/// The uid of the workload of a group that has its pods, all of them gated.
std::string PodWatch::uid_for(Gang* gang, const Json& oldest) {
  const auto own = kube::uid_of(oldest);
  if (gang == nullptr || gang->over || gang->whole || needs_of(gang->object).is_null()) return own;
  const auto row = row_of(gang->uid);
  gang->over = row && !row->alive;
  return gang->over || (!row && engine_follows(mailbox_.host(), own)) ? own : gang->uid;
}

/// Fingerprint of what was sent. It has the attempt, so the group is sent again when an attempt has ended.
std::string PodWatch::print_of_gang(const Gang& gang) {
  const auto row = row_of(gang.uid);
  return fmt::format("{}/{}", row ? row->attempt : 0, gang.object.dump());
}

/// Handles a group without pods. Returns false where it is not a pending workload without its pods.
bool PodWatch::update_without_pods(Gang& gang, Group& group) {
  if (group.uid.empty()) {
    if (!pods_listed_ || gang.over || gang.whole || needs_of(gang.object).is_null()) return false;
    const auto row = row_of(gang.uid);
    const auto ns = kube::namespace_of(gang.object);
    if (row && (!row->alive || (row->phase == Phase::kAdmitted && group.pods.empty()))) {
      group.uid = gang.uid;  // the pods that were ungated are gone
      forget(group, &gang);
      return false;
    }
    if (!row && (!is_new(gang.phase) || !leads(gang))) return false;
    if (!owners_.known()) return false;
    if (!row && !owners_.acts(ns, "PodGroup " + kube::name_of(gang.object))) return false;
    group.uid = gang.uid;
  }
  group.expected = true;
  auto print = print_of_gang(gang);
  if (group.print == print) return true;
  group.print = std::move(print);
  Json out = Json::object({{"kind", "PodGroup"},
                           {"metadata", Json::object({{"namespace", kube::namespace_of(gang.object)},
                                                      {"name", kube::name_of(gang.object)},
                                                      {"uid", gang.uid}})}});
  out.set("pods", Json::array()).set(kPodGroup, gang.object);
  if (external_scheduler(options_, kube::namespace_of(gang.object), {})) out.set(kExternalScheduler, true);
  mailbox_.send("pods", out.dump(), gang.uid, trace_of(gang.object));
  return true;
}

/// Each group is decided as soon as it is sent, and the keys are ordered by name.
void PodWatch::update_oldest_first(std::vector<std::string> keys) {
  std::map<std::string, std::string> since;
  for (const auto& key : keys) {
    auto& first = since[key];
    if (const auto gang = volcano_.find(key); gang != volcano_.end()) first = kube::created_of(gang->second.object);
    if (const auto group = groups_.find(key); group != groups_.end()) {
      for (const auto& [uid, pod] : group->second.pods) {
        first = first.empty() ? kube::created_of(pod) : std::min(first, kube::created_of(pod));
      }
    }
  }
  std::ranges::stable_sort(keys, {}, [&](const std::string& key) { return since.at(key); });
  for (const auto& key : keys) update_group(key, groups_[key]);
}

void PodWatch::look_again() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, group] : groups_) {
    if (group.uid.empty()) keys.push_back(key);
  }
  for (const auto& [key, gang] : volcano_) {
    const auto known = groups_.find(key);
    if (known == groups_.end() || (known->second.uid == gang.uid && !known->second.ungated)) keys.push_back(key);
  }
  update_oldest_first(std::move(keys));
  if (list_due_ && groups_known()) {
    list_due_ = false;
    list_uids();
  }
}

/// The phase to write; empty where Quartermaster does not own it.
std::string PodWatch::wanted_phase(const Gang& gang) {
  const auto row = row_of(gang.uid);
  if (!row) {
    const bool any = !gang.whole && needs_of(gang.object).is_null() && is_new(gang.phase);
    return any && leads(gang) ? "Inqueue" : "";
  }
  switch (row->phase) {
    case Phase::kPending:
    case Phase::kRejected:
      return "Pending";
    case Phase::kQuotaReserved:
      return row->checked ? "Inqueue" : "Pending";
    case Phase::kAdmitted:
    case Phase::kEvicting:
      return "Running";
    case Phase::kFinished:
      return row->succeeded ? "Completed" : "";
    case Phase::kCancelled:
      break;
  }
  return "";
}

/// The conditions of the group, with one that reports why it is rejected or that it was accepted after that; null
/// where they are up to date.
Json PodWatch::wanted_conditions(const Gang& gang) {
  const auto row = row_of(gang.uid);
  const std::string why = row ? row->rejected : std::string();
  const auto ours = [](const Json& c) { return c["type"].string() == kCondition; };
  Json out = Json::array();
  const Json* old = nullptr;
  for (const auto& c : gang.conditions.items()) ours(c) ? (void)(old = &c) : out.push_back(c);
  const bool is_said = old != nullptr && (*old)["reason"].string() == kRejected;
  if (why.empty() ? !is_said : is_said && (*old)["message"].string() == why) return {};
  out.push_back(Json::object({{"type", kCondition},
                              {"status", why.empty() ? "False" : "True"},
                              {"reason", why.empty() ? "Accepted" : kRejected},
                              {"message", why.empty() ? "all of its fields are supported" : why}}));
  return out;
}

int PodWatch::write() {
  look_again();
  const auto at = volcano_informer_.resource();
  if (!mailbox_.host().ready() || at.plural.empty()) return 0;
  struct Target {
    std::string key, phase;
    Json conditions, object;
  };
  std::vector<Target> targets;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, gang] : volcano_) {
      auto phase = wanted_phase(gang);
      if (phase == gang.phase) phase.clear();
      auto conditions = wanted_conditions(gang);
      if (phase.empty() && conditions.is_null()) continue;
      targets.push_back({key, std::move(phase), std::move(conditions), gang.object});
      if (targets.size() == kMostWrites) break;
    }
  }
  int count = 0;
  for (const auto& [key, phase, conditions, object] : targets) {
    const auto ns = kube::namespace_of(object), name = kube::name_of(object), uid = kube::uid_of(object);
    if (options_.quota != nullptr && !options_.quota->of(ns).ours) continue;
    Json patch = Json::object({{"metadata", Json::object({{"uid", uid}})}});
    if (!phase.empty()) patch.set("status").set("phase", phase);
    if (!conditions.is_null()) patch.set("status").set("conditions", conditions);
    const auto done = client_.merge_patch(at, ns, name, patch, "status");
    if (!done) {
      // It was deleted or replaced: the watch will report it.
      const bool gone = done.error().code == Code::kNotFound || done.error().code == Code::kAborted;
      if (!gone && std::exchange(complained_, done.error().message) != done.error().message) {
        log::warn("status of a PodGroup not written", {{"group", key}, {"error", done.error().to_string()}});
      }
      continue;
    }
    ++count;
    const std::lock_guard lock(mutex_);
    if (const auto known = volcano_.find(key); known != volcano_.end() && known->second.uid == uid) {
      if (!phase.empty()) known->second.phase = phase;
      if (!conditions.is_null()) known->second.conditions = conditions;
    }
  }
  return count;
}

}  // namespace qm::admission
