#include "qm/autoscaler/settings.hpp"

namespace qm::autoscaler {

const settings::Table<Settings>& settings_table() {
  using namespace settings;
  constexpr auto cluster = &Settings::cluster;
  static const auto table =
      settings::Table<Settings>{
          {"driver",
           choice<Driver>({{"ec2", Driver::kEc2}, {"karpenter", Driver::kKarpenter}, {"none", Driver::kNone}},
                          "ec2, karpenter where Karpenter launches NodeClaims, or none in an on-premises cluster"),
           at(cluster, &ClusterSettings::driver), "Controller that launches instances."},
          {"aws", text("the URL of an endpoint"), at(&Settings::aws),
           "Endpoint of EC2 instead of that of the region; keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."},
          {"cluster-name", text("the name of the cluster, as in EKS"), at(&Settings::cluster_name),
           "Cluster that launched nodes join: in their user data, and in the tags of instances."},
          {"cluster-endpoint", text("the URL of the API server, as nodes reach it"), at(&Settings::cluster_endpoint),
           "API server that launched nodes join."},
          {"service-cidr", text("the addresses of Services, such as 10.100.0.0/16"), at(&Settings::service_cidr),
           "Addresses of Services, for nodes of the family AL2023."},
          {"observe", choice<bool>({{"bus", false}, {"cluster", true}}, "bus, or cluster where no qm-placement runs"),
           at(cluster, &ClusterSettings::alone), "Source of nodes and pods."},
          {"min-values",
           choice<bool>({{"strict", true}, {"best-effort", false}}, "strict, or best-effort to launch without"),
           at(cluster, &ClusterSettings::strict_min_values),
           "Launches for which the instance types that fit have fewer values than minValues of the NodePool."},
          {"scaling", text("auto, quartermaster, karpenter, none, or the name of another controller"),
           at(cluster, &ClusterSettings::scaling),
           "Owner of scaling in a namespace that names none; none only explains what would be launched."}}
          .with(node_group_settings(), &Settings::groups);
  return table;
}

}  // namespace qm::autoscaler
