#include "qm/testing/testing.hpp"
#include "view.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace qm::deploy {
namespace {

namespace fs = std::filesystem;
const kube::Resource kSecrets{"", "v1", "secrets", true};
const kube::Resource kConfigMaps{"", "v1", "configmaps", true};

std::string decoded(const std::string& text) {
  std::string out;
  unsigned bits = 0, have = 0;
  for (const char c : text) {
    static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) continue;
    bits = bits << 6 | static_cast<unsigned>(digit);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xFF);
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

struct Filler {
  kube::Client& client;
  const Json& pod;
  const std::string ns = kube::namespace_of(pod);

  Status config_map(const Json& source, const std::string& folder) const {
    QM_ASSIGN(const auto found, client.get(kConfigMaps, ns, source["name"].string()));
    for (const auto& [key, value] : found["data"].members()) {
      std::string path = key;
      bool wanted = source["items"].size() == 0;
      for (const Json& item : source["items"].items()) {
        if (item["key"].string() != key) continue;
        wanted = true;
        path = item["path"].string();
      }
      if (wanted) write(folder + "/" + path, value.string());
    }
    return {};
  }
  Status secret(const std::string& name, const std::string& folder) const {
    QM_ASSIGN(const auto found, client.get(kSecrets, ns, name));
    for (const auto& [key, value] : found["data"].members()) write(folder + "/" + key, decoded(value.string()));
    return {};
  }
  Status token(const Json& source, const std::string& folder) const {
    Json spec = Json::object({{"expirationSeconds", source["expirationSeconds"].integer(3600)}});
    if (const auto& audience = source["audience"].string(); !audience.empty())
      spec.set("audiences", Json::array({audience}));
    // Like kubelet: the token expires with its pod.
    if (const auto uid = kube::uid_of(pod); !uid.empty())
      spec.set("boundObjectRef",
               Json::object({{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", kube::name_of(pod)}, {"uid", uid}}));
    const kube::Resource tokens{
        "", "v1", fmt::format("serviceaccounts/{}/token", pod["spec"]["serviceAccountName"].string()), true};
    QM_ASSIGN(const auto made, client.create(tokens, ns,
                                             Json::object({{"apiVersion", "authentication.k8s.io/v1"},
                                                           {"kind", "TokenRequest"},
                                                           {"spec", std::move(spec)}})));
    write(folder + "/" + source["path"].string(), made["status"]["token"].string());
    return {};
  }
  Status volume(const Json& volume, const std::string& folder) const {
    fs::create_directories(folder);
    if (!volume["secret"].is_null()) return secret(volume["secret"]["secretName"].string(), folder);
    if (!volume["configMap"].is_null()) return config_map(volume["configMap"], folder);
    for (const Json& source : volume["projected"]["sources"].items()) {
      if (!source["serviceAccountToken"].is_null()) QM_TRY(token(source["serviceAccountToken"], folder));
      if (!source["configMap"].is_null()) QM_TRY(config_map(source["configMap"], folder));
      for (const Json& item : source["downwardAPI"]["items"].items()) {
        if (item["fieldRef"]["fieldPath"].string() == "metadata.namespace")
          write(folder + "/" + item["path"].string(), ns);
      }
    }
    return {};
  }
};

}  // namespace

Status View::fill(kube::Client& client, const Json& pod, const Names& services) const {
  const Filler filler{client, pod};
  for (const Json& volume : pod["spec"]["volumes"].items())
    QM_TRY(filler.volume(volume, folder + "/volumes/" + volume["name"].string()));
  std::string hosts = "127.0.0.1 localhost\n";
  for (const auto& [name, at] : services)
    hosts += fmt::format("{0} {1} {1}.{2} {1}.{2}.svc\n", at, name, kube::namespace_of(pod));
  write(folder + "/hosts", hosts);
  return {};
}

Result<std::string> View::script(kube::Client& client, const Json& pod, const Json& container,
                                 const kube::ClientOptions& server) const {
  std::string out =
      "set -e\n"
      "for dir in /etc /run; do\n"
      "  mkdir -p " +
      folder +
      "/keep$dir\n"
      "  mount --rbind $dir " +
      folder +
      "/keep$dir\n"
      "  mount -t tmpfs none $dir\n"
      "  for entry in " +
      folder +
      "/keep$dir/*; do ln -s \"$entry\" $dir/; done\n"
      "done\n"
      "rm -f /etc/hosts && cp " +
      folder + "/hosts /etc/hosts\n";
  for (const Json& mount : container["volumeMounts"].items()) {
    const auto& path = mount["mountPath"].string();
    if (!path.starts_with("/etc/") && !path.starts_with("/var/run/") && !path.starts_with("/run/")) continue;
    out += fmt::format("mkdir -p {0} && mount --bind {1}/volumes/{2} {0}\n", path, folder, mount["name"].string());
  }
  std::map<std::string, std::string> env;
  const auto expanded = [&env, this](std::string text) {
    for (const auto& [name, value] : env) text = with(std::move(text), "$(" + name + ")", value);
    return with(std::move(text), "0.0.0.0:", address + ":");
  };
  const auto port = server.server.substr(server.server.rfind(':') + 1);
  out += "exec env -i PATH=/usr/bin:/bin KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=" + port;
  for (const Json& variable : container["env"].items()) {
    const auto& name = variable["name"].string();
    const Json& from = variable["valueFrom"];
    if (from.is_null()) {
      env[name] = expanded(variable["value"].string());
    } else if (!from["secretKeyRef"].is_null()) {
      const auto secret = client.get(kSecrets, kube::namespace_of(pod), from["secretKeyRef"]["name"].string());
      const auto& value = secret ? (*secret)["data"][from["secretKeyRef"]["key"].string()] : Json();
      if (value.is_null() && from["secretKeyRef"]["optional"].boolean()) continue;
      if (value.is_null()) return fail(Code::kNotFound, "no value for {}", name);
      env[name] = decoded(value.string());
    } else {
      const auto& field = from["fieldRef"]["fieldPath"].string();
      env[name] = field == "status.podIP"    ? address
                  : field == "spec.nodeName" ? node
                  : field == "metadata.name" ? kube::name_of(pod)
                                             : kube::namespace_of(pod);
    }
    out += " " + quoted(name + "=" + env[name]);
  }
  out += " " + quoted(std::string(QM_BIN_DIR) + "/" + container["command"].at(0).string());
  for (std::size_t i = 1; i < container["command"].size(); ++i)
    out += " " + quoted(expanded(container["command"].at(i).string()));
  for (const Json& arg : container["args"].items()) out += " " + quoted(expanded(arg.string()));
  const auto path = fmt::format("{}/{}.sh", folder, container["name"].string());
  write(path, out + "\n");
  return path;
}

}  // namespace qm::deploy
