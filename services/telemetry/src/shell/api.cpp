#include "qm/telemetry/api.hpp"

#include <deque>
#include <thread>

#include "qm/base/log.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

namespace qm::telemetry {
namespace {

constexpr int kDefaultPage = 200, kLargestPage = 2000;

/// The writing half of a stream: messages queue up, one write is under way. Past the bound the stream ends, because a
/// reader that slow is better served by starting again.
template <class Reactor, class Message>
class Outbox {
 public:
  static constexpr std::size_t kMax = 8192;
  explicit Outbox(Reactor& reactor) : reactor_(reactor) {}
  bool push(Message message) {
    const std::lock_guard lock(mutex_);
    if (finished_) return false;
    if (queue_.size() >= kMax) {
      finished_ = true;
      reactor_.Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the reader is too slow: start again"));
      return false;
    }
    queue_.push_back(std::move(message));
    write();
    return true;
  }
  void written(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    queue_.pop_front();
    if (ok) write();
  }
  void finish(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    reactor_.Finish(status);
  }

 private:
  void write() {
    if (writing_ || finished_ || queue_.empty()) return;
    writing_ = true;
    reactor_.StartWrite(&queue_.front());
  }
  Reactor& reactor_;
  std::mutex mutex_;
  std::deque<Message> queue_;
  bool writing_ = false, finished_ = false;
};

/// One agent. Frames go to the samples, facts into the mailbox; a fact is confirmed once it is durable.
/// The stream object outlives late confirmations by sharing its outbox's guard.
class PushStream final : public grpc::ServerBidiReactor<pb::AgentMessage, pb::AgentOrder> {
 public:
  PushStream(const ApiParts& parts) : p_(parts), out_(*this), alive_(std::make_shared<Alive>(this)) {
    id_ = p_.hub.connect([alive = alive_](const pb::AgentOrder& order) { return alive->push(order); });
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      out_.finish(grpc::Status::OK);
      return;
    }
    take(message_);
    StartRead(&message_);
  }
  void OnWriteDone(bool ok) override { out_.written(ok); }
  void OnCancel() override { out_.finish(grpc::Status::CANCELLED); }
  void OnDone() override {
    p_.hub.disconnect(id_);
    alive_->end();
    delete this;
  }

 private:
  struct Alive {
    explicit Alive(PushStream* s) : stream(s) {}
    bool push(const pb::AgentOrder& order) {
      const std::lock_guard lock(mutex);
      return stream != nullptr && stream->out_.push(order);
    }
    void end() {
      const std::lock_guard lock(mutex);
      stream = nullptr;
    }
    std::mutex mutex;
    PushStream* stream;
  };

  void take(const pb::AgentMessage& m) {
    if (m.has_frame()) {
      p_.samples.take(m.frame());
    } else if (m.has_fact()) {
      auto alive = alive_;
      const std::string fact = m.fact().id();
      // A full mailbox leaves the fact unconfirmed: the agent repeats it.
      (void)p_.host.submit(fact_input(m.fact()), [alive, fact](const Result<std::string>& done) {
        if (!done) return;
        pb::AgentOrder order;
        order.set_fact_committed(fact);
        alive->push(order);
      });
    } else if (m.has_hello()) {
      const std::vector<std::string> nodes(m.hello().nodes().begin(), m.hello().nodes().end());
      p_.hub.serve(id_, nodes);
      auto alive = alive_;
      (void)p_.host.read_async([alive, nodes](const service::Shell& shell) {
        for (const auto& node : nodes) {
          for (const auto& [id, order] : engine_of(shell).open_orders(NodeName(node))) {
            pb::AgentOrder message;
            *message.mutable_checkpoint() = order_message(id, order);
            alive->push(message);
          }
        }
      });
    }
  }

  ApiParts p_;
  Outbox<PushStream, pb::AgentOrder> out_;
  std::shared_ptr<Alive> alive_;
  std::uint64_t id_ = 0;
  pb::AgentMessage message_;
};

class HealthStream final : public grpc::ServerWriteReactor<pb::HealthUpdate> {
 public:
  HealthStream(service::Host& host, std::uint64_t after) : host_(host), out_(*this) {
    auto handle = host_.follow(after == 0 ? host_.feed_position() : after, [this](const service::FeedEvent& e) {
      pb::GpuEvent event;
      if (e.topic != "qm.gpu" || !event.ParseFromString(e.payload) || !event.has_health()) return;
      pb::HealthUpdate update;
      update.set_resume_version(e.sequence);
      *update.mutable_verdict() = event.health();
      out_.push(std::move(update));
    });
    if (handle) {
      handle_ = *handle;
    } else {
      out_.finish(rpc::to_grpc(handle.error()));
    }
  }
  void OnWriteDone(bool ok) override { out_.written(ok); }
  void OnCancel() override { out_.finish(grpc::Status::CANCELLED); }
  void OnDone() override {
    if (handle_ != 0) host_.unfollow(handle_);
    delete this;
  }

