#pragma once
#include "qm/base/result.hpp"

#include <functional>
#include <memory>
#include <string>

namespace qm::deploy {

/// One port of a Service: each connection to `address` goes on to the address that `pick` names at that moment, byte
/// for byte, as kube-proxy would have it. A connection that stands is let stand until one of its ends closes it.
class Relay {
 public:
  static Result<std::unique_ptr<Relay>> open(const std::string& address, int port, std::function<std::string()> pick);
  ~Relay();

 private:
  struct Impl;
  explicit Relay(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::deploy
