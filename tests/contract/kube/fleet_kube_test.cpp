// The simulated fleet's API server, started for the suite.
#include "kube_under_test.hpp"
#include "qm/http/http.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace qm::kube {
namespace {

struct Fleet final : KubeUnderTest {
  testing::TempDir folder;
  std::unique_ptr<testing::Process> process;
  std::string control;  // origin of its control pages

  void expire_watches() override {
    http::Request request;
    request.method = "POST";
    request.target = "/fleet/faults";
    request.body = R"({"kind":"watch_cut","compact":true})";
    const auto answer = http::Client(control).send(request);
    ASSERT_TRUE(answer) << answer.error().to_string();
    ASSERT_EQ(answer->status, 200) << answer->body;
  }
};

}  // namespace

std::unique_ptr<KubeUnderTest> KubeUnderTest::make(std::string* why_not) {
  const char* bin = std::getenv("QM_BIN_DIR");
  const auto program = std::string(bin == nullptr ? QM_BIN_DIR : bin) + "/qm-fleet";
  if (!std::filesystem::exists(program)) {
    *why_not = program + " is not built";
    return nullptr;
  }
  auto made = std::make_unique<Fleet>();
  const auto& folder = made->folder.path();
  testing::Process::Options options;
  options.argv = {program, "--dir", folder, "--nodes", "2", "--kubelet-differs", "0"};
  options.output = folder + "/fleet.log";
  auto process = testing::Process::start(options);
  if (!process) {
    *why_not = "qm-fleet does not start: " + process.error().to_string();
    return nullptr;
  }
  made->process = std::move(*process);
  Json ports;
  const bool up = testing::wait_until([&] {
    std::ifstream in(folder + "/fleet.json");
    std::stringstream text;
    text << in.rdbuf();
    auto parsed = Json::parse(text.str());
    if (parsed) ports = std::move(*parsed);
    return ports.contains("kube") || !made->process->running();
  });
  if (!up || !ports.contains("kube")) {
    ADD_FAILURE() << "qm-fleet did not come up:\n" << testing::read_file(options.output);
    return nullptr;
  }
  made->options_.server = "http://127.0.0.1:" + std::to_string(ports["kube"].integer());
  made->control = "http://127.0.0.1:" + std::to_string(ports["node"].integer());
  return made;
}

}  // namespace qm::kube
