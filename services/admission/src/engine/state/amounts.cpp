#include "qm/admission/quota.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace qm::admission {
namespace {

std::string thousandths(std::int64_t amount) {
  if (amount % 1000 == 0) return std::to_string(amount / 1000);
  std::string text = fmt::format("{}{}.{:03}", amount < 0 ? "-" : "", std::abs(amount / 1000), std::abs(amount % 1000));
  while (text.back() == '0') text.pop_back();
  return text;
}

}  // namespace

std::string show_amount(std::string_view resource, std::int64_t amount) {
  if (amount == kUnlimited) return "unlimited";
  if (resource == "cpu" || resource == words::kGpuResource) return thousandths(amount);
  if (resource == "memory") {
    constexpr std::int64_t kGi = std::int64_t{1} << 30;
    constexpr std::int64_t kMi = std::int64_t{1} << 20;
    if (amount % kGi == 0) return fmt::format("{}Gi", amount / kGi);
    if (amount % kMi == 0) return fmt::format("{}Mi", amount / kMi);
  }
  return std::to_string(amount);
}

}  // namespace qm::admission
