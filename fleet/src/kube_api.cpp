#include "kube_api.hpp"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <set>

namespace qm::fleet {
namespace {

constexpr std::size_t kListRoom = 4096;

http::Answer refuse(const ApiError& error) {
  http::Response response = http::json(error.code, error.status().dump());
  if (error.code == 429 || error.code == 503) response.headers.set("Retry-After", "1");
  return response;
}

http::Answer object_answer(int status, const Json& object) { return http::json(status, object.dump()); }

std::string value_of(const std::map<std::string, std::string>& query, const std::string& key) {
  const auto it = query.find(key);
  return it == query.end() ? std::string() : it->second;
}

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_true(const std::string& text) { return text == "true" || text == "1"; }

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at < path.size()) {
    const auto end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

Json group_versions(const std::string& group) {
  Json versions = Json::array();
  std::set<std::string> seen;
  for (const Kind& kind : kinds()) {
    if (kind.group != group || !seen.insert(kind.version).second) continue;
    versions.push_back(Json::object({{"groupVersion", kind.api_version()}, {"version", kind.version}}));
  }
  return versions;
}

/// /version, /api, /apis, /apis/GROUP, and the resources of one version.
std::optional<Json> discovery(const std::vector<std::string>& parts) {
  if (parts.size() == 1 && parts[0] == "version") {
    return Json::object(
        {{"major", "1"}, {"minor", "36"}, {"gitVersion", "v1.36.4+fleet"}, {"platform", "linux/amd64"}});
  }
  if (parts.size() == 1 && parts[0] == "api")
    return Json::object({{"kind", "APIVersions"}, {"versions", Json::array({"v1"})}});
  if (parts.size() == 1 && parts[0] == "apis") {
    Json groups = Json::array();
    std::set<std::string> seen;
    for (const Kind& kind : kinds()) {
      if (kind.group.empty() || !seen.insert(kind.group).second) continue;
      Json versions = group_versions(kind.group);
      const Json preferred = versions.at(0);
      groups.push_back(
          Json::object({{"name", kind.group}, {"versions", std::move(versions)}, {"preferredVersion", preferred}}));
    }
    return Json::object({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}});
  }
  const bool core = parts.size() == 2 && parts[0] == "api";
  if (!core && !(parts.size() == 3 && parts[0] == "apis")) return std::nullopt;
  const std::string group = core ? "" : parts[1], version = parts.back();
  Json resources = Json::array();
  for (const Kind& kind : kinds()) {
    if (kind.group != group || kind.version != version) continue;
    std::string singular = kind.kind;
    std::ranges::transform(singular, singular.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    resources.push_back(
        Json::object({{"name", kind.plural},
                      {"singularName", singular},
                      {"namespaced", kind.namespaced},
                      {"kind", kind.kind},
                      {"verbs", Json::array({"create", "delete", "get", "list", "patch", "update", "watch"})}}));
  }
  if (resources.size() == 0) return std::nullopt;
  return Json::object({{"kind", "APIResourceList"},
                       {"apiVersion", "v1"},
                       {"groupVersion", group.empty() ? version : group + "/" + version},
                       {"resources", std::move(resources)}});
}

}  // namespace

KubeApi::KubeApi(World& world, ObjectStore& store, Options options) : world_(world), store_(store), options_(options) {}

KubeApi::~KubeApi() { stop(); }

http::Answer KubeApi::handle(const http::Request& request) {
  switch (world_.trouble("kube")) {
    case World::Trouble::kThrottled:
      return refuse({429, "TooManyRequests", "too many requests, please try again later", {}});
    case World::Trouble::kServerError:
      return refuse({500, "InternalError", "Internal error occurred: etcdserver: request timed out", {}});
    case World::Trouble::kNone:
      break;
  }
  return dispatch(request);
}

http::Answer KubeApi::dispatch(const http::Request& request) {
  const std::string path = request.path();
  if (path == "/healthz" || path == "/readyz" || path == "/livez") return http::text(200, "ok");
  if (auto document = discovery(split_path(path)); document && request.method == "GET")
    return object_answer(200, *document);
  const auto target = locate(path);
  if (!target) return refuse(target.error());
  const Query query = request.query();
  if (request.method != "GET") return write(*target, request, query);
  if (!target->name.empty()) {
    const auto held = world_.lock();
    const auto object = store_.get(*target->kind, target->ns, target->name);
    return object ? object_answer(200, **object) : refuse(object.error());
  }
  return is_true(value_of(query, "watch")) ? watch(*target, query) : list(*target, query);
}

Answered<KubeApi::Target> KubeApi::locate(const std::string& path) const {
  const ApiError unknown{404, "NotFound", "the server could not find the requested resource", {}};
  const auto parts = split_path(path);
  std::size_t at = 0;
  std::string group, version;
  if (parts.size() >= 2 && parts[0] == "api") {
    version = parts[1];
    at = 2;
  } else if (parts.size() >= 3 && parts[0] == "apis") {
    group = parts[1];
    version = parts[2];
    at = 3;
  } else {
    return tl::unexpected(unknown);
  }
  Target target;
  // /namespaces/NS/PLURAL..., but /namespaces/NAME[/status] is the namespace itself.
  if (parts.size() > at + 2 && parts[at] == "namespaces" && find_kind(group, version, parts[at + 2]) != nullptr) {
    target.ns = parts[at + 1];
    at += 2;
  }
  if (parts.size() <= at) return tl::unexpected(unknown);
  target.kind = find_kind(group, version, parts[at]);
  if (target.kind == nullptr || parts.size() > at + 3) return tl::unexpected(unknown);
  if (!target.ns.empty() && !target.kind->namespaced) return tl::unexpected(unknown);
  if (parts.size() > at + 1) target.name = parts[at + 1];
  if (parts.size() > at + 2) target.subresource = parts[at + 2];
  const std::string& sub = target.subresource;
  const bool served = sub.empty() || (sub == "status" && target.kind->status) ||
                      (target.kind->plural == "pods" && (sub == "binding" || sub == "eviction"));
  const bool needs_namespace = target.kind->namespaced && !target.name.empty() && target.ns.empty();
  if (!served || needs_namespace) return tl::unexpected(unknown);
  return target;
}

http::Answer KubeApi::list(const Target& target, const Query& query) {
  const auto selector =
      Selector::parse(*target.kind, value_of(query, "labelSelector"), value_of(query, "fieldSelector"));
  if (!selector) return refuse(selector.error());
  const auto limit = number_of(value_of(query, "limit")).value_or(0);
  const auto held = world_.lock();
  const std::uint64_t current = store_.resource_version();
  if (const auto wanted = number_of(value_of(query, "resourceVersion")); wanted && *wanted > 0) {
    if (static_cast<std::uint64_t>(*wanted) > current) {
      return refuse({504, "Timeout", fmt::format("Too large resource version: {}, current: {}", *wanted, current), {}});
    }
    // Only the present state is kept.
    if (value_of(query, "resourceVersionMatch") == "Exact" && static_cast<std::uint64_t>(*wanted) != current) {
      return refuse(expired("The resourceVersion for the provided list is too old."));
    }
  }
  const auto page = store_.list(*target.kind, target.ns, *selector, limit > 0 ? static_cast<std::size_t>(limit) : 0,
                                value_of(query, "continue"));
  if (!page) return refuse(page.error());
  std::string body;
  body.reserve(page->items.size() * kListRoom + 256);
  body += fmt::format(R"({{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{}")", target.kind->kind,
                      target.kind->api_version(), page->resource_version);
  if (!page->continue_token.empty()) {
    body += R"(,"continue":)";
    append_json_string(body, page->continue_token);
  }
  body += R"(},"items":[)";
  for (std::size_t i = 0; i < page->items.size(); ++i) {
    if (i > 0) body += ',';
    page->items[i]->append_to(body);
  }
  body += "]}";
  return http::json(200, std::move(body));
}

