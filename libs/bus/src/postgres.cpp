// The bus on PostgreSQL: an embedded log for installations without Kafka.
//
// Producing is one statement: it advances the next offsets of the partitions, inserts under their locks, and
// notifies each topic's channel once. Reading is also one statement: it returns nothing while the group has another
// generation than the member has adopted, or while another live member has not adopted it yet. So a partition changes
// its reader only after the previous reader has polled again (and so has processed its messages), or is gone: its
// session has ended, as it does when the process dies, its session timeout has passed, or another member joined with
// its instance name. A reader that lost only its session may still process what it read; its owner's cursor and key
// versions make that harmless.
//
// After a read that ended at no limit, a reader waits for a notification: of a topic, or of its group. PostgreSQL delivers those
// of a commit to every session that listens, and a session that is lost is replaced and reads at once.
#include "assignment.hpp"
#include "carriers.hpp"
#include "postgres_schema.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/pg/connection.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>

namespace qm::bus {
namespace {

using std::chrono::steady_clock;
using Session = std::unique_ptr<pg::Connection>;

constexpr auto kTrimEvery = std::chrono::hours(1);
constexpr auto kPauseBeforeRetry = std::chrono::milliseconds(50);
constexpr SteadyDuration kBeatEvery = std::chrono::seconds(1);  ///< bounds the detection of a death
/// A member without others in its group: bus.gone() allows 60 s more than the session timeout then.
constexpr SteadyDuration kBeatAlone = std::chrono::seconds(30);
/// Reads without a notification, in case that one was lost.
constexpr SteadyDuration kReadUnasked = std::chrono::seconds(30);
constexpr SteadyDuration kReportEvery = std::chrono::seconds(5);

struct Topic {
  std::int64_t id = 0;
  int partitions = 0;
};

std::string topic_channel(std::int64_t id) { return fmt::format("qm_bus.t{}", id); }
std::string group_channel(const std::string& group) { return fmt::format("qm_bus.g{:x}", stable_hash(group)); }

Result<std::map<std::string, Topic>> read_topics(pg::Connection& session) {
  QM_ASSIGN(const auto rows, session.query("select name, id, partitions from bus.topic"));
  std::map<std::string, Topic> out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    out[rows.str(i, 0)] = {rows.int8(i, 1), static_cast<int>(rows.int8(i, 2))};
  return out;
}

/// Deletes messages older than `keep`, a bounded number of each partition at a time.
Result<std::uint64_t> trim_once(pg::Connection& session, std::chrono::seconds keep) {
  QM_ASSIGN(const auto rows, session.query(R"sql(
    with gone as (
      delete from bus.message m using (
        select o.* from bus.partition p cross join lateral (
          select topic, partition, "offset" from bus.message
          where topic = p.topic and partition = p.partition
            and at < now() - $1::bigint * interval '1 second' order by "offset" limit 5000) o) old
      where m.topic = old.topic and m.partition = old.partition and m."offset" = old."offset"
      returning m.topic, m.partition, m."offset"),
    last as (select topic, partition, max("offset") as "offset" from gone group by topic, partition),
    moved as (update bus.partition p set first_offset = last."offset" + 1 from last
              where p.topic = last.topic and p.partition = last.partition)
    select count(*) from gone)sql",
                                           pg::Params().int8(keep.count())));
  return rows.uint8(0, 0);
}

class PgProducer final : public Producer {
 public:
  PgProducer(std::string conninfo, std::string client_id)
      : conninfo_(std::move(conninfo)), client_id_(std::move(client_id)) {}

  Status publish(std::span<const Record> records, SteadyDuration timeout) override {
    if (records.empty()) return {};
    QM_TRY(check_sizes(records));
    QM_CRASH_POINT("bus.before_publish");
    const auto until = steady_clock::now() + timeout;
    bool sent = false;
    while (true) {
      auto done = try_publish(records, std::chrono::duration_cast<std::chrono::milliseconds>(timeout), sent);
      if (done) break;
      const auto code = done.error().code;
      if (code != Code::kUnavailable && code != Code::kAborted && code != Code::kDeadlineExceeded) return done;
      if (steady_clock::now() + kPauseBeforeRetry >= until) {
        done.error().code = sent ? Code::kUnknown : Code::kUnavailable;
        return fail(done.error().with_context("publishing as " + client_id_));
      }
      std::this_thread::sleep_for(kPauseBeforeRetry);
    }
    QM_CRASH_POINT("bus.after_publish");
    trim_sometimes();
    return {};
  }

