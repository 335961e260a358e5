#include "launch_cases.hpp"

#include <cstdlib>

namespace qm::contract {
namespace cloud_moto_test {

CloudPeer* moto(std::string* why_not) {
  static std::unique_ptr<CloudPeer> peer = [] {
    const char* endpoint = std::getenv("QM_MOTO");
    const char* key = std::getenv("QM_MOTO_KEY");
    const char* secret = std::getenv("QM_MOTO_SECRET");
    if (endpoint == nullptr || key == nullptr || secret == nullptr) return std::unique_ptr<CloudPeer>();
    auto out = std::make_unique<CloudPeer>();
    out->options.endpoint = endpoint;
    out->options.access_key = key;
    out->options.secret_key = secret;
    out->options.timeout_ms = 60'000;  // moto loads its tables at the first EC2 call
    out->lacks = {
        {Trait::kClientTokens, "moto does not model client tokens: the same token starts new instances"},
        {Trait::kRefusesUnknownIds, "moto takes tags for instances that do not exist"},
        {Trait::kGroupLimits, "moto takes a desired capacity above the maximum"},
        {Trait::kImageParameters, "moto has no parameters of EKS, and no images are loaded"},
        {Trait::kRefusesLaunches, "moto launches with any image"},
        {Trait::kReservations, "moto has no capacity reservations and no placement groups"},
        {Trait::kRoles, "moto has the roles that were created there only"},
        {Trait::kUnknownTemplate, "moto refuses a template that does not exist with a code of its own"},
        {Trait::kUnknownGroup, "moto fails with a 500 on a group that does not exist"},
    };
    return out;
  }();
  if (!peer) *why_not = "QM_MOTO is not set: run ./qm peers moto";
  return peer.get();
}

INSTANTIATE_TEST_SUITE_P(Moto, CloudContract, ::testing::Values(PeerFactory(moto)));
INSTANTIATE_TEST_SUITE_P(Moto, LaunchContract, ::testing::Values(PeerFactory(moto)));

}  // namespace cloud_moto_test
}  // namespace qm::contract
