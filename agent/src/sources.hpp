#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace qm::agent {

/// The source of a node's exporter page.
class PageSource {
 public:
  virtual ~PageSource() = default;
  /// Reads the page; any thread, at most a second or two. kUnavailable, kDeadlineExceeded, or kUnknown for a status
  /// that is not 200.
  virtual Result<std::string> page(const std::string& node) = 0;
};

/// The source of a node's instance metadata.
class MetadataSource {
 public:
  virtual ~MetadataSource() = default;
  /// The text at "/latest/meta-data/<path>"; nullopt if it does not exist. Any thread, at most two seconds.
  virtual Result<std::optional<std::string>> get(const std::string& node, const std::string& path) = 0;
  /// The node is gone, or another instance has its name.
  virtual void forget(const std::string& node) = 0;
};

/// Replaces "{name}" marks of a URL template; unknown marks remain.
[[nodiscard]] std::string fill_template(std::string text, const std::map<std::string, std::string>& values);
/// "http://HOST..." or "https://HOST...".
[[nodiscard]] bool is_url(std::string_view text);

/// dcgm-exporter pages over HTTP. `url`: "http://127.0.0.1:9400/metrics", or with {node}.
std::unique_ptr<PageSource> http_pages(std::string url);
/// IMDSv2. `url`: "http://169.254.169.254", or with {node}.
std::unique_ptr<MetadataSource> instance_metadata(std::string url);

}  // namespace qm::agent
