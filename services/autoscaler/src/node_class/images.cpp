// Images that AWS publishes for Kubernetes, by alias, and the instance types that need special ones.
#include "qm/autoscaler/node_class/launch_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace qm::autoscaler {
namespace {

constexpr std::string_view kEks = "/aws/service/eks/optimized-ami";

struct Variant {
  std::string_view architecture, suffix;
  std::vector<Accelerator> accelerators;
};

std::vector<ImageParameter> al2023(std::string_view version, std::string_view kubernetes) {
  static const std::vector<Variant> kVariants{{"x86_64", "standard", {Accelerator::kNone}},
                                              {"arm64", "standard", {Accelerator::kNone}},
                                              {"x86_64", "nvidia", {Accelerator::kNvidia}},
                                              {"arm64", "nvidia", {Accelerator::kNvidia}},
                                              {"x86_64", "neuron", {Accelerator::kNeuron}}};
  std::vector<ImageParameter> out;
  for (const Variant& v : kVariants) {
    const std::string leaf = version == "latest" ? std::string("recommended")
                                                 : fmt::format("amazon-eks-node-al2023-{}-{}-{}-{}", v.architecture,
                                                               v.suffix, kubernetes, version);
    out.push_back(
        {fmt::format("{}/{}/amazon-linux-2023/{}/{}/{}/image_id", kEks, kubernetes, v.architecture, v.suffix, leaf),
         std::string(v.architecture), v.accelerators});
  }
  return out;
}

std::vector<ImageParameter> al2(std::string_view version, std::string_view kubernetes) {
  static const std::vector<Variant> kVariants{{"x86_64", "", {Accelerator::kNone}},
                                              {"arm64", "-arm64", {Accelerator::kNone}},
                                              {"x86_64", "-gpu", {Accelerator::kNvidia, Accelerator::kNeuron}}};
  std::vector<ImageParameter> out;
  for (const Variant& v : kVariants) {
    const std::string leaf = version == "latest"
                                 ? std::string("recommended")
                                 : fmt::format("amazon-eks{}-node-{}-{}", v.suffix, kubernetes, version);
    out.push_back({fmt::format("{}/{}/amazon-linux-2{}/{}/image_id", kEks, kubernetes, v.suffix, leaf),
                   std::string(v.architecture), v.accelerators});
  }
  return out;
}

// The standard images have the driver of Neuron.
std::vector<ImageParameter> bottlerocket(std::string_view version, std::string_view kubernetes) {
  static const std::vector<Variant> kVariants{{"x86_64", "", {Accelerator::kNone, Accelerator::kNeuron}},
                                              {"arm64", "", {Accelerator::kNone}},
                                              {"x86_64", "-nvidia", {Accelerator::kNvidia}},
                                              {"arm64", "-nvidia", {Accelerator::kNvidia}}};
  if (version.starts_with('v')) version.remove_prefix(1);
  std::vector<ImageParameter> out;
  for (const Variant& v : kVariants) {
    out.push_back({fmt::format("/aws/service/bottlerocket/aws-k8s-{}{}/{}/{}/image_id", kubernetes, v.suffix,
                               v.architecture, version),
                   std::string(v.architecture), v.accelerators});
  }
  return out;
}

/// "g5g" of "g5g.xlarge".
std::string_view family_of(std::string_view instance_type) { return instance_type.substr(0, instance_type.find('.')); }

}  // namespace

std::vector<ImageParameter> image_parameters(const config::NodeClass& node_class, std::string_view kubernetes_version) {
  std::vector<ImageParameter> out;
  for (const auto& term : node_class.images) {
    if (!term.ssm_parameter.empty()) out.push_back({term.ssm_parameter, {}, {}});
    const std::string_view alias = term.alias;
    const auto mark = alias.find('@');
    if (mark == std::string_view::npos) continue;
    const auto family = alias.substr(0, mark), version = alias.substr(mark + 1);
    std::vector<ImageParameter> more;
    if (family == "al2023") more = al2023(version, kubernetes_version);
    if (family == "al2") more = al2(version, kubernetes_version);
    if (family == "bottlerocket") more = bottlerocket(version, kubernetes_version);
    std::ranges::move(more, std::back_inserter(out));
  }
  return out;
}

// Families with a fraction of a GPU (g6f) need the driver too; those with GPUs of AMD (g4ad) do not.
Accelerator accelerator_of(std::string_view instance_type) {
  const auto family = family_of(instance_type);
  const auto is = [&](std::string_view letters) {
    return family.starts_with(letters) && family.size() > letters.size() &&
           std::isdigit(static_cast<unsigned char>(family[letters.size()])) != 0;
  };
  if (is("inf") || is("trn")) return Accelerator::kNeuron;
  const bool nvidia = is("p") || (is("g") && !family.starts_with("g4ad")) || is("gr");
  return nvidia ? Accelerator::kNvidia : Accelerator::kNone;
}

// Graviton families have a g after the generation; so does the Grace of a superchip.
std::string architecture_of(std::string_view instance_type) {
  const auto family = family_of(instance_type);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto digit = std::ranges::find_if(family, is_digit);
  const auto after = std::find_if_not(digit, family.end(), is_digit);
  const bool arm =
      (after != family.end() && *after == 'g') || family == "a1" || family.find("-gb") != std::string_view::npos;
  return arm ? "arm64" : "x86_64";
}

}  // namespace qm::autoscaler
