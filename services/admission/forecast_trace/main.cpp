// qm-forecast-trace FILE [key=value...]: replays a trace of jobs through the scheduler and reports how accurate the
// estimates of their starts were. Keys: gpus, strict, reclaim, arrivals, begin_days, end_days, every_hours, most,
// futures, alike_percent, seed; dump=1 lists all estimates: instant of the estimate, gpus, the three quantiles, both
// corrected ends, and the actual wait, in seconds.
#include "replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <map>

namespace qm::admission::forecast {
namespace {

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void print_score(std::string_view name, const std::vector<TracedEstimate>& estimates) {
  for (const bool corrected : {false, true}) {
    const auto s = score(estimates, corrected);
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} / {:.1f} | {:.2f} | {:.2f} | {:.2f} |\n", name,
               corrected ? "corrected" : "futures", s.n, 100 * s.held, 100 * s.below, 100 * s.above, s.pinball_hours,
               s.naive_pinball_hours, s.median_width_hours);
  }
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: qm-forecast-trace FILE [key=value...]\n", stderr);
    return 2;
  }
  std::map<std::string, std::int64_t> keys{
      {"gpus", 500},      {"strict", 0}, {"reclaim", 0},  {"arrivals", 1},       {"begin_days", 14}, {"end_days", 100},
      {"every_hours", 6}, {"most", 24},  {"futures", 64}, {"alike_percent", 50}, {"dump", 0},        {"seed", 1}};
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto cut = std::min(word.find('='), word.size());
    const auto key = keys.find(std::string(word.substr(0, cut)));
    const auto text = word.substr(std::min(cut + 1, word.size()));
    if (key == keys.end() || std::from_chars(text.begin(), text.end(), key->second).ec != std::errc()) {
      fmt::print(stderr, "{} is not KEY=NUMBER of a key that is known\n", word);
      return 2;
    }
  }
  const auto jobs = read_jobs(argv[1]);
  if (!jobs) {
    fmt::print(stderr, "{}\n", jobs.error().to_string());
    return 2;
  }
  ReplaySettings settings;
  settings.gpus = keys["gpus"];
  settings.strict = keys["strict"] != 0;
  settings.reclaim = keys["reclaim"] != 0;
  settings.arrivals = keys["arrivals"] != 0;
  settings.begin = std::chrono::hours(24 * keys["begin_days"]);
  settings.end = std::chrono::hours(24 * keys["end_days"]);
  settings.every = std::chrono::hours(keys["every_hours"]);
  settings.most = static_cast<int>(keys["most"]);
  settings.eta.futures = static_cast<int>(keys["futures"]);
  settings.eta.alike = static_cast<double>(keys["alike_percent"]) / 100;
  settings.eta.seed = static_cast<std::uint64_t>(keys["seed"]);
  auto out = replay(*jobs, settings, processor_seconds);

  fmt::print("{} jobs, {} waited, the longest {:.1f} h; {} questions about {} jobs\n", out.jobs, out.waited,
             seconds(out.longest) / 3600, out.asking.size(), out.estimates.size());
  for (std::size_t i = 0; keys["dump"] != 0 && i < out.estimates.size(); ++i) {
    const auto& one = out.estimates[i];
    fmt::print("estimate,{},{},{},{},{},{},{},{}\n", seconds(one.asked - Instant()), one.gpus, seconds(one.raw.low),
               seconds(one.raw.middle), seconds(one.raw.high), seconds(one.corrected.low), seconds(one.corrected.high),
               one.known ? seconds(one.truth) : -1.0);
  }
  const auto known = std::ranges::count_if(out.estimates, &TracedEstimate::known);
  fmt::print("{} of them started before the trace ended\n", known);
  if (!out.asking.empty()) {
    std::ranges::sort(out.asking);
    fmt::print("a question takes {:.2f} s (median), {:.2f} s (largest) of processor time\n",
               out.asking[out.asking.size() / 2], out.asking.back());
  }
  fmt::print(
      "| which | interval | n | held % | below / above % | pinball h | the same of past waits | median width h |\n");
  print_score("all", out.estimates);
  const auto some = [&](std::string_view name, auto&& which) {
    std::vector<TracedEstimate> part;
    std::ranges::copy_if(out.estimates, std::back_inserter(part), which);
    print_score(name, part);
  };
  some("1 GPU", [](const TracedEstimate& t) { return t.gpus == 1; });
  some("2 to 7 GPUs", [](const TracedEstimate& t) { return t.gpus > 1 && t.gpus < 8; });
  some("8 and more", [](const TracedEstimate& t) { return t.gpus >= 8; });
  some("estimated < 1 h", [](const TracedEstimate& t) { return t.raw.middle < std::chrono::hours(1); });
  some("said 1 h to 8 h", [](const TracedEstimate& t) {
    return t.raw.middle >= std::chrono::hours(1) && t.raw.middle < std::chrono::hours(8);
  });
  some("estimated 8 h and more", [](const TracedEstimate& t) { return t.raw.middle >= std::chrono::hours(8); });
  return 0;
}

}  // namespace
}  // namespace qm::admission::forecast

int main(int argc, char** argv) { return qm::admission::forecast::run(argc, argv); }
