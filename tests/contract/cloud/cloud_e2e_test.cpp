#include "launch_cases.hpp"
#include "qm/base/json.hpp"

#include <filesystem>

namespace qm::contract {
namespace cloud_e2e_test {

/// The program itself, on its own ports; its domain time runs a hundred times faster than real time.
struct Program {
  testing::TempDir dir;
  std::unique_ptr<testing::Process> process;
};

CloudPeer* program(std::string* why_not) {
  static std::string reason;
  static std::unique_ptr<CloudPeer> peer = []() -> std::unique_ptr<CloudPeer> {
    const std::string binary = std::string(QM_BIN_DIR) + "/qm-fleet";
    if (!std::filesystem::exists(binary)) {
      reason = "qm-fleet is not built: run ./qm build";
      return nullptr;
    }
    auto keeper = std::make_shared<Program>();
    const auto& dir = keeper->dir.path();
    auto started =
        testing::Process::start({{binary, "--dir", dir, "--nodes", "0", "--factor", "100"}, {}, dir + "/log"});
    if (started) keeper->process = std::move(*started);
    const auto file = dir + "/fleet.json";
    const bool up = started && testing::wait_until([&] { return std::filesystem::exists(file); });
    if (!up) {
      reason = "qm-fleet does not come up";
      ADD_FAILURE() << reason << ":\n" << testing::read_file(dir + "/log");
      return nullptr;
    }
    auto out = std::make_unique<CloudPeer>();
    const auto ports = Json::parse(testing::read_file(file)).value_or(Json());
    out->options.endpoint = fmt::format("http://127.0.0.1:{}", ports["aws"].integer());
    out->options.access_key = out->options.secret_key = "test";
    out->keeper = std::move(keeper);
    return out;
  }();
  if (!peer) *why_not = reason;
  return peer.get();
}

INSTANTIATE_TEST_SUITE_P(FleetProgram, CloudContract, ::testing::Values(PeerFactory(program)));
INSTANTIATE_TEST_SUITE_P(FleetProgram, LaunchContract, ::testing::Values(PeerFactory(program)));

}  // namespace cloud_e2e_test
}  // namespace qm::contract
