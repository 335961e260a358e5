#include "imds.hpp"

#include "aws_keys.hpp"
#include "text.hpp"

#include <fmt/chrono.h>

namespace qm::fleet {
namespace {

constexpr const char* kTtlHeader = "X-aws-ec2-metadata-token-ttl-seconds";
constexpr std::int64_t kLongestTtl = 21600;
constexpr std::int64_t kKeySeconds = 6 * 3600;
constexpr std::size_t kMostTokens = 100'000;

http::Response page(int status, std::string_view title) {
  http::Response response =
      http::text(status, fmt::format("<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n"
                                     "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n"
                                     "\t\"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n"
                                     "<html xmlns=\"http://www.w3.org/1999/xhtml\" xml:lang=\"en\" lang=\"en\">\n"
                                     " <head>\n  <title>{} - {}</title>\n </head>\n <body>\n  <h1>{} - {}</h1>\n "
                                     "</body>\n</html>\n",
                                     status, title, status, title));
  response.headers.set("Content-Type", "text/plain");
  return response;
}

}  // namespace

http::Response Imds::issue(const Instance& instance, const http::Request& request) {
  const std::int64_t ttl = whole_number(request.headers.get(kTtlHeader)).value_or(0);
  if (ttl < 1 || ttl > kLongestTtl) return page(400, "Bad Request");
  const SteadyInstant now = now_();
  if (tokens_.size() >= kMostTokens) {
    std::erase_if(tokens_, [&](const auto& entry) { return entry.second.ends <= now; });
  }
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string token;
  for (int i = 0; i < 43; ++i) token.push_back(kAlphabet[world_.random_between(0, 63)]);
  token.push_back('=');
  tokens_[token] = {instance.id, now + std::chrono::seconds(ttl), ttl};
  http::Response response = http::text(200, token);
  response.headers.set(kTtlHeader, std::to_string(ttl));
  return response;
}

std::optional<std::string> Imds::read(const Instance& i, const std::string& path) const {
  std::map<std::string, std::string> facts = {{"instance-id", i.id},
                                              {"instance-type", i.type},
                                              {"instance-life-cycle", std::string(name_of(i.market))},
                                              {"ami-id", i.image_id},
                                              {"hostname", i.private_dns},
                                              {"local-hostname", i.private_dns},
                                              {"local-ipv4", i.private_ip},
                                              {"placement/availability-zone", i.zone},
                                              {"placement/region", world_.options().region}};
  const std::string roles = "iam/security-credentials/";
  if (!i.profile.empty()) {  // the role has the name of its profile
    facts[roles] = i.profile;
    const auto now = host_utc();
    facts[roles + i.profile] = agent_answer(session_keys(i.profile, now + kKeySeconds), now).pretty();
  }
  for (const auto& [key, value] : i.tags) facts["tags/instance/" + key] = value;
  if (i.spot_notice) {
    const std::string noticed = to_rfc3339(*i.spot_notice), deadline = to_rfc3339(*i.spot_deadline);
    facts["spot/instance-action"] = fmt::format(R"({{"action": "terminate", "time": "{}"}})", deadline);
    facts["spot/termination-time"] = deadline;
    facts["events/recommendations/rebalance"] = fmt::format(R"({{"noticeTime": "{}"}})", noticed);
  }
  Json events = Json::array();
  for (const MaintenanceEvent& event : i.maintenance) {
    const auto text = [](Instant t) {
      return fmt::format("{:%d %b %Y %H:%M:%S} GMT", fmt::gmtime(micros(t) / 1'000'000));
    };
    events.push_back(Json::object({{"NotBefore", text(event.not_before)},
                                   {"Code", event.code},
                                   {"Description", event.description},
                                   {"EventId", event.id},
                                   {"NotAfter", text(event.not_after)},
                                   {"State", "active"}}));
  }
  facts["events/maintenance/scheduled"] = events.dump();
  const auto* fact = find_in(facts, path);
  return fact == nullptr ? std::nullopt : std::optional(*fact);
}

http::Response Imds::handle(const std::string& node, const std::string& path, const http::Request& request) {
  const auto held = world_.lock();
  const auto instance = world_.instance_by_dns(node);
  // The metadata service runs on the instance: if the instance is gone, it does not answer.
  if (!instance || !instance->alive()) return page(503, "Service Unavailable");
  if (path == "/latest/api/token") {
    return request.method == "PUT" ? issue(*instance, request) : page(405, "Method Not Allowed");
  }
  if (request.method != "GET") return page(405, "Method Not Allowed");
  const auto* token = find_in(tokens_, std::string(request.headers.get("X-aws-ec2-metadata-token")));
  if (token == nullptr || token->instance != instance->id || token->ends <= now_()) return page(401, "Unauthorized");
  constexpr std::string_view kMetaData = "/latest/meta-data/";
  std::optional<std::string> body;
  if (path.starts_with(kMetaData)) body = read(*instance, path.substr(kMetaData.size()));
  if (path == "/latest/dynamic/instance-identity/document") {
    body = Json::object({{"instanceId", instance->id},
                         {"instanceType", instance->type},
                         {"availabilityZone", instance->zone},
                         {"region", world_.options().region},
                         {"imageId", instance->image_id},
                         {"privateIp", instance->private_ip},
                         {"accountId", "000000000000"},
                         {"architecture", "x86_64"},
                         {"pendingTime", to_rfc3339(instance->launched)}})
               .pretty();
  }
  if (!body) return page(404, "Not Found");
  http::Response response = body->starts_with("{") ? http::json(200, *body) : http::text(200, *body);
  response.headers.set(kTtlHeader, std::to_string(token->ttl_s));
  return response;
}

}  // namespace qm::fleet
