// A real kube-apiserver that is already running, started by "./qm peers kubernetes start".
#include "qm/http/http.hpp"
#include "real_kube.hpp"

#include <chrono>
#include <cstdlib>

namespace qm::kube {

std::string real_setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

namespace {

struct Real final : KubeUnderTest {
  Real() {
    options_.server = real_setting("QM_KUBE_URL");
    options_.token = real_setting("QM_KUBE_TOKEN");
    options_.ca_file = real_setting("QM_KUBE_CA");
    controllers_ = real_setting("QM_KUBE_CONTROLLERS") == "1";
  }
  /// An API server that has just started serves no version of before its start. One that others started keeps its own
  /// limit, which is past the first version.
  void expire_watches() override {
    if (!real_setting("QM_KUBE_PEER").empty()) peer({"restart", "api"});
  }
  /// Its ServiceAccount is created shortly after the namespace, if a controller creates it.
  bool has_settled(Client& client, const std::string& ns) override {
    return !controllers_ || client.get({"", "v1", "serviceaccounts", true}, ns, "default").has_value();
  }
};

/// Two nodes that kwok simulates.
Status ensure_nodes(Client& client) {
  for (const char* name : {"contract-a", "contract-b"}) {
    const auto room = Json::object({{"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}});
    const auto made = client.create(
        resources::kNodes, "",
        Json::object({{"apiVersion", "v1"},
                      {"kind", "Node"},
                      {"metadata",
                       Json::object({{"name", name}, {"annotations", Json::object({{"kwok.x-k8s.io/node", "fake"}})}})},
                      {"status", Json::object({{"capacity", room}, {"allocatable", room}})}}));
    if (!made && made.error().code != Code::kAlreadyExists) return fail(made.error());
  }
  return {};
}

}  // namespace

std::unique_ptr<KubeUnderTest> KubeUnderTest::make(std::string* why_not) {
  if (real_setting("QM_KUBE_URL").empty()) {
    *why_not = kNoRealKube;
    return nullptr;
  }
  auto made = std::make_unique<Real>();
  Client client(made->options());
  if (auto ready = ensure_nodes(client); !ready) {
    ADD_FAILURE() << made->options().server << ": " << ready.error().to_string();
    return nullptr;
  }
  return made;
}

void peer(const std::vector<std::string>& verb) {
  testing::TempDir folder;
  testing::Process::Options options;
  options.argv = {real_setting("QM_KUBE_PEER")};
  options.argv.insert(options.argv.end(), verb.begin(), verb.end());
  options.output = folder.path() + "/log";
  auto process = testing::Process::start(options);
  ASSERT_TRUE(process) << process.error().to_string();
  const auto status = (*process)->wait(std::chrono::minutes(3));
  ASSERT_EQ(status, 0) << testing::read_file(options.output);
}

void RealKube::compact() {
  http::Client etcd(real_setting("QM_KUBE_ETCD"));
  const auto call = [&](const std::string& path, const Json& body) {
    http::Request request;
    request.method = "POST";
    request.target = path;
    request.body = body.dump();
    const auto answer = etcd.send(request);
    EXPECT_TRUE(answer && answer->status == 200)
        << path << ": " << (answer ? answer->body : answer.error().to_string());
    return answer ? Json::parse(answer->body).value_or(Json()) : Json();
  };
  const auto revision = call("/v3/kv/range", Json::object({{"key", "Lw=="}})).path("header.revision").string();
  ASSERT_FALSE(revision.empty());
  call("/v3/kv/compaction", Json::object({{"revision", revision}, {"physical", true}}));
}

}  // namespace qm::kube
