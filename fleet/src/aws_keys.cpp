#include "aws_keys.hpp"

#include "qm/base/digest.hpp"
#include "qm/base/time.hpp"
#include "text.hpp"

#include <chrono>

namespace qm::fleet {

SessionKeys session_keys(std::string_view role, std::int64_t expires_utc_s) {
  SessionKeys out;
  out.role = role;
  out.expires_utc_s = expires_utc_s;
  out.token = fmt::format("{}|{}", role, expires_utc_s);
  out.access_key = "ASIA" + sha256_hex("name of " + out.token).substr(0, 16);
  for (char& c : out.access_key) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  out.secret_key = sha256_hex("secret of " + out.token).substr(0, 40);
  return out;
}

Answered<std::string> secret_of(const std::string& access_key, const std::string& token, std::int64_t utc_seconds) {
  if (token.empty() && access_key == kAwsKey) return access_key;
  const auto parts = split(token, '|');
  const auto expires = parts.size() == 2 ? whole_number(parts[1]) : std::nullopt;
  const auto keys = session_keys(parts.empty() ? std::string_view() : parts[0], expires.value_or(0));
  if (!expires || keys.access_key != access_key) {
    return refuse(403, "InvalidClientTokenId", "The security token included in the request is invalid.");
  }
  if (*expires <= utc_seconds) {
    return refuse(403, "ExpiredToken", "The security token included in the request is expired");
  }
  return keys.secret_key;
}

Json agent_answer(const SessionKeys& keys, std::int64_t utc_seconds) {
  const auto text = [](std::int64_t seconds) { return to_rfc3339(from_micros(seconds * 1'000'000)); };
  return Json::object({{"Code", "Success"},
                       {"LastUpdated", text(utc_seconds)},
                       {"Type", "AWS-HMAC"},
                       {"RoleArn", "arn:aws:iam::000000000000:role/" + keys.role},
                       {"AccessKeyId", keys.access_key},
                       {"SecretAccessKey", keys.secret_key},
                       {"Token", keys.token},
                       {"Expiration", text(keys.expires_utc_s)}});
}

std::int64_t host_utc() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(wall).count();
}

}  // namespace qm::fleet
