#include "node_hardware.hpp"

#include "qm/base/json.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

namespace qm::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 63;  // of a label

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string text_of_file(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

/// "Node 0 MemTotal:       527988104 kB"
std::int64_t memory_in(const std::string& meminfo) {
  std::istringstream lines(meminfo);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("MemTotal:");
    if (at == std::string::npos) continue;
    return std::strtoll(line.c_str() + at + 9, nullptr, 10) * 1024;
  }
  return 0;
}

std::string text_of_cpus(const std::set<int>& cpus) {
  std::string out;
  for (auto it = cpus.begin(); it != cpus.end();) {
    auto last = it;
    while (std::next(last) != cpus.end() && *std::next(last) == *last + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", *it);
    if (last != it) out += fmt::format("-{}", *last);
    it = std::next(last);
  }
  return out;
}

/// "ffffffff,0000000f", as the kernel writes it: groups of 32, the highest first.
std::string mask_of(const std::set<int>& cpus) {
  std::vector<std::uint32_t> words(cpus.empty() ? 1 : static_cast<std::size_t>(*cpus.rbegin()) / 32 + 1);
  for (const int cpu : cpus) words[static_cast<std::size_t>(cpu) / 32] |= std::uint32_t{1} << (cpu % 32);
  std::string out;
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    out += fmt::format("{}{:08x}", out.empty() ? "" : ",", *word);
  return out;
}

/// Escapes a text for an XML attribute.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

/// Groups of GPUs connected by such joints, directly or through others: for each GPU the first of its group.
std::map<std::int32_t, std::int32_t> groups_of(const std::vector<Device>& devices, const std::vector<Joint>& joints,
                                               std::initializer_list<Join> by) {
  std::map<std::int32_t, std::int32_t> root;
  for (const Device& device : devices) root[device.index] = device.index;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Joint& joint : joints) {
      if (std::ranges::count(by, joint.by) == 0 || !root.contains(joint.a) || !root.contains(joint.b)) continue;
      const auto least = std::min(root[joint.a], root[joint.b]);
      changed = changed || root[joint.a] != least || root[joint.b] != least;
      root[joint.a] = root[joint.b] = least;
    }
  }
  return root;
}

