#include "api/workload_watch.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/rpc/stream.hpp"

#include <memory>
#include <mutex>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;
constexpr std::size_t kMostBehind = 10'000;

class Reactor;

// State that the feed and the call share. The engine thread may still register the follower after the call has ended,
// so this object lives as long as either of them. Lock order: the lock of the feed, then this one.
struct Stream {
  Stream(Reactor& reactor, std::string only, rpc::Caller asks)
      : out(reactor, kMostBehind), ns(std::move(only)), caller(std::move(asks)) {}
  rpc::StreamWriter<Reactor, pb::WorkloadUpdate> out;
  const std::string ns;
  const rpc::Caller caller;
  std::mutex mutex;
  bool ended = false;  // the reactor is gone
  std::uint64_t handle = 0;

  [[nodiscard]] bool asked_for(const pb::WorkloadUpdate& update) const {
    const auto& spec = update.workload().state().spec();
    return caller.sees(spec.namespace_(), spec.team()) && (ns.empty() || spec.namespace_() == ns);
  }
};

class Reactor final : public grpc::ServerWriteReactor<pb::WorkloadUpdate> {
 public:
  Reactor(service::Host& host, const pb::WatchWorkloadsRequest& request, rpc::Caller caller);
  void OnWriteDone(bool ok) override { stream_->out.written(ok); }
  void OnCancel() override { stream_->out.finish(grpc::Status::CANCELLED); }
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
  std::shared_ptr<Stream> stream_;
};

void push_state(Stream& stream, const Engine& engine, std::uint64_t version) {
  for (const auto& [uid, w] : engine.tables().workloads) {
    pb::WorkloadUpdate update;
    update.set_resume_version(version);
    *update.mutable_workload()->mutable_state() = to_event(w, engine);
    update.mutable_workload()->set_version(w.version);
    update.mutable_workload()->set_position(queue_position(engine.state(), w));
    if (stream.asked_for(update)) stream.out.push(std::move(update));
  }
}

void follow(service::Host& host, const std::shared_ptr<Stream>& stream, std::uint64_t after) {
  const auto handle = host.follow(after, [stream](const service::FeedEvent& event) {
    pb::WorkloadUpdate update;
    if (event.topic != kTopic || !update.mutable_workload()->mutable_state()->ParseFromString(event.payload)) return;
    update.set_resume_version(event.sequence);
    update.mutable_workload()->set_version(event.key_version);
    if (stream->asked_for(update)) stream->out.push(std::move(update));
  });
  if (!handle) return stream->out.finish(rpc::to_grpc(handle.error()));
  stream->out.live();
  bool late = false;
  {
    const std::lock_guard lock(stream->mutex);
    late = stream->ended;
    if (!late) stream->handle = *handle;
  }
  if (late) host.unfollow(*handle);
}

Reactor::Reactor(service::Host& host, const pb::WatchWorkloadsRequest& request, rpc::Caller caller)
    : host_(host), stream_(std::make_shared<Stream>(*this, request.namespace_(), std::move(caller))) {
  if (const auto good = rpc::check_read(request); !good) {
    stream_->out.finish(rpc::to_grpc(good.error()));
    return;
  }
  if (request.resume_version() != 0) {
    follow(host, stream_, request.resume_version());
    return;
  }
  // Runs on the engine thread between batches, so that no change is lost between the snapshot and the updates that
  // follow it.
  const auto accepted = host.read_async([&host, stream = stream_](const service::Shell& shell) {
    const auto version = host.feed_position();
    push_state(*stream, static_cast<const AdmissionShell&>(shell).engine(), version);
    follow(host, stream, version);
  });
  if (!accepted) stream_->out.finish(rpc::to_grpc(accepted.error()));
}

}  // namespace

grpc::ServerWriteReactor<pb::WorkloadUpdate>* watch_workloads(service::Host& host,
                                                              const pb::WatchWorkloadsRequest& request,
                                                              rpc::Caller caller) {
  return new Reactor(host, request, std::move(caller));
}

}  // namespace qm::admission
