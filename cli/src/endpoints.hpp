#pragma once
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"

#include <map>
#include <memory>
#include <string>

namespace qm::cli {

/// The addresses of the services: {"admission": "host:port", "placement": .., "autoscaler": .., "telemetry": ..,
/// "cost": ..}. "clock" is the setting or the path of the clock of a simulated suite; without it the system clock is
/// used. "fleet" is the URL of the controls of a simulated fleet. Other members are ignored.
struct Endpoints {
  std::string file;
  std::map<std::string, std::string> services;
  std::string clock = "system";
  std::string fleet;  ///< empty = the nodes are not simulated

  /// Fails: kInvalid names the file and the missing member.
  [[nodiscard]] Result<std::string> address(const std::string& service) const;
  /// The clock for ages; the system clock if the suite's clock cannot be read here.
  [[nodiscard]] std::unique_ptr<DomainClock> open_clock() const;
};

/// The credentials of qmctl and the CA that it trusts. The members are file names; each file is read when it is needed.
struct Security {
  std::string ca, certificate, key, server_name;
  std::string token, token_file;
  bool insecure = false;
};

/// Fails: kInvalid if the file cannot be read, is not JSON, or an address is not host:port.
Result<Endpoints> read_endpoints(const std::string& file);

}  // namespace qm::cli
