#pragma once
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"

#include <map>
#include <memory>
#include <string>

namespace qm::cli {

/// Where the services answer: {"admission": "host:port", "placement": .., "autoscaler": .., "telemetry": .., "cost":
/// ..}. "clock" is the setting or the path of the clock that a simulated suite runs on; without it time is this
/// machine's. Other members are for others.
struct Endpoints {
  std::string file;
  std::map<std::string, std::string> services;
  std::string clock = "system";

  /// Fails: kInvalid names the file and the member that is missing.
  [[nodiscard]] Result<std::string> address(const std::string& service) const;
  /// The clock that ages are counted by; this machine's where the suite's cannot be read here.
  [[nodiscard]] std::unique_ptr<DomainClock> open_clock() const;
};

/// How qmctl proves itself, and whom it trusts. It names files; each is read when it is needed.
struct Security {
  std::string ca, certificate, key, server_name;
  std::string token, token_file;
  bool insecure = false;
};

/// Fails: kInvalid where the file cannot be read, is no JSON, or an address is not host:port.
Result<Endpoints> read_endpoints(const std::string& file);

}  // namespace qm::cli
