#include "lifecycle/placement_answers.hpp"

#include <algorithm>

namespace qm::admission {

void PlacementAnswers::on(const PlacementUpdated& c) {
  catch_up(c);
  const Workload* w = state_.current_attempt(c.uid, c.attempt);
  if (w == nullptr) return;
  const bool repeated = w->answer == c.state;
  rows_.update(c.uid, [&](Workload& row) {
    row.answer = c.state;
    row.reservation = c.reservation;
    row.short_reason = c.state == Answer::kShort ? c.reason : "";
  });
  switch (w->phase) {
    case Phase::kQuotaReserved:
      if (w->gated) break;  // placement has no request yet
      if (c.state == Answer::kReserved || c.state == Answer::kBound) {
        // A reservation that has expired by now does not admit; the request is published again in time.
        const bool expired = c.expires != Instant{} && c.expires <= state_.now;
        rows_.update(c.uid, [&](Workload& row) {
          row.wait_deadline = Instant{};
          row.reserved_until = c.expires;
          if (expired) row.answer = Answer::kNone;
        });
        if (!expired) starts_.on_reserved(c.uid);
      } else if (c.state == Answer::kShort && !repeated) {
        const Instant until =
            std::max({w->promised_until, state_.now + state_.options.short_grace, victims_deadline(state_.tables, *w)});
        rows_.update(c.uid, [&](Workload& row) { row.wait_deadline = until; });
      } else if (c.state == Answer::kExpired || c.state == Answer::kReleased) {
        // It ended before its answer was handled, or in lost commits; placement answers each attempt once.
        transitions_.release(c.uid, c.state == Answer::kExpired ? "ReservationExpired" : "AttemptReleased",
                             Duration{0});
      }
      break;
    case Phase::kAdmitted:
      if (c.state == Answer::kExpired) {
        transitions_.evict(c.uid, "ReservationExpired", "the reservation ended before every pod was bound",
                           state_.now + state_.options.eviction_grace);
      } else if (c.state == Answer::kReleased) {
        // Usually the job has just ended, and its event follows.
        rows_.update(c.uid, [&](Workload& row) { row.wait_deadline = state_.now + state_.options.pods_gone_grace; });
      } else if (c.state == Answer::kBound && !repeated) {
        state_.step.out.events.push_back({Event::What::kBound, *w, state_.now});
      }
      break;
    case Phase::kEvicting:
      if (c.state == Answer::kReleased) transitions_.pods_deleted(c.uid);
      break;
    case Phase::kPending:
    case Phase::kRejected:
    case Phase::kFinished:
    case Phase::kCancelled:
      break;
  }
}

/// Placement knows a later attempt, or has answered one that is pending here: the database lost the commits in which it
/// began. That attempt ends, with its pods in the cluster, and the next attempt has a greater number.
void PlacementAnswers::catch_up(const PlacementUpdated& c) {
  const WorkloadUid uid = c.uid;
  const Workload* w = state_.tables.workloads.find(uid);
  if (w == nullptr || w->ended() || c.attempt < w->attempt) return;
  const bool waits = w->phase == Phase::kPending || w->phase == Phase::kRejected;
  if (c.attempt == w->attempt && (!waits || c.state == Answer::kNone || c.state == Answer::kShort)) return;
  rows_.update(uid, [&](Workload& row) { row.attempt = c.attempt; });
  switch (w->phase) {
    case Phase::kPending:
    case Phase::kRejected:
      rows_.update(uid, [&](Workload& row) {
        ++row.attempt;
        row.answer = Answer::kNone;
      });
      rows_.publish(w->phase == Phase::kPending ? Event::What::kUpdated : Event::What::kRejected, uid);
      break;
    case Phase::kQuotaReserved:
      transitions_.release(uid, "AttemptLost", Duration{0});
      break;
    case Phase::kAdmitted:
      transitions_.evict(uid, "AttemptLost",
                         fmt::format("attempt {} had started in commits that the database lost", c.attempt),
                         state_.now + state_.options.eviction_grace);
      break;
    case Phase::kEvicting:
      rows_.publish(Event::What::kEvicting, uid);
      break;
    case Phase::kFinished:
    case Phase::kCancelled:
      break;
  }
}

void PlacementAnswers::on(const PromiseUpdated& c) {
  const Workload* w = state_.tables.workloads.find(c.uid);
  if (w == nullptr) {
    ++state_.counters.unknown;
    return;
  }
  // A promise is for a shape on the demand list, which may be of an earlier attempt of the same wait.
  const bool waits = w->phase == Phase::kPending || w->phase == Phase::kQuotaReserved;
  if (!waits || c.attempt > w->attempt || c.attempt < w->attempt - w->short_streak) {
    ++state_.counters.stale;
    return;
  }
  const bool stands = !c.withdrawn && c.ready_by > state_.now;
  rows_.update(c.uid, [&](Workload& row) {
    row.promised_attempt = c.attempt;
    row.promised_until = stands ? c.ready_by : Instant{};
    if (row.phase == Phase::kPending && stands && !row.patient) row.not_before = Instant{};
    if (row.phase == Phase::kQuotaReserved && row.answer == Answer::kShort) {
      row.wait_deadline = std::max(stands ? c.ready_by : state_.now, victims_deadline(state_.tables, row));
    }
  });
}

void PlacementAnswers::on(const CheckpointUpdated& c) {
  const Workload* w = state_.tables.workloads.find(c.uid);
  if (w == nullptr || w->ended() || c.uri.empty()) return;
  if (c.attempt > w->attempt || c.uri == w->resume_uri) return;
  // Events of different orders may arrive in any order: an older checkpoint does not replace a newer one.
  if (std::pair(c.attempt, c.number) < std::pair(w->resume_attempt, w->resume_number)) return;
  rows_.update(c.uid, [&](Workload& row) {
    row.resume_uri = c.uri;
    row.resume_attempt = c.attempt;
    row.resume_number = c.number;
    if (c.attempt == row.attempt) row.saved = state_.now;
  });
}

void PlacementAnswers::on(const RequeueListUpdated& c) {
  for (const auto& [uid, attempt] : c.items) {
    const Workload* w = state_.tables.workloads.find(uid);
    if (w == nullptr || w->attempt != attempt || w->phase != Phase::kPending) continue;
    if (w->not_before != Instant{} && !w->patient) rows_.update(uid, [](Workload& row) { row.not_before = Instant{}; });
  }
}

void PlacementAnswers::on(const EvictionRequested& c) {
  // Records the checkpoint even if the attempt that saved it is over.
  on(CheckpointUpdated{c.uid, c.attempt, c.resume_uri, c.checkpoint_number});
  const Workload* w = state_.current_attempt(c.uid, c.attempt);
  if (w == nullptr) return;
  if (w->phase == Phase::kEvicting) {
    if (c.deadline == Instant{} || c.deadline >= w->eviction->deadline) return;
    rows_.update(c.uid, [&](Workload& row) { row.eviction.edit().deadline = c.deadline; });
    rows_.publish(Event::What::kRepeated, c.uid);
    return;
  }
  transitions_.evict(c.uid, c.reason, c.message.empty() ? fmt::format("requested by {}", c.from) : c.message,
                     c.deadline == Instant{} ? state_.now + state_.options.eviction_grace : c.deadline);
}

}  // namespace qm::admission
