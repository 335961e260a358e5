#pragma once
#include "aws_account.hpp"
#include "aws_wire.hpp"
#include "world.hpp"

#include <string>
#include <vector>

namespace qm::fleet {

/// What EC2 sells in the simulated region: DescribeInstanceTypes, DescribeInstanceTypeOfferings,
/// DescribeSpotPriceHistory, GetSpotPlacementScores, DescribeCapacityBlockOfferings. Every call runs under the world's
/// lock.
class AwsCatalog {
 public:
  explicit AwsCatalog(const World& world) : world_(world), began_(world.now_floor()) {}
  [[nodiscard]] static bool knows(const std::string& action);
  [[nodiscard]] AwsReply handle(const AwsCall& call) const;

 private:
  [[nodiscard]] AwsReply describe_types(const AwsCall& call) const;
  [[nodiscard]] AwsReply describe_offerings(const AwsCall& call) const;
  [[nodiscard]] AwsReply describe_spot_prices(const AwsCall& call) const;
  [[nodiscard]] AwsReply spot_scores(const AwsCall& call) const;
  [[nodiscard]] AwsReply describe_blocks(const AwsCall& call) const;
  [[nodiscard]] Answered<void> check_types(const std::vector<std::string>& names) const;

  const World& world_;
  Instant began_;
};

}  // namespace qm::fleet
