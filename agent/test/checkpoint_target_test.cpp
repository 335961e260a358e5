#include "checkpoint_target.hpp"

#include "qm/testing/forged_pods.hpp"

#include <gtest/gtest.h>

namespace qm::agent {
namespace checkpoint_target_test {

Rank rank(const std::string& annotation, std::vector<std::string> ips = {"10.0.0.7", "fd00::7"}) {
  Rank out;
  out.ns = "team";
  out.name = "r0";
  out.ips = std::move(ips);
  out.checkpoint = annotation;
  return out;
}

std::string called(const Rank& r, const std::string& gateway = {}) {
  const auto target = checkpoint_target(r, gateway);
  return target ? target->origin + " " + target->path : target.error().message;
}

TEST(CheckpointTarget, ThePodsOwnAddress) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://{podIP}:8480/v1/checkpoint", "http://10.0.0.7:8480 /v1/checkpoint"},
      {"https://{podIP}/save", "https://10.0.0.7:443 /save"},
      {"http://{podIP}", "http://10.0.0.7:80 /"},
      {"http://10.0.0.7:1/a/b?c=d", "http://10.0.0.7:1 /a/b?c=d"},
      {"http://[fd00::7]:8480/x", "http://[fd00::7]:8480 /x"},
      {"http://[fd00:0:0::0007]:8480/x", "http://[fd00:0:0::0007]:8480 /x"},
      {"http://[::ffff:10.0.0.7]:8480/x", "http://[::ffff:10.0.0.7]:8480 /x"},
      {"http://{podIP}:8480/{namespace}/{pod}", "http://10.0.0.7:8480 /team/r0"},
  };
  for (const auto& [annotation, expected] : cases) EXPECT_EQ(called(rank(annotation)), expected) << annotation;
  EXPECT_EQ(called(rank("http://{podIP}:1/x", {"fd00::7"})), "http://[fd00::7]:1 /x");
}

TEST(CheckpointTarget, NothingElseIsCalled) {
  const std::string at = "team/r0: annotation quartermaster.dev/checkpoint ";
  const std::pair<std::string, std::string> cases[] = {
      {"", "is missing: the rank cannot save"},
      {"nowhere", "is not an http URL"},
      {"file:///etc/passwd", "is not an http URL"},
      {"gopher://{podIP}/", "is not an http URL"},
      {"HTTP://{podIP}/", "is not an http URL"},
      {"http://10.0.0.8:8480/x", "names 10.0.0.8, and the pod has 10.0.0.7, fd00::7"},
      {"http://169.254.169.254/latest/meta-data", "names 169.254.169.254, and the pod has 10.0.0.7, fd00::7"},
      {"http://127.0.0.1:10250/pods", "names 127.0.0.1, and the pod has 10.0.0.7, fd00::7"},
      {"http://kubernetes.default.svc/", "names the host \"kubernetes.default.svc\", and no address"},
      {"http://localhost:10250/", "names the host \"localhost\", and no address"},
      {"http://10.0.0.7.evil.example/", "names the host \"10.0.0.7.evil.example\", and no address"},
      {"http://0x0a000007/", "names the host \"0x0a000007\", and no address"},
      {"http://167772167/", "names the host \"167772167\", and no address"},
      {"http://{pod}/", "names the host \"{pod}\", and no address"},
      {"http://{podIP}.evil.example/", "names the host \"{podIP}.evil.example\", and no address"},
      {"http://{podIP}@evil.example/", "has user information"},
      {"http://user:pw@{podIP}:80/", "has user information"},
      {"http://{podIP}:0/", "has \"{podIP}:0\" for an address and port"},
      {"http://{podIP}:65536/", "has \"{podIP}:65536\" for an address and port"},
      {"http://{podIP}:80x/", "has \"{podIP}:80x\" for an address and port"},
      {"http://{podIP}:80:90/", "has \"{podIP}:80:90\" for an address and port"},
      {"http://[fd00::7/", "has \"[fd00::7\" for an address and port"},
      {"http:///x", "has \"\" for an address and port"},
      {"http://{podIP}:80/a b", "has a path with characters that no URL has"},
      {"http://{podIP}:80/a\r\nHost: x", "has a path with characters that no URL has"},
      {"http://{podIP}:80/a#b", "has a path with characters that no URL has"},
      {"http://{podIP}:80?a", "has a path with characters that no URL has"},
      {"http://{podIP}/" + std::string(1024, 'a'), "has 1039 bytes, at most 1024 are allowed"},
  };
  for (const auto& [annotation, expected] : cases) {
    EXPECT_EQ(called(rank(annotation)), at + expected) << annotation;
    const auto target = checkpoint_target(rank(annotation));
    ASSERT_FALSE(target);
    EXPECT_EQ(target.error().remedy, "write http://{podIP}:PORT/PATH, as a CheckpointPolicy does");
  }
}

