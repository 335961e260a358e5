#include "qm/autoscaler/api.hpp"

#include <deque>
#include <mutex>

#include "qm/rpc/server.hpp"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "rows.hpp"

namespace qm::autoscaler {
namespace {

namespace pb = quartermaster::v1;

constexpr int kDefaultPage = 100, kLargestPage = 1000;

/// One watch of capacity events as intents: what is asked of the cloud, and what came of it.
class IntentStream final : public grpc::ServerWriteReactor<pb::IntentUpdate> {
 public:
  IntentStream(service::Host& host, std::uint64_t after) : host_(host) {
    auto handle = host_.follow(after == 0 ? host_.feed_position() : after, [this](const service::FeedEvent& e) { push(e); });
    if (!handle) {
      Finish(rpc::to_grpc(handle.error()));
      finished_ = true;
    } else {
      handle_ = *handle;
    }
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    waiting_.pop_front();
    if (!ok) return;
    write_next();
  }
  void OnCancel() override { end(grpc::Status::CANCELLED); }
  void OnDone() override {
    if (handle_ != 0) host_.unfollow(handle_);
    delete this;
  }

 private:
  static constexpr std::size_t kMaxWaiting = 4096;   // a reader that falls so far behind resumes by version

  void push(const service::FeedEvent& e) {
    pb::CapacityEvent event;
    if (e.topic != "qm.capacity" || e.tombstone || !event.ParseFromString(e.payload) || !event.has_instance()) return;
    const auto& i = event.instance();
    pb::IntentUpdate update;
    update.set_resume_version(e.sequence);
    update.set_intent_id(i.claim());
    update.set_kind(i.stopped_us() > 0 ? "terminate" : "launch");
    update.set_target(i.instance_id().empty() ? i.instance_type() : i.instance_id());
    update.set_outcome(i.state() == pb::INSTANCE_REQUESTED ? "" : i.state() == pb::INSTANCE_FAILED ? i.reason() : "ok");
    update.set_at_us(micros(e.occurred));
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (waiting_.size() >= kMaxWaiting) {
      finished_ = true;
      Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the reader is too slow: watch again from the last version"));
      return;
    }
    waiting_.push_back(std::move(update));
    write_next();
  }
  void write_next() {
    if (writing_ || finished_ || waiting_.empty()) return;
    writing_ = true;
    StartWrite(&waiting_.front());
  }
  void end(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    Finish(status);
  }

  service::Host& host_;
  std::uint64_t handle_ = 0;
  std::mutex mutex_;
  std::deque<pb::IntentUpdate> waiting_;
  bool writing_ = false, finished_ = false;
};

/// For people: with the engine's own word for the state.
pb::InstanceEvent shown(const ClaimName& name, const Claim& c, const Engine& engine) {
  auto out = instance_event(name, c, engine);
  out.set_reason(fmt::format("{}: {}", name_of(c.state), c.reason));
  return out;
}

class Api final : public pb::Capacity::CallbackService {
 public:
  Api(service::Host& host, const DomainClock& clock) : host_(host), clock_(clock) {}

  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context, const pb::GetPlanRequest*, pb::CapacityPlan* out) override {
    return rpc::answer(host_, context, [this, out](const service::Shell& shell) -> qm::Status {
      const Engine& engine = engine_of(shell);
      const Instant now = clock_.now();
      out->set_as_of_us(micros(now));
      for (const auto& [uid, item] : engine.tables().demand) {
        auto* d = out->mutable_demand()->add_items();
        d->set_uid(uid.value());
        d->set_attempt(item.id.attempt);
        d->set_priority(item.priority);
        d->set_since_us(micros(item.since));
      }
      for (const auto& [name, c] : engine.tables().claims) {
        if (c.state == ClaimState::kRequested || c.state == ClaimState::kLaunched) *out->add_requested() = shown(name, c, engine);
      }
      for (auto& line : engine.explain(now)) out->add_explanations(std::move(line));
      return {};
    });
  }

  grpc::ServerUnaryReactor* ListClaims(grpc::CallbackServerContext* context, const pb::ListClaimsRequest* request,
                                       pb::ListClaimsResponse* out) override {
    return rpc::answer(host_, context, [request, out](const service::Shell& shell) -> qm::Status {
      const Engine& engine = engine_of(shell);
      QM_ASSIGN(const auto size, rpc::page_size(request->page_size(), kDefaultPage, kLargestPage));
      std::int64_t total = 0;
      for (const auto& [name, c] : engine.tables().claims) {
        auto row = shown(name, c, engine);
        if (request->state() != pb::INSTANCE_STATE_UNSPECIFIED && row.state() != request->state()) continue;
        ++total;
        if (name.value() <= request->page_token()) continue;
        if (static_cast<std::size_t>(out->claims_size()) < size) {
          *out->add_claims() = std::move(row);
        } else if (out->next_page_token().empty()) {
          out->set_next_page_token(out->claims(out->claims_size() - 1).claim());
        }
      }
      out->set_total(total);
      return {};
    });
  }

  grpc::ServerWriteReactor<pb::IntentUpdate>* WatchIntents(grpc::CallbackServerContext*, const pb::WatchIntentsRequest* request) override {
    return new IntentStream(host_, request->resume_version());
  }

  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* out) override {
    return rpc::answer_snapshot(host_, context, request, out);
  }

 private:
  service::Host& host_;
  const DomainClock& clock_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock) {
  return std::make_unique<Api>(host, clock);
}

}  // namespace qm::autoscaler
