// qm-agent: reports GPU nodes and carries out checkpoint orders. Wiring only.
#include "agent.hpp"
#include "agent_settings.hpp"
#include "qm/base/log.hpp"
#include "qm/rpc/process.hpp"

#include <chrono>

namespace {

/// An agent has no state to save, so it stops quickly and does not delay the shutdown of its node.
constexpr auto kShutdownTimeout = std::chrono::milliseconds(1900);

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(auto options, agent::Options::from_settings(settings));
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  metrics::Registry registry;
  rpc::export_certificates(registry, settings.tls, "agent");
  agent::Agent agent(std::move(options), *clock, registry);
  QM_ASSIGN(const auto access, rpc::make_access(settings, "agent", &registry));
  rpc::AdminServer admin(
      settings.http, registry, access,
      {[] { return true; }, [&] { return service::Readiness().unless(agent.ready(), "telemetry is not reachable"); },
       [&] { return agent.state(); }});
  QM_TRY(admin.start());
  agent.start();
  log::info("agent is up", {{"http", admin.port()}});
  rpc::wait_for_signal();
  admin.stop();
  agent.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  qm::rpc::block_signals();
  qm::rpc::limit_shutdown(kShutdownTimeout, 0);
  const auto settings = qm::rpc::parse_settings(
      argc, argv,
      {"agent", "Reports GPU samples, node facts and spot notices, and carries out checkpoint orders.",
       qm::agent::settings_table().settings()});
  if (const auto done = run(settings); !done) {
    qm::log::error("ends with an error", {{"error", done.error().to_string()}});
    return 1;
  }
  return 0;
}
