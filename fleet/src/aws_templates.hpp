#pragma once
#include "aws_account.hpp"
#include "aws_wire.hpp"
#include "text.hpp"
#include "world.hpp"

#include <map>
#include <string>

namespace qm::fleet {

/// The parameters of a launch under a name; it has one version.
struct LaunchTemplate {
  std::string id, name;
  Instant created{};
  std::map<std::string, std::string> tags;
  std::map<std::string, std::string> data;  ///< as parameters of RunInstances
};

/// Refuses what EC2 refuses as tags: more than 50, or with the prefix of AWS.
[[nodiscard]] Answered<void> check_tags(const std::map<std::string, std::string>& tags);

/// EC2's launch templates, and the launches that they and RunInstances describe.
///
/// Actions  CreateLaunchTemplate, DescribeLaunchTemplates, DeleteLaunchTemplate
/// Threads  under the world's lock.
class AwsTemplates {
 public:
  AwsTemplates(World& world, const AwsAccount& account) : world_(world), account_(account) {}
  [[nodiscard]] AwsReply handle(const AwsCall& call);
  /// Finds the template that the parameters under `prefix` name.
  [[nodiscard]] Answered<const LaunchTemplate*> named(const AwsCall& call, const std::string& prefix) const;
  /// By its name; null if there is none.
  [[nodiscard]] const LaunchTemplate* find(const std::string& name) const { return find_in(templates_, name); }
  /// The launch that parameters of RunInstances describe, checked as EC2 checks them. Those of a launch template, if
  /// they name one, have less precedence.
  [[nodiscard]] Answered<LaunchSpec> spec(std::map<std::string, std::string> parameters) const;

 private:
  AwsReply create(const AwsCall& call);
  [[nodiscard]] AwsReply describe(const AwsCall& call) const;
  AwsReply remove(const AwsCall& call);

  World& world_;
  const AwsAccount& account_;
  std::map<std::string, LaunchTemplate> templates_;
};

}  // namespace qm::fleet
