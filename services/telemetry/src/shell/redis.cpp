// Two connections: one for commands, one for the subscription. Each is reconnected after a failure, at most twice a
// second.
#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "qm/telemetry/shell.hpp"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <poll.h>
#include <thread>

namespace qm::telemetry {
namespace {

constexpr auto kRefresh = std::chrono::seconds(2);
constexpr auto kRetry = std::chrono::milliseconds(500);
constexpr int kStopLookMs = 200;
constexpr const char* kChannel = "qm:events";
constexpr const char* kNodes = "qm:gpu:nodes";

struct ContextFree {
  void operator()(redisContext* c) const { redisFree(c); }
};
using Context = std::unique_ptr<redisContext, ContextFree>;
struct ReplyFree {
  void operator()(redisReply* r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, ReplyFree>;
using Args = std::vector<std::string>;

std::string key_of(const std::string& node) { return "qm:gpu:" + node; }
std::string ms_of(SteadyDuration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}
std::string text_of(const redisReply& reply) {
  return reply.str == nullptr ? std::string() : std::string(reply.str, reply.len);
}

Context dial(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return nullptr;
  const timeval timeout{0, 500'000};
  Context c(
      redisConnectWithTimeout(address.substr(0, colon).c_str(), std::atoi(address.substr(colon + 1).c_str()), timeout));
  if (!c || c->err != 0) return nullptr;
  redisSetTimeout(c.get(), timeout);
  redisEnableKeepAlive(c.get());  // a subscriber only receives: it must detect a peer that disappeared silently
  return c;
}

bool append(redisContext* c, const Args& args) {
  std::vector<const char*> argv;
  std::vector<std::size_t> lengths;
  for (const auto& a : args) {
    argv.push_back(a.data());
    lengths.push_back(a.size());
  }
  return redisAppendCommandArgv(c, static_cast<int>(args.size()), argv.data(), lengths.data()) == REDIS_OK;
}

Reply next_reply(redisContext* c) {
  void* raw = nullptr;
  return redisGetReply(c, &raw) == REDIS_OK ? Reply(static_cast<redisReply*>(raw)) : nullptr;
}

}  // namespace

struct RedisMirror::Impl {
  Impl(std::string a, Samples& s) : address(std::move(a)), samples(s) {}

  const std::string address;
  Samples& samples;
  std::mutex mutex;  // guards the command connection and the members below
  Context commands;
  SteadyInstant next_dial{};
  std::set<std::string> written;  // nodes with a key
  bool refused = false;           // the last transaction
  std::atomic<bool> up{false}, subscribed{false};
  std::mutex line_mutex;
  std::function<void(const pb::EventLine&)> on_line;
  std::jthread writer, reader;

  // Under the mutex. Null while Redis is unavailable.
  redisContext* connection() {
    if (address.empty()) return nullptr;
    if (commands) return commands.get();
    const auto now = std::chrono::steady_clock::now();
    if (now < next_dial) return nullptr;
    next_dial = now + kRetry;
    commands = dial(address);
    if (commands && !up.exchange(true)) log::info("Redis answers", {{"address", address}});
    return commands.get();
  }
  void broke() {
    log::warn("Redis is not available", {{"address", address}, {"error", std::string(commands->errstr)}});
    commands.reset();
    up = false;
    next_dial = std::chrono::steady_clock::now() + kRetry;
  }
  /// Sends all, then reads all. Empty if Redis is unavailable.
  std::vector<Reply> pipeline(const std::vector<Args>& calls) {
    redisContext* c = connection();
    if (c == nullptr) return {};
    std::vector<Reply> out;
    bool ok = std::all_of(calls.begin(), calls.end(), [c](const Args& args) { return append(c, args); });
    for (std::size_t i = 0; ok && i < calls.size(); ++i) ok = out.emplace_back(next_reply(c)) != nullptr;
    if (ok) return out;
    broke();
    return {};
  }
  Reply command(const Args& args) {
    auto replies = pipeline({args});
    return replies.empty() ? nullptr : std::move(replies[0]);
  }

  /// One transaction, so that a reader finds all nodes or none, and no deleted ones.
  void write_all() {
    const auto nodes = samples.by_node();
    const std::lock_guard lock(mutex);
    std::vector<Args> calls = {{"MULTI"}, {"DEL", kNodes}};
    Args members = {"SADD", kNodes};
    std::set<std::string> names;
    SteadyDuration longest{};
    for (const auto& of : nodes) {
      pb::QueryResponse value;
      for (const auto& r : of.readings) *value.add_readings() = r;
      calls.push_back({"SET", key_of(of.node), value.SerializeAsString(), "PX", ms_of(of.life)});
      members.push_back(of.node);
      names.insert(of.node);
      longest = std::max(longest, of.life);
    }
    for (const auto& node : written) {
      if (!names.contains(node)) calls.push_back({"DEL", key_of(node)});
    }
    if (!names.empty()) {
      calls.push_back(members);
      calls.push_back({"PEXPIRE", kNodes, ms_of(longest)});
    }
    calls.push_back({"EXEC"});
    const auto replies = pipeline(calls);
    if (replies.empty()) return;
    const redisReply& done = *replies.back();
    const bool ok = done.type == REDIS_REPLY_ARRAY;
    if (ok) written = std::move(names);
    if (!ok && !refused) log::warn("Redis refuses the readings", {{"error", text_of(done)}});
    refused = !ok;
  }

  void on_message(const redisReply& message) {
    if (message.type != REDIS_REPLY_ARRAY || message.elements != 3 || message.element[2]->type != REDIS_REPLY_STRING)
      return;
    pb::EventLine line;
    if (!line.ParseFromArray(message.element[2]->str, static_cast<int>(message.element[2]->len))) return;
    const std::lock_guard lock(line_mutex);
    if (on_line) on_line(line);
  }

  /// Receives until the connection ends. The wait is outside hiredis, whose connections are unusable after a time-out:
  /// a new one would miss lines sent in between.
  void listen(redisContext* c, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (;;) {
        void* raw = nullptr;
        if (redisGetReplyFromReader(c, &raw) != REDIS_OK) return;
        if (raw == nullptr) break;
        on_message(*Reply(static_cast<redisReply*>(raw)));
      }
      pollfd waits{c->fd, POLLIN, 0};
      const int ready = ::poll(&waits, 1, kStopLookMs);
      if (ready < 0 && errno != EINTR) return;
      if (ready > 0 && redisBufferRead(c) != REDIS_OK) return;
    }
  }

  void read(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const Context c = dial(address);
      if (c && append(c.get(), {"SUBSCRIBE", kChannel})) {
        const Reply hello = next_reply(c.get());
        if (hello && hello->type == REDIS_REPLY_ARRAY) {
          subscribed = true;
          listen(c.get(), stop);
          subscribed = false;
        }
      }
      sleep_unless_stopped(kRetry, stop);
    }
  }
};

RedisMirror::RedisMirror(std::string address, Samples& samples)
    : impl_(std::make_unique<Impl>(std::move(address), samples)) {}
RedisMirror::~RedisMirror() { stop(); }

void RedisMirror::start() {
  if (impl_->address.empty()) return;
  impl_->writer = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      impl_->write_all();
      sleep_unless_stopped(kRefresh, stop);
    }
  });
  impl_->reader = std::jthread([this](const std::stop_token& stop) { impl_->read(stop); });
}

