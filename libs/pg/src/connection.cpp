#include "qm/pg/connection.hpp"

#include "qm/base/assert.hpp"

#include <libpq-fe.h>
#include <pqxx/pqxx>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <map>
#include <poll.h>
#include <unordered_map>

namespace qm::pg {

struct Rows::Impl {
  pqxx::result result;
};

Rows::Rows(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
std::size_t Rows::size() const { return impl_->result.size(); }
std::uint64_t Rows::affected() const { return impl_->result.affected_rows(); }

namespace {

pqxx::field cell(const pqxx::result& result, std::size_t row, int column) {
  return result[static_cast<pqxx::result::size_type>(row)][column];
}

int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c - 'a' + 10;
}

}  // namespace

bool Rows::null(std::size_t row, int column) const { return cell(impl_->result, row, column).is_null(); }

std::string_view Rows::text(std::size_t row, int column) const {
  const auto field = cell(impl_->result, row, column);
  return {field.c_str(), field.size()};
}

std::int64_t Rows::int8(std::size_t row, int column) const {
  const auto digits = text(row, column);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  QM_ASSERT(error == std::errc() && end == digits.data() + digits.size(), "column {} has \"{}\", not a bigint", column,
            digits);
  return value;
}

bool Rows::boolean(std::size_t row, int column) const { return text(row, column) == "t"; }

std::string Rows::bytes(std::size_t row, int column) const {
  auto hex = text(row, column);
  QM_ASSERT(hex.starts_with("\\x") && hex.size() % 2 == 0, "column {} has no bytea in hex form", column);
  hex.remove_prefix(2);
  std::string out(hex.size() / 2, '\0');
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>(nibble(hex[2 * i]) * 16 + nibble(hex[2 * i + 1]));
  return out;
}

namespace {

/// The message of the server without its decoration.
std::string first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  for (const std::string_view severity : {"ERROR:  ", "FATAL:  "})
    if (text.starts_with(severity)) text.remove_prefix(severity.size());
  return std::string(text);
}

Code code_of(std::string_view state) {
  const auto cls = state.substr(0, 2);
  if (cls == "08" || state == "57P01" || state == "57P02" || state == "57P03" || state == "25P03" || state == "25006" ||
      state == "53300")
    return Code::kUnavailable;
  if (state == "40001" || state == "40P01" || state == "55P03") return Code::kAborted;
  if (state == "57014") return Code::kDeadlineExceeded;
  if (state == "23505") return Code::kAlreadyExists;
  if (state == "42501" || cls == "28") return Code::kPermissionDenied;
  if (cls == "53" || cls == "54") return Code::kExhausted;
  if (cls == "22") return Code::kInvalid;
  if (cls == "23") return Code::kFailedPrecondition;
  return Code::kInternal;
}

/// ": connection refused", or empty: the text of the current exception, for an error that has the rest itself.
std::string reason_of_exception() {
  try {
    throw;
  } catch (const std::exception& e) {
    const std::string why = first_line(e.what());
    return why.empty() ? why : ": " + why;
  } catch (...) {
    return {};
  }
}

/// Converts the current exception to an error.
Error current_error(bool open) {
  try {
    throw;
  } catch (const pqxx::broken_connection& e) {
    const std::string_view why = e.what();
    // libpqxx queries the encoding of a dead session before it reports the loss.
    if (why.find("client encoding") != std::string_view::npos)
      return {Code::kUnavailable, "the connection to PostgreSQL is lost", "", ""};
    return {Code::kUnavailable, "the connection to PostgreSQL is lost: " + first_line(why), "", ""};
  } catch (const pqxx::transaction_rollback& e) {
    return {Code::kAborted, first_line(e.what()), "", ""};
  } catch (const pqxx::insufficient_privilege& e) {  // has no SQLSTATE
    return {Code::kPermissionDenied, "PostgreSQL refuses: " + first_line(e.what()), "", ""};
  } catch (const pqxx::sql_error& e) {
    auto code = open ? code_of(e.sqlstate()) : Code::kUnavailable;
    // Of the program limits (class 54) only this one is caused by the value; the others may be a state of the
    // server.
    if (open && e.sqlstate() == "54000" && std::string_view(e.what()).find("index row") != std::string_view::npos)
      code = Code::kInvalid;
    return {code, fmt::format("PostgreSQL refuses: {} (SQLSTATE {})", first_line(e.what()), e.sqlstate()), "", ""};
  } catch (const pqxx::failure& e) {
    return {open ? Code::kInternal : Code::kUnavailable, "PostgreSQL: " + first_line(e.what()), "", ""};
  } catch (const std::exception& e) {
    return {Code::kInternal, first_line(e.what()), "", ""};
  }
}

std::string quoted_setting(std::string_view value) {
  std::string out = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// A quoted part may be a password: libpq shows the position where parsing failed.
std::string without_quotes(const std::string& text) {
  std::string out;
  bool inside = false;
  for (const char c : text) {
    if (c == '"') {
      out += inside ? "...\"" : "\"";
      inside = !inside;
    } else if (!inside) {
      out += c;
    }
  }
  return out;
}

/// The operator's settings, with defaults for those that are missing.
Result<std::string> complete(const std::string& conninfo, const std::string& application_name) {
  char* why = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(PQconninfoParse(conninfo.c_str(), &why),
                                                                            &PQconninfoFree);
  if (!parsed) {
    const std::string text = why == nullptr ? "out of memory" : without_quotes(first_line(why));
    PQfreemem(why);
    return fail(Error{Code::kInvalid, "the PostgreSQL connection string cannot be read: " + text, "conninfo",
                      "write \"host=... dbname=... user=...\" or postgresql://user@host/dbname"});
  }
  std::map<std::string, std::string> settings{{"keepalives", "1"},
                                              {"keepalives_idle", "2"},
                                              {"keepalives_interval", "1"},
                                              {"keepalives_count", "3"},
                                              {"tcp_user_timeout", "5000"},
                                              {"connect_timeout", "3"},
                                              {"target_session_attrs", "read-write"}};
  for (const auto* option = parsed.get(); option->keyword != nullptr; ++option)
    if (option->val != nullptr) settings[option->keyword] = option->val;
  settings["application_name"] = application_name;
  std::string out;
  for (const auto& [key, value] : settings) out += key + "=" + quoted_setting(value) + " ";
  return out;
}

}  // namespace

struct Connection::Impl {
  std::unique_ptr<pqxx::connection> session;
  std::unordered_map<std::string, std::string> prepared;
  bool lost = false;
  int pid = 0;  ///< libpq drops it with the connection

