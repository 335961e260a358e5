#include "imds.hpp"

#include <charconv>
#include <vector>

namespace qm::fleet {
namespace {

constexpr std::int64_t kLongestTtl = 21600;
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
  const std::string_view text = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds");
  std::int64_t ttl = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ttl);
  if (error != std::errc() || end != text.data() + text.size() || ttl < 1 || ttl > kLongestTtl)
    return page(400, "Bad Request");
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
  response.headers.set("X-aws-ec2-metadata-token-ttl-seconds", std::to_string(ttl));
  return response;
}

std::optional<std::string> Imds::read(const Instance& instance, std::string_view path, const World& world) {
  const auto notice = [&](std::string text) -> std::optional<std::string> {
    if (!instance.spot_deadline) return std::nullopt;
    return text;
  };
  const std::string deadline = instance.spot_deadline ? to_rfc3339(*instance.spot_deadline) : std::string();
  if (path == "instance-id") return instance.id;
  if (path == "instance-type") return instance.type;
  if (path == "instance-life-cycle") return std::string(name_of(instance.market));
  if (path == "ami-id") return instance.image_id;
  if (path == "hostname" || path == "local-hostname") return instance.private_dns;
  if (path == "local-ipv4") return instance.private_ip;
  if (path == "placement/availability-zone") return instance.zone;
  if (path == "placement/region") return world.options().region;
  if (path == "spot/instance-action") return notice(R"({"action": "terminate", "time": ")" + deadline + "\"}");
  if (path == "spot/termination-time") return notice(deadline);
  if (path == "events/recommendations/rebalance" && instance.spot_notice) {
    return R"({"noticeTime": ")" + to_rfc3339(*instance.spot_notice) + "\"}";
  }
  constexpr std::string_view kTags = "tags/instance/";
  if (path.starts_with(kTags)) {
    const auto it = instance.tags.find(std::string(path.substr(kTags.size())));
    if (it != instance.tags.end()) return it->second;
  }
  return std::nullopt;
}

http::Response Imds::handle(const std::string& node, const std::string& path, const http::Request& request) {
  const auto held = world_.lock();
  const auto instance = world_.instance_by_dns(node);
  // The service lives on the machine: with it gone, nobody answers.
  if (!instance || !instance->alive()) return page(503, "Service Unavailable");
  if (path == "/latest/api/token") {
    return request.method == "PUT" ? issue(*instance, request) : page(405, "Method Not Allowed");
  }
  if (request.method != "GET") return page(405, "Method Not Allowed");
  const auto token = tokens_.find(std::string(request.headers.get("X-aws-ec2-metadata-token")));
  if (token == tokens_.end() || token->second.instance != instance->id || token->second.ends <= now_()) {
    return page(401, "Unauthorized");
  }
  constexpr std::string_view kMetaData = "/latest/meta-data/";
  std::optional<std::string> body;
  if (path.starts_with(kMetaData)) body = read(*instance, std::string_view(path).substr(kMetaData.size()), world_);
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
  response.headers.set("X-aws-ec2-metadata-token-ttl-seconds", std::to_string(token->second.ttl_s));
  return response;
}

}  // namespace qm::fleet
