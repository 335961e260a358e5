#include "qm/cost/plan_watch.hpp"

#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "qm/config/manifest.hpp"
#include "qm/cost/shell.hpp"

#include <chrono>
#include <optional>

namespace qm::cost {

using namespace std::chrono_literals;

PlanWatch::PlanWatch(kube::Client& client, service::Host& host, Options options)
    : host_(host),
      options_(std::move(options)),
      feed_(client, "qm-cost",
            {{"quartermaster.dev", "priceplans", "PricePlan", {"v1alpha1"}},
             {"quartermaster.dev", "budgets", "Budget", {"v1alpha1"}}},
            {[this](const auto& kind, const Json& object) { return take(kind, object); },
             [this](const auto& kind, const auto& at) {
               const std::scoped_lock lock(mutex_);
               kind.kind == "Budget" ? seen_budgets_.erase(at.second) : seen_.erase(at.second);
             }}) {}

PlanWatch::~PlanWatch() { stop(); }

void PlanWatch::start() {
  feed_.start();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void PlanWatch::stop() {
  thread_ = {};
  feed_.stop();
}

Status PlanWatch::take(const kube::ConfigFeed::Kind& kind, const Json& object) {
  const auto loaded = config::load_text(object.dump(), kind.kind + "/" + kube::name_of(object));
  for (const auto& d : loaded.diagnostics) {
    if (d.severity == config::Diagnostic::Severity::kError)
      return fail(Error{Code::kInvalid, d.field + ": " + d.message, d.field, d.remedy});
  }
  const auto* typed = loaded.objects.empty() ? nullptr : &loaded.objects.front().typed;
  if (const auto* plan = typed == nullptr ? nullptr : std::get_if<config::PricePlan>(typed)) {
    return take_plan(plan_from(*plan));
  }
  const auto* budget = typed == nullptr ? nullptr : std::get_if<config::Budget>(typed);
  if (budget == nullptr) return fail(Code::kInvalid, "it is not a {} of a supported version", kind.kind);
  const std::scoped_lock lock(mutex_);
  seen_budgets_.insert_or_assign(budget->name, budget_from(*budget));
  return {};
}

Status PlanWatch::take_plan(PricePlan plan) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, other] : merged()) {
    if (name == plan.name) continue;
    for (const auto& theirs : other.entries) {
      for (const auto& ours : plan.entries) {
        if (std::tie(ours.instance_type, ours.capacity_type, ours.zone) !=
            std::tie(theirs.instance_type, theirs.capacity_type, theirs.zone))
          continue;
        return fail(Error{Code::kInvalid, fmt::format("it prices the same nodes as PricePlan {}", name), "spec.prices",
                          "keep one of the two entries"});
      }
    }
  }
  seen_.insert_or_assign(plan.name, std::move(plan));
  return {};
}

std::map<std::string, PricePlan> PlanWatch::merged() const {
  auto all = seen_;
  for (const auto& plan : options_.files) all.emplace(plan.name, plan);
  return all;
}

void PlanWatch::submit_budgets() {
  std::map<std::string, Budget> all;
  {
    const std::scoped_lock lock(mutex_);
    all = seen_budgets_;
  }
  for (const auto& budget : options_.budgets) all.emplace(budget.name, budget);
  std::vector<Budget> budgets;
  for (auto& [name, budget] : all) budgets.push_back(std::move(budget));
  if (published_budgets_ == budgets || !host_.submit(budgets_input(budgets))) return;
  log::info("budgets", {{"count", budgets.size()}});
  published_budgets_ = std::move(budgets);
}

void PlanWatch::run(const std::stop_token& stop) {
  std::optional<PricePlan> published;
  const auto patient_until = std::chrono::steady_clock::now() + options_.patience;
  bool complained = false;
  // Until the ledger has a plan it does not price.
  for (; !stop.stop_requested(); sleep_unless_stopped(published ? 1s : 200ms, stop)) {
    if (!feed_.synced()) {
      if (published || std::chrono::steady_clock::now() < patient_until) continue;
      if (!std::exchange(complained, true))
        log::warn("PricePlans cannot be read from the API server: only the files apply");
    } else {
      submit_budgets();
    }
    std::vector<PricePlan> plans;
    {
      const std::scoped_lock lock(mutex_);
      for (auto& [name, plan] : merged()) plans.push_back(plan);
    }
    PricePlan plan = joined(plans);
    if (published == plan) continue;
    if (!host_.submit(prices_input(plan))) continue;  // retried in the next round
    log::info("prices", {{"plan", plan.name}, {"entries", plan.entries.size()}});
    published = std::move(plan);
  }
}

}  // namespace qm::cost
