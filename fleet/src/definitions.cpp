#include "definitions.hpp"

#include "definitions_data.hpp"
#include "qm/base/assert.hpp"
#include "qm/config/yaml_reader.hpp"

#include <map>
#include <tuple>

namespace qm::fleet {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;  // group, version, kind

std::map<Key, Json> read_definitions() {
  std::map<Key, Json> out;
  for (const char* text : kDefinitions) {
    const auto read = config::read_yaml(text, "deploy/crds");
    QM_ASSERT(read.diagnostics.empty(), "deploy/crds: {}", read.diagnostics.front().message);
    for (const auto& document : read.documents) {
      const Json& spec = document.content["spec"];
      for (const auto& version : spec["versions"].items()) {
        out[{spec["group"].string(), version["name"].string(), spec["names"]["kind"].string()}] =
            version["schema"]["openAPIV3Schema"];
      }
    }
  }
  return out;
}

}  // namespace

const Json* schema_of(const Kind& kind) {
  static const auto all = read_definitions();
  const auto found = all.find({kind.group, kind.version, kind.kind});
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace qm::fleet
