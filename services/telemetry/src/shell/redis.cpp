// Keys: qm:gpu:nodes (set), qm:gpu:<node> (hash index -> GpuReading, TTL three periods). Channel: qm:events.
// Two connections: one for commands, one that subscribes. Each is made again after a failure, at most twice a second.
#include <hiredis/hiredis.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <thread>

#include "qm/base/log.hpp"
#include "qm/telemetry/shell.hpp"

namespace qm::telemetry {
namespace {

constexpr auto kRefresh = std::chrono::seconds(2);
constexpr int kTtlSeconds = 30;
constexpr const char* kChannel = "qm:events";

struct ContextFree {
  void operator()(redisContext* c) const { redisFree(c); }
};
using Context = std::unique_ptr<redisContext, ContextFree>;
struct ReplyFree {
  void operator()(redisReply* r) const { freeReplyObject(r); }
};
using Reply = std::unique_ptr<redisReply, ReplyFree>;

Context dial(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return nullptr;
  const timeval timeout{0, 500'000};
  Context c(redisConnectWithTimeout(address.substr(0, colon).c_str(), std::atoi(address.substr(colon + 1).c_str()), timeout));
  if (!c || c->err != 0) return nullptr;
  redisSetTimeout(c.get(), timeout);
  return c;
}

}  // namespace

struct RedisMirror::Impl {
  Impl(std::string a, const Samples& s) : address(std::move(a)), samples(s) {}

  std::string address;
  const Samples& samples;
  std::mutex mutex;                     // of the command connection
  Context commands;
  SteadyInstant next_dial{};
  std::atomic<bool> up{false};
  std::mutex line_mutex;
  std::function<void(const pb::EventLine&)> on_line;
  std::mutex wait_mutex;
  std::condition_variable_any wake;
  std::jthread writer, reader;

  // Under the mutex. Null where Redis is away.
  redisContext* connection() {
    if (address.empty()) return nullptr;
    if (commands && commands->err == 0) return commands.get();
    const auto now = std::chrono::steady_clock::now();
    if (now < next_dial) return nullptr;
    next_dial = now + std::chrono::milliseconds(500);
    commands = dial(address);
    const bool was = up.exchange(commands != nullptr);
    if (was != (commands != nullptr)) log::info(commands ? "Redis answers" : "Redis is away", {{"address", address}});
    return commands.get();
  }
  void broke() {
    commands.reset();
    up = false;
  }
  Reply command(const std::vector<std::string>& args) {
    redisContext* c = connection();
    if (c == nullptr) return nullptr;
    std::vector<const char*> argv;
    std::vector<std::size_t> lengths;
    for (const auto& a : args) {
      argv.push_back(a.data());
      lengths.push_back(a.size());
    }
    Reply reply(static_cast<redisReply*>(redisCommandArgv(c, static_cast<int>(args.size()), argv.data(), lengths.data())));
    if (!reply) broke();
    return reply;
  }

  void write_all() {
    std::map<std::string, std::vector<std::string>> by_node;
    for (const auto& r : samples.readings()) {
      auto& args = by_node[r.node()];
      if (args.empty()) args = {"HSET", "qm:gpu:" + r.node()};
      args.push_back(std::to_string(r.sample().gpu_index()));
      args.push_back(r.SerializeAsString());
    }
    const std::lock_guard lock(mutex);
    for (const auto& [node, args] : by_node) {
      if (!command(args) || !command({"EXPIRE", "qm:gpu:" + node, std::to_string(kTtlSeconds)}) ||
          !command({"SADD", "qm:gpu:nodes", node})) {
        return;
      }
    }
  }

  void pause(SteadyDuration d, const std::stop_token& stop) {
    std::unique_lock lock(wait_mutex);
    wake.wait_for(lock, stop, d, [] { return false; });
  }

  void listen(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Context c = dial(address);
      Reply hello(c ? static_cast<redisReply*>(redisCommand(c.get(), "SUBSCRIBE %s", kChannel)) : nullptr);
      while (hello && !stop.stop_requested()) {
        void* raw = nullptr;
        if (redisGetReply(c.get(), &raw) != REDIS_OK) {
          // The read timed out, or the connection is gone; after a time-out hiredis wants a new one.
          break;
        }
        Reply message(static_cast<redisReply*>(raw));
        if (!message || message->type != REDIS_REPLY_ARRAY || message->elements != 3 || message->element[2]->type != REDIS_REPLY_STRING) continue;
        pb::EventLine line;
        if (!line.ParseFromArray(message->element[2]->str, static_cast<int>(message->element[2]->len))) continue;
        const std::lock_guard lock(line_mutex);
        if (on_line) on_line(line);
      }
      if (!hello) pause(std::chrono::milliseconds(500), stop);
    }
  }
};

RedisMirror::RedisMirror(std::string address, const Samples& samples) : impl_(std::make_unique<Impl>(std::move(address), samples)) {}
RedisMirror::~RedisMirror() { stop(); }

void RedisMirror::start() {
  if (impl_->address.empty()) return;
  impl_->writer = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      impl_->write_all();
      impl_->pause(kRefresh, stop);
    }
  });
  impl_->reader = std::jthread([this](const std::stop_token& stop) { impl_->listen(stop); });
}

void RedisMirror::stop() {
  impl_->writer = {};
  impl_->reader = {};
}

bool RedisMirror::connected() const { return impl_->up; }

void RedisMirror::on_line(std::function<void(const pb::EventLine&)> fn) {
  const std::lock_guard lock(impl_->line_mutex);
  impl_->on_line = std::move(fn);
}

bool RedisMirror::publish(const pb::EventLine& line) {
  const std::lock_guard lock(impl_->mutex);
  const Reply reply = impl_->command({"PUBLISH", kChannel, line.SerializeAsString()});
  // Nobody listening means that our own subscriber is not there yet: the line would be lost.
  return reply && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
}

Result<std::vector<pb::GpuReading>> RedisMirror::readings(const std::string& node) {
  const std::lock_guard lock(impl_->mutex);
  const auto away = [] { return fail(Code::kUnavailable, "Redis is away"); };
  std::vector<std::string> nodes = {node};
  if (node.empty()) {
    const Reply members = impl_->command({"SMEMBERS", "qm:gpu:nodes"});
    if (!members || members->type != REDIS_REPLY_ARRAY) return away();
    nodes.clear();
    for (std::size_t i = 0; i < members->elements; ++i) nodes.emplace_back(members->element[i]->str, members->element[i]->len);
    std::sort(nodes.begin(), nodes.end());
  }
  std::vector<pb::GpuReading> out;
  for (const auto& name : nodes) {
    const Reply hash = impl_->command({"HGETALL", "qm:gpu:" + name});
    if (!hash || hash->type != REDIS_REPLY_ARRAY) return away();
    for (std::size_t i = 1; i < hash->elements; i += 2) {
      pb::GpuReading r;
      if (r.ParseFromArray(hash->element[i]->str, static_cast<int>(hash->element[i]->len))) out.push_back(std::move(r));
    }
  }
  if (out.empty()) return away();   // flushed, or not written yet: the owner knows
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair(a.node(), a.sample().gpu_index()) < std::pair(b.node(), b.sample().gpu_index());
  });
  return out;
}

}  // namespace qm::telemetry
