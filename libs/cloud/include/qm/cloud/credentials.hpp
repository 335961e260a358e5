#pragma once
#include "qm/cloud/outside.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace qm::cloud {

/// What signs a call.
struct Keys {
  std::string access_key, secret_key, session_token;
  std::optional<std::int64_t> expires_utc_s;  ///< absent = never
  friend bool operator==(const Keys&, const Keys&) = default;
};

struct CredentialOptions {
  Environment environment = process_environment();
  std::string sts_origin = "https://sts.us-east-1.amazonaws.com";
  bool instance_metadata = true;  ///< false: not the role of the instance, even if nothing else is configured
  std::string ca_file = "/etc/ssl/certs/ca-certificates.crt";
  Outside outside;
};

/// The credentials of a process: finds their source, fetches keys and fetches them again before they expire. All
/// clients of a process share one object. Any thread.
///
/// Sources  the first configured one, in the order of the AWS SDKs:
///          1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
///          2. AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE: AssumeRoleWithWebIdentity of STS (IAM roles for service
///             accounts)
///          3. AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI: the agent of EKS Pod Identity or ECS; over plain
///             HTTP only on a loopback or link-local address of AWS
///          4. the role of the instance, by IMDSv2; AWS_EC2_METADATA_DISABLED excludes it
///          Profiles and SSO of ~/.aws are not read. Token files are read at each fetch, because they rotate.
/// Refresh  15 minutes before the keys expire one caller fetches new ones while the others use the present ones; 10
///          minutes before, all callers wait for them. After a failed fetch valid keys are used for another minute.
/// Fails    kInvalid: a variable is missing or wrong, the field is its name; kPermissionDenied: the source refuses;
///          kNotFound: no source is configured and the instance has no role; kUnavailable: the source does not answer.
/// Source   botocore, credentials.py and utils.py.
class Credentials {
 public:
  explicit Credentials(CredentialOptions options);
  ~Credentials();
  [[nodiscard]] Result<Keys> keys();
  /// A service refused these keys as expired: they are not used again, if the source can have others. Returns whether
  /// it can.
  [[nodiscard]] bool reject(const std::string& access_key);
  [[nodiscard]] const std::string& source() const;  ///< for the log, such as "web identity"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::cloud
