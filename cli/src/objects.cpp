// Shows applied objects as they were written: queue, classes.
#include "commands.hpp"
#include "print.hpp"
#include "qm/base/json.hpp"
#include "table.hpp"
#include "yaml.hpp"

#include <algorithm>
#include <ostream>
#include <tuple>

namespace qm::cli {
namespace {

Result<Json> manifest_of(const pb::AppliedObject& object) {
  auto read = Json::parse(object.manifest());
  if (!read) return fail(Code::kInternal, "the manifest of {}/{} cannot be read", object.kind(), object.name());
  return read;
}

}  // namespace

Status run_verb(Context& context, const QueueVerb& verb) {
  pb::ListObjectsRequest request;
  request.set_kind("ClusterQueue");
  request.set_name(verb.name);
  QM_ASSIGN(const auto answer, context.client.objects(request));
  if (answer.objects().empty()) {
    return fail({Code::kNotFound, fmt::format("ClusterQueue {} is not known", verb.name), "name", "see qmctl queues"});
  }
  QM_ASSIGN(const auto manifest, manifest_of(answer.objects(0)));
  if (context.format == Format::kJson) {
    print(context, manifest);
  } else {
    context.out << to_yaml(manifest);
  }
  return {};
}

Status run_verb(Context& context, const ClassesVerb&) {
  struct Row {
    std::int64_t value = 0;
    std::string name, kind;
    bool standard = false;
  };
  std::vector<Row> rows;
  for (const char* kind : {"WorkloadPriorityClass", "PriorityClass"}) {
    pb::ListObjectsRequest request;
    request.set_kind(kind);
    QM_ASSIGN(const auto answer, context.client.objects(request));
    for (const auto& object : answer.objects()) {
      QM_ASSIGN(const auto manifest, manifest_of(object));
      const auto& own = manifest["value"];
      const auto& value = own.is_null() ? manifest["spec"]["value"] : own;  // some manifests have the value there
      rows.push_back({value.integer(0), object.name(), kind, manifest["globalDefault"].boolean()});
    }
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(-row.value, row.name, row.kind); });
  if (context.structured()) {
    Json out = Json::array();
    for (const auto& row : rows) {
      out.push_back(Json::object(
          {{"name", row.name}, {"kind", row.kind}, {"value", row.value}, {"globalDefault", row.standard}}));
    }
    print(context, Json::object({{"classes", std::move(out)}}));
    return {};
  }
  if (rows.empty()) {
    context.err << "no priority classes; create some with qmctl apply -f FILE\n";
    return {};
  }
  Table table({{"NAME"}, {"VALUE", true}, {"KIND"}, {"GLOBAL-DEFAULT"}});
  for (const auto& row : rows) {
    table.row({printable(row.name), std::to_string(row.value), row.kind, row.standard ? "true" : "false"});
  }
  context.out << table.text();
  return {};
}

}  // namespace qm::cli
