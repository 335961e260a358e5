#pragma once
// An account with resources for the class of the tests, and the class.
#include "qm/autoscaler/node_class/launch_parameters.hpp"

namespace qm::autoscaler::testing {

inline config::NodeClass class_of(const std::string& alias = "al2023@latest", const std::string& family = "AL2023") {
  config::NodeClass out;
  out.name = "gpu";
  out.ami_family = family;
  out.images.resize(1);
  out.images[0].alias = alias;
  out.subnets.resize(1);
  out.subnets[0].tags = {{"karpenter.sh/discovery", "ml"}};
  out.security_groups = out.subnets;
  out.instance_profile = "nodes";
  return out;
}

inline ClusterIdentity cluster_of_tests() { return {"ml", "https://api.ml", "10.100.0.0/16", "Q0E=", "1.31"}; }

inline PlannedInstance machine_of(const std::string& type, const std::string& zone = "") {
  PlannedInstance out;
  out.claim = "pool-00001";
  out.pool = "pool";
  out.instance_type = type;
  out.zone = zone;
  out.architecture = architecture_of(type);
  out.accelerator = accelerator_of(type);
  return out;
}

inline cloud::Image image_of(const std::string& id, const std::string& architecture, int day,
                             const std::string& name = "") {
  cloud::Image out;
  out.id = id;
  out.name = name.empty() ? id : name;
  out.architecture = architecture;
  out.owner_alias = "amazon";
  out.state = "available";
  out.created = from_micros(day * 86'400'000'000LL);
  return out;
}

/// Images of every variant of the alias, three subnets of ours in two zones, and resources of another cluster.
inline Inventory account(const config::NodeClass& node_class = class_of()) {
  Inventory out;
  int n = 0;
  for (const auto& parameter : image_parameters(node_class, "1.31")) {
    const std::string id = "ami-" + std::to_string(++n);
    out.parameters[parameter.name] = id;
    out.images.push_back(image_of(id, parameter.architecture, 10));
  }
  const cloud::Tags ours{{"karpenter.sh/discovery", "ml"}}, others{{"karpenter.sh/discovery", "other"}};
  out.subnets = {{"subnet-a1", "us-east-1a", "vpc-1", 100, ours},
                 {"subnet-a2", "us-east-1a", "vpc-1", 200, ours},
                 {"subnet-b1", "us-east-1b", "vpc-1", 150, ours},
                 {"subnet-x", "us-east-1a", "vpc-2", 999, others}};
  out.security_groups = {
      {"sg-2", "nodes", "vpc-1", ours}, {"sg-1", "base", "vpc-1", ours}, {"sg-x", "x", "vpc-2", others}};
  return out;
}

}  // namespace qm::autoscaler::testing
