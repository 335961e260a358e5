#include "qm/checker/checker.hpp"

#include <charconv>
#include <sstream>

namespace qm::checker {
namespace {

std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  if (!line.empty() && line.back() == ',') cells.emplace_back();
  return cells;
}

// "98.32" dollars as nano-dollars, exactly: digits only, no floating point.
Result<std::int64_t> nano_of_usd(const std::string& text) {
  std::int64_t nano = 0;
  int decimals = -1;
  for (const char c : text) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c >= '0' && c <= '9' && decimals < 9) {
      nano = nano * 10 + (c - '0');
      if (decimals >= 0) ++decimals;
    } else {
      return fail(Code::kInvalid, "\"{}\" is not a valid price in dollars", text);
    }
  }
  for (int i = std::max(decimals, 0); i < 9; ++i) nano *= 10;
  return nano;
}

class Reader {
 public:
  explicit Reader(History& out) : out_(out) {}

  Status take(const Json& line) {
    const std::int64_t t = line["t"].integer(-1);
    const std::string& event = line["e"].string();
    if (t < 0 || event.empty()) return fail(Code::kInvalid, "no time or no event");
    last_ = t;
    if (event == "pod_start") {
      PodRun run;
      run.owner = line["owner"].string();
      run.pod = line["pod"].string();
      run.pod_uid = line["uid"].string();
      run.node = line["node"].string();
      run.team = line["team"].string();
      run.attempt = static_cast<std::int32_t>(line["attempt"].integer());
      run.index = static_cast<std::int32_t>(line["index"].integer());
      run.gang = static_cast<std::int32_t>(line["gang"].integer(1));
      for (const auto& d : line["devices"].items()) run.devices.push_back(static_cast<std::int32_t>(d.integer()));
      run.gpus = static_cast<std::int32_t>(line["gpus"].integer(-1));
      run.start_us = t;
      run.start_step = line["start_step"].integer();
      if (open_.contains(run.pod_uid)) return fail(Code::kInvalid, "pod {} starts twice", run.pod_uid);
      open_[run.pod_uid] = out_.pods.size();
      out_.pods.push_back(std::move(run));
    } else if (event == "pod_stop") {
      auto at = open_.find(line["uid"].string());
      if (at == open_.end()) return {};  // never started: deleted while pending
      auto& run = out_.pods[at->second];
      run.stop_us = t;
      run.stop_step = line["step"].integer();
      run.reason = line["reason"].string();
      open_.erase(at);
    } else if (event == "job_create" || event == "job_finish" || event == "job_delete") {
      auto& job = out_.jobs[line["uid"].string()];
      job.uid = line["uid"].string();
      if (event == "job_create") {
        const std::string full = line["job"].string();
        const auto slash = full.find('/');
        job.ns = full.substr(0, slash);
        job.name = slash == std::string::npos ? full : full.substr(slash + 1);
        job.team = line["team"].string();
        job.created_us = t;
      } else if (event == "job_finish") {
        job.finished_us = t;
        job.ok = line["ok"].boolean();
        ++job.finishes;
      } else {
        job.deleted_us = t;
      }
    } else if (event == "instance_launch") {
      InstanceRecord i;
      i.id = line["id"].string();
      i.type = line["type"].string();
      i.zone = line["zone"].string();
      i.market = line["market"].string();
      i.token = line["token"].string();
      i.claim = line["claim"].string();
      i.nano_usd_hour = line["nano_usd_hour"].integer();
      i.initial = line["initial"].boolean();
      // Billing starts at the full second of the launch, which may be earlier than the line.
      i.launch_us = line["launched"].integer(t);
      instance_[i.id] = out_.instances.size();
      out_.instances.push_back(std::move(i));
    } else if (event == "instance_stop") {
      auto at = instance_.find(line["id"].string());
      if (at == instance_.end()) return fail(Code::kInvalid, "instance {} stops before it starts", line["id"].string());
      out_.instances[at->second].stop_us = line["stopped"].integer(t);
    } else if (event == "instance_claim") {
      auto at = instance_.find(line["id"].string());
      if (at == instance_.end()) return fail(Code::kInvalid, "instance {} is not known", line["id"].string());
      out_.instances[at->second].claim = line["claim"].string();
    } else if (event == "claim_create") {
      out_.claims.try_emplace(line["name"].string(), t);
    } else if (event == "signal") {
      out_.signals.push_back({t, line["kind"].string(), line["node"].string()});
    }
    return {};
  }
  [[nodiscard]] std::int64_t last() const { return last_; }

 private:
  History& out_;
  std::map<std::string, std::size_t> open_, instance_;
  std::int64_t last_ = 0;
};

}  // namespace

Result<History> read_history(const std::string& text, std::int64_t end_us) {
  History history;
  Reader reader(history);
  std::stringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    auto parsed = Json::parse(line);
    if (!parsed) return fail(parsed.error().with_context(fmt::format("history line {}", number)));
    if (end_us > 0 && (*parsed)["t"].integer() > end_us) continue;
    if (auto ok = reader.take(*parsed); !ok) {
      return fail(ok.error().with_context(fmt::format("history line {}", number)));
    }
  }
  history.end_us = end_us > 0 ? end_us : reader.last();
  return history;
}

Result<Prices> read_prices(const std::string& csv) {
  Prices prices;
  std::stringstream in(csv);
  std::string line;
  if (!std::getline(in, line)) return fail(Code::kInvalid, "the price file is empty");
  std::map<std::string, std::size_t> column;
  const auto header = split_csv(line);
  for (std::size_t i = 0; i < header.size(); ++i) column[header[i]] = i;
  for (const char* name : {"instance_type", "gpus", "on_demand_usd_hour", "spot_usd_hour"}) {
    if (!column.contains(name)) return fail(Code::kInvalid, "the price file has no column {}", name);
  }
  for (int number = 2; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const auto cells = split_csv(line);
    if (cells.size() < header.size())
      return fail(Code::kInvalid, "price file line {} has {} of {} cells", number, cells.size(), header.size());
    Prices::Row row;
    const auto cell = [&](const char* name) { return cells[column[name]]; };
    if (!cell("on_demand_usd_hour").empty()) {
      QM_ASSIGN(row.on_demand_nano, nano_of_usd(cell("on_demand_usd_hour")));
    }
    if (!cell("spot_usd_hour").empty()) {
      QM_ASSIGN(row.spot_nano, nano_of_usd(cell("spot_usd_hour")));
    }
    const std::string gpus = cell("gpus");
    std::from_chars(gpus.data(), gpus.data() + gpus.size(), row.gpus);
    prices.by_type[cell("instance_type")] = row;
  }
  return prices;
}

}  // namespace qm::checker
