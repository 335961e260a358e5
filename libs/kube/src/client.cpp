#include "qm/kube/client.hpp"

#include "qm/http/http.hpp"
#include "qm/kube/errors.hpp"
#include "retry_after.hpp"
#include "token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <mutex>
#include <utility>

namespace qm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// A watch event is one line; an object in etcd has at most 1.5 MiB, in JSON a few times that.
constexpr std::size_t kMaxLine = 16 << 20;
constexpr std::size_t kMaxErrorBody = 64 << 10;
/// The silence after a watch's own timeout after which it is considered dead.
constexpr seconds kWatchGrace{30};
/// How often a paged list restarts because its continue token expired, before it requests all objects at once.
constexpr int kListRestarts = 3;

/// The age of the list of API groups with which kinds are located.
constexpr seconds kGroupsFresh{20};

/// Names the program in the audit log. The part before the slash is the field manager of writes that name none.
const std::string& user_agent() {
  static const std::string name = fmt::format("quartermaster/{}", program_invocation_short_name);
  return name;
}

/// The error of a Status object; `what` is the call.
Error error_of(const std::string& what, int status, const Json& object) {
  const auto& reason = object["reason"].string();
  Error error;
  auto refusal = classify(status, object);
  error.code = refusal.code;
  error.remedy = std::move(refusal.remedy);
  error.message =
      fmt::format("{}: {}: {}", what, status, object["message"].string_or(reason.empty() ? "no reason given" : reason));
  error.field = object["details"]["causes"].at(0)["field"].string();
  return error;
}

Error error_of(const std::string& what, const http::Response& answer) {
  const auto body = Json::parse(answer.body);
  if (body && (*body)["kind"].string() == "Status") return error_of(what, answer.status, *body);
  // Probably from a proxy in between: the beginning of its text is more useful than no text.
  return error_of(what, answer.status, Json::object({{"message", answer.body.substr(0, 200)}}));
}

/// The path after the origin: "/k8s/c-1" of "https://host/k8s/c-1/".
std::string path_of(std::string& server) {
  while (server.ends_with('/')) server.pop_back();
  const auto host = server.find("://");
  const auto slash = server.find('/', host == std::string::npos ? 0 : host + 3);
  return slash == std::string::npos ? "" : server.substr(slash);
}

std::string query_of(const ListOptions& options) {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    out += out.empty() ? '?' : '&';
    out += fmt::format("{}={}", name, http::url_encode(value));
  };
  add("labelSelector", options.label_selector);
  add("fieldSelector", options.field_selector);
  add("continue", options.continue_token);
  if (options.limit > 0) add("limit", std::to_string(options.limit));
  return out;
}

}  // namespace

struct Client::Impl {
  explicit Impl(ClientOptions from)
      : options(std::move(from)),
        token_file(options.token_file),
        path(path_of(options.server)),
        calls(options.server.substr(0, options.server.size() - path.size()), http_options(options.timeout_ms)),
        // Watches keep their own deadlines: see watch().
        watches(calls.origin(), http_options(0)) {}

  http::ClientOptions http_options(int timeout_ms) const {
    http::ClientOptions out;
    out.timeout = milliseconds(timeout_ms);
    out.ca_file = options.ca_file;
    out.certificate = options.certificate;
    out.key = options.key;
    out.ca = options.ca;
    if (!options.certificate_pem.empty()) out.identity = http::Identity{options.certificate_pem, options.key_pem};
    out.insecure = options.insecure;
    return out;
  }

  static void authorize(http::Request& request, const std::string& token) {
    if (!token.empty()) request.headers.set("Authorization", "Bearer " + token);
  }

  /// Retries once immediately if the token is not accepted: it may have been replaced since it was read.
  Result<http::Response> send(const http::Request& request) {
    auto answer = calls.send(request);
    if (!answer || answer->status != 401 || options.token_file.empty()) return answer;
    auto again = request;
    authorize(again, token_file.read_again());
    return calls.send(again);
  }

  http::Request request(std::string method, const std::string& target, const Json* body = nullptr,
                        const char* type = "application/json") {
    http::Request out;
    out.method = std::move(method);
    out.target = path + target;
    out.headers.set("Accept", "application/json");
    out.headers.set("User-Agent", user_agent());
    authorize(out, options.token_file.empty() ? options.token : token_file.current());
    if (body != nullptr) {
      out.headers.set("Content-Type", type);
      out.body = body->dump();
    }
    return out;
  }

