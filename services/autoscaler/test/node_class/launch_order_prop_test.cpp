// The choice does not depend on the order of the cloud's responses.
#include "account.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

namespace qm::autoscaler {
namespace launch_order_prop_test {

using namespace autoscaler::testing;

RC_GTEST_PROP(LaunchParameters, DoNotDependOnTheOrderOfTheResponses, ()) {
  auto node_class = class_of();
  node_class.images.assign(2, {});
  node_class.images[0].name = "gpu-*";
  node_class.images[1].tags = {{"team", "*"}};
  node_class.reservations.resize(1);
  node_class.reservations[0].tags = {{"team", "ml"}};
  Inventory has;
  const auto small = [](int most) { return *rc::gen::inRange(0, most); };
  for (int i = 0, n = small(8); i < n; ++i) {
    auto image = image_of("ami-" + std::to_string(i), small(2) == 0 ? "x86_64" : "arm64", small(3),
                          small(2) == 0 ? "gpu-same" : "other");
    image.deprecated = small(3) == 0;
    if (small(2) == 0) image.tags = {{"team", "ml"}};
    has.images.push_back(image);
  }
  const cloud::Tags ours{{"karpenter.sh/discovery", "ml"}};
  for (int i = 0, n = small(8); i < n; ++i) {
    has.subnets.push_back({"subnet-" + std::to_string(i), small(2) == 0 ? "us-east-1a" : "us-east-1b", "vpc-1",
                           small(3), small(4) == 0 ? cloud::Tags{} : ours});
  }
  for (int i = 0, n = small(5); i < n; ++i)
    has.security_groups.push_back({"sg-" + std::to_string(i), "g", small(3) == 0 ? "vpc-2" : "vpc-1", ours});
  for (int i = 0, n = small(5); i < n; ++i) {
    has.reservations.push_back({"cr-" + std::to_string(i),
                                "1",
                                "p5.48xlarge",
                                small(2) == 0 ? "us-east-1a" : "us-east-1b",
                                "open",
                                small(2) == 0 ? "default" : "capacity-block",
                                "active",
                                small(3),
                                {{"team", "ml"}}});
  }
  const auto planned = machine_of("p5.48xlarge", small(2) == 0 ? "" : "us-east-1a");
  const auto first = launch_parameters(resolve(node_class, has, "1.31"), cluster_of_tests(), planned);
  std::mt19937 random(static_cast<unsigned>(small(1'000'000)));
  std::ranges::shuffle(has.images, random);
  std::ranges::shuffle(has.subnets, random);
  std::ranges::shuffle(has.security_groups, random);
  std::ranges::shuffle(has.reservations, random);
  has.subnets.insert(has.subnets.end(), has.subnets.begin(), has.subnets.end());  // a page may repeat
  const auto again = launch_parameters(resolve(node_class, has, "1.31"), cluster_of_tests(), planned);
  RC_ASSERT(first.has_value() == again.has_value());
  if (first) RC_ASSERT(*first == *again);
  if (!first) RC_ASSERT(first.error().message == again.error().message);
}

}  // namespace launch_order_prop_test
}  // namespace qm::autoscaler
