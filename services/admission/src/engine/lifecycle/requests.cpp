#include "lifecycle/requests.hpp"

#include "state/cause.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>

namespace qm::admission {

void Requests::on(const Submit& c) {
  const std::string job_name = fmt::format("{}/{}", c.ns, c.name);
  if (const Workload* w = state_.find(c.ns, c.name); w != nullptr && !w->job_deleted) {
    return state_.step.reply(
        fail({Code::kAlreadyExists, fmt::format("job {} exists and is {}", job_name, name_of(w->phase)),
              "metadata.name", "choose another name, or cancel that job first"}));
  }
  if (const auto* s = state_.tables.submissions.find({c.ns, c.name}); s != nullptr && !s->failed) {
    return state_.step.reply(fail({Code::kAlreadyExists, fmt::format("job {} is being created", job_name),
                                   "metadata.name", "choose another name"}));
  }
  Spec asked;
  asked.ns = c.ns;
  asked.queue = c.queue;
  asked.priority_class = c.priority_class;
  const auto where = resolve_queue(state_, asked);
  if (where.queue.empty() && where.obstacle && where.obstacle->code != "QueueStopped") {
    return state_.step.reply(fail({Code::kNotFound, where.obstacle->message,
                                   fmt::format("metadata.labels[{}]", words::kQueueLabel), where.obstacle->remedy}));
  }
  if (!priority_of(state_.tables, asked)) {
    auto cause = unknown_priority(c.priority_class);
    return state_.step.reply(fail({Code::kNotFound, std::move(cause.message), {}, std::move(cause.remedy)}));
  }
  Submission row{c.ns,       c.name, c.queue, c.team, fmt::format("job.create/{}/{}", job_name, micros(state_.now)),
                 state_.now, false,  {}};
  Intent intent{"job.create", row.intent, job_name, {}, c.job};
  intent.workload.spec.ns = c.ns;
  intent.workload.spec.name = c.name;
  state_.step.out.intents.push_back(std::move(intent));
  state_.tables.submissions.insert({c.ns, c.name}, std::move(row));
  state_.submissions_end = std::min(state_.submissions_end, state_.now + state_.options.retention);
  state_.step.reply(SubmitReply{c.ns, c.name});
}

void Requests::on(const Cancel& c) {
  const Workload* w = c.uid.empty() ? state_.find(c.ns, c.name) : state_.tables.workloads.find(c.uid);
  if (w == nullptr) {
    if (const auto* s = state_.tables.submissions.find({c.ns, c.name}); s != nullptr) {
      const auto why = s->failed ? "was not created: " + s->error : "is still being created";
      const auto* remedy =
          s->failed ? "nothing is left to cancel; correct it and submit it again" : "cancel it again in a few seconds";
      return state_.step.reply(
          fail({Code::kFailedPrecondition, fmt::format("job {}/{} {}", c.ns, c.name, why), {}, remedy}));
    }
    return state_.step.reply(fail({Code::kNotFound,
                                   c.uid.empty() ? fmt::format("workload {}/{} is not known", c.ns, c.name)
                                                 : fmt::format("no workload has the uid {}", c.uid),
                                   c.uid.empty() ? "name" : "uid", "list the workloads of the namespace"}));
  }
  const WorkloadUid uid = w->spec.uid;
  if (w->phase == Phase::kFinished) {
    return state_.step.reply(fail({Code::kFailedPrecondition,
                                   fmt::format("workload {}/{} has finished", w->spec.ns, w->spec.name),
                                   {},
                                   "delete its job if it is no longer wanted"}));
  }
  if (w->phase == Phase::kCancelled) return state_.step.reply(CancelReply{w->phase});
  if (!w->cancelled) {
    const std::string why = c.reason.empty() ? "Cancelled" : c.reason;
    rows_.update(uid, [&](Workload& row) {
      row.cancelled = true;
      row.except([&](Exceptions& e) { e.cancel_reason = why; });
    });
    if (w->phase == Phase::kAdmitted) {
      transitions_.evict(uid, "Cancelled", why, state_.now + state_.options.eviction_grace);
    } else if (w->phase != Phase::kEvicting) {
      transitions_.cancel_now(uid, why);
    }
    if (!w->job_deleted) rows_.add_intent("job.delete", uid);
  }
  state_.step.reply(CancelReply{w->phase});
}

void Requests::on(const IntentOutcome& c) {
  if (c.kind == "job.create") {
    const auto slash = c.subject.find('/');
    const std::pair key{Namespace(c.subject.substr(0, slash)), c.subject.substr(slash + 1)};
    const auto* s = state_.tables.submissions.find(key);
    if (s == nullptr || s->intent != c.id || c.ok) return;
    auto& row = state_.tables.submissions.edit(key);
    row.failed = true;
    row.error = c.error;
    return;
  }
  const WorkloadUid uid(c.subject);
  const Workload* w = state_.tables.workloads.find(uid);
  if (w == nullptr) {
    ++state_.counters.unknown;
    return;
  }
  rows_.update(uid, [&](Workload& row) { row.open_intents = std::max(0, row.open_intents - 1); });
  if (w->ended()) return;
  if (c.complete || c.failed) return transitions_.finish(uid, c.complete);
  if (c.kind == "job.suspend" && c.quiet && w->external_scheduler && w->phase == Phase::kEvicting &&
      c.attempt == w->attempt) {
    return transitions_.pods_deleted(uid);
  }
  if (c.ok || c.attempt != w->attempt) return;
  if (c.kind == "job.unsuspend" && w->phase == Phase::kAdmitted) {
    transitions_.evict(uid, "StartFailed", c.error, state_.now + state_.options.eviction_grace);
  }
}

void Requests::expire_submissions() {
  if (state_.submissions_end > state_.now) return;
  std::vector<std::pair<Namespace, std::string>> old;
  state_.submissions_end = Instant::max();
  for (const auto& [key, s] : state_.tables.submissions) {
    const Instant end = s.at + state_.options.retention;
    end <= state_.now ? old.push_back(key) : (void)(state_.submissions_end = std::min(state_.submissions_end, end));
  }
  for (const auto& key : old) state_.tables.submissions.erase(key);
}

}  // namespace qm::admission
