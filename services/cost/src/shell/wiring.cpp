#include "qm/config/typed.hpp"
#include "qm/cost/shell.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace qm::cost {

service::HostOptions host_options(const std::string& shard) {
  service::HostOptions options;
  options.service = "cost";
  options.shard = shard;
  options.consumes = {"qm.placement", "qm.node", "qm.capacity"};
  options.gather = std::chrono::milliseconds(500);  // nothing waits for one entry of the ledger
  options.produces = {"qm.cost"};
  return options;
}

PricePlan plan_from(const config::PricePlan& document) {
  PricePlan plan;
  plan.name = document.name;
  for (const auto& entry : document.entries) {
    plan.entries.push_back({entry.instance_type, entry.capacity_type, entry.zone, entry.rate});
  }
  return plan;
}

PricePlan joined(std::span<const PricePlan> plans) {
  PricePlan all;
  for (const auto& plan : plans) {
    all.name += (all.name.empty() ? "" : "+") + plan.name;
    all.entries.insert(all.entries.end(), plan.entries.begin(), plan.entries.end());
  }
  return all.name.empty() ? builtin_prices() : all;
}

Result<std::vector<PricePlan>> plans_from_manifests(std::span<const std::string> paths) {
  QM_ASSIGN(const auto documents, config::typed_manifests<config::PricePlan>(paths));
  std::vector<PricePlan> plans;
  std::ranges::transform(documents, std::back_inserter(plans), plan_from);
  return plans;
}

void export_metrics(metrics::Registry& registry, service::Host& host, const DomainClock& clock) {
  registry.on_scrape([&registry, &host, &clock, teams = std::set<std::string>{}]() mutable {
    host.read([&](const service::Shell& shell) {
      const auto& engine = engine_of(shell);
      const auto& meta = engine.meta();
      const Instant now = std::max(clock.now(), meta.now);
      const auto set = [&](const char* name, const char* help, double value) { registry.gauge(name, help).set(value); };
      const auto usd = [](Money money) { return static_cast<double>(money.nano()) / 1e9; };
      set("qm_cost_ledger_entries", "Journal entries posted so far, reversals included",
          static_cast<double>(meta.entries));
      set("qm_cost_restatements", "Journal entries reversed because of a late observation",
          static_cast<double>(meta.restatements));
      set("qm_cost_late_facts", "Facts about time that is folded already, dropped", static_cast<double>(meta.late));
      set("qm_cost_open_slices", "Posted slices that can still be restated",
          static_cast<double>(engine.state().slices.size()));
      set("qm_cost_unpriced_instances", "Running instances without a price, which are not charged",
          static_cast<double>(engine.unpriced(now).size()));
      set("qm_cost_burn_usd_per_hour", "Price of the running fleet", usd(engine.burn_rate(now)));
      const std::string period = period_of(now);
      const auto statement = engine.statement(period, now);
      if (!statement) return;  // a month always begins at a valid bound of a query
      set("qm_cost_imbalance_nano_usd", "Sum of all ledger lines; not 0 = the ledger is broken",
          static_cast<double>(statement->imbalance.nano()));
      set("qm_cost_open_instances", "Instances that are billed now", static_cast<double>(statement->open_instances));
      set("qm_cost_month_provider_usd", "The provider's bill of this month so far", usd(statement->provider));
      // A team of last month shows zero instead of its last value.
      for (const auto& [team, amount] : statement->lines) teams.insert(team);
      for (const auto& team : teams) {
        const auto line = statement->lines.find(team);
        const Amount amount = line == statement->lines.end() ? Amount{} : line->second;
        registry.gauge("qm_cost_month_usd", "Charge of this month so far", {{"team", team}}).set(usd(amount.nano));
        registry.gauge("qm_cost_month_gpu_hours", "GPU-hours of this month so far", {{"team", team}})
            .set(static_cast<double>(amount.gpu_micros) / 3.6e9);
      }
    });
  });
}

}  // namespace qm::cost
