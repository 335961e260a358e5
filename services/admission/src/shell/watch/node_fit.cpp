// Adds to an explanation whether nodes can hold the pods of a pending workload.
#include "qm/admission/watch/node_fit.hpp"

#include "qm/catalog/catalog.hpp"
#include "qm/rpc/channel.hpp"
#include "qm/rpc/server.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;

constexpr std::chrono::seconds kPatience{1};

/// Client of one other service. The channel is opened with the first call.
class Peer {
 public:
  Peer(std::string service, const std::map<std::string, std::string>& peers, rpc::ClientSecurity security)
      : service_(std::move(service)), security_(std::move(security)) {
    if (const auto found = peers.find(service_); found != peers.end()) address_ = found->second;
  }
  /// `fn` has the signature fn(channel, context) -> grpc::Status.
  template <class Fn>
  Status ask(const std::string& authorization, Fn fn) {
    if (address_.empty()) {
      return fail(Error{Code::kFailedPrecondition, fmt::format("the address of {} is not known", service_), "--peer",
                        fmt::format("start with --peer {}=HOST:PORT", service_)});
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    const auto status = fn(opened(), &context);
    return status.ok() ? Status{} : Status(fail(rpc::from_grpc(status, service_)));
  }

 private:
  std::shared_ptr<grpc::Channel> opened() {
    const std::scoped_lock lock(mutex_);
    if (!channel_) channel_ = rpc::channel_to(address_, 4 << 20, security_);
    return channel_;
  }

  const std::string service_;
  const rpc::ClientSecurity security_;
  std::string address_;
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
};

/// Whether a node selector has only labels that a NodePool sets on the nodes it launches.
bool is_launched_with(const Labels& selector) {
  static constexpr std::array<std::string_view, 7> kOfInstances{"node.kubernetes.io/instance-type",
                                                                "karpenter.sh/capacity-type",
                                                                "karpenter.sh/nodepool",
                                                                "nvidia.com/gpu.product",
                                                                "nvidia.com/gpu.present",
                                                                "kubernetes.io/os",
                                                                "kubernetes.io/arch"};
  return std::ranges::all_of(selector, [](const auto& label) {
    return std::ranges::find(kOfInstances, std::string_view(label.first)) != kOfInstances.end();
  });
}

/// Whether some instance type fits one such pod. Only the autoscaler knows which types the NodePools allow.
bool is_launchable(const PodShape& shape) {
  if (!is_launched_with(shape.node_selector)) return false;
  constexpr std::int64_t kMilli = 1000, kMebi = 1 << 20;
  return std::ranges::any_of(catalog::types(), [&](const catalog::Type& type) {
    const auto& models = shape.gpu.models;
    const bool gpus = shape.gpu.whole > 0 || shape.gpu.milli > 0 || shape.gpu.mig_count > 0;
    const bool model =
        !gpus || models.empty() || std::ranges::find(models, std::string(type.gpu_product)) != models.end();
    return model && type.gpus >= std::max<std::int64_t>(shape.gpu.whole, gpus ? 1 : 0) &&
           type.vcpu * kMilli >= shape.cpu_milli && type.memory_mib * kMebi >= shape.memory_bytes;
  });
}

constexpr std::string_view kInsufficientCapacity = "InsufficientCapacity";

}  // namespace

PlacementQuery request_placement(const std::map<std::string, std::string>& peers, rpc::ClientSecurity security) {
  const auto peer = std::make_shared<Peer>("placement", peers, std::move(security));
  return [peer](const pb::DryRunRequest& request, const std::string& authorization) -> Result<pb::DryRunResponse> {
    pb::DryRunResponse response;
    QM_TRY(peer->ask(authorization, [&](const auto& channel, auto* context) {
      return pb::Placement::NewStub(channel)->DryRun(context, request, &response);
    }));
    return response;
  };
}

