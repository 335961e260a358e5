// Bottlerocket's TOML. The class's own text is kept line by line: only the keys that are set here are replaced.
#include "bottlerocket.hpp"

#include "qm/base/json.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler {
namespace {

constexpr std::string_view kKubernetes = "settings.kubernetes";

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);  // a basic string of TOML has the escapes of JSON
  return out;
}

bool is_bare(std::string_view key) {
  constexpr std::string_view kBare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !key.empty() && key.find_first_not_of(kBare) == key.npos;
}
std::string key_text(const std::string& key) { return is_bare(key) ? key : quoted(key); }

/// The name of a table in one spelling: [ settings . "kubernetes" ] is settings.kubernetes.
std::string canonical(std::string_view header) {
  std::string out, part;
  char quote = 0;
  const auto end_part = [&] {
    out += (out.empty() ? "" : ".") + key_text(part);
    part.clear();
  };
  for (const char c : header) {
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote != 0) {
      part += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '.') {
      end_part();
    } else if (c != ' ' && c != '\t') {
      part += c;
    }
  }
  end_part();
  return out;
}

/// A table of the text: its header, and its entries in order, each with all of its lines.
struct Section {
  std::string header;
  std::vector<std::pair<std::string, std::string>> entries;  ///< key, text; an empty key is a comment

  void set(const std::string& key, const std::string& value) {
    const std::string text = fmt::format("{} = {}\n", key_text(key), value);
    const auto known = std::ranges::find(entries, key, [](const auto& e) { return e.first; });
    if (known == entries.end()) {
      entries.emplace_back(key, text);
    } else {
      known->second = text;
    }
  }
};

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

/// A key or header without the quotes of its parts, so that 'a' and "a" and a are one key.
std::string plain(std::string_view key) {
  std::string out(trimmed(key));
  if (out.size() >= 2 && (out.front() == '"' || out.front() == '\'') && out.back() == out.front() &&
      out.find(out.front(), 1) == out.size() - 1)
    out = out.substr(1, out.size() - 2);
  return out;
}

/// Whether a value continues on the next line: an open bracket or a multi-line string.
bool is_open(std::string_view value) {
  char quote = 0;
  bool tripled = false;
  int depth = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (quote != 0) {
      if (quote == '"' && c == '\\') {
        ++i;
      } else if (c == quote && (!tripled || value.substr(i, 3) == std::string(3, quote))) {
        i += tripled ? 2 : 0;
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      tripled = value.substr(i, 3) == std::string(3, c);
      i += tripled ? 2 : 0;
    } else if (c == '#') {
      const auto end = value.find('\n', i);
      i = end == std::string_view::npos ? value.size() : end;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return depth > 0 || (quote != 0 && tripled);
}

tl::unexpected<Error> refused(int line, std::string_view why) {
  return fail(Error{Code::kInvalid, fmt::format("line {} of userData: {}", line, why), "spec.userData",
                    "write tables with one key a line, as in [settings.kubernetes] and max-pods = 110"});
}

/// The end of the key of "key = value", outside of quotes; npos if there is none.
std::size_t end_of_key(std::string_view text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (text[i] == '=') {
      return i;
    }
  }
  return std::string_view::npos;
}

Result<std::vector<Section>> read_sections(const std::string& text) {
  std::vector<Section> out{{}};
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    auto end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string_view line = trimmed(std::string_view(text).substr(at, end - at));
    const auto from = at;
    at = end + 1;
    if (line.empty()) continue;
    if (line.starts_with('#')) {
      out.back().entries.emplace_back("", std::string(line) + "\n");
      continue;
    }
    if (line.starts_with('[')) {
      const auto close = line.find(']');
      if (close == std::string_view::npos) return refused(number, "a table has no closing bracket");
      if (line.starts_with("[[")) {
        out.push_back({std::string(line), {}});
      } else {
        std::string header = canonical(line.substr(1, close - 1));
        if (std::ranges::find(out, header, &Section::header) != out.end())
          return refused(number, fmt::format("the table {} is defined twice", header));
        out.push_back({std::move(header), {}});
      }
      continue;
    }
    const auto mark = end_of_key(line);
    if (mark == std::string_view::npos) return refused(number, "neither a table nor a key");
    const std::string key = plain(line.substr(0, mark));
    // A dotted key could set what is set here under another spelling.
    const std::string_view header = out.back().header;
    const bool bare_dotted = line.substr(0, mark).find('"') == std::string_view::npos &&
                             line.substr(0, mark).find('\'') == std::string_view::npos &&
                             key.find('.') != std::string::npos;
    const bool inline_table = header == kKubernetes && (key == "node-labels" || key == "node-taints");
    if (((header.empty() || header == "settings") && key.starts_with("settings")) || key == "kubernetes" ||
        (bare_dotted && header.starts_with("settings")) || inline_table)
      return refused(number, fmt::format("{} is not in a table of its own", key));
    if (std::ranges::find(out.back().entries, key, [](const auto& e) { return e.first; }) != out.back().entries.end())
      return refused(number, fmt::format("the key {} is set twice", key));
    std::string value(trimmed(line.substr(mark + 1)));
    while (is_open(value) && at < text.size()) {
      ++number;
      end = std::min(text.find('\n', at), text.size());
      value += "\n" + text.substr(at, end - at);
      at = end + 1;
    }
    if (is_open(value)) return refused(number, fmt::format("the value of {} has no end", key));
    out.back().entries.emplace_back(key, text.substr(from, std::min(at, text.size()) - from));
    if (!out.back().entries.back().second.ends_with('\n')) out.back().entries.back().second += '\n';
  }
  return out;
}

