// Whether nodes could hold the pods of a pending workload, for Explain.
#include "qm/admission/node_fit.hpp"

#include "qm/catalog/catalog.hpp"
#include "qm/rpc/channel.hpp"
#include "qm/rpc/server.hpp"
#include "qm/wire/model.hpp"
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

/// The channel is opened with the first question.
struct PlacementPeer {
  std::string address;
  rpc::ClientSecurity security;
  std::mutex mutex;
  std::shared_ptr<grpc::Channel> channel;

  std::shared_ptr<grpc::Channel> opened() {
    const std::scoped_lock lock(mutex);
    if (!channel) channel = rpc::channel_to(address, 1 << 20, security);
    return channel;
  }
};

/// Whether a node selector has labels only that a NodePool gives to the nodes that it launches.
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

/// Whether some instance type holds one such pod. Which types the NodePools allow, the autoscaler alone knows.
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

constexpr std::string_view kNoRoom = "NoRoom";

}  // namespace

AskNodes ask_placement(const std::map<std::string, std::string>& peers, rpc::ClientSecurity security) {
  const auto found = peers.find("placement");
  auto peer = std::make_shared<PlacementPeer>();
  peer->address = found == peers.end() ? std::string() : found->second;
  peer->security = std::move(security);
  return [peer](const pb::DryRunRequest& request, const std::string& authorization) -> Result<pb::DryRunResponse> {
    if (peer->address.empty()) {
      return fail(Error{Code::kFailedPrecondition, "the address of placement is not known", "--peer",
                        "start with --peer placement=HOST:PORT"});
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    pb::DryRunResponse response;
    const auto status = pb::Placement::NewStub(peer->opened())->DryRun(&context, request, &response);
    if (!status.ok()) return fail(rpc::from_grpc(status, "placement.DryRun"));
    return response;
  };
}

bool depends_on_nodes(const pb::Explanation& explanation, bool may_have_remedies) {
  return may_have_remedies || std::ranges::any_of(explanation.causes(), [](const pb::Cause& cause) {
           return cause.code() == kNoRoom || !cause.resource().empty();
         });
}

bool add_node_fit(const pb::DryRunRequest& pods, const pb::DryRunResponse& answer, bool autoscaled,
                  pb::Explanation& out) {
  const auto& shortfall = answer.shortfall();
  if (shortfall.conflict().empty()) {
    for (auto& cause : *out.mutable_causes()) {
      if (cause.code() == kNoRoom && !cause.remedy().empty())
        cause.set_remedy("wait until enough other pods have finished, or add nodes that fit its pods");
    }
    return true;
  }
  const bool launchable = autoscaled && std::ranges::all_of(pods.pod_sets(), [](const pb::PodSet& set) {
                            return is_launchable(wire::from_pb(set).shape);
                          });
  pb::Cause first;
  first.set_code("Unschedulable");
  first.set_message(fmt::format("no nodes meet {}{}, even with no other pod on them; {}",
                                shortfall.conflict_size() == 1 ? "" : "together ",
                                fmt::join(shortfall.conflict(), "; "),
                                launchable ? "its pods start only on nodes that are added" : "waiting does not help"));
  std::string remedy;
  for (const auto& change : shortfall.ways()) remedy += change + "; or ";
  first.set_remedy(remedy + "add nodes that fit its pods");
  if (!launchable) {
    for (auto& cause : *out.mutable_causes()) {
      if (cause.code() == kNoRoom || !cause.resource().empty()) cause.clear_remedy();
    }
  }
  // The first cause is that which no change of quota helps.
  *out.add_causes() = std::move(first);
  for (int at = out.causes_size() - 1; at > 0; --at) out.mutable_causes()->SwapElements(at, at - 1);
  if (const auto colon = out.summary().find(": "); colon != std::string::npos)
    out.set_summary(out.summary().substr(0, colon + 2) + out.causes(0).message());
  return launchable;
}

}  // namespace qm::admission
