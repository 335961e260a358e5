#include "report.hpp"

#include "qm/model/money.hpp"
#include "qm/rpc/channel.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>

namespace qm::demo {
namespace pb = quartermaster::v1;

namespace {

Json lines_of(const SuiteView& view) {
  Json lines = Json::array();
  for (const auto& line : view.statement) {
    lines.push_back(Json::object({{"team", line.team}, {"nano_usd", line.nano_usd}, {"gpu_micros", line.gpu_micros}}));
  }
  return lines;
}

Json pace_json(const std::optional<witness::Pace>& pace) {
  if (!pace) return {};
  return Json::object({{"pods", pace->n},
                       {"seconds", pace->seconds},
                       {"per_second", pace->per_second},
                       {"middle_per_second", pace->middle},
                       {"best_10s_per_second", pace->best}});
}

void print_pace(const char* what, const std::optional<witness::Pace>& pace) {
  if (!pace) return;
  std::printf("%-11s %ld pods in %.0f s: %.1f /s, middle four fifths %.1f /s, best ten seconds %.1f /s\n", what,
              pace->n, pace->seconds, pace->per_second, pace->middle, pace->best);
}

}  // namespace

Instant last_closed_hour(Instant end) { return std::chrono::floor<std::chrono::hours>(end - std::chrono::minutes(10)); }

Result<SuiteView> statement_until(Stack& stack, Instant as_of) {
  auto stub = pb::Cost::NewStub(rpc::channel_to(stack.grpc("cost")));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  pb::GetStatementRequest request;
  request.set_as_of_us(micros(as_of));
  pb::Statement answer;
  const auto status = stub->GetStatement(&context, request, &answer);
  if (!status.ok()) return fail(Code::kInternal, "no statement: {}", status.error_message());
  SuiteView view;
  for (const auto& line : answer.lines()) view.statement.push_back({line.team(), line.nano_usd(), line.gpu_micros()});
  view.total_nano = answer.total_nano_usd();
  view.provider_nano = answer.provider_nano_usd();
  view.imbalance_nano = answer.imbalance_nano_usd();
  return view;
}

Result<SuiteView> ask_suite(Stack& stack, Instant as_of) {
  QM_ASSIGN(SuiteView view, statement_until(stack, as_of));
  auto stub = pb::Admission::NewStub(rpc::channel_to(stack.grpc("admission")));
  pb::ListWorkloadsRequest request;
  request.set_page_size(500);
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    pb::ListWorkloadsResponse page;
    const auto status = stub->List(&context, request, &page);
    if (!status.ok()) return fail(Code::kInternal, "workloads cannot be listed: {}", status.error_message());
    for (const auto& w : page.workloads()) {
      const auto phase = w.state().phase();
      if (phase == pb::FINISHED || phase == pb::CANCELLED) continue;
      view.known.insert(w.state().spec().namespace_() + "/" + w.state().spec().name());
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return view;
}

Status wait_quiet(Stack& stack, std::chrono::seconds timeout) {
  std::string busy;
  int quiet = 0;
  std::int64_t looks = -1;  // the autoscaler's polls of its instances, before the first round
  const bool done = testing::wait_until(
      [&] {
        busy.clear();
        for (const auto& service : Stack::services()) {
          auto state = stack.debug_state(service);
          if (!state) {
            busy = service + " does not answer";
            break;
          }
          // The last launch or stop is known after a complete poll: one in progress does not count.
          if (service == "autoscaler") {
            const auto now = (*state)["cloud_looks"].integer();
            if (looks < 0) looks = now;
            if (now < looks + 2) busy = "the autoscaler has not listed its instances again";
          }
          const Json& host = (*state)["host"];
          for (const char* counter : {"outbox_backlog", "mailbox", "bus_lag", "open_intents"}) {
            if (host[counter].integer() > 0)
              busy = fmt::format("{} has {} {}", service, host[counter].integer(), counter);
          }
        }
        quiet = busy.empty() ? quiet + 1 : 0;
        return quiet >= 5;  // a message may be between two services at one poll
      },
      timeout);
  if (!done) return fail(Code::kDeadlineExceeded, "the suite does not become idle: {}", busy);
  return {};
}

Status judge(Stack& stack, const std::set<std::string>& acked, const std::string& text, Between window,
             Outcome& outcome, std::chrono::seconds gang_grace) {
  QM_ASSIGN(const auto history, checker::read_history(text, micros(window.end)));
  QM_ASSIGN(const auto prices, checker::read_prices(testing::read_file("fleet/prices.csv")));
  checker::Inputs inputs;
  inputs.acked = acked;
  inputs.known = outcome.suite.known;
  inputs.window_start_us = micros(window.start);
  inputs.gang_grace_us = gang_grace / std::chrono::microseconds(1);
  outcome.judged = checker::check(history, prices, inputs);
  outcome.bill_matches = outcome.suite.total_nano == outcome.judged.provider_nano_usd;
  outcome.closed.until = last_closed_hour(window.end);
  QM_ASSIGN(outcome.closed.suite, statement_until(stack, outcome.closed.until));
  QM_ASSIGN(const auto closed, checker::read_history(text, micros(outcome.closed.until)));
  outcome.closed.provider_nano_usd = checker::check(closed, prices, {}).provider_nano_usd;
  for (const auto& name : stack.processes()) outcome.peak_mib[name] = stack.peak_mib(name);
  return {};
}

void judge_interruption(Outcome& outcome) {
  constexpr double kMostShare = 0.1;
  const auto at = outcome.judged.interrupted.find("spot");
  if (at == outcome.judged.interrupted.end()) {
    outcome.troubles.push_back("no attempt was interrupted by the loss of spot capacity");
  } else if (const auto& of = at->second; of.lost_gpu_hours >= kMostShare * of.from_zero_gpu_hours) {
    outcome.troubles.push_back(fmt::format("{} interruptions lost {:.2f} GPU-hours, and restarts from zero {:.2f}",
                                           of.attempts, of.lost_gpu_hours, of.from_zero_gpu_hours));
  }
}

void note_faults(const FaultPlan& faults, Outcome& outcome) {
  outcome.kills = static_cast<std::int64_t>(faults.kills());
  outcome.takeovers_ms = faults.takeovers();
  for (const auto& f : faults.failures()) outcome.troubles.push_back(f);
}

bool Outcome::ok() const {
  return judged.violations.empty() && bill_matches && closed.suite.total_nano == closed.provider_nano_usd &&
         suite.imbalance_nano == 0 && troubles.empty();
}

Json Outcome::to_json() const {
  Json out = judged.to_json();
  Json memory = Json::object(), trouble = Json::array();
  for (const auto& [name, mib] : peak_mib) memory.set(name, mib);
  for (const auto& t : troubles) trouble.push_back(t);
  Json takeover = Json::array();
  for (const auto ms : takeovers_ms) takeover.push_back(ms);
  out.set("chargeback", lines_of(suite))
      .set("chargeback_total_nano_usd", suite.total_nano)
      .set("ledger_imbalance_nano", suite.imbalance_nano)
      .set("bill_difference_nano", suite.total_nano - judged.provider_nano_usd)
      .set("closed", Json::object({{"until", to_rfc3339(closed.until)},
                                   {"until_us", micros(closed.until)},
                                   {"chargeback", lines_of(closed.suite)},
                                   {"total_nano_usd", closed.suite.total_nano},
                                   {"provider_nano_usd", closed.provider_nano_usd}}))
      .set("peak_memory_mib", std::move(memory))
      .set("pace", Json::object({{"admitted", pace_json(admitted)}, {"bound", pace_json(bound)}}))
      .set("kills", kills)
      .set("takeover_ms", std::move(takeover))
      .set("wall_s", wall_s)
      .set("troubles", std::move(trouble))
      .set("ok", ok());
  return out;
}

void Outcome::print() const {
  const auto& j = judged;
  std::printf(
      "\nJobs        %ld acknowledged, %ld finished, %ld running, %ld waiting at the end; lost %ld, doubled %ld\n",
      j.submitted, j.finished + j.failed, j.running, j.waiting, j.lost, j.doubled);
  std::printf("GPUs        %.1f %% used, peak %.1f %%; double-booked %ld, partial gangs %ld\n", 100 * j.utilization,
              100 * j.peak_utilization, j.double_booked, j.partial_gangs);
  print_pace("Admitted", admitted);
  print_pace("Bound", bound);
  std::printf("Turnaround  device free to next pod running: p50 %.0f s, p99 %.0f s (%ld)\n", j.turnaround.p50,
              j.turnaround.p99, j.turnaround.n);
  std::printf("Instances   %ld, without intent %ld; SIGKILLs %ld\n", j.instances, j.orphan_instances, kills);
  if (!takeovers_ms.empty()) {
    auto sorted = takeovers_ms;
    std::ranges::sort(sorted);
    std::printf("Takeover    from a SIGKILL until the next leader serves: p50 %ld ms, longest %ld ms\n",
                sorted[sorted.size() / 2], sorted.back());
  }
  for (const auto& [cause, hours] : j.lost_gpu_hours)
    std::printf("Lost        %.2f GPU-hours by %s\n", hours, cause.c_str());
  for (const auto& [cause, of] : j.interrupted) {
    std::printf("Interrupted %ld attempts by %s: %.3f GPU-hours lost for each, %.3f by a restart from zero (%.1f %%)\n",
                of.attempts, cause.c_str(), of.lost_gpu_hours / static_cast<double>(of.attempts),
                of.from_zero_gpu_hours / static_cast<double>(of.attempts),
                of.from_zero_gpu_hours > 0 ? 100 * of.lost_gpu_hours / of.from_zero_gpu_hours : 0.0);
  }
  std::printf("\n%-16s %8s %10s %10s\n", "Waits by team", "jobs", "p50 s", "p99 s");
  for (const auto& [team, p] : j.wait_by_team)
    std::printf("%-16s %8ld %10.0f %10.0f\n", team.c_str(), p.n, p.p50, p.p99);
  std::printf("%-16s %8ld %10.0f %10.0f\n", "all", j.wait.n, j.wait.p50, j.wait.p99);
  std::printf("\n%-16s %12s %22s\n", "Chargeback", "GPU-hours", "USD");
  for (const auto& line : suite.statement) {
    std::printf("%-16s %12.2f %22s\n", line.team.c_str(), static_cast<double>(line.gpu_micros) / 3.6e9,
                Money::nano(line.nano_usd).to_usd(9).c_str());
  }
  std::printf("%-16s %12s %22s\n", "total", "", Money::nano(suite.total_nano).to_usd(9).c_str());
  std::printf("%-16s %12s %22s   difference %ld nano-dollars, ledger imbalance %ld\n", "provider's bill", "",
              Money::nano(j.provider_nano_usd).to_usd(9).c_str(), suite.total_nano - j.provider_nano_usd,
              suite.imbalance_nano);
  std::printf("\nPeak memory, MiB:");
  for (const auto& [name, mib] : peak_mib) std::printf("  %s %.0f", name.c_str(), mib);
  std::printf("\n");
  for (const auto& v : j.violations) std::printf("BROKEN LAW %s: %s\n", v.law.c_str(), v.text.c_str());
  for (const auto& t : troubles) std::printf("PROBLEM %s\n", t.c_str());
  std::printf("%s\n", ok() ? "Every law held." : "NOT every law held.");
}

}  // namespace qm::demo
