#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <vector>

namespace qm::config {

/// The CustomResourceDefinitions of our own kinds (quartermaster.dev/v1alpha1), made from the tables that also read them.
///
/// What an API server accepts by them this library reads, but for what a schema cannot say (the grammar of a selector).
/// Order    by name; the same text in every build.
std::vector<Json> own_crds();
/// The same as one YAML text: what deploy/crds/quartermaster.yaml holds.
std::string own_crds_text();

/// YAML in block style that read_yaml takes back as the same value: keys in their order, one "- " for an item, text in
/// quotes where it could be read as something else.
std::string to_yaml(const Json& value);

}  // namespace qm::config
