// A call from a client (down) and the resulting call to the leader (up), connected:
//
//   client --read--> down --write--> up --> leader        and back:   leader --read--> up --write--> down --> client
//
// One message of each direction is in progress. Up is held open for the client's half until the leader has sent
// everything, so that no operation starts on it after its end.
#include "qm/replica/forwarder.hpp"

#include "qm/rpc/channel.hpp"
#include "qm/rpc/server.hpp"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace qm::replica {
namespace {

constexpr int kMaxMessage = 64 << 20;
constexpr auto kEnd = std::chrono::seconds(1);

bool passes(grpc::string_ref name) {
  const std::string_view key(name.data(), name.size());
  return !key.starts_with(":") && !key.starts_with("grpc-") && key != "user-agent" && key != "content-type" &&
         key != "te" && key != "host";
}

}  // namespace

struct Forwarder::Impl {
  const std::string service;
  const std::function<std::string()> leader;
  const rpc::ClientSecurity security;

  class Call;
  std::mutex mutex;
  std::condition_variable ended;
  std::set<Call*> calls;
  bool stopped = false;
  std::string address;
  std::shared_ptr<grpc::GenericStub> stub;

  std::shared_ptr<grpc::GenericStub> stub_for(const std::string& to) {
    const std::lock_guard lock(mutex);
    if (to != address || !stub) {
      stub = std::make_shared<grpc::GenericStub>(rpc::channel_to(to, kMaxMessage, security));
      address = to;
    }
    return stub;
  }
  [[nodiscard]] grpc::Status no_leader(const std::string& why) const {
    return rpc::to_grpc(
        {Code::kUnavailable, service + ": " + why, {}, "send the call again; a leader is chosen within seconds"});
  }
};

namespace {

class Refused final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refused(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

class Forwarder::Impl::Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(std::shared_ptr<Impl> owner, std::shared_ptr<grpc::GenericStub> stub, grpc::GenericCallbackServerContext& down)
      : owner_(std::move(owner)), stub_(std::move(stub)), up_(*this) {
    for (const auto& [key, value] : down.client_metadata()) {
      if (passes(key)) up_.context.AddMetadata({key.data(), key.size()}, {value.data(), value.size()});
    }
    const auto from = rpc::service_of(down);
    up_.context.AddMetadata(rpc::kForwarded, from.empty() ? rpc::kForUsers : from);
    up_.context.set_deadline(down.deadline());
  }
  void start(const std::string& method) {
    stub_->PrepareBidiStreamingCall(&up_.context, method, grpc::StubOptions(), &up_);
    up_.AddHold();
    up_.StartRead(&from_leader_);
    StartRead(&from_client_);
    up_.StartCall();
  }
  /// Keeps it until its cancel(). Under the owner's mutex: a call in the owner's set has an unfinished half.
  void hold() { ++halves_; }
  void cancel() {
    stopped_ = true;
    up_.context.TryCancel();
    release();
  }
  void release() {
    {
      const std::lock_guard lock(owner_->mutex);
      if (--halves_ != 0) return;
      owner_->calls.erase(this);
      owner_->ended.notify_all();
    }
    delete this;
  }

 private:
  struct Up final : grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
    explicit Up(Call& owner) : call(owner) {}
    void OnReadDone(bool ok) override {
      if (ok) {
        call.StartWrite(&call.from_leader_);
        return;
      }
      const std::lock_guard lock(call.mutex_);
      call.writes_done_ = true;
      RemoveHold();
    }
    void OnWriteDone(bool ok) override {
      if (ok) call.StartRead(&call.from_client_);
    }
    void OnDone(const grpc::Status& status) override {
      const bool ended_by_us = call.stopped_ && status.error_code() == grpc::StatusCode::CANCELLED;
      call.Finish(ended_by_us ? call.owner_->no_leader("this replica is becoming the leader") : status);
      call.release();
    }
    Call& call;
    grpc::ClientContext context;
  };

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (writes_done_) return;
    if (ok) {
      up_.StartWrite(&from_client_);
    } else {
      up_.StartWritesDone();
    }
  }
  void OnWriteDone(bool ok) override {
    if (!ok) up_.context.TryCancel();
    up_.StartRead(&from_leader_);
  }
  void OnCancel() override { up_.context.TryCancel(); }
  void OnDone() override { release(); }

  const std::shared_ptr<Impl> owner_;
  const std::shared_ptr<grpc::GenericStub> stub_;
  std::mutex mutex_;
  bool writes_done_ = false;
  std::atomic<bool> stopped_ = false;
  int halves_ = 2;  ///< unfinished halves: down and up, and one for stop() while it cancels; under the owner's mutex
  grpc::ByteBuffer from_client_, from_leader_;
  Up up_;
};

Forwarder::Forwarder(std::string service, std::function<std::string()> leader, rpc::ClientSecurity security)
    : impl_(new Impl{std::move(service), std::move(leader), std::move(security), {}, {}, {}, false, {}, nullptr}) {}

Forwarder::~Forwarder() { stop(); }

void Forwarder::stop() {
  std::set<Impl::Call*> held;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopped = true;
    held = impl_->calls;
    for (auto* call : held) call->hold();
  }
  // Without the lock: the end of a call may run here synchronously.
  for (auto* call : held) call->cancel();
  std::unique_lock lock(impl_->mutex);
  impl_->ended.wait_for(lock, kEnd, [this] { return impl_->calls.empty(); });
}

grpc::ServerGenericBidiReactor* Forwarder::CreateReactor(grpc::GenericCallbackServerContext* context) {
  if (context->client_metadata().count(rpc::kForwarded) > 0)
    return new Refused(impl_->no_leader("this replica does not lead"));
  const auto address = impl_->leader();
  if (address.empty()) return new Refused(impl_->no_leader("there is no leader at the moment"));
  auto* call = new Impl::Call(impl_, impl_->stub_for(address), *context);
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) {
      delete call;
      return new Refused(impl_->no_leader("this replica is becoming the leader"));
    }
    impl_->calls.insert(call);
  }
  call->start(context->method());
  return call;
}

}  // namespace qm::replica
