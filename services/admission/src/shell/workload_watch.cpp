#include "workload_watch.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/translate.hpp"
#include "qm/rpc/server.hpp"

#include <deque>
#include <memory>
#include <mutex>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;
constexpr std::size_t kMostBehind = 10'000;

// What the feed and the call share. The feed may still call after the call has ended, so this lives as long as either;
// the reactor is only touched before `ended`. The feed's lock comes before this one, never after it.
struct Stream {
  std::mutex mutex;
  std::deque<pb::WorkloadUpdate> waiting;
  pb::WorkloadUpdate writing;
  bool busy = false;   // a write is on its way
  bool ended = false;  // Finish was called: the reactor may be gone
  bool live = false;   // what was there at the start is queued: from here the bound holds
  std::string ns;
  std::uint64_t handle = 0;
  grpc::ServerWriteReactor<pb::WorkloadUpdate>* reactor = nullptr;

  void next() {  // with the lock
    if (busy || ended || waiting.empty()) return;
    busy = true;
    writing = std::move(waiting.front());
    waiting.pop_front();
    reactor->StartWrite(&writing);
  }
  void end(const grpc::Status& status) {  // with the lock
    if (ended) return;
    ended = true;
    waiting.clear();
    reactor->Finish(status);
  }
  void push(pb::WorkloadUpdate update) {  // with the lock
    if (ended || (!ns.empty() && update.workload().state().spec().namespace_() != ns)) return;
    if (live && waiting.size() >= kMostBehind) {
      return end(rpc::to_grpc({Code::kExhausted,
                               "the reader is too far behind",
                               {},
                               "list again and watch from its version"}));
    }
    waiting.push_back(std::move(update));
    next();
  }
};

void push_state(Stream& stream, const Engine& engine, std::uint64_t version) {
  const std::lock_guard lock(stream.mutex);
  for (const auto& [uid, w] : engine.tables().workloads) {
    pb::WorkloadUpdate update;
    update.set_resume_version(version);
    *update.mutable_workload()->mutable_state() = to_event(w, engine);
    update.mutable_workload()->set_version(w.version);
    update.mutable_workload()->set_position(engine.position(w));
    stream.push(std::move(update));
  }
}

void follow(service::Host& host, const std::shared_ptr<Stream>& stream, std::uint64_t after) {
  const auto handle = host.follow(after, [stream](const service::FeedEvent& event) {
    pb::WorkloadUpdate update;
    if (event.topic != kTopic ||
        !update.mutable_workload()->mutable_state()->ParseFromString(event.payload))
      return;
    update.set_resume_version(event.sequence);
    update.mutable_workload()->set_version(event.key_version);
    const std::lock_guard lock(stream->mutex);
    stream->push(std::move(update));
  });
  bool late = false;
  {
    const std::lock_guard lock(stream->mutex);
    if (!handle) return stream->end(rpc::to_grpc(handle.error()));
    stream->live = true;
    late = stream->ended;
    if (!late) stream->handle = *handle;
  }
  if (late) host.unfollow(*handle);
}

class Reactor final : public grpc::ServerWriteReactor<pb::WorkloadUpdate> {
 public:
  Reactor(service::Host& host, const pb::WatchWorkloadsRequest& request) : host_(host) {
    stream_->ns = request.namespace_();
    stream_->reactor = this;
    if (request.resume_version() != 0) {
      follow(host, stream_, request.resume_version());
      return;
    }
    // On the engine thread between batches, so that no change falls between the state and what follows it.
    const auto accepted = host.read_async([&host, stream = stream_](const service::Shell& shell) {
      const auto version = host.feed_position();
      push_state(*stream, static_cast<const AdmissionShell&>(shell).engine(), version);
      follow(host, stream, version);
    });
    if (!accepted) {
      const std::lock_guard lock(stream_->mutex);
      stream_->end(rpc::to_grpc(accepted.error()));
    }
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(stream_->mutex);
    stream_->busy = false;
    if (!ok) return stream_->end(grpc::Status::CANCELLED);
    stream_->next();
  }
  void OnCancel() override {
    const std::lock_guard lock(stream_->mutex);
    stream_->end(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    std::uint64_t handle = 0;
    {
      const std::lock_guard lock(stream_->mutex);
      stream_->ended = true;
      handle = stream_->handle;
    }
    if (handle != 0) host_.unfollow(handle);
    delete this;
  }

 private:
  service::Host& host_;
  std::shared_ptr<Stream> stream_ = std::make_shared<Stream>();
};

}  // namespace

grpc::ServerWriteReactor<pb::WorkloadUpdate>* watch_workloads(
    service::Host& host, const pb::WatchWorkloadsRequest& request) {
  return new Reactor(host, request);
}

}  // namespace qm::admission
