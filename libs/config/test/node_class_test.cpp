// EC2NodeClass: the effect of each field, and the error for each invalid value.
#include "qm/config/node_class.hpp"

#include "qm/config/crd.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

namespace qm::config {
namespace node_class_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr const char* kFull = R"(apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  amiFamily: AL2023
  amiSelectorTerms:
  - tags: {team: ml, any: "*"}
  - name: gpu-*
    owner: self
  - id: ami-0a1b
  - ssmParameter: /ml/image
  subnetSelectorTerms:
  - tags: {karpenter.sh/discovery: ml}
  - id: subnet-0a
  securityGroupSelectorTerms:
  - name: nodes
  capacityReservationSelectorTerms:
  - tags: {team: ml}
    ownerID: "111122223333"
    instanceMatchCriteria: targeted
  placementGroupSelector: {name: tight}
  role: nodes
  userData: |
    #!/bin/bash
    true
  tags: {Environment: production, empty: ""}
  kubelet:
    clusterDNS: [10.0.0.10]
    maxPods: 60
    podsPerCore: 4
    systemReserved: {cpu: 100m, memory: 1Gi}
    kubeReserved: {cpu: 1}
    evictionHard: {memory.available: 5%}
    evictionSoft: {nodefs.available: 10%}
    evictionSoftGracePeriod: {nodefs.available: 2m}
    evictionMaxPodGracePeriod: 60
    imageGCHighThresholdPercent: 85
    imageGCLowThresholdPercent: 80
    cpuCFSQuota: false
  blockDeviceMappings:
  - deviceName: /dev/xvda
    rootVolume: true
    ebs:
      volumeSize: 1500G
      volumeType: io2
      iops: 6000
      throughput: 250
      encrypted: true
      deleteOnTermination: false
      kmsKeyID: key
      snapshotID: snap-1
      volumeInitializationRate: 200
  instanceStorePolicy: RAID0
  detailedMonitoring: true
  associatePublicIPAddress: false
  metadataOptions: {httpEndpoint: disabled, httpProtocolIPv6: enabled, httpPutResponseHopLimit: 3, httpTokens: optional}
  enclaveOptions: {enabled: true}
  context: c
)";