http::Answer KubeApi::watch(const Target& target, const Query& query) {
  auto selector = Selector::parse(*target.kind, value_of(query, "labelSelector"), value_of(query, "fieldSelector"));
  if (!selector) return refuse(selector.error());
  const auto asked = number_of(value_of(query, "timeoutSeconds"));
  const auto length = asked && *asked > 0 ? std::chrono::seconds(*asked) : options_.longest_watch;
  const bool bookmarks = is_true(value_of(query, "allowWatchBookmarks"));
  http::Response head = http::json(200, "");
  auto begin = [this, kind = target.kind, ns = target.ns, selector = std::move(*selector),
                from = value_of(query, "resourceVersion"), length, bookmarks](std::shared_ptr<http::Stream> stream) {
    const auto held = world_.lock();
    const auto id =
        store_.watch(*kind, ns, selector, from, [stream](const std::string& line) { return stream->write(line); });
    if (id == 0) return stream->close();
    const auto now = std::chrono::steady_clock::now();
    watches_[id] = {std::move(stream), now + length, now + options_.bookmark_every, bookmarks};
  };
  return {std::move(head), std::move(begin)};
}

Answered<ObjectStore::DeleteOptions> KubeApi::delete_options(const http::Request& request, const Query& query) {
  ObjectStore::DeleteOptions options;
  if (!request.body.empty()) {
    const auto body = Json::parse(request.body);
    if (!body) return tl::unexpected(bad_request(body.error().message));
    options.uid = (*body)["preconditions"]["uid"].string();
    options.resource_version = (*body)["preconditions"]["resourceVersion"].string();
    options.propagation = (*body)["propagationPolicy"].string();
    if ((*body)["gracePeriodSeconds"].is_int()) options.grace = (*body)["gracePeriodSeconds"].integer();
  }
  if (const auto grace = number_of(value_of(query, "gracePeriodSeconds"))) options.grace = grace;
  if (const auto it = query.find("propagationPolicy"); it != query.end()) options.propagation = it->second;
  static const std::set<std::string> kPolicies = {"", "Background", "Foreground", "Orphan"};
  if (!kPolicies.contains(options.propagation)) {
    return tl::unexpected(
        ApiError{422, "Invalid",
                 fmt::format("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported "
                             "value: \"{}\"",
                             options.propagation),
                 "propagationPolicy"});
  }
  return options;
}

