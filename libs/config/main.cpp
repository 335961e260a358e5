// qm-crds: prints the CustomResourceDefinitions of quartermaster.dev as YAML. deploy/crds/quartermaster.yaml is its
// output.
#include "qm/config/crd.hpp"

#include <iostream>

int main() {
  std::cout << qm::config::own_crds_text();
  return 0;
}
