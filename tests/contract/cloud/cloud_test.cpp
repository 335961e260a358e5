#include "in_process.hpp"
#include "launch_cases.hpp"

namespace qm::contract {
namespace cloud_test {

CloudPeer* in_process(std::string* why_not) {
  static std::unique_ptr<CloudPeer> peer = [] {
    static const testing::TempDir dir;
    auto cloud_here = std::make_shared<InProcess>(dir.path() + "/clock");
    if (!cloud_here->server.start()) return std::unique_ptr<CloudPeer>();
    auto out = std::make_unique<CloudPeer>();
    out->options.endpoint = fmt::format("http://127.0.0.1:{}", cloud_here->server.port());
    out->options.access_key = out->options.secret_key = "test";
    out->keeper = cloud_here;
    return out;
  }();
  if (!peer) *why_not = "no loopback port is free";
  return peer.get();
}

INSTANTIATE_TEST_SUITE_P(FleetInProcess, CloudContract, ::testing::Values(PeerFactory(in_process)));
INSTANTIATE_TEST_SUITE_P(FleetInProcess, LaunchContract, ::testing::Values(PeerFactory(in_process)));

}  // namespace cloud_test
}  // namespace qm::contract