http::Answer KubeApi::write(const Target& target, const http::Request& request, const Query& query) {
  const Kind& kind = *target.kind;
  const std::string& sub = target.subresource;
  const ApiError wrong_method{
      405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}};
  if (request.method == "DELETE") {
    if (target.name.empty() || !sub.empty()) return refuse(wrong_method);
    const auto options = delete_options(request, query);
    if (!options) return refuse(options.error());
    const auto held = world_.lock();
    const auto removed = store_.remove(kind, target.ns, target.name, *options);
    return removed ? object_answer(200, **removed) : refuse(removed.error());
  }
  auto body = Json::parse(request.body);
  if (!body) return refuse(bad_request(body.error().message));
  if (!body->is_object()) return refuse(bad_request("the body is no JSON object"));
  const auto answer = [](int status, const Answered<ObjectPtr>& result) {
    return result ? object_answer(status, **result) : refuse(result.error());
  };
  const Json success = Json::object({{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}, {"code", 201}});
  if (request.method == "POST") {
    const auto held = world_.lock();
    if (sub == "binding") {
      const auto bound = store_.bind(target.ns, target.name, *body);
      return bound ? object_answer(201, success) : refuse(bound.error());
    }
    if (sub == "eviction") {
      const auto evicted = store_.evict(target.ns, target.name, *body);
      return evicted ? object_answer(201, success) : refuse(evicted.error());
    }
    if (!target.name.empty() || (kind.namespaced && target.ns.empty())) return refuse(wrong_method);
    return answer(201, store_.create(kind, target.ns, std::move(*body)));
  }
  if (target.name.empty() || sub == "binding" || sub == "eviction") return refuse(wrong_method);
  const Part part = sub == "status" ? Part::kStatus : Part::kMain;
  if (request.method == "PUT") {
    const std::string& name = (*body)["metadata"]["name"].string();
    if (name != target.name) {
      return refuse(bad_request(
          fmt::format("the name of the object ({}) does not match the name on the URL ({})", name, target.name)));
    }
    const auto held = world_.lock();
    return answer(200, store_.update(kind, target.ns, target.name, std::move(*body), part));
  }
  if (request.method == "PATCH") {
    if (!request.headers.get("Content-Type").starts_with("application/merge-patch+json")) {
      return refuse({415,
                     "UnsupportedMediaType",
                     "the body of the request was in an unknown format - accepted media types include: "
                     "application/merge-patch+json",
                     {}});
    }
    const auto held = world_.lock();
    return answer(200, store_.patch(kind, target.ns, target.name, *body, part));
  }
  return refuse(wrong_method);
}

std::size_t KubeApi::cut_watches(bool compact) {
  const auto held = world_.lock();
  if (compact) store_.compact();
  const std::size_t count = watches_.size();
  for (auto& [id, open] : watches_) {
    store_.unwatch(id);
    open.stream->close();
  }
  watches_.clear();
  return count;
}

void KubeApi::start() {
  thread_ = std::jthread([this](std::stop_token stop) { tend(std::move(stop)); });
}

void KubeApi::stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  (void)cut_watches();
}

void KubeApi::tend(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any tick;
  std::unique_lock waiting(mutex);
  while (!stop.stop_requested()) {
    tick.wait_for(waiting, stop, std::chrono::milliseconds(200), [] { return false; });
    const auto held = world_.lock();
    const auto now = std::chrono::steady_clock::now();
    for (auto it = watches_.begin(); it != watches_.end();) {
      auto& [id, open] = *it;
      bool over = open.stream->closed();
      if (!over && now >= open.ends) {
        if (open.bookmarks) (void)store_.bookmark(id);
        open.stream->close();
        over = true;
      }
      if (!over && open.bookmarks && now >= open.bookmark_at) {
        over = !store_.bookmark(id);
        open.bookmark_at = now + options_.bookmark_every;
      }
      if (over) store_.unwatch(id);
      it = over ? watches_.erase(it) : std::next(it);
    }
  }
}

}  // namespace qm::fleet
