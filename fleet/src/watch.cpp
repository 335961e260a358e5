// Selectors and the watch side of the object store.
#include "object_store.hpp"
#include "text.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

std::string line_of(std::string_view type, std::string_view object) {
  std::string line;
  line.reserve(object.size() + 40);
  line.append(R"({"type":")").append(type).append(R"(","object":)").append(object).append("}\n");
  return line;
}

/// The fields that the real server supports in a field selector.
bool selectable(const Kind& kind, std::string_view path) {
  static const std::map<std::string_view, std::set<std::string_view>> kFields = {
      {"pods", {"spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "status.phase", "status.podIP"}},
      {"nodes", {"spec.unschedulable"}},
      {"events", {"involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason", "type"}}};
  const auto* own = find_in(kFields, kind.plural);
  return path == "metadata.name" || path == "metadata.namespace" || (own != nullptr && own->contains(path));
}

}  // namespace

Answered<Selector> Selector::parse(const Kind& kind, std::string_view labels, std::string_view fields) {
  Selector selector;
  if (!labels.empty()) {
    auto parsed = LabelSelector::parse(labels);
    if (!parsed) return bad_request("unable to parse labelSelector: " + parsed.error().message);
    selector.labels_ = std::move(*parsed);
  }
  for (const std::string_view term : split(fields, ',')) {
    if (term.empty()) continue;
    const auto at = term.find('=');
    if (at == std::string_view::npos || at == 0) {
      return bad_request(fmt::format("invalid field selector term \"{}\"", term));
    }
    const bool equal = term[at - 1] != '!';
    const std::string path(term.substr(0, equal ? at : at - 1));
    const std::string_view value = term.substr(term.substr(at).starts_with("==") ? at + 2 : at + 1);
    if (!selectable(kind, path)) {
      return bad_request(fmt::format("field label not supported for {}: {}", kind.plural, path));
    }
    selector.fields_.push_back({path, std::string(value), equal});
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
  // A watcher with a selector sees an object added and deleted as it starts and stops to match.
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
    const auto number = whole_number(resource_version);
    const auto from = static_cast<std::uint64_t>(number.value_or(0));
    const Answered<void> fits = number ? check_position(kind, from)
                                       : bad_request(fmt::format("invalid resource version \"{}\"", resource_version));
    if (!fits) {
      // The header of the answer is already sent: a refused position is an event.
      watcher.sink(line_of("ERROR", status_of(fits.error()).dump()));
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
  const auto* watcher = find_in(watchers_, id);
  if (watcher == nullptr) return false;
  const Json object = Json::object(
      {{"kind", watcher->kind->kind},
       {"apiVersion", watcher->kind->api_version()},
       {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}, {"creationTimestamp", Json()}})}});
  if (watcher->sink(line_of("BOOKMARK", object.dump()))) return true;
  watchers_.erase(id);
  return false;
}

void ObjectStore::compact() {
  ++version_;  // so that every position returned so far is older than the newest
  for (auto& [kind, home] : shelves_) {
    home.history.clear();
    home.forgotten = version_;
  }
}

}  // namespace qm::fleet
