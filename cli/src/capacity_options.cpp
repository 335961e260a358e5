// Texts of `capacity simulate` to changes.
#include "capacity_options.hpp"

#include "qm/base/parse.hpp"
#include "qm/model/money.hpp"
#include "qm/model/quantity.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace qm::cli {
namespace {

namespace pb = quartermaster::v1;

constexpr std::int64_t kMostCandidates = 500, kAllDemand = 100, kMostDemand = 10'000, kPermille = 1000,
                       kPermillePerPercent = 10;

struct OfferingText {
  std::string type, zone, market;
};

tl::unexpected<Error> refuse(const std::string& option, const std::string& text, const std::string& form) {
  return fail({Code::kInvalid, fmt::format("{}: '{}' is not of the form {}", option, text, form), option,
               fmt::format("write {}", form)});
}

OfferingText offering_of(std::string text) {
  OfferingText out;
  if (const auto colon = text.rfind(':'); colon != std::string::npos) {
    out.market = text.substr(colon + 1);
    text.resize(colon);
  }
  if (const auto slash = text.find('/'); slash != std::string::npos) {
    out.zone = text.substr(slash + 1);
    text.resize(slash);
  }
  out.type = text;
  return out;
}

bool is_market(const std::string& word) { return word.empty() || word == "spot" || word == "on-demand"; }

}  // namespace

Result<pb::PriceChange> price_change_of(const std::string& text) {
  constexpr const char* kForm = "TYPE[/ZONE][:spot|on-demand]=USD or =+20%";
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return refuse("--price", text, kForm);
  const auto offering = offering_of(text.substr(0, equals));
  std::string value = text.substr(equals + 1);
  if (offering.type.empty() || value.empty() || !is_market(offering.market)) return refuse("--price", text, kForm);
  pb::PriceChange out;
  out.set_instance_type(offering.type);
  out.set_zone(offering.zone);
  out.set_capacity_type(offering.market);
  if (value.back() != '%') {
    const auto usd = Money::parse_usd(value);
    if (!usd || usd->nano() < 0) return refuse("--price", text, kForm);
    out.set_nano_usd_hour(usd->nano());
    return out;
  }
  value.pop_back();
  const bool less = value.starts_with('-');
  const auto share = whole_number<std::int64_t>(value.starts_with('+') || less ? value.substr(1) : "");
  if (!share || *share < 0 || *share > kPermille * kPermille || (less && *share > 100))
    return refuse("--price", text, kForm);
  out.set_permille(kPermille + (less ? -1 : 1) * *share * kPermillePerPercent);
  return out;
}

Result<pb::AvailabilityChange> availability_of(const std::string& text, bool available) {
  const auto offering = offering_of(text);
  if (offering.type.empty() || !is_market(offering.market)) {
    return refuse(available ? "--available" : "--unavailable", text, "TYPE[/ZONE][:spot|on-demand]");
  }
  pb::AvailabilityChange out;
  out.set_instance_type(offering.type);
  out.set_zone(offering.zone);
  out.set_capacity_type(offering.market);
  out.set_available(available);
  return out;
}

Result<pb::DemandChange> demand_change_of(const std::string& text) {
  constexpr const char* kForm = "PODSxGPUS[,cpu=8][,memory=64Gi][,model=H100][,priority=10][,LABEL=VALUE]";
  pb::DemandChange out;
  std::string rest = text;
  const auto next = [&] {
    const auto comma = rest.find(',');
    std::string part = rest.substr(0, comma);
    rest = comma == std::string::npos ? std::string() : rest.substr(comma + 1);
    return part;
  };
  const std::string counts = next();
  const auto by = counts.find('x');
  const auto pods = whole_number<std::int32_t>(counts.substr(0, by));
  const auto gpus = whole_number<std::int64_t>(by == std::string::npos ? "" : counts.substr(by + 1));
  if (!pods || *pods <= 0 || !gpus || *gpus < 0) return refuse("--add-demand", text, kForm);
  out.set_pods(*pods);
  out.set_gpus(*gpus);
  while (!rest.empty()) {
    const std::string part = next();
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) return refuse("--add-demand", text, kForm);
    const std::string key = part.substr(0, equals), value = part.substr(equals + 1);
    const auto amount = Quantity::parse(value);
    if ((key == "cpu" || key == "memory") && (!amount || amount->negative()))
      return refuse("--add-demand", text, kForm);
    if (key == "cpu") {
      out.set_cpu_milli(amount->milli());
    } else if (key == "memory") {
      out.set_memory_bytes(amount->units());
    } else if (key == "model") {
      out.set_gpu_model(value);
    } else if (key == "priority") {
      const auto priority = whole_number<std::int32_t>(value);
      if (!priority) return refuse("--add-demand", text, kForm);
      out.set_priority(*priority);
    } else {
      (*out.mutable_node_selector())[key] = value;
    }
  }
  return out;
}

