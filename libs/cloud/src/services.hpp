#pragma once
#include "qm/base/json.hpp"
#include "qm/cloud/aws.hpp"
#include "wire.hpp"

#include <algorithm>

namespace qm::cloud {

inline constexpr std::string_view kEc2 = "ec2";
inline constexpr std::string_view kEc2Version = "2016-11-15";
inline constexpr std::string_view kIamVersion = "2010-05-08";
inline constexpr std::string_view kAutoScaling = "autoscaling";
inline constexpr std::string_view kAutoScalingVersion = "2011-01-01";

/// Shared by all calls of one client.
struct Aws::Impl {
  explicit Impl(AwsOptions options) : wire(std::move(options)) {}
  Wire wire;

  [[nodiscard]] int page_size(int most) const { return std::clamp(wire.options().page_size, 5, most); }

  /// Reads the pages of a Query service: repeats the call with NextToken until there is none.
  /// Fails: kInternal if the service repeats a token or never ends.
  Status pages(std::string_view service, const Form& form, const std::string& next_token_path,
               const std::function<Status(const XmlNode&)>& take);
  /// Reads all pages of a Describe call of EC2: `set` is the element of the list.
  template <class T, class Read>
  Result<std::vector<T>> describe(Form form, std::string_view set, Read read) {
    std::vector<T> out;
    QM_TRY(pages(kEc2, form, {}, [&](const XmlNode& root) -> Status {
      for (const auto* item : root.items(set)) out.push_back(read(*item));
      return {};
    }));
    return out;
  }
  Result<std::string> sqs(const std::string& action, const Json& body, Effect effect,
                          std::chrono::milliseconds extra_time = {});
};

/// The tagSet of an EC2 object.
[[nodiscard]] inline Tags tags_of(const XmlNode& node) {
  Tags out;
  for (const auto* tag : node.items("tagSet")) out[tag->value("key")] = tag->value("value");
  return out;
}

/// Splits the list into parts of at most `size`; an empty list gives no part.
[[nodiscard]] inline std::vector<std::vector<std::string>> pieces(const std::vector<std::string>& list,
                                                                  std::size_t size) {
  std::vector<std::vector<std::string>> out;
  for (std::size_t at = 0; at < list.size(); at += size) {
    const auto end = std::min(at + size, list.size());
    out.emplace_back(list.begin() + static_cast<std::ptrdiff_t>(at), list.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return out;
}

}  // namespace qm::cloud
