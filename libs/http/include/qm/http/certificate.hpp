#pragma once
#include "qm/base/result.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace qm::http {

/// A certificate chain and its private key, both as PEM.
struct Identity {
  std::string certificate, key;
  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Wall time, as in certificates. It is independent of a domain clock, which may be scaled.
using WallTime = std::chrono::sys_seconds;

struct CertificateTerms {
  std::string common_name;
  std::vector<std::string> names;  ///< host names and IP addresses of the server; an authority has none
  WallTime from{}, until{};
  std::vector<std::string> uris = {};  ///< such as a SPIFFE id
  bool client = false;                 ///< also valid as a client certificate
};

/// Creates a self-signed authority, or a server's certificate signed by one: ECDSA on P-256, SHA-256.
///
/// Fails    kInvalid: terms that are not valid for a certificate, or an issuer that cannot be parsed.
/// Threads  any.
Result<Identity> make_authority(const CertificateTerms& terms);
Result<Identity> make_certificate(const CertificateTerms& terms, const Identity& issuer);

struct CertificateFacts {
  std::string common_name;
  std::vector<std::string> names;  ///< sorted
  WallTime from{}, until{};
  bool authority = false;
  friend bool operator==(const CertificateFacts&, const CertificateFacts&) = default;
};
/// Reads the first certificate of a PEM text.
Result<CertificateFacts> read_certificate(const std::string& pem);
/// Whether the first certificate of `pem` has a valid signature of the first certificate of `authority`.
[[nodiscard]] bool signed_by(const std::string& pem, const std::string& authority);
/// Whether the key belongs to the first certificate.
[[nodiscard]] bool belongs(const Identity& identity);
/// Splits a PEM text into its certificates, in their order; other content is omitted.
[[nodiscard]] std::vector<std::string> split_certificates(const std::string& pem);

}  // namespace qm::http
