// Claims that are created for pods, volumes by their drivers, classes and attach limits of nodes:
// decoded from JSON, and as rows.
#include "messages.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace storage_test {

using namespace testing;

Json json(const char* text) { return Json::parse(text).value(); }

TEST(DecodeStorage, ClaimOfAnEphemeralVolume) {
  auto claim = json(R"({"metadata":{"name":"p-scratch","namespace":"team",
    "ownerReferences":[{"kind":"Pod","name":"p","uid":"u-1","controller":true}]},
    "spec":{"storageClassName":"fast","accessModes":["ReadWriteOnce"]}})");
  EXPECT_EQ(std::get<Claim>(only<StorageUpdated>(watch_of("claim", claim)).what), (Claim{"", "fast", "", true, "u-1"}));
  // An owner that is not the controller did not create the claim.
  claim.set("metadata")
      .set("ownerReferences", json(R"([{"kind":"Pod","uid":"u-1"},{"kind":"App","uid":"u","controller":true}])"));
  EXPECT_EQ(std::get<Claim>(only<StorageUpdated>(watch_of("claim", claim)).what).made_for, "");
}

TEST(DecodeStorage, VolumeWithDriver) {
  const auto volume = only<StorageUpdated>(watch_of("volume", json(R"({"metadata":{"name":"pv-1"},"spec":{
    "csi":{"driver":"ebs.csi.aws.com","volumeHandle":"vol-1"},"claimRef":{"namespace":"team","name":"data"}}})")));
  EXPECT_EQ(std::get<Volume>(volume.what), (Volume{"", "ebs.csi.aws.com", "vol-1", "team/data"}));
  const auto nfs =
      only<StorageUpdated>(watch_of("volume", json(R"({"metadata":{"name":"pv-2"},"spec":{"nfs":{"path":"/"}}})")));
  EXPECT_EQ(std::get<Volume>(nfs.what), Volume{});
}

TEST(DecodeStorage, DefaultClass) {
  const auto made_by = only<StorageUpdated>(watch_of("class", json(R"({"metadata":{"name":"fast",
    "annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"ebs.csi.aws.com"})")));
  EXPECT_EQ(std::get<StorageClass>(made_by.what), (StorageClass{false, true, "", "ebs.csi.aws.com", true, Instant{}}));
  const auto dated = only<StorageUpdated>(watch_of("class", json(R"({"metadata":{"name":"fast",
    "creationTimestamp":"1970-01-01T00:01:00Z",
    "annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"ebs.csi.aws.com"})")));
  EXPECT_EQ(std::get<StorageClass>(dated.what).made, from_micros(60'000'000));
}

TEST(DecodeStorage, AttachLimitsOfANode) {
  auto limits = json(R"({"metadata":{"name":"a"},"spec":{"drivers":[
    {"name":"ebs.csi.aws.com","nodeID":"i-1","allocatable":{"count":25}},
    {"name":"nfs.csi.k8s.io","nodeID":"i-1"},
    {"name":"none.example.com","nodeID":"i-1","allocatable":{"count":0}}]}})");
  const auto seen = only<StorageUpdated>(watch_of("limits", limits));
  EXPECT_EQ(seen.key, "limits/a");
  EXPECT_EQ(std::get<AttachLimits>(seen.what), (AttachLimits{{{"ebs.csi.aws.com", 25}, {"none.example.com", 0}}}));
  limits.set("deleted", true);
  EXPECT_EQ(only<StorageDeleted>(watch_of("limits", limits)).key, "limits/a");
  EXPECT_EQ(only<StorageSynced>(watch_of("limits.synced", Json::array({"limits/a"}))).kind, "limits");
}

TEST(RowsOfStorage, RoundTrip) {
  Stepped stepped;
  stepped.open();
  stepped.step(
      {watch_of("claim", json(R"({"metadata":{"name":"p-scratch","namespace":"team",
                  "ownerReferences":[{"kind":"Pod","uid":"u-1","controller":true}]}})")),
       watch_of("volume", json(R"({"metadata":{"name":"pv-1"},"spec":{
                  "csi":{"driver":"d","volumeHandle":"v"},"claimRef":{"namespace":"team","name":"data"}}})")),
       watch_of("class", json(R"({"metadata":{"name":"fast","creationTimestamp":"2026-01-01T00:00:00Z","annotations":{
                  "storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"d"})")),
       watch_of("limits", json(R"({"metadata":{"name":"a"},"spec":{"drivers":[
                  {"name":"d","allocatable":{"count":3}}]}})"))});
  Shell fresh(std::make_unique<Engine>(), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  for (const char* key : {"claim/team/p-scratch", "volume/pv-1", "class/fast", "limits/a"}) {
    const Storage* row = engine_of(fresh).tables().storage.find(key);
    ASSERT_NE(row, nullptr) << key;
    EXPECT_EQ(*row, *engine_of(stepped.shell).tables().storage.find(key)) << key;
  }
}

}  // namespace storage_test
}  // namespace qm::placement
