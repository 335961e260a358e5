// The fleet's table of fields against the schema that a real API server publishes.
#include "qm/apiserver/fields.hpp"
#include "qm/http/http.hpp"
#include "real_kube.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace qm::kube {
namespace fields_k8s_test {

using Fields = std::map<std::string, std::string>;  // field -> its type

std::string short_name(const std::string& name) { return name.substr(name.find_last_of("./") + 1); }

/// The type in the format of fields.csv.
std::string type_of(const Json& field, const Json& schemas) {
  if (field.contains("allOf")) return type_of(field["allOf"].at(0), schemas);
  if (const auto& reference = field["$ref"].string(); !reference.empty()) {
    static const std::set<std::string> kOpen = {"FieldsV1", "RawExtension"}, kTexts = {"Time", "MicroTime", "Duration"};
    const auto name = short_name(reference);
    if (name == "Quantity" || name == "IntOrString") return name;
    if (kTexts.contains(name)) return "string";
    const auto& schema = schemas[reference.substr(reference.find_last_of('/') + 1)];
    return schema.contains("properties") && !kOpen.contains(name) ? name : "any";
  }
  const auto& type = field["type"].string();
  if (type == "array") return "[]" + type_of(field["items"], schemas);
  if (type == "object") {
    const auto* values = field.find("additionalProperties");
    return values == nullptr ? "any" : "map[string]" + type_of(*values, schemas);
  }
  if (type == "integer") return field["format"].string_or("int64");
  return type == "string" ? "string" : type == "boolean" ? "bool" : type == "number" ? "float64" : "any";
}

/// The version of the table; a later one has all its fields, and more.
constexpr const char* kTableVersion = "1.36";

/// An alpha type of 1.36 (DRANodeAllocatableResources), whose field `resources` 1.37 replaced.
constexpr const char* kReplaced = "NodeAllocatableResourceClaimStatus";

TEST_F(RealKube, FieldsOfTheTableAreThoseThatAreServed) {
  const auto version = client().server_version();
  ASSERT_TRUE(version) << version.error().to_string();
  std::map<std::string, Fields> table;
  for (const auto& row : apiserver::field_rows())
    table[std::string(row.type)].emplace(std::string(row.field), std::string(row.of));
  ASSERT_GT(table.size(), 200U);
  http::ClientOptions raw;
  raw.ca_file = server().options().ca_file;
  std::map<std::string, std::vector<Fields>> served;  // other groups may have a type of the same name
  for (const auto* group :
       {"api/v1", "apis/storage.k8s.io/v1", "apis/batch/v1", "apis/apps/v1", "apis/coordination.k8s.io/v1",
        "apis/node.k8s.io/v1", "apis/scheduling.k8s.io/v1", "apis/policy/v1", "apis/autoscaling/v2",
        "apis/networking.k8s.io/v1", "apis/apiextensions.k8s.io/v1"}) {
    http::Request request;
    request.target = std::string("/openapi/v3/") + group;
    request.headers.set("Authorization", "Bearer " + server().options().token);
    const auto answer = http::Client(server().options().server, raw).send(request);
    ASSERT_TRUE(answer && answer->status == 200) << group;
    const auto document = Json::parse(answer->body).value_or(Json());
    const auto& schemas = document["components"]["schemas"];
    for (const auto& [name, schema] : schemas.members()) {
      Fields fields;
      for (const auto& [field, value] : schema["properties"].members()) fields[field] = type_of(value, schemas);
      served[short_name(name)].push_back(std::move(fields));
    }
  }
  for (const auto& [type, fields] : table) {
    if (*version != kTableVersion && type == kReplaced) continue;
    const auto& all = served[type];
    ASSERT_FALSE(all.empty()) << type << " is not served";
    const auto same = std::ranges::find_if(all, [&](const Fields& one) {
      return *version == kTableVersion ? one == fields : std::ranges::includes(one, fields);
    });
    EXPECT_TRUE(same != all.end()) << type << ": the table has " << ::testing::PrintToString(fields) << ", Kubernetes "
                                   << *version << " has " << ::testing::PrintToString(all.front());
  }
}

}  // namespace fields_k8s_test
}  // namespace qm::kube