TEST(CheckpointTarget, NoForgedUrlLeadsAnywhere) {
  for (const auto& url : qm::testing::forged_checkpoint_urls()) {
    for (const char* gateway : {"", "http://gate:9000/pods/{namespace}/{pod}"}) {
      EXPECT_FALSE(checkpoint_target(rank(url), gateway)) << url;
    }
  }
}

// An address that a pod's network cannot have is refused, even if the status contains it.
TEST(CheckpointTarget, AddressesThatNoPodHas) {
  const std::pair<const char*, const char*> cases[] = {
      {"127.0.0.1", "loopback"},
      {"0.0.0.0", "unspecified"},
      {"169.254.169.254", "link-local"},
      {"224.0.0.1", "multicast or reserved"},
      {"255.255.255.255", "multicast or reserved"},
      {"::1", "loopback, unspecified or an embedded IPv4 address"},
      {"::", "loopback, unspecified or an embedded IPv4 address"},
      {"::ffff:127.0.0.1", "loopback"},
      {"::127.0.0.1", "loopback, unspecified or an embedded IPv4 address"},
      {"fe80::1", "link-local"},
      {"ff02::1", "multicast"},
      {"fd00:ec2::254", "of a cloud's metadata service"},
  };
  for (const auto& [ip, expected] : cases) {
    EXPECT_EQ(called(rank("http://{podIP}:80/x", {ip})),
              std::string("team/r0: annotation quartermaster.dev/checkpoint names ") + ip + ", which is " + expected);
  }
}

TEST(CheckpointTarget, PodsWithoutAnAddressOfTheirOwn) {
  auto host = rank("http://{podIP}:80/x");
  host.host_network = true;
  EXPECT_EQ(
      called(host),
      "team/r0: annotation quartermaster.dev/checkpoint cannot be called: the pod has hostNetwork, and its address is the "
      "node's");
  const auto refused = checkpoint_target(host);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().remedy, "run the pod without hostNetwork");
  EXPECT_EQ(called(rank("http://{podIP}:80/x", {})),
            "team/r0: annotation quartermaster.dev/checkpoint cannot be called: the pod has no address yet");
}

// The operator's gateway receives the order; the annotation is validated in the same way.
TEST(CheckpointTarget, AGatewayTakesThePath) {
  const std::string gateway = "http://gate:9000/pods/{namespace}/{pod}/";
  EXPECT_EQ(called(rank("http://{podIP}:8480/v1/checkpoint"), gateway), "http://gate:9000 /pods/team/r0/v1/checkpoint");
  EXPECT_EQ(called(rank("http://{podIP}:8480/v1/checkpoint"), "http://gate:9000"), "http://gate:9000 /v1/checkpoint");
  EXPECT_EQ(called(rank("http://10.0.0.8:8480/x"), gateway),
            "team/r0: annotation quartermaster.dev/checkpoint names 10.0.0.8, and the pod has 10.0.0.7, fd00::7");
  EXPECT_TRUE(is_gateway(gateway));
  for (const char* odd : {"gate", "http://user@gate/", "http://gate/?x", "http://gate/a b"})
    EXPECT_FALSE(is_gateway(odd)) << odd;
}

}  // namespace checkpoint_target_test
}  // namespace qm::agent