PlanQuery request_capacity(const std::map<std::string, std::string>& peers, rpc::ClientSecurity security) {
  const auto peer = std::make_shared<Peer>("autoscaler", peers, std::move(security));
  return [peer](const std::string& authorization) -> Result<std::vector<std::string>> {
    pb::CapacityPlan plan;
    QM_TRY(peer->ask(authorization, [&](const auto& channel, auto* context) {
      return pb::Capacity::NewStub(channel)->GetPlan(context, {}, &plan);
    }));
    return std::vector<std::string>(plan.explanations().begin(), plan.explanations().end());
  };
}

void add_capacity_plan(const std::string& name, const std::vector<std::string>& plan, pb::Explanation& out) {
  if (std::ranges::none_of(out.causes(), [](const pb::Cause& cause) { return cause.code() == kInsufficientCapacity; }))
    return;
  const auto line = std::ranges::find_if(plan, [&](const auto& text) { return text.starts_with(name + " waits "); });
  if (line == plan.end()) return;
  const auto colon = line->find(": ");
  if (colon == std::string::npos) return;
  const auto what = line->substr(colon + 2);
  const auto remedy = what.rfind("; ");
  auto& cause = *out.add_causes();
  cause.set_code("CapacityPlan");
  cause.set_message(what.substr(0, remedy));
  if (remedy != std::string::npos) cause.set_remedy(what.substr(remedy + 2));
}

bool depends_on_nodes(const pb::Explanation& explanation, bool may_have_remedies) {
  return may_have_remedies || std::ranges::any_of(explanation.causes(), [](const pb::Cause& cause) {
           return cause.code() == kInsufficientCapacity || !cause.resource().empty();
         });
}

namespace {

/// Puts a cause that no change of quota can fix before all others.
void put_before(pb::Cause first, pb::Explanation& out) {
  *out.add_causes() = std::move(first);
  for (int at = out.causes_size() - 1; at > 0; --at) out.mutable_causes()->SwapElements(at, at - 1);
  if (const auto colon = out.summary().find(": "); colon != std::string::npos)
    out.set_summary(out.summary().substr(0, colon + 2) + out.causes(0).message());
}

/// As put_before(), for the case that no nodes will be added: the queue position does not matter, and other causes
/// have no remedy.
void put_first(pb::Cause first, pb::Explanation& out) {
  auto& causes = *out.mutable_causes();
  causes.erase(std::ranges::remove_if(causes, [](const pb::Cause& c) { return c.code() == "Behind"; }).begin(),
               causes.end());
  for (auto& cause : causes) {
    if (cause.code() == kInsufficientCapacity || !cause.resource().empty()) cause.clear_remedy();
  }
  put_before(std::move(first), out);
}

}  // namespace

bool add_node_fit(const pb::DryRunRequest& pods, const pb::DryRunResponse& answer, bool autoscaled,
                  pb::Explanation& out) {
  const auto& shortfall = answer.shortfall();
  if (shortfall.conflict().empty()) {
    for (auto& cause : *out.mutable_causes()) {
      if (cause.code() == kInsufficientCapacity && !cause.remedy().empty())
        cause.set_remedy("wait until enough other pods have finished, or add nodes that fit its pods");
    }
    return true;
  }
  const bool launchable = autoscaled && std::ranges::all_of(pods.pod_sets(), [](const pb::PodSet& set) {
                            return is_launchable(wire::from_pb(set).shape);
                          });
  pb::Cause first;
  first.set_code("Unschedulable");
  if (shortfall.pod_set().empty()) {
    first.set_message(fmt::format("{}; waiting does not help", fmt::join(shortfall.conflict(), "; ")));
    first.set_remedy("change what its pods request");
    put_first(std::move(first), out);
    return false;
  }
  first.set_message(fmt::format("no nodes meet {}{}, even with no other pod on them; {}",
                                shortfall.conflict_size() == 1 ? "" : "together ",
                                fmt::join(shortfall.conflict(), "; "),
                                launchable ? "its pods start only on nodes that are added" : "waiting does not help"));
  std::string remedy;
  for (const auto& change : shortfall.remedies()) remedy += change + "; or ";
  first.set_remedy(remedy + "add nodes that fit its pods");
  if (launchable) {
    put_before(std::move(first), out);
  } else {
    put_first(std::move(first), out);
  }
  return launchable;
}

}  // namespace qm::admission
