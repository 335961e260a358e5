#include "aws.hpp"
#include "launch_cases.hpp"
#include "qm/http/http.hpp"
#include "world.hpp"

namespace qm::contract {
namespace cloud_test {

/// The fleet's AWS side alone, on a socket of this process; its domain time runs a hundred times faster than real time.
struct InProcess {
  fleet::World world;
  fleet::AwsApi api;
  http::Server server;

  explicit InProcess(const std::string& clock_path)
      : world(options(), fleet::PriceTable::built_in(),
              fleet::file_clock(*ScaledClockWriter::create(clock_path, from_micros(1'795'252'469'000'000), 100))),
        api(world),
        server({}, [this](const http::Request& request) { return api.handle(request); }) {
    world.start();
  }
  ~InProcess() {
    server.stop();
    world.stop();
  }
  static fleet::World::Options options() {
    fleet::World::Options out;
    out.factor = 100;
    return out;
  }
};

CloudPeer* in_process(std::string* why_not) {
  static std::unique_ptr<CloudPeer> peer = [] {
    static const testing::TempDir dir;
    auto cloud_here = std::make_shared<InProcess>(dir.path() + "/clock");
    if (!cloud_here->server.start()) return std::unique_ptr<CloudPeer>();
    auto out = std::make_unique<CloudPeer>();
    out->options.endpoint = fmt::format("http://127.0.0.1:{}", cloud_here->server.port());
    out->options.access_key = out->options.secret_key = "test";
    out->keeper = cloud_here;
    return out;
  }();
  if (!peer) *why_not = "no loopback port is free";
  return peer.get();
}

INSTANTIATE_TEST_SUITE_P(FleetInProcess, CloudContract, ::testing::Values(PeerFactory(in_process)));
INSTANTIATE_TEST_SUITE_P(FleetInProcess, LaunchContract, ::testing::Values(PeerFactory(in_process)));

}  // namespace cloud_test
}  // namespace qm::contract
