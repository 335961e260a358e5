// qm-checker: checks a fleet's history file independently. Exit 0 = no law is broken, 1 = one is, 2 = invalid input.
#include "qm/checker/checker.hpp"

#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::cerr << "qm-checker: cannot read " << path << "\n";
    return std::nullopt;
  }
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> out;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) out.insert(line);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Checks the history of a fleet: no job lost or run twice, no GPU double-booked, every gang complete, "
      "every instance claimed, and the bill of the provider."};
  std::string history_file, prices_file, acked_file, known_file;
  std::int64_t end_us = 0;
  qm::checker::Inputs inputs;
  app.add_option("--history", history_file, "the fleet's history file")->required();
  app.add_option("--prices", prices_file, "the provider's price list (CSV)")->required();
  app.add_option("--acked", acked_file, "namespace/name of every acknowledged submission, one a line");
  app.add_option("--known", known_file, "namespace/name of every workload still known at the end, one a line");
  app.add_option("--end-us", end_us, "instant that the books close at; default: the last line");
  app.add_option("--window-start-us", inputs.window_start_us,
                 "start of the measured interval for utilization and wait times");
  CLI11_PARSE(app, argc, argv);
  const auto text = read_file(history_file), price_text = read_file(prices_file);
  if (!text || !price_text) return 2;
  auto history = qm::checker::read_history(*text, end_us);
  auto prices = qm::checker::read_prices(*price_text);
  for (const auto* error : {history ? nullptr : &history.error(), prices ? nullptr : &prices.error()}) {
    if (error != nullptr) std::cerr << "qm-checker: " << error->to_string() << "\n";
  }
  if (!history || !prices) return 2;
  for (auto [file, set] : {std::pair{&acked_file, &inputs.acked}, {&known_file, &inputs.known}}) {
    if (file->empty()) continue;
    const auto list = read_file(*file);
    if (!list) return 2;
    *set = lines_of(*list);
  }
  const auto report = qm::checker::check(*history, *prices, inputs);
  std::cout << report.to_json().pretty() << "\n";
  return report.violations.empty() ? 0 : 1;
}