 private:
  Status try_publish(std::span<const Record> records, std::chrono::milliseconds limit, bool& sent) {
    if (!session_ || session_->broken()) {
      QM_ASSIGN(session_, pg::Connection::open(conninfo_, {("qm bus " + client_id_).substr(0, 63)}));
      limit_ = {};
    }
    if (limit_ != limit) {
      QM_TRY(session_->exec(fmt::format("set statement_timeout = {}", std::max<std::int64_t>(1, limit.count()))));
      limit_ = limit;
    }
    std::vector<std::int64_t> topics, partitions;
    std::vector<std::string_view> keys;
    std::vector<std::optional<std::string_view>> values;
    for (const auto& record : records) {
      QM_ASSIGN(const auto topic, find(record.topic));
      topics.push_back(topic.id);
      partitions.push_back(partition_of(record.key, topic.partitions));
      keys.emplace_back(record.key);
      values.emplace_back(record.value);
    }
    auto done = session_->query(R"sql(
      with record as (
        select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[]) with ordinality
          as r(topic, partition, key, value, number)),
      wanted as (select topic, partition, count(*) as count from record group by 1, 2),
      locked as (
        select p.topic, p.partition, w.count from bus.partition p join wanted w using (topic, partition)
        order by 1, 2 for update of p),
      moved as (
        update bus.partition p set next_offset = p.next_offset + l.count from locked l
        where p.topic = l.topic and p.partition = l.partition
        returning p.topic, p.partition, p.next_offset - l.count as first),
      written as (
        insert into bus.message (topic, partition, "offset", key, value)
        select r.topic, r.partition,
               m.first + row_number() over (partition by r.topic, r.partition order by r.number) - 1, r.key, r.value
        from record r join moved m using (topic, partition)
        returning topic)
      select pg_notify('qm_bus.t' || topic, ''), (select count(*) from moved)
      from (select distinct topic from written) t)sql",
                                pg::Params().int8s(topics).int8s(partitions).texts(keys).bytes(values));
    if (done) return check_moved(*done, topics, partitions);
    sent = sent || session_->broken();
    return fail(done.error());
  }

  /// A topic that was deleted and created again has another id, and the rows of the old one are gone.
  Status check_moved(const pg::Rows& done, const std::vector<std::int64_t>& topics,
                     const std::vector<std::int64_t>& partitions) {
    std::set<std::pair<std::int64_t, std::int64_t>> wanted;
    for (std::size_t i = 0; i < topics.size(); ++i) wanted.emplace(topics[i], partitions[i]);
    const auto moved = done.empty() ? 0 : done.uint8(0, 1);
    if (moved == wanted.size()) return {};
    topics_.clear();
    return fail(Code::kAborted, "{} of {} partitions are of topics that were deleted", wanted.size() - moved,
                wanted.size());
  }

  Result<Topic> find(const std::string& name) {
    auto known = topics_.find(name);
    if (known == topics_.end()) {
      QM_ASSIGN(topics_, read_topics(*session_));
      known = topics_.find(name);
    }
    if (known == topics_.end()) return fail(no_topic(name));
    return known->second;
  }

  void trim_sometimes() {
    const auto now = steady_clock::now();
    if (now < next_trim_) return;
    const auto trimmed = trim_once(*session_, kRetention);
    // A full batch is followed by the next one soon, so that a long backlog is trimmed.
    next_trim_ = now + (trimmed && *trimmed > 0 ? std::chrono::seconds(1) : kTrimEvery);
    if (!trimmed) log::warn("old messages could not be trimmed", {{"error", trimmed.error().message}});
  }

  std::string conninfo_;
  std::string client_id_;
  Session session_;
  std::chrono::milliseconds limit_{};  ///< the session's statement_timeout, as last set here
  std::map<std::string, Topic> topics_;
  steady_clock::time_point next_trim_ = steady_clock::now() + kTrimEvery;
};