  /// `served`: the versions of the group.
  Result<Resource> find_among(const std::vector<std::string>& served, const std::string& group,
                              const std::string& plural, const std::vector<std::string>& versions) {
    std::vector<std::string> candidates;
    if (group.empty()) {
      candidates = {"v1"};
    } else {
      const auto take = [&](const std::string& version) {
        const bool there = std::find(served.begin(), served.end(), version) != served.end();
        const bool known = std::find(candidates.begin(), candidates.end(), version) != candidates.end();
        if (there && !known) candidates.push_back(version);
      };
      for (const auto& version : versions) take(version);
      if (versions.empty()) candidates = served;
    }
    for (const auto& version : candidates) {
      const auto prefix = group.empty() ? "/api/" + version : "/apis/" + group + "/" + version;
      const auto list = call(request("GET", prefix));
      if (!list) {
        if (list.error().code == Code::kNotFound) continue;
        return fail(list.error());
      }
      for (const auto& resource : (*list)["resources"].items()) {
        if (resource["name"].string() == plural)
          return Resource{group, version, plural, resource["namespaced"].boolean()};
      }
    }
    return fail(Code::kNotFound, "{} of {} are not served", plural, group.empty() ? "the core group" : group);
  }

  Result<Json> call(const http::Request& request) { return call(request, request.method + " " + request.target); }

  Result<Json> call(const http::Request& request, const std::string& what) {
    const auto sent = request.method + " " + request.target;
    if (auto early = retry_after.too_early(sent, options.now())) return fail(std::move(*early));
    auto answer = send(request);
    if (!answer) {
      auto error = answer.error();
      // Every write has a name or a precondition, so that a retry is safe.
      if (error.code == Code::kUnknown) error.code = Code::kUnavailable;
      return fail(std::move(error));
    }
    if (answer->status < 200 || answer->status >= 300) {
      auto error = error_of(what, *answer);
      retry_after.note(sent, *answer, error, options.now());
      return fail(std::move(error));
    }
    auto body = Json::parse(answer->body);
    if (!body) return fail(Error{Code::kUnavailable, what + ": " + body.error().message, {}, {}});
    return std::move(*body);
  }

