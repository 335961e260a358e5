#include "test/shell/group_body.hpp"

#include <cstdlib>
#include <unistd.h>

namespace qm::autoscaler {
namespace group_moto_test {

TEST(GroupOnMoto, GrowsWithDemandAndShrinksByTheMachinesThatAreEmpty) {
  const char* endpoint = std::getenv("QM_MOTO");
  const char* key = std::getenv("QM_MOTO_KEY");
  const char* secret = std::getenv("QM_MOTO_SECRET");
  if (endpoint == nullptr || key == nullptr || secret == nullptr)
    GTEST_SKIP() << "QM_MOTO is not set: run ./qm peers moto";
  cloud::AwsOptions options;
  options.endpoint = endpoint;
  options.access_key = key;
  options.secret_key = secret;
  options.timeout_ms = 60'000;  // its first EC2 call loads its tables
  autoscaler::testing::GroupStory(options, fmt::format("gpu-nodes-{}", ::getpid())).run();
}

}  // namespace group_moto_test
}  // namespace qm::autoscaler
