#include "user_data.hpp"

#include "qm/base/parse.hpp"
#include "qm/config/yaml_reader.hpp"

#include <string_view>

namespace qm::fleet {
namespace {

/// The parts of --name=a,b or --name="a,b".
std::vector<std::string_view> kubelet_argument(std::string_view user_data, std::string_view name) {
  const auto at = user_data.find(name);
  if (at == std::string_view::npos) return {};
  auto rest = user_data.substr(at + name.size());
  if (rest.starts_with('"')) rest.remove_prefix(1);
  return split(rest.substr(0, rest.find_first_of(" \t\r\n'\"")), ',');
}

/// "value:Effect".
Taint taint_of(std::string_view key, std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  return {std::string(key), std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

void read_arguments(const std::string& text, Registration& out) {
  for (const auto pair : kubelet_argument(text, "--node-labels=")) {
    const auto equal = pair.find('=');
    if (equal != std::string_view::npos) out.labels[std::string(pair.substr(0, equal))] = pair.substr(equal + 1);
  }
  for (const auto argument : kubelet_argument(text, "--register-with-taints=")) {
    const auto colon = argument.find(':');
    if (colon == std::string_view::npos) continue;
    const auto equal = std::min(argument.find('='), colon);
    const auto value = equal < colon ? argument.substr(equal + 1) : argument.substr(colon);
    out.taints.push_back(taint_of(argument.substr(0, equal), value));
  }
}

void read_node_configs(const std::string& text, Registration& out) {
  constexpr std::string_view kPart = "Content-Type: application/node.eks.aws\n\n";
  for (auto at = text.find(kPart); at != std::string::npos; at = text.find(kPart, at + 1)) {
    const auto from = at + kPart.size();
    for (const auto& document :
         config::read_yaml(text.substr(from, text.find("\n--", from) - from + 1), "").documents) {
      for (const Json& taint : document.content.path("spec.kubelet.config.registerWithTaints").items())
        out.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
    }
  }
}

/// The text between the first and the last quote, or the whole.
std::string_view unquoted(std::string_view text) {
  const auto from = text.find_first_of("\"'");
  if (from == std::string_view::npos) return text.substr(0, text.find(' '));
  return text.substr(from + 1, text.find_last_of("\"'") - from - 1);
}

void read_toml(const std::string& text, Registration& out) {
  std::string_view table;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with('[')) table = line;
    const auto equal = line.find(" = ");
    if (equal == std::string_view::npos) continue;
    const auto key = unquoted(line.substr(0, equal)), value = unquoted(line.substr(equal + 3));
    if (table == "[settings.kubernetes.node-labels]") out.labels[std::string(key)] = value;
    if (table == "[settings.kubernetes.node-taints]") out.taints.push_back(taint_of(key, value));
  }
}

}  // namespace

Registration registration_of(const std::string& user_data) {
  Registration out;
  read_arguments(user_data, out);
  read_node_configs(user_data, out);
  read_toml(user_data, out);
  std::erase_if(out.taints, [](const Taint& taint) { return taint.effect.empty(); });
  return out;
}

}  // namespace qm::fleet
