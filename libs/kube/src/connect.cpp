// Finds the API server: a pod's environment, or a kubeconfig file. An unsupported field of such a file is an
// error, never ignored: a client that ignores a proxy or a login program would fail later and less clearly.
#include "qm/kube/connect.hpp"

#include "qm/base/base64.hpp"
#include "qm/config/manifest.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace qm::kube {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// One kubeconfig file, and errors that name its fields.
class Kubeconfig {
 public:
  static Result<Kubeconfig> read(const std::string& path) {
    QM_ASSIGN(const auto text, read_text(path));
    const auto loaded = config::load_text(text, path);
    if (!loaded.ok()) return fail(Code::kInvalid, "{}", loaded.diagnostics.front().to_string());
    if (loaded.objects.size() != 1 || loaded.objects[0].document.kind != "Config") {
      return fail(Error{Code::kInvalid, path + " is not a kubeconfig: it is not one object of kind Config", path,
                        "name the file that kubectl uses"});
    }
    return Kubeconfig(path, loaded.objects[0].document.content);
  }

  [[nodiscard]] Error wrong(const std::string& field, const std::string& what, const std::string& remedy) const {
    return Error{Code::kInvalid, fmt::format("{}: {}: {}", path_, field, what), field, remedy};
  }

  /// The entry with that name in "clusters", "users" or "contexts", without its name.
  [[nodiscard]] Result<Json> entry(const std::string& list, const std::string& name) const {
    const auto kind = list.substr(0, list.size() - 1);
    for (const auto& one : content_[list].items()) {
      if (one["name"].string() == name) return one[kind];
    }
    return fail(wrong(list, fmt::format("there is no {} \"{}\"", kind, name), "add it, or choose another context"));
  }

  [[nodiscard]] const std::string& current_context() const { return content_["current-context"].string(); }

  /// A file named in the kubeconfig, relative to its folder.
  [[nodiscard]] std::string file(const Json& from, const char* field) const {
    const auto& name = from[field].string();
    if (name.empty()) return {};
    return (std::filesystem::path(path_).parent_path() / name).lexically_normal().string();
  }

  [[nodiscard]] Result<std::string> data(const Json& from, const std::string& field) const {
    auto text = from_base64(from[field].string());
    if (!text) return fail(wrong(field, text.error().message, "give the PEM text in base64"));
    return text;
  }

  [[nodiscard]] Status refuse(const Json& from, std::initializer_list<const char*> fields, const char* remedy) const {
    for (const char* field : fields) {
      if (from[field].is_null() || from[field] == Json("")) continue;
      auto error = wrong(field, "is not understood here", remedy);
      error.code = Code::kUnimplemented;
      return fail(std::move(error));
    }
    return {};
  }

 private:
  Kubeconfig(std::string path, Json content) : path_(std::move(path)), content_(std::move(content)) {}
  std::string path_;
  Json content_;
};

Status add_cluster(const Kubeconfig& config, const Json& cluster, ClientOptions& out) {
  out.server = cluster["server"].string();
  if (out.server.empty()) return fail(config.wrong("server", "is empty", "give the URL of the API server"));
  QM_TRY(config.refuse(cluster, {"proxy-url", "tls-server-name"}, "connect to the API server itself, by its own name"));
  QM_ASSIGN(out.ca, config.data(cluster, "certificate-authority-data"));
  if (out.ca.empty()) out.ca_file = config.file(cluster, "certificate-authority");
  out.insecure = cluster["insecure-skip-tls-verify"].boolean();
  return {};
}

