// The lease on PostgreSQL: one row, and one session that also receives notifications of releases.
#include "qm/store/lease.hpp"

#include "names.hpp"
#include "schema.hpp"

#include <thread>

namespace qm::store {
namespace {

constexpr auto kTimeout = std::chrono::milliseconds(2000);

class PgLease final : public Lease {
 public:
  PgLease(PgOptions options, std::string schema)
      : options_(std::move(options)),
        schema_(std::move(schema)),
        table_(pg::quote_name(schema_) + ".lease"),
        application_("qm lease " + schema_) {}

  Result<LeaseView> look() override {
    QM_ASSIGN(const auto rows, ask(look_, pg::Params().text(application_)));
    if (rows.size() != 1) return fail(Code::kInternal, "table {} has {} rows, not one", table_, rows.size());
    return LeaseView{rows.str(0, 0),   rows.str(0, 1),     rows.uint8(0, 2),
                     rows.uint8(0, 3), rows.boolean(0, 4), rows.boolean(0, 5)};
  }

  Result<bool> claim(std::uint64_t seen_beat, const std::string& holder) override {
    QM_ASSIGN(const auto rows, ask(claim_, pg::Params().text(holder).int8(static_cast<std::int64_t>(seen_beat))));
    return rows.affected() == 1;
  }

  Result<Renewal> renew(const std::string& holder, const std::string& address) override {
    QM_ASSIGN(const auto rows, ask(renew_, pg::Params().text(holder).text(address).text(application_)));
    if (rows.affected() != 1) return Renewal{};
    return Renewal{true, rows.boolean(0, 0), std::exchange(renewed_session_, sessions_) == sessions_};
  }

  bool quiet() override {
    if (!session_) return false;
    const auto notified = session_->wait_notification(SteadyDuration::zero());
    return notified && !*notified;
  }

  Status release(const std::string& holder) override {
    QM_TRY(ask(release_, pg::Params().text(holder)));
    QM_TRY(ask("select pg_notify($1::text, '')", pg::Params().text(application_)));
    return {};
  }

  void wait(SteadyDuration timeout) override {
    if (session_ && !session_->broken() && session_->wait_notification(timeout)) return;
    std::this_thread::sleep_for(timeout);
  }

  Status ready() override {
    QM_ASSIGN(const auto session, connect());
    QM_TRY(pg::check_migrations(*session, schema_, "common", common_migrations()));
    return pg::check_migrations(*session, schema_, options_.service, options_.migrations);
  }

 private:
  using Session = std::unique_ptr<pg::Connection>;

  Result<Session> connect() const {
    return pg::Connection::open(options_.conninfo, {.application_name = application_, .statement_timeout = kTimeout});
  }

  /// Every statement here may be repeated: one retry on a new session if the old one was lost.
  Result<pg::Rows> ask(const std::string& sql, const pg::Params& params) {
    for (int attempt = 0;; ++attempt) {
      if (!session_ || session_->broken()) {
        QM_ASSIGN(session_, connect());
        ++sessions_;
        // A beat that a server crash loses is harmless: the next one follows. The notification tells the holder that
        // this replica has come.
        const auto channel = pg::quote_name(application_);
        QM_TRY(session_->exec("set synchronous_commit = off; listen " + channel + "; notify " + channel));
        (void)session_->wait_notification(SteadyDuration::zero());  // its own
      }
      auto rows = session_->query(sql, params);
      if (rows || attempt > 0 || !session_->broken()) return rows;
    }
  }

  PgOptions options_;
  std::string schema_, table_, application_;
  std::string look_ =
      "select holder, address, beat, terms, released, exists (select from pg_stat_activity a where a.pid = l.pid and "
      "a.application_name = $1::text) from " +
      table_ + " l";
  // A claim waits for the disk; otherwise a server crash could return the lead to the previous holder.
  std::string claim_ = "with durable as (select set_config('synchronous_commit', 'on', true) as v) update " + table_ +
                       " set holder = $1::text, address = '', pid = pg_backend_pid(), beat = beat + 1, "
                       "terms = terms + 1, released = false, at = clock_timestamp() from durable "
                       "where durable.v = 'on' and beat = $2::bigint";
  std::string renew_ = "update " + table_ +
                       " set address = $2::text, pid = pg_backend_pid(), beat = beat + 1, at = clock_timestamp() "
                       "where holder = $1::text and not released returning exists (select from pg_stat_activity a "
                       "where a.application_name = $3::text and a.datname = current_database() and "
                       "a.pid <> pg_backend_pid())";
  std::string release_ = "update " + table_ +
                         " set released = true, address = '', beat = beat + 1, at = clock_timestamp() "
                         "where holder = $1::text";
  Session session_;
  std::uint64_t sessions_ = 0, renewed_session_ = 0;  ///< numbers of the present one and of the last renewal's
};

}  // namespace

Result<std::unique_ptr<Lease>> open_lease(PgOptions options) {
  QM_ASSIGN(auto schema, schema_of(options));
  return std::make_unique<PgLease>(std::move(options), std::move(schema));
}

}  // namespace qm::store
