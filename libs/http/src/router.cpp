#include "qm/http/http.hpp"

#include <utility>

namespace qm::http {
namespace {

/// The segments of a path as sent, so that an encoded slash stays inside its segment.
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    if (path.front() == '/') path.remove_prefix(1);
    const auto slash = path.find('/');
    parts.emplace_back(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash);
  }
  return parts;
}

bool is_param(const std::string& part) { return part.size() > 2 && part.front() == '{' && part.back() == '}'; }
bool is_rest(const std::string& part) { return is_param(part) && part.size() > 5 && part.ends_with("...}"); }

bool match(const std::vector<std::string>& pattern, const std::vector<std::string>& path, Router::Params& params) {
  params.clear();
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto& part = pattern[i];
    if (is_rest(part)) {
      std::string rest;
      for (std::size_t j = i; j < path.size(); ++j) {
        if (j > i) rest += '/';
        rest += url_decode(path[j]);
      }
      params[part.substr(1, part.size() - 5)] = std::move(rest);
      return true;
    }
    if (i >= path.size()) return false;
    if (is_param(part)) {
      if (path[i].empty()) return false;
      params[part.substr(1, part.size() - 2)] = url_decode(path[i]);
    } else if (part != url_decode(path[i])) {
      return false;
    }
  }
  return pattern.size() == path.size();
}

}  // namespace

void Router::add(std::string method, std::string pattern, Route route) {
  entries_.push_back({std::move(method), split(pattern), std::move(route)});
}

Answer Router::operator()(const Request& request) const {
  const auto path = split(std::string_view(request.target).substr(0, request.target.find('?')));
  std::string allowed;
  Params params;
  for (const auto& entry : entries_) {
    if (!match(entry.parts, path, params)) continue;
    if (entry.method == request.method || (entry.method == "GET" && request.method == "HEAD")) {
      return entry.route(request, params);
    }
    if (!allowed.empty()) allowed += ", ";
    allowed += entry.method;
  }
  if (allowed.empty()) return text(404, "no such path: " + request.path() + "\n");
  auto refused = text(405, request.method + " is not allowed here; allowed: " + allowed + "\n");
  refused.headers.set("Allow", allowed);
  return refused;
}

}  // namespace qm::http
