#include "translate/queue_annotations.hpp"

#include "qm/config/manifest.hpp"
#include "qm/kube/client.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace qm::admission {
namespace {

tl::unexpected<Error> refuse(std::string_view annotation, std::string why, std::string remedy) {
  return fail({Code::kInvalid, std::move(why), fmt::format("metadata.annotations[{}]", annotation), std::move(remedy)});
}

Result<forecast::Aging> aging_of(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return refuse(kAging, fmt::format("{}: {}", text, what), "write for example bound=168h,ceiling=100");
  };
  forecast::Aging out;
  bool bound = false, ceiling = false;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const auto is = std::min(part.find('='), part.size());
    const auto key = part.substr(0, is), value = part.substr(std::min(is + 1, part.size()));
    if (key == "bound" && !bound) {
      const auto read = config::parse_duration(value);
      if (!read || *read <= Duration{0}) return wrong("the bound is not a duration");
      out.bound = *read;
      bound = true;
    } else if (key == "ceiling" && !ceiling) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out.ceiling);
      if (error != std::errc() || end != value.data() + value.size()) return wrong("the ceiling is not a priority");
      ceiling = true;
    } else {
      return wrong(fmt::format("{} is not understood", part));
    }
  }
  if (!bound) return wrong("it has no bound");
  return out;
}

Result<std::chrono::minutes> offset_of(const Json& from) {
  if (from.is_null()) return std::chrono::minutes(0);
  const auto wrong = [&] {
    return refuse(kWindows, fmt::format("{} is not an offset", from.is_string() ? from.string() : from.dump()),
                  "write for example +01:00, or leave it out for UTC");
  };
  const std::string& text = from.string();
  const bool shaped = text.size() == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':' &&
                      std::ranges::all_of(std::array{1, 2, 4, 5}, [&](int i) {
                        return text[static_cast<std::size_t>(i)] >= '0' && text[static_cast<std::size_t>(i)] <= '9';
                      });
  if (!shaped) return wrong();
  const auto two = [&](std::size_t i) { return (text[i] - '0') * 10 + (text[i + 1] - '0'); };
  const std::chrono::minutes out(two(1) * 60 + two(4));
  if (two(4) >= 60 || out > std::chrono::hours(14)) return wrong();
  return text[0] == '-' ? -out : out;
}

constexpr Duration kLongest = std::chrono::hours(24 * 366);

Result<QuotaWindow> window_of(const Json& from, const ClusterQueue& queue) {
  static const std::set<std::string, std::less<>> kFields{"begins", "lasts", "offset", "quota"};
  if (!from.is_object()) {
    return refuse(kWindows, fmt::format("{} is not a window", from.dump()), "set begins, lasts, offset and quota");
  }
  for (const auto& [field, value] : from.members()) {
    if (!kFields.contains(field))
      return refuse(kWindows, fmt::format("{} is not understood", field), "set begins, lasts, offset and quota");
  }
  const std::string begins = from["begins"].string(), lasts = from["lasts"].string();
  const auto cron = forecast::Cron::parse(begins);
  if (!cron)
    return refuse(kWindows, fmt::format("begins: {}", cron.error().message), "write a crontab line: 0 20 * * 1-5");
  if (!cron->after(0)) return refuse(kWindows, fmt::format("begins: {} never occurs", begins), "name an existing day");
  const auto length = config::parse_duration(lasts);
  if (!length || *length > kLongest)
    return refuse(kWindows, fmt::format("lasts: {} is not a duration of at most a year", lasts),
                  "write for example 12h");
  QM_ASSIGN(const auto offset, offset_of(from["offset"]));
  const auto window = forecast::Window::make(*cron, *length, offset);
  if (!window) return refuse(kWindows, window.error().message, "write for example \"lasts\": \"12h\"");
  QuotaWindow out{*window, {}};
  for (const auto& [flavor, resources] : from["quota"].members()) {
    for (const auto& [resource, amount] : resources.members()) {
      const bool known = std::ranges::any_of(queue.groups, [&](const ResourceGroup& group) {
        return std::ranges::any_of(group.flavors, [&](const FlavorQuotas& one) {
          return one.flavor.value() == flavor && one.resources.contains(resource);
        });
      });
      if (!known)
        return refuse(kWindows, fmt::format("the queue has no {} in flavor {}", resource, flavor),
                      "give it quota there first, 0 where it has none outside the windows");
      const auto quantity = Quantity::parse(amount.is_int() ? std::to_string(amount.integer()) : amount.string());
      if (!quantity || counted(resource, *quantity) < 0)
        return refuse(kWindows, fmt::format("the amount of {} in flavor {} is not a quantity", resource, flavor),
                      "write for example 64");
      out.nominal[FlavorName(flavor)][resource] = counted(resource, *quantity);
    }
  }
  if (out.nominal.empty())
    return refuse(kWindows, "a window has no quota",
                  "write for example \"quota\": {\"h100\": {\"nvidia.com/gpu\": 64}}");
  return out;
}

}  // namespace

std::int64_t counted(const std::string& resource, const Quantity& q) {
  return resource == "cpu" || resource == words::kGpuResource ? q.milli() : q.units();
}

Status read_annotations(const Json& object, ClusterQueue& queue) {
  if (const auto backfill = kube::annotation(object, kBackfill); !backfill.empty()) {
    if (backfill != "conservative") {
      return refuse(kBackfill, fmt::format("{} is not a known value", backfill), "write conservative, or leave it out");
    }
    queue.backfill = true;
  }
  if (const auto aging = kube::annotation(object, kAging); !aging.empty()) {
    QM_ASSIGN(queue.aging, aging_of(aging));
  }
  if (const auto windows = kube::annotation(object, kWindows); !windows.empty()) {
    const auto list = Json::parse(windows);
    if (!list || !list->is_array()) {
      return refuse(kWindows, "it is not a JSON list",
                    R"(write [{"begins": "0 20 * * 1-5", "lasts": "12h", "quota": {...}}])");
    }
    for (const auto& one : list->items()) {
      QM_ASSIGN(auto window, window_of(one, queue));
      queue.windows.push_back(std::move(window));
    }
  }
  if (const auto end = kube::annotation(object, kWindowsEnd); !end.empty()) {
    if (end != "Keep" && end != "Drain") {
      return refuse(kWindowsEnd, fmt::format("{} is not a known value", end), "write Keep or Drain");
    }
    queue.drains = end == "Drain";
  }
  return {};
}

}  // namespace qm::admission
