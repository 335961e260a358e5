#pragma once
#include "qm/cloud/resources.hpp"
#include "qm/config/node_class.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// The accelerators for which images differ.
enum class Accelerator { kNone, kNvidia, kNeuron };
[[nodiscard]] std::string_view name_of(Accelerator accelerator);

/// A parameter of the Systems Manager whose value is the id of an image, and the instances that the image is for.
struct ImageParameter {
  std::string name;
  std::string architecture;               ///< "x86_64" or "arm64"; empty = that of the image
  std::vector<Accelerator> accelerators;  ///< empty = any
};
/// The parameters to read for a class: those of its alias for the Kubernetes version ("1.31"), and of ssmParameter.
///
/// Source   Amazon EKS, "Retrieve recommended AMI IDs"; Bottlerocket, "Finding an AMI".
[[nodiscard]] std::vector<ImageParameter> image_parameters(const config::NodeClass& node_class,
                                                           std::string_view kubernetes_version);

/// What the account has for a class, in any order. It may have more than the class selects.
struct Inventory {
  std::vector<cloud::Image> images;
  std::vector<cloud::Subnet> subnets;
  std::vector<cloud::SecurityGroup> security_groups;
  std::vector<cloud::CapacityReservation> reservations;
  std::vector<cloud::PlacementGroup> placement_groups;
  std::map<std::string, std::string> parameters;  ///< of image_parameters(): name -> image id
};

/// A reason why a class cannot be used. `condition` is the condition of its status that is False.
struct ClassFault {
  std::string condition, field, message;  ///< the message names the class, what was searched, and the remedy
  friend auto operator<=>(const ClassFault&, const ClassFault&) = default;
};

struct ResolvedImage {
  cloud::Image image;
  std::vector<Accelerator> accelerators;  ///< empty = any
};

/// The resources that a class selects. Equal for each order of the inventory.
struct ResolvedClass {
  config::NodeClass node_class;
  std::vector<ResolvedImage> images;                  ///< the best first: not deprecated, newest, then by name and id
  std::vector<cloud::Subnet> subnets;                 ///< the most free addresses first, then by id
  std::vector<cloud::SecurityGroup> security_groups;  ///< by id
  std::vector<cloud::CapacityReservation> reservations;  ///< active ones, by id
  std::optional<cloud::PlacementGroup> placement_group;
  std::vector<ClassFault> faults;  ///< empty = it can be used
};

/// Selects the resources of a class.
///
/// Fails    never as a call: each empty selection is a fault, and the others are resolved nevertheless.
/// Threads  any. Cost: terms times resources.
/// Source   Karpenter's AWS provider 1.14, EC2NodeClass.
[[nodiscard]] ResolvedClass resolve(const config::NodeClass& node_class, const Inventory& inventory,
                                    std::string_view kubernetes_version);

/// The ids of what an instance of the class may have, each list sorted. An instance with others is drifted.
struct ClassResources {
  std::vector<std::string> images, subnets, security_groups;
  friend auto operator<=>(const ClassResources&, const ClassResources&) = default;
};
/// The resources of the class: of its images the first one for each architecture and accelerator.
[[nodiscard]] ClassResources resources_of(const ResolvedClass& resolved);

/// The order of ResolvedClass::subnets.
void sort_subnets(std::vector<cloud::Subnet>& subnets);

/// A term as text for messages: "tag karpenter.sh/discovery=cluster", "id subnet-1".
[[nodiscard]] std::string words_of(const config::NodeClassTerm& term);

}  // namespace qm::autoscaler
