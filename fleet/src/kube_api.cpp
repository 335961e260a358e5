#include "kube_api.hpp"

#include "definitions.hpp"
#include "text.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr std::size_t kListReserve = 4096;

std::string value_of(const std::map<std::string, std::string>& query, const std::string& key) {
  const auto* value = find_in(query, key);
  return value == nullptr ? std::string() : *value;
}

std::int64_t number_of(const std::map<std::string, std::string>& query, const std::string& key) {
  return whole_number(value_of(query, key)).value_or(0);
}

bool is_set(const std::map<std::string, std::string>& query, const std::string& key) {
  const std::string text = value_of(query, key);
  return text == "true" || text == "1";
}

http::Answer answer(int status, const Json& object) { return http::json(status, object.dump()); }

/// The first requests of kubectl: /version, /api, /apis, and the resources of one version.
std::optional<Json> discovery(const std::string& path) {
  if (path == "/version") {
    return Json::object(
        {{"major", "1"}, {"minor", "36"}, {"gitVersion", "v1.36.4+fleet"}, {"platform", "linux/amd64"}});
  }
  if (path == "/api") return Json::object({{"kind", "APIVersions"}, {"versions", Json::array({"v1"})}});
  std::map<std::string, Json> groups;
  Json resources = Json::array();
  for (const Kind& kind : kinds()) {
    const Json version = Json::object({{"groupVersion", kind.api_version()}, {"version", kind.version}});
    auto& versions = groups[kind.group].items_mut();
    if (std::ranges::find(versions, version) == versions.end()) versions.push_back(version);
    if (path != (kind.group.empty() ? "/api/" : "/apis/") + kind.api_version()) continue;
    const Json verbs = Json::array({"create", "delete", "get", "list", "patch", "update", "watch"});
    resources.push_back(Json::object({{"name", kind.plural},
                                      {"singularName", ""},
                                      {"namespaced", kind.namespaced},
                                      {"kind", kind.kind},
                                      {"verbs", verbs}}));
  }
  if (path == "/apis") {
    Json list = Json::array();
    groups.erase("");
    for (const auto& [name, versions] : groups) {
      list.push_back(Json::object({{"name", name}, {"versions", versions}, {"preferredVersion", versions.at(0)}}));
    }
    return Json::object({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(list)}});
  }
  if (resources.size() == 0) return std::nullopt;
  return Json::object({{"kind", "APIResourceList"},
                       {"apiVersion", "v1"},
                       {"groupVersion", path.substr(path.find('/', 1) + 1)},
                       {"resources", std::move(resources)}});
}

/// A served group answers the paths below it; the API server answers all others.
bool has_group(std::string_view group) {
  return std::ranges::any_of(kinds(), [&](const Kind& kind) { return kind.group == group; });
}

/// Refuses a query option whose value is not in the list.
Answered<void> check_option(std::string_view options, const std::string& key, const std::string& given,
                            const std::vector<std::string>& allowed) {
  auto wrong = apiserver::check_option(options, key, given, allowed);
  return wrong ? refused(std::move(*wrong)) : Answered<void>();
}

/// Decodes an object as its kind, and collects warnings.
Answered<void> decode(const Kind& kind, bool is_patched, const std::string& validation, Json& object,
                      std::string& warnings) {
  auto body = apiserver::decode_body(kind.type(), schema_of(kind), is_patched, validation, object);
  if (body.refused) return refused(std::move(*body.refused));
  warnings = fmt::format("{}", fmt::join(body.warnings, ", "));
  return {};
}

/// The query overrides the body, as in the real server.
Answered<ObjectStore::DeleteOptions> delete_options(const Json& body, const std::map<std::string, std::string>& query) {
  auto options = ObjectStore::DeleteOptions::of(body);
  if (const auto grace = whole_number(value_of(query, "gracePeriodSeconds"))) options.grace = grace;
  if (const auto* policy = find_in(query, "propagationPolicy")) options.propagation = *policy;
  FLEET_TRY(
      check_option("DeleteOptions", "propagationPolicy", options.propagation, {"Background", "Foreground", "Orphan"}));
  return options;
}

}  // namespace

KubeApi::KubeApi(World& world, ObjectStore& store, Options options) : world_(world), store_(store), options_(options) {}

http::Answer KubeApi::handle(const http::Request& request) {
  auto done = dispatch(request);
  if (done) return std::move(*done);
  http::Response refused = http::json(done.error().code, status_of(done.error()).dump());
  if (done.error().code == 429) refused.headers.set("Retry-After", "1");
  return refused;
}

