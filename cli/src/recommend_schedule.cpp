// Recommends fewer replicas for the quiet hours, from what each hour of the past needed: recommend schedule.
#include "commands.hpp"
#include "csv.hpp"
#include "print.hpp"
#include "qm/autoscaler/replicas/schedule.hpp"
#include "qm/base/parse.hpp"
#include "table.hpp"
#include "yaml.hpp"

#include <map>
#include <ostream>
#include <string>

namespace qm::cli {
namespace {

namespace replicas = autoscaler::replicas;

Result<std::vector<replicas::HourlyNeed>> read_history(const Manifest& file) {
  std::vector<replicas::HourlyNeed> out;
  std::string_view text = file.text;
  for (int line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto cells = cells_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (cells.size() == 1 && cells[0].empty()) continue;
    const auto wrong = [&](const std::string& what) {
      return fail(Error{Code::kInvalid, fmt::format("{}:{}: {}", file.source, line, what), "--file",
                        "the columns are hour,replicas: 2026-10-01T09:00:00Z,8"});
    };
    if (line == 1) {
      if (cells != std::vector<std::string>{"hour", "replicas"}) return wrong("the first line is not hour,replicas");
      continue;
    }
    if (cells.size() != 2) return wrong(fmt::format("{} cells", cells.size()));
    const auto hour = from_rfc3339(cells[0]);
    const auto needed = whole_number<std::uint32_t>(cells[1]);
    constexpr std::uint32_t kMost = 100'000;
    if (!hour) return wrong(hour.error().message);
    if (!needed || *needed > kMost) return wrong(fmt::format("\"{}\" is not a number of replicas", cells[1]));
    out.push_back({*hour, static_cast<std::int32_t>(*needed)});
  }
  return out;
}

/// An error of the library, with the option that gave the value.
Error with_option(Error error) {
  static const std::map<std::string, std::string> options{
      {"history", "--file"}, {"other_sizes", "--off-peak"}, {"timezone", "--timezone"}, {"usd_hour", "--usd-hour"}};
  if (const auto found = options.find(error.field); found != options.end()) error.field = found->second;
  return error;
}

/// The fields of a ScaledObject that follow the schedule: in the quiet hours its minimum applies.
Json scaled_object_fields(const replicas::ScheduleProposal& proposal, const std::string& timezone) {
  const auto at = [](std::int32_t hour) { return fmt::format("0 {} * * *", hour); };
  const Json metadata = Json::object({{"timezone", timezone},
                                      {"start", at(proposal.off_peak.until)},
                                      {"end", at(proposal.off_peak.from)},
                                      {"desiredReplicas", std::to_string(proposal.peak)}});
  return Json::object({{"minReplicaCount", std::int64_t{proposal.off_peak.replicas}},
                       {"maxReplicaCount", std::int64_t{proposal.peak}},
                       {"triggers", Json::array({Json::object({{"type", "cron"}, {"metadata", metadata}})})}});
}

}  // namespace

Status run_verb(Context& context, const ScheduleVerb& verb) {
  QM_ASSIGN(const auto history, read_history(context.manifests.at(0)));
  const auto found = replicas::propose_schedule(history, {verb.usd_hour, verb.least, verb.other_sizes, verb.timezone});
  if (!found) return fail(with_option(found.error()));
  const auto& proposal = *found;
  const Json fields = scaled_object_fields(proposal, verb.timezone);
  auto sizes = proposal.smaller;
  sizes.insert(sizes.begin(), proposal.off_peak);
  if (context.structured()) {
    Json list = Json::array();
    for (const auto& one : sizes) {
      list.push_back(Json::object({{"offPeak", std::int64_t{one.replicas}},
                                   {"from", std::int64_t{one.from}},
                                   {"until", std::int64_t{one.until}},
                                   {"hours", std::int64_t{one.hours}},
                                   {"savingUsd", one.saving.to_usd(2)},
                                   {"shortHours", one.short_hours}}));
    }
    print(context, Json::object({{"peak", std::int64_t{proposal.peak}},
                                 {"days", proposal.days},
                                 {"timezone", verb.timezone},
                                 {"sizes", std::move(list)},
                                 {"scaledObject", fields}}));
    return {};
  }
  Table table({{"OFF-PEAK", true},
               {"FROM", true},
               {"UNTIL", true},
               {"HOURS", true},
               {"SAVING-USD", true},
               {"SHORT-HOURS", true}});
  for (const auto& one : sizes) {
    table.row({std::to_string(one.replicas), fmt::format("{:02}:00", one.from), fmt::format("{:02}:00", one.until),
               std::to_string(one.hours), one.saving.to_usd(2), std::to_string(one.short_hours)});
  }
  context.out << fmt::format("peak {} replicas in {} days; saving of 30 days at {} USD an hour; hours in {}\n",
                             proposal.peak, proposal.days, verb.usd_hour.to_usd(2), verb.timezone)
              << table.text() << "\n# fields of a ScaledObject for the first line\n"
              << to_yaml(fields);
  return {};
}

}  // namespace qm::cli
