#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::config {

/// One term of a selector of an EC2NodeClass. All of its fields must match; the terms of a list are alternatives.
struct NodeClassTerm {
  std::string alias;  ///< of images: "al2023@latest"
  std::string id, name, owner, ssm_parameter;
  std::string match_criteria;               ///< of reservations: "open" or "targeted"
  std::map<std::string, std::string> tags;  ///< the value "*" matches any value of the key
  friend auto operator<=>(const NodeClassTerm&, const NodeClassTerm&) = default;
};

/// One volume of an instance. Absent fields have the default of EC2.
struct NodeClassVolume {
  std::string device;
  bool root = false;          ///< the volume of the kubelet, for Bottlerocket the second one
  std::int64_t size_gib = 0;  ///< 0 = that of the snapshot
  std::string type, kms_key, snapshot;
  std::int64_t iops = 0, throughput_mib = 0, initialization_mib = 0;
  std::optional<bool> encrypted, delete_on_termination;
  friend auto operator<=>(const NodeClassVolume&, const NodeClassVolume&) = default;
};

/// Access of an instance to its metadata service.
struct NodeClassMetadata {
  std::string endpoint = "enabled", ipv6 = "disabled", tokens = "required";
  std::int64_t hop_limit = 1;
  friend auto operator<=>(const NodeClassMetadata&, const NodeClassMetadata&) = default;
};

/// Settings of the kubelet, with the texts of the manifest. -1 and empty = the default of the image.
struct NodeClassKubelet {
  std::vector<std::string> cluster_dns;
  std::int64_t max_pods = -1, pods_per_core = -1;
  std::map<std::string, std::string> system_reserved, kube_reserved;
  std::map<std::string, std::string> eviction_hard, eviction_soft, eviction_soft_grace;
  std::int64_t eviction_max_grace_s = -1, image_gc_high = -1, image_gc_low = -1;
  std::optional<bool> cpu_cfs_quota;
  friend auto operator<=>(const NodeClassKubelet&, const NodeClassKubelet&) = default;
};

/// karpenter.k8s.aws EC2NodeClass, v1 and v1beta1: how instances of a NodePool are launched on AWS.
struct NodeClass {
  std::string name, api_version;
  std::string ami_family;  ///< AL2, AL2023, Bottlerocket, Custom, Windows2019, ...; of the alias if it is absent
  std::vector<NodeClassTerm> images, subnets, security_groups, reservations;
  std::string role, instance_profile;  ///< exactly one of them
  std::vector<NodeClassVolume> volumes;
  bool raid0 = false;  ///< instanceStorePolicy RAID0
  std::optional<bool> detailed_monitoring, public_ip;
  NodeClassMetadata metadata;
  std::string user_data, context;
  std::map<std::string, std::string> tags;
  NodeClassKubelet kubelet;
  std::string placement_group_id, placement_group_name;  ///< at most one of them
  bool enclave = false;                                  ///< enclaveOptions.enabled
  friend auto operator<=>(const NodeClass&, const NodeClass&) = default;
};

}  // namespace qm::config
