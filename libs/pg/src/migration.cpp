#include "qm/pg/migration.hpp"

#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"

namespace qm::pg {
namespace {

std::string in_schema(std::string sql, const std::string& schema) {
  constexpr std::string_view kMark = "{schema}";
  const auto name = quote_name(schema);
  for (auto at = sql.find(kMark); at != std::string::npos; at = sql.find(kMark, at + name.size()))
    sql.replace(at, kMark.size(), name);
  return sql;
}

Status apply(Connection& connection, const std::string& schema, const std::string& origin, const Migration& step) {
  if (auto done = connection.exec(in_schema(step.sql, schema)); !done) {
    auto error = done.error().with_context(fmt::format("migration {} {} ({})", origin, step.version, step.name));
    if (error.code == Code::kInternal) error.code = Code::kInvalid;
    return fail(std::move(error));
  }
  QM_TRY(connection.query(in_schema("insert into {schema}.migration (origin, version, name, checksum) "
                                    "values ($1::text, $2::bigint, $3::text, $4::text)",
                                    schema),
                          Params().text(origin).int8(step.version).text(step.name).text(sha256_hex(step.sql))));
  log::info("migration applied",
            {{"schema", schema}, {"origin", origin}, {"version", step.version}, {"name", step.name}});
  return {};
}

/// Checks that the applied steps are the first steps of the program.
Status same_steps(const Rows& applied, const std::string& schema, const std::string& origin,
                  std::span<const Migration> steps) {
  for (std::size_t row = 0; row < applied.size(); ++row) {
    if (row >= steps.size())
      return fail(Error{
          Code::kFailedPrecondition,
          fmt::format("schema {} has migration {} {} ({}), which is newer than this program, which has {} "
                      "of {}, found are {}",
                      schema, origin, applied.int8(row, 0), applied.text(row, 1), steps.size(), origin, applied.size()),
          "migrations", "run a newer program; a schema is never downgraded"});
    const auto ours = sha256_hex(steps[row].sql);
    if (applied.text(row, 2) != ours)
      return fail(
          Error{Code::kFailedPrecondition,
                fmt::format("migration {} {} ({}) was applied to schema {} with checksum {}, the program has {}",
                            origin, steps[row].version, steps[row].name, schema, applied.text(row, 2), ours),
                "migrations", "never edit an applied migration: restore its text and add a new one"});
  }
  return {};
}

Result<Rows> applied_steps(Connection& connection, const std::string& schema, const std::string& origin) {
  return connection.query(in_schema("select version, name, checksum from {schema}.migration "
                                    "where origin = $1::text order by version",
                                    schema),
                          Params().text(origin));
}

}  // namespace

Status check_migrations(Connection& connection, const std::string& schema, const std::string& origin,
                        std::span<const Migration> steps) {
  QM_ASSIGN(const auto there, connection.query("select to_regclass($1::text) is not null",
                                               Params().text(quote_name(schema) + ".migration")));
  std::size_t found = 0;
  if (there.boolean(0, 0)) {
    QM_ASSIGN(const auto applied, applied_steps(connection, schema, origin));
    QM_TRY(same_steps(applied, schema, origin, steps));
    found = applied.size();
  }
  if (found == steps.size()) return {};
  return fail(Error{Code::kFailedPrecondition,
                    fmt::format("schema {} is at version {} of {}, this program needs {} ({})", schema, found, origin,
                                steps.size(), steps.back().name),
                    "migrations", "run this program once with --migrate-only, then start it again"});
}

Status migrate(Connection& connection, const std::string& schema, const std::string& origin,
               std::span<const Migration> steps) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].version != static_cast<int>(i) + 1)
      return fail(Code::kInvalid, "migration {} ({}) of {} is at place {}: versions are 1, 2, 3, ... in order",
                  steps[i].version, steps[i].name, origin, i + 1);
  for (std::size_t i = 0; i <= steps.size(); ++i) {
    // A transaction per step: a lock taken in it makes other processes wait, and then find the step applied.
    QM_ASSIGN(auto transaction, Transaction::begin(connection));
    QM_TRY(connection.exec("set local statement_timeout = 0; set local client_min_messages = warning"));
    QM_TRY(connection.query("select pg_advisory_xact_lock(hashtextextended('qm-migrate ' || $1::text, 0))",
                            Params().text(schema)));
    if (i == 0) {
      QM_TRY(
          connection.exec(in_schema("create schema if not exists {schema}; create table if not exists "
                                    "{schema}.migration (origin text, version int, name text not null, checksum "
                                    "text not null, applied_at timestamptz not null default now(), "
                                    "primary key (origin, version))",
                                    schema)));
    }
    QM_ASSIGN(const auto applied, applied_steps(connection, schema, origin));
    QM_TRY(same_steps(applied, schema, origin, steps));
    if (applied.size() < steps.size()) QM_TRY(apply(connection, schema, origin, steps[applied.size()]));
    QM_TRY(transaction.commit());
    if (applied.size() + 1 >= steps.size()) return {};
  }
  return {};
}

}  // namespace qm::pg
