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

/// Wall time, as certificates have it. It has nothing to do with a domain clock, which may be scaled.
using WallTime = std::chrono::sys_seconds;

struct CertificateTerms {
  std::string common_name;
  std::vector<std::string> names;  ///< host names and IP addresses that a server answers to; an authority has none
  WallTime from{}, until{};
  std::vector<std::string> uris = {};  ///< such as a SPIFFE id
  bool client = false;                 ///< may be shown to servers too
};

/// Makes an authority that signs itself, or a server's certificate signed by one: ECDSA on P-256, SHA-256.
///
/// Fails    kInvalid: a term that no certificate can have, or an issuer that cannot be read.
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
/// The first certificate of a PEM text.
Result<CertificateFacts> read_certificate(const std::string& pem);
/// Whether the first certificate of `pem` bears the signature of the first of `authority`.
[[nodiscard]] bool signed_by(const std::string& pem, const std::string& authority);
/// Whether the key belongs to the first certificate.
[[nodiscard]] bool belongs(const Identity& identity);
/// The certificates of a PEM text one by one, in their order; what is no certificate is left out.
[[nodiscard]] std::vector<std::string> split_certificates(const std::string& pem);

}  // namespace qm::http
