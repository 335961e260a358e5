#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"

namespace qm::kube {

std::string Resource::path(const std::string& ns, const std::string& name) const {
  std::string out = group.empty() ? "/api/" + version : "/apis/" + group + "/" + version;
  if (namespaced && !ns.empty()) out += "/namespaces/" + http::url_encode(ns);
  out += "/" + plural;
  if (!name.empty()) out += "/" + http::url_encode(name);
  return out;
}

std::string name_of(const Json& object) { return object["metadata"]["name"].string(); }
std::string namespace_of(const Json& object) { return object["metadata"]["namespace"].string(); }
std::string uid_of(const Json& object) { return object["metadata"]["uid"].string(); }
std::string created_of(const Json& object) { return object["metadata"]["creationTimestamp"].string(); }
std::string resource_version_of(const Json& object) { return object["metadata"]["resourceVersion"].string(); }
std::string annotation(const Json& object, std::string_view key) {
  return object["metadata"]["annotations"][key].string();
}
std::string label(const Json& object, std::string_view key) { return object["metadata"]["labels"][key].string(); }

}  // namespace qm::kube
