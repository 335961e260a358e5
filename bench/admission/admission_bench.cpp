// The cost of admission's decisions: without a store, a bus or an API server, and with them.
#include "durable.hpp"
#include "qm/base/log.hpp"
#include "shapes.hpp"

#include <iostream>

int main(int argc, char** argv) {
  qm::log::init("admission_bench", qm::log::Format::kText, qm::log::Level::kError);
  const std::string verb = argc >= 2 ? argv[1] : "";
  if (verb == "shapes" && argc >= 3 && qm::bench::shapes(argv[2], argc >= 4 ? argv[3] : "")) return 0;
  if (verb == "million") return qm::bench::million(argc >= 3 ? std::atoi(argv[2]) : 1'000'000), 0;
  if (verb == "durable" && argc >= 4) {
    return qm::bench::durable(argv[2], argv[3], argc >= 5 ? std::atoi(argv[4]) : 30'000), 0;
  }
  if (verb == "restart" && argc >= 3) {
    return qm::bench::restart(argv[2], argc >= 4 ? std::atoi(argv[3]) : 1'000'000), 0;
  }
  std::cerr << "usage: admission_bench shapes cycles|continuous|engine [SHAPE] | million [PENDING] |\n"
               "       durable CONNINFO grpc|jobs [WORKLOADS] | restart CONNINFO [PENDING]\n";
  return 2;
}
