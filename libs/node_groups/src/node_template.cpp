// The tags of a group that describe its nodes.
#include "qm/node_groups/node_template.hpp"

#include "qm/config/manifest.hpp"
#include "values.hpp"

#include <fmt/format.h>

namespace qm::node_groups {
namespace {

tl::unexpected<Error> bad_tag(const std::string& tag, std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, fmt::format("tag {}: {}", tag, message), tag, std::move(remedy)});
}

Status read_option(const std::string& tag, std::string_view name, const std::string& value, NodeTemplate& out) {
  if (name == "scaledownutilizationthreshold" || name == "scaledowngpuutilizationthreshold") {
    const auto share = share_of(value);
    if (!share) return bad_tag(tag, fmt::format("'{}' is not a share", value), "write a number of 0 to 1, such as 0.5");
    (name == "scaledownutilizationthreshold" ? out.utilization_milli : out.gpu_utilization_milli) = share;
    return {};
  }
  if (name == "scaledownunneededtime" || name == "scaledownunreadytime") {
    const auto time = config::parse_duration(value);
    if (!time) return bad_tag(tag, fmt::format("'{}' is not a duration", value), "write one such as 10m0s");
    (name == "scaledownunneededtime" ? out.unneeded : out.unready) = *time;
    return {};
  }
  if (name == "ignoredaemonsetsutilization") {
    out.ignore_daemon_sets = bool_of(value);
    if (!out.ignore_daemon_sets)
      return bad_tag(tag, fmt::format("'{}' is not a boolean", value), "write true or false");
    return {};
  }
  return bad_tag(tag, "unknown option",
                 "use scaledownutilizationthreshold, scaledowngpuutilizationthreshold, scaledownunneededtime, "
                 "scaledownunreadytime or ignoredaemonsetsutilization");
}

Status read_tag(const std::string& tag, const std::string& value, NodeTemplate& out) {
  const std::string_view rest = std::string_view(tag).substr(kTemplateTag.size());
  const auto slash = rest.find('/');
  const std::string_view kind = rest.substr(0, slash);
  const std::string name(slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1));
  if (name.empty()) return bad_tag(tag, "it names nothing", "write node-template/label/KEY");
  if (kind == "label") {
    out.labels[name] = value;
    return {};
  }
  if (kind == "taint") {
    auto taint = taint_of(fmt::format("{}={}", name, value));
    if (!taint) return bad_tag(tag, fmt::format("'{}' is not a value and an effect", value), "write VALUE:NoSchedule");
    out.taints.push_back(std::move(*taint));
    return {};
  }
  if (kind == "resources") {
    auto amount = Quantity::parse(value);
    if (!amount || amount->negative())
      return bad_tag(tag, fmt::format("'{}' is not an amount", value), "write a quantity, such as 16 or 100Gi");
    out.resources[name] = *amount;
    return {};
  }
  if (kind == "autoscaling-options") return read_option(tag, name, value, out);
  return bad_tag(tag, fmt::format("'{}' is unknown", kind), "use label, taint, resources or autoscaling-options");
}

}  // namespace

Result<NodeTemplate> node_template_of(const std::map<std::string, std::string>& tags) {
  NodeTemplate out;
  for (const auto& [tag, value] : tags) {
    if (tag.starts_with(kTemplateTag)) QM_TRY(read_tag(tag, value, out));
  }
  return out;
}

}  // namespace qm::node_groups
