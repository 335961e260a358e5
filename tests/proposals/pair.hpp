#pragma once
#include "process.hpp"
#include "qm/admission/codec.hpp"
#include "qm/placement/shell.hpp"

#include <memory>

namespace qm::testing {

/// Admission for the tests of this folder: it reads placement's events from the bus.
inline std::unique_ptr<ServiceProcess> make_admission(std::shared_ptr<bus::Bus> bus, const DomainClock& clock) {
  service::HostOptions options;
  options.service = "admission";
  options.consumes = {"qm.placement"};
  options.produces = {admission::kTopic};
  const auto shell = [] {
    return std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(), admission::Codec{});
  };
  return std::make_unique<ServiceProcess>(ServiceProcess{options, shell, std::move(bus), clock});
}

/// Placement for these tests: it reads admission's events.
inline std::unique_ptr<ServiceProcess> make_placement(std::shared_ptr<bus::Bus> bus, const DomainClock& clock,
                                                      const placement::Options& rules = {}) {
  auto options = placement::host_options("default");
  options.consumes = {"qm.workload"};
  const auto shell = [rules] {
    return std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(rules), placement::Codec());
  };
  return std::make_unique<ServiceProcess>(ServiceProcess{options, shell, std::move(bus), clock});
}

}  // namespace qm::testing
