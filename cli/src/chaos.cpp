// Drills on a simulated fleet: a node loses its spot capacity or fails, and the workloads on it must recover.
//
//   before   workloads that have not ended, and the nodes of each
//   fault    posted to the controls of the fleet
//   after    each workload of the node runs in a later attempt, or has finished; no other workload is gone
//   figures  when each was queued again and ran again, and the GPU time from its last checkpoint until then
#include "commands.hpp"
#include "qm/base/json.hpp"
#include "qm/calendar/zone.hpp"
#include "qm/http/http.hpp"
#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <set>
#include <thread>

namespace qm::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 200ms;

struct Watched {
  std::string name, uid;
  std::int32_t attempt = 0;
  bool saves = false;
  std::set<std::string> nodes;
  std::int64_t gpu_milli = 0;
  Instant started{}, saved{};  ///< of its last pod; of its last checkpoint in this attempt
};

/// One workload of the node that was struck.
struct Recovery {
  std::string name;
  std::int32_t before = 0, after = 0;
  bool saves = false, recovered = false;
  std::string resume_uri;
  std::int64_t gpu_milli = 0;
  Instant saved{};  ///< the work since then is lost: the last checkpoint, or the start
  std::optional<Instant> queued, running;

  /// GPU time from the last checkpoint until it runs again, or until `now`. None for work that finished.
  [[nodiscard]] double lost_gpu_hours(Instant now) const {
    if (recovered && !running) return 0;
    const Duration lost = std::max(running.value_or(now) - saved, Duration(0));
    return static_cast<double>(gpu_milli) / 1000 * std::chrono::duration<double, std::ratio<3600>>(lost).count();
  }
};

struct Drill {
  std::string node;
  Instant at{}, recovered_at{};
  std::vector<Recovery> struck;
  std::vector<std::string> lost;  ///< rows of queues that are gone
  [[nodiscard]] bool ok() const {
    return lost.empty() && std::ranges::all_of(struck, [](const Recovery& one) { return one.recovered; });
  }
  [[nodiscard]] double lost_gpu_hours() const {
    double out = 0;
    for (const Recovery& one : struck) out += one.lost_gpu_hours(recovered_at);
    return out;
  }
  [[nodiscard]] double seconds_until(Instant then) const { return std::chrono::duration<double>(then - at).count(); }
};

/// When the last pod was bound.
Instant bound_at(const pb::AssignmentEvent& assignment) {
  std::int64_t out = 0;
  for (const auto& member : assignment.members()) out = std::max(out, member.bound_us());
  return from_micros(out);
}

bool has_ended(const pb::WorkloadEvent& state) {
  return state.phase() == pb::FINISHED || state.phase() == pb::CANCELLED || state.phase() == pb::REJECTED;
}

class Fleet {
 public:
  explicit Fleet(const std::string& url) : client_(url) {}
  Result<Json> post(const std::string& path, const Json& body) {
    http::Request request;
    request.method = "POST";
    request.target = path;
    request.body = body.dump();
    return answer_of(request);
  }
  Result<Json> state() {
    http::Request request;
    request.target = "/fleet/state";
    return answer_of(request);
  }

 private:
  Result<Json> answer_of(const http::Request& request) {
    QM_ASSIGN(const auto answer, client_.send(request));
    const auto body = Json::parse(answer.body.empty() ? "{}" : answer.body);
    if (answer.status < 300 && body) return *body;
    return fail(Error{Code::kFailedPrecondition,
                      fmt::format("the fleet answers {} with {}: {}", request.target, answer.status,
                                  body ? (*body)["error"].string() : answer.body),
                      body ? (*body)["field"].string() : "", body ? (*body)["remedy"].string() : ""});
  }
  http::Client client_;
};