class PgConsumer final : public Consumer {
 public:
  PgConsumer(std::string conninfo, ConsumerOptions options)
      : conninfo_(std::move(conninfo)), options_(std::move(options)), channel_(group_channel(options_.group)) {}

  ~PgConsumer() override {
    flush_reports();
    if (session_ && !session_->broken() && id_ != 0)
      (void)session_->query("select bus.leave_group($1::text, $2::text, $3::bigint)",
                            pg::Params().text(options_.group).text(channel_).int8(id_));
  }

  Result<std::vector<Message>> poll(std::size_t max, SteadyDuration timeout) override {
    auto out = try_poll(max, timeout);
    if (!out) {
      // An unavailable server refuses at once: the pause prevents a busy loop in callers that poll.
      std::this_thread::sleep_for(std::min<SteadyDuration>(timeout, kPauseBeforeRetry));
      return out;
    }
    QM_CRASH_POINT("bus.after_poll");
    return out;
  }

  void report(const TopicPartition& at, std::int64_t next_offset) override {
    auto& last = reported_.try_emplace(at, -1).first->second;
    if (last == next_offset) return;
    last = next_offset;
    reports_[at] = next_offset;
  }

  [[nodiscard]] std::vector<TopicPartition> assignment() const override {
    std::vector<TopicPartition> out;
    for (const auto& [at, next] : positions_) out.push_back(at);
    return out;
  }

