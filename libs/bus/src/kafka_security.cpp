#include "kafka_security.hpp"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <utility>

namespace qm::bus {
namespace {

std::string common_name(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!file) return {};
  const std::unique_ptr<X509, void (*)(X509*)> certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr),
                                                           &X509_free);
  if (!certificate) return {};
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof name);
  return name;
}

std::string value_of(const KafkaSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

}  // namespace

Status expand_tls(KafkaSettings& settings) {
  const std::pair<const char*, const char*> names[] = {
      {"tls_ca", "ssl.ca.location"}, {"tls_cert", "ssl.certificate.location"}, {"tls_key", "ssl.key.location"}};
  bool any = false;
  for (const auto& [ours, theirs] : names) {
    const auto found = settings.find(ours);
    if (found == settings.end()) continue;
    any = true;
    settings[theirs] = found->second;
    settings.erase(found);
  }
  if (!any) return {};
  if (settings.contains("ssl.certificate.location") != settings.contains("ssl.key.location")) {
    return fail(Error{Code::kInvalid, "a certificate for Kafka needs its key, and the key its certificate", "bus",
                      "write kafka:HOST:PORT?tls_ca=FILE&tls_cert=FILE&tls_key=FILE"});
  }
  settings.try_emplace("security.protocol", settings.contains("sasl.mechanisms") ? "sasl_ssl" : "ssl");
  return {};
}

std::string principal_of(const KafkaSettings& settings) {
  if (const auto login = value_of(settings, "sasl.username"); !login.empty()) return "User:" + login;
  const auto name = common_name(value_of(settings, "ssl.certificate.location"));
  return "User:" + (name.empty() ? "ANONYMOUS" : name);
}

Error explain_denial(Error error, const KafkaSettings& settings, const KafkaDenial& denial) {
  if (error.code != Code::kPermissionDenied) return error;
  const auto principal = principal_of(settings);
  const auto allow = [&](const std::string& what) {
    return fmt::format("kafka-acls.sh --add --allow-principal {} {}", principal, what);
  };
  if (!denial.group.empty()) {
    error.message += fmt::format("; {} may not read as group {}", principal, denial.group);
    error.remedy = allow(fmt::format("--operation Read --group {}", denial.group));
  } else if (!denial.topic.empty()) {
    error.message +=
        fmt::format("; {} may not {} topic {}", principal, denial.producing ? "write to" : "read", denial.topic);
    error.remedy = allow(fmt::format("--operation {} --operation Describe --topic {}",
                                     denial.producing ? "Write" : "Read", denial.topic));
  } else if (denial.producing) {
    error.message +=
        fmt::format("; {} may write to no topic, so it gets no number as an idempotent producer", principal);
    error.remedy = allow("--operation Write --operation Describe --topic TOPIC") +
                   " (a broker before 2.8 needs --operation IdempotentWrite --cluster too)";
  }
  if (!error.remedy.empty()) error.remedy += "; deploy/kafka/acls.sh prints all that a suite needs";
  return error;
}

}  // namespace qm::bus
