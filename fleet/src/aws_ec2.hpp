#pragma once
#include "aws_account.hpp"
#include "aws_wire.hpp"
#include "text.hpp"
#include "world.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::fleet {

/// The contents of a launch template; groups launch from it.
struct LaunchTemplate {
  std::string id, type, image_id;
  Market market = Market::kOnDemand;
};

/// EC2's actions on the world. Every call runs under the world's lock.
class AwsEc2 {
 public:
  AwsEc2(World& world, AwsAccount& account);
  [[nodiscard]] AwsReply handle(const AwsCall& call);
  void set_hidden(Duration hidden) { hidden_ = hidden; }
  [[nodiscard]] const LaunchTemplate* find_template(const std::string& name) const { return find_in(templates_, name); }

 private:
  struct Launch {
    std::map<std::string, std::string> parameters;  ///< all except the token
    std::vector<Instance> instances;
    Instant at{};
  };
  AwsReply run_instances(const AwsCall& call);
  AwsReply describe_instances(const AwsCall& call);
  AwsReply terminate_instances(const AwsCall& call);
  AwsReply create_tags(const AwsCall& call);
  AwsReply describe_instance_types(const AwsCall& call);
  AwsReply describe_spot_price_history(const AwsCall& call);
  AwsReply create_launch_template(const AwsCall& call);
  [[nodiscard]] std::string launched(const std::vector<Instance>& instances) const;
  [[nodiscard]] Answered<void> check_ids(const std::vector<std::string>& ids) const;

  World& world_;
  AwsAccount& account_;
  Instant began_;
  Duration hidden_{0};
  std::map<std::string, Launch> tokens_;
  std::map<std::string, LaunchTemplate> templates_;
};

}  // namespace qm::fleet