  [[nodiscard]] std::int64_t lag() const override {
    const auto all = ends();
    if (all.size() < positions_.size()) return -1;
    std::int64_t out = 0;
    for (const auto& [at, end] : all) out += end - positions_.at(at);
    return out;
  }
  [[nodiscard]] std::map<TopicPartition, std::int64_t> ends() const override {
    std::map<TopicPartition, std::int64_t> out;
    if (!session_) return out;
    const auto rows = session_->query(
        "select t.name, p.partition, p.next_offset from bus.partition p join bus.topic t on t.id = p.topic");
    for (std::size_t i = 0; rows && i < rows->size(); ++i) {
      const TopicPartition at{rows->str(i, 0), static_cast<std::int32_t>(rows->int8(i, 1))};
      if (positions_.contains(at)) out[at] = rows->int8(i, 2);
    }
    return out;
  }
  /// Looks the topic up by name: a topic that was deleted and created again has another id.
  Result<std::optional<std::string>> value_at(const TopicPartition& at, std::int64_t offset, SteadyDuration) override {
    if (!session_ || session_->broken()) return fail(Code::kUnavailable, "the session of {} is lost", options_.group);
    QM_ASSIGN(const auto rows, session_->query(R"sql(
      select p.next_offset, m.value from bus.topic t join bus.partition p on p.topic = t.id
      left join bus.message m on m.topic = p.topic and m.partition = p.partition and m."offset" = $3::bigint
      where t.name = $1::text and p.partition = $2::bigint)sql",
                                               pg::Params().text(at.topic).int8(at.partition).int8(offset)));
    if (rows.empty()) return fail(no_topic(at.topic));
    if (offset >= rows.int8(0, 0)) return fail(no_offset(at, offset, rows.int8(0, 0)));
    return rows.null(0, 1) ? std::optional<std::string>() : std::optional(rows.bytes(0, 1));
  }

 private:
  Result<std::vector<Message>> try_poll(std::size_t max, SteadyDuration timeout) {
    auto now = steady_clock::now();
    const auto until = now + timeout;
    for (;; now = steady_clock::now()) {
      QM_TRY(keep_alive());
      if (unread_ || now >= next_read_ || timeout <= SteadyDuration(0)) {
        if (!await_gather(std::min(gathers_until_, until), timeout)) return std::vector<Message>();
        // The notifications of what this read returns, so that they cause no second one. A later commit has its own.
        QM_TRY(session_->wait_notification(SteadyDuration::zero()));
        QM_ASSIGN(auto out, fetch(max));
        unread_ = full_ || seen_ != adopted_;
        now = steady_clock::now();
        next_read_ = now + kReadUnasked;
        gathers_until_ = full_ || out.empty() ? now : now + options_.gather;
        if (!out.empty() || now >= until) return out;
        if (unread_) continue;
      }
      if (now >= until) return std::vector<Message>();
      const auto next = std::min({until, next_beat_, next_read_});
      QM_ASSIGN(unread_, session_->wait_notification(std::max(SteadyDuration(0), next - now), options_.wake));
      if (options_.wake != nullptr && options_.wake->take()) return std::vector<Message>();
    }
  }

  /// Waits for the time of the next read; false if the wait was ended by Options::wake.
  bool await_gather(steady_clock::time_point next, SteadyDuration timeout) {
    if (timeout <= SteadyDuration(0)) return true;
    for (auto now = steady_clock::now(); now < next; now = steady_clock::now()) {
      if (options_.wake == nullptr) {
        std::this_thread::sleep_until(next);
      } else {
        options_.wake->wait(next - now);
        if (options_.wake->take()) return false;
      }
    }
    return true;
  }

  /// Sends a heartbeat when it is due or the group changed, and adopts the group's generation.
  Status keep_alive() {
    const bool fresh = !session_ || session_->broken();
    if (fresh) QM_TRY(connect());
    if (fresh || id_ == 0) QM_TRY(join());
    const auto now = steady_clock::now();
    if (now >= next_report_) {
      flush_reports();
      next_report_ = now + kReportEvery;
    }
    if (!fresh && adopted_ == seen_ && now < next_beat_) return {};
    while (true) {
      QM_ASSIGN(const auto rows,
                session_->query("select generation, alive from bus.beat($1::text, $2::text, $3::bigint, $4::bigint)",
                                pg::Params().text(options_.group).text(channel_).int8(id_).int8(adopted_)));
      next_beat_ = steady_clock::now() + (alone_ ? kBeatAlone : std::min(options_.session_timeout / 3, kBeatEvery));
      if (!rows.boolean(0, 1)) {
        QM_TRY(check_place());
        log::warn("removed from the reader group, rejoining", {{"group", options_.group}});
        QM_TRY(join());
        continue;
      }
      seen_ = rows.int8(0, 0);
      if (seen_ == adopted_) return {};
      QM_TRY(adopt());
      unread_ = true;
    }
  }

  Status connect() {
    QM_ASSIGN(session_, pg::Connection::open(conninfo_, {("qm bus " + options_.group).substr(0, 63)}));
    QM_ASSIGN(topics_, read_topics(*session_));
    for (const auto& name : options_.topics) {
      const auto topic = topics_.find(name);
      if (topic == topics_.end()) {
        session_.reset();
        return fail(no_topic(name));
      }
      QM_TRY(session_->exec("listen " + pg::quote_name(topic_channel(topic->second.id))));
    }
    // A heartbeat or a report that a server crash loses is only late: no wait for the disk.
    QM_TRY(session_->exec("set synchronous_commit = off; listen " + pg::quote_name(channel_)));
    return {};
  }

  /// Another member joined with the same instance name: the owner must find out which one continues.
  Status check_place() {
    if (options_.instance.empty()) return {};
    QM_ASSIGN(const auto rows,
              session_->query("select from bus.member where reader_group = $1::text and instance = $2::text",
                              pg::Params().text(options_.group).text(options_.instance)));
    if (rows.empty()) return {};
    id_ = 0;
    positions_.clear();
    return fail(displaced(options_.group, options_.instance));
  }

  Status join() {
    const std::vector<std::string_view> topics(options_.topics.begin(), options_.topics.end());
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.session_timeout).count();
    QM_ASSIGN(
        const auto rows,
        session_->query(
            "select bus.take_place($1::text, $2::text, $3::text[], $4::bigint, "
            "$5::text, $6::bigint)",
            pg::Params().text(options_.group).text(channel_).texts(topics).int8(ms).text(options_.instance).int8(id_)));
    id_ = rows.int8(0, 0);
    adopted_ = 0;
    seen_ = -1;
    alone_ = false;
    positions_.clear();
    reported_.clear();
    QM_CRASH_POINT("bus.after_join");
    return {};
  }

  /// Reads the generation and its members in one statement, so that they are consistent.
  Status adopt() {
    QM_ASSIGN(const auto rows,
              session_->query("select g.generation, m.id, t from bus.reader_group g join bus.member m on "
                              "m.reader_group = g.name cross join lateral unnest(m.topics) t where g.name = $1::text",
                              pg::Params().text(options_.group)));
    std::map<std::string, std::vector<std::string>> members;
    for (std::size_t i = 0; i < rows.size(); ++i) members[member_id(rows.uint8(i, 1))].push_back(rows.str(i, 2));
    std::map<std::string, int> partitions;
    for (const auto& [name, topic] : topics_) partitions[name] = topic.partitions;
    std::map<TopicPartition, std::int64_t> positions;
    for (const auto& at : assign(members, partitions, member_id(static_cast<std::uint64_t>(id_)))) {
      const auto kept = positions_.find(at);
      if (kept != positions_.end()) {
        positions.insert(*kept);
        continue;
      }
      QM_ASSIGN(positions[at], start_of(at));
    }
    positions_ = std::move(positions);
    adopted_ = rows.empty() ? 0 : rows.int8(0, 0);
    alone_ = members.size() == 1;
    QM_CRASH_POINT("bus.after_assign");
    return {};
  }

  /// The owner's cursor if the log still has it; otherwise the oldest retained message.
  Result<std::int64_t> start_of(const TopicPartition& at) {
    QM_ASSIGN(const auto rows, session_->query("select first_offset, next_offset from bus.partition where topic = "
                                               "$1::bigint and partition = $2::bigint",
                                               pg::Params().int8(topics_.at(at.topic).id).int8(at.partition)));
    if (rows.empty()) return fail(no_topic(at.topic));
    const auto cursor = options_.cursor ? options_.cursor(at) : -1;
    if (cursor >= rows.int8(0, 0) && cursor <= rows.int8(0, 1)) return cursor;
    if (cursor >= 0)
      log::warn("the cursor is outside the log, reading from its oldest message",
                {{"topic", at.topic}, {"partition", at.partition}, {"cursor", cursor}});
    return rows.int8(0, 0);
  }

  Result<std::vector<Message>> fetch(std::size_t max) {
    // Every poll starts at another partition, so that a busy partition cannot starve the others.
    std::vector<const TopicPartition*> order;
    for (const auto& [at, next] : positions_) order.push_back(&at);
    if (!order.empty())
      std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(turn_++ % order.size()), order.end());
    std::vector<std::int64_t> topics, partitions, offsets, numbers;
    for (std::size_t i = 0; i < order.size(); ++i) {
      topics.push_back(topics_.at(order[i]->topic).id);
      partitions.push_back(order[i]->partition);
      offsets.push_back(positions_.at(*order[i]));
      numbers.push_back(static_cast<std::int64_t>(i));
    }
    QM_ASSIGN(const auto rows, session_->query(R"sql(
      select g.generation, f.number, f."offset", f.key, f.value
      from bus.reader_group g left join lateral (
        select *, sum(octet_length(value)) over (order by number, "offset") - octet_length(value) as before from (
        select p.number, m."offset", m.key, m.value
        from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) as p(topic, partition, next, number)
        cross join lateral (
          select "offset", key, value from bus.message
          where topic = p.topic and partition = p.partition and "offset" >= p.next
          order by "offset" limit $5::bigint) m
        where g.generation = $7::bigint
          and not exists (select from bus.member where reader_group = $6::text and generation < $7::bigint)
        limit $5::bigint) n) f on f.before < $8::bigint
      where g.name = $6::text order by f.number, f."offset")sql",
                                               pg::Params()
                                                   .int8s(topics)
                                                   .int8s(partitions)
                                                   .int8s(offsets)
                                                   .int8s(numbers)
                                                   .int8(static_cast<std::int64_t>(max))
                                                   .text(options_.group)
                                                   .int8(adopted_)
                                                   .int8(static_cast<std::int64_t>(kPollBytes))));
    std::vector<Message> out;
    out.reserve(rows.size());
    std::size_t bytes = 0;
    seen_ = rows.empty() ? -1 : rows.int8(0, 0);
    for (std::size_t i = 0; i < rows.size() && !rows.null(i, 1); ++i) {
      const auto& at = *order[static_cast<std::size_t>(rows.int8(i, 1))];
      auto& next = positions_.at(at);
      const auto offset = rows.int8(i, 2);
      QM_ASSERT(offset >= next, "offset {} of {}/{} comes after {}", offset, at.topic, at.partition, next);
      next = offset + 1;
      out.push_back({at, offset, rows.str(i, 3), rows.bytes(i, 4)});
      bytes += out.back().value.size();
    }
    full_ = out.size() >= max || bytes >= kPollBytes;
    return out;
  }

  void flush_reports() {
    if (reports_.empty() || !session_) return;
    std::vector<std::string_view> topics;
    std::vector<std::int64_t> partitions, offsets;
    for (const auto& [at, next] : reports_) {
      topics.emplace_back(at.topic);
      partitions.push_back(at.partition);
      offsets.push_back(next);
    }
    const auto done = session_->query(
        "insert into bus.progress as p (reader_group, topic, partition, next_offset) select $1::text, * from "
        "unnest($2::text[], $3::bigint[], $4::bigint[]) on conflict (reader_group, topic, partition) do update set "
        "next_offset = excluded.next_offset, at = now()",
        pg::Params().text(options_.group).texts(topics).int8s(partitions).int8s(offsets));
    if (done) reports_.clear();
  }

  std::string conninfo_;
  ConsumerOptions options_;
  std::string channel_;
  Session session_;
  std::map<std::string, Topic> topics_;
  std::int64_t id_ = 0;
  std::int64_t adopted_ = 0;  ///< generation of the current assignment
  std::int64_t seen_ = -1;    ///< generation of the group when last read; -1 = read again
  std::uint64_t turn_ = 0;
  bool alone_ = false;  ///< the group had no other member when its generation was adopted
  bool full_ = false;   ///< the last read ended at a limit: more messages may follow
  bool unread_ = true;  ///< there may be messages, or another generation
  steady_clock::time_point next_beat_{}, next_read_{}, next_report_{}, gathers_until_{};
  std::map<TopicPartition, std::int64_t> positions_;
  std::map<TopicPartition, std::int64_t> reports_;   ///< not written yet
  std::map<TopicPartition, std::int64_t> reported_;  ///< the newest ones
};

