// capacity why, plan and simulate: what is launched, why, at which price, and what a change would launch.
#include "commands.hpp"
#include "print.hpp"
#include "qm/model/money.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <ostream>
#include <tuple>

namespace qm::cli {
namespace {

constexpr int kCents = 2;

std::string usd_with_cents(std::int64_t nano) { return Money::nano(nano).to_usd(kCents); }

std::string requests_text(const pb::CapacityDecision& decision) {
  std::vector<std::string> sets;
  for (const auto& r : decision.requests()) {
    sets.push_back(fmt::format("{} x {}: {} GPUs, {} CPUs, {} memory each", r.count(), r.pod_set(),
                               thousandths(r.gpu_milli()), thousandths(r.cpu_milli()), bytes(r.memory_bytes())));
  }
  return fmt::format("{}", fmt::join(sets, "; "));
}

/// How far the price is above the lower bound.
std::string above(std::int64_t nano, std::int64_t bound) {
  if (bound <= 0) return "";
  constexpr double kPercent = 100;
  return fmt::format(", {:.1f} % above the lower bound",
                     kPercent * (static_cast<double>(nano) / static_cast<double>(bound) - 1));
}

void show_candidates(const Context& context, const pb::CapacityDecision& decision) {
  Table table({{"REASON"},
               {"NODE-POOL"},
               {"INSTANCE-TYPE"},
               {"ZONE"},
               {"CAPACITY-TYPE"},
               {"NODES", true},
               {"USD/H-NODE", true},
               {"USD/H", true},
               {"MESSAGE"}});
  std::map<std::string, std::int64_t> hidden(decision.counts().begin(), decision.counts().end());
  for (const auto& c : decision.candidates()) {
    --hidden[c.reason()];
    const bool priced = c.node_nano_usd_hour() > 0;
    table.row({c.reason(), c.node_pool(), c.instance_type(), c.zone(), c.capacity_type(),
               c.nodes() > 0 ? std::to_string(c.nodes()) : "", priced ? usd_with_cents(c.node_nano_usd_hour()) : "",
               c.nodes() > 0 ? usd_with_cents(c.nano_usd_hour()) : "", c.message()});
  }
  if (!table.empty()) context.out << table.text();
  std::vector<std::string> others;
  for (const auto& [reason, count] : hidden) {
    if (count > 0) others.push_back(fmt::format("{} {}", count, reason));
  }
  if (!others.empty())
    context.out << fmt::format("not listed: {}; --candidates N lists more\n", fmt::join(others, ", "));
}

void show(const Context& context, const pb::CapacityDecision& decision) {
  context.out << fmt::format("{} (priority {}, pending for {})\n", printable(decision.workload()), decision.priority(),
                             age(decision.since_us(), context.clock.now()));
  line(context, "requests", requests_text(decision));
  if (decision.pods_in_room() > 0) {
    line(context, "room",
         fmt::format("{} of {} pods fit running nodes{}", decision.pods_in_room(), decision.pods(),
                     decision.room_zone().empty() ? "" : " in zone " + decision.room_zone()));
  }
  line(context, "outcome", decision.outcome());
  for (const auto& claim : decision.claims())
    line(context, "claim",
         fmt::format("{} {} {}: {}", claim.claim(), claim.instance_type(), claim.zone(), claim.reason()));
  if (!decision.bound_by().empty()) {
    line(context, "bound",
         fmt::format("no launch from these candidates costs less than {} USD/h (by {})",
                     usd_with_cents(decision.bound_nano_usd_hour()), decision.bound_by()));
  }
  show_candidates(context, decision);
}

/// Equal launches as one row: NodePool, type, zone, capacity type, workload, owner.
using LaunchKey = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>;

std::map<LaunchKey, std::pair<std::int64_t, std::int64_t>> grouped(const pb::SimulatedPlan& plan) {
  std::map<LaunchKey, std::pair<std::int64_t, std::int64_t>> out;
  for (const auto& l : plan.launches()) {
    auto& [nodes, nano] =
        out[{l.node_pool(), l.instance_type(), l.zone(), l.capacity_type(), l.workload(), l.other_owner()}];
    ++nodes;
    nano += l.nano_usd_hour();
  }
  return out;
}

void show(const Context& context, const pb::SimulatedPlan& plan) {
  if (!plan.launches().empty()) {
    Table table({{"NODE-POOL"},
                 {"INSTANCE-TYPE"},
                 {"ZONE"},
                 {"CAPACITY-TYPE"},
                 {"NODES", true},
                 {"USD/H", true},
                 {"WORKLOAD"},
                 {"LAUNCHED-BY"}});
    for (const auto& [key, sum] : grouped(plan)) {
      const auto& [pool, type, zone, market, workload, owner] = key;
      table.row({pool, type, zone, market, std::to_string(sum.first), usd_with_cents(sum.second), workload,
                 owner.empty() ? "quartermaster" : owner});
    }
    context.out << table.text();
  }
  context.out << fmt::format("{} instance(s) with {} GPUs would be launched at {} USD/h",
                             plan.launches_size() + plan.hidden(), plan.gpus(), usd_with_cents(plan.nano_usd_hour()));
  if (plan.starting() > 0)
    context.out << fmt::format("; {} start already at {} USD/h", plan.starting(),
                               usd_with_cents(plan.starting_nano_usd_hour()));
  context.out << '\n';
  if (plan.pods() > 0) {
    context.out << fmt::format("{} of {} pending pods fit running nodes", plan.pods_in_room(), plan.pods());
    if (!plan.bound_by().empty()) {
      const auto all = plan.nano_usd_hour() + plan.starting_nano_usd_hour();
      context.out << fmt::format("; the others cost at least {} USD/h (by {}){}",
                                 usd_with_cents(plan.bound_nano_usd_hour()), plan.bound_by(),
                                 plan.unmet().empty() ? above(all, plan.bound_nano_usd_hour()) : "");
    }
    context.out << '\n';
  }
  if (plan.hidden() > 0)
    context.out << fmt::format("{} launch(es) for workloads of others are not listed\n", plan.hidden());
  for (const auto& decision : plan.unmet())
    context.out << fmt::format("not met: {}: {}\n", printable(decision.workload()), printable(decision.outcome()));
}

Status why(Context& context, const CapacityVerb& verb) {
  QM_ASSIGN(const auto answer, context.client.explain_capacity(verb.why));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  for (const auto& decision : answer.decisions()) show(context, decision);
  for (const auto& claim : answer.claims())
    context.out << fmt::format("{} {} {} {}: {}\n", claim.claim(), claim.instance_type(), claim.zone(),
                               claim.capacity_type(), printable(claim.reason()));
  if (!answer.note().empty()) context.out << "note: " << printable(answer.note()) << '\n';
  return {};
}

}  // namespace

void add_manifests(const Context& context, pb::SimulateCapacityRequest& change) {
  for (const auto& manifest : context.manifests)
    change.set_manifest(change.manifest() + (change.manifest().empty() ? "" : "\n---\n") + manifest.text);
  // With several files the lines of an error count over all of them, one file after the other.
  if (context.manifests.empty()) return;
  change.set_source(context.manifests.size() == 1 ? context.manifests.front().source
                                                  : fmt::format("{} files", context.manifests.size()));
}

Status run_verb(Context& context, const CapacityVerb& verb) {
  if (verb.action == CapacityVerb::Action::kWhy) return why(context, verb);
  auto request = verb.change;
  add_manifests(context, request);
  QM_ASSIGN(const auto answer, context.client.simulate_capacity(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  for (const auto& warning : answer.warnings()) context.err << "warning: " << printable(warning) << '\n';
  if (!answer.has_changed()) {
    show(context, answer.present());
    return {};
  }
  context.out << "present:\n";
  show(context, answer.present());
  context.out << "\nafter the change:\n";
  show(context, answer.changed());
  const auto difference = answer.changed().nano_usd_hour() - answer.present().nano_usd_hour();
  context.out << fmt::format("\ndifference: {:+} instance(s), {:+} GPUs, {}{} USD/h, {:+} workload(s) not met\n",
                             answer.changed().launches_size() - answer.present().launches_size(),
                             answer.changed().gpus() - answer.present().gpus(), difference >= 0 ? "+" : "",
                             usd_with_cents(difference), answer.changed().unmet_size() - answer.present().unmet_size());
  return {};
}

}  // namespace qm::cli