Section& section(std::vector<Section>& all, const std::string& header) {
  const auto known = std::ranges::find(all, header, &Section::header);
  return known == all.end() ? all.emplace_back(Section{header, {}}) : *known;
}

void set_amounts(std::vector<Section>& all, const char* table, const std::map<std::string, std::string>& amounts) {
  if (amounts.empty()) return;
  Section& out = section(all, fmt::format("{}.{}", kKubernetes, table));
  for (const auto& [key, value] : amounts) out.set(key, quoted(value));
}

}  // namespace

Result<std::string> bottlerocket_settings(const config::NodeClass& node_class, const ClusterIdentity& cluster,
                                          const PlannedInstance& planned) {
  QM_ASSIGN(auto all, read_sections(node_class.user_data));
  const config::NodeClassKubelet& kubelet = node_class.kubelet;
  {
    Section& kubernetes = section(all, std::string(kKubernetes));
    kubernetes.set("api-server", quoted(cluster.endpoint));
    kubernetes.set("cluster-certificate", quoted(cluster.certificate_authority));
    kubernetes.set("cluster-name", quoted(cluster.name));
    const auto number = [&](const char* key, std::int64_t value) {
      if (value >= 0) kubernetes.set(key, std::to_string(value));
    };
    if (kubelet.cluster_dns.size() == 1) kubernetes.set("cluster-dns-ip", quoted(kubelet.cluster_dns.front()));
    if (kubelet.cluster_dns.size() > 1) {
      std::vector<std::string> addresses;
      for (const auto& address : kubelet.cluster_dns) addresses.push_back(quoted(address));
      kubernetes.set("cluster-dns-ip", fmt::format("[{}]", fmt::join(addresses, ", ")));
    }
    number("max-pods", kubelet.max_pods);
    number("image-gc-high-threshold-percent", kubelet.image_gc_high);
    number("image-gc-low-threshold-percent", kubelet.image_gc_low);
    number("eviction-max-pod-grace-period", kubelet.eviction_max_grace_s);
    if (kubelet.cpu_cfs_quota) kubernetes.set("cpu-cfs-quota-enforced", *kubelet.cpu_cfs_quota ? "true" : "false");
  }
  set_amounts(all, "system-reserved", kubelet.system_reserved);
  set_amounts(all, "kube-reserved", kubelet.kube_reserved);
  set_amounts(all, "eviction-hard", kubelet.eviction_hard);
  set_amounts(all, "eviction-soft", kubelet.eviction_soft);
  set_amounts(all, "eviction-soft-grace-period", kubelet.eviction_soft_grace);
  for (const auto& [key, value] : planned.labels)
    section(all, "settings.kubernetes.node-labels").set(key, quoted(value));
  std::map<std::string, std::vector<std::string>> taints;
  for (const Taint& taint : planned.taints)
    taints[taint.key].push_back(quoted(fmt::format("{}:{}", taint.value, taint.effect)));
  for (const auto& [key, values] : taints) {
    section(all, "settings.kubernetes.node-taints").set(key, fmt::format("[{}]", fmt::join(values, ", ")));
  }
  if (node_class.raid0) {
    Section& bootstrap = section(all, "settings.bootstrap-commands.000-mount-instance-storage");
    bootstrap.set("commands",
                  "[[\"apiclient\", \"ephemeral-storage\", \"init\"], [\"apiclient\", \"ephemeral-storage\", \"bind\", "
                  "\"--dirs\", \"/var/lib/containerd\", \"/var/lib/kubelet\", \"/var/log/pods\"]]");
    bootstrap.set("mode", "\"always\"");
    bootstrap.set("essential", "true");
  }
  std::string out;
  for (const Section& one : all) {
    if (one.header.starts_with("[[")) {
      out += one.header + "\n";
    } else if (!one.header.empty()) {
      out += fmt::format("[{}]\n", one.header);
    }
    for (const auto& entry : one.entries) out += entry.second;
  }
  return out;
}

}  // namespace qm::autoscaler