Answered<http::Answer> KubeApi::dispatch(const http::Request& request) {
  switch (world_.api_fault("kube")) {
    case World::ApiFault::kThrottled:
      return refuse(429, "TooManyRequests", "too many requests, please try again later");
    case World::ApiFault::kServerError:
      return refuse(500, "InternalError", "Internal error occurred: etcdserver: request timed out");
    case World::ApiFault::kNone:
      break;
  }
  const std::string path = request.path();
  if (path == "/healthz" || path == "/readyz" || path == "/livez") return http::text(200, "ok");
  const auto located = locate(path);
  if (!located) {
    const auto document = request.method == "GET" ? discovery(path) : std::nullopt;
    if (document) return answer(200, *document);
    const auto parts = split(path, '/');
    const bool served = parts.size() > 2 && (parts[1] == "api" || (parts[1] == "apis" && has_group(parts[2])));
    if (!served) return http::Answer(http::text(404, "404 page not found\n"));
    return tl::unexpected(located.error());
  }
  const Target& target = *located;
  const Query query = request.query();
  if (request.method != "GET") return write(target, request, query);
  if (!target.name.empty()) {
    const auto held = world_.lock();
    FLEET_ASSIGN(const auto object, store_.get(*target.kind, target.ns, target.name));
    return answer(200, *object);
  }
  FLEET_ASSIGN(auto selector,
               Selector::parse(*target.kind, value_of(query, "labelSelector"), value_of(query, "fieldSelector")));
  if (is_set(query, "watch")) return watch(target, std::move(selector), query);
  return list(target, selector, query);
}

Answered<KubeApi::Target> KubeApi::locate(const std::string& path) {
  const auto unknown = refused(apiserver::no_such_resource());
  std::vector<std::string_view> parts = split(path, '/');
  std::erase(parts, "");
  const auto part = [&](std::size_t i) { return i < parts.size() ? std::string(parts[i]) : std::string(); };
  const bool core = part(0) == "api";
  if (!core && part(0) != "apis") return unknown;
  const std::string group = core ? "" : part(1), version = part(core ? 1 : 2);
  std::size_t at = core ? 2 : 3;
  Target target;
  // /namespaces/NS/PLURAL..., but /namespaces/NAME[/status] is the namespace itself.
  if (part(at) == "namespaces" && find_kind(group, version, part(at + 2)) != nullptr) {
    target.ns = part(at + 1);
    at += 2;
  }
  target.kind = find_kind(group, version, part(at));
  target.name = part(at + 1);
  target.subresource = part(at + 2);
  if (target.kind == nullptr || parts.size() > at + 3) return unknown;
  const std::string& sub = target.subresource;
  const bool served = sub.empty() || (sub == "status" && target.kind->status) ||
                      (target.kind->plural == "pods" && (sub == "binding" || sub == "eviction"));
  const bool wants_namespace = target.kind->namespaced && !target.name.empty();
  if (!served || (target.ns.empty() ? wants_namespace : !target.kind->namespaced)) return unknown;
  return target;
}

Answered<http::Answer> KubeApi::list(const Target& target, const Selector& selector, const Query& query) {
  const auto held = world_.lock();
  const std::uint64_t current = store_.resource_version();
  if (const auto wanted = static_cast<std::uint64_t>(number_of(query, "resourceVersion")); wanted > 0) {
    if (wanted > current) return too_large(wanted, current);
    // Only the current state is stored.
    if (value_of(query, "resourceVersionMatch") == "Exact" && wanted != current) {
      return expired("The resourceVersion for the provided list is too old.");
    }
  }
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(0, number_of(query, "limit")));
  FLEET_ASSIGN(const auto page, store_.list(*target.kind, target.ns, selector, limit, value_of(query, "continue")));
  std::string body;
  body.reserve(page.items.size() * kListReserve + 256);
  body += fmt::format(R"({{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{}")", target.kind->kind,
                      target.kind->api_version(), page.resource_version);
  if (!page.continue_token.empty()) {
    body += R"(,"continue":)";
    append_json_string(body, page.continue_token);
  }
  body += R"(},"items":[)";
  for (const ObjectPtr& item : page.items) {
    if (body.back() != '[') body += ',';
    item->append_to(body);
  }
  body += "]}";
  return http::json(200, std::move(body));
}

http::Answer KubeApi::watch(const Target& target, Selector selector, const Query& query) {
  const auto asked = std::chrono::seconds(number_of(query, "timeoutSeconds"));
  const auto length = asked.count() > 0 ? asked : options_.longest_watch;
  auto begin = [this, kind = target.kind, ns = target.ns, selector = std::move(selector),
                from = value_of(query, "resourceVersion"), length,
                bookmarks = is_set(query, "allowWatchBookmarks")](std::shared_ptr<http::Stream> stream) {
    const auto held = world_.lock();
    const auto id =
        store_.watch(*kind, ns, selector, from, [stream](const std::string& line) { return stream->write(line); });
    if (id == 0) return stream->close();
    const auto now = std::chrono::steady_clock::now();
    watches_[id] = {std::move(stream), now + length, now + options_.bookmark_every, bookmarks};
  };
  return {http::json(200, ""), std::move(begin)};
}

