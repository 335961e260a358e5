#pragma once
#include <memory>
#include <string>

#include "qm/bus/bus.hpp"

namespace qm::bus {

/// Each carrier's maker; make_bus picks by the word before the first colon.
std::shared_ptr<Bus> memory_bus(const std::string& name);
Result<std::shared_ptr<Bus>> postgres_bus(const std::string& conninfo);
Result<std::shared_ptr<Bus>> kafka_bus(const std::string& setting);

/// What a carrier says of a topic that nobody created.
inline Error no_topic(const std::string& topic) {
  return {Code::kNotFound, "topic " + topic + " does not exist", "", "create it with ensure_topics"};
}

}  // namespace qm::bus
