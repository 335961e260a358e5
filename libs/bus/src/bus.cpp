#include "qm/bus/bus.hpp"

#include "carriers.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"

namespace qm::bus {

std::int32_t partition_of(std::string_view key, int partitions) {
  QM_ASSERT(partitions > 0, "partitions {}", partitions);
  return static_cast<std::int32_t>(stable_hash(key) % static_cast<std::uint64_t>(partitions));
}

Result<std::shared_ptr<Bus>> make_bus(const std::string& setting) {
  const auto colon = setting.find(':');
  const auto kind = setting.substr(0, colon);
  const auto rest = colon == std::string::npos ? std::string() : setting.substr(colon + 1);
  if (kind == "memory") return memory_bus(rest);
  if (kind == "postgres" && !rest.empty()) return postgres_bus(rest);
  if (kind == "kafka" && !rest.empty()) return kafka_bus(rest);
  // Only a single word is shown: a setting without its carrier may begin with a password.
  const bool word =
      kind.size() <= 20 && kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  return fail(Error{Code::kInvalid, (word ? "\"" + kind + "\"" : "what is given") + " is not a complete bus setting",
                    "bus", "write memory, memory:<name>, postgres:<conninfo> or kafka:<host:port>[,<host:port>]"});
}

}  // namespace qm::bus
