// PriorityClass of Kubernetes, and our own kinds: PricePlan and CheckpointPolicy.
#include "fields.hpp"

#include <limits>
#include <set>
#include <tuple>

namespace qm::config {
namespace {

Typed read_priority_class(const Cursor& root, std::string_view) {
  using T = PriorityClass;
  // Above one billion is the system's own (scheduling.k8s.io).
  static const Table<T> table = with_identity<T>(
      {required(integer("value", &T::value, std::numeric_limits<std::int32_t>::min(), 1'000'000'000)),
       boolean("globalDefault", &T::global_default), kept<T>("description"), kept<T>("preemptionPolicy")});
  PriorityClass priority;
  read_object(root, table, priority);
  return priority;
}

const Table<PricePlan::Entry>& price_table() {
  using E = PricePlan::Entry;
  static const Table<E> table{
      text("instanceType", &E::instance_type),
      one_of("capacityType", &E::capacity_type, {"on-demand", "spot", "reserved"}), text("zone", &E::zone),
      required(custom<E>("usdPerHour", [](const Cursor& at, E& out) { read_money(at, out.rate.per_hour); }))};
  return table;
}

Typed read_price_plan(const Cursor& root, std::string_view) {
  using T = PricePlan;
  static const Table<T> table =
      with_identity<T>({required(group<T>("spec", {required(list("prices", &T::entries, price_table()))}))});
  PricePlan plan;
  read_object(root, table, plan);
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

Typed read_checkpoint_policy(const Cursor& root, std::string_view) {
  using T = CheckpointPolicy;
  static const Table<T> table = with_identity<T>({required(
      group<T>("spec", {custom<T>("selector", read_selector), one_of("mode", &T::mode, {"http"}),
                        required(integer("port", &T::port, 1, 65'535)), duration("expected", &T::expected)}))});
  CheckpointPolicy policy;
  read_object(root, table, policy);
  return policy;
}

}  // namespace

std::vector<KindReader> own_kinds() {
  return {{"scheduling.k8s.io", {"v1"}, "PriorityClass", read_priority_class},
          {"quartermaster.dev", {"v1alpha1"}, "PricePlan", read_price_plan},
          {"quartermaster.dev", {"v1alpha1"}, "CheckpointPolicy", read_checkpoint_policy}};
}

}  // namespace qm::config
