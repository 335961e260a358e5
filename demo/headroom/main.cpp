// qm-headroom: the price of free nodes on the second half of a trace, planned and with the best static buffer.
#include "qm/base/option_range.hpp"
#include "qm/base/unpacked.hpp"
#include "qm/headroom/replay.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace qm::headroom {
namespace {

struct Options {
  std::string trace;
  double quantile = 0.95;
  Terms terms;
};

Status run(const Options& o) {
  QM_ASSIGN(const auto text, read_unpacked(o.trace, "name a CSV of jobs, packed by gzip or not"));
  QM_ASSIGN(const auto jobs, trace::read_csv(text, o.trace));
  if (jobs.empty()) return fail(Code::kInvalid, "{} has no jobs", o.trace);
  const std::int64_t until = jobs.back().submit_s + 1, half = until / 2;
  fmt::print("second half of {} jobs in {:.1f} days: wait <= {} s for {:.1f} %, boot {} s\n", jobs.size(),
             static_cast<double>(until) / 86'400, o.terms.wait_s, 100 * o.quantile, o.terms.boot_s);
  const auto line = [](const std::string& what, const Outcome& out, double of) {
    fmt::print("  {:<36} {:>6} of {:>6} jobs in time, {:.2f} %, {:>10.0f} USD, {:.3f} of the static one\n", what,
               out.in_time, out.jobs, 100 * out.share(), out.usd, of > 0 ? out.usd / of : 0);
  };
  Outcome all_planned, all_static;
  const auto add = [](Outcome& to, const Outcome& one) {
    to.jobs += one.jobs, to.in_time += one.in_time, to.usd += one.usd;
  };
  for (const std::int64_t gpus : kShapeGpus) {
    const auto own = jobs_of(jobs, gpus);
    const Static best = smallest_static(own, gpus, o.terms, half, until);
    const Static first = smallest_static(own, gpus, o.terms, 0, half);
    const Outcome of_first = ShapeReplay::run(own, gpus, o.terms, half, until, [&](auto) { return first.level; });
    QM_ASSIGN(const Outcome plan, planned(own, gpus, o.terms, half, until));
    fmt::print("nodes of {} GPUs\n", gpus);
    line(fmt::format("static {}, the smallest in hindsight", best.level), best.outcome, best.outcome.usd);
    line(fmt::format("static {}, by the first half", first.level), of_first, best.outcome.usd);
    line("planned", plan, best.outcome.usd);
    add(all_planned, plan), add(all_static, best.outcome);
  }
  fmt::print("all nodes\n");
  line("static, the smallest in hindsight", all_static, all_static.usd);
  line("planned", all_planned, all_static.usd);
  return {};
}

int main(int argc, char** argv) {
  CLI::App app("Replays the second half of a trace with free nodes, and prints their price under each policy.");
  Options o;
  app.add_option("--trace", o.trace, "CSV of jobs: submit_s, duration_s, num_gpus, vc; packed by gzip or not")
      ->required();
  qm::ranged(app.add_option("--wait", o.terms.wait_s, "that a job may be pending"), qm::OptionRange<int>(0, 3600, "s"))
      ->capture_default_str();
  qm::ranged(app.add_option("--quantile", o.quantile, "of the jobs"), qm::OptionRange<double>(0.01, 0.9999))
      ->capture_default_str();
  qm::ranged(app.add_option("--boot", o.terms.boot_s, "of a node"), qm::OptionRange<int>(1, 3600, "s"))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  constexpr double kOne = 1e6;
  o.terms.quantile_ppm = std::llround(o.quantile * kOne);
  if (const auto done = run(o); !done) {
    fmt::print(stderr, "qm-headroom: {}\n", done.error().to_string());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace qm::headroom

int main(int argc, char** argv) { return qm::headroom::main(argc, argv); }
