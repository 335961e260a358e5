#include "option_values.hpp"

#include "qm/config/manifest.hpp"
#include "qm/model/quantity.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cctype>

namespace qm::cli {

void refuse(const std::string& what) { throw CLI::ValidationError(what); }

WorkloadName parse_name(const std::string& text) {
  const auto slash = text.find('/');
  WorkloadName name{slash == std::string::npos ? "default" : text.substr(0, slash),
                    slash == std::string::npos ? text : text.substr(slash + 1)};
  if (name.ns.empty() || name.name.empty() || name.name.find('/') != std::string::npos)
    refuse(fmt::format("'{}' is not a valid workload name; write NAMESPACE/NAME", text));
  return name;
}

Duration parse_time(const std::string& flag, const std::string& text) {
  const auto parsed = config::parse_duration(text);
  if (!parsed) refuse(fmt::format("{}: {}", flag, parsed.error().message));
  if (*parsed <= Duration::zero() || *parsed > Duration(std::chrono::hours(24 * 365)))
    refuse(fmt::format("{}: {} is out of range", flag, text));
  return *parsed;
}

std::int64_t parse_quantity(const std::string& flag, const std::string& text, bool milli) {
  const auto parsed = Quantity::parse(text);
  if (!parsed) refuse(fmt::format("{}: {}", flag, parsed.error().message));
  if (parsed->negative()) refuse(fmt::format("{}: {} is negative", flag, text));
  return milli ? parsed->milli() : parsed->units();
}

Money parse_usd(const std::string& flag, const std::string& text) {
  const auto parsed = Money::parse_usd(text);
  if (!parsed) refuse(fmt::format("{}: {}", flag, parsed.error().message));
  if (*parsed < Money()) refuse(fmt::format("{}: {} is negative", flag, text));
  return *parsed;
}

std::map<std::string, std::string> parse_pairs(const char* flag, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> out;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      refuse(fmt::format("{}: '{}' is not of the form key=value", flag, text));
    out[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return out;
}

std::string check_period(const std::string& text) {
  const auto digit = [&](std::size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
  const bool shaped =
      text.size() == 7 && text[4] == '-' && digit(0) && digit(1) && digit(2) && digit(3) && digit(5) && digit(6);
  const int month = shaped ? std::stoi(text.substr(5)) : 0;
  return month >= 1 && month <= 12 ? std::string() : fmt::format("'{}' is not a valid period; write YYYY-MM", text);
}

}  // namespace qm::cli
