// PriorityClass of Kubernetes, and the quartermaster.dev kinds PricePlan, CheckpointPolicy and Budget.
#include "fields.hpp"

#include <charconv>
#include <limits>
#include <set>
#include <tuple>

namespace qm::config {
namespace {

Typed read_priority_class(const Cursor& root, std::string_view) {
  using T = PriorityClass;
  // Values above one billion are reserved for system classes such as system-node-critical, which every cluster has;
  // the API server refuses them for other classes.
  constexpr std::numeric_limits<std::int32_t> kValues;
  static const Table<T> table = with_identity<T>({required(integer("value", &T::value, kValues.min(), kValues.max())),
                                                  boolean("globalDefault", &T::global_default), kept<T>("description"),
                                                  kept<T>("preemptionPolicy")});
  PriorityClass priority;
  read_object(root, table, priority);
  return priority;
}

/// Enough for a cluster's types, markets and zones, and few enough for an API server to compare them pairwise.
constexpr std::size_t kMostPrices = 256;

const Table<PricePlan::Entry>& price_table() {
  using E = PricePlan::Entry;
  static const Table<E> table{
      documented("An instance type such as p5.48xlarge; absent = any.",
                 up_to(63, text("instanceType", &E::instance_type))),
      documented("The market; absent = any.",
                 one_of("capacityType", &E::capacity_type, {"on-demand", "spot", "reserved"})),
      documented("An availability zone; absent = any.", up_to(63, text("zone", &E::zone))),
      documented(
          "Dollars an hour, down to a nano-dollar; a fraction in quotes.",
          required(custom<E>(
              "usdPerHour", [](const Cursor& at, E& out) { read_money(at, out.rate.per_hour); }, schema::money())))};
  return table;
}

const Table<PricePlan>& price_plan_table() {
  using T = PricePlan;
  static const Table<T> table = with_identity<T>({required(group<T>(
      "spec",
      {documented(
          "The narrowest entry that fits a node counts.",
          required(ruled(
              "self.all(a, self.exists_one(b, has(a.instanceType) == has(b.instanceType) && (!has(a.instanceType) || a.instanceType == b.instanceType) && "
              "has(a.capacityType) == has(b.capacityType) && (!has(a.capacityType) || a.capacityType == b.capacityType) && "
              "has(a.zone) == has(b.zone) && (!has(a.zone) || a.zone == b.zone)))",
              "two entries price the same nodes; keep one of them",
              at_most(kMostPrices, list("prices", &T::entries, price_table())))))}))});
  return table;
}

Typed read_price_plan(const Cursor& root, std::string_view) {
  PricePlan plan;
  read_object(root, price_plan_table(), plan);
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    const PricePlan::Entry& entry = plan.entries[i];
    if (seen.emplace(entry.instance_type, entry.capacity_type, entry.zone).second) continue;
    root.member("spec").member("prices").item(i).error("prices the same nodes as an earlier entry", "keep one of them");
  }
  return plan;
}

void read_selector(const Cursor& at, CheckpointPolicy& out) {
  std::string text;
  if (!read_text(at, text)) return;
  auto parsed = LabelSelector::parse(text);
  if (!parsed) return at.error(parsed.error().message, parsed.error().remedy);
  out.selector = std::move(*parsed);
}

const Table<CheckpointPolicy>& checkpoint_policy_table() {
  using T = CheckpointPolicy;
  static const Table<T> table = with_identity<T>({required(group<T>(
      "spec", {documented("Of workloads' labels, such as \"team in (research, vision)\"; absent = every workload.",
                          custom<T>("selector", read_selector, schema::text())),
               documented("How ranks get the order: http, a POST to each.", one_of("mode", &T::mode, {"http"})),
               documented("The port on which ranks answer.", required(integer("port", &T::port, 1, 65'535))),
               documented("Expected duration of a save, such as 40s.", duration("expected", &T::expected))}))});
  return table;
}

Typed read_checkpoint_policy(const Cursor& root, std::string_view) {
  CheckpointPolicy policy;
  read_object(root, checkpoint_policy_table(), policy);
  return policy;
}

/// Sums of such amounts are far from overflow, in nano-dollars and in thousandths of a GPU-second.
constexpr Money kMostBudget = Money::nano(100'000'000LL * 1'000'000'000);
constexpr std::chrono::hours kMostOffset{14};
constexpr std::chrono::hours kMostDefaultRun{24 * 366};

void read_offset(const Cursor& at, Budget& out) {
  std::string text;
  if (!read_text(at, text)) return;
  int hours = 0, minutes = 0;
  const bool form = text.size() == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':' &&
                    std::from_chars(&text[1], &text[3], hours).ptr == &text[3] &&
                    std::from_chars(&text[4], &text[6], minutes).ptr == &text[6];
  const Duration offset = std::chrono::hours(hours) + std::chrono::minutes(minutes);
  if (!form || minutes > 59 || offset > kMostOffset) {
    return at.error(fmt::format("\"{}\" is not a valid offset from UTC", text),
                    "write it as +02:00 or -05:30, at most 14 hours");
  }
  out.utc_offset = text[0] == '-' ? -offset : offset;
}

const Table<Budget>& budget_table() {
  using T = Budget;
  static const Table<T> table = with_identity<T>({required(ruled(
      "(has(self.clusterQueue) ? 1 : 0) + (has(self.team) ? 1 : 0) + (has(self.__namespace__) ? 1 : 0) == 1",
      "set one of clusterQueue, team and namespace",
      group<
          T>("spec",
             {documented("The budget pays for workloads of this ClusterQueue.",
                         up_to(253, text("clusterQueue", &T::cluster_queue))),
              documented("The budget pays for workloads of this team.", up_to(63, text("team", &T::team))),
              documented("The budget pays for workloads of this namespace.", up_to(63, text("namespace", &T::ns))),
              documented("What is counted.", required(one_of("unit", &T::unit, {"GPUHours", "USD"}))),
              documented(
                  "Of each period; a fraction in quotes.",
                  required(custom<T>(
                      "amount",
                      [](const Cursor& at, T& out) {
                        if (!read_money(at, out.amount) || out.amount <= kMostBudget) return;
                        at.error(fmt::format("{} is more than can be counted", out.amount.to_usd(0)),
                                 "give at most 100000000");
                      },
                      schema::money()))),
              documented("Weeks begin on Monday.",
                         required(one_of("period", &T::period, {"Year", "Month", "Week", "Day"}))),
              documented("Of the calendar, such as +02:00; absent = UTC.",
                         custom<T>("utcOffset", read_offset, schema::pattern("^[+-](0[0-9]|1[0-4]):[0-5][0-9]$"))),
              documented("Share of the free rest of a period that is added to the next one.",
                         integer("carryOverPercent", &T::carry_over_percent, 0, 100)),
              documented("Hard: a workload that it cannot pay is not admitted. Soft: usage is only counted.",
                         one_of("policy", &T::policy, {"Hard", "Soft"})),
              documented(
                  "Assumed run time of a workload without an expected one, such as 1h.", custom<T>(
                                                                                             "defaultRun",
                                                                                             [](const Cursor& at,
                                                                                                T& out) {
                                                                                               if (!read_duration(
                                                                                                       at,
                                                                                                       out.default_run,
                                                                                                       false))
                                                                                                 return;
                                                                                               if (out.default_run >
                                                                                                       Duration{0} &&
                                                                                                   out.default_run <=
                                                                                                       kMostDefaultRun)
                                                                                                 return;
                                                                                               at.error(
                                                                                                   "is out of range",
                                                                                                   "give more than zero, and at most a year");
                                                                                             },
                                                                                             schema::duration(
                                                                                                 false)))})))});
  return table;
}

Typed read_budget(const Cursor& root, std::string_view) {
  Budget budget;
  read_object(root, budget_table(), budget);
  const int scopes = !budget.cluster_queue.empty() + !budget.team.empty() + !budget.ns.empty();
  if (scopes != 1 && (*root.value)["spec"].is_object()) {
    root.member("spec").error(scopes == 0 ? "has no scope" : "has more than one scope",
                              "set one of clusterQueue, team and namespace");
  }
  return budget;
}

}  // namespace

std::vector<KindReader> own_kinds() {
  return {{"scheduling.k8s.io", {"v1"}, "PriorityClass", read_priority_class},
          {"quartermaster.dev", {"v1alpha1"}, "PricePlan", read_price_plan},
          {"quartermaster.dev", {"v1alpha1"}, "CheckpointPolicy", read_checkpoint_policy},
          {"quartermaster.dev", {"v1alpha1"}, "Budget", read_budget}};
}

std::vector<Definition> own_definitions() {
  return {
      {"PricePlan",
       "priceplans",
       "qmpp",
       "Price of a node without a price of the provider.",
       object_schema(price_plan_table()),
       {}},
      {"CheckpointPolicy",
       "checkpointpolicies",
       "qmcp",
       "How the ranks of matching workloads save a checkpoint.",
       object_schema(checkpoint_policy_table()),
       {{"Selector", ".spec.selector"},
        {"Mode", ".spec.mode"},
        {"Port", ".spec.port"},
        {"Expected", ".spec.expected"}}},
      {"Budget",
       "budgets",
       "qmbg",
       "What a queue, a namespace or a team may spend in each period.",
       object_schema(budget_table()),
       {{"Unit", ".spec.unit"}, {"Amount", ".spec.amount"}, {"Period", ".spec.period"}, {"Policy", ".spec.policy"}}}};
}

}  // namespace qm::config
