// The Snapshot call of another service, page by page.
#include "qm/rpc/channel.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/server.hpp"
#include "qm/service/history.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace qm::rpc {
namespace {

namespace v1 = quartermaster::v1;

constexpr std::chrono::seconds kPageDeadline{3};
constexpr int kPageSize = 200;
constexpr int kMaxPageBytes = 64 << 20;

using PageCall = grpc::Status (*)(const std::shared_ptr<grpc::Channel>&, grpc::ClientContext*,
                                  const v1::SnapshotRequest&, v1::SnapshotResponse*);

template <class Service>
grpc::Status page(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context,
                  const v1::SnapshotRequest& request, v1::SnapshotResponse* response) {
  return Service::NewStub(channel)->Snapshot(context, request, response);
}

struct Owner {
  std::string_view topic, service;
  PageCall call;
};
constexpr Owner kOwners[] = {
    {"qm.workload", "admission", page<v1::Admission>},
    {"qm.placement", "placement", page<v1::Placement>},
    {"qm.node", "placement", page<v1::Placement>},
    {"qm.capacity", "autoscaler", page<v1::Capacity>},
    {"qm.gpu", "telemetry", page<v1::Telemetry>},
    {"qm.spot", "telemetry", page<v1::Telemetry>},
    {"qm.cost", "cost", page<v1::Cost>},
};

class Peers {
 public:
  Peers(std::map<std::string, std::string> addresses, ClientSecurity security)
      : addresses_(std::move(addresses)), security_(std::move(security)) {}

  Result<service::Snapshot> fetch(const std::string& topic, const std::function<bool()>& give_up) {
    const auto* owner = std::ranges::find(kOwners, topic, &Owner::topic);
    if (owner == std::end(kOwners)) {
      return fail(Code::kInvalid, "no service owns the topic '{}'", topic);
    }
    QM_ASSIGN(const auto channel, channel_to(std::string(owner->service)));
    service::Snapshot out;
    v1::SnapshotRequest request;
    request.set_topic(topic);
    request.set_ended(true);
    request.set_page_size(kPageSize);
    for (;;) {
      if (give_up()) return fail(Code::kCancelled, "the snapshot of {} is no longer needed", topic);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kPageDeadline);
      v1::SnapshotResponse response;
      const auto status = owner->call(channel, &context, request, &response);
      if (!status.ok()) {
        return fail(from_grpc(status, fmt::format("{}.Snapshot({})", owner->service, topic)));
      }
      if (request.page_token().empty()) out.history = service::history_of(response);
      for (const auto& entry : response.entries()) out.entries.push_back(entry.SerializeAsString());
      if (response.next_page_token().empty()) return out;
      if (response.next_page_token() == request.page_token()) {
        return fail(Code::kInternal, "{}.Snapshot({}) repeats the page '{}'", owner->service, topic,
                    request.page_token());
      }
      request.set_page_token(response.next_page_token());
    }
  }

 private:
  Result<std::shared_ptr<grpc::Channel>> channel_to(const std::string& service) {
    const std::scoped_lock lock(mutex_);
    auto& channel = channels_[service];
    if (channel) return channel;
    const auto address = addresses_.find(service);
    if (address == addresses_.end()) {
      return fail(Error{Code::kFailedPrecondition, fmt::format("the address of {} is not known", service), "peer",
                        fmt::format("start with --peer {}=host:port", service)});
    }
    channel = rpc::channel_to(address->second, kMaxPageBytes, security_);
    return channel;
  }

  const std::map<std::string, std::string> addresses_;
  const ClientSecurity security_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace

service::SnapshotFetch snapshot_over_grpc(std::map<std::string, std::string> peers, ClientSecurity security) {
  auto shared = std::make_shared<Peers>(std::move(peers), std::move(security));
  return [shared](const std::string& topic, const std::function<bool()>& give_up) {
    return shared->fetch(topic, give_up);
  };
}

}  // namespace qm::rpc