 private:
  service::Host& host_;
  Outbox<HealthStream, pb::HealthUpdate> out_;
  std::uint64_t handle_ = 0;
};

class EventStream final : public grpc::ServerWriteReactor<pb::EventLine> {
 public:
  EventStream(Observer& observer, const pb::FollowEventsRequest& request) : observer_(observer), out_(*this) {
    handle_ = observer_.follow([this, topic = request.topic(), key = request.key()](const pb::EventLine& line) {
      if ((topic.empty() || line.topic() == topic) && (key.empty() || line.key() == key)) out_.push(line);
    });
  }
  void OnWriteDone(bool ok) override { out_.written(ok); }
  void OnCancel() override { out_.finish(grpc::Status::CANCELLED); }
  void OnDone() override {
    observer_.unfollow(handle_);
    delete this;
  }

 private:
  Observer& observer_;
  Outbox<EventStream, pb::EventLine> out_;
  std::uint64_t handle_ = 0;
};

/// Reads that wait for Redis run here, off gRPC's few threads.
class Worker {
 public:
  Worker() : thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~Worker() {
    thread_.request_stop();
    thread_.join();
    for (auto& task : tasks_) task();   // every call is answered
  }
  bool post(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.size() >= 1024) return false;
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
    return true;
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> tasks_;
  std::jthread thread_;
};

class Api final : public pb::Telemetry::CallbackService {
 public:
  explicit Api(const ApiParts& parts) : p_(parts) {}

  grpc::ServerBidiReactor<pb::AgentMessage, pb::AgentOrder>* Push(grpc::CallbackServerContext*) override { return new PushStream(p_); }

  grpc::ServerUnaryReactor* Query(grpc::CallbackServerContext* context, const pb::QueryRequest* request, pb::QueryResponse* out) override {
    auto* reactor = context->DefaultReactor();
    const bool posted = worker_.post([this, reactor, request, out] {
      const auto done = query(*request, *out);
      reactor->Finish(done ? grpc::Status::OK : rpc::to_grpc(done.error()));
    });
    if (!posted) reactor->Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many queries wait; try again in a second"));
    return reactor;
  }

  grpc::ServerWriteReactor<pb::HealthUpdate>* WatchHealth(grpc::CallbackServerContext*, const pb::WatchHealthRequest* request) override {
    return new HealthStream(p_.host, request->resume_version());
  }
  grpc::ServerWriteReactor<pb::EventLine>* FollowEvents(grpc::CallbackServerContext*, const pb::FollowEventsRequest* request) override {
    return new EventStream(p_.observer, *request);
  }

  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request, pb::SnapshotResponse* out) override {
    auto* reactor = context->DefaultReactor();
    const auto done = snapshot(*request, *out);
    reactor->Finish(done ? grpc::Status::OK : rpc::to_grpc(done.error()));
    return reactor;
  }

 private:
  static Result<std::size_t> page_size(std::int32_t asked) {
    if (asked < 0 || asked > kLargestPage) {
      return fail(Error{Code::kInvalid, fmt::format("page_size {} is out of range", asked), "page_size",
                        fmt::format("use 1 to {}, or 0 for {}", kLargestPage, kDefaultPage)});
    }
    return static_cast<std::size_t>(asked == 0 ? kDefaultPage : asked);
  }

  qm::Status query(const pb::QueryRequest& request, pb::QueryResponse& out) {
    QM_ASSIGN(const auto size, page_size(request.page_size()));
    auto readings = p_.redis.readings(request.node());
    out.set_source(readings ? "redis" : "owner");
    if (!readings) readings = p_.samples.readings(request.node());
    out.set_as_of_us(micros(p_.clock.now()));
    for (const auto& r : *readings) {
      if (!request.namespace_().empty() && r.sample().namespace_() != request.namespace_()) continue;
      if (!request.pod().empty() && r.sample().pod() != request.pod()) continue;
      const std::string key = fmt::format("{}/{:04}", r.node(), r.sample().gpu_index());
      if (key <= request.page_token()) continue;
      if (static_cast<std::size_t>(out.readings_size()) == size) {
        const auto& last = out.readings(out.readings_size() - 1);
        out.set_next_page_token(fmt::format("{}/{:04}", last.node(), last.sample().gpu_index()));
        break;
      }
      *out.add_readings() = r;
    }
    return {};
  }

  qm::Status snapshot(const pb::SnapshotRequest& request, pb::SnapshotResponse& out) {
    QM_ASSIGN(const auto size, page_size(request.page_size()));
    QM_ASSIGN(const auto rows, p_.host.snapshot(request.topic(), request.page_token(), size, request.key()));
    for (const auto& row : rows) {
      if (!out.add_entries()->ParseFromString(row.value)) return fail(Code::kInternal, "the stored envelope of {} cannot be read", row.key);
    }
    if (request.key().empty() && rows.size() == size) out.set_next_page_token(rows.back().key);
    return {};
  }

  ApiParts p_;
  Worker worker_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_api(const ApiParts& parts) { return std::make_unique<Api>(parts); }

}  // namespace qm::telemetry