Status add_user(const Kubeconfig& config, const Json& user, ClientOptions& out) {
  QM_TRY(config.refuse(user, {"exec", "auth-provider", "username", "as"},
                       "use a ServiceAccount's token or a client certificate; in a pod, in-cluster"));
  QM_ASSIGN(out.certificate_pem, config.data(user, "client-certificate-data"));
  QM_ASSIGN(out.key_pem, config.data(user, "client-key-data"));
  out.certificate = config.file(user, "client-certificate");
  out.key = config.file(user, "client-key");
  // Text and file may be mixed; the client accepts one or the other.
  if (!out.certificate_pem.empty() || !out.key_pem.empty()) {
    if (out.certificate_pem.empty() && !out.certificate.empty()) {
      QM_ASSIGN(out.certificate_pem, read_text(out.certificate));
    }
    if (out.key_pem.empty() && !out.key.empty()) {
      QM_ASSIGN(out.key_pem, read_text(out.key));
    }
    out.certificate.clear();
    out.key.clear();
  }
  if ((out.certificate_pem.empty() && out.certificate.empty()) != (out.key_pem.empty() && out.key.empty())) {
    return fail(config.wrong("client-certificate", "a client certificate needs its key, and the key its certificate",
                             "set client-certificate and client-key, or their -data"));
  }
  out.token = user["token"].string();
  out.token_file = config.file(user, "tokenFile");
  return {};
}

}  // namespace

Result<ClientOptions> from_kubeconfig(const std::string& path, const std::string& context) {
  QM_ASSIGN(const auto config, Kubeconfig::read(path));
  const auto& name = context.empty() ? config.current_context() : context;
  if (name.empty()) {
    return fail(config.wrong("current-context", "is empty", "name a context: kubeconfig:" + path + "#CONTEXT"));
  }
  QM_ASSIGN(const auto chosen, config.entry("contexts", name));
  QM_ASSIGN(const auto cluster, config.entry("clusters", chosen["cluster"].string()));
  ClientOptions out;
  QM_TRY(add_cluster(config, cluster, out));
  if (chosen["user"].string().empty()) return out;
  QM_ASSIGN(const auto user, config.entry("users", chosen["user"].string()));
  QM_TRY(add_user(config, user, out));
  return out;
}

Result<ClientOptions> in_cluster(const std::string& folder) {
  const auto host = variable("KUBERNETES_SERVICE_HOST"), port = variable("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return fail(Error{Code::kNotFound, "not in a pod: KUBERNETES_SERVICE_HOST and _PORT are not set",
                      "KUBERNETES_SERVICE_HOST", "give the API server's URL, or kubeconfig:PATH"});
  }
  ClientOptions out;
  const bool v6 = host.find(':') != std::string::npos;
  out.server = fmt::format("https://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
  out.token_file = folder + "/token";
  out.ca_file = folder + "/ca.crt";
  QM_TRY(read_text(out.token_file));
  QM_TRY(read_text(out.ca_file));
  return out;
}

Result<ClientOptions> find_server(const std::string& setting) {
  if (setting.starts_with("http://") || setting.starts_with("https://")) {
    ClientOptions out;
    out.server = setting;
    return out;
  }
  if (setting == "in-cluster") return in_cluster();
  if (setting.empty() && !variable("KUBERNETES_SERVICE_HOST").empty()) return in_cluster();
  constexpr std::string_view kFile = "kubeconfig";
  std::string_view rest = setting;
  if (!setting.empty()) {
    const bool fits = rest.starts_with(kFile) &&
                      (rest.size() == kFile.size() || rest[kFile.size()] == ':' || rest[kFile.size()] == '#');
    if (!fits) {
      return fail(Error{Code::kInvalid, fmt::format("\"{}\" names no API server", setting), "kube",
                        "give http(s)://host:port, in-cluster, or kubeconfig:PATH#CONTEXT"});
    }
    rest.remove_prefix(kFile.size());
  }
  const auto hash = rest.find('#');
  const std::string context(hash == std::string_view::npos ? std::string_view() : rest.substr(hash + 1));
  std::string path(rest.substr(0, hash));
  if (!path.empty()) path.erase(0, 1);  // the colon
  if (path.empty()) {
    path = variable("KUBECONFIG");
    if (path.find(':') != std::string::npos) {
      return fail(
          Error{Code::kInvalid, "KUBECONFIG lists several files: " + path, "KUBECONFIG", "name one: kubeconfig:PATH"});
    }
  }
  if (path.empty()) path = variable("HOME") + "/.kube/config";
  return from_kubeconfig(path, context);
}

}  // namespace qm::kube
