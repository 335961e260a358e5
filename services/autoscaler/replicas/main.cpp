// qm-replicas: the replica decisions of recorded autoscalers, tick by tick.
#include "cases.hpp"
#include "qm/base/parse.hpp"
#include "qm/base/unpacked.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>

namespace qm::autoscaler::replicas {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out;
};

/// Writes a line a case. A case that cannot be read has its error instead of ticks; the first is returned.
Status run_file(const std::string& path, std::ostream& out) {
  QM_ASSIGN(const auto text, read_unpacked(path, "name a file of cases, plain or gzip"));
  Status first;
  std::size_t number = 0;
  for (const auto line : split(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    const auto recorded = Json::parse(line);
    auto result = recorded ? run_case(*recorded) : Result<Json>(tl::unexpected(recorded.error()));
    if (!result) {
      const auto name = recorded ? (*recorded)["name"].string() : std::string();
      const auto error = result.error().with_context(fmt::format("{}:{}: {}", path, number, name));
      if (first) first = fail(error);
      result = Json::object({{"name", name}, {"error", error.to_string()}});
    }
    out << result->dump() << '\n';
  }
  return first;
}

Status run(const Options& options) {
  std::ofstream file;
  if (!options.out.empty()) file.open(options.out);
  std::ostream& out = options.out.empty() ? std::cout : file;
  Status first;
  for (const auto& path : options.files) {
    if (auto done = run_file(path, out); !done && first) first = std::move(done);
  }
  out.flush();
  if (!out) {
    return fail(
        {Code::kUnavailable, options.out + " cannot be written", options.out, "name a file in an existing folder"});
  }
  return first;
}

int main(int argc, char** argv) {
  CLI::App app("Decides the replicas of recorded HorizontalPodAutoscalers and ScaledObjects, tick by tick.");
  Options options;
  app.add_option("FILE", options.files, "cases, one JSON object a line, plain or gzip")->required();
  app.add_option("--out", options.out, "file for the decisions, one JSON object a case (default: standard output)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (const auto done = run(options); !done) {
    fmt::print(stderr, "qm-replicas: {}\n", done.error().to_string());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace qm::autoscaler::replicas

int main(int argc, char** argv) { return qm::autoscaler::replicas::main(argc, argv); }