bool is_label_name(const std::string& name) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kLongestName && alphanumeric(name.front()) && alphanumeric(name.back()) &&
         std::ranges::all_of(name, [&](char c) { return alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

Result<std::set<int>> cpus_of(std::string_view text) {
  std::set<int> out;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    constexpr int kMost = 1 << 16;
    if (!first || !last || *first > *last || *last >= kMost)
      return fail(
          Error{Code::kInvalid, fmt::format("\"{}\" is not a valid set of CPUs", text), {}, "write it as 0-3,8"});
    for (int cpu = *first; cpu <= *last; ++cpu) out.insert(cpu);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return out;
}

Result<KubeletSettings> kubelet_settings(std::string_view yaml, const std::string& file) {
  const auto loaded = config::load_text(yaml, file);
  for (const auto& problem : loaded.diagnostics) {
    if (problem.severity == config::Diagnostic::Severity::kError)
      return fail(Error{Code::kInvalid, problem.to_string(), problem.field, problem.remedy});
  }
  if (loaded.objects.size() != 1 || loaded.objects[0].document.kind != "KubeletConfiguration") {
    return fail(
        Error{Code::kInvalid, fmt::format("{} contains no KubeletConfiguration", file), file, "name the kubelet's"});
  }
  const Json& content = loaded.objects[0].document.content;
  KubeletSettings out;
  const auto read = [&](const char* field, std::string& to) {
    if (const auto& text = content[field].string(); !text.empty()) to = text;
  };
  read("topologyManagerPolicy", out.topology_policy);
  read("cpuManagerPolicy", out.cpu_policy);
  read("memoryManagerPolicy", out.memory_policy);
  auto reserved = cpus_of(content["reservedSystemCPUs"].string());
  if (!reserved) {
    reserved.error().field = "reservedSystemCPUs";
    return fail(reserved.error());
  }
  out.reserved_cpus = std::move(*reserved);
  for (const Json& zone : content["reservedMemory"].items()) {
    const auto memory = Quantity::parse(zone["limits"]["memory"].string());
    if (!memory)
      return fail(Error{Code::kInvalid, memory.error().message, "reservedMemory.limits.memory", "write it as in 8Gi"});
    out.reserved_memory[static_cast<int>(zone["numaNode"].integer())] = memory->units();
  }
  return out;
}

std::vector<std::string> differences(const KubeletSettings& is, const KubeletSettings& wanted) {
  std::vector<std::string> out;
  const auto compare = [&](const char* field, const std::string& a, const std::string& b) {
    if (a != b) out.push_back(fmt::format("{} is {}, not {}", field, a.empty() ? "empty" : a, b.empty() ? "empty" : b));
  };
  compare("topologyManagerPolicy", is.topology_policy, wanted.topology_policy);
  compare("cpuManagerPolicy", is.cpu_policy, wanted.cpu_policy);
  compare("reservedSystemCPUs", text_of_cpus(is.reserved_cpus), text_of_cpus(wanted.reserved_cpus));
  return out;
}

Result<std::map<int, NumaNode>> numa_nodes(const std::string& sysfs) {
  std::map<int, NumaNode> out;
  const fs::path root = fs::path(sysfs) / "devices/system/node";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    const auto node = name.starts_with("node") ? number(std::string_view(name).substr(4)) : std::nullopt;
    if (!node) continue;
    QM_ASSIGN(auto cpus, cpus_of(trimmed(text_of_file(entry.path() / "cpulist"))));
    out[*node] = {std::move(cpus), memory_in(text_of_file(entry.path() / "meminfo"))};
  }
  if (out.empty()) return fail(Code::kUnavailable, "{} names no NUMA node", root.string());
  return out;
}

int node_of(const Device& device, const std::map<int, NumaNode>& nodes) {
  return device.numa < 0 && nodes.size() == 1 ? nodes.begin()->first : device.numa;
}

std::string numa_annotation(const std::map<int, NumaNode>& nodes, const KubeletSettings& kubelet,
                            const std::vector<Device>& devices) {
  const auto unknown = [&](const Device& device) { return node_of(device, nodes) < 0; };
  if (std::ranges::any_of(devices, unknown)) return {};
  Json zones = Json::array();
  for (const auto& [number, node] : nodes) {
    Json zone = Json::object();
    if (kubelet.cpu_policy == "static") {
      const auto kept = std::ranges::count_if(node.cpus, [&](int cpu) { return kubelet.reserved_cpus.contains(cpu); });
      zone.set("cpu", std::to_string(std::ssize(node.cpus) - kept));
    }
    if (kubelet.memory_policy == "Static") {
      const auto reserved = kubelet.reserved_memory.find(number);
      const auto bytes = node.memory_bytes - (reserved == kubelet.reserved_memory.end() ? 0 : reserved->second);
      zone.set("memory", std::to_string(std::max<std::int64_t>(bytes, 0)));
    }
    Json gpus = Json::array();
    for (const Device& device : devices) {
      if (node_of(device, nodes) == number) gpus.push_back(device.index);
    }
    zone.set("gpus", std::move(gpus));
    zones.push_back(std::move(zone));
  }
  return Json::object({{"policy", kubelet.topology_policy}, {"zones", std::move(zones)}}).dump();
}

std::string nccl_topology(const std::map<int, NumaNode>& nodes, const std::vector<Device>& devices,
                          const std::string& sysfs) {
  std::string out = "<system version=\"1\">\n";
  for (const auto& [number, node] : nodes) {
    out += fmt::format("  <cpu numaid=\"{}\" affinity=\"{}\">\n", number, mask_of(node.cpus));
    for (const Device& device : devices) {
      if (node_of(device, nodes) != number || device.pci.empty()) continue;
      const fs::path bus = fs::path(sysfs) / "bus/pci/devices" / device.pci;
      const auto seen_version = [&](const char* file, const char* attribute) {
        const auto text = trimmed(text_of_file(bus / file));
        return text.empty() ? std::string() : fmt::format(" {}=\"{}\"", attribute, escaped(text));
      };
      out += fmt::format("    <pci busid=\"{}\"{}{}{}>\n      <gpu dev=\"{}\"/>\n    </pci>\n", escaped(device.pci),
                         seen_version("class", "class"), seen_version("max_link_speed", "link_speed"),
                         seen_version("max_link_width", "link_width"), device.index);
    }
    out += "  </cpu>\n";
  }
  return out + "</system>\n";
}

std::vector<std::vector<std::int32_t>> islands_of(const std::vector<Device>& devices,
                                                  const std::vector<Joint>& joints) {
  std::map<std::int32_t, std::vector<std::int32_t>> out;
  for (const auto& [gpu, first] : groups_of(devices, joints, {Join::kNvlink})) out[first].push_back(gpu);
  std::vector<std::vector<std::int32_t>> islands;
  for (auto& [first, island] : out) islands.push_back(std::move(island));
  return islands;
}

std::map<std::string, std::string> island_labels(const std::vector<Device>& devices, const std::vector<Joint>& joints) {
  if (devices.size() < 2 || joints.empty()) return {};
  const auto islands = islands_of(devices, joints);
  const bool joined = std::ranges::any_of(islands, [](const auto& island) { return island.size() > 1; });
  std::map<std::string, std::string> out{{"gpu.nvidia.com/nvlink-enabled", joined ? "true" : "false"}};
  const auto size = islands.front().size();
  bool regular = joined;
  for (std::size_t i = 0; i < islands.size(); ++i) {
    std::vector<std::int32_t> run(size);
    std::iota(run.begin(), run.end(), static_cast<std::int32_t>(i * size));
    regular = regular && islands[i] == run;
  }
  if (regular) out["gpu.nvidia.com/nvlink-gpus-per-island"] = std::to_string(size);
  return out;
}

std::string switches_annotation(const std::vector<Device>& devices, const std::vector<Joint>& joints) {
  const auto first = groups_of(devices, joints, {Join::kPix, Join::kPxb});
  std::set<std::int32_t> switches;
  for (const auto& [gpu, of] : first) switches.insert(of);
  // If each GPU has its own switch the annotation carries no information; and indexes require that no GPU is missing.
  if (switches.size() == devices.size() || first.rbegin()->first != std::ssize(devices) - 1) return {};
  Json out = Json::array();
  for (const auto& [gpu, of] : first) out.push_back(std::distance(switches.begin(), switches.find(of)));
  return out.dump();
}

std::map<std::string, std::string> fabric_labels(const std::string& sysfs) {
  // The number of active ports of each kind and speed: a node with eight adapters for GPUs may have a slower one for
  // storage.
  std::map<std::pair<bool, int>, int> ports;  // (InfiniBand, Gb/s)
  std::error_code error;
  for (const auto& adapter : fs::directory_iterator(fs::path(sysfs) / "class/infiniband", error)) {
    for (const auto& port : fs::directory_iterator(adapter.path() / "ports", error)) {
      const auto read = [&](const char* file) { return trimmed(text_of_file(port.path() / file)); };
      const auto link = read("link_layer"), rate = read("rate");  // "InfiniBand", "400 Gb/sec (4X NDR)"
      const auto speed = number(std::string_view(rate).substr(0, rate.find(' ')));
      if (read("state") == "4: ACTIVE" && speed) ++ports[{link == "InfiniBand", *speed}];
    }
  }
  if (ports.empty()) return {};
  const auto& [kind, count] = *ports.rbegin();
  return {{"quartermaster.dev/fabric-seen", kind.first ? "infiniband" : "roce"},
          {"quartermaster.dev/fabric-rails-seen", std::to_string(count)}};
}

std::map<std::string, std::string> model_labels(const std::string& folder) {
  std::map<std::string, std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(error) && is_label_name(name)) out[std::string(kModelPrefix) + name] = "true";
  }
  return out;
}

}  // namespace qm::agent
