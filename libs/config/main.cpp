// qm-crds: prints the CustomResourceDefinitions of quartermaster.dev as YAML. deploy/crds/quartermaster.yaml is its
// output. "qm-crds ec2nodeclass" prints that of EC2NodeClass, the last one of deploy/crds/ecosystem/karpenter.yaml.
#include "qm/config/crd.hpp"

#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
  const bool node_class = argc > 1 && std::string_view(argv[1]) == "ec2nodeclass";
  std::cout << (node_class ? qm::config::to_yaml(qm::config::node_class_crd()) : qm::config::own_crds_text());
  return 0;
}
