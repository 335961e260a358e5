#include "qm/admission/workload_mirror.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/translate/workload_objects.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "watch/owners.hpp"

namespace qm::admission {
namespace {

constexpr const char* kGroup = "kueue.x-k8s.io";

/// Fingerprint of the fields that the engine acts on.
std::string print_of(const Json& object) {
  std::string out = fmt::format("{}/{}/", kube::annotation(object, words::kAttempt), object["spec"]["active"].dump());
  for (const auto& c : object.path("status.conditions").items()) {
    out += c["type"].string() + "=" + c["status"].string() + ";";
  }
  for (const auto& check : object.path("status.admissionChecks").items()) {
    out += check["name"].string() + "=" + check["state"].string() + check["message"].string() +
           check["podSetUpdates"].dump() + ";";
  }
  // The spec of a mirror of a job is written by Quartermaster.
  if (!is_mirror(object)) {
    out += fmt::format("{:x}/", Digest().add(object["metadata"]["labels"].dump()).add(object["spec"].dump()).value());
  }
  if (object.contains(kRuntimeClasses)) out += object[kRuntimeClasses].dump();
  return out + object[kRefused].string();
}

bool owned(const Json& object) { return object.path("metadata.ownerReferences").size() > 0; }

/// The actor that runs the workload has reported that its pods are gone, and the engine has not handled that yet.
bool is_released(const Json& object) {
  for (const auto& c : object.path("status.conditions").items()) {
    if (c["type"].string() == "QuotaReserved") return c["status"].string() == "False";
  }
  return false;
}

}  // namespace

WorkloadMirror::WorkloadMirror(kube::Client& client, service::Host& host, const DomainClock& clock, WatchOptions watch,
                               MirrorOptions options)
    : client_(client),
      clock_(clock),
      watch_(watch),
      options_(options),
      mailbox_(host),
      owners_(watch.quota, watch.binding),
      writer_(options.period, [this] { write(); }),
      informer_(client,
                [&client] {
                  return client.locate(kGroup, "workloads", {"v1beta2", "v1beta1"});
                },
                "",
                {[this](const Json& object, bool deleted) { changed(object, deleted); }, [this] { synced_list(); },
                 [](const Json& object) { return is_mirror(object) || !owned(object); }}) {}

WorkloadMirror::~WorkloadMirror() { stop(); }

void WorkloadMirror::start() {
  informer_.start();
  writer_.start();
}

void WorkloadMirror::stop() {
  mailbox_.stop();
  writer_.stop();
  informer_.stop();
}

// ---- from the API server ----

void WorkloadMirror::changed(const Json& object, bool deleted) {
  const std::scoped_lock lock(mutex_);
  if (!deleted) return offer(object);
  const auto uid = kube::uid_of(object);
  left_.erase(uid);
  if (known_.erase(uid) == 0 || is_mirror(object)) return;
  mailbox_.send("job", Json::object({{"deleted", true}, {"metadata", Json::object({{"uid", uid}})}}).dump(), uid);
}

void WorkloadMirror::offer(const Json& object) {
  const auto uid = kube::uid_of(object), ns = kube::namespace_of(object);
  Json slim = object;  // items of a list have no kind
  slim.set("apiVersion", std::string(kGroup) + "/v1beta2").set("kind", "Workload");
  slim.set("metadata").erase("managedFields");
  if (!is_mirror(slim)) {
    const auto taken = [&] {
      return owners_.acts(ns, "workload " + kube::name_of(slim)) || engine_follows(mailbox_.host(), uid);
    };
    if (!known_.contains(uid) && (!listed_ || !taken())) {
      left_.insert_or_assign(uid, object);
      return;
    }
    left_.erase(uid);
    if (watch_.pod_defaults != nullptr) {
      auto refusal = watch_.pod_defaults->apply(slim, workload_object_kind());
      if (!refusal.empty()) slim.set(kRefused, std::move(refusal));
      if (slim.contains(kRefused) || slim.contains(kRuntimeClasses)) left_.insert_or_assign(uid, object);
    }
  }
  auto print = print_of(slim);
  auto [it, fresh] = known_.emplace(uid, print);
  if (!fresh && it->second == print) return;
  it->second = std::move(print);
  mailbox_.send("workload", slim.dump(), uid);
}

void WorkloadMirror::offer_left() {
  const auto again = std::exchange(left_, {});
  for (const Json* object : oldest_first(again)) offer(*object);
}

void WorkloadMirror::owners_changed() {
  const std::scoped_lock lock(mutex_);
  owners_.renew();
  offer_left();
}

void WorkloadMirror::synced_list() {
  const std::scoped_lock lock(mutex_);
  listed_ = true;
  offer_left();
  Json uids = Json::array();
  for (const auto& [uid, print] : known_) uids.push_back(uid);
  for (const auto& [uid, object] : left_) uids.push_back(uid);
  mailbox_.send("job.synced", Json::object({{"kind", "Workload"}, {"uids", std::move(uids)}}).dump());
}

// ---- to the API server ----

std::vector<WorkloadMirror::Target> WorkloadMirror::targets() {
  std::vector<Target> out;
  if (!options_.mirrors) {
    const std::scoped_lock lock(mutex_);
    if (known_.empty()) return out;  // all workloads are of other kinds
  }
  mailbox_.host().read([&](const service::Shell& shell) {
    const Engine& engine = static_cast<const AdmissionShell&>(shell).engine();
    for (const auto& [uid, w] : engine.tables().workloads) {
      const bool mirror = w.spec.kind != "Workload";
      const bool none = !options_.mirrors || is_pods(w.spec.kind);
      if (w.job_deleted || (mirror && none)) {
        written_.erase(uid);
        continue;
      }
      std::string print = fmt::format("{}/{}/{}/{}/{}/{}/{}", w.attempt, static_cast<int>(w.phase), w.gated, w.inactive,
                                      w.requeues, micros(w.not_before), w.ran.count());
      print +=
          fmt::format("/{}/{}/{}/{}/{}", w.rejected(), w.next() != nullptr, w.reason, w.spec.queue, w.spec.priority);
      if (w.scale_up_to() > 0) print += fmt::format("/{}-of-{}", w.counted_pods(), w.scale_up_to());
      for (const auto& [name, answer] : w.checks)
        print += fmt::format("/{}={}", name, static_cast<int>(answer.verdict));
      const auto last = written_.find(uid);
      const bool same_pods = last != written_.end() && last->second.pod_sets == w.spec.pod_sets;
      if (same_pods && last->second.print == print) continue;
      if (last == written_.end() && w.ended() && mirror) continue;  // it ended before this process started
      out.push_back({std::move(print), mirror, last != written_.end() && !same_pods, w});
      if (out.size() >= static_cast<std::size_t>(options_.most)) return;
    }
  });
  return out;
}

Result<Json> WorkloadMirror::find_or_create(const kube::Resource& at, const Target& target) {
  const auto& spec = target.workload.spec;
  const auto name = target.mirror ? mirror_name(spec) : spec.name;
  auto found = client_.get(at, spec.ns.value(), name);
  if (found || !target.mirror || found.error().code != Code::kNotFound) return found;
  QM_ASSIGN(auto object, mirrored(target));
  return client_.create(at, spec.ns.value(), mirror_of(target.workload, object, at.version));
}

/// The object that a mirror represents.
Result<Json> WorkloadMirror::mirrored(const Target& target) {
  const auto& spec = target.workload.spec;
  const auto* kind = config::workload_kind(spec.kind);
  if (kind == nullptr) return fail(Code::kNotFound, "{} is not a kind of workload", *spec.kind);
  auto place = kube::resources::kJobs;
  if (kind->kind != "Job") {
    QM_ASSIGN(place, client_.find_kind(std::string(kind->group), std::string(kind->plural),
                                       {kind->versions.begin(), kind->versions.end()}));
  }
  QM_ASSIGN(auto object, client_.get(place, spec.ns.value(), spec.name));
  if (kube::uid_of(object) != spec.uid.value()) return fail(Code::kNotFound, "{} has another uid now", spec.name);
  return object;
}

/// Updates the spec of a mirror to that of its workload. It is immutable while quota is reserved. Where the workload
/// lost its quota and reserved it again in between, the mirror is first shown without quota.
Result<Json> WorkloadMirror::follow(const kube::Resource& at, const Target& target, Json now) {
  const auto& w = target.workload;
  // After a restart the templates that were written are not known.
  const auto shape = [](const Json& spec) {
    std::string out = fmt::format("{}/{}/{}", spec["queueName"].string(), spec["priority"].integer(),
                                  spec["maximumExecutionTimeSeconds"].integer());
    for (const auto& set : spec["podSets"].items()) {
      out += fmt::format("/{}:{}:{}", set["name"].string(), set["count"].integer(1), set["minCount"].integer());
    }
    return out;
  };
  const bool has_pods = !w.spec.pod_sets.empty();
  if (has_pods && !target.pods_changed && shape(mirror_spec(w, {})) == shape(now["spec"])) return now;
  QM_ASSIGN(const auto object, mirrored(target));
  Json spec = mirror_spec(w, object);
  if (!has_pods && shape(spec) == shape(now["spec"])) return now;
  if (now["spec"].contains("maximumExecutionTimeSeconds") && !spec.contains("maximumExecutionTimeSeconds")) {
    spec.set("maximumExecutionTimeSeconds", Json());
  }
  const auto write = [&](Json patch, const char* part) {
    patch.set("metadata").set("resourceVersion", kube::resource_version_of(now));
    return client_.merge_patch(at, w.spec.ns.value(), kube::name_of(now), patch, part);
  };
  if (w.holds_quota() && config::has_condition(now, "QuotaReserved")) {
    Workload before = w;
    before.phase = Phase::kPending;
    before.checks.clear();
    before.eviction.reset();
    QM_ASSIGN(now, write(Json::object({{"status", workload_status(before, now, clock_.now())}}), "status"));
  }
  return write(Json::object({{"spec", std::move(spec)}}), "");
}

Status WorkloadMirror::put(const kube::Resource& at, const Target& target) {
  const auto& w = target.workload;
  QM_ASSIGN(auto now, find_or_create(at, target));
  const bool same =
      target.mirror ? kube::label(now, kMirrors) == w.spec.uid.value() : kube::uid_of(now) == w.spec.uid.value();
  if (!same) return {};
  if (w.phase == Phase::kEvicting && is_released(now)) return {};
  if (target.mirror && !w.ended() && w.phase != Phase::kEvicting) {
    QM_ASSIGN(now, follow(at, target, std::move(now)));
  }
  const auto attempt = std::to_string(w.attempt);
  const auto status = workload_status(w, now, clock_.now());
  const auto patch = Json::object(
      {{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(now)}})}, {"status", status}});
  // The status is written first, then the attempt: answers that name an older attempt are ignored.
  QM_ASSIGN(const auto written, client_.merge_patch(at, w.spec.ns.value(), kube::name_of(now), patch, "status"));
  Json more = Json::object();
  if (kube::annotation(now, words::kAttempt) != attempt) {
    more.set("metadata").set("annotations").set(words::kAttempt, attempt);
  }
  const bool wanted = now["spec"]["active"].is_null() || now["spec"]["active"].boolean();
  // An `active` value that is not handled yet is a request of a user. It is changed only where it is handled and
  // contradicts the decision.
  if (!w.inactive.empty() && wanted && w.spec_active != false) more.set("spec").set("active", false);
  if (w.inactive.empty() && !wanted && w.spec_active == false) more.set("spec").set("active", true);
  if (more.size() == 0) return {};
  more.set("metadata").set("resourceVersion", kube::resource_version_of(written));
  QM_TRY(client_.merge_patch(at, w.spec.ns.value(), kube::name_of(now), more));
  return {};
}

int WorkloadMirror::write() {
  const auto at = informer_.resource();
  if (!mailbox_.host().ready() || at.plural.empty()) return 0;
  int count = 0;
  for (auto& target : targets()) {
    const auto& spec = target.workload.spec;
    if (watch_.quota != nullptr && !watch_.quota->of(spec.ns.value()).ours) continue;
    const auto done = put(at, target);
    // There was a concurrent write, or the object is gone: the next round retries.
    if (!done && (done.error().code == Code::kAborted || done.error().code == Code::kFailedPrecondition ||
                  done.error().code == Code::kNotFound))
      continue;
    if (!done) {
      if (std::exchange(complained_, done.error().message) != done.error().message) {
        log::warn("workload object not written",
                  {{"object", fmt::format("{}/{}", spec.ns, spec.name)}, {"error", done.error().to_string()}});
      }
      continue;
    }
    written_[spec.uid] = {std::move(target.print), spec.pod_sets};
    ++count;
  }
  return count;
}

}  // namespace qm::admission
