// Selectors and the watch side of the object store.
#include "object_store.hpp"

#include <algorithm>
#include <charconv>

namespace qm::fleet {
namespace {

std::string line_of(std::string_view type, std::string_view object) {
  std::string line;
  line.reserve(object.size() + 40);
  line.append(R"({"type":")").append(type).append(R"(","object":)").append(object).append("}\n");
  return line;
}

}  // namespace

Answered<Selector> Selector::parse(const Kind& kind, std::string_view labels, std::string_view fields) {
  Selector selector;
  if (!labels.empty()) {
    auto parsed = LabelSelector::parse(labels);
    if (!parsed)
      return tl::unexpected(bad_request(fmt::format("unable to parse labelSelector: {}", parsed.error().message)));
    selector.labels_ = std::move(*parsed);
  }
  static const std::vector<std::string> kPodFields = {"spec.nodeName", "spec.schedulerName", "spec.restartPolicy",
                                                      "status.phase", "status.podIP"};
  while (!fields.empty()) {
    const auto comma = fields.find(',');
    const std::string_view term = fields.substr(0, comma);
    fields.remove_prefix(comma == std::string_view::npos ? fields.size() : comma + 1);
    const auto at = term.find('=');
    if (at == std::string_view::npos || at == 0) {
      return tl::unexpected(bad_request(fmt::format("invalid field selector term \"{}\"", term)));
    }
    const bool equal = term[at - 1] != '!';
    std::string path(term.substr(0, equal ? at : at - 1));
    std::string value(term.substr(
        term.find_first_not_of('=', at) == std::string_view::npos ? term.size() : term.find_first_not_of('=', at)));
    const bool known =
        path == "metadata.name" || path == "metadata.namespace" ||
        (kind.plural == "pods" && std::ranges::find(kPodFields, path) != kPodFields.end()) ||
        (kind.plural == "nodes" && path == "spec.unschedulable") ||
        (kind.plural == "events" && (path.starts_with("involvedObject.") || path == "reason" || path == "type"));
    if (!known) {
      return tl::unexpected(bad_request(fmt::format("field label not supported for {}: {}", kind.plural, path)));
    }
    selector.fields_.push_back({std::move(path), std::move(value), equal});
  }
  return selector;
}

bool Selector::matches(const Json& object) const {
  for (const Field& field : fields_) {
    const Json& value = object.path(field.path);
    const bool same =
        value.is_bool() ? (value.boolean() ? "true" : "false") == field.value : value.string() == field.value;
    if (same != field.equal) return false;
  }
  if (!labels_) return true;
  Labels labels;
  for (const auto& [key, value] : object["metadata"]["labels"].members()) labels[key] = value.string();
  return labels_->matches(labels);
}

bool ObjectStore::send(const Watcher& watcher, const Change& change, std::string& body) {
  if (!watcher.ns.empty() && namespace_of(*change.after) != watcher.ns) return true;
  // To a selecting watcher an object appears and goes with its match.
  const bool was = change.before && watcher.selector.matches(*change.before);
  const bool is = !change.deleted && watcher.selector.matches(*change.after);
  if (!was && !is) return true;
  if (body.empty()) body = change.after->dump();
  return watcher.sink(line_of(!was ? "ADDED" : is ? "MODIFIED" : "DELETED", body));
}

void ObjectStore::deliver(const Kind& kind, const Change& change) {
  std::string body;
  std::vector<std::uint64_t> gone;
  for (const auto& [id, watcher] : watchers_) {
    if (watcher.kind == &kind && !send(watcher, change, body)) gone.push_back(id);
  }
  for (const auto id : gone) watchers_.erase(id);
}

std::uint64_t ObjectStore::watch(const Kind& kind, const std::string& ns, Selector selector,
                                 const std::string& resource_version, Sink sink) {
  Watcher watcher{&kind, ns, std::move(selector), std::move(sink)};
  if (resource_version.empty() || resource_version == "0") {
    for (const auto& [key, object] : shelf(kind).objects) {
      std::string body;
      if (!send(watcher, {0, nullptr, object, false}, body)) return 0;
    }
  } else {
    std::uint64_t from = 0;
    const char* end = resource_version.data() + resource_version.size();
    std::optional<ApiError> error;
    if (const auto [at, ec] = std::from_chars(resource_version.data(), end, from); ec != std::errc() || at != end) {
      error = bad_request(fmt::format("invalid resource version \"{}\"", resource_version));
    } else {
      error = check_position(kind, from);
    }
    if (error) {
      // The head of the answer is out already: a refused position is an event.
      watcher.sink(line_of("ERROR", error->status().dump()));
      return 0;
    }
    const auto& history = shelf(kind).history;
    auto it = std::ranges::upper_bound(history, from, {}, &Change::version);
    for (; it != history.end(); ++it) {
      std::string body;
      if (!send(watcher, *it, body)) return 0;
    }
  }
  const auto id = ++next_watcher_;
  watchers_.emplace(id, std::move(watcher));
  return id;
}

void ObjectStore::unwatch(std::uint64_t id) { watchers_.erase(id); }

bool ObjectStore::bookmark(std::uint64_t id) {
  const auto it = watchers_.find(id);
  if (it == watchers_.end()) return false;
  const Json object = Json::object(
      {{"kind", it->second.kind->kind},
       {"apiVersion", it->second.kind->api_version()},
       {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}, {"creationTimestamp", Json()}})}});
  if (it->second.sink(line_of("BOOKMARK", object.dump()))) return true;
  watchers_.erase(it);
  return false;
}

void ObjectStore::compact() {
  ++version_;  // so that no position handed out so far is the newest
  for (auto& [kind, home] : shelves_) {
    home.history.clear();
    home.forgotten = version_;
  }
}

}  // namespace qm::fleet
