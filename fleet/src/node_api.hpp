#pragma once
#include "cluster.hpp"
#include "faults.hpp"
#include "imds.hpp"
#include "qm/http/http.hpp"
#include "world.hpp"

#include <string>

namespace qm::fleet {

/// The endpoints of single nodes and pods on one port, and the controls of the simulation.
///
/// GET    /node/NAME/metrics             the DCGM exporter
/// PUT    /node/NAME/latest/api/token, GET /node/NAME/latest/...       IMDSv2
/// POST   /pods/NS/POD/v1/checkpoint     {"deadline","reason","gang"} -> {"step","uri"}
/// GET    /fleet/state                   instances, devices, pods by phase, clock
/// POST   /fleet/faults                  one fault (faults.hpp)
/// POST   /fleet/clock                   {"factor": x}; 0 stops time
/// POST   /fleet/hold {"name"}           slows the clock during a critical operation
/// DELETE /fleet/hold/NAME               ends the hold
///
/// A failed node answers 503 to everything.
class NodeApi {
 public:
  NodeApi(World& world, ObjectStore& store, Cluster& cluster, Faults& faults);
  [[nodiscard]] http::Answer handle(const http::Request& request) const { return router_(request); }
  [[nodiscard]] Json state() const;

 private:
  [[nodiscard]] http::Answer metrics(const std::string& node) const;
  [[nodiscard]] http::Answer checkpoint(const std::string& ns, const std::string& pod, const std::string& order) const;

  World& world_;
  ObjectStore& store_;
  Cluster& cluster_;
  mutable Imds imds_;
  http::Router router_;
};

}  // namespace qm::fleet
