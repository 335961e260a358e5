#include "replicas/prometheus.hpp"

#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace qm::autoscaler {
namespace {

/// The origin of a URL, and the path under which the API is.
std::pair<std::string, std::string> split_url(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  const auto host = url.find("://");
  const auto slash = url.find('/', host == std::string::npos ? 0 : host + 3);
  return slash == std::string::npos ? std::pair(url, std::string())
                                    : std::pair(url.substr(0, slash), url.substr(slash));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// A regular expression for one of the words.
std::string any_of(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) {
    if (!out.empty()) out += '|';
    for (const char c : word) {
      if (std::string_view(".+*?()[]{}|^$\\").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return quoted(out);
}

/// The matchers of a selector; labels of Prometheus have neither dots nor slashes.
void append_matchers(const std::string& selector, std::vector<std::string>& out) {
  const auto parsed = LabelSelector::parse(selector);
  if (!parsed) return;
  for (const auto& term : parsed->requirements) {
    std::string key = term.key;
    std::ranges::replace_if(
        key, [](char c) { return c == '.' || c == '/' || c == '-'; }, '_');
    switch (term.op) {
      case LabelRequirement::Op::kIn:
        out.push_back(key + "=~" + any_of(term.values));
        break;
      case LabelRequirement::Op::kNotIn:
        out.push_back(key + "!~" + any_of(term.values));
        break;
      case LabelRequirement::Op::kExists:
        out.push_back(key + "!=\"\"");
        break;
      case LabelRequirement::Op::kDoesNotExist:
        out.push_back(key + "=\"\"");
        break;
    }
  }
}

}  // namespace

Prometheus::Prometheus(const std::string& url, std::chrono::milliseconds timeout)
    : path_(split_url(url).second + "/api/v1/query?query="),
      client_(split_url(url).first, {.connect_timeout = timeout, .timeout = timeout}) {}

Result<std::vector<PrometheusElement>> Prometheus::query(const std::string& expression) {
  http::Request request;
  request.target = path_ + http::url_encode(expression);
  QM_ASSIGN(const auto response, client_.send(request));
  const auto body = Json::parse(response.body);
  if (!body || (*body)["status"].string() != "success") {
    const auto& why = body ? (*body)["error"].string() : std::string();
    return fail(response.status >= 500 ? Code::kUnavailable : Code::kInvalid,
                "Prometheus answers {} to the query {}: {}", response.status, expression, why);
  }
  const Json& data = (*body)["data"];
  const auto value_of = [](const Json& pair) { return std::strtod(pair.at(1).string().c_str(), nullptr); };
  if (data["resultType"].string() == "scalar") return std::vector<PrometheusElement>{{{}, value_of(data["result"])}};
  if (data["resultType"].string() != "vector") {
    return fail(Code::kInvalid, "the query {} gives a {} and not a vector", expression, data["resultType"].string());
  }
  std::vector<PrometheusElement> out;
  for (const auto& element : data["result"].items()) {
    PrometheusElement one;
    for (const auto& [key, value] : element["metric"].members()) one.labels[key] = value.string();
    one.value = value_of(element["value"]);
    out.push_back(std::move(one));
  }
  return out;
}

std::string pods_expression(const std::string& metric, const std::string& ns, const std::vector<std::string>& pods,
                            const std::string& selector) {
  std::vector<std::string> matchers{"namespace=" + quoted(ns), "pod=~" + any_of(pods)};
  append_matchers(selector, matchers);
  const auto of = [&](const char* fold, std::string_view series) {
    return fmt::format("{} by (pod) ({}{{{}}})", fold, series, fmt::join(matchers, ","));
  };
  const std::string own = of("sum", metric);
  if (metric != "gpu_utilization") return own;
  // The name that adapters give to the exporter's series; of a pod with several GPUs it is their average.
  return fmt::format("{} or {} or {}", own, of("avg", "dcgm_gpu_utilization"), of("avg", "DCGM_FI_DEV_GPU_UTIL"));
}

std::string object_expression(const std::string& metric, const std::string& ns, const std::string& kind,
                              const std::string& name, const std::string& selector) {
  std::string label = kind;
  std::ranges::transform(label, label.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string> matchers{"namespace=" + quoted(ns), label + "=" + quoted(name)};
  append_matchers(selector, matchers);
  return fmt::format("sum({}{{{}}})", metric, fmt::join(matchers, ","));
}

std::string external_expression(const std::string& metric, const std::string& ns, const std::string& selector) {
  std::vector<std::string> matchers{"namespace=" + quoted(ns)};
  append_matchers(selector, matchers);
  return fmt::format("{}{{{}}}", metric, fmt::join(matchers, ","));
}

std::int64_t milli_from(double value) {
  if (std::isnan(value)) return 0;
  constexpr auto kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  const double milli = std::trunc(value * 1000);
  if (milli >= kMost) return std::numeric_limits<std::int64_t>::max();
  if (milli <= -kMost) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(milli);
}

}  // namespace qm::autoscaler