  ClientOptions options;
  TokenFile token_file;
  RetryAfter retry_after;
  std::mutex groups_mutex;
  Json groups;  ///< as last read by locate()
  steady_clock::time_point groups_read{};
  std::string path;  // prefix of every target; mostly empty
  http::Client calls, watches;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

const std::string& Client::server() const { return impl_->options.server; }

Result<Json> Client::get(const Resource& r, const std::string& ns, const std::string& name) {
  return impl_->call(impl_->request("GET", r.path(ns, name)));
}

Result<List> Client::list(const Resource& r, const std::string& ns, const ListOptions& options) {
  QM_ASSIGN(auto body, impl_->call(impl_->request("GET", r.path(ns) + query_of(options))));
  List out;
  out.resource_version = body["metadata"]["resourceVersion"].string();
  out.continue_token = body["metadata"]["continue"].string();
  if (auto* items = body.find("items"); items != nullptr && items->is_array()) {
    out.items = std::move(items->items_mut());
  }
  // A server has the kind once, in the list's own kind; readers of an item should not need to know that.
  const auto& list_kind = body["kind"].string();
  if (list_kind.ends_with("List")) {
    for (auto& item : out.items) {
      if (!item.contains("kind")) item.set("kind", list_kind.substr(0, list_kind.size() - 4));
      if (!item.contains("apiVersion")) item.set("apiVersion", body["apiVersion"]);
    }
  }
  return out;
}

Result<std::vector<Json>> Client::list_all(const Resource& r, const Scope& scope, std::string* resource_version) {
  for (int restart = 0;; ++restart) {
    std::vector<Json> all;
    ListOptions options;
    options.field_selector = scope.field_selector;
    if (restart == kListRestarts) options.limit = 0;
    bool expired = false;
    for (bool first = true; first || !options.continue_token.empty(); first = false) {
      auto page = list(r, scope.ns, options);
      if (!page) {
        expired = page.error().code == Code::kOutOfRange && !first;
        if (expired && restart < kListRestarts) break;
        return fail(page.error());
      }
      // All pages have the state of the first one.
      if (first && resource_version != nullptr) *resource_version = page->resource_version;
      std::move(page->items.begin(), page->items.end(), std::back_inserter(all));
      options.continue_token = page->continue_token;
    }
    if (!expired) return all;
  }
}

Result<Json> Client::create(const Resource& r, const std::string& ns, const Json& object) {
  return impl_->call(impl_->request("POST", r.path(ns), &object));
}

Result<Json> Client::dry_create(const Resource& r, const std::string& ns, const Json& object, const std::string& what) {
  return impl_->call(impl_->request("POST", r.path(ns) + "?dryRun=All", &object), what);
}

Result<Json> Client::update(const Resource& r, const std::string& ns, const std::string& name, const Json& object) {
  return impl_->call(impl_->request("PUT", r.path(ns, name), &object));
}

Result<Json> Client::merge_patch(const Resource& r, const std::string& ns, const std::string& name, const Json& patch,
                                 const std::string& subresource) {
  auto target = r.path(ns, name);
  if (!subresource.empty()) target += "/" + subresource;
  return impl_->call(impl_->request("PATCH", target, &patch, "application/merge-patch+json"));
}

Result<Json> Client::apply(const Resource& r, const std::string& ns, const std::string& name, const Json& object,
                           const ApplyOptions& options) {
  auto target = r.path(ns, name);
  if (!options.subresource.empty()) target += "/" + options.subresource;
  target += "?fieldManager=" + http::url_encode(options.field_manager);
  if (options.force) target += "&force=true";
  // JSON is YAML, and every server with apply accepts the YAML form.
  return impl_->call(impl_->request("PATCH", target, &object, "application/apply-patch+yaml"));
}

// Providers add a sign to the minor version: "31+".
Result<std::string> Client::server_version() {
  QM_ASSIGN(const auto version, impl_->call(impl_->request("GET", "/version")));
  const std::string& minor = version["minor"].string();
  const auto digits = minor.substr(0, minor.find_first_not_of("0123456789"));
  if (version["major"].string().empty() || digits.empty())
    return fail(Code::kInternal, "the API server answers /version without a version");
  return fmt::format("{}.{}", version["major"].string(), digits);
}

namespace {
std::vector<std::string> versions_in(const Json& all, const std::string& group) {
  std::vector<std::string> out;
  for (const auto& item : all["groups"].items()) {
    if (item["name"].string() != group) continue;
    const auto& preferred = item["preferredVersion"]["version"].string();
    if (!preferred.empty()) out.push_back(preferred);
    for (const auto& version : item["versions"].items()) {
      if (version["version"].string() != preferred) out.push_back(version["version"].string());
    }
  }
  return out;
}
}  // namespace

Result<std::vector<std::string>> Client::versions_of(const std::string& group) {
  QM_ASSIGN(const auto all, impl_->call(impl_->request("GET", "/apis")));
  return versions_in(all, group);
}

Result<Resource> Client::locate(const std::string& group, const std::string& plural,
                                const std::vector<std::string>& versions) {
  std::vector<std::string> served;
  if (!group.empty()) {
    const std::lock_guard lock(impl_->groups_mutex);
    if (impl_->groups.is_null() || steady_clock::now() - impl_->groups_read >= kGroupsFresh) {
      QM_ASSIGN(impl_->groups, impl_->call(impl_->request("GET", "/apis")));
      impl_->groups_read = steady_clock::now();
    }
    served = versions_in(impl_->groups, group);
  }
  return impl_->find_among(served, group, plural, versions);
}

Result<Resource> Client::find_kind(const std::string& group, const std::string& plural,
                                   const std::vector<std::string>& versions) {
  std::vector<std::string> served;
  if (!group.empty()) {
    QM_ASSIGN(served, versions_of(group));
  }
  return impl_->find_among(served, group, plural, versions);
}

Status Client::remove(const Resource& r, const std::string& ns, const std::string& name, const DeleteOptions& options) {
  auto body = Json::object({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}});
  if (!options.uid.empty()) body.set("preconditions", Json::object({{"uid", options.uid}}));
  if (options.grace_seconds >= 0) body.set("gracePeriodSeconds", options.grace_seconds);
  if (!options.propagation.empty()) body.set("propagationPolicy", options.propagation);
  QM_TRY(impl_->call(impl_->request("DELETE", r.path(ns, name), &body)));
  return {};
}

