#pragma once
#include "qm/base/result.hpp"

#include <functional>
#include <memory>
#include <string>

namespace qm::deploy {

/// One port of a Service: forwards each connection to `address` to the address that `pick` returns at that moment,
/// byte for byte, like kube-proxy. An open connection is kept until one of its ends closes it.
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
