// What may be spent.
#include "commands.hpp"
#include "print.hpp"
#include "qm/model/money.hpp"
#include "table.hpp"
#include "words.hpp"

#include <ostream>

namespace qm::cli {
namespace {

std::string whose(const pb::BudgetState& budget) {
  if (!budget.cluster_queue().empty()) return "queue " + budget.cluster_queue();
  return budget.team().empty() ? "namespace " + budget.namespace_() : "team " + budget.team();
}

}  // namespace

Status run_verb(Context& context, const BudgetVerb&) {
  QM_ASSIGN(const auto answer, context.client.budgets({}));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.budgets().empty()) {
    context.err << "no budgets; the cost service reads objects of the kind Budget\n";
    return {};
  }
  Table table({{"BUDGET"},
               {"PAYS FOR"},
               {"UNIT"},
               {"UNTIL"},
               {"GRANTED", true},
               {"SPENT", true},
               {"HELD", true},
               {"FREE", true},
               {"OWED", true},
               {"AT THIS RATE", true}});
  for (const auto& b : answer.budgets()) {
    const bool dollars = b.unit() == pb::BUDGET_NANO_USD;
    // Thousandths of a GPU-second are microseconds of a thousand.
    const auto show = [&](std::int64_t n) { return dollars ? Money::nano(n).to_usd(2) : gpu_hours(n * 1000); };
    table.row({printable(b.name()), printable(whose(b)),
               std::string(dollars ? "USD" : "GPU-hours") + (b.soft() ? ", soft" : ""),
               b.to_us() == 0 ? std::string("none granted") : instant(b.to_us()), show(b.granted()), show(b.spent()),
               show(b.held()), show(b.free()), show(b.owed()), show(b.projected())});
  }
  context.out << table.text();
  return {};
}

}  // namespace qm::cli
