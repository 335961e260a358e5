#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/base/wake.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qm::pg {

/// Parameters of a statement, in PostgreSQL's binary format and in the order of $1, $2, ... Whole columns are passed
/// as arrays, so that one statement writes a batch: `insert ... select * from unnest($1::text[], $2::bytea[])`.
class Params {
 public:
  Params& text(std::string_view value);
  Params& bytes(std::string_view value) { return text(value); }
  Params& int8(std::int64_t value);
  Params& texts(std::span<const std::string_view> values);
  Params& bytes(std::span<const std::optional<std::string_view>> values);  ///< bytea[] with nulls
  Params& int8s(std::span<const std::int64_t> values);
  Params& bools(const std::vector<bool>& values);

  [[nodiscard]] const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
};

/// The rows of one result. Views are valid as long as the Rows.
class Rows {
 public:
  struct Impl;
  explicit Rows(std::shared_ptr<const Impl> impl);
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::uint64_t affected() const;  ///< by insert, update, delete
  [[nodiscard]] bool null(std::size_t row, int column) const;
  [[nodiscard]] std::string_view text(std::size_t row, int column) const;
  [[nodiscard]] std::string str(std::size_t row, int column) const { return std::string(text(row, column)); }
  [[nodiscard]] std::int64_t int8(std::size_t row, int column) const;
  [[nodiscard]] std::uint64_t uint8(std::size_t row, int column) const {
    return static_cast<std::uint64_t>(int8(row, column));
  }
  [[nodiscard]] bool boolean(std::size_t row, int column) const;
  [[nodiscard]] std::string bytes(std::size_t row, int column) const;  ///< of a bytea column

 private:
  std::shared_ptr<const Impl> impl_;
};

struct ConnectOptions {
  std::string application_name;  ///< at most 63 bytes
  std::chrono::milliseconds statement_timeout{10000};
  std::chrono::milliseconds idle_in_transaction_timeout{2000};
};

/// One session with a PostgreSQL server. It never reconnects: after a lost session its owner decides.
///
/// Accepts key=value strings and postgresql:// URIs. Settings that the operator did not set have defaults. These are
/// for fast detection of a dead peer (keepalives 2/1/3, tcp_user_timeout 5 s, connect_timeout 3 s) and for a writable
/// server.
///
/// Threads  one at a time.
/// Fails    kUnavailable: the session is lost or refused (broken() is true then); kAborted: serialization failure or
///          deadlock, retry the transaction; kDeadlineExceeded: statement_timeout; kAlreadyExists: a unique key
///          exists; kExhausted: disk or memory; kInvalid: the server refuses the values; kPermissionDenied;
///          kInternal.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const std::string& conninfo, const ConnectOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs one statement, prepared at its first use and kept; so its text must be constant.
  Result<Rows> query(const std::string& sql, const Params& params = {});
  /// Runs one or more statements without parameters, not prepared: transaction control and schema changes.
  Result<Rows> exec(const std::string& sql);
  /// After LISTEN: true once a notification arrives, false after the timeout, or once `wake` is notified.
  Result<bool> wait_notification(SteadyDuration timeout, const Wake* wake = nullptr);

  [[nodiscard]] bool broken() const;
  [[nodiscard]] int backend_pid() const;  ///< also after the session was lost

 private:
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A transaction that rolls back unless it was committed. READ COMMITTED.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);
  Transaction(Transaction&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Connection* connection_;
};

/// Quotes a name for use in a statement.
[[nodiscard]] std::string quote_name(std::string_view name);

}  // namespace qm::pg
