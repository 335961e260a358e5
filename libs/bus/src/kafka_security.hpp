#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <string>

namespace qm::bus {

/// Settings of librdkafka by name.
using KafkaSettings = std::map<std::string, std::string>;

/// Turns tls_ca, tls_cert and tls_key into librdkafka's names, and TLS on. kInvalid: a certificate without its key.
Status expand_tls(KafkaSettings& settings);

/// Whom the broker sees, as it names principals where nothing else maps them: by the common name of the certificate, or the
/// name of the login.
std::string principal_of(const KafkaSettings& settings);

/// What was denied. `producing`: by a producer; `topic` or `group` is empty where the error is not of one.
struct KafkaDenial {
  std::string topic, group;
  bool producing = false;
};
/// The same error; where the broker denied something, with the principal, what it lacks, and the command that gives it.
Error explain_denial(Error error, const KafkaSettings& settings, const KafkaDenial& denial);

}  // namespace qm::bus
