// qm-openb: fills the cluster of a trace under one policy, as the FGD paper does, and reports how
// much of its GPUs was allocated.
#include "qm/base/option_range.hpp"
#include "qm/placement/pack/policy.hpp"
#include "replay.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>

namespace qm::placement::openb {
namespace {

struct Options {
  std::string nodes, pods, policy, out;
  std::uint64_t seed = 42;
  int runs = 1;
  double arrivals = 1.30;
};

Status run(const Options& options) {
  QM_ASSIGN(const auto trace, read_trace(options.nodes, options.pods));
  std::map<int, std::pair<Point, int>> sums;
  for (int i = 0; i < options.runs; ++i) {
    for (const auto& [percent, point] :
         replay(trace, options.policy, options.seed + static_cast<std::uint64_t>(i), options.arrivals)) {
      auto& [sum, runs] = sums[percent];
      sum.allocated += point.allocated;
      sum.fragment_total += point.fragment_total;
      sum.fragment_idle += point.fragment_idle;
      ++runs;
    }
  }
  std::ofstream file;
  if (!options.out.empty()) file.open(options.out);
  std::ostream& out = options.out.empty() ? std::cout : file;
  out << "arrived_pct,allocated_pct,fragment_total_pct,fragment_idle_pct\n";
  for (const auto& [percent, bin] : sums) {
    const auto& [sum, runs] = bin;
    out << fmt::format("{},{:.4f},{:.4f},{:.4f}\n", percent, sum.allocated / runs, sum.fragment_total / runs,
                       sum.fragment_idle / runs);
  }
  out.flush();
  if (!out) {
    return fail(
        {Code::kUnavailable, options.out + " cannot be written", options.out, "name a file in an existing folder"});
  }
  return {};
}

int main(int argc, char** argv) {
  CLI::App app(
      "Fills the cluster of a trace by one policy and writes, for each percent of demand that has arrived, the allocated and "
      "the fragmented share.");
  Options options;
  std::vector<std::string> names{"random"};
  for (const auto name : pack::policy_names()) names.emplace_back(name);
  app.add_option("--nodes", options.nodes, "CSV of nodes: cpu_milli, memory_mib, gpu, model")->required();
  app.add_option("--pods", options.pods, "CSV of pods, plain or gzip")->required();
  app.add_option("--policy", options.policy, "policy that scores nodes")->required()->check(CLI::IsMember(names));
  app.add_option("--seed", options.seed, "seed of the arrivals and of the node order");
  qm::ranged(app.add_option("--runs", options.runs, "number of seeds; means are written"),
             qm::OptionRange<int>(1, 10'000, "runs"));
  qm::ranged(app.add_option("--arrivals", options.arrivals, "arriving demand, as a multiple of the cluster's GPUs"),
             qm::OptionRange<double>(0.01, 10.0));
  app.add_option("--out", options.out, "CSV to write (default: standard output)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (const auto done = run(options); !done) {
    fmt::print(stderr, "qm-openb: {}\n", done.error().to_string());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace qm::placement::openb

int main(int argc, char** argv) { return qm::placement::openb::main(argc, argv); }