Status Client::bind(const std::string& ns, const std::string& pod, const std::string& pod_uid, const std::string& node,
                    const Json& annotations) {
  auto metadata = Json::object({{"name", pod}, {"namespace", ns}});
  if (!pod_uid.empty()) metadata.set("uid", pod_uid);
  if (annotations.is_object()) metadata.set("annotations", annotations);
  const auto body = Json::object({{"apiVersion", "v1"},
                                  {"kind", "Binding"},
                                  {"metadata", std::move(metadata)},
                                  {"target", Json::object({{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}})}});
  QM_TRY(impl_->call(impl_->request("POST", resources::kPods.path(ns, pod) + "/binding", &body)));
  return {};
}

Status Client::evict(const std::string& ns, const std::string& pod, int grace_seconds, const std::string& uid) {
  auto body = Json::object({{"apiVersion", "policy/v1"},
                            {"kind", "Eviction"},
                            {"metadata", Json::object({{"name", pod}, {"namespace", ns}})}});
  Json how = Json::object();
  if (grace_seconds >= 0) how.set("gracePeriodSeconds", grace_seconds);
  if (!uid.empty()) how.set("preconditions", Json::object({{"uid", uid}}));
  if (how.size() > 0) body.set("deleteOptions", how);
  QM_TRY(impl_->call(impl_->request("POST", resources::kPods.path(ns, pod) + "/eviction", &body)));
  return {};
}

Status Client::watch(const Resource& r, const Scope& scope, const std::string& resource_version,
                     const std::function<void(const std::string& type, const Json& object)>& on_event,
                     const std::function<bool()>& stop, int timeout_seconds, const Wake* wake) {
  auto target = r.path(scope.ns) + fmt::format("?watch=1&allowWatchBookmarks=true&timeoutSeconds={}", timeout_seconds);
  if (!resource_version.empty()) target += "&resourceVersion=" + http::url_encode(resource_version);
  if (!scope.field_selector.empty()) target += "&fieldSelector=" + http::url_encode(scope.field_selector);
  const auto what = "WATCH " + target;

  http::Response head;
  std::string line;  // incomplete
  Status problem;
  auto silent_until = steady_clock::now() + milliseconds(impl_->options.timeout_ms);
  bool silent = false;

  const auto on_head = [&](const http::Response& response) {
    head = response;
    silent_until = steady_clock::now() + seconds(timeout_seconds) + kWatchGrace;
    return true;
  };
  const auto on_line = [&](std::string_view text) -> Status {
    if (text.empty()) return {};
    auto event = Json::parse(text);
    if (!event) return fail(Code::kUnavailable, "{}: {}", what, event.error().message);
    const auto& type = (*event)["type"].string();
    const auto& object = (*event)["object"];
    if (type == "ERROR") {
      return fail(error_of(what, static_cast<int>(object["code"].integer(500)), object));
    }
    on_event(type, object);
    return {};
  };
  const auto on_chunk = [&](std::string_view chunk) {
    silent_until = steady_clock::now() + seconds(timeout_seconds) + kWatchGrace;
    if (head.status != 200) {
      line += chunk.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, line.size()));
      return true;
    }
    for (;;) {
      const auto end = chunk.find('\n');
      line += chunk.substr(0, end);
      if (line.size() > kMaxLine) {
        problem = fail(Code::kUnavailable, "{}: an event is larger than {} bytes", what, kMaxLine);
        return false;
      }
      if (end == std::string_view::npos) return true;
      problem = on_line(line);
      line.clear();
      if (!problem) return false;
      chunk.remove_prefix(end + 1);
    }
  };
  const auto asked = [&] {
    silent = steady_clock::now() > silent_until;
    return silent || (stop && stop());
  };
  const auto ended = impl_->watches.stream(impl_->request("GET", target), on_head, on_chunk, asked, wake);
  if (!problem) return problem;
  if (silent) return fail(Code::kUnavailable, "{}: the server fell silent", what);
  if (!ended) return ended;
  if (head.status != 200) {
    if (head.status == 401 && !impl_->options.token_file.empty()) (void)impl_->token_file.read_again();
    head.body = std::move(line);
    return fail(error_of(what, head));
  }
  if (!line.empty()) return fail(Code::kUnavailable, "{}: cut off in the middle of an event", what);
  return {};
}

}  // namespace qm::kube
