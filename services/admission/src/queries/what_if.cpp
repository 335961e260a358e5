// Decides the same rows twice, with a change and without.
#include "qm/admission/queries/what_if.hpp"

#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "queries/copied.hpp"
#include "queries/simulation.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// Maximum rounds of answers; after these the current state is used.
constexpr int kMostRounds = 64;

/// The assumed answers to decisions: placement fits each workload, and evicted pods terminate.
std::vector<Command> answers(const Engine& engine) {
  std::vector<Command> out;
  for (const auto& [uid, w] : engine.tables().workloads) {
    if (w.phase == Phase::kQuotaReserved && w.answer != Answer::kReserved) {
      out.emplace_back(PlacementUpdated{uid, w.attempt, Answer::kReserved, "supposed", {}, {}});
    } else if (w.phase == Phase::kEvicting && w.external_scheduler) {
      IntentOutcome gone{"job.suspend", {}, uid.value(), w.attempt};
      gone.quiet = true;
      out.emplace_back(std::move(gone));
    } else if (w.phase == Phase::kEvicting) {
      out.emplace_back(PlacementUpdated{uid, w.attempt, Answer::kReleased, {}, {}, {}});
    }
  }
  return out;
}

/// Decisions here are not published, so they are committed without undo.
Result<Output> decide(Engine& engine, std::vector<Command> batch, Instant now) {
  auto first = engine.step(batch, now);
  engine.commit();
  for (int round = 0; round < kMostRounds; ++round) {
    const auto next = answers(engine);
    if (next.empty()) break;
    (void)engine.step(next, now);
    engine.commit();
  }
  for (const auto& reply : first.replies) {
    if (!reply.result) return fail(reply.result.error());
  }
  return first;
}

bool runs(const Workload& w) { return w.phase == Phase::kAdmitted || w.phase == Phase::kQuotaReserved; }

}  // namespace

std::string_view name_of(Consequence::What what) {
  switch (what) {
    case Consequence::What::kAdmitted:
      return "admitted";
    case Consequence::What::kPreempted:
      return "displaced";
    case Consequence::What::kDelayed:
      return "delayed";
    case Consequence::What::kAdvanced:
      return "advanced";
    case Consequence::What::kWaits:
      return "waits";
  }
  return "";
}

namespace {

/// The workload of that name that has not ended; null if there is none.
const Workload* named(const Engine& engine, const Namespace& ns, const std::string& name) {
  const auto* w = engine.find(ns, name);
  return w == nullptr || w->ended() ? nullptr : w;
}

/// The change as commands. A Job with the name of an existing workload is that workload with another object.
Result<std::vector<Command>> commands_of(const Engine& engine, const HypotheticalChange& supposed) {
  std::vector<Command> out{Reconsider{}};
  for (const auto& gone : supposed.gone) {
    if (gone.kind != "Job" && gone.kind != "Workload") {
      out.emplace_back(gone);
      continue;
    }
    const auto* w = named(engine, gone.ns, gone.name);
    if (w == nullptr) {
      return fail({Code::kNotFound, fmt::format("workload {}/{} is not known, or has finished", gone.ns, gone.name),
                   "deleted", "list the workloads of the namespace"});
    }
    JobUpdated finished;
    finished.spec = w->spec;
    finished.complete = true;
    out.emplace_back(std::move(finished));
  }
  out.emplace_back(supposed.objects);
  for (auto job : supposed.jobs) {
    const auto* w = engine.find(job.spec.uid) == nullptr ? named(engine, job.spec.ns, job.spec.name) : nullptr;
    if (w != nullptr) {
      job.spec.uid = w->spec.uid;
      job.attempt = w->attempt;
      job.external_scheduler = w->external_scheduler;
    }
    out.emplace_back(std::move(job));
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Engine>> played(const Tables& rows, const Options& options, const HypotheticalChange& supposed,
                                       Instant now) {
  auto engine = std::make_unique<Engine>(options);
  load_copied(*engine, rows, false, now);
  QM_ASSIGN(auto change, commands_of(*engine, supposed));
  QM_TRY(decide(*engine, std::move(change), now));
  return engine;
}

std::vector<Consequence> differences(const Engine& without, const Engine& with, Instant now) {
  std::vector<Consequence> out;
  for (const auto& [uid, after] : with.tables().workloads) {
    if (after.ended()) continue;  // the change itself
    const auto* before = without.find(uid);
    Consequence c;
    c.workload = after;
    c.after = queue_position(with.state(), after);
    if (before == nullptr) {
      c.what = runs(after) ? Consequence::What::kAdmitted : Consequence::What::kWaits;
      if (!runs(after)) c.why = explain(with.state(), after, now).summary;
      out.push_back(std::move(c));
      continue;
    }
    c.before = queue_position(without.state(), *before);
    if (runs(after) != runs(*before)) {
      c.what = runs(after) ? Consequence::What::kAdmitted : Consequence::What::kPreempted;
      if (!runs(after)) c.why = explain(with.state(), after, now).summary;
    } else if (runs(after) || c.before == c.after) {
      continue;
    } else {
      c.what = c.after > c.before ? Consequence::What::kDelayed : Consequence::What::kAdvanced;
    }
    out.push_back(std::move(c));
  }
  std::ranges::sort(out, {}, [](const Consequence& c) {
    return std::tuple(c.what, c.workload.spec.ns, c.workload.spec.name, c.workload.spec.uid);
  });
  return out;
}

Result<std::vector<Consequence>> what_if(const Tables& rows, const Options& options, const HypotheticalChange& supposed,
                                         Instant now) {
  QM_ASSIGN(const auto without, played(rows, options, {}, now));
  QM_ASSIGN(const auto with, played(rows, options, supposed, now));
  return differences(*without, *with, now);
}

}  // namespace qm::admission
