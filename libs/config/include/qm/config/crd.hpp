#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <vector>

namespace qm::config {

/// The CustomResourceDefinitions of the quartermaster.dev/v1alpha1 kinds, generated from the tables that also parse
/// them.
///
/// Objects that an API server accepts by them can be parsed here, except for rules that a schema cannot express (the
/// grammar of a selector).
/// Order    by name; the same text in every build.
std::vector<Json> own_crds();
/// The same as one YAML text: the content of deploy/crds/quartermaster.yaml.
std::string own_crds_text();
/// The CustomResourceDefinition of Karpenter's EC2NodeClass, for clusters without Karpenter. Fields that are not read
/// are preserved. deploy/crds/ecosystem/karpenter.yaml has it.
Json node_class_crd();

/// Writes YAML in block style that read_yaml parses to the same value: keys in their order, "- " per item, quotes
/// around text that could be parsed as another type.
std::string to_yaml(const Json& value);

}  // namespace qm::config