const NodeClass* find(const Loaded& loaded) {
  return loaded.objects.empty() ? nullptr : std::get_if<NodeClass>(&loaded.objects.front().typed);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(NodeClasses, EachFieldIsRead) {
  const Loaded loaded = load_text(kFull, "f");
  const NodeClass* read = find(loaded);
  ASSERT_NE(read, nullptr) << loaded.diagnostics.front().to_string();
  EXPECT_TRUE(loaded.diagnostics.empty()) << loaded.diagnostics.front().to_string();
  EXPECT_TRUE(loaded.objects.front().document.carried.empty());
  NodeClass want;
  want.name = "gpu";
  want.api_version = "v1";
  want.ami_family = "AL2023";
  want.images.resize(4);
  want.images[0].tags = {{"team", "ml"}, {"any", "*"}};
  want.images[1].name = "gpu-*";
  want.images[1].owner = "self";
  want.images[2].id = "ami-0a1b";
  want.images[3].ssm_parameter = "/ml/image";
  want.subnets.resize(2);
  want.subnets[0].tags = {{"karpenter.sh/discovery", "ml"}};
  want.subnets[1].id = "subnet-0a";
  want.security_groups.resize(1);
  want.security_groups[0].name = "nodes";
  want.reservations.resize(1);
  want.reservations[0].tags = {{"team", "ml"}};
  want.reservations[0].owner = "111122223333";
  want.reservations[0].match_criteria = "targeted";
  want.placement_group_name = "tight";
  want.role = "nodes";
  want.user_data = "#!/bin/bash\ntrue\n";
  want.tags = {{"Environment", "production"}, {"empty", ""}};
  NodeClassKubelet& kubelet = want.kubelet;
  kubelet.cluster_dns = {"10.0.0.10"};
  kubelet.max_pods = 60;
  kubelet.pods_per_core = 4;
  kubelet.system_reserved = {{"cpu", "100m"}, {"memory", "1Gi"}};
  kubelet.kube_reserved = {{"cpu", "1"}};
  kubelet.eviction_hard = {{"memory.available", "5%"}};
  kubelet.eviction_soft = {{"nodefs.available", "10%"}};
  kubelet.eviction_soft_grace = {{"nodefs.available", "2m"}};
  kubelet.eviction_max_grace_s = 60;
  kubelet.image_gc_high = 85;
  kubelet.image_gc_low = 80;
  kubelet.cpu_cfs_quota = false;
  NodeClassVolume volume;
  volume.device = "/dev/xvda";
  volume.root = true;
  volume.size_gib = 1397;  // 1,500 GB are 1,396.98 GiB
  volume.type = "io2";
  volume.iops = 6000;
  volume.throughput_mib = 250;
  volume.encrypted = true;
  volume.delete_on_termination = false;
  volume.kms_key = "key";
  volume.snapshot = "snap-1";
  volume.initialization_mib = 200;
  want.volumes = {volume};
  want.raid0 = true;
  want.detailed_monitoring = true;
  want.public_ip = false;
  want.metadata = {"disabled", "enabled", "optional", 3};
  want.enclave = true;
  want.context = "c";
  EXPECT_EQ(*read, want);
}

TEST(NodeClasses, TheReferenceManifestsAreReadWithoutLoss) {
  const auto dir = testing::shared_dir();
  if (!dir || !std::filesystem::exists(*dir + "/manifests")) GTEST_SKIP() << "QM_SHARED has no manifests";
  for (const auto& [file, size, hops, scripted] : {std::tuple("004-ec2nodeclass-gpu-optimized.yaml", 200, 2, true),
                                                   std::tuple("004-ec2nodeclass-gpu-training.yaml", 500, 1, false)}) {
    const Loaded loaded = load_path(fmt::format("{}/manifests/{}", *dir, file));
    EXPECT_TRUE(loaded.diagnostics.empty()) << loaded.diagnostics.front().to_string();
    const NodeClass* read = find(loaded);
    ASSERT_NE(read, nullptr);
    EXPECT_TRUE(loaded.objects.front().document.carried.empty()) << loaded.objects.front().document.carried.front();
    EXPECT_EQ(read->ami_family, "AL2023") << "implied by the alias";
    EXPECT_EQ(read->images.at(0).alias, "al2023@latest");
    EXPECT_EQ(read->volumes.at(0).size_gib, size);
    EXPECT_EQ(read->metadata.hop_limit, hops);
    EXPECT_EQ(!read->user_data.empty(), scripted);
  }
}

/// The leaves of a schema: "kubelet.maxPods", "subnetSelectorTerms[].tags".
void add_leaves(const Json& schema, const std::string& path, std::set<std::string>& out) {
  if (schema["properties"].size() > 0) {
    for (const auto& [name, field] : schema["properties"].members())
      add_leaves(field, path.empty() ? name : path + "." + name, out);
  } else if (schema["items"]["properties"].size() > 0) {
    add_leaves(schema["items"], path + "[]", out);
  } else {
    out.insert(path);
  }
}

TEST(NodeClasses, ThePageHasEachFieldOfTheTable) {
  std::set<std::string> known, listed;
  const Json definition = node_class_crd();
  for (const Json& version : definition["spec"]["versions"].items()) {
    if (version["name"].string() == "v1") add_leaves(version.path("schema.openAPIV3Schema.properties.spec"), "", known);
  }
  std::istringstream page(testing::read_file(std::string(QM_SOURCE_DIR) + "/docs/fields.md"));
  for (std::string line; std::getline(page, line);) {
    constexpr std::string_view kRow = "| EC2NodeClass | `spec.";
    if (line.starts_with(kRow)) listed.insert(line.substr(kRow.size(), line.find('`', kRow.size()) - kRow.size()));
  }
  EXPECT_EQ(listed, known);
}

TEST(NodeClasses, TheFirstVersionDiffers) {
  const std::string text =
      "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  amiFamily: AL2\n"
      "  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n  role: r\n";
  const Loaded loaded = load_text(text, "f");
  const NodeClass* read = find(loaded);
  ASSERT_NE(read, nullptr) << loaded.diagnostics.front().to_string();
  EXPECT_EQ(read->metadata.hop_limit, 2);
  EXPECT_TRUE(read->images.empty()) << "the image is that of the family";
  const Loaded without = load_text(replaced(text, "  amiFamily: AL2\n", ""), "f");
  EXPECT_FALSE(without.ok());
  const Loaded kubelet = load_text(text + "  kubelet: {maxPods: 5}\n", "f");
  ASSERT_EQ(kubelet.diagnostics.size(), 1u);
  EXPECT_TRUE(kubelet.diagnostics[0].unknown_field) << "there it is a field of the NodePool";
}

TEST(NodeClasses, EachInvalidValueIsNamed) {
  struct Case {
    std::string from, to, field, message;
  };
  const Case cases[] = {
      {"  role: nodes\n", "", "spec.role", "is missing, and so is instanceProfile"},
      {"  role: nodes\n", "  role: nodes\n  instanceProfile: p\n", "spec.role", "is set, and instanceProfile too"},
      {"  - tags: {karpenter.sh/discovery: ml}\n  - id: subnet-0a\n", "  []\n", "spec.subnetSelectorTerms",
       "must not be empty"},
      {"  - id: subnet-0a\n", "  - {}\n", "spec.subnetSelectorTerms[1]", "selects nothing"},
      {"  - id: subnet-0a\n", "  - {id: subnet-0a, tags: {a: b}}\n", "spec.subnetSelectorTerms[1]",
       "id cannot be combined with tags"},
      {"subnet-0a", "subnet-A", "spec.subnetSelectorTerms[1].id", "is not an id"},
      {"  - name: nodes\n", "  - {name: nodes, tags: {a: b}}\n", "spec.securityGroupSelectorTerms[0]",
       "name cannot be combined with tags"},
      {"  - id: ami-0a1b\n", "  - {id: ami-0a1b, owner: self}\n", "spec.amiSelectorTerms[2]",
       "id cannot be combined with owner"},
      {"  - id: ami-0a1b\n", "  - owner: self\n", "spec.amiSelectorTerms[2]", "selects nothing"},
      {"  - id: ami-0a1b\n", "  - alias: al2023@latest\n", "spec.amiSelectorTerms", "has an alias and other terms"},
      {"  - id: ami-0a1b\n", "  - alias: al2023\n", "spec.amiSelectorTerms[2].alias", "is not an alias"},
      {"  - id: ami-0a1b\n", "  - alias: al1@latest\n", "spec.amiSelectorTerms[2].alias", "is not a family of images"},
      {"  - id: ami-0a1b\n", "  - alias: windows2022@v1\n", "spec.amiSelectorTerms[2].alias", "has no versions"},
      {"any: \"*\"", "any: \"\"", "spec.amiSelectorTerms[0].tags.any", "must not be empty"},
      {"  amiFamily: AL2023\n", "", "spec.amiFamily", "is missing, and no alias implies it"},
      {"amiFamily: AL2023", "amiFamily: AL2024", "spec.amiFamily", "is not one of the allowed values"},
      {"tags: {Environment: production", "tags: {karpenter.sh/nodepool: x", "spec.tags.karpenter.sh/nodepool",
       "is reserved"},
      {"tags: {Environment: production", "tags: {kubernetes.io/cluster/a: x", "spec.tags.kubernetes.io/cluster/a",
       "is reserved"},
      {"      volumeSize: 1500G\n", "      volumeSize: 65Ti\n", "spec.blockDeviceMappings[0].ebs.volumeSize",
       "is out of range"},
      {"      volumeType: io2", "      volumeType: io9", "spec.blockDeviceMappings[0].ebs.volumeType",
       "is not one of the allowed values"},
      {"      snapshotID: snap-1\n", "", "spec.blockDeviceMappings[0].ebs.volumeInitializationRate",
       "needs snapshotID"},
      {"  instanceStorePolicy: RAID0", "  instanceStorePolicy: RAID1", "spec.instanceStorePolicy", "is not a policy"},
      {"httpPutResponseHopLimit: 3", "httpPutResponseHopLimit: 65", "spec.metadataOptions.httpPutResponseHopLimit",
       "65 is out of range"},
      {"systemReserved: {cpu", "systemReserved: {gpu", "spec.kubelet.systemReserved.gpu", "is not one of its keys"},
      {"    imageGCLowThresholdPercent: 80", "    imageGCLowThresholdPercent: 85",
       "spec.kubelet.imageGCHighThresholdPercent", "is not above"},
      {"    evictionSoftGracePeriod: {nodefs.available: 2m}\n", "", "spec.kubelet.evictionSoft.nodefs.available",
       "has no evictionSoftGracePeriod"},
      {"placementGroupSelector: {name: tight}", "placementGroupSelector: {name: tight, id: pg-1}",
       "spec.placementGroupSelector", "needs exactly one of id and name"},
  };
  for (const Case& c : cases) {
    const Loaded loaded = load_text(replaced(kFull, c.from, c.to), "f");
    EXPECT_TRUE(loaded.objects.empty()) << c.to;
    ASSERT_FALSE(loaded.diagnostics.empty()) << c.to;
    const Diagnostic& first = loaded.diagnostics.front();
    EXPECT_EQ(first.field, c.field) << first.to_string();
    EXPECT_THAT(first.message, HasSubstr(c.message));
    EXPECT_FALSE(first.remedy.empty());
  }
}

TEST(NodeClasses, AnAliasImpliesItsFamilyAndExcludesOthers) {
  const std::string text =
      "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n"
      "  amiSelectorTerms: [{alias: bottlerocket@v1.20.0}]\n"
      "  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n  instanceProfile: p\n";
  const Loaded loaded = load_text(text, "f");
  ASSERT_NE(find(loaded), nullptr) << loaded.diagnostics.front().to_string();
  EXPECT_EQ(find(loaded)->ami_family, "Bottlerocket");
  EXPECT_EQ(find(load_text(text + "  amiFamily: Custom\n", "f"))->ami_family, "Custom");
  const Loaded other = load_text(text + "  amiFamily: AL2\n", "f");
  ASSERT_EQ(other.diagnostics.size(), 1u);
  EXPECT_THAT(other.diagnostics[0].message, HasSubstr("AL2 is not the family of the alias bottlerocket@v1.20.0"));
}

TEST(NodeClasses, AMisspelledFieldNamesTheNearestOne) {
  const Loaded loaded = load_text(replaced(kFull, "  instanceStorePolicy:", "  instanceStorePolice:"), "f");
  ASSERT_EQ(loaded.diagnostics.size(), 1u);
  EXPECT_THAT(loaded.diagnostics[0].remedy, HasSubstr("did you mean instanceStorePolicy?"));
}

}  // namespace node_class_test
}  // namespace qm::config
