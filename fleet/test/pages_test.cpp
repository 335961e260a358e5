// The endpoints of nodes: the exporter's page against the sample's layout, and the rules of the metadata service.
#include "dcgm_page.hpp"
#include "imds.hpp"
#include "qm/testing/testing.hpp"
#include "test/rig.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <sstream>

namespace qm::fleet {
namespace pages_test {

struct Sample {
  std::string name, value;
  std::vector<std::pair<std::string, std::string>> labels;
  [[nodiscard]] std::string label(std::string_view key) const {
    for (const auto& [k, v] : labels) {
      if (k == key) return v;
    }
    return {};
  }
  [[nodiscard]] std::string label_names() const {
    std::string all;
    for (const auto& [k, v] : labels) all += k + ",";
    return all;
  }
};

struct Page {
  std::vector<std::string> families, types;
  std::vector<Sample> samples;
  [[nodiscard]] const Sample* find(std::string_view name, std::string_view gpu) const {
    for (const auto& sample : samples) {
      if (sample.name == name && sample.label("gpu") == gpu) return &sample;
    }
    return nullptr;
  }
  [[nodiscard]] double value(std::string_view name, std::string_view gpu) const {
    const Sample* sample = find(name, gpu);
    return sample == nullptr ? -1 : std::stod(sample->value);
  }
};

/// Parses one sample line, `name{key="value",...} number`; nothing for any other line.
std::optional<Sample> parse_sample(std::string_view line) {
  const auto brace = line.find('{');
  if (brace == std::string_view::npos || brace == 0) return std::nullopt;
  Sample sample{std::string(line.substr(0, brace)), {}, {}};
  line.remove_prefix(brace + 1);
  while (!line.starts_with('}')) {
    const auto equal = line.find("=\""), end = line.find('"', equal + 2);
    if (equal == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
    sample.labels.emplace_back(line.substr(0, equal), line.substr(equal + 2, end - equal - 2));
    line.remove_prefix(end + 1);
    if (line.starts_with(',')) {
      line.remove_prefix(1);
    } else if (!line.starts_with('}')) {
      return std::nullopt;
    }
  }
  if (!line.starts_with("} ")) return std::nullopt;
  sample.value = line.substr(2);
  if (sample.value.empty() || sample.value.find_first_not_of("-.0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return sample;
}

/// Parses the text format strictly: HELP, TYPE, then the family's samples; nothing else.
Page parse(const std::string& text) {
  Page page;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      page.families.push_back(family);
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_EQ(line.substr(7, line.find(' ', 7) - 7), family);
      page.types.push_back(line.substr(line.rfind(' ') + 1));
    } else if (!line.starts_with("#")) {
      auto sample = parse_sample(line);
      EXPECT_TRUE(sample.has_value()) << "no line of the format: " << line;
      if (!sample) continue;
      EXPECT_EQ(sample->name, family);
      page.samples.push_back(std::move(*sample));
    }
  }
  return page;
}

class ExporterPage : public ::testing::Test {
 protected:
  Page page(const std::string& node) { return parse(dcgm_page(*rig.cluster.node(node), rig.cluster, rig.world.now())); }
  Rig rig;
};

/// Pages as dcgm-exporter writes them, in which GPU 0 serves a pod and GPU 7 is free: our own, and the reference one if
/// present.
std::vector<std::string> sample_pages() {
  std::vector<std::string> out{testing::data_dir() + "/telemetry/node.prom"};
  if (const auto shared = testing::shared_dir()) out.push_back(*shared + "/telemetry/dcgm-exporter-sample.prom");
  return out;
}

TEST_F(ExporterPage, HasTheLayoutOfTheSample) {
  const auto node = rig.launch();
  rig.make_pod("p", 1, run_for(1000));
  ASSERT_TRUE(rig.bind("p", node.private_dns, "0"));
  rig.advance(5);
  const Page ours = page(node.private_dns);
  EXPECT_EQ(ours.samples.size(), 8 * ours.families.size());
  for (const auto& path : sample_pages()) {
    SCOPED_TRACE(path);
    const Page sample = parse(testing::read_file(path));
    EXPECT_EQ(ours.families, sample.families);
    EXPECT_EQ(ours.types, sample.types);
    for (const auto& family : sample.families) {
      for (const char* gpu : {"0", "7"}) {
        ASSERT_NE(ours.find(family, gpu), nullptr) << family;
        ASSERT_NE(sample.find(family, gpu), nullptr) << family;
        EXPECT_EQ(ours.find(family, gpu)->label_names(), sample.find(family, gpu)->label_names()) << family;
        EXPECT_EQ(ours.find(family, gpu)->value.find('.') == std::string::npos,
                  sample.find(family, gpu)->value.find('.') == std::string::npos)
            << family << ": integers and fractions are written alike";
      }
    }
  }
  EXPECT_EQ(ours.find("DCGM_FI_DEV_SM_CLOCK", "0")->label("modelName"), "NVIDIA H100 80GB HBM3");
}

TEST_F(ExporterPage, FollowsWhatRuns) {
  const auto job = rig.make_job("gang", 2, 8, run_for(1000));
  rig.settle();
  const auto pods = rig.pods_of(job);
  const auto first = rig.launch(), second = rig.launch();
  EXPECT_EQ(page(first.private_dns).value("DCGM_FI_DEV_GPU_UTIL", "0"), 0);
  ASSERT_TRUE(rig.bind(pods[0], first.private_dns));
  rig.advance(5);
  EXPECT_EQ(page(first.private_dns).value("DCGM_FI_DEV_GPU_UTIL", "0"), 0) << "waits for its first step";
  EXPECT_EQ(page(first.private_dns).find("DCGM_FI_DEV_GPU_UTIL", "0")->label("pod"), pods[0]);
  ASSERT_TRUE(rig.bind(pods[1], second.private_dns));
  rig.advance(5);
  const Page busy = page(first.private_dns);
  EXPECT_GT(busy.value("DCGM_FI_DEV_GPU_UTIL", "0"), 60);
  EXPECT_GT(busy.value("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0"), 0.3);
  EXPECT_GT(busy.value("DCGM_FI_DEV_POWER_USAGE", "0"), 400);
  EXPECT_EQ(busy.value("DCGM_FI_DEV_FB_FREE", "0") + busy.value("DCGM_FI_DEV_FB_USED", "0") +
                busy.value("DCGM_FI_DEV_FB_RESERVED", "0"),
            81920);
  ASSERT_TRUE(rig.cluster.lose_node(second.private_dns));
  const Page hung = page(first.private_dns);
  EXPECT_EQ(hung.value("DCGM_FI_DEV_GPU_UTIL", "0"), 100) << "spins in its collective";
  EXPECT_EQ(hung.value("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0"), 0);
  EXPECT_LT(hung.value("DCGM_FI_DEV_POWER_USAGE", "0"), 200);
}

TEST_F(ExporterPage, CountersGrowAndReadingsHoldForOneInterval) {
  const auto node = rig.launch();
  rig.advance(10);
  const Page first = page(node.private_dns);
  const Page again = page(node.private_dns);
  for (std::size_t i = 0; i < first.samples.size(); ++i) EXPECT_EQ(first.samples[i].value, again.samples[i].value);
  rig.advance(60);
  EXPECT_GT(page(node.private_dns).value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "0"),
            first.value("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "0") + 60 * 50'000.0);
}

TEST_F(ExporterPage, ShowsTheXidWithItsTextForEver) {
  const auto node = rig.launch();
  ASSERT_TRUE(rig.cluster.xid(node.private_dns, 79, 3));
  rig.advance(3600);
  const Page struck = page(node.private_dns);
  EXPECT_EQ(struck.value("DCGM_FI_DEV_XID_ERRORS", "3"), 79);
  EXPECT_EQ(struck.find("DCGM_FI_DEV_XID_ERRORS", "3")->label("err_code"), "79");
  EXPECT_EQ(struck.find("DCGM_FI_DEV_XID_ERRORS", "3")->label("err_msg"), "GPU has fallen off the bus");
  EXPECT_EQ(struck.find("DCGM_FI_DEV_XID_ERRORS", "2")->label("err_msg"), "No Error");
  ASSERT_TRUE(rig.cluster.heal_node(node.private_dns));
  EXPECT_EQ(page(node.private_dns).value("DCGM_FI_DEV_XID_ERRORS", "3"), 0);
}

class Metadata : public ::testing::Test {
 protected:
  http::Response ask(const std::string& method, const std::string& path, const char* header = nullptr,
                     const std::string& value = {}) {
    http::Request request;
    request.method = method;
    request.target = path;
    if (header != nullptr) request.headers.set(header, value);
    return imds.handle(instance.private_dns, path, request);
  }
  http::Response token(const std::string& ttl) {
    return ask("PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", ttl);
  }
  http::Response get(const std::string& path, const std::string& session) {
    return ask("GET", "/latest/" + path, "X-aws-ec2-metadata-token", session);
  }
  Rig rig;
  Instance instance = rig.launch("g5.xlarge", Market::kSpot);
  SteadyInstant now{};
  Imds imds{rig.world, [this] { return now; }};
};

TEST_F(Metadata, GivesTokensForOneSecondToSixHours) {
  EXPECT_EQ(ask("PUT", "/latest/api/token").status, 400);
  for (const char* ttl : {"0", "21601", "-1", "10s", ""}) EXPECT_EQ(token(ttl).status, 400) << ttl;
  for (const char* ttl : {"1", "21600"}) {
    const auto given = token(ttl);
    EXPECT_EQ(given.status, 200);
    EXPECT_EQ(given.body.size(), 44u);
    EXPECT_EQ(given.headers.get("X-aws-ec2-metadata-token-ttl-seconds"), ttl);
  }
  EXPECT_EQ(ask("GET", "/latest/api/token").status, 405);
  EXPECT_EQ(ask("POST", "/latest/meta-data/instance-id").status, 405);
}

// S-189: a plain GET is refused.
TEST_F(Metadata, ReadsNeedALiveTokenOfThisInstance) {
  const std::string session = token("60").body;
  EXPECT_EQ(ask("GET", "/latest/meta-data/instance-id").status, 401);
  const auto bogus = get("meta-data/instance-id", "bogus");
  EXPECT_EQ(bogus.status, 401);
  EXPECT_EQ(bogus.headers.get("Content-Type"), "text/plain");
  EXPECT_NE(bogus.body.find("<title>401 - Unauthorized</title>"), std::string::npos);
  EXPECT_EQ(get("meta-data/instance-id", session).body, instance.id);
  const auto other = rig.launch();
  http::Request request;
  request.headers.set("X-aws-ec2-metadata-token", session);
  EXPECT_EQ(imds.handle(other.private_dns, "/latest/meta-data/instance-id", request).status, 401);
  now += std::chrono::seconds(60);
  EXPECT_EQ(get("meta-data/instance-id", session).status, 401) << "its time is steady time";
}

TEST_F(Metadata, AnswersWithTheInstancesFacts) {
  const std::string session = token("60").body;
  EXPECT_EQ(get("meta-data/placement/availability-zone", session).body, instance.zone);
  EXPECT_EQ(get("meta-data/instance-life-cycle", session).body, "spot");
  EXPECT_EQ(get("meta-data/instance-type", session).body, "g5.xlarge");
  EXPECT_EQ(get("meta-data/local-hostname", session).body, instance.private_dns);
  EXPECT_EQ((*Json::parse(get("dynamic/instance-identity/document", session).body))["instanceId"].string(),
            instance.id);
  EXPECT_EQ(get("meta-data/no/such/thing", session).status, 404);
}

TEST_F(Metadata, ANoticeDoesNotChange) {
  const std::string session = token("600").body;
  for (const char* path : {"meta-data/spot/instance-action", "meta-data/spot/termination-time",
                           "meta-data/events/recommendations/rebalance"}) {
    EXPECT_EQ(get(path, session).status, 404) << path;
  }
  ASSERT_TRUE(rig.world.give_spot_notice(instance.id, std::chrono::seconds(120)));
  const auto action = get("meta-data/spot/instance-action", session);
  EXPECT_EQ(action.headers.get("Content-Type"), "application/json");
  EXPECT_EQ((*Json::parse(action.body))["action"].string(), "terminate");
  EXPECT_EQ((*Json::parse(action.body))["time"].string(), "2026-11-21T09:02:00Z");
  rig.advance(60);
  EXPECT_EQ(get("meta-data/spot/instance-action", session).body, action.body);
  EXPECT_EQ(get("meta-data/spot/termination-time", session).body, "2026-11-21T09:02:00Z");
  rig.advance(61);
  EXPECT_EQ(get("meta-data/spot/instance-action", session).status, 503) << "the instance is terminated";
}

}  // namespace pages_test
}  // namespace qm::fleet
