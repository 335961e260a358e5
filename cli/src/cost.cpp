// Verbs that show costs.
#include "commands.hpp"
#include "print.hpp"
#include "qm/model/money.hpp"
#include "table.hpp"
#include "words.hpp"

#include <ostream>

namespace qm::cli {
namespace {

std::string usd(std::int64_t nano) { return Money::nano(nano).to_usd(); }

/// A statement whose lines do not add up to the provider's bill is an error.
Status check(const pb::Statement& statement) {
  std::int64_t sum = 0;
  for (const auto& row : statement.lines()) {
    if (__builtin_add_overflow(sum, row.nano_usd(), &sum))
      return fail(Code::kInternal, "the lines of the statement exceed the range of money");
  }
  const bool adds_up =
      sum == statement.total_nano_usd() && sum == statement.provider_nano_usd() && statement.imbalance_nano_usd() == 0;
  if (adds_up) return {};
  return fail({Code::kInternal,
               fmt::format("the statement does not add up: lines {} USD, total {}, provider's bill "
                           "{}, ledger off by {}",
                           usd(sum), usd(statement.total_nano_usd()), usd(statement.provider_nano_usd()),
                           usd(statement.imbalance_nano_usd())),
               {},
               "do not bill from it; keep the cost service's /debug/state and its database for the "
               "report of the bug"});
}

}  // namespace

Status run_verb(Context& context, const ReportVerb& verb) {
  pb::GetStatementRequest request;
  request.set_period(verb.period);
  QM_ASSIGN(const auto statement, context.client.statement(request));
  if (context.structured()) {
    print(context, statement);
    return check(statement);
  }
  Table table({{"TEAM"}, {"GPU-HOURS", true}, {"USD", true}});
  std::int64_t gpu_micros = 0;
  for (const auto& row : statement.lines()) {
    table.row({row.team(), gpu_hours(row.gpu_micros()), usd(row.nano_usd())});
    gpu_micros += row.gpu_micros();
  }
  table.row({"total", gpu_hours(gpu_micros), usd(statement.total_nano_usd())});
  table.row({"provider", " ", usd(statement.provider_nano_usd())});
  context.out << fmt::format("{}, as of {}", statement.period().empty() ? "everything" : statement.period(),
                             instant(statement.as_of_us()));
  if (statement.open_instances() > 0)
    context.out << fmt::format(", {} instance(s) still run", statement.open_instances());
  context.out << '\n' << table.text();
  return check(statement);
}

Status run_verb(Context& context, const PricesVerb& verb) {
  pb::ListPricesRequest request;
  request.set_instance_type(verb.instance_type);
  QM_ASSIGN(const auto answer, context.client.prices(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.prices().empty()) {
    context.err << "no prices\n";
    return {};
  }
  Table table({{"INSTANCE-TYPE"}, {"CAPACITY-TYPE"}, {"ZONE"}, {"USD/HOUR", true}, {"FROM"}, {"SOURCE"}});
  for (const auto& p : answer.prices()) {
    table.row({p.instance_type().empty() ? "any" : p.instance_type(),
               p.capacity_type().empty() ? "any" : p.capacity_type(), p.zone().empty() ? "any" : p.zone(),
               usd(p.nano_usd_hour()), instant(p.from_us()), p.source()});
  }
  context.out << table.text();
  return {};
}

}  // namespace qm::cli