class PgBus final : public Bus {
 public:
  explicit PgBus(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  Status open() {
    QM_ASSIGN(auto session, pg::Connection::open(conninfo_, {"qm bus setup"}));
    return pg::migrate(*session, "bus", "bus", bus_migrations());
  }

  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    QM_ASSIGN(auto session, pg::Connection::open(conninfo_, {"qm bus setup"}));
    for (const auto& topic : topics) {
      QM_ASSIGN(const auto rows, session->query(R"sql(
        with added as (
          insert into bus.topic (name, partitions) values ($1::text, $2::bigint)
          on conflict (name) do nothing returning id),
        parts as (
          insert into bus.partition (topic, partition)
          select id, p from added, generate_series(0, $2::bigint - 1) p)
        select partitions from bus.topic where name = $1::text)sql",
                                                pg::Params().text(topic).int8(partitions)));
      // No row: it was added now, by this statement or by another process at the same moment.
      if (!rows.empty() && rows.int8(0, 0) != partitions)
        return fail(other_partitions(topic, static_cast<int>(rows.int8(0, 0)), partitions));
    }
    return {};
  }

  Result<std::unique_ptr<Producer>> producer(const std::string& client_id) override {
    return std::make_unique<PgProducer>(conninfo_, client_id);
  }
  Result<std::unique_ptr<Consumer>> consumer(ConsumerOptions options) override {
    return std::make_unique<PgConsumer>(conninfo_, std::move(options));
  }
  [[nodiscard]] std::string name() const override { return "postgres"; }

  Status trim(std::chrono::seconds keep) {
    QM_ASSIGN(auto session, pg::Connection::open(conninfo_, {"qm bus trim"}));
    while (true) {
      QM_ASSIGN(const auto gone, trim_once(*session, keep));
      if (gone == 0) return {};
    }
  }

 private:
  std::string conninfo_;
};

}  // namespace

Result<std::shared_ptr<Bus>> postgres_bus(const std::string& conninfo) {
  auto bus = std::make_shared<PgBus>(conninfo);
  QM_TRY(bus->open());
  return bus;
}

Status trim(Bus& bus, std::chrono::seconds keep) {
  if (auto* postgres = dynamic_cast<PgBus*>(&bus)) return postgres->trim(keep);
  return fail(Code::kUnimplemented, "the {} bus trims its log by itself", bus.name());
}

}  // namespace qm::bus
