// qm-pack: chooses the instances for the pending pods of a file at the lowest price that it finds.
#include "qm/autoscaler/pack/json.hpp"
#include "qm/base/unpacked.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

namespace qm::autoscaler::pack {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string input, out;
  double effort_s = 0;
  std::string node_price = "0";
  Binding binding = Binding::kNominated;
};

/// "0.5" is a price; "1%" is a part of the price of the fast plan without a node price.
Result<double> node_price_of(const std::string& text, const Problem& problem) {
  const bool part = text.ends_with('%');
  double amount = 0;
  const char* const end = text.data() + text.size() - (part ? 1 : 0);
  const auto [at, error] = std::from_chars(text.data(), end, amount);
  if (error != std::errc() || at != end || !(amount >= 0) || amount > 1e6) {
    return fail({Code::kInvalid, "'" + text + "' is no node price", "--node-price",
                 "use 0 to 1,000,000, or a percentage such as 1%"});
  }
  if (!part) return amount;
  QM_ASSIGN(const auto plan, pack(problem));
  return amount / 100 * plan.price;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Status run(const Options& options) {
  QM_ASSIGN(const auto text, read_unpacked(options.input, "name an input file, plain or gzip"));
  QM_ASSIGN(const auto json, Json::parse(text));
  QM_ASSIGN(const auto problem, problem_of(json));
  QM_ASSIGN(const double node_price, node_price_of(options.node_price, problem));
  const auto start = Clock::now();
  Effort effort;
  effort.node_price = node_price;
  effort.binding = options.binding;
  if (options.effort_s > 0) {
    effort.stop = [&] { return seconds_since(start) >= options.effort_s; };
    effort.progress = [&] { return seconds_since(start) / options.effort_s; };
  }
  QM_ASSIGN(const auto plan, pack(problem, effort));
  const double seconds = seconds_since(start);
  QM_TRY(still_holds(problem, plan, node_price));
  Json answer = answer_of(problem, plan);
  answer.set("node_price", node_price);
  answer.set("seconds", seconds);
  std::ofstream file(options.out);
  file << answer.dump() << '\n';
  file.flush();
  if (!file) {
    return fail(
        {Code::kUnavailable, options.out + " cannot be written", options.out, "name a file in an existing folder"});
  }
  fmt::print(
      "{} pods on {} nodes, price {:.4f}, cost {:.4f}, at most {:.2f} % above the optimum, {} unplaced, {:.3f} s\n",
      problem.pods.size() - plan.unplaced.size(), plan.nodes.size(), plan.price, plan.cost,
      plan.bound > 0 ? 100 * (plan.cost / plan.bound - 1) : 0, plan.unplaced.size(), seconds);
  if (plan.stock) {
    fmt::print("kube-scheduler alone binds {:.2f} %; of the plan for nominated nodes, price {:.4f}, {:.2f} %\n",
               100 * plan.stock->share, plan.stock->nominated_price, 100 * plan.stock->nominated_share);
  }
  return {};
}

int main(int argc, char** argv) {
  CLI::App app(
      "Chooses instance types and nodes for pending pods at the lowest price that it finds, with a lower bound.");
  Options options;
  app.add_option("--input", options.input, "JSON of pods, instance types and NodePool, plain or gzip")->required();
  app.add_option("--out", options.out, "JSON to write")->required();
  app.add_option("--effort", options.effort_s, "time for the search, such as 2s; 0 = fast and deterministic")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1.0}, {"ms", 1e-3}, {"m", 60.0}},
                                        CLI::AsNumberWithUnit::UNIT_OPTIONAL, "TIME"));
  app.add_option("--node-price", options.node_price,
                 "added to the cost for each node, per hour; 1% = of the price of a plan without it");
  const std::map<std::string, Binding> bindings{{"nominated", Binding::kNominated}, {"stock", Binding::kStock}};
  app.add_option("--scheduler", options.binding,
                 "nominated (default): pods get status.nominatedNodeName; stock: kube-scheduler places them by itself, "
                 "which needs more nodes")
      ->transform(CLI::CheckedTransformer(bindings));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (const auto done = run(options); !done) {
    fmt::print(stderr, "qm-pack: {}\n", done.error().to_string());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace qm::autoscaler::pack

int main(int argc, char** argv) { return qm::autoscaler::pack::main(argc, argv); }