void RedisMirror::stop() {
  impl_->writer = {};
  impl_->reader = {};
}

bool RedisMirror::connected() const { return impl_->up; }
bool RedisMirror::subscribed() const { return impl_->subscribed; }

void RedisMirror::on_line(std::function<void(const pb::EventLine&)> fn) {
  const std::lock_guard lock(impl_->line_mutex);
  impl_->on_line = std::move(fn);
}

bool RedisMirror::publish(const pb::EventLine& line) {
  if (!impl_->subscribed) return false;  // others may receive it through Redis, this process would not
  const std::lock_guard lock(impl_->mutex);
  const Reply reply = impl_->command({"PUBLISH", kChannel, line.SerializeAsString()});
  return reply && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
}

Result<std::vector<pb::GpuReading>> RedisMirror::readings(const std::string& node) {
  const std::lock_guard lock(impl_->mutex);
  const auto away = [] { return fail(Code::kUnavailable, "Redis does not have the samples"); };
  std::vector<std::string> nodes = {node};
  if (node.empty()) {
    const Reply members = impl_->command({"SMEMBERS", kNodes});
    if (!members || members->type != REDIS_REPLY_ARRAY || members->elements == 0) return away();
    nodes.clear();
    for (std::size_t i = 0; i < members->elements; ++i) nodes.push_back(text_of(*members->element[i]));
    std::sort(nodes.begin(), nodes.end());
  }
  Args get = {"MGET"};
  for (const auto& name : nodes) get.push_back(key_of(name));
  const Reply values = impl_->command(get);
  if (!values || values->type != REDIS_REPLY_ARRAY || values->elements != nodes.size()) return away();
  std::vector<pb::GpuReading> out;
  for (std::size_t i = 0; i < values->elements; ++i) {
    pb::QueryResponse value;
    const redisReply& bytes = *values->element[i];
    // A node without its value: flushed between the two reads.
    if (bytes.type != REDIS_REPLY_STRING || !value.ParseFromArray(bytes.str, static_cast<int>(bytes.len)))
      return away();
    for (auto& r : *value.mutable_readings()) out.push_back(std::move(r));
  }
  return out;
}

}  // namespace qm::telemetry
