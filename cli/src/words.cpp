#include "words.hpp"

#include "qm/model/resources.hpp"

#include <algorithm>
#include <limits>

namespace qm::cli {
namespace {

constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

std::string two(std::int64_t big, const char* big_unit, std::int64_t small, const char* small_unit) {
  return small == 0 ? fmt::format("{}{}", big, big_unit) : fmt::format("{}{}{}{}", big, big_unit, small, small_unit);
}

}  // namespace

std::string age(Duration since) {
  const std::int64_t s = std::max<std::int64_t>(0, since.count() / 1'000'000);
  if (s < 2 * kMinute) return fmt::format("{}s", s);
  if (s < 10 * kMinute) return two(s / kMinute, "m", s % kMinute, "s");
  if (s < 3 * kHour) return fmt::format("{}m", s / kMinute);
  if (s < 8 * kHour) return two(s / kHour, "h", s % kHour / kMinute, "m");
  if (s < 2 * kDay) return fmt::format("{}h", s / kHour);
  if (s < 8 * kDay) return two(s / kDay, "d", s % kDay / kHour, "h");
  return fmt::format("{}d", s / kDay);
}

std::string age(std::int64_t at_us, Instant now) { return at_us == 0 ? std::string() : age(now - from_micros(at_us)); }

std::string instant(std::int64_t at_us) { return at_us == 0 ? std::string() : to_rfc3339(from_micros(at_us)); }

std::string thousandths(std::int64_t milli) {
  if (milli % 1000 == 0) return std::to_string(milli / 1000);
  auto text = fmt::format("{}{}.{:03}", milli < 0 ? "-" : "", std::abs(milli / 1000), std::abs(milli % 1000));
  while (text.back() == '0') text.pop_back();
  return text;
}

std::string bytes(std::int64_t n) {
  constexpr std::int64_t kMi = std::int64_t{1} << 20, kGi = std::int64_t{1} << 30;
  const auto show = [n](std::int64_t unit, const char* name) {
    return n % unit == 0 ? fmt::format("{}{}", n / unit, name)
                         : fmt::format("{:.1f}{}", static_cast<double>(n) / static_cast<double>(unit), name);
  };
  if (std::abs(n) >= kGi) return show(kGi, "Gi");
  if (std::abs(n) >= kMi) return show(kMi, "Mi");
  return std::to_string(n);
}

std::string percent(double share) { return share < 0 ? std::string() : fmt::format("{:.0f}%", 100 * share); }

std::string amount(std::string_view resource, std::int64_t n) {
  if (n == std::numeric_limits<std::int64_t>::max()) return "unlimited";
  if (resource == "cpu" || resource == words::kGpuResource) return thousandths(n);
  return resource == "memory" ? bytes(n) : std::to_string(n);
}

std::string gpu_hours(std::int64_t gpu_micros) {
  constexpr std::int64_t kMilliHour = 3'600'000;  // microseconds
  const std::int64_t whole = std::abs(gpu_micros) / kMilliHour;
  const std::int64_t milli_hours = whole + (std::abs(gpu_micros) % kMilliHour >= kMilliHour / 2 ? 1 : 0);
  return fmt::format("{}{}.{:03}", gpu_micros < 0 ? "-" : "", milli_hours / 1000, milli_hours % 1000);
}

}  // namespace qm::cli