void CapacityFlags::add_to(CLI::App& app) {
  app.add_option("action", action_, "why, plan or simulate")
      ->required()
      ->check(CLI::IsMember({"why", "plan", "simulate"}));
  app.add_option("name", name_, "why: NAMESPACE/NAME of a workload or pod, a uid, or a NodeClaim");
  app.add_option("--candidates", candidates_, "why: candidates that are listed, 1 to 500")
      ->check(CLI::Range(std::int64_t{1}, kMostCandidates));
  app.add_option("-f,--file", files_, "simulate: changed or new NodePools (repeatable)");
  app.add_option("--delete", deleted_, "simulate: NodePool that is deleted (repeatable)");
  app.add_option("--price", prices_, "simulate: TYPE[/ZONE][:spot]=USD, or =+20% (repeatable)");
  app.add_option("--add-demand", added_, "simulate: PODSxGPUS[,cpu=8,memory=64Gi,LABEL=VALUE] (repeatable)");
  app.add_option("--remove-demand", removed_, "simulate: pending workload that is left out (repeatable)");
  app.add_option("--unavailable", unavailable_, "simulate: TYPE[/ZONE][:spot] without capacity (repeatable)");
  app.add_option("--available", available_, "simulate: the same with capacity (repeatable)");
  app.add_option("--journal", journal_,
                 "simulate: over the recorded time in this database (connection string), with qm-replay");
  app.add_option("--demand", demand_, "simulate --journal: percentage of the recorded workloads that arrive")
      ->check(CLI::Range(std::int64_t{0}, kMostDemand));
  app.add_option("--shard", shard_, "simulate --journal: shard of the autoscaler")->capture_default_str();
  app.add_option("--set", sets_, "simulate --journal: a setting of the autoscaler, NAME=VALUE (repeatable)");
}

pb::SimulateCapacityRequest CapacityFlags::change() const {
  pb::SimulateCapacityRequest change;
  for (const auto& name : deleted_) change.add_deleted(name);
  for (const auto& name : removed_) change.add_removed(name);
  const auto read = [](const std::vector<std::string>& texts, auto&& parse, auto&& to) {
    for (const auto& text : texts) {
      auto one = parse(text);
      if (!one) throw CLI::ValidationError(one.error().message);
      *to() = std::move(*one);
    }
  };
  const auto flag = [](bool available) {
    return [available](const std::string& text) { return availability_of(text, available); };
  };
  read(prices_, price_change_of, [&] { return change.add_prices(); });
  read(added_, demand_change_of, [&] { return change.add_demand(); });
  read(unavailable_, flag(false), [&] { return change.add_availability(); });
  read(available_, flag(true), [&] { return change.add_availability(); });
  return change;
}

Verb CapacityFlags::history(pb::SimulateCapacityRequest change) const {
  if (action_ != "simulate") throw CLI::ValidationError("--journal needs capacity simulate");
  if (change.demand_size() + change.removed_size() > 0)
    throw CLI::ValidationError("a journal has its own demand: change the amount of it with --demand PERCENT");
  if (!name_.empty()) throw CLI::ValidationError("capacity simulate has no name");
  return HistoryVerb{journal_, shard_, std::move(change), files_, sets_, demand_};
}

Verb CapacityFlags::verb() const {
  CapacityVerb out;
  out.files = files_;
  out.change = change();
  if (!journal_.empty()) return history(out.change);
  if (demand_ != kAllDemand || !sets_.empty()) throw CLI::ValidationError("--demand and --set need --journal");
  const bool changes = !files_.empty() || out.change.ByteSizeLong() > 0;
  if (changes && action_ != "simulate") throw CLI::ValidationError("a change needs capacity simulate");
  if (!changes && action_ == "simulate") {
    throw CLI::ValidationError(
        "simulate needs a change: -f, --delete, --price, --add-demand, --remove-demand, --unavailable or --available");
  }
  if (name_.empty() && action_ == "why")
    throw CLI::ValidationError("capacity why: of what? give NAMESPACE/NAME, a uid or a NodeClaim");
  if (!name_.empty() && action_ != "why") throw CLI::ValidationError(fmt::format("capacity {} has no name", action_));
  if (action_ == "why") out.action = CapacityVerb::Action::kWhy;
  if (action_ == "simulate") out.action = CapacityVerb::Action::kSimulate;
  out.why.set_name(name_);
  out.why.set_candidates(static_cast<std::int32_t>(candidates_));
  return out;
}

}  // namespace qm::cli
