#pragma once
#include "qm/base/digest.hpp"
#include "qm/service/host.hpp"

#include <string>

namespace qm::sim {

/// A digest of the events that the services publish, without their texts: two builds that decide the same have the same digest for a seed,
/// also where one of them words its messages otherwise.
///
/// Left out  the values of fields that are declared as TEXT (messages, reasons, URIs, values of labels), see options.proto.
/// Order     as the events are published; maps are sorted.
class Decisions {
 public:
  void add(const std::string& service, const service::FeedEvent& event);
  [[nodiscard]] std::string hex() const { return digest_.hex(); }

 private:
  Digest digest_;
};

}  // namespace qm::sim
