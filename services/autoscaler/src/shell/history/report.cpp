// Texts and JSON of replayed bills and decisions.
#include "qm/autoscaler/api.hpp"
#include "qm/autoscaler/history/recorder.hpp"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

namespace qm::autoscaler {
namespace {

namespace pb = quartermaster::v1;

constexpr double kHour = 3600;
constexpr std::int64_t kPermillePerPercent = 10;

double gpu_hours(std::int64_t gpu_seconds) { return static_cast<double>(gpu_seconds) / kHour; }

double mean_wait(const Bill& bill) {
  return bill.started == 0 ? 0 : seconds(bill.waited) / static_cast<double>(bill.started + bill.evictions);
}

Json json_of(const Bill& bill) {
  return Json::object({{"usd", bill.cost.to_usd(2)},
                       {"launches", bill.launches},
                       {"gpuHours", gpu_hours(bill.gpu_seconds)},
                       {"usedGpuHours", gpu_hours(bill.used_gpu_seconds)},
                       {"jobs", bill.jobs},
                       {"started", bill.started},
                       {"finished", bill.finished},
                       {"evictions", bill.evictions},
                       {"meanWaitSeconds", mean_wait(bill)},
                       {"longestWaitSeconds", seconds(bill.longest_wait)}});
}

std::string line_of(const char* name, const Bill& bill) {
  return fmt::format("{:<9} {:>14} {:>9} {:>12.1f} {:>12.1f} {:>8} {:>8} {:>9} {:>11.0f} {:>12.0f}\n", name,
                     bill.cost.to_usd(2), bill.launches, gpu_hours(bill.gpu_seconds), gpu_hours(bill.used_gpu_seconds),
                     bill.started, bill.finished, bill.evictions, mean_wait(bill), seconds(bill.longest_wait));
}

}  // namespace

Result<HistoryChange> history_change_from(const std::string& json, std::int64_t demand_percent) {
  HistoryChange out;
  out.demand_permille = demand_percent * kPermillePerPercent;
  if (json.empty()) return out;
  pb::SimulateCapacityRequest request;
  const auto read = google::protobuf::util::JsonStringToMessage(json, &request);
  if (!read.ok()) {
    return fail({Code::kInvalid, fmt::format("the change cannot be read: {}", read.ToString()), "--what-if",
                 "give a SimulateCapacityRequest as JSON; qmctl capacity simulate --journal writes it"});
  }
  if (request.demand_size() + request.removed_size() > 0) {
    return fail({Code::kInvalid, "a recorded time has its own demand", "--what-if",
                 "change the amount of it with --demand PERCENT"});
  }
  std::vector<std::string> warnings;
  QM_ASSIGN(out.what_if, what_if_from(request, Tables{}, warnings));
  return out;
}

Json report_of(const Bill& recorded, const Bill& replayed, const Bill& changed) {
  Json out = Json::object({{"recorded", json_of(recorded)}, {"replayed", json_of(replayed)}});
  out.set("changed", json_of(changed));
  out.set("difference", Json::object({{"usd", (changed.cost - replayed.cost).to_usd(2)},
                                      {"gpuHours", gpu_hours(changed.gpu_seconds - replayed.gpu_seconds)},
                                      {"launches", changed.launches - replayed.launches},
                                      {"started", changed.started - replayed.started},
                                      {"meanWaitSeconds", mean_wait(changed) - mean_wait(replayed)}}));
  return out;
}

std::string text_of(const Bill& recorded, const Bill& replayed, const Bill& changed) {
  std::string out =
      fmt::format("{:<9} {:>14} {:>9} {:>12} {:>12} {:>8} {:>8} {:>9} {:>11} {:>12}\n", "", "USD", "LAUNCHES",
                  "GPU-HOURS", "USED", "STARTED", "FINISHED", "EVICTIONS", "MEAN-WAIT-S", "LONGEST-S");
  out += line_of("recorded", recorded) + line_of("replayed", replayed);
  out += line_of("changed", changed);
  const Money difference = changed.cost - replayed.cost;
  const double share = replayed.cost.nano() == 0
                           ? 0
                           : 100 * static_cast<double>(difference.nano()) / static_cast<double>(replayed.cost.nano());
  out += fmt::format(
      "difference of the change: {}{} USD ({:+.1f} %), {:+.1f} GPU-hours, {:+} launches, mean wait "
      "{:+.0f} s\n",
      difference.nano() >= 0 ? "+" : "", difference.to_usd(2), share,
      gpu_hours(changed.gpu_seconds - replayed.gpu_seconds), changed.launches - replayed.launches,
      mean_wait(changed) - mean_wait(replayed));
  return out;
}

Result<Json> decision_of_launch(const Engine& engine, Instant now, const std::string& claim) {
  pb::ExplainCapacityRequest request;
  request.set_name(claim);
  QM_ASSIGN(const auto response, explanation_for(engine, now, request, rpc::Caller::anyone()));
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto written = google::protobuf::util::MessageToJsonString(response, &text, options);
  if (!written.ok()) return fail(Code::kInternal, "the decision cannot be written: {}", written.ToString());
  return Json::parse(text);
}

}  // namespace qm::autoscaler
