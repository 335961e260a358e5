#pragma once
#include "fields.hpp"

#include <string>

namespace qm::config {

/// What a pod's spec says to us.
struct PodRead {
  PodShape shape;
  std::string priority_class;
};

/// Reads a pod's spec; what it does not use is carried.
void read_pod(const Cursor& at, PodRead& out);

}  // namespace qm::config
