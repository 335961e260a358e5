#pragma once
#include "aws_account.hpp"
#include "aws_catalog.hpp"
#include "aws_fleets.hpp"
#include "aws_templates.hpp"
#include "aws_wire.hpp"
#include "client_tokens.hpp"
#include "world.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::fleet {

/// EC2's actions on the world. Every call runs under the world's lock.
class AwsEc2 {
 public:
  AwsEc2(World& world, AwsAccount& account, AwsTemplates& templates);
  [[nodiscard]] AwsReply handle(const AwsCall& call);
  void set_hidden(Duration hidden) { hidden_ = hidden; }

 private:
  AwsReply run_instances(const AwsCall& call);
  AwsReply describe_instances(const AwsCall& call);
  AwsReply terminate_instances(const AwsCall& call);
  AwsReply create_tags(const AwsCall& call);
  AwsReply describe_instance_status(const AwsCall& call);
  AwsReply describe_instance_topology(const AwsCall& call);
  [[nodiscard]] std::string zone_for(const LaunchSpec& spec, int least) const;
  [[nodiscard]] std::string launched(const std::vector<Instance>& instances) const;
  [[nodiscard]] Answered<void> check_ids(const std::vector<std::string>& ids) const;

  World& world_;
  AwsAccount& account_;
  AwsTemplates& templates_;
  AwsFleets fleets_;
  AwsCatalog catalog_;
  Duration hidden_{0};
  ClientTokens<std::vector<Instance>> tokens_;
};

}  // namespace qm::fleet
