#include "sources.hpp"

#include "qm/cloud/aws.hpp"
#include "qm/http/http.hpp"

namespace qm::agent {
namespace {

constexpr std::chrono::milliseconds kPageTimeout{1500}, kMetadataTimeout{1000};
constexpr std::size_t kMaxPage = 8 << 20;
constexpr std::size_t kMaxOrigins = 8192;

struct Url {
  std::string origin, target;
};
Url split(const std::string& url) {
  const auto scheme = url.find("://");
  const auto slash = url.find('/', scheme == std::string::npos ? 0 : scheme + 3);
  if (slash == std::string::npos) return {url, "/"};
  return {url.substr(0, slash), url.substr(slash)};
}

/// One client for each origin, shared by all nodes of that origin. All are dropped at the bound; calls in progress
/// keep theirs.
class Clients {
 public:
  explicit Clients(http::ClientOptions options) : options_(std::move(options)) {}
  std::shared_ptr<http::Client> at(const std::string& origin) {
    const std::lock_guard lock(mutex_);
    if (clients_.size() >= kMaxOrigins && !clients_.contains(origin)) clients_.clear();
    auto& client = clients_[origin];
    if (!client) client = std::make_shared<http::Client>(origin, options_);
    return client;
  }

 private:
  http::ClientOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<http::Client>> clients_;
};

http::ClientOptions limits(std::chrono::milliseconds timeout) {
  http::ClientOptions options;
  options.connect_timeout = timeout;
  options.timeout = timeout;
  options.max_body = kMaxPage;
  return options;
}

class HttpPages final : public PageSource {
 public:
  explicit HttpPages(std::string url) : url_(std::move(url)), clients_(limits(kPageTimeout)) {}
  Result<std::string> page(const std::string& node) override {
    auto [origin, target] = split(fill_template(url_, {{"node", node}}));
    http::Request request;
    request.target = std::move(target);
    QM_ASSIGN(auto answer, clients_.at(origin)->send(request));
    if (answer.status != 200)
      return fail(Code::kUnknown, "the exporter of {} answers with status {}", node, answer.status);
    return std::move(answer.body);
  }

 private:
  std::string url_;
  Clients clients_;
};

class Imds final : public MetadataSource {
 public:
  explicit Imds(std::string url) : url_(std::move(url)), clients_(limits(kMetadataTimeout)) {}
  Result<std::optional<std::string>> get(const std::string& node, const std::string& path) override {
    return service(node)->get(path);
  }
  void forget(const std::string& node) override {
    const std::lock_guard lock(mutex_);
    services_.erase(node);
  }

 private:
  std::shared_ptr<cloud::InstanceMetadata> service(const std::string& node) {
    const std::lock_guard lock(mutex_);
    auto& service = services_[node];
    if (!service) {
      cloud::MetadataOptions options;
      options.timeout = kMetadataTimeout;
      options.outside.send = [this](const std::string& origin, const http::Request& request,
                                    std::chrono::milliseconds) { return clients_.at(origin)->send(request); };
      service = std::make_shared<cloud::InstanceMetadata>(fill_template(url_, {{"node", node}}), options);
    }
    return service;
  }

  std::string url_;
  Clients clients_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<cloud::InstanceMetadata>> services_;
};

}  // namespace

std::string fill_template(std::string text, const std::map<std::string, std::string>& values) {
  for (std::size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open)) {
    const auto close = text.find('}', open);
    if (close == std::string::npos) break;
    const auto value = values.find(text.substr(open + 1, close - open - 1));
    if (value == values.end()) {
      open = close;
    } else {
      text.replace(open, close - open + 1, value->second);
      open += value->second.size();
    }
  }
  return text;
}

bool is_url(std::string_view text) {
  return (text.starts_with("http://") && text.size() > 7) || (text.starts_with("https://") && text.size() > 8);
}

std::unique_ptr<PageSource> http_pages(std::string url) { return std::make_unique<HttpPages>(std::move(url)); }
std::unique_ptr<MetadataSource> instance_metadata(std::string url) { return std::make_unique<Imds>(std::move(url)); }

}  // namespace qm::agent