  /// Runs fn at the boundary of the adapter: exceptions end here.
  template <class Fn>
  auto guarded(Fn&& fn) -> Result<decltype(fn())> {
    if (lost) return fail(Code::kUnavailable, "the connection to PostgreSQL is lost");
    try {
      return fn();
    } catch (...) {
      auto error = current_error(session->is_open());
      lost = !session->is_open() || error.code == Code::kUnavailable;
      return fail(std::move(error));
    }
  }
};

Result<std::unique_ptr<Connection>> Connection::open(const std::string& conninfo, const ConnectOptions& options) {
  QM_ASSIGN(const auto settings, complete(conninfo, options.application_name));
  auto impl = std::make_unique<Impl>();
  try {
    impl->session = std::make_unique<pqxx::connection>(settings);
    impl->pid = impl->session->backendpid();
// The only switch that keeps libpqxx 6 from reconnecting implicitly is marked for removal in 7, where the
// reconnecting itself is removed.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    impl->session->inhibit_reactivation(true);
#pragma GCC diagnostic pop
  } catch (...) {
    return fail(Error{Code::kUnavailable, "PostgreSQL cannot be reached" + reason_of_exception(), "", ""});
  }
  std::unique_ptr<Connection> out(new Connection(std::move(impl)));
  QM_TRY(
      out->exec(fmt::format("set statement_timeout = {}; set idle_in_transaction_session_timeout = {}; "
                            "set bytea_output = hex; select set_config('synchronous_commit', 'on', false) "
                            "where current_setting('synchronous_commit') = 'off'",
                            options.statement_timeout.count(), options.idle_in_transaction_timeout.count())));
  return out;
}

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() = default;

Result<Rows> Connection::query(const std::string& sql, const Params& params) {
  return impl_->guarded([&] {
    auto& session = *impl_->session;
    auto known = impl_->prepared.find(sql);
    if (known == impl_->prepared.end()) {
      const auto name = fmt::format("q{}", impl_->prepared.size());
      session.prepare(name, sql);
      known = impl_->prepared.emplace(sql, name).first;
    }
    std::vector<pqxx::binarystring> values;
    values.reserve(params.values().size());
    for (const auto& value : params.values()) values.emplace_back(value.data(), value.size());
    pqxx::nontransaction direct(session);
    return Rows(std::make_shared<Rows::Impl>(
        Rows::Impl{direct.exec_prepared(known->second, pqxx::prepare::make_dynamic_params(values))}));
  });
}

Result<Rows> Connection::exec(const std::string& sql) {
  return impl_->guarded([&] {
    pqxx::nontransaction direct(*impl_->session);
    return Rows(std::make_shared<Rows::Impl>(Rows::Impl{direct.exec(sql)}));
  });
}

Result<bool> Connection::wait_notification(SteadyDuration timeout, const Wake* wake) {
  // A time that is cut to whole milliseconds would make the wait for the rest of one return at once, and be repeated.
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return impl_->guarded([&] {
    auto& session = *impl_->session;
    if (session.get_notifs() > 0) return true;
    if (ms <= 0) return false;
    std::array<pollfd, 2> entries{pollfd{session.sock(), POLLIN, 0}, pollfd{}};
    if (wake != nullptr) entries[1] = {wake->descriptor(), POLLIN, 0};
    // An interrupted wait ends early; the caller's loop continues.
    (void)::poll(entries.data(), wake == nullptr ? 1 : 2, static_cast<int>(std::min<std::int64_t>(ms, INT_MAX)));
    return session.get_notifs() > 0;
  });
}

bool Connection::broken() const { return impl_->lost || !impl_->session->is_open(); }
int Connection::backend_pid() const { return impl_->pid; }

Result<Transaction> Transaction::begin(Connection& connection) {
  QM_TRY(connection.exec("begin isolation level read committed"));
  return Transaction(connection);
}

Transaction::~Transaction() {
  if (connection_ != nullptr && !connection_->broken()) (void)connection_->exec("rollback");
}

Status Transaction::commit() {
  // Whatever the result, the transaction is over: a rollback is not possible.
  QM_TRY(std::exchange(connection_, nullptr)->exec("commit"));
  return {};
}

std::string quote_name(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace qm::pg