Result<std::vector<Watched>> watched(Context& context) {
  QM_ASSIGN(const auto all, context.client.workloads({}));
  std::vector<Watched> out;
  for (const auto& workload : all.workloads()) {
    const auto& state = workload.state();
    if (has_ended(state)) continue;
    Watched one{state.spec().namespace_() + "/" + state.spec().name(),
                state.spec().uid(),
                state.attempt(),
                state.spec().checkpoints(),
                {},
                0,
                {},
                from_micros(state.saved_us())};
    if (state.phase() == pb::ADMITTED) {
      pb::GetAssignmentRequest request;
      request.set_uid(one.uid);
      const auto assignment = context.client.assignment(request);
      if (!assignment && assignment.error().code != Code::kNotFound) return fail(assignment.error());
      if (assignment) {
        one.started = bound_at(assignment->state());
        for (const auto& member : assignment->state().members()) {
          one.nodes.insert(member.node());
          for (const auto& device : member.devices()) one.gpu_milli += device.milli();
        }
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

/// Updates what is known of the workloads that were struck; true once all have recovered.
Result<bool> look(Context& context, const std::vector<Watched>& before, Drill& drill) {
  QM_ASSIGN(const auto all, context.client.workloads({}));
  std::map<std::string, pb::WorkloadEvent> now;
  for (const auto& workload : all.workloads())
    now[workload.state().spec().namespace_() + "/" + workload.state().spec().name()] = workload.state();
  drill.lost.clear();
  for (const Watched& one : before) {
    if (!now.contains(one.name)) drill.lost.push_back(one.name);
  }
  for (Recovery& one : drill.struck) {
    const auto at = now.find(one.name);
    if (at == now.end()) continue;
    const auto& state = at->second;
    one.after = state.attempt();
    one.resume_uri = state.resume_uri();
    // A notice leaves time for a checkpoint.
    if (one.after == one.before) one.saved = std::max(one.saved, from_micros(state.saved_us()));
    if (one.after > one.before && !one.queued) one.queued = from_micros(state.queued_us());
    one.recovered = state.phase() == pb::FINISHED && state.succeeded();
    if (one.recovered || one.after <= one.before || state.phase() != pb::ADMITTED) continue;
    pb::GetAssignmentRequest request;
    request.set_uid(state.spec().uid());
    const auto assignment = context.client.assignment(request);
    one.recovered =
        assignment && assignment->state().attempt() == one.after && assignment->state().state() == pb::BOUND;
    if (one.recovered && !one.running) one.running = bound_at(assignment->state());
  }
  return drill.ok();
}

Result<Drill> strike(Context& context, Fleet& fleet, const ChaosVerb& verb) {
  QM_ASSIGN(const auto before, watched(context));
  Json fault = Json::object({{"kind", verb.what == "node-kill" ? "node_lost" : "spot_reclaim"}});
  if (verb.node.empty()) {
    fault.set("random", true);
  } else {
    fault.set("node", verb.node);
  }
  if (verb.what == "spot-interrupt")
    fault.set("notice_s", std::chrono::duration_cast<std::chrono::seconds>(verb.notice).count());
  Drill drill;
  drill.at = context.clock.now();
  QM_ASSIGN(const Json struck, fleet.post("/fleet/faults", fault));
  drill.node = verb.what == "node-kill" ? struck["node"].string() : struck["nodes"].at(0).string();
  if (drill.node.empty()) {
    return fail(Error{Code::kNotFound,
                      fmt::format("{} is no running spot node of the fleet without a notice", verb.node), "--node",
                      "qmctl nodes shows the nodes and their capacity type"});
  }
  for (const Watched& one : before) {
    if (!one.nodes.contains(drill.node)) continue;
    Recovery hit{one.name, one.attempt, one.attempt, one.saves, false, {}, one.gpu_milli};
    hit.saved = std::max(one.started, one.saved);
    drill.struck.push_back(std::move(hit));
  }
  const Instant until = drill.at + verb.within;
  while (true) {
    QM_ASSIGN(const bool done, look(context, before, drill));
    drill.recovered_at = context.clock.now();
    if (done || drill.recovered_at >= until) return drill;
    std::this_thread::sleep_for(kPoll);
  }
}

/// Waits for an instant of the simulation, with the clock at `speed` until then.
Status wait_until(Context& context, Fleet& fleet, Instant at, double speed) {
  QM_ASSIGN(const Json state, fleet.state());
  if (speed > 0) QM_TRY(fleet.post("/fleet/clock", Json::object({{"factor", speed}})));
  while (context.clock.now() < at) std::this_thread::sleep_for(20ms);
  if (speed > 0) QM_TRY(fleet.post("/fleet/clock", Json::object({{"factor", state["configured_factor"].number()}})));
  return {};
}

Json to_json(const Drill& drill, const std::string& what) {
  Json struck = Json::array(), lost = Json::array();
  for (const Recovery& one : drill.struck) {
    Json row = Json::object({{"workload", one.name},
                             {"attempt_before", one.before},
                             {"attempt_after", one.after},
                             {"checkpoints", one.saves},
                             {"resume_uri", one.resume_uri},
                             {"recovered", one.recovered},
                             {"gpus", static_cast<double>(one.gpu_milli) / 1000},
                             {"lost_gpu_hours", one.lost_gpu_hours(drill.recovered_at)}});
    if (one.queued) row.set("requeued_s", drill.seconds_until(*one.queued));
    if (one.running) row.set("running_s", drill.seconds_until(*one.running));
    struck.push_back(std::move(row));
  }
  for (const auto& name : drill.lost) lost.push_back(name);
  return Json::object({{"drill", what},
                       {"node", drill.node},
                       {"at", to_rfc3339(drill.at)},
                       {"seconds", drill.seconds_until(drill.recovered_at)},
                       {"lost_gpu_hours", drill.lost_gpu_hours()},
                       {"workloads", std::move(struck)},
                       {"lost", std::move(lost)},
                       {"ok", drill.ok()}});
}

void print(Context& context, const Drill& drill, const std::string& what) {
  Table table({{"WORKLOAD"},
               {"ATTEMPT", true},
               {"NOW", true},
               {"RESUMES-FROM"},
               {"RECOVERED"},
               {"REQUEUED", true},
               {"RUNNING", true},
               {"GPU-HOURS-LOST", true}});
  const auto after = [&](const std::optional<Instant>& then) {
    return then ? fmt::format("{:.0f}s", drill.seconds_until(*then)) : std::string();
  };
  for (const Recovery& one : drill.struck)
    table.row({one.name, std::to_string(one.before), std::to_string(one.after), one.resume_uri,
               one.recovered ? "yes" : "no", after(one.queued), after(one.running),
               fmt::format("{:.2f}", one.lost_gpu_hours(drill.recovered_at))});
  context.out << fmt::format(
      "{} of {} at {}: {} workload(s) on it, {} lost, {} after {:.0f} s, {:.2f} GPU-hours lost\n", what, drill.node,
      to_rfc3339(drill.at), drill.struck.size(), drill.lost.size(), drill.ok() ? "all recovered" : "not all recovered",
      drill.seconds_until(drill.recovered_at), drill.lost_gpu_hours());
  if (!drill.struck.empty()) context.out << table.text();
  for (const auto& name : drill.lost) context.out << fmt::format("lost: {}\n", name);
}

Status check_allowed(const Context& context, const ChaosVerb& verb, const std::string& url) {
  if (url.empty()) {
    return fail(Error{Code::kInvalid,
                      fmt::format("{} names no simulated fleet, and a drill destroys nodes", context.endpoints.file),
                      "fleet", "run it against ./qm up, or name the controls of a simulated fleet by --fleet URL"});
  }
  if (context.endpoints.clock == "system" && !verb.allow_real_time) {
    return fail(
        Error{Code::kInvalid,
              fmt::format("the suite of {} runs in real time: it may have workloads of users", context.endpoints.file),
              "clock", "use a suite on a simulated clock, or allow it by --allow-real-time"});
  }
  return {};
}

}  // namespace

Status run_verb(Context& context, const ChaosVerb& verb) {
  const std::string url = verb.fleet.empty() ? context.endpoints.fleet : verb.fleet;
  QM_TRY(check_allowed(context, verb, url));
  std::optional<calendar::Cron> cron;
  if (!verb.cron.empty()) {
    QM_ASSIGN(cron, calendar::Cron::parse(verb.cron));
  }
  QM_ASSIGN(const auto utc, calendar::Zone::load("UTC"));
  Fleet fleet(url);
  Json report = Json::array();
  bool ok = true;
  for (std::int64_t i = 0; i < (cron ? verb.times : 1); ++i) {
    if (cron) {
      const auto at = calendar::next(*cron, context.clock.now(), utc);
      if (!at)
        return fail(Error{Code::kInvalid, fmt::format("\"{}\" has no instant in five years", verb.cron), "--cron",
                          "write a line such as 0 10 * * FRI"});
      QM_TRY(wait_until(context, fleet, *at, verb.speed));
    }
    QM_ASSIGN(const Drill drill, strike(context, fleet, verb));
    ok = ok && drill.ok();
    report.push_back(to_json(drill, verb.what));
    if (!context.structured()) print(context, drill, verb.what);
  }
  if (context.structured()) context.out << report.pretty() << '\n';
  if (!verb.report.empty()) {
    std::ofstream out(verb.report);
    out << report.pretty() << '\n';
    if (!out.flush())
      return fail(Error{Code::kUnavailable, fmt::format("the report is not written to {}", verb.report), "--report",
                        "name a file that can be written"});
  }
  if (!ok) context.code = kFailed;
  return {};
}

}  // namespace qm::cli
