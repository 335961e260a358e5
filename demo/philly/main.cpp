// qm-philly: replays a trace of jobs on a fleet in virtual time, first come first served and with our discipline, and
// prints the waiting times.
#include "qm/base/option_range.hpp"
#include "qm/base/unpacked.hpp"
#include "qm/philly/replay.hpp"
#include "qm/placement/pack/policy.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

namespace qm::philly {
namespace {

struct Options {
  std::string trace, policy = "quartermaster", out;
  std::int64_t gpus = 1243, patience_s = 0;
  double in_eights = 0.75;
};

struct Run {
  std::string name;
  Outcome outcome;
};

std::string row(const Run& run, const std::string& scheduler, const Waits& w) {
  return fmt::format("{},{},{},{},{:.1f},{},{}\n", run.name, scheduler, w.jobs, w.waited, w.mean_s, w.p99_s,
                     w.longest_s);
}

Status write(const std::vector<Run>& runs, const std::string& file) {
  std::ofstream out(file);
  out << "discipline,who,jobs,waited,mean_s,p99_s,longest_s\n";
  for (const auto& run : runs) {
    out << row(run, "all", run.outcome.all);
    for (const auto& [team, waits] : run.outcome.by_team) out << row(run, "team " + team, waits);
    for (const auto& [gpus, waits] : run.outcome.by_gpus) out << row(run, fmt::format("gpus {}", gpus), waits);
  }
  out.flush();
  if (out) return {};
  return fail({Code::kUnavailable, file + " cannot be written", file, "name a file in an existing folder"});
}

/// The team that loses most compared with another discipline, with the increase of its mean wait.
std::string worst(const Outcome& ours, const Outcome& theirs) {
  std::string scheduler = "none";
  double most = 0;
  for (const auto& [team, waits] : ours.by_team) {
    const double before = theirs.by_team.at(team).mean_s;
    if (waits.mean_s - before <= most) continue;
    most = waits.mean_s - before;
    scheduler = fmt::format("{} by {:.1f} s of {:.1f}", team, most, before);
  }
  return scheduler;
}

Status run(const Options& o) {
  QM_ASSIGN(const auto text, read_unpacked(o.trace, "name a CSV of jobs, packed by gzip or not"));
  QM_ASSIGN(const auto jobs, trace::read_csv(text, o.trace));
  const Fleet fleet = fleet_of(o.gpus, o.in_eights);
  fmt::print("{} jobs on {} GPUs: {} servers of 8 and {} of 2\n", jobs.size(), fleet.gpus(), fleet.eights, fleet.twos);
  std::vector<Run> runs;
  for (const auto& [name, discipline] : {std::pair<std::string, Discipline>{"bestfit fifo", {"bestfit", false, 0}},
                                         {"fgd fifo", {"fgd", false, 0}},
                                         {o.policy + " passing", {o.policy, true, o.patience_s}}}) {
    const auto& w = runs.emplace_back(Run{name, replay(jobs, fleet, discipline)}).outcome;
    fmt::print(
        "{:<24} wait: mean {:.1f} s, p99 {} s, longest {} s; {} of {} wait; at most {:.1f} % of the GPUs in use{}\n",
        name, w.all.mean_s, w.all.p99_s, w.all.longest_s, w.all.waited, w.all.jobs, 100 * w.busiest,
        w.impossible > 0 ? fmt::format("; {} jobs do not fit the fleet", w.impossible) : std::string());
  }
  const auto& ours = runs.back().outcome;
  for (const auto& other : {runs[0], runs[1]}) {
    const double before = other.outcome.all.mean_s;
    fmt::print("against {}: mean {:+.1f} %; team with the longer wait: {}\n", other.name,
               before > 0 ? 100 * (ours.all.mean_s - before) / before : 0.0, worst(ours, other.outcome));
  }
  return o.out.empty() ? Status() : write(runs, o.out);
}

int main(int argc, char** argv) {
  CLI::App app("Replays a trace of jobs on a fleet in virtual time, and prints the wait times.");
  Options o;
  std::vector<std::string> names;
  for (const auto name : placement::pack::policy_names()) names.emplace_back(name);
  app.add_option("--trace", o.trace, "CSV of jobs: submit_s, duration_s, num_gpus, vc; packed by gzip or not")
      ->required();
  qm::ranged(app.add_option("--gpus", o.gpus, "of the fleet"), qm::OptionRange<int>(8, 1'000'000, "GPUs"))
      ->capture_default_str();
  qm::ranged(
      app.add_option("--in-eights", o.in_eights, "share of them in servers of eight; the others are in servers of two"),
      qm::OptionRange<double>(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--policy", o.policy, "how ours chooses nodes")->check(CLI::IsMember(names))->capture_default_str();
  qm::ranged(app.add_option("--patience", o.patience_s,
                            "seconds: no job is scheduled ahead of one that has been pending longer; 0 = no bound"),
             qm::OptionRange<int>(0, 100'000'000, "seconds"))
      ->capture_default_str();
  app.add_option("--out", o.out, "CSV to write: wait times by team and by size");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (const auto done = run(o); !done) {
    fmt::print(stderr, "qm-philly: {}\n", done.error().to_string());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace qm::philly

int main(int argc, char** argv) { return qm::philly::main(argc, argv); }
