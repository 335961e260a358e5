// Budgets and their use.
#include "commands.hpp"
#include "print.hpp"
#include "qm/model/money.hpp"
#include "table.hpp"
#include "words.hpp"

#include <ostream>

namespace qm::cli {

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
  Table table({{"NAME"},
               {"CLUSTER-QUEUE"},
               {"NAMESPACE"},
               {"TEAM"},
               {"UNIT"},
               {"SOFT"},
               {"TO"},
               {"GRANTED", true},
               {"SPENT", true},
               {"HELD", true},
               {"FREE", true},
               {"OWED", true},
               {"PROJECTED", true}});
  for (const auto& b : answer.budgets()) {
    const bool dollars = b.unit() == pb::BUDGET_NANO_USD;
    // One thousandth of a GPU-second is 1,000 GPU-microseconds.
    const auto show = [&](std::int64_t n) { return dollars ? Money::nano(n).to_usd(2) : gpu_hours(n * 1000); };
    table.row({b.name(), b.cluster_queue(), b.namespace_(), b.team(), dollars ? "USD" : "GPU-hours",
               b.soft() ? "true" : "false", instant(b.to_us()), show(b.granted()), show(b.spent()), show(b.held()),
               show(b.free()), show(b.owed()), show(b.projected())});
  }
  context.out << table.text();
  return {};
}

}  // namespace qm::cli
