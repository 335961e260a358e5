#pragma once
#include "qm/autoscaler/node_class/resolve.hpp"
#include "qm/base/result.hpp"
#include "qm/model/resources.hpp"

#include <string>
#include <vector>

namespace qm::autoscaler {

/// The cluster that launched nodes join. Images that join by themselves (Custom) need none of it.
struct ClusterIdentity {
  std::string name, endpoint, service_cidr;
  std::string certificate_authority;  ///< base64 of PEM
  std::string kubernetes_version;     ///< "1.31"
  friend auto operator<=>(const ClusterIdentity&, const ClusterIdentity&) = default;
};

/// One instance to launch, or the instances of a gang.
struct PlannedInstance {
  std::string claim, pool, instance_type;  ///< the claim, or the id of the launch
  std::string zone;                        ///< empty = the zone with the most free addresses
  std::string architecture;                ///< "x86_64" or "arm64"
  Accelerator accelerator = Accelerator::kNone;
  bool spot = false;
  Labels labels;
  std::vector<Taint> taints;
  std::int64_t count = 1;        ///< instances in one request: all in one subnet
  std::string reservation = {};  ///< id of the capacity reservation of the class to use; empty = none
  bool counted = true;           ///< false: one of several offerings of a request, so its addresses may not be used
};

/// The parameters of RunInstances for an instance of a class, without its client token. Equal arguments give equal
/// parameters.
///
/// Fails    kInvalid with the field of the class: no image for the architecture or accelerator, or no subnet in the
///          zone. Also: no security group in its VPC; user data that cannot be merged or is too long; too many tags.
///          kExhausted with the field "capacity": no free address in the subnets of the zone, or the class does not
///          select the reservation any more.
/// Threads  any.
[[nodiscard]] Result<cloud::InstanceRequest> launch_parameters(const ResolvedClass& resolved,
                                                               const ClusterIdentity& cluster,
                                                               const PlannedInstance& planned);

/// Counts a launch with these parameters against the free addresses of its subnet and the instances of its reservation,
/// until the class is resolved again: the next launch of a gang may need another subnet.
void count_launch(ResolvedClass& resolved, const cloud::InstanceRequest& request);

/// The user data of a node, by the family of its image: for AL2023 a MIME archive with a NodeConfig, for Bottlerocket
/// TOML, for AL2 a MIME archive with bootstrap.sh, for Custom the class's own text.
///
/// Fails    kInvalid: the cluster is not identified, or the class's userData cannot be merged.
[[nodiscard]] Result<std::string> user_data(const config::NodeClass& node_class, const ClusterIdentity& cluster,
                                            const PlannedInstance& planned);

/// The name of the instance profile that is created for the role of a class.
[[nodiscard]] std::string instance_profile_of(const config::NodeClass& node_class, const std::string& cluster,
                                              const std::string& region);

/// The accelerator and the architecture of an instance type, by the name of its family.
[[nodiscard]] Accelerator accelerator_of(std::string_view instance_type);
[[nodiscard]] std::string architecture_of(std::string_view instance_type);

}  // namespace qm::autoscaler
