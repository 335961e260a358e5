#include "executors.hpp"

#include "qm/kube/client.hpp"
#include "qm/placement/shell.hpp"
#include "state/admission_state.pb.h"

namespace qm::sim {
namespace {

namespace state = quartermaster::admission;

state::JobOutcome done(const state::JobIntent& intent) {
  state::JobOutcome out;
  out.set_subject(intent.uid().empty() ? intent.namespace_() + "/" + intent.name() : intent.uid());
  out.set_attempt(intent.attempt());
  out.set_ok(true);
  return out;
}

int attempt_of(const World::Job& job) {
  const std::string text = kube::annotation(job.body["spec"]["template"], words::kAttempt);
  return text.empty() ? 0 : std::stoi(text);
}

Json suspend_patch(bool suspend) { return Json::object({{"spec", Json::object({{"suspend", suspend}})}}); }

Json template_patch(const state::JobIntent& intent) {
  const Json annotations =
      Json::object({{std::string(words::kAttempt), std::to_string(intent.attempt())},
                    {std::string(words::kReservation), intent.reservation()},
                    {std::string(words::kResume), intent.resume_uri().empty() ? Json() : Json(intent.resume_uri())}});
  Json selector = Json::object();
  for (const auto& [key, value] : intent.node_selector()) selector.set(key, value);
  Json patch = Json::object({{"metadata", Json::object({{"annotations", annotations}})}});
  if (selector.size() > 0) patch.set("spec", Json::object({{"nodeSelector", selector}}));
  return Json::object({{"spec", Json::object({{"suspend", false}, {"template", patch}})}});
}

}  // namespace

Result<service::Outcome> WorldExecutor::execute(const store::IntentRow& intent) {
  if (random_.chance(outages_.away_per_mille)) return fail(Code::kUnavailable, "the other side is away");
  if (random_.chance(outages_.refused_per_mille)) {
    if (outages_.gives_up) return done(intent);
    switch (random_.between(0, 2)) {
      case 0:
        return fail(Code::kUnavailable, "403: forbidden");
      case 1:
        return fail(Code::kExhausted, "429: too many requests");
      default:
        return fail(Code::kUnavailable, "503: the server is shutting down");
    }
  }
  auto result = run(intent);
  world_.note(fmt::format("intent {}{}", intent.id, result ? "" : ": " + result.error().to_string()));
  if (random_.chance(outages_.answer_lost_per_mille)) return fail(Code::kUnavailable, "the answer is lost");
  return result;
}

Result<service::Outcome> JobExecutor::run(const store::IntentRow& intent) {
  state::JobIntent want;
  if (!want.ParseFromString(intent.payload)) return fail(Code::kInternal, "intent {} cannot be read", intent.id);
  auto out = sim::done(want);
  const auto ok = [&] { return service::Outcome{out.SerializeAsString()}; };
  if (intent.kind == "event.create") return ok();
  if (intent.kind == "job.create") {
    if (awaited && !awaited(want.namespace_(), want.name(), intent.id)) return ok();
    QM_ASSIGN(auto body, Json::parse(want.object()));
    if (const auto* there = world_.job_named(want.namespace_(), want.name()); there != nullptr) {
      if (there->intent != intent.id) return fail(Code::kAlreadyExists, "job {} exists", want.name());
      if (bug_ != Bug::kCreateTwice) return ok();
    }
    world_.create_job(std::move(body), intent.id);
    return ok();
  }
  auto it = world_.jobs.find(want.uid());
  if (it == world_.jobs.end() || it->second.deleting) return ok();
  const World::Job& job = it->second;
  if (intent.kind == "job.delete") {
    world_.delete_job(want.uid());
    return ok();
  }
  out.set_complete(job.complete);
  if (job.complete || attempt_of(job) > want.attempt()) return ok();
  const bool suspended = job.body["spec"]["suspend"].boolean();
  if (intent.kind == "job.suspend") {
    if (!suspended) world_.patch_job(want.uid(), suspend_patch(true));
    return ok();
  }
  if (intent.kind == "job.unsuspend") {
    if (!suspended) {
      if (attempt_of(job) == want.attempt()) return ok();
      world_.patch_job(want.uid(), suspend_patch(true));
      return fail(Code::kAborted, "job {} ran without being admitted", want.name());
    }
    world_.patch_job(want.uid(), template_patch(want));
    return ok();
  }
  return fail(Code::kUnimplemented, "nothing does {}", intent.kind);
}

service::Outcome JobExecutor::done(const store::IntentRow& intent) {
  state::JobIntent want;
  (void)want.ParseFromString(intent.payload);
  return {sim::done(want).SerializeAsString()};
}

service::Outcome JobExecutor::failed(const store::IntentRow& intent, const Error& error) {
  state::JobIntent want;
  state::JobOutcome out;
  if (want.ParseFromString(intent.payload)) out = sim::done(want);
  out.set_ok(false);
  out.set_error(error.to_string());
  return {out.SerializeAsString()};
}

Result<service::Outcome> PodExecutor::run(const store::IntentRow& intent) {
  QM_ASSIGN(const Json order, Json::parse(intent.payload));
  if (intent.kind == "pod.bind") {
    QM_TRY(world_.bind_pod(order["namespace"].string(), order["pod"].string(), order["pod_uid"].string(),
                           order["node"].string(), order["devices"].string()));
  } else if (intent.kind == "pod.delete") {
    world_.delete_pod(order["namespace"].string(), order["pod"].string(), order["pod_uid"].string(),
                      order["grace_s"].integer(-1));
  } else if (intent.kind == "node.cordon") {
    world_.cordon(order["node"].string(), order["causes"].string());
  } else if (intent.kind == "node.layout") {
    world_.label_layout(order["node"].string(), order["layout"].string());
  } else {
    return fail(Code::kUnimplemented, "nothing does {}", intent.kind);
  }
  return service::Outcome{placement::intent_outcome(order, nullptr).dump()};
}

service::Outcome PodExecutor::failed(const store::IntentRow& intent, const Error& error) {
  const auto order = Json::parse(intent.payload);
  return {placement::intent_outcome(order ? *order : Json(), &error).dump()};
}

Result<service::Outcome> CloudExecutor::run(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  const std::string claim = want["claim"].string();
  if (intent.kind == "instance.terminate") {
    if (!want["instance"].string().empty()) world_.terminate(want["instance"].string());
    return service::Outcome{Json::object({{"claim", claim}, {"error", ""}}).dump()};
  }
  if (intent.kind == "gang.launch") return launch_gang(want);
  if (intent.kind != "instance.launch") return fail(Code::kUnimplemented, "nothing does {}", intent.kind);
  Labels labels;
  for (const auto& [key, value] : want["labels"].members()) labels[key] = value.string();
  Json answer = Json::object({{"claim", claim}, {"instance", ""}, {"error", ""}});
  const auto launched = world_.launch(claim, want["pool"].string(), want["type"].string(), want["zone"].string(),
                                      want["spot"].boolean(), labels);
  if (!launched) return service::Outcome{answer.set("error", launched.error().message).dump()};
  return service::Outcome{answer.set("instance", *launched).dump()};
}

// All or none, as RunInstances: what came before a refusal is terminated.
Result<service::Outcome> CloudExecutor::launch_gang(const Json& want) {
  Labels labels;
  for (const auto& [key, value] : want["labels"].members()) labels[key] = value.string();
  Json members = Json::array();
  std::string refused;
  for (const Json& claim : want["claims"].items()) {
    const auto launched = world_.launch(claim.string(), want["pool"].string(), want["type"].string(),
                                        want["zone"].string(), want["spot"].boolean(), labels);
    if (!launched) refused = launched.error().message;
    members.push_back(Json::object({{"claim", claim.string()}, {"instance", launched ? *launched : std::string()}}));
  }
  if (refused.empty()) return service::Outcome{Json::object({{"error", ""}, {"members", std::move(members)}}).dump()};
  Json none = Json::array();
  for (const Json& member : members.items()) {
    if (!member["instance"].string().empty()) world_.terminate(member["instance"].string());
    none.push_back(Json::object({{"claim", member["claim"].string()}, {"instance", ""}}));
  }
  return service::Outcome{Json::object({{"error", refused}, {"members", std::move(none)}}).dump()};
}

service::Outcome CloudExecutor::failed(const store::IntentRow& intent, const Error& error) {
  Json members = Json::array();
  if (const auto want = Json::parse(intent.payload)) {
    for (const Json& claim : (*want)["claims"].items())
      members.push_back(Json::object({{"claim", claim.string()}, {"instance", ""}}));
  }
  return {Json::object(
              {{"claim", intent.key}, {"instance", ""}, {"error", error.to_string()}, {"members", std::move(members)}})
              .dump()};
}

}  // namespace qm::sim
