#include "sources.hpp"

#include "agent.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace qm::agent {
namespace sources_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    router.add("GET", "/node/{node}/metrics",
               [this](const http::Request&, const http::Router::Params& p) -> http::Answer {
                 if (p.at("node") == "gone") return http::text(503, "down");
                 return http::text(200, "page of " + p.at("node"));
               });
    router.add("PUT", "/node/{node}/latest/api/token",
               [this](const http::Request&, const http::Router::Params& p) -> http::Answer {
                 ++tokens;
                 return http::text(200, "token-" + p.at("node"));
               });
    router.add("GET", "/node/{node}/latest/meta-data/{path...}",
               [](const http::Request& r, const http::Router::Params& p) -> http::Answer {
                 if (r.headers.get("X-aws-ec2-metadata-token") != "token-" + p.at("node")) return http::text(401, "");
                 if (p.at("path") == "instance-id") return http::text(200, "i-" + p.at("node"));
                 return http::text(404, "");
               });
    ASSERT_TRUE(server.start());
    origin = "http://127.0.0.1:" + std::to_string(server.port());
  }
  std::atomic<int> tokens = 0;
  http::Router router;
  http::Server server{{}, [this](const http::Request& r) { return router(r); }};
  std::string origin;
};

TEST_F(SourcesTest, PagesByNode) {
  const auto pages = http_pages(origin + "/node/{node}/metrics");
  EXPECT_EQ(pages->page("a").value(), "page of a");
  EXPECT_EQ(pages->page("b").value(), "page of b");
  const auto gone = pages->page("gone");
  ASSERT_FALSE(gone);
  EXPECT_THAT(gone.error().message, HasSubstr("status 503"));
  server.stop();
  EXPECT_FALSE(pages->page("a"));
}

TEST_F(SourcesTest, MetadataKeepsAToken) {
  const auto metadata = instance_metadata(origin + "/node/{node}");
  EXPECT_EQ(metadata->get("a", "instance-id").value(), "i-a");
  EXPECT_EQ(metadata->get("a", "spot/instance-action").value(), std::nullopt);
  EXPECT_EQ(metadata->get("b", "instance-id").value(), "i-b");
  EXPECT_EQ(tokens, 2);
  metadata->forget("a");
  EXPECT_EQ(metadata->get("a", "instance-id").value(), "i-a");
  EXPECT_EQ(tokens, 3);
}

TEST(TemplateTest, FillsKnownMarks) {
  const std::map<std::string, std::string> values{{"namespace", "team"}, {"pod", "p{namespace}"}};
  EXPECT_EQ(fill_template("http://x/{namespace}/{pod}?a={b}&c={pod}", values),
            "http://x/team/p{namespace}?a={b}&c=p{namespace}");
  EXPECT_EQ(fill_template("{", values), "{");
  EXPECT_EQ(fill_template("", values), "");
}

class SettingsTest : public ::testing::Test {
 protected:
  Result<Options> read(std::map<std::string, std::string> changes) {
    rpc::Settings settings;
    settings.kube = "http://127.0.0.1:1";
    settings.extra = {{"nodes", "a"}, {"telemetry", "127.0.0.1:2"}};
    for (const auto& [name, value] : changes) {
      if (name == "kube") {
        settings.kube = value;
      } else if (value.empty()) {
        settings.extra.erase(name);
      } else {
        settings.extra[name] = value;
      }
    }
    return Options::from_settings(settings);
  }
};

TEST_F(SettingsTest, Good) {
  const auto one = read({});
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_THAT(one->nodes, ElementsAre("a"));
  EXPECT_EQ(one->sample_period, std::chrono::seconds(60));
  const auto many = read({{"nodes", ""},
                          {"except", "a,b"},
                          {"dcgm", "http://{node}:9400/metrics"},
                          {"imds", "http://h/{node}"},
                          {"sample-period", "1m30s"},
                          {"notice-period", "5s"}});
  ASSERT_TRUE(many) << many.error().to_string();
  EXPECT_THAT(many->except, ElementsAre("a", "b"));
  EXPECT_EQ(many->sample_period, std::chrono::seconds(90));
  EXPECT_EQ(many->notice_period, std::chrono::seconds(5));
  const auto machine = read({{"sysfs", "/sys"},
                             {"kubelet-config", "/var/lib/kubelet/config.yaml"},
                             {"kubelet-wanted", "/etc/wanted.yaml"},
                             {"nccl-topology", "/run/nccl-topo.xml"},
                             {"model-cache", "/models"},
                             {"probe-period", "1m"}});
  ASSERT_TRUE(machine) << machine.error().to_string();
  EXPECT_EQ(machine->sysfs, "/sys");
  EXPECT_EQ(machine->kubelet_config, "/var/lib/kubelet/config.yaml");
  EXPECT_EQ(machine->kubelet_wanted, "/etc/wanted.yaml");
  EXPECT_EQ(machine->nccl_topology, "/run/nccl-topo.xml");
  EXPECT_EQ(machine->model_cache, "/models");
  EXPECT_EQ(machine->probe_period, std::chrono::minutes(1));
}

TEST_F(SettingsTest, BadOnesAreNamed) {
  struct Case {
    std::map<std::string, std::string> changes;
    std::string field;
  };
  for (const auto& [changes, field] : std::vector<Case>{
           {{{"kube", ""}}, "kube"},
           {{{"kube", "host:1"}}, "kube"},
           {{{"nodes", ""}}, "nodes"},
           {{{"except", "b"}}, "nodes"},
           {{{"nodes", "a,,b"}}, "nodes"},
           {{{"nodes", "a, b"}}, "nodes"},
           {{{"telemetry", ""}}, "telemetry"},
           {{{"sample-period", "soon"}}, "sample-period"},
           {{{"sample-period", "0s"}}, "sample-period"},
           {{{"probe-period", "0s"}}, "probe-period"},
           {{{"sysfs", "sys"}}, "sysfs"},
           {{{"nodes", "a,b"}, {"dcgm", "http://{node}"}, {"imds", "http://{node}"}, {"model-cache", "/m"}},
            "model-cache"},
           {{{"notice-period", "-1s"}}, "notice-period"},
           {{{"dcgm", "ftp://x"}}, "dcgm"},
           {{{"imds", "http://"}}, "imds"},
           {{{"nodes", "a,b"}}, "dcgm"},
           {{{"nodes", "a,b"}, {"dcgm", "http://{node}/"}}, "imds"},
           {{{"color", "red"}}, "color"},
       }) {
    const auto options = read(changes);
    ASSERT_FALSE(options) << field;
    EXPECT_EQ(options.error().code, Code::kInvalid);
    EXPECT_EQ(options.error().field, field);
    EXPECT_FALSE(options.error().remedy.empty()) << field;
  }
}

}  // namespace sources_test
}  // namespace qm::agent
