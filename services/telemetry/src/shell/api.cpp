#include "qm/telemetry/api.hpp"

#include "qm/rpc/feed_stream.hpp"
#include "qm/rpc/server.hpp"
#include "qm/rpc/stream.hpp"
#include "qm/rpc/worker.hpp"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <charconv>
#include <mutex>

namespace qm::telemetry {
namespace {

constexpr int kDefaultPage = 200, kLargestPage = 2000;

/// Readings are in order of node and index, and a page token has the last returned one.
using Position = std::pair<std::string, std::int32_t>;
Position position_of(const pb::GpuReading& r) { return {r.node(), r.sample().gpu_index()}; }
std::string token_of(const Position& at) { return fmt::format("{}/{}", at.first, at.second); }
Result<std::optional<Position>> position_of_token(const std::string& token) {
  if (token.empty()) return std::nullopt;
  const auto slash = token.rfind('/');
  std::int32_t index = 0;
  const char* end = token.data() + token.size();
  const auto read =
      slash == std::string::npos ? std::from_chars_result{} : std::from_chars(token.data() + slash + 1, end, index);
  if (slash == std::string::npos || read.ec != std::errc() || read.ptr != end) {
    return fail(Error{Code::kInvalid, fmt::format("page_token \"{}\" is none of ours", token), "page_token",
                      "use next_page_token of the previous page, or leave it empty for the first page"});
  }
  return Position{token.substr(0, slash), index};
}

/// One agent stream. Frames are passed to the samples, facts to the mailbox; a fact is confirmed once it is durable.
/// Late confirmations may outlive the stream object: they share the guard of its outbox.
class PushStream final : public grpc::ServerBidiReactor<pb::AgentMessage, pb::AgentOrder> {
 public:
  PushStream(const ApiParts& parts) : p_(parts), out_(*this, kLongestQueue), alive_(std::make_shared<Alive>(this)) {
    out_.live();
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
      // With a full mailbox the fact stays unconfirmed: the agent repeats it.
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
      const auto asked = p_.host.read_async([alive, nodes](const service::Shell& shell) {
        for (const auto& node : nodes) {
          for (const auto& [id, order] : engine_of(shell).open_orders(NodeName(node))) {
            pb::AgentOrder message;
            *message.mutable_checkpoint() = order_message(id, order);
            alive->push(message);
          }
        }
      });
      // An agent that did not get its orders would not request them again: its stream is ended, and it reconnects.
      if (!asked) out_.finish(rpc::to_grpc(asked.error()));
    }
  }

  ApiParts p_;
  rpc::StreamWriter<PushStream, pb::AgentOrder> out_;
  std::shared_ptr<Alive> alive_;
  std::uint64_t id_ = 0;
  pb::AgentMessage message_;
};

std::optional<pb::HealthUpdate> health_update(const service::FeedEvent& e) {
  pb::GpuEvent event;
  if (e.topic != "qm.gpu" || !event.ParseFromString(e.payload) || !event.has_health()) return std::nullopt;
  pb::HealthUpdate update;
  update.set_resume_version(e.sequence);
  *update.mutable_verdict() = event.health();
  return update;
}

class EventStream final : public grpc::ServerWriteReactor<pb::EventLine> {
 public:
  EventStream(Observer& observer, const pb::FollowEventsRequest& request)
      : observer_(observer), out_(*this, kLongestQueue) {
    if (const auto good = rpc::check_read(request); !good) {
      out_.finish(rpc::to_grpc(good.error()));
      return;
    }
    StartSendInitialMetadata();
    out_.live();
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
  rpc::StreamWriter<EventStream, pb::EventLine> out_;
  std::uint64_t handle_ = 0;
};

class Api final : public pb::Telemetry::CallbackService {
 public:
  explicit Api(const ApiParts& parts) : p_(parts) {}

  grpc::ServerBidiReactor<pb::AgentMessage, pb::AgentOrder>* Push(grpc::CallbackServerContext*) override {
    return new PushStream(p_);
  }

  grpc::ServerUnaryReactor* Query(grpc::CallbackServerContext* context, const pb::QueryRequest* request,
                                  pb::QueryResponse* out) override {
    return worker_.answer(context, *request, [this, request, out, caller = rpc::caller_of(*context)] {
      return query(*request, *out, caller);
    });
  }

  grpc::ServerWriteReactor<pb::HealthUpdate>* WatchHealth(grpc::CallbackServerContext*,
                                                          const pb::WatchHealthRequest* request) override {
    return new rpc::FeedStream<pb::HealthUpdate>(p_.host, request->resume_version(), kLongestQueue, health_update);
  }
  grpc::ServerWriteReactor<pb::EventLine>* FollowEvents(grpc::CallbackServerContext*,
                                                        const pb::FollowEventsRequest* request) override {
    return new EventStream(p_.observer, *request);
  }

  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* out) override {
    return worker_.answer_snapshot(p_.host, context, request, out);
  }

 private:
  qm::Status query(const pb::QueryRequest& request, pb::QueryResponse& out, const rpc::Caller& caller) {
    QM_ASSIGN(const auto size, rpc::page_size(request.page_size(), kDefaultPage, kLargestPage));
    QM_ASSIGN(const auto after, position_of_token(request.page_token()));
    auto readings = p_.redis.readings(request.node());
    out.set_source(readings ? "redis" : "owner");
    if (!readings) readings = p_.samples.readings(request.node());
    out.set_as_of_us(micros(p_.clock.now()));
    for (const auto& r : *readings) {
      if (!caller.sees(r.sample().namespace_())) continue;
      if (!request.namespace_().empty() && r.sample().namespace_() != request.namespace_()) continue;
      if (!request.pod().empty() && r.sample().pod() != request.pod()) continue;
      if (after && position_of(r) <= *after) continue;
      if (static_cast<std::size_t>(out.readings_size()) == size) {
        out.set_next_page_token(token_of(position_of(out.readings(out.readings_size() - 1))));
        break;
      }
      *out.add_readings() = r;
    }
    return {};
  }

  ApiParts p_;
  rpc::Worker worker_;  // reads wait for Redis or the store
};

}  // namespace

std::unique_ptr<grpc::Service> make_api(const ApiParts& parts) { return std::make_unique<Api>(parts); }

}  // namespace qm::telemetry