Answered<http::Answer> KubeApi::write(const Target& target, const http::Request& request, const Query& query) {
  const Kind& kind = *target.kind;
  const std::string &method = request.method, &sub = target.subresource;
  // Objects are created through their collection; all other verbs address one object, and an action accepts only POST.
  const bool action = sub == "binding" || sub == "eviction";
  const bool creates = target.name.empty() && (!kind.namespaced || !target.ns.empty());
  const bool fits = method == "POST"     ? creates || action
                    : method == "DELETE" ? !target.name.empty() && sub.empty()
                                         : (method == "PUT" || method == "PATCH") && !target.name.empty() && !action;
  if (!fits) {
    return refuse(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
  }
  auto parsed = Json::parse(request.body.empty() && method == "DELETE" ? "{}" : request.body);
  if (!parsed) return bad_request(parsed.error().message);
  if (!parsed->is_object()) return bad_request("the body is not a JSON object");
  Json& body = *parsed;
  FLEET_TRY(check_option("CreateOptions", "dryRun", value_of(query, "dryRun"), {"All"}));
  const bool is_dry = !value_of(query, "dryRun").empty();
  if (is_dry && (method != "POST" || action))
    return bad_request("the simulated fleet supports dry runs of creation only");
  const auto held = world_.lock();
  if (method == "DELETE") {
    FLEET_ASSIGN(const auto options, delete_options(body, query));
    FLEET_ASSIGN(const auto removed, store_.remove(kind, target.ns, target.name, options));
    return answer(200, *removed);
  }
  if (action) {
    FLEET_TRY(sub == "binding" ? store_.bind(target.ns, target.name, body)
                               : store_.evict(target.ns, target.name, body));
    return answer(201, Json::object({{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}, {"code", 201}}));
  }
  const std::string validation = value_of(query, "fieldValidation");
  FLEET_TRY(check_option(method == "POST"  ? "CreateOptions"
                         : method == "PUT" ? "UpdateOptions"
                                           : "PatchOptions",
                         "fieldValidation", validation, {"", "Ignore", "Strict", "Warn"}));
  std::string warnings;
  const auto answered = [&](int status, const ObjectPtr& object) {
    auto response = http::json(status, object->dump());
    if (!warnings.empty()) response.headers.set("Warning", warnings);
    return http::Answer(std::move(response));
  };
  if (method != "PATCH") {
    FLEET_TRY(decode(kind, false, validation, body, warnings));
  }
  if (method == "POST") {
    FLEET_ASSIGN(const auto made, store_.create(kind, target.ns, std::move(body), is_dry));
    return answered(201, made);
  }
  const std::string& name = body["metadata"]["name"].string();
  if (method == "PUT" && name != target.name) {
    return bad_request(
        fmt::format("the name of the object ({}) does not match the name on the URL ({})", name, target.name));
  }
  constexpr std::string_view kMergePatch = "application/merge-patch+json";
  if (method == "PATCH" && !request.headers.get("Content-Type").starts_with(kMergePatch)) {
    return refuse(415, "UnsupportedMediaType",
                  "the body of the request was in an unknown format - accepted media types include: {}", kMergePatch);
  }
  if (method == "PATCH") {
    FLEET_ASSIGN(const auto before, store_.get(kind, target.ns, target.name));
    Json after = *before;
    after.merge_patch(body);
    FLEET_TRY(decode(kind, true, validation, after, warnings));
    body = std::move(after);
  }
  FLEET_ASSIGN(const auto stored, store_.update(kind, target.ns, target.name, std::move(body),
                                                sub == "status" ? Part::kStatus : Part::kMain));
  return answered(200, stored);
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
  ticker_.start(std::chrono::milliseconds(200), [this] { tick(); });
}

void KubeApi::stop() {
  ticker_.stop();
  (void)cut_watches();
}

void KubeApi::tick() {
  const auto held = world_.lock();
  const auto now = std::chrono::steady_clock::now();
  for (auto it = watches_.begin(); it != watches_.end();) {
    auto& [id, open] = *it;
    const bool ends = now >= open.ends;
    bool over = open.stream->closed();
    if (!over && open.bookmarks && (ends || now >= open.bookmark_at)) {
      over = !store_.bookmark(id);
      open.bookmark_at = now + options_.bookmark_every;
    }
    if (ends) open.stream->close();
    if (ends || over) store_.unwatch(id);
    it = ends || over ? watches_.erase(it) : std::next(it);
  }
}

}  // namespace qm::fleet
