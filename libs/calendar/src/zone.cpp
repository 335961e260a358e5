#include "qm/calendar/zone.hpp"

#include <absl/time/time.h>

#include <string>

namespace qm::calendar {
namespace {

// abseil also takes paths and "Fixed/UTC+01:00:00"; names of the database have none of that.
bool is_name(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
  return name.front() != '/' && !name.starts_with("Fixed/") && name.find_first_not_of(kAllowed) == name.npos;
}

}  // namespace

struct Zone::Impl {
  absl::TimeZone zone;
};

Result<Zone> Zone::load(std::string_view name) {
  auto impl = std::make_shared<Impl>();
  if (name.empty() || name == "UTC") {
    impl->zone = absl::UTCTimeZone();
  } else if (!is_name(name) || !absl::LoadTimeZone(std::string(name), &impl->zone)) {
    return fail({Code::kInvalid, fmt::format("there is no time zone \"{}\"", name), "timezone",
                 "name a zone of the IANA database, for example Europe/Berlin; the package tzdata must be installed"});
  }
  return Zone(std::move(impl));
}

std::int64_t Zone::offset_at(std::int64_t unix_seconds) const {
  return impl_->zone.At(absl::FromUnixSeconds(unix_seconds)).offset;
}

}  // namespace qm::calendar
