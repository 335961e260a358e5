#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <string>

namespace qm::bus {

/// Settings of librdkafka by name.
using KafkaSettings = std::map<std::string, std::string>;

/// Replaces tls_ca, tls_cert and tls_key by librdkafka's names, and enables TLS. kInvalid: a certificate without its
/// key.
Status expand_tls(KafkaSettings& settings);

/// The principal that the broker sees, without mapping rules: the common name of the certificate, or the login name.
std::string principal_of(const KafkaSettings& settings);

/// A denied operation. `producing`: by a producer; `topic` or `group` is empty where the error does not concern one.
struct KafkaDenial {
  std::string topic, group;
  bool producing = false;
};
/// Returns the same error. For a denial it adds the principal, the missing permission, and the command that grants
/// it.
Error explain_denial(Error error, const KafkaSettings& settings, const KafkaDenial& denial);

}  // namespace qm::bus
