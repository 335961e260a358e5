#pragma once
#include "aws.hpp"
#include "qm/http/http.hpp"
#include "world.hpp"

#include <string>

namespace qm::contract {

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

}  // namespace qm::contract
