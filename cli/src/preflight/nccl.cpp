// The output of nccl-tests (all_reduce_perf and similar): "# Avg bus bandwidth    : 310.2", and wrong results in
// "# Out of bounds values : 0 OK".
#include "preflight/checks.hpp"

#include <charconv>
#include <optional>
#include <sstream>

namespace qm::cli {
namespace {

constexpr double kHealthy = 300, kFallenBack = 200;  // GB/s

/// The text after "<words> :" on a comment line.
std::optional<std::string> value_after(const std::string& line, std::string_view words) {
  if (!line.starts_with("#") || line.find(words) == std::string::npos) return std::nullopt;
  const auto colon = line.find(':');
  const auto from = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
  return from == std::string::npos ? std::string() : line.substr(from);
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<Checked> check_nccl(std::string_view output) {
  std::optional<double> bandwidth;
  bool wrong = false;
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    if (const auto text = value_after(line, "Avg bus bandwidth")) bandwidth = number(*text);
    if (const auto text = value_after(line, "Out of bounds values")) wrong = wrong || !text->starts_with("0 ");
  }
  if (!bandwidth) {
    return fail(Error{Code::kInvalid, "the output has no line \"# Avg bus bandwidth : N\"", "--nccl",
                      "pass the output of all_reduce_perf of nccl-tests"});
  }
  Checked out{"NCCL", Outcome::kPass, fmt::format("bus bandwidth {:.1f} GB/s", *bandwidth), {}};
  if (wrong) {
    out.outcome = Outcome::kFail;
    out.remedy = "wrong results: check XIDs and link errors first";
  } else if (*bandwidth < kFallenBack) {
    out.outcome = Outcome::kFail;
    out.remedy = "fallback-to-ethernet: check NCCL_IB_HCA, NCCL_SOCKET_IFNAME, and the RDMA device plugin";
  } else if (*bandwidth < kHealthy) {
    out.outcome = Outcome::kWarn;
    out.remedy = fmt::format("below {:.0f} GB/s: not all rails are used, or GPUDirect RDMA is off", kHealthy);
  }
  return out;
}

}  // namespace qm::cli
