// qmctl: wiring only.
#include "qm/base/log.hpp"
#include "qm/cli/run.hpp"
#include "qm/rpc/process.hpp"

#include <iostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  qm::rpc::block_signals();
  qm::log::init("qmctl", qm::log::Format::kText, qm::log::Level::kWarn);
  // Ctrl-C cancels the current call, so that a stream ends cleanly. The thread outlives main if no signal arrives; it
  // owns its half of the stop state and uses nothing else.
  std::stop_source stop;
  std::thread([stop]() mutable {
    qm::rpc::wait_for_signal();
    stop.request_stop();
  }).detach();
  return qm::cli::run(std::vector<std::string>(argv + 1, argv + argc), {std::cin, std::cout, std::cerr},
                      stop.get_token());
}
